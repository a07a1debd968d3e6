//! The same question to protocols of today, on this machine: what does a call cost?
//!
//! A call sends a request of a given size and gets a short response; one server, one or many
//! clients, each calling again as soon as it has its response. Everything runs on loopback, in one
//! process. Each case is measured with nothing watching, and its ledger is taken from the same calls
//! made once more under the recorder, where that has the rights and sees the protocol.
//!
//! Times are nanoseconds of the monotonic clock, rates per second; nothing here is compared between
//! runs: this is what the machine does now, beside what else it does.

mod channel;
mod chart;
mod datagram;
mod ledgers;
mod measure;
mod plan;
mod quic;
mod record;
mod stream;
mod transport;
mod vmtp;
mod write;

use std::io;
use std::time::Duration;

pub use chart::chart;
pub use record::CaseLedger;
pub use write::{write_csv, write_json, write_text};

use crate::seen::Distribution;
use channel::Channel;
use datagram::{UDP_BYTES_MAX, Udp};
use measure::{Measured, measure};
use quic::Quic;
use record::Told;
use sockscope_record::counted;
use sockscope_vmtp::driver::Transport as Carrier;
use stream::{Tcp, Unix};
use transport::Transport;
use vmtp::Vmtp;

/// The id under which this comparison is listed and run.
pub const ID: &str = "protocol-choice";

/// A protocol under comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// TCP with `TCP_NODELAY`, one connection for each client.
    Tcp,
    /// UDP, one datagram each way.
    Udp,
    /// Unix stream sockets.
    Unix,
    /// VMTP over UDP.
    VmtpUdp,
    /// VMTP over IP protocol 81.
    VmtpIp,
    /// QUIC (RFC 9000) by the library quinn, one stream for each call.
    Quic,
    /// Messages through shared memory, by the crate `channel`.
    Channel,
}

impl Protocol {
    /// All, in the order of tables.
    pub const ALL: [Self; 7] =
        [Self::Tcp, Self::Udp, Self::Unix, Self::VmtpUdp, Self::VmtpIp, Self::Quic, Self::Channel];

    /// The word in tables and options.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Unix => "unix",
            Self::VmtpUdp => "vmtp-udp",
            Self::VmtpIp => "vmtp-ip",
            Self::Quic => "quic",
            Self::Channel => "channel",
        }
    }

    /// The largest request that it carries; `None` without a limit.
    #[must_use]
    pub fn request_bytes_max(self) -> Option<usize> {
        (self == Self::Udp).then_some(UDP_BYTES_MAX)
    }

    fn transport(self) -> &'static dyn Transport {
        match self {
            Self::Tcp => &Tcp,
            Self::Udp => &Udp,
            Self::Unix => &Unix,
            Self::VmtpUdp => &Vmtp { carrier: Carrier::Udp, told: None },
            Self::VmtpIp => &Vmtp { carrier: Carrier::Raw, told: None },
            Self::Quic => &Quic,
            Self::Channel => &Channel { told: None },
        }
    }

    /// With ends that tell what passes them, where the probes see nothing; `None` where they do, or
    /// nobody can tell.
    fn telling(self, told: &Told) -> Option<Box<dyn Transport>> {
        let told = Some(told.clone());
        match self {
            Self::VmtpIp => Some(Box::new(Vmtp { carrier: Carrier::Raw, told })),
            Self::Channel => Some(Box::new(Channel { told })),
            _ => None,
        }
    }

    /// Why nobody sees its bytes; `None` when somebody does.
    fn unseen(self) -> Option<&'static str> {
        (self == Self::Unix).then_some("its bytes do not pass the network stack")
    }
}

