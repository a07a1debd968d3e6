//! A client that connects and writes.

use sockscope_stack::{Endpoint, SocketId};

use super::Setup;
use super::opening::{Opened, Opening};
use crate::program::{Action, Answer, Data, Program, ProgramContext};

/// The action of a writer between two writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// Nothing: as fast as it can.
    Fast,
    /// It sleeps for so many nanoseconds.
    Sleep(u64),
    /// It computes for so many nanoseconds.
    Compute(u64),
}

/// Connects to a server, writes `count` times `write_bytes` bytes, closes.
///
/// Notes `connected_ns` and `written_ns`, the times of these, and `write_failed` with the error's
/// number if a call failed.
#[derive(Debug)]
pub struct BulkWriter {
    opening: Opening,
    write_bytes: usize,
    count: u64,
    pace: Pace,
    state: State,
    written: u64,
    writes: u64,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Opening,
    Writing(SocketId),
    Pausing(SocketId),
    Closing,
}

impl BulkWriter {
    /// A writer to this server.
    pub fn new(to: Endpoint, write_bytes: usize, count: u64) -> Self {
        Self {
            opening: Opening::to(to),
            write_bytes,
            count,
            pace: Pace::Fast,
            state: State::Opening,
            written: 0,
            writes: 0,
        }
    }

    /// The same with this pace.
    #[must_use]
    pub fn paced(self, pace: Pace) -> Self {
        Self { pace, ..self }
    }

    /// The same with this done to its socket.
    #[must_use]
    pub fn set_up(self, setup: Setup) -> Self {
        Self { opening: self.opening.set_up(setup), ..self }
    }

    fn write(&mut self, id: SocketId, context: &mut ProgramContext<'_>) -> Action {
        if self.writes == self.count {
            context.note("written_ns", context.now_ns);
            self.state = State::Closing;
            return Action::Close(id);
        }
        self.writes += 1;
        self.state = State::Writing(id);
        Action::Write(id, Data::Payload { offset: self.written, len: self.write_bytes })
    }

    fn pause(&mut self, id: SocketId, context: &mut ProgramContext<'_>) -> Action {
        self.state = State::Pausing(id);
        match self.pace {
            Pace::Sleep(ns) if self.writes < self.count => Action::Sleep(ns),
            Pace::Compute(ns) if self.writes < self.count => Action::Compute(ns),
            _ => self.write(id, context),
        }
    }
}

impl Program for BulkWriter {
    fn name(&self) -> &str {
        "writer"
    }

    fn next(&mut self, context: &mut ProgramContext<'_>) -> Action {
        if let Answer::Failed(error) = context.answer {
            context.note("write_failed", u64::from(error.errno()));
            return Action::Exit;
        }
        match self.state {
            State::Opening => match self.opening.go_on(context.answer) {
                Opened::Not(action) => action,
                Opened::Ready(id) => {
                    context.note("connected_ns", context.now_ns);
                    self.write(id, context)
                }
            },
            State::Writing(id) => {
                self.written += u64::from(context.answer.bytes());
                self.pause(id, context)
            }
            State::Pausing(id) => self.write(id, context),
            State::Closing => Action::Exit,
        }
    }
}
