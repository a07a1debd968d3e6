//! Situation 21: connections that a host does not take.

use super::answer::assert_near;
use super::http_service::{curl, curl_ms, curl_words};
use super::situation::{Situation, When};
use crate::background::{Background, free_port};
use crate::bundle::{command, run_once, words, workload};
use crate::hosts::Hosts;
use crate::soak::sized;

#[test]
fn root_situation_21_a_syn_that_a_filter_drops() {
    let Some(situation) = Situation::live(21, When::Always, &["curl", "nft"]) else { return };
    let hosts = Hosts::up(&[]);
    let port = free_port();
    let rules = format!(
        "nft add table inet t; nft 'add chain inet t c {{ type filter hook input priority 0; }}'; \
         nft add rule inet t c tcp dport {port} drop"
    );
    let filter = format!("PATH=$PATH:/usr/sbin; {rules}");
    let status = command(&hosts.on_a(&words(&["sh", "-ec", &filter]))).status();
    assert!(status.expect("ip is installed").success(), "{filter}");
    let text = port.to_string();
    let serve = hosts.on_a(&workload("situations/http_service.py", &["--port", &text]));
    let _server = Background::start_until(&mut command(&serve), "-TERM", "listening on");
    let url = format!("http://127.0.0.1:{port}/");
    let recording = run_once(&[], &hosts.on_a(&curl_words(&url, sized("1.5", "3"))));
    let waited_ms = curl_ms(&recording);
    situation.report(&recording.dir(), |answer| {
        answer.part_says("verdict", &["syn-dropped costs most"]);
        answer.part_says(
            "why",
            &["the packet filter dropped", "NETFILTER_DROP", "client (curl, pid "],
        );
        answer.part_says("fix", &["On the server's host", "nft list ruleset"]);
        assert_near("the wait", answer.ms_after("costs most: "), waited_ms);
        answer.is_silent_about(&["nothing wrong", "the path", "not recorded", "sent again"]);
    });
}

#[test]
fn root_situation_21_an_accept_queue_that_is_full() {
    let Some(situation) = Situation::live(21, When::Always, &["curl"]) else { return };
    let serve = words(&["python3", "-c", NEVER_ACCEPTS]);
    let server = Background::start_until(&mut command(&serve), "-TERM", "listening on");
    let port = listening_port(server.pid());
    let seconds = sized("1.5", "3");
    let calls = format!(
        "for call in 1 2 3 4 5 6; do curl --silent --max-time {seconds} http://127.0.0.1:{port}/ & done; wait"
    );
    let recording = run_once(&[], &words(&["sh", "-c", &calls]));
    situation.report(&recording.dir(), |answer| {
        answer.part_says("verdict", &["accept-queue-full costs most"]);
        let queue = format!("The accept queue at 127.0.0.1:{port} was full");
        // No connection was accepted, and so no record names its process.
        answer.part_says("why", &[&queue, "ss -ltnp names it", "client (curl, pid "]);
        let waited_ms = 1000.0 * seconds.parse::<f64>().expect("a number");
        assert_near("the wait", answer.ms_after("costs most: "), waited_ms);
        answer.is_silent_about(&["nothing wrong", "the path", "network", "sent again"]);
    });
}

/// It listens with a backlog of 2.
const NEVER_ACCEPTS: &str = "
import socket, sys, time
listener = socket.create_server(('127.0.0.1', 0), backlog=2)
print('listening on', listener.getsockname(), file=sys.stderr, flush=True)
time.sleep(60)
";

/// Of the only listener of a process.
fn listening_port(pid: u32) -> u16 {
    let printed = command(&words(&["ss", "-Hltnp"])).output().expect("iproute2 is installed");
    let printed = String::from_utf8_lossy(&printed.stdout).into_owned();
    let line = printed.lines().find(|line| line.contains(&format!("pid={pid},")));
    let address = line.and_then(|line| line.split_whitespace().nth(3)).unwrap_or_default();
    let port = address.rsplit(':').next().and_then(|port| port.parse().ok());
    port.unwrap_or_else(|| panic!("{pid} does not listen: {printed}"))
}

#[test]
fn root_situation_21_a_port_on_which_nobody_listens() {
    let Some(situation) = Situation::live(21, When::Always, &["curl"]) else { return };
    let port = free_port();
    let (recording, _) = curl(&format!("http://127.0.0.1:{port}/"), "3");
    situation.report(&recording.dir(), |answer| {
        answer.part_says("verdict", &["connection-refused: once"]);
        let asked = format!("to 127.0.0.1:{port} was refused");
        answer.part_says("why", &["client (curl, pid ", &asked, "no program listens there"]);
        answer.is_silent_about(&["nothing wrong", "the path"]);
    });
}
