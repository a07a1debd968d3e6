//! Recordings: `sockscope run` on a command, or `sockscope record` next to other traffic.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::background::Background;
use crate::hosts::Hosts;
use crate::report::Report;

/// How often a recording is made before its gaps count as a failure.
const ATTEMPTS: u32 = 3;
/// The same where the recorder says that the kernel skipped all that is missing. Some kernels run no
/// program in a softirq that interrupts certain processes: the recorder cannot help it.
pub const ATTEMPTS_SKIPPED: u32 = 5;

/// A folder for traces, removed after a test that passed. After one that failed it stays: what shows once in
/// a hundred runs can be looked at.
pub struct Folder {
    folder: TempDir,
    is_kept_on_failure: bool,
}

impl Folder {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        Self { folder, is_kept_on_failure: true }
    }

    /// A folder in one that the test removes.
    fn within(path: &Path) -> Self {
        let folder = tempfile::tempdir_in(path).expect("the test made its parent");
        Self { folder, is_kept_on_failure: false }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if thread::panicking() && self.is_kept_on_failure {
            self.folder.disable_cleanup(true);
            println!("the traces of this test stay in {}", self.path().display());
        }
    }
}

/// A finished recording.
pub struct Recording {
    folder: Folder,
    /// What the recorded command printed.
    pub said: String,
    /// What it amounts to.
    pub report: Report,
}

impl Recording {
    /// The bundle.
    pub fn dir(&self) -> PathBuf {
        self.folder.path().join("live.sockscope")
    }

    /// Keeps the bundle after the test; returns it.
    pub fn keep(&mut self) -> PathBuf {
        self.folder.folder.disable_cleanup(true);
        self.dir()
    }

    /// The first line of its text report that has this label.
    pub fn line(&self, label: &str) -> String {
        let said = sockscope_says(&["report", &self.dir().display().to_string()]);
        let line = said.lines().find(|line| line.starts_with(label));
        line.unwrap_or_else(|| panic!("no {label} in {said}")).to_owned()
    }

    /// What a workload printed: the facts of the ends that ran in it.
    pub fn facts(&self) -> Value {
        facts(&self.said)
    }
}

/// The program under test, with nothing but its name. Its last traces are not those of the user who tests.
pub fn sockscope() -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_sockscope"));
    program.env("XDG_STATE_HOME", env!("CARGO_TARGET_TMPDIR"));
    program
}

/// Runs it to its end, which must be a good one; returns its standard output.
pub fn sockscope_says<S: AsRef<OsStr>>(arguments: &[S]) -> String {
    let output = sockscope().args(arguments).output().expect("it was built");
    stdout_of(&output)
}

/// Records `command` by `sockscope run OPTIONS -- command`, once.
pub fn run_once(options: &[&str], command: &[String]) -> Recording {
    let folder = Folder::new();
    let output = sockscope()
        .args(["run", "--format", "json", "-o"])
        .arg(folder.path().join("live.sockscope"))
        .args(options)
        .arg("--")
        .args(command)
        .output()
        .expect("it was built");
    let report = Report::parse(&stdout_of(&output));
    // With a report in JSON the command's own output is on standard error.
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!stderr.contains("the command ended with"), "{command:?}: {stderr}");
    let own = stderr.lines().filter(|line| !line.starts_with("sockscope: "));
    let said = own.map(|line| format!("{line}\n")).collect();
    Recording { folder, said, report }
}

/// A recording without gaps, made a few times at most; says why when it makes one again.
pub fn whole(mut make: impl FnMut() -> Recording) -> Recording {
    for attempt in 1.. {
        let recording = make();
        let gaps = recording.report.gaps();
        if gaps.is_empty() {
            return recording;
        }
        let what = format!("{gaps:?}; {}", recording.report.summary());
        let is_skipped = recording.report.is_only_skipped();
        let most = if is_skipped { ATTEMPTS_SKIPPED } else { ATTEMPTS };
        assert!(attempt < most, "recorded {attempt} times, never whole: {what}");
        eprintln!("recording once more, because of {what}");
    }
    unreachable!("the loop ends by return or panic")
}

/// Records a workload of `tests/workloads`, without gaps.
pub fn workload_recorded(program: &str, arguments: &[&str]) -> Recording {
    let command = workload(program, arguments);
    whole(|| run_once(&[], &command))
}

