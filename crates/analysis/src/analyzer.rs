//! From records to an [`Analysis`]: takes batches in file order, then works connection by connection.
//!
//! Records need only be nearly in time order. They are sorted by connection as they arrive; [`Analyzer::finish`] frees
//! each connection's records before it starts on the next.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::num::NonZeroUsize;

use sockscope_record::{Connection, ConnectionId, FlowId, Point, Record};

use crate::assembly::{One, SeenLosses, Tally, is_of_connection, join, undescribed};
use crate::connection::FlowParts;
use crate::openings::{Established, Openings};
use crate::record_buffer::RecordBuffer;
use crate::record_loss_times::TraceLosses;
use crate::timeline::by_start;
use crate::{
    Analysis, ConnectionStore, DropReasons, FlowStore, LossInterval, NamespaceNames, OfOthers,
    Passage, TraceFacts, parallel,
};

/// Takes the records of one trace and computes their [`Analysis`].
///
/// Order of calls: [`push`](Self::push) and [`connection`](Self::connection) in any order, then one of the methods
/// that consume it.
#[derive(Debug, Default)]
pub struct Analyzer {
    entries: Vec<Entry>,
    entry_of: HashMap<u32, usize>,
    /// The entry of the last record: neighbours mostly belong to one connection.
    last: Option<(u32, usize)>,
    losses: SeenLosses,
    established: Established,
    tally: Tally,
}

/// The trace's records sorted by connection, flow and point, for figures and listings.
#[derive(Debug, Clone, PartialEq)]
pub struct Stores {
    /// Time of the trace's first record, from which reports and figures count.
    pub start_ns: u64,
    /// Every connection, by id.
    pub connections: Vec<ConnectionStore>,
    /// Losses that may have touched any connection, by start.
    pub losses: Vec<LossInterval>,
    /// Connections that miss more than that.
    pub of_others: OfOthers,
    /// Names of the numbers in `Drop` records; none from [`Analyzer::into_stores`], which knows no facts.
    pub drop_reasons: DropReasons,
    /// Names of network namespaces.
    pub network_namespaces: NamespaceNames,
}

impl Stores {
    /// The flow that carried most bytes, the first of equals; `None` without connections.
    pub fn largest_flow(&self) -> Option<FlowId> {
        let carried = |flow: &FlowStore| {
            let last_seen = Point::ALL.into_iter().filter_map(|point| flow.at(point).last());
            last_seen.map(Passage::end).max().unwrap_or(0)
        };
        let flows = self.connections.iter().flat_map(|store| &store.flows);
        flows.max_by_key(|flow| (carried(flow), Reverse(flow.id))).map(|flow| flow.id)
    }

    /// Losses that may have touched this connection, by start.
    pub fn losses_of(&self, id: ConnectionId) -> Cow<'_, [LossInterval]> {
        if self.of_others.connections.contains(&id) {
            Cow::Owned(self.all_losses())
        } else {
            Cow::Borrowed(&self.losses)
        }
    }

    /// Losses that may have touched some connection, by start.
    pub fn all_losses(&self) -> Vec<LossInterval> {
        by_start(self.losses.iter().chain(&self.of_others.losses).copied().collect())
    }
}

#[derive(Debug)]
struct Entry {
    id: ConnectionId,
    connection: Option<Connection>,
    buffer: RecordBuffer,
}

impl Analyzer {
    /// With nothing read yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next batch of records, in file order. A record whose position overflows 64 bits is
    /// counted in a note and left out.
    pub fn push(&mut self, records: &[Record]) {
        for record in records {
            if is_of_connection(record, &mut self.tally, &mut self.losses) {
                self.established.look(record);
                let index = self.entry(record.flow.connection());
                self.entries[index].buffer.push(*record);
            }
        }
    }

    /// Takes the description of a connection; the last one for an id counts.
    pub fn connection(&mut self, connection: Connection) {
        let index = self.entry(connection.id);
        self.entries[index].connection = Some(connection);
    }

    /// Records of the `count` connections that have most: the memory of an analysis by as many threads grows with them.
    pub fn largest(&self, count: usize) -> u64 {
        let mut sizes: Vec<u64> = self.entries.iter().map(|entry| entry.buffer.len()).collect();
        sizes.sort_unstable_by_key(|records| Reverse(*records));
        sizes.iter().take(count).sum()
    }

    /// Analyses everything on this thread, freeing records as it goes.
    pub fn finish(self, facts: TraceFacts) -> Analysis {
        self.finish_on(facts, NonZeroUsize::MIN)
    }

