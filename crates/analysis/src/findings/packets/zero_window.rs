//! `slow-reader`, by packets alone: the receiver offers a window of 0 while the sender has more data.
//!
//! A window of 0 says that the receive buffer is full of data that its program has not read (RFC 9293 §3.8.6). The
//! sender has more where it probes the window, or where its next data leaves as soon as the window opens.

use sockscope_record::tcp_flags;

use crate::findings::facts::FlowFacts;
use crate::findings::phrasing;
use crate::findings::slow_reader;
use crate::findings::tally::Tally;
use crate::packets::{Packet, Place, RoundTrips, packets};
use crate::{Finding, FindingId, Passage};

/// A shorter one is a reader that copies without pause.
const SHUT_NS_MIN: u64 = 2_000_000;

/// Time in which the sender's host sends when the window opens, beyond the round trip to it.
const GOES_ON_NS_MAX: u64 = 10_000_000;

/// One that does not open before the end of the trace counts from this length on.
const NEVER_OPENS_NS_MIN: u64 = 500_000_000;

/// Less of the time from the first data to the last one is not a limit.
const SHARE_PERCENT_MIN: u64 = 10;

/// A time in which the window was 0.
#[derive(Debug, Clone, Copy)]
struct Shut {
    since_ns: u64,
    until_ns: u64,
    /// The position before which all data has arrived.
    edge: u64,
    opens: bool,
}

pub(super) fn find(facts: &FlowFacts<'_>) -> Option<Finding> {
    let place = *Place::all(facts.view.store, facts.receiver()).first()?;
    let (shut, lasted_ns) = shut(facts, place);
    let mut tally = Tally { count: shut.len() as u64, ..Tally::default() };
    for one in &shut {
        tally.add_cost(one.since_ns, one.until_ns);
        note(&mut tally, one);
    }
    let is_limit = tally.cost_ns.saturating_mul(100) >= lasted_ns.saturating_mul(SHARE_PERCENT_MIN);
    if shut.is_empty() || !is_limit {
        return None;
    }
    let (sender, receiver) = (facts.who(facts.sender()), facts.who(facts.receiver()));
    let summary = format!(
        "The receive window of the {receiver} was 0 {}, {}, while the {sender} had more data: the {receiver} \
         left its data unread, or had no CPU to read it.",
        phrasing::counted(tally.count, "time"),
        phrasing::on_average(tally.cost_ns, tally.count),
    );
    let fix = slow_reader::fix(&receiver);
    Some(tally.into_finding(FindingId::SlowReader, facts, facts.receiver(), summary, fix))
}

/// The times in which the window was 0 and the sender had more, and the time from its first data to the last event.
fn shut(facts: &FlowFacts<'_>, place: Place) -> (Vec<Shut>, u64) {
    let store = facts.view.store;
    let to_sender_ns = RoundTrips::of(store, place).to(facts.sender()).unwrap_or(0);
    let goes_on_ns = to_sender_ns + to_sender_ns / 2 + GOES_ON_NS_MAX;
    let mut all = Vec::new();
    let (mut first_ns, mut last_ns) = (None, 0);
    let (mut shut, mut opened, mut is_probed) = (None::<(u64, u64)>, None::<Shut>, false);
    for Packet { direction, pass } in packets(store, place) {
        last_ns = pass.at_ns;
        if direction == facts.view.direction {
            first_ns = first_ns.or((pass.len > 0).then_some(pass.at_ns));
            match (shut, opened) {
                // More than a probe passes: the offer of 0 is of an older segment.
                (Some((_, edge)), _) if pass.len > 1 && pass.end() > edge + 1 => shut = None,
                (Some((_, edge)), _) => is_probed |= is_probe(pass, edge),
                (None, Some(open)) if pass.len > 0 => {
                    let after_ns = pass.at_ns.saturating_sub(open.until_ns);
                    all.extend(
                        (pass.offset == open.edge && after_ns <= goes_on_ns).then_some(open),
                    );
                    opened = None;
                }
                _ => {}
            }
            continue;
        }
        let flags = tcp_flags::ACK | tcp_flags::SYN | tcp_flags::RST;
        if pass.tcp_flags & flags != tcp_flags::ACK {
            continue;
        }
        match shut {
            None if pass.window_bytes() == 0 && pass.acknowledged() > 0 => {
                (shut, opened, is_probed) = (Some((pass.at_ns, pass.acknowledged())), None, false);
            }
            Some((since_ns, edge)) if pass.window_bytes() > 0 => {
                let one = Shut { since_ns, until_ns: pass.at_ns, edge, opens: true };
                shut = None;
                if is_probed { all.push(one) } else { opened = Some(one) }
            }
            Some((since_ns, _)) => shut = Some((since_ns, pass.acknowledged())),
            None => {}
        }
    }
    if let Some((since_ns, edge)) = shut.filter(|_| is_probed)
        && last_ns.saturating_sub(since_ns) >= NEVER_OPENS_NS_MIN
    {
        all.push(Shut { since_ns, until_ns: last_ns, edge, opens: false });
    }
    all.retain(|one| one.until_ns.saturating_sub(one.since_ns) >= SHUT_NS_MIN);
    (all, last_ns.saturating_sub(first_ns.unwrap_or(last_ns)))
}

