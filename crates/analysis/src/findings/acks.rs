//! Acknowledgments that the receiver's delayed-ACK timer made.
//!
//! RFC 9293 §3.8.6.3 lets a receiver delay an acknowledgment for less than 500 ms, to send it with
//! data. Linux waits 40 ms to 200 ms (`TCP_DELACK_MIN`, `TCP_DELACK_MAX`), BSD up to 200 ms.
//! `acks::is_timers` identifies those of the timer, for the summary of a flow as well.

use sockscope_record::{Point, tcp_flags};

use super::doubt::Doubt;
use crate::acks::{AFTER_READ_NS, is_timers};
use crate::send_hold::acks_received;
use crate::{FlowView, Passage};

/// An acknowledgment made by the delayed-ACK timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LateAck {
    /// Position up to which it acknowledges.
    pub position: u64,
    /// When the last byte acknowledged entered the receive queue.
    pub arrived_ns: u64,
    /// When the receiver sent it.
    pub made_ns: u64,
    /// When the sender got it.
    pub received_ns: u64,
}

impl LateAck {
    /// Time for which the receiver delayed it.
    pub(super) fn delay_ns(&self) -> u64 {
        self.made_ns - self.arrived_ns
    }
}

/// All of them for one flow's data, in order; empty when its receiver was not seen.
pub(super) fn late_acks(view: &FlowView<'_>, doubt: &Doubt) -> Vec<LateAck> {
    let (flow, reverse) = (view.flow(), view.reverse());
    let mut arrivals = Walk::new(flow.at(Point::ReceiveEnqueue));
    let mut reads = Walk::new(flow.at(Point::ReceiveDequeue));
    let mut received = Walk::new(acks_received(reverse));
    let mut acknowledged = 0;
    let mut late = Vec::new();
    for ack in reverse.at(Point::InterfaceEnqueue).iter().filter(|pass| is_ack(pass)) {
        if ack.acknowledged() <= acknowledged {
            continue;
        }
        acknowledged = ack.acknowledged();
        let Some(arrival) = arrivals.first_from(|pass| pass.end() >= acknowledged) else { break };
        let delay_ns = ack.at_ns.saturating_sub(arrival.at_ns);
        let just_before_ns = ack.at_ns.saturating_sub(AFTER_READ_NS);
        let read = reads.first_from(|pass| pass.at_ns >= just_before_ns);
        let has_just_read =
            read.is_some_and(|read| read.at_ns <= ack.at_ns && read.offset < acknowledged);
        if !is_timers(ack, delay_ns, has_just_read)
            || doubt.is_of_ack(arrival.at_ns, just_before_ns, ack.at_ns)
        {
            continue;
        }
        let arrived_back = received.first_from(|pass| {
            pass.at_ns >= ack.at_ns && is_ack(pass) && pass.acknowledged() >= acknowledged
        });
        debug_assert!(arrival.at_ns <= ack.at_ns);
        late.push(LateAck {
            position: acknowledged,
            arrived_ns: arrival.at_ns,
            made_ns: ack.at_ns,
            received_ns: arrived_back.map_or(ack.at_ns, |pass| pass.at_ns),
        });
    }
    late
}

/// The acknowledgment that was received within `within_ns` before `released_ns`, and not before
/// `held_ns`.
pub(super) fn released_by(
    late: &[LateAck],
    held_ns: u64,
    released_ns: u64,
    within_ns: u64,
) -> Option<&LateAck> {
    let after = late.partition_point(|ack| ack.received_ns <= released_ns);
    let ack = late[..after].last()?;
    let in_time = ack.received_ns > held_ns && released_ns - ack.received_ns <= within_ns;
    in_time.then_some(ack)
}

fn is_ack(pass: &Passage) -> bool {
    pass.tcp_flags & tcp_flags::ACK != 0 && pass.tcp_flags & (tcp_flags::SYN | tcp_flags::RST) == 0
}

/// A list of passages that is only ever searched forward.
struct Walk<'a> {
    passages: &'a [Passage],
    next: usize,
}

impl<'a> Walk<'a> {
    fn new(passages: &'a [Passage]) -> Self {
        Self { passages, next: 0 }
    }

    /// The first pass from the last answer on that is `wanted`; `None` for ever after the last.
    fn first_from(&mut self, wanted: impl Fn(&Passage) -> bool) -> Option<&'a Passage> {
        let rest = &self.passages[self.next..];
        let skipped = rest.iter().position(wanted).unwrap_or(rest.len());
        self.next += skipped;
        self.passages.get(self.next)
    }
}

#[cfg(test)]
mod tests {
    use crate::AckDelayCause;
    use crate::findings::testing::Fixture;

    fn delays_ms(text: &str) -> Vec<u64> {
        let fixture = Fixture::new(text, "");
        let late = fixture.with_flow(|view| super::late_acks(view, &super::Doubt::of(view)));
        late.iter().map(|ack| ack.delay_ns() / 1_000_000).collect()
    }

    const ARRIVED: &str = "1ms 1-7 +100 | 1ms 8 +100 |";

    #[test]
    fn a_bare_acknowledgment_40_ms_after_the_data_is_the_timers() {
        assert_eq!(delays_ms(&format!("{ARRIVED} 41ms <3-6 ack=100")), [40]);
    }

    #[test]
    fn one_that_carries_data_is_the_programs() {
        assert!(delays_ms(&format!("{ARRIVED} 41ms <3-6 +50 ack=100")).is_empty());
    }

    #[test]
    fn one_right_after_a_read_is_the_reads() {
        let text = "1ms 1-7 +100 | 41ms 8 +100 | 41ms <3-6 ack=100";
        assert!(delays_ms(text).is_empty());
    }

    #[test]
    fn a_prompt_one_and_one_beyond_half_a_second_are_not_the_timers() {
        assert!(delays_ms(&format!("{ARRIVED} 9ms <3-6 ack=100")).is_empty());
        assert!(delays_ms(&format!("{ARRIVED} 502ms <3-6 ack=100")).is_empty());
    }

    /// BSD's timer ticks every 200 ms, whenever the data arrived.
    #[test]
    fn what_is_delayed_here_is_the_timers_in_the_summary_of_the_flow_too() {
        let cases = ["", "+50", "fin"].into_iter().flat_map(|with| {
            [9, 10, 12, 34, 35, 200, 498, 499, 500].map(|delay_ms| (delay_ms, with))
        });
        for (delay_ms, with) in cases {
            let text = format!("{ARRIVED} {}ms <3-6 {with} ack=100", delay_ms + 1);
            let late = crate::testing::analyze(&text).flows[0].acks.late.clone();
            let is_timers = with.is_empty() && (10..500).contains(&delay_ms);
            assert_eq!(late == [(AckDelayCause::Timer, 1)], is_timers, "{text}: {late:?}");
            assert_eq!(delays_ms(&text).len(), usize::from(is_timers), "{text}");
        }
    }

    #[test]
    fn a_receiver_on_another_host_proves_nothing() {
        assert!(delays_ms("1ms 1-4 +100 | 41ms <5-6 ack=100").is_empty());
    }
}
