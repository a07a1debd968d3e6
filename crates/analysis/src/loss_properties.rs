//! Random streams over loopback, of which a recorder's lists had no room for all.
//!
//! One hit of point 4 records points 2 to 5, and its loss tells of point 4 alone. Each of two CPUs has a list with
//! room for some hits. A look empties both, and counts the hits since the look before that found no room. The first
//! hit of point 7 or 8 after a loss does not show which bytes passed by it: see [`Behind`].

use proptest::prelude::*;
use sockscope_record::{ConnectionId, Direction, FlowId, Kind, Point, Record, Stage, marks};

use crate::{Analyzer, FlowCurves, testing};

/// What the kernel ran at one time, told as of one point.
#[derive(Debug, Clone, Copy)]
struct Hit {
    at_ns: u64,
    cpu: usize,
    told: Point,
    start: u64,
    end: u64,
}

/// What the first hit of points 7 and 8 after a loss leaves.
#[derive(Debug, Clone, Copy)]
enum Behind {
    /// Its bytes, which are known by other means.
    Own,
    /// All bytes since the last record.
    All,
    /// A loss: it counts as missed.
    Loss,
}

/// One segment, all sizes and times small.
#[derive(Debug, Clone, Copy)]
struct Segment {
    bytes: u64,
    pause: u64,
    sender_cpu: usize,
    reader_cpu: usize,
}

#[derive(Debug, Clone)]
struct Plan {
    segments: Vec<Segment>,
    /// Segments of a write, and of a read.
    writes: Vec<usize>,
    reads: Vec<usize>,
    /// Times between looks.
    looks: Vec<u64>,
    /// Hits that a list has room for.
    room: usize,
    behind: Behind,
}

fn plans() -> impl Strategy<Value = Plan> {
    let segment = (1u64..50, 1u64..30, 0usize..2, 0usize..2);
    let segment = segment.prop_map(|(bytes, pause, sender_cpu, reader_cpu)| Segment {
        bytes,
        pause,
        sender_cpu,
        reader_cpu,
    });
    let counts = || prop::collection::vec(1usize..5, 1..6);
    let looks = prop::collection::vec(1u64..200, 1..8);
    let behind = prop_oneof![Just(Behind::Own), Just(Behind::All), Just(Behind::Loss)];
    let lists = (looks, 1usize..20, behind);
    (prop::collection::vec(segment, 1..50), counts(), counts(), lists).prop_map(
        |(segments, writes, reads, (looks, room, behind))| Plan {
            segments,
            writes,
            reads,
            looks,
            room,
            behind,
        },
    )
}

/// The hits of the stream in time order. No two have the same time.
fn hits(plan: &Plan) -> Vec<Hit> {
    let mut hits: Vec<Hit> = Vec::new();
    let mut at_ns = 0;
    let (mut writes, mut reads) = (plan.writes.iter().cycle(), plan.reads.iter().cycle());
    let (mut written, mut sent, mut read) = (0, 0, 0);
    let mut to_read = *reads.next().unwrap();
    for (index, segment) in plan.segments.iter().enumerate() {
        let mut hit = |told, cpu, start, end| {
            at_ns += 10;
            hits.push(Hit { at_ns, cpu, told, start, end });
        };
        let end = sent + segment.bytes;
        if written < end {
            let count = *writes.next().unwrap();
            let segments = plan.segments[index..].iter().take(count);
            let to = sent + segments.map(|segment| segment.bytes).sum::<u64>();
            hit(Point::SendEnqueue, segment.sender_cpu, written, to);
            written = to;
        }
        for told in [Point::InterfaceDequeue, Point::InputDequeue, Point::ReceiveEnqueue] {
            hit(told, segment.sender_cpu, sent, end);
        }
        sent = end;
        to_read -= 1;
        if to_read == 0 || index + 1 == plan.segments.len() {
            hit(Point::ReceiveDequeue, segment.reader_cpu, read, end);
            read = end;
            to_read = *reads.next().unwrap();
        }
        at_ns += segment.pause * 10;
    }
    hits
}

fn record(point: Point, at_ns: u64, start: u64, end: u64) -> Record {
    Record {
        at_ns,
        kind: point.into(),
        flow: ConnectionId(1).flow(Direction::FromClient),
        offset: start,
        len: (end - start) as u32,
        marks: marks::LOOPBACK,
        ..Record::default()
    }
}

