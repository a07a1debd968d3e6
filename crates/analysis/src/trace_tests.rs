//! Small traces, and the expected analysis of each.

use std::num::NonZeroUsize;

use insta::assert_snapshot;
use sockscope_record::{Connection, Direction, Protocol};

use crate::{Analyzer, ConnectionAnalysis, TraceFacts, ledger, testing};

fn connection() -> Connection {
    testing::connection(1)
}

fn on_one_host_only() -> Connection {
    Connection { both_ends_here: false, ..connection() }
}

fn datagrams() -> Connection {
    Connection { protocol: Protocol::Udp, ..connection() }
}

/// Durations of the places of the oldest byte, in order.
fn places_of(connection: Connection, direction: Direction, text: &str) -> String {
    let mut analyzer = Analyzer::new();
    analyzer.connection(connection);
    analyzer.push(&testing::records(text));
    let (analysis, stores) = analyzer.finish_keeping(TraceFacts::default(), NonZeroUsize::MIN);
    let store = &stores.connections[0];
    let curves = crate::FlowCurves::new(store, direction, &stores.losses, &stores.drop_reasons);
    let span_ns = (analysis.start_ns, analysis.start_ns + analysis.duration_ns);
    let spans = ledger::timeline(store, direction, &curves, span_ns);
    let shown =
        spans.iter().map(|span| format!("{} {}us", span.part.name(), span.duration_ns() / 1000));
    shown.collect::<Vec<_>>().join(" | ")
}

fn places(text: &str) -> String {
    places_of(connection(), Direction::FromClient, text)
}

/// Residue and resident bytes of the client's stages, and the number of unknown lengths.
fn balance(analysis: &ConnectionAnalysis) -> String {
    let shown = analysis.flows[0].stages.iter().map(|stage| {
        let residue = stage.residue_bytes.map_or("?".into(), |bytes| bytes.to_string());
        let resident = stage.resident_bytes.map_or("?".into(), |bytes| bytes.to_string());
        let unknown = stage.unknown_intervals;
        format!("{} {residue}/{resident}/{unknown}", stage.stage.name())
    });
    shown.collect::<Vec<_>>().join(" | ")
}

#[test]
fn a_second_write_held_by_nagle_is_the_ledgers_largest_part() {
    assert_snapshot!(places(
        "10us 1 +100 | 12us 2-4 +100 | 14us 5-7 +100 | 15us 8 +100
         16us 1 +300 nagle | 40016us 2-4 +300 | 40018us 5-7 +300 | 40020us 8 +300"
    ), @"send_queue.other 2us | wire 2us | receive_queue.app 1us | app_idle 1us | send_queue.nagle 40000us | wire 2us | receive_queue.app 2us");
}

/// A filter drops the first segment behind point 6; the second one arrives, and 200 ms later the first again.
const DROPPED_BEHIND_POINT_6: &str = "1ms 1 +2000 | 1010us 2-4 0..1000 | 1020us 5-6 0..1000
    1030us drop 0..1000 detail=77 | 1040us 2-4 1000..2000 | 1050us 5-7 1000..2000
    201ms retransmit 0..1000 code=1 | 201ms 2-4 0..1000 retransmitted
    201010us 5-6 0..1000 retransmitted | 201030us 7 0..2000 | 201040us 8 0..2000";

#[test]
fn what_a_filter_drops_is_in_no_queue_until_it_comes_again() {
    assert_snapshot!(places(DROPPED_BEHIND_POINT_6), @"send_queue.other 10us | wire 10us | tcp_input 10us | dropped 199970us | wire 10us | tcp_input 20us | receive_queue.app 10us");
    let analysis = testing::analyze(DROPPED_BEHIND_POINT_6);
    assert_snapshot!(balance(&analysis), @"send_queue 0/0/0 | tcp_output 0/0/0 | interface_queue 0/0/0 | wire 0/0/0 | input_queue 0/0/0 | tcp_input 0/0/0 | receive_queue 0/0/0 | total 0/0/0");
    let tcp_input = &analysis.flows[0].stages[5];
    assert_eq!(tcp_input.delay_ns.unwrap().max, 20_000, "from when it came again");
    let means: Vec<_> = analysis.flows[0].stages.iter().filter_map(|it| it.byte_delay_ns).collect();
    let [in_stages @ .., total] = &means[..] else { panic!("no stages") };
    let cost_ns = analysis.flows[0].dropped_byte_delay_ns.unwrap();
    assert_eq!(in_stages.iter().sum::<f64>() + cost_ns, *total);
}

#[test]
fn a_drop_in_the_interface_queue_is_no_other_case() {
    let text = "1ms 1-3 +1000 | 1500us drop 0..1000 detail=50
        201ms retransmit 0..1000 code=1 | 201ms 2-3 0..1000 retransmitted | 201100us 4-8 0..1000";
    assert_snapshot!(places(text), @"interface_queue 500us | dropped 199500us | interface_queue 100us");
}

