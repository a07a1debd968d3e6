//! What is remembered of a connection between two hits.

use std::collections::VecDeque;

use sockscope_record::{Connection, FlowId, Kind, Process, Record, Side, Unwrapper, marks};

use super::anchor::PassOver;
use super::arrivals::{Arrival, Arrivals};
use super::in_transit::{BETWEEN_MAX, Datagrams};
use super::passage::Passage;

/// Threads that may be of a connection, remembered at most; older ones are forgotten.
const SUPPOSED_MAX: usize = 16;
/// Segments remembered in the input queue of a flow, at most; older ones were dropped there.
const ENTERED_MAX: usize = 256;
/// Data that IP took longer before its announcement is announced for another cause than its coming.
const ANNOUNCED_WITHIN_NS: u64 = 1_000_000;

pub(super) struct ConnectionState {
    pub(super) info: Connection,
    pub(super) flows: [FlowState; 2],
    /// Whether the socket that sends each flow was ever seen here.
    pub(super) opened: [bool; 2],
    /// Whether the socket that sends each flow has closed since it was established.
    pub(super) closed: [bool; 2],
    /// Whether the socket that sends each flow was found open when the recording ended.
    pub(super) told_open: [bool; 2],
    /// See [`Connection::is_to_itself`].
    pub(super) is_to_itself: bool,
    /// Whether another user asked for it, beside the operator's pick.
    pub(super) of_others: bool,
    /// When the last hit of it was.
    pub(super) last_ns: u64,
    /// Whether it waits to be judged.
    pub(super) is_moved: bool,
    /// Whether an odd number of its anchors was decoded.
    pub(super) is_anchor_odd: bool,
    /// When the last hit was whose position is known.
    pub(super) placed_ns: u64,
    /// Threads that ran when datagrams passed, and have not been seen to send or read one.
    supposed: VecDeque<(u32, Process)>,
}

impl ConnectionState {
    pub(super) fn new(info: Connection) -> Self {
        let flows = [0, 1].map(|direction| FlowState::new(FlowId(info.id.0 * 2 + direction)));
        Self {
            is_to_itself: info.is_to_itself(),
            of_others: false,
            last_ns: info.opened_ns,
            info,
            flows,
            opened: [false; 2],
            closed: [false; 2],
            told_open: [false; 2],
            is_moved: false,
            is_anchor_odd: false,
            placed_ns: 0,
            supposed: VecDeque::new(),
        }
    }

    /// The port to which a flow's datagrams are sent.
    pub(super) fn receiving_port(&self, flow: u32) -> u16 {
        if flow & 1 == 0 { self.info.server.port() } else { self.info.client.port() }
    }

    /// A process uses the connection; false when that is no news. One socket is both ends of a connection
    /// to itself.
    pub(super) fn know(&mut self, process: Process) -> bool {
        let is_news = self.know_at_end(process.clone());
        if self.is_to_itself {
            let side = if process.side == Side::Client { Side::Server } else { Side::Client };
            self.know_at_end(Process { side, ..process });
        }
        is_news
    }

    fn know_at_end(&mut self, process: Process) -> bool {
        let known = &mut self.info.processes;
        if known.iter().any(|seen| seen.pid == process.pid && seen.side == process.side) {
            return false;
        }
        self.info.both_ends_here |= known.iter().any(|seen| seen.side != process.side);
        known.push(process);
        true
    }

    /// A datagram entered or left a socket of this host, which thereby is an end; true when that both
    /// ends are here was not known.
    pub(super) fn uses_datagrams(&mut self, record: &Record) -> bool {
        let sender = record.flow.direction() as usize;
        match record.kind {
            Kind::WriteCall => self.opened[sender] = true,
            Kind::ReceiveEnqueue => self.opened[1 - sender] = true,
            _ => return false,
        }
        let are_both_here = self.opened == [true; 2];
        are_both_here && !std::mem::replace(&mut self.info.both_ends_here, true)
    }

