//! CSV (RFC 4180) of all requests: one row each, by connection and the time asked.
//!
//! Base units; unknown values are empty. Columns are described in docs/reference/report.md.

use std::io::{self, Write};

use sockscope_analysis::{ConnectionAnalysis, Request};

use crate::{Format, Report, ReportError};

/// Column heads, in order.
pub(crate) const COLUMNS: [&str; 27] = [
    "connection",
    "protocol",
    "client",
    "server",
    "conversation",
    "asked_by",
    "end",
    "asked_ns",
    "heard_ns",
    "answered_ns",
    "ended_ns",
    "total_ns",
    "request_ns",
    "service_ns",
    "response_ns",
    "pause_ns",
    "request_bytes",
    "response_bytes",
    "request_writes",
    "request_reads",
    "response_writes",
    "response_reads",
    "asker_thread",
    "answerer_thread",
    "client_pid",
    "server_pid",
    "overlapped",
];

/// CSV of the requests, with a head line.
#[derive(Debug, Clone, Copy, Default)]
pub struct CsvRequests;

impl Format for CsvRequests {
    fn write(&self, report: &Report<'_>, out: &mut dyn Write) -> Result<(), ReportError> {
        report.check()?;
        writeln!(out, "{}", COLUMNS.join(","))?;
        for connection in report.connections() {
            let key = key(connection);
            let pids = pids(connection);
            for request in &connection.requests.list {
                write_row(&key, request, &pids, out)?;
            }
        }
        Ok(())
    }
}

/// The first fields of all rows of a connection. No field needs quotes: addresses and names have neither commas nor
/// quotes nor line ends.
fn key(analysis: &ConnectionAnalysis) -> String {
    let (connection, requests) = (&analysis.connection, &analysis.requests);
    format!(
        "{},{},{},{},{},{}",
        connection.id.0,
        connection.protocol.name(),
        connection.end(sockscope_record::Side::Client),
        connection.end(sockscope_record::Side::Server),
        requests.conversation.name(),
        requests.asked_by.map_or("", |side| side.name()),
    )
}

/// The first process seen at each end.
fn pids(analysis: &ConnectionAnalysis) -> String {
    use sockscope_record::Side::{Client, Server};
    let processes = &analysis.connection.processes;
    let pid = |side| processes.iter().find(|process| process.side == side).map(|one| one.pid);
    format!("{},{}", or_empty(pid(Client)), or_empty(pid(Server)))
}

fn write_row(key: &str, request: &Request, pids: &str, out: &mut dyn Write) -> io::Result<()> {
    let parts = request.parts();
    write!(out, "{key},{},{},", request.end.name(), request.asked_ns)?;
    write!(out, "{},", or_empty(request.heard.ns()))?;
    write!(out, "{},{},", or_empty(request.answered.ns()), request.ended_ns)?;
    write!(out, "{},", or_empty(request.total_ns()))?;
    write!(out, "{},", or_empty(parts.map(|parts| parts.request_ns)))?;
    write!(out, "{},", or_empty(request.service_ns()))?;
    write!(out, "{},", or_empty(parts.map(|parts| parts.response_ns)))?;
    write!(out, "{},", request.pause_ns)?;
    write!(out, "{},{},", request.request_bytes, request.response_bytes)?;
    write!(out, "{},{},", request.request_writes, request.request_reads)?;
    write!(out, "{},{},", request.response_writes, request.response_reads)?;
    write!(out, "{},{},", request.asker_thread, request.answerer_thread)?;
    writeln!(out, "{pids},{}", request.is_overlapped)
}

fn or_empty(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use crate::fixture::{self, slow_calls};

    #[test]
    fn each_request_has_a_row_with_every_column_and_its_parts_add_up() {
        let text = fixture::written(&CsvRequests, &slow_calls(), &Options::default());
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
        assert!(rows.iter().all(|row| row.len() == COLUMNS.len()), "{text}");
        let column = |row: &[&str], name: &str| -> Option<u64> {
            let index = COLUMNS.iter().position(|column| *column == name)?;
            row[index].parse().ok()
        };
        let mut known = 0;
        for row in &rows[1..] {
            let parts = ["request_ns", "service_ns", "response_ns"].map(|name| column(row, name));
            let sum = parts.into_iter().sum::<Option<u64>>();
            assert_eq!(sum, column(row, "total_ns"));
            known += u64::from(sum.is_some());
        }
        assert_eq!((rows.len(), known), (1 + 5, 5));
    }
}
