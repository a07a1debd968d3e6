//! One round: a recording of the command, and the figures from its bundle.

use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use sockscope_analysis::{Analysis, ConnectionAnalysis, RequestEnd, Stores};
use sockscope_probe::{Fix, FixKind, ForcedPeer, Sides};
use sockscope_program::failure::Failure;
use sockscope_program::loaded::Loaded;
use sockscope_record::{Direction, Kind, Protocol, Side};

use crate::recording::Forced;

/// TCP's state ESTABLISHED in Linux's numbers.
const ESTABLISHED: u8 = 1;
/// Options that set the same as `TCP_BPF_RTO_MIN` and `TCP_BPF_DELACK_MAX`, of later kernels (uapi/linux/tcp.h).
const RTO_MIN_US: (u32, &str) = (45, "TCP_RTO_MIN_US");
const DELACK_MAX_US: (u32, &str) = (46, "TCP_DELACK_MAX_US");
/// Options that set the same as `SO_SNDBUF` and `SO_RCVBUF`, without the limit (asm-generic/socket.h).
const SNDBUFFORCE: (u32, &str) = (32, "SO_SNDBUFFORCE");
const RCVBUFFORCE: (u32, &str) = (33, "SO_RCVBUFFORCE");

/// A recorded run of the command.
pub struct Round {
    /// Whether the fix was set.
    pub with_fix: bool,
    /// Its bundle.
    pub dir: PathBuf,
    pub status: ExitStatus,
    pub forced: Forced,
    /// How long the exchanges took, nanoseconds.
    pub exchanges_ns: Vec<u64>,
    /// Of the flow that carried most bytes.
    pub throughput_bytes_per_s: Option<f64>,
    /// Records that its recording missed.
    pub missed: u64,
    /// Options that the program set itself later than the fix.
    pub overrides: Vec<Override>,
    /// The changed sockets of peers, in words.
    pub peers: Vec<String>,
}

/// A call of the program that replaced a fix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Override {
    /// The position of the fix.
    pub fix: usize,
    /// The option as the program names it: several options may set the same.
    pub option: &'static str,
    /// The value that the program asked for.
    pub asked: u32,
    /// On how many sockets.
    pub sockets: u64,
}

impl Round {
    /// Reads the bundle of a round.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn read(
        (with_fix, dir): (bool, &Path),
        status: ExitStatus,
        forced: Forced,
        (fixes, sides): (&[Fix], Sides),
    ) -> Result<Self, Failure> {
        let (analysis, stores) = Loaded::read(dir)?.finish_keeping();
        let peers = forced.peers.iter().filter_map(|peer| named(&analysis, peer)).collect();
        let overrides = if with_fix { overrides(&stores, fixes, sides) } else { Vec::new() };
        Ok(Self {
            with_fix,
            dir: dir.to_owned(),
            status,
            forced,
            exchanges_ns: exchanges_ns(&analysis),
            throughput_bytes_per_s: throughput(&analysis),
            missed: analysis.facts.missed.total(),
            overrides,
            peers: distinct(peers),
        })
    }

    /// The median of its exchanges, nanoseconds.
    pub fn exchange_p50(&self) -> Option<f64> {
        let mut times = self.exchanges_ns.clone();
        sockscope_analysis::Distribution::of(&mut times).map(|times| times.p50 as f64)
    }
}

fn distinct(mut words: Vec<String>) -> Vec<String> {
    words.sort_unstable();
    words.dedup();
    words
}

fn exchanges_ns(analysis: &Analysis) -> Vec<u64> {
    let alternating = |connection: &&ConnectionAnalysis| {
        connection.exchanges.is_some() && connection.connection.protocol == Protocol::Tcp
    };
    let requests = analysis.connections.iter().filter(alternating);
    let requests = requests.flat_map(|connection| &connection.requests.list);
    let answered = requests.filter(|request| request.end == RequestEnd::Answered);
    answered.map(|request| request.ended_ns.saturating_sub(request.asked_ns)).collect()
}

fn throughput(analysis: &Analysis) -> Option<f64> {
    let tcp = |connection: &&ConnectionAnalysis| connection.connection.protocol == Protocol::Tcp;
    let flows = analysis.connections.iter().filter(tcp).flat_map(|connection| &connection.flows);
    let largest = flows.max_by_key(|flow| flow.bytes)?;
    largest.throughput_bytes_per_s.filter(|rate| rate.is_finite())
}

