//! A wire in user space: it carries packets between two TUN devices in two network namespaces.
//!
//! [`Wire`] is one direction of it, without I/O and without a clock: packets and times in, packets and times out. A
//! [`Topology`] makes the namespaces and the devices of it and of other connections between a server and its clients:
//! [`Hosts`], which starts commands there. [`carry`] moves packets between the devices through two wires, and measures
//! its lateness.
//!
//! All random choices of a direction follow from a seed. Each kind of choice has a generator of its own, which is
//! asked once for each packet: the packets that are dropped depend on the seed and on their number alone.
//!
//! The host's network is not changed: the namespaces have no name, and end with the program and all their processes.

mod clock;
mod codel;
mod error;
mod forward;
mod group;
mod hosts;
mod lateness;
mod line;
mod loss;
mod namespace;
mod netlink;
mod offloads;
mod opportunities;
mod priority;
mod processes;
mod quantity;
mod random;
mod settings;
mod topology;
mod traffic;
mod tun;
mod wire;

pub use clock::now_ns;
pub use error::{Error, SettingsError};
pub use forward::{Ended, Station, carry, carry_to_station};
pub use hosts::{Ends, Hosts, Side};
pub use lateness::Lateness;
pub use offloads::{Offload, offloads};
pub use opportunities::Opportunities;
pub use quantity::{Bandwidth, Bytes, Interval, Share};
pub use settings::{Capacity, Discipline, LossModel, Reordering, Settings};
pub use topology::{Line, Topology, with_station};
pub use traffic::HostTraffic;
pub use tun::Tun;
pub use wire::{Counts, Packet, Wire};
