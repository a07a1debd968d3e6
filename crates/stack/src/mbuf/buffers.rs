//! Storage that several mbufs may share: clusters, and the buffers of devices.
//!
//! A buffer is a range of its pool's bytes, with a count of its mbufs. Sizes are bytes.

use std::ops::Range;

use super::id::NIL;

#[derive(Debug)]
struct Buffer {
    /// Where it begins among the pool's bytes.
    start: u32,
    room: u32,
    /// Mbufs that refer to it.
    references: u32,
    /// The next free one while no mbuf refers to it.
    next: u32,
}

/// All buffers of one kind.
#[derive(Debug)]
pub(super) struct Buffers {
    list: Vec<Buffer>,
    free: u32,
    used: u32,
    limit: u32,
}

impl Buffers {
    pub(super) fn new(limit: u32) -> Self {
        Self { list: Vec::new(), free: NIL, used: 0, limit }
    }

    /// Buffers with at least one reference.
    pub(super) fn used(&self) -> u32 {
        self.used
    }

    /// A buffer of at least `room` bytes, with one reference, and where it begins among the pool's
    /// bytes; `None` at the limit.
    pub(super) fn take(&mut self, room: usize, bytes: &mut Vec<u8>) -> Option<(u32, u32)> {
        let buffer = match self.list.get_mut(self.free as usize) {
            Some(buffer) if room <= buffer.room as usize => buffer,
            _ => {
                self.make(room, bytes)?;
                &mut self.list[self.free as usize]
            }
        };
        let number = std::mem::replace(&mut self.free, buffer.next);
        assert_eq!(buffer.references, 0, "buffer {number} is free and in use");
        buffer.references = 1;
        self.used += 1;
        Some((number, buffer.start))
    }

    /// Lets the next free buffer have so much room, be it new or larger than it was; `None` at the
    /// limit. The old room of a buffer that grows is not used again.
    fn make(&mut self, room: usize, bytes: &mut Vec<u8>) -> Option<()> {
        if self.free == NIL {
            if self.list.len() as u64 >= u64::from(self.limit) {
                return None;
            }
            self.free = self.list.len() as u32;
            self.list.push(Buffer { start: 0, room: 0, references: 0, next: NIL });
        }
        let start = grow(bytes, room)?;
        let buffer = &mut self.list[self.free as usize];
        (buffer.start, buffer.room) = (start, room as u32);
        Some(())
    }

    /// Where a buffer begins among the pool's bytes.
    pub(super) fn start(&self, number: u32) -> u32 {
        self.list[number as usize].start
    }

    /// Where its bytes are among the pool's.
    pub(super) fn range(&self, number: u32) -> Range<u32> {
        let Buffer { start, room, .. } = self.list[number as usize];
        start..start + room
    }

    pub(super) fn is_shared(&self, number: u32) -> bool {
        self.list[number as usize].references > 1
    }

    /// One more mbuf refers to it.
    pub(super) fn share(&mut self, number: u32) {
        let buffer = &mut self.list[number as usize];
        assert!(buffer.references > 0, "buffer {number} is free");
        buffer.references += 1;
    }

    /// One mbuf less refers to it; the last one frees it.
    pub(super) fn release(&mut self, number: u32) {
        let buffer = &mut self.list[number as usize];
        assert!(buffer.references > 0, "buffer {number} is freed twice");
        buffer.references -= 1;
        if buffer.references == 0 {
            buffer.next = self.free;
            self.free = number;
            self.used -= 1;
        }
    }
}

/// Adds `len` bytes to a pool's; where they begin. `None` beyond 4 GiB.
pub(super) fn grow(bytes: &mut Vec<u8>, len: usize) -> Option<u32> {
    let start = bytes.len();
    u32::try_from(start + len).ok()?;
    bytes.resize(start + len, 0);
    Some(start as u32)
}
