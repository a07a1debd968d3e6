//! The figure to draw, its data and its size, and the reasons why one cannot be drawn.

use std::str::FromStr;

use sockscope_analysis::{
    ConnectionStore, DropReasons, Finding, LossInterval, NamespaceNames, Uncertainty,
};
use sockscope_record::{Direction, named};
use sockscope_render::size::SizeError;

/// Which picture to draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Figure {
    /// Packets at points 3, 4, 7 and 8 over time.
    PacketTrace,
    /// Bytes in the four queues over time.
    QueueLength,
    /// The wait of each run of bytes in the four queues, at the time of its entry.
    QueueDelay,
    /// Histograms of the protocol's own time, sending (2 to 3) and receiving (6 to 7).
    ProtocolDelay,
    /// The receive queue over time, with the acknowledgments that it caused.
    Acks,
    /// Segments and acknowledgments as arrows between the two ends, time downward.
    TimeSequence,
    /// Stream positions over time: sent, acknowledged, allowed and read.
    Sequence,
    /// Segments in transit through the eight points, time downward.
    Layers,
    /// Where the oldest unread byte was, over time.
    Ledger,
}

named! {
    Figure {
        PacketTrace => "packet-trace",
        QueueLength => "queue-length",
        QueueDelay => "queue-delay",
        ProtocolDelay => "protocol-delay",
        Acks => "acks",
        TimeSequence => "time-sequence",
        Sequence => "sequence",
        Layers => "layers",
        Ledger => "ledger",
    }
}

/// A picture of one flow, or of all connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Picture {
    /// Of one flow.
    Flow(Figure),
    /// The durations of the requests of all connections.
    Requests,
}

impl Picture {
    /// All pictures.
    pub fn all() -> impl Iterator<Item = Self> {
        [Self::Requests].into_iter().chain(Figure::ALL.map(Self::Flow))
    }

    /// Its name in commands and in the names of files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Flow(figure) => figure.name(),
            Self::Requests => "requests",
        }
    }
}

impl FromStr for Figure {
    type Err = PlotError;

    /// The figure of this [name](Figure::name); fails on any other word.
    fn from_str(name: &str) -> Result<Self, PlotError> {
        let found = Self::ALL.into_iter().find(|figure| figure.name() == name);
        found.ok_or_else(|| PlotError::unknown(name, Self::ALL.into_iter().map(Self::name)))
    }
}

impl FromStr for Picture {
    type Err = PlotError;

    /// The picture of this [name](Picture::name); fails on any other word.
    fn from_str(name: &str) -> Result<Self, PlotError> {
        let found = Self::all().find(|picture| picture.name() == name);
        found.ok_or_else(|| PlotError::unknown(name, Self::all().map(Self::name)))
    }
}

/// The part of a connection to show, and the size.
#[derive(Debug, Clone, Copy)]
pub struct PlotOptions<'a> {
    /// The flow whose data is shown. `time-sequence` shows both.
    pub direction: Direction,
    /// First instant shown, nanoseconds of the trace's clock; `None`: the connection's first record.
    pub from_ns: Option<u64>,
    /// Last instant shown, same clock; `None`: the connection's last record. `time-sequence` picks
    /// a readable part by itself when neither is given.
    pub to_ns: Option<u64>,
    /// The instant that time axes call 0, same clock; `None`: the connection's first record.
    pub zero_ns: Option<u64>,
    /// Pixels across, within [`SIZES_PX`](sockscope_render::size::SIZES_PX).
    pub width: u32,
    /// Pixels down, within [`SIZES_PX`](sockscope_render::size::SIZES_PX); `time-sequence` is as tall as its events need.
    pub height: u32,
    /// Whether a wait in the send queue is that of a whole call to write, in place of that of bytes that entered at once.
    pub is_by_call: bool,
    /// `time-sequence`: connections of the same two hosts whose segments are drawn among those of the connection.
    pub others: &'a [&'a ConnectionStore],
    /// Where the trace missed records: queue lengths are unknown there.
    pub losses: &'a [LossInterval],
    /// Names of the numbers in `Drop` records: some drops lose nothing.
    pub drop_reasons: &'a DropReasons,
    /// The error of times between the two ends, where these are on two hosts.
    pub uncertainty: Option<Uncertainty>,
    /// Names of network namespaces.
    pub network_namespaces: &'a NamespaceNames,
    /// Findings of the connection, whose times are marked; [`draw_requests`](super::draw_requests) marks those of all.
    pub findings: &'a [Finding],
    /// The title; `None`: that of every figure of this kind.
    pub title: Option<&'a str>,
    /// Text under the title, before the sender and the receiver.
    pub about: Option<&'a str>,
    /// Lines under the drawing, before the figure's own notes.
    pub notes: &'a [String],
}

/// Of a trace that names no reason.
static NO_NAMES: DropReasons = DropReasons::new();
/// Of a trace that names no namespace.
static NO_NAMESPACES: NamespaceNames = NamespaceNames::new();

impl Default for PlotOptions<'_> {
    fn default() -> Self {
        Self {
            direction: Direction::FromClient,
            from_ns: None,
            to_ns: None,
            zero_ns: None,
            width: 960,
            height: 720,
            is_by_call: false,
            others: &[],
            losses: &[],
            drop_reasons: &NO_NAMES,
            uncertainty: None,
            network_namespaces: &NO_NAMESPACES,
            findings: &[],
            title: None,
            about: None,
            notes: &[],
        }
    }
}

/// Why a figure cannot be drawn.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlotError {
    /// A width or height that no picture has.
    #[error(transparent)]
    Size(#[from] SizeError),
    /// The last instant to show is not after the first.
    #[error("nothing to show: the end, {to_ns} ns, is not after the start, {from_ns} ns")]
    EmptyWindow {
        /// First instant, nanoseconds of the trace's clock.
        from_ns: u64,
        /// Last instant, same clock.
        to_ns: u64,
    },
    /// No figure has this name.
    #[error("no figure is called {name:?}; there are {known}")]
    UnknownFigure {
        /// The name given.
        name: String,
        /// The names that there are.
        known: String,
    },
}

impl PlotError {
    pub(super) fn unknown<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Self {
        Self::UnknownFigure { name: name.to_owned(), known: known.collect::<Vec<_>>().join(", ") }
    }
}
