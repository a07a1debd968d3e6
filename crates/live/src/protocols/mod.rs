//! The same question to protocols of today, on this machine: what does a call cost?
//!
//! A call sends a request of a given size and gets a short response; one server, one or many
//! clients, each calling again as soon as it has its response. Everything runs on loopback, in one
//! process. Each case is measured with nothing watching, and its ledger is taken from the same calls
//! made once more under the recorder, where that has the rights and sees the protocol.
//!
//! Times are nanoseconds of the monotonic clock, rates per second; nothing here is compared between
//! runs: this is what the machine does now, next to what else it does.

mod channel;
mod chart;
mod compare;
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

use sockscope_experiment::measurement::Distribution;
use sockscope_record::named;
use sockscope_vmtp::driver::Transport as Carrier;

use crate::conditions::{Conditions, Rule};
use channel::Channel;
pub use chart::chart;
pub use compare::compare;
use datagram::{UDP_BYTES_MAX, Udp};
use measure::{Measured, measure};
use quic::Quic;
pub use record::CaseLedger;
use record::Told;
use stream::{Tcp, Unix};
use transport::Transport;
use vmtp::Vmtp;
pub use write::{write_csv, write_json, write_text};

/// The id under which this comparison is listed and run.
pub const ID: &str = "protocol-choice";

/// A protocol under comparison, in the order of tables.
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

named! {
    Protocol {
        Tcp => "tcp",
        Udp => "udp",
        Unix => "unix",
        VmtpUdp => "vmtp-udp",
        VmtpIp => "vmtp-ip",
        Quic => "quic",
        Channel => "channel",
    }
}

impl Protocol {
    /// The largest request that it carries; `None` without a limit.
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
    /// it is unknown.
    fn telling(self, told: &Told) -> Option<Box<dyn Transport>> {
        let told = Some(told.clone());
        match self {
            Self::VmtpIp => Some(Box::new(Vmtp { carrier: Carrier::Raw, told })),
            Self::Channel => Some(Box::new(Channel { told })),
            _ => None,
        }
    }

    /// Why no probe sees its bytes; `None` when one does.
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
    /// Which turns are dropped.
    pub rule: Rule,
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
            rule: Rule::default(),
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
    /// The machine, what others did on it, and which turns were dropped for that.
    pub conditions: Conditions,
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
    pub fn throughput_bits_per_s(&self) -> Option<f64> {
        let figures = self.outcome.as_ref().ok()?;
        Some(figures.calls_per_s * self.message_bytes as f64 * 8.0)
    }
}

fn run(protocol: Protocol, bytes: usize, clients: usize, slice: Duration) -> io::Result<Measured> {
    if let Some(most) = protocol.request_bytes_max().filter(|&most| bytes > most) {
        return Err(io::Error::other(format!("carries at most {most} bytes")));
    }
    let server = protocol.transport().serve(bytes)?;
    measure(server.as_ref(), clients, slice)
}
