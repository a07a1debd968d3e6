//! TCP streams: hits in, records out, every case one trace in text.

use std::sync::Arc;

use sockscope_record::ControlGroup;
use sockscope_record::{Kind, Point, Record, Side, SocketLayer, marks};

use super::{
    Fields, assert_lines, check, check_with, empty, feed, open, opened, opened_to_peer, reported,
    seen, shown, state,
};
use crate::decode::Decoder;
use crate::layout::{RawEvent, RawOption, constants as raw};

#[test]
fn a_segment_over_loopback_passes_all_eight_points() {
    check(
        "10 write 1000+100 room thread=7 | 20 transmit 1000+100 taken=5 | 30 input 1000+100
         40 receive 1000+100 | 50 ready 1100 waited | 60 copy 1100 thread=8",
        "10 WriteCall 0+100
         10 1 0+100
         15 2d 0+100
         20 3n 4n 0+100
         30 5 0+100
         40 6 0+100
         50 7w 0+100
         60 8 0+100",
    );
}

#[test]
fn a_write_that_nagle_holds_is_in_the_queue_before_it_is_sent() {
    check(
        "10 write 1000+100 room code=1 | 900 transmit 1000+100",
        "10 WriteCall 0+100
         10 1 0+100
         900 2d 3n 4n 0+100",
    );
}

#[test]
fn chunks_of_one_call_become_one_call() {
    check(
        "10 write 1000+300 | 20 write 1100+200 | 30 write 1200+100 room",
        "10 WriteCall 0+300
         10 1 0+100
         20 1 100+100
         30 1 200+100",
    );
}

#[test]
fn a_write_without_room_is_counted_as_far_as_segments_prove_it() {
    check(
        "10 write 1000+300 | 20 transmit 1000+100",
        "10 WriteCall 0+300
         10 1 0+100
         20 2d 3n 4n 0+100",
    );
}

#[test]
fn a_blocked_write_takes_nothing_until_it_is_seen_again() {
    check(
        "10 write 1000+100 | 500 write 1000+100 room",
        "10 WriteCall 0+100
         500 1 0+100",
    );
}

#[test]
fn a_write_cut_short_ends_where_the_next_one_begins() {
    check(
        "10 write 1000+300 thread=7 | 20 write 1100+50 room thread=7",
        "10 WriteCall 0+300
         10 1 0+100
         20 WriteCall 100+50
         20 1 100+50",
    );
}

#[test]
fn the_return_of_a_call_says_what_it_took_and_the_rest_is_another_call() {
    check(
        "10 write 1000+300 thread=7 | 15 write-return 1100+100 thread=7
         20 write 1100+200 room thread=7",
        "10 WriteCall 0+300
         10 1 0+100
         15 WriteReturn 0+100
         20 WriteCall 100+200
         20 1 100+200",
    );
}

#[test]
fn a_segment_waits_in_the_qdisc_and_keeps_the_mark_it_entered_with() {
    // At 90 the socket has counted it as sent, so that the hit calls it a repetition.
    check(
        "10 write 1000+100 room | 20 queued 1000+100 | 90 transmit 1000+100 again",
        "10 WriteCall 0+100
         10 1 0+100
         20 2d 3 0+100
         90 4 0+100",
    );
}

#[test]
fn a_retransmission_through_a_qdisc_is_marked_at_each_point() {
    check(
        "10 write 1000+100 room | 20 queued 1000+100 | 30 retransmit 1000+100 code=1
         31 queued 1000+100 again | 90 transmit 1000+100 again | 95 transmit 1000+100 again",
        "10 WriteCall 0+100
         10 1 0+100
         20 2d 3 0+100
         30 Retransmit 1 0+100
         31 2dr 3r 0+100
         90 4 0+100
         95 4r 0+100",
    );
}

#[test]
fn what_leaves_a_qdisc_without_having_been_seen_to_enter_is_not_sent_again() {
    // By then the socket has counted it as sent. Points 2 and 3 stay unknown.
    check(
        "10 write 1000+300 room | 20 queued 1100+100 | 80 transmit 1000+100 again
         90 transmit 1100+100 again | 95 transmit 1200+100 again | 99 transmit 1200+100 again",
        "10 WriteCall 0+300
         10 1 0+300
         20 2d 3 100+100
         80 4 0+100
         90 4 100+100
         95 4 200+100
         99 2dr 3nr 4nr 200+100",
    );
}

#[test]
fn where_there_is_no_qdisc_the_last_segment_sent_again_is_so_though_its_first_hit_was_lost() {
    check(
        "10 write 1000+200 room | 20 transmit 1000+100 | 90 transmit 1100+100 again",
        "10 WriteCall 0+200
         10 1 0+200
         20 2d 3n 4n 0+100
         90 2dr 3nr 4nr 100+100",
    );
}

/// The last record of `hits` after one segment passed a qdisc and hits were lost.
fn last_after_loss(hits: &str) -> String {
    let mut decoder = opened();
    feed(&mut decoder, "10 write 1000+500 room | 20 queued 1000+100 | 30 transmit 1000+100 again");
    decoder.lost_between(0, 40, &Point::ALL, false);
    feed(&mut decoder, hits);
    shown(&mut decoder).pop().unwrap()
}

#[test]
fn after_a_loss_what_was_not_seen_is_sent_again_until_a_new_segment_went_through_the_qdisc() {
    // `[100, 200)` may have been sent before 40, and another one be in the qdisc since.
    assert_eq!(last_after_loss("90 transmit 1100+100 again"), "90 2dr 3nr 4nr 100+100");
    let entered = "50 queued 1200+100 | 60 transmit 1100+100 again";
    assert_eq!(last_after_loss(entered), "60 2dr 3nr 4nr 100+100");
    let again =
        "50 queued 1000+100 again | 60 transmit 1000+100 again | 70 transmit 1100+100 again";
    assert_eq!(last_after_loss(again), "70 2dr 3nr 4nr 100+100");
    let through = "50 queued 1200+100 | 60 transmit 1200+100 again | 70 transmit 1300+100 again";
    assert_eq!(last_after_loss(through), "70 4 300+100");
}

