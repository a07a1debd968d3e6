//! The known word that was probably meant by an unknown one.

/// As clap's own rule for options.
const LIKENESS_MIN: f64 = 0.7;

/// `; did you mean queue-length?` for the known word that is most like `word`; empty where no word is like it.
pub fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known = known.into_iter().map(|known| (strsim::jaro(word, known), known));
    let best = known.filter(|(likeness, _)| *likeness > LIKENESS_MIN);
    let best = best.max_by(|(one, _), (other, _)| one.total_cmp(other));
    best.map(|(_, known)| format!("; did you mean {known}?")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_with_a_slip_is_recognized_and_another_word_is_not() {
        let known = ["queue-length", "queue-delay", "lh-1", "layering"];
        for (word, meant) in [
            ("queue-lenght", "; did you mean queue-length?"),
            ("lh1", "; did you mean lh-1?"),
            ("layring", "; did you mean layering?"),
            ("pie", ""),
        ] {
            assert_eq!(did_you_mean(word, known), meant, "{word}");
        }
    }
}
