//! `pacing-limited`: data waits because the program bounds the rate of its socket (`SO_MAX_PACING_RATE`).
//!
//! The kernel paces by itself too (BBR, ...): only the rate that the program set counts, and only where the flow got
//! that rate. TCP holds the data in the send queue, or the `fq` queue of the interface does.

use sockscope_record::{Hold, Kind, Point, Record};

use super::facts::{FlowFacts, HELD_OR_ON_THE_PATH};
use super::holds::held_by;
use super::intervals::{Interval, Intervals};
use super::phrasing;
use super::send_buffer_limited::MAX_PACING_RATE;
use super::tally::Tally;
use crate::{Finding, FindingId, LedgerPart};

/// As much means no bound. Of a rate of 64 bits the lower half is recorded.
const UNBOUNDED: u32 = u32::MAX;

/// The rate bounds the flow only if it does so most of the time.
const SHARE_PERCENT_MIN: u64 = 50;

/// Less than this in all is nothing to change a program for.
const COST_NS_MIN: u64 = 10_000_000;

/// The rate of headers and data is the bound where the data has this much of it. The kernel lets bursts pass, and
/// counts headers.
const RATE_PERCENT_MIN: u128 = 60;
const RATE_PERCENT_MAX: u128 = 120;

/// TCP paces no earlier segments of a connection (`tcp_update_skb_after_send()` in net/ipv4/tcp_output.c).
const UNPACED_SEGMENTS: u128 = 10;

/// Times in which a rate was set.
struct Bound {
    rate_bytes_per_s: u32,
    asked_ns: u64,
    times: Interval,
}

pub(super) fn find(facts: &FlowFacts<'_>) -> Option<Finding> {
    let bounds = bounds(facts);
    if bounds.is_empty() {
        return None;
    }
    let paced = held_by(&facts.holds, Hold::Pacing);
    let paced = Intervals::union_of(paced.iter().chain(facts.interface.occupied.iter()));
    let explained = Intervals::union_of(
        facts
            .times_in(&HELD_OR_ON_THE_PATH)
            .iter()
            .chain(facts.times_in(&[LedgerPart::InterfaceQueue]).iter()),
    );
    let bounded = bounds.into_iter().map(|bound| {
        let paced = paced.intersect(&Intervals::union_of([bound.times]));
        let held = paced.intersect(&explained).without(&facts.doubt.sending_socket);
        (bound, paced, held)
    });
    let (bound, paced, held) = bounded.max_by_key(|(_, _, held)| held.total_ns())?;
    let cost_ns = held.total_ns();
    let is_most = facts.is_share_of_busy(cost_ns, SHARE_PERCENT_MIN);
    if cost_ns < COST_NS_MIN || !is_most || !is_the_rate(facts, &bound, &paced) {
        return None;
    }
    let mut tally = Tally::of_times(held.len(), &held);
    tally.notes.add(bound.asked_ns, || {
        format!("SO_MAX_PACING_RATE is set to {} bytes a second", bound.rate_bytes_per_s)
    });
    for one in held.iter().take(Finding::EVIDENCE_MAX - 1) {
        tally.notes.add(one.start_ns, || {
            format!("unsent data waits {} for its time", phrasing::time(one.duration_ns()))
        });
    }
    let sender = facts.who(facts.sender());
    let summary = format!(
        "The {sender} bounds its socket to {} bytes a second (SO_MAX_PACING_RATE), and its data waited for that {} \
         ({}).",
        bound.rate_bytes_per_s,
        phrasing::time(cost_ns),
        facts.share_of_busy(cost_ns),
    );
    let fix = format!(
        "In the {sender}: raise SO_MAX_PACING_RATE or do not set it, unless the rate is wanted."
    );
    Some(tally.into_finding(FindingId::PacingLimited, facts, facts.sender(), summary, fix))
}

/// The rates that the program set, each until the next one.
fn bounds(facts: &FlowFacts<'_>) -> Vec<Bound> {
    let events = facts.view.flow().events_of(Kind::SocketOption);
    let asked: Vec<_> = events
        .filter_map(|event: &Record| Some((event.at_ns, event.socket_option()?)))
        .filter(|(_, option)| option.name == MAX_PACING_RATE)
        .collect();
    let until = asked.iter().skip(1).map(|(at_ns, _)| *at_ns).chain([facts.view.end_ns]);
    let bounds = asked.iter().zip(until).map(|(&(asked_ns, option), until_ns)| Bound {
        rate_bytes_per_s: option.asked,
        asked_ns,
        times: Interval::new(asked_ns, until_ns),
    });
    bounds.filter(|bound| !matches!(bound.rate_bytes_per_s, 0 | UNBOUNDED)).collect()
}

