//! Why claims of the thesis on the choice of protocols differ.

use sockscope_experiment::papers::Claim;
use sockscope_experiment::result::RunResult;

use super::explain::{Explain, Shown};
use crate::protocol_atm::{
    FAST, FIRST_TOOTH, LARGEST, SLOW, by_size, curve, falls_in_steps, faster_at,
};
use crate::protocol_vmtp::{
    CLIENTS, Shared, dropped_frames, hosts_lose, one_client_case, shared_by_clients,
};
use crate::variation::vary;
use crate::{Comparison, Runs, Verdict};

pub(super) const EXPLANATIONS: &[Explain] = &[
    Explain {
        id: "protocol-choice/4-atm-d",
        cause: "30 CPU cycles of set-up on the general path, our estimate: with more of them small packets copy for less of the time",
        is_known: true,
        open: "the cycles of a set-up",
        show: a_longer_set_up_lowers_the_share,
    },
    Explain {
        id: "protocol-choice/4-atm-i",
        cause: "work of the processor for a packet that is short against its waits for the bus, which both machines have at 25 MHz",
        is_known: true,
        open: "the cycles of a set-up, and what the faster caches of the 5000/240 gain",
        show: more_work_makes_the_faster_machine_faster,
    },
    Explain {
        id: "protocol-choice/4-atm-k",
        cause: "the fast path for two cells, which ends at 21 octets and spares a set-up of 30 cycles",
        is_known: true,
        open: "the cycles of a set-up",
        show: a_short_set_up_lets_all_teeth_jump,
    },
    Explain {
        id: "protocol-choice/4-vmtp-e",
        cause: "copies of 32 KB at both ends, which the thesis's sum of the smallest transaction and the wire leaves out",
        is_known: true,
        open: "whether 65 % was measured or is that sum",
        show: without_copies,
    },
    Explain {
        id: "protocol-choice/4-vmtp-g",
        cause: "hosts of which none does more than two thirds of the work of a transaction, so that the second client costs the first one less than the third does",
        is_known: true,
        open: "which machines made the pair, and what made one of them so much the slower",
        show: unequal_hosts_fall_fast_at_first,
    },
    Explain {
        id: "protocol-choice/4-vmtp-k",
        cause: "two clients on one host that share its CPU, and so offer less than two on hosts of their own; and with eight the queue of one host, which overflows",
        is_known: true,
        open: "with how many clients the total would fall: it argues, and did not measure",
        show: from_three_clients_on_hosts_lose,
    },
];

/// The sender of packets on a machine, with so many cycles of set-up.
fn with_set_up(machine: &str, cycles: u32) -> Result<RunResult, String> {
    let machine = format!("machine={machine}");
    vary("pc-2", &[&machine, &format!("message_setup_cycles={cycles}")])
}

fn a_longer_set_up_lowers_the_share(claim: &Claim, _: &Runs) -> Shown {
    let shares = curve(&with_set_up(FAST, 50)?, &[], "copy_percent")?;
    let ends: Vec<f64> = [claim.low, claim.high].into_iter().flatten().collect();
    let got = [shares[FIRST_TOOTH], shares[LARGEST]];
    Ok((
        Comparison::against(claim, &ends, &got).verdict == Verdict::Reproduced,
        format!("with 50 cycles {:.1} and {:.1} %", got[0], got[1]),
    ))
}

fn more_work_makes_the_faster_machine_faster(_: &Claim, runs: &Runs) -> Shown {
    // Smaller packets take the fast path, which has no set-up.
    let general = |times: &[f64]| times[FIRST_TOOTH..].to_vec();
    let own = [FAST, SLOW].map(|machine| by_size(runs, machine, "total_s"));
    let more = [FAST, SLOW].map(|machine| curve(&with_set_up(machine, 200)?, &[], "total_s"));
    let faster = |[fast, slow]: [Result<Vec<f64>, String>; 2]| {
        let (fast, slow) = (general(&fast?), general(&slow?));
        Ok::<_, String>((faster_at(&fast, &slow), fast.len()))
    };
    let ((few, _), (all, sizes)) = (faster(own)?, faster(more)?);
    Ok((
        few * 2 < sizes && all == sizes,
        format!(
            "with a set-up of 30 and of 200 cycles the 5000/240 takes less time at {few} and {all} of the {sizes} sizes of the general path"
        ),
    ))
}

fn a_short_set_up_lets_all_teeth_jump(_: &Claim, _: &Runs) -> Shown {
    let run = with_set_up(FAST, 10)?;
    let (packets, cells) = (curve(&run, &[], "packets_per_s")?, curve(&run, &[], "cells_per_s")?);
    let (holds, got) = falls_in_steps(&packets, &cells);
    Ok((holds, format!("with 10 cycles {got}")))
}

