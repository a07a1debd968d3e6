//! `small-writes`: a bulk transfer in pieces far smaller than a segment.
//!
//! Bulk is a run of writes without an answer read and without a pause between them; requests and
//! responses never make one. The cost is that of the system calls that larger writes would
//! have saved: their durations or, where those were not recorded, the times between calls that follow
//! one another too closely for other work.

use super::facts::FlowFacts;
use super::intervals::Interval;
use super::phrasing;
use super::tally::Tally;
use super::writes::{Write, turns};
use crate::{Finding, FindingId};

/// Below about this a system call (some hundred nanoseconds and the socket's locks) costs more than
/// copying its bytes.
const SMALL_BYTES_MAX: u32 = 1024;

/// Bulk, not a message in parts: two orders above any protocol's header fields.
const RUN_WRITES_MIN: usize = 1000;

/// A pause of this between two writes and the program is not in a hurry.
const PAUSE_NS_MIN: u64 = 1_000_000;

/// The longest time from the start of one call to that of the next in which the call itself has most of it. A call that
/// sends its bytes over loopback, and wakes their reader, takes 2 to 8 µs.
const CLOSE_NS_MAX: u64 = 10_000;

/// Size of one write of a buffered stream: the gain of larger writes levels off there.
const GOOD_WRITE_BYTES: u64 = 65_536;

pub(super) fn find(facts: &FlowFacts<'_>) -> Option<Finding> {
    let small_max = SMALL_BYTES_MAX.min(facts.segment_bytes().saturating_sub(1) / 2);
    let mut tally = Tally::default();
    let mut bytes = 0;
    for turn in turns(facts.view, &facts.writes) {
        let runs = turn.writes.chunk_by(|a, b| belong_together(a, b, small_max));
        for run in runs.filter(|run| run.len() >= RUN_WRITES_MIN) {
            let run_bytes: u64 = run.iter().map(|write| u64::from(write.len)).sum();
            tally.count += run.len() as u64;
            tally.cost_ns += avoidable_ns(run, run_bytes);
            tally.times.extend(times(run));
            bytes += run_bytes;
            note(&mut tally, run, run_bytes);
        }
    }
    if tally.count == 0 {
        return None;
    }
    let sender = facts.who(facts.sender());
    let summary = format!(
        "The {sender} wrote {bytes} bytes of bulk data in {} of {} bytes on average.",
        phrasing::counted(tally.count, "call"),
        bytes / tally.count,
    );
    let fix = format!(
        "In the {sender}: buffer and write 16 KiB to 64 KiB at a time (a buffered stream, or writev \
         over many pieces)."
    );
    Some(tally.into_finding(FindingId::SmallWrites, facts, facts.sender(), summary, fix))
}

fn belong_together(a: &Write, b: &Write, small_max: u32) -> bool {
    let pause_ns = b.start_ns.saturating_sub(a.end_ns.unwrap_or(a.start_ns));
    a.len <= small_max && b.len <= small_max && pause_ns < PAUSE_NS_MIN
}

/// The median call leaves out those that the kernel blocked on a full buffer.
fn avoidable_ns(run: &[Write], bytes: u64) -> u64 {
    let durations = run.iter().filter_map(|write| write.end_ns?.checked_sub(write.start_ns));
    let durations: Vec<_> = durations.collect();
    let (calls, median_ns) = if durations.is_empty() {
        let between = run.windows(2).map(|pair| pair[1].start_ns.saturating_sub(pair[0].start_ns));
        // A longer time may be that of the program's own work, which larger writes do not save.
        let median_ns = median(between.collect()).filter(|median_ns| *median_ns <= CLOSE_NS_MAX);
        (run.len(), median_ns)
    } else {
        (durations.len(), median(durations))
    };
    let avoidable = (calls as u64).saturating_sub(bytes.div_ceil(GOOD_WRITE_BYTES));
    median_ns.unwrap_or(0).saturating_mul(avoidable)
}

