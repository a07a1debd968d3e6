//! Connections that other users ask for by `SO_LOG` while the operator picks some too. They have a share of
//! the recording's limits, and never end the recording.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use sockscope_record::{
    Connection, ConnectionId, Direction, Kind, Loss, LossCounts, Point, Record, marks,
};
use sockscope_trace::{RECORD_BYTES_MAX, connection_bytes_max};

/// The share is a quarter of each limit.
const SHARE: u64 = 4;
/// Bytes of a batch in the trace without its rows.
const BATCH_BYTES: u64 = 4 << 10;
/// The shortest time between two sets of loss records of refused records, and its part of the time since the
/// first refusal: however long others are refused, their losses take little of the limits.
const WRITTEN_EVERY_NS: u64 = 1_000_000_000;
const WRITTEN_EVERY_PART: u64 = 8;

/// The part of the recording that other users have.
#[derive(Debug)]
pub struct Others {
    known: HashMap<ConnectionId, Admission>,
    records_left: u64,
    bytes_left: u64,
    /// What is to be written of the connections that were admitted.
    admitted: Vec<Record>,
    /// What is held back for the next batch of records, and of rows of connections.
    held: [Held; 2],
    refused: LossCounts,
    connections_refused: u64,
    /// What the recorder missed of them.
    missed: LossCounts,
    /// Refused or missed and not written down yet, by kind and marks of a loss record, between these times.
    unwritten: BTreeMap<(Option<Kind>, u8), u64>,
    span_ns: (u64, u64),
    first_refused_ns: Option<u64>,
    latest_ns: u64,
}

/// Whether a connection of others is in the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Admission {
    /// Its first row is not known yet.
    New,
    /// It is, and has so many bytes for its last row.
    Admitted { for_last: u64 },
    /// It is not.
    Refused,
}

/// Whose rows are held back for a batch.
#[derive(Debug, Clone, Copy, Default)]
struct Held {
    theirs: bool,
    operators: bool,
}

/// The two kinds of batches.
const RECORDS: usize = 0;
const CONNECTIONS: usize = 1;

impl Others {
    /// With a share of these limits.
    pub fn new(records_max: Option<u64>, bytes_max: Option<u64>) -> Self {
        Self {
            known: HashMap::new(),
            records_left: records_max.map_or(u64::MAX, |most| most / SHARE),
            bytes_left: bytes_max.map_or(u64::MAX, |most| most / SHARE),
            admitted: Vec::new(),
            held: [Held::default(); 2],
            refused: LossCounts::default(),
            connections_refused: 0,
            missed: LossCounts::default(),
            unwritten: BTreeMap::new(),
            span_ns: (u64::MAX, 0),
            first_refused_ns: None,
            latest_ns: 0,
        }
    }

    /// At most a quarter of the bytes that the disk has free now.
    pub fn limit_to_free(&mut self, bytes: u64) {
        self.bytes_left = self.bytes_left.min(bytes / SHARE);
    }

    /// A connection is theirs.
    pub fn add(&mut self, id: ConnectionId) {
        self.known.insert(id, Admission::New);
    }

    /// Nothing more of a connection follows.
    pub fn remove(&mut self, id: ConnectionId) {
        if let Some(Admission::Admitted { for_last }) = self.known.remove(&id) {
            self.bytes_left = self.bytes_left.saturating_add(for_last);
        }
    }

    /// Records refused so far, and rows of connections as events.
    pub fn refused(&self) -> &LossCounts {
        &self.refused
    }

    /// Connections of which nothing is in the trace.
    pub fn connections_refused(&self) -> u64 {
        self.connections_refused
    }

    /// What the recorder missed of them so far, by loss records that [`Others::admit`] took.
    pub fn missed(&self) -> &LossCounts {
        &self.missed
    }

