//! Messages of OpenTelemetry (OTLP 1.x) in their JSON form.
//!
//! Sums are cumulative since the start. Names are those of `/metrics` without the unit, which has a field of its own.

use serde_json::{Value, json};
use sockscope_analysis::{Analysis, ConnectionAnalysis, Finding};
use sockscope_record::{Connection, ControlGroup, Process, Side, Stage};

use crate::exponential::Exponential;
use crate::exposition::{Family, Sample, families};
use crate::metrics::Metrics;

/// `AGGREGATION_TEMPORALITY_CUMULATIVE`.
const CUMULATIVE: u8 = 2;
/// `SEVERITY_NUMBER_WARN`.
const WARN: u8 = 13;
/// The event of a finding.
const EVENT: &str = "sockscope.finding";

/// The recorder that sends, and the time of its start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sender {
    /// Name of the host.
    pub host: String,
    /// Version of the program.
    pub version: String,
    /// Nanoseconds since 1970.
    pub started_ns: u64,
}

impl Sender {
    /// All metrics as of `now_ns`, nanoseconds since 1970: the body for `/v1/metrics`.
    pub fn metrics(&self, metrics: &Metrics, now_ns: u64) -> Value {
        let times = (self.started_ns, now_ns);
        let text = metrics.text();
        let mut all: Vec<Value> =
            families(&text).iter().filter_map(|family| scalar(family, times)).collect();
        all.push(delays(metrics.exponential(), times));
        json!({"resourceMetrics": [{
            "resource": self.resource(),
            "scopeMetrics": [{"scope": self.scope(), "metrics": all}],
        }]})
    }

    /// The findings of a refresh, which ended at `at_ns` since 1970: the body for `/v1/logs`. `None` without a finding.
    pub fn findings(&self, analysis: &Analysis, at_ns: u64) -> Option<Value> {
        let of_connection = |one| findings_of(one, at_ns);
        let all: Vec<Value> = analysis.connections.iter().flat_map(of_connection).collect();
        let has_some = !all.is_empty();
        let scope = json!({"scope": self.scope(), "logRecords": all});
        let body = json!({"resourceLogs": [{"resource": self.resource(), "scopeLogs": [scope]}]});
        has_some.then_some(body)
    }

    fn resource(&self) -> Value {
        json!({"attributes": [
            text("service.name", "sockscope"),
            text("service.version", &self.version),
            text("host.name", &self.host),
            text("os.type", "linux"),
        ]})
    }

    fn scope(&self) -> Value {
        json!({"name": "sockscope", "version": self.version})
    }
}

fn text(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

/// Integers of 64 bits are text in this form.
fn int(key: &str, value: impl Into<u64>) -> Value {
    json!({"key": key, "value": {"intValue": value.into().to_string()}})
}

/// A family of counters or gauges. Histograms have a form of their own.
fn scalar(family: &Family<'_>, times: (u64, u64)) -> Option<Value> {
    let points: Vec<Value> = family.samples.iter().map(|sample| point(sample, times)).collect();
    let data = match family.kind {
        "counter" => json!({
            "dataPoints": points,
            "aggregationTemporality": CUMULATIVE,
            "isMonotonic": true,
        }),
        "gauge" => json!({"dataPoints": points}),
        _ => return None,
    };
    let field = if family.kind == "counter" { "sum" } else { "gauge" };
    let (name, unit) = name_and_unit(family);
    let mut metric = json!({"name": name, "description": family.help, "unit": unit});
    metric[field] = data;
    (!points.is_empty()).then_some(metric)
}

/// As `sockscope.ledger` in `s`.
fn name_and_unit(family: &Family<'_>) -> (String, &'static str) {
    let name = family.name.strip_prefix("sockscope_").unwrap_or(family.name);
    let without = |unit: &str| name.strip_suffix(unit).unwrap_or(name).trim_end_matches('_');
    let (name, unit) = match family.unit {
        "seconds" => (without("seconds"), "s"),
        "bytes" => (without("bytes"), "By"),
        "ratio" => (without("ratio"), "1"),
        _ => (name, "1"),
    };
    (format!("sockscope.{name}"), unit)
}

fn point(sample: &Sample<'_>, (started_ns, now_ns): (u64, u64)) -> Value {
    let attributes: Vec<Value> =
        sample.labels.iter().map(|(name, it)| attribute(name, it)).collect();
    let mut point = json!({
        "attributes": attributes,
        "startTimeUnixNano": started_ns.to_string(),
        "timeUnixNano": now_ns.to_string(),
    });
    match sample.value.parse::<i64>() {
        Ok(_) => point["asInt"] = json!(sample.value),
        Err(_) => point["asDouble"] = json!(sample.value.parse::<f64>().unwrap_or_default()),
    }
    point
}

/// A label by the name that OpenTelemetry gives it, where it has one.
fn attribute(label: &str, value: &str) -> Value {
    match (label, value.parse::<u16>()) {
        ("process", _) => text("process.executable.name", value),
        ("protocol", _) => text("network.transport", value),
        ("container", _) => text("container.name", value),
        ("namespace", _) => text("k8s.namespace.name", value),
        ("pod", _) => text("k8s.pod.name", value),
        ("port", Ok(port)) => int("server.port", port),
        // The group of connections beyond the bound has the port `other`.
        _ => text(&format!("sockscope.{label}"), value),
    }
}

fn delays(stages: &[Exponential; Stage::ALL.len()], (started_ns, now_ns): (u64, u64)) -> Value {
    let points = Stage::ALL.into_iter().zip(stages).filter(|(_, one)| one.count > 0);
    let points: Vec<Value> = points
        .map(|(stage, one)| {
            let (offset, counts) = one.buckets();
            let counts: Vec<String> = counts.iter().map(u64::to_string).collect();
            json!({
                "attributes": [text("sockscope.stage", stage.name())],
                "startTimeUnixNano": started_ns.to_string(),
                "timeUnixNano": now_ns.to_string(),
                "count": one.count.to_string(),
                "sum": one.sum,
                "scale": Exponential::SCALE,
                "zeroCount": one.zeros.to_string(),
                "positive": {"offset": offset, "bucketCounts": counts},
            })
        })
        .collect();
    json!({
        "name": "sockscope.stage_delay",
        "description": "Time that bytes were in a stage, by runs of neighbouring bytes",
        "unit": "s",
        "exponentialHistogram": {"dataPoints": points, "aggregationTemporality": CUMULATIVE},
    })
}

fn findings_of(one: &ConnectionAnalysis, at_ns: u64) -> impl Iterator<Item = Value> + '_ {
    one.findings.iter().map(move |finding| record(one, finding, at_ns))
}

