//! A client that makes calls, and calls over TCP: a request and its response.
//!
//! Over a stream both begin with the number of the call, which VMTP has in its header. A group has no address there: a
//! request goes to each member by a connection of its own, at the ports behind the first one. The first response counts.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use sockscope_link::HostTraffic;
use sockscope_program::failure::Failure;
use sockscope_program::signals::StopSignals;

use super::args::SocketOptions;
use super::report::Traffic;
use super::socket::{Server, cannot, fill, resets};

/// Bytes of the number before a request and a response.
const NUMBER_BYTES: usize = 8;

/// One client, with one call under way.
pub trait Caller: Send {
    /// Makes a call and waits for its response, of a group for the first one; bytes of the response.
    fn call(&mut self, number: u64) -> io::Result<usize>;

    /// Packets and repetitions that the protocol counted; `None` where the kernel or a library has them.
    fn counts(&self) -> Option<Counts> {
        None
    }
}

/// Counts of a client.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counts {
    /// Packets sent.
    pub packets: u64,
    /// Blocks sent again.
    pub blocks_again: u64,
    /// Requests sent again, as no answer arrived.
    pub timeouts: u64,
}

/// Bytes of a request and a response, without their numbers.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    /// Of a request.
    pub request: usize,
    /// Of a response.
    pub response: usize,
}

/// Calls that servers answered.
#[derive(Default)]
pub struct Answered {
    calls: AtomicU64,
    before: OnceLock<HostTraffic>,
}

