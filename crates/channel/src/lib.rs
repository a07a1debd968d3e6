//! Memory-based messaging between processes on Linux.
//!
//! A message is written into a slot of memory that both processes have mapped. A signal on the slot
//! wakes the receiver, which reads it in place ("The Influence of Protocol Choice on Network
//! Performance", chapter 4). The kernel gives memory and signals and knows nothing of messages.
//!
//! - [`Sender`] and [`Receiver`] are the two ends: one to one, one to many ([`Sender::bind`]), many to
//!   one ([`Receiver::bind`]). Set-up happens with the first message.
//! - [`Group`] is many to many; [`Duplex`] is both directions between two processes.
//! - [`library`] has ordering, collision detection, and proxies for remote peers, as parts to pick.
//! - docs/reference/channel.md has the guarantees for both ends, and the powers of a hostile peer.
//!
//! Positions are 64-bit counts of messages, sizes bytes, times `CLOCK_MONOTONIC` nanoseconds.

// Shared memory is this crate's subject; every block says why it is sound.
#![allow(unsafe_code)]

mod address;
mod backoff;
mod duplex;
mod error;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod group;
mod handshake;
pub mod library;
mod listener;
mod memory;
mod naming;
mod observe;
mod peer;
mod peers;
mod poller;
mod receiver;
mod reject;
mod ring;
mod sender;
mod settings;
mod setup;
mod socket;
mod wakeup;

pub use address::{Address, NAME_BYTES_MAX};
pub use duplex::Duplex;
pub use error::Error;
pub use group::Group;
pub use handshake::{ConnectReply, ConnectRequest, Offer, Role, SETUP_BYTES};
pub use observe::{Event, Observer, Unobserved};
pub use peer::Peer;
pub use receiver::{Message, Receiver};
pub use reject::RejectReason;
pub use sender::{Sender, Slot};
pub use settings::{Means, Settings, Trust, Wait, WhenFull};
