//! The tail latency of servers with `watch` and without it, and the cost of idle connections.
//!
//! Only the full form (`SOCKSCOPE_SOAK=full`) runs: a percentile of a short run says nothing. It prints tables, and asserts
//! that each request has its answer. The requests are those of `sockscope-lab lab work text-client`, an open loop. `watch`
//! runs in two forms: as the unit in `packaging/` has it, with a budget, and with all connections.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{Program, Watch, may_record, watch};

/// In each, every form runs between times without `watch`. `SOCKSCOPE_TURNS` has another number.
const TURNS: usize = 40;
/// Runs of a form in a turn, of half a second each: another guest of the machine disturbs few of them. Their geometric
/// mean counts.
const RUNS: usize = 8;
/// Turns after which the figures so far are printed.
const PRINTED: usize = 5;
/// The options of a form, and the time until the share of the connections is settled.
struct Form {
    name: &'static str,
    options: &'static [&'static str],
    settles: Duration,
}

const FORMS: [Form; 2] = [
    Form {
        name: "watch --budget 3%",
        options: &["--budget", "3%"],
        settles: Duration::from_secs(12),
    },
    Form { name: "watch", options: &[], settles: SETTLES },
];
/// Of one run, while other guests use the CPUs.
const ATTEMPTS: usize = 60;
const IDLE: usize = 10_000;
/// Opened or closed one after another.
const IDLE_AT_ONCE: usize = 100;
const IDLE_PAUSE: Duration = Duration::from_millis(20);
const IDLE_TIME: Duration = Duration::from_secs(10);
/// After the probes were attached or detached, and after connections opened or closed.
const SETTLES: Duration = Duration::from_secs(1);
const IDLE_SETTLES: Duration = Duration::from_secs(5);

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
        requests: "2000",
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
    Server { name: "nginx", port, request, every: "500us", requests: "1000", _program: program }
}

/// CPU time that other guests of the machine took from this one, in ticks of 10 ms: `steal` of /proc/stat (proc_stat(5)).
fn stolen_ticks() -> u64 {
    let stat = fs::read_to_string("/proc/stat").unwrap();
    stat.split_whitespace().nth(8).and_then(|ticks| ticks.parse().ok()).expect("the column steal")
}

/// Runs that another guest disturbed, and that were made again.
static DISTURBED: AtomicUsize = AtomicUsize::new(0);

/// p50 and p99 of one run, nanoseconds from the planned time. A run is made again where another guest took CPU time.
fn run(server: &Server) -> [f64; 2] {
    for _ in 1..ATTEMPTS {
        let before = stolen_ticks();
        let figures = run_once(server);
        if stolen_ticks() == before {
            return figures;
        }
        DISTURBED.fetch_add(1, Ordering::Relaxed);
    }
    println!("this run counts although another guest took CPU time: {ATTEMPTS} attempts");
    run_once(server)
}

