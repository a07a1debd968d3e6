//! `congestion-limited`: the congestion window keeps data in the send queue most of the busy time.
//!
//! On a path below 1 ms the window is never the cause to look at; a queue at the interface or a
//! reader that is behind explains a full window by itself, and its time is taken off.

use sockscope_record::Hold;

use super::caller_delay::FlowHolds;
use super::facts::{FlowFacts, HELD_OR_ON_THE_PATH};
use super::holds::held_by;
use super::intervals::Intervals;
use super::phrasing;
use super::resent_segment::{Content, Resent};
use super::stop_and_wait::PATH_RTT_NS_MIN;
use super::tally::Tally;
use crate::{Finding, FindingId};

/// The window bounds the flow only if it does so most of the time.
pub(super) const SHARE_PERCENT_MIN: u64 = 50;

/// A short transfer's slow start is not worth a word.
const COST_NS_MIN: u64 = 50_000_000;

pub(super) fn find(facts: &FlowFacts<'_>) -> Option<Finding> {
    let held = held(facts);
    let cost_ns = held.total_ns();
    if cost_ns < COST_NS_MIN || !facts.is_share_of_busy(cost_ns, SHARE_PERCENT_MIN) {
        return None;
    }
    let mut tally = Tally::of_times(held.len(), &held);
    note(&mut tally, facts, &held);
    let sender = facts.who(facts.sender());
    let is_loss = |one: &&Resent| one.was_needed && one.content == Content::Data;
    let losses = facts.resent.iter().filter(is_loss).count() as u64;
    let why = match losses {
        0 => "no data had to be sent again".to_owned(),
        _ => format!("{} had to be sent again", phrasing::counted(losses, "range")),
    };
    let summary = format!(
        "The congestion window held data of the {sender} for {} ({}); {why}.",
        phrasing::time(cost_ns),
        facts.share_of_busy(cost_ns),
    );
    let fix = fix(&sender, losses > 0);
    Some(tally.into_finding(FindingId::CongestionLimited, facts, facts.sender(), summary, fix))
}

/// Times in which the window held data without another cause; empty on a short path.
fn held(facts: &FlowFacts<'_>) -> Intervals {
    if facts.base_rtt_ns.is_none_or(|rtt_ns| rtt_ns < PATH_RTT_NS_MIN) {
        return Intervals::default();
    }
    held_by(&facts.holds, Hold::Cwnd)
        .intersect(&facts.times_in(&HELD_OR_ON_THE_PATH))
        .without(&facts.interface.occupied)
        .without(&facts.doubt.sending)
}

/// The same times, for the sum over the callers' waits.
pub(super) fn holds(facts: &FlowFacts<'_>) -> FlowHolds {
    FlowHolds::of_times(FindingId::CongestionLimited, facts.view.direction, &held(facts))
}

pub(super) fn fix(sender: &str, has_losses: bool) -> String {
    if has_losses {
        return format!(
            "Find the losses on the path first; on the {sender}'s host \
             net.ipv4.tcp_congestion_control=bbr suffers less from random ones."
        );
    }
    format!(
        "On the {sender}'s side: keep the connection open and reuse it; \
         net.ipv4.tcp_slow_start_after_idle=0; a larger initcwnd on the route."
    )
}

fn note(tally: &mut Tally, facts: &FlowFacts<'_>, held: &Intervals) {
    let events = facts.view.flow().events.iter();
    let mut states = events.filter_map(|event| Some((event.at_ns, event.congestion()?)));
    for one in held.iter().take(Finding::EVIDENCE_MAX / 2) {
        tally.notes.add(one.start_ns, || {
            let held = phrasing::time(one.duration_ns());
            format!("unsent data waits {held} for the congestion window")
        });
        if let Some((at_ns, state)) = states.find(|(at_ns, _)| *at_ns >= one.start_ns) {
            tally.notes.add(at_ns, || {
                let rtt = phrasing::time(u64::from(state.smoothed_rtt_us) * 1_000);
                format!(
                    "congestion window {} packets, threshold {}, {} in flight, round trip {rtt}",
                    state.window_packets, state.threshold_packets, state.in_flight_packets
                )
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::found;
    use insta::assert_snapshot;

    /// Five round trips of 20 ms in which the window holds data.
    fn rounds(srtt_us: u64, hold: &str) -> String {
        let rounds: String = (0..5)
            .map(|i| format!("{}ms 2-4 +1000 {hold} | {}ms 5-8 +1000 |", i * 20, i * 20 + 10))
            .collect();
        format!(
            "0ms tcp-state len=10 detail=10 extra={srtt_us} | 0ms 1 +6000 | {rounds} 100ms 2 +1000"
        )
    }

    #[test]
    fn a_syn_that_was_sent_again_is_no_dropped_data() {
        let again = "0ms 3-4 syn | 100ms 3-4 syn | 100006us retransmit code=5 |";
        let found = found(&format!("{again} {}", rounds(20_000, "cwnd")), WIRE);
        let said = found.lines().find(|line| line.starts_with("congestion-limited"));
        assert!(
            said.is_some_and(|said| said.ends_with("no data had to be sent again.")),
            "{found}"
        );
    }

    const WIRE: &str = "0ms wire | 100ms end";

    #[test]
    fn slow_start_over_a_long_path_is_said_to_be_growth() {
        assert_snapshot!(found(&rounds(20_000, "cwnd"), WIRE), @"congestion-limited @client 1x 100 ms: The congestion window held data of the client for 100 ms (100 % of 100 ms with bytes under way); no data had to be sent again.");
    }

    #[test]
    fn after_losses_the_losses_are_named() {
        // Code 2: fast.
        let text = format!("{} | 50ms retransmit 1000..2000 code=2", rounds(20_000, "cwnd"));
        assert_snapshot!(found(&text.replace("30ms 5-8 +1000", "60ms 5-8 +1000"), WIRE), @r#"
        congestion-limited @client 1x 100 ms: The congestion window held data of the client for 100 ms (100 % of 100 ms with bytes under way); 1 range had to be sent again.
        retransmission @client 1x 30.0 ms: 1 range of the client had to be sent again (1 fast).
        "#);
    }

    #[test]
    fn on_loopback_the_window_is_never_the_reason() {
        assert_snapshot!(found(&rounds(60, "cwnd"), WIRE), @"");
    }

    #[test]
    fn behind_a_queue_at_the_interface_the_window_is_an_effect() {
        assert_snapshot!(found(&rounds(20_000, "cwnd"), "0ms interface_queue | 100ms end"), @"");
    }

    #[test]
    fn a_transfer_held_a_third_of_its_time_is_not_limited_by_it() {
        assert_snapshot!(found(&rounds(20_000, "cwnd"), "0ms wire | 300ms end"), @"");
    }

    #[test]
    fn pacing_is_another_hold() {
        assert_snapshot!(found(&rounds(20_000, "pacing"), WIRE), @"");
    }
}
