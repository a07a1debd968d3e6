//! `accept-queue-full`: the server's host ignores connections because the listening socket has no room for them.
//!
//! Linux frees a SYN for a listening socket whose queue is full without a record of a drop (`tcp_conn_request()`,
//! `sk_acceptq_is_full()`). All other ways to refuse one leave a record: a reset, or a drop with its reason. So a
//! SYN met a full queue if it arrived at a host on which a socket listens at its address, went no further, had no
//! answer and no record of a drop.
//!
//! Where the queue fills up later, the kernel drops the last segment of the handshake and the segments after it. It
//! names the reason `TCP_LISTEN_OVERFLOW`, or `NO_SOCKET` without the reset that answers a segment for no socket. A
//! bare acknowledgment is dropped so for `TCP_DEFER_ACCEPT` too (tcp(7)), and data is not.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use sockscope_record::{Direction, Kind, Point, Record, Side, tcp_flags};

use super::handshake::{Handshake, syn_drops, syns};
use super::intervals::{Interval, Intervals};
use super::language;
use super::phrasing::{self, Notes};
use crate::openings::Listener;
use crate::{Analysis, ConnectionAnalysis, ConnectionView, DropReasons, Finding, FindingId, drops};

/// The kernel's name for a segment that it drops because the queue of its listening socket is full.
pub(super) const OVERFLOW: &str = "TCP_LISTEN_OVERFLOW";

/// Where the trace has this name, the kernel records why it drops packets (Linux 5.18 and later).
const NAMED_DROP: &str = "NETFILTER_DROP";

/// Segments are dropped for one full queue until the connection opens or its client gives up.
pub(super) fn find(view: &ConnectionView<'_>) -> Option<Finding> {
    let handshake = Handshake::of(view)?;
    let reasons = view.flows[0].drop_reasons;
    let listener = view.openings.listener(view.store.connection.server);
    let ignored = match listener {
        Some(_) if has_reasons(reasons) => ignored(view, &handshake),
        _ => Vec::new(),
    };
    let overflows = overflows(view);
    let count = ignored.len() + overflows.len();
    if count == 0 {
        return None;
    }
    let until_opened = overflows.iter().map(|drop| until_opened(view, drop));
    let waits = Intervals::union_of(ignored.iter().copied().chain(until_opened));
    let mut notes = Notes::default();
    for wait in &ignored {
        notes.add(wait.start_ns, || ignored_syn(*wait, listener));
    }
    for drop in &overflows {
        notes.add(drop.at_ns, || {
            format!(
                "the kernel drops a segment that would open it, {}",
                drops::reason(reasons, drop)
            )
        });
    }
    let server = &view.store.connection.server;
    let program = program(view, listener);
    let client = phrasing::who(&view.store.connection, Side::Client);
    let segments = phrasing::counted(count as u64, "segment");
    let waited = phrasing::time(waits.total_ns());
    let comm = listener.and_then(|it| it.process.as_ref()).map(|process| process.comm.as_str());
    let way = language::advice(comm, language::Topic::Accept);
    Some(Finding {
        id: FindingId::AcceptQueueFull,
        flow: view.flows[0].flow().id,
        side: Side::Server,
        count: count as u64,
        connections: 1,
        cost_ns: waits.total_ns(),
        times: waits.iter().map(|one| (one.start_ns, one.end_ns)).collect(),
        summary: format!(
            "The accept queue at {server} was full: {program} accepts too few connections, or too late. It took \
             no connection of the {client} for {waited} ({segments} ignored)."
        ),
        evidence: notes.into_evidence(),
        fix: format!(
            "In the server: accept sooner ({way}), or let more connections wait: a larger backlog in listen(), \
             with net.core.somaxconn raised. ss -ltn shows the queue (Recv-Q) and its limit (Send-Q)."
        ),
    })
}

/// The addresses whose queue was full.
pub(super) fn addresses(analysis: &Analysis) -> BTreeSet<SocketAddr> {
    let is_full = |one: &&ConnectionAnalysis| {
        one.findings.iter().any(|finding| finding.id == FindingId::AcceptQueueFull)
    };
    analysis.connections.iter().filter(is_full).map(|one| one.connection.server).collect()
}

/// Whether the connection stood in such a queue: no process of the server has used it. Then its request has no other
/// cause to be unanswered.
pub(super) fn explains(full: &BTreeSet<SocketAddr>, one: &ConnectionAnalysis) -> bool {
    let is_used = one.connection.processes.iter().any(|process| process.side == Side::Server);
    !is_used && full.contains(&one.connection.server)
}

