//! Bytes that the kernel dropped and that TCP has not yet sent again.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::vec::IntoIter;

use sockscope_record::Record;

use crate::{DropReasons, FlowStore, drops};

/// The drops of one flow, read up to a time that only moves forward.
///
/// A drop proves the one retransmission of its bytes that follows it, and no later one.
pub(super) struct AwaitingRepair<'a> {
    drops: Peekable<IntoIter<&'a Record>>,
    /// Start to end of each range; ranges do not overlap.
    ranges: BTreeMap<u64, u64>,
}

impl<'a> AwaitingRepair<'a> {
    pub(super) fn new(flow: &'a FlowStore, reasons: &DropReasons) -> Self {
        let drops: Vec<_> = drops::of_segments(flow, reasons).filter(|drop| drop.len > 0).collect();
        Self { drops: drops.into_iter().peekable(), ranges: BTreeMap::new() }
    }

    /// Bytes `offset..end` are transmitted again at `at_ns`: whether the kernel had dropped some of them
    /// since their last transmission.
    pub(super) fn repair(&mut self, at_ns: u64, offset: u64, end: u64) -> bool {
        while let Some(drop) = self.drops.next_if(|drop| drop.at_ns < at_ns) {
            self.take(drop.offset, drop.end());
            self.ranges.insert(drop.offset, drop.end());
            let next = self.ranges.range(drop.offset.saturating_add(1)..).next();
            debug_assert!(next.is_none_or(|(start, _)| drop.end() <= *start));
        }
        self.take(offset, end)
    }

    /// Removes `start..end`; whether any of it was there.
    fn take(&mut self, start: u64, end: u64) -> bool {
        let mut found = false;
        while let Some((&first, &last)) = self.ranges.range(..end).next_back() {
            if last <= start || start >= end {
                break;
            }
            found = true;
            self.ranges.remove(&first);
            if last > end {
                self.ranges.insert(end, last);
            }
            if first < start {
                self.ranges.insert(first, start);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::testing;

    fn empty() -> AwaitingRepair<'static> {
        AwaitingRepair { drops: Vec::new().into_iter().peekable(), ranges: BTreeMap::new() }
    }

    #[test]
    fn a_drop_proves_the_one_retransmission_that_follows() {
        let store = testing::store("5ms drop 0..3000 detail=77 | 9ms drop 0..1000 detail=77");
        let reasons = [(77, "NETFILTER_DROP".to_owned())].into();
        let mut awaiting = AwaitingRepair::new(&store.flows[0], &reasons);
        let times = [(4, 0, 1000), (6, 0, 1000), (7, 0, 1000), (8, 500, 2000), (10, 0, 500)];
        let found = times.map(|(ms, offset, end)| awaiting.repair(ms * 1_000_000, offset, end));
        assert_eq!(found, [false, true, false, true, true]);
    }

    proptest! {
        #[test]
        fn each_byte_is_treated_alone(
            steps in prop::collection::vec((any::<bool>(), 0u64..60, 0u64..20), 0..60),
        ) {
            let (mut awaiting, mut bytes) = (empty(), BTreeSet::new());
            for (is_drop, start, len) in steps {
                let range = start..start + len;
                if is_drop && len > 0 {
                    awaiting.take(range.start, range.end);
                    awaiting.ranges.insert(range.start, range.end);
                    bytes.extend(range);
                } else if !is_drop {
                    let had = range.clone().filter(|byte| bytes.remove(byte)).count() > 0;
                    prop_assert_eq!(awaiting.take(range.start, range.end), had);
                }
            }
            let left = awaiting.ranges.iter().flat_map(|(&start, &end)| start..end);
            prop_assert_eq!(left.collect::<BTreeSet<_>>(), bytes);
        }
    }
}
