//! `sockscope report` and `sockscope show`: a bundle read, analysed, printed.

use std::io::{BufWriter, Write};
use std::path::Path;

use sockscope_analysis::{Analysis, Analyzer, Stores, TraceFacts};
use sockscope_record::FlowId;
use sockscope_report::{Csv, Format, Json, Options, Origin, Report, ShowOptions, Text};
use sockscope_trace::{Bundle, Checker, Meta, Part, Problem, Source};

use crate::args::{self, FormatArg, PrintArgs, ShowFormat};
use crate::failure::Failure;
use crate::memory::Needs;
use crate::{Outcome, place, terminal};

/// `sockscope report`.
pub fn report(arguments: &args::Report) -> Result<Outcome, Failure> {
    print(&arguments.dir, arguments.print, arguments.flow.map(FlowId), &arguments.output)
}

/// `sockscope show`.
pub fn show(arguments: &args::Show) -> Result<(), Failure> {
    let loaded = Loaded::read(&arguments.dir)?;
    loaded.say_notes();
    let drop_reasons = loaded.facts.drop_reasons;
    let stores = loaded.analyzer.into_stores();
    let options = Options { flow: arguments.flow.map(FlowId), ..terminal::options() };
    let options = ShowOptions { drop_reasons, ..ShowOptions::from(&options) };
    let mut out = BufWriter::new(std::io::stdout().lock());
    match arguments.format {
        ShowFormat::Text => {
            sockscope_report::show(&stores.connections, &stores.losses, &options, &mut out)?;
        }
        ShowFormat::Tcpdump => {
            sockscope_report::show_tcpdump(&stores.connections, options.flow, &mut out)?;
        }
    }
    out.flush().map_err(|error| Failure::output(&error))?;
    Ok(())
}

/// Prints the report of the bundle in `dir`.
pub fn print(
    dir: &Path,
    print: PrintArgs,
    flow: Option<FlowId>,
    to: &Path,
) -> Result<Outcome, Failure> {
    let (analysis, origin) = analyze(dir)?;
    let is_stdout = to == Path::new("-");
    let options = terminal::options();
    let options = Options { flow, color: options.color && is_stdout, ..options };
    let report = Report { origin: &origin, analysis: &analysis, options: &options };
    if print.format == FormatArg::Csv {
        // Its columns have no room for them.
        say(&analysis.facts.notes);
    }
    let mut out = output(to)?;
    format(print.format).write(&report, &mut out)?;
    out.flush().map_err(|error| Failure::output(&error))?;
    let found = analysis.connections.iter().any(|connection| !connection.findings.is_empty());
    Ok(if print.check && found { Outcome::Found } else { Outcome::Done })
}

/// Reads and analyses a bundle.
pub fn analyze(dir: &Path) -> Result<(Analysis, Origin), Failure> {
    let loaded = Loaded::read(dir)?;
    Ok((loaded.analyzer.finish(loaded.facts), loaded.origin))
}

/// Reads a bundle and keeps its records sorted, for figures; says what is not whole.
pub fn stores(dir: &Path) -> Result<Stores, Failure> {
    let loaded = Loaded::read(dir)?;
    loaded.say_notes();
    Ok(loaded.into_stores())
}

/// As [`stores`], of a bundle that was just written, whose notes were said then.
pub fn own_stores(dir: &Path) -> Result<Stores, Failure> {
    Ok(Loaded::read(dir)?.into_stores())
}

/// A file, or standard output for `-`. A bundle's own files are refused.
fn output(path: &Path) -> Result<Box<dyn Write>, Failure> {
    if path == Path::new("-") {
        return Ok(Box::new(BufWriter::new(std::io::stdout().lock())));
    }
    Ok(Box::new(BufWriter::new(place::create_output(path)?)))
}

/// Writes all of it to a file, or to standard output for `-`.
pub fn write_to(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> Result<(), Failure> {
    let mut out = output(path)?;
    let written = write(&mut *out).and_then(|()| out.flush());
    let is_file = path != Path::new("-");
    written.map_err(|error| match is_file {
        true => Failure::file("cannot write", path, &error),
        false => Failure::output(&error),
    })
}

fn format(format: FormatArg) -> Box<dyn Format> {
    match format {
        FormatArg::Text => Box::new(Text),
        FormatArg::Json => Box::new(Json),
        FormatArg::Csv => Box::new(Csv),
    }
}

struct Loaded {
    analyzer: Analyzer,
    facts: TraceFacts,
    origin: Origin,
}

impl Loaded {
    /// Reads everything that is whole; what is not is said in the notes.
    fn read(dir: &Path) -> Result<Self, Failure> {
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
            lost: checker.lost(&bundle, &records),
            unfinished: problems.iter().any(lacks_end),
            costs: meta.cost,
            notes,
            drop_reasons: meta.drop_reasons.clone(),
            ended_ns: meta.ended_ns,
        };
        Ok(Self { analyzer, facts, origin: origin(meta) })
    }

    /// The records sorted, and the names of the reasons in them.
    fn into_stores(self) -> Stores {
        Stores { drop_reasons: self.facts.drop_reasons, ..self.analyzer.into_stores() }
    }

    /// Tells the user what a report would have in its head.
    fn say_notes(&self) {
        say(&self.facts.notes);
    }
}

fn say(notes: &[String]) {
    for note in notes {
        talk!("sockscope: {note}");
    }
}

/// What the times of the trace are told by.
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
