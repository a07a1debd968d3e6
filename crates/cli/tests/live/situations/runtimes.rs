//! Situations 6 to 9: programs in Java, JavaScript and Go, and gRPC.

use std::path::Path;

use super::answer::{Answer, assert_near};
use super::http_service::figure;
use super::situation::{Situation, When, undisturbed};
use crate::background::{Background, free_port};
use crate::bundle::{Recording, checkout, command, run_once, stdout_of, words, workload};
use crate::report::count;

#[test]
fn root_situation_06_the_jdks_server_and_client_stall_by_nagle() {
    let Some(situation) = Situation::live(6, When::InTheSuite, &["java", "javac"]) else { return };
    let classes = tempfile::tempdir().expect("a folder for temporary files");
    let folder = classes.path().display().to_string();
    let source = path("Calls.java");
    stdout_of(&command(&words(&["javac", "-d", &folder, &source])).output().expect("a compiler"));
    let port = free_port().to_string();
    let java =
        |arguments: &[&str]| words(&[&["java", "-cp", &folder, "Calls"], arguments].concat());
    let serve = java(&["server", &port]);
    let server = Background::start_until(&mut command(&serve), "-TERM", "listening on");
    // The first calls load classes.
    stdout_of(&command(&java(&["client", &port, "20"])).output().expect("it runs"));
    let recording = run_once(&[], &java(&["client", &port, "100"]));
    let facts = recording.facts();
    situation.report(&recording.dir(), |answer| {
        answer.part_says("verdict", &["nagle-delayed-ack costs most"]);
        let who = format!("server (java, pid {})", server.pid());
        answer.part_says("why", &[&who, "Nagle's algorithm", "delayed acknowledgment"]);
        answer.part_says("fix", &[&who, "one call"]);
        assert_near("the stalls", answer.number_after("of the trace), "), 98.0);
        // Linux delays an acknowledgment for 40 ms or more (TCP_DELACK_MIN); the rest is Java's own.
        let stalled_ms = answer.ms_after("costs most: ");
        let stalls_ms = 0.8 * 40.0 * 98.0..figure(&facts, "waited_ms");
        assert!(stalls_ms.contains(&stalled_ms), "{facts}:\n{answer}");
        answer.is_silent_about(&["nothing wrong", "the path", "sent again", "slow-service:"]);
    });
}

#[test]
fn root_situation_07_a_node_whose_event_loop_is_blocked() {
    const CLIENTS: f64 = 10.0;
    let Some(situation) = Situation::live(7, When::InTheSuite, &["node"]) else { return };
    let script = path("blocked_loop.js");
    let port = free_port().to_string();
    let serve = words(&["node", &script, "server", &port]);
    let server = Background::start_until(&mut command(&serve), "-TERM", "listening on");
    let (recording, facts) = undisturbed(|| {
        let recording = run_once(&[], &words(&["node", &script, "client", &port]));
        let facts = recording.facts();
        (recording, facts)
    });
    situation.report(&recording.dir(), |answer| {
        answer.part_says("verdict", &["head-of-line costs most"]);
        let who = format!("server (node, pid {})", server.pid());
        let client = format!("client (node, pid {})", facts["pid"]);
        answer.part_says("why", &[&who, &client, "requests on other connections lay unread"]);
        answer.part_says("fix", &["In node: divide long work or hand it to a thread"]);
        assert_near("a block", answer.ms_after(", for "), figure(&facts, "longest_ms"));
        assert_near("those who waited", answer.number_after(", and "), CLIENTS);
        answer.is_silent_about(&["nothing wrong", "the path", "read in a thread of its own"]);
    });
}

