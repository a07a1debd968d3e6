//! The end that answers.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::net::{AddressFamily, SocketType, bind, listen, socket, sockopt};

use crate::EXCHANGE;

/// Bytes of a read.
const READ_BYTES: usize = 256 << 10;
/// Connections that wait to be accepted.
const BACKLOG: i32 = 4096;

struct Peer {
    stream: TcpStream,
    /// Whether requests are answered.
    answers: bool,
    /// Bytes of the request under way.
    part: usize,
}

fn listener(port: u16) -> io::Result<TcpListener> {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &SocketAddr::from((crate::SERVERS, port)))?;
    listen(&socket, BACKLOG)?;
    let listener = TcpListener::from(socket);
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Answers until its input ends.
pub fn serve(port: u16) -> io::Result<()> {
    let listeners = [listener(port)?, listener(port + 1)?];
    let set = epoll::create(CreateFlags::CLOEXEC)?;
    for (number, listener) in (0..).zip(&listeners) {
        epoll::add(&set, listener, EventData::new_u64(number), EventFlags::IN)?;
    }
    println!("ready");
    std::thread::spawn(|| {
        let _ = io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    let mut peers: HashMap<u64, Peer> = HashMap::new();
    let (mut next, mut buffer) = (2, vec![0; READ_BYTES]);
    let mut events = Vec::with_capacity(256);
    loop {
        events.clear();
        match epoll::wait(&set, rustix::buffer::spare_capacity(&mut events), None) {
            Err(rustix::io::Errno::INTR) => continue,
            other => other?,
        };
        for event in &events {
            let data = event.data;
            let number = data.u64();
            if let Some(listener) = listeners.get(number as usize) {
                while let Ok((stream, _)) = listener.accept() {
                    stream.set_nonblocking(true)?;
                    epoll::add(&set, &stream, EventData::new_u64(next), EventFlags::IN)?;
                    peers.insert(next, Peer { stream, answers: number == 0, part: 0 });
                    next += 1;
                }
            } else if let Some(peer) = peers.get_mut(&number)
                && !peer.take(&mut buffer)?
            {
                peers.remove(&number);
            }
        }
    }
}

impl Peer {
    /// Takes what is there; whether the connection goes on.
    fn take(&mut self, buffer: &mut [u8]) -> io::Result<bool> {
        let bytes = match self.stream.read(buffer) {
            Ok(0) => return Ok(false),
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(false),
            Err(error) => return Err(error),
        };
        if self.answers {
            self.part += bytes;
            while self.part >= EXCHANGE {
                self.part -= EXCHANGE;
                self.stream.write_all(&[b'a'; EXCHANGE])?;
            }
        }
        Ok(true)
    }
}
