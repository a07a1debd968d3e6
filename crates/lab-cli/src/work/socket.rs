//! Sockets with the options that a user gave.

use std::io::{self, ErrorKind, Read};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::net::sockopt::{
    Timeout, set_socket_recv_buffer_size, set_socket_reuseaddr, set_socket_send_buffer_size,
    set_socket_timeout, set_tcp_nodelay, socket_recv_buffer_size, socket_send_buffer_size,
};
use rustix::net::{AddressFamily, SocketType, bind, connect, getsockname, listen, socket};
use serde_json::{Value, json};
use socket2::SockRef;
use sockscope_program::failure::Failure;
use sockscope_program::signals::StopSignals;

use super::args::{SocketOptions, Transport};

/// Connections that wait until the program accepts them.
const BACKLOG: i32 = 1_024;
/// A call that waits for data looks so often whether the program is to stop.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What the kernel granted, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Buffers {
    options: SocketOptions,
    send_bytes: usize,
    receive_bytes: usize,
}

impl Buffers {
    fn of(socket: impl AsFd, options: SocketOptions) -> io::Result<Self> {
        Ok(Self {
            options,
            send_bytes: socket_send_buffer_size(socket.as_fd())?,
            receive_bytes: socket_recv_buffer_size(socket.as_fd())?,
        })
    }

    /// Requested and granted.
    pub fn json(&self) -> Value {
        let buffer = |asked: Option<sockscope_link::Bytes>, granted: usize| json!({ "asked_bytes": asked.map(|it| it.0), "granted_bytes": granted });
        json!({
            "send_buffer": buffer(self.options.send_buffer, self.send_bytes),
            "receive_buffer": buffer(self.options.receive_buffer, self.receive_bytes),
            "nodelay": self.options.nodelay,
        })
    }
}

/// A message about a failed call on an address.
pub fn cannot(what: &str, address: impl std::fmt::Display) -> impl Fn(io::Error) -> Failure {
    let text = format!("lab work: cannot {what} {address}");
    move |error| Failure::new(format!("{text}: {error}"))
}

fn made(address: SocketAddr, transport: Transport, options: SocketOptions) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let kind = match transport {
        Transport::Tcp => SocketType::STREAM,
        Transport::Udp => SocketType::DGRAM,
    };
    let socket = socket(family, kind, None)?;
    // Before the connection exists, so that its window scale follows from the buffer.
    if let Some(size) = options.send_buffer {
        set_socket_send_buffer_size(&socket, size.0 as usize)?;
    }
    if let Some(size) = options.receive_buffer {
        set_socket_recv_buffer_size(&socket, size.0 as usize)?;
    }
    if options.nodelay && transport == Transport::Tcp {
        set_tcp_nodelay(&socket, true)?;
    }
    if transport == Transport::Tcp {
        let of_tcp = SockRef::from(&socket);
        // Before the connection exists, since the SYN announces it.
        options.segment_bytes.map_or(Ok(()), |bytes| of_tcp.set_tcp_mss(bytes))?;
        options.unsent_bytes.map_or(Ok(()), |bytes| of_tcp.set_tcp_notsent_lowat(bytes))?;
    }
    set_socket_timeout(&socket, Timeout::Recv, Some(LOOK_EVERY))?;
    Ok(socket)
}

/// A connected socket.
pub fn connected(
    to: SocketAddr,
    transport: Transport,
    options: SocketOptions,
) -> Result<(OwnedFd, Buffers), Failure> {
    let make = || {
        let socket = made(to, transport, options)?;
        connect(&socket, &to)?;
        let buffers = Buffers::of(&socket, options)?;
        Ok((socket, buffers))
    };
    make().map_err(cannot("connect to", to))
}

/// A connection.
pub fn stream_to(to: SocketAddr, options: SocketOptions) -> Result<(TcpStream, Buffers), Failure> {
    connected(to, Transport::Tcp, options).map(|(socket, buffers)| (socket.into(), buffers))
}

