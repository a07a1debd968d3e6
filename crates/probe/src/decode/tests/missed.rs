//! Observations that the kernel skipped.

use sockscope_record::Point;

use super::{
    Decoder, assert_lines, empty, feed, open, opened, opened_for, opened_to_peer, reported, seen,
    shown, state,
};
use crate::layout::RawEvent;

const FIN_WAIT1: u8 = 4;

/// Losses found after `hits`, looking as often as a recording would.
fn losses(decoder: &mut Decoder, hits: &str) -> Vec<String> {
    feed(decoder, hits);
    decoder.check_gaps();
    decoder.check_gaps();
    shown(decoder).into_iter().filter(|line| line.contains("Loss")).collect()
}

#[track_caller]
fn check(hits: &str, expected: &str) {
    assert_lines(&losses(&mut opened(), hits), expected);
}

/// A segment that every point sees.
fn whole(at: u64, seq: u32, len: u32) -> String {
    let end = seq + len;
    format!(
        "{at} write {seq}+{len} room | {at} transmit {seq}+{len} | {at} input {seq}+{len}
         {at} receive {seq}+{len} | {at} ready {end} | {at} copy {end}\n"
    )
}

#[test]
fn a_segment_that_no_probe_saw_is_a_loss_where_it_passed() {
    let hits = whole(10, 1000, 100) + "50 write 1100+100 room | 60 ready 1200\n";
    check(
        &(hits + &whole(70, 1200, 100)),
        "70 Loss of 1 at 2 since 10
         70 Loss of 1 at 3 since 10
         70 Loss of 1 at 4 since 10
         70 Loss of 1 at 5 since 10
         70 Loss of 1 at 6 since 10",
    );
}

#[test]
fn an_acknowledgment_proves_as_much_as_an_announcement() {
    let hits = whole(10, 1000, 100) + "50 input 1100+9 | 50 receive 1100+9 | 50 write 1100+9 room";
    check(
        &(hits + "\n60 <transmit 5000 ack=1109"),
        "60 Loss of 1 at 2 since 10
         60 Loss of 1 at 3 since 10
         60 Loss of 1 at 4 since 10",
    );
}

#[test]
fn two_gaps_at_one_point_are_two_losses() {
    let hits = whole(10, 1000, 10) + "20 write 1010+30 room | 21 transmit 1010+30";
    check(
        &(hits + "| 22 input 1010+30 | 30 receive 1020+10 | 40 ready 1040"),
        "40 Loss of 2 at 6 since 10",
    );
}

#[test]
fn a_write_that_was_not_seen_is_a_loss_at_point_1() {
    let hits = whole(10, 1000, 10) + "20 transmit 1010+30 | 21 input 1010+30 | 22 receive 1010+30";
    check(&(hits + "| 40 ready 1040"), "40 Loss of 1 at 1 since 10");
}

#[test]
fn bytes_that_the_receiver_has_were_written_though_they_were_not_seen_to_leave() {
    let missed = "60 Loss of 1 at 2 since 10
         60 Loss of 1 at 3 since 10
         60 Loss of 1 at 4 since 10";
    let hits = whole(10, 1000, 100) + "50 write 1100+9 | 55 input 1100+9 | 55 receive 1100+9 |";
    for proof in ["60 ready 1109", "60 copy 1109", "60 <transmit 5000 ack=1109"] {
        check(&format!("{hits} {proof}"), missed);
    }
}

#[test]
fn a_number_that_no_point_saw_may_be_that_of_a_fin_and_is_no_write() {
    check(
        &(whole(10, 1000, 100) + "60 <transmit 5000 ack=1101"),
        "60 Loss of 1 at 3 since 10
         60 Loss of 1 at 4 since 10
         60 Loss of 1 at 5 since 10
         60 Loss of 1 at 6 since 10",
    );
}

#[test]
fn a_loss_is_told_once_and_counted() {
    let mut decoder = opened();
    let hits = whole(10, 1000, 100) + "50 write 1100+100 room | 60 ready 1200";
    assert_eq!(losses(&mut decoder, &hits).len(), 5);
    assert_eq!(decoder.take_gaps().total(), 5);
    assert_eq!(losses(&mut decoder, &whole(70, 1200, 100)), [""; 0]);
    assert_eq!(decoder.take_gaps().total(), 0);
}

#[test]
fn nothing_is_lost_when_everything_was_seen() {
    check(&(whole(10, 1000, 100) + &whole(20, 1100, 100)), "");
}

#[test]
fn a_record_that_comes_a_look_later_is_not_lost() {
    let mut decoder = opened();
    feed(&mut decoder, &whole(10, 1000, 100));
    feed(&mut decoder, "20 write 1100+100 room | 21 transmit 1100+100 | 25 ready 1200");
    decoder.check_gaps();
    assert_eq!(losses(&mut decoder, "22 input 1100+100 | 23 receive 1100+100"), [""; 0]);
}

#[test]
fn a_dropped_segment_that_was_sent_again_is_not_a_hole() {
    check(
        "10 write 1000+100 room | 20 transmit 1000+100 | 30 drop 1000+100 | 40 retransmit 1000+100
         41 transmit 1000+100 again | 42 input 1000+100 | 43 receive 1000+100 | 44 ready 1100",
        "",
    );
}

