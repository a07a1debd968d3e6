//! Why an end refuses a caller.

use std::fmt;

/// Why an end refuses a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// It has as many peers as it takes.
    Full,
    /// It sends where the caller wants to send, or receives where the caller wants to receive.
    WrongRole,
    /// The caller's segment is larger than it maps.
    TooLarge,
    /// The caller is a user that it does not trust.
    NotTrusted,
    /// The hello or the caller's segment is not as it should be.
    BadHello,
}

impl Refusal {
    /// All of them, in the order of their numbers in a welcome.
    pub(crate) const ALL: [Self; 5] =
        [Self::Full, Self::WrongRole, Self::TooLarge, Self::NotTrusted, Self::BadHello];
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "it has as many peers as it takes",
            Self::WrongRole => "it sends, or receives, itself",
            Self::TooLarge => "our segment is larger than it maps",
            Self::NotTrusted => "it does not trust our user",
            Self::BadHello => "it did not understand us",
        })
    }
}
