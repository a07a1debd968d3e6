//! One level after the other, each in a network of its own.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sockscope_channel::library::{Corrector, Protector, Redundancy, Taker};
use sockscope_link::{HostTraffic, Hosts, Side, now_ns};
use sockscope_remote::VmtpLink;
use sockscope_vmtp::Config;

use super::figures::{Figures, Measured, Row};
use super::level::Level;
use super::message::{Stamp, read, write};
use super::network::{publisher, socket, subscriber, with_hosts};
use super::plan::Plan;
use super::reception::{Reception, Service};
use super::repeater::Repeater;
use super::transmission::Transmission;
use crate::conditions::{Conditions, Rule, Watch};
use crate::integrated::cpu_time;

/// Headers of IP and UDP.
const HEADERS_BYTES: usize = 28;
/// Blocks that a corrector keeps: packets of a block behind later ones are still taken.
const BLOCKS: usize = 4;
/// The end of a level looks so often whether there is more.
const LOOK_NS: u64 = 20_000_000;
/// Without a packet for so long, and two delays of the wire, no more messages arrive.
const QUIET_NS: u64 = 100_000_000;

/// Measures each level of the plan. `progress` gets the name of the level that begins.
///
/// # Errors
///
/// When the plan is out of range, or the network cannot be made.
pub fn measure(plan: Plan, progress: &dyn Fn(&str)) -> Result<Measured, String> {
    let redundancy = plan.check()?;
    make_tables(redundancy);
    let watch = Watch::begin();
    let mut levels: Vec<_> = plan.levels.iter().map(|level| (*level, false)).collect();
    if levels.len() > 1 && plan.levels.contains(&Level::Datagram) {
        levels.push((Level::Datagram, true));
    }
    let mut rows = Vec::new();
    for (level, is_control) in levels {
        progress(level.name());
        let run = |hosts: &Hosts| run_level(&plan, redundancy, level, hosts);
        let (figures, dropped) = with_hosts(&plan, run).map_err(|error| error.to_string())?;
        let outcome = figures.map(|figures| Figures { dropped, ..figures });
        rows.push(Row { level, is_control, outcome: outcome.map_err(|error| error.to_string()) });
    }
    let rule = Rule { drops: false, ..Rule::default() };
    Ok(Measured { plan, rows, conditions: Conditions::of(watch.end(), rule, Vec::new()) })
}

/// Lets the code make its tables, which it does once in a process, before the first use is measured.
fn make_tables(redundancy: Redundancy) {
    let (mut sender, mut receiver) =
        (Protector::new(redundancy), Corrector::new(redundancy, BLOCKS));
    let mut packets = Vec::new();
    let mut take = |packet: &[u8]| packets.push(packet.to_vec());
    let made = [sender.send(&[0; 2], &mut take), sender.finish(&mut take)];
    debug_assert!(made.iter().all(Result::is_ok), "two octets are a message");
    packets.iter().skip(1).for_each(|packet| receiver.arrive(packet, &mut |_, _| {}));
}

/// Both ends of a level.
fn ends(
    plan: &Plan,
    redundancy: Redundancy,
    level: Level,
    hosts: &Hosts,
) -> io::Result<(Transmission, Vec<Reception>)> {
    let mut receivers = Vec::new();
    for _ in 0..level.receivers(plan.members) {
        let is_subscriber = level == Level::Published;
        receivers.push(if is_subscriber {
            subscriber(hosts)
        } else {
            socket(hosts, Side::Server)
        }?);
    }
    let members: Vec<SocketAddr> =
        receivers.iter().map(|socket| socket.local_addr()).collect::<io::Result<_>>()?;
    let sender =
        if level == Level::Published { publisher(hosts)? } else { socket(hosts, Side::Client)? };
    let is_connected =
        matches!(level, Level::Datagram | Level::Sequenced | Level::Corrected | Level::Vmtp);
    if is_connected {
        sender.connect(members[0])?;
        receivers[0].connect(sender.local_addr()?)?;
    }
    let config = || Config::for_payload(plan.mtu as usize - HEADERS_BYTES);
    let window = plan.window;
    let receive = |socket| match level {
        Level::Datagram | Level::Published => Ok(Service::Plain(socket)),
        Level::Sequenced => Ok(Service::sequenced(socket, window)),
        Level::Corrected => {
            Ok(Service::Corrected(socket, Box::new(Corrector::new(redundancy, BLOCKS))))
        }
        Level::Reliable => Ok(Service::reliable(socket, window)),
        Level::OneOfMany => Ok(Service::OneOfMany(socket, Taker::default())),
        Level::Vmtp => VmtpLink::new(socket, config()).map(|link| Service::Vmtp(Box::new(link))),
    };
    let receptions = receivers.into_iter().map(receive).map(|one| one.map(Reception::new));
    let receptions = receptions.collect::<io::Result<_>>()?;
    let transmission = match level {
        Level::Datagram | Level::Published => Transmission::Plain(sender),
        Level::Sequenced => Transmission::sequenced(sender),
        Level::Corrected => Transmission::Corrected(sender, Box::new(Protector::new(redundancy))),
        Level::Reliable => Transmission::reliable(sender, members[0], window),
        Level::OneOfMany => {
            Transmission::OneOfMany(Box::new(Repeater::new(sender, &members, window)))
        }
        Level::Vmtp => Transmission::Vmtp(Box::new(VmtpLink::new(sender, config())?), None),
    };
    Ok((transmission, receptions))
}

