//! Every experiment's table, and the outcome of every check, against the files in `tests/tables/`.
//!
//! A change of the model that moves a number shows here, number by number. After a change that is
//! meant, `SOCKSCOPE_BLESS=1 cargo test -p sockscope-claims --test tables` writes the files anew; the
//! difference is then reviewed like code.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

use sockscope_claims::{CauseVerdict, Checked, Verdict, check, check_results};
use sockscope_experiment::result::{RunResult, write_csv, write_json, write_text};
use sockscope_experiment::{Experiment, builtin, builtin_by_id};
use sockscope_lab::bundle;
use sockscope_lab::run::run;

type Write = fn(&RunResult, &mut dyn std::io::Write) -> std::io::Result<()>;

fn results(experiment: &Experiment, threads: usize, write: Write) -> String {
    written(&run(experiment, threads, &mut |_, _| {}).unwrap(), write)
}

fn written(results: &RunResult, write: Write) -> String {
    let mut out = Vec::new();
    write(results, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Results of an experiment as it is built in, which runs once for its table and all claims.
fn carried_results(id: &str) -> RunResult {
    static RESULTS: Mutex<BTreeMap<String, Arc<OnceLock<RunResult>>>> = Mutex::new(BTreeMap::new());
    let result = RESULTS.lock().unwrap().entry(id.to_owned()).or_default().clone();
    let run = || run(&builtin_by_id(id).unwrap(), 2, &mut |_, _| {}).unwrap();
    result.get_or_init(run).clone()
}

/// Claims of a paper against results of the experiments as they are built in.
fn carried_claims(paper: &str) -> Vec<Checked> {
    let results = |needed: &[Experiment]| {
        Ok(needed.iter().map(|experiment| carried_results(&experiment.id)).collect())
    };
    check_results(Some(paper), results).unwrap()
}

/// The committed file of this name holds `text`.
fn assert_table(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tables").join(name);
    if std::env::var_os("SOCKSCOPE_BLESS").is_some() {
        std::fs::write(&path, text).unwrap();
        return;
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    for (number, (got, want)) in text.lines().zip(committed.lines()).enumerate() {
        assert_eq!(got, want, "line {} of {}", number + 1, path.display());
    }
    assert_eq!(text.lines().count(), committed.lines().count(), "{}", path.display());
}

fn assert_table_of(id: &str) {
    assert_table(&format!("{id}.txt"), &written(&carried_results(id), write_text));
}

#[test]
fn buffers_in_4_2bsd_cost_what_the_tables_say() {
    ["bb-1", "bb-2", "bb-3", "bb-4"].into_iter().for_each(assert_table_of);
}

#[test]
fn remote_calls_and_discard_writers_stall_as_the_tables_say() {
    ["lh-1", "lh-2", "lh-3", "lh-4", "lh-5", "lh-6", "lh-7", "lh-8"]
        .into_iter()
        .for_each(assert_table_of);
}

#[test]
fn sparcstations_carry_what_the_tables_say() {
    [
        "si-1a", "si-1b", "si-1c", "si-2a", "si-2b", "si-3a", "si-3b", "si-4a", "si-4b", "si-4c",
        "si-5a", "si-5b", "si-5c", "si-6a", "gw-1",
    ]
    .into_iter()
    .for_each(assert_table_of);
}

#[test]
fn atm_drivers_on_decstations_cost_what_the_tables_say() {
    ["pc-1", "pc-1b", "pc-2", "pc-7a", "pc-7b", "pc-8", "pc-8b", "pc-8c"]
        .into_iter()
        .for_each(assert_table_of);
}

#[test]
fn vmtp_on_decstations_takes_what_the_tables_say() {
    ["pc-3", "pc-4", "pc-5", "pc-6", "pc-6b"].into_iter().for_each(assert_table_of);
}

#[test]
fn every_experiment_has_a_table() {
    for experiment in builtin().unwrap() {
        let file = format!("tests/tables/{}.txt", experiment.id);
        assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join(&file).exists(), "{file}");
    }
}

/// Every claim has a kind of evidence, with a reason unless it is found, and the counts of kinds and of
/// papers are those of all.
fn assert_kinds_add_up(json: &serde_json::Value) {
    for claim in json["claims"].as_array().unwrap() {
        let is_found = claim["evidence"] == "found";
        assert_eq!(claim["evidence_reason"].is_null(), is_found, "{}", claim["id"]);
    }
    let summary = &json["summary"];
    for verdict in ["reproduced", "differs", "not_checkable"] {
        let kinds = ["found", "partly-taken-in", "arithmetic"];
        let of = |kind: &str| summary["by_evidence"][kind][verdict].as_u64().unwrap();
        assert_eq!(summary[verdict], kinds.map(of).iter().sum::<u64>(), "{verdict}");
        let papers = summary["by_paper"].as_array().unwrap().iter();
        let all: u64 = papers.map(|paper| paper[verdict].as_u64().unwrap()).sum();
        assert_eq!(summary[verdict], all, "{verdict}");
    }
}

/// Every claim that differs has an explanation, and runs bear out each cause that is known.
fn assert_explained(checked: &[Checked]) {
    for one in checked {
        let verdict = one.explanation.as_ref().map(|explanation| explanation.verdict);
        let differs = one.comparison.verdict == Verdict::Differs;
        let id = &one.claim.id;
        assert_eq!(verdict.is_some(), differs, "{id}: a claim that differs has an explanation");
        assert_ne!(verdict, Some(CauseVerdict::DoesNotHold), "{id}: {:?}", one.explanation);
    }
}

#[test]
fn claims_come_out_as_the_tables_say() {
    for paper in ["bsd-buffers", "layering", "sunos-ipc", "protocol-choice"] {
        let checked = carried_claims(paper);
        assert_explained(&checked);
        let mut out = Vec::new();
        sockscope_claims::write_text(&checked, &mut out).unwrap();
        assert_table(&format!("claims-{paper}.txt"), &String::from_utf8(out).unwrap());
        let mut json = Vec::new();
        sockscope_claims::write_json(&checked, &mut json).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
        assert_eq!(json["schema"], "sockscope.claims/1");
        assert_eq!(json["claims"].as_array().unwrap().len(), checked.len());
        assert_kinds_add_up(&json);
        let predictions = &json["summary"]["by_paper"][0]["predictions"];
        let of = |name: &str| predictions[name].as_u64().unwrap();
        assert!(of("explained") >= of("missing"), "{paper}: {predictions}");
    }
}

#[test]
fn a_check_runs_the_experiments_that_it_needs() {
    let checked = check(Some("bsd-buffers"), 2, &mut |_, _| {}).unwrap();
    assert_eq!(checked, carried_claims("bsd-buffers"));
}

#[test]
fn threads_change_nothing() {
    let mut experiment = builtin_by_id("lh-1").unwrap();
    experiment.repetitions = 2;
    experiment.set("data_bytes=4800").unwrap();
    for write in [write_text, write_json, write_csv] {
        assert_eq!(results(&experiment, 1, write), results(&experiment, 3, write));
    }
}

#[test]
fn results_as_json_have_the_published_names() {
    let mut experiment = builtin_by_id("bb-1").unwrap();
    experiment.set("messages=20").unwrap();
    experiment.set("message_bytes=1023").unwrap();
    let json: serde_json::Value =
        serde_json::from_str(&results(&experiment, 1, write_json)).unwrap();
    assert_eq!(json["schema"], "sockscope.lab/1");
    assert_eq!((&json["experiment"], &json["on"]), (&"bb-1".into(), &"model".into()));
    assert_eq!(json["machine"], "vax-11-750");
    let case = &json["cases"][0];
    assert_eq!(case["parameters"]["message_bytes"], 1023);
    assert_eq!(case["results"]["calls"]["uiomove"], 200);
    assert!(case["results"]["seconds"]["uiomove"].is_number());
    assert!(case["results"]["throughput_bits_per_s"].is_number());
}

/// Names of all results of a run of `id` made short.
fn names_of(id: &str, changes: &[&str]) -> Vec<String> {
    let mut experiment = builtin_by_id(id).unwrap();
    experiment.set_all(changes).unwrap();
    experiment.repetitions = 1;
    let json: serde_json::Value =
        serde_json::from_str(&results(&experiment, 2, write_json)).unwrap();
    let results = json["cases"][0]["results"].as_object().unwrap();
    results.keys().cloned().collect()
}

#[test]
fn the_page_of_the_laboratory_says_what_each_result_is() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/lab.md");
    let page = std::fs::read_to_string(page).unwrap();
    let mut names = names_of("bb-1", &["messages=20", "message_bytes=1"]);
    names.extend(names_of("lh-8", &[]));
    names.extend(names_of("si-4c", &["pieces=4", "depth=1", "scheduler=decay"]));
    names.extend(names_of("pc-1", &["packets=2"]));
    names.extend(names_of("pc-1b", &["calls=1", "data_bytes=64"]));
    names.extend(names_of("pc-6b", &["members=1", "run_ms=500"]));
    names.extend(names_of("pc-7a", &["accesses=10", "work_cycles=0"]));
    names.extend(names_of("pc-8b", &["messages=1"]));
    names.extend(names_of("pc-7b", &["messages=1", "cells_lost_per_million=0"]));
    assert!(names.len() > 50, "{names:?}");
    for name in names {
        assert!(page.contains(&format!("`{name}`")), "docs/reference/lab.md lacks `{name}`");
    }
}

/// FNV-1a, 64 bits, of a file.
fn digest(path: &Path) -> u64 {
    let bytes = std::fs::read(path).unwrap();
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

fn bundles(folder: &Path) -> Vec<PathBuf> {
    let mut experiment = builtin_by_id("lh-2").unwrap();
    experiment.set("server_timer_ms=30").unwrap();
    let bundles = bundle::write_bundles(&experiment, folder).unwrap();
    bundles.into_iter().map(|(_, path)| path).collect()
}

/// The hash is committed: another machine must come to the same one.
#[test]
fn the_same_seed_gives_the_same_bundle_on_every_machine() {
    let folder = tempfile::tempdir().unwrap();
    let digests = |name: &str| {
        let bundle = &bundles(&folder.path().join(name))[0];
        ["records.arrows", "flows.arrows"]
            .map(|file| format!("{:016x}", digest(&bundle.join(file))))
    };
    let first = digests("first");
    assert_eq!(first, digests("second"));
    assert_table("lh-2-bundle.txt", &format!("{}\n", first.join("\n")));
}
