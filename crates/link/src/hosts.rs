//! A server and its clients: a network namespace each.
//!
//! The ends of a link have a TUN device each, which ends with its file descriptor.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::process::{Child, Command};

use crate::error::Error;
use crate::namespace::Namespace;
use crate::traffic::HostTraffic;
use crate::tun::{Tun, set_up_device};

/// Of the network that RFC 2544 sets aside for measurements.
pub(crate) const CLIENT: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
pub(crate) const SERVER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
const MASK: Ipv4Addr = Ipv4Addr::new(255, 255, 255, 0);
const DEVICE: &str = "link0";
/// Packets that the device holds until the link takes them. So many that the queue is the wire's, not the device's.
const QUEUE_PACKETS: libc::c_int = 10_000;

/// An end of the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The end of the command.
    Client,
    /// The end of its server.
    Server,
}

impl Side {
    /// The address of this end, the same in every link.
    pub fn address(self) -> IpAddr {
        IpAddr::V4(match self {
            Self::Client => CLIENT,
            Self::Server => SERVER,
        })
    }
}

/// The devices of both ends, client first.
pub type Ends = [Tun; 2];

/// The namespaces of a server and its clients.
pub struct Hosts {
    /// Of the clients; without any, the server's is theirs too.
    pub(crate) clients: Vec<Namespace>,
    /// Of the server.
    pub(crate) server: Namespace,
    /// Of hosts between them, which are held: a namespace ends with its thread.
    pub(crate) _between: Vec<Namespace>,
}

impl Hosts {
    /// Starts a command at the server's host or that of the only or first client. The kernel kills it, and all
    /// processes that it started, when this or the program ends.
    ///
    /// # Errors
    ///
    /// [`Error::Start`] when it cannot be started.
    pub fn start(&self, side: Side, command: Command) -> Result<Child, Error> {
        self.host(side).start(command)
    }

    /// Starts a command at the host of a client, from 0 on.
    ///
    /// # Errors
    ///
    /// [`Error::Start`] when it cannot be started, and [`Error::Thread`] without such a client.
    pub fn start_client(&self, index: usize, command: Command) -> Result<Child, Error> {
        match index {
            0 => self.start(Side::Client, command),
            _ => self.clients.get(index).ok_or(Error::Thread)?.start(command),
        }
    }

    /// Runs work on the thread of the server's host or of that of the only or first client. What it asks the kernel is
    /// answered for that host's namespace, and commands that this host starts are its children.
    ///
    /// # Errors
    ///
    /// [`Error::Thread`] when the host's thread is gone.
    pub fn run<A: Send + 'static>(
        &self,
        side: Side,
        work: impl FnOnce() -> A + Send + 'static,
    ) -> Result<A, Error> {
        self.host(side).run(work)
    }

    /// Hosts of clients that are not the server's.
    pub fn clients(&self) -> usize {
        self.clients.len()
    }

    fn host(&self, side: Side) -> &Namespace {
        match side {
            Side::Client => self.clients.first().unwrap_or(&self.server),
            Side::Server => &self.server,
        }
    }

    /// Packets that the kernel dropped at this end, as they were not read from the device in time.
    ///
    /// # Errors
    ///
    /// [`Error::Thread`] when the end's thread is gone.
    pub fn device_drops(&self, side: Side) -> Result<u64, Error> {
        self.host(side).run(device_drops)
    }

    /// Sets a value below `net.ipv4` of clients and server, as `tcp_sack`. Each of their namespaces has its own, and no
    /// other has it.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] when the kernel does not have it or take the value; [`Error::Thread`] when the thread of a host
    /// is gone.
    pub fn set_ipv4(&self, name: &'static str, value: &impl ToString) -> Result<(), Error> {
        for host in self.clients.iter().chain([&self.server]) {
            let value = value.to_string();
            let write = move || std::fs::write(format!("/proc/sys/net/ipv4/{name}"), value);
            let written = host.run(write)?;
            written.map_err(|cause| Error::Refused { what: "set a value of net.ipv4", cause })?;
        }
        Ok(())
    }

    /// Traffic sent by all hosts except those in between.
    ///
    /// # Errors
    ///
    /// [`Error::Thread`] when the thread of a host has ended.
    pub fn traffic(&self) -> Result<HostTraffic, Error> {
        let hosts = self.clients.iter().chain([&self.server]);
        let mut all = HostTraffic::default();
        for host in hosts {
            all = all + host.run(HostTraffic::now)?;
        }
        Ok(all)
    }

    /// Whether a socket of this end accepts connections or takes datagrams.
    ///
    /// # Errors
    ///
    /// [`Error::Thread`] when the end's thread is gone.
    pub fn is_served(&self, side: Side) -> Result<bool, Error> {
        self.host(side).run(|| is_served(None))
    }

    /// The same of one port.
    ///
    /// # Errors
    ///
    /// [`Error::Thread`] when the end's thread is gone.
    pub fn is_served_at(&self, side: Side, port: u16) -> Result<bool, Error> {
        self.host(side).run(move || is_served(Some(port)))
    }
}

