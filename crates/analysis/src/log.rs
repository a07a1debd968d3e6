//! Records of one connection as they come, kept until the connection is analysed.
//!
//! Chunks, not one growing list: nothing is ever copied to grow, and a chunk is freed as soon as its
//! records are sorted by point, so that the two forms never stand side by side in full.

use sockscope_record::{Connection, Direction, Record};

use crate::{ConnectionStore, FlowStore, Pass};

const CHUNK_RECORDS_MIN: usize = 32;
const CHUNK_RECORDS_MAX: usize = 4096;

/// Records of one connection in the order of arrival.
#[derive(Debug, Default)]
pub(crate) struct ConnectionLog {
    chunks: Vec<Vec<Record>>,
    /// Records by flow, then by point, events last.
    counts: [[usize; 9]; 2],
}

impl ConnectionLog {
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

    /// Sorts the records by flow and point, each list by time, equal times in order of arrival.
    pub(crate) fn into_store(self, connection: Connection) -> ConnectionStore {
        let id = connection.id;
        let mut flows = [Direction::FromClient, Direction::FromServer].map(|direction| {
            let counts = &self.counts[direction as usize];
            FlowStore {
                id: id.flow(direction),
                passes: std::array::from_fn(|point| Vec::with_capacity(counts[point])),
                events: Vec::with_capacity(counts[8]),
            }
        });
        for record in self.chunks.into_iter().flatten() {
            let flow = &mut flows[record.flow.direction() as usize];
            match record.point() {
                Some(point) => flow.passes[point.index()].push(pass_of(&record)),
                None => flow.events.push(record),
            }
        }
        for flow in &mut flows {
            sort_by_time(flow);
        }
        ConnectionStore { connection, flows }
    }
}

fn list_of(record: &Record) -> usize {
    record.point().map_or(8, sockscope_record::Point::index)
}

fn pass_of(record: &Record) -> Pass {
    Pass {
        at_ns: record.at_ns,
        offset: record.offset,
        detail: record.detail,
        len: record.len,
        thread: record.thread,
        extra: record.extra,
        code: record.code,
        tcp_flags: record.tcp_flags,
        marks: record.marks,
    }
}

fn sort_by_time(flow: &mut FlowStore) {
    for passes in &mut flow.passes {
        if !passes.is_sorted_by_key(|pass| pass.at_ns) {
            passes.sort_by_key(|pass| pass.at_ns);
        }
    }
    if !flow.events.is_sorted_by_key(|event| event.at_ns) {
        flow.events.sort_by_key(|event| event.at_ns);
    }
}
