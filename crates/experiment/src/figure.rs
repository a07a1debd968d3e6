//! A figure that an experiment asks for.
//!
//! `[[figure]]` tables of its file name them: charts of its results, and which parts of its traces to
//! draw.

use serde::Deserialize;
use toml::Table;

use super::case::Case;

/// A figure as the experiment's file asks for it: `x` and `y` for a chart, `plot` for a trace, `phases`
/// for the processes of a pipeline's stage, `protocol_times` for histograms.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Ends its file's name, as `figure-9`.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// What a reader must know of this figure, under the drawing: where it is not as the paper's.
    pub note: Option<String>,
    /// Chart: the parameter that varies along the axis.
    pub x: Option<String>,
    /// Chart: numbers of the results. Those of one unit share a panel.
    #[serde(default)]
    pub y: Vec<String>,
    /// Chart: the parameters that tell lines apart; all that vary when not given.
    pub series: Option<Vec<String>>,
    /// Chart: how values are spread along the axis of `x`.
    #[serde(default)]
    pub x_scale: Scale,
    /// Chart: the same for the axis of the results.
    #[serde(default)]
    pub y_scale: Scale,
    /// Only cases with these parameters.
    #[serde(default)]
    pub only: Table,
    /// Trace: the figure of `sockscope plot`, as `queue-length`.
    pub plot: Option<String>,
    /// When each process of a pipeline's stage had work, of the first case.
    #[serde(default)]
    pub phases: bool,
    /// How long the protocol took for a packet, by 50 us, of the first case: on the sending side from one
    /// packet of a burst to the next, on the receiving side from point 6 to point 7.
    #[serde(default)]
    pub protocol_times: bool,
    /// Trace: first instant shown, in milliseconds after the first record; phases: after the first.
    pub from_ms: Option<f64>,
    /// Trace and phases: last instant shown.
    pub to_ms: Option<f64>,
    /// Trace: the same two instants of a run on a kernel, which has other times.
    pub live_from_ms: Option<f64>,
    /// See `live_from_ms`.
    pub live_to_ms: Option<f64>,
    /// Trace: what the server sent, in place of what the client sent.
    #[serde(default)]
    pub from_server: bool,
}

/// How values are spread over an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// Evenly.
    #[default]
    Linear,
    /// By their logarithm.
    Log,
    /// By their logarithm, with ticks at powers of two.
    Doubling,
    /// Each value at a place of its own, equally far apart.
    Places,
}

impl Figure {
    /// Whether the figure shows `case`.
    pub fn shows(&self, case: &Case) -> bool {
        self.only.iter().all(|(name, value)| case.value(name) == Some(value))
    }

    /// What is wrong with it in an experiment with these cases.
    pub(super) fn validate(&self, cases: &[Case], keeps_traces: bool) -> Result<(), String> {
        let refuse = |problem: String| Err(format!("figure `{}`: {problem}", self.name));
        if !is_file_name(&self.name) {
            return refuse("expected a name of letters, digits and `-`".to_owned());
        }
        match (&self.plot, &self.x) {
            (Some(_), None) if keeps_traces => {}
            (Some(_), None) => {
                return refuse("a plot needs `trace` among what is recorded".to_owned());
            }
            (None, Some(_)) if !self.y.is_empty() => {}
            (None, None) if self.phases != self.protocol_times => {}
            _ => {
                let forms = "expected `plot`, `phases`, `protocol_times`, or `x` and `y`";
                return refuse(forms.to_owned());
            }
        }
        let parameters = self.x.iter().chain(self.series.iter().flatten()).chain(self.only.keys());
        for name in parameters {
            if cases.iter().all(|case| case.value(name).is_none()) {
                return refuse(format!("no case has a parameter `{name}`"));
            }
        }
        if !cases.iter().any(|case| self.shows(case)) {
            return refuse("`only` leaves no case".to_owned());
        }
        Ok(())
    }
}

/// Whether a file may be named so wherever the experiment comes from: of letters, digits and `-`.
pub(super) fn is_file_name(name: &str) -> bool {
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    !name.is_empty() && name.chars().all(is_word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin_by_id;

    /// What is wrong with a figure of an experiment whose traces are not kept.
    fn problem(figure: &str) -> Option<String> {
        let cases = builtin_by_id("si-1b").unwrap().cases().unwrap();
        let figure = format!("title = \"t\"\n{figure}");
        toml::from_str::<Figure>(&figure).unwrap().validate(&cases, false).err()
    }

    #[test]
    fn a_figure_without_sense_is_refused() {
        let chart = "name = \"figure-9\"\nx = \"socket_buffer_bytes\"\ny = [\"wait_us\"]";
        assert_eq!(problem(chart), None);
        for (from, to, words) in [
            ("x = \"socket_buffer_bytes\"", "", "`protocol_times`, or `x` and `y`"),
            ("socket_buffer", "pocket_buffer", "no case has a parameter `pocket_buffer_bytes`"),
            ("figure-9", "../x", "expected a name of letters"),
            ("x = \"socket_buffer_bytes\"", "plot = \"queue-length\"", "needs `trace`"),
            ("y =", "only = { socket_buffer_bytes = 1 }\ny =", "`only` leaves no case"),
        ] {
            let told = problem(&chart.replace(from, to)).unwrap();
            assert!(told.contains(words), "{told}");
        }
    }
}
