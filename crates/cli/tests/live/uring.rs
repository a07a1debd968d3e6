//! Calls that io_uring makes for a program.

use std::fs;

use crate::bundle::{facts, run_once, whole, workload};
use crate::report::{bytes, count};
use crate::turn;

/// The switch of the whole machine.
fn lack_of_uring() -> Option<&'static str> {
    match fs::read_to_string("/proc/sys/kernel/io_uring_disabled") {
        Ok(disabled) if disabled.trim() == "0" => None,
        Ok(_) => Some("io_uring is off; turn it on: sysctl -w kernel.io_uring_disabled=0"),
        // Kernels before 6.6 have io_uring without the switch.
        Err(_) => None,
    }
}

#[test]
fn root_calls_by_io_uring_are_those_of_the_program() {
    let Some(_turn) = turn::take_with(lack_of_uring()) else { return };
    let recording = whole(|| run_once(&["--calls"], &workload("uring.py", &["--calls", "50"])));
    let said = facts(&recording.said);
    let connections = recording.report.connections();
    assert_eq!(connections.len(), 1, "{}", recording.report.summary());
    let connection = &connections[0];
    assert_eq!((bytes(connection, "client"), bytes(connection, "server")), (50 * 400, 50 * 100));
    assert_eq!(bytes(connection, "client"), count(&said["client"]["written_bytes"]));
    assert_eq!(connection["kernels_own"], false, "{connection}");
    let processes = connection["processes"].as_array().expect("processes");
    let client = processes.iter().find(|process| process["side"] == "client").expect("a client");
    assert_eq!(client["pid"], said["client"]["pid"]);
    assert_eq!(connection["exchanges"]["total_ns"]["count"], 50, "{connection}");
}
