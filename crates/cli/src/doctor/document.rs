//! `sockscope doctor --format json`: one document.

use serde::Serialize;
use sockscope_probe::{Error, Fix, HitCost, HookReport, Outcome, Right};
use sockscope_program::machine;

const SCHEMA: &str = "sockscope.doctor/1";

/// What works on a machine, what is missing and what a probe hit costs.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(title = SCHEMA))]
pub struct Document<'a> {
    #[cfg_attr(test, schemars(extend("const" = SCHEMA)))]
    schema: &'static str,
    tool_version: &'static str,
    host: String,
    kernel: String,
    can_record: bool,
    /// Why recording does not work; null where it does.
    problem: Option<String>,
    rights: Vec<RightView>,
    /// Empty where the hooks cannot be tried.
    hooks: Vec<HookView<'a>>,
    /// Socket options that `sockscope try` sets; empty where they cannot be tried.
    fixes: Vec<FixView>,
}

/// A socket option that was set on a socket of the doctor's own.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FixView {
    /// As on the command line of `try`.
    fix: String,
    /// As `TCP_NODELAY`.
    option: &'static str,
    accepted: bool,
    /// The kernel's reason; null where it accepted the option.
    problem: Option<String>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RightView {
    /// Of a capability, as `CAP_BPF`, or of a file's rights.
    name: &'static str,
    held: bool,
    needed_for: &'static str,
}

/// One probe and the hook of the kernel that it uses.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct HookView<'a> {
    program: &'static str,
    /// As `tp_btf/tcp_probe`: the kind of hook and the kernel's name.
    hook: &'static str,
    /// Names of the points that it records.
    points: Vec<&'static str>,
    observes: &'static str,
    /// First version of Linux that has it.
    since: &'static str,
    works: bool,
    /// Hooks that replace it on this kernel.
    stand_ins: &'a [&'static str],
    /// Why it does not work; null where it does.
    problem: Option<&'a str>,
    /// What a recording lacks without it.
    without: &'static str,
    /// Mean time of a hit, nanoseconds; null where it was not measured or had too few hits.
    cost_ns_gross: Option<f64>,
    /// The same without the time of an empty program.
    cost_ns_net: Option<f64>,
}

impl<'a> Document<'a> {
    /// From what was found; `cost` has the measured cost of a program.
    pub fn new(
        hooks: &'a Result<Vec<HookReport>, Error>,
        rights: &[Right],
        cost: impl Fn(&str) -> Option<&'a HitCost>,
        fixes: Option<&Result<Vec<(Fix, Outcome)>, Error>>,
    ) -> Self {
        let fix = |(fix, outcome): &(Fix, Outcome)| FixView {
            fix: fix.to_string(),
            option: fix.kind.option_name(),
            accepted: outcome.accepted > 0,
            problem: (outcome.accepted == 0).then(|| refusal(outcome)),
        };
        let tried = fixes.and_then(|fixes| fixes.as_ref().ok());
        let view = |report: &'a HookReport| {
            let cost = cost(report.entry.program);
            HookView {
                program: report.entry.program,
                hook: report.entry.hook,
                points: report.entry.points.iter().map(|point| point.name()).collect(),
                observes: report.entry.observes,
                since: report.entry.since,
                works: report.problem.is_empty(),
                stand_ins: &report.stand_ins,
                problem: (!report.problem.is_empty()).then_some(report.problem.as_str()),
                without: report.entry.without,
                cost_ns_gross: cost.map(|cost| cost.gross_ns),
                cost_ns_net: cost.and_then(|cost| cost.net_ns),
            }
        };
        let right = |right: &Right| RightView {
            name: right.name,
            held: right.held,
            needed_for: right.needed_for,
        };
        Self {
            schema: SCHEMA,
            tool_version: env!("CARGO_PKG_VERSION"),
            host: machine::host(),
            kernel: machine::kernel(),
            can_record: hooks.is_ok(),
            problem: hooks.as_ref().err().map(ToString::to_string),
            rights: rights.iter().map(right).collect(),
            hooks: hooks.as_deref().unwrap_or_default().iter().map(view).collect(),
            fixes: tried.into_iter().flatten().map(fix).collect(),
        }
    }
}

/// Why a fix was not set on the socket of the trial.
pub fn refusal(outcome: &Outcome) -> String {
    if outcome.attempts == 0 { "not tried".to_owned() } else { outcome.reason() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_file_is_that_of_the_types() {
        let settings = schemars::generate::SchemaSettings::draft2020_12().for_serialize();
        let schema = settings.into_generator().into_root_schema_for::<Document<'_>>();
        let expected = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schema/doctor.json");
        if std::env::var_os("SOCKSCOPE_UPDATE").is_some() {
            std::fs::write(path, &expected).unwrap();
        }
        let found = std::fs::read_to_string(path).unwrap_or_default();
        assert!(found == expected, "run SOCKSCOPE_UPDATE=1 cargo test -p sockscope-cli schema");
    }
}
