//! `receive-window-limited`: the peer's window is full although its program reads at once.
//!
//! Times in which the receive queue or the interface queue has the oldest unread byte are taken off: there the
//! reader or the interface is the cause, and the closed window only its effect.

use sockscope_record::{Hold, Kind};

use super::facts::{FlowFacts, HELD_OR_ON_THE_PATH};
use super::holds::held_by;
use super::intervals::{Interval, Intervals};
use super::phrasing;
use super::stop_and_wait::PATH_RTT_NS_MIN;
use super::tally::Tally;
use crate::{Finding, FindingId};

/// Less than a fifth of the busy time would gain little.
const SHARE_PERCENT_MIN: u64 = 20;

/// Less than this in all is nothing to change a program for.
const COST_NS_MIN: u64 = 10_000_000;

/// A window that is an eighth larger than any before has grown.
const GROWTH_DIVISOR: u64 = 8;

/// Round trips before and after a growth in which the window may be about to grow: the receiver doubles it in
/// one or two.
const GROWTH_ROUND_TRIPS: u64 = 4;

/// The largest window without the window scale option (RFC 7323 §2.2).
pub(super) const UNSCALED_BYTES_MAX: u64 = 65_535;

pub(super) fn find(facts: &FlowFacts<'_>, is_reader_slow: bool) -> Option<Finding> {
    let is_path = facts.base_rtt_ns.is_some_and(|rtt_ns| rtt_ns >= PATH_RTT_NS_MIN);
    let is_set = facts.receive_buffer.is_set_by_program;
    if is_reader_slow || !(is_path || is_set) {
        return None;
    }
    let held = held(facts);
    let cost_ns = held.total_ns();
    if cost_ns < COST_NS_MIN || !facts.is_share_of_busy(cost_ns, SHARE_PERCENT_MIN) {
        return None;
    }
    let mut tally = Tally::of_times(held.len(), &held);
    note(&mut tally, facts, &held);
    let (sender, receiver) = (facts.who(facts.sender()), facts.who(facts.receiver()));
    let summary = format!(
        "The {sender} was held by the {receiver}'s full receive window {} ({}), \
         although the {} reads at once.",
        phrasing::counted(tally.count, "time"),
        facts.share_of_busy(cost_ns),
        facts.receiver().name(),
    );
    let fix = if is_set {
        format!(
            "In the {receiver}: do not set SO_RCVBUF (the kernel sizes the buffer), or set it higher."
        )
    } else if largest_bytes(facts).is_some_and(|bytes| bytes <= UNSCALED_BYTES_MAX) {
        format!(
            "On both hosts: the {receiver} offered at most 64 KiB; check that window scaling is agreed on \
             (net.ipv4.tcp_window_scaling is 1, and no device on the path removes the option from the SYN). Only \
             with it does a larger third value of net.ipv4.tcp_rmem on the host of the {receiver} help."
        )
    } else {
        format!("On the host of the {receiver}: raise the third value of net.ipv4.tcp_rmem.")
    };
    Some(tally.into_finding(FindingId::ReceiveWindowLimited, facts, facts.receiver(), summary, fix))
}

/// Times in which the window kept data in the send queue, without those of the reader or of a queue.
pub(super) fn held(facts: &FlowFacts<'_>) -> Intervals {
    held_by(&facts.holds, Hold::Rwnd)
        .intersect(&facts.times_in(&HELD_OR_ON_THE_PATH))
        .without(&facts.interface.occupied)
        .without(&growing(facts))
        .without(&facts.doubt.sending)
}

/// The send windows that were recorded, in time order: when, and their bytes.
pub(super) fn windows<'a>(facts: &FlowFacts<'a>) -> impl Iterator<Item = (u64, u64)> + use<'a> {
    let events = facts.view.flow().events_of(Kind::SendWindow);
    events.filter_map(|event| Some((event.at_ns, event.send_window()?.bytes)))
}

fn largest_bytes(facts: &FlowFacts<'_>) -> Option<u64> {
    windows(facts).map(|(_, bytes)| bytes).max()
}

/// The times in which the window may have been about to grow, without a change by the user.
fn growing(facts: &FlowFacts<'_>) -> Intervals {
    let around_ns = facts.base_rtt_ns.unwrap_or(0).saturating_mul(GROWTH_ROUND_TRIPS);
    let mut largest = 0_u64;
    let grown = windows(facts).filter(|&(_, bytes)| {
        let before = largest;
        largest = bytes.max(before);
        before > 0 && bytes > before.saturating_add(before / GROWTH_DIVISOR)
    });
    Intervals::union_of(grown.map(|(at_ns, _)| {
        Interval::new(at_ns.saturating_sub(around_ns), at_ns.saturating_add(around_ns))
    }))
}