    /// A thread may be of the connection: it is when it [sends or reads](Self::confirm).
    pub(super) fn suppose(&mut self, thread: u32, process: Process) {
        let is_it = |(seen, other): &(u32, Process)| *seen == thread && *other == process;
        if self.supposed.iter().any(is_it) {
            return;
        }
        if self.supposed.len() == SUPPOSED_MAX {
            self.supposed.pop_front();
        }
        self.supposed.push_back((thread, process));
    }

    /// A thread sends or reads a datagram at this end; true when its process was not known.
    pub(super) fn confirm(&mut self, thread: u32, side: Side) -> bool {
        let is_it =
            |(supposed, process): &(u32, Process)| *supposed == thread && process.side == side;
        let Some(index) = self.supposed.iter().position(is_it) else { return false };
        self.supposed.remove(index).is_some_and(|(_, process)| self.know(process))
    }
}

/// What is remembered of one direction.
pub(super) struct FlowState {
    pub(super) id: FlowId,
    /// Sequence numbers to positions; `None` until the SYN was seen or the connection joined.
    pub(super) positions: Option<Unwrapper>,
    /// The sequence number taken for position 0 from the socket, its SYN not having been seen.
    provisional: Option<u32>,
    /// Position of the end of the stream, once a FIN or the closing socket showed it.
    pub(super) end: Option<u64>,
    /// Shift of the window field in packets that this flow's sender makes (RFC 7323 §2.2).
    pub(super) window_shift: u8,
    /// Bytes known to have been written.
    pub(super) written: Option<u64>,
    /// End and thread of the write call that the last chunk belonged to.
    pub(super) call: Option<(u64, u32)>,
    /// Position of the end of what was written, once the socket's closing told it.
    pub(super) last_written: Option<u64>,
    /// A chunk about to be taken from the writer.
    pub(super) writing: Option<Writing>,
    /// Segments in a queueing discipline.
    pub(super) queued: VecDeque<Queued>,
    /// Whether a segment was seen to enter one.
    has_queue: bool,
    /// End of what was seen to leave the sender; `None` until its SYN was.
    sent: Option<u64>,
    /// Hits lost before then change nothing in what `sent` and `queued` tell.
    sure_since_ns: u64,
    pub(super) passage: Passage,
    /// Furthest byte seen to enter the input queue.
    pub(super) arrived: u64,
    /// Segments that entered the input queue, and have not been seen to leave it.
    entered: VecDeque<(u64, u64)>,
    /// Bytes that entered the receive queue.
    pub(super) ready: Option<u64>,
    /// The first byte that IP took since the connection was joined by its sender's socket, which knows
    /// only what was acknowledged; `u64::MAX` before one. `None` once what is `ready` was seen.
    pub(super) taken_since_joined: Option<u64>,
    /// Bytes below which its receiver's socket keeps them to itself (`SO_RCVLOWAT`); 0 unknown.
    pub(super) low_mark: u32,
    /// Which of the options of `note_send_rules()` its sender's socket is known to have.
    pub(super) send_rules: u32,
    /// What came for such a socket, and is not known to be in the receive queue.
    pub(super) arrivals: Arrivals,
    /// The furthest acknowledgment that the receiver made, and when: proof of having received.
    pub(super) acknowledged: (u64, u64),
    /// First byte that the sender has no acknowledgment of.
    pub(super) unacknowledged: u64,
    /// When the last data that a thread waited for arrived; 0 when none did since it last read.
    pub(super) woken_ns: u64,
    /// Bytes that the reader has had.
    pub(super) copied: Option<u64>,
    /// Since when the bytes that wait for the reader do: their arrival, or the last read if that left
    /// them. Means nothing while there are none.
    pub(super) waiting_ns: u64,
    pub(super) congestion: Congestion,
    pub(super) datagrams: Datagrams,
    /// When bytes were last announced to the reader, and when it last read.
    pub(super) ready_ns: u64,
    pub(super) copied_ns: u64,
    /// What passed points 7 and 8 while their hits were missed.
    pub(super) pass_over: PassOver,
}

