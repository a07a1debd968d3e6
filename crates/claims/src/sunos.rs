//! Checks of throughput and acknowledgments: §4.1, §4.3 to §5 of "Experimental Evaluation of SunOS IPC
//! and TCP/IP Protocol Implementation".

use std::sync::LazyLock;

use sockscope_analysis::Passage;
use sockscope_experiment::papers::Claim;
use sockscope_experiment::result::CaseResult;
use sockscope_lab::model::{Observed, length_at, mean};
use sockscope_record::{Direction, Point, Stage};
use sockscope_sim::Machine;

use super::sunos_runs::observe;
use super::variation::vary;
use super::{Check, Comparison, Outcome, Runs, most};

pub(super) const CHECKS: &[Check] = &[
    Check { id: "sunos-ipc/4.1.1-a", needs: &["si-1a"], compare: rises_with_buffers },
    Check { id: "sunos-ipc/4.1.1-b", needs: &["si-1a"], compare: first_gain_is_largest },
    Check { id: "sunos-ipc/4.1.1-c", needs: &["si-1b"], compare: window_within_buffers },
    Check { id: "sunos-ipc/4.1.1-d", needs: &["si-1b"], compare: four_packets },
    Check { id: "sunos-ipc/4.1.1-e", needs: &["si-1b"], compare: twice_the_acks },
    Check { id: "sunos-ipc/4.1.1-f", needs: &["si-1b"], compare: an_ack_a_window },
    Check { id: "sunos-ipc/4.1.2-a", needs: &["si-1a"], compare: best_ethernet },
    Check { id: "sunos-ipc/4.1.2-b", needs: &["si-1a"], compare: best_loopback },
    Check { id: "sunos-ipc/4.1.2-c", needs: &["si-1a"], compare: best_sparcstation_2 },
    Check { id: "sunos-ipc/4.1.2-d", needs: &["si-1a"], compare: order_of_the_best },
    Check { id: "sunos-ipc/4.1.2-e", needs: &["si-1a"], compare: loopback_rises },
    Check { id: "sunos-ipc/4.1.2-f", needs: &["si-1c"], compare: the_driver_limits },
    Check { id: "sunos-ipc/4.3.1-c", needs: &["si-3a"], compare: bursts_grow_by_one },
    Check { id: "sunos-ipc/4.3.1-d", needs: &["si-3a"], compare: queue_falls_to_zero },
    Check { id: "sunos-ipc/4.3.1-e", needs: &["si-3a"], compare: peaks_fall_on_ticks },
    Check { id: "sunos-ipc/4.3.1-f", needs: &["si-3a"], compare: more_acks_between_hosts },
    Check { id: "sunos-ipc/4.3.2-a", needs: &["si-3b"], compare: idle_while_copied },
    Check { id: "sunos-ipc/4.4.1-a", needs: &["si-4a"], compare: falls_with_load },
    Check { id: "sunos-ipc/4.4.1-b", needs: &["si-4b"], compare: server_load_fills_its_socket },
    Check { id: "sunos-ipc/4.4.1-c", needs: &["si-4b"], compare: client_load_holds_the_program },
    Check { id: "sunos-ipc/4.4.1-d", needs: &["si-4b"], compare: protocol_delay_under_load },
    Check { id: "sunos-ipc/5-b", needs: &[], compare: copies_and_checksums_bound },
    Check { id: "sunos-ipc/5-c", needs: &["si-1a"], compare: share_of_the_bound },
    Check { id: "sunos-ipc/5-e", needs: &["si-3b"], compare: slow_readers_open_windows_slowly },
];

/// Data of a segment on all links of the study.
const SEGMENT_BYTES: f64 = 1024.0;
/// Noise of a rate from one buffer size to the next: less than this is no fall.
const RATE_NOISE: f64 = 0.02;

type Run = Result<Observed, String>;

