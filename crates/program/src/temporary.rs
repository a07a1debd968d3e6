//! Folders for what is not kept, and what killed predecessors left of them.
//!
//! A folder is removed when its owner drops it. A killed owner cannot, so that its name says whose it
//! is: the process namespace and the process. Whoever makes the next one removes those of the same
//! user whose process is gone; processes of other namespaces are unknown here.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use tempfile::TempDir;

/// How the names of our folders begin.
const PREFIX: &str = "sockscope-tmp-";
/// Has a folder for each process that is alive.
const PROCESSES: &str = "/proc";

/// A folder of our own among the system's temporary files, after removing what is left of those whose
/// owner was killed.
pub fn folder() -> io::Result<TempDir> {
    folder_in(&std::env::temp_dir())
}

/// The same in the folder `root`.
pub fn folder_in(root: &Path) -> io::Result<TempDir> {
    let prefix = format!("{PREFIX}{}-", namespace());
    let owned = format!("{prefix}{}-", std::process::id());
    let folder = tempfile::Builder::new().prefix(&owned).tempdir_in(root)?;
    remove_stale(root, Path::new(PROCESSES), &prefix, fs::metadata(folder.path())?.uid());
    Ok(folder)
}

/// The number of the process namespace; 0 where it cannot be read.
fn namespace() -> u64 {
    fs::metadata("/proc/self/ns/pid").map_or(0, |metadata| metadata.ino())
}

/// Removes the user's folders whose process is gone. What cannot be removed stays, and all where
/// `processes`, which is `/proc`, does not tell who is alive: it shows not even ourselves.
fn remove_stale(root: &Path, processes: &Path, prefix: &str, user: u32) {
    if fs::metadata(processes.join("self")).is_err() {
        return;
    }
    let Ok(entries) = fs::read_dir(root) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let rest = name.to_str().and_then(|name| name.strip_prefix(prefix));
        let Some(owner) = rest.and_then(|rest| rest.split('-').next()?.parse::<u32>().ok()) else {
            continue;
        };
        // Of the entry itself: anybody may have put a link there.
        let is_ours = entry.metadata().is_ok_and(|found| found.is_dir() && found.uid() == user);
        let is_gone = owner != std::process::id() && !processes.join(owner.to_string()).exists();
        if is_ours && is_gone {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Above the largest process id that Linux gives (2^22).
    const GONE: u32 = 4_194_999;

    #[test]
    fn only_folders_of_processes_that_are_gone_are_removed() {
        let root = tempfile::tempdir().unwrap();
        let alive = std::process::id();
        let names = [
            format!("{PREFIX}7-{GONE}-a"),
            format!("{PREFIX}7-{alive}-b"),
            format!("{PREFIX}8-{GONE}-c"),
            format!("{PREFIX}7-x-d"),
            "somebody-else".to_owned(),
        ];
        for name in &names {
            fs::create_dir_all(root.path().join(name).join("trace")).unwrap();
        }
        let user = fs::metadata(root.path()).unwrap().uid();
        remove_stale(root.path(), Path::new(PROCESSES), &format!("{PREFIX}7-"), user);
        let left = names.map(|name| root.path().join(name).exists());
        assert_eq!(left, [false, true, true, true, true]);
    }

    #[test]
    fn nothing_is_removed_where_processes_cannot_be_seen() {
        let [root, processes] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let user = fs::metadata(root.path()).unwrap().uid();
        let prefix = format!("{PREFIX}7-");
        let [gone, own] = [GONE, std::process::id()].map(|owner| {
            let folder = root.path().join(format!("{prefix}{owner}-a"));
            fs::create_dir(&folder).unwrap();
            folder
        });
        remove_stale(root.path(), processes.path(), &prefix, user);
        assert!(gone.exists() && own.exists());
        fs::create_dir(processes.path().join("self")).unwrap();
        remove_stale(root.path(), processes.path(), &prefix, user);
        assert!(!gone.exists() && own.exists());
    }

    #[test]
    fn a_link_and_another_user_s_folder_stay() {
        let root = tempfile::tempdir().unwrap();
        let target = root.path().join("target");
        fs::create_dir(&target).unwrap();
        let link = root.path().join(format!("{PREFIX}7-{GONE}-link"));
        std::os::unix::fs::symlink(&target, &link).unwrap();
        let other = root.path().join(format!("{PREFIX}7-{GONE}-other"));
        fs::create_dir(&other).unwrap();
        let user = fs::metadata(root.path()).unwrap().uid();
        remove_stale(root.path(), Path::new(PROCESSES), &format!("{PREFIX}7-"), user + 1);
        assert!(other.exists());
        remove_stale(root.path(), Path::new(PROCESSES), &format!("{PREFIX}7-"), user);
        assert!(target.exists() && link.is_symlink() && !other.exists());
    }

    #[test]
    fn a_folder_is_ours_until_it_is_dropped() {
        let folder = folder().unwrap();
        let path = folder.path().to_owned();
        drop(super::folder().unwrap());
        assert!(path.is_dir());
        drop(folder);
        assert!(!path.exists());
    }
}