#[test]
fn a_segment_queued_as_a_whole_leaves_in_parts() {
    check(
        "10 write 1000+300 room | 20 queued 1000+300 | 30 transmit 1000+100 | 40 transmit 1100+100
         50 transmit 1200+100 | 60 queued 1300",
        "10 WriteCall 0+300
         10 1 0+300
         20 2d 3 0+300
         30 4 0+100
         40 4 100+100
         50 4 200+100
         60 3 300+0",
    );
}

#[test]
fn what_a_qdisc_drops_does_not_hide_what_leaves_it_later() {
    check(
        "10 write 1000+200 room | 20 queued 1000+100 | 21 queued 1100+100 | 25 drop 1000+100
         30 transmit 1100+100",
        "10 WriteCall 0+200
         10 1 0+200
         20 2d 3 0+100
         21 2d 3 100+100
         25 Drop 0+100
         30 4 100+100",
    );
}

#[test]
fn a_pure_acknowledgment_does_not_stand_for_queued_data() {
    check(
        "10 write 1000+100 room | 20 queued 1000+100 | 21 queued 1100 | 30 transmit 1000+100
         31 transmit 1100 | 40 transmit 1100",
        "10 WriteCall 0+100
         10 1 0+100
         20 2d 3 0+100
         21 3 100+0
         30 4 0+100
         31 4 100+0
         40 3n 4n 100+0",
    );
}

#[test]
fn data_was_received_at_the_latest_when_its_acknowledgment_was_made() {
    check(
        "20 transmit 1000+100 | 50 <transmit 5000 ack=1100 | 60 ready 1100",
        "20 2d 3n 4n 0+100
         50 <3n 4n 0+0
         50 7 0+100",
    );
}

#[test]
fn data_read_without_an_announcement_was_received_by_then() {
    check(
        "20 transmit 1000+100 | 60 copy 1100",
        "20 2d 3n 4n 0+100
         60 7d 8 0+100",
    );
}

#[test]
fn an_announcement_that_moves_nothing_is_no_record() {
    check(
        "10 ready 1100 | 20 ready 1100 | 30 copy 1100 | 40 copy 1100",
        "10 7 0+100
         30 8 0+100",
    );
}

#[test]
fn a_fin_is_not_a_byte() {
    check(
        "20 transmit 1000+100 fin | 30 input 1000+100 fin | 40 ready 1101 | 50 copy 1101
         60 <transmit 5000 ack=1101",
        "20 2d 3n 4n 0+100
         30 5 0+100
         40 7 0+100
         50 8 0+100
         60 <3n 4n 0+0",
    );
}

#[test]
fn a_fin_that_no_probe_saw_is_not_a_byte_either() {
    let mut decoder = opened();
    feed(&mut decoder, "20 transmit 1000+100");
    decoder.event(&state(2, 4, 1100, 5000));
    check_with(decoder, "40 ready 1101", "20 2d 3n 4n 0+100\n40 7 0+100");
}

#[test]
fn after_a_half_close_the_other_direction_goes_on() {
    check(
        "20 transmit 1000 fin | 30 <transmit 5000+100 ack=1001 | 40 <ready 5100 | 50 <copy 5100",
        "20 3n 4n 0+0
         30 <2d 3n 4n 0+100
         40 <7 0+100
         50 <8 0+100",
    );
}

#[test]
fn a_forged_fin_or_reset_far_away_moves_no_position() {
    check(
        "20 input 1000+0 fin | 21 receive 2000000000 ack=3000000000 | 22 drop 2100000000+5
         23 input 4000000000 | 30 ready 1100 | 40 copy 1100",
        "20 5 0+0
         21 5d 6 1999999000+0
         22 Drop 2099999000+5
         23 5 0+0
         30 7 0+100
         40 8 0+100",
    );
}

#[test]
fn positions_go_on_where_sequence_numbers_wrap() {
    let mut decoder = empty();
    decoder.event(&open(1, 6));
    feed(&mut decoder, "1 transmit 4294967289 syn");
    reported(&mut decoder).clear();
    check_with(
        decoder,
        "10 write 4294967290+10 room | 20 transmit 4294967290+10 | 30 ready 4 | 40 copy 4
         50 write 4+5 room",
        "10 WriteCall 0+10
         10 1 0+10
         20 2d 3n 4n 0+10
         30 7 0+10
         40 8 0+10
         50 WriteCall 10+5
         50 1 10+5",
    );
}

fn joined() -> Decoder {
    let mut decoder = empty();
    let join = RawEvent {
        kind: u32::from(raw::EVENT_JOIN),
        flow: 2,
        snd_seq: 7000,
        snd_offset: 6000,
        rcv_seq: 9000,
        rcv_offset: 4000,
        copied_seq: 8900,
        ..open(1, 6)
    };
    decoder.event(&join);
    reported(&mut decoder).clear();
    decoder
}

/// The buffers recorded: time, flow of the sender, bytes for sending.
fn send_buffers(decoder: &mut Decoder) -> Vec<(u64, u32, u64)> {
    let records = reported(decoder).drain(..);
    let buffers = records.filter(|one| one.kind == Kind::SocketBuffers);
    buffers.map(|one| (one.at_ns, one.flow.0, one.detail & 0xffff_ffff)).collect()
}

