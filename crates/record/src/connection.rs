//! Connections, their two flows and the processes at their ends.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::control_group::ControlGroup;
use crate::unix_name::{End, UnixName, UnixNames, unix_ends};

/// A connection's number in its trace, from 1 on; never used twice in one trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(transparent)]
pub struct ConnectionId(pub u32);

/// One direction of a connection: `2 * connection + direction`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(transparent)]
pub struct FlowId(pub u32);

/// Direction of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Direction {
    /// From the side that opened the connection.
    FromClient = 0,
    /// From the side that accepted it.
    FromServer = 1,
}

/// An end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Side {
    /// The end that opened the connection (for datagrams: that sent first, as far as seen).
    Client,
    /// The other end.
    Server,
}

impl ConnectionId {
    /// The connection's flow in this direction.
    pub fn flow(self, direction: Direction) -> FlowId {
        FlowId(self.0 * 2 + direction as u32)
    }
}

impl FlowId {
    /// The connection that this flow belongs to.
    pub fn connection(self) -> ConnectionId {
        ConnectionId(self.0 / 2)
    }

    /// Its direction.
    pub fn direction(self) -> Direction {
        if self.0.is_multiple_of(2) { Direction::FromClient } else { Direction::FromServer }
    }

    /// The flow of the same connection that goes the other way.
    #[must_use]
    pub fn reverse(self) -> Self {
        Self(self.0 ^ 1)
    }
}

impl fmt::Display for FlowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Direction {
    /// The side that sends.
    pub fn sender(self) -> Side {
        match self {
            Self::FromClient => Side::Client,
            Self::FromServer => Side::Server,
        }
    }

    /// The side that receives.
    pub fn receiver(self) -> Side {
        self.reverse().sender()
    }

    /// The other direction.
    #[must_use]
    pub fn reverse(self) -> Self {
        match self {
            Self::FromClient => Self::FromServer,
            Self::FromServer => Self::FromClient,
        }
    }
}

impl Side {
    /// The other end.
    #[must_use]
    pub fn other(self) -> Self {
        self.sends().receiver()
    }

    /// The direction in which it sends.
    pub fn sends(self) -> Direction {
        match self {
            Self::Client => Direction::FromClient,
            Self::Server => Direction::FromServer,
        }
    }

    /// The word in reports: `client` or `server`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }
}

/// Transport protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Protocol {
    /// RFC 9293.
    #[default]
    Tcp,
    /// RFC 768.
    Udp,
    /// A stream between two Unix sockets (unix(7)).
    Unix,
    /// Messages between two Unix sockets of type `SOCK_DGRAM`.
    UnixDatagram,
    /// The same, of type `SOCK_SEQPACKET`.
    UnixSeqpacket,
}

named! {
    Protocol {
        Tcp => "tcp",
        Udp => "udp",
        Unix => "unix",
        UnixDatagram => "unix-datagram",
        UnixSeqpacket => "unix-seqpacket",
    }
}

impl Protocol {
    /// Whether it carries bytes in order, none of them dropped: the opposite is messages, which have bounds.
    pub fn is_stream(self) -> bool {
        matches!(self, Self::Tcp | Self::Unix)
    }

    /// Whether its ends are Unix sockets.
    pub fn is_unix(self) -> bool {
        matches!(self, Self::Unix | Self::UnixDatagram | Self::UnixSeqpacket)
    }

    /// Whether records have their positions from the kernel: the opposite is datagrams that are counted as recorded.
    pub fn has_positions(self) -> bool {
        self != Self::Udp
    }
}

/// A process that wrote to or read from the connection.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    /// Process id (kernel: tgid).
    pub pid: u32,
    /// The kernel's name of the thread, at most 15 bytes.
    pub comm: String,
    /// At which end.
    pub side: Side,
    /// Its control group; `None` where that is not known.
    pub group: Option<Arc<ControlGroup>>,
    /// Number of its host in a trace of several hosts, from 1 on; 0 in a trace of one host, and where it is not known.
    pub host: u32,
}

/// A process of a trace: the number of its host, and its process id. Processes of two hosts may have the same id.
pub type ProcessKey = (u32, u32);