/// A socket of datagrams without a peer.
pub fn unconnected(
    to: SocketAddr,
    options: SocketOptions,
) -> Result<(UdpSocket, Buffers), Failure> {
    let make = || {
        let socket = made(to, Transport::Udp, options)?;
        let buffers = Buffers::of(&socket, options)?;
        Ok((socket.into(), buffers))
    };
    make().map_err(cannot("open a socket for", to))
}

fn bound(
    at: SocketAddr,
    transport: Transport,
    options: SocketOptions,
) -> Result<(OwnedFd, Buffers), Failure> {
    let make = || {
        let socket = made(at, transport, options)?;
        set_socket_reuseaddr(&socket, true)?;
        bind(&socket, &at)?;
        if transport == Transport::Tcp {
            listen(&socket, BACKLOG)?;
        }
        let own = SocketAddr::try_from(getsockname(&socket)?)?;
        stderr!("sockscope: lab work: receives at {own}");
        let buffers = Buffers::of(&socket, options)?;
        Ok((socket, buffers))
    };
    make().map_err(cannot("receive at", at))
}

/// A socket that takes datagrams.
pub fn datagrams_at(
    at: SocketAddr,
    options: SocketOptions,
) -> Result<(UdpSocket, Buffers), Failure> {
    bound(at, Transport::Udp, options).map(|(socket, buffers)| (socket.into(), buffers))
}

/// A server of connections.
pub struct Server {
    listener: TcpListener,
    at: SocketAddr,
    options: SocketOptions,
    /// What its socket, and so its connections, were granted.
    pub buffers: Buffers,
}

impl Server {
    /// Listens.
    pub fn at(at: SocketAddr, options: SocketOptions) -> Result<Self, Failure> {
        let (socket, buffers) = bound(at, Transport::Tcp, options)?;
        Ok(Self { listener: socket.into(), at, options, buffers })
    }

    /// The next connection; `None` when the program is to stop.
    pub fn accept(&self, stop: &StopSignals) -> Result<Option<TcpStream>, Failure> {
        let accept = || {
            let Some((stream, _)) = unless_stopped(stop, || self.listener.accept())? else {
                return Ok(None);
            };
            set_socket_timeout(&stream, Timeout::Recv, Some(LOOK_EVERY))?;
            stream.set_nodelay(self.options.nodelay)?;
            Ok(Some(stream))
        };
        accept().map_err(cannot("accept at", self.at))
    }

    /// Runs `work` for each of so many connections, each on a thread; what it gave, in the order of the connections.
    pub fn serve<T: Send>(
        &self,
        connections: u32,
        stop: &StopSignals,
        work: impl Fn(TcpStream) -> io::Result<T> + Sync,
    ) -> Result<Vec<T>, Failure> {
        let ended = std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for _ in 0..connections {
                let Some(stream) = self.accept(stop)? else { break };
                let work = &work;
                threads.push(scope.spawn(move || work(stream)));
            }
            let joined = threads.into_iter().map(|thread| {
                thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))
            });
            Ok::<_, Failure>(joined.collect::<Vec<_>>())
        })?;
        let ended: io::Result<Vec<_>> = ended.into_iter().collect();
        ended.map_err(cannot("serve at", self.at))
    }
}

/// Repeats a call that a timeout or a signal ended; `None` when the program is to stop.
pub fn unless_stopped<T>(
    stop: &StopSignals,
    mut call: impl FnMut() -> io::Result<T>,
) -> io::Result<Option<T>> {
    loop {
        match call() {
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                if stop.stop_requested() {
                    return Ok(None);
                }
            }
            other => return other.map(Some),
        }
    }
}

/// How often a connection was reset before its end, 0 or 1: its peer is gone, and what was received counts.
pub fn resets(ended: io::Result<()>) -> io::Result<u64> {
    match ended {
        Ok(()) => Ok(0),
        Err(error) => match error.kind() {
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => Ok(1),
            _ => Err(error),
        },
    }
}

/// Fills the buffer as far as there are bytes; how far. A stop ends it as the end of the stream does.
pub fn fill(from: &mut impl Read, buffer: &mut [u8], stop: &StopSignals) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match unless_stopped(stop, || from.read(&mut buffer[filled..]))? {
            None | Some(0) => break,
            Some(bytes) => filled += bytes,
        }
    }
    Ok(filled)
}
