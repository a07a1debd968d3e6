//! `ack-storm`: both ends answer each other's acknowledgments, and no data passes.
//!
//! An acknowledgment is not answered (RFC 9293 §3.10.7.4), unless it lies outside of the window. Where the two ends do
//! not agree on their numbers, as after a device between them lost its state, each answers the other's for ever (RFC
//! 5961 §7 bounds that). Keepalives and duplicates for missing data are like that too: they are rare, or data is
//! under way.

use sockscope_record::{Direction, Kind, Point, Protocol, Side, tcp_flags};

use super::phrasing::{self, Notes};
use crate::{ConnectionView, Finding, FindingId, FlowStore, Passage};

/// So many of each end, one after the other.
const EACH_MIN: usize = 100;

/// A keepalive, or the persist timer, is far slower than this.
const PAUSE_NS_MIN: u64 = 100_000_000;

/// From one of its acknowledgments to the next an end made at most this many: they take turns.
const IN_ROW_MAX: usize = 8;

/// One segment of either direction.
struct Segment<'a> {
    pass: &'a Passage,
    is_clients: bool,
    /// It has neither data nor news.
    is_empty: bool,
}

pub(super) fn find(view: &ConnectionView<'_>) -> Option<Finding> {
    let connection = &view.store.connection;
    if connection.protocol != Protocol::Tcp || connection.is_to_itself() {
        return None;
    }
    let [client, server] = &view.store.flows;
    let empty =
        |flow| of_flow(flow, true).filter(|segment| segment.is_empty).take(EACH_MIN).count();
    if [client, server].iter().any(|flow| empty(flow) < EACH_MIN) {
        return None;
    }
    let segments = segments(view);
    let storms: Vec<&[Segment<'_>]> = segments
        .chunk_by(|a, b| {
            let pause_ns = b.pass.at_ns.saturating_sub(a.pass.at_ns);
            a.is_empty && b.is_empty && pause_ns < PAUSE_NS_MIN
        })
        .filter(|run| is_storm(run))
        .collect();
    let count = storms.iter().map(|run| run.len()).sum::<usize>() as u64;
    let mut notes = Notes::default();
    for run in &storms {
        let (first, last) = (run.first()?.pass.at_ns, run.last()?.pass.at_ns);
        notes.add(first, || "an acknowledgment without news is answered by another one".to_owned());
        notes
            .add(last, || format!("the last of {} in {}", run.len(), phrasing::time(last - first)));
    }
    let longest = storms.iter().max_by_key(|run| run.len())?;
    let took_ns = longest.last()?.pass.at_ns - longest.first()?.pass.at_ns;
    let [client, server] = [Side::Client, Side::Server].map(|side| phrasing::who(connection, side));
    Some(Finding {
        id: FindingId::AckStorm,
        flow: connection.id.flow(Direction::FromClient),
        side: out_of_step(view),
        count,
        connections: 1,
        cost_ns: 0,
        times: Vec::new(),
        summary: format!(
            "The {client} and the {server} answered each other's acknowledgments, which had no news and no data: {} \
             in {}.",
            phrasing::counted(longest.len() as u64, "segment"),
            phrasing::time(took_ns),
        ),
        evidence: notes.into_evidence(),
        fix: "Close the connection (ss -K). Then find what put the ends out of step: a proxy, NAT or firewall between \
              them that lost its state or rewrites numbers, or forged segments. On Linux \
              net.ipv4.tcp_invalid_ratelimit (500 ms) bounds the host's part."
            .to_owned(),
    })
}

/// The end whose acknowledgments the other one's kernel drops, as their numbers are out of the window.
fn out_of_step(view: &ConnectionView<'_>) -> Side {
    let [client, server] = view.store.flows.each_ref().map(|flow| {
        let drops = flow.events_of(Kind::Drop).filter(|event| event.len == 0);
        drops.count()
    });
    if server > client { Side::Server } else { Side::Client }
}

/// The segments of both directions in time order, as one host saw them.
fn segments<'a>(view: &ConnectionView<'a>) -> Vec<Segment<'a>> {
    let [client, server] = &view.store.flows;
    let mut segments: Vec<_> = of_flow(client, true).chain(of_flow(server, false)).collect();
    segments.sort_by_key(|segment| segment.pass.at_ns);
    segments
}