#[test]
fn what_is_dropped_twice_counts_twice_and_what_is_never_retransmitted_stays_dropped() {
    let twice = "1ms 1-6 +1000 | 1010us drop 0..1000 detail=77
        201ms retransmit 0..1000 code=1 | 201ms 2-6 0..1000 retransmitted
        201010us drop 0..1000 detail=77";
    assert_snapshot!(places(&format!("{twice} | 601ms 2-6 0..1000 retransmitted | 601010us 7-8 +1000")),
        @"tcp_input 10us | dropped 199990us | tcp_input 10us | dropped 399990us | tcp_input 10us");
    let text = format!("{twice} | 250ms <3-6 ack=0");
    assert_snapshot!(places(&text), @"tcp_input 10us | dropped 199990us | tcp_input 10us | dropped 48990us");
    assert_snapshot!(balance(&testing::analyze(&text)), @"send_queue 0/0/0 | tcp_output 0/0/0 | interface_queue 0/0/0 | wire 0/0/0 | input_queue 0/0/0 | tcp_input 0/0/0 | receive_queue 0/0/0 | total 0/1000/0");
}

#[test]
fn what_the_senders_own_host_refuses_is_dropped_until_tcp_tries_it_with_success() {
    // A full queueing discipline takes neither the segment nor its first repetition.
    let text = "1ms 1 +1000 pacing | 1020us drop 0..1000 detail=50 | 2ms 1 +500 pacing
        2020us drop 0..1500 detail=50 | 204ms 2-8 +1500";
    assert_snapshot!(places(text), @"send_queue.pacing 20us | dropped 202980us");
    let analysis = testing::analyze(text);
    let max = analysis.flows[0].stages[0].length_bytes.unwrap().max;
    assert_eq!(max, 1500, "TCP has it in its send queue all the time");
}

#[test]
fn what_is_away_already_is_not_dropped_again() {
    let said_twice = "1ms 1-6 +1000 | 1010us drop 0..1000 code=6 | 1020us drop 0..500 code=6
        201ms retransmit 0..1000 code=1 | 201ms 2-6 0..1000 retransmitted | 201010us 7-8 0..1000";
    assert_snapshot!(places(said_twice), @"tcp_input 10us | dropped 199990us | tcp_input 10us");
    let stores = testing::store(said_twice);
    let curves =
        crate::FlowCurves::new(&stores, Direction::FromClient, &[], &crate::DropReasons::new());
    let lengths = curves.lengths(sockscope_record::Stage::TcpInput).unwrap();
    let lengths: Vec<_> = lengths.iter().filter_map(|step| step.length_bytes).collect();
    assert_eq!(lengths, [1000, 0, 1000, 0]);
}

#[test]
fn the_drop_of_a_copy_leaves_the_original_where_it_is() {
    // The original waits behind point 6 for the data dropped before it; its repetition is dropped.
    let text = "1ms 1-6 +1000 | 2ms retransmit 0..1000 code=3 | 2ms 2-6 0..1000 retransmitted
        2010us drop 0..1000 detail=77 | 3ms 7-8 0..1000";
    assert_snapshot!(places(text), @"tcp_input 2000us");
}

#[test]
fn an_engine_alone_does_not_know_where_its_packets_are() {
    let connection = Connection { both_ends_here: false, ..datagrams() };
    let text = "10us 1 +76 | 12us 2 +76 | 50us <7 +76 | 51us <8 +76";
    assert_snapshot!(places_of(connection, Direction::FromClient, text),
        @"send_queue.other 2us | unknown 39us");
}

#[test]
fn a_capture_does_not_know_where_its_packets_go() {
    let text = "10us 4 +1000 | 20us <4 +50 ack=1000 | 30us 4 +1000 | 60us <4 +50 ack=2000";
    assert_snapshot!(places_of(on_one_host_only(), Direction::FromClient, text), @"unknown 50us");
    let mut analyzer = Analyzer::new();
    analyzer.connection(on_one_host_only());
    analyzer.push(&testing::records(text));
    let analysis = analyzer.finish(TraceFacts::default());
    assert_snapshot!(balance(&analysis.connections[0]), @"send_queue ?/?/0 | tcp_output ?/?/0 | interface_queue ?/?/0 | wire ?/?/0 | input_queue ?/?/0 | tcp_input ?/?/0 | receive_queue ?/?/0 | total ?/?/0");
}

#[test]
fn a_socket_that_no_program_writes_to_is_not_read_by_one_either() {
    assert_snapshot!(places("10us 2-6 +1000 | 12us 7 +1000 | 50us 2-6 +1000 | 60us 7 +1000"), @"tcp_input 2us | unknown 48us");
    assert_snapshot!(places("10us 1-6 +1000 | 12us 7 +1000 | 50us 1-6 +1000 | 60us 7 +1000"), @"tcp_input 2us | receive_queue.app 48us");
}

#[test]
fn each_segment_says_what_holds_the_next_byte() {
    assert_snapshot!(places(
        "10us 1 +3000 | 11us 2 +1000 cwnd | 12us 3-8 +1000 | 30us 2 +1000 rwnd | 31us 3-8 +1000
         50us 1 +10 cork | 70us 2 +1010 | 71us 3-8 +1010"
    ), @"send_queue.other 1us | tcp_output 1us | send_queue.cwnd 18us | tcp_output 1us | send_queue.rwnd 19us | send_queue.cork 20us | tcp_output 1us");
}

