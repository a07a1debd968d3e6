//! A writer and a reader of one stream, and a writer of datagrams.

use sockscope_record::Protocol;
use sockscope_record::counted;
use sockscope_sim::programs::{Opened, Opening, Setup};
use sockscope_sim::{Action, Answer, Data, Program, ProgramContext};
use sockscope_stack::{Endpoint, SocketError, SocketId};

use super::{SharedLog, end, fail, moved, socket_of};

/// The task of a writer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WriteTask {
    /// Where to.
    pub server: Endpoint,
    /// Octets in all.
    pub total: u64,
    /// Octets that each write is given.
    pub chunk: usize,
    /// Time in user mode before the first write.
    pub before_ns: u64,
    /// Sleep between two writes.
    pub pause_ns: u64,
    /// The writes that end with an urgent octet.
    pub urgent: Option<UrgentWrites>,
    /// Time in user mode between the last write and the close.
    pub after_ns: u64,
    /// The socket.
    pub setup: Setup,
}

/// Of `every` writes of `chunk` octets, of `total` in all, the last one ends with an urgent octet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UrgentWrites {
    pub every: u64,
    pub chunk: u64,
    pub total: u64,
}

impl UrgentWrites {
    /// Octets from `written` on that the next call writes, and whether they are urgent.
    fn next(&self, written: u64) -> (u64, bool) {
        let write = written / self.chunk;
        let end = ((write + 1) * self.chunk).min(self.total);
        let is_urgent = (write + 1).is_multiple_of(self.every);
        match end - written {
            1 if is_urgent => (1, true),
            rest if is_urgent => (rest - 1, false),
            rest => (rest, false),
        }
    }

    /// Position of the last urgent octet that is not behind `position`.
    fn last(&self, position: u64) -> Option<u64> {
        let group = self.every * self.chunk;
        // The last write may be short.
        let writes = self.total.div_ceil(self.chunk);
        let short = writes.is_multiple_of(self.every).then_some(self.total - 1);
        let whole = ((position + 1) / group * group).checked_sub(1);
        short.filter(|last| *last <= position).or(whole)
    }
}

/// The wait before urgent data are written again that the buffer had no room for.
const FULL_PAUSE_NS: u64 = 10_000_000;

enum Writing {
    Opening,
    Sending,
    Pausing,
    Closing,
    Closed,
}

/// Connects, writes everything in chunks, closes.
pub(crate) struct StreamWriter {
    task: WriteTask,
    log: SharedLog,
    opening: Opening,
    state: Writing,
    socket: SocketId,
    written: u64,
    call_started_ns: Option<u64>,
}

impl StreamWriter {
    pub(crate) fn new(task: WriteTask, log: SharedLog) -> Self {
        Self {
            opening: Opening::to(task.server).set_up(task.setup),
            task,
            log,
            state: Writing::Opening,
            socket: SocketId(0),
            written: 0,
            call_started_ns: None,
        }
    }

    fn step(&mut self, context: &ProgramContext<'_>) -> Result<Action, String> {
        if context.answer == Answer::Failed(SocketError::NoBuffers) && self.task.urgent.is_some() {
            // 4.2BSD fills the buffer beyond its limit, and then refuses urgent data.
            self.state = Writing::Pausing;
            return Ok(Action::Sleep(FULL_PAUSE_NS));
        }
        if let Answer::Failed(error) = context.answer {
            return Err(format!("writer after {}: {error}", counted(self.written, "octet")));
        }
        match self.state {
            Writing::Opening => Ok(match self.opening.go_on(context.answer) {
                Opened::Not(action) => action,
                Opened::Ready(id) => {
                    (self.socket, self.state) = (id, Writing::Sending);
                    Action::Compute(self.task.before_ns)
                }
            }),
            Writing::Sending => self.have_written(context),
            Writing::Pausing => {
                self.state = Writing::Sending;
                Ok(self.write(context.now_ns))
            }
            Writing::Closing => {
                self.state = Writing::Closed;
                Ok(Action::Close(self.socket))
            }
            Writing::Closed => Ok(end(&self.log)),
        }
    }

