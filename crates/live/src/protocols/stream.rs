//! TCP and Unix stream sockets: requests of a known size one after the other, one thread of the
//! server for each connection.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use socket2::{Domain, SockAddr, Socket, Type};

use super::transport::{Client, Message, Server, Transport, answer};

/// Connections that wait for the acceptor, as std's listeners have them.
const BACKLOG: i32 = 128;

/// TCP on loopback, with `TCP_NODELAY`.
pub(super) struct Tcp;

/// Unix stream sockets, with an abstract address that needs no file.
pub(super) struct Unix;

impl Transport for Tcp {
    fn serve(&self, request_bytes: usize) -> io::Result<Box<dyn Server>> {
        let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Ok(Box::new(StreamServer::start(request_bytes, &any_port.into())?))
    }
}

impl Transport for Unix {
    fn serve(&self, request_bytes: usize) -> io::Result<Box<dyn Server>> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("\0sockscope-{}-{number}", std::process::id());
        Ok(Box::new(StreamServer::start(request_bytes, &SockAddr::unix(name)?)?))
    }
}

/// Has each write sent at once, as Unix sockets do by themselves.
fn prepare(stream: &Socket) -> io::Result<()> {
    if stream.domain()? == Domain::IPV4 { stream.set_tcp_nodelay(true) } else { Ok(()) }
}

struct StreamServer {
    request_bytes: usize,
    address: SockAddr,
    ends: Arc<AtomicBool>,
    open: Arc<Mutex<Vec<Socket>>>,
    acceptor: Option<JoinHandle<()>>,
}

impl StreamServer {
    fn start(request_bytes: usize, address: &SockAddr) -> io::Result<Self> {
        let listener = Socket::new(address.domain(), Type::STREAM, None)?;
        listener.bind(address)?;
        listener.listen(BACKLOG)?;
        let address = listener.local_addr()?;
        let (ends, open) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let acceptor = thread::spawn({
            let (ends, open) = (Arc::clone(&ends), Arc::clone(&open));
            move || accept(&listener, request_bytes, &ends, &open)
        });
        Ok(Self { request_bytes, address, ends, open, acceptor: Some(acceptor) })
    }

    fn connect(&self) -> io::Result<Socket> {
        let stream = Socket::new(self.address.domain(), Type::STREAM, None)?;
        stream.connect(&self.address)?;
        Ok(stream)
    }
}

/// Serves each connection on a thread of its own, until one more connection.
fn accept(listener: &Socket, request_bytes: usize, ends: &AtomicBool, open: &Mutex<Vec<Socket>>) {
    thread::scope(|scope| {
        while let Ok((stream, _)) = listener.accept() {
            if ends.load(Ordering::Acquire) {
                break;
            }
            let kept = prepare(&stream).and_then(|()| stream.try_clone());
            if let (Ok(kept), Ok(mut open)) = (kept, open.lock()) {
                open.push(kept);
                scope.spawn(move || serve(stream, request_bytes));
            }
        }
    });
}

/// Answers requests until the client goes.
fn serve(mut stream: Socket, request_bytes: usize) {
    let mut request = vec![0; request_bytes.max(1)];
    while stream.read_exact(&mut request).is_ok() && stream.write_all(&answer(&request)).is_ok() {}
}

impl Server for StreamServer {
    fn client(&self) -> io::Result<Box<dyn Client>> {
        let stream = self.connect()?;
        prepare(&stream)?;
        Ok(Box::new(StreamClient { stream, message: Message::new(self.request_bytes) }))
    }
}

impl Drop for StreamServer {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Release);
        // The acceptor sleeps until somebody connects.
        let woken = self.connect();
        if let Ok(open) = self.open.lock() {
            for stream in &*open {
                // It may be closed already.
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
        if let (Ok(_), Some(acceptor)) = (woken, self.acceptor.take()) {
            // What it panicked of, a test has seen as a failed call.
            let _ = acceptor.join();
        }
    }
}

struct StreamClient {
    stream: Socket,
    message: Message,
}

impl Client for StreamClient {
    fn call(&mut self, number: u64) -> io::Result<()> {
        self.message.number(number);
        self.stream.write_all(&self.message.request)?;
        self.stream.read_exact(&mut self.message.response)?;
        self.message.check()
    }

    fn port(&self) -> Option<u16> {
        self.stream.local_addr().ok()?.as_socket().map(|address| address.port())
    }
}
