//! Recordings that end in another way than their user wished: their messages, and the records kept.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::bundle::{sockscope, workload};
use crate::turn;

/// What it printed on standard output, and on standard error.
fn said(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

fn run(options: &[&str], script: &str) -> Output {
    let mut run = sockscope();
    run.arg("run").args(options).args(["--", "sh", "-c", script]);
    run.output().expect("it was built")
}

#[test]
fn root_the_report_of_a_crashed_command_says_that_it_crashed() {
    let Some(_turn) = turn::take() else { return };
    let output = run(&[], "kill -SEGV $$");
    let (stdout, report) = said(&output);
    assert_eq!(stdout, "");
    assert!(report.contains("no connection was recorded"), "{report}");
    assert!(report.contains("the command ended with signal 11 (SIGSEGV)"), "{report}");
    let last = report.lines().last();
    assert_eq!(last, Some("sockscope: the command ended with signal 11 (SIGSEGV)"), "{report}");
    assert_eq!(output.status.code(), Some(128 + 11));
}

#[test]
fn root_the_exit_status_is_the_command_s() {
    let Some(_turn) = turn::take() else { return };
    let codes = ["exit 7", "kill -KILL $$", "exit 0"];
    let codes = codes.map(|script| run(&[], script).status.code());
    assert_eq!(codes, [Some(7), Some(137), Some(0)]);
}

#[test]
fn root_check_changes_the_status_of_a_command_that_did_not_fail() {
    let Some(_turn) = turn::take() else { return };
    let calls = workload("split_calls.py", &["--calls", "5"]).join(" ");
    let codes = [&calls, &format!("{calls}; exit 3"), "exit 0"];
    let codes = codes.map(|script| run(&["--check"], script).status.code());
    assert_eq!(codes, [Some(1), Some(3), Some(0)]);
}

#[test]
fn root_that_nothing_is_picked_is_said_before_the_recording() {
    let Some(_turn) = turn::take() else { return };
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let mut record = sockscope();
    record.args(["record", "--duration", "0.1", "-o"]).arg(folder.path().join("b.sockscope"));
    let (_, stderr) = said(&record.output().expect("it was built"));
    let lines: Vec<&str> = stderr.lines().collect();
    assert!(lines[0].contains("nothing is picked") && lines[0].contains("--port"), "{stderr}");
    assert_eq!(lines[1], "sockscope: recording; Ctrl-C ends it");
}

/// A file system of this size; dropping it removes it.
pub struct Small(tempfile::TempDir);

impl Small {
    pub fn mount(size: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "none"]).arg(folder.path());
        assert!(mount.status().expect("mount is there").success());
        Self(folder)
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.path()).status();
    }
}

#[test]
fn root_a_run_on_a_full_disk_reports_what_it_has_and_what_goes_on() {
    let Some(_turn) = turn::take() else { return };
    let small = Small::mount("2m");
    let calls = workload("rpc.py", &["--calls", "20000"]).join(" ");
    let mut run = sockscope();
    run.args(["run", "--", "sh", "-c", &format!("{calls} >/dev/null; sleep 1; :")]);
    run.env("XDG_STATE_HOME", small.path()).stdin(Stdio::null());
    let output = run.output().expect("it was built");
    let (_, stderr) = said(&output);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("connection 1") && stderr.contains("not finished"), "{stderr}");
    assert!(stderr.contains("the command goes on: sh (pid "), "{stderr}");
    let last = stderr.lines().last().unwrap_or_default();
    assert!(last.contains("No space left on device"), "{stderr}");
    // It would keep the disk full.
    let kept = std::fs::read_dir(small.path().join("sockscope")).expect("it was recorded there");
    assert_eq!(kept.count(), 0, "{stderr}");
}

#[test]
fn root_the_last_line_names_the_command_that_may_read_the_trace() {
    let Some(_turn) = turn::take() else { return };
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    for (caller, reads) in
        [(None, "see it: sockscope report "), (Some("65534"), "see it: sudo sockscope report ")]
    {
        let mut record = sockscope();
        record.env_remove("SUDO_UID").envs(caller.map(|user| ("SUDO_UID", user)));
        record
            .args(["record", "-o"])
            .arg(folder.path().join("live.sockscope"))
            .args(["--", "true"]);
        let output = record.output().expect("it was built");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(reads), "{caller:?}: {said}");
    }
}
