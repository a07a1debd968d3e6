//! Acknowledgments that answer each other, and those that do not.

use crate::background::Background;
use crate::bundle::{command, facts, run_once, words, workload};
use crate::hosts::Hosts;
use crate::link;
use crate::report::count;
use crate::turn;

/// Asks once, stays for a moment, and resets the connection.
const ASKS: &str = "
import socket, struct, time
sock = socket.create_connection(('10.88.0.2', 7000))
sock.sendall(bytes(100))
assert sock.recv(1000)
time.sleep(1.5)
sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
sock.close()
";

#[test]
fn root_acknowledgments_that_answer_each_other_are_a_storm_and_the_verdict() {
    let Some(_turn) = turn::take() else { return };
    let hosts = Hosts::up(&[]);
    let mut peer = command(&hosts.on_a(&workload("ack_storm.py", &[])));
    let peer = Background::start_until(&mut peer, "-TERM", "answering");
    let recording = run_once(&[], &hosts.on_a(&words(&["python3", "-c", ASKS])));
    let answers = count(&facts(&peer.stop())["answers"]);
    let report = &recording.report;
    let found = report.findings("ack-storm");
    assert_eq!(found.len(), 1, "{}", report.summary());
    // The kernel's answer to each, and what passes while no probe runs.
    let counted = count(&found[0]["count"]);
    assert!((answers..=2 * answers + 4).contains(&counted), "{answers}: {}", found[0]);
    assert_eq!(found[0]["side"], "server", "{}", found[0]);
    let verdict = recording.line("verdict");
    assert!(verdict.contains("ack-storm"), "{verdict}");
}

#[test]
fn root_duplicate_acknowledgments_of_dropped_data_are_no_storm() {
    let Some(_turn) = turn::take() else { return };
    let link = ["--delay-ms", "5", "--rate", "2000000", "--queue-bytes", "20000"];
    let (recording, counts) = link::recorded_once(&link, "bulk.py", &["--bytes", "3000000"]);
    assert!(count(&counts["there"]["dropped"]) > 0, "{counts}");
    let report = &recording.report;
    assert!(report.findings("ack-storm").is_empty(), "{}", report.summary());
}
