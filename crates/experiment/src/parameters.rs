//! The parameters of a case: what the programs do, and on what.
//!
//! Names are those of the results and of files. A parameter that a workload does not know may not
//! stand in its files.

use serde::Deserialize;

use super::faults::Faults;

/// Everything that makes one case.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default = "Parameters::defaults")]
pub struct Parameters {
    /// Cost table of both hosts, as `vax-11-750`.
    pub machine: String,
    /// Protocol stack of both hosts, as `4.2bsd-cabrera`.
    pub personality: String,
    /// How the hosts are joined.
    pub topology: Topology,
    /// The link between them.
    pub link: LinkKind,
    /// Delay of a line, one way, in microseconds.
    pub link_delay_us: u64,
    /// Rate of the line from the gateway to the server, in kbit/s; without it, a second link like the first.
    pub gateway_kbit_per_s: Option<u64>,
    /// Frames of a million that the link loses.
    pub lost_per_million: u32,
    /// Frames of a million that it delivers twice.
    pub duplicated_per_million: u32,
    /// Frames of a million that it holds back, so that others overtake them.
    pub reordered_per_million: u32,
    /// How long it holds such a frame back at most, in microseconds; without it, 10 ms.
    pub reordered_by_us: Option<u64>,
    /// Frames of a million in which it turns a bit.
    pub corrupted_per_million: u32,
    /// Frames a second that other stations send on the Ethernet, in the mean.
    pub other_frames_per_s: u32,
    /// Octets of each of these; without it, 200.
    pub other_frame_bytes: Option<u32>,
    /// A third host on the Ethernet captures its frames, with a clock that ticks so often, in microseconds.
    pub capture_clock_us: Option<u64>,
    /// Frames that its buffer holds; without it, 32.
    pub capture_buffer_frames: Option<u32>,
    /// Time that its program needs for a frame, in microseconds; without it, none.
    pub capture_frame_us: Option<u64>,
    /// Transport.
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
    pub rpc_buffer_bytes: u64,
    /// Whether the caller asks the portmapper for the port first, over UDP.
    pub portmap: bool,
    /// Octets to write in all.
    pub total_bytes: Option<u64>,
    /// Octets that each write is given.
    pub write_bytes: Option<u64>,
    /// Octets that each read of the receiver asks for; without it, as much as the workload writes.
    pub read_bytes: Option<u64>,
    /// Send and receive buffers, both ends; without it, the personality's.
    pub socket_buffer_bytes: Option<u64>,
    /// Largest segment to announce and send, in octets of data; without it, the personality's.
    pub segment_bytes: Option<u32>,
    /// A kernel of today: selective acknowledgments (RFC 2018) at both ends; without it, the kernel's default.
    pub sack: Option<bool>,
    /// A kernel of today: timestamps (RFC 7323 §3).
    pub timestamps: Option<bool>,
    /// A kernel of today: window scaling (RFC 7323 §2).
    pub window_scaling: Option<bool>,
    /// Connections at once, each with programs of its own.
    pub connections: u16,
    /// Processes that only compute, next to the writer or the reader.
    pub load: u32,
    /// Next to whom.
    pub load_at: LoadAt,
    /// How long before the transfer that begins, in seconds; without it, 3.
    pub load_before_s: Option<u64>,
    /// Pieces of work that go through a stage of three processes.
    pub pieces: Option<u64>,
    /// Octets of a piece.
    pub piece_bytes: Option<u64>,
    /// CPU time that a piece takes, in microseconds.
    pub compute_us: Option<u64>,
    /// Pieces that may wait between two processes of the stage.
    pub depth: u32,
    /// Both buffers of the reader, if not those of the writer.
    pub receiver_buffer_bytes: Option<u64>,
    /// What the writer does between the connection and its first write, in microseconds.
    pub write_after_us: u64,
    /// What the reader does between the connection and its first read, in microseconds.
    pub read_after_us: u64,
    /// What a remote call's program and library do between learning of data (select) and reading
    /// them, in microseconds.
    pub read_delay_us: u64,
    /// What the reader does between the end of the stream and its close, in microseconds.
    pub reader_close_us: u64,
    /// What the writer sleeps between two writes, in milliseconds, up to the next clock tick.
    pub write_pause_ms: u64,
    /// What the reader sleeps between two reads, in milliseconds, up to the next clock tick.
    pub read_pause_ms: u64,
    /// What the writer does between its last write and its close, in milliseconds.
    pub close_after_ms: u64,
    /// Of so many writes the last one ends with an urgent octet.
    pub urgent_every: Option<u64>,
    /// Whether the sender sets `TCP_NODELAY`.
    pub nodelay: bool,
    /// When a write that does not fit waits.
    pub send_rule: SendRule,
    /// The mark of [`SendRule::LowWater`], in octets.
    pub low_water_bytes: Option<u64>,
    /// Whether small segments wait for acknowledgments (Nagle's rule); without it, the
    /// personality's rule.
    pub nagle: Option<bool>,
    /// When room in the receive buffer is announced to the sender.
    pub ack_rule: AckRule,
    /// Whether UDP keeps the route of the last destination; without it, the personality's rule.
    pub udp_route_cache: Option<bool>,
    /// Whether a host answers a datagram for a port where no socket listens, by ICMP; without it, it does.
    pub udp_answers: Option<bool>,
    /// Whether the Ethernet driver needs an interrupt before each packet; `false` for a device that
    /// sends back to back. Without it, as the machine has it.
    pub driver_gap: Option<bool>,
    /// Packets that the queue of each interface holds; without it, 50.
    pub interface_queue_packets: Option<u32>,
    /// Cost of TCP, IP and their helpers, in percent of the machine's; copies and driver stay.
    pub protocol_cost_percent: u32,
    /// Whether nothing costs CPU time but copies to and from programs and checksums of data, octet by
    /// octet: what remains is the bound that these set.
    pub data_costs_only: bool,
    /// Who gets the CPU.
    pub scheduler: SchedulerKind,
    /// Whether records are kept only of connections whose writer asks for it with `SO_LOG`, as this
    /// one's then does; else of all.
    pub so_log: bool,
    /// Whether the time that kernel profiling takes is charged.
    pub profiling: bool,
    /// Time of the profiler for a call, in percent of the machine's.
    pub profiling_cost_percent: Option<u32>,
    /// Whether both kernels have the eight probes of the SunOS study, which take time for each packet.
    pub probing: bool,
    /// Whether these log nothing: each tests a packet and goes on.
    pub probe_idle: bool,
    /// Records in the list that these fill, in each kernel; without it, the list has no end.
    pub probe_list_records: Option<u32>,
    /// How often a process on each host reads that list, in milliseconds, up to the next clock tick; without it, no
    /// process reads before the end.
    pub probe_read_ms: Option<u64>,
    /// When both timers of the first host tick together, in milliseconds of a second after its
    /// program starts; without it, by the seed.
    pub client_timer_ms: Option<u64>,
    /// The same of the second host.
    pub server_timer_ms: Option<u64>,
}

