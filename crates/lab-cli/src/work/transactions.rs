//! `transactions`: calls over VMTP (RFC 1045, over UDP), TCP or QUIC, from clients that ask again as soon as they have
//! their answer.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use sockscope_link::{HostTraffic, now_ns};
use sockscope_program::failure::Failure;
use sockscope_program::outcome::Outcome;
use sockscope_program::signals::StopSignals;
use sockscope_vmtp::driver::{Caller, Link, Service, Transport, group_address, rate_at, rate_to};
use sockscope_vmtp::wire::{Entity, GROUP_BYTES};
use sockscope_vmtp::{Config, Options, Outcome as Answer, Request};

use super::args::{CallProtocol, Transactions};
use super::calls::{self, Answered, Counts, Sizes, TcpCaller};
use super::process::cpu_ns;
use super::quic::{self, QuicCaller};
use super::report::{Report, Traffic};

/// Octets of a packet in an Ethernet frame, without the headers of IP and UDP: packet groups are cut for it.
const PAYLOAD_BYTES: usize = 1_500 - 20 - 8;
/// Names of the group and, counted from here on, of its members or the only server.
const GROUP: u32 = 0x5350;
const SERVER: u32 = 0x5351;
/// Names of clients begin here.
const CLIENT: u32 = 0x0800_0000;

/// `lab work transactions`.
pub fn transactions(arguments: &Transactions) -> Result<Outcome, Failure> {
    match (arguments.end.listen, arguments.end.to) {
        (Some(at), _) if arguments.protocol == CallProtocol::Vmtp => serve(arguments, at),
        (Some(at), _) => serve_streams(arguments, at),
        (None, Some(to)) => ask(arguments, to),
        (None, None) => unreachable!("clap asks for one of both"),
    }
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::new(format!("lab work: {error}"))
}

fn v4(address: SocketAddr) -> Result<Ipv4Addr, Failure> {
    match address.ip() {
        IpAddr::V4(address) => Ok(address),
        IpAddr::V6(_) => Err(failed("transactions are over IPv4")),
    }
}

fn serve(arguments: &Transactions, at: SocketAddr) -> Result<Outcome, Failure> {
    let stop = StopSignals::register()?;
    let mut report = Report::new("transactions", "answering");
    let (host, before) = (v4(at)?, HostTraffic::now());
    let group = Entity::group(GROUP, host);
    let mut services = Vec::new();
    for number in 0..arguments.members.unwrap_or(1) {
        // Multicast reaches sockets that are bound to no address.
        let is_member = arguments.members.is_some();
        let bound =
            if is_member { SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), at.port()) } else { at };
        let link = Link::bind(Transport::Udp, bound).map_err(failed)?;
        let own = Entity::new(SERVER + number, host);
        let rate = arguments.rate.map(|rate| rate.0).or_else(|| rate_at(host.into()));
        let config = Config::for_payload(PAYLOAD_BYTES).on_ethernet(rate);
        let mut service = Service::new(link, own, config);
        if is_member {
            service.link().join(group, host).map_err(failed)?;
            service.join(group).map_err(failed)?;
        }
        services.push(service);
    }
    if let Some(first) = services.first() {
        stderr!("sockscope: lab work: receives at {}", first.link().local_address()?);
    }
    let answered = thread::scope(|scope| {
        let start = |mut service: Service| {
            let stop = &stop;
            scope.spawn(move || {
                let (mut received, mut sent) = (Traffic::default(), Traffic::default());
                service.serve(
                    |_| stop.stop_requested(),
                    |request| {
                        received.add(request.segment.len());
                        let bytes = arguments.response_bytes.0 as usize;
                        sent.add(bytes);
                        Answer { segment: vec![0; bytes], ..Answer::default() }
                    },
                )?;
                Ok::<_, io::Error>((received, sent))
            })
        };
        let threads: Vec<_> = services.into_iter().map(start).collect();
        let joined = threads.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| Err(io::Error::other("a server panicked")))
        });
        joined.collect::<io::Result<Vec<_>>>()
    });
    for (received, sent) in answered.map_err(failed)? {
        report.received = report.received.plus(received);
        report.sent = report.sent.plus(sent);
    }
    let packets = (HostTraffic::now() - before).datagrams;
    report.with("packets", packets.into()).with("cpu_ns", cpu_ns().into()).print()
}

