//! Requests of traces as text. A line of the expectation is one request: its start, the time of request, service and
//! response, its outcome, and its bytes. Times are microseconds.

use insta::assert_snapshot;
use sockscope_record::{Connection, Protocol};

use crate::{Analyzer, ConnectionAnalysis, Request, Requests, TraceFacts, testing};

fn analyzed(connection: Connection, text: &str, ended: &str) -> ConnectionAnalysis {
    let mut analyzer = Analyzer::new();
    analyzer.connection(connection);
    analyzer.push(&testing::records(text));
    let ended_ns = Some(ended).filter(|ended| !ended.is_empty()).map(testing::time_ns);
    let drop_reasons = [(2, "NO_SOCKET".to_owned())].into();
    analyzer
        .finish(TraceFacts { ended_ns, drop_reasons, ..TraceFacts::default() })
        .connections
        .remove(0)
}

fn line(request: &Request) -> String {
    let parts = match (request.parts(), request.total_ns(), request.service_ns()) {
        (Some(parts), ..) => {
            let parts = [parts.request_ns, parts.service_ns, parts.response_ns];
            assert_eq!(Some(parts.iter().sum()), request.total_ns());
            parts.map(|ns| (ns / 1_000).to_string()).join("+")
        }
        (None, Some(total_ns), _) => format!("{} in all", total_ns / 1_000),
        (None, None, service_ns) => format!("?+{}+?", service_ns.unwrap_or_default() / 1_000),
    };
    format!(
        "{}: {parts} {}, {} B > {} B",
        request.asked_ns / 1_000,
        request.end.name(),
        request.request_bytes,
        request.response_bytes
    )
}

fn said(requests: &Requests) -> String {
    let asked_by = requests.asked_by.map_or("nobody", |side| side.name());
    let mut lines = vec![format!("{asked_by} asks, {}", requests.conversation.name())];
    lines.extend(requests.list.iter().map(line));
    if requests.left_out > 0 {
        lines.push(format!("{} left out", requests.left_out));
    }
    lines.join("\n")
}

/// The requests of a TCP connection whose two ends were seen.
fn requests(text: &str, ended: &str) -> String {
    said(&analyzed(testing::connection(1), text, ended).requests)
}

/// The same of datagrams.
fn datagrams(text: &str, ended: &str) -> String {
    let udp = Connection { protocol: Protocol::Udp, ..testing::connection(1) };
    said(&analyzed(udp, text, ended).requests)
}

