//! Reading `flows.arrows`: the descriptions of the connections.

use std::collections::BTreeMap;
use std::io::{Read, Seek};
use std::net::SocketAddr;
use std::path::Path;

use sockscope_record::{Connection, ConnectionId, Process, Protocol, Side, UnixName, unix_ends};

use crate::error::{Error, Problem};
use crate::format::{self, LaterColumns, Part};
use crate::groups::{Groups, Known};
use crate::layout::{BatchLayout, Cursor};
use crate::stream::Stream;
use crate::texts::{Texts, chunks, offsets, span};

/// Reads the connections of a bundle; a later row of the same connection replaces the earlier one.
///
/// At the end of a file that is still being written, a later call gives the rows added since.
#[derive(Debug)]
pub struct ConnectionReader<R> {
    stream: Stream<R>,
    body: Vec<u8>,
    connections: BTreeMap<ConnectionId, Connection>,
    groups: Known,
    bad_rows: u64,
    first_bad: Option<(u64, String)>,
}

impl<R: Read + Seek> ConnectionReader<R> {
    /// Reads the bytes of a `flows.arrows` from their start; `path` is for error messages.
    pub fn new(source: R, path: impl AsRef<Path>) -> Self {
        Self {
            stream: Stream::new(source, path.as_ref(), Part::Flows, format::first_flow_schema()),
            body: Vec::new(),
            connections: BTreeMap::new(),
            groups: Known::new(),
            bad_rows: 0,
            first_bad: None,
        }
    }

    /// Reads all whole batches that are there by now.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when the source cannot be read, [`Error::NewerVersion`] when a later release
    /// wrote it. Damage is not an error: reading ends before it.
    pub fn read(&mut self) -> Result<(), Error> {
        loop {
            let (at_byte, first_row) = (self.stream.position(), self.stream.rows());
            let Some(layout) = self.stream.next(Some(&mut self.body))? else { return Ok(()) };
            if let Err(expected) = self.take(&layout, first_row) {
                self.stream.damaged(at_byte, &layout, expected);
                return Ok(());
            }
        }
    }

    /// The latest row of each connection, by id.
    pub fn connections(&self) -> &BTreeMap<ConnectionId, Connection> {
        &self.connections
    }

    /// Whether the end mark was read: nothing will be added to this file.
    pub fn is_ended(&self) -> bool {
        self.stream.is_ended()
    }

    /// Problems so far; empty for a clean file.
    pub fn problems(&self) -> Vec<Problem> {
        let bad_rows = self.first_bad.as_ref().map(|(first_row, expected)| Problem::BadRows {
            part: Part::Flows,
            rows: self.bad_rows,
            first_row: *first_row,
            expected: expected.clone(),
        });
        self.stream.problems().chain(bad_rows).collect()
    }

    /// The connections, by id.
    pub(crate) fn into_connections(self) -> Vec<Connection> {
        self.connections.into_values().collect()
    }

    fn take(&mut self, layout: &BatchLayout, first_row: u64) -> Result<(), String> {
        let later = match self.stream.columns() {
            Some(columns) => LaterColumns::of(columns),
            None => LaterColumns::of_batch(layout.columns()),
        };
        let columns = Columns::new(&self.body, layout, later)?;
        for row in 0..layout.rows {
            match columns.connection(row, &mut self.groups) {
                Ok(connection) => {
                    self.connections.insert(connection.id, connection);
                }
                Err(expected) => {
                    self.bad_rows += 1;
                    self.first_bad.get_or_insert((first_row + row as u64, expected));
                }
            }
        }
        Ok(())
    }
}

/// The columns of one batch, as long as its rows need.
struct Columns<'a> {
    id: &'a [[u8; 4]],
    protocol: Texts<'a>,
    client: Texts<'a>,
    server: Texts<'a>,
    opened_ns: &'a [[u8; 8]],
    closed_valid: Option<&'a [u8]>,
    closed_ns: &'a [[u8; 8]],
    preexisting: &'a [u8],
    both_ends_here: &'a [u8],
    processes: &'a [[u8; 4]],
    pid: &'a [[u8; 4]],
    comm: Texts<'a>,
    side: Texts<'a>,
    groups: Option<Groups<'a>>,
    marks: Option<Marks<'a>>,
    hosts: Option<Texts<'a>>,
}

/// The columns `mark` and `elsewhere`.
struct Marks<'a> {
    valid: Option<&'a [u8]>,
    numbers: &'a [[u8; 8]],
    elsewhere: Texts<'a>,
}

impl<'a> Marks<'a> {
    fn new(body: &'a [u8], rows: usize, next: &mut Cursor<'_>) -> Result<Self, String> {
        let (valid, numbers) = next.nullable(rows, 8)?;
        Ok(Self {
            valid: valid.map(|range| &body[range]),
            numbers: chunks(body, numbers),
            elsewhere: Texts::new(body, next.texts(rows)?, rows)?,
        })
    }

    fn mark(&self, row: usize) -> Option<u64> {
        let is_known = self.valid.is_none_or(|bits| bit(bits, row));
        is_known.then(|| u64::from_le_bytes(self.numbers[row]))
    }

