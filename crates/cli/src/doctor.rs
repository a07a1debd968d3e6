//! `sockscope doctor`: what works here, what is missing, what it costs.

mod document;

use std::io::Write;
use std::time::Duration;

use sockscope_probe::{
    Cgroup, Error, Fix, HookReport, Outcome as FixOutcome, Priority, Right, When, measure,
    probe_hooks, rights, supported_fixes,
};
use sockscope_program::failure::Failure;
use sockscope_program::machine;
use sockscope_program::outcome::Outcome;

use document::{Document, refusal};

use crate::args::{self, DoctorFormat};

/// Traffic of our own for the measurement.
const MEASURE: Duration = Duration::from_millis(300);

/// The mean of fewer hits than this says nothing.
const HITS_MIN: u64 = 100;

/// `sockscope doctor`: status 1 where recording does not work.
pub fn doctor(arguments: &args::Doctor) -> Result<Outcome, Failure> {
    let hooks = probe_hooks();
    let outcome = if hooks.is_ok() { Outcome::Done } else { Outcome::Found };
    let costs = if hooks.is_ok() { measure(MEASURE).unwrap_or_default() } else { Vec::new() };
    let cost =
        |program: &str| costs.iter().find(|cost| cost.program == program && cost.hits >= HITS_MIN);
    let fixes = hooks.is_ok().then(supported_fixes);
    let mut out = std::io::stdout().lock();
    if arguments.format == DoctorFormat::Json {
        let document = Document::new(&hooks, &all_rights(), cost, fixes.as_ref());
        serde_json::to_writer_pretty(&mut out, &document)
            .map_err(|error| Failure::from(std::io::Error::from(error)))?;
        writeln!(out)?;
        return Ok(outcome);
    }
    writeln!(
        out,
        "sockscope {} on {}, Linux {}",
        env!("CARGO_PKG_VERSION"),
        machine::host(),
        machine::kernel()
    )?;
    if hooks.is_ok() {
        writeln!(out, "Recording works here.")?;
    }
    writeln!(out, "\nRights")?;
    for right in all_rights() {
        let held = if right.held { "held   " } else { "MISSING" };
        writeln!(out, "  {held}  {:<16}  {}", right.name, right.needed_for)?;
    }
    match &hooks {
        Ok(hooks) => {
            write_hooks(&mut out, hooks, &cost)?;
            fixes.iter().try_for_each(|fixes| write_fixes(&mut out, fixes))?;
        }
        Err(error) => {
            let problem = match error {
                // Which rights are needed stands above.
                Error::NoRight { right } => {
                    format!("{right} missing; run as root (sudo) or grant what is missing")
                }
                error => error.to_string(),
            };
            writeln!(out, "\nRecording does not work here: {problem}")?;
            writeln!(
                out,
                "Reports, figures and the recorded demo work: sockscope demo --recorded"
            )?;
        }
    }
    Ok(outcome)
}

/// What recording needs, what a command's group needs where that is missing, and what the recorder needs
/// to keep up.
fn all_rights() -> Vec<Right> {
    rights().into_iter().chain(Cgroup::missing_right()).chain([Priority::right()]).collect()
}

/// Whether the hook serves a recording, and not only a measurement of it.
fn is_for_users(report: &HookReport) -> bool {
    !matches!(report.entry.when, When::Measure | When::Benchmark)
}

/// The socket options that `sockscope try` can set here.
fn write_fixes(
    out: &mut impl Write,
    fixes: &Result<Vec<(Fix, FixOutcome)>, Error>,
) -> std::io::Result<()> {
    writeln!(out, "\nFixes that `sockscope try` can set")?;
    let fixes = match fixes {
        Ok(fixes) => fixes,
        Err(error) => return writeln!(out, "  none: {error}"),
    };
    for (fix, outcome) in fixes {
        let (fix, option) = (fix.to_string(), fix.kind.option_name());
        match outcome.accepted {
            0 => {
                writeln!(out, "  REFUSED   {fix:<18} {option}: {}", refusal(outcome))?;
            }
            _ => writeln!(out, "  accepted  {fix:<18} {option}")?,
        }
    }
    Ok(())
}

fn write_hooks<'a>(
    out: &mut impl Write,
    hooks: &[HookReport],
    cost: &impl Fn(&str) -> Option<&'a sockscope_probe::HitCost>,
) -> std::io::Result<()> {
    writeln!(
        out,
        "\nHooks                              points  ns a hit (net of an empty program)  state"
    )?;
    for report in hooks.iter().filter(|report| is_for_users(report)) {
        let points: Vec<String> =
            report.entry.points.iter().map(|point| point.number().to_string()).collect();
        let points = if points.is_empty() { "-".to_owned() } else { points.join(" ") };
        let measured = match cost(report.entry.program) {
            Some(cost) => match cost.net_ns {
                Some(net) => format!("{:.0} ({:.0})", cost.gross_ns, net.max(0.0)),
                None => format!("{:.0}", cost.gross_ns),
            },
            None => "?".to_owned(),
        };
        let state = match (report.problem.is_empty(), report.entry.when) {
            (false, _) => report.replacement().unwrap_or_else(|| {
                format!("MISSING: {}; without it: {}", report.problem, report.entry.without)
            }),
            (true, When::Always | When::Control) => "used".to_owned(),
            (true, When::Devices) => "used while there are veth or tun devices".to_owned(),
            (true, When::Datagrams) => "used while datagrams are logged".to_owned(),
            (true, When::Calls) => "used with --calls".to_owned(),
            (true, When::Unix) => "used with --unix".to_owned(),
            (true, When::InBand) => "used with --in-band".to_owned(),
            (true, _) => "works".to_owned(),
        };
        let state = match report.entry.points.is_empty() {
            true => format!("{state}: {}", report.entry.observes),
            false => state,
        };
        writeln!(out, "  {:<32} {points:<7} {measured:<37} {state}", report.entry.hook)?;
    }
    writeln!(
        out,
        "\nA hit's cost was measured on calls of 100 bytes over loopback, all logged; ? had fewer than {HITS_MIN}."
    )
}
