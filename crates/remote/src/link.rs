//! The link: a client and a server of VMTP on one socket.
//!
//! The proxy's packets travel as the segment of a request. One transaction is under way at a time, so
//! order holds; packets that arrive meanwhile travel together in the next one. The response means that
//! the counterpart's proxy has taken every packet of the request: a receiver that does not read makes
//! the sender wait, and VMTP's notices that the request is being processed keep the link alive.

use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use sockscope_channel::library::{RemoteLink, passing};
use sockscope_vmtp::wire::{Entity, Kind, Notice, NoticeTo, Packet, code};
use sockscope_vmtp::{Client, Config, Event, Options, Outcome, Request, Server, Token};

use crate::batch::{Batch, PACKET_BYTES_MAX, Unpacking};

/// Name of the server at either end: the socket is connected, so there is only one to reach.
const SERVER: u32 = 0x050c_5c09;
/// Service that the requests ask for.
const SERVICE: u32 = 0x0c_4a11;
/// A known counterpart is asked again when nothing was sent for so long, so that ends that only wait
/// notice its death.
const QUIET_NS: u64 = 1_000_000_000;
/// Largest payload of UDP over IPv4 (RFC 768, RFC 791 §3.1).
const DATAGRAM_BYTES_MAX: usize = 65_507;

/// Packets of a proxy over VMTP: each arrives once, whole, in order, or the link is lost.
///
/// It is lost when the counterpart answers nothing for all retries of the [`Config`]; the proxy's `run`
/// then fails, and dropping the proxy shows the application that its peer is gone. Memory: one batch to
/// send (64 KiB, or one packet), and the received requests, at most one.
#[derive(Debug)]
pub struct VmtpLink {
    socket: UdpSocket,
    counterpart: SocketAddr,
    began: Instant,
    client: Client<SocketAddr>,
    server: Server<SocketAddr>,
    batch: Batch,
    /// A request whose packets are handed out; it is answered after the last one.
    held: Option<(Token, Unpacking)>,
    is_calling: bool,
    /// When the counterpart answered last; `None` before it did.
    answered_ns: Option<u64>,
    packet: Vec<u8>,
    counts: LinkCounts,
}

/// The counts of a link up to now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkCounts {
    /// Transactions that were answered, those included that only ask whether the counterpart lives.
    pub transactions: u64,
    /// Blocks of 512 bytes that were sent again.
    pub blocks_again: u64,
    /// Requests that were sent again for lack of an answer.
    pub timeouts: u64,
    /// Requests that were received again and were not handed out again.
    pub duplicates: u64,
}

impl VmtpLink {
    /// A link over `socket`, which is connected to the counterpart's. `config` has the length of
    /// packets and the patience of the link; [`Config::for_payload`] has the sizes for a network.
    ///
    /// # Errors
    /// When the socket is not connected, or cannot be made non-blocking.
    pub fn new(socket: UdpSocket, config: Config) -> io::Result<Self> {
        let counterpart = socket.peer_addr()?;
        socket.set_nonblocking(true)?;
        // A link that follows another on the same port is another client: its first request must not
        // look like an old one.
        let number = RandomState::new().hash_one(counterpart);
        let name = Entity::new(number as u32, Ipv4Addr::UNSPECIFIED);
        Ok(Self {
            socket,
            counterpart,
            began: Instant::now(),
            client: Client::new(name, (number >> 32) as u32, config.clone()),
            server: Server::new(server_name(), config),
            batch: Batch::default(),
            held: None,
            is_calling: false,
            answered_ns: None,
            packet: vec![0; DATAGRAM_BYTES_MAX],
            counts: LinkCounts::default(),
        })
    }

    /// The counts up to now.
    pub fn counts(&self) -> LinkCounts {
        let (client, server) = (self.client.counters(), self.server.counters());
        LinkCounts {
            blocks_again: client.blocks_again,
            timeouts: client.timeouts,
            duplicates: server.duplicates,
            ..self.counts
        }
    }

    fn now_ns(&self) -> u64 {
        // 584 years.
        self.began.elapsed().as_nanos() as u64
    }

    /// Takes all received packets off the socket.
    fn take_in(&mut self, now_ns: u64) -> io::Result<()> {
        while let Some(len) = passing(self.socket.recv(&mut self.packet))? {
            let octets = &self.packet[..len];
            if is_for_client(octets) {
                self.client.handle(now_ns, self.counterpart, octets);
            } else {
                self.server.handle(now_ns, self.counterpart, octets);
            }
        }
        Ok(())
    }

