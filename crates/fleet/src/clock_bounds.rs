//! Bounds of the hosts' clocks, by all buckets together.

use std::collections::BTreeMap;

use crate::summary::{Clock, Sums};

/// Bounds of two hosts' clocks at one time, by all buckets: each of them holds.
pub(crate) struct Bounds<'a> {
    pub hosts: &'a (String, String),
    pub clock: Clock,
}

/// The bounds of all pairs of hosts.
pub(crate) fn bounds(sums: &Sums) -> Vec<Bounds<'_>> {
    let mut all: BTreeMap<(&(String, String), i64), Clock> = BTreeMap::new();
    for (hosts, clock) in
        sums.clocks.iter().flat_map(|(hosts, all)| all.iter().map(move |it| (hosts, it)))
    {
        let Some(sum) = all.get_mut(&(hosts, clock.at_ns)) else {
            all.insert((hosts, clock.at_ns), clock.clone());
            continue;
        };
        sum.connections += clock.connections;
        sum.segments = std::array::from_fn(|at| sum.segments[at] + clock.segments[at]);
        sum.lowest_ns = sum.lowest_ns.max(clock.lowest_ns);
        sum.highest_ns = sum.highest_ns.min(clock.highest_ns);
        sum.slowest_ppb = sum.slowest_ppb.max(clock.slowest_ppb);
        sum.fastest_ppb = sum.fastest_ppb.min(clock.fastest_ppb);
        sum.is_consistent &= clock.is_consistent && sum.lowest_ns <= sum.highest_ns;
    }
    all.into_iter().map(|((hosts, _), clock)| Bounds { hosts, clock }).collect()
}
