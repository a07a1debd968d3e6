//! Datagrams: hits of UDP in, records out, every case one trace in text.

use sockscope_record::{Kind, Point, Side, marks};

use super::{Decoder, Fields, check_with, empty, feed, open, reported, seen};
use crate::layout::{RawEvent, RawRecord, constants as raw};

fn udp() -> Decoder {
    let mut decoder = empty();
    decoder.event(&open(1, 17));
    decoder
}

/// Every hit of these traces is of a datagram.
#[track_caller]
fn check(hits: &str, expected: &str) {
    let hits = hits.lines().flat_map(|line| line.split('|'));
    let hits = hits.map(|hit| format!("{hit} udp")).collect::<Vec<_>>().join("|");
    check_with(udp(), &hits, expected);
}

#[test]
fn a_datagram_passes_all_eight_points() {
    check(
        "10 transmit +100 thread=7 | 20 input +100 | 30 receive +100 | 40 ready +100 socket=1 waited
         50 copy +100 socket=1",
        "10 WriteCall 0+100
         10 1d 2d 3n 4 0+100
         20 5 0+100
         30 6 0+100
         40 7w 0+100
         50 8 0+100",
    );
}

#[test]
fn datagrams_of_different_lengths_are_told_apart_in_a_qdisc() {
    check(
        "10 queued +100 thread=7 | 11 queued +50 thread=7 | 20 transmit +50 | 21 input +50",
        "10 WriteCall 0+100
         10 1d 2d 3 0+100
         11 WriteCall 100+50
         11 1d 2d 3 100+50
         20 4 100+50
         21 5 100+50",
    );
}

#[test]
fn a_drop_at_the_socket_takes_the_newest_away() {
    check(
        "10 transmit +100 thread=7 | 20 input +100 | 30 receive +100 | 40 drop +100
         50 transmit +100 thread=7 | 60 input +100 | 70 receive +100 | 80 ready +100 socket=1",
        "10 WriteCall 0+100
         10 1d 2d 3n 4 0+100
         20 5 0+100
         30 6 0+100
         40 Drop 0+100
         50 WriteCall 100+100
         50 1d 2d 3n 4 100+100
         60 5 100+100
         70 6 100+100
         80 7 100+100",
    );
}

#[test]
fn a_drop_in_a_qdisc_leaves_the_others_in_order() {
    check(
        "10 queued +100 thread=7 | 11 queued +200 thread=7 | 15 drop +100 | 20 transmit +200",
        "10 WriteCall 0+100
         10 1d 2d 3 0+100
         11 WriteCall 100+200
         11 1d 2d 3 100+200
         15 Drop 0+100
         20 4 100+200",
    );
}

#[test]
fn one_announcement_may_stand_for_several() {
    check(
        "10 input +100 | 11 receive +100 | 20 input +50 | 21 receive +50 | 30 ready +50 socket=1
         40 copy +100 socket=1 | 50 copy +50 socket=1",
        "10 5 0+100
         11 6 0+100
         20 5 100+50
         21 6 100+50
         30 7d 0+100
         30 7 100+50
         40 8 0+100
         50 8 100+50",
    );
}

#[test]
fn what_one_call_gives_to_segmentation_is_its_datagrams() {
    check(
        "10 transmit +250 each=100 thread=7 | 20 input +250 each=100 | 30 receive +250 each=100
         40 ready +100 socket=1 | 41 ready +100 socket=1 | 42 ready +50 socket=1
         50 copy +100 socket=1 left=2 | 51 copy +100 socket=1 left=1 | 52 copy +50 socket=1 left=0",
        "10 WriteCall 0+250
         10 1d 2d 3n 4 0+100
         10 1d 2d 3n 4 100+100
         10 1d 2d 3n 4 200+50
         20 5 0+100
         20 5 100+100
         20 5 200+50
         30 6 0+100
         30 6 100+100
         30 6 200+50
         40 7 0+100
         41 7 100+100
         42 7 200+50
         50 8 0+100
         51 8 100+100
         52 8 200+50",
    );
}

#[test]
fn a_socket_that_takes_several_datagrams_at_once_has_them_in_one_read() {
    check(
        "10 receive +90 | 11 ready +90 socket=1 | 20 receive +250 each=100
         21 ready +250 each=100 socket=1
         30 copy +90 socket=1 left=1 | 31 copy +250 socket=1 left=0",
        "10 5d 6 0+90
         11 7 0+90
         20 5d 6 90+100
         20 5d 6 190+100
         20 5d 6 290+50
         21 7 90+100
         21 7 190+100
         21 7 290+50
         30 8 0+90
         31 8 90+250",
    );
}

#[test]
fn datagrams_of_one_call_may_be_segmented_behind_a_qdisc_and_put_together_on_the_way_in() {
    check(
        "10 queued +200 each=100 thread=7 | 20 transmit +100 | 21 transmit +100
         30 input +100 | 31 input +100 | 40 receive +200 each=100",
        "10 WriteCall 0+200
         10 1d 2d 3 0+100
         10 1d 2d 3 100+100
         20 4 0+100
         21 4 100+100
         30 5 0+100
         31 5 100+100
         40 6 0+100
         40 6 100+100",
    );
}

