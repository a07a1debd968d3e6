//! The state of a connection between two raw records: its two flows by side, and the processes at its ends.

use std::collections::VecDeque;

use sockscope_record::{Connection, FlowId, Kind, Point, Process, Record, Side};

use super::path::Path;
use super::positions::{Begun, Positions};
use super::receiver::Receiver;
use super::sender::Sender;
use super::unknown_positions::MissedUntil;

/// Threads that may be of a connection, remembered at most; older ones are forgotten.
const CANDIDATES_MAX: usize = 16;

pub(super) struct ConnectionState {
    pub(super) info: Connection,
    pub(super) flows: [FlowState; 2],
    /// Whether the socket that sends each flow was ever seen here.
    pub(super) opened: [bool; 2],
    /// Whether the socket that sends each flow has closed since it was established.
    pub(super) closed: [bool; 2],
    /// Whether the socket that sends each flow was found open when the recording ended.
    pub(super) reported_open: [bool; 2],
    /// By end: layers of the kernel that are recorded, bits of `LAYER_*`.
    pub(super) layers: [u16; 2],
    /// Network namespace of the socket that sends each flow; 0 while it is unknown.
    pub(super) namespaces: [u32; 2],
    /// See [`Connection::is_to_itself`].
    pub(super) is_to_itself: bool,
    /// Whether another user asked for it, in addition to the operator's pick.
    pub(super) of_others: bool,
    /// Since when sampling leaves it out.
    pub(super) left_out_ns: Option<u64>,
    /// The time of its last hit.
    pub(super) last_ns: u64,
    /// Whether it waits for a check of its gaps.
    pub(super) is_moved: bool,
    /// Whether an odd number of its anchors was decoded.
    pub(super) is_anchor_odd: bool,
    /// The time of the last hit with a known position.
    pub(super) placed_ns: u64,
    /// Processes that may be at an end, by `SO_PEERCRED`.
    pub(super) peers: Vec<Process>,
    /// Threads that ran when datagrams passed, without a recorded send or read of one.
    candidates: VecDeque<(u32, Process)>,
}

impl ConnectionState {
    pub(super) fn new(info: Connection) -> Self {
        let flows = [0, 1].map(|direction| FlowState::new(FlowId(info.id.0 * 2 + direction)));
        Self {
            is_to_itself: info.is_to_itself(),
            of_others: false,
            left_out_ns: None,
            last_ns: info.opened_ns,
            info,
            flows,
            opened: [false; 2],
            closed: [false; 2],
            reported_open: [false; 2],
            layers: [0; 2],
            namespaces: [0; 2],
            is_moved: false,
            is_anchor_odd: false,
            placed_ns: 0,
            peers: Vec::new(),
            candidates: VecDeque::new(),
        }
    }

    /// Whether sampling left it out before this time.
    pub(super) fn is_left_out(&self, at_ns: u64) -> bool {
        self.left_out_ns.is_some_and(|left_out_ns| at_ns > left_out_ns)
    }

    /// The description of the connection. An end at which no call was recorded has the process of `SO_PEERCRED`.
    pub(super) fn row(&self) -> Connection {
        let mut row = self.info.clone();
        let has_end = |peer: &&Process| self.info.processes.iter().any(|it| it.side == peer.side);
        row.processes.extend(self.peers.iter().filter(|peer| !has_end(peer)).cloned());
        row
    }

    /// The port to which a flow's datagrams are sent.
    pub(super) fn receiving_port(&self, flow: u32) -> u16 {
        if flow & 1 == 0 { self.info.server.port() } else { self.info.client.port() }
    }

    /// A process uses the connection; false when that is no news. One socket is both ends of a connection
    /// to itself.
    pub(super) fn record_process(&mut self, process: Process) -> bool {
        let has_changed = self.record_process_at_end(process.clone());
        if self.is_to_itself {
            let side = if process.side == Side::Client { Side::Server } else { Side::Client };
            self.record_process_at_end(Process { side, ..process });
        }
        has_changed
    }

    fn record_process_at_end(&mut self, process: Process) -> bool {
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
    pub(super) fn add_candidate(&mut self, thread: u32, process: Process) {
        let is_it = |(seen, other): &(u32, Process)| *seen == thread && *other == process;
        if self.candidates.iter().any(is_it) {
            return;
        }
        if self.candidates.len() == CANDIDATES_MAX {
            self.candidates.pop_front();
        }
        self.candidates.push_back((thread, process));
        debug_assert!(self.candidates.len() <= CANDIDATES_MAX);
    }

    /// A thread sends or reads a datagram at this end; true when its process was not known.
    pub(super) fn promote(&mut self, thread: u32, side: Side) -> bool {
        let is_it =
            |(candidates, process): &(u32, Process)| *candidates == thread && process.side == side;
        let Some(index) = self.candidates.iter().position(is_it) else { return false };
        self.candidates.remove(index).is_some_and(|(_, process)| self.record_process(process))
    }
}

/// The remembered state of one direction, by side.
pub(super) struct FlowState {
    pub(super) id: FlowId,
    pub(super) positions: Positions,
    pub(super) sender: Sender,
    pub(super) path: Path,
    pub(super) receiver: Receiver,
}

impl FlowState {
    fn new(id: FlowId) -> Self {
        Self {
            id,
            positions: Positions::default(),
            sender: Sender::new(id),
            path: Path::default(),
            receiver: Receiver::new(id),
        }
    }

    /// Of a socket connected to itself: the flow that it writes and the one that its acknowledgments
    /// confirm are the same stream.
    pub(super) fn follow(&mut self, own: &mut FlowState) {
        self.positions.follow(&own.positions);
        own.receiver.follow(&self.receiver);
        own.sender.follow(&self.sender);
    }

    /// Sequence numbers start with this SYN, unless they are known already.
    pub(super) fn begin(&mut self, syn: u32) {
        match self.positions.begin(syn) {
            Begun::Anew => self.begin_sides(),
            Begun::Moved(bytes) => self.sender.move_by(bytes),
            Begun::Before => {}
        }
    }

    /// As [`FlowState::begin`] from the socket's own numbers, until the hit of a SYN.
    pub(super) fn begin_provisionally(&mut self, first_byte: u32) {
        if self.positions.begin_provisionally(first_byte) {
            self.begin_sides();
        }
    }

    fn begin_sides(&mut self) {
        self.sender.begin();
        self.receiver.begin();
    }

    /// Its sender's socket was open before, and has an acknowledgment of all up to `acknowledged`.
    pub(super) fn join_at(&mut self, acknowledged: u64) {
        self.sender.join_at(acknowledged);
        self.receiver.join_at(acknowledged);
    }

    /// No state from before a miss covers bytes that passed during it.
    pub(super) fn forget_pending(&mut self, at_ns: u64, missed_until: &MissedUntil) {
        let writing_ns = self.sender.writing_since_ns().unwrap_or(at_ns);
        if missed_until[Point::SendEnqueue.index()] > writing_ns {
            self.sender.forget_writing();
        }
        self.receiver.forget_pending(missed_until);
    }

    /// At the end: everything held back becomes records.
    pub(super) fn settle(&mut self, missed_until: &MissedUntil, out: &mut Vec<Record>) {
        self.sender.settle_write(missed_until, out);
        self.receiver.settle_arrivals(out);
    }
}
