//! Receive queues of datagram sockets: the datagrams that wait in each, and the one that a read took.
//!
//! A queue is first in, first out, but a read shows neither sender nor position: only its number of
//! octets, its thread, and the number of datagrams left. As long as every read was recorded
//! it took the oldest. Where one may have been missed, nothing is guessed: those left are the newest, so
//! that all before them have gone. A read takes the last of those only where the queue held nothing but
//! logged datagrams; else the queue is known again after as many reads as datagrams were left. Records
//! are in order of time; positions are of [`Datagram`]s, times nanoseconds of the trace's clock.

use std::collections::VecDeque;

use super::in_transit::Datagram;
use super::incoming::InTransit;
use crate::layout::RawUdpCopy;

/// Datagrams remembered for one socket, at most: where another one arrives, all of them are given up, and
/// nothing is placed until the queue is known again.
const WAITING_MAX: usize = 65_536;

/// The record of a thread that took a datagram is there after this time, even if it lost its CPU meanwhile.
const QUIET_NS: u64 = 1_000_000_000;

/// A datagram in a receive queue, with its flow.
#[derive(Clone, Copy)]
pub(super) struct Waiting {
    pub(super) flow: u32,
    pub(super) datagram: Datagram,
}

/// The evidence of one read.
#[derive(Clone, Copy)]
pub(super) struct Read {
    pub(super) at_ns: u64,
    /// Octets that the reader got: all of the datagram, or as many as it asked for.
    pub(super) len: u32,
    pub(super) thread: u32,
    /// Datagrams in the queue at the time of the read; `None` where that changed meanwhile.
    pub(super) left: Option<usize>,
    /// Whether a logged datagram is between IP and its announcement: it may be in the queue.
    pub(super) is_one_in_transit: bool,
    /// Whether that one may have been dropped by a hit that was missed.
    pub(super) is_transit_doubted: bool,
}

/// The effects of a read on a queue.
#[derive(Default)]
pub(super) struct ReadOutcome {
    /// The datagram that it took, where that is known.
    pub(super) taken: Option<Waiting>,
    /// Datagrams that have left by now, at an unknown time.
    pub(super) gone: Vec<Waiting>,
    /// It took an unknown datagram.
    pub(super) is_unplaced: bool,
}

/// The receive queue of one socket.
#[derive(Default)]
pub(super) struct SocketQueue {
    waiting: VecDeque<Waiting>,
    /// A read may have been missed: not all of `waiting` need still be there.
    is_uncertain: bool,
    /// Whether that ever was.
    was_uncertain: bool,
    /// Unknown datagrams that are read before all is known again.
    ahead: usize,
    /// Number of `waiting` that have gone when those are read.
    doubtful: usize,
    /// A read left as many datagrams as were known: all of them are logged.
    is_confirmed: bool,
    /// Datagrams were in it that are not logged, or arrived before the recording.
    has_unlogged: bool,
    /// The thread that reads; the order of their hits does not distinguish several.
    reader: Option<u32>,
    is_shared: bool,
    /// Since when each read of several threads has left fewer datagrams than it should.
    fewer_since_ns: Option<u64>,
    /// When the last hit was, if that was a read that left none.
    empty_since_ns: Option<u64>,
}

impl Read {
    /// As the probe wrote it: one more than the datagrams left, or 0.
    pub(super) fn of(raw: &RawUdpCopy, in_transit: Option<InTransit>) -> Self {
        Self {
            at_ns: raw.at_ns,
            len: raw.len,
            thread: raw.thread,
            left: raw.left_plus_one.checked_sub(1).map(|left| left as usize),
            is_one_in_transit: in_transit.is_some(),
            is_transit_doubted: in_transit.is_some_and(|one| !one.is_sure),
        }
    }
}

impl SocketQueue {
    /// A queue without a hit so far; one that was followed before, and forgotten, may hold anything.
    pub(super) fn new(was_forgotten: bool) -> Self {
        Self {
            is_uncertain: was_forgotten,
            was_uncertain: was_forgotten,
            has_unlogged: was_forgotten,
            ..Self::default()
        }
    }

