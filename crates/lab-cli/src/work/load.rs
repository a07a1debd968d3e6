//! `load`: processes that compute and do nothing else.

use std::io::Read;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::thread::{CpuSet, sched_setaffinity};
use serde_json::{Value, json};
use sockscope_link::now_ns;
use sockscope_program::failure::Failure;
use sockscope_program::outcome::Outcome;
use sockscope_program::output::write_to;
use sockscope_program::signals::StopSignals;

use super::args::{Load, Primes};
use super::process::{command, cpu_ns, result, start};
use super::report::Report;

const LOOK_EVERY: Duration = Duration::from_millis(5);

/// `lab work load`.
pub fn load(arguments: &Load) -> Result<Outcome, Failure> {
    let stop = StopSignals::register()?;
    let report = Report::new("load", "computing");
    let mut processes = Vec::new();
    let mut cpus = arguments.cpus.iter().cycle();
    for _ in 0..arguments.processes {
        let mut words = vec!["primes".to_owned()];
        words.extend(cpus.next().map(|cpu| format!("--cpu={cpu}")));
        let mut command = command(&words)?;
        processes.push(start(command.stdin(Stdio::piped()).stdout(Stdio::piped()))?);
    }
    let start_ns = now_ns();
    let is_over = || arguments.time.is_some_and(|time| now_ns() - start_ns >= time.0);
    while !stop.stop_requested() && !is_over() {
        // One that ended has failed.
        if processes.iter_mut().any(|process| !matches!(process.try_wait(), Ok(None))) {
            break;
        }
        thread::sleep(LOOK_EVERY);
    }
    // All end at the same time, and not each when the one before has ended.
    processes.iter_mut().for_each(|process| drop(process.stdin.take()));
    let results: Result<Vec<Value>, Failure> =
        processes.into_iter().map(|process| result(process, |output| &output.stdout)).collect();
    report.with("processes", results?.into()).print()
}

/// A process of the load.
pub fn primes(arguments: &Primes) -> Result<Outcome, Failure> {
    // A terminal sends its signals to this process, too: the end of standard input is what ends it.
    let _signals = StopSignals::register()?;
    if let Some(cpu) = arguments.cpu {
        bind(cpu)?;
    }
    let is_over = AtomicBool::new(false);
    let (found, largest) = thread::scope(|scope| {
        scope.spawn(|| {
            // A failure to read ends the load as the end of the input does.
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            is_over.store(true, Ordering::Relaxed);
        });
        search(|| is_over.load(Ordering::Relaxed))
    });
    let line = json!({
        "process": std::process::id(),
        "cpu": arguments.cpu,
        "cpu_ns": cpu_ns(),
        "primes": found,
        "largest": largest,
    });
    write_to(Path::new("-"), |out| writeln!(out, "{line}"))?;
    Ok(Outcome::Done)
}

/// Binds this process to a CPU.
pub fn bind(cpu: u32) -> Result<(), Failure> {
    let failed =
        |why: &dyn std::fmt::Display| Failure::new(format!("cannot run on CPU {cpu}: {why}"));
    if cpu as usize >= CpuSet::MAX_CPU {
        return Err(failed(&format_args!("numbers end at {}", CpuSet::MAX_CPU - 1)));
    }
    let mut cpus = CpuSet::new();
    cpus.set(cpu as usize);
    sched_setaffinity(None, &cpus).map_err(|error| failed(&error))
}

/// Searches for prime numbers from 2 on by trial division: how many there are, and the largest.
fn search(is_over: impl Fn() -> bool) -> (u64, u64) {
    let (mut found, mut largest) = (0, 0);
    for number in 2_u64.. {
        if is_over() {
            break;
        }
        let mut divisors = (2..).take_while(|divisor| divisor * divisor <= number);
        if divisors.all(|divisor| number % divisor != 0) {
            (found, largest) = (found + 1, number);
        }
    }
    (found, largest)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn the_load_finds_prime_numbers() {
        let left = Cell::new(99);
        let is_over = || left.replace(left.get() - 1) == 0;
        assert_eq!(search(is_over), (25, 97), "of the numbers 2 to 100");
    }
}
