//! `no-window-scaling`: the window is full at the largest size in a header without window scaling.
//!
//! An explanation of `receive-window-limited`, which is not reported then. The windows of a connection are scaled
//! only where both SYNs have the option (RFC 7323 §2.2). Each end chooses its scale in its SYN, by the receive
//! buffer that it has then. The trace shows the end that has no scale. Such a flow has no limit here where the
//! window is smaller than the header allows: then the buffer is the limit.

use std::collections::BTreeSet;

use sockscope_record::{Side, WindowScale};

use super::facts::FlowFacts;
use super::intervals::{Interval, Intervals};
use super::phrasing;
use super::receive_window_limited::{UNSCALED_BYTES_MAX, held, windows};
use super::tally::Tally;
use crate::{Finding, FindingId, FlowStore};

/// The window is fully open when less than a segment is missing: a receiver offers whole segments. Where segments
/// are as large as the window, half of it is.
const OPEN_DIVISOR: u64 = 2;

/// At least half of the time in which the window held the sender it was fully open.
const OPEN_TIME_DIVISOR: u64 = 2;

/// The end that does not scale the windows, and the reason.
struct Cause {
    side: Side,
    scale: WindowScale,
    /// Both hosts.
    is_of_both: bool,
}

/// Of a flow that the receive window limits.
pub(super) fn find(facts: &FlowFacts<'_>) -> Option<Finding> {
    let cause = Cause::of(facts)?;
    let all = held(facts);
    let most = cause.window_bytes_max(facts);
    let held = all.intersect(&fully_open(facts, most));
    if held.total_ns().saturating_mul(OPEN_TIME_DIVISOR) < all.total_ns() {
        return None;
    }
    let mut tally = Tally::of_times(held.len(), &held);
    if let Some((at_ns, bytes)) = windows(facts).max_by_key(|(_, bytes)| *bytes) {
        let text = || format!("the largest window that the receiver offered: {bytes} bytes");
        tally.notes.add(at_ns, text);
    }
    for one in held.iter() {
        tally.notes.add(one.start_ns, || {
            let held = phrasing::time(one.duration_ns());
            format!("unsent data waits {held} for the receive window, which is fully open")
        });
    }
    let sender = facts.who(facts.sender());
    let rtt_ns = facts.base_rtt_ns.unwrap_or(0);
    let rate = phrasing::bit_rate(most, rtt_ns)
        .map(|rate| format!(", which are {rate} in a round trip of {}", phrasing::time(rtt_ns)));
    let summary = format!(
        "The {sender} had at most {most} bytes in flight{}, as {}. Its data waited for the window {} \
         ({}).",
        rate.unwrap_or_default(),
        cause.reason(facts),
        phrasing::counted(tally.count, "time"),
        facts.share_of_busy(tally.cost_ns),
    );
    let fix = cause.fix(facts);
    Some(tally.into_finding(FindingId::NoWindowScaling, facts, cause.side, summary, fix))
}

/// The times in which the receiver offered nearly as much as `most`.
fn fully_open(facts: &FlowFacts<'_>, most: u64) -> Intervals {
    let segment = u64::from(facts.segment_bytes());
    let least = most.saturating_sub(segment).max(most / OPEN_DIVISOR);
    let mut windows = windows(facts).peekable();
    let mut open = Vec::new();
    while let Some((at_ns, bytes)) = windows.next() {
        let until_ns = windows.peek().map_or(facts.view.end_ns, |next| next.0);
        if bytes >= least && at_ns < until_ns {
            open.push(Interval::new(at_ns, until_ns));
        }
    }
    Intervals::union_of(open)
}

impl Cause {
    fn of(facts: &FlowFacts<'_>) -> Option<Self> {
        let (sender, receiver) = (facts.sender(), facts.receiver());
        let of_sender = scales(facts.view.flow());
        let of_receiver = scales(facts.view.reverse());
        let has = |scale| [of_receiver.contains(&scale), of_sender.contains(&scale)];
        let missing = |scale| match has(scale) {
            [false, false] => None,
            [is_receiver, is_sender] => Some(Self {
                side: if is_receiver { receiver } else { sender },
                scale,
                is_of_both: is_receiver && is_sender,
            }),
        };
        let is_late = of_receiver.contains(&WindowScale::Unshifted) && has_grown(facts);
        let late = is_late.then_some(Self {
            side: receiver,
            scale: WindowScale::Unshifted,
            is_of_both: false,
        });
        missing(WindowScale::NotOffered).or_else(|| missing(WindowScale::NotReceived)).or(late)
    }

