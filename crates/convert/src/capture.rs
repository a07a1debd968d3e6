//! Output of a reader: connections, records, and the lines that it did not understand.

use std::collections::HashMap;
use std::net::SocketAddr;

use sockscope_record::{
    Connection, ConnectionId, Direction, FlowId, Loss, Point, Protocol, Record,
};

/// Content of a text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Capture {
    /// In order of first sight.
    pub connections: Vec<Connection>,
    /// In time order; records of one time in the order of the text.
    pub records: Vec<Record>,
    /// Notes for a reader of the results, one sentence each.
    pub notes: Vec<String>,
    /// Lines that are not of this form.
    pub problems: Vec<Problem>,
    /// Lines that have no packet, a summary or empty ones aside: another tool's text has many.
    pub other_lines: u64,
    /// The flow from the first address to the second, of each connection both ways.
    flows: HashMap<(Protocol, [SocketAddr; 2]), FlowId>,
}

/// A line that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: expected {expected}, found: {found}")]
pub struct Problem {
    /// Line number, from 1 on.
    pub line: usize,
    /// The expected text.
    pub expected: &'static str,
    /// The text found there, cut to 60 characters.
    pub found: String,
}

impl Problem {
    pub(crate) fn new(line: usize, expected: &'static str, found: &str) -> Self {
        Self { line, expected, found: found.chars().take(60).collect() }
    }
}

impl Capture {
    /// The flow from `source` to `destination`; opens a connection without one, by the side
    /// in `opened`.
    pub(crate) fn flow(
        &mut self,
        protocol: Protocol,
        [source, destination]: [SocketAddr; 2],
        at_ns: u64,
        opened: Opened,
    ) -> FlowId {
        let found = self.flows.get(&(protocol, [source, destination])).copied();
        found.unwrap_or_else(|| {
            let id = ConnectionId(self.connections.len() as u32 + 1);
            let connection = opened.connection(id, protocol, [source, destination], at_ns);
            let (client, server) = (connection.client, connection.server);
            self.connections.push(connection);
            for (ends, direction) in [
                ([server, client], Direction::FromServer),
                ([client, server], Direction::FromClient),
            ] {
                self.flows.insert((protocol, ends), id.flow(direction));
            }
            // Of a connection from an address to itself, the client counts as the sender.
            self.flows[&(protocol, [source, destination])]
        })
    }

    /// Adds a loss of `count` packets or more, somewhere between two times.
    pub(crate) fn missed(&mut self, from_ns: u64, until_ns: u64, count: u64) {
        let loss = Loss::new(Some(Point::InterfaceDequeue), count, from_ns);
        self.records.push(Record { at_ns: until_ns, ..Record::default() }.with_loss(loss));
    }
}

/// Evidence of a connection's opening in its first packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opened {
    /// It opens the connection.
    BySender,
    /// It answers the opening, which was not seen.
    ByReceiver,
    /// The connection was there before.
    Before,
}

impl Opened {
    /// The connection of a first packet from one address to the other.
    pub(crate) fn connection(
        self,
        id: ConnectionId,
        protocol: Protocol,
        [source, destination]: [SocketAddr; 2],
        at_ns: u64,
    ) -> Connection {
        let ends = match self {
            Self::ByReceiver => [destination, source],
            Self::BySender | Self::Before => [source, destination],
        };
        let preexisting = self == Self::Before;
        Connection { preexisting, ..Connection::new(id, protocol, ends, at_ns) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_direction_of_a_connection_is_found_again_and_protocols_are_apart() {
        let [a, b] = ["10.0.0.1:1", "10.0.0.2:2"].map(|text| text.parse::<SocketAddr>().unwrap());
        let mut capture = Capture::default();
        let mut flow = |protocol, ends, opened| capture.flow(protocol, ends, 0, opened).0;
        assert_eq!(flow(Protocol::Tcp, [b, a], Opened::ByReceiver), 3);
        assert_eq!(flow(Protocol::Tcp, [a, b], Opened::Before), 2);
        assert_eq!(flow(Protocol::Udp, [b, a], Opened::BySender), 4);
        assert_eq!(flow(Protocol::Udp, [a, b], Opened::BySender), 5);
        assert_eq!(flow(Protocol::Tcp, [a, a], Opened::BySender), 6);
        assert_eq!(flow(Protocol::Tcp, [a, a], Opened::BySender), 6);
        assert_eq!((capture.connections.len(), capture.flows.len()), (3, 5));
    }
}
