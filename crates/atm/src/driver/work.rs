//! The work of a driver, by kind, so that each can be counted and charged.

use std::fmt;
use std::ops::{Add, Index, IndexMut};

/// One unit of work of a driver.
///
/// Whateley's copy cost is [`Work::is_copy`]: moving the message's own octets. All else is his other
/// cost: setting up, headers, trailers, filler, flushes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Work {
    /// A message on the general path: its headers, its number of cells.
    MessageSetup,
    /// A message on the path for two cells.
    TwoCellSetup,
    /// A turn of the loop over full cells.
    CellLoop,
    /// A sequence number stepped by an addition.
    SequenceStep,
    /// The choice of the case for the last cell by its length.
    FillCase,
    /// The write buffer emptied.
    Flush,
    /// Bus: a cell's header word written.
    HeaderWrite,
    /// Bus: the word with the SAR header written.
    SarHeaderWrite,
    /// Bus: a word of the message written.
    DataWrite,
    /// Bus: a word of filler written.
    FillerWrite,
    /// Bus: a trailer word written.
    TrailerWrite,
    /// Memory: a word of the message read.
    DataLoad,
    /// Memory: the last word of the message read and cut, where less than a word is left.
    DataLoadPart,
    /// Bus: a cell's header word read.
    HeaderRead,
    /// Bus: the word with the SAR header read.
    SarHeaderRead,
    /// Bus: a data word read, filler included.
    DataRead,
    /// Bus: a trailer word read.
    TrailerRead,
    /// Memory: a word of a message stored.
    DataStore,
    /// Bus: a byte written to discard a cell.
    Discard,
    /// Bus: a register read.
    RegisterRead,
    /// Bus: a register written.
    RegisterWrite,
    /// A cell received: the check of its channel and errors, the search for its place.
    CellCheck,
}

impl Work {
    /// Every kind, in the order in which counts are printed.
    pub const ALL: [Self; 22] = [
        Self::MessageSetup,
        Self::TwoCellSetup,
        Self::CellLoop,
        Self::SequenceStep,
        Self::FillCase,
        Self::Flush,
        Self::HeaderWrite,
        Self::SarHeaderWrite,
        Self::DataWrite,
        Self::FillerWrite,
        Self::TrailerWrite,
        Self::DataLoad,
        Self::DataLoadPart,
        Self::HeaderRead,
        Self::SarHeaderRead,
        Self::DataRead,
        Self::TrailerRead,
        Self::DataStore,
        Self::Discard,
        Self::RegisterRead,
        Self::RegisterWrite,
        Self::CellCheck,
    ];

    /// Whether it moves the message's own octets.
    pub const fn is_copy(self) -> bool {
        matches!(
            self,
            Self::DataLoad
                | Self::DataLoadPart
                | Self::DataWrite
                | Self::DataRead
                | Self::DataStore
        )
    }

    /// Whether it is an access to the card.
    pub const fn is_bus(self) -> bool {
        matches!(
            self,
            Self::HeaderWrite
                | Self::SarHeaderWrite
                | Self::DataWrite
                | Self::FillerWrite
                | Self::TrailerWrite
                | Self::HeaderRead
                | Self::SarHeaderRead
                | Self::DataRead
                | Self::TrailerRead
                | Self::Discard
                | Self::RegisterRead
                | Self::RegisterWrite
        )
    }
}

/// A number for each kind of work.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct ByWork([u64; Work::ALL.len()]);

/// The number of units of each kind of work.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct WorkCounts(ByWork);

/// The cost of each kind of work, in nanoseconds, without the wait of an access for the card.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Costs(ByWork);

impl WorkCounts {
    /// Words that crossed the bus, and bytes written to discard a cell.
    pub fn bus_accesses(&self) -> u64 {
        self.sum(|work| work.is_bus())
    }

    /// Words of the message that were moved, each time that they were.
    pub fn copies(&self) -> u64 {
        self.sum(|work| work.is_copy())
    }

    /// The cost of all of it, in nanoseconds: that of copying, and the rest.
    pub fn cost_ns(&self, costs: &Costs) -> (u64, u64) {
        let cost = |is_copy: bool| {
            let kinds = Work::ALL.iter().filter(|work| work.is_copy() == is_copy);
            kinds.map(|&work| self[work].saturating_mul(costs[work])).sum()
        };
        (cost(true), cost(false))
    }

    fn sum(&self, is_meant: impl Fn(&Work) -> bool) -> u64 {
        Work::ALL.iter().filter(|work| is_meant(work)).map(|&work| self[work]).sum()
    }
}

impl Costs {
    /// Every access to the card costs `bus_ns`, all else nothing.
    pub fn of_bus(bus_ns: u64) -> Self {
        let mut costs = Self::default();
        for work in Work::ALL.into_iter().filter(|work| work.is_bus()) {
            costs[work] = bus_ns;
        }
        costs
    }
}

impl Add for WorkCounts {
    type Output = Self;

    fn add(mut self, other: Self) -> Self {
        for work in Work::ALL {
            self[work] += other[work];
        }
        self
    }
}

macro_rules! indexed_by_work {
    ($($name:ident)*) => { $(
        impl Index<Work> for $name {
            type Output = u64;

            fn index(&self, work: Work) -> &u64 {
                &self.0.0[work as usize]
            }
        }

        impl IndexMut<Work> for $name {
            fn index_mut(&mut self, work: Work) -> &mut u64 {
                &mut self.0.0[work as usize]
            }
        }

        impl fmt::Debug for $name {
            /// The kinds that are not 0.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let some = Work::ALL.into_iter().filter(|&work| self[work] != 0);
                f.debug_map().entries(some.map(|work| (work, self[work]))).finish()
            }
        }
    )* };
}

indexed_by_work!(WorkCounts Costs);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lists_every_kind_at_its_place() {
        assert!(Work::ALL.iter().enumerate().all(|(at, &work)| work as usize == at));
    }

    #[test]
    fn costs_are_split_into_copying_and_the_rest() {
        let mut counts = WorkCounts::default();
        (counts[Work::DataLoad], counts[Work::DataWrite], counts[Work::Flush]) = (2, 3, 5);
        let mut costs = Costs::of_bus(40);
        costs[Work::DataLoad] = 100;
        costs[Work::Flush] = 7;
        assert_eq!(counts.cost_ns(&costs), (320, 35));
        assert_eq!((counts.copies(), counts.bus_accesses()), (5, 3));
        assert_eq!(format!("{counts:?}"), "{Flush: 5, DataWrite: 3, DataLoad: 2}");
        assert_eq!((counts + counts)[Work::Flush], 10);
    }
}
