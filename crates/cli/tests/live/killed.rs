//! A recorder that is killed: harmless for the traffic, nothing left, the bundle opens.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::bundle::{
    facts, report, run_once, sockscope, sockscope_says, stdout_of, words, workload,
};
use crate::report::{bytes, count};
use crate::turn;

#[test]
fn root_a_killed_recorder_harms_nothing_and_leaves_nothing() {
    let Some(_turn) = turn::take() else { return };
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let dir = folder.path().join("killed.sockscope");
    let transfer = workload("bulk.py", &["--bytes", "20000000", "--rate", "10000000"]);
    let mut recorder = sockscope();
    recorder.args(["record", "-o"]).arg(&dir).arg("--").args(transfer);
    recorder.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut recorder = Killed(recorder.spawn().expect("it was built"));

    wait_until("data is in the bundle", || size(&dir.join("records.arrows")) > 100_000);
    let pid = recorder.0.id();
    assert_eq!(groups_of(pid).len(), 1);
    let programs = programs_held_by(pid);
    assert!(!programs.is_empty(), "the recorder holds no BPF program");
    assert!(leftover(&programs).is_subset(&programs) && !leftover(&programs).is_empty());
    recorder.0.kill().expect("it runs");

    // The pipe ends when the transfer does: that goes on without the recorder.
    let mut said = String::new();
    let out = recorder.0.stdout.as_mut().expect("piped above");
    out.read_to_string(&mut said).expect("text");
    let facts = facts(&said);
    assert_eq!((&facts["client"]["ok"], &facts["server"]["ok"]), (&true.into(), &true.into()));
    assert_eq!(facts["server"]["read_bytes"], 20_000_000);

    let report = report(&dir);
    assert!(report.notes().contains("not finished"), "{}", report.notes());
    assert_eq!(report.gaps(), Vec::<String>::new());
    let recorded = bytes(&report.connections()[0], "client");
    assert!(recorded > 0 && recorded < count(&facts["client"]["written_bytes"]), "{recorded}");

    recorder.0.wait().expect("it was started");
    sockscope_says(&["run", "--format", "json", "--", "true"]);
    wait_until("its programs are gone", || leftover(&programs).is_empty());
    assert_eq!(groups_of(pid), Vec::<PathBuf>::new());
}

#[test]
fn root_a_second_interrupt_ends_a_run_whose_command_does_not() {
    let Some(_turn) = turn::take() else { return };
    // The group is the recorder's: an interrupt of a terminal would reach the command too, and
    // this one ignores it.
    let mut run = sockscope();
    run.args(["run", "--", "sh", "-c", "trap '' INT; echo started; exec sleep 5"]);
    run.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut run = Killed(run.spawn().expect("it was built"));
    let mut started = [0; 7];
    run.0.stdout.as_mut().expect("piped above").read_exact(&mut started).expect("it starts");
    let pid = run.0.id();
    wait_until("it ends", || {
        let _ =
            Command::new("kill").args(["-INT", &pid.to_string()]).stderr(Stdio::null()).status();
        fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") Z "))
    });
    assert!(!run.0.wait().expect("it was started").success());
    sockscope_says(&["run", "--format", "json", "--", "true"]);
    assert_eq!(groups_of(pid), Vec::<PathBuf>::new());
}

#[test]
fn root_a_recorder_in_another_process_namespace_leaves_the_group_of_one_that_runs() {
    let Some(_turn) = turn::take() else { return };
    let recording = run_once(&[], &words(&["sh", "-c", &both_calls()]));
    assert_eq!(recording.report.connections().len(), 2, "{}", recording.report.summary());
}

/// A connection, a whole recording in a process namespace of its own, and a connection.
fn both_calls() -> String {
    let call = workload("rpc.py", &["--calls", "2"]).join(" ");
    let program = sockscope().get_program().to_string_lossy().into_owned();
    let other = format!("unshare --pid --fork --mount-proc {program} run --format json -- true");
    format!("{call} && {other} >/dev/null 2>&1 && {call}")
}