impl Transactions {
    fn sizes(&self) -> Sizes {
        let [request, response] =
            [self.request_bytes, self.response_bytes].map(|size| size.0 as usize);
        Sizes { request, response }
    }
}

/// Answers over TCP or QUIC.
fn serve_streams(arguments: &Transactions, at: SocketAddr) -> Result<Outcome, Failure> {
    let stop = StopSignals::register()?;
    let mut report = Report::new("transactions", "answering");
    let (sizes, answered) = (arguments.sizes(), Arc::new(Answered::default()));
    let members = arguments.members.unwrap_or(1);
    if members > 1 && at.port() == 0 {
        return Err(failed("members listen at ports in a row: give the first one, not 0"));
    }
    let at = calls::members(at, members);
    match arguments.protocol {
        CallProtocol::Quic => quic::serve(&at, sizes, &answered, &stop)?,
        _ => calls::serve(&at, sizes, &answered, &stop)?,
    }
    report.received = answered.traffic(sizes.request);
    report.sent = answered.traffic(sizes.response);
    let report = report.with("packets", answered.packets().into());
    report.with("cpu_ns", cpu_ns().into()).print()
}

/// What a client did.
struct Asked {
    sent: Traffic,
    received: Traffic,
    times_ns: Vec<u64>,
    counts: Option<Counts>,
    elapsed_ns: u64,
}

fn ask(arguments: &Transactions, to: SocketAddr) -> Result<Outcome, Failure> {
    let stop = StopSignals::register()?;
    let mut report = Report::new("transactions", "asking");
    v4(to)?;
    let callers: Vec<Box<dyn calls::Caller>> = (0..arguments.clients)
        .map(|number| caller(arguments, number, to))
        .collect::<Result<_, _>>()?;
    // Without the packets that opened connections.
    let before = HostTraffic::now();
    let together = Barrier::new(callers.len());
    let all = thread::scope(|scope| {
        let start = |caller| {
            let (stop, together) = (&stop, &together);
            scope.spawn(move || {
                together.wait();
                ask_on(caller, arguments, stop)
            })
        };
        let threads: Vec<_> = callers.into_iter().map(start).collect();
        let joined = threads.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| Err(io::Error::other("a client panicked")))
        });
        joined.collect::<io::Result<Vec<_>>>()
    });
    let all = all.map_err(failed)?;
    let (mut times_ns, mut per_s) = (Vec::new(), 0.0);
    let traffic = HostTraffic::now() - before;
    let counted: Option<Vec<Counts>> = all.iter().map(|one| one.counts).collect();
    let counts = counted.map(|all| {
        let sum = |of: fn(&Counts) -> u64| all.iter().map(of).sum::<u64>();
        [sum(|it| it.packets), sum(|it| it.blocks_again), sum(|it| it.timeouts)]
    });
    for one in &all {
        report.sent = report.sent.plus(one.sent);
        report.received = report.received.plus(one.received);
        one.times_ns.iter().for_each(|ns| report.latency.add(*ns));
        per_s += one.times_ns.len() as f64 * 1e9 / one.elapsed_ns.max(1) as f64;
        times_ns.extend(&one.times_ns);
    }
    report.unanswered = report.sent.messages.saturating_sub(report.received.messages);
    let report = report.with_times(true, &times_ns).with("transactions_per_s", per_s.into());
    let report = report.with("cpu_ns", cpu_ns().into());
    let report = match counts {
        Some([packets, blocks_again, timeouts]) => report
            .with("packets", packets.into())
            .with("blocks_again", blocks_again.into())
            .with("timeouts", timeouts.into()),
        None => report.with("packets", calls::packets(traffic).into()),
    };
    report.print()
}

