//! `syn-dropped`: a host drops the segments that open a connection, for a reason that its kernel names.
//!
//! A drop counts where nothing answered and the client waited for it: copies of a segment are dropped too. A
//! segment that no socket takes is refused, not dropped; a full queue of the listener is `accept-queue-full`.

use std::collections::BTreeMap;

use sockscope_record::{Direction, Record, Side};

use super::accept_queue_full::OVERFLOW;
use super::drop_reason;
use super::handshake::{Handshake, syn_drops};
use super::intervals::{Interval, Intervals};
use super::phrasing::{self, Notes};
use crate::drops::{self, Cause};
use crate::{ConnectionView, Finding, FindingId};

/// A dropped SYN or SYN-ACK, and the time that the client waited for it.
struct Dropped<'a> {
    drop: &'a Record,
    reason: &'a str,
    direction: Direction,
    wait: Interval,
}

pub(super) fn find(view: &ConnectionView<'_>) -> Option<Finding> {
    let handshake = Handshake::of(view)?;
    let directions = [Direction::FromClient, Direction::FromServer];
    let dropped: Vec<_> =
        directions.into_iter().flat_map(|it| dropped(view, &handshake, it)).collect();
    let waits = Intervals::union_of(dropped.iter().map(|one| one.wait));
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    dropped.iter().for_each(|one| *counts.entry(one.reason).or_default() += 1);
    // Of equal counts the first name.
    let most = counts.iter().rev().max_by_key(|(_, count)| **count).map(|(reason, _)| *reason)?;
    let of_most: Vec<_> = dropped.iter().filter(|one| one.reason == most).collect();
    let first = of_most.first()?;
    let side = drops::host_of(view.store, first.direction, first.drop)
        .unwrap_or(first.direction.receiver());
    let mut notes = Notes::default();
    for one in &dropped {
        notes.add(one.drop.at_ns, || {
            let waited = phrasing::time(one.wait.duration_ns());
            format!(
                "{} is dropped, reason {}; nothing answers for {waited}",
                segment(one.direction),
                one.reason
            )
        });
    }
    let connection = &view.store.connection;
    let (client, server) = (phrasing::who(connection, Side::Client), connection.server);
    let host = side.name();
    let segments = match first.direction {
        Direction::FromClient => phrasing::counted(of_most.len() as u64, "SYN"),
        Direction::FromServer => phrasing::counted(of_most.len() as u64, "SYN-ACK"),
    };
    let opened = if handshake.is_opened() { "opened late, after" } else { "did not open within" };
    let waited = phrasing::time(waits.total_ns());
    Some(Finding {
        id: FindingId::SynDropped,
        flow: view.store.flow(first.direction).id,
        side,
        count: dropped.len() as u64,
        connections: 1,
        cost_ns: waits.total_ns(),
        times: waits.iter().map(|one| (one.start_ns, one.end_ns)).collect(),
        summary: format!(
            "On the {host}'s host {} dropped {segments} (reason {most}): the connection of the {client} to \
             {server} {opened} {waited}.",
            drop_reason::dropped_by(most),
        ),
        evidence: notes.into_evidence(),
        fix: format!("On the {host}'s host: {}.", drop_reason::fix(most)),
    })
}

fn dropped<'a>(
    view: &ConnectionView<'a>,
    handshake: &Handshake<'a>,
    direction: Direction,
) -> Vec<Dropped<'a>> {
    let flow = view.store.flow(direction);
    let reasons = view.flows[0].drop_reasons;
    // Without those that are no losses by their reason.
    let losses: Vec<_> = drops::of_segments(flow, reasons).map(|drop| drop.at_ns).collect();
    let drops = syn_drops(flow).filter(|drop| losses.binary_search(&drop.at_ns).is_ok());
    let named = drops.filter_map(|drop| Some((drop, drops::name_of(drop, reasons)?)));
    let of_others = named.filter(|(_, reason)| *reason != OVERFLOW && *reason != "NOT_SPECIFIED");
    let of_others =
        of_others.filter(|(drop, _)| drops::named(drop, reasons) == Some(Cause::Unknown));
    let waited = of_others.filter_map(|(drop, reason)| {
        let wait = match direction {
            Direction::FromClient => handshake.wait_since(drop.at_ns),
            Direction::FromServer => handshake.wait_for_answer_since(drop.at_ns),
        };
        Some(Dropped { drop, reason, direction, wait: wait? })
    });
    waited.collect()
}

