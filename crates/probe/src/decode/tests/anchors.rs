//! After missed records of a stream: the position where it continues, and the unknown bytes.

use proptest::prelude::*;
use sockscope_record::{FlowId, Point};

use super::{CLIENT_FIRST, Fields, assert_lines, feed, opened, reported, shown, state};
use crate::decode::Decoder;
use crate::layout::{RawEvent, constants as raw};

const MS: u64 = 1_000_000;
const FIN_WAIT1: u8 = 4;
/// Three times 2^32 octets further than 100.
const FAR: u64 = (3 << 32) + 100;

/// Of connection 1 the first 100 bytes passed; hits of these points were then missed for this long.
fn missed_for(ms: u64, points: &[Point]) -> Decoder {
    let mut decoder = opened();
    feed(
        &mut decoder,
        "10 write 1000+100 room | 20 transmit 1000+100 | 30 input 1000+100 | 40 receive 1000+100
         50 ready 1100 | 60 copy 1100",
    );
    reported(&mut decoder).clear();
    decoder.lost_between(100, 100 + ms * MS, points, false);
    decoder
}

#[track_caller]
fn check_after(ms: u64, points: &[Point], hits: &str, expected: &str) {
    let mut decoder = missed_for(ms, points);
    feed(&mut decoder, hits);
    decoder.check_gaps();
    decoder.check_gaps();
    decoder.finish();
    assert_lines(&shown(&mut decoder), expected);
}

#[test]
fn a_stream_goes_on_where_its_sender_says_whatever_was_missed() {
    check_after(
        500,
        &Point::ALL,
        &format!(
            "600000000 anchor 1100 ack=5000 acked={FAR} odd | 600000001 write 1100+50 room odd
             600000002 transmit 1100+50 odd | 600000003 input 1100+50 odd | 600000004 receive 1100+50 odd"
        ),
        &format!(
            "600000001 WriteCall {FAR}+50
             600000001 1 {FAR}+50
             600000002 2d 3n 4n {FAR}+50
             600000003 5 {FAR}+50
             600000004 6 {FAR}+50"
        ),
    );
}

#[test]
fn the_counters_may_count_syn_and_fin() {
    for off in [-1, 1] {
        let acked = FAR.saturating_add_signed(off);
        check_after(
            500,
            &Point::ALL,
            &format!("600000000 anchor 1100 acked={acked} odd | 600000002 input 1100+50 odd"),
            &format!("600000002 5 {FAR}+50"),
        );
    }
}

#[test]
fn the_receiver_says_too_and_what_it_had_by_then_stays_unknown() {
    // The server's socket: it has had up to 1150 of the client's stream, and its reader up to 1120.
    let to = FAR + 50;
    check_after(
        500,
        &Point::ALL,
        &format!(
            "600000000 <anchor 5000 ack=1150 copied=1120 received={to} odd | 600000001 ready 1150 odd
             600000002 ready 1180 odd | 600000003 copy 1180 odd"
        ),
        &format!(
            "600000002 7 {to}+30
             600000003 8 {}+60
             600000000 Loss of 0 at 7 since 500000100
             600000000 Loss of 0 at 8 since 500000100",
            FAR + 20
        ),
    );
}

#[test]
fn where_the_sender_alone_says_the_next_hits_pass_over_what_came_unseen_and_are_missed() {
    check_after(
        500,
        &Point::ALL,
        &format!(
            "600000000 anchor 1100 ack=5000 acked={FAR} odd | 600000001 copy 1110 odd
             600000002 ready 1150 odd | 600000003 ready 1180 odd | 600000004 copy 1180 odd"
        ),
        &format!(
            "600000003 7 {}+30
             600000004 8 {}+70
             600000002 Loss of 1 at 7 since 500000100
             600000001 Loss of 1 at 8 since 500000100",
            FAR + 50,
            FAR + 10
        ),
    );
}

#[test]
fn hits_of_other_points_were_missed_and_reads_stand_for_all_since_the_last() {
    check_after(
        500,
        &[Point::SendEnqueue, Point::InterfaceDequeue, Point::InputDequeue],
        "600000000 anchor 1100 ack=5000 acked=100 odd | 600000001 ready 1150 odd
         600000002 copy 1150 odd",
        "600000001 7 100+50
         600000002 8 100+50",
    );
}

#[test]
fn a_write_that_was_under_way_is_not_told_as_taken() {
    // Nothing shows when the bytes up to 1900 were taken.
    let mut decoder = opened();
    feed(&mut decoder, "10 write 1000+1000");
    decoder.lost_between(100, 100 + 500 * MS, &Point::ALL, false);
    feed(
        &mut decoder,
        "600000000 anchor 1800 acked=800 odd | 600000001 transmit 1800+100 odd
         600000002 write 1900+100 room odd",
    );
    assert_lines(
        &shown(&mut decoder),
        "10 WriteCall 0+1000
         600000001 2d 3n 4n 800+100
         600000002 1 900+100",
    );
}

#[test]
fn what_a_socket_wrote_until_it_closed_is_not_of_a_call_before_the_miss() {
    let mut decoder = opened();
    feed(&mut decoder, "10 write 1000+1000");
    decoder.lost_between(100, 100 + 500 * MS, &Point::ALL, false);
    decoder.event(&RawEvent { at_ns: 700 * MS, ..state(2, FIN_WAIT1, 9000, 5000) });
    decoder.finish();
    assert_lines(&shown(&mut decoder), "10 WriteCall 0+1000");
}

