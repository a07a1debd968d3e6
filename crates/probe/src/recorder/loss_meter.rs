//! Missed records: counted in one place, reported to the decoder and to the trace.
//!
//! The source's counters only grow. The meter keeps one reading of them and two cursors, the counts of
//! which the decoder and the trace know already. A reading is taken after the heads of the lists are read and
//! before their records are decoded. Every record there was written before it, so that the decoder knows of a
//! loss before it decodes a later record. The trace gets its `Loss` records afterwards, as these stand behind
//! the records of their time.

use sockscope_record::{Loss, LossCounts, Point, Record, marks};

use super::source::RawSource;
use crate::decode::{Decoder, point_of_raw};
use crate::error::Error;
use crate::lists::KINDS;
use crate::programs::Counters;

/// Points where a missed hit leaves a datagram that enters the queue of a socket without announcement.
const ANNOUNCEMENTS: [Option<Point>; 2] = [Some(Point::InputDequeue), Some(Point::ReceiveEnqueue)];
/// Points where a missed hit, perhaps a drop, leaves a datagram in the decoder's queue but not in the real one.
const DEPARTURES: [Option<Point>; 2] = [Some(Point::ReceiveDequeue), None];

/// All that a recording missed so far.
pub(super) struct LossMeter {
    reading: Reading,
    /// The counts that the decoder knows.
    decoder: Cursor,
    /// The counts that the trace has.
    trace: Cursor,
    counters: Counters,
    refused: Refused,
    /// Refusals among the sockets that other users asked for.
    others_refused: Refused,
    /// The reason of the first failure to read the counters.
    unreadable: Option<String>,
    totals: Totals,
}

/// Hits without a record, as the source counted them.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
struct MissedHits {
    /// Hits that found their list full, by raw kind.
    by_kind: [u64; KINDS],
    /// Hits of connections that other users asked for, beyond their half of a list, by raw kind.
    of_others: [u64; KINDS],
    /// Hits for which the kernel ran no program, as the same one was under way on that CPU.
    interrupted: LossCounts,
}

/// The counters at one time.
#[derive(Clone, Copy)]
struct Reading {
    /// A hit that is not counted was missed after this.
    since_ns: u64,
    /// A hit that is counted was missed before this.
    until_ns: u64,
    missed: MissedHits,
}

/// The counts that one reader knows.
#[derive(Clone, Copy)]
struct Cursor {
    missed: MissedHits,
    /// Hits beyond these counts were missed after this.
    since_ns: u64,
}

/// Hits missed between two readings.
#[derive(Debug, PartialEq, Eq)]
struct NewLosses {
    since_ns: u64,
    until_ns: u64,
    missed: MissedHits,
}

/// Losses of the whole recording, by cause.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(super) struct Totals {
    /// All of them, by point.
    pub(super) missed: LossCounts,
    /// Hits that found their list full.
    pub(super) list_full: u64,
    /// Hits of connections that other users asked for, beyond their half of a list.
    pub(super) of_others: u64,
    /// Hits for which the kernel ran no program, and counted that.
    pub(super) interrupted: u64,
    /// Observations that the kernel skipped without counting.
    pub(super) skipped: u64,
    /// Datagrams with an unknown time of reading.
    pub(super) unplaced_reads: u64,
    /// Hits of unknown position.
    pub(super) unknown_positions: u64,
}

impl LossMeter {
    /// Of a source whose probes are all attached by `attached_ns`: earlier misses do not count.
    pub(super) fn start(source: &mut impl RawSource, attached_ns: u64) -> Result<Self, Error> {
        let interrupted = source.interrupted()?;
        let missed = MissedHits::read(source, interrupted);
        Ok(Self::from(missed, source.counters()?, attached_ns))
    }

