//! Results of an analysis. Times are nanoseconds of the trace's clock, sizes are bytes.

use std::collections::BTreeMap;

use crate::{HostClocks, Nesting, Request, RequestId, Requests, Uncertainty, UnreadRequest};
use sockscope_record::{
    Connection, ConnectionId, FlowId, LossCounts, Point, PointCost, Side, SocketLayer, Stage, named,
};

/// Facts of the trace other than its records; the caller reads them from the bundle.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TraceFacts {
    /// `live`, `model` or `pcap`.
    pub source: String,
    /// Records that the source missed.
    pub missed: LossCounts,
    /// The records have no end mark: later records, and the number of missed ones, are unknown.
    pub unfinished: bool,
    /// Cost of the probes, in the order of [`Point::ALL`].
    pub costs: [PointCost; 8],
    /// Sentences for the reader: a truncated bundle, a hook that was missing.
    pub notes: Vec<String>,
    /// Names of the numbers in `Drop` records.
    pub drop_reasons: DropReasons,
    /// Names of network namespaces.
    pub network_namespaces: NamespaceNames,
    /// When the recorded command ended, else the recording, on the clock of the records; `None` where that
    /// is not known.
    pub ended_ns: Option<u64>,
    /// The part of the CPU time that the host of a virtual machine gave to others at least, from 0 to 1. `None` where
    /// that is not known.
    pub steal_share: Option<f64>,
    /// The clocks of its hosts.
    pub clocks: HostClocks,
}

/// A kernel's reasons for drops: its own names by its own numbers, which differ between kernels.
/// A number without a name stays a number.
pub type DropReasons = BTreeMap<u32, String>;

/// Names of `ip netns` for network namespaces, by inode number. One without a name is shown by its number.
pub type NamespaceNames = BTreeMap<u32, String>;

/// Everything known about one trace.
#[derive(Debug, Clone, PartialEq)]
pub struct Analysis {
    /// Facts handed in, with notes of the analysis appended.
    pub facts: TraceFacts,
    /// Time of the first record.
    pub start_ns: u64,
    /// From the first record to the end of the command or of the recording, where that is known and later
    /// than the last record; else to the last record. 0 without a record.
    pub duration_ns: u64,
    /// Records read.
    pub records: u64,
    /// Records by point, in the order of [`Point::ALL`].
    pub points: [PointSummary; 8],
    /// Every connection, by id.
    pub connections: Vec<ConnectionAnalysis>,
    /// Nested requests, with their parents.
    pub nesting: Nesting,
}

impl Analysis {
    /// When the trace ended, on the clock of the records.
    pub fn end_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.duration_ns)
    }

    /// The connection with this number.
    pub fn connection(&self, id: ConnectionId) -> Option<&ConnectionAnalysis> {
        let at = self.connections.binary_search_by_key(&id, |one| one.connection.id).ok()?;
        self.connections.get(at)
    }

    /// The request, unless its connection was left out.
    pub fn request(&self, id: RequestId) -> Option<&Request> {
        self.connection(id.connection)?.requests.list.get(id.index as usize)
    }
}

/// Record counts of one point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PointSummary {
    /// Which.
    pub point: Point,
    /// Records of it in the trace.
    pub records: u64,
    /// Records of it known to be missed.
    pub missed: u64,
}

/// One connection: its two flows, the cost of its exchanges and its findings.
#[derive(Debug, Clone, PartialEq)]
pub struct ConnectionAnalysis {
    /// Addresses, protocol, processes.
    pub connection: Connection,
    /// Records of it in the trace: points passed and events.
    pub records: u64,
    /// From the client, then from the server.
    pub flows: [FlowAnalysis; 2],
    /// Requests and their responses, from the first one on; `None` when the traffic does not alternate.
    pub exchanges: Option<ExchangeSummary>,
    /// Every request, from the first one on.
    pub requests: Requests,
    /// Those that lay in the receive queue for long before they were read, by their place.
    pub unread_requests: Vec<UnreadRequest>,
    /// Nanoseconds in which requests that `exchanges` leaves out lay unread while their reader did something else,
    /// and those of their responses. Times of requests that overlap count for each.
    pub unread_ns: [u64; 2],
    /// Transactions of VMTP; `None` when no engine of it was recorded.
    pub transactions: Option<TransactionSummary>,
    /// Reason why it did not open; `None` when it did, or when that is unknown.
    pub unopened: Option<Unopened>,
    /// Side that ended it by a reset first (RST, RFC 9293 §3.5.2), with the time; `None` when neither end did.
    pub reset: Option<(Side, u64)>,
    /// Sides that offered a receive window of 0 to the end of the trace, with its start (nanoseconds of
    /// its clock); empty where the connection ended before.
    pub shut_windows: Vec<(Side, u64)>,
    /// One of its sockets is the kernel's own, as of MPTCP: the data of programs passes another one.
    pub is_inner: bool,
    /// Layers of the kernel that read and write its sockets, by side. Programs are behind them.
    pub layers: Vec<(Side, SocketLayer)>,
    /// Buffer sizes asked for and granted.
    pub buffers: Vec<BufferGrant>,
    /// Highest cost first.
    pub findings: Vec<Finding>,
}

