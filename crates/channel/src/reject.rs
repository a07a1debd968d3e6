//! Why an end rejects a caller.

/// Why an end rejects a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RejectReason {
    /// It has [`peers_max`](crate::Settings::peers_max) peers already.
    #[error("it has as many peers as it takes")]
    Full,
    /// It sends where the caller wants to send, or receives where the caller wants to receive.
    #[error("it sends, or receives, itself")]
    WrongRole,
    /// The caller's segment is larger than it maps.
    #[error("our segment is larger than it maps")]
    TooLarge,
    /// The caller is a user that it does not trust.
    #[error("it does not trust our user")]
    NotTrusted,
    /// The request or the caller's segment is malformed.
    #[error("it did not understand us")]
    BadRequest,
}

impl RejectReason {
    /// All of them, in the order of their numbers in a reply.
    pub(crate) const ALL: [Self; 5] =
        [Self::Full, Self::WrongRole, Self::TooLarge, Self::NotTrusted, Self::BadRequest];
}
