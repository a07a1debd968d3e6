//! The analysis of one connection out of that of many.

use sockscope_analysis::{Analysis, Nesting};
use sockscope_record::ConnectionId;

/// An analysis with this connection alone; `None` where it is not among them.
pub(crate) fn alone(analysis: &Analysis, id: ConnectionId) -> Option<Analysis> {
    let one = analysis.connection(id)?;
    Some(Analysis {
        facts: analysis.facts.clone(),
        start_ns: analysis.start_ns,
        duration_ns: analysis.duration_ns,
        records: one.records,
        points: analysis.points,
        connections: vec![one.clone()],
        nesting: Nesting::default(),
    })
}
