//! The probing tool of the SunOS study as an experiment's parameters, and the bundles of its runs.

use sockscope_experiment::{Experiment, Keep, builtin_by_id};
use sockscope_lab::bundle::write_bundles;
use sockscope_lab::model::observe;
use sockscope_lab::run::run;
use sockscope_record::LossCounts;
use sockscope_trace::{Bundle, check};

fn experiment(changes: &[&str]) -> Experiment {
    let mut experiment = builtin_by_id("si-2a").unwrap();
    experiment.set_all(changes).unwrap();
    experiment
}

fn transfer_ns(experiment: &Experiment) -> u64 {
    run(experiment, 1, &mut |_, _| {}).unwrap().cases[0].measured.transfer_ns
}

#[test]
fn the_tool_slows_a_transfer_more_the_more_of_it_is_at_work() {
    let results = run(&builtin_by_id("si-6a").unwrap(), 1, &mut |_, _| {}).unwrap();
    let times: Vec<_> = results.cases.iter().map(|case| case.measured.transfer_ns).collect();
    let [off, idle, full, short, read] = times[..] else { panic!("{times:?}") };
    // Once its list is full, a probe takes no time and writes nothing. A reader takes time of its own.
    assert!(off < idle && idle < short && short < full && full < read, "{times:?}");
}

/// The probes cost their time also where no result needs their records.
#[test]
fn a_run_that_keeps_no_record_takes_the_time_of_one_that_does() {
    let with = experiment(&[]);
    let mut without = with.clone();
    without.record = vec![Keep::Throughput];
    assert_eq!(transfer_ns(&with), transfer_ns(&without));
}

#[test]
fn the_bundle_of_a_list_that_fills_says_what_it_missed() {
    let folder = tempfile::tempdir().unwrap();
    for (changes, misses) in [
        (&["probe_list_records=60"][..], true),
        (&["probe_list_records=60", "probe_read_ms=20"], true),
        (&["probe_list_records=100000"], false),
    ] {
        let written = write_bundles(&experiment(changes), folder.path()).unwrap();
        let (_, path) = &written[0];
        let report = check(path).unwrap();
        assert!(report.problems.is_empty(), "{:?}", report.problems);
        let bundle = Bundle::open(path).unwrap();
        let meta = bundle.meta();
        let mut said = LossCounts::default();
        let mut reader = bundle.records().unwrap();
        while let Some(batch) = reader.next_batch().unwrap() {
            let losses = batch.iter().filter_map(sockscope_record::Record::loss);
            losses.for_each(|loss| said.add(loss.point(), loss.count));
        }
        assert_eq!((meta.loss, meta.loss.total() > 0), (said, misses), "{changes:?}");
        // The study's second probe is where data enter the send buffer: none is at point 2.
        let costs = meta.cost.map(|cost| cost.hits > 0 && cost.run_ns > 0);
        assert_eq!(costs, [true, false, true, true, true, true, true, true]);
        let records = if changes[0].ends_with("=60") { 59 } else { 99_999 };
        assert_eq!(meta.ring.records, records);
    }
}

/// What a list loses is unknown, and never bytes too many or too few in a queue.
#[test]
fn no_list_and_no_reader_leaves_a_residue() {
    let readers = [None, Some("probe_read_ms=10"), Some("probe_read_ms=70")];
    for list in ["2", "9", "80", "700"].map(|records| format!("probe_list_records={records}")) {
        for (reader, topology) in readers.into_iter().zip(["pair", "loopback", "pair"]) {
            let topology = format!("topology={topology}");
            let changes: Vec<&str> = [list.as_str(), &topology].into_iter().chain(reader).collect();
            let experiment = experiment(&changes);
            let seen = observe(&experiment, &experiment.cases().unwrap()[0]).unwrap();
            assert_eq!(seen.residue_bytes(), 0, "{changes:?}");
        }
    }
}

#[test]
fn a_list_or_a_reader_without_its_probes_is_refused_in_one_line() {
    for (changes, words) in [
        (&["probing=false", "probe_list_records=100"][..], "`probe_list_records` goes with"),
        (&["probing=false", "probe_idle=true"], "`probe_idle` goes with `probing = true`"),
        (&["probe_read_ms=10"], "`probe_read_ms` goes with `probe_list_records`"),
        (&["probe_idle=true", "probe_list_records=9"], "leave `probe_idle` out"),
        (&["probe_list_records=1"], "expected `probe_list_records` from 2"),
    ] {
        let error = builtin_by_id("si-2a").unwrap().set_all(changes).unwrap_err().to_string();
        assert!(error.contains(words) && !error.contains('\n'), "{error}");
    }
}
