//! A server that reads and throws away.

use sockscope_stack::SocketId;

use super::opening::{Opened, Opening};
use super::{Pace, Setup};
use crate::program::{Action, Answer, Program, ProgramContext};

/// Listens at a port, takes connections one after the other, reads each to its end and checks it.
///
/// Notes `accepted_ns` and `end_ns`, the times of these, `received_bytes` of each connection, and
/// `read_failed` with the error's number if a call failed.
#[derive(Debug)]
pub struct Sink {
    opening: Opening,
    read_bytes: usize,
    connections: u64,
    pace: Pace,
    state: State,
    received: u64,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Opening,
    Accepting(SocketId),
    Reading(SocketId, SocketId),
    Pausing(SocketId, SocketId),
    Closing(SocketId),
}

impl Sink {
    /// Reads `read_bytes` at a time from `connections` connections to this port.
    pub fn new(port: u16, read_bytes: usize, connections: u64) -> Self {
        Self {
            opening: Opening::at(port),
            read_bytes,
            connections,
            pace: Pace::Fast,
            state: State::Opening,
            received: 0,
        }
    }

    /// The same with this done to its listening socket, from which the others have it.
    #[must_use]
    pub fn set_up(self, setup: Setup) -> Self {
        Self { opening: self.opening.set_up(setup), ..self }
    }

    /// The same with this between two reads.
    #[must_use]
    pub fn paced(self, pace: Pace) -> Self {
        Self { pace, ..self }
    }

    fn accept(&mut self, listener: SocketId) -> Action {
        if self.connections == 0 {
            return Action::Exit;
        }
        self.connections -= 1;
        self.received = 0;
        self.state = State::Accepting(listener);
        Action::Accept(listener)
    }

    fn read(&mut self, listener: SocketId, id: SocketId) -> Action {
        self.state = State::Reading(listener, id);
        Action::Read(id, self.read_bytes)
    }

    fn have_read(
        &mut self,
        listener: SocketId,
        id: SocketId,
        context: &mut ProgramContext<'_>,
    ) -> Action {
        let bytes = context.answer.bytes();
        if bytes == 0 {
            return self.end(listener, id, context);
        }
        context.check_payload(self.received);
        self.received += u64::from(bytes);
        self.state = State::Pausing(listener, id);
        match self.pace {
            Pace::Fast => self.read(listener, id),
            Pace::Sleep(ns) => Action::Sleep(ns),
            Pace::Compute(ns) => Action::Compute(ns),
        }
    }

    fn end(
        &mut self,
        listener: SocketId,
        id: SocketId,
        context: &mut ProgramContext<'_>,
    ) -> Action {
        context.note("received_bytes", self.received);
        context.note("end_ns", context.now_ns);
        self.state = State::Closing(listener);
        Action::Close(id)
    }
}

impl Program for Sink {
    fn name(&self) -> &str {
        "sink"
    }

    fn next(&mut self, context: &mut ProgramContext<'_>) -> Action {
        if let Answer::Failed(error) = context.answer {
            context.note("read_failed", u64::from(error.errno()));
            return match self.state {
                State::Reading(listener, id) => self.end(listener, id, context),
                _ => Action::Exit,
            };
        }
        match self.state {
            State::Opening => match self.opening.go_on(context.answer) {
                Opened::Not(action) => action,
                Opened::Ready(id) => self.accept(id),
            },
            State::Closing(id) => self.accept(id),
            State::Accepting(listener) => {
                let Some(id) = context.answer.socket() else { return Action::Exit };
                context.note("accepted_ns", context.now_ns);
                self.read(listener, id)
            }
            State::Reading(listener, id) => self.have_read(listener, id, context),
            State::Pausing(listener, id) => self.read(listener, id),
        }
    }
}
