//! The lists of all CPUs as one stream of records, nearly in order of time.
//!
//! Each list is in the order in which its hits began. A merge takes the records that were in the lists when
//! it began, up to a horizon a little before that. A record with an earlier time is then in its list.

use super::source::RawSource;
use crate::layout::RawRecord;

/// Records younger than this wait for the next merge, so that the lists merge in order.
const HOLD_BACK_NS: u64 = 200_000;
/// Records taken from one list before its places are given back.
const RELEASE_EVERY: u64 = 2_048;
/// For a record that its probe has begun and not finished, all lists wait so long: an interrupt or another
/// guest of the machine has its CPU. It must not last until the other lists are full.
const WAIT_FOR_RECORD_NS: u64 = 20_000_000;

/// A record by its list and number.
type Number = (usize, u64);

/// Records at which lists stopped because their probes have begun and not finished them, and since when.
#[derive(Default)]
pub(super) struct Unfinished(Vec<(Number, u64)>);

impl Unfinished {
    /// At these the lists stop now. Each has its own time to be finished in.
    pub(super) fn note(&mut self, records: Vec<Number>, now_ns: u64) {
        let known = std::mem::take(&mut self.0);
        let since_ns = |at| known.iter().find(|one| one.0 == at).map_or(now_ns, |one| one.1);
        self.0 = records.into_iter().map(|at| (at, since_ns(at))).collect();
    }

    /// Those for which the other lists have waited long enough.
    pub(super) fn overdue(&self, now_ns: u64) -> Vec<Number> {
        let is_late = |since_ns| now_ns.saturating_sub(since_ns) >= WAIT_FOR_RECORD_NS;
        self.0.iter().filter(|one| is_late(one.1)).map(|one| one.0).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Up to when records may be taken by a merge that begins at `now_ns`.
pub(super) fn horizon_ns(now_ns: u64) -> u64 {
    now_ns.saturating_sub(HOLD_BACK_NS)
}

/// One pass over all lists.
pub(super) struct Merge {
    cursors: Vec<Cursor>,
    /// Records that the other lists go past although they are not finished.
    overdue: Vec<Number>,
}

impl Merge {
    /// Of the records that are in the lists now.
    pub(super) fn begin(source: &mut impl RawSource, overdue: Vec<Number>) -> Self {
        let lists = 0..source.shape().cpus.len();
        let cursors = lists.filter_map(|list| Cursor::new(source, list)).collect();
        Self { cursors, overdue }
    }

    /// Takes the earliest records that are in one list in a row, up to the horizon; false when no
    /// record is left.
    pub(super) fn take_run(
        &mut self,
        source: &mut impl RawSource,
        horizon_ns: u64,
        mut take: impl FnMut(u16, &RawRecord),
    ) -> bool {
        if !self.are_finished(source) {
            return false;
        }
        let Some((first, bound_ns)) = earliest(&self.cursors) else { return false };
        let cursor = &mut self.cursors[first];
        if cursor.at_ns() > horizon_ns {
            return false;
        }
        let cpu = source.shape().cpus[cursor.list];
        while let Some(record) = cursor.current
            && record.any().at_ns <= bound_ns.min(horizon_ns)
        {
            take(cpu, &record);
            cursor.advance(source);
        }
        true
    }

    /// Whether each list shows its next record, unless that is overdue. An unfinished one has a time that is
    /// not known, and may be earlier than all others.
    fn are_finished(&mut self, source: &mut impl RawSource) -> bool {
        let Self { cursors, overdue } = self;
        let mut stalled = cursors.iter_mut().filter(|cursor| cursor.is_stalled());
        stalled.all(|cursor| {
            cursor.current = source.read(cursor.list, cursor.next);
            cursor.current.is_some() || overdue.contains(&(cursor.list, cursor.next))
        })
    }

    /// Gives the places of all records that were taken back to the probes.
    pub(super) fn end(self, source: &mut impl RawSource) -> Taken {
        for cursor in &self.cursors {
            source.release(cursor.list, cursor.next);
        }
        let stalled = self.cursors.iter().filter(|cursor| cursor.is_stalled());
        Taken {
            records: self.cursors.iter().map(|cursor| cursor.taken).sum(),
            fullest: self.cursors.iter().map(|cursor| cursor.taken).max().unwrap_or(0),
            unfinished: stalled.map(|cursor| (cursor.list, cursor.next)).collect(),
        }
    }
}

/// The result of a merge.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Taken {
    /// Records taken.
    pub(super) records: u64,
    /// The largest number taken from one list.
    pub(super) fullest: u64,
    /// Records at which a list stopped: they are begun and not finished.
    pub(super) unfinished: Vec<Number>,
}

/// Reading position in one CPU's list.
struct Cursor {
    list: usize,
    next: u64,
    end: u64,
    taken: u64,
    current: Option<RawRecord>,
}

impl Cursor {
    fn new(source: &mut impl RawSource, list: usize) -> Option<Self> {
        let (next, end) = source.span(list);
        if next == end {
            return None;
        }
        let current = source.read(list, next);
        Some(Self { list, next, end, taken: 0, current })
    }

