//! Why claims on throughput and connections differ: §4.1 and §5 of the SunOS study.

use sockscope_experiment::papers::Claim;
use sockscope_lab::model::Observed;
use sockscope_record::{Point, Stage};
use sockscope_sim::HostConfig;

use super::explain::{Explain, Shown};
use crate::sunos::listed;
use crate::sunos_contention::{Contention, contention_of, without_loss};
use crate::sunos_runs::{observe, observe_changed};
use crate::sunos_throughput::{between_acks, driver_limits, rises, stops_after_each_window};
use crate::variation::vary;
use crate::{Comparison, Runs, Verdict};

pub(super) const EXPLANATIONS: &[Explain] = &[
    Explain {
        id: "sunos-ipc/4.1.1-b",
        cause: "an interface that has a packet to send at nearly any time from 8 KB on, so that a larger window only lengthens its queue",
        is_known: true,
        open: "how much was sent for Figure 9, in which portions, and why 16 KB left the interface without work there",
        show: interface_is_never_idle,
    },
    Explain {
        id: "sunos-ipc/4.1.1-d",
        cause: "a reader that takes each two packets at once, which the receiver then acknowledges",
        is_known: true,
        open: "what kept the reader from the first packets of a window",
        show: a_late_reader_makes_stop_and_wait,
    },
    Explain {
        id: "sunos-ipc/4.1.2-c",
        cause: "the receiver's chip, which begins no acknowledgment within 10 us after a frame (our estimate), so that it finds no room between back-to-back frames",
        is_known: true,
        open: "for how long the chip delays what it is to send",
        show: a_quick_chip_makes_sparcstations_2_fast,
    },
    Explain {
        id: "sunos-ipc/4.1.2-e",
        cause: "a window of 51 packets, one more than the IP queue holds: the drop costs a timeout",
        is_known: true,
        open: "how 51 packets of its largest buffer passed a queue of 50",
        show: fifty_packets_do_not_overflow,
    },
    Explain {
        id: "sunos-ipc/4.1.2-f",
        cause: "the same chip: without the driver's gap the receiver's acknowledgments find no room",
        is_known: true,
        open: "for how long the chip delays what it is to send; the paper removed no gap, but concluded",
        show: a_quick_chip_makes_the_driver_the_limit,
    },
    Explain {
        id: "sunos-ipc/5-a",
        cause: "packets of four-packet windows that have reached the receiver while other connections still send, so that the interface queue never has all of them",
        is_known: true,
        open: "whether 13 connections were tried; the number follows from 50 packets, all windows at once",
        show: a_slow_cable_keeps_all_windows_in_the_queue,
    },
];

const PAIR: [&str; 3] = ["topology=pair", "machine=sparcstation-1", "personality=sunos-4.0.3"];
const TWO_MBYTE: [&str; 2] = ["total_bytes=2097152", "write_bytes=2097152"];

/// The interface of the sender may be without work for so much of a transfer, and still limit it.
const NEVER_IDLE: f64 = 0.02;
/// Packets at the beginning, whose acknowledgments wait for a timer.
const FIRST_PACKETS: usize = 20;

/// Part of the transfer in which no packet waits at the sender's interface, its beginning left out.
fn without_work(seen: &Observed) -> f64 {
    let (first, last) = (seen.data(Point::InterfaceEnqueue), seen.data(Point::InterfaceDequeue));
    let from_ns = first.get(FIRST_PACKETS).map_or(0, |pass| pass.at_ns);
    let until_ns = last.last().map_or(0, |pass| pass.at_ns);
    let lengths = seen.lengths(Stage::InterfaceQueue);
    let is_empty = |pair: &&[(u64, u64)]| pair[0].1 == 0;
    let within =
        |pair: &[(u64, u64)]| pair[1].0.min(until_ns).saturating_sub(pair[0].0.max(from_ns));
    let empty_ns: u64 = lengths.windows(2).filter(is_empty).map(within).sum();
    empty_ns as f64 / until_ns.saturating_sub(from_ns).max(1) as f64
}

fn interface_is_never_idle(_: &Claim, _: &Runs) -> Shown {
    let share = |buffer: u64| {
        let buffer = format!("socket_buffer_bytes={buffer}");
        let seen = observe("si-1a", &[&PAIR[..], &TWO_MBYTE, &[&buffer]].concat())?;
        Ok::<_, String>(without_work(&seen))
    };
    let (small, larger) = (share(4096)?, [share(8192)?, share(16_384)?, share(52_224)?]);
    let percent = larger.map(|share| share * 100.0);
    Ok((
        small > 0.25 && larger.iter().all(|share| *share < NEVER_IDLE),
        format!(
            "no packet waits at the interface for {:.0} % of the time with 4 KB, and for {} % with 8, 16 and 51 KB",
            small * 100.0,
            listed(&percent, 1)
        ),
    ))
}