impl Answered {
    /// A request was received.
    pub fn add(&self) {
        // Packets that open a connection are of no call.
        self.before.get_or_init(HostTraffic::now);
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    /// All calls, in messages of so many bytes.
    pub fn traffic(&self, bytes: usize) -> Traffic {
        let messages = self.calls.load(Ordering::Relaxed);
        Traffic { messages, bytes: messages * bytes as u64 }
    }

    /// Packets that this host sent since the first request.
    pub fn packets(&self) -> u64 {
        self.before.get().map_or(0, |before| packets(HostTraffic::now() - *before))
    }
}

/// Packets of all kinds.
pub fn packets(of: HostTraffic) -> u64 {
    of.data_segments + of.pure_acks + of.retransmitted + of.datagrams
}

/// The addresses of so many members of a group: ports in a row.
pub fn members(first: SocketAddr, count: u32) -> Vec<SocketAddr> {
    let ports = (first.port()..=u16::MAX).take(count as usize);
    ports.map(|port| SocketAddr::new(first.ip(), port)).collect()
}

/// A request or a response.
pub fn message(number: u64, bytes: usize) -> Vec<u8> {
    let mut message = vec![0x5a; NUMBER_BYTES + bytes];
    message[..NUMBER_BYTES].copy_from_slice(&number.to_be_bytes());
    message
}

/// Room for a message of so many bytes behind the number.
pub fn room(bytes: usize) -> Vec<u8> {
    message(0, bytes)
}

/// The number before a message.
pub fn number_of(message: &[u8]) -> io::Result<u64> {
    let number = message.first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
    number.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Answers at all these addresses until the program is to stop.
pub fn serve(
    at: &[SocketAddr],
    sizes: Sizes,
    answered: &Answered,
    stop: &StopSignals,
) -> Result<(), Failure> {
    let options = SocketOptions { nodelay: true, ..SocketOptions::default() };
    // The first is the last to listen: clients that wait for it find all.
    let servers = at.iter().rev().map(|at| Server::at(*at, options));
    let servers: Vec<Server> = servers.collect::<Result<_, _>>()?;
    let answer = |mut stream: TcpStream| {
        let mut request = room(sizes.request);
        let mut answer_all = || {
            while fill(&mut stream, &mut request, stop)? == request.len() {
                answered.add();
                stream.write_all(&message(number_of(&request)?, sizes.response))?;
            }
            Ok(())
        };
        resets(answer_all())
    };
    thread::scope(|scope| {
        let serve = |server: &Server| server.serve(u32::MAX, stop, answer).map(drop);
        let threads: Vec<_> =
            servers.iter().map(|server| scope.spawn(move || serve(server))).collect();
        let panicked = |_| Err(Failure::new("lab work: a server panicked"));
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(panicked))
    })
}

/// A client of TCP, with a connection to each member.
pub struct TcpCaller {
    streams: Vec<TcpStream>,
    sizes: Sizes,
    /// Numbers of the responses of a group, each read by a thread of its own.
    responses: Option<Receiver<io::Result<u64>>>,
}

impl TcpCaller {
    /// Connects to all of them.
    pub fn connect(to: &[SocketAddr], sizes: Sizes) -> Result<Self, Failure> {
        let connect = |to: &SocketAddr| {
            let stream = TcpStream::connect(to);
            let ready = stream.and_then(|stream| stream.set_nodelay(true).map(|()| stream));
            ready.map_err(cannot("connect to", to))
        };
        let streams: Vec<TcpStream> = to.iter().map(connect).collect::<Result<_, _>>()?;
        if streams.len() == 1 {
            return Ok(Self { streams, sizes, responses: None });
        }
        let (send, responses) = channel();
        for stream in &streams {
            let (stream, send) = (stream.try_clone()?, send.clone());
            thread::spawn(move || read_all(stream, sizes, &send));
        }
        Ok(Self { streams, sizes, responses: Some(responses) })
    }
}

/// Reads responses until the stream ends, or the client does.
fn read_all(mut stream: TcpStream, sizes: Sizes, to: &Sender<io::Result<u64>>) {
    let mut response = room(sizes.response);
    loop {
        let read = stream.read_exact(&mut response).and_then(|()| number_of(&response));
        let is_over = read.is_err();
        if to.send(read).is_err() || is_over {
            return;
        }
    }
}

impl Caller for TcpCaller {
    fn call(&mut self, number: u64) -> io::Result<usize> {
        let request = message(number, self.sizes.request);
        // A member that is slow has the requests in its buffers, and at last the client waits for it.
        self.streams.iter_mut().try_for_each(|stream| stream.write_all(&request))?;
        let Some(responses) = &self.responses else {
            let mut response = room(self.sizes.response);
            self.streams[0].read_exact(&mut response)?;
            return match number_of(&response)? == number {
                true => Ok(self.sizes.response),
                false => Err(io::Error::other("a response to another call")),
            };
        };
        while responses.recv().map_err(io::Error::other)?? != number {}
        Ok(self.sizes.response)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_its_number_before_the_data() {
        let request = message(7, 3);
        assert_eq!((request.len(), number_of(&request).ok()), (NUMBER_BYTES + 3, Some(7)));
        assert!(number_of(&request[..NUMBER_BYTES - 1]).is_err());
    }

    #[test]
    fn members_listen_at_ports_in_a_row() {
        let ports = |first: &str| {
            let all = members(first.parse().expect("an address"), 3);
            all.iter().map(SocketAddr::port).collect::<Vec<_>>()
        };
        assert_eq!(ports("198.18.0.2:7000"), [7000, 7001, 7002]);
        assert_eq!(ports("198.18.0.2:65534"), [65_534, 65_535], "there are no more");
    }

    #[test]
    fn a_group_over_tcp_goes_on_with_the_first_response() {
        let listeners = [(); 2].map(|()| {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
            (listener.local_addr().expect("its address"), listener)
        });
        let sizes = Sizes { request: 2, response: 5 };
        let to = listeners.each_ref().map(|(at, _)| *at);
        let mut caller = TcpCaller::connect(&to, sizes).expect("both accept");
        let [mut silent, mut prompt] =
            listeners.each_ref().map(|(_, listener)| listener.accept().expect("it connects").0);
        let answering = thread::spawn(move || {
            for _ in 0..2 {
                let mut request = room(sizes.request);
                prompt.read_exact(&mut request).expect("a request");
                let number = number_of(&request).expect("its number");
                prompt.write_all(&message(number, sizes.response)).expect("a client");
            }
        });
        assert_eq!(caller.call(1).expect("one answered"), 5);
        assert_eq!(caller.call(2).expect("one answered"), 5);
        answering.join().expect("no panic");
        let mut both = vec![0; 2 * (NUMBER_BYTES + sizes.request)];
        silent.read_exact(&mut both).expect("it has both requests");
    }
}
