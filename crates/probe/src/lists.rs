//! The mapped record lists: one for each CPU, written by the probes, read here.

use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::layout::{RawRecord, RecordList};

/// Records that one list holds.
pub(crate) const LIST_RECORDS: u64 = {
    let list = size_of::<RecordList>() - offset_of!(RecordList, records);
    (list / size_of::<RawRecord>()) as u64
};

const _: () = assert!(LIST_RECORDS.is_power_of_two());

/// Bytes of a cache line. `layout.h` asserts the same of the layout that the probes use.
const CACHE_LINE: usize = 64;

const _: () = {
    const fn begins_line(offset: usize) -> bool {
        offset.is_multiple_of(CACHE_LINE)
    }
    assert!(size_of::<RawRecord>() == CACHE_LINE);
    assert!(offset_of!(RecordList, lost) == CACHE_LINE);
    assert!(begins_line(offset_of!(RecordList, known)));
    assert!(begins_line(offset_of!(RecordList, tail)));
    assert!(begins_line(offset_of!(RecordList, records)));
    assert!(begins_line(size_of::<RecordList>()));
};

/// All lists, mapped into this process.
pub(crate) struct Lists {
    base: NonNull<RecordList>,
    cpus: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread; `Lists` has no interior state.
unsafe impl Send for Lists {}

impl Lists {
    pub(crate) fn map(map: &impl AsFd, cpus: usize) -> std::io::Result<Self> {
        let size = cpus * size_of::<RecordList>();
        // SAFETY: a fresh shared mapping of a map's memory, of the size that the map has (its
        // value size is that of RecordList, it has `cpus` entries), at an address of the kernel's
        // choice: it aliases no Rust object.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size,
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
        Ok(Self { base, cpus })
    }

    pub(crate) fn cpus(&self) -> usize {
        self.cpus
    }

    fn list(&self, cpu: usize) -> *mut RecordList {
        assert!(cpu < self.cpus);
        // SAFETY: the mapping has `cpus` lists one after another, and `cpu` is below that.
        unsafe { self.base.as_ptr().add(cpu) }
    }

    /// Numbers of the first record not yet read and of the first not yet begun.
    pub(crate) fn span(&self, cpu: usize) -> (u64, u64) {
        let list = self.list(cpu);
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
    pub(crate) fn read(&self, cpu: usize, number: u64) -> Option<RawRecord> {
        let list = self.list(cpu);
        let index = (number & (LIST_RECORDS - 1)) as usize;
        // SAFETY: the index is below LIST_RECORDS; the stamp is an aligned u64 in the mapping.
        unsafe {
            let record = &raw mut (*list).records[index];
            let stamp = AtomicU64::from_ptr(&raw mut (*record).stamp);
            if stamp.load(Ordering::Acquire) != number + 1 {
                return None;
            }
            // No probe reuses this place before `tail` has passed it: the copy cannot be torn.
            Some(record.read_volatile())
        }
    }

    /// Gives the places before `number` back to the probes.
    pub(crate) fn release(&self, cpu: usize, number: u64) {
        let list = self.list(cpu);
        // SAFETY: as in `span`; only this thread stores `tail`.
        unsafe { AtomicU64::from_ptr(&raw mut (*list).tail).store(number, Ordering::Release) };
    }

    /// Lost records by raw kind, all CPUs together.
    pub(crate) fn lost(&self) -> Vec<u64> {
        let mut sum: Vec<u64> = Vec::new();
        for cpu in 0..self.cpus {
            let list = self.list(cpu);
            // SAFETY: an array of aligned u64 inside the mapping, changed by atomic adds.
            let counters = unsafe { (&raw const (*list).lost).read_volatile() };
            sum.resize(counters.len(), 0);
            sum.iter_mut().zip(counters).for_each(|(sum, count)| *sum += count);
        }
        sum
    }
}

impl Drop for Lists {
    fn drop(&mut self) {
        // SAFETY: the range is the one that `map` got from mmap, unmapped once.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.cpus * size_of::<RecordList>()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lists in memory of this process alone.
    fn lists(cpus: usize) -> Lists {
        let size = cpus * size_of::<RecordList>();
        let (access, kind) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice.
        let address = unsafe { libc::mmap(std::ptr::null_mut(), size, access, kind, -1, 0) };
        assert_ne!(address, libc::MAP_FAILED);
        Lists { base: NonNull::new(address.cast()).unwrap(), cpus }
    }

    /// What a probe does: takes the next place, fills it, and finishes it or not.
    fn append(lists: &Lists, cpu: usize, at_ns: u64, is_finished: bool) {
        let list = lists.list(cpu);
        // SAFETY: only this thread touches the list, and the index is below LIST_RECORDS.
        unsafe {
            let number = (*list).head;
            let record = &raw mut (*list).records[(number & (LIST_RECORDS - 1)) as usize];
            (*record).at_ns = at_ns;
            (*record).stamp = if is_finished { number + 1 } else { 0 };
            (*list).head = number + 1;
        }
    }

    fn read(lists: &Lists, cpu: usize, number: u64) -> Option<u64> {
        lists.read(cpu, number).map(|record| record.at_ns)
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
        assert_eq!(read(&lists, 0, LIST_RECORDS), None);
        (1..=LIST_RECORDS).for_each(|at_ns| append(&lists, 0, at_ns, true));
        assert_eq!(read(&lists, 0, LIST_RECORDS), Some(LIST_RECORDS));
        assert_eq!(read(&lists, 0, 0), None);
    }

    #[test]
    fn losses_of_all_cpus_add_up_by_kind() {
        let lists = lists(2);
        for cpu in 0..2 {
            // SAFETY: only this thread touches the lists.
            unsafe { (*lists.list(cpu)).lost[3] = 4 };
        }
        let lost = lists.lost();
        assert_eq!((lost[3], lost.iter().sum::<u64>()), (8, 8));
    }
}
