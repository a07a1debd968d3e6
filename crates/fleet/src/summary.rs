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

/// The sums of many summaries.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    pub counts: BTreeMap<Group, Counts>,
    pub ledger: BTreeMap<(Group, u8, u8), u64>,
    pub delays: BTreeMap<(Group, u8, u8, i16), Delays>,
    pub findings: Vec<Found>,
    pub clocks: BTreeMap<(String, String), Vec<Clock>>,
    pub problems: Vec<Problem>,
    pub own: BTreeMap<String, String>,
    pub unseen: BTreeMap<String, u64>,
}

impl Sums {
    pub fn add(&mut self, one: Summary) {
        for (group, counts) in one.counts {
            let sum = self.counts.entry(one.groups[group].clone()).or_default();
            sum.connections += counts.connections;
            sum.with_both_ends += counts.with_both_ends;
            sum.records += counts.records;
            sum.bytes += counts.bytes;
            sum.retransmitted_bytes += counts.retransmitted_bytes;
        }
        for ((group, direction, part), ns) in one.ledger {
            *self.ledger.entry((one.groups[group].clone(), direction, part)).or_default() += ns;
        }
        for ((group, direction, stage, bucket), delays) in one.delays {
            let key = (one.groups[group].clone(), direction, stage, bucket);
            let sum = self.delays.entry(key).or_default();
            sum.runs += delays.runs;
            sum.delay_ns += delays.delay_ns;
        }
        self.findings.extend(one.findings);
        for (hosts, clock) in one.clocks {
            self.clocks.entry(hosts).or_default().push(clock);
        }
        self.problems.extend(one.problems);
        self.own.extend(one.own);
        for (address, connections) in one.unseen {
            *self.unseen.entry(address).or_default() += connections;
        }
    }
}
