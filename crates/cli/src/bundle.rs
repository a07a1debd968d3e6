//! `sockscope report` and `sockscope show`: a bundle read, analysed, printed.

use std::io::{BufWriter, Write};
use std::path::Path;

use sockscope_analysis::{Analysis, Stores};
use sockscope_program::failure::Failure;
use sockscope_program::loaded::{Loaded, say_notes};
use sockscope_program::outcome::Outcome;
use sockscope_program::output::output;
use sockscope_record::FlowId;
use sockscope_report::{
    Csv, CsvRequests, Format, Json, Options, Origin, Report, ShowOptions, Text,
};

use crate::args::{self, FormatArg, PrintArgs, ShowFormat};
use crate::terminal;

/// `sockscope report`.
pub fn report(arguments: &args::Report) -> Result<Outcome, Failure> {
    print(&arguments.dir, arguments.print, arguments.flow.map(FlowId), &arguments.output)
}

/// `sockscope show`.
pub fn show(arguments: &args::Show) -> Result<(), Failure> {
    let loaded = Loaded::read(&arguments.dir)?;
    say_notes(&loaded.facts.notes);
    let drop_reasons = loaded.facts.drop_reasons;
    let stores = loaded.analyzer.into_stores();
    let options = Options { flow: arguments.flow.map(FlowId), ..terminal::options() };
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
    if matches!(print.format, FormatArg::Csv | FormatArg::CsvRequests) {
        // Its columns have no room for them.
        say_notes(&analysis.facts.notes);
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
    say_notes(&loaded.facts.notes);
    Ok(loaded.into_stores())
}

fn format(format: FormatArg) -> Box<dyn Format> {
    match format {
        FormatArg::Text => Box::new(Text),
        FormatArg::Json => Box::new(Json),
        FormatArg::Csv => Box::new(Csv),
        FormatArg::CsvRequests => Box::new(CsvRequests),
    }
}