#[test]
fn the_time_until_a_socket_is_open_is_the_handshakes() {
    let opens =
        "0us 3-6 syn | 50us <3-6 syn ack=0 | 90us state-change code=1 extra=2 | 95us 3-6 ack=0";
    assert_snapshot!(places(&format!("{opens} | 150us 1-8 +100 | 200us 1-8 +100")), @"handshake 90us | app_idle 60us | app_idle 50us");
    // The data waits with the SYN, as TCP Fast Open sends it.
    assert_snapshot!(places(&format!("0us 1 +100 | {opens} | 150us 2-8 +100")), @"send_queue.other 150us");
}

#[test]
fn a_program_with_more_to_write_is_not_idle_while_the_send_buffer_has_no_room() {
    assert_snapshot!(places(
        "10us write +3000 | 10us 1-7 +2000 | 20us 8 +2000 | 40020us <3-6 ack=2000
         40030us 1-8 +1000 | 40050us write +500 | 40050us 1-8 +500"
    ), @"receive_queue.app 10us | send_buffer 40000us | send_buffer.writer 10us | app_idle 20us");
}

/// A writer asleep in its call, which has room from 20 ms on and gets its CPU at 90 ms; then a call that
/// has taken all, after which no record shows why the next one is late.
#[test]
fn a_writer_with_room_that_does_not_come_is_not_idle() {
    assert_snapshot!(places(
        "10ms write +3000 | 10ms 1-8 +2000 | 20ms <3-6 ack=2000 | 90ms 1-8 +1000
         190ms write +500 | 190ms 1-8 +500"
    ), @"send_buffer 10000us | send_buffer.writer 70000us | app_idle 100000us");
}

#[test]
fn pacing_and_small_queues_are_one_part() {
    assert_snapshot!(places("10us 1 +10 pacing | 20us 1 +10 small-queue | 30us 2-8 +20"),
        @"send_queue.pacing 20us");
}

#[test]
fn a_woken_reader_waits_for_its_cpu_and_then_takes_its_time() {
    assert_snapshot!(places("10us 1-7 +100 waited thread=7 | 60us 8 +100 thread=7 ran=50us"),
        @"receive_queue.wakeup 40us | receive_queue.app 10us");
}

#[test]
fn a_woken_event_loop_that_lost_its_cpu_on_the_way_did_something_else_before() {
    assert_snapshot!(places("10us 1-7 +100 waited | 9ms 8 +100 thread=7 ran=8010us runq=3ms"),
        @"receive_queue.app 5000us | receive_queue.wakeup 3000us | receive_queue.app 990us");
}

#[test]
fn a_reader_that_never_lacked_a_cpu_and_came_late_was_elsewhere() {
    // `curl --limit-rate`: woken by data in poll(), and asleep for its own reasons until it reads.
    assert_snapshot!(places("10us 1-7 +100 waited | 580ms 8 +100 thread=7 ran=579900us runq=1ns"),
        @"receive_queue.app 579990us");
    assert_snapshot!(places("10us 1-7 +100 waited | 320us 8 +100 thread=7 ran=310us runq=1ns"),
        @"receive_queue.wakeup 300us | receive_queue.app 10us");
}

#[test]
fn a_reader_that_had_its_cpu_before_the_data_came_never_lacked_it() {
    assert_snapshot!(places("10us 1-7 +100 | 60us 8 +100 thread=7 ran=5us runq=40us"), @"receive_queue.app 50us");
}

#[test]
fn a_busy_reader_is_the_programs_own_except_what_it_spent_without_a_cpu() {
    assert_snapshot!(places("10us 1-7 +100 | 60us 8 +100 thread=7 ran=1us"), @"receive_queue.app 50us");
    assert_snapshot!(places("10us 1-7 +100 | 60us 8 +100 thread=7 ran=50us runq=15us"),
        @"receive_queue.app 25us | receive_queue.wakeup 15us | receive_queue.app 10us");
}

#[test]
fn when_it_is_unknown_when_the_reader_ran_only_the_woken_thread_itself_waited() {
    assert_snapshot!(places("10us 1-7 +1 waited thread=7 | 60us 8 +1 thread=7"), @"receive_queue.wakeup 50us");
    assert_snapshot!(places("10us 1-7 +1 waited thread=7 | 60us 8 +1 thread=9"), @"receive_queue.app 50us");
}

#[test]
fn a_receiver_on_another_host_is_known_by_its_acknowledgments() {
    assert_snapshot!(places_of(on_one_host_only(), Direction::FromClient,
        "1us <5-6 syn ack=0 | 10us 1 +100 | 11us 2 +100 | 12us 3 +100 | 14us 4 +100 | 50us <5-6 ack=100
         70us 1-4 +10 | 90us <5-6 ack=110"
    ), @"app_idle 9us | send_queue.other 1us | tcp_output 1us | interface_queue 2us | wire 36us | unknown 20us | wire 20us");
}

#[test]
fn a_sender_on_another_host_leaves_all_before_its_packets_arrive_unknown() {
    assert_snapshot!(places_of(on_one_host_only(), Direction::FromServer,
        "1us 1-4 +5 | 10us <5 +100 | 12us <6 +100 | 13us <7 +100 | 20us <8 +100 | 30us <5-8 +10"
    ), @"unknown 9us | input_queue 2us | tcp_input 1us | receive_queue.app 7us | unknown 10us");
}

