//! The dashboard for Grafana: a real Prometheus answers its queries, with the metrics of a running recorder.

mod common;

use std::collections::HashSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use common::{CALLS, Program, Watch, may_record, watch};
use serde_json::Value;

const DASHBOARD: &str = include_str!("../../../packaging/grafana/sockscope.json");

/// Panels that must show the planted stall: with the label that names it, and the least value.
const OF_THE_STALL: [(&str, &str, &str, f64); 5] = [
    ("Time by place", "place", "send_queue.nagle", 0.1),
    ("Cost by finding", "finding", "nagle-delayed-ack", 0.1),
    ("Worst connections", "finding", "nagle-delayed-ack", 0.1),
    ("Findings by kind", "finding", "nagle-delayed-ack", 1.0),
    ("Delay by stage, p99", "stage", "send_queue", 0.03),
];

/// A network namespace of the program's own, which ends with it. One packet with data of sixty is dropped, and TCP sends
/// its bytes again.
const WITH_DROPS: &str = "
ip link set lo up && nft add table ip t &&
nft 'add chain ip t out { type filter hook output priority 0; }' &&
nft 'add rule ip t out ip length > 100 numgen inc mod 60 == 59 drop' && exec python3 -c \"$1\"
";

/// Title and query of each target.
fn queries() -> Vec<(String, String)> {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| {
        let targets = panel["targets"].as_array().unwrap().iter();
        targets.map(|target| (panel["title"].as_str().unwrap(), target["expr"].as_str().unwrap()))
    });
    targets.map(|(title, query)| (title.to_owned(), query.to_owned())).collect()
}

/// As Grafana puts the variables in, with all hosts and programs chosen.
fn filled_in(query: &str) -> String {
    let all = query.replace("$instance", ".*").replace("$process", ".*");
    let query = all.replace("$__rate_interval", "4s");
    assert!(!query.contains('$'), "a variable that the dashboard does not have: {query}");
    query
}

#[test]
fn the_dashboard_is_whole() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: HashSet<u64> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len());
    let mut taken = HashSet::new();
    for panel in panels {
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{panel}");
        let at = |name: &str| panel["gridPos"][name].as_u64().unwrap();
        assert!(at("x") + at("w") <= 24, "{panel}");
        for (x, y) in (0..at("w")).flat_map(|x| (0..at("h")).map(move |y| (x, y))) {
            assert!(taken.insert((at("x") + x, at("y") + y)), "panels overlap: {panel}");
        }
    }
    let queries = queries();
    for (title, ..) in OF_THE_STALL {
        assert!(queries.iter().any(|(panel, _)| panel == title), "{title}");
    }
    queries.iter().for_each(|(_, query)| drop(filled_in(query)));
}

/// A Prometheus that asks a recorder each second.
struct Prometheus {
    child: Child,
    address: String,
}

impl Prometheus {
    /// `None` where there is no such program.
    fn start(folder: &Path, target: &str) -> Option<Self> {
        let config = folder.join("prometheus.yml");
        let text = format!(
            "global: {{scrape_interval: 1s}}\nscrape_configs:\n- job_name: sockscope\n  static_configs:\n  - targets: ['{target}']\n"
        );
        fs::write(&config, text).unwrap();
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut command = Command::new("prometheus");
        command.arg(format!("--config.file={}", config.display()));
        command.arg(format!("--storage.tsdb.path={}", folder.join("data").display()));
        command.arg(format!("--web.listen-address={free}"));
        let log = fs::File::create(folder.join("log")).unwrap();
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().ok()?;
        Some(Self { child, address: free.to_string() })
    }

    /// The data of an answer; `None` while it does not listen.
    fn ask(&self, path: &str) -> Option<Value> {
        let mut stream = TcpStream::connect(&self.address).ok()?;
        // An answer to HTTP 1.0 is not cut into chunks.
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (_, body) = answer.split_once("\r\n\r\n")?;
        let body: Value = serde_json::from_str(body).ok()?;
        assert_eq!(body["status"], "success", "{path}: {body}");
        Some(body["data"].clone())
    }

    /// Labels and values of the series now; panics where the query is not valid.
    fn query(&self, query: &str) -> Vec<(Value, f64)> {
        self.query_with(query, "")
    }

    /// Those at a time in seconds since 1970.
    fn query_at(&self, query: &str, at_s: f64) -> Vec<(Value, f64)> {
        self.query_with(query, &format!("&time={at_s:.3}"))
    }

