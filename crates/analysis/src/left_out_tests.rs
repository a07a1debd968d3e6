//! Connections that sampling leaves out on the way: nothing of the time after it is known.

use sockscope_record::{Connection, Protocol};

use crate::testing::{call, connection, records};
use crate::{Analyzer, ConnectionAnalysis, FindingId, LedgerPart, RequestEnd, TraceFacts, Window};

const MS: u64 = 1_000_000;
const TCP: Protocol = Protocol::Tcp;
const UDP: Protocol = Protocol::Udp;

fn of(protocol: Protocol) -> Connection {
    Connection { protocol, ..connection(1) }
}

/// The trace of `text` lasts for 10 s: other connections go on.
fn analyzed(protocol: Protocol, text: &str) -> ConnectionAnalysis {
    let mut analyzer = Analyzer::new();
    analyzer.connection(of(protocol));
    analyzer.push(&records(text));
    let facts = TraceFacts { ended_ns: Some(10_000 * MS), ..TraceFacts::default() };
    analyzer.finish(facts).connections.remove(0)
}

/// Places of the client's flow with their milliseconds.
fn places(one: &ConnectionAnalysis) -> Vec<(LedgerPart, u64)> {
    let ledger = &one.flows[0].ledger;
    let parts = LedgerPart::ALL.into_iter().map(|part| (part, ledger.ns[part as usize] / MS));
    parts.filter(|(_, ms)| *ms > 0).collect()
}

fn residues(one: &ConnectionAnalysis) -> Vec<Option<i64>> {
    one.flows[0].stages.iter().map(|stage| stage.residue_bytes).collect()
}

/// In the receive queue there are 300 bytes that no program has read, and on the wire 100.
const UNREAD: &str = "1ms 1-7 +100 | 2ms 8 +100 | 10ms 1-7 +300 | 12ms 1-4 +100";

#[test]
fn bytes_that_are_unread_then_have_no_place_later_and_no_residue() {
    for protocol in [TCP, UDP] {
        let one = analyzed(protocol, &format!("{UNREAD} | 30ms left-out"));
        let until_then = [(LedgerPart::AppIdle, 8), (LedgerPart::ReceiveApp, 21)];
        assert_eq!(places(&one), until_then, "{protocol:?}");
        assert_eq!(residues(&one), [None; 8], "{protocol:?}");
        assert!(one.flows[0].at_least.bytes && one.flows[0].at_least.reads, "{protocol:?}");
        assert_eq!(one.findings, []);
        assert_eq!(one.unread_requests, []);
    }
    // Of one that is recorded to the end, the bytes are known to lie there.
    let whole = analyzed(TCP, &format!("{UNREAD} | 30ms state-change"));
    assert!(residues(&whole).iter().any(Option::is_some));
}

#[test]
fn a_window_has_the_time_after_it_as_unknown_and_then_the_connection_no_more() {
    let mut window = Window::new();
    window.connection(of(TCP));
    window.push(&records(&format!("{UNREAD} | 30ms left-out")));
    let analysis = window.refresh(TraceFacts::default(), Some(50 * MS));
    let parts = [(LedgerPart::AppIdle, 8), (LedgerPart::ReceiveApp, 21), (LedgerPart::Unknown, 20)];
    assert_eq!(places(&analysis.connections[0]), parts);
    window.forget_before(25 * MS);
    let analysis = window.refresh(TraceFacts::default(), Some(60 * MS));
    let parts = [(LedgerPart::ReceiveApp, 5), (LedgerPart::Unknown, 30)];
    assert_eq!(places(&analysis.connections[0]), parts);
    window.forget_before(50 * MS);
    let analysis = window.refresh(TraceFacts::default(), Some(90 * MS));
    assert_eq!((analysis.connections.len(), window.records()), (0, 0));
}

#[test]
fn a_silent_connection_that_is_left_out_is_unknown_from_there_on() {
    let mut window = Window::new();
    window.connection(of(TCP));
    window.push(&records("1ms 1-8 +100 | 60ms left-out"));
    window.refresh(TraceFacts::default(), Some(50 * MS));
    window.forget_before(50 * MS);
    let analysis = window.refresh(TraceFacts::default(), Some(100 * MS));
    let parts = [(LedgerPart::AppIdle, 10), (LedgerPart::Unknown, 40)];
    assert_eq!(places(&analysis.connections[0]), parts);
}

#[test]
fn a_request_without_an_answer_waits_for_none_after_it() {
    let answered = call([1_000, 1_020, 5_000, 5_030], [7, 8]);
    let asked = "9ms 1-7 +50 thread=7 | 9020us 8 +50 thread=8";
    for (last, open) in [("30ms state-change", 1), ("30ms left-out", 0)] {
        let one = analyzed(TCP, &format!("{answered} | {asked} | {last}"));
        let ends = one.requests.list.iter().map(|request| request.end);
        assert_eq!(ends.filter(|end| *end == RequestEnd::Open).count(), open, "{last}");
        assert_eq!(one.requests.list.len() as u64 + one.requests.left_out, 2, "{last}");
    }
}

#[test]
fn a_finding_counts_its_intervals_before_it_and_none_after() {
    // The reader is away for 40 ms of each 50 ms.
    let rounds = |from: u64, until: u64| {
        let round = |n: u64| format!("{}ms 1-7 +100 | {}ms 8 +100", 50 * n, 50 * n + 40);
        (from..until).map(round).collect::<Vec<_>>().join(" | ")
    };
    let slow = |one: &ConnectionAnalysis| {
        let slow = one.findings.iter().find(|it| it.id == FindingId::SlowReader);
        slow.map(|slow| (slow.count, slow.cost_ns / MS))
    };
    let before = rounds(1, 21);
    assert_eq!(slow(&analyzed(TCP, &before)), Some((20, 800)));
    // The bytes of the 21st round are in the queue.
    let one = analyzed(TCP, &format!("{before} | 1050ms 1-7 +100 | 1085ms left-out"));
    assert_eq!(slow(&one), Some((20, 800)));
    assert_eq!(one.findings.len(), 1, "{:?}", one.findings);
}

#[test]
fn a_segment_that_is_on_its_way_then_is_not_dropped() {
    let text = "1ms 1-7 +100 | 2ms 8 +100 | 10ms 1-4 +100 | 11ms left-out";
    let one = analyzed(TCP, text);
    assert_eq!((one.findings.len(), one.flows[0].drops.len()), (0, 0));
    assert_eq!(one.flows[0].dropped_byte_delay_ns, None);
}

#[test]
fn a_connection_that_has_not_opened_then_is_no_attempt_that_failed() {
    let syn = "1ms 3-6 syn | 2ms drop syn code=6 detail=2";
    let unopened = |last: &str| analyzed(TCP, &format!("{syn} | {last}")).unopened.is_some();
    assert_eq!([unopened("20ms buffers"), unopened("20ms left-out")], [true, false]);
}

#[test]
fn a_window_that_is_shut_then_may_have_opened_since() {
    let shut = "1ms 1-8 +100 | 2ms <3-6 ack=100 win=0";
    let sides = |last: &str| analyzed(TCP, &format!("{shut} | {last}")).shut_windows.len();
    assert_eq!([sides("20ms buffers"), sides("20ms left-out")], [1, 0]);
}
