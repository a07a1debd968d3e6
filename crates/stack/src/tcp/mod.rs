//! TCP (RFC 793, RFC 9293) as the BSD systems of 1983 to 1990 had it.
//!
//! One implementation, whose differences between versions are the data of [`TcpRules`]. Time comes
//! in two beats, `tcp_fasttimo` every 200 ms and `tcp_slowtimo` every 500 ms; nothing else measures
//! it. Sequence numbers are [`Seq`]; positions in a stream are 64 bits and start at 0 with the first
//! data byte, so that SYN and FIN do not count.
//!
//! There is no urgent data: the flag is ignored on input and never sent.

mod ack;
mod congestion;
mod control;
mod data;
mod header;
mod input;
mod observe;
mod output;
mod reassembly;
mod respond;
mod rtt;
mod rules;
mod segment;
mod seq;
mod size;
mod syn;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod timer;
mod trim;
mod usrreq;

use crate::socket::{Socket, SocketId};
use crate::stack::{Stack, StackConfig};

pub use header::{Header, TCP_HEADER_BYTES};
pub use reassembly::SEGMENTS_MAX;
pub use rtt::Rtt;
pub use rules::{
    Announced, CongestionRules, Duplicates, Estimator, HeaderPlace, InitialWindow, InputRules,
    KeepAlive, Persist, Quench, RttRules, SegmentRules, ShortSegments, TICKS_PER_SECOND, TcpRules,
    Timing, WindowGrowth, WindowOffer, WindowUpdate,
};
pub use seq::Seq;

use observe::Observed;
use reassembly::Reassembly;
use timer::Timers;

/// Largest window and congestion window, in bytes: there is no scaling (RFC 7323 is younger).
const WINDOW_MAX: u32 = 65_535;

/// By how much the initial sequence number moves in a second (`TCP_ISSINCR`).
const SEQUENCE_STEP: u32 = 125 * 1024;

/// Smallest segment that a peer may ask for, in data bytes; 4.3BSD-Reno had the same floor.
const SEGMENT_BYTES_MIN: u32 = 32;

/// State of a connection (RFC 9293 §3.3.2), in the order that the BSD sources compare by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// No connection.
    Closed,
    /// Waiting for a SYN.
    Listen,
    /// A SYN was sent.
    SynSent,
    /// A SYN came and was answered.
    SynReceived,
    /// Data may flow.
    Established,
    /// A FIN came; this end may still send.
    CloseWait,
    /// A FIN was sent.
    FinWait1,
    /// FINs crossed on the way.
    Closing,
    /// A FIN came, and ours was sent.
    LastAck,
    /// Our FIN was acknowledged; the peer may still send.
    FinWait2,
    /// Both directions are closed; late segments are waited for.
    TimeWait,
}

impl State {
    /// Whether the peer's SYN has come.
    #[must_use]
    pub fn has_syn(self) -> bool {
        self >= Self::SynReceived
    }

    /// Whether the peer's FIN has come, so that nothing can follow.
    #[must_use]
    pub fn has_fin(self) -> bool {
        matches!(self, Self::CloseWait | Self::Closing | Self::LastAck | Self::TimeWait)
    }

    /// Whether this end has closed its direction.
    #[must_use]
    pub fn has_closed(self) -> bool {
        matches!(self, Self::FinWait1 | Self::Closing | Self::LastAck)
    }
}

