//! The cost of findings over the last seconds.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use sockscope_analysis::{Analysis, Finding, FindingId, FreshCost};
use sockscope_record::ConnectionId;

use crate::condition::{Condition, Subject};

/// Costs of findings in the parts of the recording that were analysed last.
///
/// A part is the time between two analyses. A condition looks at whole parts: at those that end within its time, the
/// last one included.
#[derive(Debug)]
pub struct Recent {
    parts: VecDeque<Part>,
    /// Parts that ended longer ago are dropped.
    keep_ns: u64,
}

#[derive(Debug)]
struct Part {
    until_ns: u64,
    /// Of the finding of each connection that costs most.
    lost_ns: u64,
    findings: BTreeMap<FindingId, Cost>,
    worst: Option<Worst>,
}

#[derive(Debug, Default)]
struct Cost {
    ns: u64,
    worst: Option<Worst>,
}

/// A condition, and whether it held at the last look.
#[derive(Debug)]
pub struct Watched {
    condition: Condition,
    /// When it began to hold, where it holds.
    since_ns: Option<u64>,
}

/// A condition that holds for so long counts as one that begins again.
const AGAIN_AFTER_NS: u64 = 3_600_000_000_000;

impl Watched {
    /// It did not hold yet.
    pub fn new(condition: Condition) -> Self {
        Self { condition, since_ns: None }
    }

    /// The condition.
    pub fn condition(&self) -> &Condition {
        &self.condition
    }

    /// The worst finding, where the condition begins to hold. One that goes on holding says so each hour.
    pub fn begins(&mut self, recent: &Recent, now_ns: u64) -> Option<Worst> {
        let holds = recent.holds(&self.condition);
        let is_known =
            self.since_ns.is_some_and(|at_ns| now_ns.saturating_sub(at_ns) < AGAIN_AFTER_NS);
        match holds {
            Some(_) if is_known => None,
            Some(worst) => {
                self.since_ns = Some(now_ns);
                Some(worst)
            }
            None => {
                self.since_ns = None;
                None
            }
        }
    }
}

/// The finding that cost most of those that count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worst {
    /// Where.
    pub connection: ConnectionId,
    /// Which.
    pub finding: FindingId,
    /// Its cost. That of an open wait is from its beginning on.
    pub cost_ns: u64,
    /// One sentence with the figures.
    pub summary: String,
}

impl Recent {
    /// For conditions that look back for so long at most.
    pub fn new(longest: Duration) -> Self {
        let keep_ns = u64::try_from(longest.as_nanos()).unwrap_or(u64::MAX);
        Self { parts: VecDeque::new(), keep_ns }
    }

    /// Takes the analysis of the next part, which ends at `until_ns`, with its
    /// [fresh costs](sockscope_analysis::FreshCosts).
    pub fn push(&mut self, analysis: &Analysis, costs: &[FreshCost], until_ns: u64) {
        let mut part = Part { until_ns, lost_ns: 0, findings: BTreeMap::new(), worst: None };
        for (one, fresh) in analysis.connections.iter().zip(costs) {
            part.lost_ns = part.lost_ns.saturating_add(fresh.lost_ns);
            for (finding, fresh_ns) in one.findings.iter().zip(&fresh.findings_ns) {
                let worst = Worst::of(one.connection.id, finding);
                let cost = part.findings.entry(finding.id).or_default();
                cost.ns = cost.ns.saturating_add(*fresh_ns);
                keep_worst(&mut cost.worst, &worst);
                keep_worst(&mut part.worst, &worst);
            }
        }
        self.parts.push_back(part);
        let oldest_ns = until_ns.saturating_sub(self.keep_ns);
        while self.parts.front().is_some_and(|part| part.until_ns <= oldest_ns) {
            self.parts.pop_front();
        }
    }

