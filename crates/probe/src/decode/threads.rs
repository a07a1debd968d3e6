//! Times in which threads were runnable without a CPU, from the scheduler's counts for each thread.
//!
//! Every read and write, and the return of each, shows the sum of its thread's whole life. The share of a wait for
//! data is the difference to the sum of the same thread, by a call on any socket, when the data arrived. That before a
//! write is the difference to its last call. Samples of a thread are nearly in order of time, as hits are.

use std::collections::{HashMap, VecDeque};

/// Changes remembered of one thread, at most: older waits count from the oldest.
const SAMPLES_MAX: usize = 512;
/// Threads remembered, at most; beyond, all are forgotten.
const THREADS_MAX: usize = 8_192;

/// Run delays of the threads that read or write.
#[derive(Default)]
pub(super) struct Threads {
    seen: HashMap<u32, VecDeque<Sample>>,
}

/// From `at_ns` on the thread had waited `run_delay_ns` in all its life.
#[derive(Clone, Copy)]
struct Sample {
    at_ns: u64,
    run_delay_ns: u64,
}

impl Threads {
    /// Run delay of `thread`, which has a call at `at_ns`, since its last call on any recorded socket up to
    /// `since_ns`, else since its earliest known call. Of a read `since_ns` is when the bytes arrived. 1 is no time at
    /// all, as the scheduler counts on an idle CPU; 0 is unknown, for a thread's first call.
    pub(super) fn waited_ns(
        &mut self,
        thread: u32,
        at_ns: u64,
        run_delay_ns: u64,
        since_ns: u64,
    ) -> u64 {
        if self.seen.len() >= THREADS_MAX && !self.seen.contains_key(&thread) {
            self.seen.clear();
        }
        let samples = self.seen.entry(thread).or_default();
        // Less than before: the number has a new thread.
        if samples.back().is_some_and(|last| run_delay_ns < last.run_delay_ns) {
            samples.clear();
        }
        let later = samples.partition_point(|sample| sample.at_ns <= since_ns);
        let known = samples.get(later.saturating_sub(1)).map(|sample| sample.run_delay_ns);
        debug_assert!(known.is_none_or(|known| known <= run_delay_ns), "run delays only grow");
        if samples.back().is_none_or(|last| run_delay_ns > last.run_delay_ns) {
            if samples.len() == SAMPLES_MAX {
                samples.pop_front();
            }
            samples.push_back(Sample { at_ns, run_delay_ns });
        }
        known.map_or(0, |known| (run_delay_ns - known).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The waits of thread 7 at its reads: each is (time, the sum shown, arrival of its data).
    fn waits(reads: &[(u64, u64, u64)]) -> Vec<u64> {
        let mut threads = Threads::default();
        reads.iter().map(|&(at, sum, since)| threads.waited_ns(7, at, sum, since)).collect()
    }

    #[test]
    fn a_wait_counts_from_the_last_read_before_the_data_came() {
        assert_eq!(waits(&[(10, 100, 5), (20, 130, 19), (30, 170, 25)]), [0, 30, 40]);
        assert_eq!(waits(&[(10, 100, 5), (20, 130, 19), (30, 170, 15)]), [0, 30, 70]);
        assert_eq!(waits(&[(10, 100, 5), (20, 100, 19), (30, 170, 25)]), [0, 1, 70]);
    }

    #[test]
    fn no_wait_is_told_from_a_wait_that_nobody_knows() {
        assert_eq!(waits(&[(10, 100, 5), (20, 100, 15), (30, 100, 25)]), [0, 1, 1]);
    }

    #[test]
    fn a_thread_first_seen_after_the_data_came_counts_from_then() {
        assert_eq!(waits(&[(10, 100, 5), (20, 130, 5)]), [0, 30]);
    }

    #[test]
    fn a_number_given_to_another_thread_starts_anew() {
        assert_eq!(waits(&[(10, 100, 5), (20, 40, 15), (30, 45, 25)]), [0, 0, 5]);
    }

    #[test]
    fn only_so_much_is_remembered() {
        let reads = (0..2 * SAMPLES_MAX as u64).map(|n| (n, n, n)).collect::<Vec<_>>();
        let mut threads = Threads::default();
        for &(at, sum, since) in &reads {
            threads.waited_ns(7, at, sum, since);
        }
        assert_eq!(threads.seen[&7].len(), SAMPLES_MAX);
        for thread in 0..=THREADS_MAX as u32 {
            threads.waited_ns(thread, 0, 0, 0);
        }
        assert!(threads.seen.len() <= THREADS_MAX);
    }
}