/// A segment in a queueing discipline, as far as it has not left it in parts.
#[derive(Clone, Copy)]
pub(super) struct Queued {
    from: u64,
    to: u64,
    marks: u8,
    at_ns: u64,
}

/// A chunk of a write call: `[from, to)` was asked for at `at_ns`, what of it was taken shows later.
#[derive(Clone, Copy)]
pub(super) struct Writing {
    pub(super) at_ns: u64,
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) thread: u32,
    pub(super) hold: u8,
    pub(super) cpu: u16,
}

/// Sender state as last recorded, so that only changes are.
#[derive(Default)]
pub(super) struct Congestion {
    pub(super) cwnd: u32,
    pub(super) ssthresh: u32,
    pub(super) ca_state: u8,
    /// Position up to which the peer lets the sender send.
    pub(super) window_edge: u64,
    pub(super) mss: u32,
    pub(super) duplicates: u32,
    pub(super) buffers: u64,
}

impl FlowState {
    fn new(id: FlowId) -> Self {
        Self {
            id,
            positions: None,
            provisional: None,
            end: None,
            window_shift: 0,
            written: None,
            call: None,
            last_written: None,
            writing: None,
            queued: VecDeque::new(),
            has_queue: false,
            sent: None,
            sure_since_ns: 0,
            passage: Passage::default(),
            arrived: 0,
            entered: VecDeque::new(),
            ready: None,
            taken_since_joined: None,
            low_mark: 0,
            send_rules: 0,
            arrivals: Arrivals::default(),
            acknowledged: (0, 0),
            unacknowledged: 0,
            woken_ns: 0,
            copied: None,
            waiting_ns: 0,
            congestion: Congestion::default(),
            datagrams: Datagrams::default(),
            ready_ns: 0,
            copied_ns: 0,
            pass_over: PassOver::default(),
        }
    }

    /// Of a socket connected to itself: the flow that its acknowledgments are of, as the reverse of the
    /// one that carries them, and the one that it writes are the same stream.
    pub(super) fn follow(&mut self, own: &mut FlowState) {
        (self.positions, self.end) = (own.positions, own.end);
        own.acknowledged = self.acknowledged;
        own.unacknowledged = self.unacknowledged;
    }

    /// Position of a sequence number that a socket of this host has; its FIN has none of its own.
    pub(super) fn position(&mut self, sequence: u32) -> Option<u64> {
        let position = self.positions.as_mut()?.position(sequence);
        Some(self.without_fin(position))
    }

    /// Position of a sequence number in a header, which anybody may have sent: not remembered.
    pub(super) fn claimed(&self, sequence: u32) -> Option<u64> {
        Some(self.without_fin(self.positions?.peek(sequence)))
    }

    /// Whether this is the sequence number of its SYN; a FIN of a flow without data has the next one.
    pub(super) fn is_syn(&self, sequence: u32) -> bool {
        self.positions.is_some_and(|positions| positions.peek(sequence.wrapping_add(1)) == 0)
    }

    fn without_fin(&self, position: u64) -> u64 {
        // More than one beyond the end: then the FIN that told it was a forged one.
        self.end.filter(|end| *end < position && position - end == 1).unwrap_or(position)
    }

    /// Sequence numbers start with this SYN, unless they are known already.
    pub(super) fn begin(&mut self, syn: u32) {
        let first_byte = syn.wrapping_add(1);
        if self.positions.is_none() {
            self.begin_at(first_byte);
        } else if let Some(provisional) = self.provisional {
            // With TCP Fast Open the socket had counted the data of its SYN by then.
            let positions = Unwrapper::new(first_byte);
            let early = positions.peek(provisional);
            self.end = self.end.map(|end| end.saturating_add(early));
            self.last_written = self.last_written.map(|last| last.saturating_add(early));
            self.positions = Some(positions);
        }
        self.provisional = None;
    }