#[test]
fn a_hit_of_a_stream_whose_beginning_was_missed_is_missed_too() {
    let mut decoder = super::empty();
    decoder.event(&super::open(1, 6));
    feed(
        &mut decoder,
        "10 write 1000+10 | 20 transmit 1000+10 | 30 input 1000+10 | 40 ready 1010 | 50 copy 1010",
    );
    assert_lines(&shown(&mut decoder), "");
    assert_eq!(decoder.take_unknown_positions().points, [1, 0, 0, 1, 1, 0, 1, 1]);
}

#[test]
fn a_hit_without_a_socket_is_missed_until_an_anchor_where_too_much_may_have_passed() {
    check_after(
        500,
        &Point::ALL,
        &format!(
            "600000000 input 1100+50 adrift | 600000001 receive 1100+50 adrift
             600000002 <anchor 5000 ack=1150 copied=1150 received={} odd | 600000003 ready 1150 odd
             600000004 input 1150+50 odd",
            FAR + 50
        ),
        &format!(
            "600000004 5 {}+50
             600000000 Loss of 1 at 5 since 60
             600000001 Loss of 1 at 6 since 60
             600000002 Loss of 0 at 7 since 500000100
             600000002 Loss of 0 at 8 since 500000100",
            FAR + 50
        ),
    );
    let mut decoder = missed_for(500, &Point::ALL);
    feed(&mut decoder, "600000000 input 1100+50 adrift");
    assert_eq!(decoder.take_unknown_positions().points[4], 1);
    assert_eq!(decoder.take_unknown_positions().total(), 0);
}

#[test]
fn a_hit_without_a_socket_is_placed_where_little_was_missed() {
    check_after(
        19,
        &Point::ALL,
        "600000000 input 1100+50 adrift | 600000001 receive 1100+50 adrift",
        "600000000 5 100+50
         600000001 6 100+50",
    );
}

#[test]
fn a_hit_of_another_cpu_that_comes_before_the_anchor_it_relies_on_is_not_placed() {
    check_after(
        500,
        &Point::ALL,
        "600000000 input 1100+50 odd",
        "600000000 Loss of 1 at 5 since 60",
    );
}

/// One hit of a transfer, in which a stream advances by so many octets; then, so many are missed.
#[derive(Debug, Clone, Copy)]
struct Step {
    kind: u8,
    bytes: u32,
    missed: u64,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let kinds = [raw::RAW_TRANSMIT, raw::RAW_INPUT, raw::RAW_READY, raw::RAW_COPY];
    let missed = prop_oneof![6 => Just(0), 1 => 1u64..1 << 40];
    let step = (prop::sample::select(kinds.to_vec()), 1u32..1 << 20, missed);
    let step = step.prop_map(|(kind, bytes, missed)| Step { kind, bytes, missed });
    prop::collection::vec(step, 1..100)
}

proptest! {
    /// As in the kernel half, for a stream where each hit shows the newest bytes.
    #[test]
    fn every_position_that_is_told_is_true(steps in steps()) {
        let mut decoder = opened();
        let (mut at_ns, mut truth, mut is_adrift, mut odd) = (100, 0u64, false, 0u8);
        let seq = |position: u64| CLIENT_FIRST.wrapping_add(position as u32);
        for Step { kind, bytes, missed } in steps {
            at_ns += 10;
            if missed > 0 {
                truth += missed;
                is_adrift = true;
                decoder.lost_between(at_ns, at_ns + 400 * MS, &Point::ALL, false);
                at_ns += 400 * MS;
            }
            truth += u64::from(bytes);
            let from = truth - u64::from(bytes);
            let has_socket = kind != raw::RAW_INPUT;
            if is_adrift && has_socket {
                odd ^= raw::MARK_ODD;
                is_adrift = false;
                let own = Fields { at_ns, flow: 2, kind: raw::RAW_ANCHOR, marks: odd, ..Fields::default() };
                let anchor = if kind == raw::RAW_TRANSMIT {
                    Fields { seq: seq(from), bytes_acked: from, ..own }
                } else {
                    let (ack, copied_seq) = (seq(truth), seq(from));
                    Fields { flow: 3, seq: 5000, ack, bytes_received: truth, copied_seq, ..own }
                };
                decoder.raw(0, &anchor.raw());
            }
            let is_position = kind == raw::RAW_READY || kind == raw::RAW_COPY;
            let marks = odd | if is_adrift { raw::MARK_ADRIFT } else { 0 };
            let seq = seq(if is_position { truth } else { from });
            let hit = Fields { at_ns, flow: 2, kind, seq, len: bytes, marks, snd_cwnd: 10, ..Fields::default() };
            decoder.raw(0, &hit.raw());
            for record in reported(&mut decoder).drain(..).filter(|record| record.flow == FlowId(2) && record.len > 0) {
                prop_assert_eq!(record.end(), truth, "{:?}", record);
                prop_assert!(is_position || record.offset == from, "{:?}", record);
            }
        }
    }
}
