//! The output folder of a new bundle, and the backup of an older bundle of the same name.
//!
//! A recording cannot be repeated, and `record` has a default name. So an older bundle is renamed to
//! `NAME.old` first, and only the last one is kept, as `perf record` keeps its file. Nothing but a bundle
//! is renamed: no other files, no bundle that another process writes, no bundle that this command reads.
//! Readers take no lock: they find the old bundle, the new one, or none.
//!
//! The writer locks the folder before it reads the folder's entries: of two processes that start at once
//! one is refused. Folders are removed after all renames are done.
//!
//! Other users may write into the folder above, for example `/tmp`. So the folder must belong to the user,
//! is held by its descriptor, and is accessible to its owner only. A symbolic link of another user is not
//! followed.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use rustix::process::geteuid;
use sockscope_trace::{BundleWriter, Error, Folder, META_UNFINISHED, Meta, Part, is_bundle};

use crate::failure::Failure;

/// The files of a bundle, its records last, and the file that a killed writer may leave.
const OWN: [&str; 4] =
    [META_UNFINISHED, Part::Meta.file_name(), Part::Flows.file_name(), Part::Records.file_name()];

/// A folder that can take a new bundle.
#[derive(Debug)]
pub struct OutputDir {
    dir: PathBuf,
    /// `None` while there is no such folder.
    lock: Option<DirLock>,
}

/// The lock of a folder: no other process writes a bundle into it while this value exists.
#[derive(Debug)]
pub struct DirLock {
    folder: Folder,
}

impl OutputDir {
    /// Checks and locks `dir` for a new bundle made from the bundles in `sources`; changes nothing yet.
    ///
    /// # Errors
    ///
    /// When `dir` or its backup holds anything that must not be replaced.
    pub fn find(dir: &Path, sources: &[&Path]) -> Result<Self, Failure> {
        // Without a slash at its end, which would hide a symbolic link.
        let dir: PathBuf = dir.components().collect();
        let seen = |path| Some((path, fs::metadata(path).ok()?.is_dir()));
        if let Some((file, false)) = dir.ancestors().find_map(seen) {
            let what = format!("{} is a file: choose another name", file.display());
            return Err(Failure::new(format!("cannot write {}: {what}", dir.display())));
        }
        check_link(&dir)?;
        let Ok(real) = fs::canonicalize(&dir) else {
            check_above(&dir)?;
            return Ok(Self { dir, lock: None });
        };
        // The name as it was given, unless it is not that of the folder.
        let is_its_own = dir.file_name().is_some() && !dir.is_symlink();
        let real = if is_its_own { dir.clone() } else { real };
        check_sources(&real, &dir, sources)?;
        let lock = DirLock::take(&real)?;
        if holds_bundle(&real)? {
            let backup = Backup::find(&real)?;
            for kept in [&backup.old, &backup.removed] {
                check_sources(kept, kept, sources)?;
            }
        }
        Ok(Self { dir: real, lock: Some(lock) })
    }

    /// Starts a bundle in the folder. An older bundle replaces the earlier backup.
    ///
    /// # Errors
    ///
    /// When another process began first, or the system refuses; the older bundle is then still in the
    /// folder, or in the backup.
    pub fn create(self, meta: Meta) -> Result<(BundleWriter, DirLock), Failure> {
        let Self { dir, lock } = self.made()?;
        let Some(lock) = lock else { return Err(written(&dir)) };
        if !holds_bundle(&dir)? {
            return Ok((lock.writer(meta)?, lock));
        }
        let old = Backup::find(&dir)?.take(&dir)?;
        let lock = DirLock::make(&dir)?;
        stderr!("sockscope: the older trace is now in {}", old.display());
        Ok((lock.writer(meta)?, lock))
    }

    /// The same with the folder made and locked.
    fn made(self) -> Result<Self, Failure> {
        if self.lock.is_some() {
            return Ok(self);
        }
        match Folder::make(&self.dir) {
            // Another process made it first: the lock shows whether that one writes into it.
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists => {}
            made => drop(made?),
        }
        Self::find(&self.dir, &[])
    }
}

