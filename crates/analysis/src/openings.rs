//! Connections that opened, over the whole trace: by the server's address and by the program of the client.
//!
//! A connection that did not open shows little of the server. Other connections to the same address show more: that
//! a socket of this host listens there, and its process.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use sockscope_record::{
    Connection, ConnectionId, Direction, FlowId, Process, ProcessKey, Protocol, Record, Side,
    tcp_states,
};

/// When the ends of connections became established, in the order of the records.
#[derive(Debug, Clone, Default)]
pub(crate) struct Established(Vec<(FlowId, u64)>);

impl Established {
    /// Takes note of a record that shows it for the end that sends its flow; whether it does.
    pub(crate) fn look(&mut self, record: &Record) -> bool {
        let is_open =
            record.state_change().is_some_and(|change| change.new == tcp_states::ESTABLISHED);
        if is_open {
            self.0.push((record.flow, record.at_ns));
        }
        is_open
    }

    /// Forgets all connections but these.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(ConnectionId) -> bool) {
        self.0.retain(|(flow, _)| is_kept(flow.connection()));
    }
}

/// All connections of a trace that opened.
#[derive(Debug, Clone, Default)]
pub(crate) struct Openings {
    listeners: BTreeMap<SocketAddr, Listener>,
    /// By the process that asked and the port of the server.
    asked: BTreeMap<(ProcessKey, u16), Vec<u64>>,
    /// The first one to each port of a server.
    first_ns: BTreeMap<u16, u64>,
}

/// A socket of this host that listens, known by connections that it opened.
#[derive(Debug, Clone, Default)]
pub(crate) struct Listener {
    /// A process that used one of its connections; `None` without one.
    pub process: Option<Process>,
    /// Another process used another one: a server may have a process for each connection, and none of them listens.
    pub has_others: bool,
    /// Connections that opened and that no process was seen to use: when they opened and closed.
    unused: Vec<(u64, Option<u64>)>,
}

impl Listener {
    /// Connections open at `at_ns` that no process of the server has read or written in the whole trace.
    pub(crate) fn unused_at(&self, at_ns: u64) -> usize {
        let is_open = |&&(opened_ns, closed_ns): &&(u64, Option<u64>)| {
            opened_ns <= at_ns && closed_ns.is_none_or(|closed_ns| closed_ns > at_ns)
        };
        self.unused.iter().filter(is_open).count()
    }
}

impl Openings {
    pub(crate) fn new<'a>(
        connections: impl Iterator<Item = &'a Connection>,
        established: &Established,
    ) -> Self {
        let mut all = Self::default();
        let mut opened: BTreeMap<FlowId, u64> = BTreeMap::new();
        for &(flow, at_ns) in &established.0 {
            opened.entry(flow).or_insert(at_ns);
        }
        for connection in connections.filter(|one| one.protocol == Protocol::Tcp) {
            let opened_ns = |direction| opened.get(&connection.id.flow(direction)).copied();
            let process = |side| connection.processes.iter().find(|process| process.side == side);
            if let Some(at_ns) = opened_ns(Direction::FromServer) {
                let listener = all.listeners.entry(connection.server).or_default();
                match process(Side::Server) {
                    Some(process) => {
                        let first = listener.process.get_or_insert_with(|| process.clone());
                        listener.has_others |= first.key() != process.key();
                    }
                    None => listener.unused.push((at_ns, connection.closed_ns)),
                }
            }
            let before_ns = connection.preexisting.then_some(connection.opened_ns);
            let asked_ns = opened_ns(Direction::FromClient).or(before_ns);
            let Some(at_ns) = asked_ns.or(opened_ns(Direction::FromServer)) else { continue };
            let port = connection.server.port();
            let first_ns = all.first_ns.entry(port).or_insert(at_ns);
            *first_ns = at_ns.min(*first_ns);
            if let Some(asker) = process(Side::Client) {
                all.asked.entry((asker.key(), port)).or_default().push(at_ns);
            }
        }
        all
    }

    /// The socket of this host that listens at `address`; `None` when no connection shows that there is one.
    pub(crate) fn listener(&self, address: SocketAddr) -> Option<&Listener> {
        self.listeners.get(&address)
    }

    /// When the first connection to that port opened, at any address.
    pub(crate) fn first_ns(&self, port: u16) -> Option<u64> {
        self.first_ns.get(&port).copied()
    }

    /// When the process opened connections to that port, at any address.
    pub(crate) fn asked(&self, process: ProcessKey, port: u16) -> &[u64] {
        self.asked.get(&(process, port)).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{connection, records};

    fn of(connections: &[Connection], text: &str) -> Openings {
        let mut established = Established::default();
        records(text).iter().for_each(|record| {
            established.look(record);
        });
        Openings::new(connections.iter(), &established)
    }

    fn used_by(side: Side) -> Connection {
        let process = Process::new(7, "serves", side);
        Connection { processes: vec![process], ..connection(1) }
    }

    #[test]
    fn a_connection_whose_accepted_socket_was_seen_shows_a_listener() {
        let address = connection(1).server;
        let seen = of(&[connection(1)], "5us <state-change code=1 extra=3");
        let listener = seen.listener(address).expect("it listens");
        assert_eq!(listener.process, None);
        assert_eq!([4_000, 5_000].map(|at_ns| listener.unused_at(at_ns)), [0, 1]);
        let only_client = of(&[connection(1)], "5us state-change code=1 extra=2");
        assert!(only_client.listener(address).is_none(), "it may be on another host");
        let closing = of(&[connection(1)], "5us <state-change code=8 extra=1");
        assert!(closing.listener(address).is_none());
    }

    #[test]
    fn a_listener_has_the_process_that_uses_its_connections() {
        let seen = of(&[used_by(Side::Server)], "5us <state-change code=1 extra=3");
        let listener = seen.listener(connection(1).server).expect("it listens");
        assert_eq!(listener.process.as_ref().map(|process| process.pid), Some(7));
        assert_eq!(listener.unused_at(9_000), 0);
    }

    #[test]
    fn what_a_program_opened_is_known_by_its_port() {
        let seen = of(&[used_by(Side::Client)], "5us state-change code=1 extra=2");
        assert_eq!((seen.asked((0, 7), 80), seen.asked((0, 7), 81)), (&[5_000][..], &[][..]));
        assert_eq!((seen.first_ns(80), seen.first_ns(81)), (Some(5_000), None));
    }
}