/// The command line of a workload of `tests/workloads`.
pub fn workload(program: &str, arguments: &[&str]) -> Vec<String> {
    let path = checkout().join("tests/workloads").join(program);
    let words = ["python3".to_owned(), "-B".to_owned(), path.display().to_string()];
    words.into_iter().chain(arguments.iter().map(|&word| word.to_owned())).collect()
}

/// The facts that a workload printed: its last line, one JSON object.
pub fn facts(said: &str) -> Value {
    let line = said.lines().next_back().unwrap_or_default();
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {said}"))
}

/// A command that runs `words`.
pub fn command(words: &[String]) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command
}

/// Words as owned strings.
pub fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

/// `sockscope record` that runs next to the test.
pub struct Recorder {
    folder: Folder,
    process: Background,
}

impl Recorder {
    /// Starts it, ready to record; on host `b` of `hosts` if given.
    pub fn start(options: &[&str], hosts: Option<&Hosts>) -> Self {
        let program = words(&[env!("CARGO_BIN_EXE_sockscope")]);
        let program = match hosts {
            Some(hosts) => hosts.on_b(&program),
            None => program,
        };
        Self::spawn(&program, options, Folder::new())
    }

    /// As [`Recorder::start`], with the bundle in this folder, which the test removes in any case.
    pub fn start_in(folder: &Path, options: &[&str]) -> Self {
        let program = words(&[env!("CARGO_BIN_EXE_sockscope")]);
        Self::spawn(&program, options, Folder::within(folder))
    }

    /// As [`Recorder::start`], by another program, as `nice` with its options.
    pub fn start_by(starter: &[&str], options: &[&str]) -> Self {
        let program = [starter, &[env!("CARGO_BIN_EXE_sockscope")]].concat();
        Self::spawn(&words(&program), options, Folder::new())
    }

    fn spawn(program: &[String], options: &[&str], folder: Folder) -> Self {
        let program = [program, &words(&["record", "-o"])].concat();
        let mut command = command(&program);
        command.arg(folder.path().join("live.sockscope")).args(options);
        let process = Background::start_until(&mut command, "-INT", "recording; Ctrl-C ends it");
        Self { folder, process }
    }

    /// Sends it a signal, as `-STOP`.
    pub fn signal(&self, signal: &str) {
        self.process.signal(signal);
    }

    /// Lets it run again after `-STOP`, and waits until its file of records has grown, so that it has read
    /// its lists.
    pub fn go_on(&self) {
        let file = self.folder.path().join("live.sockscope/records.arrows");
        let size = || std::fs::metadata(&file).map_or(0, |metadata| metadata.len());
        // While it stands still: it may write all at once, and nothing after that.
        let before = size();
        self.signal("-CONT");
        let since = Instant::now();
        while size() == before {
            assert!(since.elapsed() < Duration::from_secs(20), "nothing was recorded");
            thread::sleep(Duration::from_millis(5));
        }
        // A step or two of its loop later the lists are empty.
        thread::sleep(Duration::from_millis(200));
    }

    /// Number of its process.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// The bundle that it writes.
    pub fn dir(&self) -> PathBuf {
        self.folder.path().join("live.sockscope")
    }

    /// Ends it, as Ctrl-C does; its folder, and its notes and counts as written.
    pub fn end(self) -> (Folder, String) {
        self.process.stop();
        let said = std::fs::read_to_string(self.folder.path().join("live.sockscope/meta.json"));
        (self.folder, said.expect("a bundle has it"))
    }

    /// Ends it, as Ctrl-C does, and makes the report.
    pub fn stop(self) -> Recording {
        self.process.stop();
        let report = report(&self.folder.path().join("live.sockscope"));
        Recording { folder: self.folder, said: String::new(), report }
    }
}

/// The report of a bundle.
pub fn report(dir: &Path) -> Report {
    let dir = dir.display().to_string();
    Report::parse(&sockscope_says(&["report", &dir, "--format", "json"]))
}

/// Root of the checkout.
pub fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Standard output of a program that must have ended well.
pub fn stdout_of(output: &Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}: {stderr}{said}", output.status);
    said
}
