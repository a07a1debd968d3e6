//! Results as CSV: one row for each case and number, base units.

use std::io;

use super::RunResult;
use crate::word;

/// Writes `result` with the columns `case`, one for each parameter, `result`, `value`.
///
/// A parameter that a case does not have is empty in its rows, and so is what is unknown.
///
/// # Errors
///
/// When `out` fails.
pub fn write_csv(result: &RunResult, out: &mut dyn io::Write) -> io::Result<()> {
    let names = parameter_names(result);
    writeln!(out, "case,{},result,value", names.join(","))?;
    for (number, case) in result.cases.iter().enumerate() {
        let parameters =
            names.iter().map(|name| case.case.value(name).map(word).unwrap_or_default());
        let parameters = parameters.collect::<Vec<_>>().join(",");
        for (name, value) in case.measured.numbers(&result.experiment) {
            let value = value.map(|value| value.to_string()).unwrap_or_default();
            writeln!(out, "{number},{parameters},{name},{value}")?;
        }
    }
    Ok(())
}

/// Every parameter of any case, in the order of first appearance.
fn parameter_names(result: &RunResult) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (name, _) in result.cases.iter().flat_map(|case| &case.case.named) {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}
