//! Whether packets may enter by a device other than loopback or a network card.
//!
//! Point 5 of veth, tun and the like is the `netif_rx` hook, which costs every loopback packet a
//! hit too. So it is attached only where such a device can exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::change_watch::ChangeWatch;

/// Named network namespaces, and devices of this one.
const WATCHED: [&str; 2] = ["/run/netns", "/sys/class/net"];

/// Time between two scans without a notification: inotify(7) sends none for a file system that is mounted
/// over a watched folder.
const SCAN_EVERY: Duration = Duration::from_secs(1);
/// Folders with notifications. The first named namespace makes the second one.
const NOTIFYING: [&str; 2] = ["/run", "/run/netns"];

/// Network namespaces and devices by the last scan.
pub(crate) struct InputDevices {
    /// Shows when to scan again; without it every call scans.
    changes: Option<ChangeWatch>,
    scanned: Instant,
    watched: [BTreeSet<String>; 2],
    namespaces: usize,
    virtual_devices: usize,
}

impl InputDevices {
    /// Scans all processes' namespaces and this namespace's devices.
    pub(crate) fn scan() -> Self {
        Self {
            // Before the scan, so that no change between the two is missed.
            changes: ChangeWatch::subscribe(&NOTIFYING).ok(),
            scanned: Instant::now(),
            watched: WATCHED.map(names),
            namespaces: namespaces(),
            virtual_devices: names("/sys/class/net")
                .iter()
                .filter(|name| is_virtual_and_up(name))
                .count(),
        }
    }

    /// Packets could pass a device that needs the hook.
    pub(crate) fn may_need_input_hook(&self) -> bool {
        self.namespaces > 1 || self.virtual_devices > 0 || !self.watched[0].is_empty()
    }

    /// Whether a namespace or a device appeared since the last call. Cheap: it lists two folders after a
    /// notification, and each [`SCAN_EVERY`].
    pub(crate) fn have_grown(&mut self) -> bool {
        let has_changed = self.changes.as_ref().is_none_or(ChangeWatch::has_changed);
        if !has_changed && self.scanned.elapsed() < SCAN_EVERY {
            return false;
        }
        self.scanned = Instant::now();
        let now = WATCHED.map(names);
        let grew = now.iter().zip(&self.watched).any(|(now, before)| !now.is_subset(before));
        self.watched = now;
        grew
    }
}

fn names(folder: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Distinct network namespaces of all processes that this one may look at.
fn namespaces() -> usize {
    let pids =
        names("/proc").into_iter().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    pids.filter_map(|pid| fs::read_link(format!("/proc/{pid}/ns/net")).ok())
        .collect::<BTreeSet<_>>()
        .len()
}

/// No hardware behind it, not loopback, and up (IFF_UP, netdevice(7)).
fn is_virtual_and_up(name: &str) -> bool {
    let folder = Path::new("/sys/class/net").join(name);
    let flags = fs::read_to_string(folder.join("flags")).unwrap_or_default();
    let flags = u32::from_str_radix(flags.trim().trim_start_matches("0x"), 16).unwrap_or(0);
    let (is_up, is_loopback) = (flags & 1 != 0, flags & 8 != 0);
    is_up && !is_loopback && !folder.join("device").exists()
}