    /// Whether the next record is begun and not finished.
    fn is_stalled(&self) -> bool {
        self.current.is_none() && self.next < self.end
    }

    fn at_ns(&self) -> u64 {
        self.current.map_or(u64::MAX, |record| record.any().at_ns)
    }

    fn advance(&mut self, source: &mut impl RawSource) {
        self.next += 1;
        self.taken += 1;
        if self.taken.is_multiple_of(RELEASE_EVERY) {
            source.release(self.list, self.next);
        }
        self.current = if self.next < self.end { source.read(self.list, self.next) } else { None };
    }
}

/// The cursor with the earliest record, and the time at which the turn of another begins. At equal
/// times the first cursor has the turn.
fn earliest(cursors: &[Cursor]) -> Option<(usize, u64)> {
    let at_ns = |index: &usize| cursors[*index].at_ns();
    let shown = (0..cursors.len()).filter(|index| cursors[*index].current.is_some());
    let first = shown.clone().min_by_key(at_ns)?;
    let bound_ns = shown.filter(|index| *index != first).map(|index| at_ns(&index)).min();
    Some((first, bound_ns.unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::RawAny;

    /// One cursor for each time; 0 is a list at its end or at an unfinished record.
    fn cursors(times: &[u64]) -> Vec<Cursor> {
        let cursor = |(list, at_ns): (usize, &u64)| {
            let any = RawAny { at_ns: *at_ns, ..RawAny::default() };
            let record = RawRecord { any };
            let current = (*at_ns > 0).then_some(record);
            Cursor { list, next: 0, end: u64::from(*at_ns == 9), taken: 0, current }
        };
        times.iter().enumerate().map(cursor).collect()
    }

    #[test]
    fn the_earliest_list_goes_on_until_the_next_one_has_its_turn() {
        assert_eq!(earliest(&cursors(&[30, 10, 20])), Some((1, 20)));
        assert_eq!(earliest(&cursors(&[10, 30, 20])), Some((0, 20)));
        assert_eq!(earliest(&cursors(&[30, 20, 10])), Some((2, 20)));
    }

    #[test]
    fn a_list_alone_goes_on_to_its_end() {
        assert_eq!(earliest(&cursors(&[0, 10, 0])), Some((1, u64::MAX)));
        assert_eq!(earliest(&cursors(&[0, 0])), None);
    }

    #[test]
    fn of_two_at_one_time_the_first_cpu_goes_first_and_no_further() {
        assert_eq!(earliest(&cursors(&[10, 10, 10])), Some((0, 10)));
    }

    #[test]
    fn lists_merge_into_one_order_of_time() {
        let mut lists = [vec![1, 4, 5, 9], vec![2, 3, 9], vec![], vec![6]];
        let mut merged = Vec::new();
        loop {
            let heads: Vec<u64> = lists.iter().map(|l| l.first().copied().unwrap_or(0)).collect();
            let Some((first, bound)) = earliest(&cursors(&heads)) else { break };
            while lists[first].first().is_some_and(|at_ns| *at_ns <= bound) {
                merged.push(lists[first].remove(0));
            }
        }
        assert_eq!(merged, [1, 2, 3, 4, 5, 6, 9, 9]);
    }

    #[test]
    fn a_list_stops_at_a_record_that_is_begun_and_not_finished() {
        let [mut cursor]: [Cursor; 1] = cursors(&[9]).try_into().ok().unwrap();
        assert!(!cursor.is_stalled());
        cursor.current = None;
        assert!(cursor.is_stalled());
        cursor.next = cursor.end;
        assert!(!cursor.is_stalled());
    }

    #[test]
    fn each_unfinished_record_is_waited_for_from_when_its_list_stopped_there() {
        const HALF_NS: u64 = WAIT_FOR_RECORD_NS / 2;
        let mut unfinished = Unfinished::default();
        unfinished.note(vec![(0, 7), (1, 3)], 0);
        // One is finished, and its list stops at the next one.
        unfinished.note(vec![(0, 8), (1, 3)], HALF_NS);
        assert_eq!(unfinished.overdue(WAIT_FOR_RECORD_NS), [(1, 3)]);
        unfinished.note(vec![(0, 8)], WAIT_FOR_RECORD_NS);
        assert_eq!(unfinished.overdue(WAIT_FOR_RECORD_NS), []);
        assert_eq!(unfinished.overdue(WAIT_FOR_RECORD_NS + HALF_NS), [(0, 8)]);
    }

    #[test]
    fn records_of_the_last_moments_wait_for_the_next_merge() {
        assert_eq!((horizon_ns(1_000_000), horizon_ns(100)), (800_000, 0));
    }
}