    /// As [`FlowState::begin`] from what the socket itself says, until a SYN is seen.
    pub(super) fn begin_provisionally(&mut self, first_byte: u32) {
        if self.positions.is_none() {
            self.begin_at(first_byte);
            self.provisional = Some(first_byte);
        }
    }

    fn begin_at(&mut self, first_byte: u32) {
        self.positions = Some(Unwrapper::new(first_byte));
        self.written = Some(0);
        self.ready = Some(0);
        self.copied = Some(0);
    }

    /// A segment was seen to enter the input queue.
    pub(super) fn enter_input(&mut self, start: u64, end: u64) {
        self.arrived = self.arrived.max(end);
        if start < end {
            if self.entered.len() == ENTERED_MAX {
                self.entered.pop_front();
            }
            self.entered.push_back((start, end));
        }
    }

    /// IP takes a segment: whether all of it was seen to enter the input queue, maybe in several
    /// segments that were joined there, or as a part of one.
    pub(super) fn leave_input(&mut self, start: u64, end: u64) -> bool {
        if start == end {
            return end <= self.arrived;
        }
        if self.entered.front() == Some(&(start, end)) {
            self.entered.pop_front();
            return true;
        }
        let (mut reached, mut rest) = (start, VecDeque::new());
        for &(from, to) in &self.entered {
            if reached < end && (from..to).contains(&reached) {
                let taken = (reached, to.min(end));
                let around = [(from, taken.0), (taken.1, to)];
                rest.extend(around.into_iter().filter(|part| part.0 < part.1));
                reached = taken.1;
            } else {
                rest.push_back((from, to));
            }
        }
        let is_seen = reached == end;
        if is_seen {
            self.entered = rest;
        }
        self.arrived = self.arrived.max(end);
        is_seen
    }

    /// Records that the writer's chunk is in the send queue, as far as `seen` proves.
    pub(super) fn flush_write(&mut self, seen: u64, out: &mut Vec<Record>) {
        let Some(mut writing) = self.writing else { return };
        let to = writing.to.min(seen);
        let from = writing.from.max(self.written.unwrap_or(writing.from));
        if to > from {
            out.push(Record {
                at_ns: writing.at_ns,
                offset: from,
                len: u32::try_from(to - from).unwrap_or(u32::MAX),
                flow: self.id,
                kind: Kind::SendEnqueue,
                thread: writing.thread,
                code: writing.hold,
                cpu: writing.cpu,
                ..Record::default()
            });
            self.written = Some(to);
        }
        writing.from = writing.from.max(to);
        self.writing = (writing.from < writing.to).then_some(writing);
    }

    /// Its sender's socket was open before, and has an acknowledgment of all up to `acknowledged`: that has
    /// reached the peer's receive queue, if this is here, and what was sent since may have.
    pub(super) fn join_at(&mut self, acknowledged: u64) {
        self.unacknowledged = acknowledged;
        self.ready = Some(acknowledged);
        self.copied = Some(acknowledged);
        self.taken_since_joined = Some(u64::MAX);
    }

    /// IP took bytes from `start` on.
    pub(super) fn take(&mut self, start: u64) {
        self.taken_since_joined = self.taken_since_joined.map(|first| first.min(start));
    }

    /// Bytes up to an end are in the receive queue: since they came, where that was seen of all of a
    /// segment, else since the time given, which `marks` are for.
    pub(super) fn receive(&mut self, last: Arrival, marks: u8, out: &mut Vec<Record>) {
        while let Some(came) = self.arrivals.take_until(last.end) {
            let is_told_at_once = last.at_ns.saturating_sub(came.at_ns) <= ANNOUNCED_WITHIN_NS;
            let announced = if came.end == last.end && is_told_at_once { marks } else { 0 };
            self.enter(came, announced | marks::DERIVED, out);
        }
        self.enter(last, marks, out);
    }

