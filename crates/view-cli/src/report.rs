//! `sockscope report --format html`: the report of a trace as a page in one file.

use sockscope_program::failure::Failure;
use sockscope_program::loaded::{Loaded, Purpose, chosen, wall_clock};
use sockscope_program::outcome::Outcome;
use sockscope_program::output::write_to;
use sockscope_program::progress::Progress;
use sockscope_program::shell::quoted;
use sockscope_record::FlowId;
use sockscope_report::{Filter, Format, Html, Options, Origin, Report, Shown};

use crate::args;

/// Writes the page.
pub fn report(arguments: &args::Report) -> Result<Outcome, Failure> {
    let (dir, filter) = (&arguments.dir, arguments.filter.filter());
    // Of connections that only the analysis shows the bundle is read again, so that all counts are theirs.
    let loaded = Loaded::read_part(dir, &chosen(dir, &filter)?, Purpose::Analysis)?;
    let (mut analysis, stores, origin, shown) = loaded.finish_with_stores();
    Filter { findings: filter.findings.clone(), ..Filter::default() }.narrow(&mut analysis)?;
    let shown = shown.map(|shown| Shown { words: filter.words().unwrap_or_default(), ..shown });
    let origin = Origin { argument: Some(quoted(dir)), ..origin };
    let options = Options {
        flow: arguments.flow.map(FlowId),
        shown,
        wall_clock: wall_clock(arguments.wall_clock, &origin)?,
        ..Options::default()
    };
    let report = Report { origin: &origin, analysis: &analysis, options: &options };
    let progress = Progress::begin("drawing figures", 0);
    let mut page = Vec::new();
    Html { stores: &stores }.write(&report, &mut page)?;
    drop(progress);
    write_to(&arguments.output, |out| out.write_all(&page))?;
    let found = analysis.connections.iter().any(|connection| !connection.findings.is_empty());
    Ok(if arguments.check && found { Outcome::Found } else { Outcome::Done })
}