#[test]
fn a_connection_open_at_the_end_is_told_once_for_each_of_its_sockets() {
    let mut decoder = opened();
    feed(&mut decoder, "10 write 1000+100 | 20 transmit 1000+100 | 30 ready 1100");
    reported(&mut decoder).clear();
    let kind = u32::from(raw::EVENT_OPEN_STILL);
    let open = |at_ns, flow, sndbuf| RawEvent { at_ns, kind, sndbuf, ..state(flow, 1, 0, 0) };
    // The server's socket is shared by two processes.
    for event in [open(900, 2, 4096), open(901, 3, 8192), open(902, 3, 8192)] {
        decoder.event(&event);
    }
    assert_eq!(send_buffers(&mut decoder), [(900, 2, 4096), (901, 3, 8192)]);
}

#[test]
fn a_connection_of_which_one_socket_is_closed_and_one_is_open_is_open() {
    let mut decoder = opened();
    decoder.event(&RawEvent { at_ns: 50, ..state(2, 7, 1000, 5000) });
    assert_eq!(decoder.take_changed()[0].closed_ns, Some(50));
    let kind = u32::from(raw::EVENT_OPEN_STILL);
    decoder.event(&RawEvent { at_ns: 900, kind, ..state(3, 8, 5000, 1001) });
    assert_eq!(decoder.take_changed()[0].closed_ns, None);
}

#[test]
fn a_socket_that_closed_while_it_was_looked_at_stays_closed() {
    let mut decoder = opened();
    decoder.event(&RawEvent { at_ns: 50, ..state(2, 7, 1000, 5000) });
    assert_eq!(decoder.take_changed()[0].closed_ns, Some(50));
    reported(&mut decoder).clear();
    let kind = u32::from(raw::EVENT_OPEN_STILL);
    decoder.event(&RawEvent { at_ns: 49, kind, ..state(2, 1, 1000, 5000) });
    assert!(decoder.take_changed().is_empty());
    assert_eq!(send_buffers(&mut decoder), []);
}

#[test]
fn a_joined_connection_goes_on_from_its_counters() {
    check_with(
        joined(),
        "10 transmit 7000+50 | 20 write 7050+10 room | 30 <ready 9100 | 40 <copy 9100",
        "10 2d 3n 4n 6000+50
         20 WriteCall 6050+10
         20 1 6050+10
         30 <7 4000+100
         40 <8 3900+200",
    );
}

/// A receiver may have had all bytes that its sender has no acknowledgment of yet.
#[test]
fn what_came_before_a_connection_was_joined_does_not_come_again() {
    check_with(
        joined(),
        "10 transmit 7050+50 | 11 input 7050+50 | 12 receive 7050+50 | 13 ready 7100 | 14 copy 7100
         20 transmit 7100+50 | 21 input 7100+50 | 22 receive 7100+50 | 23 ready 7150 | 24 copy 7150",
        "10 2d 3n 4n 6050+50
         11 5 6050+50
         12 6 6050+50
         13 7 6050+50
         14 8 6050+50
         20 2d 3n 4n 6100+50
         21 5 6100+50
         22 6 6100+50
         23 7 6100+50
         24 8 6100+50",
    );
}

#[test]
fn what_was_on_its_way_when_a_connection_was_joined_comes() {
    check_with(
        joined(),
        "10 receive 7050+50 | 11 receive 7000+50 | 12 ready 7100 | 13 copy 7100",
        "10 5d 6 6050+50
         11 5d 6 6000+50
         12 7 6000+100
         13 8 6000+100",
    );
}

#[test]
fn a_read_of_what_came_before_a_connection_was_joined_is_none_of_it() {
    check_with(
        joined(),
        "10 copy 7050 | 20 receive 7050+9 | 21 ready 7059",
        "20 5d 6 6050+9\n21 7 6050+9",
    );
}

#[test]
fn a_connection_whose_syn_was_not_seen_begins_with_what_the_sockets_say() {
    let mut decoder = empty();
    decoder.event(&open(1, 6));
    decoder.event(&state(2, 1, 1000, 5000));
    reported(&mut decoder).clear();
    check_with(
        decoder,
        "20 transmit 1000+100 | 30 <transmit 5000+5",
        "20 2d 3n 4n 0+100\n30 <2d 3n 4n 0+5",
    );
}

#[test]
fn a_syn_with_data_corrects_what_the_socket_said_first() {
    let mut decoder = empty();
    decoder.event(&open(1, 6));
    decoder.event(&state(2, 1, 1010, 5000));
    decoder.event(&state(2, 4, 1030, 5000));
    reported(&mut decoder).clear();
    check_with(
        decoder,
        "5 transmit 999+10 syn | 20 transmit 1010+20 fin | 30 ready 1031",
        "5 1d 2d 3n 4n 0+10
         20 2d 3n 4n 10+20
         30 7 0+30",
    );
}

#[test]
fn the_data_of_a_syn_was_written_by_the_call_that_connects() {
    let mut decoder = empty();
    decoder.event(&open(1, 6));
    check_with(
        decoder,
        "9 transmit 999+10 syn taken=4 | 15 transmit 999+10 syn again | 20 write 1010+5 room",
        "5 1d 2d 0+10
         9 3n 4n 0+10
         15 2dr 3nr 4nr 0+10
         20 WriteCall 10+5
         20 1 10+5",
    );
}

#[test]
fn a_reset_that_answers_a_syn_stands_where_its_stream_would_begin() {
    let mut decoder = empty();
    decoder.event(&open(1, 6));
    check_with(
        decoder,
        "9 transmit 999 syn | 12 <transmit 0 rst ack=1000 forwarded | 15 <input 0 rst ack=1000
         16 <receive 0 rst ack=1000 | 17 <receive 0 ack=1000 | 18 <receive 0+5 rst",
        "9 3n 4n 0+0
         12 <3n 4n 0+0
         15 <5 0+0
         16 <6 0+0",
    );
}