#[test]
fn of_datagrams_that_came_together_a_full_queue_drops_some() {
    check(
        "10 receive +250 each=100 | 11 ready +100 socket=1 | 12 drop +100 | 13 ready +50 socket=1
         20 copy +100 socket=1 left=1 | 21 copy +50 socket=1 left=0",
        "10 5d 6 0+100
         10 5d 6 100+100
         10 5d 6 200+50
         11 7 0+100
         12 Drop 100+100
         13 7 200+50
         20 8 0+100
         21 8 200+50",
    );
}

#[test]
fn a_packet_of_several_datagrams_is_dropped_whole_before_the_socket_and_in_its_queue() {
    check(
        "10 receive +200 each=100 | 11 drop +200 each=100
         20 receive +200 each=100 | 21 ready +200 each=100 socket=1 | 30 drop +200 each=100",
        "10 5d 6 0+100
         10 5d 6 100+100
         11 Drop 100+100
         11 Drop 0+100
         20 5d 6 200+100
         20 5d 6 300+100
         21 7 200+100
         21 7 300+100
         30 Drop 200+200",
    );
}

#[test]
fn a_socket_that_closes_drops_packets_of_several_datagrams_and_of_one_in_their_order() {
    check(
        "10 receive +200 each=100 | 11 ready +200 each=100 socket=1
         20 receive +100 | 21 ready +100 socket=1 | 30 drop +200 each=100 | 31 drop +100",
        "10 5d 6 0+100
         10 5d 6 100+100
         11 7 0+100
         11 7 100+100
         20 5d 6 200+100
         21 7 200+100
         30 Drop 0+200
         31 Drop 200+100",
    );
}

#[test]
fn a_bridge_hands_several_datagrams_to_ip_again() {
    check(
        "20 input +250 each=100 | 30 receive +250 each=100 | 31 receive +250 each=100
         40 ready +100 socket=1 | 41 ready +100 socket=1 | 42 ready +50 socket=1",
        "20 5 0+100
         20 5 100+100
         20 5 200+50
         30 6 0+100
         30 6 100+100
         30 6 200+50
         31 5d 6 0+100
         31 5d 6 100+100
         31 5d 6 200+50
         40 7 0+100
         41 7 100+100
         42 7 200+50",
    );
}

#[test]
fn a_short_read_takes_the_oldest_and_not_one_of_its_length() {
    check(
        "10 input +100 | 11 receive +100 | 12 ready +100 socket=1
         20 input +10 | 21 receive +10 | 22 ready +10 socket=1 | 30 copy +10 socket=1",
        "10 5 0+100
         11 6 0+100
         12 7 0+100
         20 5 100+10
         21 6 100+10
         22 7 100+10
         30 8 0+100",
    );
}

#[test]
fn a_peer_elsewhere_shows_the_half_that_is_here() {
    check("10 transmit +100 thread=7", "10 WriteCall 0+100\n10 1d 2d 3n 4 0+100");
    check("10 input +100 | 20 receive +100", "10 5 0+100\n20 6 0+100");
}

#[test]
fn a_forwarded_datagram_is_not_sent_a_second_time() {
    check(
        "10 transmit +100 thread=7 | 20 input +100 | 30 receive +100 | 40 transmit +100
         50 input +100",
        "10 WriteCall 0+100
         10 1d 2d 3n 4 0+100
         20 5 0+100
         30 6 0+100
         40 3n 4 0+100
         50 5 0+100",
    );
}

#[test]
fn an_arrival_that_no_probe_of_ip_saw_is_a_loss_at_its_points() {
    check(
        "10 transmit +100 thread=7 | 50 ready +100 socket=1 | 60 copy +100 socket=1",
        "10 WriteCall 0+100
         10 1d 2d 3n 4 0+100
         50 7 0+100
         50 Loss of 1 at 5 since 10
         50 Loss of 1 at 6 since 10
         60 8 0+100",
    );
}

#[test]
fn a_departure_from_a_qdisc_that_was_not_seen_is_a_loss_at_point_4() {
    check(
        "10 queued +100 thread=7 | 20 queued +100 thread=7 | 30 input +100 | 40 receive +100
         50 ready +100 socket=1 | 60 transmit +100 | 70 input +100",
        "10 WriteCall 0+100
         10 1d 2d 3 0+100
         20 WriteCall 100+100
         20 1d 2d 3 100+100
         30 5 0+100
         30 Loss of 1 at 4 since 10
         40 6 0+100
         50 7 0+100
         60 4 100+100
         70 5 100+100",
    );
}

#[test]
fn an_arrival_that_no_probe_after_a_qdisc_saw_is_a_loss_at_each_point() {
    check(
        "10 queued +100 thread=7 | 50 ready +100 socket=1 | 60 queued +100 thread=7
         70 receive +100",
        "10 WriteCall 0+100
         10 1d 2d 3 0+100
         50 7 0+100
         50 Loss of 1 at 4 since 10
         50 Loss of 1 at 5 since 10
         50 Loss of 1 at 6 since 10
         60 WriteCall 100+100
         60 1d 2d 3 100+100
         70 5d 6 100+100
         70 Loss of 1 at 4 since 60",
    );
}

/// Three datagrams stand in a queue, the second in buffer 2. The first one and the third arrive at a socket.
const VANISHED: &str = "10 queued +100 thread=7 buffer=1 udp | 11 queued +100 thread=7 buffer=2 udp
     12 queued +100 thread=7 buffer=3 udp
     20 transmit +100 buffer=1 udp | 21 input +100 buffer=1 udp | 22 receive +100 buffer=1 udp
     23 ready +100 buffer=1 socket=1 udp | 24 copy +100 socket=1 left=0 udp
     40 transmit +100 buffer=3 udp | 41 input +100 buffer=3 udp | 42 receive +100 buffer=3 udp
     43 ready +100 buffer=3 socket=1 udp | 44 copy +100 socket=1 left=0 udp";

