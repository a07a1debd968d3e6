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
/// Numbers of options of later kernels that set the same as `TCP_BPF_RTO_MIN` and `TCP_BPF_DELACK_MAX`
/// (`TCP_RTO_MIN_US` and `TCP_DELACK_MAX_US` in uapi/linux/tcp.h).
const RTO_MIN_US: u32 = 45;
const DELACK_MAX_US: u32 = 46;

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
            let mut set = later.filter_map(|event| event.socket_option());
            // The last one counts.
            let last = set.rfind(|option| is_option(fix, option.name));
            let Some(option) = last.filter(|option| differs(fix, option.asked)) else { continue };
            let asked = option.asked;
            match found.iter_mut().find(|one| one.fix == which && one.asked == asked) {
                Some(one) => one.sockets += 1,
                None => found.push(Override { fix: which, asked, sockets: 1 }),
            }
        }
    }
    found
}

fn is_option(fix: &Fix, (level, number): (u16, u16)) -> bool {
    let (level, number) = (u32::from(level), u32::from(number));
    let (of_level, option) = fix.kind.option();
    let same = match fix.kind {
        FixKind::Delack => Some(DELACK_MAX_US),
        FixKind::RtoMin => Some(RTO_MIN_US),
        _ => None,
    };
    level == of_level && (number == option || Some(number) == same)
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
