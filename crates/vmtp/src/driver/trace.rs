//! Engines' observations as records: points 1, 2, 7 and 8 of the flows of this socket and its peers.
//!
//! Positions count octets of packets by flow, as a kernel's probes count datagrams, but by this socket
//! alone: one direction counts sent octets, the other received octets. `sockscope merge` joins a
//! bundle of them with the kernel's. Times are nanoseconds of `CLOCK_MONOTONIC`.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use sockscope_record::{
    Connection, ConnectionId, FlowId, Kind, Process, Protocol, Record, Side, Transaction,
};

use crate::observe::{Seen, Sight};

/// Records for one socket of VMTP.
#[derive(Debug)]
pub struct Trace {
    local: SocketAddr,
    side: Side,
    process: Process,
    peers: BTreeMap<SocketAddr, Peer>,
    connections: Vec<Connection>,
    records: Vec<Record>,
}

#[derive(Debug)]
struct Peer {
    id: ConnectionId,
    sent: u64,
    came: u64,
    /// Point 1 is passed in the order of point 2.
    entered_ns: u64,
    /// Packets that arrived and are not taken: by number, position and octets.
    under_way: BTreeMap<u64, (u64, u32)>,
}

impl Trace {
    /// For the socket at `local`, which is this end of each connection.
    pub fn new(local: SocketAddr, side: Side, process: Process) -> Self {
        Self {
            local,
            side,
            process,
            peers: BTreeMap::new(),
            connections: Vec::new(),
            records: Vec::new(),
        }
    }

    /// Adds an observation.
    pub fn add(&mut self, seen: &Seen<SocketAddr>) {
        let (mine, theirs) = self.flows(seen);
        let at_ns = seen.at_ns;
        let Some(peer) = self.peers.get_mut(&seen.peer) else { return };
        let record = |kind, flow, at_ns, offset, len| Record {
            at_ns,
            kind,
            flow,
            offset,
            len,
            ..Record::default()
        };
        match seen.sight {
            Sight::Sent { octets, since_ns } => {
                peer.entered_ns = peer.entered_ns.max(since_ns);
                let entered = record(Kind::SendEnqueue, mine, peer.entered_ns, peer.sent, octets);
                self.records.push(entered);
                self.records.push(Record { at_ns, kind: Kind::SendDequeue, ..entered });
                peer.sent += u64::from(octets);
            }
            Sight::Came { packet, octets } => {
                let came = record(Kind::ReceiveEnqueue, theirs, at_ns, peer.came, octets);
                self.records.push(came);
                peer.under_way.insert(packet, (peer.came, octets));
                peer.came += u64::from(octets);
            }
            Sight::Taken { packet } => {
                let taken = peer.under_way.remove(&packet).map(|(offset, octets)| {
                    record(Kind::ReceiveDequeue, theirs, at_ns, offset, octets)
                });
                self.records.extend(taken);
            }
            Sight::BlocksAgain(blocks) => {
                let again = record(Kind::BlocksAgain, mine, at_ns, peer.sent, 0);
                self.records.push(again.with_blocks_again(blocks));
            }
            Sight::Ended { transaction, began_ns, octets, is_answered } => {
                let ended = record(Kind::Transaction, mine, at_ns, 0, octets);
                let transaction = Transaction { began_ns, number: transaction, is_answered };
                self.records.push(ended.with_transaction(transaction));
            }
        }
    }

    /// The flow of this end and that of the peer; a new peer is a new connection.
    fn flows(&mut self, seen: &Seen<SocketAddr>) -> (FlowId, FlowId) {
        let number = self.peers.len() as u32 + 1;
        let mut is_new = false;
        let peer = self.peers.entry(seen.peer).or_insert_with(|| {
            is_new = true;
            Peer::new(ConnectionId(number))
        });
        let id = peer.id;
        if is_new {
            self.connections.push(self.connection(id, seen));
        }
        let mine = id.flow(self.side.sends());
        (mine, mine.reverse())
    }

    fn connection(&self, id: ConnectionId, seen: &Seen<SocketAddr>) -> Connection {
        let (client, server) = match self.side {
            Side::Client => (self.local, seen.peer),
            Side::Server => (seen.peer, self.local),
        };
        let opened_ns = match seen.sight {
            Sight::Sent { since_ns, .. } => since_ns,
            Sight::Ended { began_ns, .. } => began_ns,
            _ => seen.at_ns,
        };
        Connection {
            processes: vec![self.process.clone()],
            ..Connection::new(id, Protocol::Udp, [client, server], opened_ns)
        }
    }

    /// Connections that [`Trace::take_connections`] has not given yet.
    pub fn take_connections(&mut self) -> Vec<Connection> {
        std::mem::take(&mut self.connections)
    }

    /// Records in order of time; the latest `kept` of them stay, because earlier ones may still follow.
    pub fn take_records(&mut self, kept: usize) -> Vec<Record> {
        self.records.sort_by_key(|record| record.at_ns);
        let given = self.records.len().saturating_sub(kept);
        self.records.drain(..given).collect()
    }

    /// Records not given yet.
    pub fn waiting(&self) -> usize {
        self.records.len()
    }
}

impl Peer {
    fn new(id: ConnectionId) -> Self {
        Self { id, sent: 0, came: 0, entered_ns: 0, under_way: BTreeMap::new() }
    }
}
