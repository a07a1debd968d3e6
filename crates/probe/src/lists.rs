//! The mapped record lists: one for each CPU, written by the probes, read here.

use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::layout::{RawRecord, RecordList, constants};

/// Bytes of one list's records by default, and within what a user may ask for. The verifier knows no
/// offset above 512 MiB (`BPF_MAX_VAR_OFF`).
const BYTES: u64 = 4 << 20;
const BYTES_MIN: u64 = 64 << 10;
const BYTES_MAX: u64 = 256 << 20;
/// Raw kinds of records, the first of which has number 0.
pub(crate) const KINDS: usize = constants::RAW_KINDS as usize;
/// Places kept free, so that hits nested in one another cannot overrun the reader.
const NESTING_MAX: u64 = 64;

/// How many lists there are, and how many records each holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shape {
    /// One list for each of these CPUs, by their numbers.
    pub(crate) cpus: Vec<u16>,
    /// A power of two.
    pub(crate) records: u64,
}

impl Shape {
    /// For the CPUs that are online, with `bytes` of records for each, or as many as is usual.
    pub(crate) fn of(bytes: Option<u64>) -> Self {
        let bytes = bytes.unwrap_or(BYTES).clamp(BYTES_MIN, BYTES_MAX).next_power_of_two();
        Self { cpus: online_cpus(), records: bytes / size_of::<RawRecord>() as u64 }
    }

    /// Bytes of one list, a whole number of cache lines.
    pub(crate) fn list_bytes(&self) -> usize {
        size_of::<RecordList>() + self.records as usize * size_of::<RawRecord>()
    }

    /// Bytes of all lists.
    pub(crate) fn bytes(&self) -> usize {
        self.cpus.len() * self.list_bytes()
    }

    /// What selects a place in a list by a record's number.
    pub(crate) fn mask(&self) -> u64 {
        self.records - 1
    }

    /// Records that may wait in a list.
    pub(crate) fn room(&self) -> u64 {
        self.records - NESTING_MAX
    }
}

/// Numbers of the CPUs that are online. Where that cannot be read, of all that the kernel may ever bring up.
fn online_cpus() -> Vec<u16> {
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    numbers(&online).unwrap_or_else(|| {
        let possible = libbpf_rs::num_possible_cpus().unwrap_or(1);
        (0..u16::try_from(possible).unwrap_or(u16::MAX)).collect()
    })
}

/// The numbers of a list as `0-3,7`.
fn numbers(list: &str) -> Option<Vec<u16>> {
    let ranges = list.trim().split(',').map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    });
    Some(ranges.collect::<Option<Vec<_>>>()?.into_iter().flatten().collect())
}

/// Bytes of a cache line. `layout.h` asserts the same of the layout that the probes use.
const CACHE_LINE: usize = 64;

const _: () = {
    const fn begins_line(offset: usize) -> bool {
        offset.is_multiple_of(CACHE_LINE)
    }
    assert!(size_of::<RawRecord>() == CACHE_LINE);
    assert!(offset_of!(RecordList, lost) == CACHE_LINE);
    assert!(begins_line(offset_of!(RecordList, known)));
    assert!(begins_line(offset_of!(RecordList, passing)));
    assert!(begins_line(offset_of!(RecordList, tail)));
    assert!(begins_line(offset_of!(RecordList, records)));
    assert!(offset_of!(RecordList, records) == size_of::<RecordList>());
    assert!(begins_line(size_of::<RecordList>()));
};

/// All lists, mapped into this process.
pub(crate) struct Lists {
    base: NonNull<u8>,
    shape: Shape,
}

// SAFETY: the mapping belongs to the process, not to a thread; `Lists` has no interior state.
unsafe impl Send for Lists {}