/// Outcome of a SYN that led to no connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unopened {
    /// The server's side answered by a reset, or had no socket for it and so did (RFC 9293 §3.5.2,
    /// group 1).
    Refused,
    /// It arrived at the server's host, this one, was dropped there and not answered: why, as
    /// `reason NETFILTER_DROP`, or `reason 77` where the trace has no name for it.
    Dropped(String),
}

/// Transactions of a protocol whose engine was recorded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TransactionSummary {
    /// From the call to its end, for answered ones; `None` without any.
    pub total_ns: Option<Distribution>,
    /// Those that were not answered.
    pub failed: u64,
    /// Blocks of 512 octets sent again by the client and by the server, as far as each was recorded.
    pub blocks_again: [u64; 2],
}

/// One direction of a connection.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowAnalysis {
    /// Its id.
    pub id: FlowId,
    /// Figures that missed records may have made too small.
    pub at_least: AtLeast,
    /// Distinct bytes that entered the first point seen (retransmissions not counted again), those included
    /// that passed it unseen: positions show them.
    pub bytes: u64,
    /// Records at point 2 (skbs handed to IP, each possibly of several segments): of TCP those with
    /// data, of UDP all. Where no packet was seen there, as of a sender on another host, those at the first
    /// later point that saw any.
    pub segments: u64,
    /// Bytes sent again.
    pub retransmitted_bytes: u64,
    /// Recorded drops of it by the kernel, the most frequent reason first.
    pub drops: Vec<DropCount>,
    /// Datagrams that arrived at their host and that no socket took there. 0 for TCP.
    pub datagrams_refused: u64,
    /// Distinct bytes a second that reached the last point seen, from the first byte at the first point
    /// to the last one there; `None` without such bytes or such a time, and when the reader's end was
    /// watched and read no byte.
    pub throughput_bytes_per_s: Option<f64>,
    /// In the order of [`Stage::ALL`].
    pub stages: Vec<StageAnalysis>,
    /// Mean time, nanoseconds, of the bytes that were seen at points 1 and 8, in which they were in none of the
    /// stages: dropped by the kernel, and not yet there again. `None` without such a byte.
    pub dropped_byte_delay_ns: Option<f64>,
    /// Where the oldest unread byte was.
    pub ledger: Ledger,
    /// Intervals in which it was on the wire.
    pub wire_intervals: u64,
    /// Acknowledgments of this flow's data (they travel in the reverse flow).
    pub acks: AckSummary,
    /// Groups of segments sent back to back.
    pub bursts: BurstSummary,
    /// Size of the program's writes, bytes; `None` without a recorded one.
    pub write_bytes: Option<Distribution>,
    /// Size of the program's reads, bytes; `None` without a recorded one.
    pub read_bytes: Option<Distribution>,
    /// No return of a read call of a stream was recorded: the copies of one call are guessed.
    pub reads_are_guessed: bool,
    /// If so: the largest copy to the reader at once, bytes. The largest read returned as much or more; the
    /// largest of `read_bytes` may be several that followed one another without a pause. A copy behind a missed
    /// record does not count, as it may be two. `None` where no other was seen or reads are not guessed.
    pub read_copy_bytes_max: Option<u64>,
    /// The interface by which it left its sender's host; `None` where that was not recorded.
    pub interface: Option<Interface>,
    /// Devices between its two ends on this host by which its packets left, in path order.
    pub hops: Vec<HopAnalysis>,
}

/// An interface, as the kernel names it. Names have no control characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Name of the device.
    pub device: String,
    /// Name of the queueing discipline at its root.
    pub discipline: String,
    /// Number of the device in its network namespace.
    pub index: u32,
    /// Inode number of that namespace.
    pub namespace: u64,
    /// Name of that namespace; `None` where it has none.
    pub namespace_name: Option<String>,
}

