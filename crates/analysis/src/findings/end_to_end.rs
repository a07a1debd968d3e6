//! Rules over the ledger that the analysis itself computes: whole traces, as a user records them.

use crate::testing::analyze;

use super::phrasing;
use super::testing::{Fixture, repeat};

fn found(text: &str) -> String {
    let analysis = analyze(text);
    let findings = analysis.findings.iter();
    let said = findings.map(|finding| {
        let cost = phrasing::time(finding.cost_ns);
        format!("{} @{} {}x {cost}", finding.id.name(), finding.side.name(), finding.count)
    });
    said.collect::<Vec<_>>().join("\n")
}

/// `count` calls of 100 + 300 bytes, 50 ms apart; the second write goes `second` after the first.
fn calls(count: u64, call: impl Fn(u64) -> String) -> String {
    (0..count).map(|i| call(i * 50_000)).collect::<Vec<_>>().join(" | ")
}

fn stalled_call(us: u64) -> String {
    let at = |plus: u64| format!("{}us", us + plus);
    let asked = us / 50_000 * 400;
    format!(
        "{} 1 +100 | {} 2-6 +100 | {} 7 +100 waited | {} 8 +100
         {} 1 +300 nagle
         {} <3-6 ack={}
         {} 2-6 +300 | {} 7 +300 waited | {} 8 +300
         {} <1 +50 | {} <2-6 +50 ack={} | {} <7 +50 waited | {} <8 +50",
        at(1),
        at(2),
        at(8),
        at(20),
        at(10),
        at(40_020),
        asked + 100,
        at(40_025),
        at(40_030),
        at(40_040),
        at(40_050),
        at(40_051),
        asked + 400,
        at(40_060),
        at(40_070),
    )
}

#[test]
fn two_writes_a_call_with_nagle_stall_each_call() {
    let said = found(&calls(20, stalled_call));
    insta::assert_snapshot!(said, @r#"
    nagle-delayed-ack @client 20x 800 ms
    split-message @client 20x 0 ns
    "#);
}

#[test]
fn the_same_calls_with_nodelay_are_silent() {
    let call = |us: u64| {
        let at = |plus: u64| format!("{}us", us + plus);
        format!(
            "{} 1 +100 | {} 2-6 +100 | {} 7 +100 waited | {} 1 +300 | {} 2-6 +300 | {} 7 +300 | {} 8 +400
             {} <1 +50 | {} <2-6 +50 ack={} | {} <7 +50 waited | {} <8 +50",
            at(1), at(2), at(8), at(10), at(11), at(18), at(30),
            at(40), at(41), us / 50_000 * 400 + 400, at(50), at(60),
        )
    };
    insta::assert_snapshot!(found(&calls(200, call)), @"");
}

#[test]
fn fast_calls_on_loopback_are_silent() {
    let text = repeat(2000, "100us", |at| {
        let later = at.replace("00us", "40us");
        format!(
            "{at} 1-7 +45 waited | {later} 8 +45 runq=5us | {later} <1-7 +7 waited | {later} <8 +7"
        )
    });
    insta::assert_snapshot!(found(&text), @"");
}

#[test]
fn bulk_on_loopback_to_a_reader_that_only_copies_is_silent() {
    let text = repeat(500, "1ms", |at| {
        let (half, last) = (at.replace("ms", "300us"), at.replace("ms", "900us"));
        format!(
            "{at} 1 +131072 rwnd | {at} 2-7 +65536 rwnd | {half} 8 +65536 | {half} 2-7 +65536 | {last} 8 +65536"
        )
    });
    insta::assert_snapshot!(found(&text), @"");
}

#[test]
fn a_reader_that_sleeps_is_slow_and_closes_the_window() {
    let reads = repeat(20, "50ms", |at| format!("{at} 8 +100 | {at} 2-7 +100 rwnd"));
    let text = format!("0ms 1 +5000 | 1us 2-7 +1000 rwnd | {reads}");
    insta::assert_snapshot!(found(&text), @"slow-reader @server 20x 1000 ms");
}

#[test]
fn a_reader_beside_a_hog_is_late_and_not_slow() {
    let text = repeat(50, "10ms", |at| {
        let read = at.replace("0ms", "4ms");
        format!("{at} 1-7 +100 waited thread=9 | {read} 8 +100 thread=9 runq=3900us")
    });
    insta::assert_snapshot!(found(&text), @"late-wakeup @server 50x 195 ms");
}

#[test]
fn a_limited_interface_shows_there_and_nowhere_else() {
    let leaving = repeat(100, "2ms", |at| format!("{at} 4-7 +1000 | {at} 8 +1000"));
    let text = format!(
        "0ms write +100000 | 0ms 1 +100000 | 1us 2-3 +100000 small-queue | {leaving}
         201ms write-return len=100000"
    );
    insta::assert_snapshot!(found(&text), @"interface-queue-limited @client 100x 200 ms");
}

#[test]
fn any_records_are_survived() {
    use proptest::prelude::*;
    use sockscope_record::{ConnectionId, Direction, Kind, Record};

    let record = (0..Kind::ALL.len(), any::<[u64; 3]>(), any::<[u32; 3]>(), any::<[u8; 4]>());
    let record = record.prop_map(|(kind, [at_ns, offset, detail], [len, thread, extra], bytes)| {
        let direction =
            if bytes[0] % 2 == 0 { Direction::FromClient } else { Direction::FromServer };
        Record {
            // Small times and positions meet each other; a few are as large as they can be.
            at_ns: if bytes[1] == 0 { at_ns } else { at_ns % 1_000_000_000 },
            offset: if bytes[1] == 1 { offset } else { offset % 4096 },
            detail: if bytes[2] < 8 { detail } else { detail % 4096 },
            flow: ConnectionId(1).flow(direction),
            len: if bytes[1] == 2 { len } else { len % 2048 },
            thread: thread % 3,
            extra,
            kind: Kind::ALL[kind],
            code: bytes[3] % 9,
            tcp_flags: bytes[2],
            marks: bytes[0],
            cpu: 0,
        }
    });
    let runs = proptest::collection::vec(record, 0..200);
    proptest!(|(records in runs)| {
        // Far beyond the usual, so that the ledger does not cut the hostile times off.
        let fixture = Fixture::of_records(&records, "0ms send_queue.nagle | 150ms send_queue.cork | 300ms wire | 2s end");
        for finding in fixture.findings() {
            prop_assert!(finding.evidence.len() <= crate::Finding::EVIDENCE_MAX);
            prop_assert!(finding.count > 0);
        }
    });
}
