//! Checks of what the eight probes see: §2, §3 and §4.2 of "Experimental Evaluation of SunOS IPC and
//! TCP/IP Protocol Implementation".

use std::collections::BTreeSet;
use std::sync::LazyLock;

use sockscope_analysis::Passage;
use sockscope_experiment::papers::Claim;
use sockscope_lab::model::{Burst, Observed, mean};
use sockscope_record::{Direction, Point, Stage, statistics, tcp_flags};
use sockscope_sim::Machine;

use super::sunos::shared;
use super::sunos_runs::observe;
use super::{Check, Comparison, Outcome, Runs, least, most};

pub(super) const CHECKS: &[Check] = &[
    Check { id: "sunos-ipc/2.4-a", needs: &["si-2a"], compare: four_queues },
    Check { id: "sunos-ipc/3.1-a", needs: &[], compare: sample_trace },
    Check { id: "sunos-ipc/3.3-a", needs: &["si-2a"], compare: eight_probes },
    Check { id: "sunos-ipc/3.3-b", needs: &["si-2a"], compare: some_see_acks_only },
    Check { id: "sunos-ipc/4.2.1-a", needs: &["si-2a"], compare: dense_bursts },
    Check { id: "sunos-ipc/4.2.1-b", needs: &["si-2a"], compare: smooth_wire },
    Check { id: "sunos-ipc/4.2.1-c", needs: &["si-2a"], compare: same_pattern },
    Check { id: "sunos-ipc/4.2.1-d", needs: &["si-2a"], compare: two_last_packets },
    Check { id: "sunos-ipc/4.2.1-e", needs: &["si-2a"], compare: send_socket_only_falls },
    Check { id: "sunos-ipc/4.2.1-f", needs: &["si-2a"], compare: growing_peaks },
    Check { id: "sunos-ipc/4.2.1-g", needs: &["si-2a"], compare: empty_ip_queue },
    Check { id: "sunos-ipc/4.2.1-h", needs: &["si-2a"], compare: gathered_then_drained },
    Check { id: "sunos-ipc/4.2.1-i", needs: &["si-2a"], compare: queues_with_an_open_window },
    Check { id: "sunos-ipc/4.2.1-j", needs: &[], compare: one_entry_a_write },
    Check { id: "sunos-ipc/4.2.1-k", needs: &["si-2a"], compare: delay_grows_in_a_burst },
    Check { id: "sunos-ipc/4.2.1-l", needs: &["si-2a"], compare: ip_queue_delay },
    Check { id: "sunos-ipc/4.2.1-m", needs: &["si-2a"], compare: histograms },
    Check { id: "sunos-ipc/4.2.1-n", needs: &[], compare: receiving_is_faster },
    Check { id: "sunos-ipc/4.2.1-o", needs: &[], compare: protocol_ceiling },
    Check { id: "sunos-ipc/4.2.2-a", needs: &["si-2b"], compare: one_at_a_time },
    Check { id: "sunos-ipc/4.2.2-b", needs: &[], compare: copy_time },
    Check { id: "sunos-ipc/4.2.2-c", needs: &["si-2b"], compare: single_packets_cost_more },
    Check { id: "sunos-ipc/4.2.2-d", needs: &["si-2b"], compare: socket_layers },
    Check { id: "sunos-ipc/4.2.2-e", needs: &["si-2b"], compare: sockets_against_protocol },
    Check { id: "sunos-ipc/4.2.2-f", needs: &["si-2b"], compare: driver_and_wire },
];

/// Data of a segment.
const SEGMENT_BYTES: f64 = 1024.0;
/// Bursts while the window opens.
const OPENING_BURSTS: usize = 10;
/// A very small delay in the interface queue: a tenth of what the driver needs for a packet.
const VERY_SMALL_US: f64 = 100.0;
/// Where hundreds of microseconds end and milliseconds begin.
const MILLISECOND_US: f64 = 1000.0;
/// The interface queue with all its 50 packets.
const INTERFACE_QUEUE_BYTES: f64 = 50.0 * SEGMENT_BYTES;