    /// What the receiver acknowledged is in its receive queue, announced or not.
    pub(super) fn settle_arrivals(&mut self, out: &mut Vec<Record>) {
        while let Some(came) = self.arrivals.take_until(self.acknowledged.0) {
            self.enter(came, marks::DERIVED, out);
        }
    }

    /// Data is in the receive queue (point 7). Its acknowledgment may have gone out just before.
    fn enter(&mut self, Arrival { end, at_ns, cpu }: Arrival, marks: u8, out: &mut Vec<Record>) {
        if self.pass_over_ready(end) {
            return;
        }
        if let Some(first) = self.taken_since_joined.take() {
            // What IP did not take since then had come before, and is taken for read.
            let had = Some(first.min(end));
            (self.ready, self.copied) = (self.ready.max(had), self.copied.max(had));
        }
        let from = self.ready.unwrap_or(end);
        self.ready = Some(from.max(end));
        if end <= from {
            return;
        }
        let (acknowledged, acknowledged_ns) = self.acknowledged;
        let at_ns = if acknowledged >= end { at_ns.min(acknowledged_ns) } else { at_ns };
        if self.copied.is_none_or(|copied| copied >= from) {
            self.waiting_ns = at_ns;
        }
        out.push(Record {
            at_ns,
            offset: from,
            len: u32::try_from(end - from).unwrap_or(u32::MAX),
            flow: self.id,
            kind: Kind::ReceiveEnqueue,
            cpu,
            marks,
            ..Record::default()
        });
    }

    /// At the end: the pending chunk was taken as far as the closing socket said. Without its word
    /// nobody knows, and a call that found no room took nothing.
    pub(super) fn settle_write(&mut self, out: &mut Vec<Record>) {
        if let Some(last) = self.last_written {
            self.flush_write(last, out);
        }
        self.writing = None;
    }

    /// The segment left the queueing discipline: the marks that it entered with; `None` when it had
    /// not been in one. Those before it were dropped there.
    pub(super) fn leave_queue(&mut self, start: u64, end: u64) -> Option<u8> {
        let holds = |queued: &Queued| {
            let is_part = queued.from <= start && end <= queued.to;
            is_part && (start < end) == (queued.from < queued.to)
        };
        let index = self.queued.iter().position(holds)?;
        self.queued.drain(..index);
        let first = self.queued.front_mut()?;
        let marks = first.marks;
        if start < end && marks & marks::RETRANSMITTED == 0 {
            // It is behind all that was sent before it, in the stream and in the queue.
            self.sure_since_ns = self.sure_since_ns.max(first.at_ns);
        }
        first.from = end;
        if first.from == first.to {
            self.queued.pop_front();
        }
        Some(marks)
    }

    /// A packet up to `end` was seen on its way out. Only a SYN tells that nothing was before it.
    pub(super) fn note_sent(&mut self, end: u64, is_syn: bool, at_ns: u64) {
        if let Some(sent) = &mut self.sent {
            *sent = end.max(*sent);
        } else if is_syn {
            self.sent = Some(end);
            self.sure_since_ns = at_ns;
        }
    }

    /// Whether `[start, end)` was in a queueing discipline although its entry was not seen: it comes out
    /// ahead of what was seen to enter later, or nothing as far was ever seen to be sent. Not where its
    /// path has none, or where a lost hit explains that.
    pub(super) fn entered_unseen(&self, start: u64, end: u64, lost_until_ns: u64) -> bool {
        let is_sure = self.has_queue && lost_until_ns < self.sure_since_ns;
        let is_ahead = |queued: &Queued| end <= queued.from && queued.from < queued.to;
        let is_next = self.sent.is_some_and(|sent| sent <= start);
        is_sure && (is_next || self.queued.front().is_some_and(is_ahead))
    }

    pub(super) fn enter_queue(&mut self, from: u64, to: u64, marks: u8, at_ns: u64) {
        self.has_queue = true;
        if self.queued.len() == BETWEEN_MAX {
            self.queued.pop_front();
        }
        self.queued.push_back(Queued { from, to, marks, at_ns });
    }
}