impl Lists {
    pub(crate) fn map(map: &impl AsFd, shape: Shape) -> std::io::Result<Self> {
        // SAFETY: a fresh shared mapping of a map's memory, of the size that the map has (its
        // values have the bytes of one list, it has one for each CPU of the shape), at an address of the kernel's
        // choice: it aliases no Rust object.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                shape.bytes(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                map.as_fd().as_raw_fd(),
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error());
        }
        let base = NonNull::new(address.cast()).ok_or(std::io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, shape })
    }

    pub(crate) fn shape(&self) -> &Shape {
        &self.shape
    }

    /// How many lists there are.
    pub(crate) fn len(&self) -> usize {
        self.shape.cpus.len()
    }

    fn list(&self, list: usize) -> *mut RecordList {
        assert!(list < self.len());
        // SAFETY: the mapping has `len()` lists one after another, and `list` is below that.
        unsafe { self.base.as_ptr().add(list * self.shape.list_bytes()).cast() }
    }

    /// The place of the record with this number in the list of an index.
    fn place(&self, of: usize, number: u64) -> *mut RawRecord {
        let index = (number & self.shape.mask()) as usize;
        // SAFETY: the records stand behind the list's own fields, and the index is below their number.
        unsafe { self.list(of).add(1).cast::<RawRecord>().add(index) }
    }

    /// Numbers of the first record not yet read and of the first not yet begun.
    pub(crate) fn span(&self, of: usize) -> (u64, u64) {
        let list = self.list(of);
        // SAFETY: `head` and `tail` are aligned u64 inside the mapping, changed only by atomic
        // operations (here) and by aligned stores and atomic adds of the probes.
        let (head, tail) = unsafe {
            (
                AtomicU64::from_ptr(&raw mut (*list).head).load(Ordering::Acquire),
                AtomicU64::from_ptr(&raw mut (*list).tail).load(Ordering::Relaxed),
            )
        };
        (tail, head)
    }

    /// The record with this number, if its probe has finished it.
    pub(crate) fn read(&self, of: usize, number: u64) -> Option<RawRecord> {
        let record = self.place(of, number);
        // SAFETY: a place in the mapping, whose stamp is an aligned u64 in each member of the union.
        unsafe {
            let stamp = AtomicU64::from_ptr(&raw mut (*record).any.stamp);
            if stamp.load(Ordering::Acquire) != number + 1 {
                return None;
            }
            // No probe reuses this place before `tail` has passed it: the copy cannot be torn.
            Some(record.read_volatile())
        }
    }

    /// Gives the places before `number` back to the probes.
    pub(crate) fn release(&self, of: usize, number: u64) {
        let list = self.list(of);
        // SAFETY: as in `span`; only this thread stores `tail`.
        unsafe { AtomicU64::from_ptr(&raw mut (*list).tail).store(number, Ordering::Release) };
    }

    /// Fills every place for a record with one byte: what a probe does not write is found again.
    #[cfg(test)]
    pub(crate) fn fill(&self, byte: u8) {
        for of in 0..self.len() {
            for number in 0..self.shape.records {
                // SAFETY: a place in the mapping, of a record's size.
                unsafe { self.place(of, number).write_bytes(byte, 1) };
            }
        }
    }

    /// Hits that found the list of this index full so far, by raw kind, but those of [`Lists::lost_of_others`].
    pub(crate) fn lost(&self, of: usize) -> [u64; KINDS] {
        let list = self.list(of);
        // SAFETY: an array of aligned u64 inside the mapping, changed by atomic adds.
        unsafe { (&raw const (*list).lost).read_volatile() }
    }

    /// The same of connections that other users asked for, beyond their half of the list.
    pub(crate) fn lost_of_others(&self, of: usize) -> [u64; KINDS] {
        let list = self.list(of);
        // SAFETY: as in `lost`.
        unsafe { (&raw const (*list).others_lost).read_volatile() }
    }
}