/// Address and port of an end, or the name of its Unix socket.
fn end(connection: &Connection, side: Side) -> Vec<Value> {
    let address = if side == Side::Client { connection.client } else { connection.server };
    let name = format!("{}.address", side.name());
    match connection.protocol.is_unix() {
        true => vec![text(&name, &connection.end(side).to_string())],
        false => vec![
            text(&name, &address.ip().to_string()),
            int(&format!("{}.port", side.name()), address.port()),
        ],
    }
}

fn record(one: &ConnectionAnalysis, finding: &Finding, at_ns: u64) -> Value {
    let connection = &one.connection;
    let mut attributes = vec![
        text("event.name", EVENT),
        text("sockscope.finding", finding.id.name()),
        int("sockscope.connection", connection.id.0),
        text("sockscope.side", finding.side.name()),
        int("sockscope.count", finding.count),
        json!({"key": "sockscope.cost", "value": {"doubleValue": finding.cost_ns as f64 * 1e-9}}),
        text("sockscope.fix", &finding.fix),
        text("network.transport", connection.protocol.name()),
    ];
    attributes.extend([Side::Client, Side::Server].iter().flat_map(|side| end(connection, *side)));
    let on_side = |it: &&Process| it.side == finding.side;
    if let Some(process) = connection.processes.iter().find(on_side) {
        attributes.push(text("process.executable.name", &process.comm));
        attributes.push(int("process.pid", process.pid));
        attributes.extend(process.group.iter().flat_map(|group| of_group(group)));
    }
    let evidence = finding.evidence.iter().map(|it| json!({"stringValue": it.text}));
    let evidence: Vec<Value> = evidence.collect();
    attributes.push(json!({
        "key": "sockscope.evidence",
        "value": {"arrayValue": {"values": evidence}},
    }));
    json!({
        "timeUnixNano": at_ns.to_string(),
        "observedTimeUnixNano": at_ns.to_string(),
        "severityNumber": WARN,
        "severityText": "WARN",
        "eventName": EVENT,
        "body": {"stringValue": finding.summary},
        "attributes": attributes,
    })
}

/// The names of a control group, as OpenTelemetry names them where it does.
fn of_group(group: &ControlGroup) -> Vec<Value> {
    let (container, pod) = (group.container.as_ref(), group.pod.as_ref());
    let of_container = if pod.is_some() { "k8s.container.name" } else { "container.name" };
    let all = [
        ("process.linux.cgroup", Some(&group.path)),
        ("sockscope.unit", group.unit.as_ref()),
        ("container.id", container.map(|it| &it.id)),
        (of_container, container.and_then(|it| it.name.as_ref())),
        ("k8s.namespace.name", pod.and_then(|it| it.namespace.as_ref())),
        ("k8s.pod.name", pod.and_then(|it| it.name.as_ref())),
        ("k8s.pod.uid", pod.map(|it| &it.uid)),
    ];
    all.into_iter().filter_map(|(name, it)| Some(text(name, it?))).collect()
}

#[cfg(test)]
mod tests {
    use sockscope_analysis::{Evidence, FindingId};
    use sockscope_record::{ConnectionId, Container, Pod, Protocol, UnixName};

    use super::*;
    use crate::testing::{analysis, whole_costs};

    fn sender() -> Sender {
        Sender { host: "h".to_owned(), version: "1".to_owned(), started_ns: 5 }
    }

