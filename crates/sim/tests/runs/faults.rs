//! For any faults of a line, TCP delivers every byte in order or reports that it cannot.

use crate::common::*;
use sockscope_sim::programs::{BulkWriter, Setup, Sink};
use sockscope_sim::random::Random;
use sockscope_sim::{Digest, Faults, Outcome, Simulation};
use sockscope_stack::Personality;

const BYTES_MAX: u64 = 40_000;

/// Faults of every kind, up to 30 % of each.
fn faults(random: &mut Random) -> Faults {
    let mut up_to = |ppm: u64| random.below(ppm) as u32;
    Faults {
        loss_ppm: up_to(300_000),
        duplication_ppm: up_to(300_000),
        reordering_ppm: up_to(300_000),
        reordering_ns_max: 50_000_000,
        corruption_ppm: up_to(300_000),
    }
}

/// One transfer under faults; fails on damage, on loss without an error, and on no end.
fn transfer(personality: &str, seed: u64) {
    let mut random = Random::new(seed, 0);
    let faults = faults(&mut random);
    let write_bytes = 1 + random.below(5000);
    let count = 1 + random.below(BYTES_MAX / write_bytes + 1);
    let read_bytes = 1 + random.below(5000) as usize;
    let scenario = line(personality, "instant", faults, seed);
    let mut sim = Simulation::new(scenario, Digest::default()).unwrap();
    // The writer may be gone when its connection times out: then only this informs the reader.
    let setup = Setup { keep_alive: true, ..Setup::default() };
    sim.spawn_daemon(1, Box::new(Sink::new(PORT, read_bytes, 1).set_up(setup)), 0);
    sim.spawn(0, Box::new(BulkWriter::new(TO, write_bytes as usize, count)), 1000);
    let case = format!("{personality}, seed {seed}: {faults:?}");
    // Twelve time-outs that double up to 64 s, in both directions, two hours until the first
    // keep-alive probe and ten minutes for the others.
    let outcome = sim.run_until(12_000 * SECOND_NS);
    assert_ne!(outcome, Outcome::Stuck, "{case}");
    assert_eq!(sim.damage(), [], "{case}");
    let note = |name| sim.notes().iter().find(|note| note.name == name).map(|note| note.value);
    let failed = note("write_failed").or(note("read_failed"));
    if failed.is_none() {
        assert_eq!(note("received_bytes"), Some(write_bytes * count), "{case}");
    }
    assert!(note("written_ns").or(failed).is_some(), "stuck: {case}");
}

fn transfers(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let personality = &Personality::ALL[(seed % 7) as usize];
        transfer(personality.name, seed);
    }
}

#[test]
fn a_hundred_seeds_of_faults_lose_nothing_in_silence() {
    transfers(0..100);
}

#[test]
fn with_all_options_nothing_is_lost_in_silence_either() {
    for seed in 0..42 {
        let base = &Personality::ALL[(seed % 7) as usize];
        transfer(&format!("{}+{}", base.name, Personality::OPTIONS.join("+")), seed);
    }
}

#[test]
fn slow_a_thousand_seeds_of_faults_lose_nothing_in_silence() {
    transfers(100..1000);
}
