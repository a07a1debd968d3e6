//! The folder of a new bundle, and what becomes of the bundle that is there.
//!
//! What was recorded cannot be recorded again, and `record` has a name by default: an older bundle in
//! the place of a new one is kept, once, beside it as `NAME.old`, as `perf record` keeps its file. Only
//! a bundle ever gives way: not other files, not one that is still being recorded or read.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use sockscope_trace::{BundleWriter, Meta, Part};

use crate::failure::Failure;

/// A folder that a bundle can be written into.
#[derive(Debug)]
pub struct Place {
    dir: PathBuf,
    /// Where the bundle that is in the folder goes; `None` when there is none.
    old: Option<PathBuf>,
}

/// A bundle being written. Nobody else replaces it while this is held.
#[derive(Debug)]
pub struct Claim {
    _lock: File,
}

impl Place {
    /// Looks at `dir`, of which nothing is changed yet, for a bundle made of those in `sources`.
    ///
    /// # Errors
    ///
    /// When something is there, or where it would be kept, that must not give way.
    pub fn find(dir: &Path, sources: &[&Path]) -> Result<Self, Failure> {
        let nearest = dir.ancestors().find(|place| place.exists());
        if let Some(file) = nearest.filter(|place| !place.is_dir()) {
            let what = format!("{} is a file: choose another name", file.display());
            return Err(Failure::new(format!("cannot write {}: {what}", dir.display())));
        }
        let Ok(real) = fs::canonicalize(dir) else {
            return Ok(Self { dir: dir.to_owned(), old: None });
        };
        // The name as it was given, unless it is not that of the folder.
        let is_its_own = dir.file_name().is_some() && !dir.is_symlink();
        let real = if is_its_own { dir.to_owned() } else { real };
        if !gives_way(&real, dir, sources)? {
            return Ok(Self { dir: real, old: None });
        }
        let Some(old) = beside(&real).filter(|_| !is_current(&real)) else {
            let why = "the current folder is a bundle, which cannot be kept beside itself";
            return Err(refused(dir, why));
        };
        if old.is_symlink() || old.exists() && !old.is_dir() {
            return Err(refused(&old, "not a trace bundle"));
        }
        if gives_way(&old, &old, sources)? && has_other_files(&old)? {
            return Err(refused(&old, "has other files than a trace bundle's"));
        }
        Ok(Self { dir: real, old: Some(old) })
    }

    /// Starts a bundle there, as [`Place::clear`] leaves it.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn create(self, meta: Meta) -> Result<(BundleWriter, Claim), Failure> {
        let dir = self.clear()?;
        let writer = BundleWriter::create(&dir, meta)?;
        let lock = File::open(dir.join(Part::Records.file_name()))?;
        // Where the file system has no locks, nobody is kept off: that is no reason not to record.
        let _ = flock(&lock, FlockOperation::NonBlockingLockExclusive);
        Ok((writer, Claim { _lock: lock }))
    }

    /// The folder, free of any bundle: the one that was there has taken the place of the one that was
    /// kept before.
    ///
    /// # Errors
    ///
    /// When the system refuses; then the bundle that was there still is.
    pub fn clear(self) -> Result<PathBuf, Failure> {
        if let Some(old) = &self.old {
            remove_bundle(old)?;
            fs::rename(&self.dir, old)
                .map_err(|error| Failure::file("cannot keep the older trace as", old, &error))?;
            eprintln!("sockscope: the older trace is now in {}", old.display());
        }
        Ok(self.dir)
    }
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

/// Whether a bundle is in `dir`, called `name`, and may be replaced; `false` where nothing is.
fn gives_way(dir: &Path, name: &Path, sources: &[&Path]) -> Result<bool, Failure> {
    let Ok(mut entries) = fs::read_dir(dir) else { return Ok(false) };
    let real = fs::canonicalize(dir)?;
    if sources.iter().any(|source| fs::canonicalize(source).is_ok_and(|source| source == real)) {
        return Err(Failure::new(format!(
            "{}: would be read and replaced at once: choose another folder",
            name.display()
        )));
    }
    if !is_bundle(dir) {
        return match entries.next() {
            None => Ok(false),
            Some(_) => Err(refused(name, "not empty and not a trace bundle")),
        };
    }
    if is_being_written(dir) { Err(refused(name, "being recorded into")) } else { Ok(true) }
}

/// Whether somebody holds its [`Claim`].
fn is_being_written(dir: &Path) -> bool {
    let lock = |file: File| flock(file, FlockOperation::NonBlockingLockExclusive);
    File::open(dir.join(Part::Records.file_name()))
        .is_ok_and(|file| lock(file) == Err(Errno::WOULDBLOCK))
}

fn has_other_files(dir: &Path) -> Result<bool, Failure> {
    let names = fs::read_dir(dir)?.map(|entry| entry.map(|entry| entry.file_name()));
    let names: Vec<OsString> = names.collect::<Result<_, _>>()?;
    let is_part = |name: &OsString| Part::ALL.iter().any(|part| name == part.file_name());
    Ok(!names.iter().all(is_part))
}

