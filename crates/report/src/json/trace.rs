//! The object `trace`: what was recorded, what was lost, what the probes cost.

use serde::ser::{Serialize, SerializeMap, SerializeStruct, Serializer};
use sockscope_analysis::PointSummary;

use super::number::number;
use crate::Report;

pub(super) struct TraceView<'r, 'a>(pub(super) &'r Report<'a>);

impl Serialize for TraceView<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (analysis, origin) = (self.0.analysis, self.0.origin);
        let facts = &analysis.facts;
        let mut object = serializer.serialize_struct("trace", 14)?;
        object.serialize_field("duration_ns", &analysis.duration_ns)?;
        object.serialize_field("records", &analysis.records)?;
        object.serialize_field("lost_records", &facts.lost.total())?;
        object.serialize_field("points", &PointsView(self.0))?;
        object.serialize_field("source", &facts.source)?;
        object.serialize_field("notes", &facts.notes)?;
        object.serialize_field("start_ns", &analysis.start_ns)?;
        object.serialize_field("lost_events", &facts.lost.events)?;
        object.serialize_field("finished", &!facts.unfinished)?;
        object.serialize_field("tool_version", &origin.tool_version)?;
        object.serialize_field("host", &origin.host)?;
        object.serialize_field("kernel", &origin.kernel)?;
        object.serialize_field("clock", &origin.clock)?;
        object.serialize_field("command", &origin.command)?;
        object.end()
    }
}

/// The eight points, by name, in path order.
struct PointsView<'r, 'a>(&'r Report<'a>);

impl Serialize for PointsView<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let analysis = self.0.analysis;
        let mut object = serializer.serialize_map(Some(analysis.points.len()))?;
        for (summary, cost) in analysis.points.iter().zip(&analysis.facts.costs) {
            let view = PointView { summary, cost_ns_mean: cost.mean_ns().and_then(number) };
            object.serialize_entry(summary.point.name(), &view)?;
        }
        object.end()
    }
}

struct PointView<'a> {
    summary: &'a PointSummary,
    cost_ns_mean: Option<f64>,
}

impl Serialize for PointView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("point", 3)?;
        object.serialize_field("records", &self.summary.records)?;
        object.serialize_field("lost", &self.summary.lost)?;
        object.serialize_field("cost_ns_mean", &self.cost_ns_mean)?;
        object.end()
    }
}
