//! The control group of a traced command.
//!
//! A killed recorder cannot remove its group, so the next recorder removes it. A lock on the group's folder
//! (flock(2)) shows that its recorder lives; the kernel releases the lock with the process. A process id would
//! not do: it means nothing to a recorder in another process namespace.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::fs::{Access, AtFlags, CWD, FlockOperation, accessat, flock};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use crate::capabilities::may_override;
use crate::error::Error;

/// Names of our groups: this, the recorder's process namespace, and its process id there. A second group of the
/// process has a number behind it.
const PREFIX: &str = "sockscope-group-";
/// Attempts to make a group: another start may take a fresh group for a stale one, and remove it.
const ATTEMPTS: u32 = 100;
/// Time between two attempts.
const LOCK_PAUSE: Duration = Duration::from_millis(5);

fn mount_point(mounts: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let (path, kind) = (words.next()?, words.next()?);
        (kind == "cgroup2").then(|| PathBuf::from(path))
    })
}

/// A detached mount (fsopen(2), Linux 5.2), made once and kept while the process lives.
fn own_mount() -> Option<PathBuf> {
    static MOUNT: OnceLock<Option<OwnedFd>> = OnceLock::new();
    let mount = MOUNT.get_or_init(detached_mount).as_ref()?;
    Some(PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), mount.as_raw_fd())))
}

fn detached_mount() -> Option<OwnedFd> {
    let context = fsopen("cgroup2", FsOpenFlags::FSOPEN_CLOEXEC).ok()?;
    fsconfig_create(context.as_fd()).ok()?;
    fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty()).ok()
}

/// A group of our own, removed when dropped as far as it is empty.
#[derive(Debug)]
pub struct Cgroup {
    path: PathBuf,
    /// Its inode number and depth below the root.
    id: (u64, u32),
    /// Holds the lock that shows others that this recorder runs.
    _lock: File,
}

impl Cgroup {
    /// Creates the group `sockscope-group-NAMESPACE-PID`, after removing the groups of killed recorders. Later groups
    /// of the process are `sockscope-group-NAMESPACE-PID-NUMBER`.
    pub fn create() -> Result<Self, Error> {
        static CREATED: AtomicU32 = AtomicU32::new(0);
        let root = Self::hierarchy()?;
        remove_stale(&root);
        let namespace = fs::metadata("/proc/self/ns/pid").map_or(0, |found| found.ino());
        let mut name = format!("{PREFIX}{namespace}-{}", std::process::id());
        let number = CREATED.fetch_add(1, Ordering::Relaxed);
        if number > 0 {
            name += &format!("-{number}");
        }
        let path = root.join(name);
        match make(&path) {
            Ok((lock, inode)) => Ok(Self { path, id: (inode, 1), _lock: lock }),
            Err(source) => Err(refused(&root, &path, source, may_override())),
        }
    }

    /// The command will join the group before it begins, so that every socket that it makes belongs to the group.
    ///
    /// # Errors
    /// When the list of the group's processes cannot be opened.
    pub fn admit(&self, command: &mut Command) -> Result<(), Error> {
        let path = self.path.join("cgroup.procs");
        let joined = OpenOptions::new().write(true).open(&path);
        let joined = joined.map_err(|source| Error::File { what: "cannot open", path, source })?;
        let join = move || {
            // "0" is the process that writes (`cgroup_procs_write()`), by the rights of the file's opener.
            rustix::io::write(&joined, b"0").map(drop).map_err(io::Error::from)
        };
        // SAFETY: between fork and exec the closure makes one system call (write(2)), which takes no lock and no
        // memory. The closure owns the descriptor, so that it stays.
        unsafe { command.pre_exec(join) };
        Ok(())
    }

    /// Its inode number and its depth below the root, as a filter of connections takes them.
    pub fn id(&self) -> (u64, u32) {
        self.id
    }

    /// The mount point of the version 2 hierarchy. Some mount namespaces have none, as below `ip netns exec`.
    /// There it is a mount of our own, which no folder shows and which ends with the process.
    ///
    /// # Errors
    /// When neither can be had.
    pub fn hierarchy() -> Result<PathBuf, Error> {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        mount_point(&mounts).or_else(own_mount).ok_or(Error::NoCgroup)
    }

    /// Removes groups of recorders that are gone; their processes move to the root group.
    ///
    /// # Errors
    /// When there is no version 2 hierarchy.
    pub fn remove_stale() -> Result<(), Error> {
        remove_stale(&Self::hierarchy()?);
        Ok(())
    }

    /// Processes still in it.
    pub fn members(&self) -> Vec<u32> {
        members(&self.path)
    }
}

/// Whether the mode of `folder` keeps this process from making a folder there, as it is now
/// (faccessat(2)).
pub(crate) fn is_closed(folder: &Path) -> bool {
    let mode = Access::WRITE_OK | Access::EXEC_OK;
    let refused = accessat(CWD, folder, mode, AtFlags::EACCESS);
    // As `io::ErrorKind::PermissionDenied` has both. Another error is not about the mode.
    matches!(refused, Err(Errno::ACCESS | Errno::PERM))
}