fn has_reasons(reasons: &DropReasons) -> bool {
    reasons.values().any(|name| name == NAMED_DROP)
}

/// The waits after SYNs that disappeared.
fn ignored(view: &ConnectionView<'_>, handshake: &Handshake<'_>) -> Vec<Interval> {
    let client = view.store.flow(Direction::FromClient);
    let arrived = syns(client.at(Point::InputDequeue));
    let waits = arrived.filter_map(|syn| handshake.wait_since(syn.at_ns));
    let is_dropped = |wait: &Interval| {
        let mut drops = syn_drops(client);
        drops.any(|drop| (wait.start_ns..wait.end_ns).contains(&drop.at_ns))
    };
    waits.filter(|wait| !is_dropped(wait)).collect()
}

/// Drops of segments that arrived at the server's host after its SYN-ACK and found no room.
fn overflows<'a>(view: &ConnectionView<'a>) -> Vec<&'a Record> {
    let (client, server) =
        (view.store.flow(Direction::FromClient), view.store.flow(Direction::FromServer));
    let answered_ns = syns(server.at(Point::InterfaceEnqueue)).map(|pass| pass.at_ns).next();
    let is_before_opening = |drop: &&Record| {
        let opened = server.events.iter().find(|event| event.state_change().is_some());
        answered_ns.is_some_and(|answered_ns| answered_ns <= drop.at_ns)
            && opened.is_none_or(|event| event.at_ns > drop.at_ns)
    };
    let is_reset = |wait: Interval| {
        let mut packets = server.passages[2..6].iter().flatten();
        packets.any(|pass| pass.tcp_flags & tcp_flags::RST != 0 && pass.at_ns >= wait.start_ns)
    };
    let drops = client.events.iter().filter(|event| event.kind == Kind::Drop);
    let overflows = drops.filter(|drop| match drops::name_of(drop, view.flows[0].drop_reasons) {
        Some(OVERFLOW) => true,
        Some("NO_SOCKET") => {
            drop.len > 0 && is_before_opening(drop) && !is_reset(until_opened(view, drop))
        }
        _ => false,
    });
    overflows.collect()
}

/// From a drop until the server's socket opened, or the last record.
fn until_opened(view: &ConnectionView<'_>, drop: &Record) -> Interval {
    let events = view.store.flow(Direction::FromServer).events.iter();
    let mut later = events.filter(|event| event.at_ns >= drop.at_ns);
    let opened = later.find(|event| event.state_change().is_some());
    let until_ns = opened.map_or(view.flows[0].end_ns, |event| event.at_ns);
    Interval::new(drop.at_ns, until_ns.max(drop.at_ns))
}

fn ignored_syn(wait: Interval, listener: Option<&Listener>) -> String {
    let waited = phrasing::time(wait.duration_ns());
    let waiting = match listener.map_or(0, |it| it.unused_at(wait.start_ns)) {
        0 => String::new(),
        count => format!(
            "; {} to this address opened before, and no process has used {}",
            phrasing::counted(count as u64, "connection"),
            if count == 1 { "it" } else { "them" }
        ),
    };
    format!("a SYN arrives at its host and disappears, unanswered for {waited}{waiting}")
}