    /// The records without those that have no share left, and without losses of others, which the recorder gives
    /// at each look and [`Others::losses`] less often.
    pub fn admit<'a>(&mut self, records: &'a [Record]) -> Cow<'a, [Record]> {
        let is_theirs =
            |known: &HashMap<ConnectionId, Admission>, record: &Record| match record.kind {
                Kind::Loss => record.is_marked(marks::OF_OTHERS),
                _ => known.contains_key(&record.flow.connection()),
            };
        if !records.iter().any(|record| is_theirs(&self.known, record)) {
            self.held[RECORDS].operators |= !records.is_empty();
            return Cow::Borrowed(records);
        }
        let mut kept = Vec::with_capacity(records.len());
        for record in records {
            self.latest_ns = self.latest_ns.max(record.at_ns);
            let is_theirs = is_theirs(&self.known, record);
            if is_theirs && let Some(loss) = record.loss() {
                self.missed.add(loss.point(), loss.count);
                self.note_loss(loss, record.marks, record.at_ns);
            } else if is_theirs && !self.admits_record(record) {
                self.refuse(record.kind.point(), record.at_ns);
            } else {
                self.held[RECORDS].note(is_theirs);
                kept.push(*record);
            }
        }
        Cow::Owned(kept)
    }

    fn admits_record(&mut self, record: &Record) -> bool {
        let admission = self.known.get(&record.flow.connection());
        admission != Some(&Admission::Refused) && self.takes(1, RECORD_BYTES_MAX)
    }

    /// Whether a row of a connection is kept. One whose first row is refused has no other row, and no record;
    /// with the first row there is room for the last one, and for what [`Others::memberships`] gives.
    pub fn admits(&mut self, row: &Connection) -> bool {
        let Some(&admission) = self.known.get(&row.id) else {
            self.held[CONNECTIONS].operators = true;
            return true;
        };
        let had = match admission {
            Admission::New => 0,
            Admission::Admitted { for_last } => for_last,
            Admission::Refused => return false,
        };
        let bytes = connection_bytes_max(row);
        let for_last = if row.closed_ns.is_none() { bytes } else { 0 };
        let (records, bytes_of_it) = match admission {
            Admission::New => (1, RECORD_BYTES_MAX),
            _ => (0, 0),
        };
        self.bytes_left += had;
        if self.takes(records, bytes + for_last + bytes_of_it) {
            if admission == Admission::New {
                self.admitted.push(membership(row));
            }
            self.known.insert(row.id, Admission::Admitted { for_last });
            self.held[CONNECTIONS].theirs = true;
            return true;
        }
        self.bytes_left -= had;
        if admission == Admission::New {
            self.known.insert(row.id, Admission::Refused);
            self.connections_refused += 1;
        }
        self.refuse(None, row.closed_ns.unwrap_or(row.opened_ns.max(self.latest_ns)));
        false
    }

    /// For each connection that was admitted since the last call, the record that says whose it is: the losses
    /// that [`Others::losses`] gives touch it.
    pub fn memberships(&mut self) -> Vec<Record> {
        std::mem::take(&mut self.admitted)
    }

    /// What was held back is written. A batch that has rows of others alone is of their share.
    pub fn flushed(&mut self) {
        for held in std::mem::take(&mut self.held) {
            if held.theirs && !held.operators {
                self.bytes_left = self.bytes_left.saturating_sub(BATCH_BYTES);
            }
        }
    }

    /// As [`Others::losses`], now and then; none between.
    pub fn losses_due(&mut self) -> Vec<Record> {
        let is_due = self.span_ns.1.saturating_sub(self.span_ns.0) >= self.written_every_ns();
        if is_due { self.losses() } else { Vec::new() }
    }

    /// Loss records of the records that were refused since the last call.
    pub fn losses(&mut self) -> Vec<Record> {
        let unwritten = std::mem::take(&mut self.unwritten);
        let (since_ns, at_ns) = std::mem::replace(&mut self.span_ns, (u64::MAX, 0));
        let loss = |((of, marks), count)| {
            let refused = Record { at_ns, marks, ..Record::default() };
            refused.with_loss(Loss { since_ns, count, of })
        };
        unwritten.into_iter().map(loss).collect()
    }

    fn written_every_ns(&self) -> u64 {
        let since_ns = self.first_refused_ns.unwrap_or(self.span_ns.1);
        let refused_ns = self.span_ns.1.saturating_sub(since_ns);
        WRITTEN_EVERY_NS.max(refused_ns / WRITTEN_EVERY_PART)
    }

    fn takes(&mut self, records: u64, bytes: u64) -> bool {
        if self.records_left < records || self.bytes_left < bytes {
            return false;
        }
        self.records_left -= records;
        self.bytes_left -= bytes;
        true
    }

    fn refuse(&mut self, point: Option<Point>, at_ns: u64) {
        self.refused.add(point, 1);
        // Positions are known from before they were refused.
        let marks = marks::ANCHORED | marks::OF_OTHERS;
        self.note_loss(Loss::new(point, 1, at_ns), marks, at_ns);
    }

    fn note_loss(&mut self, loss: Loss, marks: u8, until_ns: u64) {
        *self.unwritten.entry((loss.of, marks)).or_default() += loss.count;
        let (first, last) = self.span_ns;
        self.span_ns = (first.min(loss.since_ns), last.max(until_ns));
        self.first_refused_ns.get_or_insert(loss.since_ns);
    }
}

