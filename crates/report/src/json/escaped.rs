//! JSON whose texts a terminal can show: hidden characters are escaped, which any reader undoes.

use std::io::{Result, Write};

use serde_json::ser::Formatter;
use sockscope_render::style::is_hidden;

/// Writes compactly. JSON demands escapes below U+0020 only; U+009B begins a control sequence too.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Escaped;

impl Formatter for Escaped {
    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> Result<()> {
        let mut rest = fragment;
        while let Some((at, hidden)) = rest.char_indices().find(|(_, letter)| is_hidden(*letter)) {
            writer.write_all(&rest.as_bytes()[..at])?;
            for unit in hidden.encode_utf16(&mut [0; 2]) {
                write!(writer, "\\u{unit:04x}")?;
            }
            rest = &rest[at + hidden.len_utf8()..];
        }
        writer.write_all(rest.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use serde::Serialize;
    use serde_json::Serializer;

    use super::*;

    #[test]
    fn hidden_characters_are_escaped_and_read_back() {
        let text = "a\u{9b}31m \u{202e}b\u{e0001} µ\u{1b}\"";
        let mut json = Vec::new();
        text.serialize(&mut Serializer::with_formatter(&mut json, Escaped)).unwrap();
        let json = String::from_utf8(json).unwrap();
        assert_eq!(json, r#""a\u009b31m \u202eb\udb40\udc01 µ\u001b\"""#);
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
    }
}
