//! When the protocols' two timers tick.
//!
//! `domaininit` calls `pffasttimo` and `pfslowtimo` one after the other when the machine boots, and each
//! asks the clock for itself again, every 200 and every 500 ms. So once a second both tick together, and a
//! run begins anywhere in that second.

use crate::common::*;
use sockscope_sim::programs::Sink;
use sockscope_sim::{Action, Digest, Program, ProgramContext, Simulation};
use sockscope_stack::Routine;

const MS: u64 = 1_000_000;
const STEP_MS: u64 = 5;

/// When the fast and the slow timer of a host that listens tick in the second after the first one, in
/// milliseconds rounded up to 5, the second of two that tick together perhaps 5 later.
fn ticks_ms(seed: u64, phase_ns: Option<u64>) -> (Vec<u64>, Vec<u64>) {
    let mut scenario = ethernet10("4.3bsd", "sparcstation-1", seed);
    scenario.hosts[1].timer_phase_ns = phase_ns;
    let mut sim = Simulation::new(scenario, Digest::default()).unwrap();
    sim.spawn(1, Box::new(Sink::new(PORT, 3000, 1)), 0);
    let ticks = |sim: &Simulation<Digest>| {
        let meter = sim.host(1).meter();
        [meter.calls(Routine::TcpFasttimo), meter.calls(Routine::TcpSlowtimo)]
    };
    let (mut fast_ms, mut slow_ms) = (Vec::new(), Vec::new());
    sim.run_until(SECOND_NS);
    let mut before = ticks(&sim);
    for at_ms in (1000 + STEP_MS..=2000).step_by(STEP_MS as usize) {
        sim.run_until(at_ms * MS);
        let now = ticks(&sim);
        fast_ms.extend((now[0] > before[0]).then_some(at_ms - 1000));
        slow_ms.extend((now[1] > before[1]).then_some(at_ms - 1000));
        before = now;
    }
    (fast_ms, slow_ms)
}

#[test]
fn each_keeps_its_period() {
    let (fast_ms, slow_ms) = ticks_ms(1, Some(42 * MS));
    assert_eq!(fast_ms, [45, 245, 445, 645, 845]);
    assert_eq!(slow_ms, [45, 545]);
}

#[test]
fn they_tick_before_the_time_at_which_they_tick_together() {
    let (fast_ms, slow_ms) = ticks_ms(1, Some(642 * MS));
    assert_eq!(fast_ms, [45, 245, 445, 645, 845]);
    assert_eq!(slow_ms, [145, 645]);
}

#[test]
fn the_first_slow_tick_comes_anywhere_in_its_half_second() {
    let first = |seed| ticks_ms(seed, None).1[0];
    let first_ms: Vec<u64> = (0..60).map(first).collect();
    for from_ms in (0..500).step_by(100) {
        let hits = first_ms.iter().filter(|ms| (from_ms..from_ms + 100).contains(*ms)).count();
        assert!((5..=20).contains(&hits), "{hits} of 60 from {from_ms} ms on: {first_ms:?}");
    }
}

#[test]
fn they_tick_together_once_a_second() {
    for seed in 0..20 {
        let (fast_ms, slow_ms) = ticks_ms(seed, None);
        let is_both = |slow_ms: &u64| fast_ms.iter().any(|ms| slow_ms.abs_diff(*ms) <= STEP_MS);
        let both = slow_ms.iter().filter(|ms| is_both(ms)).count();
        assert_eq!((fast_ms.len(), slow_ms.len(), both), (5, 2, 1), "{fast_ms:?} {slow_ms:?}");
    }
}

/// Sleeps to the next tick of its host's clock, three times, and notes when it wakes.
struct Sleeper(u32);

impl Program for Sleeper {
    fn name(&self) -> &str {
        "sleeper"
    }

    fn next(&mut self, context: &mut ProgramContext<'_>) -> Action {
        if self.0 > 0 {
            context.note("woken_us", context.now_ns / 1000);
        }
        self.0 += 1;
        if self.0 > 3 { Action::Exit } else { Action::Sleep(1) }
    }
}

/// When sleepers on both hosts wake, in whole milliseconds after 20.
fn woken_ms(seed: u64, phases_ns: [Option<u64>; 2]) -> [Vec<u64>; 2] {
    let mut scenario = ethernet10("4.3bsd", "instant", seed);
    for (host, phase_ns) in scenario.hosts.iter_mut().zip(phases_ns) {
        host.timer_phase_ns = phase_ns;
    }
    let mut sim = Simulation::new(scenario, Digest::default()).unwrap();
    for host in 0..2 {
        sim.spawn(host, Box::new(Sleeper(0)), 20 * MS);
    }
    sim.run_to_end(SECOND_NS);
    [1, 2].map(|process| {
        let own = sim.notes().iter().filter(|note| note.process == process);
        own.map(|note| note.value / 1000 - 20).collect()
    })
}

/// Timers are timeouts of the clock (`hardclock`, `softclock`), so that they tick when it does; and each
/// machine's clock has begun when that machine was switched on.
#[test]
fn the_clock_of_each_host_ticks_with_its_own_timers() {
    let phases_ns = [Some(3 * MS), Some(417 * MS)];
    assert_eq!(woken_ms(1, phases_ns), [vec![3, 13, 23], vec![7, 17, 27]]);
}

#[test]
fn clocks_of_two_hosts_tick_apart_by_the_seed() {
    let apart = |seed: &u64| {
        let [first, second] = woken_ms(*seed, [None; 2]);
        first != second
    };
    assert!((0..20).filter(apart).count() >= 15);
}
