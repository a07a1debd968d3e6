//! One side: its sockets, and a thread for each of its sequences.

use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::net::{Shutdown, SocketAddr};
use std::thread;

use socket2::{Domain, Socket, Type};
use sockscope_analysis::{Activity, Step};
use sockscope_record::Protocol;

use super::found;
use super::steps::{Moved, READ_MAX, play_steps};

/// Makes the calls of one side.
pub struct Player<'a> {
    pub protocol: Protocol,
    /// Number of connections.
    pub connections: u32,
    pub side: &'a Activity,
}

impl Player<'_> {
    /// Listens at this address, prints the port, and plays.
    pub fn serve(&self, at: SocketAddr) -> io::Result<()> {
        let socket = self.socket(at)?;
        socket.set_reuse_address(true)?;
        socket.bind(&at.into())?;
        if self.protocol == Protocol::Tcp {
            socket.listen(self.connections.cast_signed())?;
        }
        let port = socket.local_addr()?.as_socket().map_or(0, |own| own.port());
        writeln!(io::stdout(), "{port}")?;
        match self.protocol {
            Protocol::Tcp => {
                // The client opens them one after the other: they have the same numbers here.
                let accepted = (0..self.connections).map(|_| Ok(socket.accept()?.0));
                self.play(&accepted.collect::<io::Result<Vec<_>>>()?)?;
            }
            Protocol::Udp => {
                // The first datagram has the address of the client; the play reads it.
                socket.set_read_timeout(Some(READ_MAX))?;
                let (_, client) = socket.peek_from(&mut [MaybeUninit::uninit(); 1])?;
                socket.connect(&client)?;
                self.play(&[socket])?;
            }
            _ => return Err(io::Error::other("it plays no Unix sockets")),
        }
        Ok(())
    }

    /// Opens the connections to this address, and plays.
    pub fn ask(&self, to: SocketAddr) -> io::Result<Moved> {
        let open = |_| {
            let socket = self.socket(to)?;
            socket.connect(&to.into())?;
            Ok(socket)
        };
        let sockets = (0..self.connections).map(open).collect::<io::Result<Vec<_>>>()?;
        let moved = self.play(&sockets)?;
        if self.protocol == Protocol::Tcp {
            // The command of a link ends its server: that may still read.
            sockets.iter().try_for_each(|socket| socket.shutdown(Shutdown::Write))?;
            for mut socket in &sockets {
                while socket.read(&mut [0; 64])? > 0 {}
            }
        }
        Ok(moved)
    }

    /// A socket with the program's options. The kernel takes sizes of buffers into account when it opens a connection.
    fn socket(&self, at: SocketAddr) -> io::Result<Socket> {
        let kind = if self.protocol == Protocol::Tcp { Type::STREAM } else { Type::DGRAM };
        let socket = Socket::new(Domain::for_address(at), kind, None)?;
        let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        if let Some(size) = self.side.send_buffer_bytes {
            socket.set_send_buffer_size(bytes(size))?;
        }
        if let Some(size) = self.side.receive_buffer_bytes {
            socket.set_recv_buffer_size(bytes(size))?;
        }
        Ok(socket)
    }

    /// Plays every sequence; the bytes that it moved.
    fn play(&self, connections: &[Socket]) -> io::Result<Moved> {
        for connection in connections {
            // The other side may have ended, or wait itself in a pattern that was edited.
            connection.set_read_timeout(Some(READ_MAX))?;
            if self.protocol == Protocol::Tcp && self.side.no_delay {
                connection.set_tcp_nodelay(true)?;
            }
        }
        let play = |steps: &Vec<Step>| match connections {
            [connection] if self.side.answers_as_found => {
                found::answer(connection, steps, self.side)
            }
            _ => play_steps(connections, steps, self.side, self.protocol),
        };
        if let [steps] = self.side.sequences.as_slice() {
            return play(steps);
        }
        let parts: io::Result<Vec<_>> = thread::scope(|scope| {
            let sequences = self.side.sequences.iter();
            let threads: Vec<_> = sequences.map(|steps| scope.spawn(move || play(steps))).collect();
            let failed = |_| Err(io::Error::other("a thread failed"));
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(failed)).collect()
        });
        let parts = parts?.into_iter();
        Ok(parts.fold(Moved::default(), |sum, part| (sum.0.plus(part.0), sum.1.plus(part.1))))
    }
}