#[test]
fn one_curl_is_one_request() {
    assert_snapshot!(requests("10us 1-7 +79 | 30us 8 +79 | 2030us <1-7 +80 | 2050us <8 +80", ""), @r"
    client asks, alternating
    10: 20+2000+20 answered, 79 B > 80 B
    ");
}

#[test]
fn a_hang_that_the_caller_gives_up_lasts_until_it_closes() {
    let text = "10us 1-7 +79 | 30us 8 +79 | 2000ms 3-6 fin | 2001ms <3-6 fin";
    assert_snapshot!(requests(text, "2500ms"), @r"
    client asks, alternating
    10: 20+1999970+0 given-up, 79 B > 0 B
    ");
}

#[test]
fn a_request_that_nobody_reads_is_all_request() {
    assert_snapshot!(requests("10us 1-7 +79", "1500ms"), @r"
    client asks, alternating
    10: 1499990+0+0 open, 79 B > 0 B
    ");
}

#[test]
fn a_request_that_is_open_at_the_end_lasts_until_the_trace_ends() {
    assert_snapshot!(requests("10us 1-7 +79 | 30us 8 +79", "1500ms"), @r"
    client asks, alternating
    10: 20+1499970+0 open, 79 B > 0 B
    ");
}

#[test]
fn who_resets_or_closes_instead_of_an_answer_is_told() {
    let asked = "10us 1-7 +79 | 30us 8 +79";
    assert_snapshot!(requests(&format!("{asked} | 500us <3-6 rst"), "1s"), @r"
    client asks, alternating
    10: 20+470+0 reset-by-answerer, 79 B > 0 B
    ");
    assert_snapshot!(requests(&format!("{asked} | 500us 3-6 rst"), "1s"), @r"
    client asks, alternating
    10: 20+470+0 reset-by-asker, 79 B > 0 B
    ");
    assert_snapshot!(requests(&format!("{asked} | 500us <3-6 fin | 600us 3-6 fin"), "1s"), @r"
    client asks, alternating
    10: 20+470+0 closed, 79 B > 0 B
    ");
    assert_snapshot!(requests(&format!("{asked} | 900ms state-change code=7"), "1s"), @r"
    client asks, alternating
    10: 20+899970+0 given-up, 79 B > 0 B
    ");
}

#[test]
fn a_client_that_half_closes_still_waits_for_its_answer() {
    let text = "10us 1-7 +79 | 11us 3-6 fin | 30us 8 +79 | 2030us <1-7 +80 | 2050us <8 +80";
    assert_snapshot!(requests(text, "1s"), @r"
    client asks, alternating
    10: 20+2000+20 answered, 79 B > 80 B
    ");
}

#[test]
fn a_last_word_before_the_close_is_no_request() {
    let text = "10us 1-8 +79 | 30us <1-8 +80 | 50us 1-7 +5 | 60us 3-6 fin | 70us 8 +5";
    assert_snapshot!(requests(text, "1s"), @r"
    client asks, alternating
    10: 0+20+0 answered, 79 B > 80 B
    ");
}

#[test]
fn pauses_within_a_chunked_answer_are_the_answerers() {
    let text = "10us 1-7 +79 | 30us 8 +79 | 130us <1-7 +10 | 140us <8 +10
        20130us <1-7 +10 | 20140us <8 +10 | 40130us <1-7 +10 | 40150us <8 +10";
    assert_snapshot!(requests(text, ""), @r"
    client asks, streamed
    10: 20+40080+40 answered, 79 B > 30 B
    ");
}

#[test]
fn a_response_that_waits_for_its_reader_has_no_pause() {
    let text = "10us 1-7 +79 | 30us 8 +79 | 130us <1-7 +10 | 230us <1-7 +10 | 330us <8 +20";
    assert_snapshot!(requests(text, ""), @r"
    client asks, alternating
    10: 20+100+200 answered, 79 B > 20 B
    ");
}

#[test]
fn requests_sent_ahead_are_told_apart_where_as_many_writes_answer() {
    let text = "10us 1-8 +100 | 20us <1-7 +50 | 21us 1-8 +100 | 22us <8 +50
         30us <1-7 +50 | 31us 1-8 +100 | 32us <8 +50 | 40us <1-7 +50 | 42us <8 +50";
    assert_snapshot!(requests(text, ""), @r"
    client asks, pipelined
    10: 0+10+2 answered, 100 B > 50 B
    21: 0+9+2 answered, 100 B > 50 B
    31: 0+9+2 answered, 100 B > 50 B
    ");
}

#[test]
fn answers_that_cannot_be_told_apart_are_one_request_of_multiplexed_traffic() {
    let text = "10us 1-8 +100 | 1010us <1-7 +50 | 1011us 1-8 +100 | 1011us 1-8 +100 | 1012us <8 +50
         5000us <1-8 +50";
    assert_snapshot!(requests(text, ""), @r"
    client asks, multiplexed
    10: 0+4988+2 answered, 300 B > 100 B
    ");
}

#[test]
fn a_bulk_transfer_is_no_request_that_hangs() {
    let text = "10us 1-8 +9000 | 1ms 1-8 +9000 | 2ms 1-8 +9000 | 3ms 1-7 +9000";
    assert_snapshot!(requests(text, "3500us"), @"nobody asks, one-way");
    assert_snapshot!(requests(&format!("{text} | 3100us 3-6 fin"), "9s"), @"nobody asks, one-way");
}

#[test]
fn an_upload_with_a_short_answer_is_a_request() {
    let text = "10us 1-8 +9000 | 1ms 1-8 +9000 | 2ms 1-8 +9000 | 3ms <1-7 +20 | 3010us <8 +20";
    assert_snapshot!(requests(text, ""), @r"
    client asks, alternating
    10: 1990+1000+10 answered, 27000 B > 20 B
    ");
}

#[test]
fn a_greeting_is_no_request_and_what_hangs_behind_it_is_the_clients() {
    let text = "1us <1-8 +20 | 10us 1-8 +5 | 12us <1-8 +5 | 20us 1-8 +5";
    assert_snapshot!(requests(text, "1020us"), @r"
    client asks, alternating
    10: 0+2+0 answered, 5 B > 5 B
    20: 0+1000+0 open, 5 B > 0 B
    ");
}

#[test]
fn a_server_may_ask() {
    let text = "1500ms <1-8 +20 | 1501ms 1-8 +5 | 2500ms <1-8 +20 | 2501ms 1-8 +5";
    assert_snapshot!(requests(text, "3s"), @r"
    server asks, alternating
    1500000: 0+1000+0 answered, 20 B > 5 B
    2500000: 0+1000+0 answered, 20 B > 5 B
    ");
}

#[test]
fn of_the_askers_end_alone_the_total_is_known() {
    let remote = Connection { both_ends_here: false, ..testing::connection(1) };
    let text = "10us 1-4 +79 | 2030us <5-7 +80 | 2050us <8 +80 | 3ms 1-4 +9";
    assert_snapshot!(said(&analyzed(remote, text, "4ms").requests), @r"
    client asks, alternating
    10: 2040 in all answered, 79 B > 80 B
    3000: 1000 in all open, 9 B > 0 B
    ");
}

#[test]
fn of_the_answerers_end_alone_the_service_is_known() {
    let remote = Connection { both_ends_here: false, ..testing::connection(1) };
    let text = "10us 5-7 +79 | 30us 8 +79 | 2030us <1-4 +80 | 3ms 5-7 +9 | 3100us 8 +9";
    assert_snapshot!(said(&analyzed(remote, text, "4ms").requests), @r"
    client asks, alternating
    10: ?+2000+? answered, 79 B > 80 B
    3000: ?+0+? open, 9 B > 0 B
    ");
}

#[test]
fn a_capture_shows_no_requests() {
    assert_snapshot!(requests("10us 3-4 +79 | 2030us <3-4 +80", ""), @"nobody asks, unknown: no end was seen");
}

#[test]
fn a_socket_connected_to_itself_asks_nobody() {
    let own = testing::connection(1);
    let own = Connection { server: own.client, ..own };
    let text = "10us 1-8 +79 | 30us 1-8 +9";
    assert_snapshot!(said(&analyzed(own, text, "9s").requests), @"nobody asks, one-way");
}

#[test]
fn a_refused_connection_is_a_refused_request_and_one_without_an_answer_lasts() {
    assert_snapshot!(requests("10us 3-6 syn | 20us <3-6 rst", "1s"), @r"
    client asks, alternating
    10: 10 in all refused, 0 B > 0 B
    ");
    assert_snapshot!(requests("10us 3-4 syn | 1010ms 3-4 syn", "3s"), @r"
    client asks, alternating
    10: 2999990 in all open, 0 B > 0 B
    ");
    assert_snapshot!(requests("10us 3-6 syn | 20us <3-6 syn ack=0", "1s"), @"nobody asks, silent");
}

#[test]
fn a_missed_write_leaves_out_the_requests_that_it_may_be_of() {
    // The second request's write was missed: its response could count as a part of the first one.
    let text = "10us 1-8 +100 | 20us <1-8 +50 | 30us 2-8 100..200 | 35us loss code=1 from=25us detail=1
        40us <1-8 +50 | 50us 1 200..300 | 50us 2-8 200..300 | 60us <1-8 +50 | 70us 1-8 +100 | 80us <1-8 +50";
    assert_snapshot!(requests(text, ""), @r"
    client asks, alternating
    50: 0+10+0 answered, 100 B > 50 B
    70: 0+10+0 answered, 100 B > 50 B
    1 left out
    ");
}

#[test]
fn a_missed_read_leaves_out_its_request() {
    // The next reads of both flows may run over the loss; the bytes behind them are known.
    let text = "10us 1-7 +100 | 15us loss code=8 from=11us detail=1 | 20us <1-8 +50
        30us 1-7 +100 | 31us 8 100..200 | 40us <1-8 +50 | 50us 1-7 +100 | 52us 8 +100 | 60us <1-8 +50";
    assert_snapshot!(requests(text, ""), @r"
    client asks, alternating
    50: 2+8+0 answered, 100 B > 50 B
    1 left out
    ");
}

#[test]
fn datagrams_are_matched_one_answer_for_one_query() {
    let text = "10us 1-8 +30 | 11us 1-8 +31 | 500us <1-8 +60 | 700us <1-8 +61 | 800us 1-8 +32 | 900us <1-8 +9";
    assert_snapshot!(datagrams(text, ""), @r"
    client asks, pipelined
    10: 0+490+0 answered, 30 B > 60 B
    11: 0+689+0 answered, 31 B > 61 B
    800: 0+100+0 answered, 32 B > 9 B
    ");
}

#[test]
fn an_unanswered_query_lasts_until_the_next_one_or_the_end() {
    let text = "10us 1-8 +30 | 500us <1-8 +60 | 1ms 1-8 +30 | 5001ms 1-8 +31";
    assert_snapshot!(datagrams(text, "5002ms"), @r"
    client asks, alternating
    10: 0+490+0 answered, 30 B > 60 B
    1000: 0+5000000+0 given-up, 30 B > 0 B
    5001000: 0+1000+0 open, 31 B > 0 B
    ");
}

#[test]
fn an_answer_is_not_of_a_query_that_its_answerer_had_not_read() {
    let text = "10us 1-6 +30 | 5s 1 +31 | 5s 2-6 30..61 | 5s 7-8 30..61 | 5001ms <1-8 +60";
    assert_snapshot!(datagrams(text, ""), @r"
    client asks, alternating
    10: 4999990+0+0 given-up, 30 B > 0 B
    5000000: 0+1000+0 answered, 31 B > 60 B
    ");
}

#[test]
fn a_query_that_is_repeated_is_one_request() {
    let text = "10us 1-6 +30 | 5s 1 +30 | 5s 2-6 30..60 | 5s 7-8 30..60 | 5001ms <1-8 +60";
    assert_snapshot!(datagrams(text, ""), @r"
    client asks, alternating
    10: 4999990+1000+0 answered, 60 B > 60 B
    ");
}

#[test]
fn one_answer_that_is_missing_shifts_no_other() {
    let text = "1ms 1-8 +30 | 300ms 1-8 +31 | 301ms <1-8 +9 | 310ms 1-8 +32 | 312ms <1-8 +9";
    assert_snapshot!(datagrams(text, ""), @r"
    client asks, alternating
    1000: 0+299000+0 given-up, 30 B > 0 B
    300000: 0+1000+0 answered, 31 B > 9 B
    310000: 0+2000+0 answered, 32 B > 9 B
    ");
}

#[test]
fn a_datagram_without_a_socket_is_refused() {
    assert_snapshot!(datagrams("10us 1-6 +30 | 15us drop 0..30 code=6 detail=2", "1500ms"), @r"
    client asks, alternating
    10: 5+0+0 refused, 30 B > 0 B
    ");
}

#[test]
fn many_datagrams_without_answers_are_one_way() {
    let text: Vec<_> = (1..=8).map(|n| format!("{n}ms 1-8 +900")).collect();
    assert_snapshot!(datagrams(&text.join(" | "), "1s"), @"nobody asks, one-way");
}
