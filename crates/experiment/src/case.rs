//! One choice of the parameters of an experiment, by name and typed.

use serde::de::DeserializeOwned;
use toml::{Table, Value};

use super::atm::AtmParameters;
use super::cache::CacheParameters;
use super::parameters::Parameters;
use super::validate;
use super::vmtp::VmtpParameters;
use super::workload::Workload;

/// One choice of parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// Typed.
    pub parameters: Parameters,
    /// Typed, of workloads that run the ATM driver; `parameters` then has the machine alone.
    pub atm: Option<AtmParameters>,
    /// The same of workloads that make VMTP transactions.
    pub vmtp: Option<VmtpParameters>,
    /// The same of the workload with a network interface and a cache.
    pub cache: Option<CacheParameters>,
    /// The same by name, in the order of the file: fixed ones, then those of the variant and the
    /// swept ones.
    pub named: Vec<(String, Value)>,
    /// How many of the last of `named` are of the variant or swept.
    pub swept: usize,
}

impl Case {
    /// The case of these parameters; what a workload has no word for is refused.
    pub(super) fn new(
        workload: Workload,
        fixed: &Table,
        swept: Vec<(String, Value)>,
    ) -> Result<Self, String> {
        for (at, (name, _)) in swept.iter().enumerate() {
            let is_twice = swept[..at].iter().any(|(other, _)| other == name);
            if is_twice || fixed.contains_key(name) {
                return Err(format!("`{name}` is given twice"));
            }
        }
        let fixed = fixed.iter().map(|(name, value)| (name.clone(), value.clone()));
        let count = swept.len();
        let named: Vec<_> = fixed.chain(swept).collect();
        let table: Table = named.iter().cloned().collect();
        let of = |parameters| Self {
            parameters,
            atm: None,
            vmtp: None,
            cache: None,
            named: named.clone(),
            swept: count,
        };
        if workload.is_atm() {
            let atm: AtmParameters = typed(table, &named, &[])?;
            let parameters = Parameters::of_machine(&atm.machine);
            return Ok(Self { atm: Some(atm), ..of(parameters) });
        }
        if workload == Workload::VmtpCalls {
            let vmtp: VmtpParameters = typed(table, &named, VmtpParameters::REQUIRED)?;
            let parameters = Parameters::of_machine(&vmtp.machine);
            return Ok(Self { vmtp: Some(vmtp), ..of(parameters) });
        }
        if workload == Workload::CacheInterface {
            let cache: CacheParameters = typed(table, &named, &[])?;
            let parameters = Parameters::of_machine(&cache.machine);
            return Ok(Self { cache: Some(cache), ..of(parameters) });
        }
        // The model has no such programs.
        let is_of_model = workload != Workload::Program;
        let required = if is_of_model { Parameters::REQUIRED } else { &[] };
        Ok(of(typed(table, &named, required)?))
    }

    /// What is wrong with its parameters.
    pub(super) fn validate(&self, workload: Workload) -> Result<(), String> {
        match (&self.atm, &self.vmtp, &self.cache) {
            (Some(atm), ..) => atm.validate(workload),
            (_, Some(vmtp), _) => vmtp.validate(),
            (.., Some(cache)) => cache.validate(),
            _ => validate::check(&self.parameters, workload),
        }
    }

    /// Whether a swept parameter tells it from others.
    pub(crate) fn has_words(&self) -> bool {
        self.swept > 0
    }

    /// The swept parameters, as `data_bytes 4800, nodelay true`; `the only case` when none is.
    pub fn words(&self) -> String {
        if !self.has_words() {
            return "the only case".to_owned();
        }
        let from = self.named.len() - self.swept;
        let words =
            self.named[from..].iter().map(|(name, value)| format!("{name} {}", word(value)));
        words.collect::<Vec<_>>().join(", ")
    }

    /// A parameter by name, as the file has it.
    pub fn value(&self, name: &str) -> Option<&Value> {
        self.named.iter().find(|(other, _)| other == name).map(|(_, value)| value)
    }
}

/// The parameters of `table`, which has what `named` has, and must have those `required`.
pub(super) fn typed<T: DeserializeOwned>(
    table: Table,
    named: &[(String, Value)],
    required: &[&str],
) -> Result<T, String> {
    let missing = required.iter().find(|name| !table.contains_key(**name));
    let wrong = |error: toml::de::Error| wrong_value::<T>(named, error.message());
    let typed = table.try_into().map_err(wrong)?;
    missing.map_or(Ok(typed), |name| Err(format!("missing field `{name}`")))
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

/// A parameter's value as one word.
pub fn word(value: &Value) -> String {
    match value {
        Value::String(word) => word.clone(),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Boolean(is) => is.to_string(),
        other => format!("{other:?}"),
    }
}