#[test]
fn a_reset_says_nothing_of_its_senders_window() {
    let mut decoder = opened();
    feed(&mut decoder, "12 <transmit 5000 rst ack=1000");
    let states = reported(&mut decoder).iter().filter(|one| one.kind == Kind::TcpState);
    assert_eq!(states.count(), 0);
}

#[test]
fn the_class_of_a_repeated_syn_is_handshake() {
    check("10 retransmit 999 code=1", "10 Retransmit 5 0+0");
}

#[test]
fn a_segment_size_that_changes_is_told_with_the_next_segment() {
    let mut decoder = opened();
    let mut sizes = Vec::new();
    for hit in [
        "10 congestion 1000 mss=524",
        "11 transmit 1000+10",
        "12 transmit 1010+10",
        "13 congestion 1000 mss=1448",
        "14 transmit 1020+10",
        "15 congestion 1000 mss=1448",
        "16 transmit 1030+10",
    ] {
        decoder.raw(0, &Fields { snd_wnd: 65_536, ..super::parse(hit) }.raw());
        let reported =
            reported(&mut decoder).drain(..).filter(|record| record.kind == Kind::SendWindow);
        sizes.extend(reported.map(|record| (record.at_ns, record.extra)));
    }
    assert_eq!(sizes, [(11, 524), (14, 1448)]);
}

#[test]
fn reports_of_duplicates_are_counted_once() {
    check(
        "10 congestion 1000 dups=2 | 20 congestion 1000 dups=2 | 30 congestion 1000 dups=3",
        "10 Retransmit 4 0+0
         30 Retransmit 4 0+0",
    );
}

#[test]
fn what_a_bridge_forwards_for_a_remote_sender_has_no_point_of_sending() {
    let hits = "10 <input 5000+100 | 20 <receive 5000+100 | 30 <transmit 5000+100 forwarded";
    check_with(opened_to_peer(), hits, "10 <5 0+100\n20 <6 0+100");
}

#[test]
fn a_router_on_this_host_takes_nothing_from_the_send_queue() {
    check(
        "10 transmit 1000+100 | 20 input 1000+100 | 30 receive 1000+100
         40 transmit 1000+100 forwarded | 50 input 1000+100 | 60 receive 1000+100",
        "10 2d 3n 4n 0+100
         20 5 0+100
         30 6 0+100
         40 3n 4n 0+100
         50 5 0+100
         60 6 0+100",
    );
}

/// tbf frees such a packet before its hook fires, its link to the socket being with the last piece.
#[test]
fn a_packet_that_a_queue_divided_was_taken_from_the_send_queue() {
    check(
        "10 write 1000+200 room | 20 queued 1000+200 forwarded | 30 drop 1100+100 | 40 transmit 1000+100",
        "10 WriteCall 0+200
         10 1 0+200
         20 2d 3 0+200
         30 Drop 100+100
         40 4 0+100",
    );
}

#[test]
fn a_peer_elsewhere_shows_points_1_to_4_of_what_goes_and_5_to_8_of_what_comes() {
    check_with(
        opened_to_peer(),
        "10 write 1000+100 room | 20 transmit 1000+100 | 30 <input 5000+50 ack=1100
         40 <receive 5000+50 ack=1100 | 50 <ready 5050 | 60 <copy 5050",
        "10 WriteCall 0+100
         10 1 0+100
         20 2d 3n 4n 0+100
         30 <5 0+50
         40 <6 0+50
         50 <7 0+50
         60 <8 0+50",
    );
}

#[test]
fn a_header_that_claims_an_impossible_length_is_no_packet() {
    check("10 input 1000+4294967288 | 20 input 1000+9", "20 5 0+9");
}

#[test]
fn a_pending_write_counts_as_far_as_the_closing_socket_says() {
    let mut decoder = opened();
    feed(&mut decoder, "10 write 1000+100");
    decoder.event(&state(2, 4, 1040, 5000));
    decoder.finish();
    assert_lines(&shown(&mut decoder), "10 WriteCall 0+100\n10 1 0+40");
}

/// Checks the records of `hits` if the server's socket, which sends flow 3, has a low mark.
#[track_caller]
fn check_with_low_mark(hits: &str, expected: &str) {
    let mut decoder = opened();
    decoder.event(&RawEvent { rcvlowat: 300, ..state(3, 1, 5000, 1000) });
    reported(&mut decoder).clear();
    check_with(decoder, hits, expected);
}

#[test]
fn a_socket_with_a_low_mark_has_its_data_before_it_says_so() {
    check_with_low_mark(
        "10 receive 1000+100 | 20 receive 1200+100 | 30 receive 1100+200
         40 ready 1300 waited | 50 copy 1300",
        "10 5d 6 0+100
         20 5d 6 200+100
         30 5d 6 100+200
         10 7d 0+100
         30 7dw 100+200
         50 8 0+300",
    );
}

#[test]
fn data_announced_long_after_it_came_was_not_waited_for_until_then() {
    // The mark was lowered meanwhile: a thread is woken by that, and not late by the data's age.
    check_with_low_mark(
        "10 receive 1000+100 | 2000010 ready 1100 waited | 2000030 copy 1100",
        "10 5d 6 7d 0+100\n2000030 8 0+100",
    );
}

#[test]
fn an_acknowledgment_shows_that_unannounced_data_was_received() {
    let arrived = "10 receive 1000+100 | 30 <transmit 5000 ack=1100";
    check_with_low_mark(arrived, "10 5d 6 0+100\n30 <3n 4n 0+0\n10 7d 0+100");
    // A later copy is of no use to TCP.
    check_with_low_mark(
        &format!("{arrived} | 40 receive 1000+100 | 50 receive 1100+50 | 60 copy 1150"),
        "10 5d 6 0+100
         30 <3n 4n 0+0
         40 5d 6 0+100
         10 7d 0+100
         50 5d 6 7d 100+50
         60 8 0+150",
    );
}

