//! Records sorted by connection, flow and point: the input of every analysis.

use std::ops::Deref;
use std::slice::Iter;

use sockscope_record::{
    Connection, Direction, FlowId, Hold, Kind, Point, ReaderTimes, Record, SegmentHeader,
};

/// One passage of bytes through one point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passage {
    /// When, in nanoseconds of the trace's clock.
    pub at_ns: u64,
    /// Position of the first byte.
    pub offset: u64,
    detail: u64,
    /// Bytes.
    pub len: u32,
    /// As in the record of that point.
    pub thread: u32,
    extra: u32,
    code: u8,
    /// As in the record of that point.
    pub tcp_flags: u8,
    /// As in the record of that point.
    pub marks: u8,
    /// Which point.
    pub point: Point,
}

impl Passage {
    /// That of the bytes of a record; `None` of an event of no point.
    pub fn of(record: &Record) -> Option<Self> {
        Some(Self {
            at_ns: record.at_ns,
            offset: record.offset,
            detail: record.detail,
            len: record.len,
            thread: record.thread,
            extra: record.extra,
            code: record.code,
            tcp_flags: record.tcp_flags,
            marks: record.marks,
            point: record.point()?,
        })
    }

    /// The record that it was made from, of `flow`; the CPU is not kept and is 0.
    pub fn record(&self, flow: FlowId) -> Record {
        Record {
            at_ns: self.at_ns,
            offset: self.offset,
            detail: self.detail,
            flow,
            len: self.len,
            thread: self.thread,
            extra: self.extra,
            kind: Kind::from(self.point),
            code: self.code,
            tcp_flags: self.tcp_flags,
            marks: self.marks,
            cpu: 0,
        }
    }

    /// Points 1 and 2: hold of the bytes, or of those after them; [`Hold::None`] at other points.
    pub fn hold(&self) -> Hold {
        self.record(FlowId::default()).hold().unwrap_or_default()
    }

    /// Position in the reverse flow that its segment acknowledges; 0 if none.
    pub fn acknowledged(&self) -> u64 {
        self.header().acknowledged.unwrap_or(0)
    }

    /// Bytes of the window that its segment offers; 0 if none.
    pub fn window_bytes(&self) -> u32 {
        self.header().window_bytes
    }

    /// Position in the reverse flow up to which its segment allows to send: its acknowledgment plus the window
    /// (RFC 9293 §3.3.1).
    pub fn window_edge(&self) -> u64 {
        self.acknowledged().saturating_add(self.window_bytes().into())
    }

    /// Point 8: the scheduler's times of the reader; unknown at other points.
    pub fn reader_times(&self) -> ReaderTimes {
        self.record(FlowId::default()).reader_times().unwrap_or_default()
    }

    fn header(&self) -> SegmentHeader {
        self.record(FlowId::default()).segment_header().unwrap_or_default()
    }

    /// Position after the last byte; `u64::MAX` where it lies beyond 64 bits.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(u64::from(self.len))
    }
}

/// All that was seen of one flow, each list in time order.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowStore {
    /// Which flow.
    pub id: FlowId,
    /// Passes by point, in the order of [`Point::ALL`]; segments without data (pure ACKs) at
    /// points 3 to 6 included, with `len` 0.
    pub passages: [Vec<Passage>; 8],
    /// Every event of no point; also records of point 8 that are marked `DERIVED`: these bytes have
    /// left the receive queue by then, at a time that was not recorded.
    pub events: Events,
}

impl FlowStore {
    /// The events of one kind, in time order.
    pub fn events_of(&self, kind: Kind) -> impl DoubleEndedIterator<Item = &Record> {
        self.events_with(&[kind]).iter().filter(move |event| event.kind == kind)
    }

    /// All events, or an empty list if no event is of these kinds.
    pub(crate) fn events_with(&self, kinds: &[Kind]) -> &[Record] {
        if self.events.has(kinds) { &self.events } else { &[] }
    }

    /// When the first record of the flow was taken, nanoseconds of the trace's clock; `None` without one.
    pub(crate) fn first_ns(&self) -> Option<u64> {
        let passes = self.passages.iter().filter_map(|passes| passes.first());
        let events = self.events.first().map(|event| event.at_ns);
        passes.map(|pass| pass.at_ns).chain(events).min()
    }

    /// Passes at one point, in time order.
    pub fn at(&self, point: Point) -> &[Passage] {
        &self.passages[point.index()]
    }
}

/// Makes room for `count` more. A list that has to grow grows by half, if the address space is large enough.
pub(crate) fn reserve<T>(list: &mut Vec<T>, count: usize) {
    if list.capacity() - list.len() < count
        && list.try_reserve_exact(count.max(list.len() / 2)).is_err()
    {
        list.reserve_exact(count);
    }
}

/// All that was seen of one connection.
#[derive(Debug, Clone, PartialEq)]
pub struct ConnectionStore {
    /// Addresses, protocol, processes.
    pub connection: Connection,
    /// From the client, then from the server.
    pub flows: [FlowStore; 2],
    /// That of its records; `None` of a whole trace, where each ledger lasts from the first record of its flow to the
    /// last one of the connection.
    pub window: Option<StoreWindow>,
}