    /// A datagram was announced; those that have left before, if that shows now: of a socket that
    /// several threads read, none still has a hit to record after a time in which nothing happened.
    pub(super) fn push(&mut self, waiting: Waiting) -> Vec<Waiting> {
        let is_quiet = |since_ns| waiting.datagram.at_ns.saturating_sub(since_ns) >= QUIET_NS;
        let is_known_again = self.is_shared && self.empty_since_ns.take().is_some_and(is_quiet);
        let mut gone = VecDeque::new();
        if is_known_again {
            gone = std::mem::take(&mut self.waiting);
            (self.is_uncertain, self.was_uncertain) = (false, false);
        }
        self.waiting.push_back(waiting);
        gone.into()
    }

    /// Removes the newest datagram of this flow and length, which was dropped: `None` without one.
    pub(super) fn remove(&mut self, flow: u32, len: u32) -> Option<Waiting> {
        let is_it = |waiting: &Waiting| waiting.flow == flow && waiting.datagram.len == len;
        let index = self.waiting.iter().rposition(is_it)?;
        if index < self.doubtful {
            self.mark_uncertain();
        }
        self.waiting.remove(index)
    }

    /// A read, or an announcement, may have been missed.
    pub(super) fn mark_uncertain(&mut self) {
        self.is_uncertain = true;
        self.was_uncertain = true;
        (self.ahead, self.doubtful) = (0, 0);
        (self.empty_since_ns, self.fewer_since_ns) = (None, None);
    }

    /// An announcement may have been missed: the queue may hold more than is known.
    pub(super) fn mark_announcements_uncertain(&mut self) {
        self.mark_uncertain();
        self.is_confirmed = false;
    }

    /// Whether the queue has no announced datagram.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether no datagram waits, and no state but the reading thread is to be remembered.
    pub(super) fn is_idle(&self) -> bool {
        self.is_empty() && !self.was_uncertain && !self.has_unlogged
    }

    /// All waiting datagrams, where their number is the limit: from then on the queue is unknown.
    pub(super) fn give_up_if_full(&mut self) -> Vec<Waiting> {
        if self.waiting.len() < WAITING_MAX {
            return Vec::new();
        }
        self.give_up_all().collect()
    }

    /// The same, however much that is.
    pub(super) fn give_up_all(&mut self) -> impl Iterator<Item = Waiting> + use<> {
        self.mark_uncertain();
        self.has_unlogged = true;
        self.give_up()
    }

    /// The flows of the waiting datagrams, one for each.
    pub(super) fn flows(&self) -> impl Iterator<Item = u32> {
        self.waiting.iter().map(|waiting| waiting.flow)
    }

    /// All waiting datagrams; they are followed no longer.
    pub(super) fn give_up(&mut self) -> impl Iterator<Item = Waiting> + use<> {
        std::mem::take(&mut self.waiting).into_iter()
    }

    /// Whether a read without announcement may be of a datagram that is not logged.
    pub(super) fn has_unlogged(&self) -> bool {
        self.has_unlogged
    }

    /// At the end: announced datagrams that may have been read.
    pub(super) fn uncertain(&mut self) -> Vec<Waiting> {
        let count = if self.is_uncertain { self.waiting.len() } else { self.doubtful };
        debug_assert!(count <= self.waiting.len());
        self.waiting.drain(..count).collect()
    }

    /// One read.
    pub(super) fn read(&mut self, read: &Read) -> ReadOutcome {
        self.note_reader(read.thread);
        if !self.is_uncertain && !self.agrees(read) {
            self.mark_uncertain();
        }
        self.empty_since_ns = Some(read.at_ns).filter(|_| read.left == Some(0));
        if self.is_uncertain {
            return self.place(read);
        }
        match self.ahead {
            0 => ReadOutcome {
                taken: self.waiting.remove(self.out_of_order_read(read.len)),
                ..ReadOutcome::default()
            },
            _ => self.read_ahead(),
        }
    }

