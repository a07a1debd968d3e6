//! The result as JSON, schema `sockscope.replay/1`: docs/schema/replay.json.

use std::io::{self, Write};

use serde_json::{Value, json};
use sockscope_analysis::LedgerPart;
use sockscope_program::failure::Failure;
use sockscope_report::write_compare_json;

use super::closeness::Verdict;
use super::figures::Figures;
use super::page;
use super::result::Replayed;

/// Writes it. Times are nanoseconds, rates bytes a second, shares of 1.
pub fn write(replayed: &Replayed) -> Result<(), Failure> {
    let (writes, certain) = replayed.writes();
    let verdict = match replayed.verdict() {
        Verdict::Copy => "copy",
        Verdict::NotACopy(_) => "not_a_copy",
        Verdict::Unclear(..) => "unclear",
    };
    let has_change = !replayed.changes.is_empty();
    let document = json!({
        "schema": "sockscope.replay/1",
        "tool_version": env!("CARGO_PKG_VERSION"),
        "connection": replayed.file.connection,
        "processes": replayed.file.processes,
        "on": "live",
        "changes": replayed.changes.split(", ").filter(|text| !text.is_empty()).collect::<Vec<_>>(),
        "writes": writes,
        "certain_writes": certain,
        "original": figures(&replayed.original),
        "unchanged": figures(&replayed.unchanged.median()),
        "unchanged_runs": replayed.unchanged.figures.iter().map(figures).collect::<Vec<_>>(),
        "verdict": verdict,
        "verdict_text": page::copy(replayed),
        "changed": has_change.then(|| figures(&replayed.changed.median())),
        "changed_runs": replayed.changed.figures.iter().map(figures).collect::<Vec<_>>(),
        "cpus": replayed.cpus.map(|cpus| cpus.to_string()),
        "changed_other_cpus": replayed.cpus.filter(|_| !replayed.other_cpus.figures.is_empty())
            .map(|_| figures(&replayed.other_cpus.median())),
        "changed_as_recorded": replayed.as_recorded.as_ref().map(figures),
        "steps": replayed.after_wait.1,
        "steps_after_wait": replayed.after_wait.0,
        "own_ns": { "client": replayed.own_ns[0], "server": replayed.own_ns[1] },
        "compare": if has_change { compare(replayed)? } else { Value::Null },
    });
    let text = serde_json::to_string_pretty(&document).map_err(io::Error::from)?;
    writeln!(io::stdout(), "{text}").map_err(|error| Failure::output(&error))
}

fn figures(figures: &Figures) -> Value {
    let ledger = |shares: &[f64]| -> Value {
        let places = LedgerPart::ALL.into_iter().zip(shares);
        places.map(|(part, share)| (part.name().to_owned(), json!(share))).collect()
    };
    let [client, server] = &figures.shares;
    json!({
        "exchanges": figures.exchanges,
        "exchange_p50_ns": figures.p50_ns,
        "exchange_p99_ns": figures.p99_ns,
        "throughput_bytes_per_s": figures.throughput,
        "same_cpu": figures.same_cpu,
        "steal_share": figures.steal,
        "ledger": { "client": ledger(client), "server": ledger(server) },
    })
}

/// As `sockscope compare --format json` writes it.
fn compare(replayed: &Replayed) -> Result<Value, Failure> {
    let mut text = Vec::new();
    write_compare_json(&replayed.comparison(), &mut text)?;
    Ok(serde_json::from_slice(&text).map_err(io::Error::from)?)
}