/// 256 KB in one write, with the largest buffers (§4.2).
static CONTINUOUS: LazyLock<Result<Observed, String>> = LazyLock::new(|| {
    let seen = observe("si-2a", &[])?;
    // The paper's run had no retransmission.
    if seen.is_clean() { Ok(seen) } else { Err("packets were sent again in this run".into()) }
});

/// A packet a second, in stop-and-wait (§4.2.2).
pub(super) static SINGLE: LazyLock<Result<Observed, String>> =
    LazyLock::new(|| observe("si-2b", &["write_pause_ms=1000"]));

pub(super) fn continuous() -> Result<&'static Observed, String> {
    shared(&CONTINUOUS)
}

fn holds(expected: &str, holds: bool, got: String) -> Outcome {
    Ok(Comparison::holds(holds, expected, got))
}

/// The percentile of values in any order; not a number without values.
pub(super) fn percentile(values: &[f64], percent: u32) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    statistics::percentile(&sorted, percent).unwrap_or(f64::NAN)
}

fn four_queues(claim: &Claim, _: &Runs) -> Outcome {
    let seen = continuous()?;
    let queues = [Stage::SendQueue, Stage::InterfaceQueue, Stage::InputQueue, Stage::ReceiveQueue];
    let visited = queues.iter().filter(|&&stage| !seen.delays(stage).is_empty()).count();
    let first = |point| seen.data(point).first().map(|pass| pass.at_ns);
    let times: Vec<_> = Point::ALL.into_iter().map(first).collect();
    Ok(Comparison::numbers(claim, &[visited as f64]).and(Comparison::holds(
        times.is_sorted() && times[0].is_some(),
        "the first packet passes the eight points in order",
        format!("{times:?}"),
    )))
}

fn sample_trace(claim: &Claim, _: &Runs) -> Outcome {
    let seen = observe(
        "si-1b",
        &[
            "personality=sunos-4.1",
            "socket_buffer_bytes=4096",
            "write_bytes=4096",
            "total_bytes=16384",
        ],
    )?;
    let data = seen.data(Point::InterfaceEnqueue);
    let first: Vec<f64> = data.iter().take(3).map(|pass| f64::from(pass.len)).collect();
    let pushed = data.iter().take(3).map(|pass| pass.tcp_flags & tcp_flags::PSH != 0);
    let pushed: Vec<bool> = pushed.collect();
    let sent: u64 = data.iter().map(|pass| u64::from(pass.len)).sum();
    let numbers: Vec<f64> = first.into_iter().chain([sent as f64]).collect();
    Ok(Comparison::numbers(claim, &numbers).and(Comparison::holds(
        pushed == [false, false, true],
        "push on the last segment of the window only",
        format!("{pushed:?}"),
    )))
}

fn eight_probes(claim: &Claim, _: &Runs) -> Outcome {
    let seen = continuous()?;
    let active = Point::ALL.into_iter().filter(|&point| !seen.data(point).is_empty()).count();
    Ok(Comparison::numbers(claim, &[active as f64])
        .with_note("records here carry more than time, length and type"))
}

fn some_see_acks_only(_: &Claim, _: &Runs) -> Outcome {
    let seen = continuous()?;
    let back = |point| seen.passes(Direction::FromServer, point).iter();
    let data = Point::ALL.into_iter().flat_map(back).filter(|pass| pass.len > 0).count();
    let acks = back(Point::InputDequeue).count();
    holds(
        "the way back carries no data at any point",
        data == 0 && acks > 0,
        format!("{data} records with data, {acks} packets without"),
    )
}

fn dense_bursts(_: &Claim, _: &Runs) -> Outcome {
    let bursts = continuous()?.bursts();
    let opening = &bursts[..bursts.len().min(6)];
    let between: Vec<f64> =
        opening.windows(2).map(|pair| (pair[1].first_ns - pair[0].last_ns) as f64 / 1e3).collect();
    let within = mean(&continuous()?.gaps_in_bursts_us());
    let least = between.iter().copied().fold(f64::INFINITY, f64::min);
    holds(
        "gaps between bursts several times those within, while the window opens",
        least > 3.0 * within,
        format!("{within:.0} us within, at least {least:.0} us between"),
    )
}

