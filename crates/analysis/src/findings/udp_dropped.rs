//! `udp-dropped`: a kernel dropped datagrams, for another reason than a full receive buffer.
//!
//! The reason is the kernel's own. Datagrams that no socket takes are `udp-refused`; drops of the interface's
//! queue are `interface-queue-limited` where that fires.

use std::collections::BTreeMap;

use sockscope_record::Record;

use super::drop_reason;
use super::facts::FlowFacts;
use super::phrasing;
use super::tally::Tally;
use crate::drops::{self, Cause};
use crate::{Finding, FindingId};

/// The datagram had arrived, and its reader closed the socket.
const GONE: &str = "SOCKET_CLOSE";

pub(super) fn find(facts: &FlowFacts<'_>, is_queue_limited: bool) -> Option<Finding> {
    let (flow, reasons) = (facts.view.flow(), facts.view.drop_reasons);
    let named = |drop: &&Record| {
        let is_queue = |name: &str| name.starts_with("QDISC_") || name.starts_with("FQ_");
        let name = drops::name_of(drop, reasons).filter(|name| *name != GONE);
        name.is_some_and(|name| !(is_queue_limited && is_queue(name)))
            && drops::named(drop, reasons) == Some(Cause::Unknown)
    };
    let dropped: Vec<_> = drops::of_segments(flow, reasons).filter(named).collect();
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    let names = dropped.iter().filter_map(|drop| drops::name_of(drop, reasons));
    names.for_each(|name| *counts.entry(name).or_default() += 1);
    // Of equal counts the first name.
    let (most, count) = counts.into_iter().rev().max_by_key(|(_, count)| *count)?;
    let of_most = || dropped.iter().filter(|drop| drops::name_of(drop, reasons) == Some(most));
    let mut tally = Tally { count, ..Tally::default() };
    for drop in of_most() {
        tally.notes.add(drop.at_ns, || {
            format!("a datagram of {} bytes is dropped (reason {most})", drop.len)
        });
    }
    let bytes: u64 = of_most().map(|drop| u64::from(drop.len)).sum();
    let first = of_most().next()?;
    let host = drops::host_of(facts.view.store, facts.view.direction, first);
    let side = host.unwrap_or(facts.receiver());
    let place = format!("On the {}'s host", side.name());
    let (sender, receiver) = (facts.who(facts.sender()), facts.receiver().name());
    let summary = format!(
        "{place} {} dropped {} ({bytes} bytes) from the {sender} to the {receiver} (reason {most}).",
        drop_reason::dropped_by(most),
        phrasing::counted(count, "datagram"),
    );
    let fix = format!("{place}: {}.", drop_reason::fix(most));
    Some(tally.into_finding(FindingId::UdpDropped, facts, side, summary, fix))
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::Fixture;
    use insta::assert_snapshot;

    fn found(text: &str) -> String {
        Fixture::new(text, "0ms app_idle | 5ms end").udp().found()
    }

    #[test]
    fn a_filter_of_the_socket_drops_datagrams_for_its_own_reason() {
        let text = "1ms 1-6 +100 | 1005us drop +100 code=6 detail=205 | 2ms 1-6 +100 | 2005us drop +100 code=6 detail=205";
        assert_snapshot!(found(text), @"udp-dropped @server 2x 0 ns: On the server's host a filter that the program attached to its socket dropped 2 datagrams (200 bytes) from the client to the server (reason SOCKET_FILTER).");
        // Others of the flow wait unread: the buffer is not full for that.
        let waiting =
            "1ms 1-7 +100 | 2ms 1-6 +100 | 2005us drop 100..200 code=6 detail=205 | 3ms 8 +100";
        assert_snapshot!(found(waiting), @"udp-dropped @server 1x 0 ns: On the server's host a filter that the program attached to its socket dropped 1 datagram (100 bytes) from the client to the server (reason SOCKET_FILTER).");
    }

    #[test]
    fn a_packet_filter_of_the_senders_host_is_its_own() {
        let text = "0ms 1-8 +100 | 1ms 1-2 +100 | 1005us drop 100..200 code=2 detail=77";
        assert_snapshot!(found(text), @"udp-dropped @client 1x 0 ns: On the client's host the packet filter dropped 1 datagram (100 bytes) from the client to the server (reason NETFILTER_DROP).");
    }

    #[test]
    fn a_full_buffer_and_no_socket_have_findings_of_their_own() {
        for detail in [6, 203] {
            let text = format!(
                "1ms 1-7 +100 | 2ms 1-6 +100 | 2ms drop 100..200 code=6 detail={detail} | 3ms 8 +100"
            );
            assert!(!found(&text).contains("udp-dropped"), "{detail}: {}", found(&text));
        }
    }

    #[test]
    fn a_drop_without_a_name_and_a_copy_of_what_arrived_are_no_losses() {
        assert_snapshot!(found("1ms 1-6 +100 | 1005us drop +100 code=3 detail=999"), @"");
        assert_snapshot!(found("1ms 1-8 +100 | 2ms drop 0..100 code=3 detail=77"), @"");
    }
}
