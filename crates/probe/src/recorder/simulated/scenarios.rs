//! Single circumstances in which a recording was wrong once.

use std::time::Duration;

use sockscope_record::{Kind, Loss, Point, Record, marks};

use super::plan::Plan;
use super::rng::Rng;
use super::truth::Fate;
use super::world::World;
use super::{Options, Recorded, record, record_with, seeds};
use crate::backlog::Ring;
use crate::layout::{RawOption, constants as raw};

/// Worlds of one plan, where a scenario needs several.
const SEEDS: u64 = 20;

/// Records a world of this plan to its end; the records are true.
fn recorded(plan: Plan) -> Recorded {
    recorded_with(plan, 1)
}

fn recorded_with(plan: Plan, seed: u64) -> Recorded {
    let recorded = record(World::planned(plan, Rng::new(seed)), |_, _| false);
    recorded.check().unwrap_or_else(|difference| panic!("seed {seed}: {difference}"));
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
    assert!(recorded.summary.missed.points[Point::ReceiveDequeue.index()] > 0);
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
    assert!(refused > 0 && recorded.summary.missed.events >= refused);
    let notes = recorded.summary.notes.join("; ");
    assert!(notes.contains("not recorded, as too many were open at once"), "{notes}");
}

#[test]
fn nothing_of_a_connection_that_is_left_out_on_the_way_counts_as_missed() {
    let (mut left_out, mut open) = (0, 0);
    for seed in 0..SEEDS {
        let plan = Plan {
            list_records: 1 << 16,
            streams: 4,
            streams_in_all: 8,
            // Where others send to the same socket, it is not known which datagram a read took.
            flows: 1,
            left_out_in: 2,
            ..Plan::quiet()
        };
        let recorded = recorded_with(plan, seed);
        let openings = recorded.summary.openings;
        let world = recorded.world.borrow();
        assert_eq!(openings.left_out_later, world.probes.truth.left_out.len() as u64);
        assert_eq!(recorded.summary.missed.total(), 0, "seed {seed}: {:?}", recorded.summary.notes);
        left_out += openings.left_out_later;
        open += world.probes.truth.opened.len();
    }
    assert!(left_out > SEEDS && (left_out as usize) < open, "{left_out} of {open}");
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
    assert_eq!(recorded.summary.missed.events, 63);
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
    assert_eq!(recorded.summary.missed, not_run);
}

/// A process has one CPU for a third of the time, and the kernel runs no program in softirqs meanwhile.
fn with_untraced_process() -> Plan {
    let untraced = Plan { untraced_ns: 1_000_000, untraced_every_ns: 3_000_000, ..Plan::quiet() };
    Plan { streams: 1, streams_in_all: 1, ..untraced }
}

#[test]
fn hits_that_the_kernel_skips_are_losses_where_bytes_passed() {
    let (mut skipped, mut failures) = (0, Vec::new());
    for seed in seeds(SEEDS) {
        let recorded =
            record(World::planned(with_untraced_process(), Rng::new(seed)), |_, _| false);
        failures.extend(recorded.check().err().map(|difference| (seed, difference)));
        let hits = &recorded.world.borrow().probes.truth.hits;
        skipped += hits.iter().filter(|hit| hit.fate == Fate::Skipped).count();
    }
    let others: Vec<u64> = failures.iter().skip(1).map(|(seed, _)| *seed).collect();
    assert!(failures.is_empty(), "{:?}; others that fail: {others:?}", failures[0]);
    assert!(skipped > 5_000 || seeds(SEEDS).count() < SEEDS as usize, "{skipped}");
}

#[test]
fn datagrams_that_vanish_from_a_standing_queue_are_losses_and_the_others_are_known() {
    let (mut vanished, mut known) = (0, 0);
    for seed in 0..SEEDS {
        let quiet = Plan { list_records: 1 << 16, cpus: 1, ..Plan::quiet() };
        let untraced = Plan { untraced_ns: 300_000, untraced_every_ns: 2_000_000, ..quiet };
        let recorded = recorded_with(Plan { flows: 8, stands: true, ..untraced }, seed);
        vanished += recorded.summary.missed.events;
        // The time when the probes of devices are attached, and all earlier packets have left the queues.
        let records = || recorded.collected.records.iter();
        let mut entered = records().filter(|one| one.kind == Kind::InputEnqueue);
        let first = entered.find(|one| !one.is_marked(marks::DERIVED));
        let since_ns = first.map_or(u64::MAX, |first| first.at_ns + 2_000_000);
        let left = records().filter(|one| one.kind == Kind::InterfaceDequeue);
        let left = left.filter(|one| one.at_ns > since_ns);
        let guess = left.clone().find(|one| !one.is_marked(marks::RECOGNIZED));
        assert_eq!(guess, None, "seed {seed}");
        known += left.count();
    }
    assert!(vanished > 100 && known > 1_000, "{vanished} vanished, {known} known");
}

/// The furthest end of the bytes that were recorded at a point of a flow, and when they passed there.
fn end_at(recorded: &Recorded, flow: u32, point: Point) -> (u64, u64) {
    let records = recorded.collected.records.iter();
    let here =
        records.filter(|one| one.flow.0 == flow && one.point() == Some(point) && one.len > 0);
    here.map(|one| (one.end(), one.at_ns)).max().unwrap_or_default()
}