/// The losses that the recorder reports after [`VANISHED`] and these hits, until the recording ends at 90.
fn missing_behind(hits: &str) -> Vec<String> {
    let mut decoder = udp();
    feed(&mut decoder, &format!("{VANISHED}\n{hits}"));
    decoder.detaching(90);
    decoder.check_gaps();
    let shown = super::shown(&mut decoder);
    shown.into_iter().filter(|line| line.contains("Loss")).collect()
}

#[test]
fn a_datagram_that_vanishes_from_a_queue_is_a_loss_until_a_later_one_has_arrived() {
    let expected = ["43 Loss of 1 at 31 since 11"];
    assert_eq!(missing_behind(""), expected);
    assert_eq!(missing_behind("50 queued +100 thread=7 buffer=2 udp"), expected);
}

/// The second datagram of [`VANISHED`] has gone between 11 and 43. The losses are known before the hits are decoded,
/// or behind that; the vanished datagram is reported at the end.
#[test]
fn a_datagram_that_vanishes_is_explained_by_losses_of_that_time_alone() {
    let told = |since_ns, until_ns, is_interrupted: bool, is_known_before: bool| {
        let mut decoder = udp();
        let lose = |decoder: &mut Decoder| {
            let points = [Point::InterfaceDequeue];
            if is_interrupted {
                decoder.interrupted(since_ns, until_ns, &points);
            } else {
                decoder.lost_between(since_ns, until_ns, &points, false);
            }
        };
        if is_known_before {
            lose(&mut decoder);
        }
        feed(&mut decoder, VANISHED);
        if !is_known_before {
            lose(&mut decoder);
        }
        decoder.detaching(90);
        decoder.check_gaps();
        decoder.take_gaps().total()
    };
    for (is_interrupted, is_known_before) in
        [(false, false), (false, true), (true, false), (true, true)]
    {
        assert_eq!(told(30, 80, is_interrupted, is_known_before), 0);
        assert_eq!(told(60, 80, is_interrupted, is_known_before), 1);
    }
}

/// The recorder attaches the hook of point 5 while datagrams pass, and decodes them later.
#[test]
fn a_datagram_that_vanishes_before_point_5_has_a_hook_is_a_loss_all_the_same() {
    let mut decoder = udp();
    let is_of_another_point = |hit: &&str| !hit.contains("input");
    let hits = VANISHED.lines().flat_map(|line| line.split('|')).filter(is_of_another_point);
    decoder.see_input_from(50);
    feed(&mut decoder, &hits.collect::<Vec<_>>().join("|"));
    let guess = reported(&mut decoder).iter().find(|record| {
        let is_of_packet =
            record.kind == Kind::InterfaceDequeue || record.kind == Kind::InputDequeue;
        is_of_packet && !record.is_marked(marks::RECOGNIZED)
    });
    assert_eq!(guess, None);
    decoder.detaching(90);
    decoder.check_gaps();
    let shown = super::shown(&mut decoder);
    let losses: Vec<_> = shown.iter().filter(|line| line.contains("Loss")).collect();
    assert_eq!(losses, ["43 Loss of 1 at 31 since 11"]);
}

#[test]
fn a_datagram_that_is_used_again_before_a_later_one_arrives_has_gone_by_then() {
    let mut decoder = udp();
    let hits = VANISHED.lines().take(4).collect::<Vec<_>>().join("\n");
    feed(&mut decoder, &format!("{hits}\n30 queued +100 thread=7 buffer=2 udp"));
    let shown = super::shown(&mut decoder);
    let losses: Vec<_> = shown.iter().filter(|line| line.contains("Loss")).collect();
    assert_eq!(losses, ["30 Loss of 1 at 31 since 11"]);
}

#[test]
fn a_datagram_that_others_overtake_is_no_loss_when_it_comes_later() {
    let hits = "50 transmit +100 buffer=2 udp | 51 input +100 buffer=2 udp
         52 receive +100 buffer=2 udp | 53 ready +100 buffer=2 socket=1 udp";
    assert_eq!(missing_behind(hits), [""; 0]);
}

#[test]
fn a_drop_that_was_seen_is_no_loss() {
    let mut decoder = udp();
    let (queued, passed) = VANISHED.split_at(VANISHED.find("20 transmit").unwrap());
    feed(&mut decoder, &format!("{queued}15 drop +100 buffer=2 udp\n{passed}"));
    decoder.detaching(90);
    decoder.check_gaps();
    assert_eq!(decoder.take_gaps().total(), 0);
}