    /// As [`Analyzer::finish`], on as many threads: each of them works on one connection at a time.
    pub fn finish_on(mut self, facts: TraceFacts, threads: NonZeroUsize) -> Analysis {
        let established = std::mem::take(&mut self.established);
        let (mut analysis, entries, losses) = self.prepare(facts);
        let losses = TraceLosses::new(&losses.all, &losses.of_others);
        let openings = openings(&entries, &established);
        let (facts, end_ns) = (&analysis.facts, analysis.end_ns());
        let analyze = |entry: Entry| {
            let store = entry.into_store();
            One::of(&store, losses.of(&store.connection), facts, end_ns, &openings)
        };
        let all = parallel::map(entries, threads, analyze);
        join(&mut analysis, all);
        analysis
    }

    /// As [`Analyzer::finish`], and shows the parts of each flow to `each` before it frees them.
    pub fn finish_each(
        mut self,
        facts: TraceFacts,
        mut each: impl FnMut(&FlowParts<'_>),
    ) -> Analysis {
        let established = std::mem::take(&mut self.established);
        let (mut analysis, entries, losses) = self.prepare(facts);
        let losses = TraceLosses::new(&losses.all, &losses.of_others);
        let openings = openings(&entries, &established);
        let (facts, end_ns) = (&analysis.facts, analysis.end_ns());
        let analyze = |entry: Entry| {
            let store = entry.into_store();
            let losses = losses.of(&store.connection);
            One::with_parts(&store, losses, facts, end_ns, &openings, &mut each)
        };
        let all = entries.into_iter().map(analyze).collect();
        join(&mut analysis, all);
        analysis
    }

    /// As [`Analyzer::finish_on`], and keeps the sorted records: 40 bytes for each.
    pub fn finish_keeping(
        mut self,
        facts: TraceFacts,
        threads: NonZeroUsize,
    ) -> (Analysis, Stores) {
        let established = std::mem::take(&mut self.established);
        let (mut analysis, entries, losses) = self.prepare(facts);
        let by_connection = TraceLosses::new(&losses.all, &losses.of_others);
        let openings = openings(&entries, &established);
        let connections: Vec<_> = entries.into_iter().map(Entry::into_store).collect();
        let (facts, end_ns) = (&analysis.facts, analysis.end_ns());
        let analyze = |store: &ConnectionStore| {
            One::of(store, by_connection.of(&store.connection), facts, end_ns, &openings)
        };
        let all = parallel::map(connections.iter().collect(), threads, analyze);
        join(&mut analysis, all);
        let TraceFacts { drop_reasons, network_namespaces, .. } = analysis.facts.clone();
        let start_ns = analysis.start_ns;
        let SeenLosses { all: losses, of_others } = losses;
        let stores =
            Stores { start_ns, connections, losses, of_others, drop_reasons, network_namespaces };
        (analysis, stores)
    }

    /// Sorts the records and analyses nothing.
    pub fn into_stores(self) -> Stores {
        let (analysis, entries, losses) = self.prepare(TraceFacts::default());
        let connections = entries.into_iter().map(Entry::into_store).collect();
        Stores {
            start_ns: analysis.start_ns,
            connections,
            losses: losses.all,
            of_others: losses.of_others,
            drop_reasons: DropReasons::new(),
            network_namespaces: NamespaceNames::new(),
        }
    }

    fn entry(&mut self, id: ConnectionId) -> usize {
        if let Some((last_id, index)) = self.last
            && last_id == id.0
        {
            return index;
        }
        let index = *self.entry_of.entry(id.0).or_insert_with(|| {
            self.entries.push(Entry { id, connection: None, buffer: RecordBuffer::default() });
            self.entries.len() - 1
        });
        self.last = Some((id.0, index));
        index
    }

    /// The analysis without its connections, and the inputs of these.
    fn prepare(self, facts: TraceFacts) -> (Analysis, Vec<Entry>, SeenLosses) {
        let Self { mut entries, mut losses, tally, .. } = self;
        entries.sort_unstable_by_key(|entry| entry.id);
        losses.sort();
        let nameless = entries.iter().filter(|entry| entry.connection.is_none()).count();
        (tally.into_analysis(facts, nameless), entries, losses)
    }
}

/// The connections that opened, for the findings on others to the same server.
fn openings(entries: &[Entry], established: &Established) -> Openings {
    let described = entries.iter().filter_map(|entry| entry.connection.as_ref());
    Openings::new(described, established)
}

impl Entry {
    fn into_store(self) -> ConnectionStore {
        let connection = self.connection.unwrap_or_else(|| undescribed(self.id));
        self.buffer.into_store(connection)
    }
}

#[cfg(test)]
mod tests {
    use sockscope_record::{Direction, Loss, Stage, marks};

    use super::*;
    use crate::testing;

    fn span(text: &str, ended_ns: Option<u64>) -> (u64, u64) {
        let mut analyzer = Analyzer::new();
        analyzer.push(&testing::records(text));
        let analysis = analyzer.finish(TraceFacts { ended_ns, ..TraceFacts::default() });
        (analysis.start_ns, analysis.duration_ns)
    }

