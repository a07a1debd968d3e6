//! The user-level network library: the work of a kernel's network code for an application, as parts
//! that the application picks, leaves out or replaces.
//!
//! After "The Influence of Protocol Choice on Network Performance", chapter 4: channels between two
//! processes, collision detection and ordering for those that need them, and drivers that stand in
//! for remote peers and pack slots into packets of any format. Applications without these needs use
//! [`Sender`](crate::Sender) and [`Receiver`](crate::Receiver) alone and pay nothing.
//!
//! | part | trait | in the box |
//! |---|---|---|
//! | order of arrival | [`Ordering`] | [`Unordered`], [`InOrder`] |
//! | concurrent writes | [`Collisions`] | [`Unwatched`], [`Versions`] |
//! | packets of a proxy | [`PacketFormat`] | [`Checked`] |
//! | transport of a proxy | [`RemoteLink`] | [`DatagramLink`] |
//!
//! [`Endpoint`] puts the first two on a channel, [`Proxy`] the other two between a channel and a remote
//! peer. Parts never see shared memory, only copies that do not change.
//!
//! Two pairs are protocols without sockets, whose packets the application carries. [`Distributor`] and
//! [`Taker`] give each message to exactly one member of a group. [`Protector`] and [`Corrector`] send
//! redundant packets, from which the receiver computes lost messages.

mod collisions;
mod endpoint;
mod link;
mod ordering;
mod packet;
mod proxy;
mod redundancy;
mod taking;

pub use collisions::{Collisions, MEMBERS_MAX, Unwatched, Verdict, Versions};
pub use endpoint::{Delivery, Endpoint};
pub use link::{DatagramLink, RemoteLink, passing};
pub use ordering::{Arrival, InOrder, Ordering, Unordered};
pub use packet::{Checked, PacketFormat};
pub use proxy::{Proxy, ProxyCounts};
pub use redundancy::{Corrector, CorrectorCounts, Protector, Redundancy};
pub use taking::{Distributor, Taken, Taker};

/// Words of eight bytes, little-endian, of a header; 0 where it is too short.
fn word_at(header: &[u8], at: usize) -> u64 {
    let bytes = header.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u64::from_le_bytes)
}