fn of_flow(flow: &FlowStore, is_clients: bool) -> impl Iterator<Item = Segment<'_>> {
    let points = [
        Point::InputDequeue,
        Point::InterfaceDequeue,
        Point::InputEnqueue,
        Point::InterfaceEnqueue,
    ];
    let passes = points.into_iter().map(|point| flow.at(point)).find(|it| !it.is_empty());
    let mut before: Option<&Passage> = None;
    let segment = move |pass| {
        let last = before.replace(pass);
        let is_same = last.is_some_and(|last: &Passage| {
            last.acknowledged() == pass.acknowledged() && last.window_bytes() == pass.window_bytes()
        });
        let is_empty = pass.len == 0 && pass.tcp_flags == tcp_flags::ACK && is_same;
        Segment { pass, is_clients, is_empty }
    };
    passes.unwrap_or_default().iter().map(segment)
}

/// Whether both ends take part alternately.
fn is_storm(run: &[Segment<'_>]) -> bool {
    let of_client = run.iter().filter(|segment| segment.is_clients).count();
    let least = of_client.min(run.len() - of_client);
    let in_row = run.chunk_by(|a, b| a.is_clients == b.is_clients).map(<[_]>::len).max();
    least >= EACH_MIN && in_row.is_some_and(|in_row| in_row <= IN_ROW_MAX)
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use crate::findings::testing::{evidence, found};

    const IDLE: &str = "0ms app_idle | 20s end";

    /// An exchange, and this number of acknowledgments of each end, one a period.
    fn storm(each: u64, period_us: u64) -> String {
        let answers = (0..each * 2).map(|i| {
            let at = 1000 + i * period_us;
            let (arrow, own) =
                if i % 2 == 0 { ("<", "at=200 ack=100") } else { ("", "at=100 ack=200") };
            format!("{at}us {arrow}3-6 {own} win=5000")
        });
        let exchange = "0us 1-8 +100 | 100us <1-8 +200".to_owned();
        std::iter::once(exchange).chain(answers).collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn acknowledgments_that_answer_each_other_are_a_storm() {
        assert_snapshot!(found(&storm(1000, 20), IDLE), @"ack-storm @client 1998x 0 ns: The client and the server answered each other's acknowledgments, which had no news and no data: 1998 segments in 39.9 ms.");
        assert_snapshot!(evidence(&storm(1000, 20), IDLE), @r"
        an acknowledgment without news is answered by another one
        the last of 1998 in 39.9 ms
        ");
    }

    #[test]
    fn keepalives_are_rare() {
        assert_eq!(found(&storm(110, 110_000), "0ms app_idle | 30s end"), "");
        assert_eq!(found(&storm(100, 20), IDLE), "");
    }

    #[test]
    fn acknowledgments_of_data_or_with_a_new_window_are_no_storm() {
        let data = storm(1000, 20).replace(" ack=200 win", " +1 ack=200 win");
        assert!(!found(&data, IDLE).contains("ack-storm"), "{}", found(&data, IDLE));
        let windows: Vec<_> = storm(1000, 20)
            .split(" | ")
            .enumerate()
            .map(|(i, entry)| entry.replace("win=5000", &format!("win={}", 5000 + i)))
            .collect();
        assert_eq!(found(&windows.join(" | "), IDLE), "");
    }

    #[test]
    fn duplicates_of_one_end_repair_a_loss() {
        let one_end = storm(1000, 20).replace("at=100 ack=200", "at=100 +1 ack=200");
        assert!(!found(&one_end, IDLE).contains("ack-storm"), "{}", found(&one_end, IDLE));
        // A burst of one end, and one of the other.
        let burst = |arrow: &str, from_us: u64| {
            let one = |i: u64| format!("{}us {arrow}3-6 at=200 ack=100 win=5000", from_us + i * 20);
            (0..150).map(one).collect::<Vec<_>>().join(" | ")
        };
        assert_eq!(found(&format!("{} | {}", burst("<", 1000), burst("", 4000)), IDLE), "");
    }
}
