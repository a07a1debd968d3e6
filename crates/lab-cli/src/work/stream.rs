//! `discard` and `send`: data in one direction.

use std::io::{self, Read, Write};
use std::net::{TcpStream, UdpSocket};

use sockscope_link::{Lateness, now_ns};
use sockscope_program::failure::Failure;
use sockscope_program::outcome::Outcome;
use sockscope_program::signals::StopSignals;

use super::args::{Discard, Send, Transport};
use super::message::{Borders, STAMP_BYTES, Stamp};
use super::process::cpu_ns;
use super::report::{Report, Traffic};
use super::schedule::{Schedule, pause};
use super::socket::{Server, cannot, connected, datagrams_at, resets, unconnected, unless_stopped};

/// Of one connection or of a socket of datagrams.
#[derive(Default)]
struct Received {
    reads: u64,
    resets: u64,
    traffic: Traffic,
    latency: Vec<u64>,
}

/// `lab work discard`.
pub fn discard(arguments: &Discard) -> Result<Outcome, Failure> {
    let stop = StopSignals::register()?;
    let before_ns = cpu_ns();
    let report = Report::new("discard", "receiver");
    let (all, report) = match arguments.protocol {
        Transport::Tcp => {
            let server = Server::at(arguments.listen, arguments.socket)?;
            let read = |stream| read_stream(stream, arguments, &stop);
            (server.serve(arguments.connections, &stop, read)?, report.over(server.buffers))
        }
        Transport::Udp => {
            let (socket, buffers) = datagrams_at(arguments.listen, arguments.socket)?;
            let received = read_datagrams(&socket, arguments, &stop);
            let received = received.map_err(cannot("receive at", arguments.listen))?;
            (vec![received], report.over(buffers))
        }
    };
    let reads: u64 = all.iter().map(|received| received.reads).sum();
    let resets: u64 = all.iter().map(|received| received.resets).sum();
    let report = report.with("reads", reads.into()).with("resets", resets.into());
    let report = report.with("connections", all.len().into());
    let mut report = report.with("cpu_ns", (cpu_ns() - before_ns).into());
    let mut latency = Lateness::default();
    for received in all {
        report.received = report.received.plus(received.traffic);
        received.latency.into_iter().for_each(|ns| latency.add(ns));
    }
    report.latency = latency;
    report.print()
}

fn read_stream(stream: TcpStream, arguments: &Discard, stop: &StopSignals) -> io::Result<Received> {
    let mut received = Received::default();
    received.resets = resets(read_all(stream, arguments, stop, &mut received))?;
    Ok(received)
}

fn read_all(
    mut stream: TcpStream,
    arguments: &Discard,
    stop: &StopSignals,
    received: &mut Received,
) -> io::Result<()> {
    let mut borders = Borders::default();
    let mut buffer = vec![0; arguments.read_bytes.0 as usize];
    while let Some(bytes) = unless_stopped(stop, || stream.read(&mut buffer))? {
        if bytes == 0 {
            break;
        }
        received.reads += 1;
        received.traffic.bytes += bytes as u64;
        if arguments.stamped {
            let now_ns = now_ns();
            let stamps = borders.push(&buffer[..bytes]);
            for stamp in stamps.map_err(|_| io::Error::other("messages without a stamp"))? {
                received.traffic.messages += 1;
                received.latency.push(now_ns.saturating_sub(stamp.planned_ns));
            }
        }
        pause(arguments.pause);
    }
    Ok(())
}

fn read_datagrams(
    socket: &UdpSocket,
    arguments: &Discard,
    stop: &StopSignals,
) -> io::Result<Received> {
    let mut received = Received::default();
    let mut buffer = vec![0; arguments.read_bytes.0 as usize];
    while let Some(bytes) = unless_stopped(stop, || socket.recv(&mut buffer))? {
        received.reads += 1;
        received.traffic.add(bytes);
        if let Some(stamp) = Stamp::read(&buffer[..bytes]).filter(|_| arguments.stamped) {
            received.latency.push(now_ns().saturating_sub(stamp.planned_ns));
        }
        pause(arguments.pause);
    }
    Ok(received)
}

/// `lab work send`.
pub fn send(arguments: &Send) -> Result<Outcome, Failure> {
    let bytes = arguments.message_bytes.0 as usize;
    let is_stamped = arguments.every.is_some();
    if is_stamped && bytes < STAMP_BYTES {
        return Err(Failure::new(format!(
            "lab work: a message with a stamp has {STAMP_BYTES} bytes or more"
        )));
    }
    if arguments.unconnected && arguments.protocol == Transport::Tcp {
        return Err(Failure::new("lab work: --unconnected is for --protocol udp".to_owned()));
    }
    let (mut put, buffers) = sender(arguments)?;
    let mut report = Report::new("send", "sender").over(buffers);
    let mut schedule = Schedule::new(arguments.every);
    let mut message = vec![0; bytes];
    let (mut refused, mut times_ns) = (0_u64, Vec::new());
    let messages = arguments.bytes.map_or(arguments.messages, |all| all.0.div_ceil(bytes as u64));
    let last_bytes =
        arguments.bytes.map_or(bytes, |all| (all.0 - (messages - 1) * bytes as u64) as usize);
    if is_stamped && last_bytes < STAMP_BYTES {
        return Err(Failure::new(format!(
            "lab work: the last message has {last_bytes} bytes, and one with a stamp {STAMP_BYTES} or more"
        )));
    }
    let before_ns = cpu_ns();
    for number in 0..messages {
        let bytes = if number + 1 == messages { last_bytes } else { bytes };
        let message = &mut message[..bytes];
        let planned_ns = schedule.wait();
        if is_stamped {
            let message_bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
            Stamp { message_bytes, answer_bytes: 0, number, planned_ns }.write(message);
        }
        let began_ns = arguments.list_times.then(now_ns);
        let put = put(message);
        times_ns.extend(began_ns.map(|began_ns| now_ns() - began_ns));
        match put {
            Ok(()) => report.sent.add(bytes),
            // ICMP answers a datagram that no socket takes; the next call reports this.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => refused += 1,
            Err(error) => return Err(cannot("send to", arguments.to)(error)),
        }
        pause(arguments.pause);
    }
    let used_ns = cpu_ns() - before_ns;
    drop(put);
    let report = report.by(&schedule).with("refused", refused.into());
    let report = report.with("cpu_ns", used_ns.into());
    report.with_times(arguments.list_times, &times_ns).print()
}

type Put = Box<dyn FnMut(&[u8]) -> io::Result<()>>;

/// The call that sends a message.
fn sender(arguments: &Send) -> Result<(Put, super::socket::Buffers), Failure> {
    let (to, options) = (arguments.to, arguments.socket);
    if arguments.unconnected {
        let (socket, buffers) = unconnected(to, options)?;
        return Ok((Box::new(move |data| socket.send_to(data, to).map(drop)), buffers));
    }
    let (socket, buffers) = connected(to, arguments.protocol, options)?;
    let put: Put = match arguments.protocol {
        Transport::Tcp => {
            let mut stream = TcpStream::from(socket);
            Box::new(move |data| stream.write_all(data))
        }
        Transport::Udp => {
            let socket = UdpSocket::from(socket);
            Box::new(move |data| socket.send(data).map(drop))
        }
    };
    Ok((put, buffers))
}
