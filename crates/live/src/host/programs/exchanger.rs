//! A client of an echo server that compares each byte.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};

use sockscope_sim::programs::{Opened, Opening};
use sockscope_sim::random::Random;
use sockscope_sim::{Action, Answer, Data, Program, ProgramContext};
use sockscope_stack::{SocketError, SocketId};

/// Bytes of the largest request. The buffers of both ends take it, so that an echo server which answers before it has
/// read all does not stand still.
const REQUEST_BYTES_MAX: u64 = 2_000;

/// How far the exchanges of some processes are.
#[derive(Debug, Clone)]
pub struct Exchanged(Arc<Mutex<Progress>>);

/// See [`Exchanged`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Exchanges whose answer was whole and right.
    pub done: u64,
    /// Connections on which a byte of an answer was wrong.
    pub wrong: u32,
    /// The last error that ended a connection.
    pub error: Option<SocketError>,
    /// Processes that go on.
    pub at_work: u32,
}

impl Exchanged {
    /// Of so many processes that have not begun.
    pub(crate) fn of(processes: u32) -> Self {
        let progress = Progress { done: 0, wrong: 0, error: None, at_work: processes };
        Self(Arc::new(Mutex::new(progress)))
    }

    /// So far.
    pub fn progress(&self) -> Progress {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Makes exchanges of random sizes.
pub(crate) struct Exchanger {
    opening: Opening,
    state: State,
    random: Random,
    left: u32,
    /// Position of the request in the stream.
    offset: u64,
    exchanged: Exchanged,
}

#[derive(Clone, Copy)]
enum State {
    Opening,
    Writing(SocketId, u64),
    /// So many bytes of the answer have not come.
    Reading(SocketId, u64),
    Closing,
}

impl Exchanger {
    pub(crate) fn new(
        with: (Ipv4Addr, u16),
        exchanges: u32,
        (seed, number): (u64, u64),
        exchanged: Exchanged,
    ) -> Self {
        Self {
            opening: Opening::to(with),
            state: State::Opening,
            random: Random::new(seed, number),
            left: exchanges,
            offset: 0,
            exchanged,
        }
    }

    fn ask(&mut self, id: SocketId) -> Action {
        if self.left == 0 {
            self.state = State::Closing;
            return Action::Close(id);
        }
        self.left -= 1;
        let len = 1 + self.random.below(REQUEST_BYTES_MAX);
        self.state = State::Writing(id, len);
        Action::Write(id, Data::Payload { offset: self.offset, len: len as usize })
    }

    fn read(&mut self, id: SocketId, left: u64) -> Action {
        self.state = State::Reading(id, left);
        Action::Read(id, left as usize)
    }

    fn end(&self, change: impl FnOnce(&mut Progress)) -> Action {
        self.exchanged.change(|progress| {
            change(progress);
            progress.at_work -= 1;
        });
        Action::Exit
    }

    /// Some of the answer has come.
    fn have_read(&mut self, id: SocketId, left: u64, context: &mut ProgramContext<'_>) -> Action {
        let bytes = u64::from(context.answer.bytes());
        if bytes == 0 {
            // The server has ended the connection.
            return self.end(|_| ());
        }
        if !context.check_payload(self.offset) {
            return self.end(|progress| progress.wrong += 1);
        }
        self.offset += bytes;
        if bytes < left {
            return self.read(id, left - bytes);
        }
        self.exchanged.change(|progress| progress.done += 1);
        self.ask(id)
    }
}

impl Program for Exchanger {
    fn name(&self) -> &str {
        "exchange"
    }

    fn next(&mut self, context: &mut ProgramContext<'_>) -> Action {
        if let Answer::Failed(error) = context.answer {
            return self.end(|progress| progress.error = Some(error));
        }
        match self.state {
            State::Opening => match self.opening.go_on(context.answer) {
                Opened::Not(action) => action,
                Opened::Ready(id) => self.ask(id),
            },
            State::Writing(id, len) => self.read(id, len),
            State::Reading(id, left) => self.have_read(id, left, context),
            State::Closing => self.end(|_| ()),
        }
    }
}
