//! The calls of one side of a pattern, made again.

use std::cell::Cell;
use std::rc::Rc;

use sockscope_analysis::{Action as Call, Step};
use sockscope_record::counted;
use sockscope_sim::programs::{Opened, Opening};
use sockscope_sim::scheduler::TICK_NS;
use sockscope_sim::{Action, Answer, Data, Program, ProgramContext};
use sockscope_stack::socket::Shutdown;
use sockscope_stack::{Endpoint, SetOption, SocketError, SocketId};

use super::{SharedLog, end, fail, moved, socket_of};

/// Bytes that a read takes at most where a side only reads up to the end of the stream.
const DRAIN_BYTES: usize = 4096;

/// How long a datagram is awaited: no answer takes longer, so that it was dropped.
const DATAGRAM_NS: u64 = 60_000_000_000;

/// The same at the end, for datagrams that the program left unread.
const LAST_DATAGRAM_NS: u64 = 1_000_000_000;

/// The state that the processes of a side share.
#[derive(Debug, Default)]
pub(crate) struct PlayedSide {
    socket: Cell<Option<SocketId>>,
    /// The sender of the last datagram.
    peer: Cell<Option<Endpoint>>,
    written: Cell<u64>,
    read: Cell<u64>,
    /// Calls that ended, of both sides.
    calls: Rc<Cell<u64>>,
}

impl PlayedSide {
    /// A side that has moved nothing yet; it counts its calls in `calls`.
    pub(crate) fn new(calls: &Rc<Cell<u64>>) -> Self {
        Self { calls: Rc::clone(calls), ..Self::default() }
    }
}

/// The calls of one process.
#[derive(Debug)]
pub(crate) struct PlayTask {
    /// Name of the process.
    pub name: String,
    /// The calls, in order.
    pub steps: Vec<Step>,
    /// Bytes that a read takes at most.
    pub buffer: usize,
    /// The buffer has another size than in the recording. Of each step, the bytes of the reads after it that one call may
    /// take as well: see [`sockscope_analysis::Activity::reads_after`].
    pub reads_after: Option<Vec<u64>>,
    /// `TCP_NODELAY` is set.
    pub no_delay: bool,
    /// It accepts the connection: it also ends it last.
    pub is_server: bool,
    /// Other processes of the side.
    pub others: u32,
    /// The server's address, where calls move datagrams.
    pub datagrams_to: Option<Endpoint>,
}

/// Numbers of the host's counters for a side: by the first a process lets the others begin, by the
/// second they report their ends.
fn counters(is_server: bool) -> (u32, u32) {
    let first = 2 * u32::from(is_server);
    (first, first + 1)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Opening,
    Accepting,
    /// The socket is there.
    Ready,
    /// Others have yet to be let begin.
    Sharing(u32),
    /// One of several processes, which waits for the socket.
    Waiting,
    /// It sleeps before a step, until so short before this time that CPU time is left.
    Asleep(u64),
    Thought,
    Writing(u64),
    Reading,
    /// The ends of others are yet awaited.
    Joining(u32),
    ShuttingDown,
    Draining,
    Over,
}

/// Makes the calls of a sequence. The first process of a side has the socket: it opens it, and ends the
/// connection when all processes of the side are done.
pub(crate) struct Player {
    task: PlayTask,
    opening: Option<Opening>,
    side: Rc<PlayedSide>,
    log: SharedLog,
    state: State,
    /// The next step.
    at: Rc<Cell<usize>>,
    /// Bytes of the reads of the steps before the next one.
    wanted: u64,
    received: u64,
}

impl Player {
    /// The process that opens the socket.
    pub(crate) fn first(
        task: PlayTask,
        opening: Opening,
        side: &Rc<PlayedSide>,
        log: &SharedLog,
    ) -> Self {
        let player = Self::other(task, side, log);
        Self { opening: Some(opening), state: State::Opening, ..player }
    }

    /// Another process of the same side.
    pub(crate) fn other(task: PlayTask, side: &Rc<PlayedSide>, log: &SharedLog) -> Self {
        Self {
            task,
            opening: None,
            side: Rc::clone(side),
            log: Rc::clone(log),
            state: State::Waiting,
            at: Rc::default(),
            wanted: 0,
            received: 0,
        }
    }

    /// The number of steps that it has made.
    pub(crate) fn progress(&self) -> Rc<Cell<usize>> {
        Rc::clone(&self.at)
    }

    fn socket(&self) -> Result<SocketId, String> {
        self.side.socket.get().ok_or_else(|| "there is no socket".to_owned())
    }

