//! The numbers of the hosts of records.

use sockscope_record::{Connection, ConnectionId, Record, Side};

/// The hosts of the two ends of each connection of which one is known, by ascending number of the connection.
#[derive(Debug, Default)]
pub(crate) struct Hosts(Vec<(ConnectionId, [Option<u32>; 2])>);

impl Hosts {
    /// Of connections by ascending number.
    pub fn of(connections: &[Connection]) -> Self {
        let ends =
            |it: &Connection| (it.id, [Side::Client, Side::Server].map(|side| it.host(side)));
        let known = connections.iter().map(ends).filter(|(_, hosts)| *hosts != [None; 2]);
        Self(known.collect())
    }

    /// Whether the host of no record is known, as in a trace of one host.
    pub fn are_unknown(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of the host where a record was observed.
    pub fn of_record(&self, record: &Record) -> Option<i64> {
        let Self(known) = self;
        let id = record.flow.connection();
        let place = known.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        let [client, server] = known[place].1;
        match record.side()? {
            Side::Client => client,
            Side::Server => server,
        }
        .map(i64::from)
    }
}
