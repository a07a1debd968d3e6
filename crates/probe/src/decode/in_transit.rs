//! Datagrams of a flow in transit, by the two points that each lies between.

use std::collections::VecDeque;
use std::ops::Range;

use sockscope_record::Point;

/// Packets remembered between two points of a flow, at most; older ones are forgotten.
pub(super) const BETWEEN_MAX: usize = 16_384;

/// Among so many of the newest datagrams of a gap one with a buffer that is used again is looked for.
const REUSED_AMONG: usize = 64;

/// So many of the oldest datagrams of a gap are looked at where a later one has passed all points.
const OVERTAKEN_AMONG: usize = 256;

/// Indices of [`Datagrams::between`].
pub(super) const QUEUED: usize = 0;
pub(super) const WIRE: usize = 1;
pub(super) const INPUT: usize = 2;
pub(super) const SOCKET: usize = 3;

/// A datagram as one hit shows it.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    pub(super) len: u32,
    /// The buffer that holds it, 0 where that is not known: its own for as long as it is under way, but
    /// where a device copies it.
    pub(super) buffer: u32,
    /// Whether it arrived or leaves with others in one packet, which may be divided into several buffers.
    pub(super) is_part: bool,
}

impl Seen {
    /// One with a known length only.
    pub(super) fn of(len: u32) -> Self {
        Self { len, buffer: 0, is_part: false }
    }
}

/// A datagram in transit.
#[derive(Clone, Copy)]
pub(super) struct Datagram {
    pub(super) offset: u64,
    pub(super) len: u32,
    pub(super) number: u64,
    /// The time of its last point.
    pub(super) at_ns: u64,
    /// As the last point saw it.
    pub(super) buffer: u32,
    pub(super) is_part: bool,
    /// Whether each point so far recognized it by its buffer, not by order and length alone.
    pub(super) is_recognized: bool,
    /// When one that was sent later had passed all points here; 0 for never.
    pub(super) overtaken_ns: u64,
}

/// Between which times a datagram passed its next point, or was dropped, without any record of it.
pub(super) type Unseen = (u64, u64);

impl Datagram {
    /// From its last point on until a later one had passed all points, or `until_ns`.
    fn unseen(&self, until_ns: u64) -> Unseen {
        let until_ns = if self.overtaken_ns > 0 { self.overtaken_ns } else { until_ns };
        (self.at_ns, until_ns.max(self.at_ns))
    }

    /// Recognized by order and length.
    fn guessed(self) -> Self {
        Self { is_recognized: false, ..self }
    }

    fn is(&self, seen: &Seen) -> bool {
        self.len == seen.len && self.buffer == seen.buffer && seen.buffer > 0
    }
}

/// Datagrams of a flow between two points, each list in order of arrival.
#[derive(Default)]
pub(super) struct Datagrams {
    /// Bytes and datagrams seen to enter, at the first point that saw them.
    pub(super) bytes: u64,
    pub(super) count: u64,
    /// Between points 3 and 4, 4 and 5, 5 and 6, 6 and 7.
    pub(super) between: [VecDeque<Datagram>; 4],
    /// Whether the last datagram that left each of them was recognized by its buffer: then those that
    /// cannot be are others, whose record at the point before is missing.
    keeps_buffer: [bool; 4],
    /// When the last datagram that was recognized as it left a queueing discipline had entered it: those that
    /// leave later entered later.
    left_since_ns: u64,
    /// Hits by then may be in no list.
    pub(super) lost_until_ns: u64,
    /// Those that have become known to be in transit no longer.
    pub(super) unseen: Vec<Unseen>,
    /// Those that the last hit announced, for the queue of their socket to take.
    pub(super) received: Vec<Datagram>,
    /// The socket that last announced one, 0 for none: it received it for a program.
    pub(super) socket: u32,
}

impl Datagrams {
    /// A datagram that no earlier point announced gets the next position.
    pub(super) fn announce(&mut self, len: u32) -> Datagram {
        let datagram = Datagram {
            offset: self.bytes,
            len,
            number: self.count,
            at_ns: 0,
            buffer: 0,
            is_part: false,
            is_recognized: true,
            overtaken_ns: 0,
        };
        self.bytes += u64::from(len);
        self.count += 1;
        datagram
    }

