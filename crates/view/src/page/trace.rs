//! The trace that the page shows: all of one, or the last time of a recording.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use sockscope_analysis::{
    Analysis, ConnectionAnalysis, ConnectionStore, DropReasons, LossInterval, Stores, TraceFacts,
    Window,
};
use sockscope_record::{Connection, ConnectionId, FlowId, Record};
use sockscope_report::Origin;

use super::Refused;
use super::flow::Flow;

/// A trace with what figures of it need, which is made at the first question for it.
#[derive(Debug)]
pub struct Trace {
    name: String,
    origin: Origin,
    held: Held,
    flows: Mutex<HashMap<FlowId, Arc<OnceLock<Flow>>>>,
}

#[derive(Debug)]
enum Held {
    Whole(Box<Whole>),
    Running(Box<Running>),
}

#[derive(Debug)]
struct Whole {
    analysis: Analysis,
    stores: Stores,
}

#[derive(Debug)]
struct Running {
    window: Window,
    /// The analysis before the first record.
    first: Analysis,
    /// Where times count from.
    start_ns: u64,
    missed: u64,
}

impl Trace {
    /// All of a trace.
    pub fn whole(name: String, origin: Origin, analysis: Analysis, stores: Stores) -> Self {
        Self::new(name, origin, Held::Whole(Box::new(Whole { analysis, stores })))
    }

    /// A recording from `start_ns` on, with nothing recorded yet.
    pub fn running(name: String, origin: Origin, facts: TraceFacts, start_ns: u64) -> Self {
        let mut window = Window::new();
        let first = window.refresh(facts, None).clone();
        let running = Running { window, first, start_ns, missed: 0 };
        Self::new(name, origin, Held::Running(Box::new(running)))
    }

    fn new(name: String, origin: Origin, held: Held) -> Self {
        Self { name, origin, held, flows: Mutex::default() }
    }

    /// Takes the next records of a recording.
    pub fn push(&mut self, records: &[Record]) {
        if let Held::Running(running) = &mut self.held {
            running.window.push(records);
        }
    }

    /// Takes the description of a connection of a recording.
    pub fn describe(&mut self, connection: Connection) {
        if let Held::Running(running) = &mut self.held {
            running.window.connection(connection);
        }
    }

    /// Analyses a recording up to `until_ns`, on the clock of its records, from `since_ns` on. `missed` records were
    /// missed so far.
    pub fn refresh(&mut self, facts: TraceFacts, since_ns: u64, until_ns: u64, missed: u64) {
        if let Held::Running(running) = &mut self.held {
            running.window.forget_before(since_ns);
            running.window.refresh(facts, Some(until_ns));
            running.missed = missed;
            self.flows.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
        }
    }

    /// Its name, as `redis` of `redis.sockscope`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its origin.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Records in memory.
    pub fn records(&self) -> usize {
        match &self.held {
            Held::Whole(whole) => usize::try_from(whole.analysis.records).unwrap_or(usize::MAX),
            Held::Running(running) => running.window.records(),
        }
    }

    /// Whether it is of a recording that goes on.
    pub fn is_running(&self) -> bool {
        matches!(self.held, Held::Running(_))
    }

    /// Records that were missed.
    pub fn missed(&self) -> u64 {
        match &self.held {
            Held::Whole(whole) => whole.analysis.facts.missed.total(),
            Held::Running(running) => running.missed,
        }
    }

    /// Its analysis; of a recording, the last one.
    pub fn analysis(&self) -> &Analysis {
        match &self.held {
            Held::Whole(whole) => &whole.analysis,
            Held::Running(running) => running.window.analysis().unwrap_or(&running.first),
        }
    }

    /// The time that others count from, on the clock of the records.
    pub fn start_ns(&self) -> u64 {
        match &self.held {
            Held::Whole(whole) => whole.stores.start_ns,
            Held::Running(running) => running.start_ns,
        }
    }

    pub(super) fn drop_reasons(&self) -> &DropReasons {
        &self.analysis().facts.drop_reasons
    }

