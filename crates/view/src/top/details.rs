//! One connection in full: the text of its report.

use sockscope_analysis::Analysis;
use sockscope_record::ConnectionId;
use sockscope_report::{Charset, Format, Options, Origin, Report, Text};

use crate::alone::alone;

/// The lines of the report of one connection between the last two refreshes, in `width` columns; empty where it is
/// not among the connections.
pub(super) fn lines(
    analysis: &Analysis,
    id: ConnectionId,
    width: usize,
    charset: Charset,
) -> Vec<String> {
    let Some(alone) = alone(analysis, id) else { return Vec::new() };
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