    /// The finding that costs most of those that the condition counts, where the condition holds now.
    ///
    /// A finding without a cost, as one of a connection that did not open, holds by its presence.
    pub fn holds(&self, condition: &Condition) -> Option<Worst> {
        let now_ns = self.parts.back()?.until_ns;
        let within_ns = u64::try_from(condition.within.as_nanos()).unwrap_or(u64::MAX);
        let since_ns = now_ns.saturating_sub(within_ns);
        let parts = self.parts.iter().filter(|part| part.until_ns > since_ns);
        let (mut sum_ns, mut worst) = (0u64, None);
        for part in parts {
            let (ns, of_part) = match condition.subject {
                Subject::Lost => (part.lost_ns, &part.worst),
                Subject::Finding(id) => match part.findings.get(&id) {
                    Some(cost) => (cost.ns, &cost.worst),
                    None => continue,
                },
            };
            sum_ns = sum_ns.saturating_add(ns);
            if let Some(of_part) = of_part {
                keep_worst(&mut worst, of_part);
            }
        }
        let more_than_ns = u64::try_from(condition.more_than.as_nanos()).unwrap_or(u64::MAX);
        worst.filter(|_| sum_ns > more_than_ns || more_than_ns == 0)
    }
}

impl Worst {
    fn of(connection: ConnectionId, finding: &Finding) -> Self {
        let Finding { id, cost_ns, ref summary, .. } = *finding;
        Self { connection, finding: id, cost_ns, summary: summary.clone() }
    }
}

/// The first one stays where both cost the same.
fn keep_worst(kept: &mut Option<Worst>, other: &Worst) {
    if kept.as_ref().is_none_or(|kept| kept.cost_ns < other.cost_ns) {
        *kept = Some(other.clone());
    }
}

#[cfg(test)]
mod tests {
    use sockscope_analysis::{FreshCosts, TraceFacts, Window};
    use sockscope_record::{Direction, Kind, Point, Record};

    use super::*;
    use crate::testing::{SECOND, analysis, connection, whole_costs};

    const MS: u64 = 1_000_000;

    impl Recent {
        fn push_whole(&mut self, analysis: &Analysis, until_ns: u64) {
            self.push(analysis, &whole_costs(analysis), until_ns);
        }
    }

    fn condition(text: &str) -> Condition {
        text.parse().unwrap()
    }

    #[test]
    fn costs_of_the_last_seconds_add_up() {
        let nagle = FindingId::NagleDelayedAck;
        let lost = condition("lost > 100ms in 3s");
        let mut recent = Recent::new(Duration::from_secs(10));
        //       until, costs of connection 1, 2; does `lost > 100ms in 3s` hold
        let table = [
            (1, [40, 0], false),
            (2, [40, 10], false),
            (3, [0, 20], true),
            (4, [0, 0], false),
            (5, [0, 90], true),
            (8, [0, 0], false),
        ];
        for (until, costs, expected) in table {
            let findings = [(1, nagle, costs[0]), (2, nagle, costs[1])];
            recent.push_whole(&analysis(&findings), until * SECOND);
            assert_eq!(recent.holds(&lost).is_some(), expected, "at {until} s");
        }
    }

    /// The time that a condition on this subject counts of a stall: from there on `SUBJECT > TIME` does not hold.
    /// Three requests are read at once, or after the stall, and are answered after it.
    fn counted_ms(subject: &str, stall_ms: u64, is_read_late: bool) -> u64 {
        let text = |at_ms: u64, kinds: &[Kind], direction| -> Vec<Record> {
            let flow = ConnectionId(1).flow(direction);
            let record = |(kind, number): (&Kind, u64)| Record {
                at_ns: at_ms * MS,
                flow,
                offset: 50 * number,
                len: 50,
                kind: *kind,
                ..Record::default()
            };
            let numbers = kinds.iter().flat_map(|kind| (0..3).map(move |number| (kind, number)));
            numbers.map(record).collect()
        };
        let path = Point::ALL.map(Kind::from);
        let read_ms = if is_read_late { 400 + stall_ms } else { 400 };
        let asked = text(400, &path[..7], Direction::FromClient);
        let read = text(read_ms, &path[7..], Direction::FromClient);
        let answered = text(400 + stall_ms, &path, Direction::FromServer);
        let mut records: VecDeque<Record> = [asked, read, answered].concat().into();
        let mut window = Window::of_active();
        window.connection(connection(1));
        let mut recent = Recent::new(Duration::from_secs(10));
        let mut costs = FreshCosts::default();
        for now_ns in (1..=5).map(|second| second * SECOND) {
            while let Some(record) = records.pop_front_if(|record| record.at_ns <= now_ns) {
                window.push(&[record]);
            }
            window.forget_before(now_ns - SECOND);
            let analysis = window.refresh(TraceFacts::default(), Some(now_ns));
            recent.push(analysis, &costs.take(analysis), now_ns);
        }
        let holds =
            |ms: &u64| recent.holds(&condition(&format!("{subject} > {ms}ms in 10s"))).is_some();
        (1..10_000).find(|ms| !holds(ms)).expect("less than ten seconds")
    }