    pub(super) fn put(&mut self, gap: usize, datagram: Datagram, seen: Seen, at_ns: u64) {
        let Seen { buffer, is_part, .. } = seen;
        let list = &mut self.between[gap];
        // The earlier datagram of the buffer has left without a record. Only the newest ones are searched.
        if !is_part && buffer > 0 && self.keeps_buffer[gap] {
            let stale = list.iter().rev().take(REUSED_AMONG).position(|old| old.buffer == buffer);
            let stale = stale.and_then(|back| list.remove(list.len() - 1 - back));
            // A reader may have taken one out of the receive queue before its announcement is recorded.
            let stale = stale.filter(|_| gap != SOCKET);
            self.unseen.extend(stale.map(|stale| stale.unseen(at_ns)));
        }
        if list.len() == BETWEEN_MAX {
            list.pop_front();
        }
        let is_recognized = datagram.is_recognized && buffer > 0;
        let put = Datagram { at_ns, buffer, is_part, is_recognized, overtaken_ns: 0, ..datagram };
        list.push_back(put);
        debug_assert!(list.len() <= BETWEEN_MAX);
    }

    /// A program sends a datagram in this buffer: another one that had it has gone unseen, as hits were
    /// missed. Looked for among the newest ones only.
    pub(super) fn reuse(&mut self, buffer: u32, at_ns: u64) {
        let lost_until_ns = self.lost_until_ns;
        for (gap, list) in self.between.iter_mut().enumerate() {
            let keeps_buffer = self.keeps_buffer[gap];
            if !keeps_buffer || list.front().is_none_or(|first| first.at_ns > lost_until_ns) {
                continue;
            }
            let is_it = |old: &Datagram| old.buffer == buffer && !old.is_part;
            let stale = list.iter().rev().take(REUSED_AMONG).position(is_it);
            let stale = stale.and_then(|back| list.remove(list.len() - 1 - back));
            let stale = stale.filter(|_| gap != SOCKET);
            self.unseen.extend(stale.map(|stale| stale.unseen(at_ns)));
        }
    }

    /// A datagram has passed the last of its points here, and no point after a gap in `gaps`: each one sent before it
    /// that is still there has passed without a record, or arrives later by another path.
    pub(super) fn overtake(&mut self, gaps: Range<usize>, by: &Datagram, at_ns: u64) {
        if !by.is_recognized {
            return;
        }
        for list in &mut self.between[gaps] {
            let earlier = list.iter_mut().take(OVERTAKEN_AMONG);
            for earlier in earlier.take_while(|earlier| earlier.number < by.number) {
                if earlier.overtaken_ns == 0 {
                    earlier.overtaken_ns = at_ns;
                }
            }
        }
    }

    /// Takes out those that were overtaken and that passed their last point before `until_ns`: they will not arrive.
    pub(super) fn give_up_overtaken(&mut self, until_ns: u64) {
        let Self { between, unseen, .. } = self;
        for list in &mut between[QUEUED..SOCKET] {
            list.retain(|datagram| {
                let is_kept = datagram.overtaken_ns == 0 || datagram.at_ns >= until_ns;
                if !is_kept {
                    unseen.push(datagram.unseen(until_ns));
                }
                is_kept
            });
        }
    }

    /// The datagram in the gap that a hit shows: the one with its buffer, else, where buffers do not last,
    /// the oldest of its length; then older ones of another length got lost.
    pub(super) fn take(&mut self, gap: usize, seen: Seen) -> Option<Datagram> {
        let list = &mut self.between[gap];
        // Of two that had one buffer the earlier one has gone unseen; parts of a packet share theirs.
        let is_it = |datagram: &Datagram| datagram.is(&seen);
        let by_buffer =
            if seen.is_part { list.iter().position(is_it) } else { list.iter().rposition(is_it) };
        if let Some(index) = by_buffer {
            self.keeps_buffer[gap] = true;
            let found = list.remove(index)?;
            if gap == QUEUED {
                self.left_since_ns = self.left_since_ns.max(found.at_ns);
            }
            // Where hits were missed since, it may have left, and another one may have arrived in its buffer.
            let is_sure = found.at_ns > self.lost_until_ns;
            return Some(if is_sure { found } else { found.guessed() });
        }
        if self.keeps_buffer[gap] {
            let is_it = |old: &Datagram| old.len == seen.len && (old.is_part || seen.is_part);
            let index = list.iter().position(is_it)?;
            return list.remove(index).map(Datagram::guessed);
        }
        let index = list.iter().position(|datagram| datagram.len == seen.len)?;
        list.drain(..index);
        list.pop_front().map(Datagram::guessed)
    }

