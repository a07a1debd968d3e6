//! TCP and Unix stream sockets: requests of a known size one after the other, one thread of the
//! server for each connection.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use super::transport::{Client, Message, Server, Transport, answer};

/// TCP on loopback, with `TCP_NODELAY`.
pub(super) struct Tcp;

/// Unix stream sockets, with an abstract address that needs no file.
pub(super) struct Unix;

impl Transport for Tcp {
    fn serve(&self, request_bytes: usize) -> io::Result<Box<dyn Server>> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        Ok(Box::new(StreamServer::start(request_bytes, listener, move || {
            TcpStream::connect(address)
        })))
    }
}

impl Transport for Unix {
    fn serve(&self, request_bytes: usize) -> io::Result<Box<dyn Server>> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("sockscope-{}-{number}", std::process::id());
        let address = SocketAddr::from_abstract_name(name)?;
        let listener = UnixListener::bind_addr(&address)?;
        Ok(Box::new(StreamServer::start(request_bytes, listener, move || {
            UnixStream::connect_addr(&address)
        })))
    }
}

/// A connected byte stream.
trait Stream: Read + Write + Send + 'static {
    fn prepare(&self) -> io::Result<()>;
    fn port(&self) -> Option<u16>;
    fn close(&self);
    fn again(&self) -> io::Result<Self>
    where
        Self: Sized;
}

impl Stream for TcpStream {
    fn prepare(&self) -> io::Result<()> {
        self.set_nodelay(true)
    }

    fn port(&self) -> Option<u16> {
        self.local_addr().ok().map(|address| address.port())
    }

    fn close(&self) {
        // It may be closed already.
        let _ = self.shutdown(Shutdown::Both);
    }

    fn again(&self) -> io::Result<Self> {
        self.try_clone()
    }
}

impl Stream for UnixStream {
    fn prepare(&self) -> io::Result<()> {
        Ok(())
    }

    fn port(&self) -> Option<u16> {
        None
    }

    fn close(&self) {
        // It may be closed already.
        let _ = self.shutdown(Shutdown::Both);
    }

    fn again(&self) -> io::Result<Self> {
        self.try_clone()
    }
}

/// Where connections come in.
trait Listener: Send + 'static {
    type Stream: Stream;
    fn next(&self) -> io::Result<Self::Stream>;
}

impl Listener for TcpListener {
    type Stream = TcpStream;

    fn next(&self) -> io::Result<TcpStream> {
        self.accept().map(|(stream, _)| stream)
    }
}

impl Listener for UnixListener {
    type Stream = UnixStream;

    fn next(&self) -> io::Result<UnixStream> {
        self.accept().map(|(stream, _)| stream)
    }
}

struct StreamServer<S: Stream, C: Fn() -> io::Result<S>> {
    request_bytes: usize,
    connect: C,
    ends: Arc<AtomicBool>,
    open: Arc<Mutex<Vec<S>>>,
    acceptor: Option<JoinHandle<()>>,
}

impl<S: Stream, C: Fn() -> io::Result<S>> StreamServer<S, C> {
    fn start<L: Listener<Stream = S>>(request_bytes: usize, listener: L, connect: C) -> Self {
        let (ends, open) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let acceptor = thread::spawn({
            let (ends, open) = (Arc::clone(&ends), Arc::clone(&open));
            move || accept(&listener, request_bytes, &ends, &open)
        });
        Self { request_bytes, connect, ends, open, acceptor: Some(acceptor) }
    }
}

/// Serves each connection on a thread of its own, until one more connection.
fn accept<L: Listener>(
    listener: &L,
    request_bytes: usize,
    ends: &AtomicBool,
    open: &Mutex<Vec<L::Stream>>,
) {
    thread::scope(|scope| {
        while let Ok(stream) = listener.next() {
            if ends.load(Ordering::Acquire) {
                break;
            }
            let kept = stream.prepare().and_then(|()| stream.again());
            if let (Ok(kept), Ok(mut open)) = (kept, open.lock()) {
                open.push(kept);
                scope.spawn(move || serve(stream, request_bytes));
            }
        }
    });
}

/// Answers requests until the client goes.
fn serve(mut stream: impl Stream, request_bytes: usize) {
    let mut request = vec![0; request_bytes.max(1)];
    while stream.read_exact(&mut request).is_ok() && stream.write_all(&answer(&request)).is_ok() {}
}

impl<S: Stream, C: Fn() -> io::Result<S>> Server for StreamServer<S, C> {
    fn client(&self) -> io::Result<Box<dyn Client>> {
        let stream = (self.connect)()?;
        stream.prepare()?;
        Ok(Box::new(StreamClient { stream, message: Message::new(self.request_bytes) }))
    }
}

impl<S: Stream, C: Fn() -> io::Result<S>> Drop for StreamServer<S, C> {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Release);
        // The acceptor sleeps until somebody connects.
        let woken = (self.connect)();
        if let Ok(open) = self.open.lock() {
            open.iter().for_each(Stream::close);
        }
        if let (Ok(_), Some(acceptor)) = (woken, self.acceptor.take()) {
            // What it panicked of, a test has seen as a failed call.
            let _ = acceptor.join();
        }
    }
}

struct StreamClient<S> {
    stream: S,
    message: Message,
}

impl<S: Stream> Client for StreamClient<S> {
    fn call(&mut self, number: u64) -> io::Result<()> {
        self.message.number(number);
        self.stream.write_all(&self.message.request)?;
        self.stream.read_exact(&mut self.message.response)?;
        self.message.check()
    }

    fn port(&self) -> Option<u16> {
        self.stream.port()
    }
}
