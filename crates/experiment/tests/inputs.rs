//! No prediction is taken in unsaid: `papers/inputs.toml`, the numbers and rules that the model is given,
//! against the register of claims and `papers/evidence.toml`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use sockscope_experiment::papers::{Claim, Claims, EvidenceKind, EvidenceList, Role};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Inputs {
    format: u32,
    input: Vec<Input>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    name: String,
    paper: Option<String>,
    #[serde(default)]
    sources: Vec<String>,
    #[serde(default)]
    numbers: Vec<f64>,
    unit: Option<String>,
    keys: Vec<String>,
    why: Option<String>,
    #[serde(default)]
    apart: Vec<Apart>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Apart {
    id: String,
    reason: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn inputs() -> Vec<Input> {
    let text = std::fs::read_to_string(root().join("papers/inputs.toml")).unwrap();
    let inputs: Inputs = toml::from_str(&text).unwrap();
    assert_eq!(inputs.format, 1);
    inputs.input
}

fn lists() -> (Claims, EvidenceList) {
    (Claims::builtin().unwrap(), EvidenceList::builtin().unwrap())
}

/// `Table 3`, `Figure 15` and `Section 4.1.2` that a text names, each of a list or a range as its own.
fn references(text: &str) -> BTreeSet<String> {
    let (mut found, mut kind, mut from) = (BTreeSet::new(), None, None);
    let words = text.split([' ', ',', ';', '(', ')']).filter(|word| !word.is_empty());
    let mut last = None;
    for word in words {
        let is_kind =
            |kind: &&str| word.strip_prefix(kind).is_some_and(|rest| ["", "s"].contains(&rest));
        let named = ["Table", "Figure", "Section"].into_iter().find(is_kind);
        let number = word.trim_end_matches('.');
        match kind {
            _ if named.is_some() => (kind, from) = (named, None),
            Some(kind) if number.starts_with(|first: char| first.is_ascii_digit()) => {
                let whole = number.parse::<u32>().ok();
                let between = from.take().zip(whole).map(|(from, to): (u32, u32)| from..to);
                found.extend(between.into_iter().flatten().map(|at| format!("{kind} {at}")));
                found.insert(format!("{kind} {number}"));
                last = whole;
            }
            Some(_) if word == "to" => from = last,
            Some(_) if word == "and" => {}
            _ => kind = None,
        }
    }
    found
}

#[test]
fn a_source_names_each_of_a_list() {
    let named = |text| references(text).into_iter().collect::<Vec<_>>().join(" | ");
    assert_eq!(
        named("Sections 4.1 and 4.2, Tables 1 and 2"),
        "Section 4.1 | Section 4.2 | Table 1 | Table 2"
    );
    assert_eq!(
        named("Section 4.2.1, Figures 11 to 13"),
        "Figure 11 | Figure 12 | Figure 13 | Section 4.2.1"
    );
    assert_eq!(named("Table 3, lines 18 to 20"), "Table 3");
    assert_eq!(
        named("Section 4.1; computed from Tables 1 and 2"),
        "Section 4.1 | Table 1 | Table 2"
    );
    assert_eq!(named("text after Table 5"), "Table 5");
    assert_eq!(named("Chapter 4"), "");
}

/// Whether an input and a claim have a source or a printed number in common.
fn shares(input: &Input, claim: &Claim) -> bool {
    if input.paper.as_deref() != Some(claim.paper()) {
        return false;
    }
    let mut named = references(&claim.source);
    named.append(&mut references(&claim.condition));
    let is_source = |source: &String| {
        named.contains(source)
            || references(source).is_empty() && claim.source.contains(source.as_str())
    };
    let values = claim.values.iter().chain(&claim.values_udp).copied();
    let mut printed = values.chain(claim.low).chain(claim.high);
    let has_number = input.unit.is_some()
        && input.unit == claim.unit
        && printed.any(|number| input.numbers.contains(&number));
    has_number || input.sources.iter().any(is_source)
}

/// Each prediction and input that share a source or a number, where neither list says so, or both do.
fn unsaid(inputs: &[Input], claims: &Claims, evidence: &EvidenceList) -> Vec<String> {
    let mut unsaid = Vec::new();
    for claim in claims.of(None).filter(|claim| claim.role == Role::Prediction) {
        for input in inputs.iter().filter(|input| shares(input, claim)) {
            let is_named = evidence.of(claim).inputs.contains(&input.name);
            let is_apart = input.apart.iter().any(|apart| apart.id == claim.id);
            if is_named == is_apart {
                unsaid.push(format!("{}: {}", claim.id, input.name));
            }
        }
    }
    unsaid
}

#[test]
fn a_prediction_that_shares_its_source_with_an_input_says_so() {
    let (claims, evidence) = lists();
    let unsaid = unsaid(&inputs(), &claims, &evidence);
    assert!(
        unsaid.is_empty(),
        "name the input in papers/evidence.toml, or say in `apart` of papers/inputs.toml why not: {unsaid:#?}"
    );
}

/// A number of a prediction that becomes an input is found, by its table and by the number itself.
#[test]
fn a_prediction_that_is_taken_in_unsaid_is_found() {
    let (claims, evidence) = lists();
    let taken = |sources: &[&str], numbers: &[f64], unit: &str| {
        let input = Input {
            name: "new".to_owned(),
            paper: Some("sunos-ipc".to_owned()),
            sources: sources.iter().map(|&source| source.to_owned()).collect(),
            numbers: numbers.to_vec(),
            unit: Some(unit.to_owned()),
            keys: Vec::new(),
            why: None,
            apart: Vec::new(),
        };
        unsaid(&[input], &claims, &evidence)
    };
    assert_eq!(taken(&["Table 1"], &[], "us"), ["sunos-ipc/4.2.1-n: new"]);
    assert_eq!(taken(&[], &[7.5], "Mbit/s"), ["sunos-ipc/4.1.2-a: new"]);
    assert!(taken(&[], &[7.5], "us").is_empty());
    // The inputs of today are found as well when no list names them.
    let mut inputs = inputs();
    for input in &mut inputs {
        input.name.push('x');
    }
    let found = unsaid(&inputs, &claims, &evidence);
    for claim in
        ["bsd-buffers/T1-a", "sunos-ipc/4.3.1-c", "layering/T5-b", "protocol-choice/4-dec-a"]
    {
        assert!(found.iter().any(|one| one.starts_with(claim)), "{claim}: {found:?}");
    }
}

#[test]
fn inputs_and_claims_name_each_other() {
    let (claims, evidence) = lists();
    let inputs = inputs();
    let names: BTreeSet<_> = inputs.iter().map(|input| &input.name).collect();
    assert_eq!(names.len(), inputs.len(), "a name stands twice");
    for one in evidence.all() {
        for name in &one.inputs {
            assert!(names.contains(name), "{}: no input `{name}` in papers/inputs.toml", one.id);
            assert_ne!(one.kind, EvidenceKind::Found, "{}", one.id);
        }
    }
    for input in &inputs {
        let has_origin = input.paper.is_some() != input.why.is_some();
        assert!(has_origin, "{}: expected a paper, or `why` for an estimate", input.name);
        for apart in &input.apart {
            let claim = claims.claim(&apart.id).unwrap_or_else(|| panic!("{}", apart.id));
            assert!(shares(input, claim), "{} shares nothing with {}", input.name, apart.id);
            assert!(!apart.reason.is_empty(), "{} {}", input.name, apart.id);
        }
    }
}

/// Whether a key fits a pattern in which `*` stands for any text without a dot.
fn fits(pattern: &str, key: &str) -> bool {
    let part_fits = |(pattern, part): (&str, &str)| match pattern.split_once('*') {
        Some((before, after)) => {
            let least = before.len() + after.len();
            part.len() >= least && part.starts_with(before) && part.ends_with(after)
        }
        None => pattern == part,
    };
    let parts = |text: &str| text.matches([':', '.']).count();
    parts(pattern) == parts(key)
        && pattern.split([':', '.']).zip(key.split([':', '.'])).all(part_fits)
}

/// Adds the keys of a table, as `FILE:cpu.switch_ns`: those of numbers, or of every value.
fn add_keys(value: &toml::Value, before: &str, with_all: bool, keys: &mut Vec<String>) {
    match value {
        toml::Value::Table(table) => {
            let dot = if before.ends_with(':') { "" } else { "." };
            for (name, value) in table {
                add_keys(value, &format!("{before}{dot}{name}"), with_all, keys);
            }
        }
        toml::Value::Integer(_) | toml::Value::Float(_) => keys.push(before.to_owned()),
        _ if with_all => keys.push(before.to_owned()),
        _ => {}
    }
}

fn keys(folder: &str, with_all: bool) -> Vec<String> {
    let mut keys = Vec::new();
    for file in std::fs::read_dir(root().join(folder)).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let value = toml::from_str(&text).unwrap();
        add_keys(&value, &format!("{folder}/{name}:"), with_all, &mut keys);
    }
    keys
}

