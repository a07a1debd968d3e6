//! The records of one connection in order of arrival, kept until the connection is analysed.
//!
//! Chunks, not one growing list: nothing is ever copied to grow, and a chunk is freed as soon as its
//! records are sorted by point, so that the two forms never stand side by side in full.

use sockscope_record::{Connection, Direction, Kind, Point, Record, marks};

use crate::{ConnectionStore, Events, FlowStore, Passage};

const CHUNK_RECORDS_MIN: usize = 32;
const CHUNK_RECORDS_MAX: usize = 4096;
/// The list after those of the eight points.
const EVENTS: usize = 8;

/// Records of one connection in the order of arrival.
#[derive(Debug, Default)]
pub(crate) struct RecordBuffer {
    chunks: Vec<Vec<Record>>,
    /// Records by flow, then by point, events last.
    counts: [[usize; EVENTS + 1]; 2],
}

impl RecordBuffer {
    pub(crate) fn push(&mut self, record: Record) {
        self.counts[record.flow.direction() as usize][list_of(&record)] += 1;
        match self.chunks.last_mut() {
            Some(chunk) if chunk.len() < chunk.capacity() => chunk.push(record),
            last => {
                let size = last.map_or(CHUNK_RECORDS_MIN, |chunk| chunk.capacity() * 2);
                let mut chunk = Vec::with_capacity(size.min(CHUNK_RECORDS_MAX));
                chunk.push(record);
                self.chunks.push(chunk);
            }
        }
    }

    /// Records so far.
    pub(crate) fn len(&self) -> u64 {
        self.counts.iter().flatten().map(|count| *count as u64).sum()
    }

    /// Sorts the records by flow and point, each list by time, equal times in order of arrival.
    pub(crate) fn into_store(self, connection: Connection) -> ConnectionStore {
        let id = connection.id;
        let mut flows = [Direction::FromClient, Direction::FromServer].map(|direction| {
            let counts = &self.counts[direction as usize];
            FlowStore {
                id: id.flow(direction),
                passages: std::array::from_fn(|point| Vec::with_capacity(counts[point])),
                events: Events::with_capacity(counts[EVENTS]),
            }
        });
        for record in self.chunks.into_iter().flatten() {
            let flow = &mut flows[record.flow.direction() as usize];
            match Passage::of(&record).filter(|_| !is_gone(&record)) {
                Some(pass) => flow.passages[pass.point.index()].push(pass),
                None => flow.events.push(record),
            }
        }
        for (flow, counts) in flows.iter_mut().zip(&self.counts) {
            sort_by_time(flow);
            let lists = flow.passages.iter().map(Vec::len).chain([flow.events.len()]);
            debug_assert!(lists.eq(counts.iter().copied()), "no record is in two lists or in none");
        }
        ConnectionStore { connection, flows }
    }
}

/// A datagram that has left the receive queue by the time of the record passed no point then.
fn list_of(record: &Record) -> usize {
    let point = record.point().filter(|_| !is_gone(record));
    point.map_or(EVENTS, Point::index)
}

/// Whether the record says of bytes that they have left the receive queue by then, read or thrown away.
pub(crate) fn is_gone(record: &Record) -> bool {
    record.kind == Kind::ReceiveDequeue && record.is_marked(marks::DERIVED)
}

fn sort_by_time(flow: &mut FlowStore) {
    for passes in &mut flow.passages {
        if !passes.is_sorted_by_key(|pass| pass.at_ns) {
            passes.sort_by_key(|pass| pass.at_ns);
        }
    }
    flow.events.sort_by_time();
}
