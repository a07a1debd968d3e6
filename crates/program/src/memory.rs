//! Whether a trace fits into memory, before the memory is used up.
//!
//! An allocation that fails ends a program with a signal. Where the system promises more memory than it
//! has, it kills the program, which prints no error. So the need of a trace is compared with the limit on
//! the address space, with the limits of the control groups, and with the free memory of the machine.

use std::fmt;
use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;
use std::thread;

use rustix::process::{Resource, getrlimit};

use crate::failure::Failure;

/// A record in the order of the file.
const RECORD_BYTES: u64 = 48;
/// A record of the connection that is being analysed, sorted and as curves, in addition: measured 50.
const SORTED_BYTES: u64 = 56;
/// The description of a connection before its analysis, with room for its first records.
const CONNECTION_BYTES: u64 = 2_000;
/// The analysis of a connection, without the room of its records: measured 2,900 to 3,700.
const ANALYSIS_BYTES: u64 = 3_300;
/// The memory that one more thread reserves: a heap of its own, as the C library aligns it, and a stack.
const THREAD_BYTES: u64 = (128 + 2) << 20;
/// More threads would wait for the memory.
const THREADS_MAX: usize = 8;
/// Batches between two readings of the free memory.
const BATCHES_BETWEEN: u64 = 8;
/// Where control groups are mounted: version 2 alone, version 2 with version 1, and the controller of
/// version 1.
const GROUPS: [(&str, &str); 3] =
    [("/sys/fs/cgroup", ""), ("/sys/fs/cgroup/unified", ""), ("/sys/fs/cgroup/memory", "memory")];

/// The memory that a bundle needs, compared with the free memory while it is read.
pub struct Needs<'a> {
    dir: &'a Path,
    records: u64,
    connections: u64,
    batches: u64,
}

impl<'a> Needs<'a> {
    /// Of the bundle in `dir`.
    ///
    /// # Errors
    ///
    /// When not even its records fit into memory.
    pub fn check(dir: &'a Path, records: u64, connections: u64) -> Result<Self, Failure> {
        let needs = Self { dir, records, connections, batches: 0 };
        needs.fits(needs.loading(records), room())?;
        Ok(needs)
    }

    /// Before the next batch, when `read` records were read.
    ///
    /// # Errors
    ///
    /// When the rest does not fit any more.
    pub fn check_batch(&mut self, read: u64) -> Result<(), Failure> {
        self.batches += 1;
        if !self.batches.is_multiple_of(BATCHES_BETWEEN) {
            return Ok(());
        }
        self.fits(self.records.saturating_sub(read).saturating_mul(RECORD_BYTES), room())
    }

    /// Threads for the analysis of the records that were read: one for each CPU, as far as they fit. `largest`
    /// gives the records of as many connections that have most.
    ///
    /// # Errors
    ///
    /// When not even the analysis on one thread fits.
    pub fn threads(&self, largest: impl Fn(usize) -> u64) -> Result<NonZeroUsize, Failure> {
        let cpus = thread::available_parallelism().map_or(1, NonZeroUsize::get).min(THREADS_MAX);
        let room = room();
        let fit = (2..=cpus).rev().find(|threads| {
            let bytes = self.analysis(*threads, largest(*threads));
            room.is_none_or(|room| bytes <= room.bytes)
        });
        match fit.and_then(NonZeroUsize::new) {
            Some(threads) => Ok(threads),
            None => self.fits(self.analysis(1, largest(1)), room).map(|()| NonZeroUsize::MIN),
        }
    }

    fn analysis(&self, threads: usize, largest: u64) -> u64 {
        let analyses = self.connections.saturating_mul(ANALYSIS_BYTES);
        let threads = (threads as u64 - 1).saturating_mul(THREAD_BYTES);
        largest.saturating_mul(SORTED_BYTES).saturating_add(analyses).saturating_add(threads)
    }

    fn loading(&self, records: u64) -> u64 {
        let connections = self.connections.saturating_mul(CONNECTION_BYTES);
        records.saturating_mul(RECORD_BYTES).saturating_add(connections)
    }

    /// All that may be needed: most of it for one connection that has all records.
    fn whole(&self) -> u64 {
        let sorted = self.records.saturating_mul(SORTED_BYTES);
        let analyses = self.connections.saturating_mul(ANALYSIS_BYTES);
        self.loading(self.records).saturating_add(sorted).saturating_add(analyses)
    }

    fn fits(&self, bytes: u64, room: Option<Room>) -> Result<(), Failure> {
        let Some(room) = room.filter(|room| bytes > room.bytes) else { return Ok(()) };
        Err(Failure::new(format!(
            "{}: {} records of {} connections need up to {} of memory, and {room}",
            self.dir.display(),
            self.records,
            self.connections,
            Size(self.whole()),
        )))
    }
}

/// Memory that can still be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Room {
    bytes: u64,
    by: &'static str,
}

impl fmt::Display for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} are left {}", Size(self.bytes), self.by)
    }
}

