//! One run of the model as two hosts would have recorded it, each by a clock of its own, and merged again: the true time of
//! each event is in the band that the merge states, and the true delays on the wire are within the error of the analysis.
//!
//! The short form has 60 runs. The full form (`SOCKSCOPE_SOAK=full`) has 1,000.

mod halves;

use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use sockscope_analysis::{Analyzer, Distribution, HostClocks, TraceFacts, Uncertainty};
use sockscope_experiment::{Experiment, builtin_by_id};
use sockscope_lab::model::record;
use sockscope_record::{Connection, Record, Stage};
use sockscope_sim::Everything;
use sockscope_trace::{Bundle, ClockBand};

use halves::{Clock, merged, read};

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

/// The delays on the wire of each flow with data, and their error.
fn wire(
    connections: &[Connection],
    records: &[Record],
    clocks: HostClocks,
) -> Vec<(Distribution, Option<Uncertainty>)> {
    let mut analyzer = Analyzer::new();
    analyzer.push(records);
    connections.iter().cloned().for_each(|it| analyzer.connection(it));
    let analysis = analyzer.finish(TraceFacts { clocks, ..TraceFacts::default() });
    let flows = analysis.connections.iter().flat_map(|one| &one.flows);
    let stages = flows.map(|flow| &flow.stages[Stage::Wire as usize]);
    stages.filter_map(|stage| Some((stage.delay_ns?, stage.uncertainty))).collect()
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
    let [widest, events, narrow, delays, tight, needed] = [const { Cell::new(0u64) }; 6];
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
        let (times, band, stated) = merged((&connections, &records), server, |dir| {
            let bundle = Bundle::open(dir).unwrap();
            let edges = |band: &ClockBand| {
                band.edges.iter().map(|it| [it.at_ns, it.early_ns, it.late_ns]).collect()
            };
            let bands = bundle.meta().clock_bands.iter().map(edges).collect();
            wire(bundle.connections(), &read(dir), HostClocks::Bounded(bands))
        });
        let truth = wire(&connections, &records, HostClocks::One);
        prop_assert_eq!(truth.len(), stated.len());
        for ((truth, _), (delay, uncertainty)) in truth.iter().zip(&stated) {
            prop_assert_eq!(truth.count, delay.count);
            let Some(Uncertainty::AtMost(most)) = *uncertainty else { panic!("{uncertainty:?}") };
            // The other host's clock runs by 50 ppm faster or slower.
            let drift = truth.max / 20_000 + 1;
            for (truth, stated) in
                [(truth.min, delay.min), (truth.p50, delay.p50), (truth.max, delay.max)]
            {
                let error = truth.abs_diff(stated);
                prop_assert!(error <= most + drift, "{truth} {stated} ±{most}");
                delays.set(delays.get() + 1);
                tight.set(tight.get() + u64::from(most < 2_000_000));
                needed.set(needed.get() + u64::from(error > drift));
            }
        }
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
    let [widest, events, narrow, delays, tight, needed] =
        [widest, events, narrow, delays, tight, needed].map(Cell::into_inner);
    println!("{cases} runs, {events} events in the band; its widest part has {widest} ns");
    println!(
        "{delays} delays are within their error: {tight} with less than 2 ms, {needed} differ from the truth"
    );
    assert!(needed * 10 > delays, "{needed} of {delays} delays differ from the truth");
    assert!(tight * 2 > delays, "{tight} of {delays} delays are known within 2 ms");
    // A band of the whole hour would hold the truth too. A round trip of this Ethernet takes some 2 ms.
    assert!(narrow * 2 > events, "{narrow} of {events} events are known within 2 ms");
}
