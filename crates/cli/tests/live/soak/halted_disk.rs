//! A disk that writes nothing for seconds: the recorder keeps what it cannot write yet.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

use super::sized;
use crate::background::Background;
use crate::bundle::{Recorder, command, workload};
use crate::turn;

const CALLERS: u64 = 4;

#[test]
fn root_soak_while_the_disk_writes_nothing_no_record_is_missed() {
    let lacking = lack();
    let Some(_turn) = turn::take_with(lacking.as_deref()) else { return };
    let disk = Disk::mount(sized("1G", "4G"));
    let recorder = Recorder::start_in(&disk.path(), &["--comm", "python3"]);
    let (callers, calls) = (CALLERS.to_string(), sized(20_000_u64, 80_000).to_string());
    let words = workload("callers.py", &["--callers", &callers, "--calls", &calls]);
    let start = |_| Background::start_until(&mut command(&words), "-TERM", "listening on");
    let processes: Vec<Background> = (0..sized(1_u64, 3)).map(start).collect();
    thread::sleep(Duration::from_secs(1));
    let halted = disk.halt();
    thread::sleep(Duration::from_secs(sized(1_u64, 6)));
    drop(halted);
    let processes = processes.into_iter().map(Background::ended).count() as u64;
    let report = recorder.stop().report;
    println!("{}, {} records missed", report.summary(), report.missed());
    assert_eq!(report.gaps(), Vec::<String>::new());
    assert_eq!(report.connections().len() as u64, processes * CALLERS);
}

/// What this test needs and the machine does not have.
fn lack() -> Option<String> {
    let missing = ["/dev/loop-control", "/dev/shm"].into_iter().find(|it| !Path::new(it).exists());
    missing.map(|path| format!("{path} is missing"))
}

/// A disk of its own in memory, with ext4. Dropping it removes it.
struct Disk {
    folder: TempDir,
}

impl Disk {
    fn mount(size: &str) -> Self {
        let disk = Self { folder: tempfile::tempdir_in("/dev/shm").expect("room in /dev/shm") };
        let (image, path) = (disk.folder.path().join("image"), disk.path());
        std::fs::create_dir(&path).expect("the folder is new");
        ran(Command::new("truncate").args(["--size", size]).arg(&image));
        ran(Command::new("mkfs.ext4").arg("-q").arg(&image));
        ran(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&path));
        disk
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("mounted")
    }

    /// From here on a write to the disk waits until what this returns is dropped.
    fn halt(&self) -> Halted<'_> {
        ran(Command::new("fsfreeze").arg("--freeze").arg(self.path()));
        Halted(self)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.path()).status();
    }
}

struct Halted<'a>(&'a Disk);

impl Drop for Halted<'_> {
    fn drop(&mut self) {
        let _ = Command::new("fsfreeze").arg("--unfreeze").arg(self.0.path()).status();
    }
}

fn ran(command: &mut Command) {
    let status = command.status().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{command:?}: {status}");
}
