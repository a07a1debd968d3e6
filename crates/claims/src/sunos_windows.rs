//! Checks of windows and acknowledgments: §4.3 of "Experimental Evaluation of SunOS IPC
//! and TCP/IP Protocol Implementation".

use std::sync::LazyLock;

use sockscope_analysis::Passage;
use sockscope_experiment::papers::Claim;
use sockscope_lab::model::{Observed, length_at};
use sockscope_record::{Direction, Point, Stage};

use super::sunos::{Run, SEGMENT_BYTES, copy_and_checksum_us, listed, shared};
use super::sunos_runs::observe;
use super::{Check, Comparison, Outcome, Runs, most};

pub(super) const CHECKS: &[Check] = &[
    Check { id: "sunos-ipc/4.3.1-c", needs: &["si-3a"], compare: bursts_grow_by_one },
    Check { id: "sunos-ipc/4.3.1-d", needs: &["si-3a"], compare: queue_falls_to_zero },
    Check { id: "sunos-ipc/4.3.1-e", needs: &["si-3a"], compare: peaks_fall_on_ticks },
    Check { id: "sunos-ipc/4.3.1-f", needs: &["si-3a"], compare: more_acks_between_hosts },
    Check { id: "sunos-ipc/4.3.2-a", needs: &["si-3b"], compare: idle_while_copied },
];

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

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::super::sunos::timer_phases;
    use super::*;

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

    #[test]
    fn gaps_last_as_long_as_the_reader_sleeps() {
        assert!(last_as_the_reader(&[4.0, 29.0, 48.0, 90.0], 4.0));
        assert!(!last_as_the_reader(&[4.0, 29.0, 39.0, 90.0], 4.0), "shorter than the sleep");
        assert!(!last_as_the_reader(&[4.0, 40.0, 48.0, 90.0], 4.0), "than sleep, tick and copy");
        assert!(!last_as_the_reader(&[9.0, 29.0, 48.0, 90.0], 4.0), "longer than a copy");
        assert!(!last_as_the_reader(&[1.0, 29.0, 48.0, 90.0], 4.0), "shorter than a copy");
    }

    /// Where the free-running timer stands is chance: a verdict does not hang on it.
    #[test]
    fn no_burst_hangs_on_the_phase_of_the_timer() {
        for phase in timer_phases() {
            let bursts = grow_by_one(&observe("si-3a", &[&phase]).unwrap());
            assert_eq!(bursts.verdict, Verdict::Reproduced, "{phase}: {:?}", bursts.got);
        }
    }
}