    fn from(missed: MissedHits, counters: Counters, attached_ns: u64) -> Self {
        let cursor = Cursor { missed, since_ns: attached_ns };
        Self {
            reading: Reading { since_ns: attached_ns, until_ns: attached_ns, missed },
            decoder: cursor,
            trace: cursor,
            counters,
            refused: Refused { counted: counters.refused(), since_ns: attached_ns, marks: 0 },
            others_refused: Refused {
                counted: counters.refused_of_others(),
                since_ns: attached_ns,
                marks: marks::OF_OTHERS,
            },
            unreadable: None,
            totals: Totals::default(),
        }
    }

    /// Reads the number of missed hits. Where the kernel does not report how often it ran no program, the last
    /// number remains.
    pub(super) fn read(&mut self, source: &mut impl RawSource) {
        let since_ns = source.now_ns();
        let interrupted = source.interrupted().unwrap_or_else(|error| {
            self.note_unreadable(&error);
            self.reading.missed.interrupted
        });
        let missed = MissedHits::read(source, interrupted);
        self.reading = Reading { since_ns, until_ns: source.now_ns(), missed };
    }

    /// Reads the other counters. Where they cannot be read, the last ones stand.
    pub(super) fn read_counters(&mut self, source: &mut impl RawSource) {
        self.take_counters(source.counters());
    }

    fn take_counters(&mut self, read: Result<Counters, Error>) {
        match read {
            Ok(counters) => self.counters = counters,
            Err(error) => self.note_unreadable(&error),
        }
    }

    fn note_unreadable(&mut self, error: &Error) {
        let note = || format!("more may be missed than is counted here: {error}");
        self.unreadable.get_or_insert_with(note);
    }

    /// Reports the losses that the decoder does not know yet. Positions, gaps and reads of datagrams are then
    /// uncertain.
    pub(super) fn report_to(&mut self, decoder: &mut Decoder) {
        let losses = self.decoder.advance(&self.reading);
        for of_others in [false, true] {
            if *losses.by_kind(of_others) != [0; KINDS] {
                let points = losses.points(of_others);
                decoder.lost_between(losses.since_ns, losses.until_ns, &points, of_others);
            }
        }
        if losses.missed.interrupted.total() > 0 {
            let points = losses.interrupted_points();
            decoder.interrupted(losses.since_ns, losses.until_ns, &points);
        }
        if losses.are_of(&ANNOUNCEMENTS) {
            decoder.mark_announcements_uncertain(losses.until_ns);
        } else if losses.are_of(&DEPARTURES) {
            decoder.mark_reads_uncertain(losses.until_ns);
        }
    }

    /// The records of the losses that the trace does not have; they count from now on.
    pub(super) fn records(&mut self) -> Vec<Record> {
        let losses = self.trace.advance(&self.reading);
        self.totals.list_full += losses.missed.by_kind.iter().sum::<u64>();
        self.totals.of_others += losses.missed.of_others.iter().sum::<u64>();
        self.totals.interrupted += losses.missed.interrupted.total();
        self.totals.missed.add_all(&losses.counts());
        losses.records()
    }

    /// The records of the events, connections and sockets that were refused since the last call.
    pub(super) fn refused(&mut self, now_ns: u64) -> Vec<Record> {
        let refused = self.refused.advance(self.counters.refused(), now_ns);
        let of_others = self.others_refused.advance(self.counters.refused_of_others(), now_ns);
        let records: Vec<Record> = refused.into_iter().chain(of_others).collect();
        records.iter().for_each(|record| self.totals.missed.add(None, record.detail));
        records
    }

    /// Counts the losses that the decoder found in what it decoded.
    pub(super) fn take_from(&mut self, decoder: &mut Decoder) {
        self.take_unplaced_reads(decoder);
        let unknown_positions = decoder.take_unknown_positions();
        self.totals.unknown_positions += unknown_positions.total();
        let skipped = decoder.take_gaps();
        self.totals.skipped += skipped.total();
        for found in [unknown_positions, decoder.take_unknown(), skipped] {
            self.totals.missed.add_all(&found);
        }
    }

