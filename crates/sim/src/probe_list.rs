//! The list of records that the probes of the SunOS study fill in its kernel (its §3.3.2 and §3.3.4).
//!
//! The list is circular. Probes take its first empty record, a process reads the ones in use. A probe that finds
//! no empty record loses its event and goes on: nothing is overwritten. The head must not meet the
//! tail, so that one record stays empty. Times are those of a clock of microseconds that never gives
//! the same time twice.

use sockscope_record::{Kind, Loss, LossCounts, Record, marks};

use crate::scenario::ProbeConfig;

/// Nanoseconds of the clock's unit.
const MICROSECOND_NS: u64 = 1000;

/// The list of one host, and its clock.
#[derive(Debug)]
pub(crate) struct ProbeList {
    /// Records that it holds at most.
    room: u32,
    /// Records that no process has read yet.
    pub(crate) in_use: u32,
    /// The time that the clock gave last, in microseconds.
    last_us: u64,
    /// Events lost since the list was full, and the time of the first one, in nanoseconds.
    lost: LossCounts,
    lost_since_ns: u64,
    /// Events lost since the start.
    pub(crate) all_lost: LossCounts,
}

impl ProbeList {
    /// A list of so many records, of which one stays empty.
    pub(crate) fn new(records: u32) -> Self {
        let none = LossCounts::default();
        let room = room(records);
        Self { room, in_use: 0, last_us: 0, lost: none, lost_since_ns: 0, all_lost: none }
    }

    /// The clock's time for an observation that is not a probe's, in nanoseconds.
    pub(crate) fn reading_ns(&self, now_ns: u64) -> u64 {
        (now_ns / MICROSECOND_NS).max(self.last_us) * MICROSECOND_NS
    }

    /// `uniqtime`: later than any time that it gave before. Nanoseconds.
    fn unique_ns(&mut self, now_ns: u64) -> u64 {
        self.last_us = (now_ns / MICROSECOND_NS).max(self.last_us + 1);
        self.last_us * MICROSECOND_NS
    }

    /// A probe has an event: its record with its time, or `None` if no record is free.
    pub(crate) fn store(&mut self, now_ns: u64, record: &Record) -> Option<Record> {
        if self.in_use < self.room {
            self.in_use += 1;
            return Some(Record { at_ns: self.unique_ns(now_ns), ..*record });
        }
        if self.lost.total() == 0 {
            self.lost_since_ns = self.reading_ns(now_ns);
        }
        self.lost.add(record.point(), 1);
        self.all_lost.add(record.point(), 1);
        None
    }

    /// So many of its records have been read; the losses up to now, as records.
    pub(crate) fn free(&mut self, records: u32, now_ns: u64) -> Vec<Record> {
        assert!(records <= self.in_use, "records are read that are not in use");
        self.in_use -= records;
        self.losses(now_ns)
    }

    /// The losses since the list was full, as records. Positions are the streams' own: they are right behind a loss too.
    pub(crate) fn losses(&mut self, now_ns: u64) -> Vec<Record> {
        let at_ns = self.reading_ns(now_ns);
        let lost = std::mem::take(&mut self.lost);
        let lost = lost.by_point().filter(|(_, count)| *count > 0);
        let record = Record { at_ns, marks: marks::ANCHORED, ..Record::default() };
        lost.map(|(point, count)| record.with_loss(Loss::new(point, count, self.lost_since_ns)))
            .collect()
    }
}

/// Records that a list of so many holds.
fn room(records: u32) -> u32 {
    records.saturating_sub(1)
}

impl ProbeConfig {
    /// Records that the list can hold; `None` without end.
    pub(crate) fn free_records(&self) -> Option<u32> {
        self.list_records.map(room)
    }
}

/// Whether one of the probes makes this record of a kernel. The first probe is at the call to
/// write, the second where its data enter the protocol.
pub fn is_of_a_probe(kind: Kind) -> bool {
    use Kind::{
        InputDequeue, InputEnqueue, InterfaceDequeue, InterfaceEnqueue, ReceiveDequeue,
        ReceiveEnqueue, SendEnqueue, WriteCall,
    };
    let of_sender = [WriteCall, SendEnqueue, InterfaceEnqueue, InterfaceDequeue];
    let of_receiver = [InputEnqueue, InputDequeue, ReceiveEnqueue, ReceiveDequeue];
    of_sender.contains(&kind) || of_receiver.contains(&kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sockscope_record::Point;

    fn at(list: &mut ProbeList, now_ns: u64, kind: Kind) -> Option<u64> {
        list.store(now_ns, &Record { kind, ..Record::default() }).map(|stored| stored.at_ns)
    }

    #[test]
    fn no_two_records_have_the_same_time() {
        let mut list = ProbeList::new(10);
        let times = [5_200, 5_900, 5_950, 6_000, 20_999].map(|now_ns| {
            let stored = at(&mut list, now_ns, Kind::SendEnqueue);
            (stored, list.reading_ns(now_ns))
        });
        let times = times.map(|(stored, reading)| (stored.unwrap(), reading));
        assert_eq!(times.map(|(stored, _)| stored), [5_000, 6_000, 7_000, 8_000, 20_000]);
        assert!(times.iter().all(|(stored, reading)| stored <= reading), "{times:?}");
    }

    #[test]
    fn a_full_list_loses_what_comes_until_it_is_read_and_counts_it() {
        let mut list = ProbeList::new(3);
        let kinds = [Kind::WriteCall, Kind::SendEnqueue, Kind::InterfaceEnqueue, Kind::WriteCall];
        let stored = kinds.map(|kind| at(&mut list, 1_000, kind).is_some());
        assert_eq!(stored, [true, true, false, false], "one of three stays empty");
        let losses = list.free(2, 9_000);
        let losses: Vec<_> = losses.iter().filter_map(|it| Some((it.at_ns, it.loss()?))).collect();
        let since_ns = 2_000;
        let lost = |point| (9_000, Loss::new(point, 1, since_ns));
        assert_eq!(losses, [lost(Some(Point::InterfaceEnqueue)), lost(None)]);
        assert_eq!(at(&mut list, 9_500, Kind::SendEnqueue), Some(9_000));
        assert_eq!((list.losses(9_500).len(), list.all_lost.total()), (0, 2));
    }
}