fn a_late_reader_makes_stop_and_wait(_: &Claim, _: &Runs) -> Shown {
    let changes = ["total_bytes=524288", "socket_buffer_bytes=4096", "read_pause_ms=20"];
    let bursts = between_acks(&observe("si-1b", &changes)?);
    let whole = bursts.iter().filter(|packets| **packets == 4).count();
    Ok((
        stops_after_each_window(&bursts),
        format!(
            "with a reader that sleeps 20 ms between reads {whole} of {} bursts have four packets",
            bursts.len()
        ),
    ))
}

/// A chip that waits for the silence of the cable alone.
fn with_quick_chip(host: &mut HostConfig) {
    host.machine.driver.receive_hold_ns = 0;
}

fn mbit_per_s(seen: &Observed) -> f64 {
    seen.measured.throughput_bits_per_s().unwrap_or(f64::NAN) / 1e6
}

fn a_quick_chip_makes_sparcstations_2_fast(claim: &Claim, _: &Runs) -> Shown {
    let hosts = ["topology=pair", "machine=sparcstation-2", "personality=sunos-4.1"];
    let packets = ["segment_bytes=1024", "driver_gap=false", "socket_buffer_bytes=52224"];
    let seen = observe_changed("si-1a", &[hosts, packets].concat(), &with_quick_chip)?;
    let rate = mbit_per_s(&seen);
    Ok((
        Comparison::numbers(claim, &[rate]).verdict == Verdict::Reproduced,
        format!(
            "without that time the same machines carry {rate:.2} Mbit/s with the largest buffer"
        ),
    ))
}

fn a_quick_chip_makes_the_driver_the_limit(_: &Claim, _: &Runs) -> Shown {
    let rate = |changes: &[&str]| {
        let all = [&PAIR[..2], &TWO_MBYTE, changes].concat();
        Ok::<_, String>(mbit_per_s(&observe_changed("si-1c", &all, &with_quick_chip)?))
    };
    let as_is = rate(&[])?;
    let without_gap = rate(&["driver_gap=false"])?;
    let faster = rate(&["protocol_cost_percent=50"])?;
    Ok((
        driver_limits(as_is, without_gap, faster),
        format!(
            "without that time 2 MB go at {as_is:.2} Mbit/s, at {without_gap:.2} without the gap as well, and at {faster:.2} with half the protocol's cost"
        ),
    ))
}

fn fifty_packets_do_not_overflow(_: &Claim, runs: &Runs) -> Shown {
    let wanted = [crate::sunos::LOOPBACK[0], crate::sunos::LOOPBACK[1]];
    let mut rates = crate::sunos::rates(runs, "si-1a", &wanted);
    let largest = rates.pop().ok_or("si-1a has no case on one host")?;
    let of = |packets: u64| {
        let buffer = format!("socket_buffer_bytes={}", packets * 1024);
        observe("si-1a", &["topology=loopback", PAIR[1], PAIR[2], &buffer])
    };
    let (fits, overflows) = (of(50)?, of(51)?);
    rates.push(mbit_per_s(&fits));
    Ok((
        rises(&rates) && fits.is_clean() && !overflows.is_clean(),
        format!(
            "with 50 packets nothing is sent again and the rate is {:.2} Mbit/s, with 51 it is {largest:.2}",
            mbit_per_s(&fits)
        ),
    ))
}

/// Connections around the limit of the claim.
const AROUND_THE_LIMIT: [u64; 2] = [12, 13];

fn a_slow_cable_keeps_all_windows_in_the_queue(claim: &Claim, _: &Runs) -> Shown {
    let of = |connections: u64| {
        let changes = [
            "socket_buffer_bytes=4096",
            "interface_queue_packets=50",
            "link=ethernet-3",
            &format!("connections={connections}"),
        ];
        vary("si-5a", &changes)
    };
    let mut all: Vec<Contention> = Vec::new();
    for connections in AROUND_THE_LIMIT {
        let run = of(connections)?;
        all.extend(contention_of(&run, connections, claim.values[0] as u64));
    }
    let most = without_loss(&all, claim.values[0] as u64);
    Ok((
        most as f64 == claim.values[1],
        format!(
            "on a cable of 2.94 Mbit/s, which the hosts fill at once, {most} connections are the most without loss"
        ),
    ))
}
