//! Records analysed a second of CPU time on one core, and the memory that takes.
//!
//! Each case makes 10 million records, batch by batch, and times only the analysis of them: taking
//! them in, and everything after that up to the finished result. Each runs in a process of its own,
//! so that the peak of resident memory (`VmHWM`) is its own too.
//!
//! `cargo bench -p sockscope-analysis`, or `-- CASE [RECORDS]` for one case.

use std::process::Command;
use std::time::Duration;

use sockscope_analysis::{Analyzer, TraceFacts};

#[path = "../../../benches/process.rs"]
mod process;
#[path = "../../../benches/traffic.rs"]
mod traffic;

use process::{CpuTime, memory_kib};
use traffic::{Traffic, connection};

const RECORDS: usize = 10_000_000;
const BATCH: usize = 65_536;

/// Name, connections, and how many of them carry bulk data; the others make calls.
const CASES: [(&str, u32, u32); 4] =
    [("one-bulk", 1, 1), ("one-caller", 1, 0), ("mixed-64", 64, 8), ("mixed-5000", 5000, 50)];

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    match arguments.next() {
        Some(name) => {
            let records = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(RECORDS);
            let case = CASES.into_iter().find(|case| case.0 == name);
            let (name, connections, bulk) = case.expect("a case's name");
            run(name, connections, bulk, records);
        }
        None => {
            for (name, ..) in CASES {
                let program = std::env::current_exe().expect("the path of this program");
                let status = Command::new(program).arg(name).status().expect("to start it again");
                assert!(status.success(), "case {name} failed");
            }
        }
    }
}

fn run(name: &str, connections: u32, bulk: u32, records: usize) {
    let mut traffic = Traffic::new(connections, bulk);
    let mut analyzer = Analyzer::new();
    let mut batch = Vec::with_capacity(BATCH + 64);
    let (mut made, mut spent) = (0, Duration::ZERO);
    while made < records {
        batch.clear();
        while batch.len() < BATCH {
            traffic.step(&mut batch);
        }
        made += batch.len();
        let start = CpuTime::now();
        analyzer.push(&batch);
        spent += start.elapsed();
    }
    for id in 1..=connections {
        analyzer.connection(connection(id));
    }
    let pushed = spent;
    let start = CpuTime::now();
    let analysis = analyzer.finish(TraceFacts::default());
    spent += start.elapsed();
    let flows = analysis.connections.iter().flat_map(|connection| &connection.flows);
    let residue: i64 =
        flows.flat_map(|flow| &flow.stages).filter_map(|stage| stage.residue_bytes).sum();
    assert_eq!((analysis.records as usize, residue), (made, 0));
    println!(
        "{name:<12} {:>6.2} M records/s ({made} records, taking in {:.2} s, all {:.2} s), peak {} MiB",
        made as f64 / spent.as_secs_f64() / 1e6,
        pushed.as_secs_f64(),
        spent.as_secs_f64(),
        memory_kib("VmHWM") / 1024,
    );
}
