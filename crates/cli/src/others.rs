//! Connections that other users ask for by `SO_LOG` while the operator picks some too. They have a share of
//! the recording's limits, and never end the recording.

use std::borrow::Cow;
use std::collections::HashSet;

use sockscope_record::{Connection, ConnectionId, Kind, LossCounts, Point, Record, marks};

/// The share is a quarter of each limit.
const SHARE: u64 = 4;
/// Bytes of a record in the trace and of a row of a connection, as counted for the share.
const RECORD_BYTES: u64 = 48;
const CONNECTION_BYTES: u64 = 384;
/// The shortest time between two loss records of refused records.
const WRITTEN_EVERY_NS: u64 = 1_000_000_000;

/// The part of the recording that other users have.
#[derive(Debug)]
pub struct Others {
    known: HashSet<ConnectionId>,
    records_left: u64,
    bytes_left: u64,
    refused: LossCounts,
    /// Refused and not written down yet, between these times.
    unwritten: LossCounts,
    span_ns: (u64, u64),
}

impl Others {
    /// With a share of these limits.
    pub fn new(records_max: Option<u64>, bytes_max: Option<u64>) -> Self {
        Self {
            known: HashSet::new(),
            records_left: records_max.map_or(u64::MAX, |most| most / SHARE),
            bytes_left: bytes_max.map_or(u64::MAX, |most| most / SHARE),
            refused: LossCounts::default(),
            unwritten: LossCounts::default(),
            span_ns: (u64::MAX, 0),
        }
    }

    /// A connection is theirs.
    pub fn add(&mut self, id: ConnectionId) {
        self.known.insert(id);
    }

    /// Nothing more of a connection follows.
    pub fn remove(&mut self, id: ConnectionId) {
        self.known.remove(&id);
    }

    /// Records refused so far.
    pub fn refused(&self) -> &LossCounts {
        &self.refused
    }

    /// The records without those that have no share left; in their place, now and then, their loss.
    pub fn admit<'a>(&mut self, records: &'a [Record]) -> Cow<'a, [Record]> {
        let is_theirs = |known: &HashSet<ConnectionId>, record: &Record| {
            record.kind != Kind::Loss && known.contains(&record.flow.connection())
        };
        if self.known.is_empty() || !records.iter().any(|record| is_theirs(&self.known, record)) {
            return Cow::Borrowed(records);
        }
        let mut kept = Vec::with_capacity(records.len());
        for record in records {
            if is_theirs(&self.known, record) && !self.takes(1, RECORD_BYTES) {
                self.refuse(record);
            } else {
                kept.push(*record);
            }
        }
        if self.span_ns.1.saturating_sub(self.span_ns.0) >= WRITTEN_EVERY_NS {
            kept.extend(self.losses());
        }
        Cow::Owned(kept)
    }

    /// Whether a row of a connection is kept.
    pub fn admits(&mut self, row: &Connection) -> bool {
        if !self.known.contains(&row.id) {
            return true;
        }
        // The room of the last row was taken when it opened.
        row.closed_ns.is_some() || self.takes(0, CONNECTION_BYTES)
    }

    /// Loss records of the records that were refused since the last call.
    pub fn losses(&mut self) -> Vec<Record> {
        let unwritten = std::mem::take(&mut self.unwritten);
        let (offset, at_ns) = std::mem::replace(&mut self.span_ns, (u64::MAX, 0));
        let of_points = Point::ALL.into_iter().zip(unwritten.points);
        let of_points = of_points.map(|(point, count)| (point.number(), count));
        let all = of_points.chain([(Kind::Loss as u8, unwritten.events)]);
        all.filter(|(_, count)| *count > 0)
            .map(|(code, detail)| Record {
                at_ns,
                offset,
                detail,
                kind: Kind::Loss,
                code,
                // Positions are known from before they were refused.
                marks: marks::ANCHORED,
                ..Record::default()
            })
            .collect()
    }

    fn takes(&mut self, records: u64, bytes: u64) -> bool {
        if self.records_left < records || self.bytes_left < bytes {
            return false;
        }
        self.records_left -= records;
        self.bytes_left -= bytes;
        true
    }

    fn refuse(&mut self, record: &Record) {
        self.refused.add(record.kind.point(), 1);
        self.unwritten.add(record.kind.point(), 1);
        let (first, last) = self.span_ns;
        self.span_ns = (first.min(record.at_ns), last.max(record.at_ns));
    }
}

#[cfg(test)]
mod tests {
    use sockscope_record::{FlowId, Protocol};

    use super::*;

    fn record(connection: u32, at_ns: u64) -> Record {
        Record { at_ns, flow: FlowId(2 * connection), kind: Kind::SendEnqueue, ..Record::default() }
    }

    fn row(id: u32, closed_ns: Option<u64>) -> Connection {
        let nowhere = ([0, 0, 0, 0], 0).into();
        Connection {
            id: ConnectionId(id),
            protocol: Protocol::Tcp,
            client: nowhere,
            server: nowhere,
            opened_ns: 0,
            closed_ns,
            preexisting: false,
            both_ends_here: false,
            processes: Vec::new(),
        }
    }

    #[test]
    fn beyond_their_share_records_of_others_are_refused_and_the_operators_stay() {
        let mut others = Others::new(Some(40), None);
        others.add(ConnectionId(7));
        let both: Vec<_> = (0..30).flat_map(|at_ns| [record(7, at_ns), record(8, at_ns)]).collect();
        let kept = others.admit(&both).into_owned();
        let of = |id: u32| kept.iter().filter(|record| record.flow == FlowId(2 * id)).count();
        assert_eq!((of(7), of(8), others.refused().total()), (10, 30, 20));
        let losses = others.losses();
        let [loss] = losses[..] else { panic!("{losses:?}") };
        assert_eq!((loss.code, loss.detail), (Point::SendEnqueue.number(), 20));
        assert_eq!((loss.offset, loss.at_ns), (10, 29));
        assert_eq!(others.losses(), []);
    }

    #[test]
    fn however_many_are_refused_their_losses_take_a_bounded_room() {
        let mut others = Others::new(Some(0), None);
        others.add(ConnectionId(7));
        let mut written = 0;
        for at_ms in 0..10_000 {
            written += others.admit(&[record(7, at_ms * 1_000_000)]).len();
        }
        assert!((8..=10).contains(&written), "{written}");
        assert_eq!(others.refused().total(), 10_000);
    }

    #[test]
    fn connections_of_others_take_of_their_share_of_bytes() {
        let mut others = Others::new(None, Some(SHARE * 10 * CONNECTION_BYTES));
        let kept = (1..100).filter(|id| {
            others.add(ConnectionId(*id));
            others.admits(&row(*id, None))
        });
        assert_eq!(kept.count(), 10);
        assert!(others.admits(&row(5, Some(9))) && others.admits(&row(1_000, None)));
        assert_eq!(others.admit(&[record(5, 1)]).len(), 0);
    }

    #[test]
    fn of_connections_that_are_over_nothing_is_kept() {
        let mut others = Others::new(Some(4), None);
        for id in 1..1_000 {
            others.add(ConnectionId(id));
            others.remove(ConnectionId(id));
        }
        assert_eq!(others.known.len(), 0);
    }

    #[test]
    fn without_limits_nothing_of_others_is_refused() {
        let mut others = Others::new(None, None);
        others.add(ConnectionId(7));
        let many = vec![record(7, 1); 1_000];
        assert_eq!(others.admit(&many).len(), 1_000);
        assert!(others.admits(&row(7, None)));
    }
}
