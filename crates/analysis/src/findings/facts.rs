//! Inputs of several rules for one flow, computed once.
//!
//! Every list is in time order, and every walk over records is one pass: rules must keep up with traces
//! of millions of records.

use sockscope_record::{Direction, Kind, Point, Record, Side, tcp_flags};

use super::acks::{LateAck, late_acks};
use super::buffers::BufferSetting;
use super::doubt::Doubt;
use super::holds::{HoldSpan, hold_spans};
use super::interface::InterfaceQueue;
use super::intervals::{Interval, Intervals};
use super::phrasing;
use super::reads::{ReadWait, read_waits};
use super::resent::resent;
use super::resent_segment::Resent;
use super::writes::{Write, writes};
use crate::send_buffer_wait::{SendBufferWait, send_buffer_waits};
use crate::send_queue::SegmentSizes;
use crate::{ConnectionView, FlowView, Ledger, LedgerPart, LedgerSpan, Passage, ledger};

/// Parts of the ledger in which the oldest unread byte has not yet arrived and no queue but the path
/// itself has it; while idle only its acknowledgment may be on the way.
pub(super) const ON_THE_PATH: [LedgerPart; 8] = [
    LedgerPart::AppIdle,
    LedgerPart::Handshake,
    LedgerPart::SendBuffer,
    LedgerPart::SendWriter,
    LedgerPart::TcpOutput,
    LedgerPart::Wire,
    LedgerPart::TcpInput,
    LedgerPart::Dropped,
];

/// Parts of the ledger in which no queue behind the sender explains why it is held.
pub(super) const HELD_OR_ON_THE_PATH: [LedgerPart; 10] = [
    LedgerPart::SendNagle,
    LedgerPart::SendCork,
    LedgerPart::SendCwnd,
    LedgerPart::SendRwnd,
    LedgerPart::SendPacing,
    LedgerPart::SendOther,
    LedgerPart::TcpOutput,
    LedgerPart::Wire,
    LedgerPart::TcpInput,
    LedgerPart::Dropped,
];

/// Whether nothing is under way then, and the send buffer not full.
pub(super) fn is_idle(part: LedgerPart) -> bool {
    matches!(part, LedgerPart::AppIdle | LedgerPart::Handshake | LedgerPart::SendWriter)
}

/// Without those whose writer was late: it may have been away.
fn prompt_room_waits(view: &FlowView<'_>) -> Vec<SendBufferWait> {
    let mut waits = send_buffer_waits(view.store, view.direction);
    waits.retain(SendBufferWait::is_prompt);
    waits
}

/// One flow, seen by the rules.
pub(super) struct FlowFacts<'a> {
    pub view: &'a FlowView<'a>,
    /// Time in which some byte was certainly not read yet, even if there was no room to write it;
    /// nanoseconds.
    pub busy_ns: u64,
    /// Round trip of the empty path, nanoseconds; `None` when nothing measured it.
    pub base_rtt_ns: Option<u64>,
    /// The sum of the timeline.
    ledger: Ledger,
    segment_sizes: SegmentSizes,
    /// Times at which missed records put something in doubt.
    pub doubt: Doubt,
    pub holds: Vec<HoldSpan>,
    pub late_acks: Vec<LateAck>,
    pub interface: InterfaceQueue,
    pub writes: Vec<Write>,
    pub send_buffer_waits: Vec<SendBufferWait>,
    pub read_waits: Vec<ReadWait>,
    /// All retransmissions, in order.
    pub resent: Vec<Resent>,
    /// Send buffer at the sending end, receive buffer at the receiving end.
    pub send_buffer: BufferSetting,
    pub receive_buffer: BufferSetting,
}

impl<'a> FlowFacts<'a> {
    /// `base_rtt_ns` is that of the connection.
    pub(super) fn new(view: &'a FlowView<'a>, base_rtt_ns: Option<u64>) -> Self {
        let doubt = Doubt::of(view);
        // Unknown time may have been idle: shares are of the known time.
        let is_busy = |part: &LedgerPart| !is_idle(*part) && *part != LedgerPart::Unknown;
        let ledger = ledger::sum(view.timeline);
        let busy = LedgerPart::ALL.into_iter().filter(is_busy);
        Self {
            view,
            busy_ns: busy.map(|part| ledger.ns[part as usize]).sum(),
            ledger,
            base_rtt_ns,
            segment_sizes: SegmentSizes::of(view.flow()),
            holds: hold_spans(view),
            late_acks: late_acks(view, &doubt),
            doubt,
            interface: InterfaceQueue::of(view),
            writes: writes(view.flow()),
            send_buffer_waits: prompt_room_waits(view),
            read_waits: read_waits(view.flow(), view.reverse()),
            resent: resent(view),
            send_buffer: BufferSetting::send(view.flow()),
            receive_buffer: BufferSetting::receive(view.reverse()),
        }
    }

