//! Costs of findings over the analyses of a window that moves on: each time counts once.
//!
//! A wait that is still open is in each analysis from its beginning, and the finding on it may change on the way: a
//! request is unanswered, and then its reader was slow. So there are two counts. A finding has the part of its times that
//! no earlier analysis showed under its name for the connection. The connection has the part that it did not count
//! before under any name. Both include earlier time that was not counted: a wait may be too short for a finding at first.

use std::collections::BTreeMap;

use sockscope_record::ConnectionId;

use crate::ranges::{Range, minus, total, union};
use crate::{Analysis, ConnectionAnalysis, Finding, FindingId};

/// Times of a finding that are kept apart. Of earlier times only those of waits show again that are still open.
const RANGES_MAX: usize = 16;

/// Costs that no earlier analysis had.
#[derive(Debug, Default)]
pub struct FreshCosts {
    /// Of the connections in the last analysis, where they had findings.
    counted: BTreeMap<ConnectionId, Counted>,
}

/// Times of a connection that were counted.
#[derive(Debug, Default)]
struct Counted {
    /// Under any name, each once.
    lost: Vec<Range>,
    by_finding: BTreeMap<FindingId, Vec<Range>>,
}

/// The part of the costs of a connection that is new.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FreshCost {
    /// Time that the connection lost: of its finding that costs most of those times that were not counted.
    pub lost_ns: u64,
    /// Of each finding, in their order in the analysis.
    pub findings_ns: Vec<u64>,
}

impl FreshCosts {
    /// The new costs of the connections, in the order of the analysis.
    ///
    /// A part of the times of a finding has the same part of its cost. A finding without times counts whole.
    pub fn take(&mut self, analysis: &Analysis) -> Vec<FreshCost> {
        let mut before = std::mem::take(&mut self.counted);
        let mut all = Vec::with_capacity(analysis.connections.len());
        for one in &analysis.connections {
            let id = one.connection.id;
            let mut counted = before.remove(&id).unwrap_or_default();
            all.push(counted.take(one));
            if !counted.by_finding.is_empty() {
                self.counted.insert(id, counted);
            }
        }
        all
    }
}

impl Counted {
    fn take(&mut self, one: &ConnectionAnalysis) -> FreshCost {
        let (mut lost_ns, mut lost) = (0, Vec::new());
        let mut findings_ns = Vec::with_capacity(one.findings.len());
        for finding in &one.findings {
            let times = union(&finding.times, &[]);
            let fresh = minus(&times, &self.lost);
            let cost_ns = cost_of(finding, total(&fresh), total(&times));
            if cost_ns > lost_ns {
                (lost_ns, lost) = (cost_ns, fresh);
            }
            let counted = self.by_finding.entry(finding.id).or_default();
            let fresh_ns = total(&minus(&times, counted));
            findings_ns.push(cost_of(finding, fresh_ns, total(&times)));
            *counted = union(counted, &times);
            join_oldest(counted);
        }
        // Times of the other findings stay open: of two waits, the one that goes on counts later.
        self.lost = union(&self.lost, &lost);
        join_oldest(&mut self.lost);
        FreshCost { lost_ns, findings_ns }
    }
}

/// The cost of a part of the times of a finding.
fn cost_of(finding: &Finding, part_ns: u64, whole_ns: u64) -> u64 {
    match whole_ns {
        0 => finding.cost_ns,
        _ => {
            let cost = u128::from(finding.cost_ns) * u128::from(part_ns) / u128::from(whole_ns);
            // A part of the times is not longer than all of them.
            cost as u64
        }
    }
}

/// Joins the oldest ranges where there are too many: the time between them counts no more.
fn join_oldest(ranges: &mut Vec<Range>) {
    let surplus = ranges.len().saturating_sub(RANGES_MAX);
    if surplus > 0 {
        let start = ranges[0].0;
        ranges.drain(..surplus);
        ranges[0].0 = start;
    }
}

#[cfg(test)]
mod tests {
    use sockscope_record::{ConnectionId, Direction, Side};

    use super::*;
    use crate::testing::{connection, records};
    use crate::{Analyzer, FindingId, TraceFacts, Window};

    const MS: u64 = 1_000_000;

    /// An analysis of connection 1 with findings of these costs and times, milliseconds.
    fn analysis(findings: &[(FindingId, u64, &[Range])]) -> Analysis {
        let mut analyzer = Analyzer::new();
        analyzer.connection(connection(1));
        let mut analysis = analyzer.finish(TraceFacts::default());
        let findings = findings.iter().map(|(id, cost_ms, times)| Finding {
            id: *id,
            flow: ConnectionId(1).flow(Direction::FromClient),
            side: Side::Client,
            count: 1,
            connections: 1,
            cost_ns: cost_ms * MS,
            times: times.iter().map(|(from, until)| (from * MS, until * MS)).collect(),
            summary: String::new(),
            evidence: Vec::new(),
            fix: String::new(),
        });
        analysis.connections[0].findings = findings.collect();
        analysis
    }

