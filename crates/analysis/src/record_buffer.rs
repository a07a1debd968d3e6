//! The records of one connection in order of arrival, kept until the connection is analysed.
//!
//! Chunks, not one growing list: nothing is copied to grow. When a connection has filled the largest chunk, its
//! records are sorted by flow and point, and the chunk is used again. So a large connection has each record in memory
//! once, and the system lengthens its sorted lists without a copy.

use sockscope_record::{Connection, Direction, Kind, Point, Record, marks};

use crate::store::reserve;
use crate::{ConnectionStore, Events, FlowStore, Passage};

const CHUNK_RECORDS_MIN: usize = 32;
const CHUNK_RECORDS_MAX: usize = 4096;
/// The list after the lists of the eight points.
const EVENTS: usize = 8;

/// Records of one connection in the order of arrival.
#[derive(Debug, Default)]
pub(crate) struct RecordBuffer {
    /// Those that are not in `sorted`.
    chunks: Vec<Vec<Record>>,
    /// By direction; `None` until the largest chunk is full for the first time.
    sorted: Option<Box<[Lists; 2]>>,
}

/// Records of one flow by point, in the order of arrival.
#[derive(Debug, Default)]
struct Lists {
    passages: [Vec<Passage>; EVENTS],
    events: Events,
}

impl RecordBuffer {
    pub(crate) fn push(&mut self, record: Record) {
        match self.chunks.last_mut() {
            Some(chunk) if chunk.len() < chunk.capacity() => chunk.push(record),
            _ => self.push_behind(record),
        }
    }

    /// Into another chunk, or into the largest one when its records are sorted.
    #[cold]
    fn push_behind(&mut self, record: Record) {
        let last = self.chunks.last().map_or(0, Vec::capacity);
        if last < CHUNK_RECORDS_MAX {
            let size = (last * 2).clamp(CHUNK_RECORDS_MIN, CHUNK_RECORDS_MAX);
            self.chunks.push(Vec::with_capacity(size));
        } else {
            self.sort_chunks();
            self.chunks.drain(..self.chunks.len() - 1);
            self.chunks[0].clear();
        }
        self.chunks.last_mut().expect("there is one now").push(record);
    }

    /// Puts the records of all chunks into the sorted lists.
    fn sort_chunks(&mut self) {
        let lists = self.sorted.get_or_insert_default();
        let records = || self.chunks.iter().flatten();
        let mut counts = [[0; EVENTS + 1]; 2];
        for record in records() {
            counts[record.flow.direction() as usize][list_of(record)] += 1;
        }
        for (lists, counts) in lists.iter_mut().zip(&counts) {
            lists.reserve(counts);
        }
        for record in records() {
            lists[record.flow.direction() as usize].push(record);
        }
    }

    /// Records so far.
    pub(crate) fn len(&self) -> u64 {
        let sorted = self.sorted.iter().flat_map(|lists| lists.iter()).map(Lists::len);
        (self.chunks.iter().map(Vec::len).sum::<usize>() + sorted.sum::<usize>()) as u64
    }

    /// Sorts the records by flow and point, each list by time, equal times in order of arrival.
    pub(crate) fn into_store(mut self, connection: Connection) -> ConnectionStore {
        let count = self.len();
        self.sort_chunks();
        drop(self.chunks);
        let id = connection.id;
        let mut lists = *self.sorted.unwrap_or_default();
        debug_assert_eq!(count, lists.iter().map(Lists::len).sum::<usize>() as u64);
        let flows = [Direction::FromClient, Direction::FromServer].map(|direction| {
            let Lists { mut passages, mut events } = std::mem::take(&mut lists[direction as usize]);
            for passes in &mut passages {
                if !passes.is_sorted_by_key(|pass| pass.at_ns) {
                    passes.sort_by_key(|pass| pass.at_ns);
                }
            }
            events.sort_by_time();
            FlowStore { id: id.flow(direction), passages, events }
        });
        ConnectionStore { connection, flows, window: None }
    }
}

impl Lists {
    fn push(&mut self, record: &Record) {
        match Passage::of(record).filter(|_| !is_gone(record)) {
            Some(pass) => self.passages[pass.point.index()].push(pass),
            None => self.events.push(*record),
        }
    }

    /// Makes room for these numbers of further records in each list.
    fn reserve(&mut self, counts: &[usize; EVENTS + 1]) {
        for (passes, count) in self.passages.iter_mut().zip(counts) {
            reserve(passes, *count);
        }
        self.events.reserve(counts[EVENTS]);
    }

    fn len(&self) -> usize {
        self.passages.iter().map(Vec::len).sum::<usize>() + self.events.len()
    }
}

/// A datagram that has left the receive queue by the time of the record passed no point then.
fn list_of(record: &Record) -> usize {
    let point = record.point().filter(|_| !is_gone(record));
    point.map_or(EVENTS, Point::index)
}

/// Whether the record shows that bytes have left the receive queue by then, read or discarded.
pub(crate) fn is_gone(record: &Record) -> bool {
    record.kind == Kind::ReceiveDequeue && record.is_marked(marks::DERIVED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sockscope_record::{ConnectionId, Protocol};

    const ID: ConnectionId = ConnectionId(7);

    fn connection() -> Connection {
        let nowhere = ([127, 0, 0, 1], 1).into();
        Connection {
            id: ID,
            protocol: Protocol::Tcp,
            client: nowhere,
            server: nowhere,
            opened_ns: 0,
            closed_ns: None,
            preexisting: false,
            both_ends_here: true,
            processes: Vec::new(),
            names: None,
            mark: None,
            elsewhere: None,
        }
    }

    /// Of both flows and many kinds; times mostly grow, and each is there several times.
    fn record(number: u64) -> Record {
        let direction =
            if number.is_multiple_of(3) { Direction::FromServer } else { Direction::FromClient };
        let kind = Kind::ALL[(number * 7 % 11) as usize];
        let marks = if number.is_multiple_of(5) { marks::DERIVED } else { 0 };
        let at_ns = number / 4 + number % 13;
        Record { at_ns, offset: number, flow: ID.flow(direction), kind, marks, ..Record::default() }
    }

    #[test]
    fn however_many_there_are_all_are_sorted_by_flow_point_and_time() {
        // Before, at and behind the sizes at which a chunk is full and the chunks are sorted.
        let full = 2 * CHUNK_RECORDS_MAX - CHUNK_RECORDS_MIN;
        for count in [0, 1, 32, 33, full, full + 1, full + CHUNK_RECORDS_MAX + 1, 3 * full] {
            let mut buffer = RecordBuffer::default();
            let mut records: Vec<Record> = (0..count as u64).map(record).collect();
            records.iter().for_each(|record| buffer.push(*record));
            assert_eq!(buffer.len(), count as u64);
            let store = buffer.into_store(connection());
            records.sort_by_key(|record| record.at_ns);
            for flow in &store.flows {
                let own = || records.iter().filter(|record| record.flow == flow.id);
                for point in Point::ALL {
                    let passes = own().filter(|it| it.point() == Some(point) && !is_gone(it));
                    assert!(passes.filter_map(Passage::of).eq(flow.at(point).iter().copied()));
                }
                let events = own().filter(|it| it.point().is_none() || is_gone(it));
                assert!(events.eq(&flow.events), "{count} records");
            }
        }
    }
}
