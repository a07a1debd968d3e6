//! Summaries of connections, which add up: those of all buckets give those of the fleet.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::problem::Problem;

/// What connections have in common in a summary.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Group {
    /// Hours since 1970 (UTC).
    pub hour: u64,
    pub protocol: String,
    pub client: End,
    pub server: End,
}

/// An end of connections.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct End {
    /// Its program, and of a server the port; `None` where no host shows it.
    pub service: String,
    /// `None` where no segment is of the host.
    pub host: Option<String>,
    pub kernel: Option<String>,
}

/// Sums over the connections of a group that opened in its hour.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counts {
    pub connections: u64,
    /// Of them those that both hosts recorded, or that are within one host.
    pub with_both_ends: u64,
    pub records: u64,
    pub bytes: u64,
    pub retransmitted_bytes: u64,
}

/// Delays within a bucket of the histogram.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Delays {
    pub runs: u64,
    pub delay_ns: u64,
}

/// A finding of a connection.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Found {
    pub group: Group,
    pub finding: String,
    pub client: String,
    pub server: String,
    pub opened_ns: u64,
    /// The end that sends the bytes concerned.
    pub sender: String,
    pub count: u64,
    pub cost_ns: u64,
    pub summary: String,
    pub fix: String,
}

/// Bounds of the second host's clock minus the first one's, by connections of one bucket.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Clock {
    pub bucket: u16,
    pub connections: u64,
    /// Segments from the first host, and from the second one.
    pub segments: [u64; 2],
    pub is_consistent: bool,
    /// The time of the bounds, by the second host's clock.
    pub at_ns: i64,
    pub lowest_ns: i64,
    pub highest_ns: i64,
    pub slowest_ppb: i64,
    pub fastest_ppb: i64,
}

/// The summary of a bucket.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    pub(crate) bucket: u16,
    pub(crate) groups: Vec<Group>,
    /// By the place of the group.
    pub(crate) counts: Vec<(usize, Counts)>,
    /// By group, direction and place of the ledger: nanoseconds.
    pub(crate) ledger: Vec<((usize, u8, u8), u64)>,
    /// By group, direction, stage and bucket of the histogram.
    pub(crate) delays: Vec<((usize, u8, u8, i16), Delays)>,
    pub(crate) findings: Vec<Found>,
    /// By the two hosts.
    pub(crate) clocks: Vec<((String, String), Clock)>,
    pub(crate) problems: Vec<Problem>,
    /// Addresses of ends on hosts of the spool, with the host.
    pub(crate) own: Vec<(String, String)>,
    /// Addresses of ends that no segment shows, with the number of connections.
    pub(crate) unseen: Vec<(String, u64)>,
}

/// The sums of many summaries. Groups are in order, and rows by the place of their group.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    pub groups: Vec<Group>,
    pub counts: Vec<(usize, Counts)>,
    pub ledger: Vec<((usize, u8, u8), u64)>,
    pub delays: Vec<((usize, u8, u8, i16), Delays)>,
    pub findings: Vec<Found>,
    pub clocks: BTreeMap<(String, String), Vec<Clock>>,
    pub problems: Vec<Problem>,
    pub own: BTreeMap<String, String>,
    pub unseen: BTreeMap<String, u64>,
}

impl Sums {
    /// The sums of these summaries.
    pub fn of(mut summaries: Vec<Summary>) -> Self {
        summaries.sort_by_key(|summary| summary.bucket);
        let mut sums = Self::default();
        let groups = summaries.iter_mut().map(|it| std::mem::take(&mut it.groups));
        let places = places(groups.collect(), &mut sums.groups);
        for (one, places) in summaries.into_iter().zip(places) {
            let at = |group: usize| places[group];
            sums.counts.extend(one.counts.into_iter().map(|(group, it)| (at(group), it)));
            let ledger = one.ledger.into_iter();
            sums.ledger.extend(ledger.map(|((group, to, part), ns)| ((at(group), to, part), ns)));
            let delays = one.delays.into_iter();
            sums.delays.extend(
                delays.map(|((group, to, stage, bucket), it)| ((at(group), to, stage, bucket), it)),
            );
            sums.findings.extend(one.findings);
            for (hosts, clock) in one.clocks {
                sums.clocks.entry(hosts).or_default().push(clock);
            }
            sums.problems.extend(one.problems);
            sums.own.extend(one.own);
            for (address, connections) in one.unseen {
                *sums.unseen.entry(address).or_default() += connections;
            }
        }
        add_equal(&mut sums.counts, |sum, one: &Counts| {
            sum.connections += one.connections;
            sum.with_both_ends += one.with_both_ends;
            sum.records += one.records;
            sum.bytes += one.bytes;
            sum.retransmitted_bytes += one.retransmitted_bytes;
        });
        add_equal(&mut sums.ledger, |sum, ns| *sum += ns);
        add_equal(&mut sums.delays, |sum, one: &Delays| {
            sum.runs += one.runs;
            sum.delay_ns += one.delay_ns;
        });
        sums.findings.sort();
        sums
    }
}

/// Puts all groups in order into `sorted`, each once, and gives the places of each list's groups among them.
fn places(lists: Vec<Vec<Group>>, sorted: &mut Vec<Group>) -> Vec<Vec<usize>> {
    let mut places: Vec<Vec<usize>> = lists.iter().map(|list| vec![0; list.len()]).collect();
    let flat = (0..)
        .zip(lists)
        .flat_map(|(list, groups)| (0..).zip(groups).map(move |(at, group)| (group, (list, at))));
    let mut all: Vec<(Group, (usize, usize))> = flat.collect();
    all.sort_unstable();
    for (group, (list, at)) in all {
        if sorted.last() != Some(&group) {
            sorted.push(group);
        }
        places[list][at] = sorted.len() - 1;
    }
    places
}

/// Sorts rows by their keys, and adds up those of equal keys.
fn add_equal<Key: Ord + Copy, Value>(
    rows: &mut Vec<(Key, Value)>,
    add: impl Fn(&mut Value, &Value),
) {
    rows.sort_unstable_by_key(|(key, _)| *key);
    rows.dedup_by(|(key, value), (sum_key, sum)| {
        let is_equal = key == sum_key;
        if is_equal {
            add(sum, value);
        }
        is_equal
    });
}
