//! The folder of a new bundle, and what becomes of the bundle that is there.
//!
//! What was recorded cannot be recorded again, and `record` has a name by default: an older bundle in
//! the place of a new one is kept, once, beside it as `NAME.old`, as `perf record` keeps its file. Only
//! a bundle ever gives way: not other files, not one that is still being written, not one that the same
//! command reads. Other readers take no lock: they may meet the new bundle, or none.
//!
//! Whoever writes holds a lock on the folder itself, and looks at what is in it behind the lock: of two
//! that start at once one is refused. A folder is removed last, when all that is renamed has its name.
//!
//! Others may write into the folder above, as into `/tmp`. So the folder has to belong to the user, is held
//! by its descriptor, and has rights for its owner alone. A symbolic link of another user is not followed.

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

/// The files of a bundle, its records last, and what a kill may leave of one.
const OWN: [&str; 4] =
    [META_UNFINISHED, Part::Meta.file_name(), Part::Flows.file_name(), Part::Records.file_name()];

/// A folder that a bundle can be written into.
#[derive(Debug)]
pub struct Place {
    dir: PathBuf,
    /// `None` while there is no such folder.
    claim: Option<Claim>,
}

/// A folder that nobody else writes into while this is held.
#[derive(Debug)]
pub struct Claim {
    folder: Folder,
}

impl Place {
    /// Looks at `dir`, of which nothing is changed yet, for a bundle made of those in `sources`.
    ///
    /// # Errors
    ///
    /// When something is there, or where it would be kept, that must not give way.
    pub fn find(dir: &Path, sources: &[&Path]) -> Result<Self, Failure> {
        // Without a slash at its end, which would hide a symbolic link.
        let dir: PathBuf = dir.components().collect();
        let seen = |place| Some((place, fs::metadata(place).ok()?.is_dir()));
        if let Some((file, false)) = dir.ancestors().find_map(seen) {
            let what = format!("{} is a file: choose another name", file.display());
            return Err(Failure::new(format!("cannot write {}: {what}", dir.display())));
        }
        check_link(&dir)?;
        let Ok(real) = fs::canonicalize(&dir) else {
            check_above(&dir)?;
            return Ok(Self { dir, claim: None });
        };
        // The name as it was given, unless it is not that of the folder.
        let is_its_own = dir.file_name().is_some() && !dir.is_symlink();
        let real = if is_its_own { dir.clone() } else { real };
        check_sources(&real, &dir, sources)?;
        let claim = Claim::take(&real)?;
        if holds_bundle(&real)? {
            let keep = Keep::find(&real)?;
            for kept in [&keep.old, &keep.removed] {
                check_sources(kept, kept, sources)?;
            }
        }
        Ok(Self { dir: real, claim: Some(claim) })
    }

    /// Starts a bundle there. The one that is there takes the place of the one that was kept before.
    ///
    /// # Errors
    ///
    /// When another began first, or the system refuses; what was there is then still there, or kept.
    pub fn create(self, meta: Meta) -> Result<(BundleWriter, Claim), Failure> {
        let Self { dir, claim } = self.made()?;
        let Some(claim) = claim else { return Err(written(&dir)) };
        if !holds_bundle(&dir)? {
            return Ok((claim.writer(meta)?, claim));
        }
        let old = Keep::find(&dir)?.take(&dir)?;
        let claim = Claim::make(&dir)?;
        talk!("sockscope: the older trace is now in {}", old.display());
        Ok((claim.writer(meta)?, claim))
    }

    /// The same with the folder there, and claimed.
    fn made(self) -> Result<Self, Failure> {
        if self.claim.is_some() {
            return Ok(self);
        }
        match Folder::make(&self.dir) {
            // Another process was quicker: the claim shows whether it writes there.
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists => {}
            made => drop(made?),
        }
        Self::find(&self.dir, &[])
    }
}

impl Claim {
    /// Of the folder `dir`, which is there.
    fn take(dir: &Path) -> Result<Self, Failure> {
        let folder = Folder::own(dir).map_err(|error| match error {
            // Somebody else just renamed it.
            Error::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => written(dir),
            error => error.into(),
        })?;
        // Where the file system has no locks, nobody is kept off: that is no reason not to record.
        let is_held = flock(folder.handle(), FlockOperation::NonBlockingLockExclusive)
            == Err(Errno::WOULDBLOCK);
        if is_held || !folder.is_in_place() {
            return Err(written(dir));
        }
        Ok(Self { folder })
    }

    /// Of the folder `dir`, which is made.
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

/// Where an older bundle goes.
#[derive(Debug)]
struct Keep {
    old: PathBuf,
    /// Of the bundle that was kept before.
    claim: Option<Claim>,
    /// Where that one waits until it can be removed.
    removed: PathBuf,
}

impl Keep {
    /// For the bundle in `dir`, which is claimed.
    fn find(dir: &Path) -> Result<Self, Failure> {
        let beside = (beside(dir, ".old"), beside(dir, ".old.removed"));
        let (Some(old), Some(removed)) = beside else { return Err(current(dir)) };
        if is_current(dir) {
            return Err(current(dir));
        }
        let [claim, _] = [claim_kept(&old)?, claim_kept(&removed)?];
        Ok(Self { old, claim, removed })
    }

    /// Renames `dir`, and says to what; when it cannot be, all is as it was.
    fn take(self, dir: &Path) -> Result<PathBuf, Failure> {
        let Self { old, claim, removed } = self;
        // What a kill may have left.
        remove_bundle(&removed)?;
        if claim.is_some() {
            fs::rename(&old, &removed).map_err(|error| cannot_keep(&old, &removed, &error))?;
        }
        if let Err(error) = fs::rename(dir, &old) {
            if claim.is_some() {
                fs::rename(&removed, &old).map_err(|error| cannot_keep(&removed, &old, &error))?;
            }
            return Err(cannot_keep(dir, &old, &error));
        }
        remove_bundle(&removed)?;
        Ok(old)
    }
}

/// The claim of a bundle that was kept, if one is there and may be removed.
fn claim_kept(dir: &Path) -> Result<Option<Claim>, Failure> {
    let Ok(found) = fs::symlink_metadata(dir) else { return Ok(None) };
    if !found.is_dir() {
        return Err(refused(dir, "not a trace bundle"));
    }
    let claim = Claim::take(dir)?;
    holds_bundle(dir)?;
    Ok(Some(claim))
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

/// Opens a file that the user names, to write it anew. The name is the user's choice, be it a device or
/// a link of the user's; a bundle's own files and links of other users are refused.
///
/// # Errors
///
/// When it is refused, or the system refuses.
pub fn create_output(path: &Path) -> Result<File, Failure> {
    check_output(path)?;
    check_link(path)?;
    // A name that was no link in the check above may be one now.
    let is_link = fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink());
    let flags = if is_link { OFlags::empty() } else { OFlags::NOFOLLOW };
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).custom_flags(flags.bits() as i32);
    options.open(path).map_err(|error| Failure::file("cannot create", path, &error))
}

/// Refuses to write a file in the place of a bundle's own.
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

/// `NAME` with `suffix` beside `NAME`.
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

/// Removes a bundle and its folder, if they are there; the file by which it is known goes last.
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
