//! An experiment: what is run, what is varied, what is recorded, and which claims it feeds.
//!
//! One file in `experiments/` each. Its fixed parameters with those of one variant and one choice of
//! the swept ones make a [`Case`]. Variants come in file order; the last swept parameter changes
//! fastest. What a run of a case shows is [`measurement`], all of an experiment's cases make a [`result`], and
//! [`papers`] holds what the papers printed. Machines, personalities and plots are names here: the
//! crates that run the experiments know what they mean.

mod atm;
mod bounds;
mod builtin;
mod cache;
mod case;
mod error;
mod faults;
mod figure;
mod hosts;
pub mod measurement;
mod other_programs;
pub mod papers;
mod parameters;
pub mod result;
mod sweep;
mod validate;
mod vmtp;
mod workload;

use std::collections::BTreeSet;
use std::path::Path;

use serde::Deserialize;
use toml::{Table, Value};

pub use atm::{
    AtmParameters, AtmPath, CellsTo, DataFrom, DriverPart, LossPolicy, VMTP_HEADER_BYTES,
};
pub use builtin::{builtin, builtin_by_id};
pub use cache::{CacheParameters, InterfaceDesign, MessageTask};
pub use case::{Case, word};
pub use error::{Error, Result};
pub use faults::Faults;
pub use figure::{Figure, Scale};
pub use other_programs::{OtherPrograms, Parser};
pub use parameters::{
    AckRule, LinkKind, LoadAt, Parameters, Protocol, SchedulerKind, SendRule, Topology,
};
pub use vmtp::{CallProtocol, VmtpParameters};
pub use workload::Workload;

/// Repetitions that a file may ask for at most.
const REPETITIONS_MAX: u32 = 10_000;

/// An experiment as its file gives it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Its id, as `lh-1`; also the name of its file.
    pub id: String,
    /// A few words.
    pub title: String,
    /// The paper that made it first, as `layering`.
    pub paper: String,
    /// Where in the paper its results stand.
    pub source: String,
    /// What it is to answer, one sentence.
    pub question: String,
    /// Ids of the claims that need its results.
    #[serde(default)]
    pub feeds: Vec<String>,
    /// What the programs do.
    pub workload: Workload,
    /// Seed of the first repetition.
    pub seed: u64,
    /// Runs of each case, each on its own seed, which moves the start against the timers.
    pub repetitions: u32,
    /// What to keep.
    pub record: Vec<Keep>,
    /// Where the model has to choose what the paper does not say, and how it chose.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Programs of other people, for the workload `program`.
    pub program: Option<OtherPrograms>,
    /// What to draw.
    #[serde(default, rename = "figure")]
    pub figures: Vec<Figure>,
    /// Fixed parameters.
    #[serde(default)]
    parameters: Table,
    /// Sets of parameters to compare, each with every choice of the sweep.
    #[serde(default)]
    variant: Vec<Table>,
    /// Swept parameters.
    #[serde(default)]
    sweep: Table,
    /// Swept parameters that only a kernel has.
    #[serde(default)]
    live_sweep: Table,
    /// More values of these for the profile of a sender on a kernel.
    #[serde(default)]
    kernel_sweep: Table,
    /// Of long sweeps, the values that text shows; other forms have all.
    #[serde(default)]
    shown: Table,
    /// Name of its file without the folder, where it does not come with the program.
    #[serde(skip)]
    own_file: Option<String>,
    /// What was set, one value for each name.
    #[serde(skip)]
    changes: Vec<(String, Value)>,
}

/// A kind of result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Keep {
    /// Calls of each routine at the sender.
    Calls,
    /// Seconds spent in each routine at the sender.
    Seconds,
    /// Time of each call or message.
    Time,
    /// Bits a second, first write to last read.
    Throughput,
    /// Segments with data and without, both ways.
    Packets,
    /// Every packet as a wire trace shows it.
    Wire,
    /// System calls of the client.
    SystemCalls,
    /// Records at the eight points.
    Trace,
    /// Numbers that only this workload has.
    Measures,
}

