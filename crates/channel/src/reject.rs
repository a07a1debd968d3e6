//! Why an end rejects a caller.

use std::fmt;

/// Why an end rejects a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RejectReason {
    /// It has [`peers_max`](crate::Settings::peers_max) peers already.
    Full,
    /// It sends where the caller wants to send, or receives where the caller wants to receive.
    WrongRole,
    /// The caller's segment is larger than it maps.
    TooLarge,
    /// The caller is a user that it does not trust.
    NotTrusted,
    /// The request or the caller's segment is malformed.
    BadRequest,
}

impl RejectReason {
    /// All of them, in the order of their numbers in a reply.
    pub(crate) const ALL: [Self; 5] =
        [Self::Full, Self::WrongRole, Self::TooLarge, Self::NotTrusted, Self::BadRequest];
}

impl fmt::Display for RejectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "it has as many peers as it takes",
            Self::WrongRole => "it sends, or receives, itself",
            Self::TooLarge => "our segment is larger than it maps",
            Self::NotTrusted => "it does not trust our user",
            Self::BadRequest => "it did not understand us",
        })
    }
}