    /// As [`Datagrams::take`], but not one in another buffer: order alone shows no skipped point.
    pub(super) fn take_same(&mut self, gap: usize, seen: Seen) -> Option<Datagram> {
        let is_other = seen.buffer > 0 && self.entered_ns(gap, seen).is_none();
        if is_other { None } else { self.take(gap, seen) }
    }

    /// Whether one that leaves the sender's host unknown may have been in a queueing discipline, where its
    /// record was missed by `lost_until_ns`.
    pub(super) fn may_have_queued(&self, lost_until_ns: u64) -> bool {
        self.keeps_buffer[QUEUED] && lost_until_ns > self.left_since_ns
    }

    /// When the newest datagram in the buffer of a hit entered the gap.
    pub(super) fn entered_ns(&self, gap: usize, seen: Seen) -> Option<u64> {
        self.between[gap].iter().rfind(|datagram| datagram.is(&seen)).map(|found| found.at_ns)
    }

    /// The gap that a datagram in the buffer of a hit entered last: earlier datagrams of that buffer have left.
    pub(super) fn last_gap(&self, seen: Seen) -> Option<usize> {
        let entered = |gap: usize| Some((self.entered_ns(gap, seen)?, gap));
        [QUEUED, WIRE, INPUT, SOCKET].into_iter().filter_map(entered).max().map(|(_, gap)| gap)
    }

    /// Whether a datagram of this length is in the gap.
    pub(super) fn has(&self, gap: usize, len: u32) -> bool {
        self.between[gap].iter().any(|datagram| datagram.len == len)
    }

    /// The oldest datagram of this length that entered the gap at another time than this; older ones of
    /// another length got lost.
    pub(super) fn take_unless_at(
        &mut self,
        gap: usize,
        seen: Seen,
        at_ns: u64,
    ) -> Option<Datagram> {
        let found = self.between[gap].iter().find(|datagram| datagram.len == seen.len)?;
        if found.at_ns == at_ns { None } else { self.take(gap, seen) }
    }

    /// Whether a datagram of this length is in any gap.
    pub(super) fn has_any(&self, len: u32) -> bool {
        [QUEUED, WIRE, INPUT, SOCKET].into_iter().any(|gap| self.has(gap, len))
    }

    /// The oldest datagram in the gap, if it has at least `len` bytes.
    pub(super) fn next(&mut self, gap: usize, len: u32) -> Option<Datagram> {
        let list = &mut self.between[gap];
        if list.front()?.len >= len { list.pop_front().map(Datagram::guessed) } else { None }
    }

    /// All that entered the gap before the one that a hit shows, but those that may have left it by a hit
    /// that was missed.
    pub(super) fn before(&mut self, gap: usize, seen: Seen) -> Vec<Datagram> {
        let list = &mut self.between[gap];
        let by_buffer = list.iter().position(|datagram| datagram.is(&seen));
        let index = by_buffer
            .or_else(|| list.iter().position(|datagram| datagram.len == seen.len))
            .unwrap_or(0);
        let lost_until_ns = self.lost_until_ns;
        list.drain(..index).filter(|earlier| earlier.at_ns > lost_until_ns).collect()
    }

    /// Takes out those that IP took before `until_ns`, and that since then have a record neither of a
    /// receive queue nor of a drop: their number, and the time of the first. Where none ever entered
    /// one, the kernel itself reads them.
    pub(super) fn undelivered(&mut self, until_ns: u64) -> Option<(u64, u64)> {
        let list = &mut self.between[SOCKET];
        let since_ns = list.front()?.at_ns;
        let before = list.len();
        list.retain(|datagram| datagram.at_ns >= until_ns);
        let count = (before - list.len()) as u64;
        (self.socket > 0 && count > 0).then_some((count, since_ns))
    }