    /// A second thread may be between taking a datagram and its hit: once a read was missed, nothing
    /// shows that it is not.
    fn note_reader(&mut self, thread: u32) {
        self.is_shared |= self.reader.replace(thread).is_some_and(|reader| reader != thread);
        if self.is_shared && self.was_uncertain {
            self.mark_uncertain();
        }
    }

    /// Whether the read can have taken the oldest waiting datagram, nothing having been missed.
    fn agrees(&mut self, read: &Read) -> bool {
        debug_assert!(self.doubtful <= self.waiting.len(), "only datagrams that wait are in doubt");
        let waiting = self.ahead + self.waiting.len() - self.doubtful;
        if waiting == 0 {
            self.fewer_since_ns = None;
            // It took a datagram without announcement.
            self.has_unlogged = self.has_unlogged || !read.is_one_in_transit;
            return true;
        }
        let oldest = self.waiting.front().filter(|_| self.ahead == 0);
        let fits = oldest.is_none_or(|oldest| oldest.datagram.len >= read.len);
        let behind = waiting - 1;
        // A datagram without announcement may be one of those left; a thread about to record a read leaves fewer.
        let is_more = read.left > Some(behind);
        self.has_unlogged |= is_more && !read.is_one_in_transit;
        match read.left {
            _ if is_more && (!read.is_one_in_transit || read.is_transit_doubted) => false,
            Some(left) if !self.is_shared => {
                self.is_confirmed |= left == behind && fits && oldest.is_some();
                left >= behind && fits
            }
            left => {
                let is_late = left.is_some_and(|left| self.is_late(behind, left, read.at_ns));
                !is_late && (fits || self.out_of_order_read(read.len) != 0)
            }
        }
    }

    /// Whether for too long fewer datagrams were left than there should be for any thread to be about to
    /// record that it took one.
    fn is_late(&mut self, behind: usize, left: usize, at_ns: u64) -> bool {
        if left >= behind {
            self.fewer_since_ns = None;
            return false;
        }
        let since_ns = *self.fewer_since_ns.get_or_insert(at_ns);
        at_ns.saturating_sub(since_ns) >= QUIET_NS
    }

    /// The index of the datagram that a read took from a completely known queue: the oldest, unless another
    /// thread is about to record its read of that one.
    fn out_of_order_read(&self, len: u32) -> usize {
        match self.waiting.front() {
            Some(oldest) if self.is_shared && oldest.datagram.len < len => {
                let is_it = |waiting: &Waiting| waiting.datagram.len == len;
                self.waiting.iter().position(is_it).unwrap_or(0)
            }
            _ => 0,
        }
    }

    /// A read of one of those ahead; with the last of them, all that entered before them leaves.
    fn read_ahead(&mut self) -> ReadOutcome {
        debug_assert!(self.ahead > 0 && !self.is_shared, "one reader alone is followed so");
        self.ahead -= 1;
        let gone = if self.ahead == 0 { std::mem::take(&mut self.doubtful) } else { 0 };
        ReadOutcome { taken: None, gone: self.waiting.drain(..gone).collect(), is_unplaced: true }
    }

    /// A read of a queue that may be incomplete: those left are the newest ones.
    fn place(&mut self, read: &Read) -> ReadOutcome {
        let unplaced = ReadOutcome { is_unplaced: true, ..ReadOutcome::default() };
        let Some(left) = read.left.filter(|_| !self.is_shared) else { return unplaced };
        let known = self.waiting.len();
        let is_whole = left == 0 || !read.is_one_in_transit;
        self.has_unlogged |= left > 0 && left >= known && is_whole;
        let mut gone: Vec<Waiting> = self.waiting.drain(..known.saturating_sub(left)).collect();
        let is_exact = self.is_confirmed && !self.has_unlogged && !read.is_one_in_transit;
        let is_it = |last: &&Waiting| is_exact && last.datagram.len >= read.len;
        let taken = gone.last().filter(is_it).copied();
        gone.truncate(gone.len() - usize::from(taken.is_some()));
        self.is_uncertain = !is_whole;
        if taken.is_none() && is_whole {
            (self.ahead, self.doubtful) = (left, self.waiting.len());
        }
        ReadOutcome { taken, gone, is_unplaced: taken.is_none() }
    }
}