/// Number of points 2 to 6 without the end of a flow, because the kernel skipped the hits of its last bytes.
/// Each of them has a loss from the last bytes there until the receiver had all; or a list has counted a later one.
fn unknown_ends(recorded: &Recorded, flow: u32) -> usize {
    let hits = &recorded.world.borrow().probes.truth.hits;
    let reads = hits.iter().filter(|hit| hit.flow == flow && hit.kind == raw::RAW_COPY);
    let sent = reads.map(|hit| hit.to).max().unwrap_or(0);
    let (received, received_ns) = end_at(recorded, flow, Point::ReceiveEnqueue);
    let (written, _) = end_at(recorded, flow, Point::SendEnqueue);
    if sent == 0 || [written, received] != [sent; 2] {
        return 0;
    }
    let losses = recorded.collected.records.iter().filter_map(|one| Some((one, one.loss()?)));
    let losses: Vec<(&Record, Loss)> = losses.collect();
    let is_unknown = |point: &&Point| {
        let (end, last_ns) = end_at(recorded, flow, **point);
        let is_counted = |(record, loss): &(&Record, Loss)| {
            let hides = loss.point().map_or(&[][..], Point::of_hit);
            record.is_marked(marks::ANCHORED) && record.at_ns >= last_ns && hides.contains(point)
        };
        if end == sent || losses.iter().any(is_counted) {
            return false;
        }
        let is_told = losses.iter().any(|(record, loss)| {
            let is_here = loss.point() == Some(**point) && loss.count > 0;
            is_here && loss.since_ns <= last_ns && record.at_ns >= received_ns
        });
        assert!(is_told, "{point:?} has no loss from {last_ns} to {received_ns}");
        true
    };
    Point::ALL[1..6].iter().filter(is_unknown).count()
}

/// As in a transfer on a machine whose own agent the kernel keeps from being traced, with a stopped recorder.
#[test]
fn the_end_of_a_stream_that_the_kernel_skips_is_in_a_loss() {
    let mut unknown = Vec::new();
    for seed in 0..SEEDS {
        let plan = Plan {
            cpus: 1,
            bulk: Some(6 << 30),
            hits: u64::MAX,
            stall_every_ns: 100_000_000,
            stall_ns: 100_000_000,
            ..with_untraced_process()
        };
        let recorded = recorded_with(plan, seed);
        let flows = recorded.collected.connections.keys().flat_map(|id| [id * 2, id * 2 + 1]);
        unknown.extend(flows.map(|flow| unknown_ends(&recorded, flow)));
    }
    // Points 2 to 6 of at least one flow.
    assert_eq!(unknown.into_iter().max(), Some(5));
}

/// The longest pause of a recorder of which little is asked.
const PAUSE_MAX_NS: u64 = 40_000_000;

#[test]
fn a_recorder_with_long_pauses_looks_more_often_when_a_ring_fills() {
    // An idle server that accepts connections: its options fill the ring each 30 ms, for a second.
    const FULL_AFTER_NS: u64 = 30_000_000;
    let plan = Plan { streams: 1, streams_in_all: 1, ..Plan::quiet() };
    let options =
        Options { pause_max: Some(Duration::from_nanos(PAUSE_MAX_NS)), ..Options::default() };
    let (mut last_ns, mut parts, mut pauses_ns) = (0, Vec::new(), Vec::new());
    record_with(World::planned(plan, Rng::new(1)), options, |world, _| {
        let now_ns = world.probes.now_ns;
        let pause_ns = now_ns - std::mem::replace(&mut last_ns, now_ns);
        if (1_000_000_000..2_000_000_000).contains(&now_ns) {
            let all = (1.0 / Ring::Options.part(1)) as u64;
            let count = all * pause_ns / FULL_AFTER_NS;
            world.options =
                vec![RawOption { at_ns: now_ns, ..RawOption::default() }; count as usize];
            parts.push(Ring::Options.part(count as usize));
        } else {
            pauses_ns.push(pause_ns);
        }
        now_ns < 3_000_000_000
    });
    // The first pause begins before the options.
    let fullest = parts.iter().skip(1).copied().fold(0.0, f64::max);
    assert!(fullest < 1.0 && parts.last().is_some_and(|part| *part < 0.1), "{parts:.2?}");
    assert!(pauses_ns.last().is_some_and(|pause_ns| *pause_ns >= PAUSE_MAX_NS), "{pauses_ns:?}");
}

#[test]
fn a_recorder_with_long_pauses_looks_more_often_when_the_lists_fill() {
    // So much that lists overflow where each pause is as long as that.
    let streams = Plan { streams: 2, streams_in_all: 2, ..Plan::quiet() };
    let plan = Plan { list_records: 1 << 13, bulk: Some(16 << 30), hits: u64::MAX, ..streams };
    let options =
        Options { pause_max: Some(Duration::from_nanos(PAUSE_MAX_NS)), ..Options::default() };
    let (mut last_ns, mut over_ns, mut pauses_ns) = (None, None, Vec::new());
    let recorded = record_with(World::planned(plan, Rng::new(1)), options, |world, _| {
        let now_ns = world.probes.now_ns;
        pauses_ns.extend(last_ns.replace(now_ns).map(|last_ns: u64| now_ns - last_ns));
        // A second more after the traffic.
        world.is_over() && now_ns < *over_ns.get_or_insert(now_ns) + 1_000_000_000
    });
    recorded.check().unwrap_or_else(|difference| panic!("{difference}"));
    assert_eq!(recorded.summary.missed.total(), 0);
    let longest_ns = *pauses_ns.iter().max().expect("pauses");
    assert!((PAUSE_MAX_NS..2 * PAUSE_MAX_NS).contains(&longest_ns), "{longest_ns}");
}