/// Says that the connection is one of others.
fn membership(row: &Connection) -> Record {
    Record {
        at_ns: row.opened_ns,
        flow: row.id.flow(Direction::FromClient),
        marks: marks::ANCHORED | marks::OF_OTHERS,
        ..Record::default()
    }
    .with_loss(Loss::new(None, 0, row.opened_ns))
}

impl Held {
    fn note(&mut self, is_theirs: bool) {
        self.theirs |= is_theirs;
        self.operators |= !is_theirs;
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
            names: None,
            mark: None,
            elsewhere: None,
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
        let Loss { count, of, .. } = loss.loss().unwrap();
        assert_eq!((of, count), (Some(Kind::SendEnqueue), 20));
        assert_eq!((loss.offset, loss.at_ns), (10, 29));
        assert_eq!((loss.flow, loss.marks), (FlowId(0), marks::ANCHORED | marks::OF_OTHERS));
        assert_eq!(others.losses(), []);
    }

    #[test]
    fn however_long_records_are_refused_their_losses_take_little_room() {
        let mut others = Others::new(Some(0), None);
        others.add(ConnectionId(7));
        let mut written = 0;
        for at_ms in 0..10_000 {
            assert_eq!(others.admit(&[record(7, at_ms * 1_000_000)]).len(), 0);
            written += others.losses_due().len();
        }
        assert!((7..=10).contains(&written), "{written}");
        for at_s in 10..100_000 {
            others.admit(&[record(7, at_s * 1_000_000_000)]);
            written += others.losses_due().len();
        }
        assert!(written < 200, "{written}");
        assert_eq!(others.refused().total(), 10_000 + 99_990);
    }

    #[test]
    fn a_connection_of_others_has_room_for_its_last_row_from_its_first_one_on() {
        let bytes = connection_bytes_max(&row(1, None));
        let mut others = Others::new(None, Some(SHARE * 10 * (2 * bytes + RECORD_BYTES_MAX)));
        let kept: Vec<u32> = (1..100)
            .filter(|id| {
                others.add(ConnectionId(*id));
                others.admits(&row(*id, None))
            })
            .collect();
        assert_eq!(kept, (1..=10).collect::<Vec<_>>());
        assert!(others.admits(&row(1_000, None)), "the operator's");
        assert_eq!(others.admit(&[record(5, 1)]).len(), 0);
        assert!(others.admits(&row(5, Some(9))));
        assert!(!others.admits(&row(5, Some(9))), "it had its last row");
        let members: Vec<_> =
            others.memberships().iter().map(|record| record.flow.connection()).collect();
        assert_eq!(members, (1..=10).map(ConnectionId).collect::<Vec<_>>());
        assert_eq!(others.memberships(), []);
        // The last row is not written: its room is another connection's.
        (6..9).for_each(|id| others.remove(ConnectionId(id)));
        others.add(ConnectionId(2_000));
        assert!(others.admits(&row(2_000, None)));
    }

