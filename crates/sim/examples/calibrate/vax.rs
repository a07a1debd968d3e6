//! The VAX-11/750: costs fitted to Tables 1 and 2.

use std::collections::BTreeMap;

use sockscope_sim::{Machine, NoRecords, Simulation};
use sockscope_stack::{Cost, Routine};

use crate::file::{File, section};
use crate::fit::{Equation, UNKNOWNS, fit};
use crate::rows::Rows;
use crate::tables::{SIZES, Table};
use crate::{buffers, report, rows};

/// Rounds of runs and fits: costs decide the times of acknowledgments, and so the amount of work.
const ROUNDS: usize = 8;

/// A 1-byte write took so long: 323 acknowledgments, one each 200 ms, for 10,000 writes (Table 3).
const ONE_BYTE_WRITE_NS: u64 = 323 * 200_000_000 / buffers::MESSAGES;

/// Our estimate: a step along a chain is three instructions on a machine of 0.6 million a second.
const WALK_NS: u32 = 5_000;

/// Fits; `false` if the file differs from the fit and `write` does not allow to change it.
pub fn calibrate(write: bool) -> bool {
    let mut file = File::read("vax-11-750");
    // From the beginning each time, so that the answer does not depend on the one before.
    let mut machine = file.machine_by_hand();
    machine.cpu.user_ns = 0;
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
    let rows = |sim: Simulation<NoRecords>| rows::of(sim.host(0).meter());
    [
        SIZES.map(|bytes| rows(buffers::tcp(machine, bytes, NoRecords))).to_vec(),
        SIZES.map(|bytes| rows(buffers::udp(machine, bytes, NoRecords))).to_vec(),
    ]
}

/// The time of the program and of all that no table lists in a 1-byte write.
fn user_ns(machine: &Machine, run_ns: u64) -> u64 {
    (machine.cpu.user_ns + ONE_BYTE_WRITE_NS).saturating_sub(run_ns / buffers::MESSAGES)
}

fn fit_all(machine: &mut Machine, tables: &[Table; 2], runs: &[Vec<Rows>; 2]) {
    let mut equations: BTreeMap<Routine, Vec<Equation>> = BTreeMap::new();
    for (table, runs) in tables.iter().zip(runs) {
        for (routine, seconds) in &table.rows {
            for (seconds, rows) in seconds.iter().zip(runs) {
                let (calls, _, mut work) = rows[routine];
                let mut seconds = *seconds;
                if *routine == Routine::Sbappend {
                    // It moves bytes in 1-byte writes only, and walks where it appends much: the
                    // table does not show the cost of either.
                    seconds -= work.walked as f64 * f64::from(WALK_NS) / 1e9;
                    (work.bytes, work.walked) = (0, 0);
                }
                let work = [calls, work.bytes, work.mbufs, work.walked].map(|count| count as f64);
                equations.entry(*routine).or_default().push(Equation { work, seconds });
            }
        }
    }
    let byte_ps = cost(fit(&equations[&Routine::Copyin])).byte_ps;
    for equation in equations.entry(Routine::MCopy).or_default() {
        let [_, bytes, ..] = &mut equation.work;
        equation.seconds -= std::mem::take(bytes) * f64::from(byte_ps) / 1e12;
    }
    for (routine, equations) in &equations {
        machine.costs.set(*routine, cost(fit(equations)));
    }
    share_checksum(machine, &equations);
    split_shared(machine);
    for (routine, walk_ns) in [(Routine::Sbappend, WALK_NS), (Routine::MCopy, 0)] {
        let fitted = machine.costs.of(routine);
        machine.costs.set(routine, Cost { byte_ps, walk_ns, ..fitted });
    }
}

/// `tcp_cksum` and `udp_cksum` have one loop over bytes and mbufs, which costs both the same; what a call
/// costs besides is each one's own. The tables of both decide the four numbers together.
fn share_checksum(machine: &mut Machine, equations: &BTreeMap<Routine, Vec<Equation>>) {
    let of = |routine, is_tcp: bool| {
        let own = move |equation: &Equation| {
            let [calls, bytes, mbufs, _] = equation.work;
            let calls = if is_tcp { [calls, 0.0] } else { [0.0, calls] };
            let work = [calls[0], bytes, mbufs, calls[1]];
            Equation { work, seconds: equation.seconds }
        };
        equations[&routine].iter().map(own)
    };
    let both: Vec<_> = of(Routine::TcpCksum, true).chain(of(Routine::UdpCksum, false)).collect();
    let Cost { call_ns, byte_ps, mbuf_ns, walk_ns } = cost(fit(&both));
    let shared = Cost { byte_ps, mbuf_ns, ..Cost::default() };
    machine.costs.set(Routine::TcpCksum, Cost { call_ns, ..shared });
    machine.costs.set(Routine::UdpCksum, Cost { call_ns: walk_ns, ..shared });
}

/// Costs that the tables do not separate, because they always occur together.
fn split_shared(machine: &mut Machine) {
    // A call of tcp_xoutput that sends nothing gives the entry cost of its twin, tcp_output.
    let twin = machine.costs.of(Routine::TcpXoutput).call_ns;
    let Cost { call_ns, mbuf_ns, .. } = machine.costs.of(Routine::TcpOutput);
    let mbuf_ns = (call_ns + mbuf_ns).saturating_sub(twin);
    let output = Cost { call_ns: twin, mbuf_ns, ..Cost::default() };
    machine.costs.set(Routine::TcpOutput, output);
    // Nearly every ipintr found one packet. Two thirds are taken to be the way to the first one.
    let Cost { call_ns, mbuf_ns, .. } = machine.costs.of(Routine::Ipintr);
    let both = call_ns + mbuf_ns;
    let ipintr = Cost { call_ns: both / 3 * 2, mbuf_ns: both - both / 3 * 2, ..Cost::default() };
    machine.costs.set(Routine::Ipintr, ipintr);
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
            let also = match routine {
                Routine::Sbappend => "; a byte as Copyin, a step: our estimate, three instructions",
                Routine::MCopy => "; a byte as Copyin",
                Routine::TcpCksum | Routine::UdpCksum => {
                    "; bytes and mbufs with those of its twin, whose loop is the same"
                }
                Routine::TcpOutput => "; a call without a segment as tcp_xoutput",
                Routine::TcpInput => {
                    "; at 112 bytes by the calls of the model's run, which has more than Table 3 by a resonance with the timer of 200 ms"
                }
                Routine::Ipintr => "; two thirds of a lone packet's time for the call: estimate",
                _ => "",
            };
            let source = format!("fitted to {tables}, columns 1, 112, 1024 and 1025{also}");
            text += &section(*routine, machine.costs.of(*routine), &source);
        }
    }
    text
}
