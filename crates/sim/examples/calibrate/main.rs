//! Fits the costs of the VAX-11/750 to the seconds that the paper printed.
//!
//! `cargo run --release -p sockscope-sim --example calibrate -- [--write]`
//!
//! Only the columns 1, 112, 1024 and 1025 of Tables 1 and 2 are used. The work comes from runs of
//! the model; since costs decide when acknowledgments come and so how much work there is, runs and
//! fits alternate. The part of `machines/vax-11-750.toml` behind the mark is written anew with
//! `--write`; without it the example only compares, and fails if the fit has moved.

mod fit;
mod report;
mod tables;

#[path = "../../tests/common/buffers.rs"]
mod buffers;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use fit::{Equation, UNKNOWNS};
use sockscope_sim::{Machine, NoRecords};
use sockscope_stack::{Cost, Meter, Routine};
use tables::{SIZES, Table};

/// What is below this line of the machine file is written by this example.
const MARK: &str = "# Fitted; written by the example `calibrate`.";

/// Rounds of runs and fits.
const ROUNDS: usize = 6;

/// A 1-byte write took so long: 323 acknowledgments, one each 200 ms, for 10,000 writes (Table 3).
const ONE_BYTE_WRITE_NS: u64 = 323 * 200_000_000 / 10_000;

/// The meters of one protocol's runs, and how long the first lasted.
struct Runs {
    meters: Vec<[(u64, u64, [u64; 3]); Routine::COUNT]>,
    first_ns: u64,
}

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = root.join("machines/vax-11-750.toml");
    let text = std::fs::read_to_string(&path).expect("the machine file can be read");
    let (by_hand, fitted) = text.split_once(MARK).expect("the machine file has the mark");
    let tables = ["tcp", "udp"].map(|name| Table::read(&root, name));
    let mut by_hand = by_hand.to_owned();
    let mut machine = Machine::from_toml(&text).expect("the machine file is sound");
    for round in 0..ROUNDS {
        let runs = runs(&machine);
        if round > 0 {
            machine.cpu.user_ns = user_ns(&machine, &runs[0]);
        }
        fit_all(&mut machine, &tables, &runs);
    }
    let last = runs(&machine);
    report::print(&tables, &last);
    replace_user_ns(&mut by_hand, machine.cpu.user_ns);
    let new = fitted_part(&machine, &tables);
    let whole = format!("{by_hand}{MARK}\n{new}");
    if std::env::args().any(|word| word == "--write") {
        std::fs::write(&path, whole).expect("the machine file can be written");
    } else if fitted.trim_start() != new.trim_start() {
        eprintln!("the fit has moved: run again with --write");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn runs(machine: &Machine) -> [Runs; 2] {
    let tcp = SIZES.map(|bytes| buffers::tcp(machine, bytes, NoRecords));
    let udp = SIZES.map(|bytes| buffers::udp(machine, bytes, NoRecords));
    let first_ns = [&tcp[0], &udp[0]].map(|sim| sim.now_ns());
    let of = |sims: &[sockscope_sim::Simulation<NoRecords>]| {
        sims.iter().map(|sim| rows(sim.host(0).meter())).collect()
    };
    [
        Runs { meters: of(&tcp), first_ns: first_ns[0] },
        Runs { meters: of(&udp), first_ns: first_ns[1] },
    ]
}

fn rows(meter: &Meter) -> [(u64, u64, [u64; 3]); Routine::COUNT] {
    let mut rows = [(0, 0, [0; 3]); Routine::COUNT];
    for routine in Routine::ALL {
        let work = meter.work(*routine);
        rows[routine.index()] = (
            meter.calls(*routine),
            meter.charged_ns(*routine),
            [work.bytes, work.mbufs, work.walked],
        );
    }
    rows
}

/// What the program and everything that no table lists took of a 1-byte write.
fn user_ns(machine: &Machine, tcp: &Runs) -> u64 {
    let write_ns = tcp.first_ns / buffers::MESSAGES;
    (machine.cpu.user_ns + ONE_BYTE_WRITE_NS).saturating_sub(write_ns)
}

fn fit_all(machine: &mut Machine, tables: &[Table; 2], runs: &[Runs; 2]) {
    let mut equations: BTreeMap<Routine, Vec<Equation>> = BTreeMap::new();
    for (table, runs) in tables.iter().zip(runs) {
        for (routine, seconds) in &table.rows {
            for (seconds, meter) in seconds.iter().zip(&runs.meters) {
                let (calls, _, work) = meter[routine.index()];
                let work = [calls, work[0], work[1], work[2]].map(|count| count as f64);
                equations.entry(*routine).or_default().push(Equation { work, seconds: *seconds });
            }
        }
    }
    for (routine, equations) in equations {
        machine.costs.set(routine, cost(fit::fit(&equations)));
    }
}

fn cost(seconds: [f64; UNKNOWNS]) -> Cost {
    let [call, byte, mbuf, walk] = seconds;
    let ns = |seconds: f64| (seconds * 1e9).round() as u32;
    let byte_ps = (byte * 1e12).round() as u32;
    Cost { call_ns: ns(call), byte_ps, mbuf_ns: ns(mbuf), walk_ns: ns(walk) }
}

fn replace_user_ns(by_hand: &mut String, user_ns: u64) {
    let lines = by_hand.lines().map(|line| match line.strip_prefix("user_ns = ") {
        Some(_) => format!("user_ns = {user_ns}\n"),
        None => format!("{line}\n"),
    });
    *by_hand = lines.collect();
}

fn fitted_part(machine: &Machine, tables: &[Table; 2]) -> String {
    let mut text = String::new();
    for routine in Routine::ALL {
        let listed: Vec<&str> = tables
            .iter()
            .filter(|table| table.rows.iter().any(|(row, _)| row == routine))
            .map(|table| table.name)
            .collect();
        if listed.is_empty() {
            continue;
        }
        let Cost { call_ns, byte_ps, mbuf_ns, walk_ns } = machine.costs.of(*routine);
        let tables = listed.join(" and ");
        text += &format!("\n[routine.{}]\ncall_ns = {call_ns}\n", routine.name());
        for (name, value) in [("byte_ps", byte_ps), ("mbuf_ns", mbuf_ns), ("walk_ns", walk_ns)] {
            if value > 0 {
                text += &format!("{name} = {value}\n");
            }
        }
        text += &format!("source = \"fitted to {tables}, columns 1, 112, 1024 and 1025\"\n");
    }
    text
}