fn segment(direction: Direction) -> &'static str {
    match direction {
        Direction::FromClient => "the SYN",
        Direction::FromServer => "the SYN-ACK",
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::Fixture;
    use insta::assert_snapshot;

    const IDLE: &str = "0ms app_idle | 4s end";

    fn found(text: &str) -> String {
        Fixture::new(text, IDLE).found()
    }

    fn fix(text: &str) -> String {
        let findings = Fixture::new(text, IDLE).findings();
        let texts: Vec<_> = findings[0].evidence.iter().map(|one| one.text.as_str()).collect();
        format!("{}\n{}", findings[0].fix, texts.join("\n"))
    }

    /// As a filter of the server's host does it.
    const FILTERED: &str =
        "0ms 3-6 syn | 5us drop syn detail=77 | 1000ms 3-6 syn | 1000005us drop syn detail=77
        1000006us retransmit code=5 | 3s state-change code=7 extra=2";

    #[test]
    fn a_syn_that_a_filter_drops_is_the_filters() {
        assert_snapshot!(found(FILTERED), @"syn-dropped @server 2x 3.00 s: On the server's host the packet filter dropped 2 SYNs (reason NETFILTER_DROP): the connection of the client to 127.0.0.1:80 did not open within 3.00 s.");
        assert_snapshot!(fix(FILTERED), @r"
        On the server's host: let the packet filter accept these packets (nft list ruleset, iptables-save).
        the SYN is dropped, reason NETFILTER_DROP; nothing answers for 1000 ms
        the SYN is dropped, reason NETFILTER_DROP; nothing answers for 2.00 s
        ");
    }

    #[test]
    fn each_reason_has_a_fix_of_its_own() {
        let socket = FILTERED.replace("detail=77", "detail=205");
        assert_snapshot!(fix(&socket), @r"
        On the server's host: change the filter that the program attaches by SO_ATTACH_FILTER or SO_ATTACH_BPF (ss -b shows it).
        the SYN is dropped, reason SOCKET_FILTER; nothing answers for 1000 ms
        the SYN is dropped, reason SOCKET_FILTER; nothing answers for 2.00 s
        ");
    }

    #[test]
    fn a_syn_that_leaves_no_host_is_dropped_by_the_senders() {
        let text = "0ms drop syn detail=77 | 1000ms drop syn detail=77 | 3s 3-6 syn | 3001ms <3-6 syn ack=0
                    3002ms state-change code=1 extra=2 | 3002ms 3-6 ack=0 | 4s 1-8 +10";
        assert_snapshot!(found(text), @"syn-dropped @client 2x 3.00 s: On the client's host the packet filter dropped 2 SYNs (reason NETFILTER_DROP): the connection of the client to 127.0.0.1:80 opened late, after 3.00 s.");
    }

    #[test]
    fn an_answer_that_a_filter_drops_is_waited_for_too() {
        let text = "0ms 3-6 syn | 10us <3-6 syn ack=0 | 15us <drop syn ack=0 detail=77 | 1000ms 3-6 syn
                    1000010us <3-6 syn ack=0 | 1001ms state-change code=1 extra=2 | 1001ms 3-6 ack=0";
        assert_snapshot!(found(text), @"syn-dropped @client 1x 1000 ms: On the client's host the packet filter dropped 1 SYN-ACK (reason NETFILTER_DROP): the connection of the client to 127.0.0.1:80 opened late, after 1000 ms.");
    }

    #[test]
    fn nobody_waits_behind_a_forged_source() {
        let forged = "0ms 3-6 syn | 10us <3-6 syn ack=0 | 15us <drop syn ack=0 detail=77
                    1000010us <3-6 syn ack=0 | 1000015us <drop syn ack=0 detail=77 | 3s <3-6 syn ack=0";
        assert_snapshot!(found(forged), @"");
        let dropped = "0ms 3-6 syn | 5us drop syn detail=77 | 3s loss from=3s detail=1 code=1";
        assert_snapshot!(found(dropped), @"");
    }

    #[test]
    fn a_copy_that_is_dropped_is_not_waited_for() {
        let copy = "0ms 3-6 syn | 5us drop syn detail=77 | 20us <3-6 syn ack=0 | 30us state-change code=1 extra=2";
        assert_snapshot!(found(copy), @"");
        let late = "0ms 3-6 syn | 20us <3-6 syn ack=0 | 30us state-change code=1 extra=2 | 900ms drop syn detail=77";
        assert_snapshot!(found(late), @"");
    }

    #[test]
    fn what_no_socket_takes_or_no_name_explains_is_not_dropped_here() {
        for detail in [203, 240, 999] {
            let text = FILTERED.replace("detail=77", &format!("detail={detail}"));
            assert!(!found(&text).contains("syn-dropped"), "{detail}: {}", found(&text));
        }
    }

    #[test]
    fn where_records_were_missed_the_answer_may_have_been_one_of_them() {
        let said = found(&format!("{FILTERED} | 3s loss from=0ms detail=1 code=6"));
        assert!(!said.contains("syn-dropped"), "{said}");
    }
}
