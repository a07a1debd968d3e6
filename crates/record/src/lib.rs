//! What one observation is.
//!
//! A *connection* has two *flows*, one for each direction. A [`Record`] says that at one time, on
//! one CPU, bytes `[offset, offset + len)` of one flow passed one of the eight [points](Point), or
//! that something happened beside them (see [`Kind`]). Offsets are 64-bit positions in the stream
//! of the flow, 0 being its first byte; for datagrams they are the running byte count.
//!
//! Times are nanoseconds of `CLOCK_MONOTONIC` of the host that made the record (live), or of the
//! simulation's clock (model). Nothing here reads a clock, a file or a socket, and nothing here
//! serializes: `trace` writes records, `report` prints them.

mod connection;
mod hold;
mod kind;
mod loss;
mod sequence;
pub mod statistics;
mod words;

pub use connection::{Connection, ConnectionId, Direction, FlowId, Process, Protocol, Side};
pub use hold::Hold;
pub use kind::{Kind, Point, RetransmitClass, Stage};
pub use loss::{LossCounts, PointCost};
pub use sequence::Unwrapper;
pub use words::counted;

/// One observation. The meaning of `detail`, `extra`, `code` and `thread` depends on `kind`, and
/// stands with each [`Kind`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Record {
    /// When, in nanoseconds of the trace's clock.
    pub at_ns: u64,
    /// Position in the stream of the first byte concerned.
    pub offset: u64,
    /// Meaning by kind.
    pub detail: u64,
    /// The direction of the connection concerned.
    pub flow: FlowId,
    /// Number of bytes concerned, from `offset` on; 0 for a segment that carries no data.
    pub len: u32,
    /// Thread (kernel task id) concerned; 0 where no thread is.
    pub thread: u32,
    /// Meaning by kind.
    pub extra: u32,
    /// What was observed.
    pub kind: Kind,
    /// Meaning by kind.
    pub code: u8,
    /// TCP flags of the segment as in its header (RFC 9293 §3.1), low eight bits; else 0.
    pub tcp_flags: u8,
    /// Bits of [`marks`].
    pub marks: u8,
    /// CPU on which it was observed.
    pub cpu: u16,
}

impl Record {
    /// Position after the last byte concerned; `u64::MAX` where it lies beyond 64 bits, as only a
    /// damaged or hostile trace has it.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(u64::from(self.len))
    }

    /// The point passed, or `None` for an event beside the points.
    #[must_use]
    pub fn point(&self) -> Option<Point> {
        self.kind.point()
    }

    /// Whether its row stands nearly in order of time. A loss, a time marked [`marks::DERIVED`] and what is
    /// [learnt later](Kind::is_learnt_later) may stand behind any later time.
    #[must_use]
    pub fn is_in_order(&self) -> bool {
        let is_late = self.kind == Kind::Loss || self.kind.is_learnt_later();
        !is_late && !self.is_marked(marks::DERIVED)
    }

    /// Whether all bits of `mark` are set.
    #[must_use]
    pub fn is_marked(&self, mark: u8) -> bool {
        self.marks & mark == mark
    }
}

/// Bits of [`Record::marks`].
pub mod marks {
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
    /// The segment went out of or came in through the loopback interface.
    pub const LOOPBACK: u8 = 32;
    /// A datagram at points 3 to 8 that each point so far identified by its buffer, not by order and length
    /// alone: a missed record of another datagram does not make it that one.
    pub const RECOGNIZED: u8 = 64;
    /// Of a `Loss`: the recorder joined the positions of streams anew behind it, by the sockets' own 64-bit
    /// counters. Without it they may be short by a multiple of 4 GiB.
    pub const ANCHORED: u8 = 128;
    /// Of a `Loss`: it touches only connections that other users asked for, beside the operator's pick. With a
    /// flow it misses nothing, and says that the flow's connection is one of these.
    pub const OF_OTHERS: u8 = 1;
}

/// TCP header flags in [`Record::tcp_flags`] (RFC 9293 §3.1).
pub mod tcp_flags {
    /// No more data from the sender.
    pub const FIN: u8 = 0x01;
    /// Synchronize sequence numbers.
    pub const SYN: u8 = 0x02;
    /// Reset the connection.
    pub const RST: u8 = 0x04;
    /// Push function.
    pub const PSH: u8 = 0x08;
    /// The acknowledgment field is significant.
    pub const ACK: u8 = 0x10;
    /// The urgent pointer is significant.
    pub const URG: u8 = 0x20;
    /// ECN echo (RFC 3168).
    pub const ECE: u8 = 0x40;
    /// Congestion window reduced (RFC 3168).
    pub const CWR: u8 = 0x80;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_end_of_any_record_is_not_before_its_start(offset in any::<u64>(), len in any::<u32>()) {
            let record = Record { offset, len, ..Record::default() };
            prop_assert_eq!(record.end().checked_sub(offset), Some(u64::from(len).min(u64::MAX - offset)));
        }
    }

    #[test]
    fn a_position_beyond_64_bits_ends_at_the_largest_one() {
        let record = Record { offset: u64::MAX - 1, len: 2, ..Record::default() };
        assert_eq!([record.end(), Record { len: 1, ..record }.end()], [u64::MAX; 2]);
    }
}