    /// Takes the end of the transaction under way, or its failure.
    fn look_at_events(&mut self, now_ns: u64) -> io::Result<()> {
        while let Some(event) = self.client.poll_event() {
            match event {
                Event::Response(response) if response.code == code::OK => {
                    self.is_calling = false;
                    self.answered_ns = Some(now_ns);
                    self.counts.transactions += 1;
                }
                Event::Response(response) => return Err(lost(response.code)),
                Event::Failed(code) => return Err(lost(code)),
                Event::Finished(_) => {}
            }
        }
        Ok(())
    }

    /// Begins a transaction when there are packets to send, or it has been quiet for long.
    fn call(&mut self, now_ns: u64) -> io::Result<()> {
        let is_quiet = self.quiet_until_ns().is_some_and(|until_ns| until_ns <= now_ns);
        if self.is_calling || (self.batch.is_empty() && !is_quiet) {
            return Ok(());
        }
        let request = Request { code: SERVICE, segment: self.batch.take(), ..Request::default() };
        let (to, options) = (self.counterpart, Options::default());
        self.client
            .start(now_ns, server_name(), to, request, options)
            .map_err(|error| io::Error::new(ErrorKind::InvalidInput, error))?;
        self.is_calling = true;
        Ok(())
    }

    /// When the counterpart is to be asked whether it lives.
    fn quiet_until_ns(&self) -> Option<u64> {
        let answered_ns = self.answered_ns.filter(|_| !self.is_calling)?;
        Some(answered_ns.saturating_add(QUIET_NS))
    }

    /// Holds the next request, unless one is held, and answers those that hold no packet.
    fn hold(&mut self, now_ns: u64) {
        loop {
            match &self.held {
                Some((_, packets)) if !packets.is_over() => return,
                Some((token, _)) => {
                    // One that its client has given up needs no answer.
                    let _ = self.server.respond(now_ns, *token, Outcome::default());
                    self.held = None;
                }
                None => {
                    let Some(request) = self.server.poll_request() else { return };
                    self.held = Some((request.token, Unpacking::new(request.segment)));
                }
            }
        }
    }

    fn transmit(&mut self, now_ns: u64) -> io::Result<()> {
        let mut octets = Vec::new();
        while self.client.poll_transmit(now_ns, &mut octets).is_some() {
            // A packet that the socket does not take is lost, and sent again.
            passing(self.socket.send(&octets))?;
        }
        while self.server.poll_transmit(now_ns, &mut octets).is_some() {
            passing(self.socket.send(&octets))?;
        }
        Ok(())
    }

    /// The time until something is due.
    fn until_due(&self, now_ns: u64) -> Duration {
        let due = [self.client.poll_timeout(), self.server.poll_timeout(), self.quiet_until_ns()];
        let due_ns = due.into_iter().flatten().min().unwrap_or(now_ns + QUIET_NS);
        Duration::from_nanos(due_ns.saturating_sub(now_ns))
    }
}

impl RemoteLink for VmtpLink {
    fn packet_bytes_max(&self) -> usize {
        PACKET_BYTES_MAX
    }

    fn send(&mut self, packet: &[u8]) -> io::Result<bool> {
        if packet.len() > PACKET_BYTES_MAX {
            return Err(ErrorKind::InvalidInput.into());
        }
        let has_room = self.batch.add(packet);
        let now_ns = self.now_ns();
        self.call(now_ns)?;
        self.transmit(now_ns)?;
        Ok(has_room)
    }

    fn receive(&mut self, packet: &mut [u8]) -> io::Result<Option<usize>> {
        let now_ns = self.now_ns();
        self.hold(now_ns);
        let next = self.held.as_mut().and_then(|(_, packets)| packets.next());
        let received = next.map(|next| {
            let len = next.len().min(packet.len());
            packet[..len].copy_from_slice(&next[..len]);
            len
        });
        self.hold(now_ns);
        self.transmit(now_ns)?;
        Ok(received)
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn attend(&mut self) -> io::Result<Option<Duration>> {
        let now_ns = self.now_ns();
        self.take_in(now_ns)?;
        self.client.handle_timeout(now_ns);
        self.server.handle_timeout(now_ns);
        self.look_at_events(now_ns)?;
        self.call(now_ns)?;
        self.hold(now_ns);
        self.transmit(now_ns)?;
        Ok(Some(self.until_due(now_ns)))
    }
}

/// Responses, and notices about requests. The server counts octets that are no packet.
fn is_for_client(octets: &[u8]) -> bool {
    let Ok(packet) = Packet::new(octets) else { return false };
    let header = packet.header();
    let is_to_client = |notice: Notice| notice.to == NoticeTo::Client;
    header.control.kind == Kind::Response || Notice::decode(&header).is_some_and(is_to_client)
}

fn server_name() -> Entity {
    Entity::new(SERVER, Ipv4Addr::UNSPECIFIED)
}

fn lost(code: u32) -> io::Error {
    let what = format!("the counterpart does not answer (VMTP code {code})");
    io::Error::new(ErrorKind::TimedOut, what)
}
