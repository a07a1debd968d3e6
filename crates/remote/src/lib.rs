//! Channels to another machine over VMTP: what a [`Proxy`](sockscope_channel::library::Proxy) needs so
//! that an application cannot tell a remote peer from a local one.
//!
//! "The Influence of Protocol Choice on Network Performance", chapter 4, lets a proxy stand where the
//! remote peer would. A local channel loses nothing, repeats nothing, keeps order, makes a sender wait
//! for a receiver that does not read, and tells when the peer dies. [`VmtpLink`] gives the same over a
//! network that does none of it. It is a crate of its own because `channel` and `vmtp` know nothing of
//! each other, and who needs one of them need not have the other.
//!
//! Sizes are bytes, times nanoseconds since the link began.

mod batch;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod link;

pub use batch::PACKET_BYTES_MAX;
pub use link::{LinkCounts, VmtpLink};
