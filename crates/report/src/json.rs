//! JSON, schema `sockscope.report/1`: described in docs/reference/report.md, listed key by key in
//! this module's test.
//!
//! Base units, integers for times; `null` is unknown. Connections are written one by one, so that
//! memory does not grow with their number.

mod connection;
mod escaped;
mod flow;
mod number;
mod trace;

use std::io;

use serde::Serialize;
use serde::ser::{SerializeSeq, SerializeStruct, Serializer};

use crate::{Format, Report, ReportError};
use connection::ConnectionView;
use escaped::Escaped;
use trace::TraceView;

/// The schema's name and version: goes up when a field changes its meaning or goes away, not when
/// one is added.
pub(crate) const SCHEMA: &str = "sockscope.report/1";

/// JSON, one object and a line end.
#[derive(Debug, Clone, Copy, Default)]
pub struct Json;

impl Format for Json {
    fn write(&self, report: &Report<'_>, out: &mut dyn io::Write) -> Result<(), ReportError> {
        report.check()?;
        // The views have string keys and no failing `Serialize`, so only the writer can fail.
        let mut json = serde_json::Serializer::with_formatter(&mut *out, Escaped);
        ReportView(report).serialize(&mut json).map_err(io::Error::from)?;
        Ok(out.write_all(b"\n")?)
    }
}

struct ReportView<'r, 'a>(&'r Report<'a>);

impl Serialize for ReportView<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("report", 3)?;
        object.serialize_field("schema", SCHEMA)?;
        object.serialize_field("trace", &TraceView(self.0))?;
        object.serialize_field("connections", &ConnectionsView(self.0))?;
        object.end()
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
