//! Situations 2 to 5, 10, 12, 18 and 19: programs that speak HTTP.

use std::fs;

use super::answer::assert_near;
use super::http_service::{HttpService, figure};
use super::run_delay::RunDelay;
use super::situation::{Situation, When, undisturbed};
use crate::background::Background;
use crate::bundle::{Recorder, Recording, command, run_once, stdout_of, words, workload};
use crate::report::count;
use crate::servers::Nginx;
use crate::soak::sized;

/// Words that blame something else than a slow program.
const OF_THE_PATH: [&str; 6] =
    ["nothing wrong", "sent again", "retransmi", "loses packets", "interface", "network-queue"];

#[test]
fn root_situation_02_python_keep_alive_stalls_by_nagle() {
    let Some(situation) = Situation::live(2, When::Always, &[]) else { return };
    let server = HttpService::start(&["--sleep-ms", "20"]);
    let (recording, facts) = undisturbed(|| server.called(sized("12", "60")));
    situation.report(&recording.dir(), |answer| {
        answer.part_says("verdict", &["nagle-delayed-ack costs most"]);
        answer.part_says("why", &[&server.who(), "Nagle's algorithm", "delayed acknowledgment"]);
        answer.part_says("fix", &[&server.who(), "write each message in one call", "TCP_NODELAY"]);
        // Each call has 20 ms of the handler; the rest is the stall, but for the first call.
        let stalled = figure(&facts, "waited_ms") - 20.0 * figure(&facts, "calls");
        assert_near("the stall", answer.ms_after("costs most: "), stalled);
        answer.is_silent_about(&OF_THE_PATH);
    });
}

#[test]
fn root_situation_03_python_keep_alive_without_the_stall_is_the_handler() {
    let Some(situation) = Situation::live(3, When::InTheSuite, &[]) else { return };
    let server = HttpService::start(&["--sleep-ms", "20", "--one-write"]);
    let (recording, facts) = server.called("100");
    situation.report(&recording.dir(), |answer| {
        answer.part_says("verdict", &["no known cause", &server.who()]);
        answer.part_says("next", &[&format!("strace -f -r -p {}", server.pid())]);
        assert_near("the wait", answer.ms_after("cause; the "), figure(&facts, "waited_ms"));
        let share = answer.number_after("callers waited went ");
        assert!(share > 80.0, "the handler had nearly all of it:\n{answer}");
        answer.is_silent_about(&OF_THE_PATH);
    });
}

#[test]
fn root_situation_04_one_curl_to_a_server_that_takes_two_seconds() {
    let Some(situation) = Situation::live(4, When::Always, &["curl"]) else { return };
    let server = HttpService::start(&["--http10", "--sleep-ms", sized("500", "2000")]);
    let (recording, waited_ms) = server.curl("10");
    situation.report(&recording.dir(), |answer| {
        answer.part_says("verdict", &["slow-service:", &server.who(), "that curl waited"]);
        answer.part_says("next", &[&format!("strace -f -r -p {}", server.pid()), "py-spy dump"]);
        assert_near("the service", answer.ms_after("took "), waited_ms);
        assert_near("the wait", answer.ms_after("of the "), waited_ms);
        answer.is_silent_about(&OF_THE_PATH);
    });
}

#[test]
fn root_situation_05_a_server_that_hangs_until_its_client_gives_up() {
    let Some(situation) = Situation::live(5, When::Always, &["curl"]) else { return };
    let server = HttpService::start(&["--hang"]);
    let (recording, waited_ms) = server.curl(sized("0.7", "2"));
    situation.report(&recording.dir(), |answer| {
        answer.part_says(
            "verdict",
            &["unanswered:", &server.who(), "had not answered when curl gave up"],
        );
        answer.part_says("next", &[&format!("strace -f -r -p {}", server.pid())]);
        assert_near("the wait", answer.ms_after("gave up, "), waited_ms);
        answer.is_silent_about(&OF_THE_PATH);
    });
}

#[test]
fn root_situation_10_a_streamed_answer_is_as_slow_as_its_author() {
    let Some(situation) = Situation::live(10, When::Always, &[]) else { return };
    let server = HttpService::start(&["--chunks", "20", "--pause-ms", "20"]);
    let (recording, facts) = server.called("1");
    situation.report(&recording.dir(), |answer| {
        answer.part_says(
            "verdict",
            &["slow-service:", &server.who(), "in pauses within its response"],
        );
        answer.part_says("next", &[&format!("strace -f -r -p {}", server.pid())]);
        assert_near("the service", answer.ms_after("took "), figure(&facts, "waited_ms"));
        answer.is_silent_about(&OF_THE_PATH);
        answer.is_silent_about(&["split-message"]);
    });
}

#[test]
fn root_situation_12_nginx_waits_for_a_slow_python() {
    let Some(situation) = Situation::live(12, When::Always, &["nginx"]) else { return };
    let service = HttpService::start(&["--sleep-ms", "50", "--one-write"]);
    let nginx = Nginx::start_before(service.port);
    let ports = format!("{},{}", nginx.port, service.port);
    let recorder = Recorder::start(&["--port", &ports], None);
    let calls = sized("10", "40");
    let place = ["--port", &nginx.port.to_string(), "--path", "/app", "--calls", calls];
    let called = command(&workload("situations/http_calls.py", &place)).output();
    let facts = crate::bundle::facts(&stdout_of(&called.expect("Python is installed")));
    let recording = recorder.stop();
    situation.report(&recording.dir(), |answer| {
        let who = format!("python3 (pid {})", service.pid());
        answer.part_says("verdict", &["no known cause", "to the servers, most of it to", &who]);
        answer.part_says("next", &[&format!("strace -f -r -p {}", service.pid())]);
        assert_near("the wait", answer.ms_after("cause; the "), figure(&facts, "waited_ms"));
        let share = answer.number_after("callers waited went ");
        assert!(share > 80.0, "the servers had nearly all of it:\n{answer}");
        answer.is_silent_about(&OF_THE_PATH);
        answer.is_silent_about(&["to nginx", "to the server (nginx"]);
    });
    let calls: u64 = calls.parse().expect("a count");
    assert_eq!(asked(&recording, nginx.port), (1, calls));
    assert_eq!(asked(&recording, service.port), (calls, calls), "nginx keeps no connection");
}

