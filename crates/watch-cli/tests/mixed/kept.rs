//! Looks into the traces that a recorder made.

use std::collections::BTreeMap;
use std::path::Path;

use sockscope_analysis::FindingId;
use sockscope_record::{Kind as RecordKind, Side};
use sockscope_trace::Bundle;

use super::ends::{Kind, Stall};
use crate::analysis;

const SECOND_NS: u64 = 1_000_000_000;
/// Octets of a request and of its answer.
const EXCHANGE: u64 = 400;

impl Kind {
    /// The finding that shows it.
    pub fn finding(self) -> FindingId {
        match self {
            Self::DelayedAcknowledgment => FindingId::NagleDelayedAck,
            _ => FindingId::SlowReader,
        }
    }
}

/// Whether the trace has this stall, with so much time before it and after it. A line about it, or the lack.
pub fn has_stall(
    folder: &Path,
    stall: &Stall,
    before_s: f64,
    after_s: f64,
) -> Result<String, String> {
    let bundle = Bundle::open(folder).map_err(|error| error.to_string())?;
    let meta = bundle.meta();
    let reason = meta.notes.iter().find(|note| note.starts_with("kept by sockscope watch: "));
    let reason = reason.cloned().unwrap_or_default();
    let finding = stall.kind.finding();
    let name = format!("finding={}", finding.name());
    let connections = bundle.connections();
    let own = connections
        .iter()
        .find(|one| one.end(Side::Client).to_string() == stall.client.to_string());
    let own = own.ok_or_else(|| format!("{reason}: no connection of {}", stall.client))?.id;
    if !reason.contains(&name) || !reason.contains(&format!("; connection {}: ", own.0)) {
        return Err(format!("the reason is not {name} on connection {}: {reason}", own.0));
    }
    if !meta.complete || !bundle.problems().is_empty() {
        return Err(format!("it is not whole: {:?}", bundle.problems()));
    }
    let from_ns = meta.clock.first().map_or(u64::MAX, |clock| clock.monotonic_ns);
    let until_ns = meta.ended_ns.unwrap_or_default();
    let seconds = |from: u64, until: u64| (until as f64 - from as f64) * 1e-9;
    let (before, after) = (seconds(from_ns, stall.begin_ns), seconds(stall.end_ns, until_ns));
    if before < before_s || after < after_s {
        return Err(format!("it has {before:.1} s before the stall and {after:.1} s after it"));
    }
    let mut earlier = 0;
    let mut records = bundle.records().map_err(|error| error.to_string())?;
    while let Some(batch) = records.next_batch().map_err(|error| error.to_string())? {
        let is_earlier = |at_ns: u64| at_ns < stall.begin_ns;
        let own = batch.iter().filter(|it| it.flow.connection() == own && is_earlier(it.at_ns));
        earlier += own.count();
    }
    let analysis = analysis(&bundle);
    let one = analysis.connections.iter().find(|one| one.connection.id == own);
    let found = one.into_iter().flat_map(|one| &one.findings).find(|it| it.id == finding);
    let overlaps = |(from, until): &(u64, u64)| *from < stall.end_ns && *until > stall.begin_ns;
    let found = found.filter(|it| it.times.iter().any(overlaps));
    let found =
        found.ok_or_else(|| format!("its analysis has no {name} on connection {}", own.0))?;
    if found.cost_ns < SECOND_NS || found.cost_ns > 3 * SECOND_NS {
        return Err(format!("{name} costs {} ns, of a stall of two seconds", found.cost_ns));
    }
    if earlier < 10 {
        return Err(format!("it has {earlier} records of the connection before the stall"));
    }
    Ok(format!(
        "{}: {:.2} s of {}, {before:.1} s before it, {after:.1} s after it, {} records of {} connections, {:.1} MB",
        stall.kind.name(),
        found.cost_ns as f64 * 1e-9,
        finding.name(),
        bundle.record_rows(),
        connections.len(),
        size(folder) as f64 / 1e6
    ))
}

fn size(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
}

/// Connections of the churn that opened and closed in the trace: those with all octets at both ends, those without, and
/// the records that the trace counts as missed.
pub struct Whole {
    pub whole: u64,
    pub broken: u64,
    pub missed: u64,
    pub seconds: f64,
}

pub fn whole_connections(folder: &Path) -> Result<Whole, String> {
    let bundle = Bundle::open(folder).map_err(|error| error.to_string())?;
    // By flow: octets written, and octets read.
    let mut octets: BTreeMap<u32, [u64; 2]> = BTreeMap::new();
    let (mut first_ns, mut last_ns) = (u64::MAX, 0);
    let mut records = bundle.records().map_err(|error| error.to_string())?;
    while let Some(batch) = records.next_batch().map_err(|error| error.to_string())? {
        for record in batch {
            (first_ns, last_ns) = (first_ns.min(record.at_ns), last_ns.max(record.at_ns));
            let place = match record.kind {
                RecordKind::SendEnqueue => 0,
                RecordKind::ReceiveDequeue => 1,
                _ => continue,
            };
            octets.entry(record.flow.0).or_default()[place] += u64::from(record.len);
        }
    }
    let ended = |one: &&sockscope_record::Connection| {
        let is_over = one.closed_ns.is_some_and(|at_ns| at_ns + SECOND_NS / 2 < last_ns);
        is_over && !one.preexisting && one.opened_ns > first_ns
    };
    let of_churn = bundle.connections().iter().filter(ended);
    let is_whole = |one: &sockscope_record::Connection| {
        let flows = [0, 1].map(|way| octets.get(&(2 * one.id.0 + way)).copied());
        flows == [Some([EXCHANGE, EXCHANGE]); 2]
    };
    let (whole, broken): (Vec<_>, Vec<_>) = of_churn.partition(|one| is_whole(one));
    Ok(Whole {
        whole: whole.len() as u64,
        broken: broken.len() as u64,
        missed: bundle.meta().loss.total(),
        seconds: last_ns.saturating_sub(first_ns) as f64 * 1e-9,
    })
}
