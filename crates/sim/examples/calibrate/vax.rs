//! The VAX-11/750: costs fitted to Tables 1 and 2.

use std::collections::BTreeMap;

use sockscope_sim::{Machine, NoRecords, Simulation};
use sockscope_stack::{Cost, Meter, Routine, WorkTotal};

use crate::buffers;
use crate::file::{File, section};
use crate::fit::{Equation, UNKNOWNS, fit};
use crate::report;
use crate::tables::{SIZES, Table};

/// Rounds of runs and fits: costs decide when acknowledgments come, and so how much work there is.
const ROUNDS: usize = 8;

/// A 1-byte write took so long: 323 acknowledgments, one each 200 ms, for 10,000 writes (Table 3).
const ONE_BYTE_WRITE_NS: u64 = 323 * 200_000_000 / buffers::MESSAGES;

/// Calls, nanoseconds and work of each routine.
pub type Rows = BTreeMap<Routine, (u64, u64, WorkTotal)>;

/// Fits; `false` if the file differs from the fit and `write` does not allow to change it.
pub fn calibrate(write: bool) -> bool {
    let mut file = File::read("vax-11-750");
    let mut machine = file.machine();
    let tables = ["tcp", "udp"].map(Table::read);
    for round in 0..ROUNDS {
        let tcp_ns = buffers::tcp(&machine, 1, NoRecords).now_ns();
        if round > 1 {
            machine.cpu.user_ns = user_ns(&machine, tcp_ns);
        }
        let runs = runs(&machine);
        fit_all(&mut machine, &tables, &runs);
    }
    report::print(&tables, &runs(&machine));
    file.set("user_ns", machine.cpu.user_ns);
    file.replace(&fitted_part(&machine, &tables), write)
}

/// The runs of each table at each size.
fn runs(machine: &Machine) -> [Vec<Rows>; 2] {
    let rows = |sim: Simulation<NoRecords>| rows(sim.host(0).meter());
    [
        SIZES.map(|bytes| rows(buffers::tcp(machine, bytes, NoRecords))).to_vec(),
        SIZES.map(|bytes| rows(buffers::udp(machine, bytes, NoRecords))).to_vec(),
    ]
}

fn rows(meter: &Meter) -> Rows {
    let row = |routine| (meter.calls(routine), meter.charged_ns(routine), meter.work(routine));
    Routine::ALL.iter().map(|routine| (*routine, row(*routine))).collect()
}

/// What the program and everything that no table lists took of a 1-byte write.
fn user_ns(machine: &Machine, run_ns: u64) -> u64 {
    (machine.cpu.user_ns + ONE_BYTE_WRITE_NS).saturating_sub(run_ns / buffers::MESSAGES)
}

fn fit_all(machine: &mut Machine, tables: &[Table; 2], runs: &[Vec<Rows>; 2]) {
    let mut equations: BTreeMap<Routine, Vec<Equation>> = BTreeMap::new();
    for (table, runs) in tables.iter().zip(runs) {
        for (routine, seconds) in &table.rows {
            for (seconds, rows) in seconds.iter().zip(runs) {
                let (calls, _, work) = rows[routine];
                let work = [calls, work.bytes, work.mbufs, work.walked].map(|count| count as f64);
                equations.entry(*routine).or_default().push(Equation { work, seconds: *seconds });
            }
        }
    }
    for (routine, equations) in equations {
        machine.costs.set(routine, cost(fit(&equations)));
    }
}

fn cost(seconds: [f64; UNKNOWNS]) -> Cost {
    let [call, byte, mbuf, walk] = seconds;
    let ns = |seconds: f64| (seconds * 1e9).round() as u32;
    let byte_ps = (byte * 1e12).round() as u32;
    Cost { call_ns: ns(call), byte_ps, mbuf_ns: ns(mbuf), walk_ns: ns(walk) }
}

fn fitted_part(machine: &Machine, tables: &[Table; 2]) -> String {
    let mut text = String::new();
    for routine in Routine::ALL {
        let lists = |table: &&Table| table.rows.iter().any(|(row, _)| row == routine);
        let listed: Vec<&str> = tables.iter().filter(lists).map(|table| table.name).collect();
        if !listed.is_empty() {
            let tables = listed.join(" and ");
            let source = format!("fitted to {tables}, columns 1, 112, 1024 and 1025");
            text += &section(*routine, machine.costs.of(*routine), &source);
        }
    }
    text
}
