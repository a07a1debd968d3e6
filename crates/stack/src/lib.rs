//! The BSD network stack of 1983 to 1990, without I/O.
//!
//! One [`Stack`] is one host's kernel between the system call and the device: mbufs, socket
//! buffers, `sosend` and `soreceive`, TCP, UDP, IP and interfaces, each under the rules of a
//! [`Personality`]. It reads no clock, opens nothing and never sleeps. Its state changes take
//! effect at once; their CPU time is charged to a [`Meter`], which also lists the *effects*
//! (packets, wake-ups, observations), each with its time. The caller carries them out in that
//! order.
//!
//! Frames and user data are real bytes: checksums are computed, data are copied.

pub mod calls;
pub mod checksum;
pub mod cost;
pub mod effect;
pub mod interface;
pub mod ip;
pub mod mbuf;
pub mod meter;
pub mod packet;
pub mod personality;
pub mod probe;
pub mod route;
pub mod routine;
pub mod sockbuf;
pub mod socket;
pub mod tcp;
pub mod udp;

#[cfg(test)]
mod counts_tests;
mod drop_reason;
mod observe;
mod pcb;
mod request;
mod stack;
#[cfg(test)]
mod testing;

pub use calls::{AcceptCall, ConnectCall, ReceiveCall, SendCall, Step};
pub use cost::{Cost, CostMeter, Costs, WorkTotal};
pub use drop_reason::DropReason;
pub use effect::{Channel, Effect};
pub use meter::Meter;
pub use packet::{Mark, Packet};
pub use personality::Personality;
pub use probe::{ProbeCosts, ProbeWork};
pub use routine::{Routine, Work};
pub use socket::{Endpoint, Options, SetOption, SocketError, SocketId};
pub use stack::{Stack, StackConfig};
