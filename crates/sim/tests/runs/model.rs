//! Properties of every run: the same bytes for the same seed, nothing lost between two points, and
//! delays that add up.

use std::collections::BTreeMap;

use crate::common::echo::{EchoClient, EchoServer};
use crate::common::*;
use sockscope_analysis::{Analyzer, TraceFacts};
use sockscope_record::{Kind, Point, Record};
use sockscope_sim::programs::{BulkWriter, Sink};
use sockscope_sim::{
    BundleSink, Digest, Everything, Faults, Outcome, RecordSink, Scenario, Simulation,
};
use sockscope_stack::Personality;
use sockscope_trace::{Bundle, Error, Meta, Source};

const BYTES: u64 = 100_000;

/// 100 writes of 1000 bytes.
fn bulk<S: RecordSink>(scenario: Scenario, sink: S) -> Simulation<S> {
    let mut sim = Simulation::new(scenario, sink).unwrap();
    sim.spawn(1, Box::new(Sink::new(PORT, 3000, 1)), 0);
    sim.spawn(0, Box::new(BulkWriter::new(TO, 1000, BYTES / 1000)), 1000);
    assert_eq!(sim.run_to_end(600 * SECOND_NS), Outcome::Ended);
    assert_eq!(sim.damage(), []);
    assert_eq!(sim.frames_in_flight(), 0);
    sim
}

fn faulty() -> Faults {
    Faults {
        loss_ppm: 20_000,
        duplication_ppm: 20_000,
        reordering_ppm: 20_000,
        reordering_ns_max: 5_000_000,
        corruption_ppm: 20_000,
    }
}

#[test]
fn the_same_seed_gives_the_same_records_and_another_one_others() {
    let digest =
        |seed| *bulk(line("reno", "sparcstation-1", faulty(), seed), Digest::default()).sink();
    assert_eq!(digest(7), digest(7));
    assert_ne!(digest(7), digest(8));
}

/// The committed hashes stand for every byte of every record: a change of the model that moves one
/// must say so here. They are the same on every machine.
#[test]
fn the_records_are_those_of_the_last_commit() {
    let runs = [
        ("vax", ethernet3("4.2bsd-cabrera", "vax-11-750", 1)),
        ("sparc", ethernet10("sunos-4.0.3", "sparcstation-1", 1)),
        ("faults", line("reno", "sparcstation-2", faulty(), 1)),
    ];
    let digests = runs.map(|(name, scenario)| {
        let digest = *bulk(scenario, Digest::default()).sink();
        format!("{name} {} {:016x}", digest.count, digest.hash)
    });
    assert_eq!(digests.join("\n"), include_str!("../hashes.txt").trim_end());
}

#[test]
fn nothing_is_left_over_in_any_queue() {
    for personality in Personality::ALL {
        for faults in [Faults::NONE, faulty()] {
            let scenario = line(personality.name, "sparcstation-1", faults, 11);
            let mut sim = bulk(scenario, Everything::default());
            // The reader has had everything; the last acknowledgments may still be under way.
            sim.run_until(sim.now_ns() + 100 * SECOND_NS);
            let mut analyzer = Analyzer::new();
            sim.connections().iter().for_each(|known| analyzer.connection(known.clone()));
            analyzer.push(&sim.sink().records);
            let analysis = analyzer.finish(TraceFacts::default());
            let flow = &analysis.connections[0].flows[0];
            assert_eq!(flow.bytes, BYTES);
            for stage in &flow.stages {
                let case = format!("{} {faults:?}", personality.name);
                assert_eq!(stage.residue_bytes, Some(0), "{case} {stage:?}");
            }
        }
    }
}

