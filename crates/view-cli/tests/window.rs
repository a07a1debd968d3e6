//! The analysis of a stream gives the report of the whole trace, and its memory is flat.

#[path = "../../view/tests/calls/mod.rs"]
mod calls;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use sockscope_analysis::{Analysis, Analyzer, TraceFacts, Window};
use sockscope_report::{Format, Json, Options, Origin, Report};
use sockscope_trace::Bundle;
use sockscope_view::top::Board;

use calls::Calls;

const SECOND: u64 = 1_000_000_000;

/// Every bundle among the tests of all crates.
fn bundles() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folders = ["tests/bundles/v1", "tests/bundles/v2", "crates/cli/demo"];
    let entries = folders.iter().flat_map(|folder| std::fs::read_dir(root.join(folder)).unwrap());
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut bundles: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|it| it == "sockscope")).collect();
    bundles.sort();
    bundles
}

fn json(analysis: &Analysis) -> String {
    let (origin, options) = (Origin::default(), Options::default());
    let mut out = Vec::new();
    Json.write(&Report { origin: &origin, analysis, options: &options }, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn every_bundle_gives_the_same_bytes_in_any_batches() {
    let bundles = bundles();
    assert!(bundles.len() >= 4, "{bundles:?}");
    for path in bundles {
        let bundle = Bundle::open(&path).unwrap();
        let mut records = Vec::new();
        let mut batches = bundle.records().unwrap();
        while let Some(batch) = batches.next_batch().unwrap() {
            records.extend_from_slice(batch);
        }
        let facts = TraceFacts {
            source: bundle.meta().source.name().to_owned(),
            drop_reasons: bundle.meta().drop_reasons.clone(),
            ended_ns: bundle.meta().ended_ns,
            ..TraceFacts::default()
        };
        let mut analyzer = Analyzer::new();
        analyzer.push(&records);
        bundle.connections().iter().cloned().for_each(|one| analyzer.connection(one));
        let whole = json(&analyzer.finish_on(facts.clone(), NonZeroUsize::MIN));
        for size in [records.len() / 3 + 1, records.len() / 17 + 1, records.len()] {
            let mut window = Window::new();
            for batch in records.chunks(size.max(1)) {
                window.push(batch);
                bundle.connections().iter().cloned().for_each(|one| window.connection(one));
                window.refresh(facts.clone(), None);
            }
            let piecewise = json(window.refresh(facts.clone(), None));
            assert!(piecewise == whole, "{}: batches of {size} records", path.display());
        }
    }
}

/// Memory of this process, bytes.
fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = text.split(' ').nth(1).unwrap().parse().unwrap();
    pages * rustix::param::page_size() as u64
}

#[test]
fn the_memory_is_flat_over_a_stream_without_an_end() {
    let is_soak = std::env::var("SOCKSCOPE_SOAK").is_ok_and(|form| form == "full");
    let total: u64 = if is_soak { 100_000_000 } else { 200_000 };
    let mut calls = Calls { connections: 100, call: 0 };
    let mut board = Board::new(5);
    calls.describe(|one| board.connection(one));
    let (mut records, mut taken) = (Vec::new(), 0);
    let (mut held, mut memory) = (Vec::new(), Vec::new());
    let mut refreshed_ns = 0;
    while taken < total {
        records.clear();
        let mut at_ns = 0;
        for _ in 0..100 {
            at_ns = calls.next(&mut records);
        }
        board.push(&records);
        taken += records.len() as u64;
        if at_ns - refreshed_ns >= SECOND {
            board.refresh(TraceFacts::default(), at_ns, at_ns);
            refreshed_ns = at_ns;
            held.push(board.records());
            memory.push(resident_bytes());
            assert_eq!(board.rows().len(), 100);
            assert!(board.rows().iter().all(|row| row.oldest_ns.is_none()), "all was read");
        }
    }
    let early = *held[1..held.len() / 2].iter().max().unwrap();
    let late = *held[held.len() / 2..].iter().max().unwrap();
    assert!(late <= early + early / 10, "{early} records held early, {late} late: {held:?}");
    if is_soak {
        let (early, late) = (memory[memory.len() / 10], *memory.last().unwrap());
        println!("{taken} records; memory {early} bytes after a tenth, {late} at the end");
        assert!(late <= early + (8 << 20), "{early} bytes early, {late} late");
    }
}