impl Interface {
    /// The name of its namespace, else its number.
    pub fn shown_namespace(&self) -> String {
        self.namespace_name.clone().unwrap_or_else(|| self.namespace.to_string())
    }
}

/// A device, by its numbers and its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Its name; `None` where that was not recorded. It has no control characters.
    pub name: Option<String>,
    /// Its number in its network namespace.
    pub index: u32,
    /// Inode number of that namespace; 0 if unknown.
    pub namespace: u32,
    /// Name of that namespace; `None` where it has none.
    pub namespace_name: Option<String>,
}

impl Device {
    /// Its name, else its number.
    pub fn shown(&self) -> String {
        self.name.clone().unwrap_or_else(|| format!("device {}", self.index))
    }

    /// The name of its namespace, else the number; `None` where neither is known.
    pub fn shown_namespace(&self) -> Option<String> {
        let number = || (self.namespace > 0).then(|| self.namespace.to_string());
        self.namespace_name.clone().or_else(number)
    }

    /// The device with its namespace: `r1 of network namespace 4026532246`.
    pub fn placed(&self) -> String {
        match self.shown_namespace() {
            None => self.shown(),
            Some(namespace) => format!("{} of network namespace {namespace}", self.shown()),
        }
    }
}

/// One device between the two ends by which bytes of a flow left.
#[derive(Debug, Clone, PartialEq)]
pub struct HopAnalysis {
    /// Which.
    pub device: Device,
    /// The device of the same namespace by which they arrived there; `None` where that was not recorded.
    pub arrived_by: Option<Device>,
    /// Distinct bytes that left by it.
    pub bytes: u64,
    /// From their arrival until its queue, or without one the device itself, takes them; by run of bytes. `None` where
    /// no arrival was recorded.
    pub transit_ns: Option<Distribution>,
    /// From entering its queue to leaving; `None` of a device without a queue.
    pub queue_ns: Option<Distribution>,
    /// Bytes in its queue, as far as they were seen to leave; `None` of a device without a queue.
    pub queue_bytes: Option<LengthSummary>,
    /// Bytes that left its queue without having entered, and bytes that entered and were seen further on without having
    /// left; `None` where records were missed.
    pub residue_bytes: Option<u64>,
    /// Nanoseconds of the flow's ledger in which the oldest unread byte was in transit here, a part of
    /// [`LedgerPart::Wire`].
    pub ledger_transit_ns: u64,
    /// The same of its queue.
    pub ledger_queue_ns: u64,
}

/// Figures of one flow that are lower bounds, as missed records may have had more of it. Distributions are of
/// those that were recorded whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AtLeast {
    /// [`FlowAnalysis::bytes`].
    pub bytes: bool,
    /// [`FlowAnalysis::throughput_bytes_per_s`].
    pub throughput: bool,
    /// [`FlowAnalysis::segments`].
    pub segments: bool,
    /// [`FlowAnalysis::retransmitted_bytes`].
    pub retransmitted: bool,
    /// The counts of [`FlowAnalysis::drops`], and [`FlowAnalysis::datagrams_refused`].
    pub drops: bool,
    /// The counts of [`FlowAnalysis::acks`].
    pub acks: bool,
    /// The count of [`FlowAnalysis::bursts`].
    pub bursts: bool,
    /// The count of [`FlowAnalysis::write_bytes`].
    pub writes: bool,
    /// The count of [`FlowAnalysis::read_bytes`].
    pub reads: bool,
}

/// Segments or datagrams of one flow that the kernel dropped for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DropCount {
    /// The kernel's own name of it, else its number; of the model, the model's.
    pub reason: String,
    /// Number of packets; one in the kernel here may be several segments on the wire.
    pub count: u64,
    /// Bytes of data in them.
    pub bytes: u64,
    /// Host on which most of them were dropped; `None` where too little is known.
    pub host: Option<Side>,
}

