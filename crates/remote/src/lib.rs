//! Channels to another machine over VMTP: the link of a [`Proxy`](sockscope_channel::library::Proxy),
//! with which an application cannot distinguish a remote peer from a local one.
//!
//! "The Influence of Protocol Choice on Network Performance", chapter 4, puts a proxy in the place of
//! the remote peer. A local channel loses nothing, repeats nothing and keeps order. It makes a sender
//! wait for a receiver that does not read, and reports a peer's death. [`VmtpLink`] gives the same
//! over a network that does not. It is a crate of its own because `channel` and `vmtp` know nothing
//! of each other, and a user of one of them need not have the other.
//!
//! Sizes are bytes, times nanoseconds since the link began.

mod batch;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod link;

pub use batch::PACKET_BYTES_MAX;
pub use link::{LinkCounts, VmtpLink};
