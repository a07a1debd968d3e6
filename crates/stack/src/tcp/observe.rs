//! What TCP says of itself: points 1 and 2, the marks for the points below, and its events.
//!
//! Nothing is made for a socket that is not logged. The words are those of the live probe, so that
//! an analysis cannot tell the two apart: windows in packets, states in Linux's numbers.

use sockscope_record::{Kind, Point, Record, RetransmitClass, tcp_flags};

use super::segment::Outgoing;
use super::{State, Tcb, block};
use crate::meter::{Effect, Meter};
use crate::packet::Mark;
use crate::socket::{Socket, SocketId};
use crate::stack::Stack;

/// A move of the send window's edge by less than an eighth of the window is not recorded.
const WINDOW_CHANGE_SHIFT: u32 = 3;

/// What was said last of one connection, so that only changes are said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Observed {
    /// Congestion window and threshold in packets, and state.
    congestion: Option<(u32, u32, u8)>,
    /// Stream position of the send window's right edge.
    edge: Option<u64>,
}

impl State {
    /// The number that Linux gives the state.
    fn number(self) -> u8 {
        match self {
            Self::Established => 1,
            Self::SynSent => 2,
            Self::SynReceived => 3,
            Self::FinWait1 => 4,
            Self::FinWait2 => 5,
            Self::TimeWait => 6,
            Self::Closed => 7,
            Self::CloseWait => 8,
            Self::LastAck => 9,
            Self::Listen => 10,
            Self::Closing => 11,
        }
    }
}

impl Stack {
    /// Enters a state, and says so.
    #[cold]
    pub(super) fn tcp_set_state(&mut self, id: SocketId, state: State, meter: &mut Meter) {
        let tcb = self.tcb_mut(id);
        let old = std::mem::replace(&mut tcb.state, state);
        if state == State::Established && old != state {
            self.observe_buffers(id, 0, meter);
        }
        let Some(flow) = self.sockets[id].log.filter(|_| old != state) else { return };
        meter.effect(Effect::Observed(Record {
            flow,
            kind: Kind::StateChange,
            code: state.number(),
            extra: u32::from(old.number()),
            ..Record::default()
        }));
    }

    /// A segment is about to leave: point 2 if it has data, what a SYN announces, what changed in the sender's state, and
    /// the mark for the points below.
    pub(super) fn observe_segment(
        &mut self,
        id: SocketId,
        outgoing: &Outgoing,
        meter: &mut Meter,
    ) -> Option<Mark> {
        let flow = self.sockets[id].log?;
        let mark = Mark { flow, ..mark_of(&self.sockets[id], outgoing) };
        if outgoing.len > 0 {
            let code = self.hold_behind(id, outgoing) as u8;
            let taken = Record { detail: 0, extra: 0, code, ..mark.record(Point::SendDequeue) };
            meter.effect(Effect::Observed(taken));
        }
        if outgoing.flags & tcp_flags::SYN != 0 {
            let extra = outgoing.option.map_or(0, u32::from);
            let told = Record { flow, extra, kind: Kind::SynOptions, ..Record::default() };
            meter.effect(Effect::Observed(told));
        }
        if outgoing.is_resent {
            let code = self.class_of(id, outgoing) as u8;
            let again = Record {
                flow,
                offset: mark.offset,
                len: mark.len,
                kind: Kind::Retransmit,
                code,
                ..Record::default()
            };
            meter.effect(Effect::Observed(again));
        }
        if self.tcb(id).state.has_syn() {
            self.observe_sender(id, meter);
        }
        Some(mark)
    }

    #[cold]
    fn class_of(&self, id: SocketId, outgoing: &Outgoing) -> RetransmitClass {
        if outgoing.flags & tcp_flags::SYN != 0 {
            return RetransmitClass::Handshake;
        }
        self.tcb(id).repair.map_or(RetransmitClass::Unknown, |repair| repair.how)
    }

    /// Congestion window and send window, if they changed since they were last said.
    fn observe_sender(&mut self, id: SocketId, meter: &mut Meter) {
        let unlimited =
            self.personality.tcp.congestion.initial == super::rules::InitialWindow::Unlimited;
        let socket = &mut self.sockets[id];
        let (Some(flow), Some(tcb)) = (socket.log, socket.tcb.as_mut()) else { return };
        let offset = socket.snd.left();
        let congestion = tcb.congestion_in_packets();
        if !unlimited && tcb.observed.congestion != Some(congestion) {
            tcb.observed.congestion = Some(congestion);
            let record = Record { flow, offset, ..Record::default() };
            meter.effect(Effect::Observed(tcb.state_record(congestion, record)));
        }
        let (edge, window) = (offset + u64::from(tcb.snd.wnd), tcb.snd.wnd);
        let step = u64::from(window >> WINDOW_CHANGE_SHIFT);
        if tcb.observed.edge.is_none_or(|known| known.abs_diff(edge) > step) {
            tcb.observed.edge = Some(edge);
            meter.effect(Effect::Observed(Record {
                flow,
                offset,
                detail: u64::from(window),
                extra: tcb.segment_bytes,
                kind: Kind::SendWindow,
                ..Record::default()
            }));
        }
    }

    /// Point 1, and what will hold the bytes.
    pub(super) fn observe_write_enqueue(&self, id: SocketId, len: usize, meter: &mut Meter) {
        if self.sockets[id].log.is_some() {
            self.observe_send_enqueue(id, len, self.hold_of_write(id, len), meter);
        }
    }

    /// A marked segment makes the socket that receives it a logged one.
    pub(super) fn adopt_mark(&mut self, id: SocketId, mark: Option<Mark>) {
        let socket = &mut self.sockets[id];
        if socket.log.is_none() && socket.listen.is_none() {
            socket.log = mark.map(|mark| mark.flow.reverse());
        }
    }
}

impl Tcb {
    /// Congestion window and threshold in packets, and the state in Linux's numbers: 4 after a
    /// timeout, 3 after a fast retransmission, 1 with duplicates, else 0.
    fn congestion_in_packets(&self) -> (u32, u32, u8) {
        let state = match self.repair.map(|repair| repair.how) {
            Some(RetransmitClass::Timeout) => 4,
            Some(_) => 3,
            None if self.duplicates > 0 => 1,
            None => 0,
        };
        (self.snd.cwnd / self.segment_bytes, self.snd.ssthresh / self.segment_bytes, state)
    }

    #[cold]
    fn state_record(&self, (cwnd, ssthresh, state): (u32, u32, u8), record: Record) -> Record {
        let in_flight_bytes = self.snd.max.since(self.snd.una).max(0) as u32;
        Record {
            len: in_flight_bytes.div_ceil(self.segment_bytes),
            detail: u64::from(ssthresh) << 32 | u64::from(cwnd),
            extra: self.rtt.smoothed_us(),
            kind: Kind::TcpState,
            code: state,
            ..record
        }
    }
}

fn mark_of(socket: &Socket, outgoing: &Outgoing) -> Mark {
    let tcb = block(socket);
    let behind = outgoing.seq.since(tcb.snd.data_start()).max(0) as u64;
    // SYN and FIN have numbers, but no place in the stream.
    let offset = (socket.snd.left() + behind).min(socket.snd.entered());
    let has_ack = outgoing.flags & tcp_flags::ACK != 0;
    Mark {
        offset,
        detail: if has_ack { tcb.rcv.bytes } else { 0 },
        window: outgoing.window,
        len: outgoing.len,
        tcp_flags: outgoing.flags,
        is_retransmission: outgoing.is_resent,
        ..Mark::default()
    }
}
