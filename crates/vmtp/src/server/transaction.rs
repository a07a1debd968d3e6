//! A transaction as the application sees it: its name, its Request and its answer.

use crate::wire::Entity;

/// The identity of a transaction: client and number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token {
    /// The client.
    pub client: Entity,
    /// The client's number of it.
    pub transaction: u32,
}

/// A Request that arrived whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incoming<A> {
    /// For the answer.
    pub token: Token,
    /// From where.
    pub from: A,
    /// The addressed server: this one, or a group of it.
    pub server: Entity,
    /// Which service.
    pub code: u32,
    /// Octets that travelled in the header.
    pub user: [u8; 12],
    /// The segment; zeros where blocks are missing.
    pub segment: Vec<u8>,
    /// The blocks that arrived, where the client said which ones it sends (MDM).
    pub delivery: Option<u32>,
    /// The client is a member of the group that it asks (MDG).
    pub is_from_member: bool,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outcome {
    /// [`code::OK`](crate::wire::code::OK), another code of VMTP, or one of the application's.
    pub code: u32,
    /// Octets that travel in the header.
    pub user: [u8; 20],
    /// The segment, up to 4 MiB to a client that takes long Responses, else 16 KiB.
    pub segment: Vec<u8>,
    /// It may be worked out again: nothing of it is kept, and a Request that is repeated runs again.
    pub idempotent: bool,
}
