//! `sockscope lab` and `sockscope vmtp`: how the program that has them is found, and with what it is
//! started.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// `sockscope` in a folder of its own.
struct Alone {
    folder: TempDir,
    program: PathBuf,
}

impl Alone {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let program = folder.path().join("sockscope");
        // By a process of its own: a file that this one has open for writing is busy for whatever a
        // parallel test starts at that moment.
        let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_sockscope")).arg(&program).status();
        assert!(copied.expect("cp is part of coreutils").success());
        Self { folder, program }
    }

    fn run(&self, arguments: &[&str], path: impl AsRef<OsStr>) -> Output {
        let mut command = Command::new(&self.program);
        command.args(arguments).env("PATH", path).output().expect("it starts")
    }
}

/// Puts a program `sockscope-lab` into `folder` that prints `name` and its arguments, one a line.
fn put_laboratory(folder: &Path, name: &str) {
    put_program(folder, "sockscope-lab", &printing(name));
}

/// A script that prints `name` and its arguments, one a line.
fn printing(name: &str) -> String {
    format!("for word in {name} \"$@\"; do echo \"$word\"; done\nexit 7")
}

/// Puts a program of this name into `folder` that is this script.
fn put_program(folder: &Path, name: &str, script: &str) {
    let program = folder.join(name);
    let script = format!("#!/bin/sh\n{script}\n");
    let made = Command::new("/bin/sh")
        .args(["-c", "printf %s \"$1\" > \"$0\"; chmod 755 \"$0\""])
        .args([program.as_os_str(), script.as_ref()])
        .status();
    assert!(made.expect("sh").success());
    let mode = fs::metadata(&program).expect("it was made").permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn arguments_and_exit_status_pass_unchanged() {
    let alone = Alone::new();
    put_laboratory(alone.folder.path(), "near");
    let words = ["vmtp", "call", "--times", "2", "", "a b", "--", "--help", "--", "-x"];
    let output = alone.run(&words, "");
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
    let expected: String = ["near"].iter().chain(&words).map(|word| format!("{word}\n")).collect();
    assert_eq!(text(&output.stdout), expected);
    let help = alone.run(&["lab", "--help"], "");
    assert_eq!(text(&help.stdout), "near\nlab\n--help\n");
}

#[test]
fn the_program_in_the_same_folder_goes_before_one_in_path() {
    let (alone, other) = (Alone::new(), tempfile::tempdir().expect("a folder"));
    put_laboratory(other.path(), "path");
    assert_eq!(text(&alone.run(&["lab", "list"], other.path()).stdout), "path\nlab\nlist\n");
    put_laboratory(alone.folder.path(), "near");
    assert_eq!(text(&alone.run(&["lab", "list"], other.path()).stdout), "near\nlab\nlist\n");
}

#[test]
fn without_the_program_one_line_says_how_to_build_it() {
    let alone = Alone::new();
    for arguments in [&["lab", "list"][..], &["lab", "--help"], &["lab"], &["vmtp", "serve"]] {
        let output = alone.run(arguments, "/nowhere");
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), String::new()));
        assert!(said.starts_with("sockscope: `") && said.lines().count() == 1, "{said}");
        assert!(said.contains("cargo build --release -p sockscope-lab-cli"), "{said}");
    }
    let said = text(&alone.run(&["plot", "t", "--figure", "acks"], "/nowhere").stderr);
    assert!(said.starts_with("sockscope: `plot` needs the program sockscope-view"), "{said}");
    assert_eq!(alone.run(&["report", "/nowhere"], "/nowhere").status.code(), Some(2));
    assert!(text(&alone.run(&["--help"], "/nowhere").stdout).contains("\n  lab "));
}

#[test]
fn a_page_is_written_by_the_program_of_the_views() {
    let bundle = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/bundles/v2/calls.sockscope");
    let alone = Alone::new();
    let words = ["report", bundle, "--flow", "3", "--format", "html", "-o", "a b.html"];
    let output = alone.run(&words, "/nowhere");
    let needs = "sockscope: `report --format html` needs the program sockscope-view";
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).starts_with(needs), "{}", text(&output.stderr));
    put_program(alone.folder.path(), "sockscope-view", &printing("view"));
    let expected: String = ["view"].iter().chain(&words).map(|word| format!("{word}\n")).collect();
    assert_eq!(text(&alone.run(&words, "").stdout), expected);
    // Of a run that has no trace yet it is refused before the command starts.
    let output = alone.run(&["run", "--format", "html", "--", "/bin/echo", "ran"], "/bin");
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), String::new()));
    assert!(said.contains("use `sockscope report --format html -o F.html` then"), "{said}");
}
