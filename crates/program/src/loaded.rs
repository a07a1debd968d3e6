//! A bundle read into memory, with notes on what is not whole.

use std::path::Path;

use sockscope_analysis::{Analyzer, Stores, TraceFacts};
use sockscope_report::Origin;
use sockscope_trace::{Bundle, Checker, Meta, Part, Problem, Source};

use crate::failure::Failure;
use crate::memory::Needs;

/// A bundle with its records in memory.
pub struct Loaded {
    /// Has the records.
    pub analyzer: Analyzer,
    /// What the bundle says of itself and what is not whole in it.
    pub facts: TraceFacts,
    /// Where the trace comes from.
    pub origin: Origin,
}

impl Loaded {
    /// Reads everything that is whole; what is not is said in the notes.
    pub fn read(dir: &Path) -> Result<Self, Failure> {
        let bundle = Bundle::open(dir)?;
        let connections = bundle.connections().len() as u64;
        let mut needs = Needs::check(dir, bundle.record_rows(), connections)?;
        let mut analyzer = Analyzer::new();
        for connection in bundle.connections() {
            analyzer.connection(connection.clone());
        }
        let mut records = bundle.records()?;
        let mut checker = Checker::new(&bundle);
        while let Some(batch) = records.next_batch()? {
            checker.add(batch);
            analyzer.push(batch);
            needs.check_batch(records.rows())?;
        }
        needs.check_analysis(analyzer.largest())?;
        let problems = checker.problems(&bundle, &records);
        let mut notes: Vec<String> = problems.iter().map(ToString::to_string).collect();
        let meta = bundle.meta();
        notes.extend(meta.notes.iter().cloned());
        let facts = TraceFacts {
            source: meta.source.name().to_owned(),
            missed: checker.missed(&bundle, &records),
            unfinished: problems.iter().any(lacks_end),
            costs: meta.cost,
            notes,
            drop_reasons: meta.drop_reasons.clone(),
            ended_ns: meta.ended_ns,
        };
        Ok(Self { analyzer, facts, origin: origin(meta) })
    }

    /// The records sorted, and the names of the reasons in them.
    pub fn into_stores(self) -> Stores {
        Stores { drop_reasons: self.facts.drop_reasons, ..self.analyzer.into_stores() }
    }
}

/// Says on standard error what a report would have in its head.
pub fn say_notes(notes: &[String]) {
    for note in notes {
        stderr!("sockscope: {note}");
    }
}

/// The clock of the times in the trace.
fn clock(source: Source) -> Option<&'static str> {
    match source {
        Source::Live | Source::Engine => Some("monotonic"),
        Source::Model => Some("virtual"),
        Source::Pcap => Some("of the capture"),
        Source::Unknown => None,
    }
}

/// Whether the end of the records was not found: later ones may be missing.
fn lacks_end(problem: &Problem) -> bool {
    match problem {
        Problem::Missing { part }
        | Problem::NotFinished { part, .. }
        | Problem::Truncated { part, .. }
        | Problem::Damaged { part, .. } => *part == Part::Records,
        Problem::CountDiffers { found, meta } => found < meta,
        _ => false,
    }
}

fn origin(meta: &Meta) -> Origin {
    let known = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    Origin {
        tool_version: known(&meta.tool_version),
        host: known(&meta.host),
        kernel: known(&meta.kernel),
        clock: clock(meta.source).map(str::to_owned),
        command: known(&meta.command.join(" ")),
    }
}