    /// The largest window. Linux keeps windows within the buffer that the receiver had when it chose its scale
    /// (`window_clamp` of `tcp_select_initial_window()`), even if that is larger later.
    fn window_bytes_max(&self, facts: &FlowFacts<'_>) -> u64 {
        let largest = windows(facts).map(|(_, bytes)| bytes).max();
        match (self.scale, largest) {
            (WindowScale::Unshifted, Some(bytes)) => bytes.min(UNSCALED_BYTES_MAX),
            _ => UNSCALED_BYTES_MAX,
        }
    }

    fn reason(&self, facts: &FlowFacts<'_>) -> String {
        let who = facts.who(self.side);
        match (self.scale, self.is_of_both) {
            (WindowScale::NotOffered, true) => "neither host offers window scaling".to_owned(),
            (WindowScale::NotOffered, false) => {
                format!("the host of the {who} does not offer window scaling")
            }
            (WindowScale::NotReceived, true) => {
                "the path takes the window scale option out of the SYNs".to_owned()
            }
            (WindowScale::NotReceived, false) => {
                format!("no window scale option arrived from the host of the {who}")
            }
            (WindowScale::Unshifted, _) => format!(
                "the {who} had a receive buffer below 64 KiB when the connection opened, which bounds all its windows"
            ),
        }
    }

    fn fix(&self, facts: &FlowFacts<'_>) -> String {
        let who = facts.who(self.side);
        match (self.scale, self.is_of_both) {
            (WindowScale::NotOffered, true) => {
                "On both hosts: set net.ipv4.tcp_window_scaling to 1. Connections that open later scale their windows."
                    .to_owned()
            }
            (WindowScale::NotOffered, false) => format!(
                "On the host of the {who}: set net.ipv4.tcp_window_scaling to 1. Connections that open later scale \
                 their windows."
            ),
            (WindowScale::NotReceived, true) => {
                "On the path: find the firewall or router that removes the option (tcpdump shows wscale in a SYN)."
                    .to_owned()
            }
            (WindowScale::NotReceived, false) => format!(
                "On the host of the {who}: set net.ipv4.tcp_window_scaling to 1. If it is, a device on the path \
                 removes the option from the SYN (tcpdump shows it as wscale)."
            ),
            (WindowScale::Unshifted, _) => format!(
                "In the {who}: set SO_RCVBUF before connect() or listen(), or do not set it (the kernel sizes the \
                 buffer). A buffer that grows later does not change the scale."
            ),
        }
    }
}

/// Reasons why the end that sends `flow` has no scale, by the records of its own host and of its peer's.
fn scales(flow: &FlowStore) -> BTreeSet<WindowScale> {
    flow.events.iter().filter_map(|event| event.window_scale()).collect()
}