impl Experiment {
    /// Reads an experiment; `file` is named in messages.
    ///
    /// # Errors
    ///
    /// When it is not TOML of this form, a parameter is unknown or has no sense, or the sweep makes
    /// no case or too many.
    pub fn parse(file: &str, text: &str) -> Result<Self> {
        let mut experiment: Self =
            toml::from_str(text).map_err(|error| Error::toml(file, text, &error))?;
        experiment.own_file = Some(file_name(file));
        let refuse = |problem| Error::file(file, problem);
        experiment.validate().map_err(refuse)?;
        experiment.check_figures().map_err(refuse)?;
        experiment.with_live_sweep().validate().map_err(refuse)?;
        experiment.check_values_of_kernel().map_err(refuse)?;
        Ok(experiment)
    }

    /// Replaces a parameter, swept or fixed, by one value, as `data_bytes=4800`.
    ///
    /// # Errors
    ///
    /// When `text` is no such pair, or the experiment makes no sense with it.
    pub fn set(&mut self, text: &str) -> Result<()> {
        self.set_all(&[text])
    }

    /// Replaces parameters as [`Experiment::set`] does; only all of them together must make sense.
    ///
    /// # Errors
    ///
    /// When one is no pair of name and value, a name has a second value, or the experiment makes no
    /// sense with them.
    pub fn set_all<T: AsRef<str>>(&mut self, changes: &[T]) -> Result<()> {
        one_value_each(changes)?;
        let given = || changes.iter().map(|text| format!("--set {}", text.as_ref()));
        let refuse = |problem: String| Error::file(&given().collect::<Vec<_>>().join(" "), problem);
        let pairs: Vec<_> =
            changes.iter().map(|text| name_and_value(text.as_ref())).collect::<Result<_>>()?;
        let mut changed = self.clone();
        let done = changed.replace(&pairs).or_else(|problem| {
            // Where not every variant makes sense with the values, they pick those that have them.
            changed = self.clone();
            if !changed.pick(&pairs) {
                return Err(problem);
            }
            changed.replace(&pairs).map_err(|_| problem)
        });
        done.map_err(refuse)?;
        *self = changed;
        Ok(())
    }

    /// Replaces parameters in all variants, and says what makes no sense then.
    fn replace(&mut self, pairs: &[(String, Value)]) -> std::result::Result<(), String> {
        for (name, value) in pairs {
            self.sweep.remove(name);
            self.shown.remove(name);
            self.variant.iter_mut().for_each(|variant| drop(variant.remove(name)));
            self.changes.retain(|(other, _)| other != name);
            self.changes.push((name.clone(), value.clone()));
            self.parameters.insert(name.clone(), value.clone());
        }
        self.variant = distinct(std::mem::take(&mut self.variant));
        self.validate()?;
        self.check_link()
    }

    /// Keeps the variants that have none of these names, or with this value; whether some are left out, and
    /// some are not.
    fn pick(&mut self, pairs: &[(String, Value)]) -> bool {
        let all = self.variant.len();
        let has = |variant: &Table, (name, value): &(String, Value)| {
            variant.get(name).is_none_or(|its| its == value)
        };
        self.variant.retain(|variant| pairs.iter().all(|pair| has(variant, pair)));
        (1..all).contains(&self.variant.len())
    }

    /// Refuses a link that was set where no case has one.
    fn check_link(&self) -> std::result::Result<(), String> {
        let is_set = self.changes.iter().any(|(name, _)| name == "link");
        let cases = self.expand()?;
        let has_none = cases.iter().all(|case| case.parameters.topology == Topology::Loopback);
        if is_set && has_none {
            return Err("`link` needs two hosts, and `topology = \"loopback\"` has one: set topology=pair too"
                .to_owned());
        }
        Ok(())
    }

