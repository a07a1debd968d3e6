//! Number of occurrences and their cost in time, from which a finding is made.

use sockscope_record::Side;

use super::facts::FlowFacts;
use super::intervals::{Interval, Intervals};
use super::phrasing::Notes;
use crate::{Finding, FindingId};

/// Number of occurrences, their cost in time and the records that show them.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) count: u64,
    pub(super) cost_ns: u64,
    /// Times of the cost, or times that bound it.
    pub(super) times: Vec<Interval>,
    pub(super) notes: Notes,
}

impl Tally {
    /// It happened `count` times and cost all of the time in `costs`.
    pub(super) fn of_times(count: usize, costs: &Intervals) -> Self {
        let times = costs.iter().collect();
        Self { count: count as u64, cost_ns: costs.total_ns(), times, notes: Notes::default() }
    }

    /// It cost the time from `start_ns` to `end_ns`.
    pub(super) fn add_cost(&mut self, start_ns: u64, end_ns: u64) {
        let cost = Interval::new(start_ns, end_ns);
        self.cost_ns += cost.duration_ns();
        self.times.push(cost);
    }

    /// Makes the finding of it.
    pub(super) fn into_finding(
        self,
        id: FindingId,
        facts: &FlowFacts<'_>,
        side: Side,
        summary: String,
        fix: String,
    ) -> Finding {
        Finding {
            id,
            flow: facts.view.flow().id,
            side,
            count: self.count,
            connections: 1,
            cost_ns: self.cost_ns,
            times: in_order(self.times),
            summary,
            evidence: self.notes.into_evidence(),
            fix,
        }
    }
}

/// Times as a finding has them.
fn in_order(times: Vec<Interval>) -> Vec<(u64, u64)> {
    let times = Intervals::union_of(times);
    times.iter().map(|one| (one.start_ns, one.end_ns)).collect()
}
