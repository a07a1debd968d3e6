//! `silly-window`: segments far smaller than the MSS, because the receiver's window opens in small steps.
//!
//! A receiver must not offer more before it can offer a full segment or half of its buffer (RFC 9293 §3.8.6.2.2). One
//! that offers each byte at once makes the sender wait for a larger window, or for its persist timer, and send the
//! bytes that fit. Such a segment ends where the window ends, and more was there to send.

use sockscope_record::{Hold, Point, marks};

use super::facts::FlowFacts;
use super::holds::held_by;
use super::intervals::{Interval, Intervals};
use super::phrasing;
use super::tally::Tally;
use crate::send_hold::acks_received;
use crate::{Finding, FindingId, LedgerPart, Passage};

/// Fewer are the end of a window that was large.
const SEGMENTS_MIN: usize = 20;

/// At least this share of all segments, from the first small one to the last.
const SHARE_DIVISOR: usize = 2;

/// Parts in which the reader has the data: then the window is the reader's.
const AT_THE_READER: [LedgerPart; 2] = [LedgerPart::ReceiveApp, LedgerPart::ReceiveWakeup];

/// A segment that fills a window, which opened by less than a full segment.
struct Small {
    at_ns: u64,
    bytes: u32,
}

pub(super) fn find(facts: &FlowFacts<'_>) -> Option<Finding> {
    let taken = facts.view.flow().at(Point::SendDequeue);
    if taken.iter().filter(|pass| pass.hold() == Hold::Rwnd).take(SEGMENTS_MIN).count()
        < SEGMENTS_MIN
    {
        return None;
    }
    let taken: Vec<&Passage> = taken
        .iter()
        .filter(|pass| pass.len > 0 && pass.marks & marks::RETRANSMITTED == 0)
        .collect();
    let small = small(facts, &taken);
    let (first, last) = (small.first()?, small.last()?);
    let during = Interval::new(first.at_ns, last.at_ns);
    let all = taken.iter().filter(|pass| (first.at_ns..=last.at_ns).contains(&pass.at_ns)).count();
    if small.len() < SEGMENTS_MIN || small.len() * SHARE_DIVISOR < all {
        return None;
    }
    let held = held_by(&facts.holds, Hold::Rwnd)
        .intersect(&Intervals::union_of([during]))
        .without(&facts.times_in(&AT_THE_READER))
        .without(&facts.doubt.sending);
    let mut tally = Tally::of_times(small.len(), &held);
    let cost_ns = tally.cost_ns;
    if cost_ns == 0 {
        return None;
    }
    for one in &small {
        tally.notes.add(one.at_ns, || {
            format!("a segment of {} bytes fills the window; more waits to be sent", one.bytes)
        });
    }
    let mut sizes: Vec<u32> = small.iter().map(|one| one.bytes).collect();
    sizes.sort_unstable();
    let median = sockscope_record::statistics::percentile(&sizes, 50)?;
    let (sender, receiver) = (facts.who(facts.sender()), facts.who(facts.receiver()));
    let summary = format!(
        "The {receiver}'s TCP opens its window in small steps: {} of the {sender} had {median} bytes at the median, \
         where {} fit, and its data waited {} for the window.",
        phrasing::counted(tally.count, "segment"),
        facts.segment_bytes_at(first.at_ns),
        phrasing::time(cost_ns),
    );
    let fix = format!(
        "On the host of the {receiver}: a TCP that offers more only when a full segment or half of its buffer is free (RFC \
         9293 section 3.8.6.2.2), as Linux does. Else a larger receive buffer there, or larger reads."
    );
    Some(tally.into_finding(FindingId::SillyWindow, facts, facts.receiver(), summary, fix))
}