fn caller(
    arguments: &Transactions,
    number: u32,
    to: SocketAddr,
) -> Result<Box<dyn calls::Caller>, Failure> {
    let (sizes, all) = (arguments.sizes(), calls::members(to, arguments.members.unwrap_or(1)));
    Ok(match arguments.protocol {
        CallProtocol::Vmtp => Box::new(VmtpCaller::connect(arguments, number, to)?),
        CallProtocol::Tcp => Box::new(TcpCaller::connect(&all, sizes)?),
        CallProtocol::Quic => Box::new(QuicCaller::connect(&all, sizes)?),
    })
}

/// A client of VMTP.
struct VmtpCaller {
    caller: Caller,
    sizes: Sizes,
    /// The server, or the group that is asked in its place.
    server: Entity,
    is_group: bool,
    to: SocketAddr,
}

impl VmtpCaller {
    fn connect(arguments: &Transactions, number: u32, to: SocketAddr) -> Result<Self, Failure> {
        let (asked, host, is_group) = (to, v4(to)?, arguments.members.is_some());
        let group = Entity::group(GROUP, host);
        let (server, to) = match is_group {
            true => {
                (group, group_address(group, to.port(), false).ok_or_else(|| failed("no group"))?)
            }
            false => (Entity::new(SERVER, host), to),
        };
        let rate = arguments.rate.map(|rate| rate.0).or_else(|| rate_to(asked.ip()));
        let caller = vmtp_caller(number, asked, rate)?;
        Ok(Self { caller, sizes: arguments.sizes(), server, is_group, to })
    }
}

impl calls::Caller for VmtpCaller {
    fn call(&mut self, _: u64) -> io::Result<usize> {
        let request = Request { segment: vec![0x5a; self.sizes.request], ..Request::default() };
        if self.is_group {
            // The client goes on with the first answer.
            let answers = self.caller.call_group(self.server, self.to, request, Duration::ZERO);
            let answers = answers.map_err(io::Error::other)?;
            return Ok(answers.first().map_or(0, |answer| answer.segment.len()));
        }
        let options =
            Options { long_response: self.sizes.response > GROUP_BYTES, ..Options::default() };
        let answer = self.caller.call(self.server, self.to, request, options);
        Ok(answer.map_err(io::Error::other)?.segment.len())
    }

    fn counts(&self) -> Option<Counts> {
        let counters = self.caller.counters();
        Some(Counts {
            packets: counters.packets,
            blocks_again: counters.blocks_again,
            timeouts: counters.timeouts,
        })
    }
}

fn vmtp_caller(number: u32, to: SocketAddr, rate: Option<u64>) -> Result<Caller, Failure> {
    // The address of the interface to the server: a socket that is connected to it has it.
    let probe = std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    probe.connect(to)?;
    let own = v4(probe.local_addr()?)?;
    let link = Link::bind(Transport::Udp, SocketAddr::new(own.into(), 0)).map_err(failed)?;
    link.multicast_by(own).map_err(failed)?;
    let name = CLIENT | (std::process::id() & 0xffff) << 6 | number;
    let config = Config::for_payload(PAYLOAD_BYTES).on_ethernet(rate);
    Ok(Caller::new(link, Entity::new(name, own), 1, config))
}

fn ask_on(
    mut caller: Box<dyn calls::Caller>,
    arguments: &Transactions,
    stop: &StopSignals,
) -> io::Result<Asked> {
    let (mut sent, mut received) = (Traffic::default(), Traffic::default());
    let mut times_ns = Vec::new();
    let bytes = arguments.sizes().request;
    let start_ns = now_ns();
    while now_ns() - start_ns < arguments.time.0 && !stop.stop_requested() {
        let began_ns = now_ns();
        sent.add(bytes);
        received.add(caller.call(sent.messages)?);
        times_ns.push(now_ns() - began_ns);
    }
    let elapsed_ns = now_ns() - start_ns;
    Ok(Asked { sent, received, times_ns, counts: caller.counts(), elapsed_ns })
}
