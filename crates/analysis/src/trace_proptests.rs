//! Random streams over the eight points, compared with a count byte by byte.
//!
//! A stream of a few hundred bytes is cut differently at each point; segments overtake each other at
//! points 3 to 6, and some are sent again. For each byte the time of its first passage is kept aside.

use proptest::prelude::*;
use sockscope_record::{
    Connection, ConnectionId, Direction, FlowId, Kind, Point, Protocol, Record, Stage, marks,
};

use crate::{
    Analysis, Analyzer, FlowCurves, LedgerPart, LedgerSpan, Stores, TraceFacts, ledger, testing,
};

/// A stream as it went: its records, and by point the time at which each byte first passed.
#[derive(Debug, Clone)]
pub(crate) struct Stream {
    pub records: Vec<Record>,
    passed_ns: Vec<Vec<u64>>,
}

/// Sizes of the pieces and times between them, at each point; which ranges are sent again.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    bytes: u32,
    pieces: Vec<Vec<(u32, u64)>>,
    again: Vec<(u32, u32)>,
}

pub(crate) fn plans() -> impl Strategy<Value = Plan> {
    let pieces = prop::collection::vec((1u32..60, 0u64..40), 1..12);
    let again = prop::collection::vec((0u32..200, 1u32..80), 0..4);
    (1u32..300, prop::collection::vec(pieces, 8), again).prop_map(|(bytes, pieces, again)| Plan {
        bytes,
        pieces,
        again,
    })
}

fn record(point: usize, at_ns: u64, start: u32, end: u32) -> Record {
    let kind = Kind::from(Point::ALL[point]);
    let flow = ConnectionId(1).flow(Direction::FromClient);
    Record { at_ns, kind, flow, offset: start.into(), len: end - start, ..Record::default() }
}

/// Sends the stream point by point. No two records have the same time, so that order decides nothing.
pub(crate) fn send(plan: &Plan) -> Stream {
    let bytes = plan.bytes as usize;
    let mut records = Vec::new();
    let mut passed_ns: Vec<Vec<u64>> = Vec::new();
    let mut unique = 0;
    for point in 0..8 {
        let mut here = vec![0; bytes];
        let (mut start, mut last_ns) = (0, 0);
        let mut pieces = plan.pieces[point].iter().cycle();
        while start < bytes {
            let &(len, delay_ns) = pieces.next().unwrap();
            let end = (start + len as usize).min(bytes);
            let came_ns = match point {
                0 => last_ns,
                _ => passed_ns[point - 1][start..end].iter().copied().max().unwrap(),
            };
            // Within the network, the delay alone decides the order.
            let keeps_order = !(2..6).contains(&point);
            let after_ns = if keeps_order { came_ns.max(last_ns) } else { came_ns };
            unique += 1;
            let at_ns = (after_ns / 10_000 + 1 + delay_ns) * 10_000 + unique;
            here[start..end].fill(at_ns);
            records.push(record(point, at_ns, start as u32, end as u32));
            (start, last_ns) = (end, at_ns);
        }
        passed_ns.push(here);
    }
    for &(start, len) in &plan.again {
        let end = (start + len).min(plan.bytes);
        if start >= end {
            continue;
        }
        for (point, passed_ns) in passed_ns.iter().enumerate().take(6).skip(1) {
            let range = &passed_ns[start as usize..end as usize];
            unique += 1;
            let at_ns = (range.iter().max().unwrap() / 10_000 + 3) * 10_000 + unique;
            let again = record(point, at_ns, start, end);
            records.push(Record { marks: marks::RETRANSMITTED, ..again });
        }
    }
    records.sort_by_key(|record| record.at_ns);
    Stream { records, passed_ns }
}

fn analyzer(records: &[Record], is_closed: bool) -> Analyzer {
    let closed_ns = is_closed.then_some(u64::MAX);
    analyzer_of(Connection { closed_ns, ..testing::connection(1) }, records)
}