/// One stage of one flow.
#[derive(Debug, Clone, PartialEq)]
pub struct StageAnalysis {
    /// Which.
    pub stage: Stage,
    /// Time from entering to leaving, of each run of bytes that did both, weighted by run; `None`
    /// when no byte was seen to do both.
    pub delay_ns: Option<Distribution>,
    /// Of a capture, the most that it can be: from the passage of each run of bytes to its acknowledgment, at the place
    /// of the capture. `None` where it was measured, and where no acknowledgment bounds it.
    pub delay_at_most_ns: Option<Distribution>,
    /// Mean of the same time, nanoseconds, of the bytes that were seen at points 1 and 8, each weighing
    /// the same; `None` without such bytes. Where these bytes were seen at every point, those of the
    /// seven stages and [`FlowAnalysis::dropped_byte_delay_ns`] add up to that of the total.
    pub byte_delay_ns: Option<f64>,
    /// Bytes in it over the time in which that is known; `None` when unknown throughout. With unknown
    /// intervals the largest is a lower bound.
    pub length_bytes: Option<LengthSummary>,
    /// Bytes that left without having entered, plus bytes whose exit was missed: they entered
    /// and were seen further on, or the flow closed with all data read. 0 when all is accounted
    /// for; `None` when a point was not observed or loss makes it unknowable.
    pub residue_bytes: Option<i64>,
    /// Bytes still in it when the trace ended; `None` when loss makes that unknown.
    pub resident_bytes: Option<u64>,
    /// Intervals of its length that loss makes unknown.
    pub unknown_intervals: u64,
    /// Error of its delays, where it begins on the clock of one host and ends on that of another; `None` within a host.
    pub uncertainty: Option<Uncertainty>,
}

/// A distribution of times (ns) or sizes (bytes).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Distribution {
    /// Observations.
    pub count: u64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Smallest.
    pub min: u64,
    /// Median.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// Largest.
    pub max: u64,
}

/// Length of a queue over the trace.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LengthSummary {
    /// Mean over time, from the first byte in to the last byte out.
    pub mean: f64,
    /// Largest.
    pub max: u64,
}

/// Places of the oldest byte not yet read, in shares of the flow's time that add up to 1.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Ledger {
    /// Nanoseconds in each part, in the order of [`LedgerPart::ALL`].
    pub ns: [u64; LedgerPart::ALL.len()],
}

/// A place in the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LedgerPart {
    /// Every byte written has been read.
    AppIdle,
    /// No byte is unread, and the connection is not open yet: from the SYN on, until the sender's socket is open.
    Handshake,
    /// Every byte written has been read, but the program has more to write and the send buffer has no room.
    SendBuffer,
    /// It has asked to write more, there is room, and it does not write: if asleep in its call it waits for a
    /// CPU, else it does something else, and may have given up the rest.
    SendWriter,
    /// Held by Nagle's algorithm.
    SendNagle,
    /// Held by `TCP_CORK` or `MSG_MORE`.
    SendCork,
    /// Congestion window full.
    SendCwnd,
    /// Peer's receive window full.
    SendRwnd,
    /// Pacing or TCP small queues.
    SendPacing,
    /// In the send queue for another reason.
    SendOther,
    /// Points 2 to 3.
    TcpOutput,
    /// Points 3 to 4.
    InterfaceQueue,
    /// Points 4 to 5.
    Wire,
    /// Points 5 to 6.
    InputQueue,
    /// Points 6 to 7.
    TcpInput,
    /// In the receive queue while its reader waits for a CPU.
    ReceiveWakeup,
    /// In the receive queue while its reader does something else.
    ReceiveApp,
    /// Dropped by the kernel, and not yet retransmitted.
    Dropped,
    /// Cannot be known: missed records, a point not observed.
    Unknown,
}

named! {
    LedgerPart {
        AppIdle => "app_idle",
        Handshake => "handshake",
        SendBuffer => "send_buffer",
        SendWriter => "send_buffer.writer",
        SendNagle => "send_queue.nagle",
        SendCork => "send_queue.cork",
        SendCwnd => "send_queue.cwnd",
        SendRwnd => "send_queue.rwnd",
        SendPacing => "send_queue.pacing",
        SendOther => "send_queue.other",
        TcpOutput => "tcp_output",
        InterfaceQueue => "interface_queue",
        Wire => "wire",
        InputQueue => "input_queue",
        TcpInput => "tcp_input",
        ReceiveWakeup => "receive_queue.wakeup",
        ReceiveApp => "receive_queue.app",
        Dropped => "dropped",
        Unknown => "unknown",
    }
}

impl Ledger {
    /// Time covered, nanoseconds.
    pub fn total_ns(&self) -> u64 {
        self.ns.iter().sum()
    }

    /// Share of one part, 0 to 1; 0 when no time is covered.
    pub fn share(&self, part: LedgerPart) -> f64 {
        match self.total_ns() {
            0 => 0.0,
            total => self.ns[part as usize] as f64 / total as f64,
        }
    }
}