impl Drop for Lists {
    fn drop(&mut self) {
        // SAFETY: the range is the one that `map` got from mmap, unmapped once.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.shape.bytes()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDS: u64 = 1024;

    #[test]
    fn a_list_s_records_are_a_power_of_two_within_bounds() {
        let records = |bytes| Shape::of(bytes).records;
        assert_eq!(records(None), 65_536);
        assert_eq!(
            [4 << 20, 5 << 20, 8 << 20].map(|bytes| records(Some(bytes))),
            [65_536, 131_072, 131_072]
        );
        assert_eq!([0, u64::MAX].map(|bytes| records(Some(bytes))), [1024, 1 << 22]);
    }

    #[test]
    fn lists_are_as_many_as_cpus_are_online() {
        let lists = ["0\n", "0-3\n", "0-1,8-9\n", "0,127\n", "", "0-"].map(numbers);
        let expected = [&[0][..], &[0, 1, 2, 3], &[0, 1, 8, 9], &[0, 127]];
        assert_eq!(lists[..4], expected.map(|numbers| Some(numbers.to_vec())));
        assert_eq!(lists[4..], [None, None]);
        let shape = Shape { cpus: vec![0, 127], records: RECORDS };
        assert_eq!(shape.bytes(), 2 * shape.list_bytes());
    }

    /// Lists in memory of this process alone.
    fn lists(cpus: u16) -> Lists {
        let shape = Shape { cpus: (0..cpus).collect(), records: RECORDS };
        let (access, kind) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice.
        let address =
            unsafe { libc::mmap(std::ptr::null_mut(), shape.bytes(), access, kind, -1, 0) };
        assert_ne!(address, libc::MAP_FAILED);
        Lists { base: NonNull::new(address.cast()).unwrap(), shape }
    }

    /// What a probe does: takes the next place, fills it, and finishes it or not.
    fn append(lists: &Lists, of: usize, at_ns: u64, is_finished: bool) {
        let list = lists.list(of);
        // SAFETY: only this thread touches the list, and the place is in the mapping.
        unsafe {
            let number = (*list).head;
            let record = lists.place(of, number);
            (*record).any.at_ns = at_ns;
            (*record).any.stamp = if is_finished { number + 1 } else { 0 };
            (*list).head = number + 1;
        }
    }

    fn read(lists: &Lists, of: usize, number: u64) -> Option<u64> {
        lists.read(of, number).map(|record| record.any().at_ns)
    }

    #[test]
    fn finished_records_of_each_cpu_are_read_by_number() {
        let lists = lists(2);
        append(&lists, 1, 10, true);
        append(&lists, 1, 20, false);
        assert_eq!((lists.span(0), lists.span(1)), ((0, 0), (0, 2)));
        assert_eq!((read(&lists, 1, 0), read(&lists, 1, 1)), (Some(10), None));
    }

    #[test]
    fn a_place_used_again_does_not_show_its_old_record() {
        let lists = lists(1);
        append(&lists, 0, 10, true);
        lists.release(0, 1);
        assert_eq!(lists.span(0), (1, 1));
        assert_eq!(read(&lists, 0, RECORDS), None);
        (1..=RECORDS).for_each(|at_ns| append(&lists, 0, at_ns, true));
        assert_eq!(read(&lists, 0, RECORDS), Some(RECORDS));
        assert_eq!(read(&lists, 0, 0), None);
    }

    #[test]
    fn each_list_counts_its_own_losses_by_kind() {
        let lists = lists(2);
        // SAFETY: only this thread touches the lists.
        unsafe {
            (*lists.list(1)).lost[3] = 4;
            (*lists.list(1)).others_lost[3] = 5;
        }
        let (lost, others) = (lists.lost(1), lists.lost_of_others(1));
        assert_eq!((lost[3], lost.iter().sum::<u64>()), (4, 4));
        assert_eq!((others[3], others.iter().sum::<u64>()), (5, 5));
        assert_eq!((lists.lost(0), lists.lost_of_others(0)), ([0; KINDS], [0; KINDS]));
    }
}
