//! The tail latency of servers with `watch` and without it, and the cost of idle connections.
//!
//! Only the full form (`SOCKSCOPE_SOAK=full`) runs: a percentile of a short run says nothing. It prints tables, and asserts
//! that each request has its answer. The requests are those of `sockscope-lab lab work text-client`, an open loop.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{Program, Watch, may_record, watch};

/// Turns of three runs each: without `watch`, with it, without it.
const TURNS: usize = 12;
const IDLE: usize = 10_000;
const IDLE_TIME: Duration = Duration::from_secs(10);

/// A server, and the load that it has.
struct Server {
    name: &'static str,
    port: u16,
    request: &'static str,
    /// Between two requests.
    every: &'static str,
    requests: &'static str,
    _program: Program,
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn wait_until_it_listens(port: u16) {
    let end = Instant::now() + Duration::from_secs(10);
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(Instant::now() < end, "no server at port {port}");
        thread::sleep(Duration::from_millis(10));
    }
}

fn redis(folder: &Path) -> Server {
    let port = free_port();
    let mut command = Command::new("redis-server");
    command.args(["--port", &port.to_string(), "--save", "", "--maxclients", "12000", "--dir"]);
    let program = Program::start(command.arg(folder));
    wait_until_it_listens(port);
    Server {
        name: "redis",
        port,
        request: r"PING\r\n",
        every: "250us",
        requests: "12000",
        _program: program,
    }
}

fn nginx(folder: &Path) -> Server {
    let port = free_port();
    let config = folder.join("nginx.conf");
    let folder = folder.display();
    let text = format!(
        "daemon off; master_process off; pid {folder}/pid; error_log {folder}/errors;
         events {{ worker_connections 1024; }}
         http {{ access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
           fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
           keepalive_requests 1000000; keepalive_timeout 600s;
           server {{ listen 127.0.0.1:{port}; return 200 hello; }} }}"
    );
    fs::write(&config, text).unwrap();
    let program = Program::start(Command::new("nginx").arg("-c").arg(&config));
    wait_until_it_listens(port);
    let request = r"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    Server { name: "nginx", port, request, every: "500us", requests: "6000", _program: program }
}

/// p50 and p99 of one run, nanoseconds from the planned time.
fn run(server: &Server) -> [f64; 2] {
    let lab = Path::new(env!("CARGO_BIN_EXE_sockscope-watch")).with_file_name("sockscope-lab");
    let output = Command::new(&lab)
        .args(["lab", "work", "text-client", "--to", &format!("127.0.0.1:{}", server.port)])
        .args(["--request", server.request, "--every", server.every, "--requests", server.requests])
        .args(["--connections", "8", "--nodelay"])
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}: build sockscope-lab", lab.display()));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["unanswered"], 0, "{report}");
    ["p50", "p99"].map(|rank| report["exact_latency_ns"][rank].as_f64().unwrap())
}

fn watched(port: u16, folder: &Path) -> Watch {
    let mut watch = Watch::start(&mut watch(&port.to_string(), folder, &[]));
    watch.wait_for("a trace is kept when");
    watch
}

/// The median with the interval of 95 % by order statistics: of twelve, between the third and the tenth.
fn median(mut values: Vec<f64>) -> String {
    values.sort_by(f64::total_cmp);
    let middle = f64::midpoint(values[TURNS / 2 - 1], values[TURNS / 2]);
    format!("{middle:.3} ({:.3} to {:.3})", values[2], values[TURNS - 3])
}

#[test]
fn root_a_watched_server_answers_as_soon() {
    let test = "root_a_watched_server_answers_as_soon";
    if std::env::var("SOCKSCOPE_SOAK").is_ok_and(|form| form == "full") && may_record(test) {
        for server in [redis, nginx] {
            let folder = tempfile::tempdir().unwrap();
            let server = server(folder.path());
            run(&server);
            let mut ratios = [[Vec::new(), Vec::new()], [Vec::new(), Vec::new()]];
            let mut alone = [Vec::new(), Vec::new()];
            for turn in 0..TURNS {
                let before = run(&server);
                let watch = watched(server.port, &folder.path().join(format!("{turn}")));
                let with = run(&server);
                watch.end();
                let after = run(&server);
                for rank in 0..2 {
                    alone[rank].push(before[rank] / 1000.0);
                    ratios[rank][0].push(with[rank] / f64::midpoint(before[rank], after[rank]));
                    ratios[rank][1].push(after[rank] / before[rank]);
                }
            }
            for (rank, name) in ["p50", "p99"].into_iter().enumerate() {
                let [with, control] = ratios[rank].each_ref().map(|values| median(values.clone()));
                let alone = median(alone[rank].clone());
                println!(
                    "{} {name}: {alone} us alone; watched {with}; control {control}",
                    server.name
                );
            }
        }
    }
}

/// CPU time of a process in the idle time, milliseconds.
fn cpu_ms(watch: &Watch) -> f64 {
    let used = || {
        let stat = fs::read_to_string(format!("/proc/{}/schedstat", watch.child.id())).unwrap();
        let threads = fs::read_dir(format!("/proc/{}/task", watch.child.id())).unwrap();
        let all = threads
            .filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("schedstat")).ok());
        let ns = |text: &str| text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap();
        all.map(|text| ns(&text)).sum::<f64>().max(ns(&stat))
    };
    let before = used();
    thread::sleep(IDLE_TIME);
    (used() - before) / 1e6
}

#[test]
fn root_idle_connections_cost_nothing() {
    let test = "root_idle_connections_cost_nothing";
    if std::env::var("SOCKSCOPE_SOAK").is_ok_and(|form| form == "full") && may_record(test) {
        let folder = tempfile::tempdir().unwrap();
        let server = redis(folder.path());
        let watch = watched(server.port, &folder.path().join("watch"));
        let none = [cpu_ms(&watch), cpu_ms(&watch)];
        let open = || TcpStream::connect(("127.0.0.1", server.port)).unwrap();
        let idle: Vec<_> = (0..IDLE).map(|_| open()).collect();
        thread::sleep(Duration::from_secs(5));
        let some = [cpu_ms(&watch), cpu_ms(&watch)];
        drop(idle);
        let said = watch.end();
        println!(
            "CPU time of watch in {IDLE_TIME:?}: {none:.1?} ms without connections, {some:.1?} ms with {IDLE} idle ones"
        );
        assert!(said.contains(" 0 records missed"), "{said}");
    }
}
