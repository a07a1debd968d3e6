//! Why claims on single packets differ: §4.2.2 of the SunOS study.

use sockscope_experiment::papers::Claim;
use sockscope_lab::model::mean;
use sockscope_record::Point;
use sockscope_sim::HostConfig;
use sockscope_stack::{Cost, Routine};

use super::explain::{Explain, Shown};
use crate::sunos::shared;
use crate::sunos_runs::observe_changed;
use crate::sunos_trace::{SINGLE, continuous, copy_us, protocol_means, table_1};
use crate::{Comparison, Runs, Verdict};

pub(super) const EXPLANATIONS: &[Explain] = &[
    Explain {
        id: "sunos-ipc/4.2.2-a",
        cause: "one number differs by more than the tolerance, the send protocol; what it lacks is what 4.2.2-c lacks",
        is_known: false,
        open: "times of single routines, and what a call from deeper in the kernel costs",
        show: one_shortage,
    },
    Explain {
        id: "sunos-ipc/4.2.2-c",
        cause: "a single packet lacks in the send protocol what it lacks of the printed 443 us",
        is_known: false,
        open: "times of single routines, and what a call from deeper in the kernel costs",
        show: one_shortage,
    },
    Explain {
        id: "sunos-ipc/4.2.2-d",
        cause: "sending through the socket takes too long; with the printed time of that alone the ratio is that of the paper",
        is_known: false,
        open: "times of single routines, and where in `sosend` its first probe stands",
        show: with_the_printed_send_socket,
    },
    Explain {
        id: "sunos-ipc/4.2.2-f",
        cause: "206 us of the receive interrupt, which are fitted to 124 us in the IP queue: the check ends when the receiver has the packet",
        is_known: true,
        open: "where this time ends: the wire alone takes 0.86 ms of it; and which work of the receiver lasts 124 us",
        show: without_the_fitted_interrupt,
    },
];

/// How far two shortages may be apart that are one, in microseconds.
const ALIKE_US: f64 = 10.0;

/// Printed microseconds of a single packet in the send socket and the send protocol (Table 1), and how much
/// longer the latter is than in a transfer.
const SEND_SOCKET_US: f64 = 280.0;
const SEND_PROTOCOL_US: f64 = 443.0;
const MORE_THAN_IN_A_TRANSFER_US: f64 = 73.0;

fn one_shortage(_: &Claim, _: &Runs) -> Shown {
    let [_, single, ..] = table_1(shared(&SINGLE)?);
    let [_, continuous] = protocol_means(continuous()?);
    let lacks = SEND_PROTOCOL_US - single;
    let lacks_more = MORE_THAN_IN_A_TRANSFER_US - (single - continuous);
    Ok((
        lacks > 0.0 && (lacks - lacks_more).abs() < ALIKE_US,
        format!(
            "the send protocol lacks {lacks:.0} us of the printed {SEND_PROTOCOL_US:.0}, and {lacks_more:.0} of the printed difference of {MORE_THAN_IN_A_TRANSFER_US:.0}"
        ),
    ))
}

fn with_the_printed_send_socket(claim: &Claim, _: &Runs) -> Shown {
    let ([send, .., receive], copy) = (table_1(shared(&SINGLE)?), copy_us()?);
    let ratio = (receive - copy) / (SEND_SOCKET_US - copy);
    Ok((
        Comparison::numbers(claim, &[ratio]).verdict == Verdict::Reproduced
            && send > SEND_SOCKET_US,
        format!(
            "{:.0} us more than the printed {SEND_SOCKET_US:.0} in the send socket; without them the ratio is {ratio:.2}",
            send - SEND_SOCKET_US
        ),
    ))
}

/// The part of the receive interrupt that is fitted, as the machine's file has it.
const FITTED_NS: u32 = 206_000;

fn without_the_fitted_interrupt(claim: &Claim, _: &Runs) -> Shown {
    let without = |host: &mut HostConfig| {
        let cost = host.machine.costs.of(Routine::Enrint);
        let cost = Cost { call_ns: cost.call_ns.saturating_sub(FITTED_NS), ..cost };
        host.machine.costs.set(Routine::Enrint, cost);
    };
    let seen = observe_changed("si-2b", &["write_pause_ms=1000"], &without)?;
    let us = mean(&seen.packet_delays_us(Point::InterfaceDequeue, Point::InputEnqueue));
    Ok((
        Comparison::numbers(claim, &[us]).verdict == Verdict::Reproduced,
        format!("without them {us:.0} us"),
    ))
}
