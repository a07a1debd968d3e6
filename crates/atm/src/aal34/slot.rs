//! The messages that are arriving: a bounded table, found by channel and identifier or by
//! the time at which patience ends.

use std::collections::BTreeMap;

use crate::Channel;

/// The name of a message among those in transit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Key {
    /// The virtual channel.
    pub channel: Channel,
    /// MID.
    pub message_id: u16,
}

/// The reason why a message, or a part of it, is not delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// A cell is missing: the number after the last one did not follow.
    Gap,
    /// Another message with the same identifier began before this one ended.
    Overtaken,
    /// LI is not allowed in a cell of that type (see [`SarPdu::is_length_legal`]).
    ///
    /// [`SarPdu::is_length_legal`]: super::SarPdu::is_length_legal
    Length,
    /// The sender gave the message up.
    Aborted,
    /// It grew beyond the longest message that is taken.
    TooLong,
    /// It was not whole when its time was over.
    Timeout,
}

/// A message given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dropped {
    /// Which one.
    pub key: Key,
    /// Why.
    pub reason: Reason,
    /// Cells that had arrived.
    pub cells: u32,
}

/// Cells to be sent again, so that a message becomes whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Missing {
    /// The message.
    pub key: Key,
    /// Bit `n` represents the cell numbered `n`.
    pub cells: u32,
    /// The end is not known: every cell from this number on is missing, too.
    pub all_from: Option<u8>,
}

/// One message in transit.
#[derive(Debug, Default)]
pub(super) struct Slot {
    pub key: Key,
    pub bytes: Vec<u8>,
    pub cells: u32,
    /// The number that the next cell must have, where cells are not repaired.
    pub next_sequence: u8,
    /// Numbers that arrived, where cells are repaired.
    pub received: u32,
    /// Number of the last cell once it is known, where cells are repaired.
    pub last: Option<u8>,
    /// The number of the timer's requests for missing cells.
    pub asks: u8,
    /// Delivered; kept so that late repetitions are known as such.
    pub is_done: bool,
    deadline_ns: u64,
    /// Whether `by_key` leads here; before, only `latest` does.
    is_listed: bool,
    /// Neighbours among the open messages by deadline.
    earlier: Option<usize>,
    later: Option<usize>,
}

/// All of them.
///
/// A message with consecutive cells is only ever the latest: it is entered among the names when a
/// cell of another arrives in between. Deadlines are a list through the slots, for each new one is
/// the last of all: time does not run backwards and the timeout is always the same.
#[derive(Debug, Default)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    free: Vec<usize>,
    open: usize,
    by_key: BTreeMap<Key, usize>,
    /// The slot found last: the next cell is mostly of the same message.
    latest: usize,
    first: Option<usize>,
    last: Option<usize>,
}

impl Slots {
    /// The message found last, when that is the one meant.
    #[inline]
    pub fn latest(&mut self, key: Key) -> Option<&mut Slot> {
        // A closed slot has no cells.
        self.slots.get_mut(self.latest).filter(|slot| slot.key == key && slot.cells > 0)
    }

    pub fn find(&mut self, key: Key) -> Option<usize> {
        if self.latest(key).is_none() {
            let at = *self.by_key.get(&key)?;
            self.turn_to(at);
        }
        Some(self.latest)
    }

    pub fn at(&mut self, at: usize) -> &mut Slot {
        &mut self.slots[at]
    }

    /// Opens a message that is not open and whose first cell is there; `None` when `max` are open.
    pub fn open(&mut self, key: Key, deadline_ns: u64, max: usize) -> Option<usize> {
        if self.open >= max && !self.forget_oldest_done() {
            return None;
        }
        let at = self.free.pop().unwrap_or(self.slots.len());
        if at == self.slots.len() {
            self.slots.push(Slot::default());
        }
        let mut bytes = std::mem::take(&mut self.slots[at].bytes);
        bytes.clear();
        self.slots[at] = Slot { key, bytes, cells: 1, ..Slot::default() };
        self.open += 1;
        self.append(at, deadline_ns);
        self.turn_to(at);
        Some(at)
    }

    /// Closes a message; its bytes stay where they are until the slot is opened again.
    pub fn close(&mut self, at: usize) {
        self.unlink(at);
        let slot = &mut self.slots[at];
        slot.cells = 0;
        if slot.is_listed {
            self.by_key.remove(&slot.key);
        }
        self.open -= 1;
        self.free.push(at);
    }

    pub fn postpone(&mut self, at: usize, deadline_ns: u64) {
        self.unlink(at);
        self.append(at, deadline_ns);
    }

    pub fn next_deadline_ns(&self) -> Option<u64> {
        self.first.map(|at| self.slots[at].deadline_ns)
    }

    /// A message whose time is over at `now_ns`, the longest over first.
    pub fn due(&self, now_ns: u64) -> Option<usize> {
        self.first.filter(|&at| self.slots[at].deadline_ns <= now_ns)
    }

    /// Messages that are in transit, those delivered and remembered not counted.
    pub fn open_messages(&self) -> usize {
        self.by_deadline().filter(|&at| !self.slots[at].is_done).count()
    }

    /// Octets that all messages together may hold without asking for more memory.
    pub fn capacity_bytes(&self) -> usize {
        self.slots.iter().map(|slot| slot.bytes.capacity()).sum()
    }

    fn forget_oldest_done(&mut self) -> bool {
        let done = self.by_deadline().find(|&at| self.slots[at].is_done);
        done.inspect(|&at| self.close(at)).is_some()
    }

    /// Open messages, the one that is due first coming first.
    fn by_deadline(&self) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(self.first, |&at| self.slots[at].later)
    }

    /// Makes a message the latest, and lists the one before if it is still open.
    fn turn_to(&mut self, at: usize) {
        let before = std::mem::replace(&mut self.latest, at);
        let slot = &mut self.slots[before];
        if before != at && slot.cells > 0 && !slot.is_listed {
            slot.is_listed = true;
            self.by_key.insert(slot.key, before);
        }
    }

    /// Enters a message as the last to be due.
    fn append(&mut self, at: usize, deadline_ns: u64) {
        // A caller whose clock ran backwards still finds the list in order.
        let latest_ns = self.last.map_or(0, |last| self.slots[last].deadline_ns);
        let slot = &mut self.slots[at];
        slot.deadline_ns = deadline_ns.max(latest_ns);
        slot.later = None;
        slot.earlier = self.last.replace(at);
        match slot.earlier {
            Some(earlier) => self.slots[earlier].later = Some(at),
            None => self.first = Some(at),
        }
    }

    fn unlink(&mut self, at: usize) {
        let (earlier, later) = (self.slots[at].earlier, self.slots[at].later);
        match earlier {
            Some(earlier) => self.slots[earlier].later = later,
            None => self.first = later,
        }
        match later {
            Some(later) => self.slots[later].earlier = earlier,
            None => self.last = earlier,
        }
    }
}
