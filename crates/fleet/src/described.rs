//! Connections of a file, as JSON in its metadata.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use sockscope_record::{Connection, ConnectionId, Process, Protocol, Side};

/// Key of the connections in the metadata of a file.
pub(crate) const CONNECTIONS: &str = "sockscope.connections";

/// A connection of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Described {
    id: u32,
    protocol: String,
    client: SocketAddr,
    server: SocketAddr,
    opened_ns: u64,
    closed_ns: Option<u64>,
    preexisting: bool,
    both_ends_here: bool,
    /// The end on the host; `None` where no record shows it, or both are there.
    here: Option<String>,
    processes: Vec<(String, u32, String)>,
}

impl Described {
    pub(crate) fn of(connection: &Connection, here: Option<Side>) -> Self {
        let process = |it: &Process| (it.side.name().to_owned(), it.pid, it.comm.clone());
        Self {
            id: connection.id.0,
            protocol: connection.protocol.name().to_owned(),
            client: connection.client,
            server: connection.server,
            opened_ns: connection.opened_ns,
            closed_ns: connection.closed_ns,
            preexisting: connection.preexisting,
            both_ends_here: connection.both_ends_here,
            here: here.map(|side| side.name().to_owned()),
            processes: connection.processes.iter().map(process).collect(),
        }
    }

    pub(crate) fn connection(self) -> (Connection, Option<Side>) {
        let protocol = if self.protocol == "udp" { Protocol::Udp } else { Protocol::Tcp };
        let process = |(at, pid, comm): (String, u32, String)| Process {
            pid,
            comm,
            side: side(&at).unwrap_or(Side::Client),
            group: None,
        };
        let connection = Connection {
            id: ConnectionId(self.id),
            protocol,
            client: self.client,
            server: self.server,
            opened_ns: self.opened_ns,
            closed_ns: self.closed_ns,
            preexisting: self.preexisting,
            both_ends_here: self.both_ends_here,
            processes: self.processes.into_iter().map(process).collect(),
        };
        (connection, self.here.as_deref().and_then(side))
    }
}

fn side(word: &str) -> Option<Side> {
    [Side::Client, Side::Server].into_iter().find(|side| side.name() == word)
}
