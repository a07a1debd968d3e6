//! One run of the model as two hosts would have recorded it, each by a clock of its own, and merged again: the true time of
//! each event is in the band that the merge states.
//!
//! The short form has 60 runs. The full form (`SOCKSCOPE_SOAK=full`) has 1,000.

mod halves;

use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use sockscope_experiment::{Experiment, builtin_by_id};
use sockscope_lab::model::record;
use sockscope_record::{Connection, Record};
use sockscope_sim::Everything;

use halves::{Clock, merged};

/// Records of a run of the model, in order of time.
fn run(id: &str, set: &[String], seed: u64) -> (Vec<Connection>, Vec<Record>) {
    let mut experiment: Experiment = builtin_by_id(id).expect("it is built in");
    experiment.set_all(set).unwrap();
    experiment.seed = seed;
    let case = &experiment.cases().unwrap()[0];
    let (connections, Everything { mut records, .. }) =
        record(&experiment, case, Everything::default()).unwrap();
    records.sort_by_key(|record| record.at_ns);
    (connections, records)
}

/// Offset and drift of the server's clock, and whether its host booted later.
type Clocks = (i64, i64, bool);

/// A transfer or calls; frames lost of a million, kilobytes, and the seed.
type Traffic = (bool, u32, u64, u64);

#[test]
fn the_true_time_of_each_event_is_in_the_stated_band() {
    let is_full = std::env::var("SOCKSCOPE_SOAK").is_ok_and(|form| form == "full");
    let cases = if is_full { 1000 } else { 60 };
    let clocks = (-1_000_000_000i64..1_000_000_000, -50_000i64..50_000, any::<bool>());
    let traffic = (any::<bool>(), 0u32..30_000, 1u64..48, 1u64..1_000_000);
    let mut runner =
        TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let (widest, events, narrow) = (Cell::new(0u64), Cell::new(0u64), Cell::new(0u64));
    let check = |(clocks, traffic): (Clocks, Traffic)| {
        let (offset_ns, drift_ppb, is_later) = clocks;
        let (is_transfer, lost, kilobytes, seed) = traffic;
        let bytes = kilobytes * 1024;
        let mut set = vec![format!("lost_per_million={lost}")];
        let id = if is_transfer { "si-2a" } else { "lh-1" };
        match is_transfer {
            true => set.push(format!("total_bytes={bytes}")),
            false => set.push(format!("data_bytes={}", bytes / 8)),
        }
        let realtime_ns = if is_later { 3_600_000_000_000 } else { -3_600_000_000_000 };
        let server = Clock { start_ns: 9_000_000_000, offset_ns, drift_ppb, realtime_ns };
        let (connections, records) = run(id, &set, seed);
        let (times, band) = merged((&connections, &records), server);
        for (truth, stated) in times {
            let (early, late) = band.at(stated).expect("within the recording");
            prop_assert!(
                stated - early <= truth && truth <= stated + late,
                "{truth} is not in {stated} -{early} +{late}: {band:?}"
            );
            widest.set(widest.get().max(early + late));
            narrow.set(narrow.get() + u64::from(early + late < 2_000_000));
            events.set(events.get() + 1);
        }
        Ok(())
    };
    runner.run(&(clocks, traffic), check).unwrap_or_else(|error| panic!("{error}"));
    let [widest, events, narrow] = [widest, events, narrow].map(Cell::into_inner);
    println!("{cases} runs, {events} events in the band; its widest part has {widest} ns");
    // A band of the whole hour would hold the truth too. A round trip of this Ethernet takes some 2 ms.
    assert!(narrow * 2 > events, "{narrow} of {events} events are known within 2 ms");
}
