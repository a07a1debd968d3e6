//! The part of a file that was searched for the next whole message.

/// The bytes searched so far, so that no byte is searched twice.
#[derive(Debug, Default)]
pub(super) struct Search {
    /// There is no message from here …
    pub(super) from: u64,
    /// … to here.
    pub(super) to: u64,
    /// Bytes searched since `from`.
    pub(super) bytes: u64,
    /// Bytes of earlier searches that found a message.
    pub(super) bytes_before: u64,
}
