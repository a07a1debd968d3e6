//! Costs of findings over the analyses of a window that moves on: each time counts once.
//!
//! A wait that is still open is in each analysis from its beginning, and the finding on it may change on the way: a
//! request is unanswered, and then its reader was slow. Findings that show the same time in one analysis count each, as
//! they do in a report. Of the time before the window, a finding has only the part that no earlier analysis counted for
//! the connection: a wait may be too short for a finding at first.

use std::collections::BTreeMap;

use sockscope_record::ConnectionId;

use crate::ranges::{Range, intersection, minus, total, union};
use crate::{Analysis, Finding};

/// Times of a connection that are kept apart. Of earlier times only those of waits show again that are still open.
const RANGES_MAX: usize = 16;

/// Costs that no earlier analysis had.
#[derive(Debug, Default)]
pub struct FreshCosts {
    /// Times that findings had, by connection, until the end of the last analysis.
    counted: BTreeMap<ConnectionId, Vec<Range>>,
}

impl FreshCosts {
    /// The costs of the findings, by connections and their findings in the order of the analysis. `until_ns` is its end,
    /// and the start of the next window. Later times count in the next analysis.
    ///
    /// A part of the times of a finding has the same part of its cost. A finding without times counts whole.
    pub fn take(&mut self, analysis: &Analysis, until_ns: u64) -> Vec<Vec<u64>> {
        let mut before = std::mem::take(&mut self.counted);
        let mut all = Vec::with_capacity(analysis.connections.len());
        for one in &analysis.connections {
            let mut counted = before.remove(&one.connection.id).unwrap_or_default();
            let (mut costs, mut times) = (Vec::new(), Vec::new());
            for finding in &one.findings {
                let fresh = minus(&intersection(&finding.times, &[(0, until_ns)]), &counted);
                costs.push(cost_of(finding, total(&fresh)));
                times.extend(fresh);
            }
            all.push(costs);
            counted = union(&counted, &times);
            join_oldest(&mut counted);
            if !counted.is_empty() {
                self.counted.insert(one.connection.id, counted);
            }
        }
        all
    }
}

/// The cost of a part of the times of a finding.
fn cost_of(finding: &Finding, part_ns: u64) -> u64 {
    match total(&finding.times) {
        0 => finding.cost_ns,
        whole_ns => {
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

    fn taken(costs: &mut FreshCosts, now_ms: u64, of: &[(FindingId, u64, &[Range])]) -> Vec<u64> {
        let costs = costs.take(&analysis(of), now_ms * MS).remove(0);
        costs.into_iter().map(|ns| ns / MS).collect()
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
            let costs = costs.take(analysis, now_ms * MS).remove(0);
            (ids, costs.into_iter().sum::<u64>() / MS)
        };
        // Too short for a finding at first. The second refresh has that time too.
        assert_eq!(refresh(0, 310), (vec![], 0));
        assert_eq!(refresh(310, 1_010), (vec!["unanswered"], 1_000));
        assert_eq!(refresh(1_010, 2_010), (vec!["unanswered"], 1_000));
        assert_eq!(refresh(2_010, 2_510), (vec!["unanswered"], 500));
    }

    #[test]
    fn a_finding_that_follows_another_has_the_rest_of_the_wait() {
        let (unanswered, slow) = (FindingId::Unanswered, FindingId::SlowReader);
        let mut costs = FreshCosts::default();
        assert_eq!(taken(&mut costs, 750, &[(unanswered, 750, &[(0, 750)])]), [750]);
        assert_eq!(taken(&mut costs, 1_700, &[(unanswered, 1_700, &[(0, 1_700)])]), [950]);
        // Two that show the same time count each, as they do in a report.
        let both: [(_, _, &[_]); 2] =
            [(slow, 1_950, &[(0, 1_950)]), (unanswered, 50, &[(1_850, 1_900)])];
        assert_eq!(taken(&mut costs, 2_700, &both), [250, 50]);
    }

    #[test]
    fn a_part_of_the_times_has_its_part_of_the_cost() {
        let mut costs = FreshCosts::default();
        let id = FindingId::StopAndWait;
        assert_eq!(taken(&mut costs, 100, &[(id, 10, &[(0, 40), (60, 120)])]), [8]);
        assert_eq!(taken(&mut costs, 200, &[(id, 10, &[(60, 160)]), (id, 7, &[])]), [6, 7]);
        assert_eq!(taken(&mut costs, 300, &[(id, 7, &[])]), [7]);
    }

    #[test]
    fn a_connection_with_many_waits_keeps_few_of_them() {
        let mut costs = FreshCosts::default();
        let waits: Vec<Range> = (0..1_000).map(|at| (10 * at, 10 * at + 1)).collect();
        let id = FindingId::NagleDelayedAck;
        assert_eq!(taken(&mut costs, 10_000, &[(id, 1_000, &waits)]), [1_000]);
        assert_eq!(costs.counted[&ConnectionId(1)].len(), RANGES_MAX);
        assert_eq!(taken(&mut costs, 11_000, &[(id, 1_001, &[(9_990, 10_991)])]), [1_000]);
        costs.take(&Analyzer::new().finish(TraceFacts::default()), 12_000 * MS);
        assert!(costs.counted.is_empty());
    }
}
