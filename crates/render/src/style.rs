//! The look of text: character set, colours, and the characters allowed in untrusted strings.

/// Characters that text may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Charset {
    /// Only 7-bit characters.
    Ascii,
    /// Arrows, box-drawing lines and `µ`.
    #[default]
    Unicode,
}

/// Role of a piece of text, for its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Ordinary.
    Plain,
    /// A heading or the figure that matters.
    Strong,
    /// Something wrong.
    Bad,
    /// All is well.
    Good,
    /// Of less interest.
    Faint,
    /// In this one of the 256 colours of terminals.
    Colour(u8),
}

/// Character set and colour together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Characters that text may have.
    pub charset: Charset,
    /// Whether text may have terminal colours (SGR sequences, ECMA-48 §8.3.117).
    pub color: bool,
}

/// Lines and arrows in one character set.
#[derive(Debug, Clone, Copy)]
pub struct Glyphs {
    /// From the sender to the receiver.
    pub arrow_right: &'static str,
    /// A horizontal line.
    pub rule: char,
    /// Before and behind a figure that is a lower bound.
    pub at_least: [&'static str; 2],
    /// Before a figure that is an upper bound.
    pub at_most: &'static str,
    /// Before a figure that is an error in either direction.
    pub plus_minus: &'static str,
    /// Line of the path where bytes wait in a queue, where code runs, and on the wire.
    pub path: [char; 3],
    /// The two ends of a bar.
    pub bar: (char, char),
    /// The multiplication sign.
    pub times: char,
}

impl Style {
    /// The lines and arrows of the character set.
    pub fn glyphs(self) -> Glyphs {
        match self.charset {
            Charset::Ascii => Glyphs {
                arrow_right: "->",
                rule: '-',
                at_least: ["", "+"],
                at_most: "<=",
                plus_minus: "+-",
                path: ['=', '-', '.'],
                bar: ('[', ']'),
                times: 'x',
            },
            Charset::Unicode => Glyphs {
                arrow_right: "→",
                rule: '─',
                at_least: ["≥", ""],
                at_most: "≤",
                plus_minus: "±",
                path: ['━', '─', '┄'],
                bar: ('▕', '▏'),
                times: '×',
            },
        }
    }

    /// `text` in the colour of `tone`, if colours are on.
    pub fn paint(self, text: &str, tone: Tone) -> String {
        let code = match tone {
            _ if !self.color || text.is_empty() => return text.to_owned(),
            Tone::Plain => return text.to_owned(),
            Tone::Strong => "1",
            Tone::Bad => "1;31",
            Tone::Good => "32",
            Tone::Faint => "2",
            Tone::Colour(number) => return format!("\x1b[38;5;{number}m{text}\x1b[0m"),
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    /// `text` fit for one line of a terminal: control and invisible formatting characters, which
    /// could hide or forge lines, become escapes; in ASCII so does all else, except the few signs
    /// that have an equal.
    pub fn clean(self, text: &str) -> String {
        let mut cleaned = String::with_capacity(text.len());
        for character in text.chars() {
            match (self.charset, character) {
                (_, ' '..='~') => cleaned.push(character),
                (Charset::Ascii, _) => match ascii_equal(character) {
                    Some(equal) => cleaned.push_str(equal),
                    None => cleaned.extend(character.escape_default()),
                },
                (Charset::Unicode, _) if is_hidden(character) => {
                    cleaned.extend(character.escape_default());
                }
                (Charset::Unicode, _) => cleaned.push(character),
            }
        }
        cleaned
    }
}

/// `text` fit for one line of a terminal: characters that could hide or forge lines become escapes, as
/// `\u{1b}`.
///
/// For names of programs, hosts and files in messages that a terminal may show. The formats of this crate
/// escape such names themselves.
pub fn printable(text: &str) -> String {
    Style { charset: Charset::Unicode, color: false }.clean(text)
}

/// Line ends, terminal controls, and characters that are invisible or change direction (Unicode
/// Standard Annex 9 §2, general categories Cc and Cf as far as they exist in text).
pub fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}')
}

fn ascii_equal(character: char) -> Option<&'static str> {
    Some(match character {
        'µ' | 'μ' => "u",
        '×' => "x",
        '→' => "->",
        '←' => "<-",
        '–' | '—' | '−' => "-",
        '≥' => ">=",
        '≤' => "<=",
        '…' => "...",
        '’' | '‘' => "'",
        '“' | '”' => "\"",
        '§' => "section ",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const UNICODE: Style = Style { charset: Charset::Unicode, color: false };
    const ASCII: Style = Style { charset: Charset::Ascii, color: false };

    #[test]
    fn a_process_name_cannot_forge_a_line_or_a_colour() {
        assert_eq!(UNICODE.clean("x\n\x1b[31mverdict"), "x\\n\\u{1b}[31mverdict");
        assert_eq!(UNICODE.clean("a\u{202e}b"), "a\\u{202e}b");
    }

    #[test]
    fn ascii_keeps_the_meaning_of_common_signs() {
        assert_eq!(ASCII.clean("3.2 µs → 5× é"), "3.2 us -> 5x \\u{e9}");
    }

    #[test]
    fn colour_is_off_unless_asked_for() {
        assert_eq!(ASCII.paint("bad", Tone::Bad), "bad");
        let colored = Style { color: true, ..ASCII };
        assert_eq!(colored.paint("bad", Tone::Bad), "\x1b[1;31mbad\x1b[0m");
    }

    proptest! {
        #[test]
        fn nothing_unprintable_survives(text in any::<String>()) {
            prop_assert!(!UNICODE.clean(&text).chars().any(char::is_control));
            prop_assert!(ASCII.clean(&text).chars().all(|c| (' '..='~').contains(&c)));
        }
    }
}
