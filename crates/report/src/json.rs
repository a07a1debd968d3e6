//! JSON, schema `sockscope.report/2`: described in docs/reference/report.md, and for validators in
//! docs/schema/report.json, which a test compares with the types here.
//!
//! Base units, integers for times; `null` is unknown. Connections are written one by one, so that
//! memory does not grow with their number.

mod connection;
mod escaped;
mod flow;
mod group;
mod number;
mod request_tree;
mod requests;
#[cfg(test)]
mod schema;
mod trace;
mod waits;

use std::io;

use serde::Serialize;
use serde::ser::{SerializeSeq, Serializer};

use crate::request_tree::Branch;
use crate::{Format, Report, ReportError};
use connection::ConnectionView;
pub(crate) use connection::PartsView;
use escaped::Escaped;
pub(crate) use flow::TimesView;
pub use group::GroupView;
use request_tree::BranchView;
#[cfg(test)]
pub(crate) use schema::{check_schema_file, parts as ledger_parts};
use trace::TraceView;
use waits::WaitsView;

/// The schema's name and version: increases when a field changes its meaning or is removed, not when
/// one is added.
pub(crate) const SCHEMA: &str = "sockscope.report/2";

/// JSON, one object and a line end.
#[derive(Debug, Clone, Copy, Default)]
pub struct Json;

impl Format for Json {
    fn write(&self, report: &Report<'_>, out: &mut dyn io::Write) -> Result<(), ReportError> {
        report.check()?;
        write(&ReportView::new(report), out)
    }
}

/// Writes one document and a line end.
pub(crate) fn write(document: &impl Serialize, out: &mut dyn io::Write) -> Result<(), ReportError> {
    // The views have string keys and no failing `Serialize`, so only the writer can fail.
    let mut json = serde_json::Serializer::with_formatter(&mut *out, Escaped);
    document.serialize(&mut json).map_err(io::Error::from)?;
    Ok(out.write_all(b"\n")?)
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(title = SCHEMA))]
struct ReportView<'r, 'a> {
    #[cfg_attr(test, schemars(extend("const" = SCHEMA)))]
    schema: &'static str,
    trace: TraceView<'a>,
    waits: WaitsView,
    #[serde(skip_serializing_if = "Option::is_none")]
    slowest_nested: Option<BranchView<'a>>,
    #[cfg_attr(test, schemars(with = "Vec<ConnectionView<'static>>"))]
    connections: ConnectionsView<'r, 'a>,
}

impl<'r, 'a> ReportView<'r, 'a> {
    fn new(report: &'r Report<'a>) -> Self {
        let (trace, connections) = (TraceView::new(report), ConnectionsView(report));
        let slowest_nested = Branch::slowest(report).map(|slowest| BranchView::new(&slowest));
        Self { schema: SCHEMA, trace, waits: WaitsView::new(report), slowest_nested, connections }
    }
}

struct ConnectionsView<'r, 'a>(&'r Report<'a>);

impl Serialize for ConnectionsView<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        for connection in self.0.connections() {
            list.serialize_element(&ConnectionView::new(self.0, connection))?;
        }
        list.end()
    }
}

#[cfg(test)]
mod tests;