/// Of the patterns that fit a key, those with the fewest stars are the most exact.
fn least_stars(input: &Input, key: &str) -> Option<usize> {
    let stars = |pattern: &String| pattern.matches('*').count();
    input.keys.iter().filter(|pattern| fits(pattern, key)).map(stars).min()
}

#[test]
fn every_number_of_a_machine_has_one_input() {
    let inputs = inputs();
    for key in keys("machines", false) {
        let of = |input| Some((least_stars(input, &key)?, &input.name));
        let mut found: Vec<_> = inputs.iter().filter_map(of).collect();
        found.sort();
        assert!(!found.is_empty(), "{key}: no input in papers/inputs.toml");
        assert!(found.len() == 1 || found[0].0 < found[1].0, "{key}: {found:?}");
    }
}

#[test]
fn every_key_of_an_input_is_there() {
    let folders = ["machines", "experiments"].into_iter();
    let there: Vec<_> = folders.flat_map(|folder| keys(folder, true)).collect();
    for input in inputs() {
        assert!(!input.keys.is_empty(), "{}", input.name);
        let in_files = |pattern: &&String| !pattern.starts_with("personality:");
        for pattern in input.keys.iter().filter(in_files) {
            assert!(there.iter().any(|key| fits(pattern, key)), "{}: no {pattern}", input.name);
        }
    }
}
