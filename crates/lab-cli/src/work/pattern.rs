//! `lab work pattern`: the calls of a pattern once more, by two processes over loopback.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, Shutdown, SocketAddr};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};
use sockscope_analysis::{Action, Activity, LONG_WAIT_NS, Step};
use sockscope_lab::pattern_file::PatternFile;
use sockscope_program::failure::Failure;
use sockscope_program::outcome::Outcome;
use sockscope_record::Protocol;

use super::args::WorkPattern;
use super::report::{Report, Traffic};

/// A program that takes less than this before a call computes. A longer time may be a sleep, and is one here.
const SLEEP_MIN: Duration = Duration::from_millis(1);

/// A program sleeps as long as this before the end of its think time, and then computes: the kernel wakes it late.
const SPIN: Duration = Duration::from_micros(100);

/// A read that lasts longer fails.
const READ_MAX: Duration = Duration::from_secs(60);

/// Largest step.
const BUFFER_MAX: u64 = 1 << 26;

/// A call of UDP moves this at most. A shorter buffer would cut a datagram off.
const DATAGRAM_MAX: u64 = 65_507;

/// `lab work pattern`: the client, and the server as a process of its own; or one of them.
pub fn pattern(arguments: &WorkPattern) -> Result<Outcome, Failure> {
    let file = &arguments.file;
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::file("cannot read", file, &error))?;
    let cannot = |reason: String| Failure::new(format!("{}: {reason}", file.display()));
    let mut read = PatternFile::parse(&text).map_err(cannot)?;
    arguments.set.iter().for_each(|change| change.apply(&mut read.pattern));
    let (protocol, sides) = (read.pattern.protocol, &read.pattern.sides);
    check(protocol, sides).map_err(|reason| cannot(reason.to_owned()))?;
    let [client, server] = sides.each_ref().map(|side| Player { protocol, side });
    if let Some(at) = arguments.listen {
        server.serve(at)?;
        return Ok(Outcome::Done);
    }
    let mut report = Report::new("pattern", "asking");
    (report.sent, report.received) = match arguments.to {
        Some(to) => client.ask(to)?,
        None => both(arguments, &client)?,
    };
    report.print()
}

/// Refuses a pattern that would wait for ever, or for bytes that no side writes.
fn check(protocol: Protocol, sides: &[Activity; 2]) -> Result<(), &'static str> {
    let bytes = |side: &Activity, action| -> u64 {
        let steps = side.sequences.iter().flatten().filter(|step| step.action == action);
        steps.map(|step| step.bytes).fold(0, u64::saturating_add)
    };
    for (reader, writer) in [(0, 1), (1, 0)] {
        if bytes(&sides[reader], Action::Read) > bytes(&sides[writer], Action::Write) {
            return Err("a side reads more bytes than the other one writes");
        }
    }
    let steps = sides.iter().flat_map(|side| &side.sequences).flatten();
    let largest = steps.map(|step| step.bytes).max().unwrap_or(0);
    match protocol {
        Protocol::Udp if largest > DATAGRAM_MAX => Err("a datagram has more than 65,507 bytes"),
        _ if largest > BUFFER_MAX => Err("a step has more than 64 MiB"),
        _ => Ok(()),
    }
}

/// Sent and received, a message for each call.
type Moved = (Traffic, Traffic);

/// Starts the server and asks it over loopback.
fn both(arguments: &WorkPattern, client: &Player<'_>) -> Result<Moved, Failure> {
    let mut server = Command::new(std::env::current_exe()?)
        .args(["lab", "work", "pattern", "--listen", "127.0.0.1:0"])
        .args(arguments.set.iter().map(|change| format!("--set={change}")))
        .arg(&arguments.file)
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    if let Some(out) = server.stdout.take() {
        BufReader::new(out).read_line(&mut line)?;
    }
    let moved = match line.trim().parse::<u16>() {
        Ok(port) => client.ask((Ipv4Addr::LOCALHOST, port).into()),
        Err(_) => return Err(Failure::new("lab work pattern: the server did not start")),
    };
    let moved = moved.inspect_err(|_| drop(server.kill()))?;
    match server.wait()?.success() {
        true => Ok(moved),
        false => Err(Failure::new("lab work pattern: the server failed")),
    }
}

/// Makes the calls of one side.
struct Player<'a> {
    protocol: Protocol,
    side: &'a Activity,
}