fn without_copies(claim: &Claim, runs: &Runs) -> Shown {
    let smallest = vary("pc-6", &["machine=decstation-5000-200", "request_bytes=0"])?;
    let smallest = smallest.cases.first().and_then(|case| case.measured.call_ns.mean_ns());
    let smallest_ms = smallest.map_or(f64::NAN, |ns| ns as f64 / 1e6);
    let (wire_ms, call_ms) = one_client_case(runs);
    let percent = 100.0 * wire_ms / (smallest_ms + wire_ms);
    Ok((
        Comparison::numbers(claim, &[percent]).verdict == Verdict::Reproduced,
        format!(
            "{wire_ms:.2} ms of packets are {percent:.1} % of these and the smallest transaction, {smallest_ms:.2} ms; the model's transaction takes {call_ms:.2} ms"
        ),
    ))
}

/// Packets a second of each client, by the number of clients, with requests of so many octets.
fn rates(machine: &str, server: &str, request_bytes: u32) -> Result<Vec<f64>, String> {
    let changes = [
        format!("machine={machine}"),
        format!("server_machine={server}"),
        format!("request_bytes={request_bytes}"),
        "run_ms=4000".to_owned(),
    ];
    let run = vary("pc-5", &changes.each_ref().map(String::as_str))?;
    curve(&run, &[], "client_packets_per_s")
}

/// The part of a transaction in which the host that limits is at work: of one client's rate, with the rate of
/// all at their ceiling.
fn share_of_the_busier(rates: &[f64]) -> f64 {
    let ceiling = rates.last().copied().unwrap_or(f64::NAN) * rates.len() as f64;
    rates.first().copied().unwrap_or(f64::NAN) / ceiling
}

fn unequal_hosts_fall_fast_at_first(_: &Claim, _: &Runs) -> Shown {
    let falls_ever_less = |rates: &[f64]| {
        let steps: Vec<f64> = rates.windows(2).map(|pair| pair[1] - pair[0]).collect();
        steps.iter().all(|step| *step < 0.0) && steps.is_sorted()
    };
    let (mut holds, mut words) = (true, Vec::new());
    for (server, request_bytes) in
        [("decstation-5000-240", 0), ("decstation-3100", 0), ("decstation-3100", 16_384)]
    {
        let rates = rates("decstation-5000-240", server, request_bytes)?;
        let (share, falls) = (share_of_the_busier(&rates), falls_ever_less(&rates));
        holds &= falls == (share > 2.0 / 3.0);
        words.push(format!(
            "{} with requests of {request_bytes}: {:.0} %, {}",
            server.trim_start_matches("decstation-"),
            share * 100.0,
            if falls { "ever less" } else { "not so" }
        ));
    }
    Ok((
        holds && words.iter().any(|word| word.ends_with("ever less")),
        format!(
            "the server's share of a transaction, and how the rate falls: {}",
            words.join("; ")
        ),
    ))
}

/// Clients for which the claim holds.
const BETWEEN: std::ops::RangeInclusive<u32> = 3..=7;

fn from_three_clients_on_hosts_lose(_: &Claim, runs: &Runs) -> Shown {
    let rows: Vec<Shared> = BETWEEN.map(|clients| shared_by_clients(runs, clients)).collect();
    let dropped = dropped_frames(runs, *CLIENTS.end());
    let gain = |machine: &str| {
        let rate = |own_hosts: bool| {
            let changes = [
                format!("machine={machine}"),
                "clients=2".to_owned(),
                format!("own_hosts={own_hosts}"),
            ];
            let run = vary("pc-4", &changes.each_ref().map(String::as_str))?;
            let rate = run.cases.first().and_then(|case| case.measured.throughput_bits_per_s());
            Ok::<_, String>(rate.unwrap_or(f64::NAN))
        };
        Ok::<_, String>((rate(true)? / rate(false)? - 1.0) * 100.0)
    };
    let gains =
        [gain("decstation-3100")?, gain("decstation-5000-200")?, gain("decstation-5000-240")?];
    Ok((
        hosts_lose(&rows) && gains.is_sorted_by(|slow, fast| slow > fast) && dropped > 0.0,
        format!(
            "with three to seven clients hosts of their own lose, and one host does not fall; with two they gain {} % on the 3100, the 5000/200 and the 5000/240; with eight the queue of one host drops {dropped:.0} frames",
            crate::sunos::listed(&gains, 1)
        ),
    ))
}