/// Acknowledgments of one flow's data, as the receiver made them (point 4 of the reverse flow; point 6
/// when only the sender is on this host).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AckSummary {
    /// Segments that acknowledged new data.
    pub advancing: u64,
    /// Of those, segments without data of their own.
    pub pure: u64,
    /// Duplicate acknowledgments and window updates.
    pub duplicate: u64,
    /// Bytes acknowledged by each advancing one.
    pub bytes: Option<Distribution>,
    /// From point 7 of the last byte acknowledged to the acknowledgment, nanoseconds.
    pub delay_ns: Option<Distribution>,
    /// Number of late acknowledgments (10 ms or more after point 7), by cause.
    pub late: Vec<(AckDelayCause, u64)>,
}

/// Cause of a late acknowledgment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AckDelayCause {
    /// Sent by the delayed-ACK timer, alone (RFC 9293 §3.8.6.3).
    Timer,
    /// Rode on data, or on the end of the stream, that the receiver sent late.
    Piggyback,
    /// Sent when the program read: the window opened, or too soon for the timer.
    Read,
    /// None of these is certain.
    Unknown,
}

/// Segments sent with less than 1 ms between neighbours count as one burst.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BurstSummary {
    /// Number of bursts.
    pub count: u64,
    /// Bytes of each.
    pub bytes: Option<Distribution>,
    /// First to last segment of each, nanoseconds.
    pub duration_ns: Option<Distribution>,
    /// From the end of one to the start of the next, nanoseconds.
    pub gap_ns: Option<Distribution>,
}

/// Requests and responses: one side writes, the other answers, in turn.
#[derive(Debug, Clone, PartialEq)]
pub struct ExchangeSummary {
    /// The side that asks.
    pub asked_by: Side,
    /// From the first byte of the request written to the last byte of the response read.
    pub total_ns: Distribution,
    /// The request's way: parts of the ledger of the asking flow, mean nanoseconds an exchange.
    pub request_ns: Ledger,
    /// From last request byte read to first response byte written.
    pub service_ns: Distribution,
    /// The response's way, as `request_ns`.
    pub response_ns: Ledger,
    /// The slowest exchange: start and total.
    pub slowest: (u64, u64),
}

/// A socket buffer as the program asked for it and as it got it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferGrant {
    /// At which end.
    pub side: Side,
    /// Send buffer (else receive buffer).
    pub is_send: bool,
    /// Bytes asked for by `SO_SNDBUF` or `SO_RCVBUF`; `None` when the program was not seen to ask.
    pub asked_bytes: Option<u64>,
    /// The program set the size, else the kernel does. Its request may have no record: on a listener whose
    /// sockets inherit the size, or before recording began.
    pub is_set_by_program: bool,
    /// Bytes granted (Linux doubles the request, socket(7)); `None` when that was not seen.
    pub granted_bytes: Option<u64>,
}

/// Stable name of a finding; each has a page in docs/findings/.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FindingId {
    /// Nagle's algorithm waits for a delayed acknowledgment.
    NagleDelayedAck,
    /// One message in several writes.
    SplitMessage,
    /// Writes far smaller than a segment, in bulk.
    SmallWrites,
    /// The sender waits for a delayed acknowledgment, other than by Nagle's algorithm.
    DelayedAckWait,
    /// A corked segment waits after the program's last write.
    Corked,
    /// One message in flight at a time bounds the throughput.
    StopAndWait,
    /// The send buffer is smaller than the bandwidth-delay product of the path.
    SendBufferLimited,
    /// The receive window bounds the throughput.
    ReceiveWindowLimited,
    /// The congestion window bounds the throughput.
    CongestionLimited,
    /// The reader leaves data in its socket.
    SlowReader,
    /// The reader waits for a CPU.
    LateWakeup,
    /// A standing queue at the interface.
    InterfaceQueueLimited,
    /// Data was sent again.
    Retransmission,
    /// A socket buffer was granted smaller than asked.
    BufferClipped,
    /// A socket buffer set by the program is below the bandwidth-delay product.
    BufferBelowBdp,
    /// Datagrams were dropped at the receiving socket.
    UdpReceiveDrop,
    /// The answering program has most of the time of a long request.
    SlowService,
    /// The answering program waits for requests of its own.
    UpstreamWait,
    /// Many small requests to one server, one after the other, answer one.
    NPlusOne,
    /// Requests lie unread while their thread serves another connection.
    HeadOfLine,
    /// A request arrived and was not answered.
    Unanswered,
    /// The listening socket has no room for another connection.
    AcceptQueueFull,
    /// A host drops the segments that open a connection.
    SynDropped,
    /// A host answered the SYN by a reset.
    ConnectionRefused,
    /// A socket was closed with data unread, which resets the connection.
    ResetUnread,
    /// Datagrams that no socket of their host takes.
    UdpRefused,
    /// Datagrams dropped for another reason than a full receive buffer.
    UdpDropped,
    /// A program closes a connection and opens the next one to the same server.
    ConnectionChurn,
    /// Reads far smaller than the data in the receive queue, in bulk.
    SmallReads,
    /// A queue stands in the network, outside of both hosts.
    NetworkQueue,
    /// The rate that the program set bounds the flow.
    PacingLimited,
    /// Full-size segments never arrive, and smaller ones do.
    MtuBlackhole,
    /// The receiver's window opens in steps far smaller than a segment.
    SillyWindow,
    /// Both ends answer each other's acknowledgments.
    AckStorm,
    /// Writes leave a small segment each.
    BufferMismatch,
    /// The listening program accepts open connections late.
    SlowAccept,
    /// A side did not offer window scaling.
    NoWindowScaling,
}