    fn have_written(&mut self, context: &ProgramContext<'_>) -> Result<Action, String> {
        let now_ns = context.now_ns;
        let mut has_written = false;
        if let Some(started_ns) = self.call_started_ns.take() {
            self.written += moved(context.answer)? as u64;
            let mut log = self.log.borrow_mut();
            log.call_ns.push(now_ns - started_ns);
            log.last_write_ns = now_ns;
            has_written = true;
        }
        if self.written == self.task.total {
            self.state = Writing::Closing;
            return Ok(Action::Compute(self.task.after_ns));
        }
        if has_written && self.task.pause_ns > 0 {
            self.state = Writing::Pausing;
            return Ok(Action::Sleep(self.task.pause_ns));
        }
        Ok(self.write(now_ns))
    }

    fn write(&mut self, now_ns: u64) -> Action {
        let rest = (self.task.total - self.written).min(self.task.chunk as u64);
        let next = self.task.urgent.map(|urgent| urgent.next(self.written));
        let (len, is_urgent) = next.unwrap_or((rest, false));
        let data = Data::Payload { offset: self.written, len: len as usize };
        self.call_started_ns = Some(now_ns);
        self.log.borrow_mut().first_write_ns.get_or_insert(now_ns);
        if is_urgent {
            Action::WriteUrgent(self.socket, data)
        } else {
            Action::Write(self.socket, data)
        }
    }
}

impl Program for StreamWriter {
    fn name(&self) -> &str {
        "writer"
    }

    fn next(&mut self, context: &mut ProgramContext<'_>) -> Action {
        self.step(context).unwrap_or_else(|problem| fail(&self.log, problem))
    }
}

/// The task of a reader.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadTask {
    /// Where it listens.
    pub port: u16,
    /// Octets that each read asks for.
    pub chunk: usize,
    /// Time in user mode before the first read.
    pub before_ns: u64,
    /// Sleep between two reads.
    pub pause_ns: u64,
    /// The writes that end with an urgent octet.
    pub urgent: Option<UrgentWrites>,
    /// Time in user mode between the end of the stream and the close.
    pub after_ns: u64,
    /// The socket.
    pub setup: Setup,
}

enum Reading {
    Opening,
    Accepting,
    Waiting,
    /// It waits for data or an urgent octet.
    Selecting,
    Urgent,
    Taking,
    Pausing,
    Ending,
    Closing,
}

/// Waits for one connection, reads it to its end and checks every octet.
pub(crate) struct StreamReader {
    task: ReadTask,
    log: SharedLog,
    opening: Opening,
    state: Reading,
    socket: SocketId,
    read: u64,
}

impl StreamReader {
    pub(crate) fn new(task: ReadTask, log: SharedLog) -> Self {
        let opening = Opening::at(task.port).set_up(task.setup);
        Self { task, log, opening, state: Reading::Opening, socket: SocketId(0), read: 0 }
    }

    fn step(&mut self, context: &mut ProgramContext<'_>) -> Result<Action, String> {
        let is_replaced = context.answer == Answer::Failed(SocketError::WouldBlock);
        if is_replaced && matches!(self.state, Reading::Urgent) {
            // Later urgent data were announced before the octet was read.
            return Ok(self.read());
        }
        if let Answer::Failed(error) = context.answer {
            return Err(format!("reader after {}: {error}", counted(self.read, "octet")));
        }
        match self.state {
            Reading::Opening => Ok(match self.opening.go_on(context.answer) {
                Opened::Not(action) => action,
                Opened::Ready(listener) => {
                    self.state = Reading::Accepting;
                    Action::Accept(listener)
                }
            }),
            Reading::Accepting => {
                self.socket = socket_of(context.answer)?;
                self.state = Reading::Waiting;
                Ok(Action::Compute(self.task.before_ns))
            }
            Reading::Waiting | Reading::Pausing => Ok(self.read()),
            Reading::Selecting if context.answer == Answer::Done(2) => {
                self.state = Reading::Urgent;
                Ok(Action::ReadUrgent(self.socket))
            }
            Reading::Selecting => {
                self.state = Reading::Taking;
                Ok(Action::Read(self.socket, self.task.chunk))
            }
            Reading::Urgent => {
                let mut log = self.log.borrow_mut();
                log.urgent += 1;
                log.bytes += 1;
                log.last_read_ns = context.now_ns;
                drop(log);
                Ok(self.read())
            }
            Reading::Taking => self.take(context),
            Reading::Ending => {
                self.state = Reading::Closing;
                Ok(Action::Close(self.socket))
            }
            Reading::Closing => Ok(end(&self.log)),
        }
    }