    fn elsewhere(&self, row: usize) -> Result<Option<[SocketAddr; 2]>, String> {
        let text = self.elsewhere.text(row)?;
        if text.is_empty() {
            return Ok(None);
        }
        let (client, server) = text.split_once(' ').ok_or("two addresses")?;
        Ok(Some([address(client)?, address(server)?]))
    }
}

impl<'a> Columns<'a> {
    fn new(body: &'a [u8], layout: &BatchLayout, later: LaterColumns) -> Result<Self, String> {
        let rows = layout.rows;
        let mut next = Cursor::new(layout);
        let id = chunks(body, next.fixed(rows, 4)?);
        let protocol = Texts::new(body, next.texts(rows)?, rows)?;
        let client = Texts::new(body, next.texts(rows)?, rows)?;
        let server = Texts::new(body, next.texts(rows)?, rows)?;
        let opened_ns = chunks(body, next.fixed(rows, 8)?);
        let (closed_valid, closed_ns) = next.nullable(rows, 8)?;
        let preexisting = &body[next.bits(rows)?];
        let both_ends_here = &body[next.bits(rows)?];
        let processes = offsets(body, next.lists(rows)?, rows)?;
        let items = next.structures()?;
        Ok(Self {
            id,
            protocol,
            client,
            server,
            opened_ns,
            closed_valid: closed_valid.map(|range| &body[range]),
            closed_ns: chunks(body, closed_ns),
            preexisting,
            both_ends_here,
            processes,
            pid: chunks(body, next.fixed(items, 4)?),
            comm: Texts::new(body, next.texts(items)?, items)?,
            side: Texts::new(body, next.texts(items)?, items)?,
            groups: later.groups.then(|| Groups::new(body, layout, &mut next)).transpose()?,
            marks: later.marks.then(|| Marks::new(body, rows, &mut next)).transpose()?,
            hosts: match later.hosts {
                true => Some(Texts::new(body, next.texts(rows)?, rows)?),
                false => None,
            },
        })
    }

    /// `row` must be below the batch's number of rows, which bounds the fixed columns.
    fn connection(&self, row: usize, known: &mut Known) -> Result<Connection, String> {
        let mut processes = self.processes(row)?;
        if let Some(groups) = &self.groups {
            groups.give(row, &mut processes, known)?;
        }
        if let Some(hosts) = &self.hosts {
            give_hosts(hosts.text(row)?, &mut processes)?;
        }
        let protocol = protocol(self.protocol.text(row)?)?;
        let texts = [self.client.text(row)?, self.server.text(row)?];
        let ([client, server], names) = match protocol {
            _ if protocol.is_unix() => unix_ends(texts.map(UnixName::new)),
            _ => ([address(texts[0])?, address(texts[1])?], None),
        };
        let is_closed = self.closed_valid.is_none_or(|bits| bit(bits, row));
        Ok(Connection {
            id: ConnectionId(u32::from_le_bytes(self.id[row])),
            protocol,
            client,
            server,
            opened_ns: u64::from_le_bytes(self.opened_ns[row]),
            closed_ns: is_closed.then_some(u64::from_le_bytes(self.closed_ns[row])),
            preexisting: bit(self.preexisting, row),
            both_ends_here: bit(self.both_ends_here, row),
            processes,
            names,
            mark: self.marks.as_ref().and_then(|marks| marks.mark(row)),
            elsewhere: match &self.marks {
                Some(marks) => marks.elsewhere(row)?,
                None => None,
            },
        })
    }

    fn processes(&self, row: usize) -> Result<Vec<Process>, String> {
        span(self.processes, row)?.map(|item| self.process(item)).collect()
    }

    fn process(&self, item: usize) -> Result<Process, String> {
        let pid = self.pid.get(item).ok_or("processes inside their column")?;
        let (comm, side) = (self.comm.text(item)?, side(self.side.text(item)?)?);
        Ok(Process::new(u32::from_le_bytes(*pid), comm, side))
    }
}

/// Gives the processes of a row the numbers of their hosts; an empty text has none.
fn give_hosts(text: &str, processes: &mut [Process]) -> Result<(), String> {
    if text.is_empty() {
        return Ok(());
    }
    let mut numbers = text.split(' ').map(str::parse);
    for process in processes {
        let Some(Ok(number)) = numbers.next() else {
            return Err("the number of a host for each process, as 1 2".into());
        };
        process.host = number;
    }
    Ok(())
}

/// `row` must be below eight times the number of bytes.
fn bit(bits: &[u8], row: usize) -> bool {
    bits[row / 8] >> (row % 8) & 1 == 1
}

fn protocol(name: &str) -> Result<Protocol, String> {
    let known = Protocol::ALL.into_iter().find(|known| known.name() == name);
    known.ok_or_else(|| "protocol tcp, udp, unix, unix-datagram or unix-seqpacket".into())
}

fn side(name: &str) -> Result<Side, String> {
    let known = [Side::Client, Side::Server].into_iter().find(|known| known.name() == name);
    known.ok_or_else(|| "side client or server".into())
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "address and port, as 127.0.0.1:80 or [::1]:80".into())
}
