//! Why claims on windows differ: §4.3 of the SunOS study.

use sockscope_experiment::papers::Claim;
use sockscope_sim::{HostConfig, Machine};
use sockscope_stack::{Cost, Costs, Routine};

use super::explain::{Explain, Shown};
use crate::Runs;
use crate::sunos::{SEGMENT_BYTES, copy_and_checksum_us, listed};
use crate::sunos_runs::observe_changed;

pub(super) const EXPLANATIONS: &[Explain] = &[Explain {
    id: "sunos-ipc/4.3.2-a",
    cause: "work for each packet of the window other than the copy to the reader, on the one CPU of the loopback",
    is_known: true,
    open: "what a packet costs besides its copy, which the formula leaves out",
    show: the_formula_holds_where_nothing_else_costs,
}];

/// How far an idle time may be from the copy.
const TOLERANCE: f64 = 0.25;

/// Hosts on which nothing but copies to programs costs time.
fn copies_out_alone(host: &mut HostConfig) {
    let byte_ps = host.machine.costs.of(Routine::Copyout).byte_ps;
    let mut costs = Costs::default();
    costs.set(Routine::Copyout, Cost { byte_ps, ..Cost::default() });
    (host.machine.costs, host.machine.cpu) = (costs, Machine::instant().cpu);
}

fn the_formula_holds_where_nothing_else_costs(_: &Claim, _: &Runs) -> Shown {
    let copy_ms = copy_and_checksum_us()?.0 / 1e3;
    let idle_ms = |kbytes: u64| {
        let buffer = format!("socket_buffer_bytes={}", kbytes * 1024);
        let changes = ["topology=loopback", "read_pause_ms=0", &buffer];
        let mut gaps =
            observe_changed("si-3b", &changes, &copies_out_alone)?.gaps_between_bursts_us();
        gaps.sort_by(f64::total_cmp);
        Ok::<_, String>(gaps.get(gaps.len() / 2).copied().unwrap_or(f64::NAN) / 1e3)
    };
    let idle = [idle_ms(8)?, idle_ms(16)?];
    let copies = [8.0, 16.0].map(|kbytes: f64| kbytes * 1024.0 / SEGMENT_BYTES * copy_ms);
    let is_near = |(idle, copy): (&f64, &f64)| (idle / copy - 1.0).abs() < TOLERANCE;
    Ok((
        idle.iter().zip(&copies).all(is_near),
        format!(
            "where copies to the reader alone cost time, the sender is idle for {} ms with 8 and 16 KB; these copies take {}",
            listed(&idle, 2),
            listed(&copies, 2)
        ),
    ))
}
