//! An experiment: what is run, what is varied, what is recorded, and which claims it feeds.
//!
//! One file in `experiments/` each. Its fixed parameters with those of one variant and one choice of
//! the swept ones make a [`Case`]. Variants come in file order; the last swept parameter changes
//! fastest.

mod atm;
mod bounds;
mod carried;
mod parameters;
mod vmtp;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

pub(crate) use atm::VMTP_HEADER_BYTES;
pub use atm::{AtmParameters, DataFrom, DriverPart, LossPolicy};
pub use carried::{carried, carried_by_id};
pub use parameters::{
    AckRule, LinkKind, LoadAt, Parameters, Protocol, SchedulerKind, SendRule, Topology,
};

pub use vmtp::VmtpParameters;

use crate::error::{Error, Result};
use crate::figure::Figure;

/// Repetitions that a file may ask for at most.
const REPETITIONS_MAX: u32 = 10_000;

/// Cases that a sweep may make at most.
const CASES_MAX: usize = 10_000;

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
    /// Of long sweeps, the values that text shows; other forms have all.
    #[serde(default)]
    shown: Table,
}

/// What the programs do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// `messages` sends of `message_bytes` each; over TCP to a reader, over UDP to a port.
    Send,
    /// `calls` remote calls with a string of `data_bytes`, echoed.
    RpcEcho,
    /// `total_bytes` written in buffers of `write_bytes` to a reader that drops them.
    Discard,
    /// `pieces` pieces of work through one stage of a distributed application: three processes of
    /// the second host that receive, compute and send on. The first host is the stage before and
    /// the one after.
    Pipeline,
    /// `packets` packets of `data_bytes` each through the ATM driver of one machine.
    AtmSend,
    /// `messages` messages of 16 KB between two machines over ATM cells, some of which are lost.
    AtmLoss,
    /// `accesses` words written to a card one by one, with `work_cycles` after each.
    BusAccess,
    /// `clients` processes that make VMTP transactions one after the other for `run_ms`, on an
    /// Ethernet.
    VmtpCalls,
}

impl Workload {
    /// The word in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::RpcEcho => "rpc-echo",
            Self::Discard => "discard",
            Self::Pipeline => "pipeline",
            Self::AtmSend => "atm-send",
            Self::AtmLoss => "atm-loss",
            Self::BusAccess => "bus-access",
            Self::VmtpCalls => "vmtp-calls",
        }
    }

    /// Whether it runs the ATM driver or its bus alone, on [`AtmParameters`].
    fn is_atm(self) -> bool {
        matches!(self, Self::AtmSend | Self::AtmLoss | Self::BusAccess)
    }
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

/// One choice of parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// Typed.
    pub parameters: Parameters,
    /// Typed, of workloads that run the ATM driver; `parameters` then has the machine alone.
    pub atm: Option<AtmParameters>,
    /// The same of workloads that make VMTP transactions.
    pub vmtp: Option<VmtpParameters>,
    /// The same by name, in the order of the file: fixed ones, then those of the variant and the
    /// swept ones.
    pub named: Vec<(String, Value)>,
    /// How many of the last of `named` are of the variant or swept.
    pub swept: usize,
}

