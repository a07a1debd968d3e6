//! The words of a Rust source with their lines: no comments, each literal as one token.
//!
//! Enough of the lexical grammar to find `use` declarations, items and paths. `::` is one token;
//! every other punctuation mark is a token of one character.

/// One token of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    /// The text of the source; a literal keeps its quotes.
    pub text: &'a str,
    /// Line from 1 on.
    pub line: usize,
}

impl Token<'_> {
    /// Whether this is an identifier or a keyword.
    pub fn is_word(&self) -> bool {
        self.text.starts_with(starts_word)
    }
}

/// Splits a source; an unfinished literal or comment extends to the end.
pub fn split(source: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut rest = source;
    let mut line = 1;
    while let Some(first) = rest.chars().next() {
        let (length, is_token) = measure(rest, first);
        let (text, after) = rest.split_at(length);
        if is_token {
            let raw = text.strip_prefix("r#").filter(|name| name.starts_with(starts_word));
            tokens.push(Token { text: raw.unwrap_or(text), line });
        }
        line += text.matches('\n').count();
        rest = after;
    }
    tokens
}

/// Bytes of the first token, comment or space of `rest`, and whether it is a token.
fn measure(rest: &str, first: char) -> (usize, bool) {
    if first.is_whitespace() {
        return (first.len_utf8(), false);
    }
    if rest.starts_with("//") {
        return (rest.find('\n').unwrap_or(rest.len()), false);
    }
    if rest.starts_with("/*") {
        return (block_comment(rest), false);
    }
    if rest.starts_with("::") {
        return (2, true);
    }
    if let Some(length) = literal(rest) {
        return (length, true);
    }
    if let Some(name) = rest.strip_prefix("r#").filter(|name| name.starts_with(starts_word)) {
        return (2 + word(name), true);
    }
    if starts_word(first) || first.is_ascii_digit() {
        return (word(rest), true);
    }
    (first.len_utf8(), true)
}

fn starts_word(char: char) -> bool {
    char.is_alphabetic() || char == '_'
}

fn word(rest: &str) -> usize {
    rest.find(|char: char| !char.is_alphanumeric() && char != '_').unwrap_or(rest.len())
}

fn block_comment(rest: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < rest.len() {
        let two = rest.as_bytes().get(at..at + 2).unwrap_or_default();
        match two {
            b"/*" => depth += 1,
            b"*/" => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

/// Bytes of the string, character or lifetime that `rest` begins with.
fn literal(rest: &str) -> Option<usize> {
    let after_prefix = rest.trim_start_matches(['b', 'c']);
    let prefix = rest.len() - after_prefix.len();
    if prefix > 1 {
        return None;
    }
    if let Some(raw) = after_prefix.strip_prefix('r') {
        let quoted = raw.trim_start_matches('#');
        let hashes = &raw[..raw.len() - quoted.len()];
        let content = quoted.strip_prefix('"')?;
        let close = format!("\"{hashes}");
        let end = content.find(&close).map_or(content.len(), |at| at + close.len());
        return Some(rest.len() - content.len() + end);
    }
    match after_prefix.as_bytes().first()? {
        b'"' => Some(prefix + quoted(after_prefix, '"')),
        // A quote that opens no character opens a lifetime's name.
        b'\'' if is_lifetime(after_prefix) => (prefix == 0).then(|| 1 + word(&rest[1..])),
        b'\'' => Some(prefix + quoted(after_prefix, '\'')),
        _ => None,
    }
}

fn is_lifetime(rest: &str) -> bool {
    let mut chars = rest.chars().skip(1);
    chars.next().is_some_and(starts_word) && chars.next() != Some('\'')
}

/// Bytes up to and with the closing quote.
fn quoted(rest: &str, quote: char) -> usize {
    let mut chars = rest.char_indices().skip(1);
    while let Some((at, char)) = chars.next() {
        if char == '\\' {
            chars.next();
        } else if char == quote {
            return at + 1;
        }
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<&str> {
        split(source).into_iter().map(|token| token.text).collect()
    }

    #[test]
    fn comments_are_left_out_and_literals_stay_whole() {
        let source = "a /* b /* c */ d */ \"e // \\\" f\" // g\nh '\\'' b'{' r#\"i\"j\"# k";
        let expected = ["a", "\"e // \\\" f\"", "h", "'\\''", "b'{'", "r#\"i\"j\"#", "k"];
        assert_eq!(texts(source), expected);
    }

    #[test]
    fn a_lifetime_is_no_character_and_a_raw_name_is_a_name() {
        assert_eq!(texts("&'a b<'static>"), ["&", "'a", "b", "<", "'static", ">"]);
        assert_eq!(texts("r#type::c 1..2 x"), ["type", "::", "c", "1", ".", ".", "2", "x"]);
    }

    #[test]
    fn a_token_knows_its_line() {
        let lines: Vec<usize> =
            split("a\n\"b\nc\" d /* \n */ e").iter().map(|token| token.line).collect();
        assert_eq!(lines, [1, 2, 3, 4]);
    }
}
