//! Random calls, whose times are kept for comparison: the caller's measurement, and the table of
//! requests.
//!
//! The second property takes records away, as a recorder does: the requests left in the table are still
//! true.

use proptest::prelude::*;
use sockscope_record::{ConnectionId, Direction, FlowId, Kind, Point, Record};

use crate::{Analyzer, RequestEnd, Requests, TraceFacts, testing};

/// One side's message: for each write the time since the write before it, its bytes, and the time until it is read.
type Message = Vec<(u64, u32, u64)>;

/// Times of one call as its caller and its answerer measured them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Call {
    asked_ns: u64,
    request_ns: u64,
    service_ns: u64,
    response_ns: u64,
    bytes: (u64, u64),
}

/// A connection under way: its records so far, and the next time and positions.
#[derive(Default)]
struct Script {
    records: Vec<Record>,
    at_ns: u64,
    positions: [u64; 2],
}

fn messages() -> impl Strategy<Value = Message> {
    prop::collection::vec((1..40_u64, 1..500_u32, 0..60_u64), 1..5)
}

fn calls() -> impl Strategy<Value = Vec<(Message, u64, Message, u64)>> {
    prop::collection::vec((messages(), 1..90_u64, messages(), 1..50_u64), 1..8)
}

impl Script {
    /// Writes a message; gives the time of its first write and of its last read, the pauses between its parts in which
    /// all was read, and its bytes.
    fn message(&mut self, direction: Direction, message: &Message) -> (u64, u64, u64, u64) {
        let flow = ConnectionId(1).flow(direction);
        let (mut first_ns, mut read_ns, mut pause_ns, mut bytes) = (None, 0, 0, 0);
        for &(gap, len, delay) in message {
            self.at_ns += gap;
            if first_ns.is_some() {
                pause_ns += self.at_ns.saturating_sub(read_ns);
            }
            first_ns = first_ns.or(Some(self.at_ns));
            read_ns = read_ns.max(self.at_ns + delay);
            let offset = self.positions[direction as usize];
            for point in Point::ALL {
                let at_ns = if point == Point::ReceiveDequeue { read_ns } else { self.at_ns };
                let kind = Kind::from(point);
                self.records.push(Record { at_ns, flow, kind, offset, len, ..Record::default() });
            }
            self.positions[direction as usize] += u64::from(len);
            bytes += u64::from(len);
        }
        self.at_ns = self.at_ns.max(read_ns);
        (first_ns.unwrap_or(self.at_ns), read_ns, pause_ns, bytes)
    }
}

fn script(calls: &[(Message, u64, Message, u64)]) -> (Vec<Record>, Vec<Call>) {
    let mut script = Script { at_ns: 10, ..Script::default() };
    let mut truth = Vec::new();
    for (request, service, response, think) in calls {
        let (asked_ns, heard_ns, _, asked) = script.message(Direction::FromClient, request);
        script.at_ns += service;
        let (answered_ns, ended_ns, pause_ns, answered) =
            script.message(Direction::FromServer, response);
        script.at_ns += think;
        let service_ns = answered_ns - heard_ns + pause_ns;
        let request_ns = heard_ns - asked_ns;
        let response_ns = ended_ns - asked_ns - request_ns - service_ns;
        let bytes = (asked, answered);
        truth.push(Call { asked_ns, request_ns, service_ns, response_ns, bytes });
    }
    script.records.sort_by_key(|record| record.at_ns);
    (script.records, truth)
}

fn requests(records: &[Record]) -> Requests {
    let mut analyzer = Analyzer::new();
    analyzer.connection(testing::connection(1));
    analyzer.push(records);
    let mut analysis = analyzer.finish(TraceFacts::default());
    analysis.connections.remove(0).requests
}

fn found(requests: &Requests) -> Vec<Call> {
    let answered = requests.list.iter().filter(|one| one.end == RequestEnd::Answered);
    let calls = answered.filter_map(|request| {
        let parts = request.parts()?;
        let total_ns = parts.request_ns + parts.service_ns + parts.response_ns;
        assert_eq!(request.total_ns(), Some(total_ns));
        Some(Call {
            asked_ns: request.asked_ns,
            request_ns: parts.request_ns,
            service_ns: parts.service_ns,
            response_ns: parts.response_ns,
            bytes: (request.request_bytes, request.response_bytes),
        })
    });
    calls.collect()
}

/// Takes away the passages of a point of one flow between two times, and counts them as the recorder does.
fn lose(records: &mut Vec<Record>, flow: Direction, point: Point, times: (u64, u64)) {
    let flow = ConnectionId(1).flow(flow);
    let is_missed = |record: &Record| {
        let is_there = record.flow == flow && record.kind == Kind::from(point);
        is_there && (times.0..=times.1).contains(&record.at_ns)
    };
    let before = records.len();
    records.retain(|record| !is_missed(record));
    let missed = (before - records.len()) as u64;
    if missed == 0 {
        return;
    }
    // The record of a read behind a loss runs from the position before it.
    if point == Point::ReceiveDequeue {
        let mut position = 0;
        for record in
            records.iter_mut().filter(|one| one.flow == flow && one.kind == Kind::from(point))
        {
            let end = record.end();
            (record.offset, record.len) = (position, (end - position) as u32);
            position = end;
        }
    }
    let code = point.number();
    let (at_ns, kind, offset) = (times.1, Kind::Loss, times.0);
    records.push(Record {
        at_ns,
        kind,
        flow: FlowId(0),
        code,
        offset,
        detail: missed,
        ..Record::default()
    });
    records.sort_by_key(|record| record.at_ns);
}

proptest! {
    #[test]
    fn each_call_is_what_its_caller_measured(calls in calls()) {
        let (records, truth) = script(&calls);
        let requests = requests(&records);
        prop_assert_eq!(found(&requests), truth);
        prop_assert_eq!(requests.left_out, 0);
    }

    #[test]
    fn what_missed_records_leave_is_true(
        calls in calls(),
        losses in prop::collection::vec((any::<bool>(), any::<bool>(), 0..500_u64, 0..200_u64), 1..3),
    ) {
        let (mut records, truth) = script(&calls);
        let whole = requests(&records).list.len();
        for (is_servers, is_read, from_ns, lasted_ns) in losses {
            let flow = if is_servers { Direction::FromServer } else { Direction::FromClient };
            let point = if is_read { Point::ReceiveDequeue } else { Point::SendEnqueue };
            lose(&mut records, flow, point, (from_ns, from_ns + lasted_ns));
        }
        let requests = requests(&records);
        for call in found(&requests) {
            prop_assert!(truth.contains(&call), "{:?} of {:?}", call, truth);
        }
        prop_assert!(requests.list.len() <= whole);
        let unanswered = requests.list.iter().filter(|one| one.end != RequestEnd::Answered);
        prop_assert_eq!(unanswered.count(), 0);
    }
}
