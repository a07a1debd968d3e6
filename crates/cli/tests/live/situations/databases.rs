//! Situations 11, 17 and 20: PostgreSQL and redis.

use std::thread;
use std::time::Duration;

use super::answer::assert_near;
use super::http_service::figure;
use super::run_delay::RunDelay;
use super::situation::{Situation, When, undisturbed};
use crate::background::{Background, free_port};
use crate::bundle::{Recorder, Recording, command, stdout_of, words, workload};
use crate::report::count;
use crate::servers::{Postgres, Redis};
use crate::soak::sized;

#[test]
fn root_situation_11_a_page_that_asks_postgresql_two_thousand_times() {
    let Some(situation) = Situation::live(11, When::InTheSuite, &["python3:psycopg2"]) else {
        return;
    };
    let page = Page::asked("many");
    situation.report(&page.recording.dir(), |answer| {
        answer.part_says("verdict", &["n-plus-one costs most"]);
        let who = format!("server (python3, pid {})", page.pid);
        answer.part_says("why", &[&who, "one after the other", "postgres (pid "]);
        let times = answer.number_after("asked ");
        assert!((2_000.0..2_010.0).contains(&times), "2,000 and a few to log in:\n{answer}");
        assert_near("the selects", answer.ms_after("costs most: "), page.queries_ms);
        answer.is_silent_about(&["nothing wrong", "the path", "network and kernel, most"]);
    });
}

#[test]
fn root_situation_11_a_query_without_an_index() {
    let Some(situation) = Situation::live(11, When::InTheSuite, &["python3:psycopg2"]) else {
        return;
    };
    let page = Page::asked("slow");
    situation.report(&page.recording.dir(), |answer| {
        answer.part_says(
            "verdict",
            &["slow-service:", "server (postgres, pid ", "that python3 waited"],
        );
        assert_near("the query", answer.ms_after("took "), page.queries_ms);
        answer.is_silent_about(&["nothing wrong", "the path", "n-plus-one"]);
        answer.is_silent_about(&[&format!("server (python3, pid {}) took", page.pid)]);
    });
}

/// A page of a web server that asks PostgreSQL, recorded.
struct Page {
    recording: Recording,
    /// Of the web server.
    pid: u32,
    /// The times of its questions by its own clock.
    queries_ms: f64,
}

impl Page {
    fn asked(page: &str) -> Self {
        let postgres = Postgres::start();
        let port = free_port();
        let (port, database) = (port.to_string(), postgres.port.to_string());
        let serve =
            workload("situations/postgres_page.py", &["--port", &port, "--database", &database]);
        let serve = [&["/usr/bin/python3".to_owned()], &serve[1..]].concat();
        let server = Background::start_until(&mut command(&serve), "-TERM", "listening on");
        let url = format!("http://127.0.0.1:{port}/{page}");
        let ports = format!("{port},{database}");
        let (recording, queries_ms) = undisturbed(|| {
            let recorder = Recorder::start(&["--port", &ports], None);
            let asked = command(&words(&["curl", "--silent", &url])).output();
            let facts = crate::bundle::facts(&stdout_of(&asked.expect("curl is installed")));
            (recorder.stop(), figure(&facts, "queries_ms"))
        });
        Self { recording, pid: server.pid(), queries_ms }
    }
}

/// See `root_situation_18_two_hundred_connections_of_wrk_to_nginx`.
#[test]
fn root_situation_17_two_hundred_connections_of_redis_benchmark() {
    let Some(situation) = Situation::live(17, When::InTheSuite, &["redis-benchmark"]) else {
        return;
    };
    let redis = Redis::start();
    let port = redis.port.to_string();
    let recorder = Recorder::start(&["--port", &port], None);
    let requests = "200000";
    let load = ["redis-benchmark", "-p", &port, "-c", "200", "-n", requests, "-t", "get", "--csv"];
    let load = Background::kept(&mut command(&words(&load)), "-INT");
    let delay = RunDelay::until_ended(&[redis.pid(), load.pid()], load.pid());
    let said = load.ended();
    let recording = recorder.stop();
    // "test","rps","avg_latency_ms",...
    let row = said.lines().nth(1).unwrap_or_default();
    let mean_ms = row.split(',').nth(2).and_then(|it| it.trim_matches('"').parse::<f64>().ok());
    let mean_ms = mean_ms.unwrap_or_else(|| panic!("redis-benchmark said {said}"));
    situation.report(&recording.dir(), |answer| {
        delay.check(answer, &["redis-server", "redis-benchmark"]);
        let requests: f64 = requests.parse().expect("a count");
        assert_near("the sum of all waits", answer.ms_of_all_requests(), requests * mean_ms);
        answer.is_silent_about(&["nothing wrong", "the path", "sent again", "interface"]);
    });
    let connections = recording.report.at_port("server", redis.port);
    let answered: u64 = connections.iter().map(|one| count(&one["requests"]["count"])).sum();
    let wanted: u64 = requests.parse().expect("a count");
    // It asks for the configuration first.
    assert!(answered.abs_diff(wanted) <= 2, "{answered} of {wanted} requests");
}

