//! A client that fetches a page.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};

use sockscope_sim::programs::{Opened, Opening};
use sockscope_sim::{Action, Answer, Data, Program, ProgramContext};
use sockscope_stack::{SocketError, SocketId};

const READ_BYTES: usize = 4_096;

/// What a client has received.
#[derive(Debug, Clone, Default)]
pub struct Fetched(Arc<Mutex<Option<Answered>>>);

/// The answer with its head, or the error that a call of the client failed with.
type Answered = Result<Vec<u8>, SocketError>;

impl Fetched {
    /// The answer with its head, or the error; `None` while the client works.
    pub fn answer(&self) -> Option<Answered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn end(&self, answer: Answered) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
    }
}

/// Fetches one page by HTTP/1.0 (RFC 1945).
pub(crate) struct Fetch {
    opening: Opening,
    state: State,
    request: Vec<u8>,
    received: Vec<u8>,
    fetched: Fetched,
}

#[derive(Clone, Copy)]
enum State {
    Opening,
    Asking(SocketId),
    Reading(SocketId),
    Over,
}

impl Fetch {
    pub(crate) fn new(from: (Ipv4Addr, u16), path: &str, fetched: Fetched) -> Self {
        let request = format!("GET {path} HTTP/1.0\r\nHost: {}\r\n\r\n", from.0);
        Self {
            opening: Opening::to(from),
            state: State::Opening,
            request: request.into_bytes(),
            received: Vec::new(),
            fetched,
        }
    }

    fn read(&mut self, id: SocketId) -> Action {
        self.state = State::Reading(id);
        Action::Read(id, READ_BYTES)
    }
}

impl Program for Fetch {
    fn name(&self) -> &str {
        "fetch"
    }

    fn next(&mut self, context: &mut ProgramContext<'_>) -> Action {
        if let Answer::Failed(error) = context.answer {
            self.fetched.end(Err(error));
            return Action::Exit;
        }
        match self.state {
            State::Opening => match self.opening.go_on(context.answer) {
                Opened::Not(action) => action,
                Opened::Ready(id) => {
                    self.state = State::Asking(id);
                    Action::Write(id, Data::Bytes(std::mem::take(&mut self.request)))
                }
            },
            State::Asking(id) => self.read(id),
            State::Reading(id) if context.answer.bytes() > 0 => {
                self.received.extend_from_slice(context.data());
                self.read(id)
            }
            State::Reading(id) => {
                self.fetched.end(Ok(std::mem::take(&mut self.received)));
                self.state = State::Over;
                Action::Close(id)
            }
            State::Over => Action::Exit,
        }
    }
}
