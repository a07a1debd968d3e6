//! A cache of lines with tags: size, length of a line, ways of a set; the least recently used line gives way.
//!
//! It holds tags and no data, and takes no time. The caller charges fills and write-backs. Lines are only
//! exchanged here: every line that entered is resident, was displaced by another, or was removed.

/// The size of a cache and its division.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheShape {
    /// Octets of all lines.
    pub bytes: u64,
    /// Octets of a line.
    pub line_bytes: u64,
    /// Lines of a set; 1 is a direct-mapped cache.
    pub ways: u64,
}

impl CacheShape {
    /// The number of sets.
    ///
    /// # Errors
    ///
    /// When a number is 0, the length of a line is no power of two, or the lines do not divide into sets.
    pub fn sets(&self) -> Result<u64, String> {
        let Self { bytes, line_bytes, ways } = *self;
        let set_bytes = line_bytes.saturating_mul(ways);
        if !line_bytes.is_power_of_two() || set_bytes == 0 {
            return Err(format!(
                "a cache has lines of 2^n octets and at least one way, not {line_bytes} octets in {ways} ways"
            ));
        }
        if bytes == 0 || !bytes.is_multiple_of(set_bytes) {
            return Err(format!(
                "a cache of {bytes} octets is no whole number of sets of {set_bytes} octets"
            ));
        }
        Ok(bytes / set_bytes)
    }
}

/// A line that is in the cache, or was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheLine {
    /// The address of its first octet.
    pub address: u64,
    /// It was written to since it was read from memory.
    pub is_dirty: bool,
}

/// Lines that entered the cache, and left it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CacheCounts {
    /// Lines that entered.
    pub entered: u64,
    /// Lines that gave way to another.
    pub displaced: u64,
    /// Lines that were taken out by name.
    pub removed: u64,
}

/// A cache at work.
#[derive(Debug, Clone)]
pub struct Cache {
    shape: CacheShape,
    /// The lines of each set, the most recently used one first.
    sets: Vec<Vec<CacheLine>>,
    counts: CacheCounts,
}

impl Cache {
    /// An empty cache.
    ///
    /// # Errors
    ///
    /// As [`CacheShape::sets`].
    pub fn new(shape: CacheShape) -> Result<Self, String> {
        let sets = vec![Vec::new(); shape.sets()? as usize];
        Ok(Self { shape, sets, counts: CacheCounts::default() })
    }

    /// Its size and division.
    pub fn shape(&self) -> CacheShape {
        self.shape
    }

    /// Lines that entered and left so far.
    pub fn counts(&self) -> CacheCounts {
        self.counts
    }

    /// Lines in it now.
    pub fn resident(&self) -> u64 {
        self.sets.iter().map(|set| set.len() as u64).sum()
    }

    /// The first octet of the line that an octet belongs to.
    pub fn line_of(&self, address: u64) -> u64 {
        address - address % self.shape.line_bytes
    }

    /// Whether the line of an octet is there; it is then the most recently used one of its set.
    pub fn touch(&mut self, address: u64, writes: bool) -> bool {
        let line = self.line_of(address);
        let set = self.set_mut(line);
        let Some(at) = set.iter().position(|resident| resident.address == line) else {
            return false;
        };
        set[..=at].rotate_right(1);
        set[0].is_dirty |= writes;
        true
    }

    /// A line that is not there enters. Gives the line that leaves its place to it.
    pub fn enter(&mut self, line: CacheLine) -> Option<CacheLine> {
        let ways = self.shape.ways as usize;
        let set = self.set_mut(line.address);
        debug_assert!(set.iter().all(|resident| resident.address != line.address));
        let displaced = if set.len() == ways { set.pop() } else { None };
        set.insert(0, line);
        self.counts.entered += 1;
        self.counts.displaced += u64::from(displaced.is_some());
        displaced
    }

    /// Takes out the line of an octet, if it is there.
    pub fn remove(&mut self, address: u64) -> Option<CacheLine> {
        let line = self.line_of(address);
        let set = self.set_mut(line);
        let at = set.iter().position(|resident| resident.address == line)?;
        let removed = set.remove(at);
        self.counts.removed += 1;
        Some(removed)
    }