/// The first datagram in buffer 1 has no hit behind point 4, and the second one none of leaving the queue.
#[test]
fn what_arrives_in_a_buffer_is_the_datagram_that_was_queued_in_it_last() {
    let first = "1 queued +100 thread=7 buffer=9 | 2 transmit +100 buffer=9 | 3 input +100 buffer=9
         4 receive +100 buffer=9
         10 queued +100 thread=7 buffer=1 | 20 transmit +100 buffer=1
         30 queued +100 thread=7 buffer=1";
    let shown = |arrival: &str| {
        let mut decoder = udp();
        let hits = format!("{first}\n{arrival}");
        let hits = hits.lines().flat_map(|line| line.split('|'));
        feed(&mut decoder, &hits.map(|hit| format!("{hit} udp")).collect::<Vec<_>>().join("|"));
        super::shown(&mut decoder).split_off(10)
    };
    let skipped = "40 Loss of 1 at 4 since 30";
    assert_eq!(shown("40 input +100 buffer=1"), ["40 5 200+100", skipped]);
    assert_eq!(shown("40 receive +100 buffer=1"), ["40 5d 6 200+100", skipped]);
    assert_eq!(shown("40 ready +100 buffer=1 socket=1")[..2], ["40 7 200+100", skipped]);
    assert_eq!(shown("40 drop +100 buffer=1"), ["40 Drop 200+100"]);
}

#[test]
fn a_thread_that_only_ran_when_a_datagram_left_a_qdisc_is_not_its_sender() {
    let mut decoder = udp();
    decoder.event(&seen(2, 7, c"sender"));
    feed(&mut decoder, "10 queued +100 thread=7 udp | 11 queued +100 thread=7 udp");
    decoder.event(&seen(2, 8, c"compiler"));
    decoder.event(&seen(2, 9, c"reader"));
    feed(&mut decoder, "20 transmit +100 thread=8 udp | 21 input +100 udp | 22 receive +100 udp");
    decoder.event(&seen(3, 9, c"reader"));
    feed(&mut decoder, "30 ready +100 socket=1 udp | 40 copy +100 socket=1 thread=9 udp");
    let connections = decoder.take_changed();
    let processes = &connections[0].processes;
    let names = processes.iter().map(|process| (process.comm.as_str(), process.side));
    assert_eq!(names.collect::<Vec<_>>(), [("sender", Side::Client), ("reader", Side::Server)]);
    assert!(connections[0].both_ends_here);
}

#[test]
fn a_socket_that_nobody_reads_is_an_end_all_the_same() {
    let mut decoder = udp();
    feed(&mut decoder, "10 transmit +100 thread=7 udp | 20 input +100 udp | 21 receive +100 udp");
    assert!(!decoder.take_changed()[0].both_ends_here);
    feed(&mut decoder, "30 ready +100 socket=1 udp");
    assert!(decoder.take_changed()[0].both_ends_here);
    feed(&mut decoder, "40 transmit +100 thread=7 udp | 50 ready +100 socket=1 udp");
    assert!(decoder.take_changed().is_empty());
}

/// The losses when the recording ends at `until_ns`, 300 ms after the arrival of two datagrams; one of them
/// has no record of leaving IP.
fn undelivered(first: &str, until_ns: u64) -> Vec<u64> {
    let mut decoder = udp();
    let hits = format!("{first}\n20 transmit +100 udp | 21 input +100 udp | 22 receive +100 udp");
    feed(&mut decoder, &hits);
    decoder.detaching(until_ns);
    (0..2)
        .map(|_| {
            decoder.check_gaps();
            decoder.take_gaps().events
        })
        .collect()
}

#[test]
fn a_drop_that_was_not_seen_is_lost_once() {
    let read =
        "10 transmit +90 udp | 11 input +90 udp | 12 receive +90 udp | 13 ready +90 socket=1 udp";
    assert_eq!(undelivered(read, 300_000_000), [1, 0]);
    // It may be in transit.
    assert_eq!(undelivered(read, 50_000_000), [0, 0]);
}

#[test]
fn datagrams_that_the_kernel_reads_itself_are_not_lost() {
    let taken = "10 transmit +90 udp | 11 input +90 udp | 12 receive +90 udp";
    assert_eq!(undelivered(taken, 300_000_000), [0, 0]);
}

/// Datagrams of 90 octets with these times of arrival; `end` adds to the hit of the queue.
fn came(times: &[u64], end: &str) -> String {
    let came = |at: &u64| {
        format!(
            "{at} transmit +90 udp | {at} input +90 udp | {at} receive +90 udp
             {at} ready +90 socket=1 udp {end}\n"
        )
    };
    times.iter().map(came).collect()
}

/// Connection 1 with datagrams of 90 octets that arrive at these times, reads recorded from `since_ns` on.
fn doubted(times: &[u64], since_ns: u64) -> Decoder {
    let mut decoder = udp();
    feed(&mut decoder, &came(times, ""));
    decoder.mark_reads_uncertain(since_ns);
    super::shown(&mut decoder);
    decoder
}

#[test]
fn what_came_before_reads_were_seen_had_gone_when_one_leaves_none() {
    let mut decoder = doubted(&[10, 20, 40], 30);
    feed(&mut decoder, "50 copy +90 socket=1 udp left=1 | 51 copy +90 socket=1 udp left=0");
    let expected = "50 Loss of 2 at 8 since 10
         50 8d 0+90
         50 8d 90+90
         51 Loss of 1 at 8 since 40
         51 8d 180+90";
    super::assert_lines(&super::shown(&mut decoder), expected);
    assert_eq!(decoder.take_unplaced_reads(), 3);
    feed(&mut decoder, &(came(&[60], "") + "70 copy +90 socket=1 udp left=0"));
    assert_eq!(super::shown(&mut decoder).last().unwrap(), "70 8 270+90");
}

