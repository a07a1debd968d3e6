//! VMTP over UDP and over IP protocol 81, one entity for each client, all served by one thread.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, JoinHandle};

use sockscope_vmtp::driver::{Caller, Link, Service, Transport as Carrier};
use sockscope_vmtp::wire::Entity;
use sockscope_vmtp::{Config, Options, Outcome, Request};

use super::transport::{Client, Message, Server, Transport, answer};

/// Payload of the longest UDP datagram; raw IP has eight octets more, which no packet needs.
const PAYLOAD_BYTES: usize = 65_507;
/// A segment travels in a run of packet groups above this.
const GROUP_BYTES: usize = 16 << 10;

/// VMTP in one of its carriers, on loopback, where a packet group fits one packet.
pub(super) struct Vmtp {
    pub carrier: Carrier,
}

impl Vmtp {
    /// Raw IP has no ports: servers of several runs at once would hear each other. It gets an address
    /// of its own.
    fn address(&self) -> SocketAddr {
        let ip = match self.carrier {
            Carrier::Udp => Ipv4Addr::LOCALHOST,
            Carrier::Raw => Ipv4Addr::new(127, 0, 81, 1),
        };
        SocketAddr::new(IpAddr::V4(ip), 0)
    }
}

impl Transport for Vmtp {
    fn serve(&self, request_bytes: usize) -> io::Result<Box<dyn Server>> {
        let link = Link::bind(self.carrier, self.address()).map_err(io::Error::other)?;
        let address = link.local_address()?;
        let entity = Entity::new(std::process::id(), Ipv4Addr::LOCALHOST);
        let config = Config::for_payload(PAYLOAD_BYTES);
        let mut service = Service::new(link, entity, config);
        let ends = Arc::new(AtomicBool::new(false));
        let worker = thread::spawn({
            let ends = Arc::clone(&ends);
            // A network that fails shows as calls that do.
            move || drop(service.serve(&ends, |request| reply(&request.segment)))
        });
        let carrier = self.carrier;
        Ok(Box::new(VmtpServer {
            carrier,
            request_bytes,
            address,
            entity,
            ends,
            worker: Some(worker),
        }))
    }
}

fn reply(request: &[u8]) -> Outcome {
    Outcome { user: answer(request), ..Outcome::default() }
}

struct VmtpServer {
    carrier: Carrier,
    request_bytes: usize,
    address: SocketAddr,
    entity: Entity,
    ends: Arc<AtomicBool>,
    worker: Option<JoinHandle<()>>,
}

impl Server for VmtpServer {
    fn client(&self) -> io::Result<Box<dyn Client>> {
        /// Clients of this process, for their names.
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let local = SocketAddr::new(self.address.ip(), 0);
        let link = Link::bind(self.carrier, local).map_err(io::Error::other)?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let entity = Entity::new(0x0800_0000 | number, Ipv4Addr::LOCALHOST);
        let config = Config::for_payload(PAYLOAD_BYTES);
        Ok(Box::new(VmtpClient {
            caller: Caller::new(link, entity, 1, config),
            server: self.entity,
            address: self.address,
            message: Message::new(self.request_bytes),
        }))
    }
}

impl Drop for VmtpServer {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(worker) = self.worker.take() {
            // What it panicked of, a test has seen as a failed call.
            let _ = worker.join();
        }
    }
}

struct VmtpClient {
    caller: Caller,
    server: Entity,
    address: SocketAddr,
    message: Message,
}

impl Client for VmtpClient {
    fn call(&mut self, number: u64) -> io::Result<()> {
        let segment = self.message.number(number).to_vec();
        let options = Options { long_response: segment.len() > GROUP_BYTES, ..Options::default() };
        let request = Request { segment, ..Request::default() };
        let response = self.caller.call(self.server, self.address, request, options);
        self.message.response = response.map_err(io::Error::other)?.user;
        self.message.check()
    }

    fn port(&self) -> Option<u16> {
        let address = self.caller.link().local_address().ok()?;
        Some(address.port()).filter(|&port| port > 0)
    }
}