    fn step(&mut self, context: &mut ProgramContext<'_>) -> Result<Action, String> {
        if let Answer::Failed(error) = context.answer {
            if error == SocketError::TimedOut && self.task.datagrams_to.is_some() {
                return self.no_datagram();
            }
            let steps = counted(self.at.get() as u64, "step");
            return Err(format!("{} after {steps}: {error}", self.task.name));
        }
        let now_ns = context.now_ns;
        match self.state {
            State::Opening => self.open(context.answer, now_ns),
            State::Accepting => {
                self.side.socket.set(Some(socket_of(context.answer)?));
                self.ready(now_ns)
            }
            State::Ready => self.share(self.task.others, now_ns),
            State::Sharing(left) => self.share(left, now_ns),
            State::Waiting => {
                if context.answer == Answer::Begin {
                    return Ok(Action::Take(counters(self.task.is_server).0));
                }
                self.begin(now_ns)
            }
            State::Asleep(end_ns) => {
                self.state = State::Thought;
                let left_ns = end_ns.saturating_sub(now_ns);
                if left_ns > 0 { Ok(Action::Compute(left_ns)) } else { self.call(now_ns) }
            }
            State::Thought => self.call(now_ns),
            State::Writing(bytes) => {
                if moved(context.answer)? as u64 != bytes {
                    return Err(format!("{}: a write was cut off", self.task.name));
                }
                self.done(now_ns)
            }
            State::Reading => self.take(context),
            State::Joining(left) => self.join(left, now_ns),
            State::ShuttingDown => self.drain(),
            State::Draining => self.take_rest(context),
            State::Over => Ok(end(&self.log)),
        }
    }

    fn open(&mut self, answer: Answer, now_ns: u64) -> Result<Action, String> {
        let Some(opening) = &mut self.opening else { return Err("nothing to open".to_owned()) };
        match opening.go_on(answer) {
            Opened::Not(action) => Ok(action),
            Opened::Ready(id) if self.task.is_server && self.task.datagrams_to.is_none() => {
                self.state = State::Accepting;
                Ok(Action::Accept(id))
            }
            Opened::Ready(id) => {
                self.side.socket.set(Some(id));
                self.ready(now_ns)
            }
        }
    }

    fn ready(&mut self, now_ns: u64) -> Result<Action, String> {
        self.state = State::Ready;
        if self.task.no_delay {
            return Ok(Action::SetOption(self.socket()?, SetOption::NoDelay(true)));
        }
        self.share(self.task.others, now_ns)
    }

    /// Lets the others begin, one by one.
    fn share(&mut self, left: u32, now_ns: u64) -> Result<Action, String> {
        if left > 0 {
            self.state = State::Sharing(left - 1);
            return Ok(Action::Post(counters(self.task.is_server).0));
        }
        self.begin(now_ns)
    }

    /// The time before the next step, its call, or the end.
    fn begin(&mut self, now_ns: u64) -> Result<Action, String> {
        while let Some(step) = self.task.steps.get(self.at.get()) {
            let think_ns = step.think_ns;
            // A larger read took its bytes: the program makes no call, and thinks for the next one.
            if self.task.reads_after.is_some()
                && step.action == Call::Read
                && self.received >= self.wanted + step.bytes
            {
                self.wanted += step.bytes;
                self.at.set(self.at.get() + 1);
                continue;
            }
            // A sleep ends with a tick of the clock, up to one tick late: the last tick is CPU time.
            if let Some(sleep_ns) = think_ns.checked_sub(TICK_NS).filter(|ns| *ns > 0) {
                self.state = State::Asleep(now_ns.saturating_add(think_ns));
                return Ok(Action::Sleep(sleep_ns));
            }
            if think_ns > 0 {
                self.state = State::Thought;
                return Ok(Action::Compute(think_ns));
            }
            if let Some(action) = self.next_call()? {
                return Ok(action);
            }
        }
        if self.opening.is_some() {
            return self.join(self.task.others, now_ns);
        }
        self.state = State::Over;
        Ok(Action::Post(counters(self.task.is_server).1))
    }

    /// The call of the step that was thought about.
    fn call(&mut self, now_ns: u64) -> Result<Action, String> {
        match self.next_call()? {
            Some(action) => Ok(action),
            None => self.begin(now_ns),
        }
    }

    /// The call of the next step; of a read whose bytes an earlier one took, none.
    fn next_call(&mut self) -> Result<Option<Action>, String> {
        let Some(step) = self.task.steps.get(self.at.get()) else { return Ok(None) };
        match step.action {
            Call::Write => {
                let (offset, len) = (self.side.written.get(), step.bytes as usize);
                self.side.written.set(offset + step.bytes);
                self.state = State::Writing(step.bytes);
                let (socket, data) = (self.socket()?, Data::Payload { offset, len });
                if self.task.datagrams_to.is_some() {
                    return Ok(Some(Action::SendTo(socket, self.peer()?, data)));
                }
                Ok(Some(Action::Write(socket, data)))
            }
            Call::Read if self.task.datagrams_to.is_some() => {
                // A datagram is taken whole, for any size of the step.
                self.state = State::Reading;
                let buffer = self.task.buffer.max(step.bytes as usize);
                Ok(Some(Action::ReceiveWithin(self.socket()?, buffer, DATAGRAM_NS)))
            }
            Call::Read => {
                if self.received >= self.wanted + step.bytes {
                    self.wanted += step.bytes;
                    self.at.set(self.at.get() + 1);
                    return Ok(None);
                }
                self.state = State::Reading;
                Ok(Some(Action::Read(self.socket()?, self.read_limit(step.bytes))))
            }
        }
    }

