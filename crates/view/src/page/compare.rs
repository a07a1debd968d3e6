//! Two or more traces side by side.

use sockscope_analysis::Analysis;
use sockscope_report::{Compared, Comparison, write_compare_json};

use super::{Answer, Refused, Trace};

/// The comparison, as JSON of the schema `sockscope.compare/1`.
///
/// # Errors
///
/// When there is only one trace.
pub fn compare(traces: &[&Trace]) -> Result<Answer, Refused> {
    if traces.len() < 2 {
        let way_out = "there is one trace: `sockscope view A B` shows two side by side";
        return Err(Refused::Absent(way_out.to_owned()));
    }
    let rounds: Vec<[&Analysis; 1]> = traces.iter().map(|trace| [trace.analysis()]).collect();
    let runs = traces.iter().zip(&rounds);
    let runs = runs.map(|(trace, rounds)| Compared { name: trace.name(), rounds });
    let comparison = Comparison::of(&runs.collect::<Vec<_>>());
    let mut json = Vec::new();
    write_compare_json(&comparison, &mut json)
        .map_err(|error| Refused::Wrong(error.to_string()))?;
    Ok(Answer::Json(json))
}