fn note(tally: &mut Tally, facts: &FlowFacts<'_>, held: &Intervals) {
    if let Some((at_ns, bytes)) = windows(facts).max_by_key(|(_, bytes)| *bytes) {
        tally
            .notes
            .add(at_ns, || format!("the largest window that the receiver offered: {bytes} bytes"));
    }
    for one in held.iter() {
        tally.notes.add(one.start_ns, || {
            let held = phrasing::time(one.duration_ns());
            format!("unsent data waits {held} for the receive window; the receive queue is empty")
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{Fixture, found};
    use insta::assert_snapshot;

    /// Five windows over a path of 20 ms; the sender is held by the window for most of the time.
    fn windows(event: &str) -> String {
        let rounds: String = (0..5)
            .map(|i| format!("{}ms 2-4 +1000 rwnd | {}ms 5-8 +1000 |", i * 20, i * 20 + 10))
            .collect();
        format!("{event} | 0ms 1 +6000 | {rounds} 100ms 2 +1000")
    }

    const PATH: &str = "0ms tcp-state extra=20000";
    const WIRE: &str = "0ms wire | 100ms end";

    #[test]
    fn a_window_that_closes_each_round_trip_over_a_long_path_is_found() {
        assert_snapshot!(found(&windows(PATH), WIRE), @"receive-window-limited @server 1x 100 ms: The client was held by the server's full receive window 1 time (100 % of 100 ms with bytes under way), although the server reads at once.");
    }

    /// Five windows over a path of 20 ms, each as large as this.
    fn told(bytes: [u64; 5]) -> String {
        let told = bytes.iter().enumerate().map(|(i, bytes)| {
            let at = i * 20;
            format!("{at}ms send-window detail={bytes} extra=1000 |")
        });
        format!("{PATH} | {} {}", told.collect::<String>(), windows("0ms tcp-state extra=20000"))
    }

    #[test]
    fn a_window_that_still_grows_is_no_limit() {
        assert_snapshot!(found(&told([1000, 2000, 4000, 8000, 16_000]), WIRE), @"");
        assert_snapshot!(found(&told([100_000; 5]), WIRE), @"receive-window-limited @server 1x 100 ms: The client was held by the server's full receive window 1 time (100 % of 100 ms with bytes under way), although the server reads at once.");
        assert_snapshot!(found(&told([100_000, 101_000, 102_000, 103_000, 104_000]), WIRE), @"receive-window-limited @server 1x 100 ms: The client was held by the server's full receive window 1 time (100 % of 100 ms with bytes under way), although the server reads at once.");
    }

    #[test]
    fn where_no_window_above_64_kib_was_offered_scaling_may_not_be_agreed_on() {
        let fix = |bytes: u64| Fixture::new(&told([bytes; 5]), WIRE).findings()[0].fix.clone();
        assert_snapshot!(fix(65_535), @"On both hosts: the server offered at most 64 KiB; check that window scaling is agreed on (net.ipv4.tcp_window_scaling is 1, and no device on the path removes the option from the SYN). Only with it does a larger third value of net.ipv4.tcp_rmem on the host of the server help.");
        assert_snapshot!(fix(65_536), @"On the host of the server: raise the third value of net.ipv4.tcp_rmem.");
    }

    #[test]
    fn on_loopback_a_full_window_is_found_only_when_the_program_set_the_buffer() {
        assert_snapshot!(found(&windows("0ms tcp-state extra=50"), WIRE), @"");
        let set = "0ms tcp-state extra=50 | 0ms <buffers high=2304 code=2";
        assert_snapshot!(found(&windows(set), WIRE), @"receive-window-limited @server 1x 100 ms: The client was held by the server's full receive window 1 time (100 % of 100 ms with bytes under way), although the server reads at once.");
    }

    #[test]
    fn a_window_closed_by_unread_data_is_the_readers() {
        assert_snapshot!(found(&windows(PATH), "0ms receive_queue.app | 100ms end"), @"");
    }

    #[test]
    fn a_window_met_now_and_then_is_no_limit() {
        assert_snapshot!(found(&windows(PATH), "0ms wire | 600ms end"), @"");
    }

    #[test]
    fn without_any_round_trip_time_nothing_is_certain() {
        assert_snapshot!(found(&windows("0ms send-window detail=1000 extra=1448"), WIRE), @"");
    }
}
