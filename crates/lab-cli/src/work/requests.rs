//! `one-at-a-time` and `request-response`: requests and their answers.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;

use sockscope_link::{Interval, Lateness, now_ns};
use sockscope_program::failure::Failure;
use sockscope_program::outcome::Outcome;
use sockscope_program::signals::StopSignals;

use super::args::{OneAtATime, RequestResponse, Requests, Transport};
use super::message::{STAMP_BYTES, Stamp};
use super::report::{Report, Traffic};
use super::schedule::{Schedule, compute};
use super::socket::{Server, cannot, connected, datagrams_at, fill, resets, unless_stopped};

/// A datagram without an answer for so long is lost.
const ANSWER_NS: u64 = 1_000_000_000;
/// The largest datagram.
const DATAGRAM_BYTES_MAX: usize = 65_507;

/// `lab work one-at-a-time`.
pub fn one_at_a_time(arguments: &OneAtATime) -> Result<Outcome, Failure> {
    either_end("one-at-a-time", &arguments.requests, None)
}

/// `lab work request-response`.
pub fn request_response(arguments: &RequestResponse) -> Result<Outcome, Failure> {
    either_end("request-response", &arguments.requests, Some(arguments.every))
}

fn either_end(
    workload: &'static str,
    requests: &Requests,
    every: Option<Interval>,
) -> Result<Outcome, Failure> {
    let sizes = [requests.request_bytes, requests.response_bytes].map(|size| size.0 as usize);
    if sizes.iter().any(|size| *size < STAMP_BYTES) {
        return Err(Failure::new(format!(
            "lab work: a request or a response has {STAMP_BYTES} bytes or more"
        )));
    }
    if requests.protocol == Transport::Udp && sizes.iter().any(|size| *size > DATAGRAM_BYTES_MAX) {
        return Err(Failure::new(format!(
            "lab work: a datagram has {DATAGRAM_BYTES_MAX} bytes at most"
        )));
    }
    let stop = StopSignals::register()?;
    match (requests.end.listen, requests.end.to) {
        (Some(at), _) => answer(workload, requests, at, &stop),
        (None, Some(to)) => ask(workload, requests, to, every, &stop),
        (None, None) => unreachable!("clap asks for one of both"),
    }
}

/// What one connection, or a socket of datagrams, received and sent.
#[derive(Default)]
struct Answered {
    received: Traffic,
    sent: Traffic,
    resets: u64,
}

fn answer(
    workload: &'static str,
    requests: &Requests,
    at: SocketAddr,
    stop: &StopSignals,
) -> Result<Outcome, Failure> {
    let report = Report::new(workload, "answering");
    let (all, mut report) = match requests.protocol {
        Transport::Tcp => {
            let server = Server::at(at, requests.socket)?;
            let work = |stream| answer_stream(stream, requests.service, stop);
            (server.serve(requests.connections, stop, work)?, report.over(server.buffers))
        }
        Transport::Udp => {
            let (socket, buffers) = datagrams_at(at, requests.socket)?;
            let both = answer_datagrams(&socket, requests.service, stop);
            (vec![both.map_err(cannot("answer at", at))?], report.over(buffers))
        }
    };
    for answered in &all {
        report.received = report.received.plus(answered.received);
        report.sent = report.sent.plus(answered.sent);
    }
    let resets: u64 = all.iter().map(|answered| answered.resets).sum();
    report.with("resets", resets.into()).with("connections", all.len().into()).print()
}

fn answer_stream(stream: TcpStream, service: Interval, stop: &StopSignals) -> io::Result<Answered> {
    let mut answered = Answered::default();
    answered.resets = resets(answer_all(stream, service, stop, &mut answered))?;
    Ok(answered)
}