    #[test]
    fn a_finding_has_the_names_of_its_pod_and_container() {
        let mut group = ControlGroup::of_path("/system.slice/a.service");
        assert_eq!(
            of_group(&group),
            [
                text("process.linux.cgroup", "/system.slice/a.service"),
                text("sockscope.unit", "a.service")
            ]
        );
        group.unit = None;
        group.container = Some(Container { id: "7".into(), name: Some("app".into()) });
        assert_eq!(
            of_group(&group)[1..],
            [text("container.id", "7"), text("container.name", "app")]
        );
        let (namespace, name) = (Some("shop".into()), Some("web-0".into()));
        group.pod = Some(Pod { uid: "9".into(), namespace, name });
        let in_pod = [
            text("container.id", "7"),
            text("k8s.container.name", "app"),
            text("k8s.namespace.name", "shop"),
            text("k8s.pod.name", "web-0"),
            text("k8s.pod.uid", "9"),
        ];
        assert_eq!(of_group(&group)[1..], in_pod);
    }

    #[test]
    fn a_counter_is_a_cumulative_sum_with_its_unit() {
        let mut metrics = Metrics::default();
        let part = analysis(&[(1, FindingId::NagleDelayedAck, 40)]);
        metrics.add(&part, &whole_costs(&part), 7);
        let body = sender().metrics(&metrics, 9);
        let resource = &body["resourceMetrics"][0];
        assert_eq!(resource["resource"]["attributes"][2], text("host.name", "h"));
        let all = resource["scopeMetrics"][0]["metrics"].as_array().unwrap();
        let named = |name: &str| all.iter().find(|one| one["name"] == name);
        let lost = named("sockscope.finding_lost").unwrap();
        assert_eq!(lost["unit"], "s");
        let expected = json!({
            "aggregationTemporality": 2,
            "isMonotonic": true,
            "dataPoints": [{
                "attributes": [
                    text("sockscope.finding", "nagle-delayed-ack"),
                    text("process.executable.name", "redis"),
                    int("server.port", 6_379u16),
                    text("network.transport", "tcp"),
                ],
                "startTimeUnixNano": "5",
                "timeUnixNano": "9",
                "asDouble": 0.04,
            }],
        });
        assert_eq!(lost["sum"], expected);
        let records = &named("sockscope.records").unwrap()["sum"]["dataPoints"][0];
        assert_eq!((&records["asInt"], &records["attributes"]), (&json!("7"), &json!([])));
        let connections = named("sockscope.connections").unwrap();
        assert_eq!(connections["gauge"]["dataPoints"][0]["asInt"], "1");
        assert_eq!(named("sockscope.segments").unwrap()["unit"], "By");
        assert_eq!(named("sockscope.retransmitted"), None, "without a sample");
    }

    #[test]
    fn a_finding_is_a_log_record_with_its_evidence() {
        let mut part = analysis(&[(3, FindingId::NagleDelayedAck, 40)]);
        let evidence = Evidence { at_ns: 1, text: "held at 1 s".to_owned() };
        part.connections[0].findings[0].evidence.push(evidence);
        let body = sender().findings(&part, 9).unwrap();
        let record = &body["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0];
        assert_eq!(record["severityNumber"], 13);
        assert_eq!(record["eventName"], "sockscope.finding");
        assert_eq!(record["timeUnixNano"], "9");
        assert_eq!(record["body"]["stringValue"], "nagle-delayed-ack cost 40 ms");
        let attributes = record["attributes"].as_array().unwrap();
        for expected in [
            text("event.name", "sockscope.finding"),
            text("sockscope.finding", "nagle-delayed-ack"),
            int("sockscope.connection", 3u32),
            json!({"key": "sockscope.cost", "value": {"doubleValue": 0.04}}),
            int("client.port", 40_000u16),
            text("server.address", "127.0.0.1"),
        ] {
            assert!(attributes.contains(&expected), "{expected} is not in {record:#}");
        }
        let evidence = attributes.iter().find(|one| one["key"] == "sockscope.evidence").unwrap();
        assert_eq!(evidence["value"]["arrayValue"]["values"][0]["stringValue"], "held at 1 s");
        assert_eq!(sender().findings(&analysis(&[]), 9), None);
    }

    #[test]
    fn a_unix_socket_has_its_name_as_the_address_and_no_port() {
        let names = ["unix:7", "/run/a.sock"].map(UnixName::new);
        let connection = Connection::of_unix(ConnectionId(1), Protocol::Unix, names, 0);
        assert_eq!(end(&connection, Side::Client), [text("client.address", "unix:7")]);
        assert_eq!(end(&connection, Side::Server), [text("server.address", "/run/a.sock")]);
    }

    #[test]
    fn a_program_may_have_any_name_and_the_group_beyond_the_bound_has_no_port() {
        assert_eq!(attribute("port", "other"), text("sockscope.port", "other"));
        let mut metrics = Metrics::default();
        let mut part = analysis(&[(1, FindingId::NagleDelayedAck, 40)]);
        let name = "a\"} # \\b\n";
        part.connections[0].connection.processes[0].comm = name.to_owned();
        metrics.add(&part, &whole_costs(&part), 1);
        let body = sender().metrics(&metrics, 9).to_string();
        let expected = text("process.executable.name", name).to_string();
        assert!(body.contains(&expected), "{expected} is not in {body}");
    }
}
