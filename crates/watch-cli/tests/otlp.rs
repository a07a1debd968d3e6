//! A collector of OpenTelemetry gets metrics and findings of a running recorder.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use common::{CALLS, Program, Watch, may_record, watch};
use serde_json::{Value, json};

/// A collector in a thread. It is busy at first, and refuses one request.
fn collector() -> (String, Receiver<(String, String)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (sender, messages) = channel();
    std::thread::spawn(move || {
        let mut is_busy = true;
        for stream in listener.incoming().map_while(Result::ok) {
            let mut stream = BufReader::new(stream);
            while let Some(message) = read_request(&mut stream) {
                let status = if std::mem::take(&mut is_busy) { "503 Busy" } else { "200 OK" };
                let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\n{{}}");
                if stream.get_mut().write_all(answer.as_bytes()).is_err() {
                    break;
                }
                let is_taken = status == "200 OK";
                if is_taken && sender.send(message).is_err() {
                    return;
                }
            }
        }
    });
    (address, messages)
}

/// The path and the body; `None` at the end of the connection.
fn read_request(stream: &mut BufReader<TcpStream>) -> Option<(String, String)> {
    let mut line = String::new();
    stream.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let path = line.split(' ').nth(1)?.to_owned();
    let (mut length, mut is_json) = (0, false);
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).ok()?;
        let line = line.trim().to_ascii_lowercase();
        match line.split_once(": ") {
            Some(("content-length", value)) => length = value.parse().ok()?,
            Some(("content-type", value)) => is_json = value == "application/json",
            Some(_) => {}
            None => break,
        }
    }
    assert!(is_json, "{path} has another type");
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    Some((path, String::from_utf8(body).ok()?))
}

/// Attributes of metrics and records as one object.
fn attributes(of: &Value) -> Value {
    let all = of["attributes"].as_array().unwrap().iter();
    let value = |one: &Value| one["value"].as_object().unwrap().values().next().unwrap().clone();
    all.map(|one| (one["key"].as_str().unwrap().to_owned(), value(one))).collect()
}

/// Reads the messages by the official schema, where Python has it.
fn check_by_schema(test: &str, messages: &[(String, String)]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/readers");
    let python = folder.join(".venv/bin/python");
    let mut command = Command::new(&python);
    let command = command.args(["-c", "import opentelemetry.proto.metrics.v1.metrics_pb2"]);
    if !command.output().is_ok_and(|output| output.status.success()) {
        let reason = "no schema of OpenTelemetry: `make setup` installs it";
        let required = std::env::var("SOCKSCOPE_READERS").is_ok_and(|wish| wish == "1");
        assert!(!required, "{reason}");
        let _ = writeln!(std::io::stderr(), "SKIPPED: a part of {test}: {reason}");
        return;
    }
    let mut command = Command::new(python);
    let command = command.arg(folder.join("check_otlp.py")).stdin(Stdio::piped());
    let mut reader = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let lines: String = messages.iter().map(|(path, body)| format!("{path} {body}\n")).collect();
    let mut input = reader.stdin.take().unwrap();
    // A reader that fails reads no further, and says why.
    let _ = input.write_all(lines.as_bytes());
    drop(input);
    let output = reader.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let names = String::from_utf8(output.stdout).unwrap();
    for name in ["sockscope.finding", "sockscope.ledger", "sockscope.stage_delay"] {
        assert!(names.split_whitespace().any(|it| it == name), "{name} is not in {names}");
    }
}

#[test]
fn root_a_collector_gets_metrics_and_findings() {
    let test = "root_a_collector_gets_metrics_and_findings";
    if !may_record(test) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut calls = Program::start(Command::new("python3").args(["-c", CALLS]));
    let port = calls.port();
    let (address, messages) = collector();
    let arguments = ["--otlp", &address, "--otlp-interval", "1s", "--when", "lost > 60m in 90m"];
    let mut recorder = Watch::start(&mut watch(&port, folder.path(), &arguments));
    recorder.wait_for("a trace is kept when");
    calls.begin();
    let mut all = Vec::new();
    let has_finding = |body: &str| body.contains("nagle-delayed-ack");
    // A finding as a record, and after it in the metrics.
    for path in ["/v1/logs", "/v1/metrics"] {
        loop {
            let message = messages.recv_timeout(Duration::from_secs(30));
            let message = message.unwrap_or_else(|_| panic!("no finding at {path}: {all:#?}"));
            let is_it = message.0 == path && has_finding(&message.1);
            all.push(message);
            if is_it {
                break;
            }
        }
    }
    let said = recorder.end();
    all.extend(messages.try_iter());
    let taken = format!("the collector took {} messages, 0 were dropped", all.len());
    assert!(said.contains(&taken), "{taken} is not in\n{said}");
    let json = |path: &str| {
        let of_path = all.iter().rev().filter(move |(its, body)| its == path && has_finding(body));
        let body = of_path.map(|(_, body)| serde_json::from_str::<Value>(body).unwrap()).next();
        body.unwrap()
    };
    let logs = json("/v1/logs");
    let records = logs["resourceLogs"][0]["scopeLogs"][0]["logRecords"].as_array().unwrap();
    let is_stall = |record: &&Value| attributes(record)["sockscope.finding"] == "nagle-delayed-ack";
    let record = records.iter().find(is_stall).unwrap();
    let of_record = attributes(record);
    assert_eq!(of_record["event.name"], "sockscope.finding");
    assert_eq!(of_record["server.port"], port.as_str());
    assert_eq!(of_record["process.executable.name"], "python3");
    assert!(of_record["sockscope.cost"].as_f64().unwrap() > 0.03, "{record}");
    assert!(!of_record["sockscope.evidence"]["values"].as_array().unwrap().is_empty(), "{record}");
    assert!(record["body"]["stringValue"].as_str().unwrap().contains("Nagle"), "{record}");
    let metrics = json("/v1/metrics");
    let metrics = metrics["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap();
    let named = |name: &str| metrics.iter().find(|one| one["name"] == name).unwrap();
    let ledger = named("sockscope.ledger");
    assert_eq!(
        (&ledger["unit"], &ledger["sum"]["aggregationTemporality"]),
        (&json!("s"), &json!(2))
    );
    let points = ledger["sum"]["dataPoints"].as_array().unwrap();
    let is_nagle = |point: &&Value| attributes(point)["sockscope.place"] == "send_queue.nagle";
    assert!(
        points.iter().find(is_nagle).unwrap()["asDouble"].as_f64().unwrap() > 0.03,
        "{points:?}"
    );
    let delays = &named("sockscope.stage_delay")["exponentialHistogram"]["dataPoints"];
    assert_eq!(delays[0]["scale"], 1);
    check_by_schema(test, &all);
}
