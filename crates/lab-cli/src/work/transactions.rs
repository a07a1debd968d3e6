//! `transactions`: VMTP (RFC 1045) over UDP, from clients that ask again as soon as they have their answer.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use sockscope_link::{HostTraffic, now_ns};
use sockscope_program::failure::Failure;
use sockscope_program::outcome::Outcome;
use sockscope_program::signals::StopSignals;
use sockscope_vmtp::driver::{Caller, Link, Service, Transport, group_address};
use sockscope_vmtp::wire::{Entity, GROUP_BYTES};
use sockscope_vmtp::{Config, Options, Outcome as Answer, Request};

use super::args::Transactions;
use super::process::cpu_ns;
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
        (Some(at), _) => serve(arguments, at),
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
        let mut service = Service::new(link, own, Config::for_payload(PAYLOAD_BYTES));
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

/// What a client did.
struct Asked {
    sent: Traffic,
    received: Traffic,
    times_ns: Vec<u64>,
    packets: u64,
    blocks_again: u64,
    timeouts: u64,
    elapsed_ns: u64,
}

fn ask(arguments: &Transactions, to: SocketAddr) -> Result<Outcome, Failure> {
    let stop = StopSignals::register()?;
    let mut report = Report::new("transactions", "asking");
    v4(to)?;
    let callers: Vec<Caller> =
        (0..arguments.clients).map(|number| caller(number, to)).collect::<Result<_, _>>()?;
    let together = Barrier::new(callers.len());
    let all = thread::scope(|scope| {
        let start = |caller| {
            let (stop, together) = (&stop, &together);
            scope.spawn(move || {
                together.wait();
                ask_on(caller, arguments, to, stop)
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
    let sum = |of: fn(&Asked) -> u64| all.iter().map(of).sum::<u64>();
    let counts = [sum(|it| it.packets), sum(|it| it.blocks_again), sum(|it| it.timeouts)];
    for one in &all {
        report.sent = report.sent.plus(one.sent);
        report.received = report.received.plus(one.received);
        one.times_ns.iter().for_each(|ns| report.latency.add(*ns));
        per_s += one.times_ns.len() as f64 * 1e9 / one.elapsed_ns.max(1) as f64;
        times_ns.extend(&one.times_ns);
    }
    report.unanswered = report.sent.messages.saturating_sub(report.received.messages);
    let [packets, blocks_again, timeouts] = counts;
    let report = report.with_times(true, &times_ns).with("transactions_per_s", per_s.into());
    let report = report.with("packets", packets.into()).with("cpu_ns", cpu_ns().into());
    report.with("blocks_again", blocks_again.into()).with("timeouts", timeouts.into()).print()
}

fn caller(number: u32, to: SocketAddr) -> Result<Caller, Failure> {
    // The address of the interface to the server: a socket that is connected to it has it.
    let probe = std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    probe.connect(to)?;
    let own = v4(probe.local_addr()?)?;
    let link = Link::bind(Transport::Udp, SocketAddr::new(own.into(), 0)).map_err(failed)?;
    link.multicast_by(own).map_err(failed)?;
    let name = CLIENT | (std::process::id() & 0xffff) << 6 | number;
    Ok(Caller::new(link, Entity::new(name, own), 1, Config::for_payload(PAYLOAD_BYTES)))
}

fn ask_on(
    mut caller: Caller,
    arguments: &Transactions,
    to: SocketAddr,
    stop: &StopSignals,
) -> io::Result<Asked> {
    let host = v4(to).map_err(|_| io::ErrorKind::InvalidInput)?;
    let (server, group) = (Entity::new(SERVER, host), Entity::group(GROUP, host));
    let segment = vec![0x5a; arguments.request_bytes.0 as usize];
    let is_long = arguments.response_bytes.0 as usize > GROUP_BYTES;
    let options = Options { long_response: is_long, ..Options::default() };
    let mut asked = Asked {
        sent: Traffic::default(),
        received: Traffic::default(),
        times_ns: Vec::new(),
        packets: 0,
        blocks_again: 0,
        timeouts: 0,
        elapsed_ns: 0,
    };
    let start_ns = now_ns();
    while now_ns() - start_ns < arguments.time.0 && !stop.stop_requested() {
        let request = Request { segment: segment.clone(), ..Request::default() };
        let began_ns = now_ns();
        asked.sent.add(segment.len());
        let bytes = if arguments.members.is_some() {
            let at = group_address(group, to.port(), false).ok_or(io::ErrorKind::InvalidInput)?;
            // The client goes on with the first answer.
            let answers = caller.call_group(group, at, request, Duration::ZERO);
            let answers = answers.map_err(io::Error::other)?;
            answers.first().map_or(0, |answer| answer.segment.len())
        } else {
            caller.call(server, to, request, options).map_err(io::Error::other)?.segment.len()
        };
        asked.received.add(bytes);
        asked.times_ns.push(now_ns() - began_ns);
    }
    asked.elapsed_ns = now_ns() - start_ns;
    let counters = caller.counters();
    (asked.packets, asked.blocks_again, asked.timeouts) =
        (counters.packets, counters.blocks_again, counters.timeouts);
    Ok(asked)
}