#[test]
fn a_point_without_a_hook_leaves_both_its_stages_unknown() {
    let text = "10us 1-4 +100 | 20us 6-7 +100 | 25us 8 +100";
    assert_snapshot!(places(text), @"unknown 10us | receive_queue.app 5us");
    assert_snapshot!(balance(&testing::analyze(text)),
        @"send_queue 0/0/0 | tcp_output 0/0/0 | interface_queue 0/0/0 | wire ?/?/0 | input_queue ?/?/0 | tcp_input 0/0/0 | receive_queue 0/0/0 | total 0/0/0");
}

#[test]
fn a_reader_that_never_reads_keeps_everything_in_its_queue() {
    let text = "10us 1-7 +100 | 60us 1-7 +50";
    assert_snapshot!(places(text), @"receive_queue.app 50us");
    assert_snapshot!(balance(&testing::analyze(text)),
        @"send_queue 0/0/0 | tcp_output 0/0/0 | interface_queue 0/0/0 | wire 0/0/0 | input_queue 0/0/0 | tcp_input 0/0/0 | receive_queue 0/150/0 | total 0/150/0");
}

#[test]
fn after_half_close_the_other_direction_goes_on() {
    let text = "10us 1-8 +100 | 11us 3-6 fin | 20us <1-7 +900 | 50us <8 +900";
    assert_snapshot!(places(text), @"app_idle 40us");
    assert_snapshot!(places_of(connection(), Direction::FromServer, text), @"app_idle 10us | receive_queue.app 30us");
}

#[test]
fn bytes_of_before_the_recording_are_unknown_and_no_residue() {
    let preexisting = Connection { preexisting: true, ..connection() };
    let text = "10us 8 500..600 | 20us 7-8 600..700 | 30us 1-8 700..900";
    assert_snapshot!(balance(&testing::analyze_of(preexisting.clone(), text)),
        @"send_queue 0/0/0 | tcp_output 0/0/0 | interface_queue 0/0/0 | wire 0/0/0 | input_queue 0/0/0 | tcp_input 0/0/0 | receive_queue 0/0/0 | total 0/0/0");
    assert_snapshot!(places_of(preexisting, Direction::FromClient, text), @"unknown 10us | app_idle 10us");
}

#[test]
fn positions_beyond_4_gib_are_as_good_as_any() {
    let preexisting = Connection { preexisting: true, ..connection() };
    let text = "10us 1-8 4294967000..4294967400 | 20us 1-7 4294967400..4294968000 | 30us 8 4294967400..4294968000";
    let flow = &testing::analyze_of(preexisting, text).flows[0];
    assert_eq!((flow.bytes, flow.stages[6].residue_bytes), (1000, Some(0)));
    assert_eq!(flow.stages[6].delay_ns.unwrap().max, 10_000);
}

#[test]
fn a_record_missing_without_a_declared_loss_is_residue() {
    let text = "10us 1 +100 | 11us 2 +40 | 12us 3-8 +100";
    assert_snapshot!(balance(&testing::analyze(text)),
        @"send_queue 60/0/0 | tcp_output 60/0/0 | interface_queue 0/0/0 | wire 0/0/0 | input_queue 0/0/0 | tcp_input 0/0/0 | receive_queue 0/0/0 | total 0/0/0");
}

#[test]
fn with_a_declared_loss_the_same_hole_is_unknown_for_as_long_as_it_can_be() {
    let text = "10us 1 +100 | 11us 2 +40 | 14us 3-8 +100 | 20us loss code=2 from=9us detail=1";
    assert_snapshot!(balance(&testing::analyze(text)),
        @"send_queue ?/0/1 | tcp_output ?/0/1 | interface_queue 0/0/0 | wire 0/0/0 | input_queue 0/0/0 | tcp_input 0/0/0 | receive_queue 0/0/0 | total 0/0/0");
    let places = places(
        "10us 1 +40 | 10us 1 +60 | 11us 2-8 0..40 | 14us 3-8 40..100 | 20us loss code=2 from=9us",
    );
    assert_snapshot!(places, @"send_queue.other 1us | unknown 3us | app_idle 6us");
}

/// The hit that records 2 to 5 on loopback counts at 4 alone.
#[test]
fn points_that_share_a_hit_are_missed_with_it() {
    let seen = "10us 1 +100 | 11us 2-8 0..40 | 14us 6-8 40..100";
    assert_snapshot!(balance(&testing::analyze(&format!("{seen} | 20us loss code=4 from=9us detail=1"))), @"send_queue ?/0/1 | tcp_output ?/0/1 | interface_queue ?/0/1 | wire ?/0/1 | input_queue ?/0/1 | tcp_input 0/0/0 | receive_queue 0/0/0 | total 0/0/0");
    // With a queueing discipline, the hit that records 2 and 3 counts at 3.
    let seen = "10us 1 +100 | 11us 2-8 0..40 | 14us 4-8 40..100";
    assert_snapshot!(balance(&testing::analyze(&format!("{seen} | 20us loss code=3 from=9us detail=1"))), @"send_queue ?/0/1 | tcp_output ?/0/1 | interface_queue ?/0/1 | wire 0/0/0 | input_queue 0/0/0 | tcp_input 0/0/0 | receive_queue 0/0/0 | total 0/0/0");
    // Nothing else is explained by it.
    let seen = "10us 1 +100 | 11us 2-8 0..40 | 14us 2-6 40..100 | 14us 8 40..100";
    assert_snapshot!(balance(&testing::analyze(&format!("{seen} | 20us loss code=4 from=9us detail=1"))), @"send_queue 0/0/0 | tcp_output 0/0/0 | interface_queue 0/0/0 | wire 0/0/0 | input_queue 0/0/0 | tcp_input 60/0/0 | receive_queue 60/0/0 | total 0/0/0");
}

