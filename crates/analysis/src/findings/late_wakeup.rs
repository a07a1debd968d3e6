//! `late-wakeup`: data lies in the receive queue while its reader is runnable and has no CPU.
//!
//! Judged by the scheduler's account of the reader's thread. An ordinary wake-up takes microseconds; only single
//! waits of [`READ_WAIT_NS_MIN`] or more count, which the scheduler makes when another thread has
//! the CPU.

use sockscope_record::Point;

use super::caller_delay::{FlowHolds, HeldInterval};
use super::facts::FlowFacts;
use super::intervals::Interval;
use super::phrasing;
use super::reads::{READ_WAIT_NS_MIN, ReadWait};
use super::tally::Tally;
use crate::{Finding, FindingId, LedgerPart};

/// Any machine makes a thread wait now and then.
const COUNT_MIN: u64 = 5;

/// A flow that is mostly idle has little busy time, so that a few stray waits are a large share of it: they must
/// matter for its whole time too.
const WHOLE_PERCENT_MIN: u128 = 2;

/// Less than a fifth of the busy time is the normal cost of a shared machine.
pub(super) const SHARE_PERCENT_MIN: u64 = 20;

pub(super) fn find(facts: &FlowFacts<'_>) -> Option<Finding> {
    let mut tally = Tally::default();
    for wait in &facts.read_waits {
        let runnable_ns = wait.runnable_ns.unwrap_or(0);
        if runnable_ns < READ_WAIT_NS_MIN || facts.doubt.is_of_wait(wait) {
            continue;
        }
        tally.count += 1;
        tally.add_cost(wait.since_ns, wait.since_ns.saturating_add(runnable_ns));
        note(&mut tally, wait, runnable_ns);
    }
    let whole_ns = facts.view.end_ns.saturating_sub(facts.view.start_ns);
    let is_felt = u128::from(tally.cost_ns) * 100 >= u128::from(whole_ns) * WHOLE_PERCENT_MIN;
    let is_share = facts.is_share_of_busy(tally.cost_ns, SHARE_PERCENT_MIN);
    if tally.count < COUNT_MIN || !is_felt || !is_share {
        return None;
    }
    let receiver = facts.who(facts.receiver());
    let summary = format!(
        "The {receiver} was ready to read {} but had no CPU for {} on average ({}).",
        phrasing::counted(tally.count, "time"),
        phrasing::time(tally.cost_ns / tally.count),
        facts.share_of_busy(tally.cost_ns),
    );
    let fix = fix(&receiver);
    Some(tally.into_finding(FindingId::LateWakeup, facts, facts.receiver(), summary, fix))
}

/// Times in which the reader had no CPU, for the sum over the callers' waits. The ledger has more of them than the
/// account of the reader: those of a thread that was blocked for this data and woken by it, also without that
/// account.
pub(super) fn holds(facts: &FlowFacts<'_>) -> FlowHolds {
    let reads = facts.view.flow().at(Point::ReceiveDequeue);
    let waits = facts.whole_holds(LedgerPart::ReceiveWakeup);
    let holds = waits.filter(|wait| wait.duration_ns() >= READ_WAIT_NS_MIN).map(|wait| {
        let read = reads.partition_point(|read| read.at_ns < wait.end_ns);
        let thread = reads.get(read).map_or(0, |read| read.thread);
        HeldInterval { interval: Interval::new(wait.start_ns, wait.end_ns), thread, process: 0 }
    });
    let direction = facts.view.direction;
    FlowHolds { id: FindingId::LateWakeup, direction, holds: holds.collect() }
}

pub(super) fn fix(receiver: &str) -> String {
    format!(
        "Give the {receiver} a CPU of its own (taskset, cpuset), move other load away, or raise its priority \
         or cpu.max."
    )
}

fn note(tally: &mut Tally, wait: &ReadWait, runnable_ns: u64) {
    tally.notes.add(wait.since_ns, || format!("data from {} on waits to be read", wait.offset));
    tally.notes.add(wait.read_ns, || {
        let runnable = phrasing::time(runnable_ns);
        format!("thread {} reads it; it was runnable without a CPU for {runnable}", wait.thread)
    });
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{found, repeat};
    use insta::assert_snapshot;

    /// Every 10 ms a request arrives and is read 4 ms later.
    fn requests(word: &str) -> String {
        let sent = repeat(20, "10ms", |at| format!("{at} 1-7 +100 waited"));
        let read = repeat(20, "10ms", |at| format!("{at} 8 +100 thread=9 {word}"));
        format!("{sent} | {}", read.replace("0ms 8", "4ms 8"))
    }

    /// A report of 80 columns has 71 for the text next to its label. The other findings stand below.
    #[test]
    fn the_fix_takes_two_lines_of_a_report() {
        let fix = super::fix("server (streams, pid 24919)");
        let lines = fix.split(' ').fold(vec![0], |mut lines, word| {
            match lines.last_mut() {
                Some(len) if *len + 1 + word.len() <= 71 => *len += 1 + word.len(),
                _ => lines.push(word.len()),
            }
            lines
        });
        assert_eq!(lines.len(), 2, "{fix}");
    }

    const LEDGER: &str = "0ms receive_queue.wakeup | 80ms app_idle | 204ms end";

    #[test]
    fn a_reader_beside_a_hog_waits_for_its_cpu() {
        assert_snapshot!(found(&requests("runq=3900us"), LEDGER), @"late-wakeup @server 20x 78.0 ms: The server was ready to read 20 times but had no CPU for 3.90 ms on average (98 % of 80.0 ms with bytes under way).");
    }

    #[test]
    fn a_reader_that_sleeps_has_its_cpu() {
        let reads = repeat(20, "50ms", |at| format!("{at} 8 +100 runq=30us"));
        let said = found(&format!("0ms 1-7 +2000 | {reads}"), "0ms receive_queue.app | 1s end");
        assert!(!said.contains("late-wakeup"), "{said}");
    }

    #[test]
    fn ordinary_wake_ups_are_silent_however_many() {
        let text = repeat(500, "1ms", |at| format!("{at} 1-7 +100 waited | {at} 1-7 +0"));
        let reads =
            repeat(500, "1ms", |at| format!("{at} 8 +100 runq=80us")).replace("ms 8", "080us 8");
        let ledger = "0ms receive_queue.wakeup | 500ms end";
        assert_snapshot!(found(&format!("{text} | {reads}"), ledger), @"");
    }

    #[test]
    fn waits_that_are_a_small_part_of_the_time_are_silent() {
        let ledger = "0ms receive_queue.wakeup | 80ms wire | 1s end";
        assert_snapshot!(found(&requests("runq=3900us"), ledger), @"");
    }

    #[test]
    fn a_few_stray_waits_of_a_mostly_idle_flow_are_silent() {
        let text = format!("{} | 9s 1 +1", requests("runq=3900us"));
        assert_snapshot!(found(&text, LEDGER), @"");
    }

    #[test]
    fn waiting_for_a_cpu_before_any_data_came_delays_nothing() {
        let text = repeat(20, "10ms", |at| format!("{at} 1-8 +100 runq=4ms"));
        assert_snapshot!(found(&text, "0ms app_idle | 200ms end"), @"");
    }
}
