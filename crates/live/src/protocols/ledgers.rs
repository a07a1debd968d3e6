//! The ledgers of a comparison, and what it costs to take them.
//!
//! Every case with figures is run twice more for a short time: as it is, and recorded. The ratio of
//! these two says what watching costs on this machine: probes, recorder and its thread together.

use sockscope_record::counted;

use super::measure::{Measured, measure};
use super::record::{CaseLedger, Recording, Told, window};
use super::{Plan, Protocol, Row, record, run};

/// Adds the ledger of each case that has figures; gives what a reader must know of them.
pub(super) fn add(
    plan: &Plan,
    protocol: Protocol,
    rows: &mut [Row],
    progress: &(dyn Fn(&str) + Sync),
) -> Vec<String> {
    let name = protocol.name();
    if plan.recorded.is_zero() {
        return Vec::new();
    }
    if let Some(why) = protocol.unseen() {
        return vec![format!("{name}: ledger unknown, {why}")];
    }
    let is_told = protocol.telling(&Told::default()).is_some();
    if !is_told && let Some(right) = sockscope_probe::missing_right() {
        return vec![format!("{name}: ledger unknown, recording needs {right}")];
    }
    progress(&format!("{name}, ledgers"));
    let plain: Vec<_> = rows.iter().map(|row| plain_ns(plan, row)).collect();
    let added = if is_told { add_told(plan, rows) } else { add_recorded(plan, rows) };
    let (recorded, mut notes) = match added {
        Ok(added) => added,
        Err(error) => return vec![format!("{name}: ledger unknown: {error}")],
    };
    for ((row, plain), recorded) in rows.iter_mut().zip(plain).zip(recorded) {
        if let (Ok(figures), Some(plain), Some(recorded)) = (&mut row.outcome, plain, recorded) {
            figures.recorded_ratio = Some(recorded as f64 / plain as f64);
        }
    }
    if protocol == Protocol::VmtpIp {
        notes.push(
            "its engines tell points 1, 2, 7 and 8; between 2 and 7 is the kernel's IP, unknown"
                .into(),
        );
    }
    notes.extend(cost(rows));
    notes.iter().map(|note| format!("{name}: {note}")).collect()
}

/// Median time of a call while recorded, where that went well, and notes.
type Added = (Vec<Option<u64>>, Vec<String>);

/// By the probes.
fn add_recorded(plan: &Plan, rows: &mut [Row]) -> std::io::Result<Added> {
    let cases = &*rows;
    let (recording, windows) = Recording::of(move || {
        let record = |row: &Row| {
            let opened = row.outcome.is_ok().then(window)?;
            let measured = run(row.protocol, row.message_bytes, row.clients, plan.recorded).ok()?;
            Some((median_ns(&measured), opened.close(measured.ports)))
        };
        cases.iter().map(record).collect::<Vec<_>>()
    })?;
    let mut times = Vec::new();
    for (row, recorded) in rows.iter_mut().zip(windows) {
        if let (Ok(figures), Some((_, window))) = (&mut row.outcome, &recorded) {
            figures.ledger = recording.ledger(window);
        }
        times.push(recorded.and_then(|(ns, _)| ns));
    }
    let missed = (recording.missed > 0).then(|| format!("records missed: {}", recording.missed));
    Ok((times, missed.into_iter().collect()))
}

/// By the protocol's own ends.
fn add_told(plan: &Plan, rows: &mut [Row]) -> std::io::Result<Added> {
    let told = rows.iter_mut().map(|row| {
        let (ns, ledger) = tell(plan, row)?;
        if let Ok(figures) = &mut row.outcome {
            figures.ledger = ledger;
        }
        ns
    });
    Ok((told.collect(), Vec::new()))
}

/// Makes the calls of `row` once more with ends that tell what passes them.
fn tell(plan: &Plan, row: &Row) -> Option<(Option<u64>, Option<CaseLedger>)> {
    row.outcome.as_ref().ok()?;
    let told = Told::default();
    let server = row.protocol.telling(&told)?.serve(row.message_bytes).ok()?;
    let measured = measure(server.as_ref(), row.clients, plan.recorded).ok()?;
    // Its end tells, too.
    drop(server);
    let (connections, records) = std::mem::take(&mut *told.lock().ok()?);
    let ledger = record::ledger_of(connections, records, row.protocol == Protocol::Channel);
    Some((median_ns(&measured), ledger))
}

/// Median time of a call without a recorder.
fn plain_ns(plan: &Plan, row: &Row) -> Option<u64> {
    row.outcome.as_ref().ok()?;
    median_ns(&run(row.protocol, row.message_bytes, row.clients, plan.recorded).ok()?)
}

fn median_ns(measured: &Measured) -> Option<u64> {
    measured.call_ns.percentile_ns(50).filter(|&ns| ns > 0)
}

/// What recording cost, over all cases.
fn cost(rows: &[Row]) -> Option<String> {
    let ratio = |row: &Row| row.outcome.as_ref().ok()?.recorded_ratio;
    let mut ratios: Vec<f64> = rows.iter().filter_map(ratio).collect();
    ratios.sort_by(f64::total_cmp);
    let (least, most) = (ratios.first()?, ratios.last()?);
    Some(format!(
        "while recorded, a median call takes {:.2} times as long (median of {}, {least:.2} to {most:.2})",
        ratios[ratios.len() / 2],
        counted(ratios.len() as u64, "case"),
    ))
}