/// Gaps at a point but for the first: the first packet waits alone for an acknowledgment that only the
/// 200 ms timer makes, which would outweigh all others.
fn later_gaps_us(seen: &Observed, point: Point) -> Vec<f64> {
    seen.gaps_us(point).into_iter().skip(1).collect()
}

/// How far apart the shortest and the longest gaps are, a tenth of each left out, as a ratio.
fn spread(gaps: &[f64]) -> f64 {
    percentile(gaps, 90) / percentile(gaps, 10)
}

fn smooth_wire(_: &Claim, _: &Runs) -> Outcome {
    let seen = continuous()?;
    let [queued, sent] =
        [Point::InterfaceEnqueue, Point::InterfaceDequeue].map(|point| later_gaps_us(seen, point));
    let (fast, slow) = (percentile(&queued, 50), percentile(&sent, 50));
    let (rough, smooth) = (spread(&queued), spread(&sent));
    holds(
        "packets leave the driver further apart and more evenly than they come to it",
        slow > 1.5 * fast && smooth < 0.5 * rough,
        format!(
            "median gap {fast:.0} us into the queue, {slow:.0} out of it; the 90th percentile of gaps is {rough:.1} times the 10th into it, {smooth:.1} times out of it"
        ),
    )
}

fn same_pattern(_: &Claim, _: &Runs) -> Outcome {
    let seen = continuous()?;
    let (sent, came) = (seen.gaps_us(Point::InterfaceDequeue), seen.gaps_us(Point::ReceiveEnqueue));
    let differences: Vec<f64> =
        sent.iter().zip(&came).map(|(sent, came)| (sent - came).abs()).collect();
    let (typical, gap) = (percentile(&differences, 50), percentile(&sent, 50));
    holds(
        "gaps at the receive socket differ from those at the driver by little",
        sent.len() == came.len() && typical < 0.25 * gap,
        format!("median difference {typical:.0} us of a gap of {gap:.0}"),
    )
}

/// A packet without data at a point: when, its flags, and how long after the packet before it.
struct Bare {
    flags: u8,
    after_us: f64,
}

/// The packets without data that a trace ends in.
fn last_bare(passes: &[Passage]) -> Vec<Bare> {
    let bare = |pair: &[Passage]| Bare {
        flags: pair[1].tcp_flags,
        after_us: (pair[1].at_ns - pair[0].at_ns) as f64 / 1e3,
    };
    let last_data = passes.iter().rposition(|pass| pass.len > 0).unwrap_or(0);
    passes[last_data..].windows(2).map(bare).collect()
}

/// What a packet must exceed to stand alone in the drawing: the distance from one packet with data to the
/// next that nine in ten do not exceed.
fn crowded_us(seen: &Observed) -> f64 {
    percentile(&later_gaps_us(seen, Point::InterfaceEnqueue), 90)
}

/// Whether these are the FIN and the answer to the other side's, each alone.
fn ends_in_two(last: &[Bare], crowded_us: f64) -> bool {
    let [fin, answer] = last else { return false };
    let is_fin = |bare: &Bare| bare.flags & tcp_flags::FIN != 0;
    is_fin(fin) && !is_fin(answer) && last.iter().all(|bare| bare.after_us > crowded_us)
}

fn two_last_packets(_: &Claim, _: &Runs) -> Outcome {
    ends_in_two_packets(continuous()?)
}

/// What a trace says to 4.2.1-d.
pub(super) fn ends_in_two_packets(seen: &Observed) -> Outcome {
    let last = last_bare(seen.passes(Direction::FromClient, Point::InterfaceEnqueue));
    let crowded_us = crowded_us(seen);
    let words = last.iter().map(|bare| {
        let name = if bare.flags & tcp_flags::FIN != 0 { "FIN" } else { "answer" };
        format!("{name} {:.1} ms after the packet before it", bare.after_us / 1e3)
    });
    let words = words.collect::<Vec<_>>().join(", ");
    holds(
        "two packets without data, a FIN and an answer, each alone",
        ends_in_two(&last, crowded_us),
        format!("{words}; nine in ten with data come within {:.1} ms", crowded_us / 1e3),
    )
}

