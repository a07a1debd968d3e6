//! One connection, as a row of the list.

use sockscope_analysis::{
    ConnectionAnalysis, ConnectionStore, FindingId, FlowStore, Ledger, LedgerPart, Passage,
};
use sockscope_record::{Connection, Direction, Hold, Point, Process, Side, Stage};

/// One connection over the last seconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Addresses, processes, protocol.
    pub connection: Connection,
    /// Names of the network namespaces of the client and of the server, where they have one.
    pub namespaces: [Option<String>; 2],
    /// The flow of the figures: the one that waited longer.
    pub direction: Direction,
    /// Places of the oldest unread byte over the last seconds.
    pub ledger: Ledger,
    /// Time of the ledger in which that byte waited in a queue, of a socket, of the interface or of IP, or was dropped,
    /// nanoseconds.
    pub waited_ns: u64,
    /// Bytes in the send queue; `None` where that is not known.
    pub send_queue_bytes: Option<u64>,
    /// Bytes in the receive queue; `None` where that is not known.
    pub receive_queue_bytes: Option<u64>,
    /// Nanoseconds since the oldest unread byte was written; `None` while no byte is unread.
    pub oldest_ns: Option<u64>,
    /// Why TCP holds the first unsent byte; [`Hold::None`] while none is unsent.
    pub hold: Hold,
    /// Findings of the last seconds, highest cost first.
    pub findings: Vec<RowFinding>,
    /// Nanoseconds since it was closed; `None` while it is open.
    pub closed_ns: Option<u64>,
}

/// A finding of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowFinding {
    /// Which rule.
    pub id: FindingId,
    /// What it cost in the last seconds, nanoseconds.
    pub cost_ns: u64,
    /// Found in the last refresh.
    pub is_new: bool,
    /// The side to change.
    pub side: Side,
    /// One sentence with the figures of the last refresh that found it.
    pub summary: String,
}

impl Row {
    /// The sender and the receiver of its flow: a process, or an address where none was seen.
    pub fn ends(&self) -> [String; 2] {
        self.ends_by(|process| format!("{}({})", process.comm, process.pid))
    }

    /// The same without the numbers of processes.
    pub fn names(&self) -> [String; 2] {
        self.ends_by(|process| process.comm.clone())
    }

    fn ends_by(&self, name: impl Fn(&Process) -> String) -> [String; 2] {
        let connection = &self.connection;
        let sender = self.direction.sender();
        [sender, sender.other()].map(|side| {
            let process = connection.processes.iter().find(|process| process.side == side);
            process.map_or_else(|| connection.end(side).to_string(), &name)
        })
    }
}

/// Time in which the oldest unread byte waited in a queue: of a socket, of the interface, of IP, or dropped. The wire
/// and the protocol's own work do not count, nor does the time without an unread byte.
pub fn waited_ns(ledger: &Ledger) -> u64 {
    let parts = LedgerPart::ALL.into_iter().filter(|part| is_wait(*part));
    parts.map(|part| ledger.ns[part as usize]).fold(0, u64::saturating_add)
}

fn is_wait(part: LedgerPart) -> bool {
    match part {
        LedgerPart::SendBuffer
        | LedgerPart::SendWriter
        | LedgerPart::SendNagle
        | LedgerPart::SendCork
        | LedgerPart::SendCwnd
        | LedgerPart::SendRwnd
        | LedgerPart::SendPacing
        | LedgerPart::SendOther
        | LedgerPart::InterfaceQueue
        | LedgerPart::InputQueue
        | LedgerPart::ReceiveWakeup
        | LedgerPart::ReceiveApp
        | LedgerPart::Dropped => true,
        LedgerPart::AppIdle
        | LedgerPart::Handshake
        | LedgerPart::TcpOutput
        | LedgerPart::Wire
        | LedgerPart::TcpInput
        | LedgerPart::Unknown => false,
    }
}

/// Bytes in a stage now; `None` where that is not known.
pub(super) fn resident(
    one: &ConnectionAnalysis,
    direction: Direction,
    stage: Stage,
) -> Option<u64> {
    let stages = &one.flows[direction as usize].stages;
    stages.iter().find(|one| one.stage == stage).and_then(|one| one.resident_bytes)
}

/// When the oldest byte that is unread now was written, or first seen; `None` while none is, or where no read is
/// recorded.
pub(super) fn oldest_ns(store: &ConnectionStore, direction: Direction) -> Option<u64> {
    let flow = store.flow(direction);
    let window = store.window?;
    let is_read_here = window.watched[direction as usize][Point::ReceiveDequeue.index()]
        || store.connection.both_ends_here
        || !flow.at(Point::ReceiveEnqueue).is_empty();
    if !is_read_here || store.connection.closed_ns.is_some() {
        return None;
    }
    let read = flow.at(Point::ReceiveDequeue).iter().map(Passage::end).max().unwrap_or(0);
    let read = read.max(window.floors[direction as usize]);
    let first = Point::ALL.into_iter().map(|point| flow.at(point));
    let first = first.into_iter().find(|passes| passes.iter().any(|pass| pass.end() > read))?;
    first.iter().find(|pass| pass.end() > read && pass.len > 0).map(|pass| pass.at_ns)
}

/// Why TCP holds the first unsent byte, by the last record of the send queue.
pub(super) fn hold(flow: &FlowStore, unsent_bytes: Option<u64>) -> Hold {
    if unsent_bytes.is_none_or(|bytes| bytes == 0) {
        return Hold::None;
    }
    let last = |point| flow.at(point).last();
    let passes = [last(Point::SendEnqueue), last(Point::SendDequeue)].into_iter().flatten();
    passes.max_by_key(|pass| pass.at_ns).map_or(Hold::None, Passage::hold)
}
