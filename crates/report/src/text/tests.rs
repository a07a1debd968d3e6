//! Whole reports as text: content, escapes and width.

use sockscope_analysis::{
    Analysis, Analyzer, AtLeast, DropCount, Finding, FindingId, LedgerPart, LengthSummary,
    TraceFacts, Uncertainty,
};
use sockscope_record::{
    Connection, ConnectionId, Direction, Kind, Protocol, Record, Side, SocketLayer, Stage,
};

use super::*;
use crate::fixture::{
    absurd, empty, fixed, hop, hostile, many, origin, stall, unknown_everything, written,
};
use crate::text::page::columns;
use crate::{Charset, Options, Origin, palette};

fn text(analysis: &Analysis) -> String {
    written(&Text, analysis, &Options::default())
}

#[test]
fn a_stalled_call_is_seen_explained_and_cured() {
    insta::assert_snapshot!(text(&stall()));
}

#[test]
fn ascii_says_the_same() {
    let options = Options { charset: Charset::Ascii, ..Options::default() };
    let text = written(&Text, &stall(), &options);
    assert!(text.is_ascii());
    insta::assert_snapshot!(text);
}

#[test]
fn a_healthy_trace_says_where_its_time_went() {
    insta::assert_snapshot!(text(&fixed()));
}

#[test]
fn unknown_is_shown_as_unknown() {
    insta::assert_snapshot!(text(&unknown_everything()));
}

