//! Checks of throughput and acknowledgments: §4.1, §4.3 to §5 of "Experimental Evaluation of SunOS IPC
//! and TCP/IP Protocol Implementation".

use std::sync::LazyLock;

use sockscope_record::{Point, Stage};
use sockscope_sim::Machine;
use sockscope_sim::programs::Pace;
use sockscope_stack::tcp::WindowUpdate;

use super::{Check, Judgement, Runs};
use crate::papers::Claim;
use crate::sunos::{Load, Observed, Topology, Transfer};

pub(super) const CHECKS: &[Check] = &[
    Check { id: "sunos-ipc/4.1.1-a", needs: &[], judge: rises_with_buffers },
    Check { id: "sunos-ipc/4.1.1-b", needs: &[], judge: first_gain_is_largest },
    Check { id: "sunos-ipc/4.1.1-c", needs: &[], judge: window_within_buffers },
    Check { id: "sunos-ipc/4.1.1-d", needs: &[], judge: four_packets },
    Check { id: "sunos-ipc/4.1.1-e", needs: &[], judge: twice_the_acks },
    Check { id: "sunos-ipc/4.1.1-f", needs: &[], judge: an_ack_a_window },
    Check { id: "sunos-ipc/4.1.2-a", needs: &[], judge: best_ethernet },
    Check { id: "sunos-ipc/4.1.2-b", needs: &[], judge: best_loopback },
    Check { id: "sunos-ipc/4.1.2-c", needs: &[], judge: best_sparcstation_2 },
    Check { id: "sunos-ipc/4.1.2-d", needs: &[], judge: order_of_the_best },
    Check { id: "sunos-ipc/4.1.2-e", needs: &[], judge: loopback_rises },
    Check { id: "sunos-ipc/4.1.2-f", needs: &[], judge: the_driver_limits },
    Check { id: "sunos-ipc/4.3.1-c", needs: &[], judge: bursts_grow_by_one },
    Check { id: "sunos-ipc/4.3.1-d", needs: &[], judge: queue_falls_to_zero },
    Check { id: "sunos-ipc/4.3.1-e", needs: &[], judge: peaks_fall_on_ticks },
    Check { id: "sunos-ipc/4.3.1-f", needs: &[], judge: more_acks_between_hosts },
    Check { id: "sunos-ipc/4.3.2-a", needs: &[], judge: idle_while_copied },
    Check { id: "sunos-ipc/4.4.1-a", needs: &[], judge: falls_with_load },
    Check { id: "sunos-ipc/4.4.1-b", needs: &[], judge: server_load_fills_its_socket },
    Check { id: "sunos-ipc/4.4.1-c", needs: &[], judge: client_load_holds_the_program },
    Check { id: "sunos-ipc/4.4.1-d", needs: &[], judge: protocol_delay_under_load },
    Check { id: "sunos-ipc/5-a", needs: &[], judge: connections_without_overflow },
    Check { id: "sunos-ipc/5-b", needs: &[], judge: copies_and_checksums_bound },
    Check { id: "sunos-ipc/5-c", needs: &[], judge: share_of_the_bound },
    Check { id: "sunos-ipc/5-e", needs: &[], judge: slow_readers_open_windows_slowly },
];

/// Sizes of both socket buffers, in bytes: the default to the largest.
const BUFFERS: [u32; 7] = [4096, 8192, 16_384, 24_576, 32_768, 40_960, 52_428];
/// Bytes of a transfer whose rate is taken.
const RATE_BYTES: usize = 2 << 20;
/// Data of a segment on all links of the study.
const SEGMENT_BYTES: f64 = 1024.0;
/// Bytes of a write beside load.
const PORTION_BYTES: usize = 8192;
/// Noise of a rate from one buffer size to the next: less than this is no fall.
const RATE_NOISE: f64 = 0.02;
/// Levels of load.
const LEVELS: [usize; 5] = [0, 2, 4, 6, 8];

