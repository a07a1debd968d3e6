//! No prediction is taken in unsaid: `papers/inputs.toml`, the numbers and rules that the model is given,
//! against the register of claims and `papers/evidence.toml`.

use std::collections::{BTreeMap, BTreeSet};
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
    #[serde(default)]
    mentions: Vec<String>,
    digest: Option<String>,
    #[serde(default)]
    reuses: Vec<String>,
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
    // A semicolon ends a list.
    let text = text.replace(';', " ; ");
    let words = text.split([' ', ',', '(', ')']).filter(|word| !word.is_empty());
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
    assert_eq!(named("the sum (Table 1); 60 us more"), "Table 1");
    assert_eq!(named("Chapter 4"), "");
}

/// Whether a number is another one, but for rounding.
fn is_near(own: f64, printed: f64) -> bool {
    (own - printed).abs() <= 0.01 * printed.abs()
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
        && printed.any(|number| input.numbers.iter().any(|own| is_near(*own, number)));
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
            mentions: Vec::new(),
            digest: None,
            reuses: Vec::new(),
        };
        unsaid(&[input], &claims, &evidence)
    };
    assert_eq!(taken(&["Table 1"], &[], "us"), ["sunos-ipc/4.2.1-n: new"]);
    assert_eq!(taken(&[], &[7.5], "Mbit/s"), ["sunos-ipc/4.1.2-a: new"]);
    assert_eq!(taken(&[], &[7.46], "Mbit/s"), ["sunos-ipc/4.1.2-a: new"], "rounded otherwise");
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

/// Claims that an experiment would feed with a source or a number that its own costs are set from.
fn fed_by_their_own(
    inputs: &[Input],
    input: &Input,
    feeds: &[String],
    claims: &Claims,
) -> Vec<String> {
    let reused = inputs.iter().filter(|other| input.reuses.contains(&other.name));
    let of_claims = |reused: &Input| {
        let fed = feeds.iter().filter_map(|id| claims.claim(id));
        fed.filter(|claim| shares(reused, claim)).map(|claim| claim.id.clone()).collect::<Vec<_>>()
    };
    reused.flat_map(of_claims).collect()
}

/// Costs that were set from one result of a paper may serve another run, and not show that result again.
#[test]
fn an_experiment_with_reused_costs_feeds_no_claim_that_they_are_set_from() {
    let (claims, _) = lists();
    let inputs = inputs();
    let reusing: Vec<_> = inputs.iter().filter(|input| !input.reuses.is_empty()).collect();
    assert!(!reusing.is_empty());
    for input in reusing {
        for name in &input.reuses {
            let is_there =
                inputs.iter().any(|other| other.name == *name && other.name != input.name);
            assert!(is_there, "{}: no input `{name}`", input.name);
        }
        let experiments = sockscope_experiment::builtin().unwrap();
        let own = |id: &str| {
            input.keys.iter().any(|key| key.starts_with(&format!("experiments/{id}.toml:")))
        };
        for experiment in experiments.iter().filter(|experiment| own(&experiment.id)) {
            let found = fed_by_their_own(&inputs, input, &experiment.feeds, &claims);
            assert!(found.is_empty(), "{}: {found:?}", experiment.id);
        }
    }
    // The rate that a flush is fitted to would be found.
    let input = inputs.iter().find(|input| input.name == "ip-over-atm").unwrap();
    let taken = ["protocol-choice/4-atm-a".to_owned(), "protocol-choice/4-atm-b".to_owned()];
    assert_eq!(fed_by_their_own(&inputs, input, &taken, &claims), taken[..1]);
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

/// Adds the values of a table with their keys, as `FILE:cpu.switch_ns`.
fn add_values(value: &toml::Value, before: &str, values: &mut Vec<(String, toml::Value)>) {
    let toml::Value::Table(table) = value else {
        values.push((before.to_owned(), value.clone()));
        return;
    };
    let dot = if before.ends_with(':') { "" } else { "." };
    for (name, value) in table {
        add_values(value, &format!("{before}{dot}{name}"), values);
    }
}

/// The values in the files of a folder, in the order of their keys.
fn values(folder: &str) -> Vec<(String, toml::Value)> {
    let mut values = Vec::new();
    for file in std::fs::read_dir(root().join(folder)).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let value = toml::from_str(&text).unwrap();
        add_values(&value, &format!("{folder}/{name}:"), &mut values);
    }
    values.sort_by(|one, other| one.0.cmp(&other.0));
    values
}

