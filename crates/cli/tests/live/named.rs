//! Sockets picked by the name of a unit or the number of a container, from control groups that the test makes.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use sockscope_probe::Cgroup;

use crate::bundle::{Recorder, sockscope, sockscope_says, workload};
use crate::report::text;
use crate::turn;

const ID: &str = "5c0fe0000123456789abcdef0123456789abcdef0123456789abcdef01234567";

/// Groups as systemd and Docker make them, below one of the test. All are removed at the end.
struct Groups {
    root: PathBuf,
    unit: String,
}

impl Groups {
    fn new() -> Self {
        let name = format!("sockscope-named-{}", std::process::id());
        let root = Cgroup::hierarchy().expect("a hierarchy of version 2").join(&name);
        let groups = Self { root, unit: format!("{name}.service") };
        groups.folders().iter().for_each(|it| fs::create_dir_all(it).expect("root may"));
        groups
    }

    /// That of the unit, and that of the container.
    fn folders(&self) -> [PathBuf; 2] {
        let slice = self.root.join("system.slice");
        [slice.join(&self.unit), slice.join(format!("docker-{ID}.scope"))]
    }

    /// Runs a transfer in each of them.
    fn run(&self) {
        for folder in self.folders() {
            let transfer = workload("bulk.py", &["--bytes", "100000"]);
            let join = r#"echo 0 > "$0"/cgroup.procs && exec "$@""#;
            let ran = Command::new("sh").args(["-c", join]).arg(folder).args(transfer).output();
            let ran = ran.expect("a shell");
            assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        }
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        let slice = self.root.join("system.slice");
        for folder in self.folders().iter().chain([&slice, &self.root]) {
            let _ = fs::remove_dir(folder);
        }
    }
}

#[test]
fn root_only_the_named_group_is_recorded_and_the_report_has_its_name() {
    let Some(_turn) = turn::take() else { return };
    let groups = Groups::new();
    let unit = groups.unit.clone();
    for (pick, words, member) in [
        (format!("unit={unit}"), format!("in unit {unit}"), "unit"),
        (format!("container={}", &ID[..7]), format!("in container {}", &ID[..12]), "container"),
    ] {
        let recorder = Recorder::start(&["--pick", &pick], None);
        groups.run();
        let recording = recorder.stop();
        let connections = recording.report.connections();
        assert!(!connections.is_empty(), "{pick}: nothing was recorded");
        for connection in connections {
            for process in connection["processes"].as_array().expect("a list") {
                let found = match member {
                    "unit" => &process["group"]["unit"],
                    _ => &process["group"]["container"]["id"],
                };
                let expected = if member == "unit" { unit.as_str() } else { ID };
                assert_eq!(text(found), expected, "{process}");
            }
        }
        let said = sockscope_says(&["report", &recording.dir().display().to_string()]);
        assert!(said.contains(&words), "{words}: {said}");
    }
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let mut other = sockscope();
    other.args(["record", "--pick", &format!("unit={unit}x"), "-o"]);
    other.arg(folder.path().join("none.sockscope"));
    let refused = String::from_utf8(other.output().expect("it was built").stderr).expect("text");
    assert!(refused.contains(&format!("did you mean {unit}?")), "{refused}");
    assert_eq!(refused.trim_end().lines().count(), 1, "{refused}");
}
