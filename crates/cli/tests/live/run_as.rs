//! `--user`: the recorded command runs as another user.

use crate::bundle::{run_once, sockscope, stdout_of, words, workload};
use crate::turn;

/// What the command says of itself.
const WHO: &str = "id -u; id -g; id -G; echo $HOME; grep CapEff /proc/self/status";

#[test]
fn root_the_command_has_the_rights_of_the_user_alone() {
    let Some(_turn) = turn::take() else { return };
    let nobody = "65534\n65534\n65534\n/nonexistent\nCapEff:\t0000000000000000\n";
    for user in [&["--user", "nobody"][..], &["--user", "65534"], &["--user"]] {
        let mut run = sockscope();
        run.arg("run").args(user).args(["--", "sh", "-c", WHO]).env("SUDO_UID", "65534");
        assert_eq!(stdout_of(&run.output().expect("it was built")), nobody, "{user:?}");
    }
    let mut run = sockscope();
    run.args(["run", "--", "id", "-u"]).env("SUDO_UID", "65534");
    assert_eq!(stdout_of(&run.output().expect("it was built")), "0\n");
}

#[test]
fn root_sockets_of_another_user_s_command_are_recorded() {
    let Some(_turn) = turn::take() else { return };
    let calls = workload("split_calls.py", &["--calls", "4"]);
    let recording = run_once(&["--user", "nobody"], &calls);
    assert_eq!(recording.report.connections().len(), 1, "{}", recording.report.summary());
}

#[test]
fn root_a_user_without_a_command_or_a_name_is_refused() {
    let Some(_turn) = turn::take() else { return };
    for (arguments, reason) in [
        ("record --user nobody --port 1", "--user is the user of a command: give one after --"),
        ("run --user no-such-user -- true", "--user no-such-user: no such user"),
        ("run --user -- true", "--user without a name is the user who called sudo"),
    ] {
        let mut run = sockscope();
        let output = run.args(words(&arguments.split(' ').collect::<Vec<_>>()));
        let output = output.env_remove("SUDO_UID").output().expect("it was built");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(reason), "{stderr}");
    }
}
