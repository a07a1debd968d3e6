//! The unit of systemd: it is well formed, and its capabilities are enough without root.

mod common;

use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use common::{CALLS, Program, Watch, may_record};
use sockscope_trace::Bundle;

const UNIT: &str = include_str!("../../../packaging/systemd/sockscope-watch.service");
const PROGRAM: &str = "/usr/bin/sockscope-watch";
/// User and group `nobody` of Debian.
const NOBODY: u32 = 65_534;

fn setting(name: &str) -> &'static str {
    let mut lines = UNIT.lines().filter_map(|line| line.split_once('='));
    lines.find(|(key, _)| *key == name).unwrap_or_else(|| panic!("no {name}")).1
}

#[test]
fn systemd_accepts_the_unit() {
    let folder = tempfile::tempdir().unwrap();
    let unit = folder.path().join("sockscope-watch.service");
    let built = env!("CARGO_BIN_EXE_sockscope-watch");
    fs::write(&unit, UNIT.replace(PROGRAM, built)).unwrap();
    let judged = Command::new("systemd-analyze").arg("verify").arg(&unit).output();
    let Ok(judged) = judged else {
        let _ =
            writeln!(std::io::stderr(), "SKIPPED: systemd_accepts_the_unit: no systemd-analyze");
        return;
    };
    let said = String::from_utf8_lossy(&judged.stderr);
    assert!(judged.status.success() && !said.contains("Unknown"), "{said}");
    assert_eq!(setting("AmbientCapabilities"), setting("CapabilityBoundingSet"));
}

#[test]
fn root_the_capabilities_of_the_unit_are_enough() {
    if !may_record("root_the_capabilities_of_the_unit_are_enough") {
        return;
    }
    // Of a user who may not enter the folder of the build.
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o711)).unwrap();
    let program = folder.path().join("sockscope-watch");
    fs::copy(env!("CARGO_BIN_EXE_sockscope-watch"), &program).unwrap();
    let state = folder.path().join("state");
    fs::create_dir(&state).unwrap();
    std::os::unix::fs::chown(&state, Some(NOBODY), Some(NOBODY)).unwrap();
    let capabilities = setting("AmbientCapabilities").to_ascii_lowercase();
    let capabilities = capabilities.split(' ').map(|one| one.replace("cap_", ",+"));
    let only = "-all".to_owned() + &capabilities.collect::<String>();
    let mut calls = Program::start(Command::new("python3").args(["-c", CALLS]));
    calls.port();
    // The arguments of the unit, with another folder and a free port. Other tests may keep the CPUs busy, and a small
    // budget would leave the connection out. In a unit %% is a percent sign.
    let arguments = setting("ExecStart").strip_prefix(PROGRAM).unwrap();
    let output = state.join("watch");
    let arguments = arguments.replace("/var/lib/sockscope/watch", output.to_str().unwrap());
    let arguments = arguments.replace(":9464", ":0").replace("--budget 3%%", "--budget 1000%");
    assert!(!arguments.contains("%%"), "{arguments}");
    let mut command = Command::new("setpriv");
    command.args([format!("--reuid={NOBODY}"), format!("--regid={NOBODY}")]);
    command.args(["--clear-groups", "--no-new-privs", "--bounding-set", &only]);
    command.args(["--inh-caps", &only, "--ambient-caps", &only]).arg(&program);
    command.args(arguments.split_whitespace());
    command.args(["--when", "finding=nagle-delayed-ack", "--after", "500ms"]);
    let mut recorder = Watch::start(&mut command);
    recorder.wait_for("metrics are at http://127.0.0.1:");
    calls.begin();
    recorder.wait_for("keeping a trace: finding=nagle-delayed-ack");
    recorder.wait_for("see it: sockscope report");
    recorder.end();
    let kept = fs::read_dir(&output).unwrap().map(|entry| entry.unwrap().path());
    let kept: Vec<_> = kept.collect();
    let [kept] = &kept[..] else { panic!("{kept:?}") };
    assert!(Bundle::open(kept).unwrap().meta().complete);
    let owner = |path: &Path| path.metadata().unwrap().uid();
    assert_eq!(owner(kept), NOBODY);
}
