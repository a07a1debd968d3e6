//! News from the kernel of devices and of entries in folders, so that nobody has to list them again
//! and again: a look costs one system call.
//!
//! Devices are told by rtnetlink(7), of the network namespace of this process; entries by inotify(7).

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Bytes of news taken at once; what they say does not matter.
const BUFFER_BYTES: usize = 4_096;
/// Reads of one look, at most: what is left is news at the next one.
const READS_MAX: usize = 64;

/// Subscriptions, from when they were made on.
pub(crate) struct News {
    /// Of devices, and of folders.
    sources: [OwnedFd; 2],
    folders: Vec<PathBuf>,
}

impl News {
    /// Of this namespace's devices, and of entries that come into `folders`, which need not be there
    /// yet if one above them is watched too.
    ///
    /// # Errors
    /// When the kernel gives no subscription, or none of the folders is there.
    pub(crate) fn subscribe(folders: &[&str]) -> io::Result<Self> {
        let folders = folders.iter().map(PathBuf::from).collect();
        let news = Self { sources: [of_devices()?, of_folders()?], folders };
        match news.watch() {
            0 => Err(io::ErrorKind::NotFound.into()),
            _ => Ok(news),
        }
    }

    /// Whether anything came since the last call. Where it is not certain it did: the kernel could not
    /// keep all of it, or cannot be asked.
    pub(crate) fn came(&self) -> bool {
        let is_ready = self.is_ready();
        if is_ready {
            self.sources.iter().for_each(take);
            // One of the folders may be new.
            self.watch();
        }
        is_ready
    }

    fn is_ready(&self) -> bool {
        let ask = |source: &OwnedFd| libc::pollfd {
            fd: source.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let mut asked = self.sources.each_ref().map(ask);
        // SAFETY: an array of as many valid entries as are told; 0 does not wait.
        let ready = unsafe { libc::poll(asked.as_mut_ptr(), asked.len() as libc::nfds_t, 0) };
        ready != 0
    }

    /// Watches the folders that are there, those that are watched again; how many.
    fn watch(&self) -> usize {
        self.folders.iter().filter(|folder| self.watch_one(folder).is_ok()).count()
    }

    fn watch_one(&self, folder: &Path) -> io::Result<()> {
        let folder = CString::new(folder.as_os_str().as_bytes())?;
        let mask = libc::IN_CREATE | libc::IN_MOVED_TO | libc::IN_ONLYDIR;
        let inotify = self.sources[1].as_raw_fd();
        // SAFETY: the string ends with 0 and lives during the call, which keeps no pointer.
        match unsafe { libc::inotify_add_watch(inotify, folder.as_ptr(), mask) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }
}

/// A socket that is told of every change of a device.
fn of_devices() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: a system call without pointers.
    let socket = owned(unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE) })?;
    // SAFETY: an address of plain integers, for which zero is valid.
    let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
    address.nl_family = libc::AF_NETLINK as libc::sa_family_t;
    address.nl_groups = libc::RTMGRP_LINK as u32;
    let size = size_of_val(&address) as libc::socklen_t;
    // SAFETY: a valid address of the size that is told, read during the call only.
    match unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), size) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(socket),
    }
}

fn of_folders() -> io::Result<OwnedFd> {
    // SAFETY: a system call without pointers.
    owned(unsafe { libc::inotify_init1(libc::IN_CLOEXEC | libc::IN_NONBLOCK) })
}

fn owned(fd: libc::c_int) -> io::Result<OwnedFd> {
    match fd {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: the kernel has just given this descriptor, and nobody else has it.
        fd => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
    }
}

/// Takes what is there; an error ends it, and was news.
fn take(source: &OwnedFd) {
    let mut buffer = [0_u8; BUFFER_BYTES];
    for _ in 0..READS_MAX {
        // SAFETY: the buffer has as many bytes as are told.
        let read =
            unsafe { libc::read(source.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len()) };
        if read <= 0 {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A folder of this test's own, and one in it that is not there yet.
    fn folders(name: &str) -> (PathBuf, PathBuf) {
        let above = std::env::temp_dir().join(format!("sockscope-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&above);
        fs::create_dir(&above).unwrap();
        (above.clone(), above.join("below"))
    }

    /// Devices may come and go meanwhile, on a machine where other things happen.
    fn is_quiet(news: &News) -> bool {
        (0..100).any(|_| !news.came())
    }

    #[test]
    fn an_entry_is_news_once_also_in_a_folder_that_came_later() {
        let (above, below) = folders("news");
        let news = News::subscribe(&[above.to_str().unwrap(), below.to_str().unwrap()]).unwrap();
        assert!(is_quiet(&news));
        fs::create_dir(&below).unwrap();
        assert!(news.came() && is_quiet(&news));
        fs::write(below.join("one"), "").unwrap();
        assert!(news.came() && is_quiet(&news));
        for number in 0..1_000 {
            fs::write(below.join(number.to_string()), "").unwrap();
        }
        assert!(news.came() && is_quiet(&news));
        fs::remove_dir_all(&above).unwrap();
    }

    #[test]
    fn without_a_folder_to_watch_there_is_no_subscription() {
        let (above, below) = folders("no-news");
        fs::remove_dir(&above).unwrap();
        assert!(News::subscribe(&[below.to_str().unwrap()]).is_err());
    }
}
