//! `udp-receive-drop`: datagrams reached the receiving host and found the socket's buffer full.
//!
//! Drop reasons have different numbers in different kernels: if the trace has no name for one, the
//! queue decides: the datagram was dropped after IP had it, while earlier ones of the flow still
//! waited to be read.

use super::facts::FlowFacts;
use super::phrasing;
use super::tally::Tally;
use crate::buffers::requests;
use crate::drops::{self, Cause, SocketDrop};
use crate::{Finding, FindingId};

pub(super) fn find(facts: &FlowFacts<'_>) -> Option<Finding> {
    let flow = facts.view.flow();
    let (connection, reasons) = (&facts.view.store.connection, facts.view.drop_reasons);
    let mut tally = Tally::default();
    let mut bytes = 0;
    let drops = drops::at_the_socket(connection, flow, reasons);
    for SocketDrop { drop, waiting_bytes, .. } in drops.filter(|it| it.cause == Cause::FullBuffer) {
        tally.count += 1;
        bytes += u64::from(drop.len);
        tally.notes.add(drop.at_ns, || {
            format!(
                "a datagram of {} bytes is dropped ({}); {waiting_bytes} bytes of the flow wait unread",
                drop.len,
                drops::reason(reasons, drop)
            )
        });
    }
    if tally.count == 0 {
        return None;
    }
    let receiver = facts.who(facts.receiver());
    let buffer = match facts.receive_buffer.granted_bytes {
        Some(granted) => format!("receive buffer of {granted} bytes"),
        None => "receive buffer".to_owned(),
    };
    let summary = format!(
        "The {receiver}'s kernel dropped {} ({bytes} bytes): the {buffer} was full of unread ones.",
        phrasing::counted(tally.count, "datagram"),
    );
    let fix = format!(
        "In the {receiver}: read faster (recvmmsg, a thread that only reads), or {}; or pace the sender.",
        more_room(facts)
    );
    Some(tally.into_finding(FindingId::UdpReceiveDrop, facts, facts.receiver(), summary, fix))
}

/// The remedy that gives the receiver's socket a larger buffer.
fn more_room(facts: &FlowFacts<'_>) -> String {
    let asked = requests(&facts.view.reverse().events, false).pop();
    match asked {
        Some(request) if request.is_clipped() => {
            let asked_bytes = request.asked_bytes;
            format!(
                "raise net.core.rmem_max, which cut the {asked_bytes} bytes that SO_RCVBUF asked for"
            )
        }
        Some(request) => format!("ask for more than {} bytes in SO_RCVBUF", request.asked_bytes),
        None => "set a larger SO_RCVBUF with net.core.rmem_max raised".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::Fixture;
    use insta::assert_snapshot;

    fn found(text: &str) -> String {
        Fixture::new(text, "0ms receive_queue.app | 5ms end").udp().found()
    }

    #[test]
    fn datagrams_dropped_while_others_wait_unread_are_counted() {
        let text = "1ms 1-7 +100 | 2ms 1-6 +100 | 2ms drop 100..200 code=6 detail=6 | 3ms 8 +100";
        assert_snapshot!(found(text), @"udp-receive-drop @server 1x 0 ns: The server's kernel dropped 1 datagram (100 bytes): the receive buffer was full of unread ones.");
    }

    #[test]
    fn the_kernels_reason_stands_in_the_evidence_by_its_name() {
        let text = "1ms 1-7 +100 | 2ms 1-6 +100 | 2ms drop 100..200 code=6 detail=6 | 3ms 8 +100
                    | 4ms 1-7 +100 | 4ms 1-6 +100 | 4ms drop 300..400 code=6 detail=99";
        let findings = Fixture::new(text, "0ms receive_queue.app | 5ms end").udp().findings();
        let texts: Vec<_> = findings[0].evidence.iter().map(|one| one.text.as_str()).collect();
        assert_snapshot!(texts.join("\n"), @"
        a datagram of 100 bytes is dropped (reason SOCKET_RCVBUFF); 100 bytes of the flow wait unread
        a datagram of 100 bytes is dropped (reason 99); 100 bytes of the flow wait unread
        ");
    }

    #[test]
    fn the_fix_knows_what_the_receiver_asked_for_and_got() {
        let fix = |of_buffer: &str| {
            let drops =
                "1ms 1-7 +100 | 2ms 1-6 +100 | 2ms drop 100..200 code=6 detail=6 | 3ms 8 +100";
            let text = format!("{of_buffer} | {drops}");
            let findings = Fixture::new(&text, "0ms receive_queue.app | 5ms end").udp().findings();
            let of_drop = findings.into_iter().find(|one| one.id.name() == "udp-receive-drop");
            of_drop.map(|one| format!("{}\n{}", one.summary, one.fix)).unwrap_or_default()
        };
        // Level 1, option 8: SO_RCVBUF.
        assert_snapshot!(fix("0ms <buffers detail=212992 high=212992"), @"
        The server's kernel dropped 1 datagram (100 bytes): the receive buffer of 212992 bytes was full of unread ones.
        In the server: read faster (recvmmsg, a thread that only reads), or set a larger SO_RCVBUF with net.core.rmem_max raised; or pace the sender.
        ");
        assert_snapshot!(fix("0ms <option extra=65544 detail=8192 high=16384"), @"
        The server's kernel dropped 1 datagram (100 bytes): the receive buffer of 16384 bytes was full of unread ones.
        In the server: read faster (recvmmsg, a thread that only reads), or ask for more than 8192 bytes in SO_RCVBUF; or pace the sender.
        ");
        assert_snapshot!(fix("0ms <option extra=65544 detail=4194304 high=425984"), @"
        The server's kernel dropped 1 datagram (100 bytes): the receive buffer of 425984 bytes was full of unread ones.
        In the server: read faster (recvmmsg, a thread that only reads), or raise net.core.rmem_max, which cut the 4194304 bytes that SO_RCVBUF asked for; or pace the sender.
        ");
    }

    #[test]
    fn one_dropped_by_an_empty_socket_has_another_reason() {
        let text = "1ms 1-8 +100 | 2ms 1-6 +100 | 2ms drop 100..200 code=6 detail=3";
        assert_snapshot!(found(text), @"");
    }

    #[test]
    fn one_dropped_before_the_host_had_it_is_not_the_sockets() {
        let text = "1ms 1-7 +100 | 2ms 1-3 +100 | 2ms drop 100..200 code=3 detail=6 | 3ms 8 +100";
        assert_snapshot!(found(text), @"");
    }

    #[test]
    fn datagrams_thrown_away_unread_with_their_socket_are_not_dropped_for_room() {
        let text =
            "1ms 1-7 +100 | 2ms 1-7 +100 | 3ms drop 100..200 code=7 | 3ms drop 0..100 code=7";
        assert_snapshot!(found(text), @"");
    }

    #[test]
    fn tcp_does_not_drop_datagrams() {
        let text = "1ms 1-7 +100 | 2ms 1-6 +100 | 2ms drop 100..200 code=6 detail=6 | 3ms 8 +100";
        assert_snapshot!(Fixture::new(text, "0ms receive_queue.app | 5ms end").found(), @"");
    }
}