/// The reason why no group could be made at `path`.
fn refused(root: &Path, path: &Path, source: io::Error, may_override: bool) -> Error {
    match source.kind() {
        io::ErrorKind::PermissionDenied if !may_override => {
            Error::NoGroupRight { folder: root.to_owned() }
        }
        _ => Error::File { what: "cannot create", path: path.to_owned(), source },
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Processes that outlive the command continue in the root group.
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
    // A group with processes cannot be removed (cgroups(7)).
    for pid in members(path) {
        // A process may end in between: then there is nothing to move.
        let _ = fs::write(parent.join("cgroup.procs"), pid.to_string());
    }
    let _ = fs::remove_dir(path);
}

/// Makes the folder and locks it; its inode number.
fn make(path: &Path) -> io::Result<(File, u64)> {
    for _ in 0..ATTEMPTS {
        match fs::create_dir(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let folder = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            opened => opened?,
        };
        // Another start that looks whether the group is stale holds the lock for a moment.
        if !lock(&folder) {
            std::thread::sleep(LOCK_PAUSE);
            continue;
        }
        let inode = folder.metadata()?.ino();
        if fs::metadata(path).is_ok_and(|named| named.ino() == inode) {
            return Ok((folder, inode));
        }
    }
    Err(io::ErrorKind::ResourceBusy.into())
}

/// Whether no recorder holds the group's lock; the returned file then holds it.
fn stale(path: &Path) -> Option<File> {
    let folder = File::open(path).ok()?;
    lock(&folder).then_some(folder)
}

/// Whether the lock on the folder could be taken. Closing the descriptor releases it.
fn lock(folder: &File) -> bool {
    flock(folder, FlockOperation::NonBlockingLockExclusive).is_ok()
}

fn remove_stale(root: &Path) {
    let Ok(entries) = fs::read_dir(root) else { return };
    for entry in entries.flatten() {
        let is_ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        if is_ours && let Some(_lock) = stale(&entry.path()) {
            remove(&entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_2_hierarchy_is_found_wherever_it_is_mounted() {
        let found = |mounts| mount_point(mounts).map(|path| path.display().to_string());
        let hybrid = "tmpfs /sys/fs/cgroup tmpfs ro 0 0\n\
                      cgroup /sys/fs/cgroup/cpu cgroup rw 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        assert_eq!(found(hybrid).as_deref(), Some("/sys/fs/cgroup/unified"));
        assert_eq!(
            found("none /sys/fs/cgroup cgroup2 rw 0 0\n").as_deref(),
            Some("/sys/fs/cgroup")
        );
        assert_eq!(found("cgroup2 /mnt tmpfs rw 0 0\nbroken\n"), None);
    }

    #[test]
    fn a_folder_closed_to_writing_is_a_right_that_is_missing() {
        let said = |kind: io::ErrorKind, may_override| {
            let (root, path) = (Path::new("/cgroup"), Path::new("/cgroup/sockscope-7"));
            refused(root, path, kind.into(), may_override).to_string()
        };
        let right = said(io::ErrorKind::PermissionDenied, false);
        assert!(
            right.contains("in /cgroup: ") && right.contains("CAP_DAC_OVERRIDE is missing"),
            "{right}"
        );
        for (kind, may_override) in
            [(io::ErrorKind::PermissionDenied, true), (io::ErrorKind::ReadOnlyFilesystem, false)]
        {
            assert!(said(kind, may_override).starts_with("cannot create /cgroup/sockscope-7: "));
        }
    }

    #[test]
    fn only_groups_that_no_recorder_holds_are_removed() {
        let root = std::env::temp_dir().join(format!("sockscope-cgroups-{}", std::process::id()));
        // That of the living one has the id of no process here, as from another process namespace.
        let names =
            ["sockscope-group-7-4194999", "sockscope-group-8-4194999", "sockscope-x", "system"];
        fs::create_dir_all(&root).unwrap();
        let held = make(&root.join(names[1])).unwrap();
        names.iter().for_each(|name| fs::create_dir_all(root.join(name)).unwrap());
        remove_stale(&root);
        let left = names.map(|name| root.join(name).exists());
        drop(held);
        remove_stale(&root);
        let left_later = names.map(|name| root.join(name).exists());
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(left, [false, true, true, true]);
        assert_eq!(left_later, [false, false, true, true]);
    }

    #[test]
    fn a_group_that_a_killed_recorder_of_the_same_name_left_is_taken_over() {
        let path = std::env::temp_dir().join(format!("sockscope-group-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        let (_lock, inode) = make(&path).unwrap();
        let is_stale = stale(&path).is_some();
        let found = fs::metadata(&path).unwrap().ino();
        fs::remove_dir(&path).unwrap();
        assert_eq!((inode, is_stale), (found, false));
    }
}