#[test]
fn a_hit_that_was_seen_where_its_loss_would_be_recorded_was_not_missed() {
    let text =
        "10us 1 +100 | 11us 2-8 0..40 | 14us 4-8 40..100 | 20us loss code=4 from=9us detail=1";
    assert_snapshot!(balance(&testing::analyze(text)), @"send_queue 60/0/0 | tcp_output 0/0/0 | interface_queue 60/0/0 | wire 0/0/0 | input_queue 0/0/0 | tcp_input 0/0/0 | receive_queue 0/0/0 | total 0/0/0");
    // A repeat at 2 stays its first passage.
    let text =
        "10us 1 +100 | 11us 2-8 0..40 | 14us 3-8 40..100 | 20us loss code=4 from=9us detail=1
        201ms 2 40..100 retransmitted";
    assert_snapshot!(balance(&testing::analyze(text)), @"send_queue 0/0/0 | tcp_output 0/0/0 | interface_queue 0/0/0 | wire 0/0/0 | input_queue 0/0/0 | tcp_input 0/0/0 | receive_queue 0/0/0 | total 0/0/0");
}

#[test]
fn a_repeat_that_points_of_a_missed_hit_saw_first_is_no_first_passage() {
    let text = "10us 1 +100 | 11us 2-8 0..40 | 30us loss code=4 from=9us detail=1
        201ms 2-8 40..100 retransmitted";
    // Bytes sent to another interface may be dropped on the wire.
    assert_snapshot!(places(text), @"send_queue.other 1us | unknown 19us | wire 200970us");
    assert_snapshot!(places(&format!("{text} loopback")), @"send_queue.other 1us | unknown 19us | input_queue 200970us");
    // The receiver's records show that the bytes had arrived before.
    let text = "10us 1 +100 | 11us 2-8 0..40 | 14us 6-8 40..100 | 20us 2-5 40..100 retransmitted
        20us loss code=4 from=9us detail=1";
    assert_snapshot!(balance(&testing::analyze(text)), @"send_queue ?/0/1 | tcp_output ?/0/1 | interface_queue ?/0/1 | wire ?/0/1 | input_queue ?/0/1 | tcp_input 0/0/0 | receive_queue 0/0/0 | total 0/0/0");
}

#[test]
fn bytes_that_a_missed_hit_may_have_sent_do_not_surely_wait() {
    let text = "10us 1 +100 | 11us 2-8 0..40 | 20us loss code=4 from=9us detail=1";
    assert_snapshot!(balance(&testing::analyze(text)), @"send_queue ?/?/1 | tcp_output ?/?/1 | interface_queue ?/?/1 | wire ?/?/1 | input_queue ?/?/1 | tcp_input 0/0/0 | receive_queue 0/0/0 | total 0/60/0");
}

#[test]
fn what_a_whole_point_never_saw_was_missed_nowhere() {
    let text = "5us 1-8 0..100 | 20us loss code=4 from=1us detail=9 | 30us 1-8 300..400";
    let analysis = testing::analyze(text);
    assert_snapshot!(balance(&analysis),
        @"send_queue 0/0/0 | tcp_output 0/0/0 | interface_queue 0/0/0 | wire 0/0/0 | input_queue 0/0/0 | tcp_input 0/0/0 | receive_queue 0/0/0 | total 0/0/0");
    assert_eq!((analysis.flows[0].bytes, analysis.flows[0].at_least.bytes), (200, false));
}

/// As a damaged batch leaves it: bytes that no point saw, between such as all points did.
#[test]
fn bytes_that_no_point_saw_wait_nowhere_once_later_ones_were_read() {
    let losses: String =
        (1..=8).map(|point| format!("| 20us loss code={point} from=10us detail=9")).collect();
    let text = format!("5us 1-8 0..100 {losses} | 30us 1-8 300..400 | 40us 1-8 400..500");
    let analysis = testing::analyze(&text);
    assert_snapshot!(balance(&analysis),
        @"send_queue ?/0/1 | tcp_output ?/0/1 | interface_queue ?/0/1 | wire ?/0/1 | input_queue ?/0/1 | tcp_input ?/0/1 | receive_queue ?/0/1 | total ?/0/1");
    let longest = analysis.flows[0].stages.iter().map(|stage| stage.length_bytes.map(|it| it.max));
    assert_eq!(longest.max(), Some(Some(0)), "nothing stays behind");
    // As full lists count: the hit that records 2 to 5 counts at 4 alone.
    let told: String = [1, 4, 6, 7, 8]
        .map(|point| format!("| 20us loss code={point} from=10us detail=9"))
        .concat();
    let text = format!("5us 1-8 0..100 {told} | 30us 1-8 300..400 | 40us 1-8 400..500");
    let full_lists = testing::analyze(&text);
    assert_eq!(balance(&full_lists), balance(&analysis));
    let longest =
        full_lists.flows[0].stages.iter().map(|stage| stage.length_bytes.map(|it| it.max));
    assert_eq!(longest.max(), Some(Some(0)), "nothing stays behind");
    let from_the_start =
        format!("0us loss code=1 from=0us {losses} | 30us 1-8 300..400 | 40us 1-8 400..500");
    let stages = &testing::analyze(&from_the_start).flows[0].stages;
    let longest = stages.iter().map(|stage| stage.length_bytes.map(|it| it.max));
    assert_eq!(longest.max(), Some(Some(0)), "nothing stays behind");
}

