//! One observation.

use crate::{FlowId, Kind, Point, Side, marks};

/// One observation. `kind` gives `detail`, `extra`, `code` and `thread` their meaning, which [`Kind`] documents.
/// Read the first three with the accessor of the kind, as [`Record::congestion`], and set them with its
/// constructor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Record {
    /// Its time, in nanoseconds of the trace's clock.
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
    /// The event that was observed.
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
    #[inline]
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(u64::from(self.len))
    }

    /// The point passed, or `None` for an event of no point.
    #[inline]
    pub fn point(&self) -> Option<Point> {
        self.kind.point()
    }

    /// The end on whose host it was observed: points 1 to 4 at the sender's, 5 to 8 at the receiver's. `None` where it
    /// does not show that, and of records of both ends, of devices between them and of no flow.
    pub fn side(&self) -> Option<Side> {
        let sender = self.flow.direction().sender();
        match self.kind {
            Kind::SendEnqueue
            | Kind::SendDequeue
            | Kind::InterfaceEnqueue
            | Kind::InterfaceDequeue
            | Kind::WriteCall
            | Kind::WriteReturn
            | Kind::Transaction
            | Kind::BlocksAgain
            | Kind::SynOptions
            | Kind::TcpState
            | Kind::SendWindow
            | Kind::Retransmit
            | Kind::SocketBuffers
            | Kind::SocketOption
            | Kind::StateChange
            | Kind::Interface
            | Kind::Accept
            | Kind::WindowScale
            | Kind::SocketLayer => Some(sender),
            Kind::InputEnqueue
            | Kind::InputDequeue
            | Kind::ReceiveEnqueue
            | Kind::ReceiveDequeue
            | Kind::ReadReturn
            | Kind::Wakeup
            | Kind::Run => Some(sender.other()),
            Kind::Conversion => match self.conversion()?.is_incoming {
                false => Some(sender),
                true => Some(sender.other()),
            },
            // Behind point 4 it may be on the way from one host to the other.
            Kind::Drop => match self.packet_drop()?.last? {
                Point::InterfaceDequeue => None,
                last if last < Point::InterfaceDequeue => Some(sender),
                _ => Some(sender.other()),
            },
            Kind::Loss | Kind::LeftOut | Kind::Hop | Kind::HopDevice => None,
        }
    }

    /// Whether its row stands nearly in order of time. A loss, a time marked [`marks::DERIVED`] and a fact
    /// [learnt later](Kind::is_learnt_later) may stand behind any later time.
    pub fn is_in_order(&self) -> bool {
        let is_late = self.kind == Kind::Loss || self.kind.is_learnt_later();
        !is_late && !self.is_marked(marks::DERIVED)
    }

    /// Of a state of one end that lasts until the next record of its kind: 0, or of an option its level and number.
    /// `None` of other records.
    pub fn state_option(&self) -> Option<u32> {
        match self.kind {
            Kind::SendWindow | Kind::TcpState | Kind::SocketBuffers => Some(0),
            Kind::SocketOption => Some(self.extra),
            _ => None,
        }
    }

    /// Whether all bits of `mark` are set.
    #[inline]
    pub fn is_marked(&self, mark: u8) -> bool {
        self.marks & mark == mark
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_of_the_host_of_one_end_or_of_none() {
        let side = |kind, code, flow| Record { kind, code, flow, ..Record::default() }.side();
        let (client, server) = (FlowId(6), FlowId(7));
        let sides = Kind::ALL.map(|kind| (kind, side(kind, 0, client), side(kind, 0, server)));
        for (kind, of_client, of_server) in sides {
            assert_eq!(of_client.map(Side::other), of_server, "{kind:?}");
        }
        let ends = [Some(Side::Client), Some(Side::Server)];
        for (index, point) in Point::ALL.iter().enumerate() {
            let kind = Kind::from_code(point.number()).expect("a point");
            assert_eq!(side(kind, 0, client), ends[index / 4], "{point:?}");
        }
        let drops = [0, 3, 4, 5, 9].map(|last| side(Kind::Drop, last, client));
        assert_eq!(drops, [None, ends[0], None, ends[1], None]);
        assert_eq!([0, 1].map(|code| side(Kind::Conversion, code, client)), ends);
        let of_ends = [Kind::ReadReturn, Kind::Run, Kind::Accept, Kind::Hop, Kind::LeftOut];
        let found = of_ends.map(|kind| side(kind, 0, client));
        assert_eq!(found, [ends[1], ends[1], ends[0], None, None]);
    }
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