    /// The same without these parameters and these kinds of results, as on something that does not have them. Cases that
    /// only differed in one of the parameters are one, and figures of some of them are of all.
    ///
    /// # Errors
    ///
    /// When it makes no sense without them, or no result is left.
    pub fn without(&self, parameters: &[&str], results: &[Keep]) -> Result<Self> {
        let mut rest = self.clone();
        if parameters.contains(&"machine") {
            // A variant holds the packets of its machine to the size of the others'.
            let of_machine =
                rest.variant.iter_mut().filter(|variant| variant.contains_key("machine"));
            of_machine.for_each(|variant| drop(variant.remove("segment_bytes")));
        }
        for name in parameters {
            rest.parameters.remove(*name);
            rest.sweep.remove(*name);
            rest.shown.remove(*name);
            rest.variant.iter_mut().for_each(|variant| drop(variant.remove(*name)));
            rest.changes.retain(|(other, _)| other != name);
            rest.figures.iter_mut().for_each(|figure| drop(figure.only.remove(*name)));
        }
        rest.variant = distinct(std::mem::take(&mut rest.variant));
        rest.record.retain(|keep| !results.contains(keep));
        if rest.record.is_empty() {
            return Err(Error::file(
                &self.file(),
                "none of its results can be measured there".to_owned(),
            ));
        }
        Ok(rest)
    }

    /// The same with the parameters that are swept on a kernel alone, which change fastest. One that was set, or that
    /// the file gives otherwise, has that value.
    #[must_use]
    pub fn with_live_sweep(&self) -> Self {
        let mut all = self.clone();
        let given: BTreeSet<String> =
            self.parameter_names().into_iter().map(str::to_owned).collect();
        let more = self.live_sweep.iter().filter(|(name, _)| !given.contains(*name));
        all.sweep.extend(more.map(|(name, values)| (name.clone(), values.clone())));
        all
    }

    /// Leaves out these values of a parameter, as on something that does not have them. Variants and values of the
    /// sweep that only differed in one of them are one.
    pub fn drop_values(&mut self, name: &str, is_dropped: impl Fn(&Value) -> bool) {
        let tables = self.variant.iter_mut().chain([&mut self.parameters]);
        for table in tables {
            if table.get(name).is_some_and(&is_dropped) {
                table.remove(name);
            }
        }
        if let Some(Value::Array(values)) = self.sweep.get_mut(name) {
            values.retain(|value| !is_dropped(value));
            if values.is_empty() {
                self.sweep.remove(name);
            }
        }
        self.variant = distinct(std::mem::take(&mut self.variant));
    }

    /// Makes a number of the file, fixed or of a variant, `most` where it is greater. What was set, and what is swept,
    /// stays. Gives the greatest value that it replaced.
    pub fn shorten(&mut self, name: &str, most: i64) -> Option<i64> {
        if self.changes.iter().any(|(other, _)| other == name) {
            return None;
        }
        let mut replaced = None;
        for table in self.variant.iter_mut().chain([&mut self.parameters]) {
            if let Some(Value::Integer(value)) =
                table.get_mut(name).filter(|it| it.as_integer() > Some(most))
            {
                replaced = replaced.max(Some(*value));
                *value = most;
            }
        }
        self.variant = distinct(std::mem::take(&mut self.variant));
        replaced
    }

    /// Adds the values of `kernel_sweep` to the sweep. A parameter that was set has its value alone.
    pub fn add_values_of_kernel(&mut self) {
        for (name, more) in &self.kernel_sweep {
            if let (Some(Value::Array(values)), Value::Array(more)) =
                (self.sweep.get_mut(name), more)
            {
                values.extend(
                    more.iter()
                        .filter(|value| !values.contains(value))
                        .cloned()
                        .collect::<Vec<_>>(),
                );
            }
        }
    }

    /// Whether a case has a value of `kernel_sweep`.
    pub fn is_of_kernel(&self, case: &Case) -> bool {
        let has = |(name, more): (&String, &Value)| {
            more.as_array().zip(case.value(name)).is_some_and(|(more, value)| more.contains(value))
        };
        self.kernel_sweep.iter().any(has)
    }

    /// Names of all parameters that the file gives, fixed, of variants and swept.
    pub fn parameter_names(&self) -> BTreeSet<&str> {
        let variants = self.variant.iter().flat_map(Table::keys);
        let names = self.parameters.keys().chain(variants).chain(self.sweep.keys());
        names.map(String::as_str).collect()
    }

