//! Bits of [`Record::marks`](crate::Record::marks).

/// The bytes had passed this point before: a retransmission.
pub const RETRANSMITTED: u8 = 1;
/// The time is a bound derived from other observations, not read at this point itself.
pub const DERIVED: u8 = 2;
/// The device has no queue: points 3 and 4 are the same instant by construction.
pub const NO_QUEUE: u8 = 4;
/// At a `ReceiveEnqueue`: a thread was blocked waiting for this socket (see `thread`).
pub const WAITED_FOR: u8 = 8;
/// One skb that stands for several segments (GSO, GRO).
pub const AGGREGATED: u8 = 16;
/// The segment was sent or received by the loopback interface.
pub const LOOPBACK: u8 = 32;
/// A datagram at points 3 to 8 that each point so far identified by its buffer, not by order and length
/// alone: a missed record of another datagram does not make it that one.
pub const RECOGNIZED: u8 = 64;
/// Of a `Loss`: the recorder joined the positions of streams anew behind it, by the sockets' own 64-bit
/// counters. Without it they may be short by a multiple of 4 GiB.
pub const ANCHORED: u8 = 128;
/// Of a `Loss`: it touches only connections that other users asked for, other than the operator's pick. With a
/// flow it misses no record, and marks the flow's connection as one of these.
pub const OF_OTHERS: u8 = 1;