#[test]
fn what_tcp_may_have_refused_was_not_received() {
    check_with_low_mark("10 receive 1000+100", "10 5d 6 0+100");
    check_with_low_mark(
        "10 receive 1000+100 | 200 receive 1000+100 | 210 ready 1100",
        "10 5d 6 0+100\n200 5d 6 7d 0+100",
    );
    check_with_low_mark(
        "10 receive 1000+5000 | 20 receive 1000+100 | 30 copy 1100",
        "10 5d 6 0+5000\n20 5d 6 7d 0+100\n30 8 0+100",
    );
}

#[test]
fn what_was_not_seen_to_come_is_received_when_it_is_announced() {
    check_with_low_mark(
        "10 receive 1000+100 | 40 ready 1300 waited",
        "10 5d 6 7d 0+100\n40 7w 100+200",
    );
}

#[test]
fn a_low_mark_set_later_counts_from_then_on() {
    let mut decoder = opened();
    let option = RawOption { flow: 3, level: 1, option: 18, ..RawOption::default() };
    for (value, hits) in
        [(300, "10 receive 1000+100 | 20 ready 1100"), (1, "30 receive 1100+100 | 40 ready 1200")]
    {
        decoder.option(&RawOption { value, ..option });
        feed(&mut decoder, hits);
    }
    reported(&mut decoder).retain(|one| one.kind == Kind::ReceiveEnqueue);
    assert_lines(&shown(&mut decoder), "10 7d 0+100\n40 7 100+100");
}

/// The low marks recorded for the server's socket: when, by whom, asked for and granted.
fn low_marks(decoder: &mut Decoder) -> Vec<(u64, u32, u32, u32)> {
    let is_low_mark = |one: &Record| one.kind == Kind::SocketOption && one.extra == 1 << 16 | 18;
    let of_server = reported(decoder).drain(..).filter(|one| one.flow.0 == 3 && is_low_mark(one));
    let shown =
        of_server.map(|one| (one.at_ns, one.thread, one.detail as u32, (one.detail >> 32) as u32));
    shown.collect()
}

/// Thread 7 asks for a low mark of the server's socket, which can have 500 at most.
fn low_mark_asked(at_ns: u64, value: u32) -> RawOption {
    let (level, option, thread, most) = (1, 18, 7, 500);
    RawOption { at_ns, flow: 3, level, option, value, thread, most, ..RawOption::default() }
}

#[test]
fn a_low_mark_is_what_the_kernel_makes_of_it() {
    let mut decoder = opened();
    for (at_ns, value) in [(10, 300), (20, 900), (30, u32::MAX), (40, 0)] {
        decoder.option(&low_mark_asked(at_ns, value));
    }
    let all = u32::MAX;
    assert_eq!(
        low_marks(&mut decoder),
        [(10, 7, 300, 300), (20, 7, 900, 500), (30, 7, all, 500), (40, 7, 0, 1)]
    );
}

#[test]
fn what_a_buffer_set_on_an_open_connection_was_granted_is_not_seen() {
    let mut decoder = opened();
    let option = RawOption { flow: 3, level: 1, option: 7, value: 4096, ..RawOption::default() };
    decoder.option(&option);
    let mut records = reported(&mut decoder).drain(..);
    let option = records.find(|one| one.kind == Kind::SocketOption).unwrap();
    assert_eq!(option.detail, 4096);
}

#[test]
fn a_low_mark_set_before_the_connection_opened_is_recorded_once() {
    let mut decoder = opened_to_peer();
    decoder.option(&low_mark_asked(2, 300));
    decoder.event(&RawEvent { rcvlowat: 300, ..state(3, 1, 5000, 1000) });
    assert_eq!(low_marks(&mut decoder), [(2, 7, 300, 300)]);
    // The listener's value is not known before.
    let mut decoder = opened_to_peer();
    decoder.event(&RawEvent { at_ns: 5, rcvlowat: 300, ..state(3, 1, 5000, 1000) });
    assert_eq!(low_marks(&mut decoder), [(5, 0, 300, 300)]);
}

/// The send options of the server's socket: time, thread, number of the option and value.
fn send_rules(decoder: &mut Decoder) -> Vec<(u64, u32, u32, u64)> {
    let is_rule = |one: &Record| one.kind == Kind::SocketOption && one.extra >> 16 == 6;
    let of_server = reported(decoder).drain(..).filter(|one| one.flow.0 == 3 && is_rule(one));
    of_server
        .map(|one| (one.at_ns, one.thread, one.extra & 0xffff, u64::from(one.detail as u32)))
        .collect()
}

/// Thread 7 sets or clears an option of TCP of the server's socket.
fn rule_set(at_ns: u64, option: u32, value: u32) -> RawOption {
    RawOption { at_ns, flow: 3, level: 6, option, value, thread: 7, ..RawOption::default() }
}

