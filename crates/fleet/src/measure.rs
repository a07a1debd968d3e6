//! What one connection adds to a summary.

use std::collections::BTreeMap;

use sockscope_analysis::{ConnectionAnalysis, FlowParts, LedgerPart};
use sockscope_record::{Connection, ConnectionId, Stage};

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
    /// Of an hour and a connection of the trace.
    last_group: Option<((u64, ConnectionId), usize)>,
    counts: BTreeMap<usize, Counts>,
    ledger: BTreeMap<(usize, u8, u8), u64>,
    delays: BTreeMap<(usize, u8, u8, i16), Delays>,
    findings: Vec<Found>,
    own: BTreeMap<String, String>,
    unseen: BTreeMap<String, u64>,
}

impl Measured {
    /// Connections of another trace follow, which have the same numbers.
    pub fn begin_trace(&mut self) {
        self.last_group = None;
    }

    /// Adds the ledger and the delays of a flow.
    pub fn flow(&mut self, flow: &FlowParts<'_>, ends: &Ends) {
        self.ledger(flow, ends);
        for stage in Stage::ALL {
            self.delays(flow, stage, ends);
        }
    }

    fn ledger(&mut self, flow: &FlowParts<'_>, ends: &Ends) {
        let Some(first) = flow.ledger.first() else { return };
        let mut hour = first.start_ns / HOUR_NS;
        let mut sums = [0; LedgerPart::ALL.len()];
        for span in flow.ledger {
            let mut start_ns = span.start_ns;
            while start_ns < span.end_ns {
                if start_ns / HOUR_NS != hour {
                    self.ledger_of_hour(hour, &mut sums, flow, ends);
                    hour = start_ns / HOUR_NS;
                }
                let end_ns = span.end_ns.min((hour + 1).saturating_mul(HOUR_NS));
                sums[span.part as usize] += end_ns - start_ns;
                start_ns = end_ns;
            }
        }
        self.ledger_of_hour(hour, &mut sums, flow, ends);
    }

    /// Adds what is in `sums`, and empties them.
    fn ledger_of_hour(
        &mut self,
        hour: u64,
        sums: &mut [u64; LedgerPart::ALL.len()],
        flow: &FlowParts<'_>,
        ends: &Ends,
    ) {
        let group = self.group(hour * HOUR_NS, flow.connection, ends);
        for (part, ns) in (0..).zip(sums).filter(|(_, ns)| **ns > 0) {
            *self.ledger.entry((group, flow.direction as u8, part)).or_default() +=
                std::mem::take(ns);
        }
    }

    fn delays(&mut self, flow: &FlowParts<'_>, stage: Stage, ends: &Ends) {
        let mut histogram = [Delays::default(); histogram::BUCKETS];
        let mut hour = None;
        flow.curves.each_delay(stage, |residence| {
            let (delay_ns, of) = (residence.delay_ns(), residence.left_ns / HOUR_NS);
            if let Some(before) = hour.replace(of).filter(|before| *before != of) {
                self.delays_of_hour(before, &mut histogram, stage, flow, ends);
            }
            let sum = &mut histogram[histogram::place(histogram::bucket(delay_ns))];
            sum.runs += 1;
            sum.delay_ns += delay_ns;
        });
        if let Some(hour) = hour {
            self.delays_of_hour(hour, &mut histogram, stage, flow, ends);
        }
    }

    /// Adds what is in the histogram, and empties it.
    fn delays_of_hour(
        &mut self,
        hour: u64,
        histogram: &mut [Delays; histogram::BUCKETS],
        stage: Stage,
        flow: &FlowParts<'_>,
        ends: &Ends,
    ) {
        let group = self.group(hour * HOUR_NS, flow.connection, ends);
        for (bucket, delays) in (histogram::ZERO..).zip(histogram).filter(|(_, it)| it.runs > 0) {
            let key = (group, flow.direction as u8, stage as u8, bucket);
            let delays = std::mem::take(delays);
            let sum = self.delays.entry(key).or_default();
            sum.runs += delays.runs;
            sum.delay_ns += delays.delay_ns;
        }
    }

    /// Adds the numbers and the findings of a connection.
    pub fn add(&mut self, one: &ConnectionAnalysis, ends: &Ends) {
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
        for finding in one.findings.iter().filter(|_| !ends.is_cut) {
            let at_ns = finding.times.first().map_or(connection.opened_ns, |time| time.0);
            let group = group_of(at_ns, connection, ends);
            self.findings.push(Found {
                group,
                finding: finding.id.name().to_owned(),
                client: connection.end(sockscope_record::Side::Client).to_string(),
                server: connection.end(sockscope_record::Side::Server).to_string(),
                opened_ns: connection.opened_ns,
                sender: finding.flow.direction().sender().name().to_owned(),
                count: finding.count,
                cost_ns: finding.cost_ns,
                summary: finding.summary.clone(),
                fix: finding.fix.clone(),
            });
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

    /// The place of the group of a connection in the hour of this time. The last one is mostly asked for again.
    fn group(&mut self, at_ns: u64, connection: &Connection, ends: &Ends) -> usize {
        let key = (at_ns / HOUR_NS, connection.id);
        if let Some((_, group)) = self.last_group.filter(|(last, _)| *last == key) {
            return group;
        }
        let next = self.groups.len();
        let group = *self.groups.entry(group_of(at_ns, connection, ends)).or_insert(next);
        self.last_group = Some((key, group));
        group
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