#[test]
fn a_bundle_of_the_model_opens_like_any_other_or_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("model.sockscope");
    let created = BundleSink::create(&dir, &Meta::default());
    if cfg!(target_endian = "big") {
        assert!(matches!(created, Err(Error::BigEndian { .. })));
        return;
    }
    let sink = created.unwrap();
    let sim = bulk(ethernet10("tahoe", "sparcstation-1", 4), sink);
    let connections = sim.connections().to_vec();
    sim.into_sink().finish(&connections, Meta::default()).unwrap();
    let bundle = Bundle::open(&dir).unwrap();
    assert_eq!((bundle.meta().source, bundle.problems().len()), (Source::Model, 0));
    assert_eq!(bundle.connections(), connections);
    assert_eq!(connections[0].processes.len(), 2);
    let mut reader = bundle.records().unwrap();
    let mut kinds = Vec::new();
    while let Some(batch) = reader.next_batch().unwrap() {
        kinds.extend(batch.iter().map(|record| record.kind));
    }
    for kind in [Kind::Wakeup, Kind::Run, Kind::WriteCall, Kind::ReadReturn, Kind::StateChange] {
        assert!(kinds.contains(&kind), "{kind:?}");
    }
}

#[test]
fn what_enters_a_queue_leaves_it_and_time_never_goes_back() {
    for personality in Personality::ALL {
        for scenario in [
            ethernet10(personality.name, "sparcstation-1", 3),
            ethernet3(personality.name, "vax-11-750", 3),
            line(personality.name, "instant", Faults::NONE, 3),
        ] {
            let sim = bulk(scenario, Everything::default());
            let records = &sim.sink().records;
            assert!(records.is_sorted_by_key(|record| record.at_ns), "{}", personality.name);
            let activities = &sim.sink().activities;
            assert!(activities.is_sorted_by_key(|one| one.at_ns), "{}", personality.name);
            for point in Point::ALL {
                assert_eq!(bytes_at(records, point), BYTES, "{} {point:?}", personality.name);
            }
        }
    }
}

/// Different bytes of the client's flow that passed a point.
fn bytes_at(records: &[Record], point: Point) -> u64 {
    let mut ranges: Vec<(u64, u64)> = records
        .iter()
        .filter(|record| record.point() == Some(point) && record.flow.0 == 2 && record.len > 0)
        .map(|record| (record.offset, record.end()))
        .collect();
    ranges.sort_unstable();
    let mut reached = 0;
    ranges.iter().fold(0, |bytes, (from, to)| {
        let new = to.saturating_sub(reached.max(*from));
        reached = reached.max(*to);
        bytes + new
    })
}

#[test]
fn the_stages_of_a_byte_add_up_to_its_way_and_each_point_comes_after_the_one_before() {
    let sim = bulk(ethernet10("sunos-4.0.3", "sparcstation-1", 5), Everything::default());
    for byte in [0, 1, 1023, 1024, 50_000, BYTES - 1] {
        let mut passed = BTreeMap::new();
        for record in &sim.sink().records {
            let covers = record.flow.0 == 2 && record.offset <= byte && byte < record.end();
            if let (Some(point), true) = (record.point(), covers) {
                passed.entry(point).or_insert(record.at_ns);
            }
        }
        let times: Vec<u64> = Point::ALL.iter().map(|point| passed[point]).collect();
        assert!(times.is_sorted(), "{byte}: {times:?}");
        let stages: u64 = times.windows(2).map(|pair| pair[1] - pair[0]).sum();
        assert_eq!(stages, times[7] - times[0]);
    }
}

#[test]
fn questions_come_back_as_answers() {
    let mut sim =
        Simulation::new(ethernet10("tahoe", "sparcstation-1", 2), Everything::default()).unwrap();
    sim.spawn(1, Box::new(EchoServer::new(PORT, 4096)), 0);
    sim.spawn(0, Box::new(EchoClient::new(TO, 500, 20)), 1000);
    assert_eq!(sim.run_to_end(60 * SECOND_NS), Outcome::Ended);
    let trips = sim.notes().iter().filter(|note| note.name == "round_trip_ns").count();
    assert_eq!((trips, sim.damage().len()), (20, 0));
    let calls = sim.sink().records.iter().filter(|record| record.kind == Kind::WriteCall).count();
    assert_eq!(calls, 40, "20 questions and 20 answers");
}