/// Bytes that were given to `write()` and are not yet in the buffer, over time.
fn left_to_enter(seen: &Observed) -> Vec<(u64, u64)> {
    let written = seen.write_calls().into_iter().map(|(at_ns, _, bytes)| (at_ns, bytes as i64));
    let entered = seen.data(Point::SendEnqueue);
    let entered = entered.iter().map(|pass| (pass.at_ns, -i64::from(pass.len)));
    let mut steps: Vec<_> = written.chain(entered).collect();
    steps.sort_by_key(|(at_ns, _)| *at_ns);
    let mut left = 0;
    let mut add = |(at_ns, bytes)| {
        left += bytes;
        (at_ns, u64::try_from(left).unwrap_or(0))
    };
    steps.into_iter().map(&mut add).collect()
}

/// Whether an amount falls from its first value to zero without rising.
fn only_falls(left: &[(u64, u64)]) -> bool {
    left.len() > 2
        && left.windows(2).all(|pair| pair[1].1 <= pair[0].1)
        && left.last().is_some_and(|(_, bytes)| *bytes == 0)
}

fn send_socket_only_falls(_: &Claim, _: &Runs) -> Outcome {
    let seen = continuous()?;
    let left = left_to_enter(seen);
    let gaps: Vec<f64> = left.windows(2).map(|pair| (pair[1].0 - pair[0].0) as f64 / 1e3).collect();
    let (short, long) = (percentile(&gaps, 10), percentile(&gaps, 99));
    let zero_ns = left.last().map_or(0, |(at_ns, _)| *at_ns);
    let sent_ns = seen.data(Point::InterfaceDequeue).last().map_or(0, |pass| pass.at_ns);
    let after_ms = sent_ns.saturating_sub(zero_ns) as f64 / 1e6;
    holds(
        "bytes not yet in the buffer fall without rising, at a varying rate, to zero before the last of them is sent",
        only_falls(&left) && long > 2.0 * short.max(1.0) && zero_ns < sent_ns,
        format!(
            "{} portions, {short:.0} to {long:.0} us apart; the last byte is sent {after_ms:.0} ms after the last one entered",
            left.len() - 1
        ),
    )
}

/// The greatest length of the interface queue in each burst.
pub(super) fn peaks(seen: &Observed) -> Vec<u64> {
    let lengths = seen.lengths(Stage::InterfaceQueue);
    let peak = |burst: &Burst| {
        let within = |&&(at_ns, _): &&(u64, u64)| (burst.first_ns..=burst.last_ns).contains(&at_ns);
        lengths.iter().filter(within).map(|&(_, bytes)| bytes).max().unwrap_or(0)
    };
    seen.bursts().iter().map(peak).collect()
}

/// Whether each is larger than the one before.
pub(super) fn each_higher(values: &[u64]) -> bool {
    values.windows(2).all(|pair| pair[1] > pair[0])
}

fn growing_peaks(_: &Claim, _: &Runs) -> Outcome {
    peaks_grow(continuous()?)
}

/// What a trace says to 4.2.1-f.
pub(super) fn peaks_grow(seen: &Observed) -> Outcome {
    let peaks = peaks(seen);
    let opening = &peaks[..peaks.len().min(OPENING_BURSTS)];
    holds(
        "while the window opens, each peak of the interface queue higher than the one before",
        opening.len() >= 4 && each_higher(opening),
        format!("first peaks of {opening:?} bytes"),
    )
}

fn empty_ip_queue(_: &Claim, _: &Runs) -> Outcome {
    let seen = continuous()?;
    let found = seen.found(Stage::InputQueue, Point::InputEnqueue);
    let empty = found.iter().filter(|bytes| **bytes == 0).count();
    holds(
        "nearly every packet finds the IP queue empty",
        empty * 100 >= found.len() * 95,
        format!("empty for {empty} of {}", found.len()),
    )
}

