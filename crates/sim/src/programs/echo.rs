//! Question and answer over a stream.

use sockscope_record::Protocol;
use sockscope_stack::{Endpoint, SocketId};

use super::Setup;
use crate::program::{Action, Answer, Data, Program, ProgramContext};

/// Sends a message, waits until as many bytes have come back, and so on; each round trip is noted
/// as `round_trip_ns`.
#[derive(Debug)]
pub struct EchoClient {
    to: Endpoint,
    message_bytes: usize,
    count: u64,
    setup: Setup,
    setting_up: Vec<Action>,
    state: State,
    offset: u64,
    came_back: usize,
    began_ns: u64,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Begin,
    Made,
    SettingUp(SocketId),
    Ready(SocketId),
    Written(SocketId),
    Reading(SocketId),
}

impl EchoClient {
    /// `count` messages of so many bytes to this server.
    #[must_use]
    pub fn new(to: Endpoint, message_bytes: usize, count: u64) -> Self {
        Self {
            to,
            message_bytes,
            count,
            setup: Setup::default(),
            setting_up: Vec::new(),
            state: State::Begin,
            offset: 0,
            came_back: 0,
            began_ns: 0,
        }
    }

    /// The same with this done to its socket.
    #[must_use]
    pub fn set_up(self, setup: Setup) -> Self {
        Self { setup, ..self }
    }

    fn next_set_up(&mut self, id: SocketId) -> Action {
        self.state = State::SettingUp(id);
        self.setting_up.pop().unwrap_or_else(|| {
            self.state = State::Ready(id);
            Action::Connect(id, self.to)
        })
    }

    fn ask(&mut self, id: SocketId, context: &ProgramContext<'_>) -> Action {
        if self.count == 0 {
            return Action::Exit;
        }
        self.count -= 1;
        self.came_back = 0;
        self.began_ns = context.now_ns;
        self.state = State::Written(id);
        Action::Write(id, Data::Pattern { offset: self.offset, len: self.message_bytes })
    }

    fn read(&mut self, id: SocketId) -> Action {
        self.state = State::Reading(id);
        Action::Read(id, self.message_bytes - self.came_back)
    }
}

impl Program for EchoClient {
    fn name(&self) -> &str {
        "echo-client"
    }

    fn next(&mut self, context: &mut ProgramContext<'_>) -> Action {
        if let Answer::Failed(error) = context.answer {
            context.note("echo_failed", u64::from(error.errno()));
            return Action::Exit;
        }
        match self.state {
            State::Begin => {
                self.state = State::Made;
                Action::Socket(Protocol::Tcp)
            }
            State::Made => {
                let Some(id) = context.answer.socket() else { return Action::Exit };
                self.setting_up = self.setup.actions(id);
                self.next_set_up(id)
            }
            State::SettingUp(id) => self.next_set_up(id),
            State::Ready(id) => self.ask(id, context),
            State::Written(id) => self.read(id),
            State::Reading(id) => {
                let bytes = context.answer.bytes() as usize;
                if bytes == 0 {
                    return Action::Exit;
                }
                context.check_pattern(self.offset + self.came_back as u64);
                self.came_back += bytes;
                if self.came_back < self.message_bytes {
                    return self.read(id);
                }
                self.offset += self.message_bytes as u64;
                context.note("round_trip_ns", context.now_ns - self.began_ns);
                self.ask(id, context)
            }
        }
    }
}

/// Takes one connection and writes back what it reads, until the end.
#[derive(Debug)]
pub struct EchoServer {
    port: u16,
    read_bytes: usize,
    step: Serving,
}

#[derive(Debug, Clone, Copy)]
enum Serving {
    Begin,
    Made,
    Bound(SocketId),
    Listening(SocketId),
    Accepting,
    Read(SocketId),
    Wrote(SocketId),
}

impl EchoServer {
    /// Serves this port, reading up to `read_bytes` at a time.
    #[must_use]
    pub fn new(port: u16, read_bytes: usize) -> Self {
        Self { port, read_bytes, step: Serving::Begin }
    }

    fn goes_on(&mut self, step: Serving, action: Action) -> Action {
        self.step = step;
        action
    }
}

impl Program for EchoServer {
    fn name(&self) -> &str {
        "echo-server"
    }

    fn next(&mut self, context: &mut ProgramContext<'_>) -> Action {
        if let Answer::Failed(error) = context.answer {
            context.note("echo_failed", u64::from(error.errno()));
            return Action::Exit;
        }
        match self.step {
            Serving::Begin => self.goes_on(Serving::Made, Action::Socket(Protocol::Tcp)),
            Serving::Made => {
                let Some(id) = context.answer.socket() else { return Action::Exit };
                self.goes_on(Serving::Bound(id), Action::Bind(id, self.port))
            }
            Serving::Bound(id) => self.goes_on(Serving::Listening(id), Action::Listen(id, 5)),
            Serving::Listening(id) => self.goes_on(Serving::Accepting, Action::Accept(id)),
            Serving::Accepting => {
                let Some(id) = context.answer.socket() else { return Action::Exit };
                self.goes_on(Serving::Read(id), Action::Read(id, self.read_bytes))
            }
            Serving::Read(_) if context.answer.bytes() == 0 => Action::Exit,
            Serving::Read(id) => {
                let data = Data::Bytes(context.data().to_vec());
                self.goes_on(Serving::Wrote(id), Action::Write(id, data))
            }
            Serving::Wrote(id) => {
                self.goes_on(Serving::Read(id), Action::Read(id, self.read_bytes))
            }
        }
    }
}