fn small(facts: &FlowFacts<'_>, taken: &[&Passage]) -> Vec<Small> {
    let mut acks = acks_received(facts.view.reverse()).iter().peekable();
    // The right edge of the window, its last move, and the largest window that was offered.
    let (mut edge, mut opened, mut largest) = (0_u64, 0_u64, 0_u32);
    let mut small = Vec::new();
    for pass in taken {
        while let Some(ack) = acks.next_if(|ack| ack.at_ns <= pass.at_ns) {
            if ack.window_edge() > edge {
                opened = ack.window_edge() - edge;
                edge = ack.window_edge();
            }
            largest = ack.window_bytes().max(largest);
        }
        // The limit for which a receiver may wait, and no more.
        let least = facts.segment_bytes_at(pass.at_ns).min(largest / 2);
        let fills = pass.end() == edge && pass.hold() == Hold::Rwnd;
        let is_small = pass.len < least && opened < u64::from(least);
        if fills && is_small && !facts.doubt.sending.touches(instant(pass.at_ns)) {
            small.push(Small { at_ns: pass.at_ns, bytes: pass.len });
        }
    }
    small
}

fn instant(at_ns: u64) -> Interval {
    Interval::new(at_ns, at_ns.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use crate::findings::testing::{evidence, found};

    const HELD: &str = "0ms send_queue.rwnd | 10s end";

    /// A window of `buffer` bytes that the sender fills, and then opens by `step` each 200 ms.
    fn steps(buffer: u64, step: u64, count: u64) -> String {
        let first = format!(
            "0ms send-window extra=1460 | 0ms 1 +100000 rwnd | 0ms <6 ack=0 win={buffer} | 1ms 2-4 +{buffer} rwnd aggregated
             2ms <6 ack={buffer} win={step}"
        );
        let opened = (1..=count).map(|i| {
            let (at, acked) = (i * 200, buffer + i * step);
            format!("{at}ms 2-4 +{step} rwnd | {}ms <6 ack={acked} win={step}", at + 1)
        });
        std::iter::once(first).chain(opened).collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn a_window_that_opens_by_a_hundred_bytes_is_silly() {
        assert_snapshot!(found(&steps(8000, 100, 40), HELD), @"silly-window @server 40x 7.80 s: The server's TCP opens its window in small steps: 40 segments of the client had 100 bytes at the median, where 1460 fit, and its data waited 7.80 s for the window.");
        assert_snapshot!(evidence(&steps(8000, 100, 40), HELD).lines().next().unwrap(), @"a segment of 100 bytes fills the window; more waits to be sent");
    }

    #[test]
    fn a_window_that_opens_by_a_segment_or_half_of_the_buffer_is_not() {
        for (buffer, step) in [(8000, 1460), (1000, 500), (64_000, 2920)] {
            let found = found(&steps(buffer, step, 40), HELD);
            assert!(!found.contains("silly-window"), "{buffer} {step}: {found}");
        }
    }

    #[test]
    fn a_few_small_segments_are_the_end_of_a_window() {
        assert_eq!(found(&steps(8000, 100, 19), "0ms wire | 10s end"), "");
    }

    #[test]
    fn small_segments_within_the_window_have_another_cause() {
        let wide = steps(8000, 100, 40).replace("win=100", "win=5000");
        assert!(!found(&wide, HELD).contains("silly-window"), "{}", found(&wide, HELD));
        let all_sent = steps(8000, 100, 40).replace("+100 rwnd", "+100");
        assert!(!found(&all_sent, HELD).contains("silly-window"), "{}", found(&all_sent, HELD));
    }

    #[test]
    fn while_the_reader_has_the_data_the_time_is_the_readers() {
        let text = steps(8000, 100, 40);
        let found = found(&text, "0ms receive_queue.app | 10s end");
        assert!(found.starts_with("slow-reader") && !found.contains("silly-window"), "{found}");
    }

    #[test]
    fn where_acknowledgments_may_have_been_missed_it_is_silent() {
        let text = format!("{} | 9s loss from=0ms detail=1 code=6", steps(8000, 100, 40));
        assert!(!found(&text, HELD).contains("silly-window"), "{}", found(&text, HELD));
    }
}