#[test]
fn reads_that_do_not_say_what_they_leave_have_no_place_while_earlier_datagrams_may_wait() {
    let mut decoder = doubted(&[10, 20], 30);
    feed(&mut decoder, &came(&[40], ""));
    super::shown(&mut decoder);
    feed(&mut decoder, "50 copy +90 socket=1 udp | 51 copy +90 socket=1 udp");
    assert_eq!(super::shown(&mut decoder), [""; 0]);
    decoder.detaching(60);
    decoder.check_gaps();
    assert_eq!(super::shown(&mut decoder), ["60 Loss of 3 at 8 since 10"]);
    assert_eq!((decoder.take_unplaced_reads(), decoder.take_unplaced_reads()), (3, 0));
}

#[test]
fn a_socket_first_seen_before_reads_were_is_doubted_too() {
    let mut decoder = doubted(&[], 30);
    feed(&mut decoder, &came(&[20, 40], ""));
    super::shown(&mut decoder);
    feed(&mut decoder, "50 copy +90 socket=1 udp");
    assert_eq!(super::shown(&mut decoder), [""; 0]);
    feed(&mut decoder, "60 receive +10 udp | 61 ready +10 socket=2 udp | 62 copy +10 socket=2 udp");
    assert_eq!(super::shown(&mut decoder).last().unwrap(), "62 8 180+10");
}

/// A queue that once held exactly the known datagrams.
fn confirmed() -> Decoder {
    let mut decoder = udp();
    feed(&mut decoder, &(came(&[1], "") + "2 copy +90 socket=1 udp left=0"));
    super::shown(&mut decoder);
    decoder
}

#[test]
fn a_read_that_was_not_seen_costs_its_own_datagram_alone() {
    let mut decoder = confirmed();
    feed(&mut decoder, &came(&[10, 20, 30], ""));
    super::shown(&mut decoder);
    // Two were left before and one is now: this is the second one's.
    feed(&mut decoder, "50 copy +90 socket=1 udp left=1 | 60 copy +90 socket=1 udp left=0");
    let expected = "50 Loss of 1 at 8 since 10
         50 8d 90+90
         50 8 180+90
         60 8 270+90";
    super::assert_lines(&super::shown(&mut decoder), expected);
}

#[test]
fn the_only_read_of_several_datagrams_is_the_last_ones() {
    let mut decoder = confirmed();
    feed(&mut decoder, &came(&[10, 20], ""));
    super::shown(&mut decoder);
    feed(&mut decoder, "50 copy +90 socket=1 udp left=0");
    let seen = super::shown(&mut decoder);
    assert_eq!(seen[1..], ["50 8d 90+90", "50 8 180+90"]);
}

#[test]
fn a_queue_that_never_runs_empty_is_known_when_those_left_were_read() {
    let mut decoder = doubted(&[10, 20, 25], 30);
    feed(&mut decoder, &came(&[40], ""));
    super::shown(&mut decoder);
    // The second or the third, which is unknown; then one that arrived meanwhile waits behind.
    feed(&mut decoder, "50 copy +90 socket=1 udp left=2");
    assert_eq!(super::shown(&mut decoder)[1..], ["50 8d 0+90", "50 8d 90+90"]);
    feed(&mut decoder, &(came(&[60], "") + "61 copy +90 socket=1 udp left=2"));
    assert!(super::shown(&mut decoder).iter().all(|line| !line.contains(" 8")));
    feed(&mut decoder, &(came(&[70], "") + "71 copy +90 socket=1 udp left=2"));
    let seen = super::shown(&mut decoder);
    assert_eq!(seen[seen.len() - 2..], ["71 8d 180+90", "71 8d 270+90"]);
    feed(&mut decoder, "80 copy +90 socket=1 udp left=1 | 81 copy +90 socket=1 udp left=0");
    assert_eq!(super::shown(&mut decoder), ["80 8 360+90", "81 8 450+90"]);
}

#[test]
fn datagrams_that_nobody_logs_take_no_others_read() {
    let mut decoder = confirmed();
    feed(&mut decoder, &came(&[10], ""));
    super::shown(&mut decoder);
    // One more is left than possible: its sender is elsewhere, or it arrived before the recording.
    feed(&mut decoder, "50 copy +90 socket=1 udp left=1");
    assert_eq!(super::shown(&mut decoder), [""; 0]);
    feed(&mut decoder, "60 copy +90 socket=1 udp left=0");
    assert_eq!(super::shown(&mut decoder), ["60 Loss of 1 at 8 since 10", "60 8d 90+90"]);
}

#[test]
fn a_datagram_that_is_read_before_its_announcement_leaves_no_trace_in_the_queue() {
    let mut decoder = confirmed();
    let early = "10 receive +90 udp | 11 copy +90 socket=1 udp left=0 | 12 ready +90 socket=1 udp";
    feed(&mut decoder, &(early.to_owned() + "\n" + &came(&[20], "")));
    super::shown(&mut decoder);
    feed(&mut decoder, "30 copy +90 socket=1 udp left=0");
    assert_eq!(super::shown(&mut decoder), ["30 8 180+90"]);
}

#[test]
fn two_threads_that_read_one_socket_may_overtake_one_another() {
    let mut decoder = udp();
    let long = "20 receive +95 udp | 21 ready +95 socket=1 udp";
    feed(&mut decoder, &(came(&[1, 2, 10], "") + long));
    feed(&mut decoder, "30 copy +90 socket=1 thread=7 udp | 31 copy +90 socket=1 thread=8 udp");
    super::shown(&mut decoder);
    let reads =
        "40 copy +95 socket=1 thread=7 udp left=0 | 41 copy +90 socket=1 thread=8 udp left=0";
    feed(&mut decoder, reads);
    assert_eq!(super::shown(&mut decoder), ["40 8 270+95", "41 8 180+90"]);
}

