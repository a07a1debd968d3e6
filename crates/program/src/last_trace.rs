//! The last trace of each user, for `report`, `show` and `plot` without the name of a folder.
//!
//! A folder of the user's state (XDG Base Directory Specification) has the trace of the last `run` without
//! `-o`, and a link to the last trace of all, be it that one or one that `-o` named. Traces have names and
//! command lines of all users, and root writes here as well: so the folder is its user's alone, and no user but
//! this one and root can change any folder above it. Under sudo the user is root, not the caller, in whose
//! folders root would follow what the caller puts there.

use std::env;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, symlink};
use std::path::{Component, Path, PathBuf};

use nix::unistd::{Uid, User};
use rustix::fs::{FlockOperation, flock};
use rustix::process::geteuid;
use sockscope_trace::{Folder, is_bundle};
use tempfile::TempDir;

use crate::failure::Failure;
use crate::temporary;

/// The program's folder among the state of all programs.
const FOLDER: &str = "sockscope";
/// The trace of the last `run` without `-o`.
const OF_RUN: &str = "run.sockscope";
/// A link to the last trace of all.
const LAST: &str = "last";
/// Rights of a folder that is made: its owner's alone.
const MODE: u32 = 0o700;
/// Rights by which others can change a folder, and the right that keeps them from entries of others.
const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// The folder of the last traces.
#[derive(Debug)]
pub struct LastTraces {
    folder: PathBuf,
}

impl LastTraces {
    /// The folder of this user, made where it is not there.
    ///
    /// # Errors
    ///
    /// When there is no place for it that only this user can change; the reason.
    pub fn of_user() -> Result<Self, String> {
        let mut reason = "no HOME is set".to_owned();
        for place in places() {
            match Self::make(&place) {
                Ok(found) => return Ok(found),
                Err(why) => reason = why,
            }
        }
        Err(reason)
    }

    /// The folder below `state`, made where it is not there.
    fn make(state: &Path) -> Result<Self, String> {
        let cannot = |path: &Path, error: &io::Error| format!("{}: {error}", path.display());
        let state = made(state)?;
        let folder = state.join(FOLDER);
        match DirBuilder::new().mode(MODE).create(&folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(cannot(&folder, &error));
            }
            _ => {}
        }
        // A link would lead elsewhere, and what others can enter is not for traces.
        Folder::own(&folder).map_err(|error| error.to_string())?;
        let mode = fs::metadata(&folder).map_err(|error| cannot(&folder, &error))?.mode();
        if mode & (GROUP_WRITES | OTHERS_WRITE) != 0 {
            return Err(format!("{}: others can change it", folder.display()));
        }
        Ok(Self { folder })
    }

    /// The folder below `state` where it is there, for reading.
    fn find(state: &Path) -> Option<Self> {
        let folder = fs::canonicalize(state.join(FOLDER)).ok()?;
        folder.ancestors().try_for_each(check).ok()?;
        Some(Self { folder })
    }

    /// A folder for the trace of a `run`, removed when it is dropped before [`LastTraces::keep`].
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn begin(&self) -> io::Result<TempDir> {
        temporary::folder_in(&self.folder)
    }

    /// Keeps the trace in `dir`, a folder in one of [`LastTraces::begin`], as that of the last `run`. Returns its
    /// new name.
    ///
    /// # Errors
    ///
    /// When the system refuses; what was kept before may be gone.
    pub fn keep(&self, dir: &Path) -> io::Result<PathBuf> {
        let folder = Folder::own(&self.folder).map_err(io::Error::other)?;
        // Two runs may end at once. The kernel releases the lock with the descriptor.
        let _ = flock(folder.handle(), FlockOperation::LockExclusive);
        let kept = self.folder.join(OF_RUN);
        // Next to the new one: it goes with that folder.
        match fs::rename(&kept, dir.with_extension("older")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        fs::rename(dir, &kept)?;
        self.name(&kept)?;
        Ok(kept)
    }

    /// The trace in `dir` is the last one from now on.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn name(&self, dir: &Path) -> io::Result<()> {
        let dir = fs::canonicalize(dir)?;
        let made = temporary::folder_in(&self.folder)?;
        let link = made.path().join(LAST);
        symlink(dir, &link)?;
        fs::rename(link, self.folder.join(LAST))
    }

    /// The last trace.
    fn last(&self) -> Option<PathBuf> {
        fs::read_link(self.folder.join(LAST)).ok()
    }
}

/// The folder that is named, or that of the last trace, which a message names.
///
/// # Errors
///
/// When there is no last trace.
pub fn or_last(dir: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(dir) = dir {
        return Ok(dir.to_owned());
    }
    let last = places().iter().find_map(|place| LastTraces::find(place)?.last());
    let Some(last) = last else {
        let hint = if geteuid().is_root() { "" } else { " (of what sudo recorded, root has it)" };
        return Err(Failure::new(format!(
            "there is no last trace of this user{hint}: give the folder of a trace"
        )));
    };
    if !is_bundle(&last) {
        return Err(Failure::new(format!(
            "the last trace was in {}, and is not there any more: give the folder of a trace",
            last.display()
        )));
    }
    stderr!("sockscope: the last trace, {}", last.display());
    Ok(last)
}

/// Folders for the state of programs, the first choice first. Under sudo the variables may be the caller's:
/// what belongs to the caller is refused later, and root's own home is the last choice.
fn places() -> Vec<PathBuf> {
    let variable = |name: &str| env::var_os(name).map(PathBuf::from);
    let below = |home: PathBuf| home.join(".local/state");
    let state = variable("XDG_STATE_HOME").into_iter();
    let homes = variable("HOME").into_iter();
    let homes = homes.chain(home(geteuid().as_raw()).map(PathBuf::from)).map(below);
    state.chain(homes).filter(|place| place.is_absolute()).collect()
}

