//! The analysis of a stream of records that has no end: of those since a time that moves on.
//!
//! [`Window::refresh`] analyses again the connections that changed. [`Window::forget_before`] drops records of bytes
//! that were read before a time. Bytes that are unread then stay, with the time at which they were written, and so does
//! the state of each end: its options, its buffers, its window. So the memory is that of the records since then, and of
//! the bytes in socket buffers.
//!
//! A recorder that runs for months sees thousands of connections that do nothing. [`Window::of_active`] sets them aside,
//! so that they cost no time until their next record.

mod forget;
mod kept;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use sockscope_record::{Connection, ConnectionId, Record};

use self::kept::Kept;
use crate::assembly::{One, SeenLosses, Tally, is_of_connection, join};
use crate::openings::{Established, Openings};
use crate::record_loss_times::TraceLosses;
use crate::timeline::by_start;
use crate::{Analysis, ConnectionStore, LossInterval, TraceFacts};

/// Records of the last seconds, and their [`Analysis`].
///
/// Before the first call of [`forget_before`](Self::forget_before) the analysis is that of an
/// [`Analyzer`](crate::Analyzer), for any sizes of the batches.
#[derive(Debug, Default)]
pub struct Window {
    connections: BTreeMap<ConnectionId, Kept>,
    /// Set aside: in them nothing moves and nothing waits. `None` where all stay.
    idle: Option<BTreeMap<ConnectionId, Kept>>,
    losses: SeenLosses,
    established: Established,
    openings: Openings,
    tally: Tally,
    /// Records before it were dropped, unless their bytes were unread; `None` before the first time.
    since_ns: Option<u64>,
    analysis: Option<Analysis>,
    changed: Changed,
}

/// Changes since the last analysis that concern several connections.
#[derive(Debug, Default, Clone, Copy)]
struct Changed {
    losses: bool,
    openings: bool,
    /// Connections were dropped.
    dropped: bool,
}

impl Window {
    /// With nothing read yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same, and its analyses leave idle connections out: those in whose window nothing passed, with no unread byte,
    /// no open request and no finding. They have no ledger then.
    pub fn of_active() -> Self {
        Self { idle: Some(BTreeMap::new()), ..Self::default() }
    }

    /// Takes the next batch of records, nearly in time order. A record whose position overflows 64 bits is counted in
    /// a note and left out.
    pub fn push(&mut self, records: &[Record]) {
        for record in records {
            if is_of_connection(record, &mut self.tally, &mut self.losses) {
                self.changed.openings |= self.established.look(record);
                self.kept(record.flow.connection()).push(record);
            } else {
                self.changed.losses = true;
            }
        }
    }

    /// Takes the description of a connection; the last one for an id counts.
    pub fn connection(&mut self, connection: Connection) {
        self.changed.openings = true;
        self.kept(connection.id).describe(connection);
    }

    fn kept(&mut self, id: ConnectionId) -> &mut Kept {
        let idle = &mut self.idle;
        self.connections.entry(id).or_insert_with(|| {
            let idle = idle.as_mut().and_then(|idle| idle.remove(&id));
            idle.unwrap_or_else(|| Kept::new(id))
        })
    }

    /// All connections, those set aside last.
    fn all(&self) -> impl Iterator<Item = &Kept> {
        self.connections.values().chain(self.idle.iter().flat_map(BTreeMap::values))
    }

    /// Records in memory.
    pub fn records(&self) -> usize {
        self.all().map(Kept::records).sum()
    }

    /// Records of one connection, each list in time order; `None` where the window has none of it.
    ///
    /// Those pushed after the last [`refresh`](Self::refresh) may be out of order.
    pub fn store(&self, id: ConnectionId) -> Option<&ConnectionStore> {
        let idle = || self.idle.as_ref()?.get(&id);
        self.connections.get(&id).or_else(idle).map(|kept| &kept.store)
    }

    /// Losses that may have touched this connection, by start.
    pub fn losses_of(&self, id: ConnectionId) -> Vec<LossInterval> {
        let of_others = &self.losses.of_others;
        let theirs = of_others.connections.contains(&id).then_some(&of_others.losses);
        by_start(self.losses.all.iter().chain(theirs.into_iter().flatten()).copied().collect())
    }

