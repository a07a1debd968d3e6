//! Why claims on hosts that compute as well differ: §4.4 of the SunOS study.

use sockscope_experiment::papers::Claim;
use sockscope_sim::HostConfig;

use super::explain::{Explain, Shown};
use crate::sunos::listed;
use crate::sunos_load::protocol_delays;
use crate::sunos_runs::observe_changed;
use crate::variation::vary;
use crate::{Comparison, Runs, Verdict};

pub(super) const EXPLANATIONS: &[Explain] = &[
    Explain {
        id: "sunos-ipc/4.4.1-d",
        cause: "the receiving side hangs on our estimate of what a program displaces from the cache; why gaps between packets are shorter with load is not known",
        is_known: false,
        open: "how much memory its program used, and how it measured the sending side beside load",
        show: a_larger_program_slows_the_receiver,
    },
    Explain {
        id: "sunos-ipc/4.4.3-a",
        cause: "a computation of a whole round-robin quantum, 100 ms, which is interrupted once as well; a shorter one is not, so that the order is that of the paper",
        is_known: true,
        open: "how long its process computed",
        show: a_short_computation_is_slowed_more,
    },
];

/// Percent of a routine's cost that is fetched into the cache again: our estimate is 12.
const REFILL_PERCENT: [u32; 2] = [16, 24];

fn a_larger_program_slows_the_receiver(claim: &Claim, _: &Runs) -> Shown {
    let grows = |percent: u32| {
        let refills = move |host: &mut HostConfig| host.machine.cpu.refill_percent = percent;
        let of = |changes: &[&str]| {
            Ok::<_, String>(protocol_delays(&observe_changed("si-4b", changes, &refills)?))
        };
        let quiet = of(&["load=0"])?;
        let (client, server) =
            (of(&["load=4", "load_at=client"])?, of(&["load=4", "load_at=server"])?);
        let by = |loaded: f64, quiet: f64| (loaded / quiet - 1.0) * 100.0;
        Ok::<_, String>([by(client[0], quiet[0]), by(server[1], quiet[1])])
    };
    let all = [grows(REFILL_PERCENT[0])?, grows(REFILL_PERCENT[1])?];
    let receiving = all.map(|[_, receiving]| receiving);
    let sending = all.map(|[sending, _]| sending);
    let expected = [claim.values[0]; 2];
    let is_near = Comparison::against(claim, &expected, &receiving).verdict == Verdict::Reproduced;
    Ok((
        is_near && sending.iter().all(|percent| *percent < 0.0),
        format!(
            "with 16 and 24 % of a routine's cost for the cache in place of 12 receiving grows by {} %, and sending by {} %",
            listed(&receiving, 1),
            listed(&sending, 1)
        ),
    ))
}

/// Milliseconds of CPU time that a piece takes, other than the experiment's own.
const SHORT_MS: u32 = 20;

fn a_short_computation_is_slowed_more(_: &Claim, _: &Runs) -> Shown {
    let computes_ms = |scheduler: &str| {
        let compute = format!("compute_us={}", SHORT_MS * 1000);
        let run = vary("si-4c", &["depth=3", "pieces=12", &compute, scheduler])?;
        let us = run.cases.first().and_then(|case| case.measured.measure("stage_compute_us"));
        Ok::<_, String>(us.unwrap_or(f64::NAN) / 1e3)
    };
    let (decay, by_turns) =
        (computes_ms("scheduler=decay")?, computes_ms("scheduler=round-robin")?);
    Ok((
        decay > by_turns,
        format!(
            "{SHORT_MS} ms of work take {decay:.0} ms with the scheduler that decays, {by_turns:.0} with round-robin"
        ),
    ))
}
