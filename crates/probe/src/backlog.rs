//! The fill of the lists and of the rings, which any thread may look at.

use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::mm::ProtFlags;
use rustix::param::page_size;

use crate::layout::{RawEvent, RawOption};
use crate::lists::Lists;
use crate::mapped::Mapped;

/// A ring of rare entries that the probes write (`BPF_MAP_TYPE_RINGBUF`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ring {
    /// Of events.
    Events,
    /// Of options that programs set. A server sets five of each connection that it accepts.
    Options,
}

impl Ring {
    pub(crate) const ALL: [Self; 2] = [Self::Events, Self::Options];

    /// The name of its map.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Options => "option_events",
        }
    }

    /// A power of two, and whole pages of any machine.
    pub(crate) fn bytes(self) -> u32 {
        match self {
            Self::Events => 4 << 20,
            Self::Options => 1 << 20,
        }
    }

    /// The part of it that so many entries fill, 0 to 1.
    pub(crate) fn part(self, entries: usize) -> f64 {
        // Before each entry (`BPF_RINGBUF_HDR_SZ`).
        const HEADER_BYTES: usize = 8;
        let entry = match self {
            Self::Events => size_of::<RawEvent>(),
            Self::Options => size_of::<RawOption>(),
        };
        (entries * (entry + HEADER_BYTES)) as f64 / f64::from(self.bytes())
    }
}

/// How full the lists of records and the rings are.
#[derive(Clone)]
pub struct Backlog(Arc<(Arc<Lists>, Vec<Positions>)>);

impl Backlog {
    /// Of these lists, and of these rings.
    pub(crate) fn new(lists: Arc<Lists>, rings: Vec<Positions>) -> Self {
        Self(Arc::new((lists, rings)))
    }

    /// The part of the fullest list that has records or of the fullest ring that has entries, 0 to 1.
    pub fn fullest(&self) -> f64 {
        let (lists, rings) = &*self.0;
        rings.iter().map(Positions::part).fold(lists.fullest(), f64::max)
    }
}

impl fmt::Debug for Backlog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Backlog").field(&self.fullest()).finish()
    }
}

/// The positions of a ring's reader and of its probes: in bytes, and never set back (kernel/bpf/ringbuf.c).
pub(crate) struct Positions {
    /// Two pages: the first begins with the position of the reader, the second with that of the probes.
    pages: Mapped,
    bytes: u32,
}

impl Positions {
    /// Of a ring with this map.
    pub(crate) fn map(ring: Ring, map: &impl AsFd) -> io::Result<Self> {
        let pages = Mapped::new(map, 2 * page_size(), ProtFlags::READ)?;
        Ok(Self { pages, bytes: ring.bytes() })
    }

    /// The part of the ring that has entries.
    fn part(&self) -> f64 {
        // The reader's first: it is never past the other.
        let read = self.pages[0].load(Ordering::Acquire);
        let written = self.pages[self.pages.len() / 2].load(Ordering::Acquire);
        written.saturating_sub(read) as f64 / f64::from(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    use rustix::io::pwrite;

    use super::*;

    #[test]
    fn a_ring_is_as_full_as_its_positions_are_apart() {
        let file = memfd_create("ring", MemfdFlags::CLOEXEC).expect("a file in memory");
        let page = page_size() as u64;
        ftruncate(&file, 2 * page).expect("two pages");
        let ring = Positions::map(Ring::Events, &file).expect("a mapping");
        assert!(ring.part() < f64::EPSILON);
        let bytes = u64::from(Ring::Events.bytes());
        let set =
            |at, position: u64| pwrite(&file, &position.to_ne_bytes(), at).expect("it is written");
        set(0, 3 * bytes);
        set(page, 3 * bytes + bytes / 4);
        assert_eq!(ring.part().to_bits(), 0.25f64.to_bits());
    }
}