    /// The cases in order.
    ///
    /// # Errors
    ///
    /// When a parameter is unknown, of the wrong type or without sense.
    pub fn cases(&self) -> Result<Vec<Case>> {
        self.expand().map_err(|problem| Error::file(&self.file(), problem))
    }

    /// The command line that runs the first repetition of `case` again. Files stand in it without
    /// their folder, which differs from one computer to the next.
    pub fn command(&self, case: &Case) -> Vec<String> {
        let name = self.own_file.as_ref().unwrap_or(&self.id);
        let mut command = ["sockscope", "lab", "run", name].map(str::to_owned).to_vec();
        let swept = &case.named[case.named.len() - case.swept..];
        // Where other variants make no sense with these values, the case is one of those that run.
        let alone: Vec<_> = swept.iter().map(|(name, value)| change(name, value)).collect();
        let is_possible = self.clone().set_all(&alone).is_ok();
        let swept = if is_possible { swept } else { &[] };
        for (name, value) in self.changes.iter().chain(swept) {
            command.push("--set".to_owned());
            command.push(match value {
                Value::String(path) if name == "machine" => format!("{name}={}", file_name(path)),
                _ => change(name, value),
            });
        }
        command.extend(["--seed".to_owned(), self.seed.to_string()]);
        if self.repetitions > 1 {
            command.extend(["--repetitions", "1"].map(str::to_owned));
        }
        command
    }

    /// The name of the trace bundle of a case, as `lh-4-total_bytes-5118.sockscope`: swept parameters name the case.
    /// What else than letters, digits and `._-` stands in them, as in the path of a machine's file, becomes `_`.
    pub fn bundle_name(&self, case: &Case) -> String {
        let swept = &case.named[case.named.len() - case.swept..];
        let parts = swept.iter().map(|(name, value)| format!("-{name}-{}", word(value)));
        let name = format!("{}{}.sockscope", self.id, parts.collect::<String>());
        name.replace(|letter: char| !letter.is_ascii_alphanumeric() && !"._-".contains(letter), "_")
    }

    /// Whether `what` is to be kept.
    pub fn keeps(&self, what: Keep) -> bool {
        self.record.contains(&what)
    }

    /// Whether text shows `case`.
    pub fn shows(&self, case: &Case) -> bool {
        self.shown.iter().all(|(name, values)| {
            let value = case.value(name);
            values.as_array().zip(value).is_none_or(|(values, value)| values.contains(value))
        })
    }

    /// The error of a run of `case` that gave nothing, for this reason.
    pub fn failed(&self, case: &Case, problem: String) -> Error {
        let case = if case.has_words() { format!("case {}", case.words()) } else { case.words() };
        Error::Run { experiment: self.id.clone(), case, problem }
    }

    /// Path of its file in the project.
    pub fn file(&self) -> String {
        format!("experiments/{}.toml", self.id)
    }

    fn validate(&self) -> std::result::Result<(), String> {
        // Results and bundles are named after it.
        if !figure::is_file_name(&self.id) {
            return Err(format!("id `{}`: expected letters, digits and `-`", self.id));
        }
        let papers = papers::PAPERS;
        // Nobody's paper has an experiment of one's own with the programs of others.
        let is_own = self.workload == Workload::Program && self.paper == "none";
        if !is_own && !papers.contains(&self.paper.as_str()) {
            return Err(format!(
                "no paper `{}`: expected one of {}",
                self.paper,
                papers.join(", ")
            ));
        }
        if !(1..=REPETITIONS_MAX).contains(&self.repetitions) {
            return Err(format!("expected 1 to {REPETITIONS_MAX} repetitions"));
        }
        if self.record.is_empty() {
            return Err("expected something to record".to_owned());
        }
        if self.workload.has_measures_alone() && self.record != [Keep::Measures] {
            return Err(format!("`{}` gives `measures` and nothing else", self.workload.name()));
        }
        let of_vmtp = [Keep::Time, Keep::Throughput, Keep::Measures];
        let is_vmtp = self.workload == Workload::VmtpCalls;
        if is_vmtp && !self.record.iter().all(|keep| of_vmtp.contains(keep)) {
            return Err("`vmtp-calls` gives `time`, `throughput` and `measures`".to_owned());
        }
        if (self.workload == Workload::Program) != self.program.is_some() {
            return Err("the table `program` goes with `workload = \"program\"`".to_owned());
        }
        if let Some(program) = &self.program {
            program.validate()?;
            let of_programs = [Keep::Throughput, Keep::Packets, Keep::Measures];
            if !self.record.iter().all(|keep| of_programs.contains(keep)) {
                return Err("`program` gives `throughput`, `packets` and `measures`".to_owned());
            }
        }
        self.check_shown()?;
        let mut on_kernel = self.clone();
        on_kernel.add_values_of_kernel();
        for case in on_kernel.expand()? {
            case.validate(self.workload)?;
        }
        Ok(())
    }