/// The changed end of a peer's connection, as `server redis-server (pid 12), port 6379`.
fn named(analysis: &Analysis, peer: &ForcedPeer) -> Option<String> {
    let ports = [peer.client_port, peer.server_port];
    let connection = analysis.connections.iter().map(|one| &one.connection).find(|one| {
        one.protocol == Protocol::Tcp && [one.client.port(), one.server.port()] == ports
    })?;
    let (side, port) = match peer.is_server {
        true => (Side::Server, peer.server_port),
        false => (Side::Client, peer.client_port),
    };
    let process = connection.processes.iter().find(|process| process.side == side);
    let process = process.map_or("a process".to_owned(), |one| {
        format!("{} (pid {})", sockscope_report::printable(&one.comm), one.pid)
    });
    // A client has another port for each connection.
    Some(match side {
        Side::Server => format!("{process}, server at port {port}"),
        Side::Client => format!("{process}, client of port {}", peer.server_port),
    })
}

/// Options of established sockets that the program set to another value than the fix.
fn overrides(stores: &Stores, fixes: &[Fix], sides: Sides) -> Vec<Override> {
    let mut found: Vec<Override> = Vec::new();
    for flow in stores.connections.iter().flat_map(|store| &store.flows) {
        let is_of_client = flow.id.direction() == Direction::FromClient;
        let is_changed = match sides {
            Sides::Both => true,
            Sides::Client => is_of_client,
            Sides::Server => !is_of_client,
        };
        let states =
            flow.events_of(Kind::StateChange).filter_map(|it| Some((it.at_ns, it.state_change()?)));
        let opened = states.filter(|(_, state)| state.new == ESTABLISHED).map(|(at, _)| at).next();
        let Some(opened_ns) = opened.filter(|_| is_changed) else { continue };
        for (fix, which) in fixes.iter().zip(0..) {
            let later = flow.events_of(Kind::SocketOption).filter(|event| event.at_ns > opened_ns);
            let set = later.filter_map(|event| event.socket_option());
            let mut set = set.filter_map(|it| Some((option_name(fix, it.name)?, it.asked)));
            // The last one counts.
            let last = set.next_back();
            let Some((option, asked)) = last.filter(|(_, asked)| differs(fix, *asked)) else {
                continue;
            };
            let one = Override { fix: which, option, asked, sockets: 1 };
            add(&mut found, &one);
        }
    }
    found
}

/// Adds the sockets of an override to those of the same one.
pub fn add(all: &mut Vec<Override>, one: &Override) {
    let same = |other: &&mut Override| {
        (other.fix, other.option, other.asked) == (one.fix, one.option, one.asked)
    };
    match all.iter_mut().find(same) {
        Some(other) => other.sockets += one.sockets,
        None => all.push(one.clone()),
    }
}

/// The name of an option that sets the same as the fix; `None` of another option.
fn option_name(fix: &Fix, (level, number): (u16, u16)) -> Option<&'static str> {
    let (level, number) = (u32::from(level), u32::from(number));
    let (of_level, option) = fix.kind.option();
    let same = match fix.kind {
        FixKind::Delack => Some(DELACK_MAX_US),
        FixKind::RtoMin => Some(RTO_MIN_US),
        FixKind::Sndbuf => Some(SNDBUFFORCE),
        FixKind::Rcvbuf => Some(RCVBUFFORCE),
        _ => None,
    };
    if level != of_level {
        return None;
    }
    match same {
        _ if number == option => Some(fix.kind.option_name()),
        Some((other, name)) if number == other => Some(name),
        _ => None,
    }
}

/// Of a name the records have the first bytes alone.
fn differs(fix: &Fix, asked: u32) -> bool {
    match fix.kind {
        FixKind::Cc => {
            let mut first = [0; 4];
            first.iter_mut().zip(fix.name.bytes()).for_each(|(to, from)| *to = from);
            asked != u32::from_ne_bytes(first)
        }
        _ => asked != fix.value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(fix: &str, level: u16, number: u16) -> Option<&'static str> {
        option_name(&fix.parse().unwrap(), (level, number))
    }

    /// SOL_SOCKET is 1, IPPROTO_TCP is 6.
    #[test]
    fn each_option_that_sets_the_same_as_the_fix_is_found() {
        assert_eq!(named("nodelay", 6, 1), Some("TCP_NODELAY"));
        assert_eq!(named("sndbuf=64k", 1, 7), Some("SO_SNDBUF"));
        assert_eq!(named("sndbuf=64k", 1, 32), Some("SO_SNDBUFFORCE"));
        assert_eq!(named("rcvbuf=64k", 1, 8), Some("SO_RCVBUF"));
        assert_eq!(named("rcvbuf=64k", 1, 33), Some("SO_RCVBUFFORCE"));
        assert_eq!(named("rto-min=20ms", 6, 45), Some("TCP_RTO_MIN_US"));
        assert_eq!(named("delack=20ms", 6, 46), Some("TCP_DELACK_MAX_US"));
    }

    #[test]
    fn an_option_of_another_level_or_number_does_not_override_the_fix() {
        assert_eq!(named("sndbuf=64k", 6, 32), None);
        assert_eq!(named("sndbuf=64k", 1, 33), None);
        assert_eq!(named("rcvbuf=64k", 1, 32), None);
        assert_eq!(named("nodelay", 6, 32), None);
    }
}
