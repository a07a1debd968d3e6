//! Callers that fill both CPUs: the recorder keeps up with them.

use super::sized;
use crate::background::Background;
use crate::bundle::{Recorder, command, workload};
use crate::turn;

const PROCESSES: u64 = 3;
const CALLERS: u64 = 4;
/// Octets of a question, and of an answer.
const CALL_BYTES: u64 = 100;

#[test]
fn root_soak_twelve_callers_on_all_cpus_are_recorded_whole() {
    let Some(_turn) = turn::take() else { return };
    // Some six thousand a second.
    let calls: u64 = sized(20_000, 400_000);
    let recorder = Recorder::start(&["--comm", "python3"], None);
    let (callers, times) = (CALLERS.to_string(), calls.to_string());
    let words =
        workload("callers.py", &["--callers", &callers, "--calls", &times, "--timeout", "600"]);
    let start = |_| Background::start_until(&mut command(&words), "-TERM", "listening on");
    let processes: Vec<Background> = (0..PROCESSES).map(start).collect();
    processes.into_iter().for_each(|process| drop(process.ended()));
    let report = recorder.stop().report;
    println!("{} calls, {} records missed", PROCESSES * CALLERS * calls, report.missed());
    assert_eq!(report.gaps(), Vec::<String>::new());
    assert_eq!(report.connections().len() as u64, PROCESSES * CALLERS, "{}", report.summary());
    let bytes = PROCESSES * CALLERS * calls * CALL_BYTES;
    assert_eq!((report.bytes_from("client"), report.bytes_from("server")), (bytes, bytes));
}