    /// The next read, behind a look for an urgent octet where there are some.
    fn read(&mut self) -> Action {
        if self.task.urgent.is_some() {
            self.state = Reading::Selecting;
            return Action::SelectUrgent(self.socket);
        }
        self.state = Reading::Taking;
        Action::Read(self.socket, self.task.chunk)
    }

    fn take(&mut self, context: &mut ProgramContext<'_>) -> Result<Action, String> {
        let len = moved(context.answer)?;
        if len == 0 {
            self.state = Reading::Ending;
            return Ok(Action::Compute(self.task.after_ns));
        }
        let end = match self.task.urgent {
            Some(urgent) => {
                context.check_payload_without(self.read, |position| urgent.last(position))
            }
            None => context.check_payload(self.read).then_some(self.read + len as u64),
        };
        let damaged = || format!("damaged data after {}", counted(self.read, "octet"));
        self.read = end.ok_or_else(damaged)?;
        let mut log = self.log.borrow_mut();
        log.bytes += len as u64;
        log.last_read_ns = context.now_ns;
        if self.task.pause_ns > 0 {
            self.state = Reading::Pausing;
            return Ok(Action::Sleep(self.task.pause_ns));
        }
        drop(log);
        Ok(self.read())
    }
}

impl Program for StreamReader {
    fn name(&self) -> &str {
        "reader"
    }

    fn next(&mut self, context: &mut ProgramContext<'_>) -> Action {
        self.step(context).unwrap_or_else(|problem| fail(&self.log, problem))
    }
}

/// Sends datagrams of one size, each with its address, and looks at no error: as the program of the
/// study of buffers did, which checked once at its end. Datagrams that no socket takes are another
/// thing: nothing would be measured.
pub(crate) struct DatagramWriter {
    task: WriteTask,
    log: SharedLog,
    socket: Option<SocketId>,
    sent: u64,
    call_started_ns: Option<u64>,
}

impl DatagramWriter {
    pub(crate) fn new(task: WriteTask, log: SharedLog) -> Self {
        Self { task, log, socket: None, sent: 0, call_started_ns: None }
    }

    fn send(&mut self, socket: SocketId, context: &ProgramContext<'_>) -> Action {
        let now_ns = context.now_ns;
        let mut log = self.log.borrow_mut();
        if let Some(started_ns) = self.call_started_ns.take() {
            log.call_ns.push(now_ns - started_ns);
            log.last_write_ns = now_ns;
            if let Answer::Done(_) = context.answer {
                log.bytes += self.task.chunk as u64;
            }
        }
        if self.sent == self.task.total {
            log.ended += 1;
            return Action::Exit;
        }
        let (offset, len) = (self.sent, self.task.chunk);
        self.sent += len as u64;
        self.call_started_ns = Some(now_ns);
        log.first_write_ns.get_or_insert(now_ns);
        Action::SendTo(socket, self.task.server, Data::Payload { offset, len })
    }
}

impl Program for DatagramWriter {
    fn name(&self) -> &str {
        "datagrams"
    }

    fn next(&mut self, context: &mut ProgramContext<'_>) -> Action {
        match (self.socket, context.answer) {
            (Some(_), Answer::Failed(SocketError::MessageSize)) => {
                let problem =
                    format!("datagram of {} octets: {}", self.task.chunk, SocketError::MessageSize);
                fail(&self.log, problem)
            }
            (Some(socket), _) => self.send(socket, context),
            (None, Answer::Begin) => Action::Socket(Protocol::Udp),
            (None, answer) => match socket_of(answer) {
                Ok(socket) => {
                    self.socket = Some(socket);
                    self.send(socket, context)
                }
                Err(problem) => fail(&self.log, problem),
            },
        }
    }
}