/// Times at which a queue has more than `least` bytes and is at its longest since it was empty.
fn accumulations(lengths: &[(u64, u64)], least: u64) -> Vec<u64> {
    let (mut tops, mut top) = (Vec::new(), (0, 0));
    for &(at_ns, bytes) in lengths {
        match bytes {
            0 => {
                tops.extend((top.1 > least).then_some(top.0));
                top = (0, 0);
            }
            bytes if bytes > top.1 => top = (at_ns, bytes),
            _ => {}
        }
    }
    tops
}

/// Whether no packet leaves the protocol close to a time: it lies between two bursts.
fn is_silent(bursts: &[Burst], at_ns: u64) -> bool {
    !bursts.iter().any(|burst| (burst.first_ns..=burst.last_ns).contains(&at_ns))
}

fn gathered_then_drained(_: &Claim, _: &Runs) -> Outcome {
    gathers_in_silence(continuous()?)
}

/// What a trace says to 4.2.1-h.
pub(super) fn gathers_in_silence(seen: &Observed) -> Outcome {
    let lengths = seen.lengths(Stage::ReceiveQueue);
    let most = lengths.iter().map(|&(_, bytes)| bytes).max().unwrap_or(0);
    let tops = accumulations(&lengths, 2 * SEGMENT_BYTES as u64);
    let bursts = seen.bursts();
    let silent = tops.iter().filter(|at_ns| is_silent(&bursts, **at_ns)).count();
    holds(
        "more than two packets gather in the receive socket from time to time, are drained, and the sender is silent meanwhile",
        tops.len() > 3 && silent == tops.len(),
        format!(
            "up to {most} bytes; {} times more than two packets, the sender silent in {silent}",
            tops.len()
        ),
    )
}

/// Whether queues in the second half are as the paper has them: the interface's nearly full, the IP
/// queue empty, and a packet or more in the receive socket.
fn is_full_empty_moderate([interface, input, receive]: [f64; 3]) -> bool {
    interface > receive
        && receive >= SEGMENT_BYTES
        && interface > 0.75 * INTERFACE_QUEUE_BYTES
        && input < 0.25 * SEGMENT_BYTES
}

fn queues_with_an_open_window(_: &Claim, _: &Runs) -> Outcome {
    queues_of_second_half(continuous()?)
}

/// What a trace says to 4.2.1-i.
pub(super) fn queues_of_second_half(seen: &Observed) -> Outcome {
    let first_ns = seen.data(Point::InterfaceEnqueue).first().map_or(0, |pass| pass.at_ns);
    let last_ns = seen.data(Point::InterfaceEnqueue).last().map_or(0, |pass| pass.at_ns);
    let half_ns = first_ns + (last_ns - first_ns) / 2;
    let lengths = [Stage::InterfaceQueue, Stage::InputQueue, Stage::ReceiveQueue]
        .map(|stage| seen.mean_length(stage, half_ns, last_ns));
    let [interface, input, receive] = lengths;
    holds(
        "interface queue nearly full, IP queue empty, a packet or more in the receive socket, in the second half",
        is_full_empty_moderate(lengths),
        format!(
            "means of {interface:.0}, {input:.0} and {receive:.0} bytes; full is {INTERFACE_QUEUE_BYTES:.0}"
        ),
    )
}

fn one_entry_a_write(claim: &Claim, _: &Runs) -> Outcome {
    let entries = |write: usize| -> Result<f64, String> {
        let seen = observe("si-2a", &[&format!("write_bytes={write}")])?;
        // A delay from each call of write until TCP has its first byte.
        Ok(seen.delays_from_write_us(Point::SendEnqueue).len() as f64)
    };
    let [one, four, many] = [256 << 10, 64 << 10, 3 << 10].map(entries);
    let counted = [four?, many?];
    Ok(Comparison::numbers(claim, &[one?]).and(Comparison::holds(
        counted == [4.0, 86.0],
        "four entries for four writes, 86 for 86",
        format!("{counted:?}"),
    )))
}

/// Interface delays of the packets that began a burst and found the queue empty, in microseconds.
fn delays_into_empty(seen: &Observed, delays: &[f64]) -> Vec<f64> {
    let found = seen.found(Stage::InterfaceQueue, Point::InterfaceEnqueue);
    let begins: BTreeSet<u64> = seen.bursts().iter().map(|burst| burst.first_ns).collect();
    let came = seen.data(Point::InterfaceEnqueue).into_iter().zip(found).zip(delays);
    let first = came.filter(|((pass, found), _)| begins.contains(&pass.at_ns) && *found == 0);
    first.map(|(_, delay)| *delay).collect()
}

