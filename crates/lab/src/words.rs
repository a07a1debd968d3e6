//! Words that several parts print.

/// As `1 call`, `1,200` being printed as `1200 calls`.
pub(crate) fn counted(count: u64, one: &str) -> String {
    format!("{count} {one}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn one_of_a_thing_has_no_plural() {
        let words = [0, 1, 2, 1200].map(|count| counted(count, "call"));
        assert_eq!(words, ["0 calls", "1 call", "2 calls", "1200 calls"]);
    }
}
