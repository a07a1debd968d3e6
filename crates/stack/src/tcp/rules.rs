//! The differences between versions of TCP, as data.
//!
//! Times are ticks of the slow timer, half a second each: a timer of t ticks runs out between
//! (t - 1) / 2 and t / 2 seconds after it was set. Each version is one constant; a new one is a
//! constant more, or a clone with a field changed.

use super::options::OptionRules;

/// Ticks of the slow timer in a second (`PR_SLOWHZ`).
pub const TICKS_PER_SECOND: u32 = 2;

/// Rules of TCP.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TcpRules {
    /// When a segment may leave that is not full.
    pub short_segments: ShortSegments,
    /// After a timeout one segment leaves at a time until one is acknowledged (4.3BSD).
    pub resends_one: bool,
    /// With its FIN sent and not acknowledged an end sends nothing at all (4.2BSD).
    pub mute_behind_fin: bool,
    /// When reading from the buffer makes the receiver announce its window.
    pub window_update: WindowUpdate,
    /// That rule compares without sign: when the storage limit has shrunk the space, a negative
    /// result counts as huge (4.3BSD-Tahoe and 4.3BSD-Reno).
    pub compares_unsigned: bool,
    /// The offered window.
    pub offer: WindowOffer,
    /// When the persist timer starts.
    pub persist: Persist,
    /// The reaction of the receiver to segments that it cannot use.
    pub input: InputRules,
    /// The rules of the congestion window.
    pub congestion: CongestionRules,
    /// Round-trip times and the timers made of them.
    pub rtt: RttRules,
    /// Segment sizes.
    pub segments: SegmentRules,
    /// The place of the header.
    pub header: HeaderPlace,
    /// Segments of at most so many data bytes are copied behind their header; 0 for none.
    pub small_copy_bytes: u32,
    /// Time to live of segments, in hops.
    pub ttl: u8,
    /// Maximum segment lifetime, in ticks (RFC 9293 §3.4.2).
    pub msl_ticks: u32,
    /// Keep-alive and the timer of the handshake.
    pub keep_alive: KeepAlive,
    /// The effect of an ICMP message about a segment.
    pub complaints: Complaints,
    /// Options of headers, apart from the segment size.
    pub options: OptionRules,
    /// Urgent data.
    pub urgent: UrgentRules,
}

/// Rules of urgent data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UrgentRules {
    /// The meaning of the header's urgent pointer.
    pub pointer: UrgentPointer,
    /// A program may leave the urgent octet in the stream: `SO_OOBINLINE` (since 4.3BSD).
    pub can_stay_inline: bool,
}

/// The meaning of the header's urgent pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UrgentPointer {
    /// It names the octet behind the urgent data: RFC 793 §3.1, and every BSD.
    Behind,
    /// It names the last octet of the urgent data (RFC 961, RFC 1122 §4.2.2.4).
    AtOctet,
}

/// The effect of an ICMP message that a host, network or port cannot be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Complaints {
    /// 4.2BSD: it ends every connection to the address, without a word to the peer (`tcp_abort`).
    EndAll,
    /// Since 4.3BSD: the next call on each connection to the address fails, and the connection goes on (`tcp_notify`).
    TellAll,
    /// 4.3BSD-Reno: the same for the one connection that the message is about.
    TellOne,
}

/// When a segment may leave that is not full, other than one that is forced or sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShortSegments {
    /// 4.2BSD: it empties the queue, or it is a quarter of the peer's window.
    Quarter,
    /// Nagle's rule (RFC 896): it empties the queue and nothing is unacknowledged as output begins,
    /// or the program set `TCP_NODELAY`; or it is half the largest window that the peer offered.
    Nagle {
        /// Segments of at least so many bytes are not held (4.3BSD).
        escape_bytes: Option<u32>,
    },
}

