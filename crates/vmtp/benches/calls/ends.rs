//! Clients, each with a server in a thread of its own that ends with the benchmark.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;

use rustix::thread::{CpuSet, sched_setaffinity};
use sockscope_vmtp::driver::{Caller, Link, Service, Transport};
use sockscope_vmtp::wire::{Entity, code};
use sockscope_vmtp::{Config, Options, Outcome, Request};

/// Loopback, any port.
pub const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
/// UDP payload of the longest IP packet.
const PAYLOAD: usize = 65_507;
const SERVER: Entity = Entity(0x0000_004d_7f00_0001);
const CLIENT: Entity = Entity(0x0000_0100_7f00_0001);

/// Something that asks and waits for the answer.
pub trait Call {
    fn call(&mut self);
}

/// This thread on one CPU, if the machine has it.
pub fn pin(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    let _ = sched_setaffinity(None, &set);
}

/// A thread on the servers' CPU.
pub fn on_second_cpu(serve: impl FnOnce() + Send + 'static) {
    thread::spawn(|| {
        pin(1);
        serve();
    });
}

/// Datagrams, sent back.
pub struct Udp {
    socket: UdpSocket,
    octets: Vec<u8>,
}

impl Udp {
    pub fn start(octets: usize) -> Self {
        let server = UdpSocket::bind(ANY).expect("a socket");
        let to = server.local_addr().expect("it is bound");
        on_second_cpu(move || {
            let mut octets = vec![0; PAYLOAD];
            while let Ok((len, from)) = server.recv_from(&mut octets) {
                server.send_to(&octets[..len], from).expect("a network");
            }
        });
        let socket = UdpSocket::bind(ANY).expect("a socket");
        socket.connect(to).expect("a network");
        Self { socket, octets: vec![7; octets] }
    }
}

impl Call for Udp {
    fn call(&mut self) {
        self.socket.send(&self.octets).expect("a server");
        self.socket.recv(&mut self.octets).expect("an answer");
    }
}

/// A connection on which a fixed number of octets is answered by another.
pub struct Tcp {
    stream: TcpStream,
    request: Vec<u8>,
    response: Vec<u8>,
}

impl Tcp {
    pub fn start(request: usize, response: usize) -> Self {
        let listener = TcpListener::bind(ANY).expect("a socket");
        let to = listener.local_addr().expect("it is bound");
        on_second_cpu(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            stream.set_nodelay(true).expect("an option");
            let (mut asked, answer) = (vec![0; request], vec![7; response]);
            while stream.read_exact(&mut asked).is_ok() && stream.write_all(&answer).is_ok() {}
        });
        let stream = TcpStream::connect(to).expect("a server");
        stream.set_nodelay(true).expect("an option");
        Self { stream, request: vec![7; request], response: vec![0; response] }
    }
}

impl Call for Tcp {
    fn call(&mut self) {
        self.stream.write_all(&self.request).expect("a server");
        self.stream.read_exact(&mut self.response).expect("an answer");
    }
}

/// Transactions.
pub struct Vmtp {
    caller: Caller,
    to: SocketAddr,
    request: Vec<u8>,
    response: usize,
}

impl Vmtp {
    pub fn start(request: usize, response: usize) -> Self {
        let config = Config::for_payload(PAYLOAD);
        let link = Link::bind(Transport::Udp, ANY).expect("a socket");
        let to = link.local_address().expect("it is bound");
        let mut service = Service::new(link, SERVER, config.clone());
        let answer = vec![7; response];
        on_second_cpu(move || {
            let served = service.serve(
                |_| false,
                |_| Outcome { code: code::OK, segment: answer.clone(), ..Outcome::default() },
            );
            served.expect("a network");
        });
        let link = Link::bind(Transport::Udp, ANY).expect("a socket");
        let caller = Caller::new(link, CLIENT, 1, config);
        Self { caller, to, request: vec![7; request], response }
    }
}

impl Call for Vmtp {
    fn call(&mut self) {
        let request = Request { segment: self.request.clone(), ..Request::default() };
        let response = self.caller.call(SERVER, self.to, request, Options::default());
        let response = response.expect("an answer");
        assert_eq!(response.segment.len(), self.response);
    }
}