/// A segment that asks for an acknowledgment: of an octet that was acknowledged before, or of one beyond the window
/// (RFC 9293 §3.8.6.1).
fn is_probe(pass: &Passage, edge: u64) -> bool {
    let others = tcp_flags::SYN | tcp_flags::FIN | tcp_flags::RST;
    let asks = if pass.len == 0 { pass.offset < edge } else { pass.offset >= edge };
    pass.tcp_flags & others == 0 && asks
}

fn note(tally: &mut Tally, one: &Shut) {
    tally.notes.add(one.since_ns, || {
        format!("receiver acknowledges up to {} and offers a window of 0", one.edge)
    });
    let lasted = || phrasing::time(one.until_ns.saturating_sub(one.since_ns));
    tally.notes.add(one.until_ns, || match one.opens {
        true => format!("the window opens, after {}", lasted()),
        false => format!("the trace ends; the window was 0 for {}", lasted()),
    });
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::found;
    use insta::assert_snapshot;

    const OPEN: &str = "0ms 4 syn | 2ms <5 syn ack=0 win=2000 | 2ms 4 ack=0";
    const LEDGER: &str = "0ms wire | 900ms end";

    #[test]
    fn a_window_of_zero_that_the_next_data_awaits_is_the_readers() {
        let text = format!(
            "{OPEN} | 3ms 4 +2000 | 5ms <5 ack=2000 win=0 | 300ms <5 ack=2000 win=2000 | 301ms 4 +1000
             303ms <5 ack=3000 win=1000"
        );
        assert_snapshot!(found(&text, LEDGER), @"slow-reader @server 1x 295 ms: The receive window of the server was 0 1 time, 295 ms, while the client had more data: the server left its data unread, or had no CPU to read it.");
        // The program had nothing to send then.
        assert_snapshot!(found(&text.replace("301ms 4", "330ms 4").replace("303ms", "332ms"), LEDGER), @"");
    }

    #[test]
    fn a_probed_window_counts_also_where_it_never_opens() {
        let text = format!(
            "{OPEN} | 3ms 4 +2000 | 5ms <5 ack=2000 win=0 | 210ms 4 at=1999 ack=0 | 212ms <5 ack=2000 win=0
             620ms 4 at=1999 ack=0 | 622ms <5 ack=2000 win=0"
        );
        assert_snapshot!(found(&text, LEDGER), @"slow-reader @server 1x 617 ms: The receive window of the server was 0 1 time, 617 ms, while the client had more data: the server left its data unread, or had no CPU to read it.");
        // A trace that ends before shows no more than a moment.
        let short = text.replace("620ms", "420ms").replace("622ms", "422ms");
        assert_snapshot!(found(&short, LEDGER), @"");
    }

    #[test]
    fn a_full_window_that_opens_at_once_is_none_of_it() {
        let text = format!(
            "{OPEN} | 3ms 4 +2000 | 5ms <5 ack=2000 win=0 | 6ms <5 ack=2000 win=2000 | 6ms 4 +2000
             8ms <5 ack=4000 win=2000"
        );
        assert_snapshot!(found(&text, LEDGER), @"");
    }

    #[test]
    fn a_window_beyond_which_data_passes_is_not_shut() {
        let text = format!(
            "{OPEN} | 3ms 4 +2000 | 5ms <5 ack=2000 win=0 | 210ms 4 at=1999 ack=0 | 400ms 4 +1000
             700ms <5 ack=3000 win=2000 | 701ms 4 +1000"
        );
        assert_snapshot!(found(&text, LEDGER), @"");
    }

    #[test]
    fn the_last_data_of_a_sender_leaves_a_window_of_zero_without_harm() {
        let text = format!(
            "{OPEN} | 3ms 4 +2000 | 5ms <5 ack=2000 win=0 | 600ms <5 ack=2000 win=2000 | 601ms 4 fin"
        );
        assert_snapshot!(found(&text, LEDGER), @"");
    }
}