/// The listening program as the trace knows it.
fn program(view: &ConnectionView<'_>, listener: Option<&Listener>) -> String {
    let own = view.store.connection.processes.iter().find(|one| one.side == Side::Server);
    let known = own.or(listener.and_then(|it| it.process.as_ref()));
    let has_others = listener.is_some_and(|it| it.has_others);
    match known {
        Some(process) if has_others => {
            format!("the server ({}; ss -ltnp names the process that listens)", process.comm)
        }
        Some(process) => format!("the server ({}, pid {})", process.comm, process.pid),
        None => "the program that listens there (ss -ltnp names it)".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::Fixture;
    use crate::findings::{Delays, find_across};
    use crate::testing;
    use insta::assert_snapshot;
    use sockscope_record::Side;

    const IDLE: &str = "0ms app_idle | 4s end";

    /// A SYN that disappears, is sent again and answered.
    const IGNORED: &str = "0ms 3-6 syn | 1000ms 3-6 syn | 1000006us retransmit code=5
        1001ms <3-6 syn ack=0 | 1002ms state-change code=1 extra=2 | 1002ms 3-6 ack=0";

    fn found(text: &str) -> String {
        Fixture::new(text, IDLE).listening(None).found()
    }

    #[test]
    fn a_syn_that_disappears_where_a_socket_listens_met_a_full_queue() {
        assert_snapshot!(found(IGNORED), @"accept-queue-full @server 1x 1.00 s: The accept queue at 127.0.0.1:80 was full: the program that listens there (ss -ltnp names it) accepts too few connections, or too late. It took no connection of the client for 1.00 s (1 segment ignored).");
    }

    #[test]
    fn the_program_that_listens_is_named_and_those_that_wait_are_counted() {
        let fixture = Fixture::new(IGNORED, IDLE).listening(Some("node"));
        let findings = fixture.findings();
        assert_snapshot!(findings[0].summary, @"The accept queue at 127.0.0.1:80 was full: the server (node, pid 9) accepts too few connections, or too late. It took no connection of the client for 1.00 s (1 segment ignored).");
        assert_snapshot!(findings[0].fix, @"In the server: accept sooner (shorter work in each turn of the event loop, or the cluster module; the backlog is an argument of server.listen), or let more connections wait: a larger backlog in listen(), with net.core.somaxconn raised. ss -ltn shows the queue (Recv-Q) and its limit (Send-Q).");
        let waiting = Fixture::new(IGNORED, IDLE).listening(None).findings();
        assert_snapshot!(waiting[0].evidence[0].text, @"a SYN arrives at its host and disappears, unanswered for 1.00 s; 1 connection to this address opened before, and no process has used it");
    }

    #[test]
    fn no_process_is_named_where_each_connection_has_one_of_its_own() {
        let summary = |pids: &[u32]| {
            let fixture = Fixture::new(IGNORED, IDLE).listening_as("postgres", pids);
            fixture.findings()[0].summary.clone()
        };
        assert_snapshot!(summary(&[8, 9]), @"The accept queue at 127.0.0.1:80 was full: the server (postgres; ss -ltnp names the process that listens) accepts too few connections, or too late. It took no connection of the client for 1.00 s (1 segment ignored).");
        assert!(summary(&[9, 9]).contains("the server (postgres, pid 9) accepts"));
    }

    #[test]
    fn a_client_that_gives_up_has_waited_until_then() {
        let text = "0ms 3-6 syn | 1000ms 3-6 syn | 1000006us retransmit code=5 | 2500ms state-change code=7 extra=2";
        assert_snapshot!(found(text), @"accept-queue-full @server 2x 2.50 s: The accept queue at 127.0.0.1:80 was full: the program that listens there (ss -ltnp names it) accepts too few connections, or too late. It took no connection of the client for 2.50 s (2 segments ignored).");
        assert_snapshot!(found("0ms 3-6 syn | 500ms state-change code=7 extra=2"), @"accept-queue-full @server 1x 500 ms: The accept queue at 127.0.0.1:80 was full: the program that listens there (ss -ltnp names it) accepts too few connections, or too late. It took no connection of the client for 500 ms (1 segment ignored).");
    }

    #[test]
    fn a_last_segment_dropped_for_a_full_queue_holds_the_connection_up() {
        let text = "0ms 3-6 syn | 1ms <3-6 syn ack=0 | 2ms state-change code=1 extra=2 | 2ms 3-6 ack=0 | 2ms drop ack=0 detail=240
                    1000ms <3-6 syn ack=0 | 1001ms 3-6 ack=0 | 1002ms <state-change code=1 extra=3";
        assert_snapshot!(Fixture::new(text, IDLE).found(), @"accept-queue-full @server 1x 1.00 s: The accept queue at 127.0.0.1:80 was full: the program that listens there (ss -ltnp names it) accepts too few connections, or too late. It took no connection of the client for 1.00 s (1 segment ignored).");
    }

    /// The client has opened the connection; its data is dropped until the server's queue has room.
    const NO_ROOM: &str = "0ms 3-6 syn | 1ms <3-6 syn ack=0 | 2ms state-change code=1 extra=2 | 2ms 3-6 ack=0 | 2ms drop ack=0 detail=203
        3ms 1-6 +10 ack=0 | 3ms drop 0..10 ack=0 detail=203 | 203ms retransmit 0..10 code=3
        203ms 2-6 0..10 ack=0 | 204ms <state-change code=1 extra=3 | 204ms 7-8 0..10";

    #[test]
    fn data_for_no_socket_that_no_reset_answers_found_no_room() {
        assert_snapshot!(found(NO_ROOM), @"accept-queue-full @server 1x 201 ms: The accept queue at 127.0.0.1:80 was full: the program that listens there (ss -ltnp names it) accepts too few connections, or too late. It took no connection of the client for 201 ms (1 segment ignored).");
        let reset =
            NO_ROOM.replace("204ms <state-change code=1 extra=3 | 204ms 7-8 0..10", "4ms <3-6 rst");
        assert!(!found(&reset).contains("accept-queue-full"), "{}", found(&reset));
    }

    /// Two connections to one address: one that asks and is not accepted, and one for which the queue is full.
    fn beside_a_full_queue(is_accepted: bool) -> String {
        let asks = "1ms 1-7 +79 | 2001ms 3-6 fin";
        let mut analysis = testing::analyze_all(&[("7 > 8", asks), ("7 > 8", asks)]);
        let full = Fixture::new(IGNORED, IDLE).listening(None).findings();
        analysis.connections[1].findings = full;
        if !is_accepted {
            let processes = &mut analysis.connections[0].connection.processes;
            processes.retain(|process| process.side == Side::Client);
        }
        find_across(&mut analysis, &Delays::default());
        let found = analysis.connections.iter().flat_map(|one| &one.findings);
        found.map(|finding| finding.id.name()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_request_in_the_full_queue_is_its_effect() {
        assert_snapshot!(beside_a_full_queue(false), @"accept-queue-full");
        assert_snapshot!(beside_a_full_queue(true), @"unanswered accept-queue-full");
    }

    #[test]
    fn a_bare_acknowledgment_is_dropped_where_the_listener_waits_for_data() {
        // TCP_DEFER_ACCEPT
        let text = "0ms 3-6 syn | 1ms <3-6 syn ack=0 | 2ms state-change code=1 extra=2 | 2ms 3-6 ack=0 | 2ms drop ack=0 detail=203
                    300ms 1-6 +10 ack=0 | 300ms <state-change code=1 extra=3 | 300ms 7-8 0..10";
        assert!(!found(text).contains("accept-queue-full"), "{}", found(text));
    }

    #[test]
    fn where_no_socket_is_known_to_listen_the_syn_may_have_gone_on() {
        let said = Fixture::new(IGNORED, IDLE).found();
        assert!(!said.contains("accept-queue-full"), "{said}");
        let forwarded = "0ms 3-6 syn | 10us 3-4 syn | 1000ms 3-6 syn | 1000010us 3-4 syn";
        assert!(!found(forwarded).contains("accept-queue-full"), "{}", found(forwarded));
    }

    #[test]
    fn a_syn_that_is_dropped_answered_or_reset_met_no_full_queue() {
        for text in [
            "0ms 3-6 syn | 5us drop syn detail=77 | 1000ms 3-6 syn | 1000005us drop syn detail=77 | 2s 3-6 syn",
            "0ms 3-6 syn | 1ms <3 syn ack=0 | 1000ms 3-6 syn | 1001ms <3-6 syn ack=0",
            "0ms 3-6 syn | 1ms <drop syn detail=77 | 1000ms 3-6 syn | 1001ms <drop syn detail=77",
            "0ms 3-6 syn | 5us <3-6 rst ack=0 | 900ms state-change code=7 extra=2",
            "0ms 3-6 syn",
        ] {
            assert!(!found(text).contains("accept-queue-full"), "{text}: {}", found(text));
        }
    }

    #[test]
    fn where_records_were_missed_the_answer_may_have_been_one_of_them() {
        for code in [3, 6, 27, 31] {
            let text = format!("{IGNORED} | 900ms loss from=800ms detail=1 code={code}");
            let said = found(&text);
            assert!(!said.contains("accept-queue-full"), "{code}: {said}");
        }
        let of_data = format!("{IGNORED} | 900ms loss from=800ms detail=1 code=8");
        assert!(found(&of_data).contains("accept-queue-full"));
    }

    #[test]
    fn a_trace_that_names_no_drops_does_not_show_that_none_was() {
        let said = Fixture::new(IGNORED, IDLE).listening(None).nameless_drops().found();
        assert!(!said.contains("accept-queue-full"), "{said}");
    }
}