#[test]
fn after_a_quiet_second_no_thread_is_about_to_tell_of_an_earlier_read() {
    let mut decoder = doubted(&[10, 20, 25], 30);
    let reads =
        "50 copy +90 socket=1 thread=7 udp left=1 | 51 copy +90 socket=1 thread=8 udp left=0";
    feed(&mut decoder, reads);
    let come = |at: u64| came(&[at], "");
    feed(&mut decoder, &(come(900_000_000) + "900000001 copy +90 socket=1 thread=8 udp left=0"));
    let seen = super::shown(&mut decoder);
    assert!(
        !seen.iter().any(|line| line.ends_with(" 8 270+90")),
        "it may be another one's: {seen:?}"
    );
    feed(&mut decoder, &(come(1_900_000_001) + "1900000002 copy +90 socket=1 thread=7 udp left=0"));
    let seen = super::shown(&mut decoder);
    assert!(seen.contains(&"1900000001 8d 270+90".to_owned()), "{seen:?}");
    assert_eq!(seen.last().unwrap(), "1900000002 8 360+90");
}

#[test]
fn what_a_closed_socket_throws_away_is_not_read_by_the_next_one() {
    let mut decoder = udp();
    feed(&mut decoder, &(came(&[10, 20], "") + "30 drop +90 udp | 31 drop +90 udp"));
    feed(&mut decoder, &(came(&[40], "") + "50 copy +90 socket=1 udp left=0"));
    let seen = super::shown(&mut decoder);
    assert!(seen.contains(&"31 Drop 0+90".to_owned()), "{seen:?}");
    assert_eq!(seen.last().unwrap(), "50 8 180+90");
}

#[test]
fn datagrams_of_sockets_that_are_forgotten_are_lost_from_their_arrival_on() {
    let mut decoder = udp();
    let come = |socket: u32| {
        format!("{socket} receive +90 udp | {socket} ready +90 socket={socket} udp\n")
    };
    (1..=65_536).for_each(|socket| feed(&mut decoder, &come(socket)));
    super::shown(&mut decoder);
    feed(&mut decoder, &come(65_537));
    assert!(super::shown(&mut decoder).contains(&"65537 Loss of 32768 at 8 since 1".to_owned()));
    assert_eq!(decoder.take_unplaced_reads(), 32_768);
}

#[test]
fn of_more_datagrams_than_are_remembered_each_one_is_read_or_lost() {
    let come = "1 receive +90 udp | 1 ready +90 socket=1 udp\n".repeat(65_536);
    let mut decoder = confirmed();
    feed(&mut decoder, &(come + &came(&[3, 4], "")));
    let seen = super::shown(&mut decoder);
    assert!(seen.contains(&"3 Loss of 65536 at 8 since 1".to_owned()));
    // 65,536 were left, so that these two are the last of them.
    feed(&mut decoder, "5 copy +90 socket=1 udp left=65537");
    feed(&mut decoder, &"6 copy +90 socket=1 udp\n".repeat(65_536));
    assert_eq!(super::shown(&mut decoder), [""; 0]);
    feed(&mut decoder, "7 copy +90 socket=1 udp left=0");
    assert_eq!(super::shown(&mut decoder)[0], "7 Loss of 2 at 8 since 3");
    assert_eq!(decoder.take_unplaced_reads(), 65_538);
    feed(&mut decoder, &(came(&[8], "") + "9 copy +90 socket=1 udp left=0"));
    assert_eq!(super::shown(&mut decoder).last().unwrap(), "9 8 5898510+90");
}

/// The records of a read that leaves one datagram more than was announced, after `hits` of flows that
/// connections 1 to 3 have: the last one to another port.
fn with_one_more(hits: &str) -> Vec<String> {
    let mut decoder = confirmed();
    decoder.event(&RawEvent { connection: 2, client_port: 40_001, ..open(1, 17) });
    decoder.event(&RawEvent { connection: 3, server_port: 4789, ..open(1, 17) });
    feed(&mut decoder, &came(&[110_000_000], ""));
    for hit in hits.split('|') {
        let (flow, at_ns) = hit.trim().split_once(' ').unwrap();
        let (flow, at_ns) = (flow.parse().unwrap(), at_ns.parse().unwrap());
        for kind in [raw::RAW_INPUT, raw::RAW_RECEIVE] {
            let hit = Fields { at_ns, flow, kind, len: 90, ..Fields::default() };
            decoder.raw(0, &Fields { marks: raw::MARK_UDP, ..hit }.raw());
        }
    }
    super::shown(&mut decoder);
    feed(&mut decoder, "110000020 copy +90 socket=1 udp left=1");
    super::shown(&mut decoder)
}

#[test]
fn one_more_in_a_queue_may_be_one_that_ip_took_for_its_port_just_now() {
    let (reported, unknown) = (["110000020 8 90+90"], [""; 0]);
    assert_eq!(with_one_more("2 110000010"), reported);
    assert_eq!(with_one_more("4 110000010"), reported);
    assert_eq!(with_one_more("2 10000"), unknown, "it would be there");
    assert_eq!(with_one_more("6 110000010"), unknown, "it is for another port");
    assert_eq!(with_one_more("4 10000 | 4 110000010"), unknown, "the kernel reads these");
}

