//! The last trace of a user, which commands read where no folder is named.

use std::fs;
use std::path::Path;
use std::process::Output;

use crate::bundle::{sockscope, stdout_of, workload};
use crate::turn;

/// The program with its state in this folder.
fn with_state(state: &Path, arguments: &[&str], command: &[String]) -> Output {
    let mut program = sockscope();
    program.env("XDG_STATE_HOME", state).args(arguments);
    if !command.is_empty() {
        program.arg("--").args(command);
    }
    program.output().expect("it was built")
}

fn stderr_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn root_the_trace_of_a_run_is_there_for_the_next_commands() {
    let Some(_turn) = turn::take() else { return };
    let state = tempfile::tempdir().expect("a folder for the state");
    // The second trace takes the place of the first one.
    for calls in ["4", "7"] {
        let command = workload("split_calls.py", &["--calls", calls]);
        let ran = with_state(state.path(), &["run"], &command);
        assert!(ran.status.success(), "{}", stderr_of(&ran));
        assert!(stderr_of(&ran).contains("the trace is kept until the next run"));
        let report = with_state(state.path(), &["report"], &[]);
        // Without the ends of lines.
        let text = stdout_of(&report).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(&format!("split_calls.py --calls {calls}")), "{text}");
        assert!(
            stderr_of(&report).contains("sockscope: the last trace, "),
            "{}",
            stderr_of(&report)
        );
        for read in [&["show"][..], &["plot", "--figure", "acks"]] {
            stdout_of(&with_state(state.path(), read, &[]));
        }
    }
    let names = fs::read_dir(state.path().join("sockscope")).expect("it is there").flatten();
    let mut names: Vec<_> = names.map(|entry| entry.file_name()).collect();
    names.sort();
    assert_eq!(names, ["last", "run.sockscope"]);
}

#[test]
fn root_a_trace_in_a_named_folder_is_the_last_one_as_well() {
    let Some(_turn) = turn::take() else { return };
    let state = tempfile::tempdir().expect("a folder for the state");
    let command = workload("split_calls.py", &["--calls", "4"]);
    for how in ["run", "record"] {
        let dir = state.path().join(how);
        let named = [how, "-o", &dir.display().to_string()];
        let recorded = with_state(state.path(), &named, &command);
        assert!(recorded.status.success(), "{}", stderr_of(&recorded));
        let report = with_state(state.path(), &["report"], &[]);
        assert!(report.status.success());
        let named = format!("the last trace, {}", dir.display());
        assert!(stderr_of(&report).contains(&named), "{}", stderr_of(&report));
    }
    fs::remove_dir_all(state.path().join("record")).expect("it was recorded");
    let report = with_state(state.path(), &["report"], &[]);
    assert!(stderr_of(&report).contains("is not there any more"), "{}", stderr_of(&report));
}
