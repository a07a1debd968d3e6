//! A receiver whose window opens in small steps, and receivers whose window is small or late.

use crate::background::Background;
use crate::bundle::{command, facts, run_once, words, workload, workload_recorded};
use crate::hosts::Hosts;
use crate::report::{count, text};
use crate::turn;

/// Writes more than the peer takes, and goes away without it.
const WRITES: &str = "
import socket, struct, time
sock = socket.create_connection(('10.87.0.2', 7000))
sock.sendall(bytes(30000))
time.sleep(7)
sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
sock.close()
";

#[test]
fn root_a_window_that_opens_in_small_steps_is_the_receivers() {
    let Some(_turn) = turn::take() else { return };
    let hosts = Hosts::up(&[]);
    let mut peer = command(&hosts.on_a(&workload("small_windows.py", &[])));
    let peer = Background::start_until(&mut peer, "-TERM", "answering");
    let recording = run_once(&[], &hosts.on_a(&words(&["python3", "-c", WRITES])));
    let small = count(&facts(&peer.stop())["small"]);
    let report = &recording.report;
    let found = report.findings("silly-window");
    assert_eq!(found.len(), 1, "{}", report.summary());
    let finding = found[0];
    assert_eq!(finding["side"], "server", "{finding}");
    assert!((20..=small).contains(&count(&finding["count"])), "{small}: {finding}");
    assert!(text(&finding["summary"]).contains("100 bytes at the median"), "{finding}");
    let verdict = recording.line("verdict");
    assert!(verdict.contains("silly-window costs most"), "{verdict}");
}

#[test]
fn root_a_slow_reader_with_a_small_buffer_has_no_silly_window() {
    let Some(_turn) = turn::take() else { return };
    let slow = ["--bytes", "200000", "--sleep-ms", "5", "--rcvbuf", "8192"];
    let recording = workload_recorded("slow_reader.py", &slow);
    let report = &recording.report;
    assert!(report.findings("silly-window").is_empty(), "{}", report.summary());
}