#[test]
fn root_situation_08_go_with_three_troubles() {
    let Some(situation) = Situation::live(8, When::InTheSuite, &["go"]) else { return };
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let program = folder.path().join("streams").display().to_string();
    let build = ["go", "build", "-o", &program, &path("streams.go")];
    stdout_of(&command(&words(&build)).output().expect("a compiler"));
    let recorded = |mode: &str| {
        let (recording, figures) = undisturbed(|| recorded_once(&program, mode));
        let (took_ms, server, client) = figures;
        (recording, took_ms, server, client)
    };

    let (recording, took_ms, server, _) = recorded("reader");
    situation.report(&recording.dir(), |answer| {
        answer.part_says("verdict", &["slow-reader costs most"]);
        answer.part_says("why", &[&format!("server (streams, pid {server})")]);
        assert_near("the reader", answer.ms_after("costs most: "), took_ms);
        answer.is_silent_about(&["nothing wrong", "the path", "retransmission costs"]);
    });

    let (recording, took_ms, _, client) = recorded("buffer");
    situation.report(&recording.dir(), |answer| {
        let verdict = answer.part("verdict");
        let is_named = ["delayed-ack-wait costs most", "send-buffer-limited costs most"];
        assert!(is_named.iter().any(|words| verdict.contains(words)), "{answer}");
        answer.part_says("why", &[&format!("client (streams, pid {client})"), "send buffer"]);
        answer.part_says("fix", &["SO_SNDBUF"]);
        let cost_ms = answer.ms_after("costs most: ");
        assert!((0.5 * took_ms..1.2 * took_ms).contains(&cost_ms), "of {took_ms} ms:\n{answer}");
        answer.is_silent_about(&["nothing wrong", "the path", "sent again"]);
    });

    let (recording, took_ms, ..) = recorded("flushes");
    situation.report(&recording.dir(), |answer| {
        // On a busy machine the reader's wait for a CPU may cost more.
        answer.says(&["small-writes"]);
        let found = recording.report.findings("small-writes");
        let [found] = found[..] else { panic!("one finding, not {found:?}:\n{answer}") };
        let (writes, cost_ms) = (count(&found["count"]), count(&found["cost_ns"]) as f64 / 1e6);
        assert!((5_000..=10_000).contains(&writes), "of 10,000 flushes:\n{answer}");
        assert!(cost_ms > 0.0 && cost_ms <= took_ms, "of {took_ms} ms:\n{answer}");
        answer.is_silent_about(&["nothing wrong", "the path", "sent again"]);
    });
}

/// The time of the client in milliseconds, and the processes of server and client.
fn recorded_once(program: &str, mode: &str) -> (Recording, (f64, String, String)) {
    let address = format!("127.0.0.1:{}", free_port());
    let serve = words(&[program, "server", mode, &address]);
    let server = Background::start_until(&mut command(&serve), "-TERM", "listening on");
    let recording = run_once(&[], &words(&[program, "client", mode, &address]));
    let facts = recording.facts();
    (recording, (figure(&facts, "took_ms"), server.pid().to_string(), facts["pid"].to_string()))
}

#[test]
fn root_situation_09_grpc_calls_in_turn_and_such_that_overlap() {
    let Some(situation) = Situation::live(9, When::InTheSuite, &["python3:grpc"]) else { return };
    let port = free_port().to_string();
    let program = |arguments: &[&str]| {
        let words = workload("situations/grpc_calls.py", arguments);
        [&["/usr/bin/python3".to_owned()], &words[1..]].concat()
    };
    let serve = program(&["server", "--port", &port, "--sleep-ms", "20"]);
    let server = Background::start_until(&mut command(&serve), "-TERM", "listening on");
    let calls = "40";
    let (recording, facts) = undisturbed(|| {
        let recording = run_once(&[], &program(&["client", "--port", &port, "--calls", calls]));
        let facts = recording.facts();
        (recording, facts)
    });
    situation.report(&recording.dir(), |answer| {
        let who = format!("the server (python3, pid {})", server.pid());
        answer.part_says("verdict", &["no known cause", &who]);
        let share = answer.number_after(" went ");
        assert!(share > 75.0, "the server sleeps in each call:\n{answer}");
        // Those that overlap are one wait.
        let calls: f64 = calls.parse().expect("a count");
        let waited_ms = calls * figure(&facts, "p50_ms") + figure(&facts, "overlapping_ms");
        assert_near("the wait", waited(answer), waited_ms);
        answer.is_silent_about(&["nothing wrong", "the path", "sent again", "event_engine"]);
    });
}

/// As in `callers waited 450 ms; the …`, or in `the 450 ms that callers waited`.
fn waited(answer: &Answer) -> f64 {
    match answer.has("callers waited ") && answer.has(" of all requests together") {
        true => answer.ms_after("callers waited "),
        false => answer.ms_after("cause; the "),
    }
}

fn path(name: &str) -> String {
    let folder: &Path = &checkout().join("tests/workloads/situations");
    folder.join(name).display().to_string()
}
