//! The records of chosen connections and of an interval of time, as a recording of these alone would have them.
//!
//! A recorder that joins an open connection records its state first: windows, buffers, options. So does this:
//! the last state before the interval is at its begin. All other records from outside are left out, and a
//! connection without a record inside is left out as well.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use sockscope_record::{Connection, ConnectionId, FlowId, Kind, Loss, Record, marks};

/// The part of a trace that remains.
#[derive(Debug)]
pub struct Cut {
    connections: BTreeSet<ConnectionId>,
    /// On the clock of the records; `None` for all of them.
    interval_ns: Option<RangeInclusive<u64>>,
    keeps_state: bool,
    /// The last state before the interval, by flow, kind and option.
    state: BTreeMap<(FlowId, Kind, u32), Record>,
    /// Connections that have records in the interval.
    active: BTreeSet<ConnectionId>,
}

impl Cut {
    /// Records of these connections, and of this interval; with the state before it where that is asked for.
    pub fn new(
        connections: BTreeSet<ConnectionId>,
        interval_ns: Option<RangeInclusive<u64>>,
        keeps_state: bool,
    ) -> Self {
        let (state, active) = (BTreeMap::new(), BTreeSet::new());
        Self { connections, interval_ns, keeps_state, state, active }
    }

    /// Those of the next records, in the order of the file, that stay.
    pub fn kept(&mut self, records: &[Record]) -> Vec<Record> {
        records.iter().filter_map(|record| self.keep(record)).collect()
    }

    fn keep(&mut self, record: &Record) -> Option<Record> {
        if record.kind == Kind::Loss {
            return self.loss(record);
        }
        let id = record.flow.connection();
        if !self.connections.contains(&id) {
            return None;
        }
        if let Some(interval_ns) = &self.interval_ns
            && !interval_ns.contains(&record.at_ns)
        {
            if self.keeps_state
                && record.at_ns < *interval_ns.start()
                && let Some(option) = record.state_option()
            {
                self.state.insert((record.flow, record.kind, option), *record);
            }
            return None;
        }
        self.active.insert(id);
        Some(*record)
    }

    /// A loss may touch any connection in its own interval; the part inside the chosen one remains.
    fn loss(&self, record: &Record) -> Option<Record> {
        let Some(interval_ns) = &self.interval_ns else { return Some(*record) };
        let loss = record.loss()?;
        let is_membership = record.is_marked(marks::OF_OTHERS) && record.flow != FlowId::default();
        if is_membership {
            return self.connections.contains(&record.flow.connection()).then_some(*record);
        }
        let since_ns = loss.since_ns.max(*interval_ns.start());
        let at_ns = record.at_ns.min(*interval_ns.end());
        let cut = Loss { since_ns, ..loss };
        (since_ns <= at_ns).then(|| Record { at_ns, ..*record }.with_loss(cut))
    }

