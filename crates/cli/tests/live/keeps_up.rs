//! A recorder on a busy machine: it has priority over the programs that it watches, whose own priority
//! does not change.

use std::process::Command;

use crate::background::Background;
use crate::bundle::{Recorder, sockscope, sockscope_says, stdout_of, workload};
use crate::turn;

#[test]
fn root_a_recorder_of_low_priority_misses_nothing_beside_hogs() {
    let Some(_turn) = turn::take() else { return };
    let hog = || Background::start(Command::new("sh").args(["-c", "while :; do :; done"]), "-TERM");
    let _hogs = [hog(), hog()];
    let recorder = Recorder::start_by(&["nice", "-n", "19"], &["--comm", "python3"]);
    let callers = workload("callers.py", &["--callers", "4", "--calls", "3000"]);
    let start = || {
        let mut command = Command::new(&callers[0]);
        Background::start_until(command.args(&callers[1..]), "-TERM", "listening on")
    };
    for caller in [start(), start(), start()] {
        caller.ended();
    }
    let report = recorder.stop().report;
    assert_eq!(report.gaps(), Vec::<String>::new());
    assert_eq!((report.bytes_from("client"), report.bytes_from("server")), (3_600_000, 3_600_000));
}

/// The command has the niceness of the recorder's user, and no more than that.
#[test]
fn root_a_command_does_not_inherit_the_recorder_s_priority() {
    let Some(_turn) = turn::take() else { return };
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    // `nice` adds to the test's own niceness, up to 19.
    let own = stdout_of(&Command::new("nice").output().expect("nice is there"));
    let own: i32 = own.trim().parse().expect("nice(1)");
    let niceness = (own + 19).min(19).to_string();
    let looks = "ps -o cls=,ni= -p $$; ps -L -o cls=,rtprio=,ni= -p $PPID";
    let mut recorder = Command::new("nice");
    recorder.args(["-n", "19", env!("CARGO_BIN_EXE_sockscope"), "record", "-o"]);
    recorder.arg(folder.path().join("live.sockscope")).args(["--", "sh", "-c"]);
    // The shell may be faster than the recorder, which raises its priority again.
    recorder.arg(format!("sleep 0.5; {looks}"));
    let said = stdout_of(&recorder.output().expect("nice is there"));
    let lines: Vec<Vec<&str>> = said.lines().map(|it| it.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["TS", &niceness], "{said}");
    let is_raised = |line: &Vec<&str>| line[..2] == ["RR", "1"] || line[2] == "-20";
    let ordinary = |line: &Vec<&str>| line[..] == ["TS", "-", &niceness];
    // The thread that empties the lists, and the one that writes the files.
    assert_eq!(lines[1..].iter().filter(|line| is_raised(line)).count(), 2, "{said}");
    assert!(lines[1..].iter().all(|line| is_raised(line) || ordinary(line)), "{said}");
}

#[test]
fn root_the_doctor_names_the_right_to_priority() {
    let Some(_turn) = turn::take() else { return };
    let line = |said: &str| {
        let line = said.lines().find(|line| line.contains("CAP_SYS_NICE"));
        line.expect("it is listed").split_whitespace().next().map(str::to_owned)
    };
    assert_eq!(line(&sockscope_says(&["doctor"])).as_deref(), Some("held"));
    let program = sockscope().get_program().to_owned();
    let mut without = Command::new("setpriv");
    without.args(["--inh-caps=-sys_nice", "--bounding-set=-sys_nice"]).arg(program).arg("doctor");
    let said = stdout_of(&without.output().expect("setpriv is there"));
    assert_eq!(line(&said).as_deref(), Some("MISSING"), "{said}");
    assert!(!said.contains("Recording does not work here"), "{said}");
}