#[test]
fn a_cork_and_nodelay_that_a_socket_has_from_its_listener_are_recorded() {
    const NODELAY_AND_CORK: u16 = 3;
    let mut decoder = opened_to_peer();
    decoder.event(&RawEvent { at_ns: 5, nonagle: NODELAY_AND_CORK, ..state(3, 1, 5000, 1000) });
    assert_eq!(send_rules(&mut decoder), [(5, 0, 1, 1), (5, 0, 3, 1)]);
    // The program's own setting is known already.
    let mut decoder = opened_to_peer();
    decoder.option(&rule_set(2, 3, 1));
    decoder.event(&RawEvent { at_ns: 5, nonagle: 2, ..state(3, 1, 5000, 1000) });
    assert_eq!(send_rules(&mut decoder), [(2, 7, 3, 1)]);
    // The program set and cleared an option. If the socket has it again, the program did not set it.
    let mut decoder = opened_to_peer();
    decoder.option(&rule_set(2, 3, 1));
    decoder.option(&rule_set(3, 3, 0));
    decoder.event(&RawEvent { at_ns: 5, nonagle: 2, ..state(3, 1, 5000, 1000) });
    assert_eq!(send_rules(&mut decoder), [(2, 7, 3, 1), (3, 7, 3, 0), (5, 0, 3, 1)]);
}

#[test]
fn an_option_set_before_its_socket_was_joined_is_recorded_once_and_in_order() {
    let join = RawEvent {
        at_ns: 5,
        kind: u32::from(raw::EVENT_JOIN),
        flow: 3,
        nonagle: 2,
        rcvlowat: 300,
        ..open(1, 6)
    };
    let mut decoder = empty();
    decoder.option(&rule_set(2, 3, 1));
    decoder.event(&join);
    decoder.event(&RawEvent { at_ns: 50, ..state(3, 4, 5000, 1000) });
    assert_eq!(send_rules(&mut decoder), [(2, 7, 3, 1)]);
    let mut decoder = empty();
    decoder.option(&low_mark_asked(2, 300));
    decoder.event(&join);
    decoder.event(&RawEvent { at_ns: 50, ..state(3, 4, 5000, 1000) });
    assert_eq!(low_marks(&mut decoder), [(2, 7, 300, 300)]);
}

#[test]
fn an_option_waits_for_its_connection_to_be_announced_and_for_no_other() {
    let mut decoder = empty();
    decoder.option(&low_mark_asked(2, 300));
    decoder.event(&RawEvent { connection: 2, ..open(5, 6) });
    assert_eq!(low_marks(&mut decoder), []);
    decoder.event(&open(6, 6));
    assert_eq!(low_marks(&mut decoder), [(2, 7, 300, 300)]);
    assert_eq!(decoder.options_missed(), 0);
}

#[test]
fn options_of_connections_that_are_never_announced_are_missed() {
    let mut decoder = empty();
    for connection in 2..2_000 {
        decoder.option(&RawOption { flow: connection * 2, ..low_mark_asked(2, 300) });
    }
    assert_eq!(decoder.options_missed(), 1_998);
    // The last ones still wait.
    decoder.event(&RawEvent { connection: 1_999, ..open(5, 6) });
    decoder.event(&RawEvent { connection: 2, ..open(5, 6) });
    assert_eq!(decoder.options_missed(), 1_997);
}

/// The time that the reads and writes of `hits` waited for a CPU, nanoseconds.
fn waited_ns(hits: &str) -> Vec<u32> {
    let mut decoder = opened();
    feed(&mut decoder, hits);
    let calls = [Kind::ReceiveDequeue, Kind::WriteCall];
    let records = reported(&mut decoder).drain(..);
    records.filter(|one| calls.contains(&one.kind)).map(|one| one.extra).collect()
}

#[test]
fn a_write_has_the_wait_of_its_thread_since_its_last_call() {
    // The second one has two chunks. Of the 60 ns before the third the call itself has 20.
    assert_eq!(
        waited_ns(
            "10 write 1000+100 room thread=7 delay=1000 | 20 write 1100+300 thread=7 delay=1400
             30 write 1200+200 thread=7 delay=1500 | 40 write-return 1400+300 thread=7 delay=1520
             50 write 1400+9 room thread=7 delay=1560 | 60 write 1409+9 room thread=7 delay=1560
             70 <write 5000+9 room thread=8 delay=30"
        ),
        [0, 400, 40, 1, 0]
    );
}

#[test]
fn a_write_is_a_call_that_the_wait_of_a_read_counts_from() {
    assert_eq!(
        waited_ns(
            "10 ready 1100 | 11 copy 1100 thread=7 delay=1000 | 20 <write 5000+9 room thread=7 delay=1400
             25 <write-return 5009+9 thread=7 delay=1450 | 30 ready 1200 | 40 copy 1200 thread=7 delay=1470
             50 read-return 1200+100 thread=7 delay=1480 | 60 <write 5009+9 room thread=7 delay=1485"
        ),
        [0, 400, 20, 5]
    );
}

#[test]
fn a_write_does_not_count_from_an_earlier_thread_of_its_number() {
    assert_eq!(
        waited_ns(
            "10 write 1000+9 room thread=7 delay=1000 | 20 write 1009+9 room thread=7 delay=3
             30 write 1018+9 room thread=7 delay=8"
        ),
        [0, 0, 5]
    );
}

#[test]
fn what_a_reader_waited_for_its_cpu_before_the_data_came_is_not_the_datas() {
    // Of the 90 ns since its last read here, 70 were over when it read the other flow.
    assert_eq!(
        waited_ns(
            "10 ready 1100 | 11 copy 1100 thread=7 delay=1000 | 40 <ready 5100
             50 <copy 5100 thread=7 delay=1070 | 60 ready 1200 | 90 copy 1200 thread=7 delay=1090"
        ),
        [0, 70, 20]
    );
}

#[test]
fn what_a_read_leaves_waits_from_that_read_on() {
    assert_eq!(
        waited_ns(
            "10 ready 1200 | 20 copy 1100 thread=7 delay=1000 | 40 copy 1150 thread=7 delay=1030
             45 ready 1300 | 60 copy 1300 thread=7 delay=1035"
        ),
        [0, 30, 5]
    );
}