    /// The analysis of the records so far. `now_ns`, on the clock of the records, is the end of all ledgers: a byte
    /// that is unread now waits until now. Without it a ledger ends with the last record of its connection.
    pub fn refresh(&mut self, facts: TraceFacts, now_ns: Option<u64>) -> &Analysis {
        self.losses.sort();
        let nameless = self.connections.values().filter(|kept| !kept.is_described).count();
        let before = self.analysis.take();
        let names_changed = before.as_ref().is_none_or(|before| {
            before.facts.drop_reasons != facts.drop_reasons
                || before.facts.network_namespaces != facts.network_namespaces
        });
        // An open request waits until now.
        let facts = TraceFacts { ended_ns: now_ns.or(facts.ended_ns), ..facts };
        let mut analysis = self.tally.into_analysis(facts, nameless);
        let start_ns = self.since_ns.unwrap_or(analysis.start_ns);
        let window_ns = now_ns.map(|now_ns| (start_ns.min(now_ns), now_ns));
        let losses = TraceLosses::new(&self.losses.all, &self.losses.of_others);
        if self.changed.openings || self.changed.dropped {
            let described = self.all().filter(|kept| kept.is_described);
            self.openings =
                Openings::new(described.map(|kept| &kept.store.connection), &self.established);
        }
        let (facts, end_ns) = (&analysis.facts, analysis.end_ns());
        let mut known = before.map(|before| before.connections).unwrap_or_default().into_iter();
        let mut next = known.next();
        let mut all = Vec::with_capacity(self.connections.len());
        let mut newly_idle = Vec::new();
        for (id, kept) in &mut self.connections {
            while next.as_ref().is_some_and(|one| one.connection.id < *id) {
                next = known.next();
            }
            let old = if next.as_ref().is_some_and(|one| one.connection.id == *id) {
                std::mem::replace(&mut next, known.next())
            } else {
                None
            };
            let is_touched = self.changed.losses || names_changed;
            let old = old.filter(|_| !is_touched && !kept.needs(self.changed.openings));
            let one = match old {
                Some(old) => kept.again(old, window_ns),
                None => {
                    kept.sort();
                    kept.set_window(window_ns);
                    let losses = losses.of(&kept.store.connection);
                    let one = One::of(&kept.store, losses, facts, end_ns, &self.openings);
                    kept.keep(one, end_ns)
                }
            };
            if self.idle.is_some() && kept.is_idle() {
                newly_idle.push(*id);
            } else {
                all.push(one);
            }
        }
        for id in newly_idle {
            let (kept, idle) = (self.connections.remove(&id), &mut self.idle);
            kept.and_then(|kept| idle.as_mut()?.insert(id, kept));
        }
        join(&mut analysis, all);
        self.changed = Changed::default();
        self.analysis.insert(analysis)
    }

    /// The last analysis; `None` before the first one.
    pub fn analysis(&self) -> Option<&Analysis> {
        self.analysis.as_ref()
    }

    /// Drops the records before this time, on their clock, of bytes that were read by then; connections that closed
    /// before it are dropped whole. Analyses are from this time on. Earlier times than before change nothing.
    pub fn forget_before(&mut self, at_ns: u64) {
        if self.since_ns.is_some_and(|since_ns| since_ns >= at_ns) {
            return;
        }
        self.since_ns = Some(at_ns);
        let tally = &mut self.tally;
        let before = self.connections.len();
        self.connections.retain(|_, kept| kept.forget_before(at_ns, tally));
        let (connections, idle) = (&self.connections, self.idle.as_ref());
        let is_kept =
            |id| connections.contains_key(&id) || idle.is_some_and(|idle| idle.contains_key(&id));
        if connections.len() < before {
            self.changed.dropped = true;
            self.established.retain(is_kept);
            self.losses.of_others.connections.retain(|id| is_kept(*id));
        }
        let losses = &mut self.losses;
        let count = losses.all.len() + losses.of_others.losses.len();
        losses.all.retain(|loss| loss.end_ns >= at_ns);
        losses.of_others.losses.retain(|loss| loss.end_ns >= at_ns);
        let left = losses.all.len() + losses.of_others.losses.len();
        self.changed.losses |= left < count;
        tally.records = tally.records.saturating_sub((count - left) as u64);
        tally.span_ns = tally.span_ns.map(|(first, last)| (first.max(at_ns), last.max(at_ns)));
    }
}