    /// Counts the datagrams whose time of reading the decoder does not know.
    pub(super) fn take_unplaced_reads(&mut self, decoder: &mut Decoder) {
        let unplaced = decoder.take_unplaced_reads();
        self.totals.unplaced_reads += unplaced;
        self.totals.missed.add(Some(Point::ReceiveDequeue), unplaced);
    }

    /// Counts events of no point that are counted nowhere else.
    pub(super) fn add_events(&mut self, count: u64) {
        self.totals.missed.add(None, count);
    }

    /// The counters as last read.
    pub(super) fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(super) fn totals(&self) -> &Totals {
        &self.totals
    }

    /// A sentence where counters could not be read.
    pub(super) fn unreadable(&self) -> Option<&str> {
        self.unreadable.as_deref()
    }
}

fn add(sum: &mut [u64; KINDS], counts: [u64; KINDS]) {
    sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
}

/// Counters never fall; one that seems to is counted as one that did not move.
fn since(now: &[u64; KINDS], before: &[u64; KINDS]) -> [u64; KINDS] {
    std::array::from_fn(|kind| now[kind].saturating_sub(before[kind]))
}

impl MissedHits {
    /// Those of all lists, with these for which no program ran.
    fn read(source: &mut impl RawSource, interrupted: LossCounts) -> Self {
        let mut missed = Self { interrupted, ..Self::default() };
        for list in 0..source.shape().cpus.len() {
            add(&mut missed.by_kind, source.missed(list));
            add(&mut missed.of_others, source.missed_of_others(list));
        }
        missed
    }

    fn since(&self, before: &Self) -> Self {
        Self {
            by_kind: since(&self.by_kind, &before.by_kind),
            of_others: since(&self.of_others, &before.of_others),
            interrupted: self.interrupted.since(&before.interrupted),
        }
    }
}

impl Cursor {
    /// The losses since the last call.
    fn advance(&mut self, reading: &Reading) -> NewLosses {
        let missed = reading.missed.since(&self.missed);
        let losses = NewLosses { since_ns: self.since_ns, until_ns: reading.until_ns, missed };
        *self = Self { missed: reading.missed, since_ns: reading.since_ns };
        losses
    }
}

impl NewLosses {
    /// Hits by raw kind: those that found a list full, or those of others beyond their half of one.
    fn by_kind(&self, of_others: bool) -> &[u64; KINDS] {
        if of_others { &self.missed.of_others } else { &self.missed.by_kind }
    }

    /// The raw kinds of these hits, and their number.
    fn kinds(&self, of_others: bool) -> impl Iterator<Item = (u8, u64)> + '_ {
        let kinds = (0..).zip(*self.by_kind(of_others));
        kinds.filter(|(_, count)| *count > 0)
    }

    /// Points and the number of their hits for which the kernel ran no program.
    fn interrupted(&self) -> impl Iterator<Item = (Option<Point>, u64)> + '_ {
        self.missed.interrupted.by_point().filter(|(_, count)| *count > 0)
    }

    fn points(&self, of_others: bool) -> Vec<Point> {
        self.kinds(of_others).filter_map(|(kind, _)| point_of_raw(kind)).collect()
    }

    fn interrupted_points(&self) -> Vec<Point> {
        self.interrupted().filter_map(|(point, _)| point).collect()
    }

    /// Whether a hit of one of these points was missed.
    fn are_of(&self, points: &[Option<Point>]) -> bool {
        self.counts().by_point().any(|(point, count)| count > 0 && points.contains(&point))
    }

    fn counts(&self) -> LossCounts {
        let mut counts = self.missed.interrupted;
        let kinds = self.kinds(false).chain(self.kinds(true));
        kinds.for_each(|(kind, count)| counts.add(point_of_raw(kind), count));
        counts
    }

    fn records(&self) -> Vec<Record> {
        let loss = |point, count, marks| {
            let record = Record { at_ns: self.until_ns, marks, ..Record::default() };
            record.with_loss(Loss::new(point, count, self.since_ns))
        };
        let full = [(false, marks::ANCHORED), (true, marks::ANCHORED | marks::OF_OTHERS)];
        let full = full.into_iter().flat_map(|(of_others, marks)| {
            let kinds = self.kinds(of_others);
            kinds.map(move |(kind, count)| loss(point_of_raw(kind), count, marks))
        });
        // No probe ran that could have marked the connection, so that no anchor follows.
        let interrupted = self.interrupted().map(|(point, count)| loss(point, count, 0));
        full.chain(interrupted).collect()
    }
}