    /// Figures are checked against the file alone: one whose cases are set away is not drawn.
    fn check_figures(&self) -> std::result::Result<(), String> {
        let (cases, keeps_traces) = (self.expand()?, self.keeps(Keep::Trace));
        self.figures.iter().try_for_each(|figure| figure.validate(&cases, keeps_traces))
    }

    /// Checked against the file alone: a swept parameter may be set later.
    fn check_values_of_kernel(&self) -> std::result::Result<(), String> {
        let is_list = |name: &str| self.sweep.get(name).is_some_and(Value::is_array);
        let wrong =
            self.kernel_sweep.iter().find(|(name, more)| !(more.is_array() && is_list(name)));
        wrong.map_or(Ok(()), |(name, _)| {
            Err(format!("`kernel_sweep`: expected a list of more values of `{name}`, which `sweep` has as a list"))
        })
    }

    fn check_shown(&self) -> std::result::Result<(), String> {
        let cases = self.expand()?;
        for (name, values) in &self.shown {
            let is_run = |value: &Value| cases.iter().any(|case| case.value(name) == Some(value));
            if !values.as_array().is_some_and(|values| values.iter().all(is_run)) {
                return Err(format!("`shown`: expected a list of values that `{name}` has"));
            }
        }
        Ok(())
    }

    fn expand(&self) -> std::result::Result<Vec<Case>, String> {
        let choices = sweep::choices(&self.variant, &self.sweep)?.into_iter();
        choices.map(|swept| Case::new(self.workload, &self.parameters, swept)).collect()
    }
}

/// Refuses a second value for a name: changes are replacements, each as `data_bytes=4800`. What is no
/// such pair is left to whoever reads it.
///
/// # Errors
///
/// When two changes have the same name; tells the later one.
pub fn one_value_each<T: AsRef<str>>(changes: &[T]) -> Result<()> {
    let mut names = BTreeSet::new();
    for text in changes.iter().map(AsRef::as_ref) {
        if text.split_once('=').is_some_and(|(name, _)| !names.insert(name)) {
            let problem = "one value for each name; run once for each value";
            return Err(Error::file(&format!("--set {text}"), problem));
        }
    }
    Ok(())
}

/// The name and the value of a change, as `data_bytes=4800`.
fn name_and_value(text: &str) -> Result<(String, Value)> {
    let refuse = || Error::file(&format!("--set {text}"), "expected NAME=VALUE");
    let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, value) = pair.ok_or_else(refuse)?;
    // What is no number and no boolean is taken as a word.
    let value = value.parse().unwrap_or_else(|_| Value::String(value.to_owned()));
    Ok((name.to_owned(), value))
}

/// A parameter and its value, as [`Experiment::set`] takes them.
fn change(name: &str, value: &Value) -> String {
    match value {
        // A word that would be taken for a number.
        Value::String(text) if text.parse::<Value>().is_ok() => format!("{name}={text:?}"),
        Value::Float(number) => format!("{name}={number:?}"),
        _ => format!("{name}={}", word(value)),
    }
}

/// The last part of a path.
fn file_name(path: &str) -> String {
    let name = Path::new(path).file_name();
    name.map_or_else(|| path.to_owned(), |name| name.to_string_lossy().into_owned())
}

