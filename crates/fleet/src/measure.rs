//! What one connection adds to a summary.

use std::collections::BTreeMap;

use sockscope_analysis::{
    ConnectionAnalysis, FlowCurves, LedgerDetail, LedgerSpan, Stores, ledger_spans,
};
use sockscope_record::{Connection, Direction, Stage};

use crate::histogram;
use crate::hour::HOUR_NS;
use crate::summary::{Counts, Delays, End, Found, Group, Summary};

/// The two ends of a connection.
pub(crate) struct Ends {
    pub client: End,
    pub server: End,
    /// Records of it are missing for some time, and what is found in the rest is not certain.
    pub is_cut: bool,
}

/// Sums over connections.
#[derive(Default)]
pub(crate) struct Measured {
    groups: BTreeMap<Group, usize>,
    counts: BTreeMap<usize, Counts>,
    ledger: BTreeMap<(usize, u8, u8), u64>,
    delays: BTreeMap<(usize, u8, u8, i16), Delays>,
    findings: Vec<Found>,
    own: BTreeMap<String, String>,
    unseen: BTreeMap<String, u64>,
}

impl Measured {
    pub fn add(&mut self, one: &ConnectionAnalysis, stores: &Stores, ends: &Ends) {
        let connection = &one.connection;
        self.addresses(connection, ends);
        let group = self.group(connection.opened_ns, connection, ends);
        let counts = self.counts.entry(group).or_default();
        counts.connections += 1;
        counts.with_both_ends += u64::from(connection.both_ends_here);
        counts.records += one.records;
        for flow in &one.flows {
            counts.bytes += flow.bytes;
            counts.retransmitted_bytes += flow.retransmitted_bytes;
        }
        let found = stores.connections.binary_search_by_key(&connection.id, |it| it.connection.id);
        if let Some(store) = found.ok().map(|at| &stores.connections[at]) {
            let losses = stores.losses_of(connection.id);
            for direction in [Direction::FromClient, Direction::FromServer] {
                let curves = FlowCurves::new(store, direction, &losses, &stores.drop_reasons);
                let spans = ledger_spans(store, direction, &curves);
                self.ledger(spans, direction, connection, ends);
                self.delays(&curves, direction, connection, ends);
            }
        }
        for finding in one.findings.iter().filter(|_| !ends.is_cut) {
            let at_ns = finding.times.first().map_or(connection.opened_ns, |time| time.0);
            let group = group_of(at_ns, connection, ends);
            self.findings.push(Found {
                group,
                finding: finding.id.name().to_owned(),
                client: connection.client.to_string(),
                server: connection.server.to_string(),
                opened_ns: connection.opened_ns,
                sender: finding.flow.direction().sender().name().to_owned(),
                count: finding.count,
                cost_ns: finding.cost_ns,
                summary: finding.summary.clone(),
                fix: finding.fix.clone(),
            });
        }
    }

    fn ledger(
        &mut self,
        spans: Vec<LedgerSpan>,
        direction: Direction,
        connection: &Connection,
        ends: &Ends,
    ) {
        let (Some(first), Some(last)) = (spans.first(), spans.last()) else { return };
        let mut edges = vec![first.start_ns];
        let hours = first.start_ns / HOUR_NS + 1..=last.end_ns / HOUR_NS;
        edges.extend(hours.map(|hour| hour * HOUR_NS).filter(|edge| *edge > first.start_ns));
        edges.push(last.end_ns);
        let columns = LedgerDetail::new(spans).columns(&edges);
        for (column, start_ns) in columns.iter().zip(&edges) {
            let group = self.group(*start_ns, connection, ends);
            for (part, ns) in (0..).zip(column).filter(|(_, ns)| **ns > 0) {
                *self.ledger.entry((group, direction as u8, part)).or_default() += ns;
            }
        }
    }

    fn delays(
        &mut self,
        curves: &FlowCurves,
        direction: Direction,
        connection: &Connection,
        ends: &Ends,
    ) {
        for stage in Stage::ALL {
            let mut by_bucket: BTreeMap<(u64, i16), Delays> = BTreeMap::new();
            for residence in curves.delays(stage) {
                let delay_ns = residence.delay_ns();
                let key = (residence.left_ns / HOUR_NS, histogram::bucket(delay_ns));
                let sum = by_bucket.entry(key).or_default();
                sum.runs += 1;
                sum.delay_ns += delay_ns;
            }
            for ((hour, bucket), delays) in by_bucket {
                let group = self.group(hour * HOUR_NS, connection, ends);
                let key = (group, direction as u8, stage as u8, bucket);
                let sum = self.delays.entry(key).or_default();
                sum.runs += delays.runs;
                sum.delay_ns += delays.delay_ns;
            }
        }
    }

    fn addresses(&mut self, connection: &Connection, ends: &Ends) {
        for (address, end) in [(connection.client, &ends.client), (connection.server, &ends.server)]
        {
            let ip = address.ip().to_canonical();
            match &end.host {
                Some(host) if !ip.is_loopback() => {
                    self.own.insert(ip.to_string(), host.clone());
                }
                Some(_) => {}
                None => *self.unseen.entry(ip.to_string()).or_default() += 1,
            }
        }
    }

    fn group(&mut self, at_ns: u64, connection: &Connection, ends: &Ends) -> usize {
        let next = self.groups.len();
        *self.groups.entry(group_of(at_ns, connection, ends)).or_insert(next)
    }

    pub fn finish(self, summary: &mut Summary) {
        let mut groups: Vec<(usize, Group)> =
            self.groups.into_iter().map(|(group, at)| (at, group)).collect();
        groups.sort_unstable_by_key(|(at, _)| *at);
        summary.groups = groups.into_iter().map(|(_, group)| group).collect();
        summary.counts = self.counts.into_iter().collect();
        summary.ledger = self.ledger.into_iter().collect();
        summary.delays = self.delays.into_iter().collect();
        summary.findings = self.findings;
        summary.own = self.own.into_iter().collect();
        summary.unseen = self.unseen.into_iter().collect();
    }
}

fn group_of(at_ns: u64, connection: &Connection, ends: &Ends) -> Group {
    Group {
        hour: at_ns / HOUR_NS,
        protocol: connection.protocol.name().to_owned(),
        client: ends.client.clone(),
        server: ends.server.clone(),
    }
}
