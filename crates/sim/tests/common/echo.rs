//! Question and answer over a stream.

use sockscope_sim::programs::{Opened, Opening};
use sockscope_sim::{Action, Answer, Data, Program, ProgramContext};
use sockscope_stack::{Endpoint, SocketId};

/// Sends a message, waits until it has received as many bytes, and so on; notes each round trip as
/// `round_trip_ns`.
#[derive(Debug)]
pub struct EchoClient {
    opening: Opening,
    message_bytes: usize,
    count: u64,
    state: State,
    offset: u64,
    came_back: usize,
    began_ns: u64,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Opening,
    Written(SocketId),
    Reading(SocketId),
}

impl EchoClient {
    /// `count` messages of so many bytes to this server.
    pub fn new(to: Endpoint, message_bytes: usize, count: u64) -> Self {
        Self {
            opening: Opening::to(to),
            message_bytes,
            count,
            state: State::Opening,
            offset: 0,
            came_back: 0,
            began_ns: 0,
        }
    }

    fn ask(&mut self, id: SocketId, context: &ProgramContext<'_>) -> Action {
        if self.count == 0 {
            return Action::Exit;
        }
        self.count -= 1;
        self.came_back = 0;
        self.began_ns = context.now_ns;
        self.state = State::Written(id);
        Action::Write(id, Data::Payload { offset: self.offset, len: self.message_bytes })
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
            State::Opening => match self.opening.go_on(context.answer) {
                Opened::Not(action) => action,
                Opened::Ready(id) => self.ask(id, context),
            },
            State::Written(id) => self.read(id),
            State::Reading(id) => {
                let bytes = context.answer.bytes() as usize;
                if bytes == 0 {
                    return Action::Exit;
                }
                context.check_payload(self.offset + self.came_back as u64);
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

/// Takes one connection and writes all read data back, until the end.
#[derive(Debug)]
pub struct EchoServer {
    opening: Opening,
    read_bytes: usize,
    step: Serving,
}

#[derive(Debug, Clone, Copy)]
enum Serving {
    Opening,
    Accepting,
    Read(SocketId),
    Wrote(SocketId),
}

impl EchoServer {
    /// Serves this port, reading up to `read_bytes` at a time.
    pub fn new(port: u16, read_bytes: usize) -> Self {
        Self { opening: Opening::at(port), read_bytes, step: Serving::Opening }
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
            Serving::Opening => match self.opening.go_on(context.answer) {
                Opened::Not(action) => action,
                Opened::Ready(id) => self.goes_on(Serving::Accepting, Action::Accept(id)),
            },
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
