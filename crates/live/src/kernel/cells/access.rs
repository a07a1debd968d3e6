//! Words written one by one, each waited for, with work between them.

use std::hint::black_box;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use sockscope_experiment::AtmParameters;
use sockscope_experiment::measurement::{Measure, Measurement};

/// Writes a word, waits until it is there, works, and so on.
pub(super) fn run(parameters: &AtmParameters) -> Measurement {
    let accesses = parameters.accesses.unwrap_or(1);
    let word = AtomicU32::new(0);
    let began = Instant::now();
    for number in 0..accesses {
        // The next instruction waits until the word is where every processor sees it.
        word.swap(number as u32, Ordering::SeqCst);
        work(parameters.work_cycles.unwrap_or(0));
    }
    let ns = began.elapsed().as_nanos() as f64 / accesses as f64;
    Measurement { measures: vec![Measure::new("access_ns", ns)], ..Measurement::default() }
}

/// So many additions, each of which needs the one before: a cycle for each.
fn work(cycles: u64) {
    let mut sum = 0_u64;
    for _ in 0..cycles {
        sum = black_box(sum + 1);
    }
    black_box(sum);
}