named! {
    FindingId {
        NagleDelayedAck => "nagle-delayed-ack",
        SplitMessage => "split-message",
        SmallWrites => "small-writes",
        DelayedAckWait => "delayed-ack-wait",
        Corked => "corked",
        StopAndWait => "stop-and-wait",
        SendBufferLimited => "send-buffer-limited",
        ReceiveWindowLimited => "receive-window-limited",
        CongestionLimited => "congestion-limited",
        SlowReader => "slow-reader",
        LateWakeup => "late-wakeup",
        InterfaceQueueLimited => "interface-queue-limited",
        Retransmission => "retransmission",
        BufferClipped => "buffer-clipped",
        BufferBelowBdp => "buffer-below-bdp",
        UdpReceiveDrop => "udp-receive-drop",
        SlowService => "slow-service",
        UpstreamWait => "upstream-wait",
        NPlusOne => "n-plus-one",
        HeadOfLine => "head-of-line",
        Unanswered => "unanswered",
        AcceptQueueFull => "accept-queue-full",
        SynDropped => "syn-dropped",
        ConnectionRefused => "connection-refused",
        ResetUnread => "reset-unread",
        UdpRefused => "udp-refused",
        UdpDropped => "udp-dropped",
        ConnectionChurn => "connection-churn",
        SmallReads => "small-reads",
        NetworkQueue => "network-queue",
        PacingLimited => "pacing-limited",
        MtuBlackhole => "mtu-blackhole",
        SillyWindow => "silly-window",
        AckStorm => "ack-storm",
        BufferMismatch => "buffer-mismatch",
        SlowAccept => "slow-accept",
        NoWindowScaling => "no-window-scaling",
    }
}

impl FindingId {
    /// Whether it only passes on the time of another cause, which has that time too.
    pub fn is_consequence(self) -> bool {
        self == Self::UpstreamWait
    }

    /// Whether something failed: that matters at any cost in time.
    pub fn is_failure(self) -> bool {
        matches!(
            self,
            Self::UdpReceiveDrop
                | Self::ConnectionRefused
                | Self::ResetUnread
                | Self::UdpRefused
                | Self::UdpDropped
                | Self::AckStorm
        )
    }
}

/// Something wrong, with its proof and its cure.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// Which rule.
    pub id: FindingId,
    /// In which flow's data it shows.
    pub flow: FlowId,
    /// The side to change.
    pub side: Side,
    /// Number of occurrences.
    pub count: u64,
    /// Connections over which it was summed up; 1 where it is of the flow alone.
    pub connections: u64,
    /// Time that it cost, nanoseconds, all occurrences together.
    pub cost_ns: u64,
    /// Times of the cost, from and until, in order and disjoint. Longer than `cost_ns` in all where only the times
    /// are known between which it cost time.
    pub times: Vec<(u64, u64)>,
    /// One sentence with the figures.
    pub summary: String,
    /// The very records that prove it, at most [`Finding::EVIDENCE_MAX`], earliest first.
    pub evidence: Vec<Evidence>,
    /// The change that solves it, and its place.
    pub fix: String,
}

impl Finding {
    /// Evidence kept with a finding.
    pub const EVIDENCE_MAX: usize = 8;
}

/// One observation that a finding rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    /// When.
    pub at_ns: u64,
    /// The event that was recorded, one line.
    pub text: String,
}