    /// Gives the line at `from` the address `to` of the same set, in place of a line that is at `to`. `false`, and
    /// nothing changes, when no line is at `from` or the sets differ.
    pub fn rename(&mut self, from: u64, to: u64) -> bool {
        let (from, to) = (self.line_of(from), self.line_of(to));
        let is_there = self.set_mut(from).iter().any(|line| line.address == from);
        if !is_there || self.set_of(from) != self.set_of(to) {
            return false;
        }
        if from != to {
            self.remove(to);
        }
        for line in self.set_mut(from).iter_mut().filter(|line| line.address == from) {
            line.address = to;
        }
        true
    }

    fn set_of(&self, address: u64) -> usize {
        ((address / self.shape.line_bytes) % self.sets.len() as u64) as usize
    }

    fn set_mut(&mut self, address: u64) -> &mut Vec<CacheLine> {
        let set = self.set_of(address);
        &mut self.sets[set]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cache(bytes: u64, line_bytes: u64, ways: u64) -> Cache {
        Cache::new(CacheShape { bytes, line_bytes, ways }).unwrap()
    }

    /// Reads octets at these addresses; `+` is a hit, a number the address of a displaced line, `.` neither.
    fn trace(cache: &mut Cache, addresses: &[u64]) -> String {
        let read = |&address: &u64| {
            if cache.touch(address, false) {
                return "+".to_owned();
            }
            let line = CacheLine { address: cache.line_of(address), is_dirty: false };
            cache.enter(line).map_or(".".to_owned(), |line| line.address.to_string())
        };
        addresses.iter().map(read).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn lines_of_one_set_displace_each_other_where_it_has_one_way() {
        // Four lines of 16 octets: 0 and 64 have one set.
        assert_eq!(trace(&mut cache(64, 16, 1), &[0, 15, 16, 64, 0, 17]), ". + . 0 64 +");
        assert_eq!(trace(&mut cache(64, 16, 2), &[0, 15, 16, 64, 0, 17]), ". + . . + +");
    }

    #[test]
    fn the_line_that_was_used_last_stays() {
        assert_eq!(trace(&mut cache(64, 16, 4), &[0, 16, 32, 48, 0, 64, 16]), ". . . . + 16 32");
    }

    #[test]
    fn a_renamed_line_keeps_its_place_and_its_content() {
        let mut cache = cache(64, 16, 2);
        cache.enter(CacheLine { address: 0, is_dirty: true });
        cache.enter(CacheLine { address: 64, is_dirty: false });
        assert!(cache.rename(0, 64), "the line that was there is gone");
        assert_eq!(cache.remove(64), Some(CacheLine { address: 64, is_dirty: true }));
        assert!(!cache.rename(0, 64) && !cache.rename(16, 0));
        assert_eq!(cache.counts(), CacheCounts { entered: 2, displaced: 0, removed: 2 });
    }

    #[test]
    fn a_cache_of_no_whole_number_of_sets_is_refused() {
        for (bytes, line_bytes, ways) in
            [(0, 16, 1), (64, 0, 1), (64, 24, 1), (96, 32, 2), (64, 16, 0)]
        {
            assert!(Cache::new(CacheShape { bytes, line_bytes, ways }).is_err(), "{bytes}");
        }
    }

    proptest! {
        /// A displaced line is counted once: every line that entered is there, displaced or removed.
        #[test]
        fn lines_are_conserved_and_no_set_has_more_than_its_ways(
            ways in 1u64..5, sets in 1u64..9,
            steps in prop::collection::vec((0u8..4, 0u64..2048, 0u64..2048), 1..300),
        ) {
            let mut cache = cache(16 * ways * sets, 16, ways);
            for (kind, address, other) in steps {
                match kind {
                    0 | 1 if !cache.touch(address, kind == 1) => {
                        let line = CacheLine { address: cache.line_of(address), is_dirty: kind == 1 };
                        let displaced = cache.enter(line);
                        prop_assert!(displaced.is_none_or(|other| other.address != line.address));
                        prop_assert!(cache.touch(address, false));
                    }
                    2 => {
                        cache.remove(address);
                        prop_assert!(!cache.touch(address, false));
                    }
                    3 => {
                        let resident = cache.resident();
                        let renamed = cache.rename(address, other);
                        prop_assert!(!renamed || cache.touch(other, false));
                        prop_assert!(cache.resident() <= resident);
                    }
                    _ => {}
                }
                let CacheCounts { entered, displaced, removed } = cache.counts();
                prop_assert_eq!(entered, cache.resident() + displaced + removed);
                prop_assert!(cache.sets.iter().all(|set| set.len() as u64 <= ways));
            }
        }
    }
}