fn analyzer_of(connection: Connection, records: &[Record]) -> Analyzer {
    let mut analyzer = Analyzer::new();
    analyzer.connection(connection);
    for batch in records.chunks(7) {
        analyzer.push(batch);
    }
    analyzer
}

fn analysis(records: &[Record]) -> Analysis {
    analyzer(records, true).finish(TraceFacts::default())
}

impl Stream {
    /// Bytes in a stage just after `at_ns`.
    fn length_at(&self, stage: Stage, at_ns: u64) -> u64 {
        let entered = &self.passed_ns[stage.enter().index()];
        let left = &self.passed_ns[stage.leave().index()];
        let pairs = entered.iter().zip(left);
        pairs.filter(|(entered, left)| **entered <= at_ns && at_ns < **left).count() as u64
    }

    fn oldest_is_after(&self, at_ns: u64) -> usize {
        oldest_is_after(&self.passed_ns, at_ns)
    }
}

/// By the times at which each byte passed each point, the point that the oldest unread byte passed last just after
/// `at_ns`, 0 to 7; 0 when idle.
pub(crate) fn oldest_is_after(passed_ns: &[Vec<u64>], at_ns: u64) -> usize {
    let Some(oldest) = passed_ns[7].iter().position(|&read_ns| read_ns > at_ns) else { return 0 };
    (0..8).take_while(|&point| passed_ns[point][oldest] <= at_ns).count()
}

/// The point where a part of the ledger begins, as in [`oldest_is_after`].
pub(crate) fn begins_at(part: LedgerPart) -> Option<usize> {
    use LedgerPart::*;
    Some(match part {
        AppIdle | Handshake | SendBuffer | SendWriter => 0,
        SendNagle | SendCork | SendCwnd | SendRwnd | SendPacing | SendOther => 1,
        TcpOutput => 2,
        InterfaceQueue => 3,
        Wire => 4,
        InputQueue => 5,
        TcpInput => 6,
        ReceiveWakeup | ReceiveApp => 7,
        Dropped | Unknown => return None,
    })
}

fn curves(stores: &Stores) -> FlowCurves {
    FlowCurves::new(
        &stores.connections[0],
        Direction::FromClient,
        &stores.losses,
        &stores.drop_reasons,
    )
}

fn timeline(stores: &Stores, records: &[Record]) -> Vec<LedgerSpan> {
    let times = || records.iter().filter(|record| record.kind != Kind::Loss).map(|r| r.at_ns);
    let span = (times().min().unwrap(), times().max().unwrap());
    ledger::timeline(&stores.connections[0], Direction::FromClient, &curves(stores), span)
}

/// Each length and each oldest byte that is known is that of the stream.
fn is_true_where_known(stream: &Stream, records: &[Record]) -> Result<(), TestCaseError> {
    let stores = analyzer(records, false).into_stores();
    let curves = curves(&stores);
    for stage in Stage::ALL {
        for step in curves.lengths(stage).unwrap_or_default() {
            if let Some(length_bytes) = step.length_bytes {
                prop_assert_eq!(length_bytes, stream.length_at(stage, step.at_ns), "{:?}", stage);
            }
        }
    }
    for span in timeline(&stores, records) {
        if let Some(point) = begins_at(span.part) {
            prop_assert_eq!(point, stream.oldest_is_after(span.start_ns));
        }
    }
    Ok(())
}

/// Takes away the records of one point in a part of the trace, and adds the loss record of a probe.
fn lose(records: &[Record], point: Point, from_ns: u64, until_ns: u64) -> Vec<Record> {
    let is_missed = |record: &Record| {
        record.point() == Some(point) && (from_ns..=until_ns).contains(&record.at_ns)
    };
    let mut kept: Vec<_> = records.iter().filter(|record| !is_missed(record)).copied().collect();
    let missed = records.len() - kept.len();
    if missed > 0 {
        kept.push(Record {
            at_ns: until_ns,
            kind: Kind::Loss,
            flow: FlowId(0),
            code: point.number(),
            offset: from_ns,
            detail: missed as u64,
            ..Record::default()
        });
    }
    kept
}

