//! Waits of the model's callers, measured from the records of their own calls alone, against the table of
//! requests.

use sockscope_analysis::{Analyzer, ConnectionAnalysis, Request, RequestEnd, TraceFacts};
use sockscope_experiment::{Experiment, builtin};
use sockscope_lab::model::record;
use sockscope_record::{Connection, Direction, FlowId, Kind, Record, Side};
use sockscope_sim::Everything;

/// When a caller wrote and read its bytes: position after them, and time; in order of both.
type Times = Vec<(u64, u64)>;

/// When byte `offset` was first written, or read.
fn time_of(times: &Times, offset: u64) -> u64 {
    let index = times.partition_point(|&(end, _)| end <= offset);
    times[index].1
}

fn times_of(records: &[Record], kind: Kind, flow: FlowId) -> Times {
    let is_it = |record: &&Record| record.kind == kind && record.flow == flow && record.len > 0;
    let of = records.iter().filter(is_it);
    of.map(|record| (record.offset + u64::from(record.len), record.at_ns)).collect()
}

fn sum_of(request: &Request) -> u64 {
    let parts = request.parts().expect("the model sees both ends");
    parts.request_ns + parts.service_ns + parts.response_ns
}

/// Compares each request of a connection; returns the number answered one by one, and that of all others.
fn compare(found: &ConnectionAnalysis, records: &[Record], what: &str) -> [u64; 2] {
    let requests = &found.requests;
    assert_eq!(requests.left_out, 0, "{what}");
    let Some(side) = requests.asked_by else { return [0, 0] };
    let flow = |of_client| {
        let direction = if of_client { Direction::FromClient } else { Direction::FromServer };
        found.connection.id.flow(direction)
    };
    let written = times_of(records, Kind::SendEnqueue, flow(side == Side::Client));
    let read = times_of(records, Kind::ReceiveDequeue, flow(side == Side::Server));
    let (mut asked, mut answered, mut counts) = (0, 0, [0, 0]);
    for request in &requests.list {
        assert_eq!(Some(sum_of(request)), request.total_ns(), "{what}: {request:?}");
        let is_alone = request.end == RequestEnd::Answered && !request.is_overlapped;
        counts[usize::from(!is_alone)] += 1;
        if is_alone {
            let read_ns = time_of(&read, answered + request.response_bytes - 1);
            let measured_ns = read_ns - time_of(&written, asked);
            assert_eq!(sum_of(request), measured_ns, "{what}: {request:?}");
        }
        asked += request.request_bytes;
        answered += request.response_bytes;
    }
    counts
}

/// The same for all connections of an experiment that runs on a stack: of two dozen cases, where its first has requests.
fn compare_all(experiment: &Experiment) -> [u64; 2] {
    let cases = experiment.cases().expect("a test keeps them free of errors");
    let mut counts = [0, 0];
    for case in cases.iter().step_by(cases.len().div_ceil(24)) {
        let recorded = record(experiment, case, Everything::default());
        let Ok((connections, Everything { records, .. })) = recorded else { break };
        let what = format!("{} {:?}", experiment.id, case.named);
        for found in analyzed(connections, &records) {
            let more = compare(&found, &records, &what);
            counts = [counts[0] + more[0], counts[1] + more[1]];
        }
        if counts == [0, 0] {
            break;
        }
    }
    counts
}

fn analyzed(connections: Vec<Connection>, records: &[Record]) -> Vec<ConnectionAnalysis> {
    let mut analyzer = Analyzer::new();
    analyzer.push(records);
    connections.into_iter().for_each(|connection| analyzer.connection(connection));
    analyzer.finish(TraceFacts::default()).connections
}

#[test]
fn the_parts_of_each_request_are_what_its_caller_measured() {
    let all = builtin().expect("a test keeps them free of errors");
    let counts = all.iter().map(compare_all);
    let [alone, others] = counts.fold([0, 0], |sum, more| [sum[0] + more[0], sum[1] + more[1]]);
    assert!(alone > 300, "{alone} requests were answered one by one, {others} were not");
}