#[test]
fn root_a_terminal_that_goes_ends_a_recording_in_order() {
    let Some(_turn) = turn::take() else { return };
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let dir = folder.path().join("hung-up.sockscope");
    // Tests may run below nohup, from which the recorder would inherit that it ignores the signal.
    let mut record = Command::new("env");
    record.arg("--default-signal=HUP").arg(sockscope().get_program());
    record.args(["record", "--port", "1", "-o"]).arg(&dir);
    record.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut record = Killed(record.spawn().expect("env is there"));
    wait_until("the bundle is begun", || dir.join("meta.json").exists());
    // The kernel sends one, and the shell another.
    for _ in 0..2 {
        Command::new("kill").args(["-HUP", &record.0.id().to_string()]).status().expect("kill");
    }
    assert!(record.0.wait().expect("it was started").success());
    assert!(!report(&dir).notes().contains("not finished"), "{}", report(&dir).notes());
}

#[test]
fn root_a_recording_that_ignores_the_terminal_s_end_goes_on() {
    let Some(_turn) = turn::take() else { return };
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let dir = folder.path().join("nohup.sockscope");
    let mut record = Command::new("nohup");
    record.arg(sockscope().get_program()).args(["record", "--comm", "python3", "-o"]).arg(&dir);
    record.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut record = Killed(record.spawn().expect("nohup is there"));
    let signal = |name: &str| {
        let status = Command::new("kill").args([name, &record.0.id().to_string()]).status();
        assert!(status.expect("kill is there").success());
    };
    wait_until("the bundle is begun", || dir.join("meta.json").exists());
    signal("-HUP");
    let calls = workload("rpc.py", &["--calls", "2"]);
    stdout_of(&Command::new(&calls[0]).args(&calls[1..]).output().expect("python3 is there"));
    signal("-TERM");
    assert!(record.0.wait().expect("it was started").success());
    assert_eq!(report(&dir).connections().len(), 1);
}

/// Ends the recorder also when the test fails; its command ends by itself.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Ids of the BPF programs that a process holds, alone or by a link.
pub fn programs_held_by(pid: u32) -> BTreeSet<u64> {
    let Ok(open) = fs::read_dir(format!("/proc/{pid}/fdinfo")) else { return BTreeSet::new() };
    let texts = open.flatten().filter_map(|file| fs::read_to_string(file.path()).ok());
    let ids = |text: String| {
        let ids = text.lines().filter_map(|line| line.strip_prefix("prog_id:"));
        ids.filter_map(|id| id.trim().parse().ok()).collect::<Vec<u64>>()
    };
    texts.flat_map(ids).collect()
}

/// Which of these programs the kernel still has.
pub fn leftover(programs: &BTreeSet<u64>) -> BTreeSet<u64> {
    let output = Command::new("bpftool").args(["--json", "prog", "show"]).output();
    let said = stdout_of(&output.expect("bpftool is installed: see scripts/setup"));
    let all: serde_json::Value = serde_json::from_str(&said).expect("bpftool speaks JSON");
    let ids = all.as_array().expect("a list").iter().map(|program| count(&program["id"]));
    ids.filter(|id| programs.contains(id)).collect()
}

/// Control groups that a recorder made, wherever the version 2 hierarchy is mounted.
pub fn groups_of(pid: u32) -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").expect("proc(5)");
    let points = mounts.lines().filter_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let point = words.next()?;
        (words.next()? == "cgroup2").then(|| Path::new(point))
    });
    let entries = points.filter_map(|point| fs::read_dir(point).ok()).flatten().flatten();
    let name = |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let suffix = format!("-{pid}");
    let is_its = |path: &PathBuf| {
        name(path).starts_with("sockscope-group-") && name(path).ends_with(&suffix)
    };
    entries.map(|entry| entry.path()).filter(is_its).collect()
}

fn size(file: &Path) -> u64 {
    fs::metadata(file).map_or(0, |metadata| metadata.len())
}

/// Waits; how long only decides how long a failure takes.
pub fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < Duration::from_secs(15), "never came: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}