    fn query_with(&self, query: &str, more: &str) -> Vec<(Value, f64)> {
        let escaped = query.bytes().map(|byte| format!("%{byte:02x}")).collect::<String>();
        let data = self.ask(&format!("/api/v1/query?query={escaped}{more}")).expect("it listens");
        let series = data["result"].as_array().unwrap().iter();
        let value = |one: &Value| one["value"][1].as_str().unwrap().parse().unwrap();
        series.map(|one| (one["metric"].clone(), value(one))).collect()
    }

    /// Waits for the end of the first scrape that began later than this moment. The time of its samples.
    fn wait_for_scrape(&self, folder: &Path) -> f64 {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64();
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            let up = self.ask("/api/v1/query?query=up[1m]");
            // The time of a sample is that at which the scrape began.
            let of_up = up.as_ref().and_then(|data| data["result"][0]["values"].as_array());
            let mut scrapes = of_up.into_iter().flatten().filter(|sample| sample[1] == "1");
            let first = scrapes.find_map(|sample| sample[0].as_f64().filter(|at_s| *at_s > now));
            if let Some(at_s) = first {
                return at_s;
            }
            let log = || fs::read_to_string(folder.join("log")).unwrap_or_default();
            assert!(Instant::now() < until, "no scrape: {up:?}\n{}", log());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Of the panels that must show the stall: title, series at this scrape, and whether the stall is among them.
    fn shown_at(&self, queries: &[(String, String)], scrape_s: f64) -> Vec<(&str, String, bool)> {
        let panels = OF_THE_STALL.into_iter().flat_map(|(title, label, name, least)| {
            queries.iter().filter(move |(panel, _)| panel == title).map(move |(_, query)| {
                let series = self.query_at(&filled_in(query), scrape_s);
                let of_stall = series.iter().find(|(labels, _)| labels[label] == name);
                (title, format!("{series:?}"), of_stall.is_some_and(|(_, value)| *value >= least))
            })
        });
        panels.collect()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn root_each_query_has_series_and_a_stall_shows_within_one_scrape() {
    let test = "root_each_query_has_series_and_a_stall_shows_within_one_scrape";
    if !may_record(test) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new("unshare");
    let mut calls = Program::start(command.args(["--net", "sh", "-c", WITH_DROPS, "sh", CALLS]));
    let port = calls.port();
    let when = "finding=nagle-delayed-ack > 200ms in 5s";
    let arguments = ["--listen", "127.0.0.1:0", "--cost", "--when", when, "--after", "500ms"];
    let output = folder.path().join("watch");
    let mut recorder = Watch::start(&mut watch(&port, &output, &arguments));
    let line = recorder.wait_for("metrics are at");
    let target = line.split("http://").nth(1).unwrap().trim_end_matches("/metrics");
    let Some(prometheus) = Prometheus::start(folder.path(), target) else {
        let required = std::env::var("SOCKSCOPE_LIVE").is_ok_and(|wish| wish == "1");
        assert!(!required, "there is no prometheus: run scripts/setup");
        let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: there is no prometheus");
        return;
    };
    prometheus.wait_for_scrape(folder.path());
    calls.begin();
    let queries = queries();
    let before_s = prometheus.wait_for_scrape(folder.path());
    recorder.wait_for("keeping a trace: ");
    // The recorder counted the stall before it said so: the first scrape from now on has it, and the one before the
    // stall has not.
    let next_s = prometheus.wait_for_scrape(folder.path());
    for (title, series, is_shown) in prometheus.shown_at(&queries, before_s) {
        // Bytes behind a dropped segment wait in the send queue as well.
        let has_other_causes = title == "Delay by stage, p99";
        assert!(!is_shown || has_other_causes, "{title} before the stall: {series}");
    }
    for (title, series, is_shown) in prometheus.shown_at(&queries, next_s) {
        assert!(is_shown, "{title} at the first scrape after the stall: {series}");
    }
    // Rates need two scrapes, and TCP its time to send again.
    let until = Instant::now() + Duration::from_secs(15);
    let mut without: Vec<_> = queries.iter().collect();
    while !without.is_empty() {
        without.retain(|(_, query)| prometheus.query(&filled_in(query)).is_empty());
        assert!(Instant::now() < until, "no series: {without:#?}");
        std::thread::sleep(Duration::from_millis(200));
    }
    let again = "sum(sockscope_retransmitted_bytes_total) > 0";
    assert_eq!(prometheus.query(again).len(), 1, "{again}");
    recorder.end();
}