/// What is to be measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Which protocols.
    pub protocols: Vec<Protocol>,
    /// Bytes of a request.
    pub message_bytes: Vec<usize>,
    /// Clients at once; the first of them for every size.
    pub clients: Vec<usize>,
    /// The sizes at which all of `clients` are tried; every size when empty.
    pub clients_bytes: Vec<usize>,
    /// Turns that each case gets, 1 at least; protocols take them one after the other.
    pub repetitions: u32,
    /// How long a turn is.
    pub slice: Duration,
    /// How long each case is recorded for its ledger; zero leaves ledgers out.
    pub recorded: Duration,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            protocols: Protocol::ALL.to_vec(),
            message_bytes: vec![1, 64, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 1 << 20, 4 << 20],
            clients: vec![1, 2, 4, 8, 16, 32, 64],
            clients_bytes: vec![64, 16 << 10],
            repetitions: 3,
            slice: Duration::from_millis(70),
            recorded: Duration::from_millis(20),
        }
    }
}

/// What a comparison gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// What was measured.
    pub plan: Plan,
    /// Its cases: by protocol, then message size, then clients.
    pub rows: Vec<Row>,
    /// What a reader must know, one sentence each.
    pub notes: Vec<String>,
}

/// One case.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Which protocol.
    pub protocol: Protocol,
    /// Bytes of a request.
    pub message_bytes: usize,
    /// Clients at once.
    pub clients: usize,
    /// What was measured, or why nothing was.
    pub outcome: Result<Figures, String>,
}

/// The figures of one case.
#[derive(Debug, Clone, PartialEq)]
pub struct Figures {
    /// Time of single calls.
    pub call_ns: Distribution,
    /// Calls counted, of all clients.
    pub calls: u64,
    /// Calls a second, of all clients.
    pub calls_per_s: f64,
    /// The same of each turn, ascending. All other figures are of the median turn.
    pub turns_per_s: Vec<f64>,
    /// Where the bytes waited; `None` when that is unknown.
    pub ledger: Option<CaseLedger>,
    /// Median time of a call while it was recorded, as a multiple of that just before, without; `None`
    /// when it was not.
    pub recorded_ratio: Option<f64>,
}

impl Row {
    /// Bits of requests a second; `None` when the case has no figures.
    #[must_use]
    pub fn throughput_bits_per_s(&self) -> Option<f64> {
        let figures = self.outcome.as_ref().ok()?;
        Some(figures.calls_per_s * self.message_bytes as f64 * 8.0)
    }
}

/// Measures all cases of `plan`; `progress` is told of each before it begins.
#[must_use]
pub fn compare(plan: Plan, progress: &(dyn Fn(&str) + Sync)) -> Comparison {
    let (mut rows, mut notes) = (Vec::new(), Vec::new());
    let mut turns = take_turns(&plan, progress).into_iter();
    for &protocol in &plan.protocols {
        let mut of_protocol: Vec<Row> = cases(&plan)
            .zip(turns.by_ref())
            .map(|((message_bytes, clients), turns)| {
                let outcome = turns.and_then(Figures::of_median);
                Row { protocol, message_bytes, clients, outcome }
            })
            .collect();
        notes.extend(ledgers::add(&plan, protocol, &mut of_protocol, progress));
        rows.extend(of_protocol);
    }
    Comparison { plan, rows, notes }
}

/// The turns of each case, by protocol, then case: in each round every case is tried by one protocol
/// after the other, so that what disturbs one disturbs the others. A case that failed gets no turn more.
fn take_turns(plan: &Plan, progress: &(dyn Fn(&str) + Sync)) -> Vec<Result<Vec<Measured>, String>> {
    let cases: Vec<_> = cases(plan).collect();
    let mut turns = vec![Ok(Vec::new()); plan.protocols.len() * cases.len()];
    for round in 1..=plan.repetitions.max(1) {
        for (at, &(bytes, clients)) in cases.iter().enumerate() {
            let of = counted(clients as u64, "client");
            progress(&format!("round {round}: {bytes} B, {of}"));
            let of_case = turns.iter_mut().skip(at).step_by(cases.len());
            for (&protocol, turns) in plan.protocols.iter().zip(of_case) {
                let Ok(measured) = turns else { continue };
                match run(protocol, bytes, clients, plan.slice) {
                    Ok(turn) => measured.push(turn),
                    Err(error) => *turns = Err(error.to_string()),
                }
            }
        }
    }
    turns
}