/// Events, connections, listeners and sockets that found no room.
struct Refused {
    counted: u64,
    /// They were counted before this.
    since_ns: u64,
    /// Of the loss records.
    marks: u8,
}

impl Refused {
    fn advance(&mut self, counted: u64, now_ns: u64) -> Option<Record> {
        let fresh = counted.saturating_sub(std::mem::replace(&mut self.counted, counted));
        let since_ns = std::mem::replace(&mut self.since_ns, now_ns);
        let record = Record { at_ns: now_ns, marks: self.marks, ..Record::default() };
        (fresh > 0).then(|| record.with_loss(Loss::new(None, fresh, since_ns)))
    }
}

#[cfg(test)]
mod tests {
    use sockscope_record::Kind;

    use super::*;
    use crate::layout::constants as raw;

    fn full(kind: u8, count: u64) -> MissedHits {
        let mut missed = MissedHits::default();
        missed.by_kind[usize::from(kind)] = count;
        missed
    }

    fn of_others(kind: u8, count: u64) -> MissedHits {
        MissedHits { of_others: full(kind, count).by_kind, ..MissedHits::default() }
    }

    fn interrupted(point: Option<Point>, count: u64) -> MissedHits {
        let mut missed = MissedHits::default();
        missed.interrupted.add(point, count);
        missed
    }

    /// Counters that were read from `at_ns` on, for 5 ns.
    fn reading(at_ns: u64, missed: MissedHits) -> Reading {
        Reading { since_ns: at_ns, until_ns: at_ns + 5, missed }
    }

    /// The losses of these counts after none.
    fn losses(missed: MissedHits) -> NewLosses {
        let mut cursor = Cursor { missed: MissedHits::default(), since_ns: 10 };
        cursor.advance(&reading(20, missed))
    }

    #[test]
    fn a_hit_missed_while_the_counters_are_read_is_in_this_interval_or_the_next() {
        let mut cursor = Cursor { missed: MissedHits::default(), since_ns: 10 };
        let first = cursor.advance(&reading(20, full(raw::RAW_COPY, 1)));
        assert_eq!((first.since_ns, first.until_ns), (10, 25));
        let second = cursor.advance(&reading(30, full(raw::RAW_COPY, 3)));
        assert_eq!((second.since_ns, second.until_ns), (20, 35));
        assert_eq!(second.kinds(false).collect::<Vec<_>>(), [(raw::RAW_COPY, 2)]);
    }

    #[test]
    fn each_cursor_gets_each_loss_once() {
        let now = reading(20, full(raw::RAW_TRANSMIT, 4));
        let mut cursors = [Cursor { missed: MissedHits::default(), since_ns: 10 }; 2];
        for cursor in &mut cursors {
            assert_eq!(cursor.advance(&now).counts().points[3], 4);
            assert_eq!(cursor.advance(&now).counts().total(), 0);
        }
    }

    #[test]
    fn a_counter_that_seems_to_fall_counts_nothing() {
        let mut cursor = Cursor { missed: full(raw::RAW_COPY, 3), since_ns: 0 };
        assert_eq!(cursor.advance(&reading(20, MissedHits::default())).counts().total(), 0);
    }

