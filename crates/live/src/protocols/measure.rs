//! Clients at work, and what their calls took.

use std::io;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use sockscope_experiment::measurement::Distribution;

use super::transport::{Client, Server};

/// Times kept of one client; when there are more, every second one is let go, evenly.
const SAMPLES_MAX: usize = 1 << 14;
/// Part of the slice that goes by before counting begins.
const WARM_UP: u32 = 5;

/// What the clients of one case did.
#[derive(Debug, Clone, Default)]
pub(super) struct Measured {
    /// Time of single calls, nanoseconds of the monotonic clock.
    pub call_ns: Distribution,
    /// Calls counted.
    pub calls: u64,
    /// Calls a second, summed over the clients.
    pub calls_per_s: f64,
    /// Ports of the clients.
    pub ports: Vec<u16>,
}

/// Lets `clients` clients call for `slice`, each on a thread of its own.
///
/// # Errors
///
/// When a client cannot be made or a call fails: then the case has no figure.
pub(super) fn measure(
    server: &dyn Server,
    clients: usize,
    slice: Duration,
) -> io::Result<Measured> {
    let clients: Vec<_> = (0..clients).map(|_| server.client()).collect::<io::Result<_>>()?;
    let ports = clients.iter().filter_map(|client| client.port()).collect();
    let barrier = Barrier::new(clients.len());
    let results: Vec<io::Result<Counted>> = thread::scope(|scope| {
        let start = |client| scope.spawn(|| work(client, &barrier, slice));
        let workers: Vec<_> = clients.into_iter().map(start).collect();
        let panicked = |_| Err(io::Error::other("a client panicked"));
        workers.into_iter().map(|worker| worker.join().unwrap_or_else(panicked)).collect()
    });
    let mut measured = Measured { ports, ..Measured::default() };
    let mut times = Vec::new();
    for counted in results {
        let counted = counted?;
        measured.calls += counted.calls;
        measured.calls_per_s += counted.calls as f64 / counted.elapsed.as_secs_f64();
        times.extend(counted.samples_ns);
    }
    measured.call_ns.extend(times);
    Ok(measured)
}

struct Counted {
    calls: u64,
    elapsed: Duration,
    samples_ns: Vec<u64>,
}

fn work(mut client: Box<dyn Client>, barrier: &Barrier, slice: Duration) -> io::Result<Counted> {
    let mut number = 0;
    let warm_until = Instant::now() + slice / WARM_UP;
    let mut warmed = Ok(());
    while warmed.is_ok() && (number == 0 || Instant::now() < warm_until) {
        warmed = client.call(number);
        number += 1;
    }
    // Also one whose calls fail goes on to here, where the others wait for it.
    barrier.wait();
    warmed?;
    let mut samples = Samples::default();
    let started = Instant::now();
    let first = number;
    let mut before = started;
    while before - started < slice {
        client.call(number)?;
        number += 1;
        let now = Instant::now();
        samples.add(now - before);
        before = now;
    }
    Ok(Counted { calls: number - first, elapsed: before - started, samples_ns: samples.kept_ns })
}

/// An even choice of times, in bounded memory.
#[derive(Debug)]
struct Samples {
    kept_ns: Vec<u64>,
    /// One in so many is kept.
    every: u64,
    seen: u64,
}

impl Default for Samples {
    fn default() -> Self {
        Self { kept_ns: Vec::new(), every: 1, seen: 0 }
    }
}

impl Samples {
    fn add(&mut self, took: Duration) {
        if self.seen.is_multiple_of(self.every) {
            if self.kept_ns.len() == SAMPLES_MAX {
                let mut index = 0;
                self.kept_ns.retain(|_| {
                    index += 1;
                    index % 2 == 1
                });
                self.every *= 2;
            }
            self.kept_ns.push(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        }
        self.seen += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_thinned_evenly() {
        let mut samples = Samples::default();
        for ns in 0..5 * SAMPLES_MAX as u64 {
            samples.add(Duration::from_nanos(ns));
        }
        assert!(samples.kept_ns.len() <= SAMPLES_MAX);
        let gaps = samples.kept_ns.windows(2).map(|pair| pair[1] - pair[0]);
        assert!(gaps.into_iter().all(|gap| gap == samples.every || gap == samples.every / 2));
        assert_eq!(samples.kept_ns[0], 0);
    }
}