/// TCP's half of a protocol control block (`struct tcpcb`).
#[derive(Debug)]
pub struct Tcb {
    state: State,
    snd: SendSpace,
    rcv: ReceiveSpace,
    /// Largest segment to send, in data bytes (`t_maxseg`).
    segment_bytes: u32,
    /// The peer's SYN announced a size.
    is_size_announced: bool,
    timers: Timers,
    rtt: Rtt,
    /// Slow ticks since a segment came (`t_idle`).
    idle_ticks: u32,
    /// Duplicate acknowledgments in a row (`t_dupacks`).
    duplicates: u32,
    /// Where the loss that is being repaired was noticed, and how.
    repair: Option<Repair>,
    /// The persist timer wants a segment out whatever the window says (`t_force`).
    is_forced: bool,
    /// An acknowledgment must leave now (`TF_ACKNOW`).
    must_ack: bool,
    /// An acknowledgment is owed by the next fast tick (`TF_DELACK`).
    owes_ack: bool,
    /// Our FIN has been sent (`TF_SENTFIN`).
    has_sent_fin: bool,
    reassembly: Reassembly,
    observed: Observed,
}

/// The direction in which this end sends.
#[derive(Debug, Clone, Copy, Default)]
struct SendSpace {
    /// Our SYN's number.
    iss: Seq,
    /// First number not acknowledged.
    una: Seq,
    /// Our SYN is acknowledged; the numbers alone cannot tell once they have wrapped.
    is_syn_acked: bool,
    /// Number to send next.
    nxt: Seq,
    /// Largest number ever sent.
    max: Seq,
    /// The peer's window from `una` on, in bytes.
    wnd: u32,
    /// Largest window that the peer offered.
    wnd_max: u32,
    /// Sequence number of the segment that brought the window.
    wl1: Seq,
    /// Acknowledgment of the segment that brought the window.
    wl2: Seq,
    /// Congestion window in bytes.
    cwnd: u32,
    /// Where slow start ends, in bytes.
    ssthresh: u32,
}

impl SendSpace {
    /// First number of data not acknowledged: behind our SYN, if that is not acknowledged.
    fn data_start(&self) -> Seq {
        if self.is_syn_acked { self.una } else { self.una + 1 }
    }

    /// How many bytes of the queue the next number is past, the SYN not counted.
    fn offset(&self) -> u32 {
        // Never negative: `nxt` is kept at `una` or behind it.
        self.nxt.since(self.data_start()).max(0) as u32
    }
}

/// The direction in which the peer sends.
#[derive(Debug, Clone, Copy, Default)]
struct ReceiveSpace {
    /// Number expected next.
    nxt: Seq,
    /// End of the window that the peer knows of.
    adv: Seq,
    /// Window for the segment in hand, in bytes.
    wnd: u32,
    /// Data bytes received in order: the stream position of `nxt`.
    bytes: u64,
}

/// A loss being repaired.
#[derive(Debug, Clone, Copy)]
struct Repair {
    how: sockscope_record::RetransmitClass,
    /// Done when this is acknowledged.
    until: Seq,
}

impl Tcb {
    /// A block without a connection. The congestion window is set now to the send buffer's limit,
    /// where there is such a window at all, and stays there if the buffer grows later.
    fn new(rules: &TcpRules, send_limit: u32) -> Self {
        let cwnd = match rules.congestion.initial {
            InitialWindow::Unlimited => WINDOW_MAX,
            _ => send_limit.min(WINDOW_MAX),
        };
        Self {
            state: State::Closed,
            snd: SendSpace { cwnd, ssthresh: WINDOW_MAX, ..SendSpace::default() },
            rcv: ReceiveSpace::default(),
            segment_bytes: rules.segments.default_bytes,
            is_size_announced: false,
            timers: Timers::default(),
            rtt: Rtt::new(&rules.rtt),
            idle_ticks: 0,
            duplicates: 0,
            repair: None,
            is_forced: false,
            must_ack: false,
            owes_ack: false,
            has_sent_fin: false,
            reassembly: Reassembly::default(),
            observed: Observed::default(),
        }
    }

    /// State of the connection.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// Congestion window and slow-start threshold, in bytes.
    #[must_use]
    pub fn congestion(&self) -> (u32, u32) {
        (self.snd.cwnd, self.snd.ssthresh)
    }

