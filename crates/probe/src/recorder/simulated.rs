//! The recorder on a simulated machine: any number of recordings, each from a seed.
//!
//! The machine has CPUs with lists of bounded size, connections, datagrams, and a recorder that is stopped
//! now and then, all in virtual time ([`world`]). Its probes do the work of the kernel half ([`probes`]). It
//! keeps the [`truth`] about each hit. [`check`] compares it with the records of the real loop and the real
//! decoder.
//!
//! `SOCKSCOPE_SIMULATED_SEEDS` is the number of seeds to run, `SOCKSCOPE_SIMULATED_FIRST_SEED` the first of
//! them, `SOCKSCOPE_SIMULATED_SEED` one of them alone.

mod check;
mod hits;
mod plan;
mod probes;
mod rng;
mod scenarios;
mod tcp;
mod truth;
mod udp;
mod world;

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use super::kernel::Options;
use super::recording::Recording;
use super::summary::Summary;
use check::{Collected, check};
use world::{SimulatedSource, World};

/// Seeds that `cargo test` runs.
const SEEDS: u64 = 1_000;
/// Until all that is left is taken at the end, in virtual time.
const DEADLINE: Duration = Duration::from_secs(3_600);

/// A world in which nothing happens any more, and its records.
struct Recorded {
    world: Rc<RefCell<World>>,
    collected: Collected,
    summary: Summary,
}

/// Records all that happens in a world. Calls `look` after each look at the lists, for as long as it asks for
/// more of them.
fn record(
    world: World,
    look: impl FnMut(&mut World, &Recording<SimulatedSource>) -> bool,
) -> Recorded {
    record_with(world, Options::default(), look)
}

fn record_with(
    world: World,
    options: Options,
    mut look: impl FnMut(&mut World, &Recording<SimulatedSource>) -> bool,
) -> Recorded {
    let world = Rc::new(RefCell::new(world));
    let source = SimulatedSource::new(&world);
    let mut recording = Recording::start(source, &options).expect("counters can be read");
    let mut collected = Collected::default();
    loop {
        recording.step(&mut collected).expect("a sink without limits");
        let goes_on = look(&mut world.borrow_mut(), &recording);
        if !goes_on && world.borrow().is_over() {
            break;
        }
    }
    let summary = recording.finish(&mut collected, DEADLINE).expect("a sink without limits");
    Recorded { world, collected, summary }
}

impl Recorded {
    /// Compares it with the truth.
    fn check(&self) -> Result<(), String> {
        let world = self.world.borrow();
        let checked = check(&world.probes.truth, &self.collected, &self.summary);
        checked.map_err(|difference| format!("{difference}; with {:?}", world.plan))
    }
}

fn number_of(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// The seeds to run, as many as `usual` by default.
fn seeds(usual: u64) -> Range<u64> {
    if let Some(seed) = number_of("SOCKSCOPE_SIMULATED_SEED") {
        return seed..seed + 1;
    }
    let first = number_of("SOCKSCOPE_SIMULATED_FIRST_SEED").unwrap_or(0);
    first..first + number_of("SOCKSCOPE_SIMULATED_SEEDS").unwrap_or(usual)
}

/// The first difference from the truth with this seed.
fn failure(seed: u64) -> Option<String> {
    record(World::new(seed), |_, _| false).check().err()
}

#[test]
fn every_simulated_recording_is_true() {
    let failures: Vec<(u64, String)> =
        seeds(SEEDS).filter_map(|seed| Some((seed, failure(seed)?))).collect();
    let others: Vec<u64> = failures.iter().skip(1).map(|(seed, _)| *seed).collect();
    if let Some((seed, failure)) = failures.first() {
        panic!("SOCKSCOPE_SIMULATED_SEED={seed} fails: {failure}; others that fail: {others:?}");
    }
}
