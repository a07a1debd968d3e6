//! Change notifications for network devices (rtnetlink(7)) and folders (inotify(7)), so that a poll is one
//! system call, not a rescan.
//!
//! The devices are those of the network namespace of this process.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};

/// Bytes of notifications read at once. Their contents do not matter.
const BUFFER_BYTES: usize = 4_096;
/// Reads of one poll, at most. The next poll finds the notifications that are left.
const READS_MAX: usize = 64;
/// The multicast group of changes of devices (`RTMGRP_LINK` in linux/rtnetlink.h). rustix has no name for it.
const LINK_GROUP: u32 = 1;

/// Subscriptions, from when they were made on.
pub(crate) struct ChangeWatch {
    devices: OwnedFd,
    inotify: OwnedFd,
    folders: Vec<PathBuf>,
}

impl ChangeWatch {
    /// Of this namespace's devices, and of entries that appear in `folders`. A folder need not exist yet if
    /// the one above it is watched too.
    pub(crate) fn subscribe(folders: &[&str]) -> io::Result<Self> {
        let watch = Self {
            devices: device_changes()?,
            inotify: inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?,
            folders: folders.iter().map(PathBuf::from).collect(),
        };
        match watch.watch_folders() {
            0 => Err(io::ErrorKind::NotFound.into()),
            _ => Ok(watch),
        }
    }

    /// Whether something changed since the last call. An error counts as a change, as the socket has one
    /// (ENOBUFS, netlink(7)) when the kernel could not keep all notifications.
    pub(crate) fn has_changed(&self) -> bool {
        let mut polled = [&self.devices, &self.inotify].map(|fd| PollFd::new(fd, PollFlags::IN));
        let has_changes = poll(&mut polled, Some(&Timespec::default())) != Ok(0);
        if has_changes {
            drain(&self.devices);
            drain(&self.inotify);
            // One of the folders may be new.
            self.watch_folders();
        }
        has_changes
    }

    /// Watches each folder that exists, also one that is watched already. Returns their number.
    fn watch_folders(&self) -> usize {
        let flags = WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR;
        let watch =
            |folder: &&PathBuf| inotify::add_watch(&self.inotify, folder.as_path(), flags).is_ok();
        self.folders.iter().filter(watch).count()
    }
}

/// A socket that receives a message for each change of a device.
fn device_changes() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    // Without a protocol the socket is one of NETLINK_ROUTE, which is 0.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
    bind(&socket, &SocketAddrNetlink::new(0, LINK_GROUP))?;
    Ok(socket)
}

/// Reads and discards the notifications. An error ends it: the queue is empty, or was too full.
fn drain(source: &OwnedFd) {
    let mut buffer = [0_u8; BUFFER_BYTES];
    for _ in 0..READS_MAX {
        if !matches!(rustix::io::read(source, &mut buffer), Ok(1..)) {
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

    /// Devices may appear and vanish meanwhile, on a machine where other things happen.
    fn is_quiet(watch: &ChangeWatch) -> bool {
        (0..100).any(|_| !watch.has_changed())
    }

    #[test]
    fn an_entry_is_a_change_once_also_in_a_folder_made_later() {
        let (above, below) = folders("changes");
        let watch =
            ChangeWatch::subscribe(&[above.to_str().unwrap(), below.to_str().unwrap()]).unwrap();
        assert!(is_quiet(&watch));
        fs::create_dir(&below).unwrap();
        assert!(watch.has_changed() && is_quiet(&watch));
        fs::write(below.join("one"), "").unwrap();
        assert!(watch.has_changed() && is_quiet(&watch));
        for number in 0..1_000 {
            fs::write(below.join(number.to_string()), "").unwrap();
        }
        assert!(watch.has_changed() && is_quiet(&watch));
        fs::remove_dir_all(&above).unwrap();
    }

    #[test]
    fn without_a_folder_to_watch_there_is_no_subscription() {
        let (above, below) = folders("no-changes");
        fs::remove_dir(&above).unwrap();
        assert!(ChangeWatch::subscribe(&[below.to_str().unwrap()]).is_err());
    }
}