#[test]
fn a_loss_that_hid_nothing_of_a_flow_changes_nothing() {
    let text = "10us 1-8 +100 | 20us loss code=2 from=5us detail=9 | 30us 1-8 +100";
    assert_snapshot!(balance(&testing::analyze(text)),
        @"send_queue 0/0/0 | tcp_output 0/0/0 | interface_queue 0/0/0 | wire 0/0/0 | input_queue 0/0/0 | tcp_input 0/0/0 | receive_queue 0/0/0 | total 0/0/0");
}

/// The first of three datagrams was read at some time between its arrival and the next one's read.
const UNSEEN_READ: &str = "10us 1-7 +100 | 20us 1-7 +100 | 30us loss code=8 from=10us detail=1
     30us 8 0..100 derived | 30us 8 100..200 | 40us 1-7 +100 | 45us 8 200..300 | 90us 1-8 +100";

#[test]
fn a_read_that_was_not_seen_is_unknown_until_the_queue_is_known_again() {
    let analysis = testing::analyze_of(datagrams(), UNSEEN_READ);
    assert_snapshot!(balance(&analysis),
        @"send_queue 0/0/0 | tcp_output 0/0/0 | interface_queue 0/0/0 | wire 0/0/0 | input_queue 0/0/0 | tcp_input 0/0/0 | receive_queue ?/0/1 | total ?/0/1");
    assert_snapshot!(places_of(datagrams(), Direction::FromClient, UNSEEN_READ),
        @"unknown 20us | app_idle 10us | receive_queue.app 5us | app_idle 45us");
    let read = &analysis.flows[0].stages[6];
    assert_eq!((read.delay_ns.unwrap().count, read.length_bytes.unwrap().max), (3, 100));
    assert_eq!(analysis.flows[0].read_bytes.unwrap().count, 3, "no size of a read is made up");
}

#[test]
fn without_word_of_it_a_datagram_may_wait_to_the_end() {
    let text = UNSEEN_READ.replace("30us 8 0..100 derived", "30us write");
    assert_snapshot!(places_of(datagrams(), Direction::FromClient, &text), @"unknown 20us | unknown 15us | unknown 45us");
}

/// IP was not seen to take the first datagram, so that each later one seems to be the one before it.
#[test]
fn a_datagram_left_over_after_a_loss_tells_of_wrong_matches() {
    let text = "10us 1-5 +100 | 12us loss code=6 from=9us detail=1 | 20us 1-5 +100 | 20us 6-8 +100
                30us 1-5 +100 | 30us 6-8 +100 | 90us 1-5 +100 | 90us 6-8 +100";
    assert_snapshot!(places_of(datagrams(), Direction::FromClient, text), @"unknown 80us");
    let whole = format!("{text} | 91us 6-8 +100");
    assert_snapshot!(places_of(datagrams(), Direction::FromClient, &whole),
        @"input_queue 10us | input_queue 10us | input_queue 60us | input_queue 1us");
    let analysis = testing::analyze_of(datagrams(), &format!("1us 1-8 +100 | {text}"));
    let delays = analysis.flows[0].stages.iter().map(|stage| stage.delay_ns.map(|it| it.count));
    let known: Vec<_> = delays.map(Option::unwrap).collect();
    assert_eq!(known, [5, 5, 5, 5, 1, 1, 1, 1], "of each stage up to the input queue, and of all");
}

/// IP was not seen to take the second of four datagrams. With `mark` the recorder knows which ones it saw.
fn left_over(mark: &str) -> String {
    let at = |us: u64, range: &str| format!("{us}us 6-8 {range} {mark}");
    let seen = [at(11, "0..100"), at(31, "200..300"), at(91, "300..400")].join(" | ");
    format!(
        "10us 1-5 +100 | 20us 1-5 +100 | 22us loss code=6 from=19us detail=1 | 30us 1-5 +100 | 90us 1-5 +100 | {seen}"
    )
}

#[test]
fn one_missed_record_of_a_datagram_costs_the_time_to_the_next_one() {
    let places = |mark: &str| places_of(datagrams(), Direction::FromClient, &left_over(mark));
    assert_snapshot!(places(""), @"input_queue 1us | app_idle 8us | unknown 12us | app_idle 59us | input_queue 1us");
    assert_snapshot!(places("recognized"), @"input_queue 1us | app_idle 9us | unknown 11us | app_idle 59us | input_queue 1us");
    let delays = |mark: &str| {
        let analysis = testing::analyze_of(datagrams(), &left_over(mark));
        let delay = |stage: usize| analysis.flows[0].stages[stage].delay_ns.unwrap().count;
        (delay(4), delay(7), analysis.flows[0].throughput_bytes_per_s.is_some())
    };
    assert_eq!((delays(""), delays("recognized")), ((2, 2, true), (3, 3, true)));
}