/// What the ends share.
struct Shared<'a> {
    plan: &'a Plan,
    level: Level,
    /// Deliveries of all receivers.
    deliveries: AtomicU64,
    is_over: AtomicBool,
}

fn run_level(
    plan: &Plan,
    redundancy: Redundancy,
    level: Level,
    hosts: &Hosts,
) -> io::Result<Figures> {
    let (transmission, receptions) = ends(plan, redundancy, level, hosts)?;
    let traffic = || hosts.traffic().map_err(io::Error::other);
    let before = traffic()?;
    let shared =
        Shared { plan, level, deliveries: AtomicU64::new(0), is_over: AtomicBool::new(false) };
    let began_ns = now_ns();
    let (sent, received) = thread::scope(|scope| {
        let receive = |reception| {
            let shared = &shared;
            scope.spawn(move || receive(reception, shared))
        };
        let receivers: Vec<_> = receptions.into_iter().map(receive).collect();
        let sent = send(transmission, &shared, began_ns);
        shared.is_over.store(true, Ordering::Release);
        let panicked = |_| Err(io::Error::other("a receiver panicked"));
        let received = receivers.into_iter().map(|it| it.join().unwrap_or_else(panicked));
        (sent, received.collect::<io::Result<Vec<_>>>())
    });
    let (sent, received) = (sent?, received?);
    let HostTraffic { datagrams, octets, .. } = traffic()? - before;
    let mut figures = Figures {
        sent: plan.messages,
        expected: plan.messages * level.copies(plan.members) as u64,
        delivered: 0,
        repeated: 0,
        damaged: 0,
        out_of_order: 0,
        elapsed_ns: 0,
        latency_ns: received.iter().flat_map(|one| one.latencies_ns.iter().copied()).collect(),
        packets: datagrams,
        octets,
        sender_cpu_ns: sent.as_nanos() as u64,
        receiver_cpu_ns: 0,
        dropped: None,
    };
    // One of many: a message that two members take is delivered twice.
    let mut once = BTreeSet::new();
    for one in received {
        let distinct = one.numbers.len() as u64;
        let before = once.len() as u64;
        if level == Level::OneOfMany {
            once.extend(one.numbers);
            figures.delivered = once.len() as u64;
            figures.repeated += distinct - (figures.delivered - before);
        } else {
            figures.delivered += distinct;
        }
        figures.repeated += one.repeated;
        figures.damaged += one.damaged;
        figures.out_of_order += one.out_of_order;
        figures.receiver_cpu_ns += one.cpu.as_nanos() as u64;
        figures.elapsed_ns = figures.elapsed_ns.max(one.last_ns.saturating_sub(began_ns));
    }
    Ok(figures)
}

/// The last event by which a level still delivers.
struct Progress {
    deliveries: u64,
    at_ns: u64,
}

impl Progress {
    /// Fails when there was none for too long: a level that repeats messages would do so without an end.
    fn check(&mut self, shared: &Shared<'_>, now_ns: u64) -> io::Result<()> {
        let deliveries = shared.deliveries.load(Ordering::Acquire);
        let give_up = shared.plan.give_up;
        if deliveries != self.deliveries {
            *self = Self { deliveries, at_ns: now_ns };
        } else if now_ns.saturating_sub(self.at_ns) >= give_up.as_nanos() as u64 {
            let what = format!("{deliveries} messages delivered, and no more for {give_up:?}");
            return Err(io::Error::new(io::ErrorKind::TimedOut, what));
        }
        Ok(())
    }
}

