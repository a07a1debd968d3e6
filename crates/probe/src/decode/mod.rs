//! From what a probe hit saw to records: sequence numbers become stream positions, one hit becomes
//! the points that it stands for, and rare events become what is known of a connection.
//!
//! Input is every raw record, merged over the CPUs in time order as far as clocks allow, and the
//! events of the ring buffer, which never come later than the records that need them. Output is nearly in
//! time order, but for what only a later hit shows. Nothing here reads a clock or the kernel.

mod age;
mod anchor;
mod arrivals;
mod connection;
mod connections;
mod datagram;
mod described;
mod event;
mod grouped;
mod holes;
mod in_transit;
mod options;
mod passage;
mod reads;
mod segment;
mod sockets;
#[cfg(test)]
mod tests;
mod threads;

use std::collections::{BTreeSet, VecDeque};

use sockscope_record::{Connection, ConnectionId, FlowId, Kind, Point, Record, Side, marks};

use crate::layout::{Raw, RawAny, RawRecord, RawTcpCopy, RawUdpCopy, constants as raw};
use connection::{ConnectionState, FlowState};
use connections::Connections;
use datagram::Packet;
use threads::Threads;

/// Connections whose announcements can have been lost in a row.
const NUMBERS_SKIPPED_MAX: usize = 1 << 20;

/// Turns raw records and events into [`Record`]s and [`Connection`]s.
#[derive(Default)]
pub(crate) struct Decoder {
    connections: Connections,
    early: options::Early,
    described: described::Described,
    sockets: reads::Sockets,
    incoming: reads::Incoming,
    /// Datagrams of which it is not known when they were read, since last asked.
    unplaced: u64,
    threads: Threads,
    age: age::Age,
    changed: BTreeSet<u32>,
    /// Forgotten since the last call of [`Decoder::take_forgotten`], and the last rows of those that had
    /// changed.
    forgotten: Vec<u32>,
    last_rows: Vec<Connection>,
    of_others: Vec<u32>,
    out: Vec<Record>,
    /// Records of events, in order of time, that wait for the hits before them.
    of_events: VecDeque<Record>,
    /// What to add to the scheduler's clock to get the trace's; `None` until calibrated.
    scheduler_offset_ns: Option<i64>,
    /// Whether point 5 has a hook of its own now; without it, loopback's is point 4.
    sees_input: bool,
    watch: holes::Watch,
    /// Of any connection, and of those of others.
    missed: [anchor::Missed; 2],
    unknown: age::Unknown,
}

impl Decoder {
    /// Records decoded since the last call; the buffer keeps its room.
    pub(crate) fn records(&mut self) -> &mut Vec<Record> {
        &mut self.out
    }

