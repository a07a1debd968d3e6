//! Checks of when a receiver acknowledges: §4.3.1 of "Experimental Evaluation of SunOS IPC and TCP/IP
//! Protocol Implementation".
//!
//! Its rules are found from outside, by a reader that takes so much at a time, and not read off the
//! personality.

use sockscope_experiment::papers::Claim;
use sockscope_lab::model::Observed;
use sockscope_record::Point;

use super::sunos_runs::observe;
use super::{Check, Comparison, Outcome, Runs};

pub(super) const CHECKS: &[Check] = &[
    Check { id: "sunos-ipc/4.3.1-a", needs: &[], compare: when_to_acknowledge },
    Check { id: "sunos-ipc/4.3.1-b", needs: &[], compare: fast_timer },
];

/// Buffers of both ends: five segments are less than 35 % of them.
const BUFFER_BYTES: u64 = 16_384;
const SEGMENT_BYTES: u64 = 1024;
/// An acknowledgment of a read leaves within so many nanoseconds; the reader sleeps longer between two.
const AT_ONCE_NS: u64 = 50_000_000;

/// A run in which the reader begins a second after the connection stands, when the timer has acknowledged
/// all that arrived, and the writer closes later still.
fn late_reader(changes: &[&str]) -> Result<Observed, String> {
    let buffers = format!("socket_buffer_bytes={BUFFER_BYTES}");
    let always =
        [buffers.as_str(), "read_after_us=1000000", "read_pause_ms=100", "close_after_ms=5000"];
    observe("si-1b", &[&always, changes].concat())
}

/// Whether taking `read` octets of `total` in one call is announced to the sender at once.
fn is_told(total: u64, read: u64) -> Result<bool, String> {
    let seen = late_reader(&[
        &format!("total_bytes={total}"),
        &format!("write_bytes={total}"),
        &format!("read_bytes={read}"),
    ])?;
    let copies = seen.data(Point::ReceiveDequeue);
    let taken =
        copies.iter().find(|copy| copy.end() == read).ok_or("the reader took other parts")?;
    let soon = taken.at_ns..taken.at_ns + AT_ONCE_NS;
    Ok(seen.acks().iter().any(|ack| soon.contains(&ack.at_ns)))
}

/// The first of `tried` for which `is_told` holds; no number where it holds for the first one tried,
/// which then says nothing of a threshold, or for none.
fn threshold(
    tried: impl IntoIterator<Item = u64>,
    is_told: impl Fn(u64) -> Result<bool, String>,
) -> Result<f64, String> {
    for (index, number) in tried.into_iter().enumerate() {
        if is_told(number)? {
            return Ok(if index > 0 { number as f64 } else { f64::NAN });
        }
    }
    Ok(f64::NAN)
}

fn when_to_acknowledge(claim: &Claim, _: &Runs) -> Outcome {
    let emptied = |segments| is_told(segments * SEGMENT_BYTES, segments * SEGMENT_BYTES);
    // A segment stays in the buffer.
    let moved = |percent: u64| {
        let read = (BUFFER_BYTES * percent).div_ceil(100);
        is_told(read + SEGMENT_BYTES, read)
    };
    let numbers = [threshold(1..=5, emptied)?, threshold(30..=50, moved)?];
    Ok(Comparison::numbers(claim, &numbers).with_note(
        "the fewest segments that are acknowledged when they empty the buffer, and the least share of it when data stay",
    ))
}

/// How far apart the acknowledgments of one tick may be: the timer serves the connections in turn.
const ONE_TICK_NS: u64 = 1_000_000;

/// Whether the first `count` acknowledgments of all connections are made at the same ticks.
fn are_at_once(acks: &[Vec<u64>], count: usize) -> bool {
    let is_near = |at: usize| {
        let times: Option<Vec<u64>> = acks.iter().map(|one| one.get(at).copied()).collect();
        let times = times.unwrap_or_default();
        let (first, last) = (times.iter().min(), times.iter().max());
        first.zip(last).is_some_and(|(first, last)| last - first < ONE_TICK_NS)
    };
    acks.len() > 1 && count > 1 && (0..count).all(is_near)
}

fn fast_timer(claim: &Claim, _: &Runs) -> Outcome {
    let seen = late_reader(&[
        "connections=2",
        "total_bytes=8192",
        "write_bytes=1024",
        "write_pause_ms=70",
        "nodelay=true",
        "read_bytes=8192",
    ])?;
    let of_each: Vec<Vec<u64>> =
        seen.acks_of_each().iter().map(|acks| acks.iter().map(|ack| ack.at_ns).collect()).collect();
    let read_ns = seen.data(Point::ReceiveDequeue).first().map_or(0, |copy| copy.at_ns);
    let acks = seen.acks();
    let unread: Vec<_> = acks.iter().filter(|ack| ack.at_ns < read_ns).collect();
    let apart_ms = |pair: &[&_]| (ack_ms(pair[1]) - ack_ms(pair[0])).round();
    let gaps_ms: Vec<f64> = unread.windows(2).map(apart_ms).collect();
    let arrived = seen.data(Point::ReceiveEnqueue).len();
    Ok(Comparison::numbers(claim, &[gaps_ms.first().copied().unwrap_or(f64::NAN)]).and(
        Comparison::holds(
            gaps_ms.len() > 1 && gaps_ms.iter().all(|gap| *gap == gaps_ms[0]),
            "as long between all acknowledgments of segments that nobody reads",
            format!("{gaps_ms:?} ms"),
        ),
    )
    .and(Comparison::holds(
        are_at_once(&of_each, unread.len()),
        "both connections acknowledge at the same ticks",
        format!("acknowledgments at {of_each:?} ns"),
    ))
    .with_note(format!(
        "{arrived} segments 70 ms apart, read later, are acknowledged {} times on each of two connections, both at once; to the millisecond",
        unread.len()
    )))
}

fn ack_ms(ack: &sockscope_analysis::Passage) -> f64 {
    ack.at_ns as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threshold_lies_between_two_that_were_tried() {
        let from = |least: u64| threshold(1..=5, move |number| Ok(number >= least)).unwrap();
        assert_eq!(from(2), 2.0);
        assert!(from(1).is_nan() && from(6).is_nan());
    }

    #[test]
    fn a_timer_for_each_connection_is_not_one_for_all() {
        let ms = |ms: &[u64]| ms.iter().map(|ms| ms * 1_000_000).collect::<Vec<_>>();
        let one = ms(&[162, 362, 562]);
        assert!(are_at_once(&[one.clone(), one.clone()], 3));
        assert!(!are_at_once(&[one.clone(), ms(&[190, 390, 590])], 3));
        assert!(!are_at_once(&[one.clone(), ms(&[162])], 3), "one is not acknowledged");
        assert!(!are_at_once(&[one], 3), "one connection");
    }

    /// Reno tells the sender of two segments or half of the buffer, whatever stays in it.
    #[test]
    fn another_rule_would_differ() {
        let told = |changes: &[&str]| {
            let seen = late_reader(changes).unwrap();
            let copies = seen.data(Point::ReceiveDequeue);
            let taken = copies.iter().find(|copy| copy.end() == 2048).unwrap();
            let soon = taken.at_ns..taken.at_ns + AT_ONCE_NS;
            seen.acks().iter().any(|ack| soon.contains(&ack.at_ns))
        };
        let run = ["total_bytes=3072", "write_bytes=3072", "read_bytes=2048"];
        assert!(!told(&run));
        assert!(told(&[&run[..], &["ack_rule=two-segments"]].concat()));
    }
}