#[test]
fn of_two_threads_a_read_that_none_told_of_shows_after_a_second() {
    let mut decoder = udp();
    let threads = "50 copy +90 socket=1 thread=7 udp left=1 | 51 copy +90 socket=1 thread=8 udp";
    feed(&mut decoder, &(came(&[10, 20], "") + threads));
    // The first of these has no recorded read; the socket is busy from then on.
    feed(&mut decoder, &came(&[100], ""));
    super::shown(&mut decoder);
    let reported = |at_ns: u64| {
        let read = format!("{} copy +90 socket=1 thread=7 udp left=0", at_ns + 1);
        feed(&mut decoder, &(came(&[at_ns], "") + &read));
        let seen = super::shown(&mut decoder);
        seen.iter().any(|line| line.contains(" 8 "))
    };
    let reported: Vec<bool> =
        [200, 500_000_000, 1_000_000_000, 1_000_000_300, 1_000_000_400].map(reported).into();
    assert_eq!(reported, [true, true, true, false, false]);
}

#[test]
fn a_thread_that_tells_late_of_what_it_took_is_no_doubt() {
    let mut decoder = udp();
    let threads = "50 copy +90 socket=1 thread=7 udp left=1 | 51 copy +90 socket=1 thread=8 udp";
    feed(&mut decoder, &(came(&[10, 20], "") + threads));
    let mut last = 0;
    for at_ns in (1..30).map(|tenth| tenth * 100_000_000) {
        let reads = format!(
            "{at_ns} copy +90 socket=1 thread=7 udp left=0\n
             {at_ns} copy +90 socket=1 thread=8 udp left=0"
        );
        feed(&mut decoder, &(came(&[at_ns, at_ns], "") + &reads));
        last = at_ns;
    }
    assert_eq!(super::shown(&mut decoder).last().unwrap(), &format!("{last} 8 5310+90"));
}

#[test]
fn a_read_before_its_announcement_names_the_socket_s_last_flow_and_is_of_another() {
    let mut decoder = confirmed();
    decoder.event(&RawEvent { connection: 2, client_port: 40_001, ..open(1, 17) });
    let hit = |at_ns, flow, kind| -> RawRecord {
        let (marks, len, buffer, socket, left_plus_one) = (raw::MARK_UDP, 90, 1, 1, 1);
        let hit = Fields { at_ns, flow, kind, marks, len, buffer, ..Fields::default() };
        Fields { socket, left_plus_one, ..hit }.raw()
    };
    decoder.raw(0, &hit(10, 4, raw::RAW_RECEIVE));
    decoder.raw(0, &hit(11, 2, raw::RAW_COPY));
    decoder.raw(0, &hit(12, 4, raw::RAW_READY));
    assert_eq!(super::shown(&mut decoder), ["10 5d 6 0+90", "11 7d 8 0+90"]);
    feed(&mut decoder, &(came(&[20], "") + "30 copy +90 socket=1 udp left=0"));
    assert_eq!(super::shown(&mut decoder).last().unwrap(), "30 8 90+90");
}

/// Three datagrams of one length through a queueing discipline over loopback; each takes 100 ns there.
const QUEUED: &str = "10 queued +100 thread=7 buffer=1 | 20 queued +100 thread=7 buffer=2
     110 transmit +100 buffer=1 | 111 input +100 buffer=1 | 112 receive +100 buffer=1
     113 ready +100 socket=1 buffer=1
     120 transmit +100 buffer=2 | 121 input +100 buffer=2 | 122 receive +100 buffer=2
     123 ready +100 socket=1 buffer=2";

fn last_of(decoder: &mut Decoder, hits: &str) -> Vec<String> {
    reported(decoder).clear();
    let hits = hits.lines().flat_map(|line| line.split('|'));
    let hits = hits.map(|hit| format!("{hit} udp")).collect::<Vec<_>>().join("|");
    feed(decoder, &hits);
    super::shown(decoder)
}

#[test]
fn a_missed_datagram_puts_no_other_one_of_its_length_in_its_place() {
    let mut decoder = udp();
    last_of(&mut decoder, QUEUED);
    // Of buffer 3 all records after its entry are missed, of buffer 4 the entry.
    let shown = last_of(
        &mut decoder,
        "200 queued +100 thread=7 buffer=3 | 210 queued +100 thread=7 buffer=5
         310 transmit +100 buffer=5 | 311 input +100 buffer=5 | 312 receive +100 buffer=5
         313 ready +100 socket=1 buffer=5",
    );
    let expected = [
        "200 WriteCall 200+100",
        "200 1d 2d 3 200+100",
        "210 WriteCall 300+100",
        "210 1d 2d 3 300+100",
        "310 4 300+100",
        "311 5 300+100",
        "312 6 300+100",
        "313 7 300+100",
    ];
    assert_eq!(shown, expected);
    decoder.lost_between(201, 400, &[Point::InterfaceEnqueue], false);
    let shown = last_of(&mut decoder, "410 transmit +100 buffer=4 | 411 input +100 buffer=4");
    assert_eq!(shown, ["410 4 400+100", "411 5 400+100"], "nobody knows when it was written");
    // The buffer of the one that is missing is used again.
    let shown =
        last_of(&mut decoder, "500 queued +100 thread=7 buffer=3 | 510 transmit +100 buffer=3");
    assert_eq!(shown, ["500 WriteCall 500+100", "500 1d 2d 3 500+100", "510 4 500+100"]);
}

