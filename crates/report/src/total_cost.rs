//! The cost of several findings together, of one connection or of many.
//!
//! Findings overlap: a proxy's two sides wait for one cause, eight connections wait in one queue. The sum of their
//! costs can exceed the length of the trace, so the union of their times counts. Some findings have only bounds of
//! the times of their own cost. Those add no more than their cost, and no more than these times.

use sockscope_analysis::Finding;

/// Adds findings up.
#[derive(Debug, Clone, Default)]
pub(crate) struct TotalCost {
    /// Of findings whose times are exact, and of the others.
    exact: Vec<(u64, u64)>,
    bounds: Vec<(u64, u64)>,
    bounded_ns: u64,
    /// Of findings without times.
    untimed_ns: u64,
}

impl TotalCost {
    pub(crate) fn add(&mut self, finding: &Finding) {
        let times_ns = total(finding.times.iter().copied());
        if finding.times.is_empty() {
            self.untimed_ns = self.untimed_ns.max(finding.cost_ns);
        } else if times_ns == finding.cost_ns {
            self.exact.extend(&finding.times);
        } else {
            self.bounds.extend(&finding.times);
            self.bounded_ns = self.bounded_ns.saturating_add(finding.cost_ns);
        }
    }

    /// The cost, nanoseconds.
    pub(crate) fn ns(&self) -> u64 {
        let exact_ns = union_ns(self.exact.clone());
        let all_ns = union_ns([self.exact.as_slice(), self.bounds.as_slice()].concat());
        exact_ns.saturating_add(self.bounded_ns).min(all_ns).max(self.untimed_ns)
    }
}

impl<'a> FromIterator<&'a Finding> for TotalCost {
    fn from_iter<T: IntoIterator<Item = &'a Finding>>(findings: T) -> Self {
        let mut cost = Self::default();
        findings.into_iter().for_each(|finding| cost.add(finding));
        cost
    }
}

fn union_ns(mut times: Vec<(u64, u64)>) -> u64 {
    times.sort_unstable();
    let mut done_ns = 0;
    total(times.into_iter().map(|(start_ns, end_ns)| {
        let fresh = (start_ns.max(done_ns), end_ns);
        done_ns = done_ns.max(end_ns);
        fresh
    }))
}

fn total(times: impl Iterator<Item = (u64, u64)>) -> u64 {
    let lasted = times.map(|(start_ns, end_ns)| end_ns.saturating_sub(start_ns));
    lasted.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::stall;

    fn cost_ns(findings: &[(u64, &[(u64, u64)])]) -> u64 {
        let one = stall().connections[0].findings[0].clone();
        let findings = findings.iter();
        let findings: Vec<_> = findings
            .map(|&(cost_ns, times)| Finding { cost_ns, times: times.to_vec(), ..one.clone() })
            .collect();
        findings.iter().collect::<TotalCost>().ns()
    }

    #[test]
    fn time_that_several_cost_counts_once() {
        assert_eq!(cost_ns(&[(10, &[(0, 10)]), (10, &[(5, 15)]), (4, &[(2, 3), (20, 23)])]), 18);
        assert_eq!(cost_ns(&[(10, &[(0, 10)]), (30, &[(10, 40)])]), 40);
    }

    #[test]
    fn a_time_of_which_only_bounds_are_known_adds_no_more_than_itself() {
        assert_eq!(cost_ns(&[(10, &[(0, 10)]), (5, &[(0, 100)])]), 15);
        assert_eq!(cost_ns(&[(60, &[(0, 100)]), (70, &[(0, 100)])]), 100);
        assert_eq!(cost_ns(&[(60, &[(0, 100)])]), 60);
    }

    #[test]
    fn without_times_the_longest_counts() {
        assert_eq!(cost_ns(&[(60, &[]), (70, &[]), (10, &[(0, 10)])]), 70);
        assert_eq!(cost_ns(&[]), 0);
    }
}