fn is_number(value: &toml::Value) -> bool {
    matches!(value, toml::Value::Integer(_) | toml::Value::Float(_))
}

/// The keys of numbers in `machines/`.
fn numbers_of_machines() -> impl Iterator<Item = String> {
    values("machines").into_iter().filter(|(_, value)| is_number(value)).map(|(key, _)| key)
}

/// Of the patterns that fit a key, those with the fewest stars are the most exact.
fn least_stars(input: &Input, key: &str) -> Option<usize> {
    let stars = |pattern: &String| pattern.matches('*').count();
    input.keys.iter().filter(|pattern| fits(pattern, key)).map(stars).min()
}

#[test]
fn every_number_of_a_machine_has_one_input() {
    let inputs = inputs();
    for key in numbers_of_machines() {
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
    let there: Vec<_> = folders.flat_map(values).map(|(key, _)| key).collect();
    for input in inputs() {
        assert!(!input.keys.is_empty(), "{}", input.name);
        let in_files = |pattern: &&String| !pattern.starts_with("personality:");
        for pattern in input.keys.iter().filter(in_files) {
            assert!(there.iter().any(|key| fits(pattern, key)), "{}: no {pattern}", input.name);
        }
    }
}

/// The input that a key belongs to: that with the most exact pattern.
fn input_of<'a>(inputs: &'a [Input], key: &str) -> Option<&'a Input> {
    let of = |input| Some((least_stars(input, key)?, input));
    inputs.iter().filter_map(of).min_by_key(|(stars, _)| *stars).map(|(_, input)| input)
}

/// Endings of parameters that say when programs and timers act, or how long they work: a paper has these from
/// what it measured.
const TIMES: [&str; 8] = [
    "_after_us",
    "_after_ms",
    "_timer_ms",
    "_close_us",
    ".read_delay_us",
    ".compute_us",
    ".variation_percent",
    "_cycles",
];

#[test]
fn every_time_of_a_program_has_an_input() {
    let inputs = inputs();
    for (key, _) in values("experiments") {
        // A sweep of cycles tries a whole range.
        let is_set = !key.contains(":figure") && !key.contains(":sweep.work_cycles");
        if is_set && TIMES.iter().any(|end| key.ends_with(end)) {
            assert!(input_of(&inputs, &key).is_some(), "{key}: no input in papers/inputs.toml");
        }
    }
}

/// An input with a paper says where in it; a unit is one in which the register has numbers, or else the input's
/// numbers could not be found among the claims'.
#[test]
fn what_is_read_in_a_paper_can_be_compared_with_its_claims() {
    let claims = Claims::builtin().unwrap();
    for input in inputs() {
        let name = &input.name;
        let Some(paper) = &input.paper else {
            assert!(input.sources.is_empty() && input.numbers.is_empty(), "{name}: of no paper");
            continue;
        };
        assert!(!(input.sources.is_empty() && input.numbers.is_empty()), "{name}: read where?");
        assert_eq!(
            input.numbers.is_empty(),
            input.unit.is_none(),
            "{name}: numbers and their unit"
        );
        let mut units = claims.of(Some(paper)).filter_map(|claim| claim.unit.as_ref());
        let is_known = input.unit.as_ref().is_none_or(|unit| units.any(|other| other == unit));
        let is_bus_rate = input.unit.as_deref() == Some("MB/s");
        assert!(is_known || is_bus_rate, "{name}: the register has no number in {:?}", input.unit);
    }
}

/// A section of a machine's file: its keys but for those of sources, and the texts of these.
#[derive(Debug, Default)]
struct Section {
    keys: Vec<String>,
    sources: String,
}

/// Sections by their names, as `machines/sparcstation-1.toml:cpu`.
fn sections() -> BTreeMap<String, Section> {
    let mut sections = BTreeMap::<String, Section>::new();
    for (key, value) in values("machines") {
        let Some((name, last)) = key.rsplit_once('.') else { continue };
        let section = sections.entry(name.to_owned()).or_default();
        match value.as_str().filter(|_| last.starts_with("source")) {
            Some(text) => section.sources += &format!("{text};"),
            None => section.keys.push(key),
        }
    }
    sections
}

