//! From a probe hit to records: sequence numbers become stream positions, one hit becomes
//! the points that it covers, and rare events become the description of a connection.
//!
//! Input is every raw record, merged over the CPUs in time order as far as clocks allow, and the
//! events of the ring buffer, which are read before the records that need them. Output is nearly in
//! time order, except records that only a later hit shows. Nothing here reads a clock or the kernel.
//!
//! A flow has three sides, each with its own fields and rules: [`sender`] (points 1 and 2), [`path`]
//! (points 3 to 6) and [`receiver`] (points 7 and 8). [`tcp`] hands a record of TCP to them.

mod age;
mod anchor;
mod arrivals;
mod connections;
mod decoder;
mod early_options;
mod event;
mod expire;
mod flow_state;
mod gaps;
mod gso;
mod hit;
mod hops;
mod in_transit;
mod incoming;
mod intervals;
mod left_out;
mod missed;
mod options;
mod path;
mod positions;
mod receiver;
mod recorded_ranges;
mod sender;
mod tcp;
#[cfg(test)]
mod tests;
mod threads;
mod udp;
mod udp_buffers;
mod udp_queue;
mod udp_reads;
mod udp_sockets;
mod unknown_positions;

pub(crate) use decoder::{Decoder, Groups};
pub(crate) use hit::point_of_raw;
