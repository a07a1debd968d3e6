//! The times at which TCP kept data in the send queue, with the reasons by the kernel's own fields.
//!
//! Unlike the ledger this looks at the first *unsent* byte, which matters for transfers that keep the
//! path full.

use sockscope_record::Hold;

use super::intervals::{Interval, Intervals};
use crate::{FlowView, send_hold};

/// From `start_ns` to `end_ns` unsent bytes waited because of `hold`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HoldSpan {
    pub start_ns: u64,
    pub end_ns: u64,
    pub hold: Hold,
}

/// All holds of a flow; neighbours with the same cause are one.
pub(super) fn hold_spans(view: &FlowView<'_>) -> Vec<HoldSpan> {
    let mut spans: Vec<HoldSpan> = Vec::new();
    let mut open: Option<(u64, Hold)> = None;
    for step in send_hold::steps(view.store, view.direction) {
        close(&mut spans, open, step.at_ns);
        let is_held = step.hold != Hold::None && step.unsent_bytes > 0;
        open = is_held.then_some((step.at_ns, step.hold));
    }
    close(&mut spans, open, view.end_ns);
    spans
}

/// The times at which one of `holds` was the cause.
pub(super) fn held_by(spans: &[HoldSpan], hold: Hold) -> Intervals {
    let of_it = spans.iter().filter(|span| span.hold == hold);
    Intervals::union_of(of_it.map(|span| Interval::new(span.start_ns, span.end_ns)))
}

fn close(spans: &mut Vec<HoldSpan>, open: Option<(u64, Hold)>, end_ns: u64) {
    let Some((start_ns, hold)) = open.filter(|&(start_ns, _)| start_ns < end_ns) else { return };
    debug_assert!(spans.last().is_none_or(|last| last.end_ns <= start_ns));
    match spans.last_mut() {
        Some(last) if last.hold == hold && last.end_ns == start_ns => last.end_ns = end_ns,
        _ => spans.push(HoldSpan { start_ns, end_ns, hold }),
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::Fixture;

    fn holds(text: &str) -> Vec<String> {
        let fixture = Fixture::new(text, "");
        let spans = fixture.with_flow(super::hold_spans);
        let said = spans.iter().map(|s| format!("{}..{} {}", s.start_ns, s.end_ns, s.hold.name()));
        said.collect()
    }

    #[test]
    fn a_hold_lasts_until_the_next_segment_and_neighbours_merge() {
        let text = "10 1 +300 cwnd | 20 2 +100 cwnd | 30 2 +100 rwnd | 40 2 +100";
        assert_eq!(holds(text), ["10..30 cwnd", "30..40 rwnd"]);
    }

    #[test]
    fn nothing_is_held_when_all_is_sent() {
        assert!(holds("10 1 +100 | 11 2 +100 cwnd | 50 8 +100").is_empty());
    }

    #[test]
    fn a_hold_without_end_lasts_as_long_as_the_trace() {
        assert_eq!(holds("10 1 +100 rwnd | 90 <6 +1"), ["10..90 rwnd"]);
    }
}
