//! Runs with their connections matched.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use sockscope_analysis::{Analysis, FindingId, LedgerPart};
use sockscope_record::Direction;

use super::change::Change;
use super::group::{FindingSum, Group, by_role};
use super::matching::{Row, matched};
use super::role::Role;

/// One run to compare: a bundle, or the bundles of several rounds, which count together.
#[derive(Debug, Clone, Copy)]
pub struct Compared<'a> {
    /// Stands over its column.
    pub name: &'a str,
    /// Its rounds, one at least.
    pub rounds: &'a [&'a Analysis],
}

/// Runs whose connections are matched by role: see [`Comparison::of`].
#[derive(Debug, Clone)]
pub struct Comparison {
    pub(crate) runs: Vec<RunFacts>,
    /// The most important one first.
    pub(crate) rows: Vec<Row>,
    /// The text has a sentence on the difference of each role.
    pub(crate) has_changes: bool,
}

/// Facts of a run as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunFacts {
    pub(crate) name: String,
    pub(crate) rounds: u64,
    pub(crate) connections: u64,
    pub(crate) records: u64,
    pub(crate) missed: u64,
    /// A trace has no end mark: it is not known whether more records were missed.
    pub(crate) is_unfinished: bool,
    /// Of all rounds together.
    pub(crate) duration_ns: u64,
}

impl RunFacts {
    fn of(run: &Compared<'_>) -> Self {
        let sum = |of: fn(&Analysis) -> u64| {
            run.rounds.iter().fold(0u64, |sum, analysis| sum.saturating_add(of(analysis)))
        };
        Self {
            name: run.name.to_owned(),
            rounds: run.rounds.len() as u64,
            connections: sum(|analysis| analysis.connections.len() as u64),
            records: sum(|analysis| analysis.records),
            missed: sum(|analysis| analysis.facts.missed.total()),
            is_unfinished: run.rounds.iter().any(|analysis| analysis.facts.unfinished),
            duration_ns: sum(|analysis| analysis.duration_ns),
        }
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.missed == 0 && !self.is_unfinished
    }
}

/// The change of a finding from the first run to a later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    Appeared,
    Disappeared,
    Stayed,
    /// In neither of the two.
    Absent,
    /// The run that does not have it missed records, among which it may be.
    Unknown,
}

impl Presence {
    /// The word for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Appeared => "appeared",
            Self::Disappeared => "disappeared",
            Self::Stayed => "stayed",
            Self::Absent => "absent",
            Self::Unknown => "unknown",
        }
    }
}

impl Comparison {
    /// Matches the connections of the runs. The first run is the one that others are compared with.
    pub fn of(runs: &[Compared<'_>]) -> Self {
        let rows = matched(runs.iter().map(groups).collect());
        let runs = runs.iter().map(RunFacts::of).collect();
        let mut comparison = Self { runs, rows, has_changes: true };
        comparison.rows.sort_by_key(|row| {
            let cost = row.groups().map(Group::cost_ns).fold(0, u64::saturating_add);
            let bytes = row.groups().map(Group::bytes).fold(0, u64::saturating_add);
            (!row.is_in_all(), Reverse(cost), Reverse(bytes))
        });
        comparison
    }

    /// The same, with a text that has no sentence on differences: for runs that are examples of more, which have it.
    #[must_use]
    pub fn without_changes(self) -> Self {
        Self { has_changes: false, ..self }
    }

    /// How the exchange times of a row's connections changed from the first run to this one.
    pub(crate) fn exchange_change(&self, row: &Row, run: usize) -> Change {
        self.change(row, run, |group| (&group.times_ns, group.left_out == 0))
    }

    /// How the throughput of the connections changed.
    pub(crate) fn throughput_change(&self, row: &Row, run: usize, direction: Direction) -> Change {
        self.change(row, run, |group| {
            let flow = &group.flows[direction as usize];
            (&flow.throughputs, !flow.throughput_is_lower_bound)
        })
    }

    fn change(&self, row: &Row, run: usize, sample: impl Fn(&Group) -> (&[u64], bool)) -> Change {
        let (Some((_, first)), Some((_, later))) = (&row.groups[0], &row.groups[run]) else {
            return Change::Unknown;
        };
        let ((first, first_is_whole), (later, later_is_whole)) = (sample(first), sample(later));
        let are_whole = first_is_whole && later_is_whole;
        Change::of(first, later, are_whole && self.runs[0].is_whole() && self.runs[run].is_whole())
    }

    /// The change of a finding of a row.
    pub(crate) fn presence(&self, row: &Row, run: usize, id: FindingId) -> Presence {
        let [first, later] = [0, run].map(|run| finding(row, run, id).is_some());
        match (first, later) {
            (true, true) => Presence::Stayed,
            (true, false) if self.runs[run].is_whole() => Presence::Disappeared,
            (false, true) if self.runs[0].is_whole() => Presence::Appeared,
            (false, false) if self.runs[0].is_whole() && self.runs[run].is_whole() => {
                Presence::Absent
            }
            _ => Presence::Unknown,
        }
    }
}

/// The finding in one run.
pub(crate) fn finding(row: &Row, run: usize, id: FindingId) -> Option<FindingSum> {
    row.groups[run].as_ref().and_then(|(_, group)| group.findings.get(&id)).copied()
}

/// The findings that any run has, highest cost first.
pub(crate) fn findings(row: &Row) -> Vec<FindingId> {
    let mut costs: BTreeMap<FindingId, u64> = BTreeMap::new();
    for (id, sum) in row.groups().flat_map(|group| &group.findings) {
        let cost = costs.entry(*id).or_default();
        *cost = cost.saturating_add(sum.cost_ns);
    }
    let mut ids: Vec<FindingId> = costs.keys().copied().collect();
    ids.sort_unstable_by_key(|id| (Reverse(costs[id]), *id));
    ids
}

/// The direction that is compared: that of the side that asks in the first run that has the role.
pub(crate) fn direction(row: &Row) -> Direction {
    row.groups().next().map_or(Direction::FromClient, Group::direction)
}

/// Whether exchanges were seen in any run.
pub(crate) fn has_exchanges(row: &Row) -> bool {
    row.groups().any(|group| !group.times_ns.is_empty())
}

/// Nanoseconds an exchange spent in this place, of the mean; `None` where the number of exchanges is not known.
pub(crate) fn per_exchange_ns(
    group: &Group,
    direction: Direction,
    part: LedgerPart,
) -> Option<u64> {
    let exchanges = group.times_ns.len() as u64;
    let ns = group.flows[direction as usize].ledger.ns[part as usize];
    (group.left_out == 0).then(|| ns.checked_div(exchanges)).flatten()
}

fn groups(run: &Compared<'_>) -> BTreeMap<Role, Group> {
    let mut groups: BTreeMap<Role, Group> = BTreeMap::new();
    for round in run.rounds {
        for (role, connections) in by_role(round) {
            groups.entry(role).or_default().add_round(&connections);
        }
    }
    groups
}