    /// Largest segment that will be sent, in data bytes.
    #[must_use]
    pub fn segment_bytes(&self) -> u32 {
        self.segment_bytes
    }

    /// What is known of the round-trip time.
    #[must_use]
    pub fn rtt(&self) -> &Rtt {
        &self.rtt
    }

    /// Our numbers begin.
    fn start_sending(&mut self, iss: Seq) {
        self.snd.iss = iss;
        self.snd.is_syn_acked = false;
        self.snd.una = iss;
        self.snd.nxt = iss;
        self.snd.max = iss;
    }

    /// The peer's numbers begin with its SYN.
    fn start_receiving(&mut self, irs: Seq) {
        self.rcv.nxt = irs + 1;
        self.rcv.adv = irs + 1;
        self.rcv.bytes = 0;
    }
}

/// What TCP keeps for the whole host.
#[derive(Debug)]
pub struct TcpState {
    /// Initial sequence number of the next connection (`tcp_iss`).
    iss: Seq,
    /// The connection that the last segment was for (4.3BSD-Reno).
    last: Option<SocketId>,
    counts: TcpCounts,
}

/// What TCP counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TcpCounts {
    /// Segments sent with data or a SYN, FIN or RST.
    pub sent: u64,
    /// Segments of those that held data sent before.
    pub resent: u64,
    /// Segments sent that carried an acknowledgment only.
    pub acks_sent: u64,
    /// Probes of a closed window sent.
    pub probes_sent: u64,
    /// Segments received.
    pub received: u64,
    /// Too short, or a header that makes no sense.
    pub bad_headers: u64,
    /// Checksum wrong.
    pub bad_checksums: u64,
    /// For no connection and no listening socket.
    pub no_connection: u64,
    /// Acknowledgments that were the same as the one before.
    pub duplicate_acks: u64,
    /// Segments kept because they came before their turn.
    pub out_of_order: u64,
    /// Segments or parts of them that had come before, or were beyond the window.
    pub outside_window: u64,
    /// Segments that header prediction took.
    pub predicted: u64,
    /// Retransmission timers that ran out.
    pub timeouts: u64,
    /// Segments sent again after three duplicate acknowledgments.
    pub fast_retransmits: u64,
    /// Connections given up because the peer did not answer.
    pub given_up: u64,
    /// Segments that found a full interface queue or no mbufs.
    pub no_buffers: u64,
}

impl TcpState {
    pub(crate) fn new(_rules: &TcpRules, config: &StackConfig) -> Self {
        Self { iss: Seq(config.initial_sequence), last: None, counts: TcpCounts::default() }
    }

    /// The initial sequence number of a connection that begins now.
    fn next_iss(&mut self) -> Seq {
        let iss = self.iss;
        self.iss += SEQUENCE_STEP / 2;
        iss
    }
}

impl Stack {
    /// What TCP counted so far.
    #[must_use]
    pub fn tcp_counts(&self) -> TcpCounts {
        self.tcp.counts
    }

    /// The block of a socket that has one: whoever calls has just seen that it does.
    fn tcb(&self, id: SocketId) -> &Tcb {
        block(&self.sockets[id])
    }

    fn tcb_mut(&mut self, id: SocketId) -> &mut Tcb {
        block_mut(&mut self.sockets[id])
    }

    /// Whether the socket still has its block: a step may have ended the connection.
    fn is_alive(&self, id: SocketId) -> bool {
        self.sockets.find(id).is_some_and(|socket| socket.tcb.is_some())
    }
}

fn block(socket: &Socket) -> &Tcb {
    match &socket.tcb {
        Some(tcb) => tcb,
        None => no_block(),
    }
}

fn block_mut(socket: &mut Socket) -> &mut Tcb {
    match &mut socket.tcb {
        Some(tcb) => tcb,
        None => no_block(),
    }
}

#[cold]
#[inline(never)]
fn no_block() -> ! {
    panic!("a socket without a TCP block")
}