#[test]
fn a_connection_has_the_name_of_the_thread_that_sent_its_syn() {
    let mut decoder = empty();
    let event = RawEvent { pid: 7, thread: 7, comm: seen(2, 7, c"curl").comm, ..open(1, 6) };
    decoder.event(&event);
    let named = decoder.take_changed().remove(0).processes;
    let named: Vec<_> = named.iter().map(|one| (one.pid, one.comm.as_str(), one.side)).collect();
    assert_eq!(named, [(7, "curl", Side::Client)]);
}

#[test]
fn a_process_has_the_control_group_of_its_event() {
    let mut decoder = empty();
    let group = Arc::new(ControlGroup::of_path("/system.slice/nginx.service"));
    decoder.set_groups([((7, 50), group.clone())].into());
    decoder.event(&RawEvent { pid: 7, cgroup: 50, ..open(1, 6) });
    // A process of the same number in another group is another one.
    decoder.event(&RawEvent { pid: 7, cgroup: 51, connection: 2, ..open(1, 6) });
    let groups = decoder.take_changed().into_iter().map(|it| it.processes[0].group.clone());
    assert_eq!(groups.collect::<Vec<_>>(), [Some(group), None]);
}

/// A decoder that saw a socket connect to itself: its SYN is its SYN-ACK's.
fn connected_to_itself() -> Decoder {
    let mut decoder = empty();
    decoder.event(&RawEvent { server_port: 40_000, pid: 7, ..open(1, 6) });
    feed(&mut decoder, "1 transmit 999 syn | 2 transmit 999 syn ack=1000");
    decoder.event(&state(2, 1, 1000, 1000));
    reported(&mut decoder).clear();
    decoder
}

#[test]
fn what_a_socket_connected_to_itself_writes_it_reads() {
    check_with(
        connected_to_itself(),
        "10 write 1000+100 room thread=7 | 20 transmit 1000+100 taken=5 | 30 input 1000+100
         40 receive 1000+100 | 50 <ready 1100 waited | 60 <copy 1100 thread=7
         70 transmit 1100 ack=1100 | 80 input 1100 ack=1100 | 90 receive 1100 ack=1100
         100 <read-return 1100+100 thread=7",
        "10 WriteCall 0+100
         10 1 0+100
         15 2d 0+100
         20 3n 4n 0+100
         30 5 0+100
         40 6 0+100
         50 7w 0+100
         60 8 0+100
         70 3n 4n 100+0
         80 5 100+0
         90 6 100+0
         100 ReadReturn 0+100",
    );
}

#[test]
fn a_socket_connected_to_itself_learns_what_was_acknowledged() {
    let mut decoder = connected_to_itself();
    let acknowledged = "10 transmit 1000+100 | 20 receive 1000+100 | 30 transmit 1100 ack=1100
                        40 receive 1100 ack=1100";
    feed(&mut decoder, acknowledged);
    let hit = Fields { snd_wnd: 500, ..super::parse("50 transmit 1100+100") };
    reported(&mut decoder).clear();
    decoder.raw(0, &hit.raw());
    let windows: Vec<_> =
        reported(&mut decoder).iter().filter(|record| record.kind == Kind::SendWindow).collect();
    assert_eq!(windows.iter().map(|window| window.offset).collect::<Vec<_>>(), [100]);
}

#[test]
fn the_low_mark_of_a_socket_connected_to_itself_is_that_of_its_own_stream() {
    let mut decoder = connected_to_itself();
    decoder.event(&RawEvent { rcvlowat: 300, ..state(2, 1, 1000, 1000) });
    reported(&mut decoder).clear();
    check_with(
        decoder,
        "30 receive 1000+100 | 35 receive 1100+200 | 40 ready 1300 waited | 50 copy 1300",
        "30 5d 6 0+100
         35 5d 6 100+200
         30 7d 0+100
         35 7dw 100+200
         50 8 0+300",
    );
}

#[test]
fn both_ends_of_a_socket_connected_to_itself_are_one_process() {
    let mut decoder = connected_to_itself();
    let info = decoder.take_changed().remove(0);
    let sides: Vec<_> = info.processes.iter().map(|process| (process.pid, process.side)).collect();
    assert_eq!(sides, [(7, Side::Client), (7, Side::Server)]);
    assert!(info.both_ends_here);
    decoder.event(&seen(2, 9, c"reader"));
    let info = decoder.take_changed().remove(0);
    assert_eq!(info.processes.len(), 4);
}

#[test]
fn a_fin_sent_again_is_no_handshake_though_no_data_was_before_it() {
    check(
        "10 transmit 1000 fin | 300 retransmit 1000 code=1 | 301 transmit 1000 fin again",
        "10 3n 4n 0+0
         300 Retransmit 1 0+0
         301 3nr 4nr 0+0",
    );
    check("10 retransmit 999 code=1", "10 Retransmit 5 0+0");
}

#[test]
fn a_path_without_a_hook_of_point_5_has_it_for_late_and_resent_segments_too() {
    // As through a TUN device; 1100+100 was overtaken, 1000+100 is sent again.
    check(
        "10 receive 1000+100 | 20 receive 1200+100 | 30 receive 1100+100 | 40 receive 1000+100",
        "10 5d 6 0+100
         20 5d 6 200+100
         30 5d 6 100+100
         40 5d 6 0+100",
    );
}

#[test]
fn segments_that_are_joined_in_the_input_queue_were_seen_to_enter_it() {
    check(
        "10 input 1000+100 | 11 input 1100+100 | 12 input 1000+100 | 20 receive 1000+200
         30 receive 1000+100 | 40 receive 1000+100",
        "10 5 0+100
         11 5 100+100
         12 5 0+100
         20 6 0+200
         30 6 0+100
         40 5d 6 0+100",
    );
}

