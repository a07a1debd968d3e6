//! The time that a program spends between two calls.

use std::thread;
use std::time::{Duration, Instant};

/// A program that takes less than this before a call computes. A longer time may be a sleep, and is one here.
const SLEEP_MIN: Duration = Duration::from_millis(1);

/// A program sleeps as long as this before the end of its think time, and then computes: the kernel wakes it late.
const SPIN: Duration = Duration::from_micros(100);

/// Spends the time.
///
/// It touches no memory. With a walk over 64 KiB to 1 MiB in this time, three of four patterns had the same exchanges
/// within 4 %, and one was 10 % farther from its recording.
pub fn think(ns: u64) {
    let end = Instant::now() + Duration::from_nanos(ns);
    let time = Duration::from_nanos(ns);
    if time >= SLEEP_MIN {
        thread::sleep(time - SPIN);
    }
    while Instant::now() < end {
        std::hint::spin_loop();
    }
}
