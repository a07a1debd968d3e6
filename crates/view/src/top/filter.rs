//! Words that select rows: `port:443 process:nginx finding:nagle`.

use sockscope_record::{Connection, ControlGroup};

use super::row::Row;

/// Selects rows; all words must match, and an empty filter matches all rows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    words: Vec<Word>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Word {
    /// Either end has this port.
    Port(u16),
    /// A process has this text in its name, or this number.
    Process(String),
    /// An address has this text in it.
    Address(String),
    /// The name of a finding has this text in it.
    Finding(String),
    /// Anything of these.
    Any(String),
}

/// Why a filter cannot be used: one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterError(String);

impl std::fmt::Display for FilterError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for FilterError {}

impl Filter {
    /// Reads the words of a line.
    ///
    /// # Errors
    ///
    /// When a word begins with an unknown field, or its port is no number from 0 to 65535.
    pub fn parse(line: &str) -> Result<Self, FilterError> {
        let words = line.split_whitespace().map(word).collect::<Result<_, _>>()?;
        Ok(Self { words })
    }

    /// Whether it selects all rows.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Whether it selects this row.
    pub fn matches(&self, row: &Row) -> bool {
        self.words.iter().all(|word| word.matches(row))
    }
}

fn word(text: &str) -> Result<Word, FilterError> {
    let Some((field, value)) = text.split_once(':') else {
        return Ok(Word::Any(text.to_lowercase()));
    };
    let lower = value.to_lowercase();
    match field {
        "port" => value.parse().map(Word::Port).map_err(|_| {
            FilterError(format!("port:{value} is no port: give a number from 1 to 65535"))
        }),
        "process" => Ok(Word::Process(lower)),
        "address" => Ok(Word::Address(lower)),
        "finding" => Ok(Word::Finding(lower)),
        // An address of IPv6 has colons too.
        _ if text.chars().all(|it| it.is_ascii_hexdigit() || it == ':') => {
            Ok(Word::Address(text.to_lowercase()))
        }
        _ => Err(FilterError(format!(
            "{field}: is no field: use port:, process:, address: or finding:"
        ))),
    }
}

impl Word {
    fn matches(&self, row: &Row) -> bool {
        let connection = &row.connection;
        match self {
            Self::Port(port) => [connection.client.port(), connection.server.port()].contains(port),
            Self::Process(text) => has_process(connection, text),
            Self::Address(text) => has_address(connection, text),
            Self::Finding(text) => has_finding(row, text),
            Self::Any(text) => {
                has_process(connection, text)
                    || has_address(connection, text)
                    || has_finding(row, text)
            }
        }
    }
}

fn has_process(connection: &Connection, text: &str) -> bool {
    let mut processes = connection.processes.iter();
    processes.any(|process| {
        let is_in_group = |it: &ControlGroup| it.to_string().to_lowercase().contains(text);
        process.comm.to_lowercase().contains(text)
            || process.pid.to_string() == text
            || process.named_group().is_some_and(is_in_group)
    })
}

fn has_address(connection: &Connection, text: &str) -> bool {
    [connection.client, connection.server].iter().any(|end| end.to_string().contains(text))
}

fn has_finding(row: &Row, text: &str) -> bool {
    row.findings.iter().any(|finding| finding.id.name().contains(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::testing::row;

    fn matches(words: &str) -> bool {
        Filter::parse(words).expect(words).matches(&row(1))
    }

    #[test]
    fn all_words_must_match() {
        assert!(matches(""));
        assert!(matches("port:80 process:client finding:nagle"));
        assert!(matches("process:101 127.0.0.1"));
        assert!(!matches("port:80 process:redis"));
        assert!(!matches("finding:slow-reader"));
        assert!(!matches("port:81"));
    }

    #[test]
    fn a_word_without_a_field_is_looked_for_everywhere() {
        assert!(matches("CLIENT") && matches("nagle") && matches(":80"));
        assert!(!matches("redis"));
    }

    #[test]
    fn an_unknown_field_is_refused_with_those_that_exist() {
        let said = |words| Filter::parse(words).expect_err(words).to_string();
        assert_eq!(said("pod:x"), "pod: is no field: use port:, process:, address: or finding:");
        assert_eq!(said("port:x"), "port:x is no port: give a number from 1 to 65535");
    }
}
