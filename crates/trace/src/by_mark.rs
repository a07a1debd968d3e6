//! Connections of two hosts that have the same number in the mark of their SYN.
//!
//! A translator of addresses (NAT) between the hosts changes addresses and ports, and leaves TCP's options as they are.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use sockscope_record::{Connection, Side};

/// Pairs by their numbers.
#[derive(Debug)]
pub(crate) struct ByMark {
    /// For connections of the second host, by index, the index of the same one at the first host.
    pub(crate) partners: BTreeMap<usize, usize>,
    /// Numbers that several connections of one host have. They say nothing.
    pub(crate) ambiguous: BTreeSet<u64>,
}

impl ByMark {
    /// Of the rows that may have a counterpart.
    pub(crate) fn new(
        first: &[Connection],
        second: &[Connection],
        may_match: impl Fn(&Connection) -> bool,
    ) -> Self {
        let mut ambiguous = BTreeSet::new();
        let [rows_first, rows_second] = [first, second].map(|rows| {
            let mut by_number = HashMap::new();
            for (index, row) in rows.iter().enumerate().filter(|(_, row)| may_match(row)) {
                let Some(number) = row.mark else { continue };
                if by_number.insert(number, index).is_some() {
                    ambiguous.insert(number);
                }
            }
            by_number
        });
        let pairs = rows_second.iter().filter(|(number, _)| !ambiguous.contains(number));
        let pairs = pairs.filter_map(|(number, &index)| Some((index, *rows_first.get(number)?)));
        let may_be_one = |&(index, partner): &(usize, usize)| {
            [Side::Client, Side::Server]
                .into_iter()
                .all(|side| ![&first[partner], &second[index]].iter().all(|row| has(row, side)))
        };
        Self { partners: pairs.filter(may_be_one).collect(), ambiguous }
    }

    /// The number by which a connection differs from all others.
    pub(crate) fn number(&self, row: &Connection) -> Option<u64> {
        row.mark.filter(|number| !self.ambiguous.contains(number))
    }
}

/// Whether a process of its host has this end. Two hosts do not have the same end.
fn has(row: &Connection, side: Side) -> bool {
    row.processes.iter().any(|process| process.side == side)
}