    /// The rest after the last record: the state before the interval, and the connections.
    pub fn end(self, connections: &[Connection]) -> (Vec<Record>, Vec<Connection>) {
        let Self { interval_ns, state, active, connections: chosen, .. } = self;
        let Some(interval_ns) = interval_ns else {
            let all = connections.iter().filter(|connection| chosen.contains(&connection.id));
            return (Vec::new(), all.cloned().collect());
        };
        let (from_ns, to_ns) = interval_ns.into_inner();
        let state = state.into_values().filter(|record| active.contains(&record.flow.connection()));
        let state = state.map(|record| Record { at_ns: from_ns, ..record }).collect();
        let stays = connections.iter().filter(|connection| active.contains(&connection.id));
        let cut = |connection: &Connection| Connection {
            preexisting: connection.preexisting || connection.opened_ns < from_ns,
            opened_ns: connection.opened_ns.max(from_ns),
            closed_ns: connection.closed_ns.filter(|closed_ns| *closed_ns <= to_ns),
            ..connection.clone()
        };
        (state, stays.map(cut).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use sockscope_record::Protocol;

    use super::*;

    fn record(connection: u32, kind: Kind, at_ns: u64) -> Record {
        Record { at_ns, flow: FlowId(2 * connection), kind, ..Record::default() }
    }

    fn connection(id: u32, opened_ns: u64, closed_ns: Option<u64>) -> Connection {
        let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
        Connection {
            id: ConnectionId(id),
            protocol: Protocol::Tcp,
            client: nowhere,
            server: nowhere,
            opened_ns,
            closed_ns,
            preexisting: false,
            both_ends_here: true,
            processes: Vec::new(),
            names: None,
            mark: None,
            elsewhere: None,
        }
    }

    fn ids(ids: &[u32]) -> BTreeSet<ConnectionId> {
        ids.iter().map(|id| ConnectionId(*id)).collect()
    }

    #[test]
    fn records_of_other_connections_and_other_times_are_left_out() {
        let mut cut = Cut::new(ids(&[1, 2]), Some(20..=40), true);
        let all: Vec<_> = [(1, 10), (1, 20), (2, 30), (3, 30), (1, 40), (1, 41)]
            .map(|(id, at_ns)| record(id, Kind::SendEnqueue, at_ns))
            .to_vec();
        let kept: Vec<_> = cut.kept(&all).iter().map(|it| (it.flow.0 / 2, it.at_ns)).collect();
        assert_eq!(kept, [(1, 20), (2, 30), (1, 40)]);
    }

    #[test]
    fn the_last_state_before_the_interval_stands_at_its_begin() {
        let mut cut = Cut::new(ids(&[1, 2]), Some(20..=40), true);
        let option = |extra, at_ns| Record { extra, ..record(1, Kind::SocketOption, at_ns) };
        let before = [
            record(1, Kind::SendWindow, 5),
            Record { len: 7, ..record(1, Kind::SendWindow, 6) },
            option(1, 7),
            option(2, 8),
            // Of a connection that is silent in the interval.
            record(2, Kind::SendWindow, 9),
            // No state.
            record(1, Kind::Drop, 9),
        ];
        assert_eq!(cut.kept(&before).len(), 0);
        assert_eq!(cut.kept(&[record(1, Kind::SendEnqueue, 30)]).len(), 1);
        let (state, connections) = cut.end(&[connection(1, 3, Some(50)), connection(2, 3, None)]);
        let state: Vec<_> = state.iter().map(|it| (it.kind, it.extra, it.len, it.at_ns)).collect();
        assert_eq!(
            state,
            [
                (Kind::SendWindow, 0, 7, 20),
                (Kind::SocketOption, 1, 0, 20),
                (Kind::SocketOption, 2, 0, 20)
            ]
        );
        let mut listed = Cut::new(ids(&[1]), Some(20..=40), false);
        assert_eq!((listed.kept(&before).len(), listed.end(&[]).0.len()), (0, 0));
        let [one] = &connections[..] else { panic!("{connections:?}") };
        assert_eq!((one.id.0, one.preexisting, one.opened_ns, one.closed_ns), (1, true, 20, None));
    }

    #[test]
    fn a_connection_that_opens_and_closes_inside_stays_as_it_is() {
        let mut cut = Cut::new(ids(&[1]), Some(20..=40), true);
        cut.kept(&[record(1, Kind::SendEnqueue, 30)]);
        let inside = connection(1, 25, Some(35));
        assert_eq!(cut.end(std::slice::from_ref(&inside)).1, [inside]);
    }

    #[test]
    fn of_a_loss_the_part_inside_stays() {
        let loss = |since_ns, at_ns| {
            Record { at_ns, ..Record::default() }.with_loss(Loss::new(None, 3, since_ns))
        };
        let mut cut = Cut::new(ids(&[1]), Some(20..=40), true);
        let kept = cut.kept(&[loss(1, 19), loss(10, 25), loss(30, 60), loss(41, 60)]);
        let kept: Vec<_> = kept
            .iter()
            .map(|it| (it.loss().unwrap().since_ns, it.at_ns, it.loss().unwrap().count))
            .collect();
        assert_eq!(kept, [(20, 25, 3), (30, 40, 3)]);
        let mut whole = Cut::new(ids(&[1]), None, true);
        assert_eq!(whole.kept(&[loss(1, 19)]), [loss(1, 19)]);
    }
}
