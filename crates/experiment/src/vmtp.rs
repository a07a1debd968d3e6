//! The parameters of a case of VMTP between DECstations on an Ethernet.

use serde::Deserialize;

use super::faults::Faults;

/// Clients, members of a group, and other hosts, each at most.
const COUNT_MAX: u32 = 64;

/// Virtual time of a run at most, in milliseconds.
const RUN_MS_MAX: u64 = 600_000;

/// Kilobits a second of a wire, and its delay in microseconds, at most.
const KBIT_PER_S_MAX: u64 = 10_000_000;
const DELAY_US_MAX: u64 = 1_000_000;

/// The protocol that carries calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CallProtocol {
    /// VMTP (RFC 1045).
    #[default]
    Vmtp,
    /// TCP, a connection for each client.
    Tcp,
    /// QUIC (RFC 9000), a connection for each client and a stream for each call.
    Quic,
}

/// Octets of a message without streaming (RFC 1045 §2.13).
const SEGMENT_BYTES_MAX: usize = 16_384;

/// Everything that makes one case of [`super::Workload::VmtpCalls`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default = "VmtpParameters::defaults")]
pub struct VmtpParameters {
    /// Machine of the clients and, when no other is given, of the servers.
    pub machine: String,
    /// Machine of the servers.
    pub server_machine: Option<String>,
    /// The protocol of the calls; the model has VMTP alone.
    pub protocol: CallProtocol,
    /// Clients, each a process that makes one transaction after the other.
    pub clients: u32,
    /// Each client has a host of its own; else all share one.
    pub own_hosts: bool,
    /// Segment of each request, in octets; what travels in the header comes on top.
    pub request_bytes: usize,
    /// Segment of each response, in octets.
    pub response_bytes: usize,
    /// Servers that form a group, to which requests go by multicast; without it, one server that is
    /// asked by its own name.
    pub members: Option<u32>,
    /// Hosts other than the servers that have no member of the group.
    pub bystanders: u32,
    /// Each step of a process takes up to so much less or more than the machine's file says.
    pub variation_percent: u32,
    /// Frames of a million that the Ethernet loses.
    pub lost_per_million: u32,
    /// Frames of a million that it delivers twice.
    pub duplicated_per_million: u32,
    /// Frames of a million that it holds back, so that others overtake them.
    pub reordered_per_million: u32,
    /// How long it holds such a frame back at most, in microseconds; without it, 10 ms.
    pub reordered_by_us: Option<u64>,
    /// Frames of a million in which it turns a bit.
    pub corrupted_per_million: u32,
    /// Kilobits of IP packets a second of a wire on a kernel, in place of the Ethernet.
    pub link_kbit_per_s: Option<u64>,
    /// The delay of that wire, one way, in microseconds.
    pub link_delay_us: u64,
    /// Virtual time of the run, of which the first eighth is not counted.
    pub run_ms: u64,
}

impl VmtpParameters {
    /// Names that have no default.
    pub(super) const REQUIRED: &[&str] = &["machine", "request_bytes", "run_ms"];

    /// What a file need not give. Rust's own default has zeros here.
    fn defaults() -> Self {
        Self { clients: 1, ..Self::default() }
    }

    /// Hosts that have clients.
    pub fn client_hosts(&self) -> u32 {
        if self.own_hosts { self.clients } else { 1 }
    }

    /// The first parameter that only a kernel has, by its name.
    pub fn of_kernel(&self) -> Option<&'static str> {
        let given = [
            ("protocol", self.protocol != CallProtocol::Vmtp),
            ("link_kbit_per_s", self.link_kbit_per_s.is_some()),
            ("link_delay_us", self.link_delay_us > 0),
        ];
        given.into_iter().find(|(_, is_given)| *is_given).map(|(name, _)| name)
    }

    /// What goes wrong on the Ethernet.
    pub fn faults(&self) -> Faults {
        Faults {
            lost_per_million: self.lost_per_million,
            duplicated_per_million: self.duplicated_per_million,
            reordered_per_million: self.reordered_per_million,
            reordered_by_us: self.reordered_by_us,
            corrupted_per_million: self.corrupted_per_million,
        }
    }

    pub(super) fn validate(&self) -> Result<(), String> {
        let segment = SEGMENT_BYTES_MAX as u64;
        // Name, value, least and most.
        let bounds = [
            ("clients", self.clients.into(), 1, COUNT_MAX.into()),
            ("request_bytes", self.request_bytes as u64, 0, segment),
            ("response_bytes", self.response_bytes as u64, 0, segment),
            ("members", self.members.unwrap_or(1).into(), 1, COUNT_MAX.into()),
            ("bystanders", self.bystanders.into(), 0, COUNT_MAX.into()),
            ("variation_percent", self.variation_percent.into(), 0, 100),
            ("link_kbit_per_s", self.link_kbit_per_s.unwrap_or(1), 1, KBIT_PER_S_MAX),
            ("link_delay_us", self.link_delay_us, 0, DELAY_US_MAX),
            ("run_ms", self.run_ms, 8, RUN_MS_MAX),
        ];
        for (name, value, least, most) in bounds {
            if !(least..=most).contains(&value) {
                return Err(format!("expected `{name}` from {least} to {most}"));
            }
        }
        self.faults().validate()
    }
}
