//! The mapped record lists: one for each CPU, written by the probes, read here.

use std::io;
use std::mem::offset_of;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::ProtFlags;

use crate::layout::{RawRecord, RecordList, constants, plain};
use crate::mapped::Mapped;

/// Default bytes of one list's records, and the limits for a user's choice. The verifier knows no
/// offset above 512 MiB (`BPF_MAX_VAR_OFF`).
const BYTES: u64 = 4 << 20;
const BYTES_MIN: u64 = 64 << 10;
const BYTES_MAX: u64 = 256 << 20;
/// Raw kinds of records; the first one has number 0.
pub(crate) const KINDS: usize = constants::RAW_KINDS as usize;
/// Places kept free, so that hits nested in one another cannot overrun the reader.
const NESTING_MAX: u64 = 64;

/// Number of lists, and number of records in each.
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

    /// The mask that selects a place in a list by a record's number.
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

/// Words of a record. The first one is its stamp (asserted in `layout.rs`).
const RECORD_WORDS: usize = size_of::<RawRecord>() / 8;

/// All lists, mapped into this process.
pub(crate) struct Lists {
    /// The lists one after another.
    words: Mapped,
    shape: Shape,
}

impl Lists {
    /// A map whose values have the bytes of one list, with a value for each CPU.
    pub(crate) fn map(map: &impl AsFd, shape: Shape) -> io::Result<Self> {
        let words = Mapped::new(map, shape.bytes(), ProtFlags::READ | ProtFlags::WRITE)?;
        Ok(Self { words, shape })
    }

    pub(crate) fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Number of lists.
    pub(crate) fn len(&self) -> usize {
        self.shape.cpus.len()
    }

    /// The word at an offset in bytes from the beginning of a list.
    fn word(&self, list: usize, offset: usize) -> &AtomicU64 {
        &self.words[(list * self.shape.list_bytes() + offset) / 8]
    }

    /// The words of the record with this number.
    fn record(&self, list: usize, number: u64) -> &[AtomicU64] {
        let index = (number & self.shape.mask()) as usize;
        let begin = list * self.shape.list_bytes() + size_of::<RecordList>();
        let at = begin / 8 + index * RECORD_WORDS;
        &self.words[at..at + RECORD_WORDS]
    }

    /// Numbers of the first record not yet read and of the first not yet begun.
    pub(crate) fn span(&self, list: usize) -> (u64, u64) {
        let head = self.word(list, offset_of!(RecordList, head)).load(Ordering::Acquire);
        let tail = self.word(list, offset_of!(RecordList, tail)).load(Ordering::Relaxed);
        (tail, head)
    }

    /// The part of the fullest list that has records, 0 to 1.
    pub(crate) fn fullest(&self) -> f64 {
        let waiting = (0..self.len()).map(|list| {
            let (tail, head) = self.span(list);
            head.saturating_sub(tail)
        });
        waiting.max().unwrap_or(0) as f64 / self.shape.records as f64
    }

    /// The record with this number, if its probe has finished it.
    pub(crate) fn read(&self, list: usize, number: u64) -> Option<RawRecord> {
        let words: &[_; RECORD_WORDS] = self.record(list, number).try_into().ok()?;
        // Pairs with the probe's store of the stamp (`bpf/list.h`): the record is written before it.
        if words[0].load(Ordering::Acquire) != number + 1 {
            return None;
        }
        // No probe reuses this place before `tail` has passed it: the copy cannot be torn.
        plain(
            words.each_ref().map(|word| word.load(Ordering::Relaxed).to_ne_bytes()).as_flattened(),
        )
    }

    /// Gives the places before `number` back to the probes. Only this thread stores `tail`.
    pub(crate) fn release(&self, list: usize, number: u64) {
        self.word(list, offset_of!(RecordList, tail)).store(number, Ordering::Release);
    }

    /// Hits that found the list of this index full so far, by raw kind, but those of [`Lists::lost_of_others`].
    pub(crate) fn lost(&self, list: usize) -> [u64; KINDS] {
        self.counts(list, offset_of!(RecordList, lost))
    }

    /// The same of connections that other users asked for, beyond their half of the list.
    pub(crate) fn lost_of_others(&self, list: usize) -> [u64; KINDS] {
        self.counts(list, offset_of!(RecordList, others_lost))
    }

    fn counts(&self, list: usize, offset: usize) -> [u64; KINDS] {
        std::array::from_fn(|kind| self.word(list, offset + kind * 8).load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    use super::*;
    use crate::layout::RawAny;

    impl Lists {
        /// Fills every place for a record with one byte, so that a test finds the bytes that no probe writes.
        pub(crate) fn fill(&self, byte: u8) {
            let places =
                (0..self.len()).flat_map(|list| (0..self.shape.records).map(move |n| (list, n)));
            for word in places.flat_map(|(list, number)| self.record(list, number)) {
                word.store(u64::from_ne_bytes([byte; 8]), Ordering::Relaxed);
            }
        }
    }

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
        let memory = memfd_create("lists", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&memory, shape.bytes() as u64).unwrap();
        Lists::map(&memory, shape).unwrap()
    }

    /// Acts as a probe: takes the next place, fills it, and finishes it or not.
    fn append(lists: &Lists, of: usize, at_ns: u64, is_finished: bool) {
        let number = lists.span(of).1;
        let record = lists.record(of, number);
        record[offset_of!(RawAny, at_ns) / 8].store(at_ns, Ordering::Relaxed);
        let stamp = if is_finished { number + 1 } else { 0 };
        record[offset_of!(RawAny, stamp) / 8].store(stamp, Ordering::Release);
        lists.word(of, offset_of!(RecordList, head)).store(number + 1, Ordering::Release);
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
    fn the_fullest_list_counts() {
        let lists = lists(2);
        (0..RECORDS / 4).for_each(|at_ns| append(&lists, 1, at_ns, true));
        append(&lists, 0, 1, true);
        assert_eq!(lists.fullest().to_bits(), 0.25f64.to_bits());
        lists.release(1, RECORDS / 4);
        assert!(lists.fullest() > 0.0 && lists.fullest() < 0.01);
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
        let count = |counters: usize| lists.word(1, counters + 3 * 8);
        count(offset_of!(RecordList, lost)).store(4, Ordering::Relaxed);
        count(offset_of!(RecordList, others_lost)).store(5, Ordering::Relaxed);
        let (lost, others) = (lists.lost(1), lists.lost_of_others(1));
        assert_eq!((lost[3], lost.iter().sum::<u64>()), (4, 4));
        assert_eq!((others[3], others.iter().sum::<u64>()), (5, 5));
        assert_eq!((lists.lost(0), lists.lost_of_others(0)), ([0; KINDS], [0; KINDS]));
    }
}