    /// The buffer of a read at a step of so many bytes.
    fn read_limit(&self, bytes: u64) -> usize {
        let Some(after) = &self.task.reads_after else { return self.task.buffer };
        let left = self.wanted + bytes + after[self.at.get()] - self.received;
        self.task.buffer.min(left as usize)
    }

    fn done(&mut self, now_ns: u64) -> Result<Action, String> {
        self.at.set(self.at.get() + 1);
        self.has_moved();
        self.begin(now_ns)
    }

    fn has_moved(&self) {
        self.side.calls.set(self.side.calls.get() + 1);
    }

    /// Reads go on up to the end of their bytes, in other pieces perhaps.
    fn take(&mut self, context: &mut ProgramContext<'_>) -> Result<Action, String> {
        let bytes = self.check(context)?;
        if bytes == 0 {
            return Err(format!("{}: the stream ended before a read", self.task.name));
        }
        self.received += bytes;
        let step = self.task.steps.get(self.at.get()).map_or(0, |step| step.bytes);
        if self.task.datagrams_to.is_some() || self.received >= self.wanted + step {
            self.wanted += step;
            return self.done(context.now_ns);
        }
        self.has_moved();
        if self.task.reads_after.is_some() {
            return self.begin(context.now_ns);
        }
        Ok(Action::Read(self.socket()?, self.task.buffer))
    }

    /// The number of bytes that were read, which are those that the other side wrote.
    fn check(&self, context: &mut ProgramContext<'_>) -> Result<u64, String> {
        let bytes = moved(context.answer)? as u64;
        let offset = self.side.read.get();
        let is_datagram = self.task.datagrams_to.is_some();
        if is_datagram {
            self.side.peer.set(Some(context.from));
        } else if !context.check_payload(offset) {
            return Err(format!("{}: damaged data after {offset} octets", self.task.name));
        }
        self.side.read.set(offset + bytes);
        self.log.borrow_mut().bytes += bytes;
        Ok(bytes)
    }

    /// Waits for the ends of the others. The client then ends its direction; the server first reads up to
    /// the end of the client's, so that no end is in the middle of the calls.
    fn join(&mut self, left: u32, now_ns: u64) -> Result<Action, String> {
        if left > 0 {
            self.state = State::Joining(left - 1);
            return Ok(Action::Take(counters(self.task.is_server).1));
        }
        self.log.borrow_mut().last_read_ns = now_ns;
        if self.task.is_server || self.task.datagrams_to.is_some() {
            return self.drain();
        }
        self.state = State::ShuttingDown;
        Ok(Action::Shutdown(self.socket()?, Shutdown::Send))
    }

    fn drain(&mut self) -> Result<Action, String> {
        self.state = State::Draining;
        let socket = self.socket()?;
        Ok(match self.task.datagrams_to {
            Some(_) => Action::ReceiveWithin(socket, DRAIN_BYTES, LAST_DATAGRAM_NS),
            None => Action::Read(socket, DRAIN_BYTES),
        })
    }

    /// Where datagrams go: to the server, or from there to the sender of the last one.
    fn peer(&self) -> Result<Endpoint, String> {
        let peer = if self.task.is_server { self.side.peer.get() } else { self.task.datagrams_to };
        peer.ok_or_else(|| format!("{} sends before it has a datagram to answer", self.task.name))
    }

    /// No datagram was received in time. At the end all have been read then.
    fn no_datagram(&mut self) -> Result<Action, String> {
        if self.state == State::Draining {
            return self.close();
        }
        let (name, step) = (&self.task.name, self.at.get() + 1);
        let wait_s = DATAGRAM_NS / 1_000_000_000;
        Err(format!(
            "{name} waits at step {step} for a datagram that was dropped: none for {wait_s} s of the model's time"
        ))
    }

    fn close(&mut self) -> Result<Action, String> {
        self.state = State::Over;
        Ok(Action::Close(self.socket()?))
    }

    /// Bytes that the program left unread when it ended, or the end of the stream.
    fn take_rest(&mut self, context: &mut ProgramContext<'_>) -> Result<Action, String> {
        self.has_moved();
        if self.check(context)? > 0 {
            return self.drain();
        }
        self.close()
    }
}

impl Program for Player {
    fn name(&self) -> &str {
        &self.task.name
    }

    fn next(&mut self, context: &mut ProgramContext<'_>) -> Action {
        self.step(context).unwrap_or_else(|problem| fail(&self.log, problem))
    }
}