/// Each variant once: those that only differed in what is set now are the same.
fn distinct(variants: Vec<Table>) -> Vec<Table> {
    let mut kept = Vec::new();
    for variant in variants {
        if !kept.contains(&variant) {
            kept.push(variant);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
        id = "x-1"
        title = "t"
        paper = "layering"
        source = "s"
        question = "q"
        workload = "rpc-echo"
        seed = 1
        repetitions = 2
        record = ["time"]
        [parameters]
        machine = "vax-11-750"
        personality = "sunos-4.1"
        calls = 3
        [sweep]
        data_bytes = { from = 0, to = 8, step = 4, also = [4, 6] }
        nodelay = [false, true]
    "#;

    #[test]
    fn values_for_a_kernel_are_no_cases_of_the_model() {
        let text = FILE.replace("[sweep]", "[kernel_sweep]\nnodelay = [true]\n[sweep]");
        let mut experiment =
            Experiment::parse("x", &text.replace("[false, true]", "[false]")).unwrap();
        assert_eq!(experiment.cases().unwrap().len(), 4);
        experiment.add_values_of_kernel();
        let cases = experiment.cases().unwrap();
        let of_kernel = cases.iter().filter(|case| experiment.is_of_kernel(case)).count();
        assert_eq!((cases.len(), of_kernel), (8, 4));
        experiment.set("nodelay=false").unwrap();
        experiment.add_values_of_kernel();
        assert_eq!(experiment.cases().unwrap().len(), 4, "what was set is the only value");
        let wrong = text.replace("nodelay = [true]", "calls = [5]");
        let error = Experiment::parse("x", &wrong).unwrap_err().to_string();
        assert!(
            error.contains("`kernel_sweep`: expected a list of more values of `calls`"),
            "{error}"
        );
    }

    #[test]
    fn vmtp_takes_its_own_parameters_and_gives_no_packets() {
        const VMTP: &str = r#"
            id = "x-1"
            title = "t"
            paper = "protocol-choice"
            source = "s"
            question = "q"
            workload = "vmtp-calls"
            seed = 1
            repetitions = 1
            record = ["time"]
            [parameters]
            machine = "decstation-3100"
            request_bytes = 100
            run_ms = 100
        "#;
        let told = |from: &str, to: &str| {
            let parsed = Experiment::parse("x", &VMTP.replace(from, to));
            parsed.map(|it| it.id).map_err(|error| error.to_string())
        };
        assert_eq!(told("t", "t"), Ok("x-1".to_owned()));
        for (from, to, words) in [
            ("[\"time\"]", "[\"wire\"]", "`vmtp-calls` gives `time`, `throughput` and `measures`"),
            ("= 100\n", "= 20000\n", "expected `request_bytes` from 0 to 16384"),
            ("run_ms = 100", "run_ms = 2", "expected `run_ms` from 8 to 600000"),
            ("run_ms = 100", "", "missing field `run_ms`"),
            (
                "run_ms = 100",
                "run_ms = 100\npersonality = \"4.2bsd\"",
                "unknown field `personality`",
            ),
        ] {
            let error = told(from, to).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }

    fn problem(change: (&str, &str)) -> String {
        Experiment::parse("x", &FILE.replace(change.0, change.1)).unwrap_err().to_string()
    }

    #[test]
    fn a_sweep_makes_cases_in_order() {
        let experiment = Experiment::parse("x", FILE).unwrap();
        let words: Vec<_> = experiment.cases().unwrap().iter().map(Case::words).collect();
        assert_eq!(words.len(), 8);
        assert_eq!(words[0], "data_bytes 0, nodelay false");
        assert_eq!(words[1], "data_bytes 0, nodelay true");
        assert_eq!(words[5], "data_bytes 6, nodelay true");
        assert_eq!(words[7], "data_bytes 8, nodelay true");
    }

    #[test]
    fn a_parameter_can_be_set_to_one_value() {
        let mut experiment = Experiment::parse("x", FILE).unwrap();
        experiment.set("data_bytes=4800").unwrap();
        experiment.set("personality=reno").unwrap();
        let cases = experiment.cases().unwrap();
        assert_eq!(cases.len(), 2);
        assert_eq!(cases[0].parameters.data_bytes, Some(4800));
        assert_eq!(cases[0].parameters.personality, "reno");
        assert!(experiment.set("data_bytes").is_err());
        assert!(experiment.set("moon=3").unwrap_err().to_string().contains("moon"));
    }

    #[test]
    fn two_values_for_one_parameter_are_refused() {
        let mut experiment = Experiment::parse("x", FILE).unwrap();
        let refused = experiment.set_all(&["data_bytes=1", "calls=2", "data_bytes=2"]);
        assert!(refused.unwrap_err().to_string().contains("--set data_bytes=2: one value"));
    }

    #[test]
    fn variants_that_a_set_value_makes_alike_run_once() {
        const VARIANTS: &str = "[[variant]]\npersonality = \"tahoe\"\n\
            [[variant]]\npersonality = \"reno\"\n\
            [[variant]]\npersonality = \"reno\"\nportmap = true\n[sweep]";
        let file = FILE.replace("personality = \"sunos-4.1\"", "").replace("[sweep]", VARIANTS);
        let mut experiment = Experiment::parse("x", &file).unwrap();
        assert_eq!(experiment.cases().unwrap().len(), 3 * 8);
        experiment.set("personality=tahoe").unwrap();
        assert_eq!(experiment.cases().unwrap().len(), 2 * 8, "with a portmapper and without");
    }

    /// A value that makes no sense in all variants picks those that have it.
    #[test]
    fn a_value_picks_its_variants_where_others_make_no_sense_with_it() {
        let rules = |change: &str| {
            let mut experiment = builtin_by_id("lh-7").unwrap();
            experiment.set_all(&[change, "data_bytes=4800"]).unwrap();
            experiment.cases().unwrap().iter().map(Case::words).collect::<Vec<_>>()
        };
        let whole = "the only case";
        assert_eq!(rules("send_rule=old"), [whole, "nodelay true", "rpc_buffer_bytes 4096"]);
        let marks = ["1024", "1460", "0"].map(|mark| format!("low_water_bytes {mark}"));
        assert_eq!(rules("send_rule=low-water"), marks);
        let refused = builtin_by_id("lh-7").unwrap().set("send_rule=fill").unwrap_err().to_string();
        assert!(refused.contains("`low_water_bytes` goes with"), "no variant has it: {refused}");
    }

    #[test]
    fn a_link_that_no_case_has_is_refused() {
        let mut experiment = builtin_by_id("si-1a").unwrap();
        experiment.set("link=line-3").unwrap();
        let refused = experiment.set("topology=loopback").unwrap_err().to_string();
        assert!(refused.contains("`link` needs two hosts"), "{refused}");
        experiment.set("topology=pair").unwrap();
    }

    #[test]
    fn text_shows_of_a_long_sweep_what_the_file_says() {
        let with = |shown: &str| FILE.replace("[sweep]", &format!("[shown]\n{shown}\n[sweep]"));
        let shown = |experiment: &Experiment| {
            let cases = experiment.cases().unwrap().into_iter();
            cases.filter(|case| experiment.shows(case)).map(|case| case.words()).collect::<Vec<_>>()
        };
        let mut experiment = Experiment::parse("x", &with("data_bytes = [6]")).unwrap();
        let both = ["data_bytes 6, nodelay false", "data_bytes 6, nodelay true"];
        assert_eq!(shown(&experiment), both);
        experiment.set("data_bytes=5").unwrap();
        assert_eq!(shown(&experiment).len(), 2);
        let refused = Experiment::parse("x", &with("data_bytes = [5]")).unwrap_err().to_string();
        assert!(refused.contains("values that `data_bytes` has"), "{refused}");
    }

    #[test]
    fn a_number_is_shortened_where_it_was_not_set() {
        let mut experiment = Experiment::parse("x", FILE).unwrap();
        assert_eq!(experiment.shorten("calls", 2), Some(3));
        assert_eq!(experiment.shorten("calls", 2), None);
        assert_eq!(experiment.shorten("data_bytes", 2), None, "it is swept");
        assert!(experiment.cases().unwrap().iter().all(|case| case.parameters.calls == Some(2)));
        experiment.set("calls=9").unwrap();
        assert_eq!(experiment.shorten("calls", 2), None, "it was set");
        let cases = experiment.cases().unwrap().len();
        experiment.drop_values("nodelay", |value| value.as_bool() == Some(true));
        assert_eq!(experiment.cases().unwrap().len(), cases / 2);
    }

    #[test]
    fn files_without_sense_are_refused() {
        assert!(problem(("layering", "lasagna")).contains("expected one of sunos-ipc"));
        assert!(problem(("repetitions = 2", "repetitions = 0")).contains("repetitions"));
        assert!(problem(("record = [\"time\"]", "record = []")).contains("something to record"));
        assert!(problem(("step = 4", "step = 0")).contains("step above 0"));
        assert!(problem(("[false, true]", "[]")).contains("1 to 10000 cases"));
        assert!(problem(("nodelay = [false, true]", "calls = [1]")).contains("given twice"));
        assert!(problem(("calls = 3", "calls = 0")).contains("calls"));
        for id in ["../x-1", "/tmp/x", "", "a b"] {
            assert!(problem(("x-1", id)).contains("expected letters, digits and `-`"), "{id}");
        }
        let figure = "[[figure]]\nname = \"../x\"\ntitle = \"t\"\n[sweep]";
        assert!(problem(("[sweep]", figure)).contains("figure `../x`"));
        assert!(problem(("calls = 3", "balls = 3")).contains("balls"));
        let machine = "machine = \"vax-11-750\"";
        assert!(problem((machine, "")).ends_with("missing field `machine`"));
        let personality = "personality = \"sunos-4.1\"";
        assert!(problem((personality, "")).ends_with("missing field `personality`"));
        assert!(
            problem(("workload = \"rpc-echo\"", "workload = \"send\"")).contains("message_bytes")
        );
    }

    #[test]
    fn a_machine_s_file_among_the_variants_gives_a_bundle_a_name_of_one_part() {
        let mut experiment = builtin_by_id("lh-2").unwrap();
        experiment.id = "../own one".to_owned();
        let mut case = experiment.cases().unwrap().remove(0);
        case.named.push(("machine".to_owned(), Value::from("/tmp/my files/slow.toml")));
        case.swept = 1;
        let name = experiment.bundle_name(&case);
        assert_eq!(name, ".._own_one-machine-_tmp_my_files_slow.toml.sockscope");
    }

    const PROGRAM: &str = r#"
        id = "rate-1"
        title = "t"
        paper = "none"
        source = "s"
        question = "q"
        workload = "program"
        seed = 1
        repetitions = 1
        record = ["throughput"]
        [program]
        server = "iperf3 -s"
        ready = 5201
        command = "iperf3 -c 198.18.0.2 -J"
        parse = "iperf3"
        [sweep]
        sack = [false, true]
    "#;

    #[test]
    fn programs_of_others_are_command_lines_with_a_parser() {
        let experiment = Experiment::parse("x", PROGRAM).unwrap();
        let program = experiment.program.as_ref().unwrap();
        assert_eq!((program.ready, program.parse), (Some(5201), Parser::Iperf3));
        assert_eq!(experiment.cases().unwrap().len(), 2);
        let problem = |from: &str, to: &str| {
            Experiment::parse("x", &PROGRAM.replace(from, to)).unwrap_err().to_string()
        };
        assert!(problem("ready = 5201", "").ends_with("`ready`, its port, go together"));
        assert!(problem("throughput", "calls").contains("gives `throughput`, `packets`"));
        assert!(problem("\"iperf3\"", "\"netperf\"").contains("netperf"));
        assert!(problem("\"program\"", "\"send\"").contains("no paper `none`"));
        assert!(
            problem("[sweep]", "[parameters]\nmessages = 3\n[sweep]").contains("means nothing")
        );
    }
}
