//! `sockscope report` and `sockscope show`: a bundle read, analysed, printed.

use std::io::{BufWriter, Write};
use std::path::Path;

use sockscope_analysis::{Analysis, Stores};
use sockscope_program::failure::Failure;
use sockscope_program::loaded::{Loaded, say_notes};
use sockscope_program::outcome::Outcome;
use sockscope_program::output::output;
use sockscope_record::FlowId;
use sockscope_report::{Csv, Format, Json, Options, Origin, Report, ShowOptions, Text};

use crate::args::{self, FormatArg, PrintArgs, ShowFormat};
use crate::last_trace::or_last;
use crate::terminal::{self, Target};

/// `sockscope report`.
pub fn report(arguments: &args::Report) -> Result<Outcome, Failure> {
    let target = Target::named(&arguments.output);
    let flow = arguments.flow.map(FlowId);
    let dir = or_last(arguments.dir.as_deref())?;
    print(&dir, arguments.print, flow, target, || output(&arguments.output))
}

/// `sockscope show`.
pub fn show(arguments: &args::Show) -> Result<(), Failure> {
    let loaded = Loaded::read(&or_last(arguments.dir.as_deref())?)?;
    say_notes(&loaded.facts.notes);
    let drop_reasons = loaded.facts.drop_reasons;
    let stores = loaded.analyzer.into_stores();
    let options = Options { flow: arguments.flow.map(FlowId), ..terminal::options(Target::Stdout) };
    let options = ShowOptions { drop_reasons, ..ShowOptions::from(&options) };
    let mut out = BufWriter::new(std::io::stdout().lock());
    match arguments.format {
        ShowFormat::Text => {
            sockscope_report::show(&stores.connections, &stores.all_losses(), &options, &mut out)?;
        }
        ShowFormat::Tcpdump => {
            sockscope_report::show_tcpdump(&stores.connections, options.flow, &mut out)?;
        }
    }
    out.flush().map_err(|error| Failure::output(&error))?;
    Ok(())
}

/// Prints the report of the bundle in `dir` to what `open` gives, which is the `target`.
pub fn print(
    dir: &Path,
    print: PrintArgs,
    flow: Option<FlowId>,
    target: Target,
    open: impl FnOnce() -> Result<Box<dyn Write>, Failure>,
) -> Result<Outcome, Failure> {
    let (analysis, origin) = analyze(dir)?;
    let options = Options { flow, ..terminal::options(target) };
    let report = Report { origin: &origin, analysis: &analysis, options: &options };
    if print.format == FormatArg::Csv {
        // Its columns have no room for them.
        say_notes(&analysis.facts.notes);
    }
    let mut out = open()?;
    if target == Target::Stderr {
        // The last line of the command may have no end.
        writeln!(out).map_err(|error| Failure::output(&error))?;
    }
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
    say_notes(&loaded.facts.notes);
    Ok(loaded.into_stores())
}

fn format(format: FormatArg) -> Box<dyn Format> {
    match format {
        FormatArg::Text => Box::new(Text),
        FormatArg::Json => Box::new(Json),
        FormatArg::Csv => Box::new(Csv),
    }
}