    /// Datagrams in all gaps.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.between.iter().map(VecDeque::len).sum()
    }

    /// Whether one passed its last point before `until_ns`.
    pub(super) fn has_before(&self, until_ns: u64) -> bool {
        let mut first = self.between.iter().filter_map(VecDeque::front);
        first.any(|first| first.at_ns < until_ns)
    }

    /// Forgets those that passed their last point before `until_ns`; counts those with a missing
    /// hit, as [`Datagrams::undelivered`] does.
    pub(super) fn forget_before(&mut self, until_ns: u64) -> Option<(u64, u64)> {
        let undelivered = self.undelivered(until_ns);
        self.give_up_overtaken(until_ns);
        for list in &mut self.between {
            list.retain(|datagram| datagram.at_ns >= until_ns);
            if list.is_empty() {
                list.shrink_to_fit();
            }
        }
        if self.received.is_empty() {
            self.received.shrink_to_fit();
        }
        undelivered
    }

    /// When IP took the last datagram, if that was since then: it may be in a receive queue without having been
    /// announced. Where earlier ones wait and none ever was, the kernel itself reads them.
    pub(super) fn in_transit_since_ns(&self, since_ns: u64) -> Option<u64> {
        let list = &self.between[SOCKET];
        let is_kernels =
            self.socket == 0 && list.front().is_some_and(|first| first.at_ns < since_ns);
        let last_ns = list.back().map(|last| last.at_ns);
        last_ns.filter(|last_ns| !is_kernels && *last_ns >= since_ns)
    }

    /// Removes the datagram that was dropped: the one with its buffer, which nothing copies while a
    /// queue has it; with an unknown buffer, the newest of its length from the most likely place of a drop,
    /// before the socket, then further up. Also returns the last point that it passed.
    pub(super) fn remove(&mut self, seen: Seen) -> Option<(Datagram, Point)> {
        let is_told =
            |old: &Datagram| old.buffer > 0 && seen.buffer > 0 && !old.is_part && !seen.is_part;
        let by_buffer = |old: &Datagram| old.is(&seen);
        let by_length = |old: &Datagram| !is_told(old) && old.len == seen.len;
        if let Some(gap) = self.last_gap(seen) {
            return self.remove_newest(&[gap], by_buffer);
        }
        self.remove_newest(&[SOCKET, INPUT, WIRE, QUEUED], by_length)
    }

    fn remove_newest(
        &mut self,
        gaps: &[usize],
        is_it: impl Fn(&Datagram) -> bool,
    ) -> Option<(Datagram, Point)> {
        for &gap in gaps {
            let list = &mut self.between[gap];
            if let Some(index) = list.iter().rposition(&is_it) {
                let after = Point::ALL[gap + 2];
                return list.remove(index).map(|datagram| (datagram, after));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Datagram {
        /// Of a queue that shows no buffers.
        pub(crate) fn at(offset: u64, len: u32, number: u64, at_ns: u64) -> Self {
            let (buffer, is_part, is_recognized, overtaken_ns) = (0, false, true, 0);
            Self { offset, len, number, at_ns, buffer, is_part, is_recognized, overtaken_ns }
        }
    }

    fn seen(buffer: u32) -> Seen {
        Seen { buffer, ..Seen::of(100) }
    }

    /// Datagrams of one length in these gaps, in order, each with its buffer; hits were missed by then.
    fn datagrams(gaps: &[(usize, u32)]) -> Datagrams {
        let mut known =
            Datagrams { keeps_buffer: [true; 4], lost_until_ns: 100, ..Datagrams::default() };
        for (&(gap, buffer), at_ns) in gaps.iter().zip(1..) {
            let datagram = known.announce(100);
            known.put(gap, datagram, seen(buffer), at_ns);
        }
        known
    }

    #[test]
    fn a_datagram_sent_in_a_buffer_is_the_only_one_in_it() {
        let mut known = datagrams(&[(INPUT, 7), (WIRE, 8)]);
        known.reuse(7, 200);
        assert_eq!(known.entered_ns(INPUT, seen(7)), None);
        assert_eq!(known.entered_ns(WIRE, seen(8)), Some(2));
        // Where nothing was missed since, it is one that passes again.
        let mut known = datagrams(&[(INPUT, 7)]);
        known.lost_until_ns = 0;
        known.reuse(7, 200);
        assert_eq!(known.entered_ns(INPUT, seen(7)), Some(1));
    }

    #[test]
    fn a_datagram_that_may_have_left_unseen_is_a_guess() {
        let mut known = datagrams(&[(WIRE, 7)]);
        assert!(!known.take(WIRE, seen(7)).unwrap().is_recognized);
        let mut known = datagrams(&[(WIRE, 7)]);
        known.lost_until_ns = 0;
        assert!(known.take(WIRE, seen(7)).unwrap().is_recognized);
    }

    #[test]
    fn of_two_in_one_buffer_the_later_one_is_there() {
        let mut known = datagrams(&[]);
        known.keeps_buffer = [false; 4];
        for at_ns in [1, 2] {
            let datagram = known.announce(100);
            known.put(WIRE, datagram, seen(7), at_ns);
        }
        let found = known.take(WIRE, seen(7)).unwrap();
        assert_eq!((found.offset, found.is_recognized), (100, false));
    }
}