fn run_once(server: &Server) -> [f64; 2] {
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

fn watched(port: u16, folder: &Path, options: &[&str]) -> Watch {
    let mut watch = Watch::start(&mut watch(&port.to_string(), folder, options));
    watch.wait_for("a trace is kept when");
    watch
}

/// The usual value of positive ones with its interval of 95 %: the median of the geometric means of all pairs (Hodges and
/// Lehmann, "Estimates of location based on rank tests", 1963). Its interval is narrower than that of the median.
fn usual(values: impl Iterator<Item = f64>) -> String {
    let logs: Vec<f64> = values.map(f64::ln).collect();
    let pairs = logs.iter().enumerate();
    let mut means: Vec<f64> = pairs
        .flat_map(|(index, one)| logs[index..].iter().map(|other| f64::midpoint(*one, *other)))
        .collect();
    means.sort_by(f64::total_cmp);
    // The ranks of Wilcoxon's signed-rank statistic, nearly a normal one.
    let count = logs.len() as f64;
    let deviation = (count * (count + 1.0) * (2.0 * count + 1.0) / 24.0).sqrt();
    let below = (count * (count + 1.0) / 4.0 - 1.96 * deviation).max(0.0) as usize;
    let last = means.len() - 1;
    let middle = f64::midpoint(means[last / 2], means[means.len() / 2]);
    let [middle, low, high] = [middle, means[below], means[last - below]].map(f64::exp);
    format!("{middle:.3} ({low:.3} to {high:.3})")
}

#[test]
fn the_interval_of_a_usual_value_is_narrower_with_more_values() {
    let of = |count: u32| usual((1..=count).map(|value| (f64::from(value) / 100.0).exp()));
    assert_eq!(usual([1.0, 4.0].into_iter()), "2.000 (1.000 to 4.000)");
    assert_eq!(of(10), "1.057 (1.030 to 1.083)");
    assert_eq!(of(100), "1.657 (1.560 to 1.759)");
}

/// p50 and p99: the geometric mean of runs.
fn runs(server: &Server) -> [f64; 2] {
    let runs: Vec<[f64; 2]> = (0..RUNS).map(|_| run(server)).collect();
    [0, 1].map(|rank| (runs.iter().map(|run| run[rank].ln()).sum::<f64>() / RUNS as f64).exp())
}

/// Times without `watch`, one more than those with it, and these by their form.
struct Times {
    alone: Vec<[f64; 2]>,
    watched: Vec<(usize, [f64; 2])>,
}

impl Times {
    /// Each by the mean of those before and after it: of a form, or as a control of those without `watch`.
    fn print(&self, server: &Server) {
        for (rank, name) in ["p50", "p99"].into_iter().enumerate() {
            let around = |one: &[f64; 2], other: &[f64; 2]| (one[rank] * other[rank]).sqrt();
            let alone = usual(self.alone.iter().map(|time| time[rank] / 1000.0));
            let triples = self.alone.windows(3);
            let control = usual(triples.map(|it| it[1][rank] / around(&it[0], &it[2])));
            println!("{} {name}: {alone} us alone; control {control}", server.name);
            for (index, form) in FORMS.iter().enumerate() {
                let pairs = self.alone.windows(2).zip(&self.watched);
                let of_form = pairs.filter(|(_, (of, _))| *of == index);
                let ratios = of_form.map(|(it, (_, time))| time[rank] / around(&it[0], &it[1]));
                println!("{} {name}: {}: {}", server.name, form.name, usual(ratios));
            }
        }
    }
}

#[test]
fn root_a_watched_server_answers_as_soon() {
    let test = "root_a_watched_server_answers_as_soon";
    if std::env::var("SOCKSCOPE_SOAK").is_ok_and(|form| form == "full") && may_record(test) {
        let turns = std::env::var("SOCKSCOPE_TURNS").ok();
        let turns = turns.map_or(TURNS, |turns| turns.parse().expect("a number of turns"));
        for server in [redis, nginx] {
            let folder = tempfile::tempdir().unwrap();
            let server = server(folder.path());
            run(&server);
            let mut times = Times { alone: vec![runs(&server)], watched: Vec::new() };
            for turn in 0..turns {
                let first = turn % FORMS.len();
                for index in [first, 1 - first] {
                    let form = &FORMS[index];
                    let dir = folder.path().join(format!("{turn}-{index}"));
                    let watch = watched(server.port, &dir, form.options);
                    let end = Instant::now() + form.settles;
                    while Instant::now() < end {
                        run_once(&server);
                    }
                    times.watched.push((index, runs(&server)));
                    watch.end();
                    fs::remove_dir_all(dir).unwrap();
                    thread::sleep(SETTLES);
                    times.alone.push(runs(&server));
                }
                if (turn + 1) % PRINTED == 0 || turn + 1 == turns {
                    println!("after {} turns:", turn + 1);
                    times.print(&server);
                }
            }
            let disturbed = DISTURBED.swap(0, Ordering::Relaxed);
            println!(
                "{disturbed} runs were made again, as another guest of the machine took CPU time"
            );
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
        let watch = watched(server.port, &folder.path().join("watch"), &[]);
        let before = cpu_ms(&watch);
        let mut idle = Vec::new();
        while idle.len() < IDLE {
            let open = |_| TcpStream::connect(("127.0.0.1", server.port)).unwrap();
            idle.extend((0..IDLE_AT_ONCE).map(open));
            thread::sleep(IDLE_PAUSE);
        }
        thread::sleep(IDLE_SETTLES);
        let with = [cpu_ms(&watch), cpu_ms(&watch)];
        while !idle.is_empty() {
            idle.truncate(idle.len() - IDLE_AT_ONCE);
            thread::sleep(IDLE_PAUSE);
        }
        thread::sleep(IDLE_SETTLES);
        let after = cpu_ms(&watch);
        let said = watch.end();
        println!(
            "CPU time of watch in {IDLE_TIME:?}: {before:.1} ms, with {IDLE} idle connections {with:.1?} ms, after {after:.1} ms"
        );
        println!("{}", said.trim_end());
        // While the program of state changes runs on a CPU, the kernel does not run it for another change there: some
        // hundreds of 270,000 records here. A list or a ring that overflows loses thousands.
        let missed = said.split(" records missed").next().and_then(|said| said.rsplit(' ').next());
        let missed: u64 = missed.expect("the last line").parse().expect("a count");
        assert!(missed < 2_700, "{said}");
    }
}
