//! One raw record in the decoder: the fields that all kinds have, the decoder's
//! state outside the connection, and the records that it becomes.

use sockscope_record::{
    BufferSize, ConnectionId, FlowId, Kind, Point, Record, SocketBuffers, marks,
};

use super::positions::Positions;
use super::threads::Threads;
use crate::layout::{RawAny, RawCallReturn, RawTcpCopy, RawUdpCopy, constants as raw};

/// The fields of a raw record that all kinds have.
#[derive(Clone, Copy)]
pub(super) struct Head {
    pub(super) at_ns: u64,
    pub(super) flow: u32,
    pub(super) kind: u8,
    pub(super) marks: u8,
    pub(super) cpu: u16,
}

impl Head {
    pub(super) fn of(cpu: u16, any: &RawAny) -> Self {
        let RawAny { at_ns, flow, kind, marks, .. } = *any;
        Self { at_ns, flow, kind, marks, cpu }
    }

    /// A socket connected to itself reads the bytes that it writes: its one stream is the client's.
    pub(super) fn folded_to_itself(self) -> Self {
        Self { flow: self.flow & !1, ..self }
    }

    /// The flow's direction, as an index of the connection's flows.
    pub(super) fn direction(&self) -> usize {
        (self.flow & 1) as usize
    }

    pub(super) fn is_marked(&self, mark: u8) -> bool {
        self.marks & mark != 0
    }
}

/// The thread that reads, and the scheduler's counts for it.
#[derive(Clone, Copy)]
pub(super) struct Reader {
    pub(super) thread: u32,
    run_delay_ns: u64,
    last_arrival_ns: u64,
}

impl From<&RawTcpCopy> for Reader {
    fn from(raw: &RawTcpCopy) -> Self {
        let RawTcpCopy { thread, run_delay_ns, last_arrival_ns, .. } = *raw;
        Self { thread, run_delay_ns, last_arrival_ns }
    }
}

impl From<&RawUdpCopy> for Reader {
    fn from(raw: &RawUdpCopy) -> Self {
        let RawUdpCopy { thread, run_delay_ns, last_arrival_ns, .. } = *raw;
        Self { thread, run_delay_ns, last_arrival_ns }
    }
}

/// One raw record being decoded.
pub(super) struct Hit<'a> {
    pub(super) head: Head,
    pub(super) out: &'a mut Vec<Record>,
    pub(super) threads: &'a mut Threads,
    pub(super) scheduler_offset_ns: Option<i64>,
    /// A transmitted packet is in the input queue by the same function call: loopback.
    pub(super) enters_at_once: bool,
    /// Hits by then may be in no list.
    pub(super) lost_until_ns: u64,
    /// Hits before it were missed, so that it does not show which bytes passed by it.
    pub(super) is_passed_over: bool,
    /// Neither the SYN of its flow is known nor a sequence number of a socket.
    pub(super) has_no_position: bool,
}

impl Hit<'_> {
    /// The position of the sequence number of a socket here; where that is not known the hit counts as
    /// missed.
    pub(super) fn position(&mut self, positions: &mut Positions, sequence: u32) -> Option<u64> {
        let position = positions.of(sequence);
        self.has_no_position = position.is_none();
        position
    }

    /// A record at the hit's time, on its CPU and flow.
    pub(super) fn record(&self, kind: Kind, offset: u64, len: u32) -> Record {
        Record {
            at_ns: self.head.at_ns,
            offset,
            len,
            flow: FlowId(self.head.flow),
            kind,
            cpu: self.head.cpu,
            ..Record::default()
        }
    }

    /// Marks of a record from those of the hit.
    pub(super) fn marks(&self) -> u8 {
        let pairs = [
            (raw::MARK_AGGREGATED, marks::AGGREGATED),
            (raw::MARK_LOOPBACK, marks::LOOPBACK),
            (raw::MARK_RETRANSMITTED, marks::RETRANSMITTED),
        ];
        let is_set = |(from, _): &(u8, u8)| self.head.is_marked(*from);
        pairs.into_iter().filter(is_set).fold(0, |all, (_, to)| all | to)
    }

    /// When the thread of a copy last got its CPU, in the trace's clock; 0 when unknown.
    pub(super) fn run_ns(&self, reader: Reader) -> u64 {
        match self.scheduler_offset_ns {
            Some(offset) if reader.last_arrival_ns > 0 => {
                reader.last_arrival_ns.saturating_add_signed(offset).min(self.head.at_ns)
            }
            _ => 0,
        }
    }

    /// See [`Threads::waited_ns`].
    pub(super) fn waited_ns(&mut self, reader: Reader, since_ns: u64) -> u64 {
        let Reader { thread, run_delay_ns, .. } = reader;
        self.threads.waited_ns(thread, self.head.at_ns, run_delay_ns, since_ns)
    }

    /// A call shows the time that its thread has waited for a CPU so far. Gives the share since its last call.
    pub(super) fn note_thread(&mut self, thread: u32, run_delay_ns: u64) -> u64 {
        let at_ns = self.head.at_ns;
        self.threads.waited_ns(thread, at_ns, run_delay_ns, at_ns)
    }

    /// A copy without other knowledge shows this time too.
    pub(super) fn note_reader(&mut self, reader: Reader) {
        self.note_thread(reader.thread, reader.run_delay_ns);
    }

    /// A send or receive call returned.
    pub(super) fn call_returned(
        &mut self,
        positions: &mut Positions,
        raw: &RawCallReturn,
        kind: Kind,
    ) {
        self.note_thread(raw.thread, raw.run_delay_ns);
        let Some(end) = positions.of(raw.end_seq) else { return };
        let offset = end.saturating_sub(u64::from(raw.len));
        let record = self.record(kind, offset, raw.len);
        self.out.push(Record { thread: raw.thread, ..record }.with_errno(raw.error));
    }
}

/// The buffers of a socket, by their sizes in bytes (send, receive) and the kernel's `sk_userlocks`:
/// `SOCK_SNDBUF_LOCK` is 1, `SOCK_RCVBUF_LOCK` is 2 (include/net/sock.h).
pub(super) fn socket_buffers((sndbuf, rcvbuf): (u32, u32), userlocks: u64) -> SocketBuffers {
    let size = |bytes, lock| BufferSize { bytes, is_set_by_program: userlocks & lock != 0 };
    SocketBuffers { send: size(sndbuf, 1), receive: size(rcvbuf, 2) }
}

/// The point at which a missed raw record would have been recorded.
pub(crate) fn point_of_raw(kind: u8) -> Option<Point> {
    match kind {
        raw::RAW_WRITE => Some(Point::SendEnqueue),
        raw::RAW_QUEUED => Some(Point::InterfaceEnqueue),
        raw::RAW_TRANSMIT => Some(Point::InterfaceDequeue),
        raw::RAW_INPUT => Some(Point::InputEnqueue),
        raw::RAW_RECEIVE => Some(Point::InputDequeue),
        raw::RAW_READY => Some(Point::ReceiveEnqueue),
        raw::RAW_COPY => Some(Point::ReceiveDequeue),
        _ => None,
    }
}

/// The connection with this number.
pub(super) fn connection_id(flow: u32) -> ConnectionId {
    FlowId(flow).connection()
}