fn answer_all(
    mut stream: TcpStream,
    service: Interval,
    stop: &StopSignals,
    answered: &mut Answered,
) -> io::Result<()> {
    let mut head = [0; STAMP_BYTES];
    let mut body = Vec::new();
    while fill(&mut stream, &mut head, stop)? == STAMP_BYTES {
        let stamp = Stamp::read(&head).ok_or_else(|| io::Error::other("no request of lab work"))?;
        body.resize(stamp.message_bytes as usize - STAMP_BYTES, 0);
        if fill(&mut stream, &mut body, stop)? < body.len() {
            break;
        }
        answered.received.add(stamp.message_bytes as usize);
        compute(service);
        let answer = response(stamp);
        stream.write_all(&answer)?;
        answered.sent.add(answer.len());
    }
    Ok(())
}

fn answer_datagrams(
    socket: &UdpSocket,
    service: Interval,
    stop: &StopSignals,
) -> io::Result<Answered> {
    let mut answered = Answered::default();
    let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
    while let Some((bytes, peer)) = unless_stopped(stop, || socket.recv_from(&mut buffer))? {
        let Some(stamp) = Stamp::read(&buffer[..bytes]) else { continue };
        if stamp.answer_bytes as usize > DATAGRAM_BYTES_MAX {
            continue;
        }
        answered.received.add(bytes);
        compute(service);
        let answer = response(stamp);
        match socket.send_to(&answer, peer) {
            Ok(_) => answered.sent.add(answer.len()),
            // ICMP reported that the asking end is gone.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
            Err(error) => return Err(error),
        }
    }
    Ok(answered)
}

/// The answer to a request: its number and planned time in a message of the length that it asks for.
fn response(request: Stamp) -> Vec<u8> {
    let bytes = (request.answer_bytes as usize).max(STAMP_BYTES);
    let mut answer = vec![0; bytes];
    Stamp { message_bytes: request.answer_bytes, answer_bytes: 0, ..request }.write(&mut answer);
    answer
}

/// What the asking end received, and the times from the requests' planned times.
#[derive(Default)]
struct Answers {
    traffic: Traffic,
    latency: Lateness,
}

impl Answers {
    /// Takes an answer, if it is one that was not taken yet; the number of the request.
    fn take(&mut self, message: &[u8]) -> Option<u64> {
        let stamp = Stamp::read(message)?;
        self.traffic.add(message.len());
        self.latency.add(now_ns().saturating_sub(stamp.planned_ns));
        Some(stamp.number)
    }
}

/// The asking end's socket.
enum Line {
    Stream(TcpStream),
    Datagrams(UdpSocket),
}

impl Line {
    fn of(socket: OwnedFd, transport: Transport) -> Self {
        match transport {
            Transport::Tcp => Self::Stream(socket.into()),
            Transport::Udp => Self::Datagrams(socket.into()),
        }
    }

    fn send(&self, message: &[u8]) -> io::Result<()> {
        match self {
            Self::Stream(stream) => (&*stream).write_all(message),
            Self::Datagrams(socket) => socket.send(message).map(drop),
        }
    }

    /// An answer; `None` when the stream ended, the program is to stop, or `is_over` after a pause.
    fn receive(&self, buffer: &mut [u8], is_over: impl Fn() -> bool) -> io::Result<Option<usize>> {
        let mut filled = 0;
        loop {
            let read = match self {
                Self::Stream(stream) => (&*stream).read(&mut buffer[filled..]),
                Self::Datagrams(socket) => socket.recv(buffer),
            };
            match read {
                Ok(0) => return Ok(None),
                Ok(bytes) => filled += bytes,
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock | ErrorKind::Interrupted if !is_over() => continue,
                    ErrorKind::WouldBlock | ErrorKind::Interrupted => return Ok(None),
                    // Of an earlier datagram, by ICMP.
                    ErrorKind::ConnectionRefused if matches!(self, Self::Datagrams(_)) => continue,
                    _ => return Err(error),
                },
            }
            if filled == buffer.len() || matches!(self, Self::Datagrams(_)) {
                return Ok(Some(filled));
            }
        }
    }
}

