//! The object `trace`: the recording, its missed records and the cost of the probes.

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use sockscope_analysis::Analysis;

use super::number::number;
use crate::Report;

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct TraceView<'a> {
    duration_ns: u64,
    records: u64,
    missed_records: u64,
    #[cfg_attr(test, schemars(schema_with = "super::schema::points"))]
    points: PointsView<'a>,
    source: &'a str,
    notes: &'a [String],
    start_ns: u64,
    missed_events: u64,
    finished: bool,
    steal_share: Option<f64>,
    tool_version: Option<&'a str>,
    host: Option<&'a str>,
    kernel: Option<&'a str>,
    clock: Option<&'a str>,
    command: Option<&'a str>,
}

impl<'a> TraceView<'a> {
    pub(super) fn new(report: &Report<'a>) -> Self {
        let (analysis, origin) = (report.analysis, report.origin);
        let facts = &analysis.facts;
        Self {
            duration_ns: analysis.duration_ns,
            records: analysis.records,
            missed_records: facts.missed.total(),
            points: PointsView(analysis),
            source: &facts.source,
            notes: &facts.notes,
            start_ns: analysis.start_ns,
            missed_events: facts.missed.events,
            finished: !facts.unfinished,
            steal_share: facts.steal_share,
            tool_version: origin.tool_version.as_deref(),
            host: origin.host.as_deref(),
            kernel: origin.kernel.as_deref(),
            clock: origin.clock.as_deref(),
            command: origin.command.as_deref(),
        }
    }
}

/// The eight points, by name, in path order.
struct PointsView<'a>(&'a Analysis);

impl Serialize for PointsView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Analysis { points, facts, .. } = self.0;
        let mut object = serializer.serialize_map(Some(points.len()))?;
        for (summary, cost) in points.iter().zip(&facts.costs) {
            let view = PointView {
                records: summary.records,
                missed: summary.missed,
                cost_ns_mean: cost.mean_ns().and_then(number),
            };
            object.serialize_entry(summary.point.name(), &view)?;
        }
        object.end()
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct PointView {
    records: u64,
    missed: u64,
    cost_ns_mean: Option<f64>,
}
