//! The parameters of a case: what the programs do, and on what.
//!
//! Names are those of the results and of files. A parameter that a workload does not know may not
//! stand in its files.

use serde::Deserialize;

use super::Workload;

/// Largest number of octets that one message, buffer or transfer may have.
const OCTETS_MAX: u64 = 1 << 30;

/// Messages or calls in one run at most.
const COUNT_MAX: u64 = 10_000_000;

/// Everything that makes one case.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    /// Cost table of both hosts, as `vax-11-750`.
    pub machine: String,
    /// Protocol stack of both hosts, as `4.2bsd-cabrera`.
    pub personality: String,
    /// How the hosts are joined.
    #[serde(default)]
    pub topology: Topology,
    /// The link between them.
    #[serde(default)]
    pub link: LinkKind,
    /// Delay of a line, one way, in microseconds.
    #[serde(default)]
    pub link_delay_us: u64,
    /// Transport.
    #[serde(default)]
    pub protocol: Protocol,
    /// Size of a message.
    pub message_bytes: Option<u64>,
    /// Messages to send.
    pub messages: Option<u64>,
    /// Size of the string of a remote call.
    pub data_bytes: Option<u64>,
    /// Remote calls to make.
    pub calls: Option<u64>,
    /// Buffer of the record streams of remote calls, in octets; 0 is the library's default, 4,000.
    #[serde(default)]
    pub rpc_buffer_bytes: u64,
    /// Whether the caller asks the portmapper for the port first, over UDP.
    #[serde(default)]
    pub portmap: bool,
    /// Octets to write in all.
    pub total_bytes: Option<u64>,
    /// Octets that each write is given.
    pub write_bytes: Option<u64>,
    /// Octets that each read of the receiver asks for; without it, as much as the workload writes.
    pub read_bytes: Option<u64>,
    /// Send and receive buffers, both ends; without it, the personality's.
    pub socket_buffer_bytes: Option<u64>,
    /// What the writer does between the connection and its first write, in microseconds.
    #[serde(default)]
    pub write_after_us: u64,
    /// What the reader does between the connection and its first read, in microseconds.
    #[serde(default)]
    pub read_after_us: u64,
    /// What a remote call's program and library do between learning of data (select) and reading
    /// them, in microseconds.
    #[serde(default)]
    pub read_delay_us: u64,
    /// What the reader does between the end of the stream and its close, in microseconds.
    #[serde(default)]
    pub reader_close_us: u64,
    /// What the writer does between its last write and its close, in milliseconds.
    #[serde(default)]
    pub close_after_ms: u64,
    /// Whether the sender sets `TCP_NODELAY`.
    #[serde(default)]
    pub nodelay: bool,
    /// When a write that does not fit waits.
    #[serde(default)]
    pub send_rule: SendRule,
    /// The mark of [`SendRule::LowWater`], in octets.
    pub low_water_bytes: Option<u64>,
    /// Whether small segments wait for acknowledgments (Nagle's rule); without it, the
    /// personality's rule.
    pub nagle: Option<bool>,
    /// Whether reading two segments that empty the buffer sends an acknowledgment, beside 35 % of
    /// it; without it, the personality's rule.
    pub ack_when_empty: Option<bool>,
    /// Whether UDP keeps the route of the last destination; without it, the personality's rule.
    pub udp_route_cache: Option<bool>,
    /// Whether the time that kernel profiling takes is charged.
    #[serde(default)]
    pub profiling: bool,
    /// When the fast timer of the first host first runs, in milliseconds of 200 after its program
    /// starts; without it, by the seed.
    pub client_timer_ms: Option<u64>,
    /// The same of the second host.
    pub server_timer_ms: Option<u64>,
}

/// How the hosts are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Topology {
    /// Two hosts on one link.
    #[default]
    Pair,
    /// Both programs on one host.
    Loopback,
}

/// What joins two hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub enum LinkKind {
    /// The experimental Ethernet of 3 Mbit/s.
    #[serde(rename = "ethernet-3")]
    Ethernet3,
    /// Ethernet of 10 Mbit/s.
    #[default]
    #[serde(rename = "ethernet-10")]
    Ethernet10,
    /// A line between two hosts at the rate of the experimental Ethernet, with a delay.
    #[serde(rename = "line-3")]
    Line3,
}

/// Transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// A byte stream.
    #[default]
    Tcp,
    /// Datagrams, each sent with its address.
    Udp,
}

/// When a write that does not fit into the send buffer waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SendRule {
    /// As the personality has it.
    #[default]
    Personality,
    /// As 4.2BSD was measured: whatever is free is filled.
    Fill,
    /// Table 7 of "Is Layering Harmful?": a remainder below a cluster goes into any free space.
    Old,
    /// Its Table 8: waits until the send low-water mark is free.
    LowWater,
    /// Its authors' kernel: a part is placed only where more than a cluster is free.
    Cluster,
}

impl Parameters {
    pub(super) fn check_sense(&self, workload: Workload) -> Result<(), String> {
        let needed = match workload {
            Workload::Send => vec![
                ("message_bytes", self.message_bytes, OCTETS_MAX),
                ("messages", self.messages, COUNT_MAX),
            ],
            Workload::RpcEcho => vec![("calls", self.calls, COUNT_MAX)],
            Workload::Discard => vec![
                ("total_bytes", self.total_bytes, OCTETS_MAX),
                ("write_bytes", self.write_bytes, OCTETS_MAX),
            ],
        };
        for (name, value, max) in needed {
            if !value.is_some_and(|value| (1..=max).contains(&value)) {
                return Err(format!("expected `{name}` from 1 to {max}"));
            }
        }
        let data_is_whole = workload == Workload::RpcEcho;
        if data_is_whole && self.data_bytes.is_none_or(|bytes| bytes > OCTETS_MAX) {
            return Err(format!("expected `data_bytes` from 0 to {OCTETS_MAX}"));
        }
        if (self.send_rule == SendRule::LowWater) != self.low_water_bytes.is_some() {
            return Err("`low_water_bytes` goes with `send_rule = \"low-water\"`".to_owned());
        }
        if self.link_delay_us > 0 && self.link != LinkKind::Line3 {
            return Err("`link_delay_us` goes with `link = \"line-3\"`".to_owned());
        }
        self.check_no_stranger(workload)
    }

    /// Refuses what another workload would need: it would change nothing, silently.
    fn check_no_stranger(&self, workload: Workload) -> Result<(), String> {
        use Workload::{Discard, RpcEcho, Send};
        let owned = [
            ("message_bytes", self.message_bytes.is_some(), Send),
            ("messages", self.messages.is_some(), Send),
            ("data_bytes", self.data_bytes.is_some(), RpcEcho),
            ("calls", self.calls.is_some(), RpcEcho),
            ("portmap", self.portmap, RpcEcho),
            ("read_delay_us", self.read_delay_us > 0, RpcEcho),
            ("rpc_buffer_bytes", self.rpc_buffer_bytes > 0, RpcEcho),
            ("total_bytes", self.total_bytes.is_some(), Discard),
            ("write_bytes", self.write_bytes.is_some(), Discard),
        ];
        let stranger = owned.iter().find(|(_, given, owner)| *given && *owner != workload);
        match stranger {
            Some((name, ..)) => Err(format!("`{name}` means nothing to `{}`", workload.name())),
            None => Ok(()),
        }
    }
}