    /// The times at which the oldest unread byte was in one of `parts`.
    pub(super) fn times_in(&self, parts: &[LedgerPart]) -> Intervals {
        if parts.iter().all(|part| self.lasted_ns(*part) == 0) {
            return Intervals::default();
        }
        let spans = self.view.timeline.iter().filter(|span| parts.contains(&span.part));
        Intervals::union_of(spans.map(|span| Interval::new(span.start_ns, span.end_ns)))
    }

    /// The times at which `part` held the oldest unread byte, each hold whole.
    pub(super) fn whole_holds(&self, part: LedgerPart) -> impl Iterator<Item = LedgerSpan> {
        let timeline = if self.lasted_ns(part) == 0 { &[] } else { self.view.timeline };
        let mut spans = timeline.iter().filter(move |span| span.part == part).peekable();
        std::iter::from_fn(move || {
            let mut hold = *spans.next()?;
            let LedgerSpan { offset, .. } = hold;
            while let Some(next) =
                spans.next_if(|next| next.start_ns == hold.end_ns && next.offset == offset)
            {
                hold.end_ns = next.end_ns;
            }
            Some(hold)
        })
    }

    /// Time for which `part` held the oldest unread byte.
    fn lasted_ns(&self, part: LedgerPart) -> u64 {
        self.ledger.ns[part as usize]
    }

    /// The wait for room of the bytes that entered the send queue at `at_ns`.
    pub(super) fn room_wait_until(&self, at_ns: u64) -> Option<&SendBufferWait> {
        let index =
            self.send_buffer_waits.binary_search_by_key(&at_ns, |wait| wait.taken_ns).ok()?;
        self.send_buffer_waits.get(index)
    }

    /// Largest segment that the sender makes.
    pub(super) fn segment_bytes(&self) -> u32 {
        self.segment_sizes.largest()
    }

    /// The same, around `at_ns`.
    pub(super) fn segment_bytes_at(&self, at_ns: u64) -> u32 {
        self.segment_sizes.largest_at(at_ns)
    }

    /// Place of the oldest unread byte at `at_ns`; `None` outside the timeline.
    pub(super) fn part_at(&self, at_ns: u64) -> Option<LedgerPart> {
        let after = self.view.timeline.partition_point(|span| span.end_ns <= at_ns);
        let span = self.view.timeline.get(after)?;
        (span.start_ns <= at_ns).then_some(span.part)
    }

    /// Whether the flow passes no network, and has neither segments nor a window.
    pub(super) fn is_unix(&self) -> bool {
        self.view.store.connection.protocol.is_unix()
    }

    pub(super) fn sender(&self) -> Side {
        self.view.direction.sender()
    }

    pub(super) fn receiver(&self) -> Side {
        self.view.direction.receiver()
    }

    /// The side with its process, as `client (python3, pid 812)`.
    pub(super) fn who(&self, side: Side) -> String {
        phrasing::who(&self.view.store.connection, side)
    }

    /// `ns` as a share whose base stands with it, as `42 % of 1.20 s with bytes under way`.
    pub(super) fn share_of_busy(&self, ns: u64) -> String {
        let (share, base) = (phrasing::percent(ns, self.busy_ns), phrasing::time(self.busy_ns));
        format!("{share} of {base} with bytes under way")
    }

    /// Whether `ns` is `percent` of the flow's busy time or more.
    pub(super) fn is_share_of_busy(&self, ns: u64, percent: u64) -> bool {
        ns > 0 && u128::from(ns) * 100 >= u128::from(self.busy_ns) * u128::from(percent)
    }
}

/// The smaller of the handshake's round trip and the smallest smoothed one that TCP reported: both are
/// upper bounds of the time on the empty path.
pub(super) fn base_rtt_ns(connection: &ConnectionView<'_>) -> Option<u64> {
    let events = connection.store.flows.iter().flat_map(|flow| flow.events_of(Kind::TcpState));
    let smoothed_us = events.filter_map(Record::congestion).map(|state| state.smoothed_rtt_us);
    let smoothed_ns = smoothed_us.filter(|us| *us > 0).map(|us| u64::from(us) * 1_000).min();
    [handshake_ns(connection), smoothed_ns].into_iter().flatten().min()
}

/// From the SYN's departure to the SYN-ACK's arrival; `None` when either was sent twice, which makes
/// it unclear which answers which (Karn's rule, RFC 6298 §3).
fn handshake_ns(connection: &ConnectionView<'_>) -> Option<u64> {
    let out = only_syn(connection, Direction::FromClient, Point::InterfaceDequeue)?;
    let back = only_syn(connection, Direction::FromServer, Point::InputDequeue)?;
    back.at_ns.checked_sub(out.at_ns)
}

fn only_syn<'a>(
    connection: &ConnectionView<'a>,
    direction: Direction,
    point: Point,
) -> Option<&'a Passage> {
    let passes = connection.store.flow(direction).at(point).iter();
    let mut syns = passes.filter(|pass| pass.tcp_flags & tcp_flags::SYN != 0);
    syns.next().filter(|_| syns.next().is_none())
}
