//! Random streams, recorded at both ends or at one, with more hits than the recorder's lists had room for.
//!
//! Over loopback one hit of point 4 records points 2 to 5, and its loss counts as of point 4 alone. Some segments are
//! sent twice: because the first was dropped, or without need. The second transmission is marked at points 2 to 5 and
//! has a record of its own; where it arrives it looks like a first one. Each of two CPUs has a list with room for
//! some hits. A look empties both, and counts the hits since the look before that found no room. The first hit of
//! point 7 or 8 after a loss does not show which bytes passed by it: see [`Behind`].

use std::num::NonZeroUsize;

use proptest::prelude::*;
use sockscope_record::{
    Connection, ConnectionId, Direction, FlowId, Kind, Point, Record, Stage, marks,
};

use crate::trace_proptests::{begins_at, oldest_is_after};
use crate::{Analyzer, FlowCurves, TraceFacts, ledger, testing};

/// One hit: one run of a probe in the kernel.
#[derive(Debug, Clone, Copy)]
struct Hit {
    at_ns: u64,
    cpu: usize,
    /// The point at which its loss counts, or [`Kind::Retransmit`], whose loss counts at no point.
    kind: Kind,
    start: u64,
    end: u64,
    /// Whether a sender shows that it sends these bytes again.
    is_again: bool,
    ends: Ends,
}

/// Result of the first hit of points 7 and 8 after a loss.
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
    input_cpu: usize,
    reader_cpu: usize,
    again: Option<Again>,
}

/// The same bytes are sent a second time.
#[derive(Debug, Clone, Copy)]
struct Again {
    /// From the first transmission to the second.
    after: u64,
    /// From there to point 6.
    lag: u64,
    /// The last point that the first transmission passed; `None` where it arrived.
    dropped_after: Option<Point>,
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
    ends: Ends,
}

/// Ends whose hits this host has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ends {
    Both,
    Sender,
    Receiver,
}

fn plans() -> impl Strategy<Value = Plan> {
    let dropped_after = [None, Some(Point::InterfaceDequeue), Some(Point::InputDequeue)];
    let again = (1u64..120, 1u64..60, prop::sample::select(dropped_after.to_vec()));
    let again = again.prop_map(|(after, lag, dropped_after)| Again { after, lag, dropped_after });
    let again = prop_oneof![4 => Just(None), 1 => again.prop_map(Some)];
    let segment = (1u64..50, 1u64..30, [0usize..2, 0..2, 0..2], again);
    let segment = segment.prop_map(|(bytes, pause, cpus, again)| Segment {
        bytes,
        pause,
        sender_cpu: cpus[0],
        input_cpu: cpus[1],
        reader_cpu: cpus[2],
        again,
    });
    let counts = || prop::collection::vec(1usize..5, 1..6);
    let looks = prop::collection::vec(1u64..200, 1..8);
    let behind = prop_oneof![Just(Behind::Own), Just(Behind::All), Just(Behind::Loss)];
    let ends =
        prop_oneof![2 => Just(Ends::Both), 1 => Just(Ends::Sender), 1 => Just(Ends::Receiver)];
    let lists = (looks, 1usize..20, behind, ends);
    (prop::collection::vec(segment, 1..50), counts(), counts(), lists).prop_map(
        |(segments, writes, reads, (looks, room, behind, ends))| Plan {
            segments,
            writes,
            reads,
            looks,
            room,
            behind,
            ends,
        },
    )
}

/// Event of a segment, in order of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Write { bytes: u64 },
    Send { is_again: bool },
    Arrive { is_dropped: bool },
}

/// Steps of all segments: time, index of the segment, and step.
fn steps(plan: &Plan) -> Vec<(u64, usize, Step)> {
    let mut steps = Vec::new();
    let mut writes = plan.writes.iter().cycle();
    let (mut at, mut unwritten) = (0, 0);
    for (index, segment) in plan.segments.iter().enumerate() {
        if unwritten == 0 {
            unwritten = *writes.next().unwrap();
            let segments = plan.segments[index..].iter().take(unwritten);
            let bytes = segments.map(|segment| segment.bytes).sum();
            steps.push((at, index, Step::Write { bytes }));
        }
        unwritten -= 1;
        steps.push((at, index, Step::Send { is_again: false }));
        // A receiver alone does not show that a packet which it missed was sent before one that it saw.
        let dropped_after = segment.again.and_then(|again| again.dropped_after);
        let dropped_after = dropped_after.filter(|_| plan.ends != Ends::Receiver);
        if dropped_after != Some(Point::InterfaceDequeue) {
            steps.push((at, index, Step::Arrive { is_dropped: dropped_after.is_some() }));
        }
        if let Some(again) = segment.again {
            steps.push((at + again.after, index, Step::Send { is_again: true }));
            let arrived = at + again.after + again.lag;
            steps.push((arrived, index, Step::Arrive { is_dropped: false }));
        }
        at += segment.pause + 5;
    }
    steps.sort_by_key(|(at, ..)| *at);
    steps
}