/// When room in the receive buffer is announced to the sender at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AckRule {
    /// As the personality has it.
    #[default]
    Personality,
    /// 35 % of the buffer were read.
    Share,
    /// 35 % of it, or two segments that empty it.
    WhenEmpty,
    /// Two segments or half of the buffer were read.
    TwoSegments,
}

/// Whose CPU a load shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoadAt {
    /// That of the second host, which reads.
    #[default]
    Server,
    /// That of the first host, which writes.
    Client,
}

/// Who gets the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SchedulerKind {
    /// That of 4.3BSD: who used little of it lately.
    #[default]
    Decay,
    /// Each in turn, a quantum long.
    RoundRobin,
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
    /// Two hosts, each on a network of its own, and a gateway between them.
    Gateway,
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
    /// Names that have no default.
    pub(super) const REQUIRED: &[&str] = &["machine", "personality"];

    /// What a file need not give. Rust's own default has zeros here.
    fn defaults() -> Self {
        Self { connections: 1, depth: 2, protocol_cost_percent: 100, ..Self::default() }
    }

    /// Defaults for a workload that has parameters of another kind.
    pub(super) fn of_machine(machine: &str) -> Self {
        Self { machine: machine.to_owned(), ..Self::defaults() }
    }

    /// Parameters with a value that no stack of the model has, by name.
    pub fn of_kernel_alone(&self) -> impl Iterator<Item = &'static str> {
        let all = [
            ("sack", self.sack),
            ("timestamps", self.timestamps),
            ("window_scaling", self.window_scaling),
        ];
        all.into_iter().filter(|(_, value)| value.is_some()).map(|(name, _)| name)
    }

    /// What goes wrong on the link.
    pub fn faults(&self) -> Faults {
        Faults {
            lost_per_million: self.lost_per_million,
            duplicated_per_million: self.duplicated_per_million,
            reordered_per_million: self.reordered_per_million,
            reordered_by_us: self.reordered_by_us,
            corrupted_per_million: self.corrupted_per_million,
        }
    }

    /// What each read of a `discard` asks for: never more than the transfer and one octet, since what
    /// is asked for beyond changes nothing but the memory that the reader takes.
    pub fn discard_read_bytes(&self) -> u64 {
        let asked = self.read_bytes.or(self.write_bytes).unwrap_or(1);
        asked.min(self.total_bytes.unwrap_or(0).saturating_add(1))
    }
}