    #[test]
    fn losses_are_of_the_points_of_their_hits_and_programs() {
        for (kind, expected) in [(raw::RAW_READY, true), (raw::RAW_TRANSMIT, false)] {
            assert_eq!(losses(full(kind, 1)).are_of(&ANNOUNCEMENTS), expected);
        }
        for (point, expected) in [(Point::ReceiveEnqueue, true), (Point::InterfaceDequeue, false)] {
            let losses = losses(interrupted(Some(point), 2));
            assert_eq!(losses.are_of(&ANNOUNCEMENTS), expected);
            assert_eq!((losses.points(false), losses.interrupted_points()), (vec![], vec![point]));
        }
        for missed in [interrupted(None, 3), full(raw::RAW_DROP, 1), full(raw::RAW_COPY, 1)] {
            assert!(losses(missed).are_of(&DEPARTURES) && !losses(missed).are_of(&ANNOUNCEMENTS));
        }
    }

    #[test]
    fn hits_of_others_that_found_no_room_are_losses_of_others_alone() {
        let losses = losses(of_others(raw::RAW_COPY, 2));
        assert_eq!(losses.points(false), []);
        assert_eq!(losses.points(true), [Point::ReceiveDequeue]);
        assert!(losses.are_of(&DEPARTURES), "an empty queue shows no connection");
        assert_eq!(losses.counts().points[7], 2);
        let records = losses.records();
        let marks: Vec<u8> = records.iter().map(|record| record.marks).collect();
        assert_eq!(marks, [marks::ANCHORED | marks::OF_OTHERS]);
    }

    #[test]
    fn positions_go_on_behind_a_full_list_and_not_behind_a_program_that_did_not_run() {
        let records = |missed| {
            let records = losses(missed).records().into_iter();
            records.map(|one| (one.code, one.detail, one.marks)).collect::<Vec<_>>()
        };
        assert_eq!(records(full(raw::RAW_COPY, 7)), [(8, 7, marks::ANCHORED)]);
        assert_eq!(records(full(raw::RAW_DROP, 7)), [(Kind::Loss as u8, 7, marks::ANCHORED)]);
        assert_eq!(records(interrupted(Some(Point::SendEnqueue), 2)), [(1, 2, 0)]);
        assert_eq!(records(interrupted(None, 3)), [(Kind::Loss as u8, 3, 0)]);
        assert_eq!(records(MissedHits::default()), []);
    }

    #[test]
    fn what_finds_no_room_is_recorded_once_with_the_time_since_the_last_look() {
        let mut refused = Refused { counted: 3, since_ns: 10, marks: marks::OF_OTHERS };
        assert_eq!(refused.advance(3, 20), None);
        let record = refused.advance(8, 30).unwrap();
        assert_eq!((record.offset, record.at_ns, record.detail), (20, 30, 5));
        assert_eq!(record.marks, marks::OF_OTHERS);
        assert_eq!(refused.advance(8, 40), None);
    }

    #[test]
    fn counters_that_cannot_be_read_stay_as_they_were_and_are_noted_once() {
        let read = |events_lost| Ok(Counters { events_lost, ..Counters::default() });
        let unread = |reason: &str| Err(Error::Uncounted { reason: reason.to_owned() });
        let mut meter = LossMeter::from(MissedHits::default(), read(3).unwrap(), 0);
        meter.take_counters(read(5));
        assert_eq!(meter.unreadable(), None);
        meter.take_counters(unread("EPERM"));
        meter.take_counters(unread("EIO"));
        let note = meter.unreadable().unwrap();
        assert!(note.contains("counters of missed events cannot be read: EPERM"), "{note}");
        assert_eq!(meter.counters().events_lost, 5);
        meter.take_counters(read(7));
        assert_eq!(meter.counters().events_lost, 7);
    }

    #[test]
    fn each_point_counts_its_own_losses() {
        let points: Vec<Option<Point>> = (0..raw::RAW_KINDS).map(point_of_raw).collect();
        for point in Point::ALL.into_iter().filter(|point| *point != Point::SendDequeue) {
            assert_eq!(points.iter().filter(|of| **of == Some(point)).count(), 1, "{point:?}");
        }
        assert_eq!(point_of_raw(raw::RAW_DROP), None);
    }
}