/// The move of the window's right edge that is enough for an update at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowUpdate {
    /// By 35 hundredths of the buffer's limit.
    Share {
        /// Also by two full segments once the buffer is empty (since August 1987).
        two_when_empty: bool,
    },
    /// 4.3BSD-Reno: by two full segments or half the buffer's limit.
    TwoOrHalf,
}

/// The window offered to the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowOffer {
    /// 4.2BSD: none while there is less than a quarter of the buffer, even if more was offered.
    Shrinks,
    /// Since 4.3BSD: none while there is less than a quarter of the buffer and less than a segment,
    /// but never less than was offered before.
    Kept,
}

/// When the persist timer starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Persist {
    /// 4.2BSD: while the peer's window is exactly 0.
    ZeroWindow,
    /// Since 4.3BSD: whenever data wait, may not leave, and no timer runs.
    Stuck,
}

/// Actions of the receiver in addition to accepting data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InputRules {
    /// Every segment received ends with a call of output (4.2BSD).
    pub always_outputs: bool,
    /// Data go through `tcp_reass` even when they are in order (4.2BSD).
    pub always_reassembles: bool,
    /// A segment that is of no use and carries nothing is answered too (since 4.3BSD).
    pub answers_empty: bool,
    /// Such answers are made by `tcp_output` rather than `tcp_respond` (since 4.3BSD-Tahoe). With
    /// this, the acknowledgment of a probe of a closed window and of a FIN that arrives again is
    /// read. The acknowledgment of a SYN counts as that of data: it is a sample, and opens the
    /// congestion window of the end that was called.
    pub answers_by_output: bool,
    /// Data out of order are acknowledged at once (since 4.3BSD-Tahoe).
    pub acks_out_of_order: bool,
    /// A SYN beyond the window opens a connection that is in TIME_WAIT anew (since 4.3BSD-Tahoe).
    pub reopens_time_wait: bool,
    /// A reset that ends a connection is answered by one (up to 4.3BSD).
    pub echoes_reset: bool,
    /// Header prediction and a cache of the last control block (4.3BSD-Reno).
    pub predicts: bool,
}

/// The rules of the congestion window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CongestionRules {
    /// Where it begins.
    pub initial: InitialWindow,
    /// The growth by an acknowledgment of new data.
    pub growth: WindowGrowth,
    /// A timeout shrinks it to one segment and notes half of the allowed window (since Tahoe).
    pub timeout_shrinks: bool,
    /// A timeout begins the count of duplicate acknowledgments anew (4.3BSD-Reno); before,
    /// duplicates after the third one are ignored until something new is acknowledged.
    pub timeout_forgets_duplicates: bool,
    /// The reaction to three duplicate acknowledgments.
    pub duplicates: Duplicates,
    /// The reaction to a source quench.
    pub quench: Quench,
    /// A full interface queue counts as a source quench and is no error (since Tahoe).
    pub full_queue_quenches: bool,
    /// Slow start after an idle time of one retransmission timeout (4.3BSD-Reno).
    pub restarts_when_idle: bool,
}

/// Where the congestion window begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InitialWindow {
    /// No congestion window.
    Unlimited,
    /// The limit of the send buffer when the socket was made.
    SendBuffer,
    /// The same for a peer on an attached network, else one segment.
    SendBufferIfLocal,
    /// One segment.
    Segment,
}

/// The growth of the congestion window by an acknowledgment of new data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowGrowth {
    /// Nothing.
    None,
    /// A tenth (4.3BSD).
    Tenth,
    /// Slow start, then congestion avoidance (RFC 5681 §3.1 in its first form).
    SlowStart {
        /// In congestion avoidance an eighth of a segment more (4.3BSD-Reno).
        extra_eighth: bool,
    },
}

/// The reaction to three duplicate acknowledgments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duplicates {
    /// Nothing.
    Ignored,
    /// Fast retransmit: one segment again, and slow start (Tahoe).
    Resend,
    /// Fast retransmit and fast recovery (Reno).
    Recover,
}