impl DirLock {
    /// Locks the folder `dir`, which exists.
    fn take(dir: &Path) -> Result<Self, Failure> {
        let folder = Folder::own(dir).map_err(|error| match error {
            // Another process just renamed it.
            Error::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => written(dir),
            error => error.into(),
        })?;
        // A file system without locks is no reason not to record.
        let is_held = flock(folder.handle(), FlockOperation::NonBlockingLockExclusive)
            == Err(Errno::WOULDBLOCK);
        if is_held || !folder.is_in_place() {
            return Err(written(dir));
        }
        Ok(Self { folder })
    }

    /// Makes the folder `dir` and locks it.
    fn make(dir: &Path) -> Result<Self, Failure> {
        Folder::make(dir).map_err(|error| match error {
            Error::Io { source, .. } if source.kind() == io::ErrorKind::AlreadyExists => {
                written(dir)
            }
            error => error.into(),
        })?;
        Self::take(dir)
    }

    /// Starts a bundle in the folder.
    fn writer(&self, meta: Meta) -> Result<BundleWriter, Failure> {
        Ok(BundleWriter::create_in(self.folder.again()?, meta)?)
    }
}

/// The backup of an older bundle.
#[derive(Debug)]
struct Backup {
    old: PathBuf,
    /// Lock of the earlier backup, if there is one.
    lock: Option<DirLock>,
    /// Temporary name of the earlier backup until it is removed.
    removed: PathBuf,
}

impl Backup {
    /// For the bundle in `dir`, which is locked.
    fn find(dir: &Path) -> Result<Self, Failure> {
        let beside = (beside(dir, ".old"), beside(dir, ".old.removed"));
        let (Some(old), Some(removed)) = beside else { return Err(current(dir)) };
        if is_current(dir) {
            return Err(current(dir));
        }
        let [lock, _] = [lock_kept(&old)?, lock_kept(&removed)?];
        Ok(Self { old, lock, removed })
    }

    /// Renames `dir` and returns its new name; on an error all names are as before.
    fn take(self, dir: &Path) -> Result<PathBuf, Failure> {
        let Self { old, lock, removed } = self;
        // A killed process may have left one.
        remove_bundle(&removed)?;
        if lock.is_some() {
            fs::rename(&old, &removed).map_err(|error| cannot_keep(&old, &removed, &error))?;
        }
        if let Err(error) = fs::rename(dir, &old) {
            if lock.is_some() {
                fs::rename(&removed, &old).map_err(|error| cannot_keep(&removed, &old, &error))?;
            }
            return Err(cannot_keep(dir, &old, &error));
        }
        remove_bundle(&removed)?;
        Ok(old)
    }
}

/// Locks the backup in `dir`; `None` without one. An error when it must not be removed.
fn lock_kept(dir: &Path) -> Result<Option<DirLock>, Failure> {
    let Ok(found) = fs::symlink_metadata(dir) else { return Ok(None) };
    if !found.is_dir() {
        return Err(refused(dir, "not a trace bundle"));
    }
    let lock = DirLock::take(dir)?;
    holds_bundle(dir)?;
    Ok(Some(lock))
}

/// Refuses a name that is another user's symbolic link: it would write where that user wants.
fn check_link(path: &Path) -> Result<(), Failure> {
    let Ok(found) = fs::symlink_metadata(path) else { return Ok(()) };
    let owner = found.uid();
    if !found.is_symlink() || owner == geteuid().as_raw() || owner == 0 {
        return Ok(());
    }
    Err(refused(path, &format!("a symbolic link of user {owner}")))
}

/// Refuses a folder that would need others above it: mostly a mistyped name.
fn check_above(dir: &Path) -> Result<(), Failure> {
    let above = match dir.parent() {
        Some(above) if above.as_os_str().is_empty() => Path::new("."),
        Some(above) => above,
        None => return Ok(()),
    };
    match fs::metadata(above) {
        Ok(found) if found.is_dir() => Ok(()),
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Failure::file("cannot write", dir, &error))
        }
        _ => Err(Failure::new(format!(
            "cannot write {}: there is no folder {}",
            dir.display(),
            above.display()
        ))),
    }
}

/// Opens a file that the user names, to write it anew: see [`open_output`].
///
/// # Errors
///
/// When it is refused, or the system refuses.
pub fn create_output(path: &Path) -> Result<File, Failure> {
    let file = open_output(path)?;
    empty(&file).map_err(|error| Failure::file("cannot create", path, &error))?;
    Ok(file)
}

