//! Records of TCP: points 1 and 2, the marks for the points below, and its events.
//!
//! Nothing is made for a socket that is not logged. The units are those of the live probe, so that
//! an analysis cannot distinguish the two: windows in packets, states in Linux's numbers.

use sockscope_record::{
    self as record, FlowId, Point, Record, Retransmission, RetransmitClass, SendWindow,
    StateChange, WindowScale, tcp_flags,
};

use super::output::View;
use super::rules::{InitialWindow, TcpRules};
use super::segment::Outgoing;
use super::tcb::{Congestion, SendSpace, State, Tcb};
use crate::effect::Effect;
use crate::meter::Meter;
use crate::packet::Mark;
use crate::sockbuf::SockBuf;
use crate::socket::{Socket, SocketId};
use crate::stack::Stack;

/// A move of the send window's edge by less than an eighth of the window is not recorded.
const WINDOW_CHANGE_SHIFT: u32 = 3;

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
    /// Enters a state, and records it.
    pub(super) fn tcp_set_state(&mut self, id: SocketId, state: State, meter: &mut Meter) {
        let tcb = self.tcb_mut(id);
        let old = std::mem::replace(&mut tcb.state, state);
        if state == State::Established && old != state {
            self.observe_buffers(id, [false; 2], meter);
            self.observe_scaling(id, meter);
        }
        let Some(flow) = self.sockets[id].log.filter(|_| old != state) else { return };
        let change = StateChange { old: old.number(), new: state.number() };
        let changed = Record { flow, ..Record::default() };
        meter.effect(Effect::Observed(changed.with_state_change(change)));
    }
}

impl Stack {
    /// The ends that do not scale their windows, if one of them knows the option.
    fn observe_scaling(&self, id: SocketId, meter: &mut Meter) {
        let socket = &self.sockets[id];
        let (Some(own), Some(tcb)) = (socket.log, &socket.tcb) else { return };
        let peers = own.reverse();
        let scales = self.personality.tcp.options.window_scaling;
        let unscaled = match (scales, tcb.snd.shift_announced) {
            (true, Some(shift)) => [(own, tcb.rcv.shift), (peers, shift)]
                .map(|(flow, shift)| (shift == 0).then_some((flow, WindowScale::Unshifted))),
            (true, None) => [Some((peers, WindowScale::NotReceived)), None],
            (false, Some(_)) => [Some((own, WindowScale::NotOffered)), None],
            (false, None) => [None; 2],
        };
        for (flow, scale) in unscaled.into_iter().flatten() {
            let record = Record { flow, ..Record::default() };
            meter.effect(Effect::Observed(record.with_window_scale(scale)));
        }
    }
}

impl Socket {
    /// A segment of this flow makes the socket that receives it a logged one.
    pub(super) fn adopt_flow(&mut self, flow: Option<FlowId>) {
        if self.log.is_none() && self.listen.is_none() {
            self.log = flow.map(FlowId::reverse);
        }
    }

    /// Point 1: `len` bytes are about to enter the send buffer, with the reason for their wait.
    pub(super) fn observe_write_enqueue(&self, len: usize, rules: &TcpRules, meter: &mut Meter) {
        self.observe_send_enqueue(len, || self.hold_of_write(rules, len as u32), meter);
    }
}

impl Tcb {
    /// A segment is about to leave: point 2 if it has data, the announcement of a SYN, changes in the sender's state,
    /// and the mark for the points below.
    pub(super) fn observe_segment(
        &mut self,
        flow: FlowId,
        snd: &SockBuf,
        outgoing: Outgoing,
        rules: &TcpRules,
        view: &View<'_>,
        meter: &mut Meter,
    ) -> Mark {
        let mark = self.mark_of(flow, snd, &outgoing);
        if outgoing.len > 0 {
            let hold = self.hold(rules, view, outgoing.offset + outgoing.len);
            let taken = mark.record(Point::SendDequeue);
            meter.effect(Effect::Observed(taken.with_hold(hold)));
        }
        let has_syn = outgoing.flags & tcp_flags::SYN != 0;
        if has_syn {
            observe_syn(flow, outgoing.options.segment_bytes, meter);
        }
        if outgoing.is_resent {
            self.observe_resent(flow, (mark.offset, mark.len), has_syn, meter);
        }
        if self.state.has_syn() {
            self.observe_sender(rules, flow, snd.left(), meter);
        }
        mark
    }