/// Sends all messages at their planned times; the CPU time of this thread.
fn send(mut ends: Transmission, shared: &Shared<'_>, began_ns: u64) -> io::Result<Duration> {
    let Plan { messages, message_bytes, every, .. } = *shared.plan;
    let every_ns = every.as_nanos() as u64;
    let worked = cpu_time();
    let mut progress = Progress { deliveries: 0, at_ns: began_ns };
    let mut message = vec![0; message_bytes];
    for number in 0..messages {
        let planned_ns = began_ns + number * every_ns;
        loop {
            let now_ns = now_ns();
            let due_ns = ends.attend(now_ns)?;
            let has_room = ends.has_room();
            if now_ns >= planned_ns && has_room {
                break;
            }
            let look_ns = if has_room { planned_ns } else { now_ns + LOOK_NS };
            if !has_room {
                progress.check(shared, now_ns)?;
            }
            wait(ends.descriptor(), now_ns, due_ns.unwrap_or(look_ns).min(look_ns))?;
        }
        write(&mut message, Stamp { number, planned_ns });
        progress.at_ns = now_ns();
        ends.send(progress.at_ns, &message)?;
    }
    ends.finish()?;
    loop {
        let now_ns = now_ns();
        let due_ns = ends.attend(now_ns)?;
        // A link of VMTP does not know when its last message is delivered.
        let is_delivered =
            shared.level != Level::Vmtp || shared.deliveries.load(Ordering::Acquire) >= messages;
        if ends.is_done() && is_delivered {
            return Ok(cpu_time() - worked);
        }
        progress.check(shared, now_ns)?;
        wait(ends.descriptor(), now_ns, due_ns.unwrap_or(u64::MAX).min(now_ns + LOOK_NS))?;
    }
}

/// What a receiver got.
struct Received {
    numbers: BTreeSet<u64>,
    latencies_ns: Vec<u64>,
    repeated: u64,
    damaged: u64,
    out_of_order: u64,
    last_ns: u64,
    cpu: Duration,
}

fn receive(mut ends: Reception, shared: &Shared<'_>) -> io::Result<Received> {
    let plan = shared.plan;
    let worked = cpu_time();
    let mut received = Received {
        numbers: BTreeSet::new(),
        latencies_ns: Vec::new(),
        repeated: 0,
        damaged: 0,
        out_of_order: 0,
        last_ns: 0,
        cpu: Duration::ZERO,
    };
    let delays_ns: u64 = plan.settings.iter().map(|one| one.delay.0 + one.jitter.0).sum();
    let mut packet_ns = now_ns();
    loop {
        let mut deliver = |message: &[u8]| {
            received.add(message, plan.message_bytes);
            shared.deliveries.fetch_add(1, Ordering::Release);
        };
        let has_received = ends.receive(&mut deliver)?;
        let is_over = shared.is_over.load(Ordering::Acquire);
        let now_ns = now_ns();
        if has_received || !is_over {
            packet_ns = now_ns;
        } else if now_ns - packet_ns > QUIET_NS + delays_ns {
            received.cpu = cpu_time() - worked;
            return Ok(received);
        }
        wait(ends.descriptor(), now_ns, now_ns + LOOK_NS)?;
    }
}

impl Received {
    fn add(&mut self, message: &[u8], bytes: usize) {
        let Some(Stamp { number, planned_ns }) = read(message, bytes) else {
            self.damaged += 1;
            return;
        };
        let now_ns = now_ns();
        self.out_of_order += u64::from(self.numbers.last().is_some_and(|last| *last > number));
        if !self.numbers.insert(number) {
            self.repeated += 1;
            return;
        }
        self.latencies_ns.push(now_ns.saturating_sub(planned_ns));
        self.last_ns = now_ns;
    }
}

/// Waits until the socket can be read, or until this time.
fn wait(socket: BorrowedFd<'_>, now_ns: u64, until_ns: u64) -> io::Result<()> {
    let timeout = Duration::from_nanos(until_ns.saturating_sub(now_ns));
    let timeout = Timespec::try_from(timeout).map_err(io::Error::other)?;
    match poll(&mut [PollFd::from_borrowed_fd(socket, PollFlags::IN)], Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
