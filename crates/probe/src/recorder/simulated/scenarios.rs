//! Single circumstances in which a recording was wrong once.

use sockscope_record::{Kind, Point};

use super::plan::Plan;
use super::rng::Rng;
use super::truth::Fate;
use super::world::World;
use super::{Recorded, record};
use crate::layout::constants as raw;

/// Records a world of this plan to its end; what comes out is true.
fn recorded(plan: Plan) -> Recorded {
    let recorded = record(World::planned(plan, Rng::new(1)), |_, _| false);
    recorded.check().expect("all of it is true");
    recorded
}

#[test]
fn positions_are_right_behind_a_stall_in_which_more_than_4_gib_passed() {
    let plan = Plan {
        streams: 1,
        streams_in_all: 1,
        bulk: Some(64 << 30),
        hits: u64::MAX,
        stall_every_ns: 40_000_000,
        stall_ns: 150_000_000,
        ..Plan::quiet()
    };
    let recorded = recorded(plan);
    let world = recorded.world.borrow();
    let unseen = world.probes.truth.hits.iter();
    let unseen = unseen.filter(|hit| hit.kind == raw::RAW_COPY && hit.fate == Fate::Refused);
    let bytes: u64 = unseen.map(|hit| hit.to - hit.from).sum();
    assert!(bytes > 1 << 32, "the stalls hid too little: {bytes}");
    assert!(recorded.summary.lost.points[Point::ReceiveDequeue.index()] > 0);
}

#[test]
fn pairs_of_datagram_sockets_take_no_memory_for_ever() {
    const FLOWS: usize = 3_000;
    let plan = Plan { flows: FLOWS, hits: 50_000, ..Plan::quiet() };
    let (slots, mut most, mut last_ns) = (plan.slots, 0, 0);
    let recorded = record(World::planned(plan, Rng::new(1)), |world, recording| {
        most = most.max(recording.remembered());
        if !world.is_over() {
            last_ns = world.probes.now_ns;
        }
        // Connections are kept for a second after their end.
        let goes_on = world.probes.now_ns < last_ns + 2_000_000_000;
        assert!(goes_on || recording.remembered() <= slots, "{}", recording.remembered());
        goes_on
    });
    recorded.check().expect("all of it is true");
    assert!(most > FLOWS / 2, "{most}");
}

#[test]
fn connections_of_the_same_addresses_in_other_namespaces_stay_apart() {
    let plan = Plan { streams: 4, streams_in_all: 4, ..Plan::quiet() };
    let recorded = recorded(plan);
    let addresses = recorded.collected.connections.values().map(|one| (one.client, one.server));
    let mut addresses: Vec<_> = addresses.collect();
    let connections = addresses.len();
    addresses.sort_unstable();
    addresses.dedup();
    assert!(connections == 4 && addresses.len() < 4, "{addresses:?}");
}

#[test]
fn connections_without_a_slot_are_counted_as_missed() {
    let recorded = recorded(Plan { slots: 1, streams: 3, streams_in_all: 3, ..Plan::quiet() });
    let refused = recorded.world.borrow().probes.counters.connections_refused;
    assert!(refused > 0 && recorded.summary.lost.events >= refused);
    let notes = recorded.summary.notes.join("; ");
    assert!(notes.contains("not recorded, as too many were open at once"), "{notes}");
}

#[test]
fn every_limit_of_the_probes_counts_what_it_refuses() {
    let mut is_first = true;
    let plan = Plan { streams: 1, streams_in_all: 1, ..Plan::quiet() };
    let recorded = record(World::planned(plan, Rng::new(1)), |world, _| {
        if std::mem::take(&mut is_first) {
            let counters = &mut world.probes.counters;
            counters.listeners_refused += 1;
            counters.sockets_refused += 2;
            counters.half_open_missed += 4;
            counters.openings_missed += 8;
            counters.ambiguous += 16;
            counters.options_missed += 32;
        }
        false
    });
    assert_eq!(recorded.summary.lost.events, 63);
    let losses = recorded.collected.records.iter().filter(|one| one.kind == Kind::Loss);
    assert_eq!(losses.map(|one| one.detail).sum::<u64>(), 63);
    assert_eq!(recorded.summary.notes.len(), 6, "{:?}", recorded.summary.notes);
}

#[test]
fn hits_for_which_the_kernel_runs_no_program_are_counted_and_no_others() {
    let quiet = Plan { list_records: 1 << 16, ..Plan::quiet() };
    let plan = Plan { streams: 2, streams_in_all: 2, not_run_in: 20, ..quiet };
    let recorded = recorded(plan);
    let not_run = recorded.world.borrow().probes.interrupted;
    assert!(not_run.total() > 0);
    assert_eq!(recorded.summary.lost, not_run);
}
