//! The schema files in docs/reference/schemas describe real outputs.
//!
//! The validator knows the keywords that the files use, and refuses a file with any other. Keys that a
//! schema does not list are errors here, although readers ignore them: each key has to be described.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

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

struct Schema {
    root: Value,
}

impl Schema {
    fn read(name: &str) -> Self {
        let file = here("../../docs/reference/schemas").join(format!("{name}.json"));
        Self { root: serde_json::from_slice(&fs::read(file).unwrap()).unwrap() }
    }

    fn check(&self, source: &Path, document: &[u8]) {
        let document = serde_json::from_slice(document).unwrap();
        assert_eq!(self.problem(&self.root, &document, ""), None, "{}", source.display());
    }

    /// The first place in `value` that is not of `schema` (JSON Schema 2020-12).
    fn problem(&self, schema: &Value, value: &Value, at: &str) -> Option<String> {
        let Some(schema) = schema.as_object() else { panic!("{schema}: no schema") };
        let is_object = value.is_object();
        schema.iter().find_map(|(keyword, rule)| match keyword.as_str() {
            "$ref" => {
                let target = rule.as_str()?.strip_prefix('#')?;
                self.problem(self.root.pointer(target).expect("a definition"), value, at)
            }
            "type" => {
                let types = rule.as_array().map_or(std::slice::from_ref(rule), Vec::as_slice);
                let fits = types.iter().any(|name| is_of(value, name.as_str().unwrap_or("")));
                (!fits).then(|| format!("{at}: not {}", rule.as_str().unwrap_or("of the types")))
            }
            "const" => (rule != value).then(|| format!("{at}: not the constant")),
            "enum" => (!rule.as_array()?.contains(value)).then(|| format!("{at}: not in the list")),
            "minimum" => {
                (value.as_f64()? < rule.as_f64()?).then(|| format!("{at}: below the minimum"))
            }
            "anyOf" | "oneOf" => {
                let mut choices = rule.as_array()?.iter();
                let fits = choices.any(|choice| self.problem(choice, value, at).is_none());
                (!fits).then(|| format!("{at}: none of the choices"))
            }
            "items" => {
                let mut items = value.as_array()?.iter().enumerate();
                items.find_map(|(index, item)| self.problem(rule, item, &format!("{at}/{index}")))
            }
            "required" => {
                let mut keys = rule.as_array()?.iter().filter_map(Value::as_str);
                let missing = keys.find(|key| is_object && value.get(key).is_none())?;
                Some(format!("{at}: no {missing}"))
            }
            "properties" => value.as_object()?.iter().find_map(|(key, item)| match rule.get(key) {
                Some(rule) => self.problem(rule, item, &format!("{at}/{key}")),
                None => Some(format!("{at}: {key} is not described")),
            }),
            // Of maps by name or number.
            "patternProperties" | "additionalProperties" => {
                let rule = if keyword == "patternProperties" { rule.get("^\\d+$")? } else { rule };
                let mut entries = value.as_object().filter(|_| rule.is_object())?.iter();
                entries.find_map(|(key, item)| self.problem(rule, item, &format!("{at}/{key}")))
            }
            "$schema" | "$defs" | "title" | "description" | "default" | "format" => None,
            keyword => panic!("{at}: the validator does not know {keyword}"),
        })
    }
}

fn is_of(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        _ => panic!("{name}: no type"),
    }
}
