//! The result of `sockscope try` as JSON, schema `sockscope.try/1`.

use std::io::Write;

use serde::Serialize;
use sockscope_analysis::{Analysis, Distribution, LedgerPart};
use sockscope_program::failure::Failure;
use sockscope_report::{Options, Report, findings_by_cost, write_verdict};

use super::difference::Difference;
use super::page;
use super::rounds::{Figure, Trial};

const SCHEMA: &str = "sockscope.try/1";

/// A fix tried on an unchanged command. Times are nanoseconds, rates bytes a second.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(title = SCHEMA))]
struct Document {
    #[cfg_attr(test, schemars(extend("const" = SCHEMA)))]
    schema: &'static str,
    tool_version: &'static str,
    command: Vec<String>,
    /// Empty where no finding of the first run has one that can be tried.
    fixes: Vec<FixView>,
    /// As `client`.
    sides: &'static str,
    /// The finding that the fix is from; null where the fix was named.
    chosen: Option<ChosenView>,
    /// Findings that cost more, whose fix is a change of the program.
    program_changes: Vec<ChosenView>,
    rounds: Vec<RoundView>,
    without: Option<Kind>,
    with: Option<Kind>,
    /// Of the median exchange of a round; null without exchanges.
    exchange_p50_ns: Option<Difference>,
    /// Of the throughput of a round.
    throughput_bytes_per_s: Option<Difference>,
    /// Changed sockets.
    sockets: Sockets,
    peers: Vec<String>,
    notes: Vec<String>,
    result: String,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Sockets {
    command: u32,
    peers: u32,
    /// Of the processes that --pid names.
    processes: u32,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FixView {
    fix: String,
    /// As `TCP_NODELAY`.
    option: &'static str,
    /// Sockets on which it was tried.
    attempts: u64,
    accepted: u64,
    refused: u64,
    /// The kernel's reason for the last refusal; null where none was refused.
    reason: Option<String>,
    /// Sockets on which the program set another value later.
    overridden: u64,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ChosenView {
    finding: &'static str,
    side: &'static str,
    summary: String,
    fix: String,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RoundView {
    with_fix: bool,
    /// Folder of its bundle; null where it is not kept.
    bundle: Option<String>,
    /// As `exit status 0`.
    ended: String,
    exchanges: u64,
    exchange_p50_ns: Option<f64>,
    throughput_bytes_per_s: Option<f64>,
    missed_records: u64,
}

/// Rounds of one kind.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Kind {
    /// The verdict on the round in the middle, as text.
    verdict: String,
    /// Findings of the round in the middle.
    findings: Vec<FindingView>,
    /// Of the flow that carried most bytes in the round in the middle, nanoseconds by place.
    ledger: Vec<Place>,
    /// Of all rounds of the kind.
    exchanges_ns: Option<Times>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FindingView {
    id: &'static str,
    count: u64,
    cost_ns: u64,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Place {
    place: &'static str,
    ns: u64,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Times {
    count: u64,
    mean: f64,
    min: u64,
    p50: u64,
    p90: u64,
    p99: u64,
    max: u64,
}

/// Writes it.
pub fn write(trial: &Trial<'_>, out: &mut dyn Write) -> Result<(), Failure> {
    let document = document(trial)?;
    serde_json::to_writer_pretty(&mut *out, &document)
        .map_err(|error| Failure::from(std::io::Error::from(error)))?;
    Ok(writeln!(out)?)
}

fn document(trial: &Trial<'_>) -> Result<Document, Failure> {
    let view = |finding: &sockscope_analysis::Finding| ChosenView {
        finding: finding.id.name(),
        side: finding.side.name(),
        summary: finding.summary.clone(),
        fix: finding.fix.clone(),
    };
    let overrides = page::overrides(trial);
    let of_fix = |at: usize| {
        overrides.iter().filter(|one| one.fix == at).map(|one| one.sockets).sum::<u64>()
    };
    let fixes = trial.fixes.iter().zip(trial.outcomes()).enumerate();
    let total = |at: usize| {
        trial.rounds.iter().filter_map(|round| round.forced.sockets.get(at)).sum::<u32>()
    };
    let chosen = trial.chosen.as_ref();
    let words = trial.arguments.command.iter().map(|word| word.to_string_lossy().into_owned());
    Ok(Document {
        schema: SCHEMA,
        tool_version: env!("CARGO_PKG_VERSION"),
        command: words.collect(),
        fixes: fixes
            .map(|(at, (fix, outcome))| FixView {
                fix: fix.to_string(),
                option: fix.kind.option_name(),
                attempts: outcome.attempts,
                accepted: outcome.accepted,
                refused: outcome.refused,
                reason: (outcome.refused > 0).then(|| outcome.reason()),
                overridden: of_fix(at),
            })
            .collect(),
        sides: page::sides(trial.sides),
        chosen: chosen.and_then(|chosen| chosen.finding.as_ref()).map(view),
        program_changes: chosen.map(|it| it.changes.iter().map(view).collect()).unwrap_or_default(),
        rounds: trial
            .rounds
            .iter()
            .map(|round| RoundView {
                with_fix: round.with_fix,
                bundle: trial.arguments.output.as_ref().map(|_| round.dir.display().to_string()),
                ended: crate::command::ending(round.status),
                exchanges: round.exchanges_ns.len() as u64,
                exchange_p50_ns: round.exchange_p50(),
                throughput_bytes_per_s: round.throughput_bytes_per_s,
                missed_records: round.missed,
            })
            .collect(),
        without: kind(trial, false)?,
        with: kind(trial, true)?,
        exchange_p50_ns: trial.difference(Figure::Exchanges),
        throughput_bytes_per_s: trial.difference(Figure::Throughput),
        sockets: Sockets { command: total(0), peers: total(1), processes: total(2) },
        peers: trial.peers(),
        notes: page::notes(trial),
        result: page::result(trial, &Options::default()),
    })
}

fn kind(trial: &Trial<'_>, with_fix: bool) -> Result<Option<Kind>, Failure> {
    let Some((analysis, origin)) = trial.analysis(with_fix)? else { return Ok(None) };
    let options = Options { full: false, ..Options::default() };
    let report = Report { origin: &origin, analysis: &analysis, options: &options };
    let mut verdict = Vec::new();
    write_verdict(&report, &mut verdict)?;
    let finding = |finding: &&sockscope_analysis::Finding| FindingView {
        id: finding.id.name(),
        count: finding.count,
        cost_ns: finding.cost_ns,
    };
    Ok(Some(Kind {
        verdict: String::from_utf8_lossy(&verdict).trim_end().to_owned(),
        findings: findings_by_cost(&report).iter().map(finding).collect(),
        ledger: ledger(&analysis),
        exchanges_ns: trial.exchanges(with_fix).map(|times| {
            let Distribution { count, mean, min, p50, p90, p99, max } = times;
            Times { count, mean, min, p50, p90, p99, max }
        }),
    }))
}

fn ledger(analysis: &Analysis) -> Vec<Place> {
    let flows = analysis.connections.iter().flat_map(|connection| &connection.flows);
    let Some(largest) = flows.max_by_key(|flow| flow.bytes) else { return Vec::new() };
    let places = LedgerPart::ALL.into_iter().zip(largest.ledger.ns);
    places.map(|(part, ns)| Place { place: part.name(), ns }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_file_is_that_of_the_types() {
        let settings = schemars::generate::SchemaSettings::draft2020_12().for_serialize();
        let schema = settings.into_generator().into_root_schema_for::<Document>();
        let expected = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schema/try.json");
        if std::env::var_os("SOCKSCOPE_UPDATE").is_some() {
            std::fs::write(path, &expected).unwrap();
        }
        let found = std::fs::read_to_string(path).unwrap_or_default();
        assert!(found == expected, "run SOCKSCOPE_UPDATE=1 cargo test -p sockscope-cli schema");
    }
}