#[test]
fn segments_that_overtake_or_overlap_each_other_leave_no_hole() {
    check(
        "10 write 1000+300 room | 20 transmit 1000+100 | 21 transmit 1100+200 | 22 input 1100+200
         23 receive 1100+200 | 24 input 1000+100 | 25 receive 1000+150 | 30 ready 1300",
        "",
    );
}

#[test]
fn a_peer_on_another_host_leaves_no_hole() {
    let mut decoder = opened_to_peer();
    assert_eq!(losses(&mut decoder, "10 <input 5000+9 | 20 <ready 5100 | 30 <copy 5100"), [""; 0]);
}

#[test]
fn a_point_that_the_path_does_not_have_is_not_missed() {
    check("10 write 1000+100 room | 20 transmit 1000+100 | 30 ready 1100", "");
}

#[test]
fn what_was_open_before_all_probes_were_is_not_judged() {
    let mut decoder = opened();
    decoder.attached(5);
    let hits = whole(10, 1000, 100) + "60 ready 1200";
    assert_eq!(losses(&mut decoder, &hits), [""; 0]);
}

/// Probes are detached one after the other: only some of them record the packets meanwhile.
#[test]
fn what_passes_while_probes_are_detached_is_not_of_the_recording() {
    let mut decoder = opened();
    decoder.detaching(55);
    feed(&mut decoder, &(whole(10, 1000, 100) + "50 write 1100+100 room"));
    reported(&mut decoder).clear();
    feed(&mut decoder, "56 transmit 1100+100 | 57 input 1100+100 | 60 ready 1200 | 70 copy 1200");
    decoder.event(&RawEvent { at_ns: 80, ..state(2, FIN_WAIT1, 1200, 5000) });
    decoder.finish();
    assert_eq!(reported(&mut decoder), &[]);
}

#[test]
fn what_opens_while_probes_are_detached_is_not_of_the_recording() {
    let mut decoder = empty();
    decoder.detaching(55);
    decoder.event(&open(56, 6));
    assert!(decoder.take_changed().is_empty());
}

/// The event of a thread follows the hit that shows it, a little later.
#[test]
fn who_used_a_connection_before_the_end_is_known() {
    let mut decoder = opened();
    decoder.detaching(55);
    decoder.event(&RawEvent { at_ns: 56, ..seen(2, 7, c"late") });
    assert_eq!(decoder.take_changed()[0].processes.len(), 1);
}

#[test]
fn a_gap_that_a_counted_loss_explains_is_not_counted_again() {
    let mut decoder = opened();
    decoder.lost_between(0, 30, &Point::ALL, false);
    let hits = whole(10, 1000, 100) + "60 ready 1200\n" + &whole(70, 1200, 100);
    assert_eq!(losses(&mut decoder, &hits), [""; 0]);
    let hits = "80 ready 1400";
    assert_eq!(losses(&mut decoder, hits).len(), 6);
}

#[test]
fn a_gap_that_a_counted_loss_explains_hides_no_later_one() {
    let mut decoder = opened();
    decoder.lost_between(0, 30, &Point::ALL, false);
    // Nothing shows [1100, 1200), which may have passed by 30, nor [1300, 1400), which passed after 70.
    let hits = whole(10, 1000, 100) + "60 ready 1200\n" + &whole(70, 1200, 100);
    let hits = hits + "80 write 1300+100 room | 90 ready 1400";
    assert_lines(
        &losses(&mut decoder, &hits),
        "90 Loss of 1 at 2 since 70
         90 Loss of 1 at 3 since 70
         90 Loss of 1 at 4 since 70
         90 Loss of 1 at 5 since 70
         90 Loss of 1 at 6 since 70",
    );
    assert_eq!(decoder.take_gaps().total(), 5);
}

#[test]
fn a_loss_of_others_explains_gaps_of_their_connections_alone() {
    let hits = whole(10, 1000, 100) + "60 ready 1200\n" + &whole(70, 1200, 100);
    for (of_others, gaps) in [(false, 6), (true, 0)] {
        let mut decoder = opened_for(of_others);
        decoder.lost_between(0, 30, &Point::ALL, true);
        assert_eq!(losses(&mut decoder, &hits).len(), gaps, "{of_others}");
    }
}

#[test]
fn a_counted_loss_explains_gaps_of_its_own_hits_alone() {
    let hits = whole(10, 1000, 100) + "50 write 1100+100 room | 60 ready 1200\n";
    let hits = hits + &whole(70, 1200, 100);
    let mut decoder = opened();
    decoder.lost_between(0, 30, &[Point::SendEnqueue], false);
    assert_eq!(losses(&mut decoder, &hits).len(), 5);
    // The driver's hit is that of 2 to 5 on loopback.
    let mut decoder = opened();
    decoder.lost_between(0, 30, &[Point::InterfaceDequeue], false);
    assert_lines(&losses(&mut decoder, &hits), "70 Loss of 1 at 6 since 10");
}