    /// The new cost of the connection and those of its findings, milliseconds.
    fn taken(costs: &mut FreshCosts, of: &[(FindingId, u64, &[Range])]) -> (u64, Vec<u64>) {
        let cost = costs.take(&analysis(of)).remove(0);
        (cost.lost_ns / MS, cost.findings_ns.into_iter().map(|ns| ns / MS).collect())
    }

    #[test]
    fn a_wait_over_three_refreshes_costs_its_time() {
        let mut window = Window::new();
        window.connection(connection(1));
        window.push(&records("10ms 1-7 +50 thread=7 | 11ms 8 +50 thread=8"));
        let mut costs = FreshCosts::default();
        let mut refresh = |since_ms: u64, now_ms: u64| {
            window.forget_before(since_ms * MS);
            let analysis = window.refresh(TraceFacts::default(), Some(now_ms * MS));
            let findings = &analysis.connections[0].findings;
            let ids: Vec<_> = findings.iter().map(|finding| finding.id.name()).collect();
            let cost = costs.take(analysis).remove(0);
            (ids, cost.findings_ns.into_iter().sum::<u64>() / MS, cost.lost_ns / MS)
        };
        // Too short for a finding at first. The second refresh has that time too.
        assert_eq!(refresh(0, 310), (vec![], 0, 0));
        assert_eq!(refresh(310, 1_010), (vec!["unanswered"], 1_000, 1_000));
        assert_eq!(refresh(1_010, 2_010), (vec!["unanswered"], 1_000, 1_000));
        assert_eq!(refresh(2_010, 2_510), (vec!["unanswered"], 500, 500));
    }

    #[test]
    fn a_finding_that_follows_another_has_the_whole_wait_and_the_connection_the_rest() {
        let (unanswered, slow) = (FindingId::Unanswered, FindingId::SlowReader);
        let mut costs = FreshCosts::default();
        let first: &[(_, _, &[_])] = &[(unanswered, 750, &[(0, 750)])];
        let second: &[(_, _, &[_])] = &[(unanswered, 1_700, &[(0, 1_700)])];
        let third: &[(_, _, &[_])] =
            &[(slow, 1_950, &[(0, 1_950)]), (unanswered, 50, &[(1_850, 1_900)])];
        assert_eq!(taken(&mut costs, first), (750, vec![750]));
        assert_eq!(taken(&mut costs, second), (950, vec![950]));
        assert_eq!(taken(&mut costs, third), (250, vec![1_950, 50]));
        assert_eq!(taken(&mut costs, third), (0, vec![0, 0]));
    }

    #[test]
    fn a_wait_that_another_finding_exceeds_counts_when_it_goes_on() {
        let (nagle, slow) = (FindingId::NagleDelayedAck, FindingId::SlowReader);
        let mut costs = FreshCosts::default();
        let both: &[(_, _, &[_])] = &[(nagle, 700, &[(0, 700)]), (slow, 100, &[(800, 900)])];
        assert_eq!(taken(&mut costs, both), (700, vec![700, 100]));
        let rest: &[(_, _, &[_])] = &[(slow, 1_100, &[(800, 1_900)])];
        assert_eq!(taken(&mut costs, rest), (1_100, vec![1_000]));
    }

    #[test]
    fn a_finding_of_both_flows_has_a_time_once() {
        let slow = FindingId::SlowReader;
        let both: &[(_, _, &[_])] = &[(slow, 500, &[(0, 500)]), (slow, 300, &[(400, 700)])];
        assert_eq!(taken(&mut FreshCosts::default(), both), (500, vec![500, 200]));
    }

    #[test]
    fn a_part_of_the_times_has_its_part_of_the_cost() {
        let mut costs = FreshCosts::default();
        let id = FindingId::StopAndWait;
        assert_eq!(taken(&mut costs, &[(id, 10, &[(0, 40), (60, 120)])]), (10, vec![10]));
        let with_another: &[(_, _, &[_])] = &[(id, 10, &[(60, 160)]), (id, 7, &[])];
        assert_eq!(taken(&mut costs, with_another), (7, vec![4, 7]));
        assert_eq!(taken(&mut costs, &[(id, 7, &[])]), (7, vec![7]));
    }

    #[test]
    fn a_connection_with_many_waits_keeps_few_of_them() {
        let mut costs = FreshCosts::default();
        let waits: Vec<Range> = (0..1_000).map(|at| (10 * at, 10 * at + 1)).collect();
        let id = FindingId::NagleDelayedAck;
        assert_eq!(taken(&mut costs, &[(id, 1_000, &waits)]), (1_000, vec![1_000]));
        let counted = &costs.counted[&ConnectionId(1)];
        assert_eq!([counted.lost.len(), counted.by_finding[&id].len()], [RANGES_MAX; 2]);
        let last: &[(_, _, &[_])] = &[(id, 1_001, &[(9_990, 10_991)])];
        assert_eq!(taken(&mut costs, last), (1_000, vec![1_000]));
        costs.take(&Analyzer::new().finish(TraceFacts::default()));
        assert!(costs.counted.is_empty());
    }
}