fn median(mut times_ns: Vec<u64>) -> Option<u64> {
    let middle = times_ns.len() / 2;
    if times_ns.is_empty() {
        return None;
    }
    let (_, median_ns, _) = times_ns.select_nth_unstable(middle);
    Some(*median_ns)
}

/// Between which times the avoidable calls were.
fn times(run: &[Write]) -> Option<Interval> {
    let (first, last) = (run.first()?, run.last()?);
    Some(Interval::new(first.start_ns, last.end_ns.unwrap_or(last.start_ns)))
}

fn note(tally: &mut Tally, run: &[Write], bytes: u64) {
    let (Some(first), Some(last)) = (run.first(), run.last()) else { return };
    tally.notes.add(first.start_ns, || {
        let took = phrasing::time(last.start_ns - first.start_ns);
        format!(
            "{} writes of {bytes} bytes in all begin, in {took}, nothing read between",
            run.len()
        )
    });
    tally.notes.add(last.start_ns, || format!("the last of them: {} bytes", last.len));
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{found, repeat};
    use insta::assert_snapshot;

    const IDLE: &str = "0ms app_idle | 10s end";

    #[test]
    fn thousands_of_tiny_writes_in_a_row_are_found() {
        let text = repeat(2000, "10us", |at| format!("{at} write +100 | {at} 1-8 +100"));
        assert_snapshot!(found(&text, IDLE), @"small-writes @client 2000x 20.0 ms: The client wrote 200000 bytes of bulk data in 2000 calls of 100 bytes on average.");
    }

    #[test]
    fn without_call_times_a_program_that_may_do_other_work_between_calls_has_no_known_cost() {
        let text = repeat(2000, "11us", |at| format!("{at} write +100 | {at} 1-8 +100"));
        assert_snapshot!(found(&text, IDLE), @"small-writes @client 2000x 0 ns: The client wrote 200000 bytes of bulk data in 2000 calls of 100 bytes on average.");
    }

    #[test]
    fn a_wait_between_two_calls_is_not_their_cost() {
        let at_us = |call: u32| 2 * call + if call > 500 { 900 } else { 0 };
        let writes = (1..=1000).map(at_us).map(|at| format!("{at}us write +100 | {at}us 1-8 +100"));
        let text: Vec<_> = writes.collect();
        assert_snapshot!(found(&text.join(" | "), IDLE), @"small-writes @client 1000x 2.00 ms: The client wrote 100000 bytes of bulk data in 1000 calls of 100 bytes on average.");
    }

    #[test]
    fn the_calls_saved_are_the_cost() {
        let text: String = (1..=1000)
            .map(|i| format!("{i}0us write +64 | {i}3us write-return len=64 |",))
            .collect();
        assert_snapshot!(found(&text, IDLE), @"small-writes @client 1000x 3.00 ms: The client wrote 64000 bytes of bulk data in 1000 calls of 64 bytes on average.");
    }

    #[test]
    fn requests_that_are_answered_are_not_bulk() {
        let text = repeat(2000, "10us", |at| format!("{at} 1-8 +100 | {at} <1-8 +5"));
        assert_snapshot!(found(&text, IDLE), @"");
    }

    #[test]
    fn a_message_every_two_milliseconds_is_not_bulk() {
        let text = repeat(2000, "2ms", |at| format!("{at} 1-8 +100"));
        assert_snapshot!(found(&text, IDLE), @"");
    }

    #[test]
    fn a_kilobyte_and_more_is_not_small() {
        let text = repeat(2000, "10us", |at| format!("{at} 1-8 +1025"));
        assert_snapshot!(found(&text, IDLE), @"");
    }

    #[test]
    fn a_short_run_is_not_bulk() {
        let text = repeat(999, "10us", |at| format!("{at} 1-8 +100"));
        assert_snapshot!(found(&text, IDLE), @"");
    }
}