/// First and last of the delays in each burst of two packets and more.
fn ends_of_bursts(seen: &Observed, delays: &[f64]) -> Vec<(f64, f64)> {
    let mut rest = delays;
    let ends = seen.bursts().into_iter().filter_map(|burst| {
        let (of_burst, others) = rest.split_at(burst.packets.min(rest.len()));
        rest = others;
        let [first, .., last] = of_burst else { return None };
        Some((*first, *last))
    });
    ends.collect()
}

/// Whether the last packets of bursts wait for `low` to `high` microseconds, some less than a
/// millisecond, some more.
fn spans_milliseconds(last_us: &[f64], low: f64, high: f64) -> bool {
    last_us.iter().all(|us| (low..=high).contains(us))
        && least(last_us.iter().copied()) < MILLISECOND_US
        && most(last_us.iter().copied()) > MILLISECOND_US
}

fn delay_grows_in_a_burst(claim: &Claim, _: &Runs) -> Outcome {
    let (low, high) = (claim.low.unwrap_or(f64::NAN), claim.high.unwrap_or(f64::NAN));
    let seen = continuous()?;
    let delays = seen.packet_delays_us(Point::InterfaceEnqueue, Point::InterfaceDequeue);
    let into_empty = delays_into_empty(seen, &delays);
    let first = most(into_empty.iter().copied());
    let ends = ends_of_bursts(seen, &delays);
    let grew = ends.iter().filter(|(first, last)| last > first).count();
    let opening: Vec<f64> = ends.iter().take(OPENING_BURSTS).map(|(_, last)| *last).collect();
    holds(
        "very small where a burst finds the queue empty; grows from the first packet of a burst to the last, in the bursts while the window opens from hundreds of microseconds to milliseconds",
        !ends.is_empty()
            && grew * 10 >= ends.len() * 8
            && spans_milliseconds(&opening, low, high)
            && into_empty.len() > 3
            && first < VERY_SMALL_US,
        format!(
            "at most {first:.0} us for {} bursts into an empty queue, grew in {grew} of {} bursts, to {:.1} to {:.1} ms in the first {}, up to {:.1} ms once the window is open",
            into_empty.len(),
            ends.len(),
            least(opening.iter().copied()) / 1e3,
            most(opening.iter().copied()) / 1e3,
            opening.len(),
            most(delays) / 1e3
        ),
    )
}

fn ip_queue_delay(_: &Claim, _: &Runs) -> Outcome {
    let seen = continuous()?;
    let delays = seen.packet_delays_us(Point::InputEnqueue, Point::InputDequeue);
    let inside = delays.iter().filter(|delay| (75.0..=225.0).contains(*delay)).count();
    let gap = percentile(&seen.gaps_us(Point::InputEnqueue), 50);
    holds(
        "100 to 200 us for most packets, which arrive about 1 ms apart",
        inside * 2 > delays.len() && (700.0..1500.0).contains(&gap),
        format!(
            "{inside} of {} within, median {:.0} us; {gap:.0} us apart",
            delays.len(),
            percentile(&delays, 50)
        ),
    )
}

/// Bins of 50 us that hold at least a twentieth of all, as ranges of neighbours.
pub(super) fn groups(values: &[f64]) -> Vec<(u64, u64)> {
    let mut bins = std::collections::BTreeMap::new();
    for value in values {
        *bins.entry((value / 50.0) as u64 * 50).or_insert(0usize) += 1;
    }
    let mut groups: Vec<(u64, u64)> = Vec::new();
    for (bin, count) in bins {
        match groups.last_mut() {
            _ if count * 20 < values.len() => {}
            Some(group) if group.1 == bin => group.1 = bin + 50,
            _ => groups.push((bin, bin + 50)),
        }
    }
    groups
}

fn histograms(_: &Claim, _: &Runs) -> Outcome {
    two_groups(continuous()?)
}

