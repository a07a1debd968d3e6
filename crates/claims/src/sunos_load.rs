//! Checks of transfers on hosts that compute as well: §4.4 of "Experimental Evaluation of SunOS IPC
//! and TCP/IP Protocol Implementation".

use std::sync::LazyLock;

use sockscope_experiment::papers::Claim;
use sockscope_lab::model::{Observed, mean};
use sockscope_record::{Point, Stage};

use super::sunos::{RATE_NOISE, Run, listed, rates, shared};
use super::sunos_runs::observe;
use super::{Check, Comparison, Outcome, Runs};

pub(super) const CHECKS: &[Check] = &[
    Check { id: "sunos-ipc/4.4.1-a", needs: &["si-4a"], compare: falls_with_load },
    Check { id: "sunos-ipc/4.4.1-b", needs: &["si-4b"], compare: server_load_fills_its_socket },
    Check { id: "sunos-ipc/4.4.1-c", needs: &["si-4b"], compare: client_load_holds_the_program },
    Check { id: "sunos-ipc/4.4.1-d", needs: &["si-4b"], compare: protocol_delay_under_load },
];

fn falls_with_load(_: &Claim, runs: &Runs) -> Outcome {
    let side = |side| rates(runs, "si-4a", &[("load_at", side)]);
    let (server, client) = (side("server"), side("client"));
    let falls = |rates: &[f64]| {
        rates.windows(2).all(|pair| pair[1] < pair[0] * (1.0 + RATE_NOISE))
            && rates[rates.len() - 1] < rates[0] * 0.7
    };
    Ok(Comparison::holds(
        falls(&server) && falls(&client),
        "throughput falls with the level of load, on either side",
        format!(
            "levels 0 to {}: {} Mbit/s with load on the server, {} on the client",
            server.len() - 1,
            listed(&server, 2),
            listed(&client, 2)
        ),
    ))
}

static QUIET: LazyLock<Run> = LazyLock::new(|| observe("si-4b", &["load=0"]));
static SERVER_LOADED: LazyLock<Run> =
    LazyLock::new(|| observe("si-4b", &["load=4", "load_at=server"]));
static CLIENT_LOADED: LazyLock<Run> =
    LazyLock::new(|| observe("si-4b", &["load=4", "load_at=client"]));

/// The queues of the paper, with their mean delays in microseconds.
fn queue_delays(seen: &Observed) -> [(&'static str, f64); 4] {
    [Stage::SendQueue, Stage::InterfaceQueue, Stage::InputQueue, Stage::ReceiveQueue]
        .map(|stage| (stage.name(), seen.mean_delay_us(stage)))
}

/// Packets that found others in the IP queue.
fn found_in_ip_queue(seen: &Observed) -> usize {
    let found = seen.found(Stage::InputQueue, Point::InputEnqueue);
    found.iter().filter(|bytes| **bytes > 0).count()
}

fn server_load_fills_its_socket(_: &Claim, _: &Runs) -> Outcome {
    let (quiet, loaded) = (shared(&QUIET)?, shared(&SERVER_LOADED)?);
    let [.., (_, receive_quiet)] = queue_delays(quiet);
    let [(_, _), (_, interface), (_, input), (_, receive)] = queue_delays(loaded);
    let [before, gathered] = [quiet, loaded].map(found_in_ip_queue);
    Ok(Comparison::holds(
        receive > interface && receive > input && receive > 2.0 * receive_quiet,
        "of the queues beyond the sender's, the receive socket's delays most",
        format!(
            "interface {interface:.0}, IP {input:.0}, receive socket {receive:.0} us; without load {receive_quiet:.0}"
        ),
    )
    .and(Comparison::holds(
        gathered > before,
        "the receive socket's queue delays most, and a little gathers in the IP queue, which was empty without load",
        format!(
            "receive socket {receive:.0} us, interface {interface:.0}, IP {input:.0}; packets that find others in the IP queue: {gathered}, without load {before}"
        ),
    )))
}

fn client_load_holds_the_program(_: &Claim, _: &Runs) -> Outcome {
    let (quiet, loaded) = (shared(&QUIET)?, shared(&CLIENT_LOADED)?);
    let [(_, send), (_, interface), (_, input), (_, receive)] = queue_delays(loaded);
    let (program, without) = (loaded.mean_program_delay_us(), quiet.mean_program_delay_us());
    let others = interface.max(input).max(receive);
    Ok(Comparison::holds(
        program > others && program > 2.0 * without,
        "data waits before the protocol, in the program's buffer and the socket",
        format!(
            "program's buffer {program:.0} us ({without:.0} without load), send socket {send:.0}, the others at most {others:.0}"
        ),
    ))
}

/// Mean protocol delay: gaps in bursts on the sending side, points 6 to 7 on the receiving.
pub(super) fn protocol_delays(seen: &Observed) -> [f64; 2] {
    [
        mean(&seen.gaps_in_bursts_us()),
        mean(&seen.in_order_delays_us(Point::InputDequeue, Point::ReceiveEnqueue)),
    ]
}

fn protocol_delay_under_load(claim: &Claim, _: &Runs) -> Outcome {
    let quiet = protocol_delays(shared(&QUIET)?);
    let (client, server) =
        (protocol_delays(shared(&CLIENT_LOADED)?), protocol_delays(shared(&SERVER_LOADED)?));
    let percent = |loaded: f64, quiet: f64| (loaded / quiet - 1.0) * 100.0;
    let (send, receive) = (percent(client[0], quiet[0]), percent(server[1], quiet[1]));
    let expected = [claim.values[0]; 2];
    Ok(Comparison::against(claim, &expected, &[send, receive])
        .with_note("the sending side with load beside it, and the receiving side"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The load average decides how long the scheduler holds against a process what it has computed: the
    /// paper's, which started the load and transferred at once, was still that of an idle machine.
    #[test]
    fn a_megabyte_beside_load_that_has_run_for_a_minute_goes_as_without() {
        let transfer_ns = |before_s: u32| {
            let before = format!("load_before_s={before_s}");
            let load = ["load=4", "load_at=client", &before];
            observe("si-4b", &load).unwrap().measured.transfer_ns
        };
        let quiet_ns = observe("si-4b", &["load=0"]).unwrap().measured.transfer_ns;
        assert!(transfer_ns(1) > 2 * quiet_ns && transfer_ns(3) > 2 * quiet_ns);
        assert!(transfer_ns(60) < quiet_ns * 6 / 5, "{} {quiet_ns}", transfer_ns(60));
    }
}