#[test]
fn a_datagram_that_a_qdisc_refuses_is_a_write_and_no_other_one_is_dropped() {
    let mut decoder = udp();
    let shown = last_of(
        &mut decoder,
        "10 queued +100 thread=7 buffer=1 | 20 drop +100 thread=7 buffer=2 | 30 transmit +100 buffer=1",
    );
    let expected = [
        "10 WriteCall 0+100",
        "10 1d 2d 3 0+100",
        "20 WriteCall 100+100",
        "20 1d 2d 100+100",
        "20 Drop 100+100",
        "30 4 0+100",
    ];
    assert_eq!(shown, expected);
}

#[test]
fn a_device_that_copies_packets_leaves_order_and_length() {
    // As through a TUN device: the buffers that arrive differ from those sent.
    let mut decoder = udp();
    let shown = last_of(
        &mut decoder,
        "10 transmit +100 thread=7 buffer=1 | 11 transmit +100 thread=7 buffer=2
         20 input +100 buffer=8 | 21 input +100 buffer=9 | 30 receive +100 buffer=8
         31 receive +100 buffer=9",
    );
    assert_eq!(shown[4..], ["20 5 0+100", "21 5 100+100", "30 6 0+100", "31 6 100+100"]);
}

#[test]
fn a_datagram_in_another_buffer_is_not_the_one_that_waits_in_a_qdisc() {
    let mut decoder = udp();
    last_of(&mut decoder, "10 queued +100 thread=7 buffer=1");
    // It was sent before the pair was followed.
    assert_eq!(last_of(&mut decoder, "20 input +100 buffer=2"), ["20 5 100+100"]);
    assert_eq!(last_of(&mut decoder, "30 transmit +100 buffer=1"), ["30 4 0+100"]);
}

#[test]
fn what_may_have_been_dropped_unseen_does_not_enter_a_queue_with_the_next_one() {
    let mut decoder = udp();
    last_of(&mut decoder, "1 receive +100 buffer=9 | 2 ready +100 socket=1 buffer=9");
    last_of(&mut decoder, "10 receive +100 buffer=1");
    decoder.interrupted(12, 15, &[]);
    let shown = last_of(&mut decoder, "20 receive +100 buffer=2 | 21 ready +100 socket=1 buffer=2");
    assert_eq!(shown, ["20 5d 6 200+100", "21 7 200+100"]);
}

#[test]
fn of_two_threads_that_leave_more_than_came_neither_is_known_to_read_the_oldest() {
    let mut decoder = udp();
    let threads =
        "30 copy +90 socket=1 thread=7 udp left=1 | 31 copy +90 socket=1 thread=8 udp left=0";
    feed(&mut decoder, &(came(&[10, 20], "") + threads));
    super::shown(&mut decoder);
    // Ahead of this one a datagram arrived that is not logged.
    feed(&mut decoder, &(came(&[40], "") + "50 copy +90 socket=1 thread=7 udp left=1"));
    let seen = super::shown(&mut decoder);
    assert!(!seen.iter().any(|line| line.contains(" 8 ")), "{seen:?}");
}

#[test]
fn a_datagram_that_came_before_its_hook_is_not_the_one_that_had_its_buffer() {
    let mut decoder = udp();
    decoder.see_input(false);
    last_of(&mut decoder, "10 transmit +100 thread=7 buffer=1 loopback");
    // All records of buffer 1 behind that are missed; the hook of point 5 is attached behind 30.
    decoder.lost_between(11, 20, &[Point::InputDequeue], false);
    decoder.see_input_from(31);
    let shown = last_of(
        &mut decoder,
        "30 transmit +100 thread=7 buffer=1 loopback | 40 receive +100 buffer=1",
    );
    assert_eq!(shown[2..], ["40 5d 6 100+100"]);
}

#[test]
fn only_what_each_point_recognized_is_told_as_recognized() {
    let reported = |hits: &str| {
        let mut decoder = udp();
        feed(&mut decoder, hits);
        let records = reported(&mut decoder).drain(..);
        let records = records.filter(|r| r.point().is_some_and(|p| p > Point::SendDequeue));
        records.map(|record| record.is_marked(marks::RECOGNIZED)).collect::<Vec<_>>()
    };
    let same = "10 queued +9 thread=7 buffer=1 udp | 20 transmit +9 buffer=1 udp | 30 input +9 buffer=1 udp";
    assert_eq!(reported(same), [true; 3]);
    let copied = "10 queued +9 thread=7 buffer=1 udp | 20 transmit +9 buffer=1 udp | 30 input +9 buffer=4 udp | 40 receive +9 buffer=4 udp";
    assert_eq!(reported(copied), [true, true, false, false]);
    assert_eq!(reported("10 transmit +9 thread=7 udp"), [false; 2]);
    let read =
        "50 receive +9 buffer=1 udp | 51 ready +9 buffer=1 socket=1 udp | 60 copy +9 socket=1 udp";
    assert_eq!(reported(&format!("{same} | {read}")), [true; 6]);
    let read = read.replace("buffer=1", "buffer=4");
    assert_eq!(reported(&format!("{same} | 40 input +9 buffer=4 udp | {read}"))[3..], [true; 4]);
}
