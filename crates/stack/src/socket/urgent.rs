//! Urgent data at the socket: the mark in the stream, and the octet that is kept apart from it.
//!
//! TCP names the end of urgent data; the socket layer of 4.2BSD and later makes one octet of it. The octet leaves
//! the stream, or stays there with `SO_OOBINLINE`. In both cases a read ends at its place, the mark.

use std::collections::VecDeque;

/// Positions count the octets of the stream, those that are kept apart among them.
#[derive(Debug, Default)]
pub struct Urgent {
    /// The mark, while octets before it are not read (`so_oobmark`).
    mark: Option<u64>,
    /// Everything before the mark is read, and nothing behind it (`SS_RCVATMARK`).
    is_at_mark: bool,
    /// Positions of octets kept apart, in order, which the reader has not passed.
    apart: VecDeque<u64>,
    /// The last octet kept apart, until it is read (`t_iobc`, `TCPOOB_HAVEDATA`).
    octet: Option<u8>,
    /// That octet was read (`TCPOOB_HADDATA`).
    was_read: bool,
}

impl Urgent {
    /// New urgent data end with the octet at `position`; everything before `left` is read.
    pub(crate) fn announce(&mut self, position: u64, left: u64) {
        self.mark = (position >= left).then_some(position);
        self.is_at_mark = false;
        self.comes_to_mark(left);
        self.octet = None;
        self.was_read = false;
    }

    /// The octet at `position` has arrived and is not for the stream; `is_last` if nothing announces later ones.
    pub(crate) fn keep_apart(&mut self, position: u64, octet: u8, is_last: bool) {
        let at = self.apart.partition_point(|known| *known < position);
        if self.apart.get(at) == Some(&position) {
            return;
        }
        self.apart.insert(at, position);
        if is_last {
            self.octet = Some(octet);
        }
    }

    /// The position of the last octet kept apart before `to` and not before `from`.
    pub(crate) fn apart_between(&self, from: u64, to: u64) -> Option<u64> {
        let at = self.apart.partition_point(|known| *known < to);
        let last = at.checked_sub(1).and_then(|at| self.apart.get(at)).copied();
        last.filter(|position| *position >= from)
    }

    /// Whether a reader that has read everything before `left` is at the mark now: every octet up to there is kept
    /// apart.
    pub(crate) fn comes_to_mark(&mut self, left: u64) -> bool {
        let Some(mark) = self.mark else { return false };
        let apart = self.apart.iter().filter(|position| (left..mark).contains(position)).count();
        let is_there = mark == left + apart as u64;
        if is_there {
            self.mark = None;
            self.is_at_mark = true;
        }
        is_there
    }

    /// The octet at `position` stays in the stream after all.
    pub(crate) fn leave_in(&mut self, position: u64) {
        self.apart.retain(|known| *known != position);
    }

    /// Positions of octets kept apart that the reader has not passed.
    #[cfg(test)]
    pub(crate) fn apart(&self) -> Vec<u64> {
        self.apart.iter().copied().collect()
    }

    /// A read takes octets behind `left` now: it leaves the mark, also one without an octet before it. Returns how
    /// many it may take at once.
    pub(crate) fn leave_mark(&mut self, left: u64) -> usize {
        self.is_at_mark = false;
        self.mark.take_if(|mark| *mark == left);
        self.room(left)
    }

    /// Passes the octet at `left` if it is kept apart.
    pub(crate) fn pass(&mut self, left: u64) -> bool {
        let is_there = self.apart.front() == Some(&left);
        if is_there {
            self.apart.pop_front();
        }
        is_there
    }

    /// Whether the octet has arrived and was not read.
    pub fn has_octet(&self) -> bool {
        self.octet.is_some()
    }

    /// Whether everything before the mark is read, and nothing behind it.
    pub fn is_at_mark(&self) -> bool {
        self.is_at_mark
    }

    /// The octet: `Ok(None)` while it has been announced and has not arrived, `Err` without one, or if it was read.
    pub(crate) fn take_octet(&mut self) -> Result<Option<u8>, ()> {
        let is_announced = self.mark.is_some() || self.is_at_mark || self.octet.is_some();
        if !is_announced || self.was_read {
            return Err(());
        }
        self.was_read = self.octet.is_some();
        Ok(self.octet.take())
    }

    /// Octets that a read may take from `left` on before the mark, or the next octet kept apart.
    fn room(&self, left: u64) -> usize {
        let next = [self.mark, self.apart.front().copied()].into_iter().flatten().min();
        next.map_or(usize::MAX, |next| next.saturating_sub(left) as usize)
    }
}
