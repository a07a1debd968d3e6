//! A report in JSON, asked about what tests care for.

use std::collections::BTreeSet;

use serde_json::Value;

/// The document of `sockscope report --format json`.
pub struct Report(Value);

impl Report {
    /// Reads it, and checks that its times add up.
    pub fn parse(text: &str) -> Self {
        let report = serde_json::from_str(text);
        let report = Self(report.unwrap_or_else(|error| panic!("{error}: {text}")));
        report.assert_sums();
        report
    }

    /// The parts of what callers waited, and those of each slow request, are the whole.
    fn assert_sums(&self) {
        let ns = |of: &Value, name: &str| count(&of[name]);
        let waits = &self.0["waits"];
        let parts =
            ["answerers_ns", "network_and_kernel_ns", "callers_ns", "opening_ns", "unknown_ns"];
        let sum: u64 = parts.iter().map(|part| ns(waits, part)).sum();
        assert_eq!(sum, ns(waits, "sum_ns"), "{waits}");
        for connection in self.connections() {
            let slowest = connection["requests"]["slowest"].as_array().expect("the schema has it");
            for request in slowest.iter().filter(|request| !request["request_ns"].is_null()) {
                let parts = ["request_ns", "service_ns", "response_ns"];
                let sum: u64 = parts.iter().map(|part| ns(request, part)).sum();
                assert_eq!(sum, ns(request, "ended_ns") - ns(request, "asked_ns"), "{request}");
            }
        }
    }

    /// What it says of the trace as a whole.
    pub fn trace(&self) -> &Value {
        &self.0["trace"]
    }

    /// The slowest request with nested ones.
    pub fn slowest_nested(&self) -> &Value {
        &self.0["slowest_nested"]
    }

    /// All connections, in order.
    pub fn connections(&self) -> &[Value] {
        self.0["connections"].as_array().expect("the schema has connections")
    }

    /// The only connection whose server, or else client, is at `port`.
    pub fn connection(&self, port: u16) -> &Value {
        let at = |end: &str| self.at_port(end, port);
        let found = if at("server").is_empty() { at("client") } else { at("server") };
        assert_eq!(found.len(), 1, "connections at port {port} of {}", self.summary());
        found[0]
    }

    /// Connections whose `end` (`client` or `server`) is at `port`.
    pub fn at_port(&self, end: &str, port: u16) -> Vec<&Value> {
        let suffix = format!(":{port}");
        let is_there = |connection: &&Value| text(&connection[end]).ends_with(&suffix);
        self.connections().iter().filter(is_there).collect()
    }

    /// Bytes of all flows from `end`.
    pub fn bytes_from(&self, end: &str) -> u64 {
        self.connections().iter().map(|connection| bytes(connection, end)).sum()
    }

    /// What the trace says of itself.
    pub fn notes(&self) -> String {
        self.0["trace"]["notes"].to_string()
    }

    /// Records at a point, as `SendEnqueue`.
    pub fn records_at(&self, point: &str) -> u64 {
        self.0["trace"]["points"][point]["records"].as_u64().expect("the schema has all points")
    }

    /// Findings called `id`.
    pub fn findings(&self, id: &str) -> Vec<&Value> {
        self.all_findings().filter(|finding| finding["id"] == id).collect()
    }

    /// Names of everything found.
    pub fn found(&self) -> BTreeSet<&str> {
        self.all_findings().map(|finding| text(&finding["id"])).collect()
    }

