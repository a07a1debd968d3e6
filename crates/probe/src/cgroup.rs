//! The control group of a traced command.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// Names of our groups: this and the recorder's process id.
const PREFIX: &str = "sockscope-";

/// Where the version 2 hierarchy is mounted.
pub(crate) fn root() -> Result<PathBuf, Error> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    mounts
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace().skip(1);
            let (path, kind) = (words.next()?, words.next()?);
            (kind == "cgroup2").then(|| PathBuf::from(path))
        })
        .next()
        .ok_or(Error::NoCgroup)
}

/// A group of our own, removed when dropped as far as it is empty.
#[derive(Debug)]
pub struct Cgroup {
    path: PathBuf,
    /// Its inode number and depth below the root.
    id: (u64, u32),
}

impl Cgroup {
    /// Creates the group `sockscope-PID`, after removing what killed recorders left.
    pub fn create() -> Result<Self, Error> {
        let root = root()?;
        remove_stale(&root);
        let path = root.join(format!("{PREFIX}{}", std::process::id()));
        let failed = |source| Error::File { what: "cannot create", path: path.clone(), source };
        if !path.is_dir() {
            fs::create_dir(&path).map_err(failed)?;
        }
        let inode = fs::metadata(&path).map_err(failed)?.ino();
        Ok(Self { path, id: (inode, 1) })
    }

    /// The file to which a process writes its id to join.
    pub(crate) fn procs(&self) -> PathBuf {
        self.path.join("cgroup.procs")
    }

    /// Its inode number and its depth below the root, as a pick wants them.
    #[must_use]
    pub fn id(&self) -> (u64, u32) {
        self.id
    }

    /// Where the version 2 hierarchy is mounted.
    ///
    /// # Errors
    /// When it is not.
    pub fn hierarchy() -> Result<PathBuf, Error> {
        root()
    }

    /// Removes groups of recorders that are gone; their processes move to the root group.
    ///
    /// # Errors
    /// When there is no version 2 hierarchy.
    pub fn remove_stale() -> Result<(), Error> {
        remove_stale(&root()?);
        Ok(())
    }

    /// Processes still in it.
    #[must_use]
    pub fn members(&self) -> Vec<u32> {
        members(&self.path)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Processes that outlive the command go on in the root group.
        remove(&self.path);
    }
}

fn members(path: &Path) -> Vec<u32> {
    let text = fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

fn remove(path: &Path) {
    if fs::remove_dir(path).is_ok() {
        return;
    }
    let Some(parent) = path.parent() else { return };
    for pid in members(path) {
        // A process may end in between: then there is nothing to move.
        let _ = fs::write(parent.join("cgroup.procs"), pid.to_string());
    }
    let _ = fs::remove_dir(path);
}

fn remove_stale(root: &Path) {
    let Ok(entries) = fs::read_dir(root) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else { continue };
        let is_ours =
            pid.parse::<u32>().is_ok_and(|pid| !Path::new(&format!("/proc/{pid}")).exists());
        if is_ours {
            remove(&entry.path());
        }
    }
}
