//! The HTTP server and the HTTP client of `tests/workloads/situations`.

use serde_json::Value;

use crate::background::{Background, free_port};
use crate::bundle::{Recording, command, run_once, words, workload};

/// Python's `http.server` with a handler that sleeps.
pub struct HttpService {
    pub port: u16,
    server: Background,
}

impl HttpService {
    /// Starts it with options of `http_service.py`.
    pub fn start(options: &[&str]) -> Self {
        let port = free_port();
        let place = ["--port", &port.to_string()];
        let serve = workload("situations/http_service.py", &[&place[..], options].concat());
        let server = Background::start_until(&mut command(&serve), "-TERM", "listening on");
        Self { port, server }
    }

    /// As a report names it.
    pub fn who(&self) -> String {
        format!("server (python3, pid {})", self.pid())
    }

    /// Number of its process.
    pub fn pid(&self) -> u32 {
        self.server.pid()
    }

    /// Records one curl that waits for at most so many seconds, and returns how long it says that it waited, in
    /// milliseconds.
    pub fn curl(&self, seconds_max: &str) -> (Recording, f64) {
        let url = format!("http://127.0.0.1:{}/", self.port);
        curl(&url, seconds_max)
    }

    /// Records calls of `http_calls.py`, and returns what it measured.
    pub fn called(&self, calls: &str) -> (Recording, Value) {
        let place = ["--port", &self.port.to_string(), "--calls", calls];
        let recording = run_once(&[], &workload("situations/http_calls.py", &place));
        let facts = recording.facts();
        (recording, facts)
    }
}

/// Records one curl, which may fail.
pub fn curl(url: &str, seconds_max: &str) -> (Recording, f64) {
    let recording = run_once(&[], &curl_words(url, seconds_max));
    let measured_ms = curl_ms(&recording);
    (recording, measured_ms)
}

/// The command of one curl that prints its time.
pub fn curl_words(url: &str, seconds_max: &str) -> Vec<String> {
    let ask = format!(
        "curl --silent --max-time {seconds_max} --output /dev/null --write-out '%{{time_total}}\\n' {url} || true"
    );
    words(&["sh", "-c", &ask])
}

/// The time that curl printed, in milliseconds.
pub fn curl_ms(recording: &Recording) -> f64 {
    let line = recording.said.lines().next_back().unwrap_or_default();
    let seconds: f64 = line.trim().parse().unwrap_or_else(|_| panic!("curl said {line:?}"));
    seconds * 1000.0
}

/// A figure of a workload.
pub fn figure(facts: &Value, key: &str) -> f64 {
    facts[key].as_f64().unwrap_or_else(|| panic!("no {key} in {facts}"))
}