/// Makes the TUN device of an end in this thread's namespace.
pub fn link_end(address: Ipv4Addr, mtu: u32, has_offload: bool) -> Result<Tun, Error> {
    let refused = |what| move |cause: io::Error| Error::Refused { what, cause };
    let tun = Tun::new(DEVICE, has_offload).map_err(refused("open a TUN device"))?;
    set_up_device(DEVICE, mtu, QUEUE_PACKETS, address, MASK)
        .map_err(refused("set up the TUN device"))?;
    Ok(tun)
}

/// Of the device in this thread's namespace: the column `drop` of its transmitted packets.
fn device_drops() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    transmit_drops(&text, DEVICE).unwrap_or(0)
}

/// Whether a socket in this thread's namespace is a server's, at this port or at any.
fn is_served(port: Option<u16>) -> bool {
    ["tcp", "tcp6", "udp", "udp6"].iter().any(|protocol| {
        let text = std::fs::read_to_string(format!("/proc/thread-self/net/{protocol}"));
        has_server(&text.unwrap_or_default(), port)
    })
}

/// In the form of /proc/net/tcp: a socket in state LISTEN, or of UDP one without a peer, which is in state CLOSE.
/// Ports are hexadecimal.
fn has_server(text: &str, port: Option<u16>) -> bool {
    const LISTEN: &str = "0A";
    const CLOSE: &str = "07";
    let is_at = |local: &str| {
        port.is_none_or(|port| {
            local.rsplit_once(':').is_some_and(|(_, it)| it == format!("{port:04X}"))
        })
    };
    text.lines().skip(1).any(|line| {
        let mut words = line.split_whitespace().skip(1);
        let (local, state) = (words.next(), words.nth(1));
        local.is_some_and(is_at) && state.is_some_and(|state| [LISTEN, CLOSE].contains(&state))
    })
}

/// In the form of /proc/net/dev: eight columns of received traffic, then bytes, packets, errs and drop of sent
/// traffic.
fn transmit_drops(text: &str, device: &str) -> Option<u64> {
    let mut rows = text.lines().filter_map(|line| line.trim().split_once(':'));
    let (_, columns) = rows.find(|(name, _)| *name == device)?;
    columns.split_whitespace().nth(11)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_known_by_its_state() {
        let head = "  sl  local_address rem_address   st tx_queue rx_queue\n";
        let row =
            |state| format!("{head}   0: 0100007F:1F90 00000000:0000 {state} 00000000:00000000\n");
        let found = ["0A", "07", "01", "06"].map(|state| has_server(&row(state), None));
        assert_eq!(found, [true, true, false, false]);
        assert!(!has_server(head, None) && !has_server("", None));
        let at = [8080, 8081].map(|port| has_server(&row("0A"), Some(port)));
        assert_eq!(at, [true, false]);
    }

    #[test]
    fn drops_are_read_from_the_column_of_what_is_sent() {
        let text = "Inter-|   Receive                                                |  Transmit\n \
                    face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop\n    \
                    lo: 100 1 0 0 0 0 0 0 100 1 0 9 0 0 0 0\n \
                    link0: 200 2 3 4 5 6 7 8 300 3 1 77 0 0 0 0\n";
        assert_eq!(transmit_drops(text, "link0"), Some(77));
        assert_eq!(transmit_drops(text, "link1"), None);
    }
}