    pub(super) fn one(&self, id: ConnectionId) -> Result<&ConnectionAnalysis, Refused> {
        self.analysis().connection(id).ok_or_else(|| absent(id))
    }

    pub(super) fn store(&self, id: ConnectionId) -> Result<&ConnectionStore, Refused> {
        let store = match &self.held {
            Held::Whole(whole) => {
                let stores = &whole.stores;
                let found = stores.connections.binary_search_by_key(&id, |one| one.connection.id);
                found.ok().map(|index| &stores.connections[index])
            }
            Held::Running(running) => running.window.store(id),
        };
        store.ok_or_else(|| absent(id))
    }

    /// Losses that may have touched a connection, by start.
    pub(super) fn losses_of(&self, id: ConnectionId) -> Cow<'_, [LossInterval]> {
        match &self.held {
            Held::Whole(whole) => whole.stores.losses_of(id),
            Held::Running(running) => Cow::Owned(running.window.losses_of(id)),
        }
    }

    /// The flow's curves, from the first question for them on.
    pub(super) fn flow(&self, id: FlowId) -> Result<Arc<OnceLock<Flow>>, Refused> {
        let store = self.store(id.connection())?;
        let slot = {
            let mut flows = self.flows.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(flows.entry(id).or_default())
        };
        // Outside of the lock: others ask for other flows.
        slot.get_or_init(|| {
            let losses = self.losses_of(id.connection());
            Flow::new(store, id.direction(), &losses, self.drop_reasons())
        });
        Ok(slot)
    }

    /// Makes the curves of the flow before the first question for them.
    pub fn prepare(&self, id: FlowId) {
        if let (Ok(slot), Ok(store)) = (self.flow(id), self.store(id.connection()))
            && let Some(flow) = slot.get()
        {
            flow.prepare(store);
        }
    }
}

fn absent(id: ConnectionId) -> Refused {
    Refused::Absent(format!("no connection {} in this trace: it may have ended long ago", id.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::testing::{START_NS, connection, floats, passed};
    use crate::page::{FigureAsked, curves};

    /// The last position that passed point 1 in the first 100 µs, and that of point 2.
    fn last(trace: &Trace) -> Vec<f64> {
        let names = "point1,point2".to_owned();
        let asked = FigureAsked { flow: 2, from: 0.0, to: 100_000.0, columns: 1, names };
        let found = floats(&curves(trace, &asked).unwrap());
        vec![found[3], found[6]]
    }

    #[test]
    fn a_recording_goes_on_and_its_times_count_from_its_start() {
        let facts = TraceFacts::default;
        let mut trace = Trace::running("now".to_owned(), Origin::default(), facts(), START_NS);
        assert!(trace.is_running() && trace.analysis().connections.is_empty());
        assert!(trace.store(ConnectionId(1)).is_err());
        trace.describe(connection(1));
        trace.push(&passed(1, 0, 100, START_NS + 10, START_NS + 20));
        trace.refresh(facts(), START_NS, START_NS + 1_000, 0);
        assert_eq!(last(&trace), [100.0, 100.0]);
        trace.push(&passed(1, 100, 300, START_NS + 2_000, START_NS + 3_000));
        assert_eq!(last(&trace), [100.0, 100.0], "figures are of the last refresh");
        trace.refresh(facts(), START_NS, START_NS + 4_000, 9);
        assert_eq!((last(&trace), trace.missed()), (vec![400.0, 400.0], 9));
    }

    #[test]
    fn a_recording_forgets_what_was_read_long_ago() {
        let facts = TraceFacts::default;
        let mut trace = Trace::running("now".to_owned(), Origin::default(), facts(), START_NS);
        trace.describe(connection(1));
        for call in 0..100 {
            let at_ns = START_NS + call * 1_000;
            trace.push(&passed(1, call * 100, 100, at_ns, at_ns + 500));
        }
        trace.refresh(facts(), START_NS, START_NS + 100_000, 0);
        assert_eq!(trace.records(), 800);
        trace.refresh(facts(), START_NS + 50_000, START_NS + 101_000, 0);
        assert!((400..500).contains(&trace.records()), "{}", trace.records());
    }
}