/// The folder of the user with this number.
fn home(user: u32) -> Option<Box<Path>> {
    let user = User::from_uid(Uid::from_raw(user)).ok()??;
    Some(user.dir.into_boxed_path()).filter(|home| home.is_absolute())
}

/// The folder `path`, with those above it that are not there yet. No user but this one and root can change its
/// way from the root folder on; the result names it without links.
fn made(path: &Path) -> Result<PathBuf, String> {
    let is_there = |path: &&Path| path.exists();
    let there = path.ancestors().find(is_there).unwrap_or(Path::new("/"));
    let cannot = |path: &Path, error: io::Error| format!("{}: {error}", path.display());
    let mut real = fs::canonicalize(there).map_err(|error| cannot(there, error))?;
    for folder in real.ancestors() {
        check(folder)?;
    }
    let missing = path.strip_prefix(there).unwrap_or(Path::new(""));
    for name in missing.components() {
        let Component::Normal(name) = name else {
            return Err(format!("{}: not a plain name", path.display()));
        };
        real.push(name);
        let made = DirBuilder::new().mode(MODE).create(&real);
        made.map_err(|error| cannot(&real, error))?;
    }
    Ok(real)
}

/// Refuses a folder that another user owns or can change.
fn check(folder: &Path) -> Result<(), String> {
    let found = fs::symlink_metadata(folder).map_err(|error| error.to_string())?;
    let (mode, owner) = (found.mode(), found.uid());
    if owner != 0 && owner != geteuid().as_raw() {
        return Err(format!("{}: belongs to user {owner}", folder.display()));
    }
    // Many systems give each user a group of the same number, and folders that this group can change.
    let is_group_others = found.gid() != owner;
    let changed_by = OTHERS_WRITE | if is_group_others { GROUP_WRITES } else { 0 };
    if mode & changed_by != 0 && mode & STICKY == 0 {
        return Err(format!("{}: others can change it", folder.display()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// A bundle's folder in one of `begin`, with a file that says which it is.
    fn trace(traces: &LastTraces, text: &str) -> (TempDir, PathBuf) {
        let begun = traces.begin().unwrap();
        let dir = begun.path().join(OF_RUN);
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("text"), text).unwrap();
        (begun, dir)
    }

    #[test]
    fn the_folder_is_made_with_those_above_it_for_its_owner_alone() {
        let home = tempfile::tempdir().unwrap();
        let state = home.path().join(".local/state");
        let traces = LastTraces::make(&state).unwrap();
        for folder in [".local", ".local/state", ".local/state/sockscope"] {
            let made = fs::metadata(home.path().join(folder)).unwrap().mode();
            assert_eq!(made & 0o777, MODE, "{folder}");
        }
        assert_eq!(traces.last(), None);
        assert_eq!(LastTraces::find(&state).unwrap().folder, traces.folder);
        assert!(LastTraces::find(home.path()).is_none());
        assert_eq!(LastTraces::make(&state).unwrap().folder, traces.folder);
    }

    #[test]
    fn the_trace_of_a_run_replaces_the_one_before_and_is_the_last() {
        let home = tempfile::tempdir().unwrap();
        let traces = LastTraces::make(home.path()).unwrap();
        for text in ["one", "two"] {
            let (begun, dir) = trace(&traces, text);
            let kept = traces.keep(&dir).unwrap();
            drop(begun);
            assert_eq!(traces.last(), Some(kept.clone()));
            assert_eq!(fs::read_to_string(kept.join("text")).unwrap(), text);
        }
        let named = home.path().join("named");
        fs::create_dir(&named).unwrap();
        traces.name(&named).unwrap();
        assert_eq!(traces.last(), Some(fs::canonicalize(named).unwrap()));
        let mut names: Vec<_> = fs::read_dir(&traces.folder).unwrap().flatten().collect();
        names.sort_unstable_by_key(fs::DirEntry::file_name);
        let names: Vec<_> = names.iter().map(fs::DirEntry::file_name).collect();
        assert_eq!(names, [LAST, OF_RUN]);
    }

    #[test]
    fn a_trace_that_is_not_kept_leaves_nothing() {
        let home = tempfile::tempdir().unwrap();
        let traces = LastTraces::make(home.path()).unwrap();
        drop(trace(&traces, "failed"));
        assert_eq!(fs::read_dir(&traces.folder).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_that_others_can_change_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let above = home.path().join("above");
        fs::create_dir(&above).unwrap();
        mode(&above, 0o777);
        let refused = LastTraces::make(&above.join("state")).unwrap_err();
        assert!(refused.ends_with("above: others can change it"), "{refused}");
        assert!(!above.join("state").exists());
        // As /tmp: others put files there and cannot touch those of this user.
        mode(&above, 0o1777);
        LastTraces::make(&above.join("state")).unwrap();
        mode(&above.join("state/sockscope"), 0o777);
        assert!(LastTraces::make(&above.join("state")).unwrap_err().contains("others can change"));
    }

    #[test]
    fn a_link_in_the_place_of_the_folder_is_not_followed() {
        let home = tempfile::tempdir().unwrap();
        let elsewhere = home.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        symlink(&elsewhere, home.path().join(FOLDER)).unwrap();
        LastTraces::make(home.path()).unwrap_err();
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_of_another_user_is_refused() {
        if !geteuid().is_root() {
            return;
        }
        let home = tempfile::tempdir().unwrap();
        std::os::unix::fs::chown(home.path(), Some(65534), None).unwrap();
        let refused = LastTraces::make(&home.path().join("state")).unwrap_err();
        assert!(refused.ends_with("belongs to user 65534"), "{refused}");
        assert!(!home.path().join("state").exists());
    }
}