/// All records of the second datagram are missed from the driver on. The third one, which was behind it in
/// the interface's queue, shows when it had left it.
#[test]
fn a_recognized_datagram_that_vanishes_is_unknown_until_the_next_one_passes() {
    let losses: String =
        (4..=8).map(|point| format!("| 25us loss code={point} from=20us detail=1")).collect();
    let text = format!(
        "10us 1-8 0..100 recognized | 20us 1-3 100..200 recognized {losses}
         30us 1-3 200..300 recognized | 40us 4-8 200..300 recognized
         90us 1-8 300..400 recognized | 95us 1-8 400..500 recognized"
    );
    assert_snapshot!(places_of(datagrams(), Direction::FromClient, &text),
        @"app_idle 10us | unknown 20us | app_idle 50us | app_idle 5us");
}

/// A standing queue of 10 us: of 40 datagrams, one every 2 us, the fifth and the sixth vanish behind point 3.
fn standing_queue(losses: &str, later: &str) -> String {
    let datagram = |number: u64| {
        let range = format!("{}..{}", number * 100, (number + 1) * 100);
        let (sent_us, left_us) = (2 * number, 2 * number + 10);
        let sent = (sent_us, format!("{sent_us}us 1-3 {range} recognized"));
        let mark = if number == 20 { later } else { "recognized" };
        let left = (left_us, format!("{left_us}us 4-8 {range} {mark}"));
        let is_gone = [4, 5].contains(&number);
        [Some(sent), Some(left).filter(|_| !is_gone)].into_iter().flatten().collect::<Vec<_>>()
    };
    let mut lines: Vec<(u64, String)> = (0..40).flat_map(datagram).collect();
    lines.push((30, losses.to_owned()));
    lines.sort_by_key(|(at_us, _)| *at_us);
    lines.into_iter().map(|(_, line)| line).collect::<Vec<_>>().join("\n")
}

/// Of each part of the ledger its time, in microseconds.
fn shares_us(text: &str) -> String {
    let analysis = testing::analyze_of(datagrams(), text);
    let flow = &analysis.flows[0];
    let parts = crate::LedgerPart::ALL.into_iter().zip(flow.ledger.ns);
    let parts = parts.filter(|(_, ns)| *ns > 0);
    let parts = parts.map(|(part, ns)| format!("{} {}us", part.name(), ns / 1000));
    parts.collect::<Vec<_>>().join(" | ")
}

/// The read of a datagram that was never announced shows nothing of it, so that no loss counts as of point 8.
#[test]
fn datagrams_that_vanish_in_a_standing_queue_cost_the_time_to_the_next_one() {
    let losses = |points: std::ops::RangeInclusive<u8>| {
        let loss = |point| format!("30us loss code={point} from=16us detail=2");
        points.map(loss).collect::<Vec<_>>().join(" | ")
    };
    let known = "interface_queue 82us | unknown 6us";
    assert_eq!(shares_us(&standing_queue(&losses(4..=7), "recognized")), known);
    assert_eq!(shares_us(&standing_queue(&losses(4..=8), "recognized")), known);
    // That of a later one is a guess makes no other one unknown.
    assert_eq!(shares_us(&standing_queue(&losses(4..=8), "")), known);
    // A drop counts as of no point.
    assert_eq!(shares_us(&standing_queue("30us loss code=31 from=16us detail=2", "")), known);
}

/// Lengths of the receive queue over time, `?` from where they are unknown.
fn unread(text: &str) -> String {
    let mut analyzer = Analyzer::new();
    analyzer.connection(datagrams());
    analyzer.push(&testing::records(text));
    let stores = analyzer.into_stores();
    let curves = crate::FlowCurves::new(
        &stores.connections[0],
        Direction::FromClient,
        &stores.losses,
        &stores.drop_reasons,
    );
    let steps = curves.lengths(sockscope_record::Stage::ReceiveQueue).unwrap_or_default();
    let shown = steps.iter().map(|step| {
        let length = step.length_bytes.map_or("?".into(), |bytes| bytes.to_string());
        format!("{}us {length}", step.at_ns / 1000)
    });
    shown.collect::<Vec<_>>().join(" | ")
}

const MISMATCH: &str = "30us 1-5 +100 | 32us loss code=6 from=30us detail=1";

#[test]
fn before_wrong_matches_too_a_read_that_was_not_seen_makes_its_time_unknown() {
    let read = "1us 1-8 +100";
    let gone = "10us 1-7 +100 | 40us loss code=8 from=10us detail=1 | 40us 8 100..200 derived";
    assert_snapshot!(unread(&format!("{read} | {gone} | {MISMATCH}")), @"1us 0 | 10us ?");
    let earlier = "3us 1-7 +100 | 5us loss code=8 from=3us detail=1 | 5us 8 100..200 derived";
    let text = format!("{read} | {earlier} | 10us 1-7 +100 | 20us 8 200..300 | {MISMATCH}");
    assert_snapshot!(unread(&text), @"1us 0 | 3us ? | 5us 0 | 10us 100 | 20us 0 | 30us ?");
}

