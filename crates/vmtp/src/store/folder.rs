//! The folder that a store serves: its files by number, and no way out of it.
//!
//! The kernel keeps paths below the folder and follows no symbolic link (openat2(2), Linux 5.6).

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{
    Dir, FallocateFlags, FileType, FlockOperation, Mode, OFlags, ResolveFlags, fallocate, flock,
    fstat, open, openat2,
};
use rustix::io::Errno;

use super::request_codec::{OWN_PREFIX, PAGE_BYTES, Refusal};
use super::{Creation, StoreError};

/// Files kept open.
const OPEN_MAX: usize = 512;
/// Folders below one another that a list descends into.
const DEPTH_MAX: usize = 32;

#[derive(Debug)]
pub(super) struct Folder {
    at: OwnedFd,
    open: BTreeMap<u16, File>,
}

impl Folder {
    /// The folder at `path`, for one server alone.
    pub(super) fn new(path: &Path) -> Result<Self, StoreError> {
        let name = path.display().to_string();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let at = open(path, flags, Mode::empty())
            .map_err(|error| StoreError::system(format!("cannot open {name}"))(error.into()))?;
        match flock(&at, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { at, open: BTreeMap::new() }),
            Err(Errno::WOULDBLOCK) => Err(StoreError::Locked(name)),
            Err(error) => Err(StoreError::system(format!("cannot lock {name}"))(error.into())),
        }
    }

    pub(super) fn fd(&self) -> &OwnedFd {
        &self.at
    }

    /// Whether `name` is a regular file that can be used, made if `creation` allows it; `true` if it
    /// was made.
    pub(super) fn look_up(&self, name: &str, creation: Creation) -> Result<bool, Refusal> {
        match self.open_path(name, OFlags::empty()) {
            Ok(_) if creation == Creation::New => Err(Refusal::Exists),
            Ok(_) => Ok(false),
            Err(Refusal::NoFile) if creation != Creation::Never => {
                self.open_path(name, OFlags::CREATE | OFlags::EXCL).map(|_| true)
            }
            Err(refusal) => Err(refusal),
        }
    }

    fn open_path(&self, name: &str, more: OFlags) -> Result<File, Refusal> {
        // Not blocked by a pipe, which is refused below.
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | more;
        let mode = if more.contains(OFlags::CREATE) { 0o644 } else { 0 };
        let stays = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let opened = openat2(&self.at, name, flags, Mode::from_raw_mode(mode), stays);
        let file = opened.map_err(refusal_of)?;
        let stat = fstat(&file).map_err(refusal_of)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(file.into()),
            _ => Err(Refusal::BadName),
        }
    }

    /// The open file with a number; made again if it is gone.
    pub(super) fn file(&mut self, number: u16, name: &str) -> Result<&File, Refusal> {
        if !self.open.contains_key(&number) {
            if self.open.len() >= OPEN_MAX {
                self.open.pop_first();
            }
            let file = self.open_path(name, OFlags::CREATE)?;
            self.open.insert(number, file);
        }
        self.open.get(&number).ok_or(Refusal::NoFile)
    }

    /// Forces a file and its entry to disk.
    pub(super) fn sync(&mut self, number: u16, name: &str) -> io::Result<()> {
        let failed = |refusal: Refusal| io::Error::other(refusal.to_string());
        self.file(number, name).map_err(failed)?.sync_all()?;
        let parent = name.rsplit_once('/').map_or(".", |(parent, _)| parent);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let stays = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let parent = openat2(&self.at, parent, flags, Mode::empty(), stays)?;
        Ok(rustix::fs::fsync(parent)?)
    }

    /// Names of all regular files, in order.
    pub(super) fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        self.descend("", DEPTH_MAX, &mut names)?;
        names.sort_unstable();
        Ok(names)
    }

    fn descend(&self, below: &str, depth: usize, names: &mut Vec<String>) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let stays = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let path = if below.is_empty() { "." } else { below };
        let folder = openat2(&self.at, path, flags, Mode::empty(), stays)?;
        for entry in Dir::new(folder)? {
            let entry = entry?;
            // A name that is no UTF-8 cannot be asked for.
            let Ok(name) = entry.file_name().to_str() else { continue };
            if matches!(name, "." | "..") || name.starts_with(OWN_PREFIX) {
                continue;
            }
            let path = if below.is_empty() { name.to_owned() } else { format!("{below}/{name}") };
            match entry.file_type() {
                FileType::RegularFile => names.push(path),
                // A folder that cannot be read has no names for us.
                FileType::Directory if depth > 1 => {
                    let _ = self.descend(&path, depth - 1, names);
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Reserves room for octets, so that writing them cannot fail for lack of it.
pub(super) fn reserve(file: &File, page: u32, bytes: usize) -> Result<(), Refusal> {
    if bytes == 0 {
        return Ok(());
    }
    takes_length(file, position(page) + bytes as u64)?;
    match fallocate(file, FallocateFlags::KEEP_SIZE, position(page), bytes as u64) {
        // A file system without reservation reports a lack of space at the write.
        Ok(()) | Err(Errno::OPNOTSUPP) => Ok(()),
        Err(error) => Err(refusal_of(error)),
    }
}

/// Whether the file system takes a file of this length. A refusal is possible only before the change is
/// in the journal.
pub(super) fn takes_length(file: &File, length: u64) -> Result<(), Refusal> {
    // Beyond its limit a process gets SIGXFSZ.
    let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
    if limit.is_some_and(|limit| length > limit) {
        return Err(Refusal::NoRoom);
    }
    // The kernel compares the place with the file system's longest file, and does no more. All reading and
    // writing here names its place.
    match rustix::fs::seek(file, rustix::fs::SeekFrom::Start(length)) {
        Ok(_) => Ok(()),
        Err(Errno::INVAL | Errno::OVERFLOW) => Err(Refusal::NoRoom),
        Err(error) => Err(refusal_of(error)),
    }
}

/// Reads the existing part of a page into the front of `to`.
pub(super) fn read_page(file: &File, page: u32, to: &mut [u8]) -> io::Result<()> {
    let mut done = 0;
    while done < to.len() {
        match file.read_at(&mut to[done..], position(page) + done as u64) {
            Ok(0) => break,
            Ok(bytes) => done += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Where a page begins.
pub(super) fn position(page: u32) -> u64 {
    u64::from(page) * PAGE_BYTES as u64
}

fn refusal_of(error: Errno) -> Refusal {
    match error {
        Errno::NOENT => Refusal::NoFile,
        Errno::EXIST => Refusal::Exists,
        Errno::LOOP
        | Errno::XDEV
        | Errno::NOTDIR
        | Errno::ISDIR
        | Errno::NAMETOOLONG
        | Errno::NXIO => Refusal::BadName,
        Errno::NOSPC | Errno::DQUOT | Errno::FBIG => Refusal::NoRoom,
        _ => Refusal::System,
    }
}