struct Size(u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MIB: u64 = 1 << 20;
        match self.0 / MIB {
            0..10_240 => write!(f, "{} MiB", self.0.div_ceil(MIB)),
            mib => write!(f, "{} GiB", mib.div_ceil(1024)),
        }
    }
}

/// The smallest of all limits; `None` where no limit can be read.
fn room() -> Option<Room> {
    let read = |path: &str| fs::read_to_string(path).ok();
    let address_space = read("/proc/self/statm").and_then(|statm| {
        let pages: u64 = statm.split(' ').next()?.parse().ok()?;
        let used = pages * rustix::param::page_size() as u64;
        let limit = getrlimit(Resource::As).current?;
        let by = "by the limit on its address space (ulimit -v)";
        Some(Room { bytes: limit.saturating_sub(used), by })
    });
    let groups = read("/proc/self/cgroup").and_then(|groups| {
        GROUPS.iter().filter_map(|(root, of)| group_room(Path::new(root), of, &groups)).min()
    });
    let groups = groups.map(|bytes| Room { bytes, by: "in its control group" });
    let machine = read("/proc/meminfo").and_then(|meminfo| machine_room(&meminfo));
    let machine = machine.map(|bytes| Room { bytes, by: "on this machine" });
    [address_space, groups, machine].into_iter().flatten().min_by_key(|room| room.bytes)
}

/// Of the group of controller `of`, as in /proc/self/cgroup, and of those above it.
fn group_room(root: &Path, of: &str, groups: &str) -> Option<u64> {
    let path = groups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        controllers.split(',').any(|controller| controller == of).then_some(path)
    })?;
    let group = root.join(path.trim_start_matches('/'));
    let above = group.ancestors().take_while(|group| group.starts_with(root));
    above.filter_map(group_left).min()
}

/// Bytes that one group may still use; the kernel can reclaim pages of files. `None` without a limit.
fn group_left(group: &Path) -> Option<u64> {
    let number = |name: &str| fs::read_to_string(group.join(name)).ok()?.trim().parse::<u64>().ok();
    let limit = number("memory.max").or_else(|| number("memory.limit_in_bytes"))?;
    let used = number("memory.current").or_else(|| number("memory.usage_in_bytes"))?;
    let stat = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let files: u64 = stat
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter(|(name, _)| matches!(*name, "inactive_file" | "active_file"))
        .filter_map(|(_, bytes)| bytes.parse::<u64>().ok())
        .sum();
    Some(limit.saturating_sub(used.saturating_sub(files)))
}

/// The memory that the machine can give without ending programs.
fn machine_room(meminfo: &str) -> Option<u64> {
    let kib = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim_start_matches(':').trim().trim_end_matches(" kB").parse::<u64>().ok()
    };
    Some((kib("MemAvailable")? + kib("SwapFree").unwrap_or(0)).saturating_mul(1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_named_with_what_it_needs_and_what_there_is() {
        let dir = Path::new("t");
        let needs = Needs { dir, records: 91_700_000, connections: 2, batches: 0 };
        let room = |bytes| Some(Room { bytes, by: "on this machine" });
        let said = needs.fits(8 << 30, room(6 << 30)).unwrap_err().to_string();
        assert_eq!(
            said,
            "t: 91700000 records of 2 connections need up to 9096 MiB of memory, and 6144 MiB are left \
             on this machine"
        );
        assert!(needs.fits(6 << 30, room(6 << 30)).is_ok() && needs.fits(1, None).is_ok());
    }

    #[test]
    fn numbers_of_a_hostile_bundle_do_not_overflow() {
        let needs =
            Needs { dir: Path::new("t"), records: u64::MAX, connections: u64::MAX, batches: 0 };
        assert_eq!(needs.whole(), u64::MAX);
        assert!(needs.threads(|_| u64::MAX).is_err());
    }

    #[test]
    fn the_tightest_group_counts_and_pages_of_files_give_way() {
        let root = tempfile::tempdir().unwrap();
        let inner = root.path().join("a/b");
        fs::create_dir_all(&inner).unwrap();
        let write = |folder: &Path, files: [&str; 3]| {
            for (name, text) in ["memory.max", "memory.current", "memory.stat"].iter().zip(files) {
                fs::write(folder.join(name), text).unwrap();
            }
        };
        write(&inner, ["max\n", "70\n", ""]);
        assert_eq!(group_room(root.path(), "", "0::/a/b\n"), None);
        write(
            inner.parent().unwrap(),
            ["100\n", "70\n", "anon 40\ninactive_file 20\nactive_file 9\n"],
        );
        assert_eq!(group_room(root.path(), "", "0::/a/b\n"), Some(59));
        assert_eq!(group_room(root.path(), "memory", "0::/a/b\n"), None);
        assert_eq!(group_room(root.path(), "memory", "5:memory,hugetlb:/a\n"), Some(59));
    }

    #[test]
    fn free_swap_counts() {
        let meminfo = "MemTotal:  900 kB\nMemAvailable:   300 kB\nSwapFree:         20 kB\n";
        assert_eq!(machine_room(meminfo), Some(320 * 1024));
        assert_eq!(machine_room(""), None);
    }
}
