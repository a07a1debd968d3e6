//! One connection in full: the text of its report.

use sockscope_analysis::{Analysis, Nesting};
use sockscope_record::ConnectionId;
use sockscope_report::{Charset, Format, Options, Origin, Report, Text};

/// The lines of the report of one connection between the last two refreshes, in `width` columns; empty where it is
/// not among the connections.
pub(super) fn lines(
    analysis: &Analysis,
    id: ConnectionId,
    width: usize,
    charset: Charset,
) -> Vec<String> {
    let one: Vec<_> = analysis.connections.iter().filter(|one| one.connection.id == id).collect();
    if one.is_empty() {
        return Vec::new();
    }
    let alone = Analysis {
        facts: analysis.facts.clone(),
        start_ns: analysis.start_ns,
        duration_ns: analysis.duration_ns,
        records: one.iter().map(|one| one.records).sum(),
        points: analysis.points,
        connections: one.into_iter().cloned().collect(),
        nesting: Nesting::default(),
    };
    let options = Options {
        width: width.clamp(Options::WIDTH_MIN, Options::WIDTH_MAX),
        charset,
        ..Options::default()
    };
    let report = Report { origin: &Origin::default(), analysis: &alone, options: &options };
    let mut text = Vec::new();
    match Text.write(&report, &mut text) {
        Ok(()) => String::from_utf8_lossy(&text).lines().map(str::to_owned).collect(),
        Err(error) => vec![error.to_string()],
    }
}