impl Experiment {
    /// Reads an experiment; `file` is named in messages.
    ///
    /// # Errors
    ///
    /// When it is not TOML of this form, a parameter is unknown or has no sense, or the sweep makes
    /// no case or too many.
    pub fn parse(file: &str, text: &str) -> Result<Self> {
        let experiment: Self =
            toml::from_str(text).map_err(|error| Error::toml(file, text, &error))?;
        let refuse = |problem| Error::file(file, problem);
        experiment.check_sense().map_err(refuse)?;
        experiment.check_figures().map_err(refuse)?;
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
    /// When one is no pair of name and value, or the experiment makes no sense with them.
    pub fn set_all<T: AsRef<str>>(&mut self, changes: &[T]) -> Result<()> {
        let given = || changes.iter().map(|text| format!("--set {}", text.as_ref()));
        for text in changes {
            let text = text.as_ref();
            let refuse = |problem: &str| Error::file(&format!("--set {text}"), problem);
            let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
            let (name, value) = pair.ok_or_else(|| refuse("expected NAME=VALUE"))?;
            // What is no number and no boolean is taken as a word.
            let value = value.parse().unwrap_or_else(|_| Value::String(value.to_owned()));
            self.sweep.remove(name);
            self.shown.remove(name);
            self.variant.iter_mut().for_each(|variant| drop(variant.remove(name)));
            self.parameters.insert(name.to_owned(), value);
        }
        let refuse = |problem: String| Error::file(&given().collect::<Vec<_>>().join(" "), problem);
        self.check_sense().map_err(refuse)
    }

    /// The cases in order.
    ///
    /// # Errors
    ///
    /// When a parameter is unknown, of the wrong type or without sense.
    pub fn cases(&self) -> Result<Vec<Case>> {
        self.expand().map_err(|problem| Error::file(&self.file(), problem))
    }

    /// Whether `what` is to be kept.
    #[must_use]
    pub fn keeps(&self, what: Keep) -> bool {
        self.record.contains(&what)
    }

    /// Whether text shows `case`.
    #[must_use]
    pub fn shows(&self, case: &Case) -> bool {
        self.shown.iter().all(|(name, values)| {
            let value = case.value(name);
            values.as_array().zip(value).is_none_or(|(values, value)| values.contains(value))
        })
    }

    /// Path of its file in the project.
    #[must_use]
    pub fn file(&self) -> String {
        format!("experiments/{}.toml", self.id)
    }

    fn check_sense(&self) -> std::result::Result<(), String> {
        if !crate::papers::PAPERS.contains(&self.paper.as_str()) {
            return Err(format!("`{}` is not the folder of a paper", self.paper));
        }
        if !(1..=REPETITIONS_MAX).contains(&self.repetitions) {
            return Err(format!("expected 1 to {REPETITIONS_MAX} repetitions"));
        }
        if self.record.is_empty() {
            return Err("expected something to record".to_owned());
        }
        if self.workload.is_atm() && self.record != [Keep::Measures] {
            return Err(format!("`{}` gives `measures` and nothing else", self.workload.name()));
        }
        let of_vmtp = [Keep::Time, Keep::Throughput, Keep::Measures];
        let is_vmtp = self.workload == Workload::VmtpCalls;
        if is_vmtp && !self.record.iter().all(|keep| of_vmtp.contains(keep)) {
            return Err("`vmtp-calls` gives `time`, `throughput` and `measures`".to_owned());
        }
        self.check_shown()?;
        for case in self.expand()? {
            match (&case.atm, &case.vmtp) {
                (Some(atm), _) => atm.check_sense(self.workload)?,
                (_, Some(vmtp)) => vmtp.check_sense()?,
                _ => case.parameters.check_sense(self.workload)?,
            }
        }
        Ok(())
    }

    /// Figures are checked against the file alone: one whose cases are set away is not drawn.
    fn check_figures(&self) -> std::result::Result<(), String> {
        let (cases, keeps_traces) = (self.expand()?, self.keeps(Keep::Trace));
        self.figures.iter().try_for_each(|figure| figure.check_sense(&cases, keeps_traces))
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
        let variant = |table: &Table| table.clone().into_iter().collect::<Vec<_>>();
        let mut tables: Vec<_> = self.variant.iter().map(variant).collect();
        if tables.is_empty() {
            tables.push(Vec::new());
        }
        for (name, values) in &self.sweep {
            let values = swept_values(name, values)?;
            if values.is_empty() || values.len() * tables.len() > CASES_MAX {
                return Err(format!("sweep of `{name}`: expected 1 to {CASES_MAX} cases in all"));
            }
            let one_more = |table: &Vec<(String, Value)>| {
                let with = |value: &Value| {
                    let mut table = table.clone();
                    table.push((name.clone(), value.clone()));
                    table
                };
                values.iter().map(with).collect::<Vec<_>>()
            };
            tables = tables.iter().flat_map(one_more).collect();
        }
        tables.into_iter().map(|swept| self.case(swept)).collect()
    }

    fn case(&self, swept: Vec<(String, Value)>) -> std::result::Result<Case, String> {
        for (at, (name, _)) in swept.iter().enumerate() {
            let is_twice = swept[..at].iter().any(|(other, _)| other == name);
            if is_twice || self.parameters.contains_key(name) {
                return Err(format!("`{name}` is given twice"));
            }
        }
        let fixed = self.parameters.iter().map(|(name, value)| (name.clone(), value.clone()));
        let count = swept.len();
        let named: Vec<_> = fixed.chain(swept).collect();
        let table: Table = named.iter().cloned().collect();
        if self.workload.is_atm() {
            let atm: AtmParameters = typed(table, &named)?;
            let parameters = Parameters::of_machine(&atm.machine);
            return Ok(Case { parameters, atm: Some(atm), vmtp: None, named, swept: count });
        }
        if self.workload == Workload::VmtpCalls {
            let vmtp: VmtpParameters = typed(table, &named)?;
            let parameters = Parameters::of_machine(&vmtp.machine);
            return Ok(Case { parameters, atm: None, vmtp: Some(vmtp), named, swept: count });
        }
        let parameters = typed(table, &named)?;
        Ok(Case { parameters, atm: None, vmtp: None, named, swept: count })
    }
}

/// The parameters of `table`, which has what `named` has.
fn typed<T: DeserializeOwned>(
    table: Table,
    named: &[(String, Value)],
) -> std::result::Result<T, String> {
    table.try_into().map_err(|error: toml::de::Error| wrong_value::<T>(named, error.message()))
}

/// What serde says of a parameter of a `T`, with its name where a number was expected: serde tells
/// the value alone, which another parameter may have too. Whose fault it is has the same fault alone.
fn wrong_value<T: DeserializeOwned>(named: &[(String, Value)], message: &str) -> String {
    let wants_number = ["u64", "u32", "u16"].iter().any(|kind| message.ends_with(kind));
    let is_at_fault = |(name, value): &&(String, Value)| {
        let alone = Table::from_iter([(name.clone(), value.clone())]).try_into::<T>();
        wants_number && alone.is_err_and(|error| error.message() == message)
    };
    match named.iter().find(is_at_fault) {
        Some((name, value)) => format!("`{name}`: expected a whole number, not `{}`", word(value)),
        None => message.to_owned(),
    }
}

/// The values of one swept parameter: a list, or `{ from, to, step, also }`.
fn swept_values(name: &str, values: &Value) -> std::result::Result<Vec<Value>, String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Range {
        from: i64,
        to: i64,
        step: i64,
        #[serde(default)]
        also: Vec<i64>,
    }
    match values {
        Value::Array(values) => Ok(values.clone()),
        other => {
            let range: Range = other.clone().try_into().map_err(|error: toml::de::Error| {
                format!("sweep of `{name}`: {}", error.message())
            })?;
            let span = range.to.saturating_sub(range.from);
            if range.step < 1 || span / range.step >= CASES_MAX as i64 {
                return Err(format!("sweep of `{name}`: expected a step above 0, fewer values"));
            }
            let steps = (range.from..=range.to).step_by(range.step as usize);
            let mut values: Vec<i64> = steps.chain(range.also).collect();
            values.sort_unstable();
            values.dedup();
            Ok(values.into_iter().map(Value::Integer).collect())
        }
    }
}