type Run = Result<Observed, String>;

/// What a check gives when its runs failed.
pub(super) fn judged(judge: impl FnOnce() -> Result<Judgement, String>) -> Judgement {
    judge().unwrap_or_else(Judgement::not_checkable)
}

/// A run that several checks share.
pub(super) fn shared(run: &'static LazyLock<Run>) -> Result<&'static Observed, String> {
    run.as_ref().map_err(Clone::clone)
}

fn bulk(bytes: usize) -> Result<Transfer, String> {
    Ok(Transfer::sparcstations()?.of_bytes(bytes))
}

/// A transfer in writes of 8 KB, as a program beside load makes it: in one write of everything it would
/// not come back from the kernel to be scheduled.
fn portions(bytes: usize) -> Result<Transfer, String> {
    let writes = (bytes / PORTION_BYTES) as u64;
    Ok(Transfer { write_bytes: PORTION_BYTES, writes, ..Transfer::sparcstations()? })
}

/// Rates in Mbit/s by buffer size.
type Sweep = Result<Vec<(u32, f64)>, String>;

fn sweep(change: impl Fn(Transfer) -> Result<Transfer, String>) -> Sweep {
    let rate = |&buffer: &u32| {
        let transfer = Transfer { buffer_bytes: Some(buffer), ..bulk(RATE_BYTES)? };
        Ok((buffer, change(transfer)?.run()?.throughput_mbit()))
    };
    BUFFERS.iter().map(rate).collect()
}

static ETHERNET: LazyLock<Sweep> = LazyLock::new(|| sweep(Ok));
static LOOPBACK: LazyLock<Sweep> =
    LazyLock::new(|| sweep(|transfer| Ok(Transfer { topology: Topology::Loopback, ..transfer })));
static SPARCSTATION_2: LazyLock<Sweep> = LazyLock::new(|| {
    sweep(|transfer| {
        let machine = Machine::by_name("sparcstation-2").ok_or("no machine `sparcstation-2`")?;
        Ok(Transfer { machine, ..transfer })
    })
});

fn rates(sweep: &'static LazyLock<Sweep>) -> Result<Vec<f64>, String> {
    Ok(sweep.as_ref().map_err(Clone::clone)?.iter().map(|(_, rate)| *rate).collect())
}

fn best(sweep: &'static LazyLock<Sweep>) -> Result<f64, String> {
    Ok(rates(sweep)?.into_iter().fold(0.0, f64::max))
}

fn listed(values: &[f64], digits: usize) -> String {
    let words = values.iter().map(|value| format!("{value:.digits$}"));
    words.collect::<Vec<_>>().join(", ")
}

fn rises(rates: &[f64]) -> bool {
    rates.windows(2).all(|pair| pair[1] >= pair[0] * (1.0 - RATE_NOISE))
        && rates.last() > rates.first()
}

fn rises_with_buffers(_: &Claim, _: &Runs) -> Judgement {
    judged(|| {
        let rates = rates(&ETHERNET)?;
        let got = format!("{} Mbit/s at {BUFFERS:?} bytes", listed(&rates, 2));
        Ok(Judgement::holds(rises(&rates), "no fall of more than 2 % as buffers grow", got))
    })
}

fn first_gain_is_largest(_: &Claim, _: &Runs) -> Judgement {
    judged(|| {
        let rates = rates(&ETHERNET)?;
        let (first, rest) = (rates[2] - rates[0], rates[BUFFERS.len() - 1] - rates[2]);
        let got = format!("{first:.2} Mbit/s from 4 to 16 KB, {rest:.2} from there to the largest");
        Ok(Judgement::holds(first > rest, "the larger gain from 4 to 16 KB", got))
    })
}

fn loopback_rises(_: &Claim, _: &Runs) -> Judgement {
    judged(|| {
        let rates = rates(&LOOPBACK)?;
        let got = format!("{} Mbit/s at {BUFFERS:?} bytes", listed(&rates, 2));
        let top = rates.iter().copied().fold(0.0, f64::max);
        Ok(Judgement::holds(top > rates[0] * 1.05, "larger buffers carry more than 4 KB do", got))
    })
}

/// The most bytes between the oldest one not acknowledged and the newest one sent.
fn in_flight_max(seen: &Observed) -> u64 {
    let mut acks =
        seen.passes(sockscope_record::Direction::FromServer, Point::InputDequeue).iter().peekable();
    let (mut acknowledged, mut most) = (0, 0);
    for packet in seen.data(Point::InterfaceEnqueue) {
        while let Some(ack) = acks.next_if(|ack| ack.at_ns <= packet.at_ns) {
            acknowledged = acknowledged.max(ack.detail);
        }
        most = most.max(packet.end().saturating_sub(acknowledged));
    }
    most
}

fn window_within_buffers(_: &Claim, _: &Runs) -> Judgement {
    judged(|| {
        let mut got = Vec::new();
        for buffer in [4096, 16_384, 52_428] {
            let transfer = Transfer { buffer_bytes: Some(buffer), ..bulk(RATE_BYTES / 4)? };
            got.push((buffer, in_flight_max(&transfer.run()?)));
        }
        let holds = got.iter().all(|&(buffer, most)| most <= u64::from(buffer));
        Ok(Judgement::holds(
            holds,
            "never more in flight than the buffers hold",
            format!("(buffers, most in flight) {got:?} bytes"),
        ))
    })
}

fn four_packets(claim: &Claim, _: &Runs) -> Judgement {
    judged(|| {
        let transfer = Transfer { buffer_bytes: None, ..bulk(RATE_BYTES / 4)? };
        let most = in_flight_max(&transfer.run()?) as f64 / SEGMENT_BYTES;
        Ok(Judgement::numbers(claim, &[most.ceil()]))
    })
}

fn acks_at(buffer: u32) -> Result<usize, String> {
    Ok(Transfer { buffer_bytes: Some(buffer), ..bulk(RATE_BYTES)? }.run()?.acks().len())
}

fn twice_the_acks(claim: &Claim, _: &Runs) -> Judgement {
    judged(|| {
        let (small, large) = (acks_at(BUFFERS[0])?, acks_at(BUFFERS[BUFFERS.len() - 1])?);
        Ok(Judgement::numbers(claim, &[small as f64 / large as f64]).with_note(format!(
            "{small} acknowledgments with 4 KB buffers, {large} with the largest"
        )))
    })
}

fn an_ack_a_window(_: &Claim, _: &Runs) -> Judgement {
    judged(|| {
        let mut got = Vec::new();
        for buffer in [4096, 16_384, 52_428] {
            let windows = RATE_BYTES.div_ceil(buffer as usize);
            got.push((buffer, acks_at(buffer)?, windows));
        }
        let holds = got.iter().all(|(_, acks, windows)| acks >= windows);
        Ok(Judgement::holds(
            holds,
            "at least one acknowledgment for each window of data",
            format!("(buffer, acknowledgments, windows) {got:?}"),
        ))
    })
}

fn best_ethernet(claim: &Claim, _: &Runs) -> Judgement {
    judged(|| Ok(Judgement::numbers(claim, &[best(&ETHERNET)?])))
}

fn best_loopback(claim: &Claim, _: &Runs) -> Judgement {
    judged(|| Ok(Judgement::numbers(claim, &[best(&LOOPBACK)?])))
}

fn best_sparcstation_2(claim: &Claim, _: &Runs) -> Judgement {
    judged(|| Ok(Judgement::numbers(claim, &[best(&SPARCSTATION_2)?])))
}

fn order_of_the_best(_: &Claim, _: &Runs) -> Judgement {
    judged(|| {
        let (loopback, two, one) = (best(&LOOPBACK)?, best(&SPARCSTATION_2)?, best(&ETHERNET)?);
        Ok(Judgement::holds(
            loopback > two && two > one,
            "loopback, then two SPARCstation 2, then two SPARCstation 1",
            format!("{loopback:.2}, {two:.2}, {one:.2} Mbit/s"),
        ))
    })
}

fn the_driver_limits(_: &Claim, _: &Runs) -> Judgement {
    judged(|| {
        let base = bulk(RATE_BYTES)?;
        let as_is = base.run()?.throughput_mbit();
        let mut without_gap = base.clone();
        without_gap.machine.driver.sends_back_to_back = true;
        without_gap.machine.driver.start_ns = 0;
        let without_gap = without_gap.run()?.throughput_mbit();
        let mut faster = base;
        faster.machine.costs = halved(&faster.machine.costs);
        let faster = faster.run()?.throughput_mbit();
        Ok(Judgement::holds(
            without_gap > as_is * 1.05 && faster < as_is * 1.10,
            "a driver without the gap carries more, a protocol of half the cost does not",
            format!(
                "{as_is:.2} Mbit/s as it is, {without_gap:.2} without the gap, {faster:.2} with half the protocol's cost"
            ),
        ))
    })
}

/// The same with TCP, IP and their helpers at half the cost; copies, driver and switches stay.
fn halved(costs: &sockscope_stack::Costs) -> sockscope_stack::Costs {
    use sockscope_stack::Routine::{
        InCksum, IpOutput, Ipintr, MCopy, TcpCksum, TcpInput, TcpOutput, TcpUsrreq, TcpXoutput,
    };
    let mut halved = costs.clone();
    for routine in
        [TcpOutput, TcpXoutput, TcpInput, TcpUsrreq, TcpCksum, InCksum, IpOutput, Ipintr, MCopy]
    {
        let cost = costs.of(routine);
        halved.set(
            routine,
            sockscope_stack::Cost {
                call_ns: cost.call_ns / 2,
                byte_ps: cost.byte_ps / 2,
                mbuf_ns: cost.mbuf_ns / 2,
                walk_ns: cost.walk_ns / 2,
            },
        );
    }
    halved
}

static LOCAL: LazyLock<Run> =
    LazyLock::new(|| Transfer { topology: Topology::Loopback, ..bulk(1 << 20)? }.run());

/// Packets of the window bursts on loopback while the window opens: up to the largest window.
fn opening(seen: &Observed) -> Vec<usize> {
    let bursts: Vec<usize> = seen.bursts().iter().map(|burst| burst.packets).collect();
    let top = bursts.iter().copied().max().unwrap_or(0);
    let full = bursts.iter().position(|&packets| packets + 1 >= top).unwrap_or(0);
    bursts[..=full.min(bursts.len().saturating_sub(1))].to_vec()
}

fn bursts_grow_by_one(_: &Claim, _: &Runs) -> Judgement {
    judged(|| {
        let bursts = opening(shared(&LOCAL)?);
        let grown = bursts.windows(2).filter(|pair| pair[1] == pair[0] + 1).count();
        Ok(Judgement::holds(
            bursts.len() > 5 && grown * 10 >= (bursts.len() - 1) * 9,
            "each burst one segment longer than the one before",
            format!("bursts of {bursts:?} packets while the window opens"),
        ))
    })
}

/// Length of the receive socket's queue just after a time.
fn length_at(lengths: &[(u64, u64)], at_ns: u64) -> u64 {
    let after = lengths.partition_point(|&(ns, _)| ns <= at_ns);
    after.checked_sub(1).map_or(0, |last| lengths[last].1)
}

/// Whether the 200 ms timer made an acknowledgment: it comes without a read just before it.
fn is_of_timer(seen: &Observed, at_ns: u64) -> bool {
    let reads = seen.data(Point::ReceiveDequeue);
    let before = reads.partition_point(|read| read.at_ns <= at_ns);
    let last_ns = before.checked_sub(1).map_or(0, |last| reads[last].at_ns);
    at_ns.saturating_sub(last_ns) > 2_000_000
}

fn queue_falls_to_zero(_: &Claim, _: &Runs) -> Judgement {
    judged(|| {
        let seen = shared(&LOCAL)?;
        let lengths = seen.lengths(Stage::ReceiveQueue);
        let acks: Vec<_> =
            seen.acks().into_iter().filter(|ack| !is_of_timer(seen, ack.at_ns)).collect();
        let empty = acks.iter().filter(|ack| length_at(&lengths, ack.at_ns) == 0).count();
        Ok(Judgement::holds(
            !acks.is_empty() && empty * 100 >= acks.len() * 95,
            "the receive queue is empty at every acknowledgment that is not the timer's",
            format!("empty at {empty} of {}", acks.len()),
        ))
    })
}

fn peaks_fall_on_ticks(_: &Claim, _: &Runs) -> Judgement {
    judged(|| {
        let seen = shared(&LOCAL)?;
        let ticks: Vec<_> =
            seen.acks().into_iter().filter(|ack| is_of_timer(seen, ack.at_ns)).collect();
        let apart = |pair: &[sockscope_analysis::Pass]| {
            let apart_ms = (pair[1].at_ns - pair[0].at_ns) as f64 / 1e6;
            (apart_ms / 200.0 - (apart_ms / 200.0).round()).abs() * 200.0
        };
        let off_ms = ticks.windows(2).map(apart).fold(0.0, f64::max);
        Ok(Judgement::holds(
            !ticks.is_empty() && off_ms < 20.0,
            "acknowledgments that no read caused lie on the 200 ms ticks, and some open the window",
            format!(
                "{} such acknowledgments, at most {off_ms:.1} ms off multiples of 200 ms",
                ticks.len()
            ),
        ))
    })
}

fn more_acks_between_hosts(_: &Claim, _: &Runs) -> Judgement {
    judged(|| {
        let (local, remote) = (shared(&LOCAL)?.acks().len(), bulk(1 << 20)?.run()?.acks().len());
        Ok(Judgement::holds(
            remote > local,
            "more acknowledgments between two hosts than on one",
            format!("{remote} between hosts, {local} on one"),
        ))
    })
}

fn idle_while_copied(_: &Claim, _: &Runs) -> Judgement {
    judged(|| {
        let mut idle = Vec::new();
        for pause_ms in [20, 40, 80] {
            let read_pace = Pace::Sleep(pause_ms * 1_000_000);
            let transfer =
                Transfer { read_pace, buffer_bytes: Some(16_384), ..bulk(RATE_BYTES / 4)? };
            let seen = transfer.run()?;
            let mut gaps = seen.gaps_us(Point::InterfaceEnqueue);
            gaps.sort_by(f64::total_cmp);
            idle.push(gaps[gaps.len() - 1 - gaps.len() / 100] / 1e3);
        }
        let holds = idle.windows(2).all(|pair| pair[1] > pair[0] * 1.4);
        Ok(Judgement::holds(
            holds,
            "the sender's idle gaps grow with what the reader does between two reads",
            format!("gaps of {} ms for pauses of 20, 40 and 80 ms", listed(&idle, 1)),
        ))
    })
}

static LOADED: LazyLock<Result<[Vec<f64>; 2], String>> = LazyLock::new(|| {
    let rate = |load: Load| Ok(Transfer { load, ..portions(5 << 20)? }.run()?.throughput_mbit());
    let server = LEVELS.iter().map(|&level| rate(Load { server: level, client: 0 }));
    let client = LEVELS.iter().map(|&level| rate(Load { server: 0, client: level }));
    Ok([server.collect::<Result<_, String>>()?, client.collect::<Result<_, String>>()?])
});

fn falls_with_load(_: &Claim, _: &Runs) -> Judgement {
    judged(|| {
        let [server, client] = LOADED.as_ref().map_err(Clone::clone)?;
        let falls = |rates: &[f64]| {
            rates.windows(2).all(|pair| pair[1] < pair[0] * (1.0 + RATE_NOISE))
                && rates[rates.len() - 1] < rates[0] * 0.7
        };
        Ok(Judgement::holds(
            falls(server) && falls(client),
            "throughput falls with the level of load, on either side",
            format!(
                "levels {LEVELS:?}: {} Mbit/s with load on the server, {} on the client",
                listed(server, 2),
                listed(client, 2)
            ),
        ))
    })
}

static QUIET: LazyLock<Run> = LazyLock::new(|| portions(1 << 20)?.run());
static SERVER_LOADED: LazyLock<Run> =
    LazyLock::new(|| Transfer { load: Load { server: 4, client: 0 }, ..portions(1 << 20)? }.run());
static CLIENT_LOADED: LazyLock<Run> =
    LazyLock::new(|| Transfer { load: Load { server: 0, client: 4 }, ..portions(1 << 20)? }.run());

/// The queues of the paper, with their mean delays in microseconds.
fn queue_delays(seen: &Observed) -> [(&'static str, f64); 4] {
    [Stage::SendQueue, Stage::InterfaceQueue, Stage::InputQueue, Stage::ReceiveQueue]
        .map(|stage| (stage.name(), seen.mean_delay_us(stage)))
}

fn server_load_fills_its_socket(_: &Claim, _: &Runs) -> Judgement {
    judged(|| {
        let (quiet, loaded) = (shared(&QUIET)?, shared(&SERVER_LOADED)?);
        let [.., (_, receive_quiet)] = queue_delays(quiet);
        let [(_, _), (_, interface), (_, input), (_, receive)] = queue_delays(loaded);
        Ok(Judgement::holds(
            receive > interface && receive > input && receive > 2.0 * receive_quiet,
            "of the queues beyond the sender's, the receive socket's delays most",
            format!(
                "interface {interface:.0}, IP {input:.0}, receive socket {receive:.0} us; without load {receive_quiet:.0}"
            ),
        ))
    })
}

fn client_load_holds_the_program(_: &Claim, _: &Runs) -> Judgement {
    judged(|| {
        let [(_, send), (_, interface), (_, input), (_, receive)] =
            queue_delays(shared(&CLIENT_LOADED)?);
        let (first_ns, last_ns) = shared(&CLIENT_LOADED)?.span_ns();
        let (quiet_first_ns, quiet_last_ns) = shared(&QUIET)?.span_ns();
        let longer = (last_ns - first_ns) as f64 / (quiet_last_ns - quiet_first_ns) as f64;
        let others = interface.max(input).max(receive);
        Ok(Judgement::holds(
            send > others && longer > 1.2,
            "data waits before the protocol, in the socket and the program's buffer",
            format!(
                "send socket {send:.0} us, the others at most {others:.0}; {longer:.2} times as long as without load"
            ),
        ))
    })
}

/// Mean protocol delay: gaps in bursts on the sending side, points 6 to 7 on the receiving.
fn protocol_delays(seen: &Observed) -> [f64; 2] {
    [
        mean(&seen.gaps_in_bursts_us()),
        mean(&seen.packet_delays_us(Point::InputDequeue, Point::ReceiveEnqueue)),
    ]
}

pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn protocol_delay_under_load(claim: &Claim, _: &Runs) -> Judgement {
    judged(|| {
        let quiet = protocol_delays(shared(&QUIET)?);
        let (client, server) =
            (protocol_delays(shared(&CLIENT_LOADED)?), protocol_delays(shared(&SERVER_LOADED)?));
        let percent = |loaded: f64, quiet: f64| (loaded / quiet - 1.0) * 100.0;
        let (send, receive) = (percent(client[0], quiet[0]), percent(server[1], quiet[1]));
        let more = send.max(receive);
        Ok(Judgement::numbers(claim, &[more]).with_note(format!(
            "sending side {send:+.1} % with load beside it, receiving side {receive:+.1} %"
        )))
    })
}

/// Packets dropped when `connections` each send a window of `window` bytes at once.
fn drops(connections: u16, window: u32) -> Result<u64, String> {
    let transfer = Transfer { connections, buffer_bytes: Some(window), ..bulk(window as usize)? };
    let seen = transfer.run()?;
    let queued = seen.all_data(Point::InterfaceEnqueue).len();
    let taken = seen.all_data(Point::SendDequeue).len();
    Ok(taken.saturating_sub(queued) as u64)
}

fn connections_without_overflow(claim: &Claim, _: &Runs) -> Judgement {
    judged(|| {
        let limit = 50.0;
        let bounds =
            [4096.0, 16_384.0].map(|window: f64| (limit / (window / SEGMENT_BYTES)).floor());
        let lost = [drops(12, 4096)?, drops(3, 16_384)?];
        Ok(Judgement::numbers(claim, &[limit, bounds[0], bounds[1]]).and(Judgement::holds(
            lost == [0, 0],
            "no packet dropped by 12 connections of four packets, nor by 3 of sixteen",
            format!("{lost:?} packets dropped"),
        )))
    })
}

/// Copy and checksum of 1,024 bytes on the SPARCstation 1, in microseconds.
fn copy_and_checksum_us() -> Result<(f64, f64), String> {
    use sockscope_stack::Routine::{Copyin, TcpCksum};
    let machine = Transfer::sparcstations()?.machine;
    let us = |routine| f64::from(machine.costs.of(routine).byte_ps) * SEGMENT_BYTES / 1e6;
    Ok((us(Copyin), us(TcpCksum)))
}

fn copies_and_checksums_bound(claim: &Claim, _: &Runs) -> Judgement {
    judged(|| {
        let (copy, checksum) = copy_and_checksum_us()?;
        let bound = SEGMENT_BYTES * 8.0 / (2.0 * copy + 2.0 * checksum);
        Ok(Judgement::numbers(claim, &[bound])
            .with_note(format!("two copies of {copy:.0} us and two checksums of {checksum:.0} us")))
    })
}

fn share_of_the_bound(claim: &Claim, _: &Runs) -> Judgement {
    judged(|| {
        let (copy, checksum) = copy_and_checksum_us()?;
        let bound = SEGMENT_BYTES * 8.0 / (2.0 * copy + 2.0 * checksum);
        Ok(Judgement::numbers(claim, &[best(&LOOPBACK)? / bound]))
    })
}

/// Time until a burst of so many packets left, in milliseconds.
fn opened_ms(transfer: &Transfer, packets: usize) -> Result<f64, String> {
    let seen = transfer.run()?;
    let (first_ns, _) = seen.span_ns();
    let burst = seen.bursts().into_iter().find(|burst| burst.packets >= packets);
    let burst = burst.ok_or(format!("no burst of {packets} packets"))?;
    Ok((burst.last_ns - first_ns) as f64 / 1e6)
}

fn slow_readers_open_windows_slowly(_: &Claim, _: &Runs) -> Judgement {
    judged(|| {
        let base = Transfer { topology: Topology::Loopback, ..bulk(1 << 20)? };
        let slow = Transfer { read_pace: Pace::Sleep(20_000_000), ..base.clone() };
        let mut eager = base.clone();
        // Two segments are some 4 % of the largest buffer: an acknowledgment for every other segment.
        eager.personality.tcp.window_update = WindowUpdate::TwoOrHalf;
        let packets = 10;
        let [eager, as_is, slow] = [&eager, &base, &slow].map(|it| opened_ms(it, packets));
        let (eager, as_is, slow) = (eager?, as_is?, slow?);
        Ok(Judgement::holds(
            eager < as_is && as_is < slow,
            "the window opens later the less often the reader acknowledges",
            format!(
                "bursts of {packets} packets after {eager:.0} ms with an acknowledgment for two segments, {as_is:.0} as it is, {slow:.0} with a slow reader"
            ),
        ))
    })
}