/// The effect of a source quench on the congestion window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quench {
    /// Nothing.
    Ignored,
    /// It becomes 80 hundredths of the outstanding data, at least a segment.
    Shrinks,
    /// It becomes one segment.
    Segment,
}

/// Round-trip times and the timers made of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RttRules {
    /// The rule from samples to a timeout.
    pub estimator: Estimator,
    /// When a segment is timed.
    pub timing: Timing,
    /// Bounds of the retransmission timeout, in ticks.
    pub timeout_ticks: (u32, u32),
    /// Bounds of the persist timer, in ticks.
    pub persist_ticks: (u32, u32),
    /// The factor of the timeout after each timeout in a row, in tenths; the last serves for all
    /// later ones.
    pub backoff_tenths: &'static [u32],
    /// Timeouts in a row that end the connection.
    pub timeouts_max: u32,
}

/// The rule from samples to a timeout.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Estimator {
    /// RFC 793 §3.7: nine tenths of the old mean and a tenth of the sample; twice the mean.
    Mean {
        /// Taken for the mean before the first sample, in ticks.
        unmeasured_ticks: u32,
        /// Backed-off timeouts are multiples of the mean, not of the timeout (4.2BSD).
        backs_off_mean: bool,
    },
    /// Mean and mean deviation (Jacobson 1988), scaled by 8 and 4.
    Deviation {
        /// Deviations added to the mean: 2 in Tahoe, 4 in Reno.
        deviations: u32,
    },
}

/// When a segment is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timing {
    /// 4.2BSD as released: never, by a slip; only from a restart of the timer on.
    FromRestart,
    /// 4.2BSD in 1984: but starting the timer cancels it.
    Cancelled,
    /// 4.3BSD: given up when the timer runs out, but not before there is a first sample.
    FirstKept,
    /// Karn's rule (RFC 6298 §3): given up when the segment is sent again, the timeout staying
    /// backed off until a segment sent once is acknowledged.
    Karn,
}

/// Segment sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentRules {
    /// The size announced in a SYN.
    pub announced: Announced,
    /// Sizes above this are rounded down to a multiple of it; 0 for no rounding.
    pub round_bytes: u32,
    /// Largest for a peer that is on no attached network, in data bytes; 0 for no such limit.
    pub distant_bytes: u32,
    /// Without a word from the peer so many data bytes are sent.
    pub default_bytes: u32,
    /// Socket buffers are cut to whole segments (4.3BSD-Reno).
    pub rounds_buffers: bool,
}

/// The segment size announced in a SYN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Announced {
    /// 4.2BSD: half the receive buffer, at most 1024, for any interface; the size sent then follows
    /// the peer alone.
    HalfBuffer,
    /// Half the receive buffer, at most the interface's size; only if that is above 536.
    HalfOrInterface,
    /// The interface's size.
    Interface,
}

/// The place of the IP and TCP headers in their mbuf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderPlace {
    /// At its end, so that link headers find room before them.
    End,
    /// So many bytes from the start of its data.
    At(usize),
}

/// Keep-alive and the timer of the handshake, in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeepAlive {
    /// A connection that is not made by then is given up.
    pub handshake_ticks: u32,
    /// Idle time before the first probe.
    pub idle_ticks: u32,
    /// Time between probes.
    pub interval_ticks: u32,
    /// Idle time that ends the connection.
    pub idle_ticks_max: u32,
    /// The wait of a finally closed end for the peer's FIN.
    pub fin_wait_ticks: u32,
    /// A probe carries a byte of no meaning, for peers that answer nothing empty.
    pub sends_byte: bool,
}

const fn seconds(seconds: u32) -> u32 {
    seconds * TICKS_PER_SECOND
}

/// Probes that go unanswered before a connection is given up (`TCPTV_KEEPCNT`).
const PROBES: u32 = 8;

/// One interval for everything (`TCPTV_KEEP`).
const OLD_KEEP_ALIVE: KeepAlive = KeepAlive {
    handshake_ticks: seconds(45),
    idle_ticks: seconds(45),
    interval_ticks: seconds(45),
    idle_ticks_max: PROBES * seconds(45),
    fin_wait_ticks: PROBES * seconds(45),
    sends_byte: true,
};