/// As a recorder leaves points 7 and 8 of a stream: each record runs from where the one before it ended.
fn run_over_losses(records: &mut [Record]) {
    for kind in [Kind::ReceiveEnqueue, Kind::ReceiveDequeue] {
        let mut position = 0;
        for record in records.iter_mut().filter(|record| record.kind == kind) {
            let end = record.end();
            record.offset = position;
            record.len = (end - position) as u32;
            position = end;
        }
    }
}

/// Whether each kept record of point 7 with exactly the bytes of a packet at point 6 was one record before, as on
/// a kernel. A plan divides the bytes at each point by itself, so that a record that runs over a loss may have
/// them by chance.
fn packets_are_whole(all: &[Record], kept: &[Record]) -> bool {
    let range = |record: &Record| (record.offset, record.end());
    let of = |records: &[Record], kind| -> Vec<(u64, u64)> {
        records.iter().filter(|record| record.kind == kind).map(range).collect()
    };
    let packets = of(all, Kind::InputDequeue);
    let arrived = of(all, Kind::ReceiveEnqueue);
    let here = of(kept, Kind::ReceiveEnqueue);
    here.iter().filter(|range| packets.contains(range)).all(|range| arrived.contains(range))
}

proptest! {
    #[test]
    fn a_stream_that_is_left_out_is_known_until_then_and_never_after(plan in plans(), when in 0..100_usize) {
        let stream = send(&plan);
        let all = &stream.records;
        let at_ns = all[when * all.len() / 100].at_ns;
        let flow = all[0].flow;
        let mut records = all.clone();
        records.retain(|record| record.at_ns <= at_ns);
        records.push(Record { at_ns, flow, kind: Kind::LeftOut, ..Record::default() });
        is_true_where_known(&stream, &records)?;
        let stores = analyzer(&records, false).into_stores();
        let curves = curves(&stores);
        let span = (all[0].at_ns, all[all.len() - 1].at_ns);
        for span in ledger::timeline(&stores.connections[0], Direction::FromClient, &curves, span) {
            let is_known = span.part != LedgerPart::Unknown;
            prop_assert_eq!(is_known, span.end_ns <= at_ns, "left out at {}: {:?}", at_ns, span);
        }
        for stage in Stage::ALL {
            let steps = curves.lengths(stage).unwrap_or_default();
            let later = steps.into_iter().filter(|step| step.at_ns > at_ns);
            prop_assert!(later.into_iter().all(|step| step.length_bytes.is_none()), "{:?}", stage);
        }
        prop_assert_eq!(analyzer(&records, false).finish(TraceFacts::default()).connections[0].findings.len(), 0);
    }

    #[test]
    fn every_byte_is_accounted_for(plan in plans()) {
        let flow = analysis(&send(&plan).records).connections[0].flows[0].clone();
        prop_assert_eq!(flow.bytes, u64::from(plan.bytes));
        for stage in flow.stages {
            prop_assert_eq!((stage.residue_bytes, stage.resident_bytes), (Some(0), Some(0)));
        }
    }

    #[test]
    fn the_stages_of_a_mean_byte_add_up_to_its_way(plan in plans(), kept in 0.0..1.0_f64) {
        let mut records = send(&plan).records;
        records.sort_by_key(|record| record.at_ns);
        // The trace may end while bytes are under way.
        records.truncate((records.len() as f64 * (1.0 - kept * kept)).ceil() as usize);
        let Some(flow) = analysis(&records).connections.first().map(|one| one.flows[0].clone())
        else {
            return Ok(());
        };
        let means: Vec<f64> = flow.stages.iter().filter_map(|stage| stage.byte_delay_ns).collect();
        if let [parts @ .., total] = means.as_slice() {
            prop_assert_eq!(parts.len(), 7);
            let sum: f64 = parts.iter().sum();
            prop_assert!((sum - total).abs() <= 1e-9 * total, "{sum} of {total}");
        } else {
            prop_assert!(means.is_empty());
        }
    }

    #[test]
    fn whatever_is_said_to_be_dropped_all_bytes_and_all_times_add_up(
        plan in plans(),
        drops in prop::collection::vec((2..=6_u8, 0..200_u32, 1..100_u32, 0..100_usize), 0..12),
    ) {
        let stream = send(&plan);
        let mut records = stream.records.clone();
        for (code, start, len, when) in drops {
            let at_ns = stream.records[when * stream.records.len() / 100].at_ns + 1;
            let (start, end) = (start.min(plan.bytes), (start + len).min(plan.bytes));
            records.push(Record { code, kind: Kind::Drop, ..record(0, at_ns, start, end) });
        }
        let flow = analysis(&records).connections[0].flows[0].clone();
        for stage in &flow.stages {
            prop_assert_eq!((stage.residue_bytes, stage.resident_bytes), (Some(0), Some(0)));
        }
        let means: Vec<f64> = flow.stages.iter().filter_map(|stage| stage.byte_delay_ns).collect();
        let sum = means[..7].iter().sum::<f64>() + flow.dropped_byte_delay_ns.unwrap_or(0.0);
        prop_assert!((sum - means[7]).abs() <= 1e-9 * means[7], "{sum} of {}", means[7]);
        let stores = analyzer(&records, true).into_stores();
        let curves = curves(&stores);
        for stage in Stage::ALL {
            let last = curves.lengths(stage).unwrap().last().map(|step| step.length_bytes);
            prop_assert_eq!(last, Some(Some(0)), "{} is empty at the end", stage.name());
        }
        let spans = timeline(&stores, &records);
        prop_assert!(spans.windows(2).all(|pair| pair[0].end_ns == pair[1].start_ns));
    }

    #[test]
    fn lengths_are_those_counted_byte_by_byte(plan in plans()) {
        let stream = send(&plan);
        let curves = curves(&analyzer(&stream.records, false).into_stores());
        for stage in Stage::ALL {
            for step in curves.lengths(stage).unwrap() {
                prop_assert_eq!(step.length_bytes, Some(stream.length_at(stage, step.at_ns)));
            }
        }
    }

    #[test]
    fn delays_are_those_of_each_byte(plan in plans()) {
        let stream = send(&plan);
        let curves = curves(&analyzer(&stream.records, false).into_stores());
        for stage in Stage::ALL {
            let (enter, leave) = (stage.enter().index(), stage.leave().index());
            let runs = curves.delays(stage);
            prop_assert_eq!(runs.iter().map(|run| run.len).sum::<u64>(), u64::from(plan.bytes));
            for run in runs {
                for byte in run.offset..run.offset + run.len {
                    let [entered, left] = [enter, leave].map(|p| stream.passed_ns[p][byte as usize]);
                    prop_assert_eq!((run.entered_ns, run.delay_ns()), (entered, left - entered));
                }
            }
        }
    }

    #[test]
    fn the_ledger_has_the_oldest_byte_in_its_place_and_sums_to_all_time(plan in plans()) {
        let stream = send(&plan);
        let spans = timeline(&analyzer(&stream.records, false).into_stores(), &stream.records);
        for span in &spans {
            prop_assert_eq!(begins_at(span.part), Some(stream.oldest_is_after(span.start_ns)));
            prop_assert_eq!(begins_at(span.part), Some(stream.oldest_is_after(span.end_ns - 1)));
        }
        prop_assert!(spans.windows(2).all(|pair| pair[0].end_ns == pair[1].start_ns));
        let all_ns = stream.records.last().unwrap().at_ns - stream.records[0].at_ns;
        prop_assert_eq!(ledger::sum(&spans).total_ns(), all_ns);
    }

    #[test]
    fn late_records_change_nothing(plan in plans(), lateness in prop::collection::vec(0u64..100_000, 64)) {
        let mut records = send(&plan).records;
        let expected = analysis(&records);
        let mut late: Vec<_> = lateness.iter().cycle().zip(records.drain(..)).collect();
        late.sort_by_key(|(late_ns, record)| record.at_ns + **late_ns);
        let records: Vec<_> = late.into_iter().map(|(_, record)| record).collect();
        prop_assert_eq!(analysis(&records), expected);
    }

    #[test]
    fn what_a_loss_leaves_known_is_true(
        plan in plans(),
        losses in prop::collection::vec((0usize..8, 0usize..60, 0usize..30), 1..3),
    ) {
        let stream = send(&plan);
        let mut records = stream.records.clone();
        for (point, first, count) in losses {
            let first = first.min(stream.records.len() - 1);
            let last = (first + count).min(stream.records.len() - 1);
            let [from_ns, until_ns] = [first, last].map(|index| stream.records[index].at_ns);
            records = lose(&records, Point::ALL[point], from_ns, until_ns);
        }
        is_true_where_known(&stream, &records)?;
    }

    #[test]
    fn what_a_standstill_leaves_known_is_true(
        plan in plans(),
        first in 0usize..60,
        count in 0usize..60,
    ) {
        let stream = send(&plan);
        let [first, last] = [first, first + count].map(|index| index.min(stream.records.len() - 1));
        let (from_ns, until_ns) = (stream.records[first].at_ns, stream.records[last].at_ns);
        let mut records = stream.records.clone();
        for point in Point::ALL {
            records = lose(&records, point, from_ns, until_ns);
        }
        run_over_losses(&mut records);
        prop_assume!(packets_are_whole(&stream.records, &records));
        let is_end_seen = records.iter().any(|r| r.end() == plan.bytes.into() && r.kind != Kind::Loss);
        let analyzed = analysis(&records);
        let Some(connection) = analyzed.connections.first() else { return Ok(()) };
        let flow = &connection.flows[0];
        prop_assert!(flow.bytes <= plan.bytes.into());
        prop_assert!(flow.at_least.bytes || flow.bytes == plan.bytes.into(), "{flow:?}");
        prop_assert!(!is_end_seen || flow.bytes == plan.bytes.into());
        if records.iter().all(|record| record.kind == Kind::Loss) {
            return Ok(());
        }
        for stage in Stage::ALL {
            let Some(length) = flow.stages[stage as usize].length_bytes else { continue };
            // A queue is longest when a byte enters it.
            let entered_ns = &stream.passed_ns[stage.enter().index()];
            let longest = entered_ns.iter().map(|&ns| stream.length_at(stage, ns)).max();
            prop_assert!(Some(length.max) <= longest, "{:?}", stage);
        }
        is_true_where_known(&stream, &records)?;
        let copies = records.iter().filter(|record| record.kind == Kind::ReceiveDequeue);
        let read_max = flow.read_copy_bytes_max.unwrap_or(0);
        prop_assert!(copies.map(|record| u64::from(record.len)).max().unwrap_or(0) >= read_max);
    }

    #[test]
    fn no_record_makes_it_panic(
        fields in prop::collection::vec(
            ((any::<u64>(), any::<u64>(), any::<u64>()), (0u32..6, any::<u32>(), any::<u32>()), (0usize..21, any::<[u8; 3]>())),
            0..60,
        ),
        small in any::<bool>(),
        protocol in prop_oneof![Just(Protocol::Tcp), Just(Protocol::Udp)],
    ) {
        let records: Vec<_> = fields
            .into_iter()
            .map(|((at_ns, offset, detail), (flow, len, extra), (kind, [code, tcp_flags, marks]))| {
                let bound = if small { 200 } else { u64::MAX };
                let (at_ns, offset, detail) = (at_ns % bound, offset % bound, detail % bound);
                let (kind, flow) = (Kind::ALL[kind], FlowId(flow));
                let code = if small { code % 10 } else { code };
                Record { at_ns, offset, detail, flow, len, extra, kind, code, tcp_flags, marks, ..Record::default() }
            })
            .collect();
        let connection = Connection { protocol, ..testing::connection(1) };
        let analysis = analyzer_of(connection, &records).finish(TraceFacts::default());
        for flow in analysis.connections.iter().flat_map(|connection| &connection.flows) {
            prop_assert!(flow.ledger.total_ns() <= analysis.duration_ns);
        }
    }
}