    #[test]
    fn each_flow_is_shown_with_the_parts_of_its_analysis() {
        let analyzer = || {
            let mut analyzer = Analyzer::new();
            analyzer.connection(testing::connection(1));
            analyzer.push(&testing::records(
                "10us 1 +100 | 12us 2-4 +100 | 14us 5-7 +100 | 15us 8 +100",
            ));
            analyzer
        };
        let (kept, stores) = analyzer().finish_keeping(TraceFacts::default(), NonZeroUsize::MIN);
        let delays = |curves: &crate::FlowCurves| {
            let mut all = Vec::new();
            for stage in Stage::ALL {
                curves.each_delay(stage, |it| all.push((stage, it)));
            }
            all
        };
        let mut shown = Vec::new();
        let analysis = analyzer().finish_each(TraceFacts::default(), |flow| {
            shown.push((flow.direction, delays(flow.curves), flow.ledger.to_vec()));
        });
        assert_eq!(analysis, kept);
        let store = &stores.connections[0];
        let expected = [Direction::FromClient, Direction::FromServer].map(|direction| {
            let curves =
                crate::FlowCurves::new(store, direction, &stores.losses, &stores.drop_reasons);
            (direction, delays(&curves), crate::ledger_spans(store, direction, &curves))
        });
        assert_eq!(shown, expected);
        assert_eq!(shown[0].1.len(), 8, "a run of bytes at each stage");
    }

    #[test]
    fn a_loss_of_others_touches_their_connections_alone() {
        let loss = |at_ns, marks, flow| {
            let record = Record { at_ns, flow, marks, ..Record::default() };
            record.with_loss(Loss::new(Some(Point::InputDequeue), 1, 0))
        };
        let [theirs, own] = [1, 2].map(ConnectionId);
        let mut analyzer = Analyzer::new();
        [theirs, own].into_iter().for_each(|id| analyzer.connection(undescribed(id)));
        analyzer.push(&[
            loss(30, marks::OF_OTHERS, FlowId::default()),
            loss(20, 0, FlowId::default()),
            loss(10, marks::OF_OTHERS, theirs.flow(Direction::FromClient)),
        ]);
        let (_, stores) = analyzer.finish_keeping(TraceFacts::default(), NonZeroUsize::MIN);
        let ends =
            |losses: &[LossInterval]| losses.iter().map(|loss| loss.end_ns).collect::<Vec<_>>();
        assert_eq!(ends(&stores.losses_of(own)), [20]);
        assert_eq!(ends(&stores.losses_of(theirs)), [20, 30]);
        let losses = TraceLosses::new(&stores.losses, &stores.of_others);
        assert_eq!(ends(&losses.of(&undescribed(own)).intervals), [20]);
        assert_eq!(ends(&losses.of(&undescribed(theirs)).intervals), [20, 30]);
    }

    #[test]
    fn a_trace_ends_with_the_command_and_not_with_its_last_record() {
        let text = "10us 1 +100 | 30us 2 +100";
        assert_eq!(span(text, None), (10_000, 20_000));
        assert_eq!(span(text, Some(1_500_000_000)), (10_000, 1_499_990_000));
        assert_eq!(span(text, Some(20_000)), (10_000, 20_000), "records come after it");
        assert_eq!(span("", Some(20_000)), (0, 0), "there is no first record");
    }

    #[test]
    fn an_analysis_is_the_same_on_any_number_of_threads() {
        let calls = |id: u64| -> String {
            let call = |number| {
                let asked = 1_000_000 * number + 100 * id;
                let answered = asked + 20 + 90_000 * id;
                testing::call([asked, asked + 20, answered, answered + 30], [7, 8])
            };
            (0..id % 4 * 10 + 1).map(call).collect::<Vec<_>>().join(" | ")
        };
        // Different callers of one server; each answer takes longer than the one before.
        let ends = |id| format!("{} > 90", 10 + id);
        let connections: Vec<_> = (1..=10).map(|id| (ends(id), calls(id))).collect();
        let connections: Vec<_> =
            connections.iter().map(|(ends, calls)| (ends.as_str(), calls)).collect();
        let on = |threads| {
            let threads = NonZeroUsize::new(threads).unwrap();
            testing::analyzer_of_all(&connections).finish_on(TraceFacts::default(), threads)
        };
        let alone = on(1);
        let ids: Vec<u32> = alone.connections.iter().map(|one| one.connection.id.0).collect();
        assert_eq!(ids, (1..=10).collect::<Vec<_>>());
        assert!(alone.connections.iter().any(|one| !one.findings.is_empty()));
        assert!([2, 3, 64].into_iter().all(|threads| on(threads) == alone));
    }
}