/// After a stop the recorder takes all events before the hits of that time.
#[test]
fn what_events_say_stands_between_the_hits_of_its_time() {
    const CLOSE_WAIT: u8 = 8;
    let mut decoder = opened();
    decoder.event(&RawEvent { at_ns: 25, ..state(3, CLOSE_WAIT, 5000, 1200) });
    decoder.event(&RawEvent { at_ns: 45, ..state(2, CLOSE_WAIT, 1200, 5000) });
    let hits = "10 write 1000+200 room | 20 transmit 1000+100 | 30 input 1000+100";
    feed(&mut decoder, hits);
    decoder.report_events(40);
    let mut rows: Vec<_> = kinds(&mut decoder);
    assert!(rows.is_sorted_by_key(|row| row.0), "{rows:?}");
    assert_eq!(rows.iter().filter(|row| row.1 == Kind::StateChange).count(), 1);
    feed(&mut decoder, "42 receive 1000+100 | 50 ready 1100");
    rows.extend(kinds(&mut decoder));
    let changes = rows.iter().filter(|row| row.1 == Kind::StateChange);
    assert_eq!(changes.map(|row| row.0).collect::<Vec<_>>(), [25, 45]);
    assert!(rows.is_sorted_by_key(|row| row.0), "{rows:?}");
}

/// Times and kinds of the records decoded since the last call, but for times that are derived.
fn kinds(decoder: &mut Decoder) -> Vec<(u64, Kind)> {
    let records = decoder.records().drain(..).filter(|record| !record.is_marked(marks::DERIVED));
    records.map(|record| (record.at_ns, record.kind)).collect()
}

#[test]
fn a_program_that_accepts_a_connection_has_a_record() {
    let event = RawEvent {
        at_ns: 9,
        kind: u32::from(raw::EVENT_ACCEPT),
        connection: 1,
        flow: 3,
        pid: 70,
        thread: 71,
        ..RawEvent::default()
    };
    let accepted = |decoder: &mut Decoder| {
        decoder.event(&event);
        let records: Vec<Record> = reported(decoder).drain(..).collect();
        let of_accept = records.iter().filter(|it| it.kind == Kind::Accept);
        of_accept.map(|it| (it.at_ns, it.flow.0, it.thread, it.acceptor())).collect::<Vec<_>>()
    };
    assert_eq!(accepted(&mut opened()), [(9, 3, 71, Some(70))]);
    // Of a connection that is not recorded, or was open before, it is not known when it was accepted.
    assert_eq!(accepted(&mut empty()), []);
    let mut joined = empty();
    joined.event(&RawEvent { kind: u32::from(raw::EVENT_JOIN), flow: 3, ..open(1, 6) });
    assert_eq!(accepted(&mut joined), []);
}

#[test]
fn a_layer_of_the_kernel_has_one_record_at_each_end() {
    let layers = |decoder: &mut Decoder| {
        let records: Vec<Record> = reported(decoder).drain(..).collect();
        let found = records.iter().filter_map(|it| Some((it.at_ns, it.flow.0, it.socket_layer()?)));
        found.collect::<Vec<_>>()
    };
    let (tls, sockmap) = (raw::LAYER_TLS.into(), raw::LAYER_SOCKMAP.into());
    let event = |at_ns, kind: u8, flow, layers| RawEvent {
        at_ns,
        kind: kind.into(),
        connection: 1,
        flow,
        layers,
        ..RawEvent::default()
    };
    let mut decoder = opened();
    assert_eq!(layers(&mut decoder), []);
    decoder.event(&event(9, raw::EVENT_LAYER, 3, sockmap));
    decoder.event(&event(10, raw::EVENT_LAYER, 3, sockmap));
    // Each state has the layers, and so has an open socket at the end.
    decoder.event(&RawEvent { at_ns: 11, layers: sockmap | tls, ..state(3, 8, 5000, 1000) });
    decoder.event(&event(12, raw::EVENT_OPEN_STILL, 2, sockmap));
    let found = layers(&mut decoder);
    let expected = [
        (9, 3, SocketLayer::Sockmap),
        (11, 3, SocketLayer::KernelTls),
        (12, 2, SocketLayer::Sockmap),
    ];
    assert_eq!(found, expected);
    // A connection that was open has them from before.
    let mut joined = empty();
    joined.event(&RawEvent { kind: raw::EVENT_JOIN.into(), flow: 3, layers: tls, ..open(1, 6) });
    let found = layers(&mut joined);
    assert_eq!(
        found.iter().map(|it| (it.1, it.2)).collect::<Vec<_>>(),
        [(3, SocketLayer::KernelTls)]
    );
}

#[test]
fn an_end_that_does_not_scale_its_windows_has_a_record() {
    let scales = |number, rcv_wscale, snd_wscale| {
        let mut decoder = empty();
        decoder.event(&open(1, 6));
        let established = state(2, 1, 1000, 5000);
        decoder.event(&RawEvent { number, rcv_wscale, snd_wscale, ..established });
        let records: Vec<Record> = reported(&mut decoder).drain(..).collect();
        let of_scale = records.iter().filter_map(|it| Some((it.flow.0, it.window_scale()?)));
        of_scale.collect::<Vec<_>>()
    };
    use sockscope_record::WindowScale::{NotOffered, NotReceived, Unshifted};
    let (agreed, offered) = (u32::from(raw::SCALING_AGREED), u32::from(raw::SCALING_OFFERED));
    assert_eq!(scales(agreed | offered, 7, 7), []);
    assert_eq!(scales(agreed | offered, 0, 7), [(2, Unshifted)]);
    assert_eq!(scales(agreed | offered, 7, 0), [(3, Unshifted)]);
    assert_eq!(scales(offered, 0, 0), [(3, NotReceived)]);
    assert_eq!(scales(0, 0, 0), [(2, NotOffered)]);
}