/// The hits of the stream in time order. No two have the same time.
fn hits(plan: &Plan) -> Vec<Hit> {
    let ends: Vec<u64> = plan
        .segments
        .iter()
        .scan(0, |end, segment| {
            *end += segment.bytes;
            Some(*end)
        })
        .collect();
    let mut hits: Vec<Hit> = Vec::new();
    let mut reads = plan.reads.iter().cycle();
    let (mut written, mut received, mut read) = (0, 0, 0);
    let mut to_read = *reads.next().unwrap();
    let mut have_arrived = vec![false; ends.len()];
    let mut at_ns = 0;
    for (at, index, step) in steps(plan) {
        let segment = plan.segments[index];
        let (start, end) = (ends[index] - segment.bytes, ends[index]);
        at_ns = at_ns.max(at * 10);
        let mut hit = |kind, cpu, start, end, is_again| {
            at_ns += 10;
            hits.push(Hit { at_ns, cpu, kind, start, end, is_again, ends: plan.ends });
        };
        match step {
            Step::Write { bytes } => {
                hit(Kind::SendEnqueue, segment.sender_cpu, written, written + bytes, false);
                written += bytes;
            }
            Step::Send { is_again } => {
                hit(Kind::InterfaceDequeue, segment.sender_cpu, start, end, is_again);
                if is_again {
                    hit(Kind::Retransmit, segment.sender_cpu, start, end, is_again);
                }
            }
            Step::Arrive { is_dropped } => {
                hit(Kind::InputDequeue, segment.input_cpu, start, end, false);
                have_arrived[index] |= !is_dropped;
                let first_missing = have_arrived.iter().position(|arrived| !arrived);
                let next =
                    first_missing.map_or(written, |index| ends[index] - plan.segments[index].bytes);
                if next == received {
                    continue;
                }
                hit(Kind::ReceiveEnqueue, segment.input_cpu, received, next, false);
                received = next;
                to_read -= 1;
                if to_read == 0 || first_missing.is_none() {
                    hit(Kind::ReceiveDequeue, segment.reader_cpu, read, received, false);
                    read = received;
                    to_read = *reads.next().unwrap();
                }
            }
        }
    }
    hits.retain(|hit| match plan.ends {
        Ends::Both => true,
        Ends::Sender => hit.kind < Kind::InputDequeue || hit.kind == Kind::Retransmit,
        Ends::Receiver => (Kind::InputDequeue..=Kind::ReceiveDequeue).contains(&hit.kind),
    });
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

/// Hits missed at each point, and at the end those of no point.
type Missed = [u64; 9];

fn loss(point: Option<Point>, since_ns: u64, at_ns: u64, count: u64) -> Record {
    Record {
        at_ns,
        kind: Kind::Loss,
        flow: FlowId(0),
        code: point.map_or(Kind::Loss as u8, Point::number),
        offset: since_ns,
        detail: count,
        marks: marks::ANCHORED,
        ..Record::default()
    }
}

fn losses(since_ns: u64, at_ns: u64, missed: Missed) -> impl Iterator<Item = Record> {
    let points = Point::ALL.into_iter().map(Some).chain([None]);
    let counts = points.zip(missed).filter(|(_, count)| *count > 0);
    counts.map(move |(point, count)| loss(point, since_ns, at_ns, count))
}

impl Hit {
    /// Its index in [`Missed`].
    fn index(&self) -> usize {
        self.kind.point().map_or(8, Point::index)
    }

    fn records(&self) -> Vec<Record> {
        let Some(told) = self.kind.point() else {
            let again = record(Point::SendEnqueue, self.at_ns, self.start, self.end);
            return vec![Record { kind: self.kind, marks: 0, ..again }];
        };
        let points = told.of_hit().iter().zip(0..);
        let is_recorded = |point| match (told, self.ends) {
            // Over loopback point 4 has recorded point 5.
            (Point::InputDequeue, Ends::Both) => point == Point::InputDequeue,
            (Point::InterfaceDequeue, Ends::Sender) => point != Point::InputEnqueue,
            _ => true,
        };
        let points = points.filter(|(point, _)| is_recorded(**point));
        let records = points.map(|(point, after)| {
            let passed = record(*point, self.at_ns + after, self.start, self.end);
            let again = if self.is_again { marks::RETRANSMITTED } else { 0 };
            let loopback = if self.ends == Ends::Both { marks::LOOPBACK } else { 0 };
            Record { marks: loopback | again, ..passed }
        });
        records.collect()
    }
}

/// Records that a recorder makes of the hits.
fn recorded(plan: &Plan, hits: &[Hit]) -> Vec<Record> {
    let mut out = Vec::new();
    let mut used = [0; 2];
    let mut missed = Missed::default();
    let mut is_behind = [false; 9];
    let mut recorded = [0; 9];
    let mut looks = plan.looks.iter().cycle();
    // Between two hits.
    let (mut looked_ns, mut next_ns) = (0, 7 + looks.next().unwrap() * 10);
    for hit in hits {
        while hit.at_ns > next_ns {
            out.extend(losses(looked_ns, next_ns, std::mem::take(&mut missed)));
            used = [0; 2];
            looked_ns = next_ns;
            next_ns += looks.next().unwrap() * 10;
        }
        let index = hit.index();
        if used[hit.cpu] >= plan.room {
            missed[index] += 1;
            is_behind[index] = true;
            continue;
        }
        used[hit.cpu] += 1;
        let is_first = std::mem::take(&mut is_behind[index]);
        let is_position = matches!(hit.kind, Kind::ReceiveEnqueue | Kind::ReceiveDequeue);
        match (plan.behind, hit.kind.point()) {
            (Behind::All, Some(point)) if is_first && is_position => {
                out.push(record(point, hit.at_ns, recorded[index], hit.end));
            }
            (Behind::Loss, point) if is_first && is_position => {
                out.push(loss(point, looked_ns, hit.at_ns, 1));
            }
            _ => out.extend(hit.records()),
        }
        recorded[index] = hit.end;
    }
    out.extend(losses(looked_ns, next_ns, missed));
    out
}

/// By point, when each byte first passed.
fn passed_ns(hits: &[Hit]) -> Vec<Vec<u64>> {
    let bytes = hits.iter().map(|hit| hit.end).max().unwrap_or(0) as usize;
    let mut passed = vec![vec![u64::MAX; bytes]; 8];
    for record in hits.iter().flat_map(Hit::records) {
        let Some(point) = record.point() else { continue };
        for first_ns in &mut passed[point.index()][record.offset as usize..record.end() as usize] {
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

/// Each figure that the analysis of `records` has is that of `hits`.
fn is_true_where_known(ends: Ends, hits: &[Hit], records: &[Record]) -> Result<(), TestCaseError> {
    let passed_ns = passed_ns(hits);
    let mut analyzer = Analyzer::new();
    let both_ends_here = ends == Ends::Both;
    analyzer.connection(Connection { both_ends_here, ..testing::connection(1) });
    analyzer.push(records);
    let (analysis, stores) = analyzer.finish_keeping(TraceFacts::default(), NonZeroUsize::MIN);
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
        let [entered, left] = [stage.enter(), stage.leave()].map(|point| &passed_ns[point.index()]);
        for run in curves.delays(stage) {
            for byte in run.offset as usize..(run.offset + run.len) as usize {
                let truth = (entered[byte], left[byte] - entered[byte]);
                prop_assert_eq!((run.entered_ns, run.delay_ns()), truth, "{:?} of {}", stage, byte);
            }
        }
    }
    // Of one end alone the ledger has other places.
    let span = store.span_ns().filter(|_| both_ends_here);
    if let Some(span) = span {
        for span in ledger::timeline(store, Direction::FromClient, &curves, span) {
            let Some(point) = begins_at(span.part) else { continue };
            prop_assert_eq!(point, oldest_is_after(&passed_ns, span.start_ns), "{:?}", span);
        }
    }
    let flow = &analysis.connections[0].flows[0];
    for stage in &flow.stages {
        // At the end all was read.
        prop_assert!(stage.residue_bytes.is_none_or(|bytes| bytes == 0), "{:?}", stage);
        prop_assert!(stage.resident_bytes.is_none_or(|bytes| bytes == 0), "{:?}", stage);
    }
    let again = hits.iter().filter(|hit| hit.kind == Kind::Retransmit);
    let again: u64 = again.map(|hit| hit.end - hit.start).sum();
    for (figure, is_at_least, truth) in [
        (flow.bytes, flow.at_least.bytes, passed_ns[0].len() as u64),
        (flow.retransmitted_bytes, flow.at_least.retransmitted, again),
    ] {
        prop_assert!(figure == truth || is_at_least && figure < truth, "{} of {}", figure, truth);
    }
    Ok(())
}

/// Records as `testing` reads them.
fn shown(records: &[Record]) -> String {
    let one = |record: &Record| match record.kind {
        Kind::Loss => format!(
            "{} loss code={} from={} detail={}",
            record.at_ns, record.code, record.offset, record.detail
        ),
        kind => {
            let what =
                kind.point().map_or("retransmit".to_owned(), |point| point.number().to_string());
            let words = [(marks::LOOPBACK, " loopback"), (marks::RETRANSMITTED, " retransmitted")];
            let words = words.into_iter().filter(|(mark, _)| record.is_marked(*mark));
            let words: String = words.map(|(_, word)| word).collect();
            format!("{} {what} {}..{}{words}", record.at_ns, record.offset, record.end())
        }
    };
    records.iter().map(one).collect::<Vec<_>>().join("\n")
}

proptest! {
    #[test]
    fn figures_that_full_lists_leave_known_are_true(plan in plans()) {
        let hits = hits(&plan);
        let records = recorded(&plan, &hits);
        is_true_where_known(plan.ends, &hits, &records).map_err(|error| {
            TestCaseError::fail(format!("{error}, of\n{}", shown(&records)))
        })?;
    }
}