    #[test]
    fn what_the_recorder_misses_of_others_is_written_less_often() {
        let loss = |at_ns: u64, marks| Record {
            at_ns,
            offset: at_ns - 1,
            kind: Kind::Loss,
            detail: 2,
            code: Point::SendEnqueue.number(),
            marks,
            ..Record::default()
        };
        let mut others = Others::new(None, None);
        for at_ns in 1..100 {
            assert_eq!(others.admit(&[loss(at_ns, marks::OF_OTHERS)]).len(), 0);
            assert_eq!(others.admit(&[loss(at_ns, marks::ANCHORED)]).len(), 1, "the operator's");
            assert_eq!(others.losses_due(), []);
        }
        let expected = Record { offset: 0, detail: 198, ..loss(99, marks::OF_OTHERS) };
        assert_eq!(others.losses(), [expected]);
        assert_eq!((others.missed().total(), others.refused().total()), (198, 0));
    }

    #[test]
    fn of_a_connection_whose_first_row_is_refused_nothing_is_kept() {
        let bytes = connection_bytes_max(&row(1, None));
        // The row does not fit, a record would.
        let mut others = Others::new(None, Some(SHARE * (bytes + 2 * RECORD_BYTES_MAX)));
        others.add(ConnectionId(7));
        assert!(!others.admits(&row(7, None)));
        assert_eq!(others.admit(&[record(7, 1)]).len(), 0);
        assert!(!others.admits(&row(7, Some(9))));
        let refused = others.refused();
        assert_eq!((refused.events, refused.total(), others.connections_refused()), (1, 2, 1));
    }

    #[test]
    fn many_short_connections_of_others_leave_the_operator_its_part() {
        let mut others = Others::new(None, Some(1 << 20));
        let mut bytes = 0;
        for id in 1..=20_000 {
            others.add(ConnectionId(id));
            for row in [row(id, None), row(id, Some(9)), row(id, Some(9))] {
                bytes += if others.admits(&row) { connection_bytes_max(&row) } else { 0 };
            }
            others.remove(ConnectionId(id));
        }
        assert!(bytes <= (1 << 20) / SHARE, "{bytes}");
        assert!(others.connections_refused() > 15_000);
        assert_eq!(others.known.len(), 0);
    }

    #[test]
    fn a_batch_with_rows_of_others_alone_is_of_their_share() {
        let mut others = Others::new(None, Some(SHARE * 3 * BATCH_BYTES));
        others.add(ConnectionId(7));
        let mut kept = 0;
        for at_ns in 0..10 {
            kept += others.admit(&[record(7, at_ns)]).len();
            others.flushed();
        }
        assert_eq!(kept, 3);
        let mut others = Others::new(None, Some(SHARE * 3 * BATCH_BYTES));
        others.add(ConnectionId(7));
        for at_ns in 0..10 {
            // The operator's records make a batch in any case.
            assert_eq!(others.admit(&[record(7, at_ns), record(8, at_ns)]).len(), 2);
            others.flushed();
        }
    }

    #[test]
    fn without_limits_others_have_a_quarter_of_the_bytes_that_the_disk_has_free() {
        const FREE: u64 = 1_000 * RECORD_BYTES_MAX;
        let mut others = Others::new(None, None);
        others.add(ConnectionId(7));
        let (mut free, mut theirs) = (FREE, 0);
        for at_ns in 0..1_000 {
            others.limit_to_free(free);
            theirs += others.admit(&[record(7, at_ns)]).len() as u64;
            free = FREE - theirs * RECORD_BYTES_MAX;
        }
        assert!((150..=250).contains(&theirs), "{theirs}");
        // The operator, or another program, has filled it.
        let mut others = Others::new(None, None);
        others.add(ConnectionId(7));
        others.limit_to_free(RECORD_BYTES_MAX);
        assert_eq!(others.admit(&[record(7, 1), record(8, 1)]).len(), 1);
    }

    #[test]
    fn without_any_limit_nothing_of_others_is_refused() {
        let mut others = Others::new(None, None);
        others.add(ConnectionId(7));
        let many = vec![record(7, 1); 1_000];
        assert_eq!(others.admit(&many).len(), 1_000);
        assert!(others.admits(&row(7, None)));
    }
}
