//! Connections to one port for several processes, as servers have them that fork before they accept.

use std::cell::Cell;
use std::rc::Rc;

use sockscope_sim::programs::{Opened, Opening};
use sockscope_sim::{Action, Answer};
use sockscope_stack::SocketId;

/// Until the first process has made the listening socket, or after a call that failed.
const PAUSE_NS: u64 = 20_000_000;

/// The listening socket of some processes.
pub(crate) type Listener = Rc<Cell<Listening>>;

/// How far the listening socket is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listening {
    /// No process has begun to make it.
    Not,
    /// A process makes it.
    Begun,
    /// It takes connections.
    At(SocketId),
}

/// A listening socket that the first process will make.
pub(crate) fn shared_listener() -> Listener {
    Rc::new(Cell::new(Listening::Not))
}

/// The way of a process to its next connection.
pub(super) struct Acceptor {
    port: u16,
    listener: Listener,
    state: State,
}

enum State {
    Begin,
    Opening(Opening),
    Ready,
    Accepting,
}

/// How far it is.
pub(super) enum Accepted {
    /// This is the next call.
    Not(Action),
    /// There is a connection.
    Connection(SocketId),
}

impl Acceptor {
    pub(super) fn new(port: u16, listener: Listener) -> Self {
        Self { port, listener, state: State::Begin }
    }

    /// Goes on after `answer`, until there is a connection.
    pub(super) fn go_on(&mut self, answer: Answer) -> Accepted {
        if let State::Begin = self.state {
            if self.listener.get() == Listening::Not {
                self.listener.set(Listening::Begun);
                self.state = State::Opening(Opening::at(self.port));
            } else {
                self.state = State::Ready;
            }
        }
        if let State::Opening(opening) = &mut self.state {
            match (answer, opening.go_on(answer)) {
                (Answer::Failed(_), _) => return Accepted::Not(Action::Exit),
                (_, Opened::Not(action)) => return Accepted::Not(action),
                (_, Opened::Ready(id)) => self.listener.set(Listening::At(id)),
            }
            self.state = State::Ready;
        } else if let State::Accepting = self.state {
            self.state = State::Ready;
            return match answer.socket() {
                Some(id) => Accepted::Connection(id),
                None => Accepted::Not(Action::Sleep(PAUSE_NS)),
            };
        }
        match self.listener.get() {
            Listening::At(id) => {
                self.state = State::Accepting;
                Accepted::Not(Action::Accept(id))
            }
            Listening::Not | Listening::Begun => Accepted::Not(Action::Sleep(PAUSE_NS)),
        }
    }
}