fn is_bundle(dir: &Path) -> bool {
    dir.join(Part::Records.file_name()).is_file()
}

fn is_current(dir: &Path) -> bool {
    matches!((std::env::current_dir(), fs::canonicalize(dir)), (Ok(current), Ok(dir)) if current == dir)
}

/// `NAME.old` beside `NAME`.
fn beside(dir: &Path) -> Option<PathBuf> {
    let mut name = OsString::from(dir.file_name()?);
    name.push(".old");
    Some(dir.with_file_name(name))
}

fn refused(path: &Path, why: &str) -> Failure {
    Failure::new(format!("{}: {why}: left as it is, choose another name", path.display()))
}

/// Removes a bundle and its folder, if they are there; the file by which it is known goes last.
fn remove_bundle(dir: &Path) -> Result<(), Failure> {
    let cannot = |error| Failure::file("cannot replace", dir, &error);
    let is_missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    for part in [Part::Meta, Part::Flows, Part::Records] {
        let removed = fs::remove_file(dir.join(part.file_name()));
        removed.or_else(|error| if is_missing(&error) { Ok(()) } else { Err(cannot(error)) })?;
    }
    let removed = fs::remove_dir(dir);
    removed.or_else(|error| if is_missing(&error) { Ok(()) } else { Err(cannot(error)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes an empty bundle that says `host` into `dir`.
    fn write(dir: &Path, host: &str) -> Result<(), Failure> {
        let meta = Meta { host: host.to_owned(), ..Meta::default() };
        let (writer, _claim) = Place::find(dir, &[])?.create(meta.clone())?;
        Ok(writer.finish(meta)?)
    }

    fn host(dir: &Path) -> String {
        sockscope_trace::Bundle::open(dir).unwrap().meta().host.clone()
    }

    fn refusal(dir: &Path, sources: &[&Path]) -> String {
        let line = Place::find(dir, sources).unwrap_err().to_string();
        line.replace(&format!("{}/", dir.parent().unwrap().display()), "")
    }

    #[test]
    fn the_bundle_before_is_kept_and_the_one_before_that_is_not() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("t");
        for host in ["first", "second", "third"] {
            write(&dir, host).unwrap();
        }
        assert_eq!(
            (host(&dir), host(&root.path().join("t.old"))),
            ("third".into(), "second".into())
        );
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 2);
    }

    #[test]
    fn files_beside_a_bundles_own_go_with_it_and_are_never_removed() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("t");
        write(&dir, "first").unwrap();
        fs::write(dir.join("figure.svg"), "drawn").unwrap();
        write(&dir, "second").unwrap();
        let kept = root.path().join("t.old/figure.svg");
        assert!(kept.exists() && !dir.join("figure.svg").exists());
        let line =
            "t.old: has other files than a trace bundle's: left as it is, choose another name";
        assert_eq!(refusal(&dir, &[]), line);
        assert!(kept.exists() && host(&dir) == "second");
    }

    #[test]
    fn what_is_no_bundle_stays_as_it_is() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("t");
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("mine"), "").unwrap();
        assert_eq!(
            refusal(&dir, &[]),
            "t: not empty and not a trace bundle: left as it is, choose another name"
        );
        fs::remove_file(dir.join("mine")).unwrap();
        write(&dir, "into an empty folder").unwrap();
        fs::write(root.path().join("t.old"), "mine").unwrap();
        assert_eq!(
            refusal(&dir, &[]),
            "t.old: not a trace bundle: left as it is, choose another name"
        );
        let file = root.path().join("t.old");
        assert_eq!(refusal(&file, &[]), "cannot write t.old: t.old is a file: choose another name");
        assert!(Place::find(&file.join("below"), &[]).is_err());
    }

    #[test]
    fn a_bundle_that_is_read_or_being_written_is_not_replaced() {
        let root = tempfile::tempdir().unwrap();
        let [dir, old] = ["t", "t.old"].map(|name| root.path().join(name));
        write(&dir, "first").unwrap();
        write(&dir, "second").unwrap();
        for source in [&dir, &old] {
            assert!(
                refusal(&dir, &[source])
                    .ends_with("would be read and replaced at once: choose another folder")
            );
        }
        let written = Place::find(&dir, &[]).unwrap().create(Meta::default()).unwrap();
        assert_eq!(
            refusal(&dir, &[]),
            "t: being recorded into: left as it is, choose another name"
        );
        drop(written);
        assert!(Place::find(&dir, &[]).is_ok());
    }

    #[test]
    fn a_figure_does_not_replace_a_bundles_own_file() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("t");
        write(&dir, "first").unwrap();
        assert!(check_output(&dir.join("records.arrows")).is_err());
        std::os::unix::fs::symlink(dir.join("meta.json"), root.path().join("m")).unwrap();
        assert!(check_output(&root.path().join("m")).is_err());
        fs::write(root.path().join("meta.json"), "").unwrap();
        for free in ["meta.json", "t/figure.svg", "new.svg"] {
            assert!(check_output(&root.path().join(free)).is_ok(), "{free}");
        }
    }
}
