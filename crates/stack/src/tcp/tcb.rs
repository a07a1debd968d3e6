//! The state of a connection (`struct tcpcb`), and TCP's state for the whole host.

use super::options::SHIFT_MAX;
use super::peer_stamps::PeerStamps;
use super::reassembly::Reassembly;
use super::rtt::Rtt;
use super::rules::{InitialWindow, TcpRules};
use super::scoreboard::Scoreboard;
use super::seq::Seq;
use super::timers::{Timer, Timers};
use crate::socket::SocketId;

/// Largest window that a header can name, in bytes.
pub(super) const WINDOW_MAX: u32 = 65_535;

/// The increment of the initial sequence number per second (`TCP_ISSINCR`).
pub(super) const SEQUENCE_STEP: u32 = 125 * 1024;

/// State of a connection (RFC 9293 §3.3.2), in the order that the BSD sources compare by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// No connection.
    Closed,
    /// Waiting for a SYN.
    Listen,
    /// A SYN was sent.
    SynSent,
    /// A SYN arrived and was answered.
    SynReceived,
    /// Data may flow.
    Established,
    /// A FIN arrived; this end may still send.
    CloseWait,
    /// A FIN was sent.
    FinWait1,
    /// FINs crossed.
    Closing,
    /// A FIN arrived, and ours was sent.
    LastAck,
    /// Our FIN was acknowledged; the peer may still send.
    FinWait2,
    /// Both directions are closed; late segments are waited for.
    TimeWait,
}

impl State {
    /// Whether the peer's SYN has arrived.
    pub fn has_syn(self) -> bool {
        self >= Self::SynReceived
    }

    /// Whether the peer's FIN has arrived, so that nothing can follow.
    pub fn has_fin(self) -> bool {
        matches!(self, Self::CloseWait | Self::Closing | Self::LastAck | Self::TimeWait)
    }
}

/// TCP's half of a protocol control block (`struct tcpcb`).
#[derive(Debug)]
pub struct Tcb {
    pub(super) state: State,
    pub(super) snd: SendSpace,
    pub(super) rcv: ReceiveSpace,
    /// Largest segment to send, in data bytes (`t_maxseg`).
    pub(super) segment_bytes: u32,
    /// The peer's SYN announced a size.
    pub(super) is_size_announced: bool,
    pub(super) timers: Timers,
    pub(super) rtt: Rtt,
    pub(super) stamps: PeerStamps,
    /// Both SYNs permit selective acknowledgments.
    pub(super) has_sack: bool,
    pub(super) scoreboard: Scoreboard,
    /// Slow ticks since a segment arrived (`t_idle`).
    pub(super) idle_ticks: u32,
    /// Duplicate acknowledgments in a row (`t_dupacks`).
    pub(super) duplicates: u32,
    /// The loss under repair, and its detection.
    pub(super) repair: Option<Repair>,
    /// The persist timer wants a segment out despite the window (`t_force`).
    pub(super) is_forced: bool,
    /// An acknowledgment must leave now (`TF_ACKNOW`).
    pub(super) must_ack: bool,
    /// An acknowledgment is owed by the next fast tick (`TF_DELACK`).
    pub(super) owes_ack: bool,
    /// Our FIN has been sent (`TF_SENTFIN`).
    pub(super) has_sent_fin: bool,
    pub(super) reassembly: Reassembly,
    pub(super) observed: Observed,
}

/// The direction in which this end sends.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SendSpace {
    /// Our SYN's number.
    pub(super) iss: Seq,
    /// First number not acknowledged.
    pub(super) una: Seq,
    /// Our SYN is acknowledged; the numbers alone do not show it once they have wrapped.
    pub(super) is_syn_acked: bool,
    /// Number to send next.
    pub(super) nxt: Seq,
    /// Largest number ever sent.
    pub(super) max: Seq,
    /// Number behind the urgent data; not after `una` without any.
    pub(super) up: Seq,
    /// The peer's window from `una` on, in bytes.
    pub(super) wnd: u32,
    /// Largest window that the peer offered.
    pub(super) wnd_max: u32,
    /// Sequence number of the segment that brought the window.
    pub(super) wl1: Seq,
    /// Acknowledgment of the segment that brought the window.
    pub(super) wl2: Seq,
    /// Congestion window in bytes.
    pub(super) cwnd: u32,
    /// Where slow start ends, in bytes.
    pub(super) ssthresh: u32,
    /// Largest window and congestion window, in bytes.
    pub(super) window_max: u32,
    /// Bits that the peer's headers leave out of its windows; 0 until both ends have agreed on it.
    pub(super) shift: u8,
    /// The shift that the peer's SYN announced, whether or not this end knows the option.
    pub(super) shift_announced: Option<u8>,
}

impl SendSpace {
    /// First number of data not acknowledged: behind our SYN, if that is not acknowledged.
    pub(super) fn data_start(&self) -> Seq {
        if self.is_syn_acked { self.una } else { self.una + 1 }
    }

    /// The bytes of the queue before the next number, the SYN not counted.
    pub(super) fn offset(&self) -> u32 {
        // Never negative: `nxt` is kept at `una` or behind it.
        self.nxt.since(self.data_start()).max(0) as u32
    }
}

/// The direction in which the peer sends.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ReceiveSpace {
    /// Number expected next.
    pub(super) nxt: Seq,
    /// End of the window that the peer knows of.
    pub(super) adv: Seq,
    /// Number behind the urgent data; not after `nxt` without any.
    pub(super) up: Seq,
    /// Window for the segment in hand, in bytes.
    pub(super) wnd: u32,
    /// Bits that our headers leave out of our windows; 0 until both ends have agreed on it.
    pub(super) shift: u8,
    /// The shift that our SYN announces, if it does.
    pub(super) shift_announced: Option<u8>,
    /// Data bytes received in order: the stream position of `nxt`.
    pub(super) bytes: u64,
}

