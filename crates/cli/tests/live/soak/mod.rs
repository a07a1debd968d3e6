//! Suites that load the machine for minutes: each has a short form, which runs with the other live
//! tests, and the whole one, which `scripts/soak` runs with `SOCKSCOPE_SOAK=full`.

mod callers;
mod halted_disk;
mod matrix;
mod stopped;
mod strangers;
mod truth;

/// Whether the whole suite is asked for.
pub fn is_full() -> bool {
    std::env::var("SOCKSCOPE_SOAK").is_ok_and(|wish| wish == "full")
}

/// `full` in the whole suite, else `short`.
pub fn sized<T>(short: T, full: T) -> T {
    if is_full() { full } else { short }
}
