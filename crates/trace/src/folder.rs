//! A bundle's folder, held by its descriptor.
//!
//! A path can name another folder a moment later: a user who may write into the folder above can exchange
//! it, or put a symbolic link there. So all files of a bundle are opened by the folder's descriptor, and no
//! symbolic link is followed inside of it. A bundle is written only into folders of its user, into
//! which no other user can write.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, fstat, mkdirat, openat, renameat, stat, statat,
    unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::error::Error;
use crate::format::Part;

/// Rights of a folder that is made: its owner's alone.
const FOLDER_MODE: Mode = Mode::RWXU;

/// Rights of a file that is made: its owner's alone.
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);

/// Rights by which others can put files into a folder.
const OTHERS_WRITE: Mode = Mode::WGRP.union(Mode::WOTH);

/// A folder, held by its descriptor: it stays the same one when its name changes.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    handle: File,
}

impl Folder {
    /// Opens a folder of any owner, to read its files.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when the system refuses, also when `path` is no folder.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        // Needs the right to search the folder, not the right to list it.
        Self::with(path.as_ref(), OFlags::PATH)
    }

    /// Opens a folder of one's own. A symbolic link is not followed.
    ///
    /// # Errors
    ///
    /// [`Error::NotOwn`] when it belongs to another user; [`Error::Io`] when the system refuses, also
    /// when `path` is no folder.
    pub fn own(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let folder = Self::with(path, OFlags::RDONLY | OFlags::NOFOLLOW)?;
        let owner = fstat(&folder.handle).map_err(errno(path))?.st_uid;
        if owner != geteuid().as_raw() {
            return Err(Error::NotOwn { path: path.to_owned(), owner });
        }
        Ok(folder)
    }

    /// Makes a folder that only its owner can use. The folder above must be there.
    ///
    /// # Errors
    ///
    /// As [`Folder::own`], and [`Error::Io`] when something has that name.
    pub fn make(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        mkdirat(CWD, path, FOLDER_MODE).map_err(errno(path))?;
        Self::own(path)
    }

    fn with(path: &Path, flags: OFlags) -> Result<Self, Error> {
        let flags = flags | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = openat(CWD, path, flags, Mode::empty()).map_err(errno(path))?;
        Ok(Self { path: path.to_owned(), handle: handle.into() })
    }

    /// The name by which it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The descriptor, for a lock on the folder.
    pub fn handle(&self) -> &File {
        &self.handle
    }

    /// The same folder once more: one lock holds for both.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when the process has too many files open.
    pub fn again(&self) -> Result<Self, Error> {
        let handle = self.handle.try_clone().map_err(Error::io(&self.path))?;
        Ok(Self { path: self.path.clone(), handle })
    }

    /// Whether the name that it was opened by is still its name.
    pub fn is_in_place(&self) -> bool {
        let named = stat(&self.path).map(|found| place(&found));
        named.is_ok() && named == fstat(&self.handle).map(|found| place(&found))
    }

    /// The names of all that is in it.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when the system refuses.
    pub fn names(&self) -> Result<Vec<OsString>, Error> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.handle).map_err(errno(&self.path))? {
            let name = entry.map_err(errno(&self.path))?.file_name().to_bytes().to_owned();
            if !matches!(name.as_slice(), b"." | b"..") {
                names.push(OsString::from_vec(name));
            }
        }
        Ok(names)
    }

    /// Removes a file; one that is not there is removed already.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when the system refuses.
    pub fn remove(&self, name: &str) -> Result<(), Error> {
        match unlinkat(&self.handle, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(errno(&self.path.join(name))(error)),
        }
    }

    /// Refuses a folder into which others can write: they could put links and files of theirs there.
    pub(crate) fn check_closed(&self) -> Result<(), Error> {
        let mode = fstat(&self.handle).map_err(errno(&self.path))?.st_mode;
        match Mode::from_raw_mode(mode).intersects(OTHERS_WRITE) {
            true => Err(Error::OpenToOthers(self.path.clone())),
            false => Ok(()),
        }
    }

    /// The error of a folder that this user may not look into.
    pub(crate) fn owners_only(&self) -> Error {
        let path = self.path.clone();
        match fstat(&self.handle) {
            Ok(found) => Error::OwnersOnly { path, owner: found.st_uid },
            Err(error) => Error::Io { path, source: error.into() },
        }
    }

    /// Makes a file, which must not be there.
    pub(crate) fn create(&self, name: &str) -> Result<File, Error> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&self.handle, name, flags, FILE_MODE);
        Ok(file.map_err(errno(&self.path.join(name)))?.into())
    }

    /// Gives a file another name, in place of the one that has it.
    pub(crate) fn rename(&self, from: &str, to: &str) -> Result<(), Error> {
        let renamed = renameat(&self.handle, from, &self.handle, to);
        renamed.map_err(errno(&self.path.join(to)))
    }

    /// Whether `name` is still the name of `file`.
    pub(crate) fn has(&self, name: &str, file: impl AsFd) -> bool {
        let named = statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW);
        let named = named.map(|found| place(&found));
        named.is_ok() && named == fstat(file).map(|found| place(&found))
    }

    /// Opens a file of the bundle; `None` where it is missing.
    ///
    /// # Errors
    ///
    /// [`Error::NotAFile`] when it is a link, a pipe, a device or a folder. Opening a pipe does not wait
    /// for its writer.
    pub(crate) fn part(&self, part: Part) -> Result<Option<File>, Error> {
        let path = self.path.join(part.file_name());
        match self.kind(part) {
            Ok(Some(FileType::RegularFile)) => {}
            Ok(None) => return Ok(None),
            Ok(Some(_)) => return Err(Error::NotAFile(path)),
            Err(error) => return Err(errno(&path)(error)),
        }
        // Another may have put something else there since.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match openat(&self.handle, part.file_name(), flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP | Errno::NXIO) => return Err(Error::NotAFile(path)),
            Err(Errno::ACCESS) => return Err(self.owners_only()),
            Err(error) => return Err(errno(&path)(error)),
        };
        let found = fstat(&file).map_err(errno(&path))?;
        match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile => Ok(Some(file.into())),
            _ => Err(Error::NotAFile(path)),
        }
    }

    /// The type of a part, without following a link; `None` where there is no such file.
    pub(crate) fn kind(&self, part: Part) -> rustix::io::Result<Option<FileType>> {
        match statat(&self.handle, part.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => Ok(Some(FileType::from_raw_mode(found.st_mode))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Identity of a file: no two files have the same while both exist.
fn place(found: &rustix::fs::Stat) -> (u64, u64) {
    (found.st_dev, found.st_ino)
}

fn errno(path: &Path) -> impl FnOnce(Errno) -> Error + '_ {
    |error| Error::io(path)(io::Error::from(error))
}
