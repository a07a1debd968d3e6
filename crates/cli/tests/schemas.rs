//! The schema files in docs/schema describe real outputs.

mod schema;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use schema::Schema;
use serde_json::Value;

#[test]
fn reports_have_the_schema_of_a_report() {
    let schema = Schema::read("report");
    for name in ["one-write", "two-writes", "calls"] {
        let golden = here("tests/golden").join(format!("{name}.json"));
        schema.check(&golden, &fs::read(&golden).unwrap());
    }
    for bundle in bundles() {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sockscope"));
        let output = command.args(["report", "--format", "json"]).arg(&bundle).output().unwrap();
        schema.check(&bundle, &output.stdout);
    }
}

#[test]
fn comparisons_have_the_schema_of_a_comparison() {
    let schema = Schema::read("compare");
    let [one, two] = bundles();
    let calls = here("../../tests/bundles/v2/calls.sockscope");
    for other in [&two, &calls] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sockscope"));
        let output =
            command.args(["compare", "--format", "json"]).arg(&one).arg(other).output().unwrap();
        schema.check(other, &output.stdout);
    }
}

#[test]
fn bundles_have_the_schema_of_a_description() {
    let schema = Schema::read("meta");
    let folder = tempfile::tempdir().unwrap();
    for bundle in bundles() {
        // Read and written again: a bundle of an older release may lack a key.
        let copy = folder.path().join(bundle.file_name().unwrap());
        let opened = sockscope_trace::Bundle::open(&bundle).unwrap();
        let meta = opened.meta().clone();
        let writer = sockscope_trace::BundleWriter::create(&copy, meta.clone()).unwrap();
        writer.finish(meta).unwrap();
        schema.check(&bundle, &fs::read(copy.join("meta.json")).unwrap());
    }
}

#[test]
fn a_document_that_is_not_of_the_schema_is_refused() {
    let schema = Schema::read("report");
    let golden = fs::read(here("tests/golden/calls.json")).unwrap();
    let golden: Value = serde_json::from_slice(&golden).unwrap();
    let problem = |change: &dyn Fn(&mut Value)| {
        let mut changed = golden.clone();
        change(&mut changed);
        schema.problem(&schema.root, &changed, "").unwrap_or_default()
    };
    let no_key = |report: &mut Value| drop(report["trace"].as_object_mut().unwrap().remove("host"));
    assert_eq!(problem(&no_key), "/trace: no host");
    assert_eq!(
        problem(&|report| report["trace"]["new"] = 1.into()),
        "/trace: new is not described"
    );
    assert_eq!(problem(&|report| report["schema"] = "x".into()), "/schema: not the constant");
    let flow = "/connections/0/flows/0";
    let set = |key: &'static str, value: Value| {
        move |report: &mut Value| report.pointer_mut(flow).unwrap()[key] = value.clone()
    };
    assert_eq!(problem(&set("bytes", "7".into())), format!("{flow}/bytes: not integer"));
    assert_eq!(problem(&set("bytes", (-7).into())), format!("{flow}/bytes: below the minimum"));
    assert_eq!(problem(&set("acks", 7.into())), format!("{flow}/acks: none of the choices"));
    assert_eq!(problem(&|_| ()), "");
}

/// The bundles that come with the program.
fn bundles() -> [PathBuf; 2] {
    ["one-write", "two-writes"].map(|name| here("demo").join(format!("{name}.sockscope")))
}

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}