/// What a trace says to 4.2.1-m.
pub(super) fn two_groups(seen: &Observed) -> Outcome {
    let send = groups(&seen.gaps_in_bursts_us());
    let receive = groups(&seen.packet_delays_us(Point::InputDequeue, Point::ReceiveEnqueue));
    let near =
        |group: &(u64, u64), low: u64, high: u64| group.0 + 50 >= low && group.1 <= high + 50;
    let send_fits =
        matches!(send.as_slice(), [small, large] if near(small, 250, 400) && near(large, 500, 650));
    let receive_fits = matches!(receive.as_slice(), [group] if near(group, 250, 300));
    holds(
        "sending side in groups of 250 to 400 and 500 to 650 us, receiving side of 250 to 300",
        send_fits && receive_fits,
        format!("sending {send:?}, receiving {receive:?} us"),
    )
}

pub(super) fn protocol_means(seen: &Observed) -> [f64; 2] {
    [
        mean(&seen.packet_delays_us(Point::InputDequeue, Point::ReceiveEnqueue)),
        mean(&seen.gaps_in_bursts_us()),
    ]
}

fn receiving_is_faster(claim: &Claim, _: &Runs) -> Outcome {
    let [receive, send] = protocol_means(continuous()?);
    let faster = Comparison::holds(
        receive < send,
        "the receiving side faster",
        format!("{receive:.0} and {send:.0} us"),
    );
    Ok(Comparison::numbers(claim, &[receive, send])
        .and(faster)
        .with_note("the first is what the machine's costs were fitted to, the second was found"))
}

fn protocol_ceiling(claim: &Claim, _: &Runs) -> Outcome {
    let slower = protocol_means(continuous()?).into_iter().fold(0.0, f64::max);
    Ok(Comparison::numbers(claim, &[SEGMENT_BYTES * 8.0 / slower]))
}

/// The rows of Table 1 that the paper has for single packets: all but driver and wire.
pub(super) fn table_1(seen: &Observed) -> [f64; 6] {
    let [send, out, interface, _, queue, input, receive] = seen.table_1().map(|(_, us)| us);
    [send, out, interface, queue, input, receive]
}

fn one_at_a_time(claim: &Claim, _: &Runs) -> Outcome {
    Ok(Comparison::numbers(claim, &table_1(shared(&SINGLE)?)))
}

fn copy_time(claim: &Claim, _: &Runs) -> Outcome {
    Ok(Comparison::numbers(claim, &[copy_us()?]).with_note("an input of the machine's description"))
}

fn single_packets_cost_more(claim: &Claim, _: &Runs) -> Outcome {
    let [_, single, ..] = table_1(shared(&SINGLE)?);
    let [_, continuous] = protocol_means(continuous()?);
    Ok(Comparison::numbers(claim, &[single - continuous])
        .with_note(format!("{single:.0} us one at a time, {continuous:.0} us in bursts")))
}

pub(super) fn copy_us() -> Result<f64, String> {
    let machine = Machine::by_name("sparcstation-1").ok_or("no machine `sparcstation-1`")?;
    let copy = machine.costs.of(sockscope_stack::Routine::Copyin);
    Ok(f64::from(copy.byte_ps) * SEGMENT_BYTES / 1e6)
}

fn socket_layers(claim: &Claim, _: &Runs) -> Outcome {
    let ([send, .., receive], copy) = (table_1(shared(&SINGLE)?), copy_us()?);
    Ok(Comparison::numbers(claim, &[(receive - copy) / (send - copy)])
        .with_note(format!("{receive:.0} and {send:.0} us with a copy of {copy:.0}")))
}

fn sockets_against_protocol(_: &Claim, _: &Runs) -> Outcome {
    let ([send, out, _, _, input, receive], copy) = (table_1(shared(&SINGLE)?), copy_us()?);
    let (socket, protocol) = (send + receive - 2.0 * copy, out + input);
    let ratio = socket / protocol;
    holds(
        "neither exceeds the other more than twice",
        (0.5..=2.0).contains(&ratio),
        format!("{socket:.0} us of socket layer, {protocol:.0} us of protocol"),
    )
}

