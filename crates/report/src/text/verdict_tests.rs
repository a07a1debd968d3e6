//! The verdict: refused datagrams, findings without a measured time, and the connection that it names.

use sockscope_analysis::{Analysis, Finding, FindingId, Request, RequestEnd, SeenEnds};
use sockscope_record::{FlowId, Protocol, Side};

use super::*;
use crate::Options;
use crate::fixture::{fixed, many, nested_calls, slow_calls, stall, written};

/// The report in one line.
fn said(analysis: &Analysis) -> String {
    let text = written(&Text, analysis, &Options::default());
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The verdict without the lines below it.
fn verdict(analysis: &Analysis) -> String {
    let text = said(analysis);
    let from = text.find("verdict ").expect("there is one");
    let until =
        [" why ", " fix ", " also ", " ──"].iter().filter_map(|end| text[from..].find(end)).min();
    text[from..from + until.expect("something follows")].to_owned()
}

/// A healthy connection of datagrams.
fn datagrams() -> Analysis {
    let mut analysis = fixed();
    analysis.connections[0].connection.protocol = Protocol::Udp;
    analysis
}

#[test]
fn refused_datagrams_are_the_verdict() {
    let mut analysis = datagrams();
    assert!(verdict(&analysis).contains("nothing wrong found"), "{}", verdict(&analysis));
    analysis.connections[0].flows[0].datagrams_refused = 1;
    insta::assert_snapshot!(verdict(&analysis), @"verdict 1 datagram of the client came to 127.0.0.1:5000 and no socket took it, on connection 1: nobody listens there, or a filter dropped it.");
    analysis.connections[0].flows[1].datagrams_refused = 7;
    insta::assert_snapshot!(verdict(&analysis), @"verdict 7 datagrams of the server came to 127.0.0.1:40000 and no socket took them, on connection 1: nobody listens there, or a filter dropped them.");
    assert!(said(&analysis).contains("(ss -lun)"), "{}", said(&analysis));
}

#[test]
fn a_stream_has_no_refused_datagrams() {
    let mut analysis = fixed();
    analysis.connections[0].flows[0].datagrams_refused = 1;
    assert!(verdict(&analysis).contains("nothing wrong found"));
}

#[test]
fn no_tcp_has_a_datagram() {
    let text = said(&datagrams());
    assert!(!text.contains("tcp_") && !text.contains("TCP/IP"), "{text}");
    assert!(text.contains("udp_input") && text.contains("UDP/IP"), "{text}");
    assert!(!said(&fixed()).contains("udp_"), "a stream has no UDP");
}

#[test]
fn a_cost_that_is_not_measured_is_not_called_small() {
    let mut analysis = stall();
    let finding = analysis.connections[0].findings.remove(0);
    let small = Finding { cost_ns: 1_000, times: vec![(1, 1_001)], ..finding.clone() };
    analysis.connections[0].findings = vec![small.clone()];
    insta::assert_snapshot!(verdict(&analysis), @"verdict no finding costs 1 % of the time; of 8.35 s with bytes under way: send_queue.nagle 97.8 %, receive_queue.wakeup 1.3 %, receive_queue.app 0.8 %.");
    let unmeasured = Finding { id: FindingId::SplitMessage, cost_ns: 0, times: vec![], ..finding };
    analysis.connections[0].findings = vec![small, unmeasured];
    insta::assert_snapshot!(verdict(&analysis), @"verdict no finding has a measured cost of 1 % of the time; that of split-message is not measured; of 8.35 s with bytes under way: send_queue.nagle 97.8 %, receive_queue.wakeup 1.3 %, receive_queue.app 0.8 %.");
}

/// The connections shown in full, in order.
fn shown(analysis: &Analysis) -> Vec<String> {
    let text = written(&Text, analysis, &Options { detailed: 2, ..Options::default() });
    let heads = text.lines().filter_map(|line| line.strip_prefix("── connection "));
    heads.filter_map(|head| head.split(':').next()).map(str::to_owned).collect()
}

#[test]
fn the_connection_of_the_verdict_is_shown_first() {
    let mut analysis = many(5);
    let finding = |id, flow, (from_s, until_s): (u64, u64)| {
        let finding = stall().connections[0].findings[0].clone();
        let (from_ns, until_ns) = (from_s * 1_000_000_000, until_s * 1_000_000_000);
        let (cost_ns, times) = (until_ns - from_ns, vec![(from_ns, until_ns)]);
        Finding { id, flow: FlowId(flow), cost_ns, times, ..finding }
    };
    for connection in &mut analysis.connections {
        connection.findings.clear();
    }
    // Of all findings together the second has most; the rule that costs most is worst on the fourth.
    analysis.connections[1].findings = vec![
        finding(FindingId::SlowReader, 4, (0, 700)),
        finding(FindingId::LateWakeup, 4, (700, 1400)),
    ];
    analysis.connections[3].findings = vec![finding(FindingId::Retransmission, 8, (0, 900))];
    let [fourth, second] = [3, 1].map(|at| analysis.connections[at].connection.id.0.to_string());
    assert!(
        verdict(&analysis).contains(&format!("on connection {fourth}")),
        "{}",
        verdict(&analysis)
    );
    assert_eq!(shown(&analysis), [fourth, second]);
}

#[test]
fn so_is_that_of_refused_datagrams_without_a_finding() {
    let mut analysis = many(5);
    for connection in &mut analysis.connections {
        connection.findings.clear();
    }
    let last = analysis.connections.last_mut().expect("there are five");
    last.connection.protocol = Protocol::Udp;
    last.flows[0].datagrams_refused = 1;
    let id = last.connection.id.0.to_string();
    assert!(verdict(&analysis).contains(&format!("on connection {id}")), "{}", verdict(&analysis));
    assert_eq!(shown(&analysis)[0], id);
}

#[test]
fn where_callers_waited_long_without_a_finding_the_verdict_says_who_had_the_time() {
    let mut analysis = slow_calls();
    analysis.connections[0].requests.list[2].end = RequestEnd::Open;
    let said = verdict_and_next(&analysis);
    // A recording that goes on has not ended.
    assert!(
        said.contains("The longest request, 3.00 s on connection 1, was still open. "),
        "{said}"
    );
    analysis.connections[0].requests.list.truncate(2);
    insta::assert_snapshot!(verdict_and_next(&analysis), @"verdict no known cause; callers waited 2.00 s; the 2.02 s of all requests together went 99.6 % to the server (python3, pid 4712), 0.4 % to network and kernel. next see what python3 does from request to response: strace -f -r -p 4712, perf trace -p 4712.");
    let request = &mut analysis.connections[0].requests.list[1];
    request.seen = SeenEnds::Asker;
    insta::assert_snapshot!(verdict_and_next(&analysis), @"verdict no known cause; callers waited 2.00 s; the 2.02 s of all requests together went 99.3 % to what was not recorded: one end was not seen, 0.4 % to the server (python3, pid 4712), 0.3 % to network and kernel. next record on the host of the other end too, and merge the two traces.");
}

#[test]
fn a_request_without_an_answer_is_named() {
    insta::assert_snapshot!(verdict_and_next(&slow_calls()), @"verdict no known cause; callers waited 5.00 s; the 5.01 s of all requests together went 99.8 % to the server (python3, pid 4712), 0.2 % to network and kernel. The longest request, 3.00 s on connection 1, was given up without an answer. next see what python3 does from request to response: strace -f -r -p 4712, perf trace -p 4712.");
}

#[test]
fn a_cost_that_would_not_be_felt_beside_the_service_is_no_verdict() {
    let mut analysis = slow_calls();
    let cost = |cost_ns| Finding {
        id: FindingId::LateWakeup,
        cost_ns,
        times: vec![(1, 1 + cost_ns)],
        ..stall().connections[0].findings[0].clone()
    };
    // The server has 4.99 s of the 5.00 s that callers waited.
    analysis.connections[0].findings = vec![cost(490_000_000)];
    insta::assert_snapshot!(verdict_and_next(&analysis), @"verdict no known cause; callers waited 5.00 s; the 5.01 s of all requests together went 99.8 % to the server (python3, pid 4712), 0.2 % to network and kernel. The longest request, 3.00 s on connection 1, was given up without an answer. next see what python3 does from request to response: strace -f -r -p 4712, perf trace -p 4712. also late-wakeup 199× (490 ms)");
    analysis.connections[0].findings = vec![cost(510_000_000)];
    assert!(verdict(&analysis).contains("late-wakeup costs most"), "{}", verdict(&analysis));
}

#[test]
fn a_connection_that_did_not_open_is_no_time_of_the_network() {
    let mut analysis = slow_calls();
    let request = &mut analysis.connections[0].requests.list[2];
    (request.seen, request.request_bytes) = (SeenEnds::Asker, 0);
    analysis.connections[0].requests.list.remove(1);
    insta::assert_snapshot!(verdict_and_next(&analysis), @"verdict no known cause; callers waited 3.00 s; the 3.02 s of all requests together went 99.5 % to connections that did not open, 0.3 % to the server (python3, pid 4712), 0.2 % to network and kernel. The longest request, 3.00 s on connection 1, was given up without an answer. next see why the connections do not open: ss -ltn on the server's host, and its packet filter.");
}

#[test]
fn a_request_that_its_reader_left_unread_is_no_time_of_the_network() {
    let mut analysis = slow_calls();
    let connection = &mut analysis.connections[0];
    let request = connection.requests.list[2];
    let lay_ns = request.ended_ns - request.asked_ns;
    connection.requests.list =
        vec![Request::asked(request.asked_ns, request.ended_ns, RequestEnd::Closed)];
    for (unread_ns, whose) in [
        ([0, 0], "network and kernel"),
        ([lay_ns, 0], "the server (python3, pid 4712)"),
        ([0, lay_ns], "the callers"),
    ] {
        analysis.connections[0].unread_ns = unread_ns;
        let words = verdict_and_next(&analysis);
        let largest =
            words.split_once(" went ").and_then(|(_, shares)| shares.split_once(" % to "));
        assert!(largest.is_some_and(|(_, largest)| largest.starts_with(whose)), "{words}");
    }
}

#[test]
fn a_request_that_no_process_accepts_lies_at_the_server() {
    let mut analysis = slow_calls();
    let connection = &mut analysis.connections[0];
    let request = &mut connection.requests.list[2];
    *request = Request {
        request_bytes: 79,
        ..Request::asked(request.asked_ns, request.ended_ns, RequestEnd::GivenUp)
    };
    connection.requests.list.drain(..2);
    connection.connection.processes.retain(|process| process.side == Side::Client);
    insta::assert_snapshot!(verdict_and_next(&analysis), @"verdict no known cause; callers waited 3.00 s; the 3.01 s of all requests together went 99.9 % to the server (python3), 0.1 % to network and kernel. The longest request, 3.00 s on connection 1, was given up without an answer. next see what the program does that listens there: ss -ltnp names it.");
}

#[test]
fn a_request_to_an_address_without_a_program_has_an_unknown_server() {
    let mut analysis = slow_calls();
    let port = analysis.connections[0].connection.server.port();
    let connection = &mut analysis.connections[0];
    connection.connection.server.set_port(port + 1);
    connection.connection.processes.retain(|process| process.side == Side::Client);
    let said = verdict_and_next(&analysis);
    assert!(said.contains("99.7 % to a server of unknown name, "), "{said}");
}

#[test]
fn where_callers_waited_little_nothing_is_wrong() {
    let mut analysis = slow_calls();
    analysis.connections[0].requests.list.truncate(1);
    assert!(verdict(&analysis).contains("nothing wrong found"), "{}", verdict(&analysis));
    let calls = &mut analysis.connections[0].requests.list;
    // In a loop, each too short to be long: nearly all of the time.
    let first_ns = calls[0].asked_ns;
    let next = |n: u64| {
        let asked_ns = first_ns + n * 60_000_000;
        Request::asked(asked_ns, asked_ns + 50_000_000, RequestEnd::Answered)
            .with_answer(Some(asked_ns + 1), Some(asked_ns + 2))
    };
    calls.extend((1..90).map(next));
    assert!(verdict(&analysis).contains("no known cause"), "{}", verdict(&analysis));
}

#[test]
fn a_slow_server_is_the_verdict_with_the_callers_that_it_held_up() {
    let mut analysis = slow_calls();
    let slow = analysis.connections[0].requests.list[1];
    analysis.connections[1].requests.list.push(slow);
    let times = vec![(slow.asked_ns, slow.ended_ns)];
    analysis.connections[0].findings = vec![Finding {
        id: FindingId::SlowService,
        cost_ns: 2_000_000_000,
        times,
        count: 1,
        summary: "The server (python3, pid 4712) took 2.00 s of the 2.00 s that curl waited."
            .to_owned(),
        fix: "See what python3 does then.".to_owned(),
        ..stall().connections[0].findings[0].clone()
    }];
    insta::assert_snapshot!(verdict_and_next(&analysis), @"verdict slow-service: The server (python3, pid 4712) took 2.00 s of the 2.00 s that curl waited, on connection 1. Meanwhile callers waited on 1 other connection to the same server, up to 2.00 s. next See what python3 does then. waited 5.00 s (7.01 s of all requests): 99.8 % python3, 0.2 % network and kernel");
}

#[test]
fn each_program_that_answers_has_its_own_share_of_the_waits() {
    let mut analysis = slow_calls();
    let slow = analysis.connections[0].requests.list[1];
    analysis.connections[1].requests.list = vec![slow, slow, slow];
    let processes = &mut analysis.connections[1].connection.processes;
    for process in processes.iter_mut().filter(|process| process.side == Side::Server) {
        (process.comm, process.pid) = ("postgres".to_owned(), 10);
    }
    // 5.00 s of python3, 6.00 s of postgres.
    insta::assert_snapshot!(verdict_and_next(&analysis), @"verdict no known cause; callers waited 5.00 s; the 11.0 s of all requests together went 54.5 % to the server (postgres, pid 10), 45.4 % to the server (python3, pid 4712), 0.1 % to network and kernel. The longest request, 3.00 s on connection 1, was given up without an answer. next see what postgres does from request to response: strace -f -r -p 10, perf trace -p 10.");
    analysis.connections[0].findings = vec![Finding {
        id: FindingId::SlowService,
        cost_ns: 2_000_000_000,
        times: vec![(slow.asked_ns, slow.ended_ns)],
        summary: "The server took 2.00 s.".to_owned(),
        ..stall().connections[0].findings[0].clone()
    }];
    let said = verdict_and_next(&analysis);
    let waited = said.rsplit_once("waited ").expect("callers waited").1;
    insta::assert_snapshot!(waited, @"5.00 s (11.0 s of all requests): 54.5 % postgres, 45.4 % python3, 0.1 % network and kernel");
}

#[test]
fn a_program_of_several_processes_has_no_number() {
    let mut analysis = slow_calls();
    let slow = analysis.connections[0].requests.list[1];
    analysis.connections[1].requests.list = vec![slow];
    for process in &mut analysis.connections[1].connection.processes {
        process.pid += 1;
    }
    let said = verdict_and_next(&analysis);
    assert!(said.contains("to the server (python3), "), "{said}");
}

#[test]
fn time_on_connections_to_several_servers_is_not_that_of_one() {
    let mut analysis = slow_calls();
    let slow = analysis.connections[0].requests.list[1];
    analysis.connections[1].requests.list = vec![slow];
    for (connection, until_ns) in analysis.connections.iter_mut().zip([2_000_000_000, 500_000_000])
    {
        connection.findings = vec![Finding {
            id: FindingId::SlowService,
            cost_ns: until_ns,
            times: vec![(1, 1 + until_ns)],
            summary: "The server (python3, pid 4712) took 2.00 s.".to_owned(),
            ..stall().connections[0].findings[0].clone()
        }];
    }
    let said = |analysis: &Analysis| {
        let verdict = verdict(analysis);
        verdict.split(". next ").next().unwrap_or_default().to_owned()
    };
    insta::assert_snapshot!(said(&analysis), @"verdict slow-service: The server (python3, pid 4712) took 2.00 s, on connection 1. On 2 connections together 2.00 s");
    let port = analysis.connections[0].connection.server.port();
    analysis.connections[1].connection.server.set_port(port + 1);
    insta::assert_snapshot!(said(&analysis), @"verdict slow-service: The server (python3, pid 4712) took 2.00 s, on connection 1. On 2 connections to 2 servers together 2.00 s");
}

#[test]
fn the_time_of_a_chain_of_requests_is_that_of_its_last_server() {
    insta::assert_snapshot!(verdict_and_next(&nested_calls()), @"verdict no known cause; the 300 ms that callers waited went 96.7 % to the servers, most of it to postgres (pid 10), 3.3 % to network and kernel. next see what postgres does from request to response: strace -f -r -p 10, perf trace -p 10.");
}

#[test]
fn a_proxy_that_waits_is_the_verdict_only_where_no_finding_has_its_time() {
    let mut analysis = nested_calls();
    let finding = |id, cost_ns| Finding {
        id,
        cost_ns,
        times: vec![(1, 1 + cost_ns)],
        summary: "Of the 300 ms that curl waited, the server waited 298 ms.".to_owned(),
        ..stall().connections[0].findings[0].clone()
    };
    analysis.connections[0].findings = vec![finding(FindingId::UpstreamWait, 298_000_000)];
    let named = |analysis: &Analysis| {
        let verdict = verdict(analysis);
        verdict.split([' ', ':']).nth(1).unwrap_or_default().to_owned()
    };
    assert_eq!(named(&analysis), "upstream-wait", "{}", verdict(&analysis));
    analysis.connections[2].findings = vec![finding(FindingId::SlowService, 100_000_000)];
    assert_eq!(named(&analysis), "upstream-wait", "{}", verdict(&analysis));
    analysis.connections[2].findings = vec![finding(FindingId::SlowService, 200_000_000)];
    assert_eq!(named(&analysis), "slow-service", "{}", verdict(&analysis));
}

#[test]
fn a_verdict_on_what_callers_waited_for_names_no_other_cause_of_the_same_time() {
    let mut analysis = nested_calls();
    for id in [FindingId::SmallWrites, FindingId::NPlusOne, FindingId::HeadOfLine] {
        let times = vec![(1, 40_000_001)];
        let finding = stall().connections[0].findings[0].clone();
        analysis.connections[1].findings =
            vec![Finding { id, cost_ns: 40_000_000, times, ..finding }];
        analysis.connections[1].exchanges = stall().connections[0].exchanges.clone();
        let exchanges = analysis.connections[1].exchanges.as_mut().expect("it has some");
        exchanges.service_ns = exchanges.total_ns;
        let has_other = said(&analysis).contains(" but Of ");
        assert_eq!(has_other, id == FindingId::SmallWrites, "{}", said(&analysis));
        let has_plural = said(&analysis).contains("was the answering programs' own time.");
        assert_eq!(has_plural, has_other, "{}", said(&analysis));
    }
}

/// The verdict and the next step.
fn verdict_and_next(analysis: &Analysis) -> String {
    let text = written(&Text, analysis, &Options::default());
    let lines = text.lines().skip_while(|line| !line.starts_with("verdict"));
    let lines: Vec<_> = lines.take_while(|line| !line.is_empty()).collect();
    lines.join(" ").split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn requests_that_were_read_together_are_told_with_the_last_one() {
    let mut analysis = slow_calls();
    let slow = analysis.connections[0].requests.list[1];
    let (heard_ns, answered_ns) = (slow.asked_ns + 1_000, slow.ended_ns - 1_000);
    let read = |after_ns| {
        let mut request = slow.with_answer(Some(heard_ns + after_ns), Some(answered_ns + after_ns));
        request.reader_thread = 8;
        request
    };
    analysis.connections[0].requests.list[1] = read(0);
    analysis.connections[1].requests.list.push(read(20));
    analysis.connections[0].findings = vec![Finding {
        id: FindingId::SlowService,
        cost_ns: 2_000_000_000,
        times: vec![(heard_ns, answered_ns)],
        count: 1,
        summary: "The server (python3, pid 4712) took 2.00 s.".to_owned(),
        ..stall().connections[0].findings[0].clone()
    }];
    let said = verdict(&analysis);
    let last = analysis.connections[1].connection.id.0;
    assert!(
        said.contains("It had read 2 requests together, and each of them may have had the time"),
        "{said}"
    );
    assert!(said.contains(&format!("on connection {last}.")), "{said}");
}