/// Places in a paper that the sources of a section name, and that no input of its keys has.
fn unlisted(inputs: &[Input], sections: &BTreeMap<String, Section>) -> Vec<String> {
    let mut unlisted = Vec::new();
    for (name, section) in sections {
        // Its numbers are half of those of the other one, and so are read where these are.
        let keys = section.keys.iter().map(|key| key.replace("sparcstation-2", "sparcstation-1"));
        let of_keys = keys.filter_map(|key| input_of(inputs, &key));
        let named = |input: &'_ Input| [&input.sources[..], &input.mentions].concat();
        let listed: BTreeSet<String> = of_keys.flat_map(named).collect();
        let places = references(&section.sources.replace("section", "Section"));
        let others = places.iter().filter(|place| !listed.contains(*place));
        unlisted.extend(others.map(|place| format!("{name}: {place}")));
    }
    unlisted
}

#[test]
fn a_place_that_a_machine_names_is_a_source_of_its_input() {
    let unlisted = unlisted(&inputs(), &sections());
    assert!(unlisted.is_empty(), "name it in `sources` of papers/inputs.toml: {unlisted:#?}");
}

/// A number that is fitted to a figure, and says so in the machine alone, is found.
#[test]
fn a_fit_that_the_list_does_not_name_is_found() {
    let mut sections = sections();
    let name = "machines/sparcstation-1.toml:cpu";
    sections.get_mut(name).unwrap().sources += "fitted to Figure 9";
    assert_eq!(unlisted(&inputs(), &sections), [format!("{name}: Figure 9")]);
}

/// FNV-1a, 64 bits, of the numbers and rules of each input with their keys, by the input's name.
fn digests(inputs: &[Input], values: &[(String, toml::Value)]) -> BTreeMap<String, String> {
    let mut texts = BTreeMap::<String, String>::new();
    for (key, value) in values.iter().filter(|(_, value)| !value.is_str()) {
        if let Some(input) = input_of(inputs, key) {
            *texts.entry(input.name.clone()).or_default() += &format!("{key}={value:?}\n");
        }
    }
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let digest = |text: String| format!("{:016x}", text.bytes().fold(0xcbf2_9ce4_8422_2325, step));
    texts.into_iter().map(|(name, text)| (name, digest(text))).collect()
}

fn all_values() -> Vec<(String, toml::Value)> {
    [values("machines"), values("experiments")].concat()
}

/// A number that is changed, to have a prediction come out as well, does not pass unseen.
#[test]
fn a_number_that_changes_is_read_somewhere() {
    let inputs = inputs();
    let digests = digests(&inputs, &all_values());
    let is_other = |input: &&Input| digests.get(&input.name) != input.digest.as_ref();
    let changed = inputs.iter().filter(is_other);
    let changed: Vec<_> = changed.map(|input| (&input.name, digests.get(&input.name))).collect();
    assert!(
        changed.is_empty(),
        "numbers of these inputs changed; say in papers/inputs.toml where they are read now, and then give it the new `digest`: {changed:#?}"
    );
}

#[test]
fn a_digest_is_of_each_number_of_its_input() {
    let (inputs, mut values) = (inputs(), all_values());
    let before = digests(&inputs, &values);
    let key = "machines/sparcstation-1.toml:driver.start_ns";
    let (_, value) = values.iter_mut().find(|(other, _)| other == key).unwrap();
    *value = toml::Value::Integer(40_000);
    let after = digests(&inputs, &values);
    let changed: Vec<_> = before.keys().filter(|name| before[*name] != after[*name]).collect();
    assert_eq!(changed, ["sparc-estimates"]);
}

/// A rule of a stack that an input names is a field of the stack, or a constant of the timers.
#[test]
fn every_rule_of_an_input_is_there() {
    let mut texts = String::new();
    let mut folders = ["crates/stack/src", "crates/sim/src"].map(|name| root().join(name)).to_vec();
    while let Some(folder) = folders.pop() {
        for file in std::fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                texts += &std::fs::read_to_string(path).unwrap();
            }
        }
    }
    for input in inputs() {
        for rule in input.keys.iter().filter_map(|key| key.strip_prefix("personality:")) {
            let field = rule.rsplit('.').next().unwrap();
            let constant = format!("const {}_NS:", field.to_uppercase());
            let is_there = texts.contains(&format!("pub {field}:")) || texts.contains(&constant);
            assert!(is_there, "{}: neither field nor constant `{field}`", input.name);
        }
    }
}
