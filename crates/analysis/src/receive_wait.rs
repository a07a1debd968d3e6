//! Receive waits: the time of a byte in the receive queue, divided into waits for a CPU and the reader's own time.

use std::num::NonZeroU32;

use sockscope_record::{ReaderTimes, marks};

use crate::Passage;

/// Time between the arrival of data and the scheduler's note of the thread that it wakes, plus the
/// error of the scheduler's clock.
const CLOCK_SLACK_NS: u64 = 10_000;

/// A reader that found an idle CPU has it this soon: to leave a deep idle state takes some hundred microseconds.
/// The scheduler counts nothing for that.
const IDLE_CPU_NS_MAX: u64 = 1_000_000;

/// Start and end of the time in which the reader waited for a CPU, within `[start_ns, end_ns]`; the rest of
/// that interval is the program's own. Both are equal when it did not wait.
///
/// `came` is the pass at point 7 (`None`: its record was missed), `read` the one at point 8.
///
/// - A thread was blocked waiting for this data: from its arrival until the reader got its CPU, or for all of
///   the time if that is unknown and it was the reader itself that was woken. A reader that is known to have
///   spent less than that without a CPU did something else in between. A `runnable_ns` of 1 means no time
///   without a CPU.
/// - No thread was: `runnable_ns` is the time that the reader was runnable without a CPU since its last call
///   on any recorded socket before the bytes arrived, else since its earliest known one. That part of the
///   interval is put just before the reader last got its CPU, which may be before the data arrived; if that
///   is not known, just before it read.
pub(crate) fn split_wait(
    start_ns: u64,
    end_ns: u64,
    came: Option<&Passage>,
    read: &Passage,
) -> (u64, u64) {
    let ReaderTimes { on_cpu_ns, runnable_ns } = read.reader_times();
    let ran_ns = on_cpu_ns.map(|ns| ns.min(end_ns));
    let known_wait_ns = known_wait_ns(runnable_ns);
    let waited_by = came.filter(|pass| pass.marks & marks::WAITED_FOR != 0);
    let waited_by = waited_by.map(|pass| pass.thread);
    match (waited_by, ran_ns) {
        (Some(_), Some(ran_ns)) => {
            let until_ns = ran_ns.max(start_ns);
            let is_whole = is_wait_for_cpu(runnable_ns, until_ns - start_ns);
            (if is_whole { start_ns } else { until_ns - known_wait_ns }, until_ns)
        }
        (Some(thread), None) if thread != 0 && thread == read.thread => (start_ns, end_ns),
        (Some(_), None) => (start_ns, start_ns),
        (None, ran_ns) => {
            let until_ns = ran_ns.unwrap_or(end_ns).max(start_ns);
            (until_ns.saturating_sub(known_wait_ns).max(start_ns), until_ns)
        }
    }
}

/// Whether all of the `wait_ns` from the arrival until the woken reader had its CPU are for the CPU.
pub(crate) fn is_wait_for_cpu(runnable_ns: Option<NonZeroU32>, wait_ns: u64) -> bool {
    match runnable_ns {
        None => true,
        Some(NonZeroU32::MIN) => wait_ns <= IDLE_CPU_NS_MAX,
        Some(runnable_ns) => u64::from(runnable_ns.get()) + CLOCK_SLACK_NS >= wait_ns,
    }
}

fn known_wait_ns(runnable_ns: Option<NonZeroU32>) -> u64 {
    let known_ns = runnable_ns.filter(|&ns| ns != NonZeroU32::MIN);
    known_ns.map_or(0, |ns| ns.get().into())
}