    #[test]
    fn a_stall_over_several_refreshes_costs_its_time() {
        let subjects =
            ["lost", "finding=unanswered", "finding=slow-reader", "finding=slow-service"];
        // Waits begin at 0.4 s. Refreshes are at whole seconds: the last one in a wait shows it as unanswered.
        let table = [
            (500, false, [500, 1, 1, 500]),
            (1_300, false, [1_300, 600, 1, 1_300]),
            (2_000, false, [2_000, 1_600, 1, 2_000]),
            (3_000, false, [3_000, 2_600, 1, 3_000]),
            (500, true, [500, 1, 500, 1]),
            (2_000, true, [2_000, 1_600, 2_000, 1]),
            (3_000, true, [3_000, 2_600, 3_000, 1]),
        ];
        for (stall_ms, is_read_late, expected) in table {
            let counted = subjects.map(|subject| counted_ms(subject, stall_ms, is_read_late));
            assert_eq!(counted, expected, "{stall_ms} ms, read late: {is_read_late}");
        }
    }

    #[test]
    fn a_condition_that_goes_on_holding_begins_once_an_hour() {
        let mut watched = Watched::new(condition("lost > 50ms in 2s"));
        let mut recent = Recent::new(Duration::from_secs(2));
        let mut begins = |second: u64, cost_ms| {
            let findings = [(1, FindingId::StopAndWait, cost_ms)];
            recent.push_whole(&analysis(&findings), second * SECOND);
            watched.begins(&recent, second * SECOND).is_some()
        };
        //  second, cost, begins
        let table = [(1, 10, false), (2, 60, true), (3, 60, false), (5, 0, false), (6, 90, true)];
        for (second, cost, expected) in table {
            assert_eq!(begins(second, cost), expected, "at {second} s");
        }
        let again: Vec<u64> = (7..8_000).step_by(10).filter(|second| begins(*second, 90)).collect();
        assert_eq!(again, [3_607, 7_207]);
    }

    #[test]
    fn a_connection_counts_with_its_most_expensive_finding() {
        let mut recent = Recent::new(Duration::from_secs(10));
        let findings = [(1, FindingId::NagleDelayedAck, 60), (1, FindingId::StopAndWait, 50)];
        recent.push_whole(&analysis(&findings), SECOND);
        assert_eq!(recent.holds(&condition("lost > 61ms")), None);
        let worst = recent.holds(&condition("lost > 59ms")).unwrap();
        assert_eq!(
            (worst.connection, worst.finding),
            (ConnectionId(1), FindingId::NagleDelayedAck)
        );
        let worst = recent.holds(&condition("finding=stop-and-wait > 49ms")).unwrap();
        assert_eq!(worst.finding, FindingId::StopAndWait);
        assert_eq!(recent.holds(&condition("finding=slow-reader")), None);
    }

    #[test]
    fn a_finding_without_a_cost_holds_by_its_presence() {
        let mut recent = Recent::new(Duration::from_secs(10));
        recent.push_whole(&analysis(&[(3, FindingId::StopAndWait, 0)]), SECOND);
        assert!(recent.holds(&condition("finding=stop-and-wait")).is_some());
        assert!(recent.holds(&condition("lost > 1ms")).is_none());
    }

    #[test]
    fn parts_that_no_condition_looks_at_are_dropped() {
        let mut recent = Recent::new(Duration::from_secs(10));
        for second in 1..1_000 {
            recent.push_whole(&analysis(&[]), second * SECOND);
        }
        assert_eq!(recent.parts.len(), 10);
    }
}