const KEEP_ALIVE: KeepAlive = KeepAlive {
    handshake_ticks: seconds(75),
    idle_ticks: seconds(2 * 60 * 60),
    interval_ticks: seconds(75),
    idle_ticks_max: seconds(2 * 60 * 60) + PROBES * seconds(75),
    fin_wait_ticks: PROBES * seconds(75),
    sends_byte: false,
};

const DOUBLING_TENTHS: &[u32] = &[10, 20, 40, 80, 160, 320, 640];

impl TcpRules {
    /// 4.2BSD as released.
    pub const RELEASED_42: Self = Self {
        short_segments: ShortSegments::Quarter,
        resends_one: false,
        mute_behind_fin: true,
        window_update: WindowUpdate::Share { two_when_empty: false },
        compares_unsigned: false,
        offer: WindowOffer::Shrinks,
        persist: Persist::ZeroWindow,
        input: InputRules {
            always_outputs: true,
            always_reassembles: true,
            answers_empty: false,
            answers_by_output: false,
            acks_out_of_order: false,
            reopens_time_wait: false,
            echoes_reset: true,
            predicts: false,
        },
        congestion: CongestionRules {
            initial: InitialWindow::Unlimited,
            growth: WindowGrowth::None,
            timeout_shrinks: false,
            timeout_forgets_duplicates: false,
            duplicates: Duplicates::Ignored,
            quench: Quench::Ignored,
            full_queue_quenches: false,
            restarts_when_idle: false,
        },
        rtt: RttRules {
            estimator: Estimator::Mean { unmeasured_ticks: 0, backs_off_mean: true },
            timing: Timing::FromRestart,
            timeout_ticks: (seconds(1), seconds(30)),
            persist_ticks: (seconds(5), seconds(30)),
            backoff_tenths: &[10, 12, 14, 17, 20, 30, 50, 80, 160, 320],
            timeouts_max: 10,
        },
        segments: SegmentRules {
            announced: Announced::HalfBuffer,
            round_bytes: 0,
            distant_bytes: 0,
            default_bytes: 512,
            rounds_buffers: false,
        },
        header: HeaderPlace::End,
        small_copy_bytes: 0,
        ttl: 15,
        msl_ticks: seconds(30),
        keep_alive: OLD_KEEP_ALIVE,
        complaints: Complaints::EndAll,
        options: OptionRules { window_scaling: false, timestamps: false, sack: false },
        urgent: UrgentRules { pointer: UrgentPointer::Behind, can_stay_inline: false },
    };

    /// 4.2BSD as measured in 1984.
    pub const MEASURED_42: Self = Self {
        rtt: RttRules { timing: Timing::Cancelled, ..Self::RELEASED_42.rtt },
        ..Self::RELEASED_42
    };

    /// 4.3BSD. Its test whether a peer is local is always true, so that distant peers get no
    /// smaller segments.
    pub const BSD_43: Self = Self {
        short_segments: ShortSegments::Nagle { escape_bytes: Some(512) },
        resends_one: true,
        mute_behind_fin: false,
        offer: WindowOffer::Kept,
        persist: Persist::Stuck,
        input: InputRules {
            always_outputs: false,
            always_reassembles: false,
            answers_empty: true,
            ..Self::RELEASED_42.input
        },
        congestion: CongestionRules {
            initial: InitialWindow::SendBuffer,
            growth: WindowGrowth::Tenth,
            quench: Quench::Shrinks,
            ..Self::RELEASED_42.congestion
        },
        rtt: RttRules {
            estimator: Estimator::Mean { unmeasured_ticks: seconds(3), backs_off_mean: false },
            timing: Timing::FirstKept,
            backoff_tenths: &[10, 20, 40, 60, 80, 100, 150, 200, 300],
            timeouts_max: 12,
            ..Self::RELEASED_42.rtt
        },
        segments: SegmentRules {
            announced: Announced::HalfOrInterface,
            round_bytes: 1024,
            ..Self::RELEASED_42.segments
        },
        ttl: 30,
        msl_ticks: seconds(15),
        complaints: Complaints::TellAll,
        urgent: UrgentRules { can_stay_inline: true, ..Self::RELEASED_42.urgent },
        ..Self::RELEASED_42
    };