    /// What is not whole: missed records, bytes that do not add up or cannot be followed, and time
    /// that the ledger does not divide up.
    pub fn gaps(&self) -> Vec<String> {
        let mut gaps = Vec::new();
        if self.0["trace"]["missed_records"] != 0 {
            gaps.push(format!("{} records missed", self.0["trace"]["missed_records"]));
        }
        for (connection, flow) in
            self.connections().iter().flat_map(|one| flows(one).iter().map(move |flow| (one, flow)))
        {
            // A Unix socket has no stage before its receive queue, and `total` is that one.
            let is_there = |stage: &str| {
                !connection["protocol"].as_str().is_some_and(|it| it.starts_with("unix"))
                    || ["receive_queue", "total"].contains(&stage)
            };
            for (stage, values) in flow["stages"].as_object().expect("stages") {
                if is_there(stage) && values["residue_bytes"] != 0 {
                    let residue = &values["residue_bytes"];
                    gaps.push(format!("flow {} {stage}: residue {residue}", flow["id"]));
                }
            }
            let total: f64 = ledger(flow).map(|(_, share)| share).sum();
            if flow["ledger_total_ns"] != 0 && (total - 1.0).abs() > 1e-6 {
                gaps.push(format!("flow {}: ledger shares add up to {total}", flow["id"]));
            }
        }
        gaps
    }

    /// Whether all that is missed are observations that the kernel skipped, as a note says.
    pub fn is_only_skipped(&self) -> bool {
        let skipped =
            format!("the kernel skipped {} observation", self.0["trace"]["missed_records"]);
        self.notes().contains(&skipped)
    }

    /// Records that could not be kept.
    pub fn missed(&self) -> u64 {
        count(&self.0["trace"]["missed_records"])
    }

    /// One line for messages.
    pub fn summary(&self) -> String {
        let ends = |connection: &Value| {
            format!("{} > {}", text(&connection["client"]), text(&connection["server"]))
        };
        let connections: Vec<String> = self.connections().iter().take(8).map(ends).collect();
        format!(
            "{} connections {connections:?}, found {:?}, notes {}",
            self.connections().len(),
            self.found(),
            self.notes(),
        )
    }

    pub fn all_findings(&self) -> impl Iterator<Item = &Value> {
        self.connections().iter().flat_map(findings_of)
    }
}

/// Both directions of a connection.
pub fn flows(connection: &Value) -> &[Value] {
    connection["flows"].as_array().expect("the schema has flows")
}

/// The direction from `end`.
pub fn flow<'a>(connection: &'a Value, end: &str) -> &'a Value {
    let found = flows(connection).iter().find(|flow| flow["from"] == end);
    found.unwrap_or_else(|| panic!("no flow from {end} in {connection}"))
}

/// Bytes of the direction from `end`.
pub fn bytes(connection: &Value, end: &str) -> u64 {
    flow(connection, end)["bytes"].as_u64().expect("a count")
}

/// The place where most of the flow's time went, application's rest aside.
pub fn longest_wait(flow: &Value) -> &str {
    let waits = ledger(flow).filter(|(place, _)| *place != "app_idle");
    waits.max_by(|a, b| a.1.total_cmp(&b.1)).expect("the ledger has places").0
}

/// The same of what is not the machine's doing: where all CPUs are busy, readers wait for theirs.
pub fn longest_wait_but_for_cpu(flow: &Value) -> &str {
    let waits =
        ledger(flow).filter(|(place, _)| !["app_idle", "receive_queue.wakeup"].contains(place));
    waits.max_by(|a, b| a.1.total_cmp(&b.1)).expect("the ledger has places").0
}

/// Names of the programs at `end`.
pub fn programs<'a>(connection: &'a Value, end: &str) -> BTreeSet<&'a str> {
    let processes = connection["processes"].as_array().expect("processes").iter();
    processes
        .filter(|process| process["side"] == end)
        .map(|process| text(&process["comm"]))
        .collect()
}

/// A string of the document.
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is not text"))
}

/// A count of the document.
pub fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is not a count"))
}

fn ledger(flow: &Value) -> impl Iterator<Item = (&str, f64)> {
    let shares = flow["ledger"].as_object().expect("the schema has a ledger");
    shares.iter().map(|(place, share)| (place.as_str(), share.as_f64().expect("a share")))
}

fn findings_of(connection: &Value) -> &[Value] {
    connection["findings"].as_array().expect("the schema has findings")
}
