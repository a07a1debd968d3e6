//! Times of the results in the order of the path, with those that the paper prints: Figure 19 of the SunOS study.

use sockscope_experiment::Figure;
use sockscope_experiment::result::{CaseResult, RunResult};
use sockscope_record::Stage;
use sockscope_render::components::{Component, ComponentPanel};
use sockscope_report::palette;

use super::captions::{series_words, unknown};
use super::measured::Measured;
use super::words;

/// Rows of Table 1 of the study that are stages.
const STAGES: [(&str, Stage); 7] = [
    ("send_socket_us", Stage::SendQueue),
    ("send_protocol_us", Stage::TcpOutput),
    ("interface_queue_us", Stage::InterfaceQueue),
    ("driver_and_wire_us", Stage::Wire),
    ("ip_queue_us", Stage::InputQueue),
    ("receive_protocol_us", Stage::TcpInput),
    ("receive_socket_us", Stage::ReceiveQueue),
];

/// A panel for each case.
pub(super) fn panels(figure: &Figure, result: &RunResult) -> Result<Vec<ComponentPanel>, String> {
    let cases = result.cases.iter().filter(|case| figure.shows(&case.case));
    cases.enumerate().map(|(index, case)| panel(figure, result, (index, case))).collect()
}

fn panel(
    figure: &Figure,
    result: &RunResult,
    (index, case): (usize, &CaseResult),
) -> Result<ComponentPanel, String> {
    let numbers = case.measured.numbers(&result.experiment);
    let is_kernel = result.kernel.is_some();
    let row = |(place, name): (usize, &String)| {
        let found = numbers.iter().find(|(other, _)| other == name);
        // Some numbers are of the model alone.
        let value = match found {
            Some((_, value)) => *value,
            None if is_kernel => None,
            None => return Err(unknown(figure, name, &numbers)),
        };
        let Measured { factor, .. } = Measured::of(name);
        let printed = figure.printed.get(index).map(|row| row[place]).filter(|it| !it.is_nan());
        let stage = STAGES.into_iter().find(|(other, _)| other == name);
        let look = stage.map(|(_, stage)| palette::stage(stage));
        Ok(Component {
            name: words::of_name(name),
            value_ns: value.map(|value| value * factor),
            printed_ns: printed.map(|printed| printed * factor),
            look: look.map(|look| (look.class, [look.on_light, look.on_dark])),
        })
    };
    let rows = figure.components.iter().enumerate().map(row).collect::<Result<_, _>>()?;
    let title = match figure.cases.get(index) {
        Some(title) => title.clone(),
        None => series_words(figure, &case.case, ""),
    };
    Ok(ComponentPanel { title, rows })
}
