//! Collision detection: a member learns of writes that others make at the same time.
//!
//! Memory only appears to be shared among the members of a many-to-many channel: each has its own copy, and two
//! may write the same cell before either has seen the other's write. That is a collision. Members give cells
//! versions in the manner of version vectors (Parker et al., "Detection of Mutual Inconsistency in Distributed
//! Systems", 1983). So a collision is distinguished from a later write in any order of arrival, and all members
//! agree on the write that stands.

use std::collections::BTreeMap;

use super::word_at;

/// Most members that [`Versions`] can distinguish.
pub const MEMBERS_MAX: usize = 64;

/// Finds writes to a cell that did not know of each other. Each message carries the header that the
/// part writes.
pub trait Collisions {
    /// Bytes of the header, a multiple of 8.
    fn header_bytes(&self) -> usize;

    /// Writes the header of the next message, which writes cell `cell`.
    fn stamp(&mut self, cell: u64, header: &mut [u8]);

    /// Takes a write that arrived: its cell, and its relation to earlier writes.
    fn arrive(&mut self, header: &[u8]) -> (u64, Verdict);
}

/// The relation of a write to those of the same cell that were seen before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It knew of all of them: it replaces them.
    Follows,
    /// It and the one that stood did not know of each other. It stands now; on all members alike.
    CollidedAndStands,
    /// It and the one that stands did not know of each other, and that one remains.
    CollidedAndFalls,
    /// One that was seen before knew of it: it is late, and falls.
    Late,
    /// No part watches, or the header is not of this library, or there are more cells than are kept.
    Unknown,
}

/// Does not watch for collisions.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unwatched;

impl Collisions for Unwatched {
    fn header_bytes(&self) -> usize {
        0
    }

    fn stamp(&mut self, _: u64, _: &mut [u8]) {}

    fn arrive(&mut self, _: &[u8]) -> (u64, Verdict) {
        (0, Verdict::Unknown)
    }
}

/// Detects every collision among a fixed number of members, exactly, with a counter for each member
/// in each message and each cell.
#[derive(Debug)]
pub struct Versions {
    member: usize,
    members: usize,
    cells_max: usize,
    cells: BTreeMap<u64, Cell>,
}

/// The known writes of a cell.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Cell {
    /// Writes of each member that are known, together.
    known: Vec<u64>,
    /// The writes known to the standing one, itself included.
    standing: Vec<u64>,
    /// The member that wrote it.
    writer: usize,
}

impl Cell {
    fn untouched(members: usize) -> Self {
        Self { known: vec![0; members], standing: vec![0; members], writer: 0 }
    }
}

impl Versions {
    /// For member `member` of `members`, which lie below [`MEMBERS_MAX`] and `members`, else the
    /// part watches as if there were that many. Keeps `cells_max` cells; more are `Unknown`.
    pub fn new(member: usize, members: usize, cells_max: usize) -> Self {
        let members = members.clamp(1, MEMBERS_MAX);
        Self { member: member.min(members - 1), members, cells_max, cells: BTreeMap::new() }
    }

    fn cell(&mut self, cell: u64) -> Option<&mut Cell> {
        if !self.cells.contains_key(&cell) && self.cells.len() >= self.cells_max {
            return None;
        }
        let untouched = || Cell::untouched(self.members);
        Some(self.cells.entry(cell).or_insert_with(untouched))
    }

    /// Cell, writer and version of a header, if it is one of this group.
    fn open(&self, header: &[u8]) -> Option<(u64, usize, Vec<u64>)> {
        let writer = usize::try_from(word_at(header, 8)).ok()?;
        if header.len() != self.header_bytes() || writer >= self.members {
            return None;
        }
        let version: Vec<u64> =
            (0..self.members).map(|member| word_at(header, 16 + 8 * member)).collect();
        // Every write counts itself; and no writer counts so far that a step more would overflow.
        let sane = version[writer] > 0 && version.iter().all(|count| *count < u64::MAX >> 1);
        sane.then(|| (word_at(header, 0), writer, version))
    }
}

/// Whether `a` knows all that `b` does.
fn covers(a: &[u64], b: &[u64]) -> bool {
    a.iter().zip(b).all(|(a, b)| a >= b)
}

/// Which of two writes stands that did not know of each other: that of the longer history, then that
/// of the higher member. Any rule works that all members share and that no later write undoes.
fn outranks(a: &[u64], a_writer: usize, b: &[u64], b_writer: usize) -> bool {
    let rank = |version: &[u64]| version.iter().map(|count| u128::from(*count)).sum::<u128>();
    (rank(a), a_writer) > (rank(b), b_writer)
}

impl Collisions for Versions {
    fn header_bytes(&self) -> usize {
        16 + 8 * self.members
    }

    fn stamp(&mut self, cell: u64, header: &mut [u8]) {
        header[..8].copy_from_slice(&cell.to_le_bytes());
        let member = self.member;
        header[8..16].copy_from_slice(&(member as u64).to_le_bytes());
        let members = self.members;
        let version = match self.cell(cell) {
            Some(cell) => {
                cell.known[member] += 1;
                cell.standing.clone_from(&cell.known);
                cell.writer = member;
                cell.known.clone()
            }
            // A version of nothing is known to no member as one.
            None => vec![0; members],
        };
        for (bytes, count) in header[16..].chunks_exact_mut(8).zip(&version) {
            bytes.copy_from_slice(&count.to_le_bytes());
        }
    }

