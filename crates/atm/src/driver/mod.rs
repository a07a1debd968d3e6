//! Whateley's driver for the TCA-100: a user-level program over the card's mapped memory.
//!
//! [`Sender`] copies and segments in one pass, with headers that were prepared before and a path of
//! its own for messages of two cells; [`Receiver`] polls, drains and reassembles. Both work through
//! a [`Host`], which makes each access and counts it by [kind](Work): a model of a machine charges
//! each kind its cost there. [`CountingHost`] does so from a table; [`Reordering`] puts a write
//! buffer in front of a host, to show the purpose of the driver's flushes.

mod cases;
mod host;
mod receiver;
mod reordering;
mod sender;
mod work;

pub use host::{CountingHost, Host};
pub use receiver::{Delivery, Receiver, ReceiverCounters};
pub use reordering::Reordering;
pub use sender::{SendError, Sender};
pub use work::{Costs, Work, WorkCounts};

#[cfg(test)]
mod tests;