    /// Connections that opened since the last call because other users asked for them.
    pub(crate) fn take_of_others(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.of_others)
    }

    /// Connections of which something new became known since the last call.
    pub(crate) fn take_changed(&mut self) -> Vec<Connection> {
        let ids = std::mem::take(&mut self.changed);
        let mut rows = std::mem::take(&mut self.last_rows);
        rows.extend(ids.into_iter().filter_map(|id| Some(self.state(id)?.info.clone())));
        rows
    }

    /// Connections that were forgotten since the last call: no row and no record of them follows.
    pub(crate) fn take_forgotten(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.forgotten)
    }

    /// Tells how far the scheduler's clock is from the trace's.
    pub(crate) fn calibrate(&mut self, scheduler_offset_ns: i64) {
        self.scheduler_offset_ns = Some(scheduler_offset_ns);
    }

    /// Tells whether packets entering the input queue are observed by a hook of their own.
    pub(crate) fn see_input(&mut self, sees_input: bool) {
        self.sees_input = sees_input;
    }

    /// Events up to a time become records, behind those of the hits decoded so far.
    pub(crate) fn tell_events(&mut self, until_ns: u64) {
        while let Some(&record) = self.of_events.front()
            && record.at_ns <= until_ns
        {
            self.of_events.pop_front();
            self.out.push(record);
        }
    }

    /// What an event says becomes a record between those of the hits before and after it.
    fn tell_in_time(&mut self, record: Record) {
        let later = self.of_events.partition_point(|earlier| earlier.at_ns <= record.at_ns);
        self.of_events.insert(later, record);
    }

    /// One hit of a probe.
    pub(crate) fn raw(&mut self, cpu: u16, record: &RawRecord) {
        let head = Head::of(cpu, record.any());
        if self.watch.is_over(head.at_ns) {
            return;
        }
        self.tell_events(head.at_ns);
        match record.by_kind() {
            Some(Raw::UdpCopy(raw)) => self.read(head, raw),
            Some(Raw::UdpPacket(raw)) => self.datagrams(head, Packet::passed(raw)),
            Some(Raw::UdpReady(raw)) => self.datagrams(head, Packet::ready(raw)),
            Some(Raw::UdpDrop(raw)) => self.datagrams(head, Packet::dropped(raw)),
            Some(raw) => self.segment(head, raw),
            None => {}
        }
    }

    /// One hit of TCP.
    fn segment(&mut self, head: Head, raw: Raw<'_>) {
        let Some(state) = self.connections.of_mut(head.flow / 2) else {
            self.note_unknown(head.kind);
            return;
        };
        state.last_ns = head.at_ns;
        let head = if state.is_to_itself { head.folded_to_itself() } else { head };
        let point = point_of_raw(head.kind);
        let of_others = state.of_others;
        let missed = &mut self.missed[usize::from(of_others)];
        if let Raw::Anchor(raw) = raw {
            state.anchor(&head, raw, self.watch.missed_until(of_others), missed);
            return;
        }
        if !state.is_placed(&head, missed, point) {
            self.watch.lost_at(head.at_ns, point.as_slice(), of_others);
            return;
        }
        let enters_at_once = !self.sees_input && head.marks & raw::MARK_LOOPBACK != 0;
        let mut hit = Hit {
            head,
            out: &mut self.out,
            threads: &mut self.threads,
            scheduler_offset_ns: self.scheduler_offset_ns,
            enters_at_once,
            lost_until_ns: self.watch.lost_until_ns(of_others),
            is_passed_over: false,
        };
        let before = hit.out.len();
        segment::decode(&mut hit, state, raw);
        if let (true, Some(at)) = (hit.is_passed_over, point) {
            let since_ns = self.watch.missed_until(of_others)[at.index()];
            missed.leave(point, since_ns, head.at_ns);
        }
        self.watch.follow(state, &self.out[before..], head.at_ns);
    }

    /// Ends the recording: what was still held back becomes records.
    pub(crate) fn finish(&mut self) {
        self.tell_events(u64::MAX);
        for state in self.connections.iter_mut() {
            for flow in &mut state.flows {
                flow.settle_write(&mut self.out);
                flow.settle_arrivals(&mut self.out);
            }
        }
    }

    fn state(&self, id: u32) -> Option<&ConnectionState> {
        self.connections.get(id)
    }

    fn state_mut(&mut self, id: u32) -> Option<&mut ConnectionState> {
        self.connections.of_mut(id)
    }

    /// `None` for a number that cannot have followed those before.
    fn insert(&mut self, info: Connection) -> Option<&mut ConnectionState> {
        let id = info.id.0;
        if id as usize > self.connections.end() + NUMBERS_SKIPPED_MAX {
            return None;
        }
        self.changed.insert(id);
        Some(self.connections.insert(id, ConnectionState::new(info)))
    }
}

/// The fields of a raw record that all kinds have.
#[derive(Clone, Copy)]
struct Head {
    at_ns: u64,
    flow: u32,
    kind: u8,
    marks: u8,
    cpu: u16,
}

impl Head {
    fn of(cpu: u16, any: &RawAny) -> Self {
        let RawAny { at_ns, flow, kind, marks, .. } = *any;
        Self { at_ns, flow, kind, marks, cpu }
    }

    /// A socket connected to itself reads the bytes that it writes: its one stream is the client's.
    fn folded_to_itself(self) -> Self {
        Self { flow: self.flow & !1, ..self }
    }