/// Sizes in their order, each with its numbers of clients.
fn cases(plan: &Plan) -> impl Iterator<Item = (usize, usize)> + '_ {
    let is_scaled = |size| plan.clients_bytes.is_empty() || plan.clients_bytes.contains(size);
    let clients = move |size| if is_scaled(size) { &plan.clients[..] } else { &plan.clients[..1] };
    let sizes = plan.message_bytes.iter();
    sizes.flat_map(move |size| clients(size).iter().map(move |&clients| (*size, clients)))
}

fn run(protocol: Protocol, bytes: usize, clients: usize, slice: Duration) -> io::Result<Measured> {
    if let Some(most) = protocol.request_bytes_max().filter(|&most| bytes > most) {
        return Err(io::Error::other(format!("carries at most {most} bytes")));
    }
    let server = protocol.transport().serve(bytes)?;
    measure(server.as_ref(), clients, slice)
}

impl Figures {
    /// Of the turn with the median of calls a second.
    fn of_median(mut turns: Vec<Measured>) -> Result<Self, String> {
        turns.sort_by(|a, b| a.calls_per_s.total_cmp(&b.calls_per_s));
        let turns_per_s: Vec<_> = turns.iter().map(|turn| turn.calls_per_s).collect();
        if turns.is_empty() {
            return Err("no turn was taken".to_owned());
        }
        let Measured { call_ns, calls, calls_per_s, .. } = turns.swap_remove(turns.len() / 2);
        Ok(Self { call_ns, calls, calls_per_s, turns_per_s, ledger: None, recorded_ratio: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(message_bytes: Vec<usize>) -> Plan {
        Plan {
            protocols: Protocol::ALL.to_vec(),
            message_bytes,
            clients: vec![1, 3],
            clients_bytes: Vec::new(),
            repetitions: 2,
            slice: Duration::from_millis(5),
            recorded: Duration::ZERO,
        }
    }

    #[test]
    fn every_protocol_answers_every_size() {
        let comparison = compare(plan(vec![1, 7, 3000, 65_000]), &|_| {});
        assert_eq!(comparison.rows.len(), Protocol::ALL.len() * 4 * 2);
        for row in &comparison.rows {
            let figures = row.outcome.as_ref().unwrap_or_else(|why| panic!("{row:?}: {why}"));
            assert!(figures.calls >= row.clients as u64, "{row:?}");
            assert!(figures.call_ns.n() as u64 <= figures.calls);
        }
    }

    #[test]
    fn what_a_protocol_cannot_carry_has_a_reason_and_no_figures() {
        let comparison = compare(plan(vec![100_000]), &|_| {});
        let refused = comparison.rows.iter().filter(|row| row.outcome.is_err());
        assert!(refused.clone().all(|row| row.protocol == Protocol::Udp));
        assert_eq!(refused.count(), 2);
    }

    #[test]
    fn root_ends_that_tell_give_a_ledger_and_its_cost() {
        let protocols = vec![Protocol::VmtpIp, Protocol::Channel];
        let recorded = Duration::from_millis(5);
        let comparison = compare(Plan { protocols, recorded, ..plan(vec![64, 100_000]) }, &|_| {});
        for row in &comparison.rows {
            let figures = match &row.outcome {
                Ok(figures) => figures,
                Err(why) if row.protocol == Protocol::VmtpIp && why.contains("CAP_NET_RAW") => {
                    eprintln!("NOT TESTED, no rights: {why}");
                    continue;
                }
                Err(why) => panic!("{row:?}: {why}"),
            };
            let ledger = figures.ledger.as_ref().expect("a ledger");
            assert_eq!(ledger.connections, row.clients);
            assert!([&ledger.request, &ledger.response].iter().all(|it| it.total_ns() > 0));
            assert!(figures.recorded_ratio.is_some_and(|ratio| ratio > 0.0));
        }
        let notes = comparison.notes.join(" ");
        assert!(notes.contains("channel: while recorded, a median call takes"), "{notes}");
    }
}