    fn mark_of(&self, flow: FlowId, snd: &SockBuf, outgoing: &Outgoing) -> Mark {
        let behind = outgoing.seq.since(self.snd.data_start()).max(0) as u64;
        let has_ack = outgoing.flags & tcp_flags::ACK != 0;
        Mark {
            flow,
            // SYN and FIN have numbers, but no place in the stream.
            offset: (snd.left() + behind).min(snd.entered()),
            number: if has_ack { self.rcv.bytes } else { 0 },
            window: outgoing.window,
            len: outgoing.len,
            tcp_flags: outgoing.flags,
            is_retransmission: outgoing.is_resent,
            ..Mark::default()
        }
    }

    fn observe_resent(
        &self,
        flow: FlowId,
        (offset, len): (u64, u32),
        has_syn: bool,
        meter: &mut Meter,
    ) {
        let known = self.repair.map_or(RetransmitClass::Unknown, |repair| repair.how);
        let class = if has_syn { RetransmitClass::Handshake } else { known };
        let again = Record { flow, offset, len, ..Record::default() };
        let why = Retransmission { class, duplicates: 0 };
        meter.effect(Effect::Observed(again.with_retransmission(why)));
    }

    /// Congestion window and send window, if they changed since their last records. `offset` is the
    /// stream position of the first byte not acknowledged.
    fn observe_sender(&mut self, rules: &TcpRules, flow: FlowId, offset: u64, meter: &mut Meter) {
        let is_limited = rules.congestion.initial != InitialWindow::Unlimited;
        if is_limited && self.observed.congestion != Some(self.congestion_now()) {
            self.observe_congestion(flow, offset, meter);
        }
        let window = self.snd.wnd;
        let edge = offset + u64::from(window);
        let step = u64::from(window >> WINDOW_CHANGE_SHIFT);
        if self.observed.edge.is_none_or(|known| known.abs_diff(edge) > step) {
            self.observed.edge = Some(edge);
            meter.effect(Effect::Observed(self.window_record(flow, offset)));
        }
    }

    fn window_record(&self, flow: FlowId, offset: u64) -> Record {
        let window =
            SendWindow { bytes: u64::from(self.snd.wnd), segment_bytes: self.segment_bytes };
        Record { flow, offset, ..Record::default() }.with_send_window(window)
    }

    /// Changes by less than a packet are not recorded.
    fn observe_congestion(&mut self, flow: FlowId, offset: u64, meter: &mut Meter) {
        let now = self.congestion_now();
        let before = self.observed.congestion.replace(now);
        let (window_packets, threshold_packets, state) = now.in_packets();
        if before.is_some_and(|before| before.in_packets() == now.in_packets()) {
            return;
        }
        let in_flight_bytes = self.snd.max.since(self.snd.una).max(0) as u32;
        let congestion = record::Congestion {
            in_flight_packets: in_flight_bytes.div_ceil(self.segment_bytes),
            window_packets,
            threshold_packets,
            smoothed_rtt_us: self.rtt.smoothed_us(),
            state,
        };
        let changed = Record { flow, offset, ..Record::default() };
        meter.effect(Effect::Observed(changed.with_congestion(congestion)));
    }

    /// The state in Linux's numbers: 4 after a timeout, 3 after a fast retransmission, 1 with
    /// duplicates, else 0.
    fn congestion_now(&self) -> Congestion {
        let state = match self.repair.map(|repair| repair.how) {
            Some(RetransmitClass::Timeout) => 4,
            Some(_) => 3,
            None if self.duplicates > 0 => 1,
            None => 0,
        };
        let SendSpace { cwnd, ssthresh, .. } = self.snd;
        Congestion { cwnd, ssthresh, segment_bytes: self.segment_bytes, state }
    }
}

impl Congestion {
    fn in_packets(self) -> (u32, u32, u8) {
        (self.cwnd / self.segment_bytes, self.ssthresh / self.segment_bytes, self.state)
    }
}

/// The announcement of a SYN.
fn observe_syn(flow: FlowId, announced: Option<u16>, meter: &mut Meter) {
    let options = Record { flow, ..Record::default() };
    let segment_bytes = announced.map_or(0, u32::from);
    meter.effect(Effect::Observed(options.with_announced_segment_bytes(segment_bytes)));
}
