//! One line of JSON for each refresh: schema `sockscope.top/1`.

use std::io;

use serde::Serialize;
use sockscope_analysis::LedgerPart;
use sockscope_record::Hold;
use sockscope_report::GroupView;

use super::row::Row;

/// The version of the lines' form.
const SCHEMA: &str = "sockscope.top/1";

#[derive(Serialize)]
struct Line<'a> {
    schema: &'static str,
    /// On the clock of the records, nanoseconds.
    at_ns: u64,
    /// Records that were missed since the start.
    missed: u64,
    connections: Vec<One<'a>>,
}

#[derive(Serialize)]
struct One<'a> {
    id: u32,
    protocol: &'static str,
    client: String,
    server: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_network_namespace_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    server_network_namespace_name: Option<&'a str>,
    processes: Vec<Process<'a>>,
    /// Side that sends the flow of the figures.
    sender: &'static str,
    waited_ns: u64,
    ledger_ns: serde_json::Map<String, serde_json::Value>,
    send_queue_bytes: Option<u64>,
    receive_queue_bytes: Option<u64>,
    oldest_unread_ns: Option<u64>,
    hold: Option<&'static str>,
    findings: Vec<Found<'a>>,
    closed_since_ns: Option<u64>,
}

#[derive(Serialize)]
struct Process<'a> {
    pid: u32,
    comm: &'a str,
    side: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<GroupView<'a>>,
}

#[derive(Serialize)]
struct Found<'a> {
    id: &'static str,
    cost_ns: u64,
    side: &'static str,
    is_new: bool,
    summary: &'a str,
}

/// Writes one line with these rows, in their order; `missed` counts records that were missed since the start.
///
/// # Errors
///
/// When `out` fails.
pub fn write_json(
    rows: &[&Row],
    at_ns: u64,
    missed: u64,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let connections = rows.iter().map(|row| One::of(row)).collect();
    let line = Line { schema: SCHEMA, at_ns, missed, connections };
    serde_json::to_writer(&mut *out, &line)?;
    out.write_all(b"\n")
}

impl<'a> One<'a> {
    fn of(row: &'a Row) -> Self {
        let connection = &row.connection;
        let parts = LedgerPart::ALL.into_iter().zip(row.ledger.ns).filter(|(_, ns)| *ns > 0);
        Self {
            id: connection.id.0,
            protocol: connection.protocol.name(),
            client: connection.end(sockscope_record::Side::Client).to_string(),
            server: connection.end(sockscope_record::Side::Server).to_string(),
            client_network_namespace_name: row.namespaces[0].as_deref(),
            server_network_namespace_name: row.namespaces[1].as_deref(),
            processes: connection.processes.iter().map(Process::of).collect(),
            sender: row.direction.sender().name(),
            waited_ns: row.waited_ns,
            ledger_ns: parts.map(|(part, ns)| (part.name().to_owned(), ns.into())).collect(),
            send_queue_bytes: row.send_queue_bytes,
            receive_queue_bytes: row.receive_queue_bytes,
            oldest_unread_ns: row.oldest_ns,
            hold: (row.hold != Hold::None).then(|| row.hold.name()),
            findings: row.findings.iter().map(Found::of).collect(),
            closed_since_ns: row.closed_ns,
        }
    }
}

impl<'a> Process<'a> {
    fn of(one: &'a sockscope_record::Process) -> Self {
        Self {
            pid: one.pid,
            comm: &one.comm,
            side: one.side.name(),
            group: one.group.as_deref().map(GroupView::new),
        }
    }
}

impl<'a> Found<'a> {
    fn of(finding: &'a super::RowFinding) -> Self {
        Self {
            id: finding.id.name(),
            cost_ns: finding.cost_ns,
            side: finding.side.name(),
            is_new: finding.is_new,
            summary: &finding.summary,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::testing::row;

    #[test]
    fn a_refresh_is_one_line() {
        let rows = [row(1), row(2)];
        let mut out = Vec::new();
        write_json(&rows.each_ref(), 5_000_000_000, 3, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.matches('\n').count(), 1);
        let line: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(line["schema"], "sockscope.top/1");
        assert_eq!(
            (line["at_ns"].as_u64(), line["missed"].as_u64()),
            (Some(5_000_000_000), Some(3))
        );
        let one = &line["connections"][1];
        assert_eq!(one["id"], 2);
        assert_eq!(one["waited_ns"], 440_000_000);
        assert_eq!(one["ledger_ns"]["send_queue.nagle"], 440_000_000);
        assert_eq!(one["oldest_unread_ns"], 30_000_000);
        assert_eq!(one["hold"], "nagle");
        assert_eq!(one["findings"][0]["id"], "nagle-delayed-ack");
        assert_eq!(one["closed_since_ns"], serde_json::Value::Null);
    }
}
