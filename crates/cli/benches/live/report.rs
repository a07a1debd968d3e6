//! Time and memory of `sockscope report` for a bundle of many records, recorded live.

use std::process::{Command, Stdio};
use std::time::Instant;

use sockscope_probe::{Options, bench};

use crate::bundle::{self, Recording};
use crate::table::{judged, row};
use crate::transfer::{Load, Transfer};
use crate::{Failure, Plan};

/// With one bulk transfer.
const CALLERS: usize = 8;
const GIB: f64 = (1_u64 << 30) as f64;

pub fn run(plan: &Plan) -> Result<(), Failure> {
    let dir = plan.folder.join("bench.sockscope");
    let mut transfers = vec![Transfer::start(Load::Bulk, plan.traffic_cpu)?];
    for _ in 0..CALLERS {
        transfers.push(Transfer::start(Load::Calls, plan.traffic_cpu)?);
    }
    let ports = transfers.iter().map(|transfer| transfer.port).collect();
    let mut recording = Recording::start(dir.clone(), ports, Options::default())?;
    while recording.recorder.records() < plan.report_records {
        recording.step()?;
    }
    let (summary, _) = recording.keep()?;
    drop(transfers);
    let start = Instant::now();
    let child = Command::new(env!("CARGO_BIN_EXE_sockscope"))
        .arg("report")
        .arg(&dir)
        .stdout(Stdio::null())
        .spawn()?;
    let (succeeded, peak_bytes) = bench::peak_memory_bytes(child)?;
    let seconds = start.elapsed().as_secs_f64();
    bundle::remove(&dir)?;
    if !succeeded {
        return Err("sockscope report failed".into());
    }
    let gib = peak_bytes as f64 / GIB;
    println!(
        "sockscope report of {} records ({} missed) of {} connections, recorded live",
        summary.records,
        summary.missed.total(),
        CALLERS + 1
    );
    let verdict = judged("at most 1", Some(gib <= 1.0));
    row("peak of memory", &format!("{gib:.2} GiB"), Some(verdict));
    let rate = summary.records as f64 / seconds / 1e6;
    row("reading, analysis, report", &format!("{seconds:.2} s, {rate:.2} million/s"), None);
    Ok(())
}