/// Opens a file that the user names, and leaves its content until [`empty`]. The name is the user's choice, be
/// it a device or a link of the user's; a bundle's own files and links of other users are refused.
///
/// # Errors
///
/// When it is refused, or the system refuses.
pub fn open_output(path: &Path) -> Result<File, Failure> {
    check_output(path)?;
    check_link(path)?;
    // A name that was no link in the check above may be one now.
    let is_link = fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink());
    let flags = if is_link { OFlags::empty() } else { OFlags::NOFOLLOW };
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).custom_flags(flags.bits() as i32);
    options.open(path).map_err(|error| Failure::file("cannot create", path, &error))
}

/// Removes the content of a file; a device or a pipe stays as it is.
///
/// # Errors
///
/// When the system refuses.
pub fn empty(file: &File) -> io::Result<()> {
    if file.metadata()?.is_file() { file.set_len(0) } else { Ok(()) }
}

/// Refuses to overwrite a file of a bundle.
///
/// # Errors
///
/// When `path` is one of a bundle's files, under any name.
pub fn check_output(path: &Path) -> Result<(), Failure> {
    let Ok(real) = fs::canonicalize(path) else { return Ok(()) };
    let is_part = Part::ALL.iter().any(|part| real.ends_with(part.file_name()));
    match real.parent().filter(|dir| is_part && is_bundle(dir)) {
        Some(_) => Err(refused(path, "part of a trace bundle")),
        None => Ok(()),
    }
}

/// Refuses a folder that is one of `sources`.
fn check_sources(dir: &Path, name: &Path, sources: &[&Path]) -> Result<(), Failure> {
    let Ok(real) = fs::canonicalize(dir) else { return Ok(()) };
    if sources.iter().any(|source| fs::canonicalize(source).is_ok_and(|source| source == real)) {
        return Err(Failure::new(format!(
            "{}: would be read and replaced at once: choose another folder",
            name.display()
        )));
    }
    Ok(())
}

/// Whether a bundle is in the folder `dir`, and nothing else; `false` where it is empty.
fn holds_bundle(dir: &Path) -> Result<bool, Failure> {
    let names =
        fs::read_dir(dir).and_then(|entries| entries.map(|at| Ok(at?.file_name())).collect());
    let names: Vec<OsString> = names.map_err(|error| Failure::file("cannot read", dir, &error))?;
    if names.is_empty() {
        return Ok(false);
    }
    if !is_bundle(dir) {
        return Err(refused(dir, "not empty and not a trace bundle"));
    }
    let Some(other) = names.iter().find(|name| !OWN.iter().any(|own| name == own)) else {
        return Ok(true);
    };
    Err(Failure::new(format!(
        "{}: has another file than a trace bundle's, {}: move it away or choose another name",
        dir.display(),
        other.display()
    )))
}

fn is_current(dir: &Path) -> bool {
    matches!((std::env::current_dir(), fs::canonicalize(dir)), (Ok(current), Ok(dir)) if current == dir)
}

/// `NAME` with `suffix` next to `NAME`.
fn beside(dir: &Path, suffix: &str) -> Option<PathBuf> {
    let mut name = OsString::from(dir.file_name()?);
    name.push(suffix);
    Some(dir.with_file_name(name))
}

fn refused(path: &Path, why: &str) -> Failure {
    Failure::new(format!("{}: {why}: left as it is, choose another name", path.display()))
}

fn written(dir: &Path) -> Failure {
    refused(dir, "being written by another sockscope")
}

fn current(dir: &Path) -> Failure {
    refused(dir, "the current folder is a bundle, which cannot be kept beside itself")
}

fn cannot_keep(from: &Path, to: &Path, error: &io::Error) -> Failure {
    let kind = error.kind();
    if !matches!(kind, io::ErrorKind::ResourceBusy | io::ErrorKind::CrossesDevices) {
        return Failure::file("cannot keep the older trace as", to, error);
    }
    Failure::new(format!(
        "{}: cannot be renamed to {}: left as it is, choose a folder that is no mount point",
        from.display(),
        to.display()
    ))
}

/// Removes a bundle and its folder, if they are there; the file that identifies it is last.
fn remove_bundle(dir: &Path) -> Result<(), Failure> {
    let folder = match Folder::own(dir) {
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => return Ok(()),
        folder => folder?,
    };
    OWN.iter().try_for_each(|own| folder.remove(own))?;
    match fs::remove_dir(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Failure::file("cannot remove", dir, &error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