impl Process {
    /// One whose control group is not known, in a trace of one host.
    pub fn new(pid: u32, comm: impl Into<String>, side: Side) -> Self {
        Self { pid, comm: comm.into(), side, group: None, host: 0 }
    }

    /// What distinguishes it from all other processes of the trace.
    pub fn key(&self) -> ProcessKey {
        (self.host, self.pid)
    }

    /// The names of its unit, container and pod, if it has one of these.
    pub fn named_group(&self) -> Option<&ControlGroup> {
        self.group.as_deref().filter(|group| group.has_names())
    }
}

/// As `nginx (pid 7, unit nginx.service)`.
impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (pid {}", self.comm, self.pid)?;
        self.named_group().map_or(Ok(()), |group| write!(f, ", {group}"))?;
        f.write_str(")")
    }
}

/// Description of a connection in a trace, other than its records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connection {
    /// Its number in the trace.
    pub id: ConnectionId,
    /// Transport protocol.
    pub protocol: Protocol,
    /// Address and port of the side that opened it; between Unix sockets the key of a name: see [`Connection::end`].
    pub client: SocketAddr,
    /// The same of the other side.
    pub server: SocketAddr,
    /// Time of the probes' first event of it, in nanoseconds of the trace's clock.
    pub opened_ns: u64,
    /// Time at which the last end seen on this host closed; `None` while open.
    pub closed_ns: Option<u64>,
    /// It was established before recording began: early bytes are unknown.
    pub preexisting: bool,
    /// Both ends are sockets of this host, so that all eight points can be seen both ways.
    pub both_ends_here: bool,
    /// Processes seen at its ends, in order of first sight.
    pub processes: Vec<Process>,
    /// Between Unix sockets: their names; `None` where neither has one.
    pub names: Option<Arc<UnixNames>>,
    /// Number in the mark of its SYN, which is the same at all hosts; `None` where it is not known.
    pub mark: Option<u64>,
    /// Of a connection that two hosts recorded, the addresses of client and server as the second one has them. They
    /// differ from those above where something between the hosts translates addresses.
    pub elsewhere: Option<[SocketAddr; 2]>,
}

impl Connection {
    /// A connection that opens now, with no other fact known yet.
    pub fn new(
        id: ConnectionId,
        protocol: Protocol,
        [client, server]: [SocketAddr; 2],
        opened_ns: u64,
    ) -> Self {
        Self {
            id,
            protocol,
            client,
            server,
            opened_ns,
            closed_ns: None,
            preexisting: false,
            both_ends_here: false,
            processes: Vec::new(),
            names: None,
            mark: None,
            elsewhere: None,
        }
    }

    /// A connection between two Unix sockets that opens now.
    pub fn of_unix(
        id: ConnectionId,
        protocol: Protocol,
        ends: [UnixName; 2],
        opened_ns: u64,
    ) -> Self {
        let (keys, names) = unix_ends(ends);
        Self { names, ..Self::new(id, protocol, keys, opened_ns) }
    }

    /// Number of the host of one end, in a trace of several hosts; `None` where no process shows it, or two differ.
    pub fn host(&self, side: Side) -> Option<u32> {
        let mut hosts = self.processes.iter().filter(|it| it.side == side && it.host > 0);
        let first = hosts.next()?.host;
        hosts.all(|it| it.host == first).then_some(first)
    }

    /// The ends as the other host has them, if these are other addresses.
    pub fn translated(&self) -> Option<[SocketAddr; 2]> {
        self.elsewhere.filter(|ends| *ends != [self.client, self.server])
    }

    /// An end in words: its address and port, or the name of its Unix socket.
    pub fn end(&self, side: Side) -> End<'_> {
        let address = match side {
            Side::Client => self.client,
            Side::Server => self.server,
        };
        let name = self.names.as_deref().and_then(|names| names.of(side as usize));
        End { address, is_unix: self.protocol.is_unix(), name }
    }

    /// Whether one TCP socket is both its ends: it connected to its own address and port, a simultaneous
    /// open (RFC 9293 §3.5) with itself. All its packets go from that address to that address, its data and
    /// the acknowledgments of its data alike; they are those of the flow from the client.
    pub fn is_to_itself(&self) -> bool {
        self.protocol == Protocol::Tcp && self.client == self.server && self.client.port() != 0
    }
}