/// Whether the data left at that rate while it was paced.
fn is_the_rate(facts: &FlowFacts<'_>, bound: &Bound, paced: &Intervals) -> bool {
    let left =
        [Point::InterfaceDequeue, Point::SendDequeue].map(|point| facts.view.flow().at(point));
    let left = left.into_iter().find(|passes| !passes.is_empty()).unwrap_or_default();
    let within = |at_ns: u64| paced.touches(Interval::new(at_ns.saturating_sub(1), at_ns + 1));
    let bytes: u128 =
        left.iter().filter(|pass| within(pass.at_ns)).map(|pass| u128::from(pass.len)).sum();
    let at_rate = u128::from(bound.rate_bytes_per_s) * u128::from(paced.total_ns()) / 1_000_000_000;
    let unpaced = UNPACED_SEGMENTS * u128::from(facts.segment_bytes());
    bytes * 100 >= at_rate * RATE_PERCENT_MIN
        && bytes.saturating_sub(unpaced) * 100 <= at_rate * RATE_PERCENT_MAX
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use crate::findings::testing::{evidence, found, repeat};

    const HELD: &str = "0ms send_queue.pacing | 1s end";

    /// A socket with this option, and a thousand bytes each millisecond.
    fn paced(option: &str, hold: &str) -> String {
        let sent = repeat(999, "1ms", |at| format!("{at} 2-8 +1000 {hold}"));
        format!("0ms {option} | 0ms 1 +2000000 {hold} | {sent}")
    }

    const RATE: &str = "option extra=65583 detail=1000000";

    #[test]
    fn a_rate_that_the_program_set_bounds_the_flow() {
        assert_snapshot!(found(&paced(RATE, "pacing"), HELD), @"pacing-limited @client 1x 999 ms: The client bounds its socket to 1000000 bytes a second (SO_MAX_PACING_RATE), and its data waited for that 999 ms (100 % of 1.00 s with bytes under way).");
        assert_snapshot!(evidence(&paced(RATE, "pacing"), HELD), @r"
        SO_MAX_PACING_RATE is set to 1000000 bytes a second
        unsent data waits 999 ms for its time
        ");
    }

    /// With the `fq` queue the data waits below TCP, and the interface is not the limit.
    #[test]
    fn what_waits_in_the_interfaces_queue_waits_for_the_rate_too() {
        let entered = repeat(900, "1ms", |at| format!("{at} 1-3 +1000"));
        let left =
            (1..=900).map(|i| format!("{}ms 4-8 +1000", i + 10)).collect::<Vec<_>>().join(" | ");
        let text = format!("0ms {RATE} | {entered} | {left}");
        assert_snapshot!(found(&text, "0ms interface_queue | 910ms end"), @"pacing-limited @client 1x 909 ms: The client bounds its socket to 1000000 bytes a second (SO_MAX_PACING_RATE), and its data waited for that 909 ms (100 % of 910 ms with bytes under way).");
    }

    #[test]
    fn a_pace_that_the_kernel_chose_is_silent() {
        assert_eq!(found(&paced("tcp-state extra=100", "pacing"), HELD), "");
        assert_eq!(found(&paced("option extra=65583 detail=4294967295", "pacing"), HELD), "");
    }

    #[test]
    fn a_rate_far_above_or_below_what_the_flow_got_is_not_its_bound() {
        for rate in [10_000_000, 2_000_000, 500_000] {
            let option = format!("option extra=65583 detail={rate}");
            assert_eq!(found(&paced(&option, "pacing"), HELD), "", "{rate}");
        }
    }

    #[test]
    fn a_rate_that_is_hardly_ever_felt_is_silent() {
        assert_eq!(found(&paced(RATE, "none"), "0ms wire | 1s end"), "");
        assert_eq!(
            found(&paced(RATE, "pacing"), "0ms send_queue.pacing | 1s receive_queue.app | 9s end"),
            ""
        );
    }

    #[test]
    fn a_rate_that_was_set_later_does_not_explain_what_was_before() {
        let option = "999ms option extra=65583 detail=1000000";
        let text = format!("{} | {option}", paced("tcp-state extra=100", "pacing"));
        assert_eq!(found(&text, HELD), "");
    }
}