#[test]
fn a_figure_that_a_loss_touches_is_a_lower_bound() {
    let mut analysis = stall();
    let flow = &mut analysis.connections[0].flows[0];
    flow.retransmitted_bytes = 4096;
    flow.drops = vec![DropCount { reason: "X".to_owned(), count: 2, bytes: 9, host: None }];
    flow.at_least = AtLeast {
        bytes: true,
        throughput: true,
        segments: true,
        retransmitted: true,
        drops: true,
        acks: true,
        bursts: true,
        writes: true,
        reads: true,
    };
    for stage in &mut flow.stages {
        (stage.unknown_intervals, stage.residue_bytes, stage.resident_bytes) = (1, None, None);
    }
    flow.stages[2].length_bytes = None;
    flow.stages[3].resident_bytes = Some(7);
    flow.stages[6].length_bytes = Some(LengthSummary { mean: 9e6, max: 1_000_000_000 });
    let flow_part = |text: String| {
        let lines = text.lines().skip_while(|line| !line.starts_with("flow 2"));
        let lines = lines.take_while(|line| !line.starts_with("flow 3"));
        lines.collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(flow_part(text(&analysis)));
    let options = Options { charset: Charset::Ascii, ..Options::default() };
    let ascii = flow_part(written(&Text, &analysis, &options));
    assert!(ascii.is_ascii() && ascii.contains("    400B+"), "{ascii}");
}

#[test]
fn a_hop_is_a_line_with_its_part_of_the_wire() {
    let mut analysis = stall();
    analysis.connections[0].flows[0].hops = vec![hop()];
    let text = text(&analysis);
    let lines = text.lines().skip_while(|line| !line.starts_with("hop"));
    let lines: Vec<_> = lines.take_while(|line| !line.starts_with("writes")).collect();
    insta::assert_snapshot!(lines.join("\n"), @r"
    hop      r1 of network namespace 4026532246, in by device 2: 293 KiB; in transit
             p50 20.0 µs, p99 25.0 µs; in its queue p50 100 ms, p99 125 ms, 78.1 KiB
             on average, 153 KiB at most; residue 0 B; 469 ms of the ledger's wire
             is this queue
    ");
    let device = &mut analysis.connections[0].flows[0].hops[0].device;
    device.namespace_name = Some("shop\u{1b}[2J".to_owned());
    let text = self::text(&analysis);
    assert!(text.contains("hop      r1 of network namespace shop"), "{text}");
    assert!(!text.contains('\u{1b}') && !text.contains("4026532246"), "{text}");
}

#[test]
fn a_queue_that_does_not_add_up_is_named() {
    let mut analysis = stall();
    let flow = &mut analysis.connections[0].flows[1];
    flow.stages[3].residue_bytes = Some(-1448);
    flow.stages[4].residue_bytes = None;
    flow.stages[6].resident_bytes = Some(512);
    let text = text(&analysis);
    let closing: Vec<_> =
        text.lines().skip_while(|line| !line.starts_with("conservation")).take(3).collect();
    insta::assert_snapshot!(closing.join("\n"), @"
    conservation: residue 0 in 12 of 14 queues (7 of each of 2 flows with data); off
             by: flow 3 wire -1,448 B; unknown: flow 3 input_queue
    missed   no record; probes: 3,200 hits of 87 ns, 278 µs in all, <0.1 % of a CPU
    ");
    assert!(text.contains("at end        0 B"), "{text}");
}

/// Verdict and the lines up to the first empty one, of the stall with its finding changed.
fn verdict(change: impl Fn(&mut Analysis, &mut Finding)) -> String {
    let mut analysis = stall();
    let mut finding = analysis.connections[0].findings.remove(0);
    change(&mut analysis, &mut finding);
    analysis.connections[0].findings = vec![finding];
    verdict_of(&analysis)
}

fn verdict_of(analysis: &Analysis) -> String {
    let text = text(analysis);
    let lines = text.lines().skip_while(|line| !line.starts_with("verdict"));
    lines.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

#[test]
fn what_costs_next_to_nothing_is_no_verdict() {
    let verdict = verdict(|_, finding| finding.cost_ns = 80_000_000);
    assert!(
        verdict.starts_with("verdict  no finding costs 1 % of the time; of 8.35 s"),
        "{verdict}"
    );
    assert!(!verdict.contains("\nfix"), "{verdict}");
    assert!(verdict.ends_with("\nalso     nagle-delayed-ack 199× (80.0 ms)"), "{verdict}");
}

#[test]
fn a_program_that_answers_slowly_is_named_beside_a_verdict_that_cost_less() {
    let with = |service_ns: f64| {
        verdict(|analysis, _| {
            let exchanges = analysis.connections[0].exchanges.as_mut().unwrap();
            exchanges.service_ns.mean = service_ns;
            exchanges.total_ns.mean = 50e6;
        })
    };
    let long = with(21e6);
    assert!(long.contains("\nbut      Of 10.0 s that callers waited, 84.0 %"), "{long}");
    assert!(!with(15e6).contains("\nbut"));
}

#[test]
fn a_writer_that_does_not_use_its_room_is_named_beside_a_verdict_that_cost_less() {
    let with = |away_ns: u64| {
        verdict(|analysis, _| {
            let ledger = &mut analysis.connections[0].flows[0].ledger;
            ledger.ns[LedgerPart::SendWriter as usize] = away_ns;
        })
    };
    let long = with(9_000_000_000);
    assert!(long.contains("\nbut      for longer, 9.00 s"), "{long}");
    assert!(long.contains("the client of connection 1"), "{long}");
    // One that does not block may have given up the rest.
    assert!(long.contains("if it slept") && !long.contains("more to write"), "{long}");
    assert!(!with(8_000_000_000).contains("\nbut"));
}

#[test]
fn drops_that_no_finding_has_are_named_beside_a_verdict_that_cost_less() {
    let with = |cost_ns: u64, id: FindingId| {
        let said = verdict(|analysis, finding| {
            finding.id = id;
            let flow = &mut analysis.connections[0].flows[0];
            flow.ledger.ns[LedgerPart::Dropped as usize] = cost_ns;
            let (reason, host) = ("QDISC_DROP".to_owned(), Some(Side::Client));
            flow.drops = vec![DropCount { reason, count: 9, bytes: 900, host }];
        });
        said.replace("\n         ", " ")
    };
    let long = with(8_300_000_000, FindingId::NagleDelayedAck);
    let line = "\nbut      for longer, 8.30 s (96.4 % of the trace), on connection 1, what the client sent was \
                dropped for QDISC_DROP on the client's host.";
    assert!(long.contains(line), "{long}");
    assert!(!with(8_000_000_000, FindingId::NagleDelayedAck).contains("\nbut"));
    assert!(!with(8_300_000_000, FindingId::Retransmission).contains("\nbut"));
}

#[test]
fn a_place_with_ten_times_what_the_verdict_cost_is_named_beside_it() {
    let with = |woken_ns: u64| {
        let said = verdict(|analysis, finding| {
            finding.cost_ns = 100_000_000;
            let ledger = &mut analysis.connections[0].flows[0].ledger;
            ledger.ns = Default::default();
            ledger.ns[LedgerPart::SendNagle as usize] = 100_000_000;
            ledger.ns[LedgerPart::ReceiveWakeup as usize] = woken_ns;
        });
        said.replace("\n         ", " ")
    };
    let long = with(1_000_000_000);
    let line = "\nbut      of all connections together, bytes were in receive_queue.wakeup (reader waits \
                for a CPU) for 1.01 s of 1.11 s.";
    assert!(long.contains(line), "{long}");
    assert!(!with(900_000_000).contains("\nbut"));
}

#[test]
fn where_nagle_has_the_time_and_nobody_is_seen_to_wait_the_verdict_says_what_could_help() {
    let mut analysis = stall();
    analysis.connections[0].findings.clear();
    let said = verdict_of(&analysis);
    assert!(said.contains("send_queue.nagle"), "{said}");
    assert!(said.contains("set TCP_NODELAY or write each message"), "{said}");
    let said = verdict(|_, finding| finding.cost_ns = 80_000_000);
    assert!(!said.contains("TCP_NODELAY"), "{said}");
}

#[test]
fn where_a_cork_has_the_time_and_ends_as_it_should_the_verdict_says_whose_choice_it_is() {
    let mut analysis = stall();
    analysis.connections[0].findings.clear();
    let ledger = &mut analysis.connections[0].flows[0].ledger;
    ledger.ns.swap(LedgerPart::SendNagle as usize, LedgerPart::SendCork as usize);
    let said = verdict_of(&analysis).replace("\n         ", " ");
    assert!(said.contains("send_queue.cork"), "{said}");
    assert!(said.contains("held short segments, as the program asked"), "{said}");
    assert!(!said.contains("TCP_NODELAY"), "{said}");
}

#[test]
fn a_short_report_has_its_command_in_one_line() {
    let command = |command: &str| {
        let origin = Origin { command: Some(command.to_owned()), ..origin() };
        let options = Options { full: false, ..Options::default() };
        let mut out = Vec::new();
        let analysis = stall();
        Text.write(&Report { origin: &origin, analysis: &analysis, options: &options }, &mut out)
            .unwrap();
        String::from_utf8(out).unwrap().lines().nth(1).unwrap_or_default().to_owned()
    };
    assert_eq!(command("curl -s http://a/b"), "command  curl -s http://a/b");
    let long = command(&format!("python3 -B /opt/{}/calls.py --port 8080", "x".repeat(90)));
    assert_eq!(columns(&long), Options::default().width, "{long}");
    assert!(long.starts_with("command  python3 -B /opt/x"), "{long}");
    assert!(long.contains("x [...] x") && long.ends_with("x/calls.py --port 8080"), "{long}");
}

#[test]
fn a_very_long_command_has_its_middle_left_out_and_no_line_beyond_the_page() {
    let head = |command: String| {
        let origin = Origin { command: Some(command), ..origin() };
        let (analysis, options) = (stall(), Options::default());
        let mut out = Vec::new();
        Text.write(&Report { origin: &origin, analysis: &analysis, options: &options }, &mut out)
            .unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines = text.lines().skip(1).take_while(|line| !line.starts_with("trace "));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let long = head(format!("python3 -c import\nsocket{} --last 7", "x".repeat(5_000)));
    assert!((3..=5).contains(&long.len()), "{long:?}");
    assert!(long.iter().all(|line| columns(line) <= Options::default().width), "{long:?}");
    let said = long.join("\n");
    assert!(said.contains(r" import\nsocketxxx"), "{said}");
    assert!(said.contains("[4,794 characters left out]") && said.ends_with("x --last 7"), "{said}");
    assert_eq!(head("curl -s http://a/b".to_owned()), ["command  curl -s http://a/b"]);
}

#[test]
fn time_that_two_flows_lost_at_once_counts_once() {
    let mut analysis = stall();
    let cost = "8.17 s (94.9 % of the trace)";
    assert!(verdict_of(&analysis).contains(cost));
    let mut again = analysis.connections[0].findings[0].clone();
    analysis.connections[0].findings.push(again.clone());
    assert!(verdict_of(&analysis).contains(cost), "{}", verdict_of(&analysis));
    let end_ns = analysis.start_ns + analysis.duration_ns;
    again.times = vec![(end_ns - 8_170_000_000, end_ns)];
    analysis.connections[0].findings.push(again);
    let whole = "8.61 s (100.0 % of the trace)";
    assert!(verdict_of(&analysis).contains(whole), "{}", verdict_of(&analysis));
}

#[test]
fn where_callers_wait_for_the_answering_program_the_verdict_says_so() {
    let mut analysis = fixed();
    let mut said = |service: f64| {
        let exchanges = analysis.connections[0].exchanges.as_mut().unwrap();
        exchanges.service_ns.count = exchanges.total_ns.count;
        exchanges.service_ns.mean = exchanges.total_ns.mean * service;
        let text = text(&analysis);
        let lines = text.lines().skip_while(|line| !line.starts_with("verdict"));
        let words = lines.take_while(|line| !line.is_empty()).flat_map(str::split_whitespace);
        words.collect::<Vec<_>>().join(" ")
    };
    let most = said(0.75);
    assert!(most.ends_with("75.0 % was the answering program's own time."), "{most}");
    let little = said(0.25);
    assert!(!little.contains("answering"), "{little}");
}

#[test]
fn one_in_a_hundred_of_the_time_is_a_verdict() {
    let verdict = verdict(|_, finding| finding.cost_ns = 90_000_000);
    assert!(verdict.starts_with("verdict  nagle-delayed-ack costs most: 90.0 ms"), "{verdict}");
}

#[test]
fn a_verdict_beside_findings_that_cost_more_together_does_not_cost_most() {
    let mut analysis = stall();
    let finding = analysis.connections[0].findings.remove(0);
    let costing = |id, cost_ns| Finding { id, cost_ns, ..finding.clone() };
    analysis.connections[0].findings = vec![
        costing(FindingId::NagleDelayedAck, 80_000_000),
        costing(FindingId::NagleDelayedAck, 80_000_000),
        costing(FindingId::Retransmission, 90_000_000),
    ];
    let verdict = verdict_of(&analysis);
    assert!(verdict.starts_with("verdict  retransmission: cost 90.0 ms ("), "{verdict}");
    assert!(verdict.contains("\nalso     nagle-delayed-ack 398× (160 ms)"), "{verdict}");
}

#[test]
fn an_idle_hour_after_the_traffic_makes_no_stall_harmless() {
    let verdict = verdict(|analysis, _| analysis.duration_ns = 3_600_000_000_000);
    assert!(verdict.starts_with("verdict  nagle-delayed-ack costs most: 8.17 s"), "{verdict}");
}

#[test]
fn lost_datagrams_are_a_verdict_whatever_time_they_cost() {
    let verdict = verdict(|_, finding| {
        (finding.id, finding.cost_ns) = (FindingId::UdpReceiveDrop, 0);
    });
    assert!(verdict.starts_with("verdict  udp-receive-drop: "), "{verdict}");
    assert!(!verdict.contains("cannot be measured"), "{verdict}");
}

#[test]
fn thousands_of_connections_stay_readable() {
    let options = Options { detailed: 1, listed: 5, ..Options::default() };
    let text = written(&Text, &many(3000), &options);
    insta::assert_snapshot!(text);
}

#[test]
fn a_sum_that_the_rows_have_no_part_of_has_a_unit_of_its_own() {
    // Only the tenth has a cost, and it is shown in full.
    let text = written(&Text, &many(12), &Options { detailed: 1, ..Options::default() });
    let rows = text.split("the other 11 connections").nth(1).unwrap();
    assert!(rows.contains("cost ms"), "{rows}");
    let sum = rows.lines().find(|line| line.contains("all 12 connections")).unwrap();
    assert_eq!(sum.split_whitespace().last(), Some("10.0"), "{rows}");
}

#[test]
fn a_sum_far_above_its_rows_has_a_unit_that_shows_it_in_digits() {
    let mut analysis = many(12);
    // The tenth has a cost, so it is shown in full.
    for (index, connection) in analysis.connections.iter_mut().enumerate() {
        connection.flows[0].bytes = if index == 9 { 40_000_000 } else { 400 };
        connection.flows[1].bytes = 0;
    }
    let text = written(&Text, &analysis, &Options { detailed: 1, ..Options::default() });
    let rows = text.split("the other 11 connections").nth(1).unwrap();
    assert!(rows.contains("size KiB"), "{rows}");
    let sum = rows.lines().find(|line| line.contains("all 12 connections")).unwrap();
    assert_eq!(sum.split_whitespace().nth(3), Some("39067"), "{rows}");
}

#[test]
fn where_all_were_refused_the_verdict_says_so() {
    let refused = |count| {
        let mut analysis = many(count);
        for connection in &mut analysis.connections {
            connection.unopened = Some(sockscope_analysis::Unopened::Refused);
            for flow in &mut connection.flows {
                (flow.bytes, flow.segments, flow.ledger) = (0, 0, Default::default());
            }
        }
        verdict_of(&analysis).replace("\n         ", " ")
    };
    let one = "verdict  no data passed: connection 1 was refused: nobody listens there, or a filter \
               turns connections away";
    assert_eq!(refused(1), format!("{one}."));
    assert_eq!(refused(3), format!("{one}; 2 more did not come about either."));
}

#[test]
fn nothing_recorded_is_a_report_too() {
    insta::assert_snapshot!(text(&empty()), @r"
    sockscope 0.1.0 on anvil, kernel 6.18.1, clock monotonic
    command  python3 rpc.py
    trace    live, 0 connections, 0 records, 0 missed

    verdict  no connection was recorded: nothing that was picked sent or received
             over TCP or UDP (Unix sockets need --unix).

    missed   no record; probes: 3,200 hits of 87 ns, 278 µs in all, ? of a CPU
    ");
}

#[test]
fn of_a_trace_that_was_not_finished_nothing_is_said_to_be_whole() {
    let mut analysis = empty();
    analysis.facts.unfinished = true;
    insta::assert_snapshot!(text(&analysis), @r"
    sockscope 0.1.0 on anvil, kernel 6.18.1, clock monotonic
    command  python3 rpc.py
    trace    live, 0 connections, 0 records, not finished

    verdict  there is no connection in the trace.

    missed   no record, as far as was counted; probes: 3,200 hits of 87 ns, 278 µs
             in all, ? of a CPU
    ");
    analysis.facts.missed.events = 5;
    assert!(text(&analysis).contains("0 records, at least 5 missed, not finished"));
}

#[test]
fn what_a_kernel_s_recorder_cannot_see_is_said_where_nothing_was_seen() {
    let mut analysis = empty();
    assert!(text(&analysis).contains("(Unix sockets need --unix)"));
    let mut asked = analysis.clone();
    asked.facts.notes.push("--unix: not recorded are points 1 and 7 of Unix sockets".to_owned());
    let said = text(&asked);
    assert!(said.contains("Of Unix sockets nothing is known: see the note."), "{said}");
    assert!(!said.contains("need --unix"), "{said}");
    analysis.facts.source = "pcap".to_owned();
    assert!(text(&analysis).contains("verdict  there is no connection in the trace.\n"));
}

#[test]
fn a_connection_that_never_came_about_is_not_called_unknown() {
    let mut analysis = fixed();
    let connection = &mut analysis.connections[0];
    connection.connection.both_ends_here = false;
    connection.exchanges = None;
    for flow in &mut connection.flows {
        (flow.bytes, flow.segments) = (0, 0);
        flow.ledger.ns = Default::default();
    }
    let text = text(&analysis);
    assert!(text.contains("verdict  no data passed: there is nothing to measure.\n"), "{text}");
    assert!(text.contains("note     the other end was not seen: it refused,"), "{text}");
    let connection = &mut analysis.connections[0];
    connection.unopened = Some(sockscope_analysis::Unopened::Refused);
    connection.reset = Some((Side::Server, 0));
    let text = self::text(&analysis);
    assert!(text.contains("note     refused: nobody listens there, or a filter turns"), "{text}");
    assert!(!text.contains("reset by") && !text.contains("was not seen"), "{text}");
    let reason = "reason NETFILTER_DROP".to_owned();
    analysis.connections[0].unopened = Some(sockscope_analysis::Unopened::Dropped(reason));
    let text = self::text(&analysis).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("was dropped (reason NETFILTER_DROP), by a filter"), "{text}");
    assert!(!text.contains("refused"), "{text}");
}

#[test]
fn datagrams_that_nobody_takes_are_not_on_another_host() {
    let mut analysis = fixed();
    let connection = &mut analysis.connections[0];
    connection.connection.both_ends_here = false;
    connection.connection.protocol = Protocol::Udp;
    connection.flows[0].datagrams_refused = 3;
    let text = text(&analysis);
    assert!(
        text.contains("note     3 datagrams came to this host, and no socket took them"),
        "{text}"
    );
    assert!(!text.contains("not on this host"), "{text}");
    analysis.connections[0].flows[0].segments = 0;
    let text = self::text(&analysis);
    assert!(text.contains("note     one end is not on this host"), "a remote sender: {text}");
}

#[test]
fn addresses_that_the_other_host_has_are_shown_where_they_differ() {
    let mut analysis = fixed();
    let connection = &mut analysis.connections[0].connection;
    connection.elsewhere = Some([connection.client, connection.server]);
    assert!(!text(&analysis).contains("the other host has"));
    let translated = ["198.51.100.7:999", "10.0.0.8:80"].map(|end| end.parse().unwrap());
    analysis.connections[0].connection.elsewhere = Some(translated);
    let text = text(&analysis);
    let note = "note     the other host has 198.51.100.7:999 → 10.0.0.8:80: addresses are";
    assert!(text.contains(note), "{text}");
}

#[test]
fn a_stage_between_two_hosts_has_the_error_of_their_clocks() {
    let mut analysis = fixed();
    let flow = &mut analysis.connections[0].flows[0];
    flow.wire_intervals = 3;
    flow.ledger.ns[LedgerPart::Wire as usize] = 1_000_000;
    for stage in [Stage::Wire, Stage::Total] {
        flow.stages[stage as usize].uncertainty = Some(Uncertainty::AtMost(410_000));
    }
    let full = |analysis: &Analysis| {
        written(&Text, analysis, &Options { full: true, ..Options::default() })
    };
    let text = full(&analysis);
    let rows: Vec<_> = text.lines().filter(|line| line.starts_with("error ")).collect();
    // Of the eight stages the fourth and the last one.
    assert_eq!(rows.len(), 1, "{text}");
    assert_eq!(rows[0].split_whitespace().collect::<Vec<_>>(), ["error", "±410µs", "±410µs"]);
    assert!(text.contains("wire 1.00 ms ±1.23 ms, by the clocks of the two hosts"), "{text}");
    let json = written(&crate::Json, &analysis, &Options::default());
    assert_eq!(json.matches("\"uncertainty_ns\":410000").count(), 2, "{json}");
    assert!(json.contains("\"ledger_wire_uncertainty_ns\":1230000"), "{json}");
    let flow = &mut analysis.connections[0].flows[0];
    flow.stages[Stage::Wire as usize].uncertainty = Some(Uncertainty::Unknown);
    assert!(full(&analysis).contains("wire 1.00 ms ±?, by the clocks of the two hosts"));
    let json = written(&crate::Json, &analysis, &Options::default());
    assert_eq!(json.matches("\"uncertainty_is_unknown\":true").count(), 1);
}

#[test]
fn a_window_that_stays_shut_is_told_and_is_the_verdict_where_no_data_passed() {
    let mut analysis = fixed();
    let at_ns = analysis.start_ns + 7_000;
    analysis.connections[0].shut_windows = vec![(Side::Server, at_ns)];
    assert!(!text(&analysis).contains("receive window is 0"), "it may yet open");
    analysis.duration_ns = 500_007_000;
    let note = "the server's receive window is 0 from";
    assert!(text(&analysis).contains(note), "{}", text(&analysis));
    assert!(!verdict_of(&analysis).contains("window is 0"));
    for flow in &mut analysis.connections[0].flows {
        (flow.bytes, flow.segments) = (0, 0);
        flow.ledger.ns = Default::default();
    }
    let connection = &mut analysis.connections[0].connection;
    (connection.preexisting, connection.both_ends_here) = (true, false);
    let text = text(&analysis);
    assert!(text.contains("established before") && !text.contains("it refused"), "{text}");
    let said = verdict_of(&analysis).replace("\n         ", " ");
    let line = "verdict  no data passed: on connection 1 the server's receive window is 0, which opens \
                when the program there reads.";
    assert_eq!(said, line);
    analysis.connections[0].shut_windows.insert(0, (Side::Client, at_ns));
    let said = verdict_of(&analysis).replace("\n         ", " ");
    assert!(
        said.contains("on connection 1 the client's and the server's receive window"),
        "{said}"
    );
}

#[test]
fn a_reset_and_what_it_threw_away_are_told() {
    let mut analysis = fixed();
    analysis.connections[0].reset = Some((Side::Server, analysis.start_ns + 7_000));
    analysis.connections[0].flows[0].stages[7].resident_bytes = Some(90_000);
    let text = text(&analysis);
    let note = "note     reset by the server at +0.000007 s; 87.9 KiB were never read\n";
    assert!(text.contains(note), "{text}");
}

#[test]
fn a_socket_connected_to_itself_is_told_and_not_on_another_host() {
    let mut analysis = fixed();
    let connection = &mut analysis.connections[0].connection;
    connection.server = connection.client;
    for both_ends_here in [true, false] {
        analysis.connections[0].connection.both_ends_here = both_ends_here;
        let text = text(&analysis);
        let note = "note     one socket, connected to itself: it reads what it writes";
        assert!(text.contains(note), "{text}");
        assert!(!text.contains("not on this host"), "{text}");
    }
}

#[test]
fn a_mean_length_says_over_which_time_it_is() {
    let note = "\nmean len over time, from a stage's first byte in to its last byte out\n";
    assert_eq!(text(&stall()).matches(note).count(), 1);
    assert!(!text(&empty()).contains("mean len"));
}

#[test]
fn what_may_be_several_reads_is_not_called_one() {
    let reads = |sure: u64| {
        let mut analysis = stall();
        let flow = &mut analysis.connections[0].flows[0];
        flow.read_bytes.as_mut().unwrap().max = 12_500_000;
        flow.read_copy_bytes_max = Some(sure);
        let text = text(&analysis).replace("\n         ", " ");
        text.lines().find(|line| line.starts_with("reads")).unwrap().to_owned()
    };
    let line = reads(65_536);
    assert!(
        line.ends_with(
            "from 160 B to between 64.0 KiB and 11.9 MiB, which came without a pause, in one call or \
             several"
        ),
        "{line}"
    );
    assert!(reads(12_500_000).ends_with("from 160 B to 11.9 MiB"));
}

#[test]
fn what_the_kernel_dropped_is_told_with_its_reasons() {
    let mut analysis = fixed();
    let drop = |reason: &str, count, bytes| DropCount {
        reason: reason.to_owned(),
        count,
        bytes,
        host: None,
    };
    analysis.connections[0].flows[0].drops =
        vec![drop("NETFILTER_DROP", 25, 65_536), drop("77", 1, 0)];
    let line = "drops    26 by the kernel, with 64.0 KiB: NETFILTER_DROP (25), reason 77 (1)\n";
    let text = text(&analysis);
    assert!(text.contains(line), "{text}");
}

#[test]
fn a_capture_says_what_it_is_and_claims_no_segments() {
    let mut analysis = fixed();
    analysis.facts.source = "pcap".to_owned();
    analysis.connections[0].connection.both_ends_here = false;
    analysis.connections[0].flows[0].segments = 0;
    let text = text(&analysis);
    assert!(text.contains("note     a capture at one place: what was before it and"), "{text}");
    assert!(!text.contains("not on this host") && !text.contains(" in 0 segments"), "{text}");
}

#[test]
fn where_most_time_is_unknown_the_verdict_says_so() {
    let mut analysis = fixed();
    assert!(!text(&analysis).contains("it is unknown where"));
    let part = LedgerPart::Unknown as usize;
    analysis.connections[0].flows[0].ledger.ns[part] = 40_000_000_000;
    let said = text(&analysis).split_whitespace().collect::<Vec<_>>().join(" ");
    let verdict = "verdict no verdict: for 40.0 s, of all directions together, it is unknown where bytes \
                   were, or whether there were any. In what is known: nothing wrong found; of";
    assert!(said.contains(verdict), "{said}");
}

#[test]
fn where_the_sockets_are_the_kernels_own_the_verdict_says_why_it_is_none() {
    let mut analysis = fixed();
    let inner = &mut analysis.connections[0];
    inner.is_inner = true;
    inner.flows[0].ledger.ns[LedgerPart::Unknown as usize] = 40_000_000_000;
    let said = text(&analysis).split_whitespace().collect::<Vec<_>>().join(" ");
    let verdict = "it is unknown where bytes were, or whether there were any, as sockets of connection 1 \
                   belong to the kernel (MPTCP's do): programs use others. In what is known: ";
    assert!(said.contains(verdict), "{said}");
    assert!(
        said.contains("note a socket of the kernel's own, as MPTCP has one for each path"),
        "{said}"
    );
    // Most of the time is unknown for another reason.
    let mut other = analysis.connections[0].clone();
    other.is_inner = false;
    other.flows[0].ledger.ns[LedgerPart::Unknown as usize] = 50_000_000_000;
    analysis.connections.push(other);
    assert!(!text(&analysis).contains("belong to the kernel"));
}

#[test]
fn the_verdict_and_a_note_name_a_layer_of_the_kernel() {
    let mut analysis = fixed();
    analysis.connections[0].layers = vec![(Side::Server, SocketLayer::Sockmap)];
    let words =
        |analysis: &Analysis| text(analysis).split_whitespace().collect::<Vec<_>>().join(" ");
    let said = words(&analysis);
    let why = "a layer of the kernel (sockmap) reads and writes sockets of connection 1: the times \
               of its programs' writes and reads are unknown";
    assert!(said.contains(&format!("But {why}.")), "{said}");
    assert!(
        said.contains(
            "note a layer of the kernel reads and writes this socket (server: sockmap): "
        ),
        "{said}"
    );
    // Data that only passes through the sockmap is nowhere in TCP.
    for flow in &mut analysis.connections[0].flows {
        (flow.bytes, flow.segments, flow.ledger) = (0, 0, Default::default());
    }
    let said = words(&analysis);
    assert!(said.contains(&format!("verdict no verdict: {why}")), "{said}");
}

#[test]
fn one_record_is_not_many() {
    let mut analysis = fixed();
    analysis.records = 1;
    assert!(text(&analysis).contains(", 1 record, "), "{}", text(&analysis));
    analysis.records = 1_000;
    assert!(text(&analysis).contains(", 1,000 records, "), "{}", text(&analysis));
}

#[test]
fn datagrams_are_not_called_segments_and_one_is_not_many() {
    let mut analysis = fixed();
    analysis.connections[0].flows[0].segments = 1;
    assert!(text(&analysis).contains(" in 1 segment, "), "{}", text(&analysis));
    analysis.connections[0].connection.protocol = Protocol::Udp;
    assert!(text(&analysis).contains(" in 1 datagram, "), "{}", text(&analysis));
    analysis.connections[0].flows[0].segments = 2;
    assert!(text(&analysis).contains(" in 2 datagrams, "), "{}", text(&analysis));
}

#[test]
fn of_very_many_processes_the_first_are_named() {
    let mut analysis = fixed();
    let processes = &mut analysis.connections[0].connection.processes;
    let first = processes[0].clone();
    processes.extend((0..1_000).map(|pid| sockscope_record::Process { pid, ..first.clone() }));
    let text = text(&analysis).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains(", and 993 more "), "{text}");
    assert!(!text.contains("(pid 7)"), "{text}");
}

#[test]
fn a_unit_of_several_processes_is_named_once_and_others_with_each() {
    let mut analysis = fixed();
    let group = |path| Some(std::sync::Arc::new(sockscope_record::ControlGroup::of_path(path)));
    let processes = &mut analysis.connections[0].connection.processes;
    processes.retain(|process| process.side == Side::Server);
    processes.truncate(1);
    processes[0].group = group("/system.slice/nginx.service");
    let second = sockscope_record::Process { pid: 9, ..processes[0].clone() };
    processes.push(second);
    let words = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (first, said) = (processes[0].clone(), words(text(&analysis)));
    let both = format!("{0} (pid {1}), {0} (pid 9) in unit nginx.service", first.comm, first.pid);
    assert!(said.contains(&both), "{said}");
    analysis.connections[0].connection.processes[1].group = group("/user.slice");
    let said = words(text(&analysis));
    let each = format!("{0} (pid {1}, unit nginx.service), {0} (pid 9)", first.comm, first.pid);
    assert!(said.contains(&each), "{said}");
}

#[test]
fn what_costs_no_time_is_named_without_a_time() {
    let verdict = verdict(|analysis, finding| {
        let split = Finding { id: FindingId::SplitMessage, cost_ns: 0, ..finding.clone() };
        let mut other = analysis.connections[0].clone();
        other.findings = vec![split];
        analysis.connections.push(other);
    });
    assert!(verdict.ends_with("\nalso     split-message 199×"), "{verdict}");
}

#[test]
fn hostile_names_stay_on_their_line() {
    let text = text(&hostile());
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
    assert!(text.contains("x\\n\\u{1b}[2J\\u{202e}\" (pid 4711)"), "{text}");
    assert_eq!(text.lines().filter(|line| line.starts_with("verdict")).count(), 1);
}

#[test]
fn absurd_figures_do_not_panic_and_are_not_printed_as_numbers() {
    let text = text(&absurd());
    assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
}

#[test]
fn lines_keep_within_the_width() {
    for width in [0, 80, 100, 1000] {
        for analysis in [stall(), fixed(), unknown_everything(), many(100)] {
            let text = written(&Text, &analysis, &Options { width, ..Options::default() });
            let widest = text.lines().map(columns).max().unwrap();
            assert!(widest <= width.clamp(80, 100), "{widest} > {width}\n{text}");
        }
    }
}

#[test]
fn colour_changes_nothing_but_colour() {
    let options = Options { color: true, ..Options::default() };
    let colored = written(&Text, &stall(), &options);
    let nagle = palette::place(LedgerPart::SendNagle).terminal;
    assert!(colored.contains(&format!("\x1b[38;5;{nagle}mNNN")), "{colored}");
    assert_eq!(without_colour(&colored), text(&stall()));
}

#[test]
fn one_flow_is_shown_alone() {
    let options = Options { flow: Some(sockscope_record::FlowId(3)), ..Options::default() };
    let text = written(&Text, &stall(), &options);
    assert!(text.contains("flow 3: ") && !text.contains("flow 2: "));
    assert!(!text.contains("nagle-delayed-ack"), "the finding is the other flow's");
}

fn without_colour(text: &str) -> String {
    let mut plain = String::new();
    for (index, piece) in text.split("\x1b[").enumerate() {
        plain.push_str(if index == 0 { piece } else { piece.split_once('m').unwrap().1 });
    }
    plain
}

/// The verdict on ten segments of the client, 210 ms apart, each recorded in `steps` of microseconds, kinds and detail.
fn ten_segments(here: bool, steps: &[(u64, &[Kind], u64)]) -> String {
    let mut analyzer = Analyzer::new();
    let id = ConnectionId(1);
    analyzer.connection(Connection {
        id,
        protocol: Protocol::Tcp,
        client: ([10, 0, 0, 1], 4711).into(),
        server: ([10, 0, 0, 2], 80).into(),
        opened_ns: 0,
        closed_ns: None,
        preexisting: false,
        both_ends_here: here,
        processes: Vec::new(),
        names: None,
        mark: None,
        elsewhere: None,
    });
    let flow = id.flow(Direction::FromClient);
    for segment in 0..10 {
        for &(at_us, kinds, detail) in steps {
            let at_ns = (segment * 210_000 + at_us) * 1_000;
            let record =
                Record { at_ns, flow, offset: segment * 1000, len: 1000, ..Record::default() };
            let of_kind = |&kind: &Kind| Record { kind, detail, ..record };
            analyzer.push(&kinds.iter().map(of_kind).collect::<Vec<_>>());
        }
    }
    let drop_reasons = [(77, "NETFILTER_DROP"), (50, "QDISC_DROP")];
    let drop_reasons = drop_reasons.map(|(number, name)| (number, name.to_owned())).into();
    verdict_of(&analyzer.finish(TraceFacts { drop_reasons, ..TraceFacts::default() }))
}

const ARRIVING: [Kind; 2] = [Kind::InputEnqueue, Kind::InputDequeue];
const READ: [Kind; 2] = [Kind::ReceiveEnqueue, Kind::ReceiveDequeue];

#[test]
fn what_the_receivers_filter_drops_is_the_verdict_where_it_alone_was_recorded() {
    let steps: [(u64, &[Kind], u64); 4] =
        [(0, &ARRIVING, 0), (1, &[Kind::Drop], 77), (200_000, &ARRIVING, 0), (200_010, &READ, 0)];
    insta::assert_snapshot!(ten_segments(false, &steps), @r"
    verdict  dropped packets cost most: 2.00 s (95.7 % of the trace), on connection
             1; what the client sent was dropped for NETFILTER_DROP on the server's
             host.
    fix      On the server's host: find what drops them, a packet filter (nft list
             ruleset) or a full queue (tc -s qdisc show, nstat -az).
    ");
}

#[test]
fn what_the_senders_host_refuses_is_the_verdict() {
    let leaving = [Kind::SendDequeue, Kind::InterfaceEnqueue, Kind::InterfaceDequeue];
    let steps: [(u64, &[Kind], u64); 5] = [
        (0, &[Kind::SendEnqueue], 0),
        (10, &[Kind::Drop], 50),
        (200_000, &leaving, 0),
        (200_005, &ARRIVING, 0),
        (200_010, &READ, 0),
    ];
    insta::assert_snapshot!(ten_segments(true, &steps), @r"
    verdict  dropped packets cost most: 2.00 s (95.7 % of the trace), on connection
             1; what the client sent was dropped for QDISC_DROP on the client's
             host.
    fix      On the client's host: find what drops them, a packet filter (nft list
             ruleset) or a full queue (tc -s qdisc show, nstat -az).
    ");
}
