//! What recording costs the traffic, how fast records reach the disk, and what a report of many
//! records needs.
//!
//! `cargo bench -p sockscope-cli [-- --quick] [calls|bulk|disk|report]`. Needs the rights of a
//! recording and two CPUs: the traffic has the last one to itself, everything else the first.
//! Rates on this kind of machine drift, so nothing is compared but neighbours in time, as ratios;
//! `docs/performance.md` explains the tables.

mod bundle;
mod costs;
mod disk;
mod report;
mod slices;
mod statistics;
mod table;
mod tcpdump;
mod traffic;
mod transfer;

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use transfer::Load;

/// What any part can fail with.
type Failure = Box<dyn Error>;

/// Measures one thing and prints it.
type Part = fn(&Plan) -> Result<(), Failure>;

/// CPU of the recorder, tcpdump and this program's main thread.
const RECORDER_CPU: usize = 0;

/// How much is measured.
struct Plan {
    /// Slices with and without, for each condition: at least so many, and more, up to
    /// `pairs_max`, until the judged ratios are known well enough.
    pairs: usize,
    pairs_max: usize,
    /// Length of one slice.
    slice: Duration,
    /// Slices in which the kernel measures the probes' run time.
    cost_slices: usize,
    /// Segments of one round from kernel to disk, and rounds.
    segments: u64,
    rounds: usize,
    /// Records of the bundle that is reported.
    report_records: u64,
    /// Where bundles are written.
    folder: PathBuf,
    /// CPU of both ends of the traffic: the last one.
    traffic_cpu: usize,
}

impl Plan {
    fn full() -> Self {
        Self {
            pairs: 24,
            pairs_max: 192,
            slice: Duration::from_millis(500),
            cost_slices: 12,
            segments: 2_000_000,
            rounds: 7,
            report_records: 10_000_000,
            folder: PathBuf::from(env!("CARGO_TARGET_TMPDIR")),
            traffic_cpu: cpus() - 1,
        }
    }

    /// To see that everything works; its figures mean nothing.
    fn quick() -> Self {
        Self {
            pairs: 6,
            pairs_max: 6,
            slice: Duration::from_millis(100),
            cost_slices: 2,
            segments: 400_000,
            rounds: 3,
            report_records: 500_000,
            ..Self::full()
        }
    }
}

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let plan =
        if words.iter().any(|word| word == "--quick") { Plan::quick() } else { Plan::full() };
    let names: Vec<&str> =
        words.iter().map(String::as_str).filter(|word| !word.starts_with('-')).collect();
    let parts: [(&str, Part); 4] = [
        ("calls", |plan| traffic::run(Load::Calls, plan)),
        ("bulk", |plan| traffic::run(Load::Bulk, plan)),
        ("disk", disk::run),
        ("report", report::run),
    ];
    if let Some(unknown) = names.iter().find(|&name| parts.iter().all(|(part, _)| part != name)) {
        return Err(format!("no part {unknown}: calls, bulk, disk, report").into());
    }
    if let Some(right) = sockscope_probe::missing_right() {
        println!("live benchmarks: not run, they need {right}");
        return Ok(());
    }
    println!("{}", machine());
    // From here on this thread knows of one CPU only.
    sockscope_probe::bench::pin(RECORDER_CPU)?;
    std::fs::create_dir_all(&plan.folder)?;
    for (name, run) in parts {
        if names.is_empty() || names.contains(&name) {
            println!();
            run(&plan)?;
        }
    }
    Ok(())
}

/// The machine and its kernel in one line.
fn machine() -> String {
    let all = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = all.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("unknown");
    let model = model.trim_start_matches([' ', '\t', ':']);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split_whitespace().next().unwrap_or("?");
    let cpus = cpus();
    format!("{model}, {cpus} CPUs, Linux {}, load {load} at the start", kernel.trim())
}

fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