    /// 4.3BSD-Tahoe.
    pub const TAHOE: Self = Self {
        short_segments: ShortSegments::Nagle { escape_bytes: None },
        resends_one: false,
        window_update: WindowUpdate::Share { two_when_empty: true },
        compares_unsigned: true,
        input: InputRules {
            answers_by_output: true,
            acks_out_of_order: true,
            reopens_time_wait: true,
            echoes_reset: false,
            ..Self::BSD_43.input
        },
        congestion: CongestionRules {
            initial: InitialWindow::SendBufferIfLocal,
            growth: WindowGrowth::SlowStart { extra_eighth: false },
            timeout_shrinks: true,
            duplicates: Duplicates::Resend,
            quench: Quench::Segment,
            full_queue_quenches: true,
            ..Self::BSD_43.congestion
        },
        rtt: RttRules {
            estimator: Estimator::Deviation { deviations: 2 },
            timing: Timing::Karn,
            timeout_ticks: (seconds(1), seconds(64)),
            persist_ticks: (seconds(5), seconds(60)),
            backoff_tenths: DOUBLING_TENTHS,
            ..Self::BSD_43.rtt
        },
        segments: SegmentRules { distant_bytes: 512, ..Self::BSD_43.segments },
        // Behind room for a link header of 32 bytes.
        header: HeaderPlace::At(32),
        small_copy_bytes: 40,
        msl_ticks: seconds(30),
        keep_alive: KEEP_ALIVE,
        ..Self::BSD_43
    };

    /// 4.3BSD-Reno.
    pub const RENO: Self = Self {
        window_update: WindowUpdate::TwoOrHalf,
        input: InputRules { predicts: true, ..Self::TAHOE.input },
        congestion: CongestionRules {
            initial: InitialWindow::Segment,
            growth: WindowGrowth::SlowStart { extra_eighth: true },
            timeout_forgets_duplicates: true,
            duplicates: Duplicates::Recover,
            restarts_when_idle: true,
            ..Self::TAHOE.congestion
        },
        rtt: RttRules { estimator: Estimator::Deviation { deviations: 4 }, ..Self::TAHOE.rtt },
        segments: SegmentRules {
            announced: Announced::Interface,
            rounds_buffers: true,
            ..Self::TAHOE.segments
        },
        // Behind room for the largest link header, 16 bytes.
        header: HeaderPlace::At(16),
        small_copy_bytes: 44,
        ttl: 60,
        complaints: Complaints::TellOne,
        ..Self::TAHOE
    };

    /// SunOS 4.0.3: Tahoe's rules, but slow start also towards local peers, as its bursts show, and no
    /// acknowledgment when space has shrunk: of its two reasons to acknowledge (Papadopoulos and
    /// Parulkar, §4.3.1) this is not one. The buffers' 16-bit counters of 4.3BSD may explain both.
    pub const SUNOS_403: Self = Self {
        compares_unsigned: false,
        congestion: CongestionRules { initial: InitialWindow::Segment, ..Self::TAHOE.congestion },
        keep_alive: KeepAlive { sends_byte: true, ..KEEP_ALIVE },
        ..Self::TAHOE
    };

    /// SunOS 4.1: Tahoe's rules with segments as large as the interface takes.
    pub const SUNOS_41: Self = Self {
        segments: SegmentRules { round_bytes: 0, ..Self::TAHOE.segments },
        keep_alive: KeepAlive { sends_byte: true, ..KEEP_ALIVE },
        ..Self::TAHOE
    };
}
