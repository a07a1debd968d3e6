//! One stage of a distributed application, as three processes: one receives from the stage before,
//! one computes, one sends to the next.
//!
//! They hand work on through counters of the host. At most `depth` pieces wait between two of them.

use sockscope_stack::SocketId;

use super::opening::{Opened, Opening};
use crate::program::{Action, Answer, Data, Program, ProgramContext};

/// Pieces received and not computed yet.
const RECEIVED: u32 = 1;
/// Pieces computed and not sent yet.
const COMPUTED: u32 = 2;
/// Room for pieces that are to be received.
const ROOM: u32 = 3;

/// Receives pieces from the stage before: listens, accepts, reads each whole.
#[derive(Debug)]
pub struct StageReceiver {
    opening: Opening,
    piece_bytes: usize,
    pieces: u64,
    depth: u32,
    state: Receiving,
    offset: u64,
    missing: usize,
}

#[derive(Debug, Clone, Copy)]
enum Receiving {
    Opening,
    Accepting,
    /// Offers room for pieces, so many still.
    MakingRoom(SocketId, u32),
    HasRoom(SocketId),
    Reading(SocketId),
    Posted(SocketId),
}

impl StageReceiver {
    /// Receives `pieces` pieces of so many bytes at the socket of `opening`; `depth` of them may wait.
    pub fn new(opening: Opening, piece_bytes: usize, pieces: u64, depth: u32) -> Self {
        Self {
            opening,
            piece_bytes,
            pieces,
            depth: depth.max(1),
            state: Receiving::Opening,
            offset: 0,
            missing: 0,
        }
    }

    fn goes_on(&mut self, state: Receiving, action: Action) -> Action {
        self.state = state;
        action
    }

    fn make_room(&mut self, id: SocketId, left: u32) -> Action {
        if left > 0 {
            return self.goes_on(Receiving::MakingRoom(id, left - 1), Action::Post(ROOM));
        }
        if self.pieces == 0 {
            return Action::Exit;
        }
        self.pieces -= 1;
        self.missing = self.piece_bytes;
        self.goes_on(Receiving::HasRoom(id), Action::Take(ROOM))
    }

    fn have_read(&mut self, id: SocketId, context: &mut ProgramContext<'_>) -> Action {
        let bytes = context.answer.bytes();
        if bytes == 0 {
            return Action::Exit;
        }
        context.check_payload(self.offset);
        self.offset += u64::from(bytes);
        self.missing -= bytes as usize;
        if self.missing > 0 {
            return Action::Read(id, self.missing);
        }
        self.goes_on(Receiving::Posted(id), Action::Post(RECEIVED))
    }
}

impl Program for StageReceiver {
    fn name(&self) -> &str {
        "stage-receive"
    }

    fn next(&mut self, context: &mut ProgramContext<'_>) -> Action {
        if let Answer::Failed(_) = context.answer {
            return Action::Exit;
        }
        match self.state {
            Receiving::Opening => match self.opening.go_on(context.answer) {
                Opened::Not(action) => action,
                Opened::Ready(id) => self.goes_on(Receiving::Accepting, Action::Accept(id)),
            },
            Receiving::Accepting => {
                let Some(id) = context.answer.socket() else { return Action::Exit };
                self.make_room(id, self.depth)
            }
            Receiving::MakingRoom(id, left) => self.make_room(id, left),
            Receiving::HasRoom(id) => {
                self.goes_on(Receiving::Reading(id), Action::Read(id, self.missing))
            }
            Receiving::Reading(id) => self.have_read(id, context),
            Receiving::Posted(id) => self.make_room(id, 0),
        }
    }
}

/// Computes on each piece.
#[derive(Debug)]
pub struct Computer {
    pieces: u64,
    compute_ns: u64,
    turn: u8,
}

impl Computer {
    /// Spends `compute_ns` nanoseconds of CPU time on each of `pieces` pieces.
    pub fn new(pieces: u64, compute_ns: u64) -> Self {
        Self { pieces, compute_ns, turn: 0 }
    }
}

impl Program for Computer {
    fn name(&self) -> &str {
        "stage-compute"
    }

    fn next(&mut self, _context: &mut ProgramContext<'_>) -> Action {
        self.turn += 1;
        match self.turn {
            1 if self.pieces == 0 => Action::Exit,
            1 => Action::Take(RECEIVED),
            2 => Action::Compute(self.compute_ns),
            _ => {
                self.turn = 0;
                self.pieces -= 1;
                Action::Post(COMPUTED)
            }
        }
    }
}

/// Sends each piece to the next stage.
#[derive(Debug)]
pub struct StageSender {
    opening: Opening,
    piece_bytes: usize,
    pieces: u64,
    offset: u64,
    state: Sending,
}

#[derive(Debug, Clone, Copy)]
enum Sending {
    Opening,
    Took(SocketId),
    Sent(SocketId),
    Posted(SocketId),
}

impl StageSender {
    /// Sends `pieces` pieces of so many bytes on the stream of `opening`.
    pub fn new(opening: Opening, piece_bytes: usize, pieces: u64) -> Self {
        Self { opening, piece_bytes, pieces, offset: 0, state: Sending::Opening }
    }

    fn goes_on(&mut self, state: Sending, action: Action) -> Action {
        self.state = state;
        action
    }

    fn take(&mut self, id: SocketId) -> Action {
        if self.pieces == 0 {
            return Action::Exit;
        }
        self.pieces -= 1;
        self.goes_on(Sending::Took(id), Action::Take(COMPUTED))
    }
}

impl Program for StageSender {
    fn name(&self) -> &str {
        "stage-send"
    }

    fn next(&mut self, context: &mut ProgramContext<'_>) -> Action {
        if let Answer::Failed(_) = context.answer {
            return Action::Exit;
        }
        match self.state {
            Sending::Opening => match self.opening.go_on(context.answer) {
                Opened::Not(action) => action,
                Opened::Ready(id) => self.take(id),
            },
            Sending::Posted(id) => self.take(id),
            Sending::Took(id) => {
                let data = Data::Payload { offset: self.offset, len: self.piece_bytes };
                self.goes_on(Sending::Sent(id), Action::Write(id, data))
            }
            Sending::Sent(id) => {
                self.offset += u64::from(context.answer.bytes());
                self.goes_on(Sending::Posted(id), Action::Post(ROOM))
            }
        }
    }
}