/// Whether the receive buffer holds more data than an unscaled window lets in.
fn has_grown(facts: &FlowFacts<'_>) -> bool {
    facts.receive_buffer.data_bytes().is_some_and(|bytes| bytes > UNSCALED_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use crate::findings::testing::Fixture;

    const WIRE: &str = "0ms wire | 100ms end";

    /// Five windows of this size over a path of 20 ms, which hold the sender; and the known scales.
    fn windows(bytes: u64, scales: &str) -> Fixture {
        let rounds: String = (0..5)
            .map(|i| {
                let at = i * 20;
                format!("{at}ms send-window detail={bytes} extra=1000 | {at}ms 2-4 +1000 rwnd | {}ms 5-8 +1000 |", at + 10)
            })
            .collect();
        let text =
            format!("0ms tcp-state extra=20000 | 0ms 1 +6000 | {scales} | {rounds} 100ms 2 +1000");
        Fixture::new(&text, WIRE)
    }

    /// The end that sends the server's flow, here the receiver, and the client's.
    const RECEIVER: &str = "0ms <window-scale code=0";
    const SENDER: &str = "0ms window-scale code=0";

    #[test]
    fn a_full_window_of_64_kib_without_scaling_is_found() {
        assert_snapshot!(windows(65_160, RECEIVER).found(), @"no-window-scaling @server 1x 100 ms: The client had at most 65535 bytes in flight, which are 26.2 Mbit/s in a round trip of 20.0 ms, as the host of the server does not offer window scaling. Its data waited for the window 1 time (100 % of 100 ms with bytes under way).");
    }

    #[test]
    fn the_side_that_lacks_it_is_named_with_what_to_change() {
        let said = |scales: &str| {
            let finding = windows(65_160, scales).findings().remove(0);
            format!("{} @{}: {}", finding.id.name(), finding.side.name(), finding.fix)
        };
        assert_snapshot!(said(RECEIVER), @"no-window-scaling @server: On the host of the server: set net.ipv4.tcp_window_scaling to 1. Connections that open later scale their windows.");
        assert_snapshot!(said(SENDER), @"no-window-scaling @client: On the host of the client: set net.ipv4.tcp_window_scaling to 1. Connections that open later scale their windows.");
        assert_snapshot!(said(&format!("{SENDER} | {RECEIVER}")), @"no-window-scaling @server: On both hosts: set net.ipv4.tcp_window_scaling to 1. Connections that open later scale their windows.");
        // The server's host offers it, and the client's SYN has no scale.
        assert_snapshot!(said("0ms window-scale code=1"), @"no-window-scaling @client: On the host of the client: set net.ipv4.tcp_window_scaling to 1. If it is, a device on the path removes the option from the SYN (tcpdump shows it as wscale).");
        assert_snapshot!(said("0ms window-scale code=1 | 0ms <window-scale code=1"), @"no-window-scaling @server: On the path: find the firewall or router that removes the option (tcpdump shows wscale in a SYN).");
        // The end's own record of its scale decides.
        assert!(
            said(&format!("{RECEIVER} | 0ms window-scale code=1"))
                .contains("@server: On the host of the server: set")
        );
    }

    #[test]
    fn a_buffer_that_grew_after_the_syn_does_not_change_the_scale() {
        let late = "0ms <window-scale code=2 | 1ms <buffers high=4000000 code=2";
        assert_snapshot!(windows(65_160, late).found(), @"no-window-scaling @server 1x 100 ms: The client had at most 65160 bytes in flight, which are 26.1 Mbit/s in a round trip of 20.0 ms, as the server had a receive buffer below 64 KiB when the connection opened, which bounds all its windows. Its data waited for the window 1 time (100 % of 100 ms with bytes under way).");
        let found = windows(20_000, late).found();
        assert!(found.starts_with("no-window-scaling @server"), "{found}");
        assert!(found.contains("at most 20000 bytes in flight, which are 8.00 Mbit/s"), "{found}");
        // A buffer that is as small as the window is the limit itself.
        let small = late.replace("4000000", "60000");
        let found = windows(65_160, &small).found();
        assert!(found.starts_with("receive-window-limited"), "{found}");
    }

    #[test]
    fn a_smaller_window_is_not_limited_by_its_header() {
        let found = windows(20_000, RECEIVER).found();
        assert!(found.starts_with("receive-window-limited"), "{found}");
    }

    #[test]
    fn a_scaled_window_is_silent() {
        let found = windows(65_160, "0ms <window-scale code=2").found();
        assert!(found.starts_with("receive-window-limited"), "{found}");
    }

    #[test]
    fn where_no_time_is_lost_an_unscaled_window_is_silent() {
        let near = "0ms tcp-state extra=50 | 0ms 1 +6000 | 0ms <window-scale code=0 |
             0ms send-window detail=65160 extra=1000 | 0ms 2-4 +1000 rwnd | 100ms 2 +1000";
        assert_snapshot!(Fixture::new(near, WIRE).found(), @"");
        let free = "0ms tcp-state extra=20000 | 0ms <window-scale code=0 |
             0ms send-window detail=65160 extra=1000 | 0ms 1-4 +1000 | 10ms 5-8 +1000 | 100ms 1 +1";
        assert_snapshot!(Fixture::new(free, WIRE).found(), @"");
    }
}
