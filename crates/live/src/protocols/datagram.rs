//! UDP: one datagram each way, sent again when the response stays away.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::transport::{Client, Message, Server, Transport, Worker, answer};

/// The largest request: what UDP over IPv4 carries (RFC 768, RFC 791 §3.1).
pub(super) const UDP_BYTES_MAX: usize = 65_535 - 20 - 8;

/// Waits for a response before the request is sent again.
const PATIENCE: Duration = Duration::from_millis(100);
/// Sendings of one request at most.
const SENDINGS_MAX: u32 = 10;
/// How soon the server notices that it is to end.
const SERVER_LOOKS: Duration = Duration::from_millis(20);

/// UDP on loopback, all clients served by one thread.
pub(super) struct Udp;

impl Transport for Udp {
    fn serve(&self, request_bytes: usize) -> io::Result<Box<dyn Server>> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = socket.local_addr()?;
        socket.set_read_timeout(Some(SERVER_LOOKS))?;
        let worker = Worker::start(move |ends| serve(&socket, request_bytes, ends));
        Ok(Box::new(UdpServer { request_bytes, address, _worker: worker }))
    }
}

fn serve(socket: &UdpSocket, request_bytes: usize, ends: &AtomicBool) {
    let mut request = vec![0; request_bytes.max(1)];
    while !ends.load(Ordering::Acquire) {
        if let Ok((len, client)) = socket.recv_from(&mut request) {
            // A response that is lost is asked for again.
            let _ = socket.send_to(&answer(&request[..len]), client);
        }
    }
}

struct UdpServer {
    request_bytes: usize,
    address: SocketAddr,
    _worker: Worker,
}

impl Server for UdpServer {
    fn client(&self) -> io::Result<Box<dyn Client>> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.connect(self.address)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        Ok(Box::new(UdpClient { socket, message: Message::new(self.request_bytes) }))
    }
}

struct UdpClient {
    socket: UdpSocket,
    message: Message,
}

impl Client for UdpClient {
    fn call(&mut self, number: u64) -> io::Result<()> {
        self.message.number(number);
        for _ in 0..SENDINGS_MAX {
            self.socket.send(&self.message.request)?;
            match self.socket.recv(&mut self.message.response) {
                // A late response to a request that was sent twice belongs to the call before.
                Ok(_) if self.message.check().is_ok() => return Ok(()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, "no response to ten sendings of a request"))
    }

    fn port(&self) -> Option<u16> {
        self.socket.local_addr().ok().map(|address| address.port())
    }
}