impl Player<'_> {
    fn serve(&self, at: SocketAddr) -> io::Result<()> {
        let socket = self.socket(at)?;
        socket.set_reuse_address(true)?;
        socket.bind(&at.into())?;
        if self.protocol == Protocol::Tcp {
            socket.listen(1)?;
        }
        let port = socket.local_addr()?.as_socket().map_or(0, |own| own.port());
        writeln!(io::stdout(), "{port}")?;
        match self.protocol {
            Protocol::Tcp => {
                let (connection, _) = socket.accept()?;
                self.play(&connection)?;
            }
            Protocol::Udp => {
                // The first datagram has the address of the client; the play reads it.
                socket.set_read_timeout(Some(READ_MAX))?;
                let (_, client) = socket.peek_from(&mut [MaybeUninit::uninit(); 1])?;
                socket.connect(&client)?;
                self.play(&socket)?;
            }
        }
        Ok(())
    }

    fn ask(&self, to: SocketAddr) -> io::Result<Moved> {
        let socket = self.socket(to)?;
        socket.connect(&to.into())?;
        let moved = self.play(&socket)?;
        if self.protocol == Protocol::Tcp {
            // The command of a link ends its server: that may still read.
            socket.shutdown(Shutdown::Write)?;
            while (&socket).read(&mut [0; 64])? > 0 {}
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
    fn play(&self, connection: &Socket) -> io::Result<Moved> {
        // The other side may have ended, or wait itself in a pattern that was edited.
        connection.set_read_timeout(Some(READ_MAX))?;
        if self.protocol == Protocol::Tcp && self.side.no_delay {
            connection.set_tcp_nodelay(true)?;
        }
        let least = if self.protocol == Protocol::Udp { DATAGRAM_MAX } else { 1 };
        let buffer = self.side.read_buffer_bytes.clamp(least, BUFFER_MAX) as usize;
        let warm_ns = self.side.warm_think_ns;
        let play = |steps: &Vec<Step>| play_steps(connection, steps, buffer, warm_ns);
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

/// Plays steps one after the other. Reads in sequence end where theirs together end, as their pieces may be others.
fn play_steps(
    mut connection: &Socket,
    steps: &[Step],
    buffer: usize,
    warm_ns: Option<u64>,
) -> io::Result<Moved> {
    let largest = steps.iter().map(|step| step.bytes).max().unwrap_or(0) as usize;
    let mut bytes = vec![7; largest.max(buffer)];
    let (mut sent, mut received) = Moved::default();
    let (mut wanted, mut waited) = (0, false);
    let mut own_read_ns = 0;
    for step in steps {
        let think_ns = if waited { step.think_ns } else { step.warm_think_ns(warm_ns) };
        // The time to a read that found its data has the call in it: its start is not recorded.
        let is_ready = step.action == Action::Read && step.think_ns > 0;
        think(think_ns.saturating_sub(if is_ready { own_read_ns } else { 0 }));
        match step.action {
            Action::Write => {
                connection.write_all(&bytes[..step.bytes as usize])?;
                sent.add(step.bytes as usize);
                waited = false;
            }
            Action::Read => {
                wanted += step.bytes;
                // Where an earlier read took the bytes of this one, its wait still counts.
                waited &= received.bytes >= wanted;
                while received.bytes < wanted {
                    let begin = Instant::now();
                    match connection.read(&mut bytes[..buffer])? {
                        0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                        more => received.add(more),
                    }
                    let took_ns = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
                    waited |= took_ns >= LONG_WAIT_NS;
                    if is_ready && took_ns < LONG_WAIT_NS {
                        own_read_ns = (7 * own_read_ns + took_ns) / 8;
                    }
                }
            }
        }
    }
    Ok((sent, received))
}

fn think(ns: u64) {
    let end = Instant::now() + Duration::from_nanos(ns);
    let time = Duration::from_nanos(ns);
    if time >= SLEEP_MIN {
        thread::sleep(time - SPIN);
    }
    while Instant::now() < end {
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One message of so many bytes, which the other side reads.
    fn message(bytes: u64) -> [Activity; 2] {
        [Action::Write, Action::Read].map(|action| {
            let step = Step { action, bytes, think_ns: 0, after_wait: false };
            Activity { sequences: vec![vec![step]], ..Activity::default() }
        })
    }

    #[test]
    fn the_largest_datagram_and_the_largest_step_are_made() {
        let checked = |protocol, bytes| check(protocol, &message(bytes));
        assert_eq!(checked(Protocol::Udp, 65_507), Ok(()));
        assert_eq!(checked(Protocol::Udp, 65_508), Err("a datagram has more than 65,507 bytes"));
        assert_eq!(checked(Protocol::Tcp, 64 << 20), Ok(()));
        assert_eq!(checked(Protocol::Tcp, (64 << 20) + 1), Err("a step has more than 64 MiB"));
    }
}