fn loss(point: Point, since_ns: u64, at_ns: u64, count: u64) -> Record {
    Record {
        at_ns,
        kind: Kind::Loss,
        flow: FlowId(0),
        code: point.number(),
        offset: since_ns,
        detail: count,
        marks: marks::ANCHORED,
        ..Record::default()
    }
}

impl Hit {
    fn records(&self) -> Vec<Record> {
        let points = self.told.of_hit().iter().zip(0..);
        points
            .filter(|(point, _)| self.told == Point::InterfaceDequeue || **point == self.told)
            .map(|(point, after)| record(*point, self.at_ns + after, self.start, self.end))
            .collect()
    }
}

/// Records that a recorder makes of the hits.
fn recorded(plan: &Plan, hits: &[Hit]) -> Vec<Record> {
    let mut out = Vec::new();
    let mut used = [0; 2];
    let mut missed = [0; 8];
    let mut is_behind = [false; 8];
    let mut recorded = [0; 8];
    let mut looks = plan.looks.iter().cycle();
    // Between two hits.
    let (mut looked_ns, mut next_ns) = (0, 7 + looks.next().unwrap() * 10);
    let look = |since_ns, at_ns, missed: &mut [u64; 8], out: &mut Vec<Record>| {
        let counts = Point::ALL.into_iter().zip(std::mem::take(missed));
        let counts = counts.filter(|(_, count)| *count > 0);
        out.extend(counts.map(|(point, count)| loss(point, since_ns, at_ns, count)));
    };
    for hit in hits {
        while hit.at_ns > next_ns {
            look(looked_ns, next_ns, &mut missed, &mut out);
            used = [0; 2];
            looked_ns = next_ns;
            next_ns += looks.next().unwrap() * 10;
        }
        let told = hit.told.index();
        if used[hit.cpu] >= plan.room {
            missed[told] += 1;
            is_behind[told] = true;
            continue;
        }
        used[hit.cpu] += 1;
        let is_first = std::mem::take(&mut is_behind[told]);
        match plan.behind {
            Behind::All if is_first && told >= Point::ReceiveEnqueue.index() => {
                out.push(record(hit.told, hit.at_ns, recorded[told], hit.end));
            }
            Behind::Loss if is_first && told >= Point::ReceiveEnqueue.index() => {
                out.push(loss(hit.told, looked_ns, hit.at_ns, 1));
            }
            _ => out.extend(hit.records()),
        }
        recorded[told] = hit.end;
    }
    look(looked_ns, next_ns, &mut missed, &mut out);
    out
}

/// By point, when each byte first passed.
fn passed_ns(hits: &[Hit]) -> Vec<Vec<u64>> {
    let bytes = hits.iter().map(|hit| hit.end).max().unwrap_or(0) as usize;
    let mut passed = vec![vec![u64::MAX; bytes]; 8];
    for record in hits.iter().flat_map(Hit::records) {
        let here = &mut passed[record.point().unwrap().index()];
        for first_ns in &mut here[record.offset as usize..record.end() as usize] {
            *first_ns = (*first_ns).min(record.at_ns);
        }
    }
    passed
}

fn length_at(passed_ns: &[Vec<u64>], stage: Stage, at_ns: u64) -> u64 {
    let (entered, left) = (&passed_ns[stage.enter().index()], &passed_ns[stage.leave().index()]);
    let pairs = entered.iter().zip(left);
    pairs.filter(|(entered, left)| **entered <= at_ns && at_ns < **left).count() as u64
}

proptest! {
    #[test]
    fn lengths_that_full_lists_leave_known_are_true(plan in plans()) {
        let hits = hits(&plan);
        let passed_ns = passed_ns(&hits);
        let mut analyzer = Analyzer::new();
        analyzer.connection(testing::connection(1));
        analyzer.push(&recorded(&plan, &hits));
        let stores = analyzer.into_stores();
        let Some(store) = stores.connections.first() else { return Ok(()) };
        let (losses, reasons) = (&stores.losses, &stores.drop_reasons);
        let curves = FlowCurves::new(store, Direction::FromClient, losses, reasons);
        for stage in Stage::ALL {
            for step in curves.lengths(stage).unwrap_or_default() {
                if let Some(length_bytes) = step.length_bytes {
                    let truth = length_at(&passed_ns, stage, step.at_ns);
                    prop_assert_eq!(length_bytes, truth, "{:?} at {}", stage, step.at_ns);
                }
            }
        }
    }
}
