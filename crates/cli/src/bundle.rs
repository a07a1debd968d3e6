//! `sockscope report` and `sockscope show`: a bundle read, analysed, printed.

use std::io::{BufWriter, Write};
use std::path::Path;

use sockscope_analysis::Analysis;
use sockscope_program::failure::Failure;
use sockscope_program::hand_over::hand_over_report;
use sockscope_program::last_trace::or_last;
use sockscope_program::loaded::{Loaded, Purpose, analyze_part, chosen, say_notes, wall_clock};
use sockscope_program::outcome::Outcome;
use sockscope_program::output::output;
use sockscope_program::shell::quoted;
use sockscope_record::FlowId;
use sockscope_report::{
    ArrowRequests, Csv, CsvRequests, Filter, Format, Json, Options, Origin, Report, ShowOptions,
    Text,
};

use crate::args::{self, FormatArg, PrintArgs, ShowFormat};
use crate::terminal::{self, Target};

/// `sockscope report`.
pub fn report(arguments: &args::Report) -> Result<Outcome, Failure> {
    let target = Target::named(&arguments.output);
    let dir = or_last(arguments.dir.as_deref())?;
    if arguments.print.format == FormatArg::Html {
        return Err(hand_over_report(arguments.dir.is_none().then_some(&dir)));
    }
    let what = What {
        flow: arguments.flow.map(FlowId),
        filter: arguments.filter.filter(),
        print: arguments.print,
        argument: Some(arguments.dir.as_deref().map(quoted).unwrap_or_default()),
    };
    print(&dir, &what, target, || output(&arguments.output))
}

/// `sockscope show`.
pub fn show(arguments: &args::Show) -> Result<(), Failure> {
    let dir = or_last(arguments.dir.as_deref())?;
    let filter = chosen(&dir, &arguments.filter.filter())?;
    let loaded = Loaded::read_part(&dir, &filter, Purpose::Listing)?;
    say_notes(&loaded.facts.notes);
    let wall_clock = wall_clock(arguments.wall_clock, &loaded.origin)?;
    let stores = loaded.into_stores();
    let options = Options {
        flow: arguments.flow.map(FlowId),
        wall_clock,
        ..terminal::options(Target::Stdout, arguments.color)
    };
    let options = ShowOptions {
        start_ns: Some(stores.start_ns),
        drop_reasons: stores.drop_reasons.clone(),
        ..ShowOptions::from(&options)
    };
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

/// What a report shows, and how.
#[derive(Debug, Default)]
pub struct What {
    /// One flow, or all of those that the filter admits.
    pub flow: Option<FlowId>,
    pub filter: Filter,
    pub print: PrintArgs,
    /// How a command line names the trace, if it can: empty for the last one.
    pub argument: Option<String>,
}

/// Fails where the target cannot take this format.
pub fn check_target(format: FormatArg, target: Target) -> Result<(), Failure> {
    if format == FormatArg::ArrowRequests && target.is_terminal() {
        return Err(Failure::new(
            "arrow-requests is a binary file: redirect the output, as in > requests.arrow",
        ));
    }
    if format == FormatArg::Html {
        return Err(Failure::new(
            "html is written of a trace that is recorded: use `sockscope report --format html -o F.html` then",
        ));
    }
    Ok(())
}

/// Prints the report of the bundle in `dir` to what `open` gives, which is the `target`.
pub fn print(
    dir: &Path,
    what: &What,
    target: Target,
    open: impl FnOnce() -> Result<Box<dyn Write>, Failure>,
) -> Result<Outcome, Failure> {
    let print = what.print;
    check_target(print.format, target)?;
    let (analysis, origin, shown) = analyze_part(dir, &what.filter)?;
    let origin = Origin { argument: what.argument.clone(), ..origin };
    let wall_clock = wall_clock(print.wall_clock, &origin)?;
    let options = terminal::options(target, print.color);
    let options = Options { full: print.full, flow: what.flow, shown, wall_clock, ..options };
    let report = Report { origin: &origin, analysis: &analysis, options: &options };
    if matches!(print.format, FormatArg::Csv | FormatArg::CsvRequests | FormatArg::ArrowRequests) {
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
    let (analysis, origin, _) = Loaded::read(dir)?.finish();
    Ok((analysis, origin))
}

fn format(format: FormatArg) -> Box<dyn Format> {
    match format {
        // A page is refused before.
        FormatArg::Text | FormatArg::Html => Box::new(Text),
        FormatArg::Json => Box::new(Json),
        FormatArg::Csv => Box::new(Csv),
        FormatArg::CsvRequests => Box::new(CsvRequests),
        FormatArg::ArrowRequests => Box::new(ArrowRequests),
    }
}