/// The part of a connection's time that its records are of: see [`Window`](crate::Window).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreWindow {
    /// Start of its ledgers, nanoseconds of the trace's clock.
    pub since_ns: u64,
    /// Their end.
    pub until_ns: u64,
    /// By flow and point, whether bytes passed before the window.
    pub watched: [[bool; 8]; 2],
    /// By flow, the position before which all bytes were read before the window.
    pub floors: [u64; 2],
}

/// Records of events, with the kinds that are among them. Most flows have few kinds: a rule reads the events only
/// where it can find one of its own.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Events {
    list: Vec<Record>,
    /// One bit for each kind.
    kinds: u64,
}

impl Events {
    /// Appends one.
    pub fn push(&mut self, event: Record) {
        self.kinds |= bit(event.kind);
        self.list.push(event);
    }

    /// Keeps those for which `is_kept` holds.
    pub(crate) fn retain(&mut self, is_kept: impl FnMut(&Record) -> bool) {
        self.list.retain(is_kept);
        self.kinds = self.list.iter().fold(0, |kinds, event| kinds | bit(event.kind));
    }

    /// Sorts them by time, equal times in the order in which they are.
    pub fn sort_by_time(&mut self) {
        if !self.list.is_sorted_by_key(|event| event.at_ns) {
            self.list.sort_by_key(|event| event.at_ns);
        }
    }

    /// Whether one of these kinds is among them.
    pub(crate) fn has(&self, kinds: &[Kind]) -> bool {
        kinds.iter().any(|kind| self.kinds & bit(*kind) != 0)
    }

    /// Makes room for `count` more.
    pub(crate) fn reserve(&mut self, count: usize) {
        reserve(&mut self.list, count);
    }
}

impl Deref for Events {
    type Target = [Record];

    fn deref(&self) -> &[Record] {
        &self.list
    }
}

impl<'a> IntoIterator for &'a Events {
    type Item = &'a Record;
    type IntoIter = Iter<'a, Record>;

    fn into_iter(self) -> Iter<'a, Record> {
        self.list.iter()
    }
}

/// Kinds have codes below 64.
fn bit(kind: Kind) -> u64 {
    const { assert!((Kind::Conversion as u8) < 64) };
    1 << (kind as u8)
}

impl ConnectionStore {
    /// The flow in one direction.
    pub fn flow(&self, direction: Direction) -> &FlowStore {
        &self.flows[direction as usize]
    }

    /// The flow that carries the acknowledgments of the one in `direction`: the other one, and of a
    /// socket connected to itself the same.
    pub fn reverse(&self, direction: Direction) -> &FlowStore {
        let own = direction as usize;
        &self.flows[if self.connection.is_to_itself() { own } else { 1 - own }]
    }

    /// Time of the first record of all; `None` without one.
    pub(crate) fn start_ns(&self) -> Option<u64> {
        let flows = self.flows.iter();
        let passes = flows.clone().flat_map(|flow| &flow.passages).filter_map(|list| list.first());
        let events = flows.filter_map(|flow| flow.events.first()).map(|event| event.at_ns);
        passes.map(|pass| pass.at_ns).chain(events).min()
    }

    /// Since when sampling left the connection out: nothing later of it was recorded.
    pub fn left_out_ns(&self) -> Option<u64> {
        self.flows[0].events_of(Kind::LeftOut).next().map(|event| event.at_ns)
    }

    /// Time of the last record of all; `None` without one.
    pub(crate) fn last_ns(&self) -> Option<u64> {
        let flows = self.flows.iter();
        let passes = flows.clone().flat_map(|flow| &flow.passages).filter_map(|list| list.last());
        let events = flows.filter_map(|flow| flow.events.last()).map(|event| event.at_ns);
        passes.map(|pass| pass.at_ns).chain(events).max()
    }

    /// End of its ledgers: that of the window, else the last record; `None` without either.
    pub(crate) fn end_ns(&self) -> Option<u64> {
        self.window.map(|window| window.until_ns).or_else(|| self.last_ns())
    }

    /// Times of the first and the last record of all; `None` without one.
    pub fn span_ns(&self) -> Option<(u64, u64)> {
        Some((self.start_ns()?, self.last_ns()?))
    }

    /// Time of the first passage of any point, nanoseconds of the trace's clock; `None` without one.
    pub fn first_ns(&self) -> Option<u64> {
        let passes = self.flows.iter().flat_map(|flow| &flow.passages);
        passes.filter_map(|passes| passes.first()).map(|pass| pass.at_ns).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn a_position_beyond_64_bits_ends_at_the_largest_one() {
        let pass = testing::store("1 1 0..100").flows[0].at(Point::SendEnqueue)[0];
        assert_eq!(Passage { offset: u64::MAX - 9, ..pass }.end(), u64::MAX);
    }
}