    fn arrive(&mut self, header: &[u8]) -> (u64, Verdict) {
        let Some((number, writer, version)) = self.open(header) else {
            return (word_at(header, 0), Verdict::Unknown);
        };
        let Some(cell) = self.cell(number) else { return (number, Verdict::Unknown) };
        let verdict = if covers(&version, &cell.standing) {
            // The same write once more is not new.
            if version == cell.standing { Verdict::Late } else { Verdict::Follows }
        } else if covers(&cell.standing, &version) {
            Verdict::Late
        } else if outranks(&version, writer, &cell.standing, cell.writer) {
            Verdict::CollidedAndStands
        } else {
            Verdict::CollidedAndFalls
        };
        if matches!(verdict, Verdict::Follows | Verdict::CollidedAndStands) {
            cell.standing.clone_from(&version);
            cell.writer = writer;
        }
        for (known, count) in cell.known.iter_mut().zip(&version) {
            *known = (*known).max(*count);
        }
        (number, verdict)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn members(count: usize) -> Vec<Versions> {
        (0..count).map(|member| Versions::new(member, count, 8)).collect()
    }

    fn write(member: &mut Versions, cell: u64) -> Vec<u8> {
        let mut header = vec![0; member.header_bytes()];
        member.stamp(cell, &mut header);
        header
    }

    #[test]
    fn a_write_that_knows_the_one_before_follows_it() {
        let mut members = members(2);
        let first = write(&mut members[0], 5);
        assert_eq!(members[1].arrive(&first), (5, Verdict::Follows));
        let second = write(&mut members[1], 5);
        assert_eq!(members[0].arrive(&second), (5, Verdict::Follows));
    }

    #[test]
    fn two_writes_at_once_collide_on_both_sides_and_the_same_one_stands() {
        let mut members = members(2);
        let [a, b] = [0, 1].map(|member| write(&mut members[member], 5));
        assert_eq!(members[0].arrive(&b), (5, Verdict::CollidedAndStands));
        assert_eq!(members[1].arrive(&a), (5, Verdict::CollidedAndFalls));
        assert_eq!(members[0].cells[&5].standing, members[1].cells[&5].standing);
    }

    #[test]
    fn writes_to_different_cells_do_not_collide() {
        let mut members = members(2);
        let [a, b] = [0, 1].map(|member| write(&mut members[member], member as u64));
        assert_eq!(members[0].arrive(&b), (1, Verdict::Follows));
        assert_eq!(members[1].arrive(&a), (0, Verdict::Follows));
    }

    #[test]
    fn a_late_write_is_no_collision() {
        let mut members = members(3);
        let first = write(&mut members[0], 5);
        members[1].arrive(&first);
        let second = write(&mut members[1], 5);
        assert_eq!(members[2].arrive(&second), (5, Verdict::Follows));
        assert_eq!(members[2].arrive(&first), (5, Verdict::Late));
        assert_eq!(members[2].arrive(&second), (5, Verdict::Late));
    }

    #[test]
    fn headers_of_others_and_cells_beyond_the_limit_are_unknown() {
        let mut one = Versions::new(0, 2, 1);
        let header = write(&mut one, 5);
        let mut other = Versions::new(1, 2, 1);
        assert_eq!(other.arrive(&header), (5, Verdict::Follows));
        assert_eq!(other.arrive(&write(&mut Versions::new(0, 2, 8), 6)), (6, Verdict::Unknown));
        assert_eq!(other.arrive(&header[..8]).1, Verdict::Unknown);
        assert_eq!(other.arrive(&write(&mut Versions::new(2, 3, 8), 5)).1, Verdict::Unknown);
        assert_eq!(other.arrive(&write(&mut one, 7)), (7, Verdict::Unknown));
    }

    proptest! {
        /// Members write and receive in any order. In the end, with all writes received, the same
        /// write stands everywhere; and a write is called a collision exactly when neither it nor
        /// the one that stood knew of the other.
        #[test]
        fn all_members_end_with_the_same_write(
            steps in proptest::collection::vec((0_usize..3, any::<proptest::sample::Index>()), 1..30),
        ) {
            let mut members = members(3);
            let mut waiting: Vec<Vec<Vec<u8>>> = vec![Vec::new(); 3];
            for (member, index) in steps {
                if waiting[member].is_empty() || index.index(2) == 0 {
                    let header = write(&mut members[member], 5);
                    for (to, waiting) in waiting.iter_mut().enumerate() {
                        if to != member {
                            waiting.push(header.clone());
                        }
                    }
                } else {
                    let at = index.index(waiting[member].len());
                    let header = waiting[member].remove(at);
                    members[member].arrive(&header);
                }
            }
            for (member, waiting) in members.iter_mut().zip(&waiting) {
                waiting.iter().for_each(|header| { member.arrive(header); });
            }
            prop_assert!(members.windows(2).all(|pair| pair[0].cells == pair[1].cells));
        }

        #[test]
        fn any_header_is_judged_without_panic(header: Vec<u8>, members in 0_usize..70) {
            let mut part = Versions::new(1, members, 4);
            part.arrive(&header);
            let mut sized = vec![0; part.header_bytes()];
            let len = sized.len().min(header.len());
            sized[..len].copy_from_slice(&header[..len]);
            part.arrive(&sized);
            part.stamp(1, &mut sized);
        }
    }
}