/// On a machine with little room readers wait for a CPU; with much of it the time is the server's. Either is right
/// where the scheduler's own account says the same.
#[test]
fn root_situation_18_two_hundred_connections_of_wrk_to_nginx() {
    let Some(situation) = Situation::live(18, When::InTheSuite, &["nginx", "wrk"]) else { return };
    let nginx = Nginx::start();
    let url = format!("http://127.0.0.1:{}/small", nginx.port);
    let recorder = Recorder::start(&["--port", &nginx.port.to_string()], None);
    let load = ["wrk", "-t1", "-c200", "--latency", "-d", "4", &url];
    let wrk = Background::kept(&mut command(&words(&load)), "-INT");
    let delay = RunDelay::until_ended(&[nginx.worker_pid(), wrk.pid()], wrk.pid());
    let said = wrk.ended();
    let recording = recorder.stop();
    let requests = number_before(&said, " requests in ");
    let mean_ms = milliseconds(column(&said, "Latency", 1));
    situation.report(&recording.dir(), |answer| {
        delay.check(answer, &["nginx", "wrk"]);
        assert_near("the sum of all waits", answer.ms_of_all_requests(), requests * mean_ms);
        answer.is_silent_about(&OF_THE_PATH);
    });
}

#[test]
fn root_situation_19_five_thousand_short_connections_of_ab_to_nginx() {
    let Some(situation) = Situation::live(19, When::InTheSuite, &["nginx", "ab"]) else { return };
    let nginx = Nginx::start();
    let url = format!("http://127.0.0.1:{}/small", nginx.port);
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let times = folder.path().join("times");
    let requests: u64 = 5_000;
    let file = times.display().to_string();
    // With 20 at a time a usual request took less than 1 ms on a quiet machine, and nothing was wrong.
    let load = ["ab", "-q", "-n", &requests.to_string(), "-c", "60", "-g", &file, &url];
    let recording = run_once(&[], &words(&load));
    let times = fs::read_to_string(&times).expect("ab wrote its times");
    situation.report(&recording.dir(), |answer| {
        let verdict = answer.part("verdict");
        let is_late = verdict.contains("late-wakeup costs most");
        assert!(is_late || verdict.contains("no known cause"), "{answer}");
        let whose = if is_late { answer.part("why") } else { verdict };
        assert!(["nginx", "ab, pid "].iter().any(|name| whose.contains(name)), "{answer}");
        // ab waits for the server's close too, and its other time ends with the first byte.
        let waited_ms = answer.ms_of_all_requests();
        let [to_close, to_first_byte] = [1, 3].map(|column| ab_ms(&times, column));
        let within = 0.8 * to_first_byte..1.2 * to_close;
        assert!(within.contains(&waited_ms), "{waited_ms} ms is not in {within:?}:\n{answer}");
        answer.is_silent_about(&OF_THE_PATH);
    });
    let (_, answered) = asked(&recording, nginx.port);
    assert_eq!(answered, requests, "{}", recording.report.summary());
}

/// The sum of a column: of each request the milliseconds to connect, from there to the close, of both, and from asking
/// to the first byte. Two columns with the time of day come before.
fn ab_ms(times: &str, column: usize) -> f64 {
    let rows = times.lines().skip(1);
    let row = |row: &str| row.split('\t').nth(2 + column).and_then(|ms| ms.parse::<f64>().ok());
    rows.map(|line| row(line).unwrap_or_else(|| panic!("ab wrote {line:?}"))).sum()
}

/// Connections to a port, and the requests on them.
fn asked(recording: &Recording, port: u16) -> (u64, u64) {
    let connections = recording.report.at_port("server", port);
    let requests = connections.iter().map(|one| count(&one["requests"]["count"])).sum();
    (connections.len() as u64, requests)
}

/// The word before these words.
fn number_before(said: &str, words: &str) -> f64 {
    let end = said.find(words).unwrap_or_else(|| panic!("no {words:?} in {said}"));
    let word = said[..end].split_whitespace().next_back().unwrap_or_default();
    word.parse().unwrap_or_else(|_| panic!("{word:?} is no number: {said}"))
}

/// A word of the line that begins with `label`, as `5.59ms`.
fn column<'a>(said: &'a str, label: &str, index: usize) -> &'a str {
    let line = said.lines().find(|line| line.trim_start().starts_with(label));
    let word = line.and_then(|line| line.split_whitespace().nth(index));
    word.unwrap_or_else(|| panic!("no {label} in {said}"))
}

/// A time as wrk prints it.
fn milliseconds(text: &str) -> f64 {
    let digits = text.trim_end_matches(char::is_alphabetic);
    let number: f64 = digits.parse().unwrap_or_else(|_| panic!("{text:?} is no time"));
    match &text[digits.len()..] {
        "us" => number / 1000.0,
        "ms" => number,
        "s" => number * 1000.0,
        unit => panic!("{unit:?} is no unit of time"),
    }
}
