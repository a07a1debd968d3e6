//! The messages that are on their way in: a bounded table, found by channel and identifier or by
//! the time at which patience ends.

use std::collections::{BTreeMap, BTreeSet};

use crate::Channel;

/// What names a message among those on their way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Key {
    /// The virtual channel.
    pub channel: Channel,
    /// MID.
    pub message_id: u16,
}

/// Why a message, or what there was of it, is not delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// A cell is missing: the number after the last one did not follow.
    Gap,
    /// Another message with the same identifier began before this one ended.
    Overtaken,
    /// LI may not stand in a cell of that type (see [`SarPdu::is_length_legal`]).
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
    /// Bit `n` stands for the cell numbered `n`.
    pub cells: u32,
    /// The end is not known: every cell from this number on is missing, too.
    pub all_from: Option<u8>,
}

/// One message on its way.
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
    /// How often the timer has asked for missing cells.
    pub asks: u8,
    /// Delivered; kept so that late repetitions are known as such.
    pub is_done: bool,
    deadline_ns: u64,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    free: Vec<usize>,
    by_key: BTreeMap<Key, usize>,
    by_deadline: BTreeSet<(u64, usize)>,
    /// The slot found last: the next cell is mostly of the same message.
    latest: usize,
}

impl Slots {
    /// The message found last, when that is the one meant.
    #[inline]
    pub fn latest(&mut self, key: Key) -> Option<&mut Slot> {
        // A closed slot has no cells.
        self.slots.get_mut(self.latest).filter(|slot| slot.key == key && slot.cells > 0)
    }

    pub fn find(&mut self, key: Key) -> Option<usize> {
        if self.latest(key).is_some() {
            return Some(self.latest);
        }
        self.latest = *self.by_key.get(&key)?;
        Some(self.latest)
    }

    pub fn at(&mut self, at: usize) -> &mut Slot {
        &mut self.slots[at]
    }

    /// Opens a message whose first cell is there; `None` when `max` are open.
    pub fn open(&mut self, key: Key, deadline_ns: u64, max: usize) -> Option<usize> {
        if self.by_key.len() >= max && !self.forget_oldest_done() {
            return None;
        }
        let at = self.free.pop().unwrap_or(self.slots.len());
        if at == self.slots.len() {
            self.slots.push(Slot::default());
        }
        let mut bytes = std::mem::take(&mut self.slots[at].bytes);
        bytes.clear();
        self.slots[at] = Slot { key, bytes, deadline_ns, cells: 1, ..Slot::default() };
        self.by_key.insert(key, at);
        self.by_deadline.insert((deadline_ns, at));
        self.latest = at;
        Some(at)
    }

    /// Closes a message; its bytes stay where they are until the slot is opened again.
    pub fn close(&mut self, at: usize) {
        let slot = &mut self.slots[at];
        slot.cells = 0;
        self.by_deadline.remove(&(slot.deadline_ns, at));
        self.by_key.remove(&slot.key);
        self.free.push(at);
    }

    pub fn postpone(&mut self, at: usize, deadline_ns: u64) {
        let slot = &mut self.slots[at];
        self.by_deadline.remove(&(slot.deadline_ns, at));
        slot.deadline_ns = deadline_ns;
        self.by_deadline.insert((deadline_ns, at));
    }

    pub fn next_deadline_ns(&self) -> Option<u64> {
        self.by_deadline.first().map(|&(deadline_ns, _)| deadline_ns)
    }

    /// A message whose time is over at `now_ns`, the longest over first.
    pub fn due(&self, now_ns: u64) -> Option<usize> {
        let &(deadline_ns, at) = self.by_deadline.first()?;
        (deadline_ns <= now_ns).then_some(at)
    }

    /// Messages that are on their way, those delivered and remembered not counted.
    pub fn open_messages(&self) -> usize {
        self.by_key.values().filter(|&&at| !self.slots[at].is_done).count()
    }

    /// Octets that all messages together may hold without asking for more memory.
    pub fn capacity_bytes(&self) -> usize {
        self.slots.iter().map(|slot| slot.bytes.capacity()).sum()
    }

    fn forget_oldest_done(&mut self) -> bool {
        let mut oldest_first = self.by_deadline.iter().map(|&(_, at)| at);
        let done = oldest_first.find(|&at| self.slots[at].is_done);
        done.inspect(|&at| self.close(at)).is_some()
    }
}