fn driver_and_wire(claim: &Claim, _: &Runs) -> Outcome {
    let seen = shared(&SINGLE)?;
    let us = mean(&seen.packet_delays_us(Point::InterfaceDequeue, Point::InputEnqueue));
    Ok(Comparison::numbers(claim, &[us])
        .with_note("until the receiver has it, its interrupt included"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_that_stand_still_do_not_grow() {
        assert!(each_higher(&[1024, 2048, 3072]));
        assert!(!each_higher(&[1024, 2048, 2048, 3072]));
    }

    #[test]
    fn delays_beyond_the_bounds_of_the_claim_differ() {
        let spans = |last_us: &[f64]| spans_milliseconds(last_us, 200.0, 10_000.0);
        assert!(spans(&[700.0, 3000.0, 8000.0]));
        assert!(!spans(&[700.0, 3000.0, 50_300.0]), "more than several milliseconds");
        assert!(!spans(&[100.0, 3000.0]), "less than hundreds of microseconds");
        assert!(!spans(&[700.0, 900.0]), "no milliseconds");
        assert!(!spans(&[]), "no burst");
    }

    /// With several writes the amount rises at each of them.
    #[test]
    fn an_amount_that_rises_does_not_only_fall() {
        let left = |changes: &[&str]| left_to_enter(&observe("si-2a", changes).unwrap());
        assert!(only_falls(&left(&["total_bytes=65536", "write_bytes=65536"])));
        assert!(!only_falls(&left(&["total_bytes=65536", "write_bytes=16384"])));
        assert!(!only_falls(&[(1, 3000), (2, 2000), (3, 1000)]), "not to zero");
    }

    #[test]
    fn what_gathers_while_the_sender_sends_is_not_silent() {
        let lengths =
            [(1, 1000), (2, 3000), (3, 0), (4, 1000), (5, 0), (6, 2500), (7, 4000), (8, 0)];
        assert_eq!(accumulations(&lengths, 2048), [2, 7]);
        let burst = |first_ns, last_ns| Burst { first_ns, last_ns, packets: 2, bytes: 2048 };
        let bursts = [burst(4, 5), burst(7, 9)];
        assert!(is_silent(&bursts, 2) && !is_silent(&bursts, 7));
    }

    #[test]
    fn a_third_of_a_packet_is_not_moderate() {
        assert!(is_full_empty_moderate([45_000.0, 140.0, 2000.0]));
        assert!(!is_full_empty_moderate([45_000.0, 140.0, 378.0]));
        assert!(!is_full_empty_moderate([45_000.0, 2000.0, 2000.0]), "IP queue in use");
        assert!(!is_full_empty_moderate([20_000.0, 140.0, 2000.0]), "interface half empty");
    }

    fn bare(flags: u8, after_us: f64) -> Bare {
        Bare { flags, after_us }
    }

    #[test]
    fn a_fin_right_behind_the_data_does_not_stand_alone() {
        let (fin, ack) = (tcp_flags::FIN | tcp_flags::ACK, tcp_flags::ACK);
        let ends = |last: &[Bare]| ends_in_two(last, 1300.0);
        assert!(ends(&[bare(fin, 2000.0), bare(ack, 5000.0)]));
        assert!(!ends(&[bare(fin, 1000.0), bare(ack, 5000.0)]));
        assert!(!ends(&[bare(ack, 2000.0), bare(fin, 2000.0), bare(ack, 5000.0)]));
        assert!(!ends(&[bare(ack, 5000.0)]), "a FIN that rides on data");
    }

    /// A program that closes later than its last write returns has its FIN alone, and the answer behind it.
    #[test]
    fn a_program_that_closes_later_has_its_fin_alone() {
        let seen = observe("si-2a", &["close_after_ms=60"]).unwrap();
        let last = last_bare(seen.passes(Direction::FromClient, Point::InterfaceEnqueue));
        let [fin, answer] = &last[..] else { panic!("{} packets without data", last.len()) };
        assert!(fin.flags & tcp_flags::FIN != 0 && answer.flags & tcp_flags::FIN == 0);
        assert!(fin.after_us > 10.0 * crowded_us(&seen));
    }
}