/// A run that several checks share.
pub(super) fn shared(run: &'static LazyLock<Run>) -> Result<&'static Observed, String> {
    run.as_ref().map_err(Clone::clone)
}

/// Throughput of a case in Mbit/s.
fn rate(case: &CaseResult) -> f64 {
    case.measured.throughput_bits_per_s().unwrap_or(f64::NAN) / 1e6
}

/// Rates of the cases with these parameters, in the order of the file.
fn rates(runs: &Runs, experiment: &str, wanted: &[(&str, &str)]) -> Vec<f64> {
    runs.of(experiment).cases_with(wanted).map(rate).collect()
}

/// The curves of Figure 9.
const ETHERNET: [(&str, &str); 2] = [("machine", "sparcstation-1"), ("topology", "pair")];
const LOOPBACK: [(&str, &str); 2] = [("machine", "sparcstation-1"), ("topology", "loopback")];

fn best(runs: &Runs, curve: &[(&str, &str)]) -> f64 {
    rates(runs, "si-1a", curve).into_iter().fold(0.0, f64::max)
}

/// Sizes of the buffers of an experiment's cases, in bytes.
fn buffers(runs: &Runs, experiment: &str) -> Vec<u64> {
    let size = |case: &CaseResult| case.case.parameters.socket_buffer_bytes.unwrap_or(0);
    let mut sizes: Vec<u64> = runs.of(experiment).cases.iter().map(size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

fn listed(values: &[f64], digits: usize) -> String {
    let words = values.iter().map(|value| format!("{value:.digits$}"));
    words.collect::<Vec<_>>().join(", ")
}

/// Whether no rate falls below the best one before it by more than noise, and the last is above the first.
fn rises(rates: &[f64]) -> bool {
    let mut best = 0.0_f64;
    let mut is_near_best = |rate: &f64| {
        best = best.max(*rate);
        *rate >= best * (1.0 - RATE_NOISE)
    };
    rates.iter().all(&mut is_near_best) && rates.last() > rates.first()
}

fn rises_with_buffers(_: &Claim, runs: &Runs) -> Outcome {
    let rates = rates(runs, "si-1a", &ETHERNET);
    let got = format!("{} Mbit/s at {:?} bytes", listed(&rates, 2), buffers(runs, "si-1a"));
    Ok(Comparison::holds(rises(&rates), "no fall of more than 2 % as buffers grow", got))
}

fn first_gain_is_largest(_: &Claim, runs: &Runs) -> Outcome {
    let rate = |buffer| {
        let wanted = [ETHERNET[0], ETHERNET[1], ("socket_buffer_bytes", buffer)];
        rates(runs, "si-1a", &wanted).first().copied().unwrap_or(f64::NAN)
    };
    let [small, middle, large] = ["4096", "16384", "52224"].map(rate);
    let got = format!(
        "{:.2} Mbit/s from 4 to 16 KB, {:.2} from there to the largest",
        middle - small,
        large - middle
    );
    Ok(Comparison::holds(
        gains_less_and_less(small, middle, large),
        "the larger gain from 4 to 16 KB, and a smaller one from there on",
        got,
    ))
}

/// A gain of less than this part of a rate is noise.
const GAIN: f64 = 0.01;

/// Whether both steps gain, the first one more.
fn gains_less_and_less(small: f64, middle: f64, large: f64) -> bool {
    let (first, rest) = (middle - small, large - middle);
    first > rest && rest > GAIN * middle
}

fn loopback_rises(_: &Claim, runs: &Runs) -> Outcome {
    let rates = rates(runs, "si-1a", &LOOPBACK);
    let got = format!("{} Mbit/s at {:?} bytes", listed(&rates, 2), buffers(runs, "si-1a"));
    Ok(Comparison::holds(
        rises(&rates),
        "rises with the buffer before it levels, and falls by no more than 2 %",
        got,
    ))
}

/// The most data between the oldest byte not acknowledged and the newest one sent, in bytes and in
/// packets.
pub(super) fn in_flight_max(seen: &Observed) -> (u64, usize) {
    let mut acks = seen.passes(Direction::FromServer, Point::InputDequeue).iter().peekable();
    let (mut acknowledged, mut most, mut packets_most) = (0, 0, 0);
    let mut sent_ends = std::collections::VecDeque::new();
    for packet in seen.data(Point::InterfaceEnqueue) {
        while let Some(ack) = acks.next_if(|ack| ack.at_ns <= packet.at_ns) {
            acknowledged = acknowledged.max(ack.acknowledged());
        }
        sent_ends.push_back(packet.end());
        while sent_ends.front().is_some_and(|end| *end <= acknowledged) {
            sent_ends.pop_front();
        }
        most = most.max(packet.end().saturating_sub(acknowledged));
        packets_most = packets_most.max(sent_ends.len());
    }
    (most, packets_most)
}

/// Packets with data that left from one acknowledgment's arrival to the next, where there are some.
fn between_acks(seen: &Observed) -> Vec<usize> {
    let mut sent = seen.data(Point::InterfaceEnqueue).into_iter().peekable();
    let mut counts = Vec::new();
    for ack in seen.passes(Direction::FromServer, Point::InputDequeue) {
        let mut packets = 0;
        while sent.next_if(|packet| packet.at_ns <= ack.at_ns).is_some() {
            packets += 1;
        }
        counts.extend((packets > 0).then_some(packets));
    }
    counts
}

fn window_within_buffers(_: &Claim, _: &Runs) -> Outcome {
    let mut got = Vec::new();
    for (sends, receives) in
        [(4096_u64, 4096_u64), (16_384, 4096), (4096, 16_384), (52_224, 52_224)]
    {
        let buffers = [
            "total_bytes=524288",
            &format!("socket_buffer_bytes={sends}"),
            &format!("receiver_buffer_bytes={receives}"),
        ];
        got.push((sends, receives, in_flight_max(&observe("si-1b", &buffers)?).0));
    }
    let holds = got.iter().all(|&(sends, receives, most)| most <= sends.min(receives));
    Ok(Comparison::holds(
        holds,
        "never more in flight than the smaller of both buffers holds",
        format!("(sender's, receiver's, most in flight) {got:?} bytes"),
    ))
}

/// Packets of a stop-and-wait with a window of 4,096 octets.
const STOP_AND_WAIT: usize = 4;

/// Whether most bursts between acknowledgments have a whole window, so that the sender stops after it.
fn stops_after_each_window(bursts: &[usize]) -> bool {
    let whole = bursts.iter().filter(|packets| **packets == STOP_AND_WAIT).count();
    whole * 10 >= bursts.len() * 9 && !bursts.is_empty()
}

fn four_packets(claim: &Claim, _: &Runs) -> Outcome {
    let seen = observe("si-1b", &["total_bytes=524288", "socket_buffer_bytes=4096"])?;
    let (_, packets) = in_flight_max(&seen);
    let bursts = between_acks(&seen);
    let of = |count: usize| bursts.iter().filter(|packets| **packets == count).count();
    let counts: Vec<_> =
        (1..=STOP_AND_WAIT).map(|count| format!("{count}: {}", of(count))).collect();
    Ok(Comparison::numbers(claim, &[packets as f64]).and(Comparison::holds(
        stops_after_each_window(&bursts),
        "never over four in flight, and the sender waits for an acknowledgment after each four",
        format!(
            "at most {packets} in flight; bursts from one acknowledgment to the next, by packets: {}",
            counts.join(", ")
        ),
    )))
}

/// Buffers and acknowledgments of each case of si-1b, smallest buffer first.
fn acks(runs: &Runs) -> Vec<(u64, u64)> {
    let of = |case: &CaseResult| {
        (case.case.parameters.socket_buffer_bytes.unwrap_or(0), case.measured.acks)
    };
    runs.of("si-1b").cases.iter().map(of).collect()
}

fn twice_the_acks(claim: &Claim, runs: &Runs) -> Outcome {
    let acks = acks(runs);
    let [(_, small), .., (_, large)] = acks[..] else {
        return Err("fewer than two sizes of buffers".into());
    };
    Ok(Comparison::numbers(claim, &[small as f64 / large as f64])
        .with_note(format!("{small} acknowledgments with 4 KB buffers, {large} with the largest")))
}

fn an_ack_a_window(_: &Claim, runs: &Runs) -> Outcome {
    let bytes = runs.of("si-1b").cases.first().map_or(0, |case| case.measured.bytes);
    let got: Vec<_> = acks(runs)
        .into_iter()
        .map(|(buffer, acks)| (buffer, acks, bytes.div_ceil(buffer)))
        .collect();
    let holds = got.iter().all(|(_, acks, windows)| acks >= windows);
    Ok(Comparison::holds(
        holds,
        "at least one acknowledgment for each window of data",
        format!("(buffer, acknowledgments, windows) {got:?}"),
    ))
}

fn best_ethernet(claim: &Claim, runs: &Runs) -> Outcome {
    Ok(Comparison::numbers(claim, &[best(runs, &ETHERNET)]))
}

fn best_loopback(claim: &Claim, runs: &Runs) -> Outcome {
    Ok(Comparison::numbers(claim, &[best(runs, &LOOPBACK)]))
}

/// Two SPARCstation 2 as the register has them: their own system, packets of 1 KB, and a driver that
/// sends back to back. Figure 9 of `si-1a` has them with the system and the driver of the others.
const SPARCSTATION_2: [&str; 5] = [
    "machine=sparcstation-2",
    "topology=pair",
    "personality=sunos-4.1",
    "segment_bytes=1024",
    "driver_gap=false",
];

/// The best rate of two SPARCstation 2 at any buffer, in Mbit/s.
fn sparcstation_2(changes: &[&str]) -> Result<f64, String> {
    Ok(most(vary("si-1a", changes)?.cases.iter().map(rate)))
}

fn best_sparcstation_2(claim: &Claim, _: &Runs) -> Outcome {
    let own = sparcstation_2(&SPARCSTATION_2)?;
    let with_gap = sparcstation_2(&SPARCSTATION_2[..4])?;
    Ok(Comparison::numbers(claim, &[own]).with_note(format!(
        "SunOS 4.1 and a driver that sends back to back; {with_gap:.2} with one that does not"
    )))
}

fn order_of_the_best(_: &Claim, runs: &Runs) -> Outcome {
    let (loopback, two, one) =
        (best(runs, &LOOPBACK), sparcstation_2(&SPARCSTATION_2)?, best(runs, &ETHERNET));
    Ok(Comparison::holds(
        loopback > two && two > one,
        "loopback, then two SPARCstation 2, then two SPARCstation 1",
        format!("{loopback:.2}, {two:.2}, {one:.2} Mbit/s"),
    ))
}

fn the_driver_limits(_: &Claim, runs: &Runs) -> Outcome {
    let pairs = runs.of("si-1c").cases_with(&ETHERNET).collect::<Vec<_>>();
    let rate_of = |driver_gap, percent| {
        let is_it = |case: &&&CaseResult| {
            let parameters = &case.case.parameters;
            parameters.driver_gap == driver_gap && parameters.protocol_cost_percent == percent
        };
        pairs.iter().find(is_it).map_or(f64::NAN, |case| rate(case))
    };
    let (as_is, without_gap, faster) =
        (rate_of(None, 100), rate_of(Some(false), 100), rate_of(None, 50));
    Ok(Comparison::holds(
        without_gap > as_is * 1.05 && faster < as_is * 1.10,
        "a driver without the gap carries more, a protocol of half the cost does not",
        format!(
            "{as_is:.2} Mbit/s as it is, {without_gap:.2} without the gap, {faster:.2} with half the protocol's cost"
        ),
    ))
}

static LOCAL: LazyLock<Run> = LazyLock::new(|| observe("si-3a", &[]));

/// A window burst on loopback: what is sent from one acknowledgment to the next.
struct Window {
    /// How many packets.
    packets: usize,
    /// The 200 ms timer made one of the two acknowledgments, before all that was sent had been read.
    is_cut: bool,
}

/// The bursts while the window opens, up to the largest one.
fn opening(seen: &Observed) -> Vec<Window> {
    let made: Vec<_> = seen.acks().iter().map(|ack| (ack.acknowledged(), ack.at_ns)).collect();
    let lengths = seen.lengths(Stage::ReceiveQueue);
    // It may tick in the middle of a read, and leaves data in the queue; or while packets are in
    // transit. The first burst is one segment, which nothing but the timer acknowledges: that is whole.
    let by_timer = |acknowledged: u64, sent: u64| {
        let ack = made.iter().find(|(position, _)| *position == acknowledged);
        ack.is_some_and(|&(_, at_ns)| {
            length_at(&lengths, at_ns) > 0 || acknowledged < sent && is_of_timer(seen, at_ns)
        })
    };
    let mut sent = seen.data(Point::InterfaceEnqueue).into_iter().peekable();
    let (mut windows, mut after_cut, mut end) = (Vec::new(), false, 0);
    for ack in seen.passes(Direction::FromServer, Point::InputDequeue) {
        let mut packets = 0;
        while let Some(packet) = sent.next_if(|packet| packet.at_ns <= ack.at_ns) {
            (packets, end) = (packets + 1, end.max(packet.end()));
        }
        let before_cut = by_timer(ack.acknowledged(), end);
        let is_cut = before_cut || after_cut;
        windows.extend((packets > 0).then_some(Window { packets, is_cut }));
        after_cut = before_cut;
    }
    let top = windows.iter().map(|window| window.packets).max().unwrap_or(0);
    let end = windows.iter().position(|window| window.packets == top).map_or(0, |at| at + 1);
    windows.truncate(end);
    windows
}

fn bursts_grow_by_one(_: &Claim, _: &Runs) -> Outcome {
    Ok(grow_by_one(shared(&LOCAL)?))
}

fn grow_by_one(seen: &Observed) -> Comparison {
    let windows = opening(seen);
    let whole = windows.iter().enumerate().filter(|(_, window)| !window.is_cut);
    // Those between that the timer cut count as one each.
    let start: Vec<_> =
        whole.clone().map(|(at, window)| window.packets as i64 - at as i64).collect();
    let cut = windows.len() - start.len();
    let packets: Vec<usize> = whole.map(|(_, window)| window.packets).collect();
    Comparison::holds(
        start.len() > 5
            && cut * 5 < windows.len()
            && start.windows(2).all(|pair| pair[0] == pair[1]),
        "each burst one segment longer than the one before, but for those that the timer cuts",
        format!(
            "bursts of {packets:?} packets while the window opens, {cut} more cut by the timer"
        ),
    )
}

/// Whether the 200 ms timer made an acknowledgment: it comes without a read just before it.
fn is_of_timer(seen: &Observed, at_ns: u64) -> bool {
    let reads = seen.data(Point::ReceiveDequeue);
    let before = reads.partition_point(|read| read.at_ns <= at_ns);
    let last_ns = before.checked_sub(1).map_or(0, |last| reads[last].at_ns);
    at_ns.saturating_sub(last_ns) > 2_000_000
}

/// What the receive queue does from one time that it is empty at an acknowledgment to the next.
#[derive(Debug, Clone, PartialEq)]
struct Tooth {
    /// Bytes of the window that the acknowledgment at its end takes in.
    window: u64,
    /// Greatest length of the queue.
    height: u64,
    /// An acknowledgment arrived while data stood in the queue.
    is_cut: bool,
}

/// The teeth of Figure 15, from acknowledgments (time, byte up to which) and lengths of the queue.
fn teeth(acks: &[(u64, u64)], lengths: &[(u64, u64)]) -> Vec<Tooth> {
    let (mut teeth, mut is_cut, mut begin) = (Vec::new(), false, (0, 0));
    for &(at_ns, acknowledged) in acks {
        if length_at(lengths, at_ns) > 0 {
            is_cut = true;
            continue;
        }
        let since = lengths.iter().filter(|(ns, _)| (begin.0..=at_ns).contains(ns));
        let height = since.map(|(_, bytes)| *bytes).max().unwrap_or(0);
        teeth.push(Tooth { window: acknowledged - begin.1, height, is_cut });
        (begin, is_cut) = ((at_ns, acknowledged), false);
    }
    teeth
}

/// The teeth of a run, but for the last two, which end the stream.
fn teeth_of(seen: &Observed) -> Vec<Tooth> {
    let acks: Vec<_> = seen.acks().iter().map(|ack| (ack.at_ns, ack.acknowledged())).collect();
    let mut teeth = teeth(&acks, &seen.lengths(Stage::ReceiveQueue));
    teeth.truncate(teeth.len().saturating_sub(2));
    teeth
}

fn queue_falls_to_zero(_: &Claim, _: &Runs) -> Outcome {
    let seen = shared(&ON_TICKS)?;
    let (teeth, late_ms) = (teeth_of(seen), early_acks_ms(seen));
    let whole = teeth.iter().filter(|tooth| !tooth.is_cut);
    let by_window = whole.clone().filter(|tooth| tooth.height == tooth.window).count();
    let whole = whole.count();
    Ok(Comparison::holds(
        whole > 10
            && by_window == whole
            && whole * 5 > teeth.len() * 4
            && late_ms.iter().all(|ms| *ms < TICK_LATE_MS),
        "the queue grows by the window, is empty again, and only then is it acknowledged, but where the 200 ms timer comes between",
        format!(
            "by exactly the window {by_window} times of {whole}; {} times an acknowledgment came between, at most {:.1} ms after a tick",
            teeth.len() - whole,
            most(late_ms)
        ),
    ))
}

/// Where the 200 ms timer stands in [`ON_TICKS`]: at 14, 214, ... ms.
const TICK_MS: f64 = 14.0;
static ON_TICKS: LazyLock<Run> =
    LazyLock::new(|| observe("si-3a", &[&format!("client_timer_ms={TICK_MS:.0}")]));
/// A tick that comes while the protocol hands down a window waits until it is done: half a millisecond
/// for each of at most 51 packets.
const TICK_LATE_MS: f64 = 26.0;

/// Milliseconds since the last tick.
fn since_tick_ms(at_ns: u64) -> f64 {
    (at_ns as f64 / 1e6 - TICK_MS).rem_euclid(200.0)
}

/// How long after a tick each acknowledgment arrived that found data in the queue, in milliseconds.
fn early_acks_ms(seen: &Observed) -> Vec<f64> {
    let lengths = seen.lengths(Stage::ReceiveQueue);
    let early = |ack: &Passage| {
        length_at(&lengths, ack.at_ns) > 0 && ack.acknowledged() < seen.measured.bytes
    };
    seen.acks().iter().filter(|ack| early(ack)).map(|ack| since_tick_ms(ack.at_ns)).collect()
}

/// Whether the teeth that the timer cut, and no others, stand out over their neighbours.
fn peaks_are_cut(teeth: &[Tooth]) -> bool {
    let stands_out =
        |three: &[Tooth]| three[1].height > three[0].height && three[1].height > three[2].height;
    teeth.windows(3).all(|three| stands_out(three) == three[1].is_cut)
}

/// A transfer that goes on after the window is as large as the buffer; the 48 packets of that do not
/// overflow the IP queue.
static OPENED: LazyLock<Run> =
    LazyLock::new(|| observe("si-3a", &["total_bytes=4194304", "socket_buffer_bytes=49152"]));

/// Peaks that stand out once a tooth has had the largest height, and how many the timer cut there.
fn later_peaks(teeth: &[Tooth]) -> (usize, usize) {
    let largest = teeth.iter().map(|tooth| tooth.window).max().unwrap_or(0);
    let is_open = |tooth: &Tooth| !tooth.is_cut && tooth.window == largest;
    let open = teeth.iter().position(is_open).map_or(&[][..], |at| &teeth[at..]);
    let stands_out =
        |three: &&[Tooth]| three[1].height > three[0].height && three[1].height > three[2].height;
    let peaks = open.windows(3).filter(stands_out).count();
    (peaks, open.iter().filter(|tooth| tooth.is_cut).count())
}

fn peaks_fall_on_ticks(_: &Claim, _: &Runs) -> Outcome {
    let seen = shared(&ON_TICKS)?;
    let (later, later_cut) = later_peaks(&teeth_of(shared(&OPENED)?));
    let (teeth, late_ms) = (teeth_of(seen), early_acks_ms(seen));
    let peaks = teeth.iter().filter(|tooth| tooth.is_cut).count();
    let latest = most(late_ms.iter().copied());
    Ok(Comparison::holds(
        peaks >= 3 && peaks_are_cut(&teeth) && latest < TICK_LATE_MS,
        "what is acknowledged before the queue is empty lies on the 200 ms ticks; there, and nowhere else, a peak stands out",
        format!(
            "{} such acknowledgments, at most {latest:.1} ms after a tick; {peaks} peaks",
            late_ms.len()
        ),
    )
    .and(Comparison::holds(
        later == 0 && later_cut > 3,
        "no peak stands out once the window is open, though ticks go on",
        format!("{later} peaks after that, {later_cut} teeth that the timer cut"),
    ))
    .with_note(format!(
        "once the window is open ticks cut {later_cut} teeth more, of which none stands out; a run without the timer is not possible: it acknowledges the first segment"
    )))
}

fn more_acks_between_hosts(_: &Claim, _: &Runs) -> Outcome {
    let (local, remote) =
        (shared(&LOCAL)?.acks().len(), observe("si-3a", &["topology=pair"])?.acks().len());
    Ok(Comparison::holds(
        remote > local,
        "more acknowledgments between two hosts than on one",
        format!("{remote} between hosts, {local} on one"),
    ))
}

/// Pauses of the reader whose idle gaps are compared, in milliseconds.
const PAUSES_MS: [f64; 4] = [0.0, 20.0, 40.0, 80.0];
/// A sleep ends with a clock tick.
const CLOCK_TICK_MS: f64 = 10.0;

/// Median of the sender's idle gaps, in milliseconds, for each pause: a window that the timer cut makes
/// two short ones, which say nothing of a whole window.
fn idle_ms(buffer: &str) -> Result<Vec<f64>, String> {
    let idle = |pause: f64| {
        let pause = format!("read_pause_ms={pause:.0}");
        let buffer = format!("socket_buffer_bytes={buffer}");
        let mut gaps =
            observe("si-3b", &["topology=loopback", &buffer, &pause])?.gaps_between_bursts_us();
        gaps.sort_by(f64::total_cmp);
        Ok(gaps.get(gaps.len() / 2).copied().unwrap_or(f64::NAN) / 1e3)
    };
    PAUSES_MS.into_iter().map(idle).collect()
}

/// Part of copying and a round trip by which the idle time of a reader that does not sleep may be off.
const IDLE_TOLERANCE: f64 = 0.25;

/// Whether a reader that does not sleep leaves the sender idle for `busy_ms`, and one that sleeps for as
/// long as it sleeps besides, up to a tick.
fn last_as_the_reader(idle_ms: &[f64], busy_ms: f64) -> bool {
    let slack_ms = IDLE_TOLERANCE * busy_ms;
    PAUSES_MS.iter().zip(idle_ms).all(|(pause, idle)| {
        let tick_ms = if *pause > 0.0 { CLOCK_TICK_MS } else { 0.0 };
        (pause + busy_ms - slack_ms..=pause + tick_ms + busy_ms + slack_ms).contains(idle)
    })
}

/// Copying out a buffer and one round trip, in milliseconds. The round trip is the idle time with a
/// window of as many bytes as a packet has, which go as two, less the copy of that.
fn copy_and_round_trip_ms(buffers: [f64; 2]) -> Result<[f64; 2], String> {
    let copy_ms = copy_and_checksum_us()?.0 / 1e3;
    let round_trip_ms = idle_ms("1024")?[0] - copy_ms;
    Ok(buffers.map(|bytes| bytes / SEGMENT_BYTES * copy_ms + round_trip_ms))
}

fn idle_while_copied(_: &Claim, _: &Runs) -> Outcome {
    let (small, large) = (idle_ms("4096")?, idle_ms("16384")?);
    let busy = copy_and_round_trip_ms([4096.0, 16_384.0])?;
    Ok(Comparison::holds(
        last_as_the_reader(&small, busy[0]) && last_as_the_reader(&large, busy[1]),
        format!(
            "copying the buffer out and one round trip, {} ms with 4 and 16 KB, and what the reader sleeps",
            listed(&busy, 1)
        ),
        format!(
            "for pauses of 0, 20, 40 and 80 ms median gaps of {} ms with 4 KB, {} with 16 KB",
            listed(&small, 1),
            listed(&large, 1)
        ),
    ))
}

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
fn protocol_delays(seen: &Observed) -> [f64; 2] {
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

fn copy_and_checksum_us() -> Result<(f64, f64), String> {
    use sockscope_stack::Routine::{Copyin, TcpCksum};
    let machine = Machine::by_name("sparcstation-1").ok_or("no machine `sparcstation-1`")?;
    let us = |routine| f64::from(machine.costs.of(routine).byte_ps) * SEGMENT_BYTES / 1e6;
    Ok((us(Copyin), us(TcpCksum)))
}

fn copies_and_checksums_bound(claim: &Claim, _: &Runs) -> Outcome {
    let (copy, checksum) = copy_and_checksum_us()?;
    let rate = bound_mbit_per_s("socket_buffer_bytes=49152")?;
    Ok(Comparison::numbers(claim, &[rate]).with_note(format!(
        "a run in which nothing else costs time; two copies of {copy:.0} us and two checksums of {checksum:.0} us"
    )))
}

/// Rate of local transfers in which only copies and checksums cost time. They are long, since the timer
/// alone acknowledges the first segment: up to 200 ms, a tenth of the experiment's own 5 MB.
fn bound_mbit_per_s(change: &str) -> Result<f64, String> {
    let changes = ["data_costs_only=true", "topology=loopback", "total_bytes=52428800", change];
    let seen = observe("si-1a", &changes)?.measured;
    Ok(seen.throughput_bits_per_s().unwrap_or(f64::NAN) / 1e6)
}

fn share_of_the_bound(claim: &Claim, runs: &Runs) -> Outcome {
    let (copy, checksum) = copy_and_checksum_us()?;
    let bound = SEGMENT_BYTES * 8.0 / (2.0 * copy + 2.0 * checksum);
    Ok(Comparison::numbers(claim, &[best(runs, &LOOPBACK) / bound]))
}

/// Time until a burst of so many packets left, in milliseconds.
fn opened_ms(changes: &[&str], packets: usize) -> Result<f64, String> {
    let seen = observe("si-3b", changes)?;
    let (first_ns, _) = seen.span_ns();
    let burst = seen.bursts().into_iter().find(|burst| burst.packets >= packets);
    let burst = burst.ok_or(format!("no burst of {packets} packets"))?;
    Ok((burst.last_ns - first_ns) as f64 / 1e6)
}

fn slow_readers_open_windows_slowly(_: &Claim, runs: &Runs) -> Outcome {
    let acks = |topology, buffer, pause| {
        let wanted =
            [("topology", topology), ("socket_buffer_bytes", buffer), ("read_pause_ms", pause)];
        runs.of("si-3b").cases_with(&wanted).map(|case| case.measured.acks).sum::<u64>()
    };
    let by_buffer = ["4096", "16384", "52428"].map(|buffer| acks("loopback", buffer, "0"));
    // On one host a reader already finds a whole window each time; between two it can fall behind.
    let by_pause = ["0", "20", "80"].map(|pause| acks("pair", "52428", pause));
    let opened = ["0", "20", "80"].map(|pause| {
        let pause = format!("read_pause_ms={pause}");
        opened_ms(&["topology=loopback", "socket_buffer_bytes=52428", &pause], 10)
    });
    let [at_once, soon, late] = opened;
    let opened = [at_once?, soon?, late?];
    let falls = |counts: &[u64]| counts.windows(2).all(|pair| pair[1] < pair[0]);
    Ok(Comparison::holds(
        falls(&by_buffer) && falls(&by_pause) && opened.is_sorted() && opened[0] < opened[1],
        "fewer acknowledgments with larger buffers and slower readers, and windows that open later",
        format!(
            "{by_buffer:?} acknowledgments on one host with buffers of 4, 16 and 51 KB; between two with the largest {by_pause:?} for pauses of 0, 20 and 80 ms, and bursts of ten on one after {} ms",
            listed(&opened, 0)
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    #[test]
    fn a_slow_fall_is_no_rise() {
        assert!(rises(&[6.0, 7.5, 7.4, 7.5]));
        assert!(!rises(&[6.0, 7.5, 7.4, 7.3, 7.2]), "4 % below the best");
        assert!(!rises(&[6.0, 6.0]));
    }

    #[test]
    fn a_curve_that_levels_at_once_gains_no_second_time() {
        assert!(gains_less_and_less(6.0, 7.0, 7.5));
        assert!(!gains_less_and_less(6.12, 7.35, 7.35), "level");
        assert!(!gains_less_and_less(6.0, 6.5, 7.5), "the second gain is the larger one");
    }

    /// A reader that sleeps between reads has the whole window gather, and the sender stop.
    #[test]
    fn a_sender_that_goes_on_at_every_second_packet_does_not_stop_and_wait() {
        let bursts = |change: &str| {
            between_acks(
                &observe("si-1b", &["total_bytes=262144", "socket_buffer_bytes=4096", change])
                    .unwrap(),
            )
        };
        assert!(stops_after_each_window(&bursts("read_pause_ms=20")));
        assert!(!stops_after_each_window(&bursts("read_pause_ms=0")));
        assert!(!stops_after_each_window(&[]));
    }

    #[test]
    fn a_peak_with_an_open_window_is_seen() {
        let tooth = |window, height, is_cut| Tooth { window, height, is_cut };
        let opened =
            [tooth(40, 40, false), tooth(48, 41, true), tooth(43, 43, false), tooth(48, 48, false)];
        let level = [tooth(48, 48, true), tooth(48, 48, false)];
        assert_eq!(later_peaks(&[&opened[..], &level[..]].concat()), (0, 1));
        let peak = [tooth(48, 60, true), tooth(48, 48, false)];
        assert_eq!(later_peaks(&[&opened[..], &peak[..]].concat()), (1, 1));
    }

    /// Times and lengths: a window of 1, one of 2, one of 3 on top of which the timer brought 4 more.
    #[test]
    fn a_tooth_that_the_timer_cut_is_higher_than_its_window_or_its_neighbours() {
        let lengths =
            [(1, 1), (2, 0), (3, 1), (4, 2), (5, 0), (7, 3), (9, 6), (10, 0), (12, 4), (13, 0)];
        let acks = [(2, 1), (5, 3), (8, 6), (11, 10), (14, 14)];
        let teeth = teeth(&acks, &lengths);
        let tooth = |window, height, is_cut| Tooth { window, height, is_cut };
        let whole = [tooth(1, 1, false), tooth(2, 2, false), tooth(7, 6, true), tooth(4, 4, false)];
        assert_eq!(teeth, whole);
        assert!(peaks_are_cut(&teeth));
        let uncut = [tooth(2, 2, false), tooth(6, 6, false), tooth(4, 4, false)];
        assert!(!peaks_are_cut(&uncut), "a peak without the timer");
    }

    /// The bound falls with the copy rate, so a run that something else held back would differ.
    #[test]
    fn the_bound_of_copies_and_checksums_comes_from_a_run() {
        let rate = |change: &str| bound_mbit_per_s(change).unwrap();
        let (one, two) = (rate("machine=sparcstation-1"), rate("machine=sparcstation-2"));
        assert!((20.0..21.1).contains(&one), "{one}");
        assert!((1.95..2.0).contains(&(two / one)), "{two}");
    }

    /// Where the free-running timer stands is chance: a verdict does not hang on it. `scripts/soak study` looks at more.
    #[test]
    fn neither_the_bound_nor_the_bursts_hang_on_the_phase_of_the_timer() {
        let is_full = std::env::var("SOCKSCOPE_SOAK").is_ok_and(|wish| wish == "full");
        for phase_ms in (0..200).step_by(if is_full { 20 } else { 120 }) {
            let phase = format!("client_timer_ms={phase_ms}");
            let rate = bound_mbit_per_s(&phase).unwrap();
            assert!((20.58..21.42).contains(&rate), "{phase}: {rate}");
            let bursts = grow_by_one(&observe("si-3a", &[&phase]).unwrap());
            assert_eq!(bursts.verdict, Verdict::Reproduced, "{phase}: {:?}", bursts.got);
        }
    }

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

    #[test]
    fn gaps_last_as_long_as_the_reader_sleeps() {
        assert!(last_as_the_reader(&[4.0, 29.0, 48.0, 90.0], 4.0));
        assert!(!last_as_the_reader(&[4.0, 29.0, 39.0, 90.0], 4.0), "shorter than the sleep");
        assert!(!last_as_the_reader(&[4.0, 40.0, 48.0, 90.0], 4.0), "than sleep, tick and copy");
        assert!(!last_as_the_reader(&[9.0, 29.0, 48.0, 90.0], 4.0), "longer than a copy");
        assert!(!last_as_the_reader(&[1.0, 29.0, 48.0, 90.0], 4.0), "shorter than a copy");
    }
}