fn ask(
    workload: &'static str,
    requests: &Requests,
    to: SocketAddr,
    every: Option<Interval>,
    stop: &StopSignals,
) -> Result<Outcome, Failure> {
    let (socket, buffers) = connected(to, requests.protocol, requests.socket)?;
    let line = Line::of(socket, requests.protocol);
    let mut report = Report::new(workload, "asking").over(buffers);
    let mut schedule = Schedule::new(every);
    let asked = match every {
        None => ask_in_turn(&line, requests, &mut report.sent, stop),
        Some(_) => ask_by_schedule(&line, requests, &mut report.sent, &mut schedule, stop),
    };
    let answers = asked.map_err(cannot("exchange messages with", to))?;
    report.received = answers.traffic;
    report.latency = answers.latency;
    report.unanswered = report.sent.messages.saturating_sub(report.received.messages);
    report.by(&schedule).print()
}

fn request(requests: &Requests, number: u64, planned_ns: u64) -> Vec<u8> {
    let [message_bytes, answer_bytes] = [requests.request_bytes, requests.response_bytes]
        .map(|size| u32::try_from(size.0).unwrap_or(u32::MAX));
    let mut message = vec![0; message_bytes as usize];
    Stamp { message_bytes, answer_bytes, number, planned_ns }.write(&mut message);
    message
}

/// Sends each request when the one before was answered or given up.
fn ask_in_turn(
    line: &Line,
    requests: &Requests,
    sent: &mut Traffic,
    stop: &StopSignals,
) -> io::Result<Answers> {
    let mut answers = Answers::default();
    let mut buffer = vec![0; requests.response_bytes.0 as usize];
    for number in 0..requests.requests {
        let start_ns = now_ns();
        let is_late = || is_lost(line, start_ns) || stop.stop_requested();
        send_request(line, &request(requests, number, start_ns), sent)?;
        // An answer to an earlier request arrived too late.
        while let Some(bytes) = line.receive(&mut buffer, is_late)? {
            let is_own = Stamp::read(&buffer[..bytes]).is_some_and(|stamp| stamp.number == number);
            if is_own {
                answers.take(&buffer[..bytes]);
                break;
            }
        }
        if stop.stop_requested() {
            break;
        }
    }
    Ok(answers)
}

/// Datagrams alone are lost; a stream's answer is waited for.
fn is_lost(line: &Line, sent_ns: u64) -> bool {
    matches!(line, Line::Datagrams(_)) && now_ns().saturating_sub(sent_ns) >= ANSWER_NS
}

/// Sends requests by the schedule, while another thread takes the answers.
fn ask_by_schedule(
    line: &Line,
    requests: &Requests,
    sent: &mut Traffic,
    schedule: &mut Schedule,
    stop: &StopSignals,
) -> io::Result<Answers> {
    let last_ns = std::sync::atomic::AtomicU64::new(u64::MAX);
    let ordering = std::sync::atomic::Ordering::Relaxed;
    thread::scope(|scope| {
        let taking = scope.spawn(|| {
            let mut answers = Answers::default();
            let mut buffer = vec![0; requests.response_bytes.0 as usize];
            let is_over = || is_lost(line, last_ns.load(ordering)) || stop.stop_requested();
            while answers.traffic.messages < requests.requests {
                let Some(bytes) = line.receive(&mut buffer, is_over)? else { break };
                answers.take(&buffer[..bytes]);
            }
            Ok::<_, io::Error>(answers)
        });
        let sending = (|| {
            for number in 0..requests.requests {
                let planned_ns = schedule.wait();
                if stop.stop_requested() || taking.is_finished() {
                    break;
                }
                send_request(line, &request(requests, number, planned_ns), sent)?;
            }
            Ok(())
        })();
        last_ns.store(now_ns(), ordering);
        if let (Err(_), Line::Stream(stream)) = (&sending, line) {
            // The taking thread reads the end then.
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        let taken = taking.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")));
        sending.and(taken)
    })
}

fn send_request(line: &Line, message: &[u8], sent: &mut Traffic) -> io::Result<()> {
    match line.send(message) {
        // Of an earlier datagram, by ICMP: this one was not sent, and is sent now.
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            thread::sleep(Duration::from_millis(1));
            line.send(message)?;
        }
        other => other?,
    }
    sent.add(message.len());
    Ok(())
}