#[test]
fn beyond_wrong_matches_a_points_own_losses_count_from_when_they_began() {
    let text = format!("1us 1-8 +100 | 2us 1-7 +100 | 9us loss code=8 from=5us | {MISMATCH}");
    assert_snapshot!(unread(&text), @"1us 0 | 2us 100 | 5us ?");
    let between = format!("1us 1-8 +100 | 2us 1-8 +100 | 9us loss code=7 from=5us | {MISMATCH}");
    assert_snapshot!(unread(&between), @"1us 0 | 2us 0 | 5us ?");
}

#[test]
fn reads_of_datagrams_that_were_not_seen_hide_nothing_of_a_stream() {
    let text = "10us 1-7 +100 | 20us loss code=8 from=12us derived | 60us 1-7 +50";
    assert_snapshot!(places(text), @"receive_queue.app 50us");
    assert_snapshot!(places_of(datagrams(), Direction::FromClient, text), @"receive_queue.app 2us | unknown 48us");
    let of_any = text.replace("derived", "");
    assert_snapshot!(places(&of_any), @"receive_queue.app 2us | unknown 48us");
    let touched = |loss: &str| {
        let mut analyzer = Analyzer::new();
        analyzer.push(&testing::records(&format!(
            "10us 1-7 +100 | 40us loss {loss} from=5us detail=1"
        )));
        let losses = analyzer.into_stores().losses;
        [Protocol::Tcp, Protocol::Udp].map(|protocol| losses[0].may_touch(protocol))
    };
    // For a vanished datagram, for a drop, and for bytes that entered a receive queue.
    assert_eq!(touched("code=31 derived"), [false, true]);
    assert_eq!(touched("code=31"), [true, true]);
    assert_eq!(touched("code=7 derived"), [true, true]);
}

#[test]
fn a_dropped_datagram_leaves_the_path_where_it_was_dropped() {
    let text = "10us 1-6 +100 | 12us drop 0..100 code=6 | 20us 1-6 +50 | 25us 7 100..150 | 29us 8 100..150";
    assert_snapshot!(balance(&testing::analyze_of(datagrams(), text)),
        @"send_queue 0/0/0 | tcp_output 0/0/0 | interface_queue 0/0/0 | wire 0/0/0 | input_queue 0/0/0 | tcp_input 0/0/0 | receive_queue 0/0/0 | total 0/0/0");
    assert_snapshot!(places_of(datagrams(), Direction::FromClient, text),
        @"tcp_input 2us | app_idle 8us | tcp_input 5us | receive_queue.app 4us");
}

#[test]
fn a_datagram_that_no_socket_takes_is_gone_and_not_unknown() {
    let nobody = Connection { both_ends_here: false, ..datagrams() };
    let text = "10us 1-6 +100 | 12us drop 0..100 code=6 | 20us 1-6 +50 | 25us drop 100..150 code=6";
    assert_snapshot!(places_of(nobody.clone(), Direction::FromClient, text),
        @"tcp_input 2us | app_idle 8us | tcp_input 5us");
    let analysis = testing::analyze_of(nobody, text);
    assert_eq!(analysis.flows.each_ref().map(|flow| flow.datagrams_refused), [2, 0]);
}

/// A remote sender, and a reader that is too slow and leaves some unread at its end.
#[test]
fn a_datagram_for_a_full_receive_buffer_is_not_refused() {
    let remote = Connection { both_ends_here: false, ..datagrams() };
    let text = "10us 5-7 +100 | 20us 5-6 +100 | 21us drop 100..200 code=6 | 30us 8 +100
                40us 5-6 +100 | 41us 7 200..300 | 90us drop 200..300 code=7";
    let analysis = testing::analyze_of(remote, text);
    assert_eq!(analysis.flows.each_ref().map(|flow| flow.datagrams_refused), [0, 0]);
    assert_eq!(analysis.findings[0].id, crate::FindingId::UdpReceiveDrop);
}

#[test]
fn a_dropped_segment_waits_where_it_was_dropped_until_its_retransmission_gets_through() {
    assert_snapshot!(places("10us 1-4 +100 | 210us 2-4 0..100 retransmitted | 212us 5-8 +100"), @"wire 202us");
}

#[test]
fn a_connection_that_closed_with_all_data_read_has_nothing_left_anywhere() {
    let closed = Connection { closed_ns: Some(99_000), ..connection() };
    let text = "10us 1-2 +100 | 12us 3-8 50..100";
    assert_snapshot!(balance(&testing::analyze_of(closed, text)),
        @"send_queue 0/0/0 | tcp_output 50/0/0 | interface_queue 0/0/0 | wire 0/0/0 | input_queue 0/0/0 | tcp_input 0/0/0 | receive_queue 0/0/0 | total 50/0/0");
}

#[test]
fn records_without_a_connection_are_analysed_and_noted() {
    let mut analyzer = Analyzer::new();
    analyzer.push(&testing::records("10us 1-8 +100"));
    let analysis = analyzer.finish(TraceFacts::default());
    assert_eq!(analysis.connections[0].flows[0].bytes, 100);
    assert_eq!(analysis.facts.notes, ["connections with records but no description: 1"]);
}