#[test]
fn root_situation_20_redis_frozen_by_one_script() {
    const CLIENTS: f64 = 50.0;
    let Some(situation) = Situation::live(20, When::Always, &["redis-benchmark"]) else { return };
    let redis = Redis::start();
    let port = redis.port.to_string();
    let (recording, freezer) = undisturbed(|| frozen(&port));
    let frozen_ms = slowest_ms(&port);
    situation.report(&recording.dir(), |answer| {
        let who = format!("server (redis-server, pid {})", redis.pid());
        if answer.has("verdict slow-service") {
            assert_near("the freeze", answer.ms_after(" took "), frozen_ms);
            let others = answer.number_after("callers waited on ");
            assert_near("those who waited", others, CLIENTS);
            // Of requests that redis read together no one knows which had the time; it reads and works at once.
            let last = format!("the last one was that of redis-cli (pid {freezer})");
            let itself = "that redis-cli waited: from reading the request";
            let is_itself = answer.part("verdict").contains(itself);
            answer.part_says("verdict", &[&who, if is_itself { itself } else { &last }]);
            return;
        }
        answer.part_says("verdict", &["head-of-line costs most"]);
        let culprit = format!("client (redis-cli, pid {freezer})");
        answer.part_says("why", &[&who, &culprit, "requests on other connections lay unread"]);
        assert_near("the freeze", answer.ms_after(", for "), frozen_ms);
        let unread = answer.number_after(", and ");
        let is_of_several = answer.part("why").contains("that it had read together");
        let read = if is_of_several { answer.number_after("served one of ") } else { 0.0 };
        assert_near("those who waited", unread + read, CLIENTS);
        answer.is_silent_about(&["nothing wrong", "the path", "sent again", "interface"]);
    });
}

/// Records a load, and a redis-cli with a long script meanwhile, whose process number comes too.
fn frozen(port: &str) -> (Recording, u32) {
    let recorder = Recorder::start(&["--port", port], None);
    // They last until the script begins, also where the redis answers 100,000 a second.
    let calls = sized("30000", "90000");
    let load = ["redis-benchmark", "-p", port, "-c", "50", "-n", calls, "-t", "get"];
    let load = Background::kept(&mut command(&words(&load)), "-INT");
    thread::sleep(Duration::from_millis(100));
    let script = format!("for i = 1, {} do end return 1", sized(80_000_000, 300_000_000));
    let freeze = words(&["redis-cli", "-p", port, "EVAL", &script, "0"]);
    let freeze = Background::kept(&mut command(&freeze), "-TERM");
    let freezer = freeze.pid();
    assert_eq!(freeze.ended().trim(), "1");
    load.ended();
    (recorder.stop(), freezer)
}

/// The last long command, by the server's own slow log.
fn slowest_ms(port: &str) -> f64 {
    let ask = words(&["redis-cli", "-p", port, "SLOWLOG", "GET", "10"]);
    let said = stdout_of(&command(&ask).output().expect("redis-tools are installed"));
    // Of each entry the third line is its time in microseconds; all other numbers are in known places.
    let lines: Vec<&str> = said.lines().collect();
    let at = lines.iter().position(|line| *line == "EVAL").expect("the script was slow");
    let micros: f64 = lines[at - 1].parse().unwrap_or_else(|_| panic!("{said}"));
    micros / 1000.0
}