impl ReceiveSpace {
    /// Largest window that our headers can name, in bytes.
    pub(super) fn window_max(&self) -> u32 {
        WINDOW_MAX << self.shift
    }
}

/// A loss being repaired.
#[derive(Debug, Clone, Copy)]
pub(super) struct Repair {
    pub(super) how: sockscope_record::RetransmitClass,
    /// Done when this is acknowledged.
    pub(super) until: Seq,
}

impl Tcb {
    /// A block without a connection. The congestion window, where there is one, is set now to the
    /// send buffer's limit, and stays there if the buffer grows later.
    pub(super) fn new(rules: &TcpRules, send_limit: u32) -> Self {
        let window_max = WINDOW_MAX << if rules.options.window_scaling { SHIFT_MAX } else { 0 };
        let cwnd = match rules.congestion.initial {
            InitialWindow::Unlimited => window_max,
            _ => send_limit.min(window_max),
        };
        Self {
            state: State::Closed,
            snd: SendSpace { cwnd, ssthresh: window_max, window_max, ..SendSpace::default() },
            rcv: ReceiveSpace::default(),
            segment_bytes: rules.segments.default_bytes,
            is_size_announced: false,
            timers: Timers::default(),
            rtt: Rtt::new(&rules.rtt),
            stamps: PeerStamps::default(),
            has_sack: false,
            scoreboard: Scoreboard::default(),
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
    pub fn state(&self) -> State {
        self.state
    }

    /// Congestion window and slow-start threshold, in bytes.
    pub fn congestion(&self) -> (u32, u32) {
        (self.snd.cwnd, self.snd.ssthresh)
    }

    /// Largest segment that will be sent, in data bytes.
    pub fn segment_bytes(&self) -> u32 {
        self.segment_bytes
    }

    /// The round-trip time.
    pub fn rtt(&self) -> &Rtt {
        &self.rtt
    }

    /// The invariant between segments: `snd_una <= snd_nxt <= snd_max`, and no more in flight than the
    /// send buffer's `queued` bytes with SYN and FIN. Windows are within their bounds, and at most one
    /// of the timers that send runs.
    pub(super) fn check(&self, queued: u32) {
        let SendSpace { una, nxt, max, cwnd, ssthresh, wnd, wnd_max, window_max, .. } = self.snd;
        debug_assert!(!nxt.is_before(una), "snd_nxt {nxt:?} is before snd_una {una:?}");
        debug_assert!(!max.is_before(nxt), "snd_max {max:?} is before snd_nxt {nxt:?}");
        debug_assert!(
            max.since(una) as u32 <= queued + 2,
            "{} of {queued} in flight",
            max.since(una)
        );
        debug_assert!(cwnd > 0 && cwnd <= window_max, "snd_cwnd {cwnd}");
        debug_assert!(ssthresh > 0 && wnd <= wnd_max, "ssthresh {ssthresh}, snd_wnd {wnd}");
        debug_assert!(self.segment_bytes > 0, "segments without data");
        debug_assert!(
            !(self.timers.runs(Timer::Retransmit) && self.timers.runs(Timer::Persist)),
            "retransmission and persist timer both run"
        );
        debug_assert!(self.reassembly.is_empty() || self.state.has_syn(), "data before a SYN");
    }

    /// Our numbers begin.
    pub(super) fn start_sending(&mut self, iss: Seq) {
        self.snd.iss = iss;
        self.snd.is_syn_acked = false;
        self.snd.una = iss;
        self.snd.nxt = iss;
        self.snd.max = iss;
        self.snd.up = iss;
    }

    /// The peer's numbers begin with its SYN.
    pub(super) fn start_receiving(&mut self, irs: Seq) {
        self.rcv.nxt = irs + 1;
        self.rcv.adv = irs + 1;
        self.rcv.up = irs + 1;
        self.rcv.bytes = 0;
        self.stamps.last_ack = irs + 1;
    }
}

/// TCP's state for the whole host.
#[derive(Debug)]
pub struct TcpState {
    /// Initial sequence number of the next connection (`tcp_iss`).
    pub(super) iss: Seq,
    /// The connection that the last segment was for (4.3BSD-Reno).
    pub(super) last: Option<SocketId>,
    /// The clock of timestamps, in slow ticks (`tcp_now`).
    pub(super) now: u32,
    pub(super) counts: TcpCounts,
}

/// The counts of TCP.
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
    /// Segments kept because they arrived before their turn.
    pub out_of_order: u64,
    /// Segments or parts of them that were received before, or were beyond the window.
    pub outside_window: u64,
    /// Segments refused because their timestamp is older than one received.
    pub old_duplicates: u64,
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
    pub(crate) fn new(initial_sequence: u32) -> Self {
        Self { iss: Seq(initial_sequence), last: None, now: 1, counts: TcpCounts::default() }
    }

    /// The initial sequence number of a connection that begins now.
    pub(super) fn next_iss(&mut self) -> Seq {
        let iss = self.iss;
        self.iss += SEQUENCE_STEP / 2;
        iss
    }
}

/// The last records of one connection, so that only changes are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Observed {
    pub(super) congestion: Option<Congestion>,
    /// Stream position of the send window's right edge.
    pub(super) edge: Option<u64>,
}

/// Congestion window and threshold in bytes, and state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Congestion {
    pub(super) cwnd: u32,
    pub(super) ssthresh: u32,
    pub(super) segment_bytes: u32,
    pub(super) state: u8,
}
