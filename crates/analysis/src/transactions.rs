//! Transactions of VMTP, as its engines recorded them.

use sockscope_record::{Direction, Kind, Record};

use crate::{ConnectionStore, Distribution, TransactionSummary};

/// Time of the transactions of a connection and their retransmissions; `None` without a record of
/// them.
pub(crate) fn summarize(store: &ConnectionStore) -> Option<TransactionSummary> {
    let events = || store.flows.iter().flat_map(|flow| flow.events_of(Kind::Transaction));
    let ended = || events().filter_map(|event| Some((event.at_ns, event.transaction()?)));
    let blocks_again = [Direction::FromClient, Direction::FromServer].map(|direction| {
        let events = store.flow(direction).events_of(Kind::BlocksAgain);
        events.filter_map(Record::blocks_again).map(u64::from).sum()
    });
    let any = ended().next().is_some() || blocks_again != [0, 0];
    let answered = ended().filter(|(_, transaction)| transaction.is_answered);
    let total_ns = answered.map(|(at_ns, transaction)| at_ns.saturating_sub(transaction.began_ns));
    any.then(|| TransactionSummary {
        total_ns: Distribution::of(&mut total_ns.collect::<Vec<_>>()),
        failed: ended().filter(|(_, transaction)| !transaction.is_answered).count() as u64,
        blocks_again,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn transactions_are_timed_and_blocks_counted_by_who_sends_them() {
        let store = testing::store(
            "10us transaction detail=4000 +512 | 20us transaction detail=18000 | \
             30us transaction detail=1000 code=1 | 31us blocks-again extra=3 | \
             32us <blocks-again extra=2 | 33us <blocks-again extra=5",
        );
        let summary = summarize(&store).expect("there are some");
        let total_ns = summary.total_ns.expect("two were answered");
        assert_eq!((total_ns.count, total_ns.min, total_ns.max), (2, 2_000, 6_000));
        assert_eq!((summary.failed, summary.blocks_again), (1, [3, 7]));
    }

    #[test]
    fn other_traffic_has_no_transactions() {
        assert_eq!(summarize(&testing::store("1us 1-8 +5")), None);
    }
}