impl Case {
    /// The swept parameters, as `data_bytes 4800, nodelay true`; `the only case` when none is.
    #[must_use]
    pub fn words(&self) -> String {
        if self.swept == 0 {
            return "the only case".to_owned();
        }
        let from = self.named.len() - self.swept;
        let words =
            self.named[from..].iter().map(|(name, value)| format!("{name} {}", word(value)));
        words.collect::<Vec<_>>().join(", ")
    }

    /// A parameter by name, as the file has it.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&Value> {
        self.named.iter().find(|(other, _)| other == name).map(|(_, value)| value)
    }
}

/// A parameter's value as one word.
#[must_use]
pub fn word(value: &Value) -> String {
    match value {
        Value::String(word) => word.clone(),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Boolean(is) => is.to_string(),
        other => format!("{other:?}"),
    }
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
    fn files_without_sense_are_refused() {
        assert!(problem(("layering", "lasagna")).contains("not the folder of a paper"));
        assert!(problem(("repetitions = 2", "repetitions = 0")).contains("repetitions"));
        assert!(problem(("record = [\"time\"]", "record = []")).contains("something to record"));
        assert!(problem(("step = 4", "step = 0")).contains("step above 0"));
        assert!(problem(("[false, true]", "[]")).contains("1 to 10000 cases"));
        assert!(problem(("nodelay = [false, true]", "calls = [1]")).contains("given twice"));
        assert!(problem(("calls = 3", "calls = 0")).contains("calls"));
        assert!(problem(("calls = 3", "balls = 3")).contains("balls"));
        assert!(
            problem(("workload = \"rpc-echo\"", "workload = \"send\"")).contains("message_bytes")
        );
    }
}