    /// The flow's direction, as an index of the connection's flows.
    fn direction(&self) -> usize {
        (self.flow & 1) as usize
    }

    fn is_marked(&self, mark: u8) -> bool {
        self.marks & mark != 0
    }
}

/// The thread that reads, and the scheduler's counts for it.
#[derive(Clone, Copy)]
struct Reader {
    thread: u32,
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
struct Hit<'a> {
    head: Head,
    out: &'a mut Vec<Record>,
    threads: &'a mut Threads,
    scheduler_offset_ns: Option<i64>,
    /// A transmitted packet is in the input queue by the same function call: loopback.
    enters_at_once: bool,
    /// Hits by then may be in no list.
    lost_until_ns: u64,
    /// Hits before it were missed, so that it does not show which bytes passed by it.
    is_passed_over: bool,
}

impl Hit<'_> {
    /// A record at the hit's time, on its CPU and flow.
    fn record(&self, kind: Kind, offset: u64, len: u32) -> Record {
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
    fn marks(&self) -> u8 {
        let pairs = [
            (raw::MARK_AGGREGATED, marks::AGGREGATED),
            (raw::MARK_LOOPBACK, marks::LOOPBACK),
            (raw::MARK_RETRANSMITTED, marks::RETRANSMITTED),
        ];
        let is_set = |(from, _): &(u8, u8)| self.head.is_marked(*from);
        pairs.into_iter().filter(is_set).fold(0, |all, (_, to)| all | to)
    }

    /// When the thread of a copy last got its CPU, in the trace's clock; 0 when unknown.
    fn run_ns(&self, reader: Reader) -> u64 {
        match self.scheduler_offset_ns {
            Some(offset) if reader.last_arrival_ns > 0 => {
                reader.last_arrival_ns.saturating_add_signed(offset).min(self.head.at_ns)
            }
            _ => 0,
        }
    }

    /// A copy of which nothing else is known shows how long its thread has waited for a CPU so far.
    fn note_reader(&mut self, reader: Reader) {
        let at_ns = self.head.at_ns;
        self.threads.waited_ns(reader.thread, at_ns, reader.run_delay_ns, at_ns);
    }

    /// The copy to the reader: point 8, and what the scheduler did to the reader before it.
    fn copied(&mut self, flow: &mut FlowState, offset: u64, len: u32, reader: Reader) {
        let run_ns = self.run_ns(reader);
        let at_ns = self.head.at_ns;
        let Reader { thread, run_delay_ns, .. } = reader;
        let waited_ns = self.threads.waited_ns(thread, at_ns, run_delay_ns, flow.waiting_ns);
        if flow.woken_ns > 0 && run_ns > flow.woken_ns {
            let woken =
                Record { at_ns: flow.woken_ns, thread, ..self.record(Kind::Wakeup, offset, 0) };
            let run = Record { at_ns: run_ns, thread, ..self.record(Kind::Run, offset, 0) };
            self.out.extend([woken, run]);
        }
        flow.woken_ns = 0;
        flow.waiting_ns = at_ns;
        let record = Record {
            thread,
            detail: run_ns,
            extra: u32::try_from(waited_ns).unwrap_or(u32::MAX),
            ..self.record(Kind::ReceiveDequeue, offset, len)
        };
        self.out.push(record);
    }
}

/// The thread that sends or reads by this record, and at which end.
fn user(record: &Record) -> Option<(u32, Side)> {
    let direction = record.flow.direction();
    match record.kind {
        Kind::WriteCall => Some((record.thread, direction.sender())),
        Kind::ReceiveDequeue => Some((record.thread, direction.receiver())),
        _ => None,
    }
}

/// Notes what records of datagrams show of the two ends.
fn name_users(state: &mut ConnectionState, shown: &[Record], changed: &mut BTreeSet<u32>) {
    for record in shown {
        let is_named = user(record).is_some_and(|(thread, side)| state.confirm(thread, side));
        if state.uses_datagrams(record) || is_named {
            changed.insert(state.info.id.0);
        }
    }
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
fn connection_id(flow: u32) -> ConnectionId {
    FlowId(flow).connection()
}
