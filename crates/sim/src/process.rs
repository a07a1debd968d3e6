//! A process: its program, its system call, and the channel that it waits for.

use sockscope_stack::socket::ANY;
use sockscope_stack::{
    AcceptCall, Channel, ConnectCall, Endpoint, Meter, ReceiveCall, Routine, SendCall, SocketError,
    SocketId, Stack, Step, Work,
};

use crate::cpu::Mask;
use crate::payload::Payload;
use crate::program::{Action, Answer, Data, Program};
use crate::scheduler::ProcessIndex;

/// A process of a simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId {
    /// Its host.
    pub host: usize,
    /// Its number on that host.
    pub index: ProcessIndex,
}

/// The outcome of a step of a system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StepResult {
    Continue,
    Sleep(Channel),
    Done(Answer),
}

/// The channel that a process sleeps on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Awaited {
    Channel(Channel),
    Time,
    Counter(u32),
}

/// A system call under way.
#[derive(Debug)]
pub(crate) enum Call {
    Send(SendCall, Data),
    Receive(ReceiveCall),
    Connect(ConnectCall),
    Accept(AcceptCall),
    /// As `Receive`, until [`Process::wake_ns`].
    ReceiveWithin(ReceiveCall),
    /// Reads so many records of the kernel's probes.
    ReadProbes(u32),
    /// One that needs a single step.
    Simple(Action),
}

/// One process.
pub(crate) struct Process {
    /// Number in the simulation, which records carry as the thread.
    pub(crate) number: u32,
    pub(crate) program: Box<dyn Program>,
    pub(crate) call: Option<Call>,
    /// The counter that it takes from as soon as there is something to take.
    pub(crate) takes: Option<u32>,
    pub(crate) awaited: Option<Awaited>,
    /// When the time is up for which it sleeps or waits; an event of another time is of an earlier
    /// wait, which ended before.
    pub(crate) wake_ns: u64,
    pub(crate) answer: Answer,
    pub(crate) from: Endpoint,
    /// The data read last are in the first `read_bytes` of it.
    pub(crate) buffer: Vec<u8>,
    pub(crate) read_bytes: usize,
    /// User-mode work before it asks its program again, in nanoseconds.
    pub(crate) compute_ns: u64,
    pub(crate) sockets: Vec<SocketId>,
    /// When it last got the CPU.
    pub(crate) run_ns: u64,
    /// Since when it is ready, while it waits for the CPU.
    pub(crate) ready_ns: u64,
    /// Time spent ready without the CPU since the last copy to it.
    pub(crate) waited_ns: u64,
    /// It has been off the CPU of its own will since it last ran, so that it must be switched to.
    pub(crate) has_slept: bool,
    /// Data woke it: the flow and position that it will read, until it runs.
    pub(crate) woken_by: Option<(sockscope_record::FlowId, u64)>,
    /// It sends first datagrams from this socket to there, and the log does not know from where yet.
    pub(crate) unnamed: Option<(SocketId, Endpoint)>,
    pub(crate) is_gone: bool,
    /// It has asked to end; its sockets are being closed.
    pub(crate) is_exiting: bool,
    /// The run does not wait for its end.
    pub(crate) is_daemon: bool,
}

impl Process {
    pub(crate) fn new(number: u32, program: Box<dyn Program>, is_daemon: bool) -> Self {
        Self {
            number,
            program,
            call: None,
            takes: None,
            awaited: None,
            wake_ns: 0,
            answer: Answer::Begin,
            from: ANY,
            buffer: Vec::new(),
            read_bytes: 0,
            compute_ns: 0,
            sockets: Vec::new(),
            run_ns: 0,
            ready_ns: 0,
            waited_ns: 0,
            has_slept: true,
            woken_by: None,
            unnamed: None,
            is_gone: false,
            is_exiting: false,
            is_daemon,
        }
    }

    /// The next step of the call under way: its interrupt mask, and its outcome.
    pub(crate) fn step(
        &mut self,
        stack: &mut Stack,
        payload: &Payload,
        meter: &mut Meter,
    ) -> (Mask, StepResult) {
        match &mut self.call {
            Some(Call::Send(send, data)) => {
                let user = match data {
                    Data::Payload { offset, len } => payload.piece(*offset, *len),
                    Data::Bytes(bytes) => bytes,
                };
                let result = StepResult::from(send.step(stack, user, meter));
                (mask(send.has_copied()), result)
            }
            Some(Call::Receive(receive) | Call::ReceiveWithin(receive)) => {
                let result = StepResult::from(receive.step(stack, &mut self.buffer, meter));
                if let StepResult::Done(answer) = result {
                    self.read_bytes = answer.bytes() as usize;
                    self.from = receive.from().unwrap_or(ANY);
                }
                (mask(receive.has_copied()), result)
            }
            _ => (Mask::Soft, self.rare_step(stack, meter)),
        }
    }

    /// As [`Process::step`], of a call that moves no data.
    fn rare_step(&mut self, stack: &mut Stack, meter: &mut Meter) -> StepResult {
        let Some(call) = &mut self.call else { return StepResult::Done(self.answer) };
        match call {
            Call::Send(..) | Call::Receive(_) | Call::ReceiveWithin(_) => StepResult::Continue,
            Call::Connect(connect) => StepResult::from(connect.step(stack, meter)),
            Call::Accept(accept) => match accept.step(stack, meter) {
                Step::Done(Ok(number)) => {
                    self.sockets.push(SocketId(number));
                    StepResult::Done(Answer::Socket(SocketId(number)))
                }
                step => StepResult::from(step),
            },
            Call::ReadProbes(records) => read_probes(*records, meter),
            Call::Simple(Action::Select(id)) => select(*id, false, stack, meter),
            Call::Simple(Action::SelectUrgent(id)) => select(*id, true, stack, meter),
            Call::Simple(action) => {
                let answer = simple(action, stack, meter);
                if let (Action::Socket(_), Answer::Socket(id)) = (&*action, answer) {
                    self.sockets.push(id);
                }
                if let (Action::Close(id), Answer::Done(_)) = (&*action, answer) {
                    let id = *id;
                    self.sockets.retain(|open| *open != id);
                }
                StepResult::Done(answer)
            }
        }
    }

    /// Makes the buffer at least so long.
    pub(crate) fn make_room(&mut self, len: usize) {
        if self.buffer.len() < len {
            self.buffer.resize(len, 0);
        }
    }
}

/// The mask of a step of a call that moves data: copies to or from a program allow every interrupt.
fn mask(is_copying: bool) -> Mask {
    if is_copying { Mask::None } else { Mask::Soft }
}

/// `select` on one socket, for an urgent octet as well if `wants_urgent`. Each check is charged: on the call and on
/// each wake-up.
fn select(id: SocketId, wants_urgent: bool, stack: &mut Stack, meter: &mut Meter) -> StepResult {
    meter.call(Routine::Syscall, Work::NONE);
    let Some(socket) = stack.sockets.find_mut(id) else {
        return StepResult::Done(Answer::Failed(SocketError::BadSocket));
    };
    let is_over = socket.state.cannot_receive_more || socket.error.is_some();
    let has_octet = wants_urgent && socket.urgent.has_octet();
    if has_octet && (socket.urgent.is_at_mark() || socket.rcv.cc() == 0) {
        StepResult::Done(Answer::Done(2))
    } else if socket.rcv.cc() > 0 || is_over {
        StepResult::Done(Answer::Done(1))
    } else {
        socket.rcv.is_waited_for = true;
        StepResult::Sleep(Channel::Readable(id))
    }
}

/// Octets of a record of the probes that a reader gets: time, length, type.
const PROBE_RECORD_BYTES: u32 = 16;

/// The records are copied to the process in one call.
fn read_probes(records: u32, meter: &mut Meter) -> StepResult {
    meter.call(Routine::Syscall, Work::NONE);
    meter.call(Routine::Copyout, Work::bytes((records * PROBE_RECORD_BYTES) as usize));
    StepResult::Done(Answer::Done(records))
}

/// A call that never waits.
fn simple(action: &Action, stack: &mut Stack, meter: &mut Meter) -> Answer {
    let result = match action {
        Action::Socket(protocol) => {
            return match stack.socket(*protocol, meter) {
                Ok(id) => Answer::Socket(id),
                Err(error) => Answer::Failed(error),
            };
        }
        Action::ReadUrgent(id) => {
            return match stack.receive_urgent(*id, meter) {
                Ok(octet) => Answer::Done(octet.into()),
                Err(error) => Answer::Failed(error),
            };
        }
        Action::Bind(id, port) => stack.bind(*id, (ANY.0, *port), meter),
        Action::Listen(id, backlog) => stack.listen(*id, *backlog, meter),
        Action::SetOption(id, option) => stack.set_option(*id, *option, meter),
        Action::Reserve(id, send, receive) => stack.reserve(*id, *send, *receive),
        Action::Shutdown(id, how) => stack.shutdown(*id, *how, meter),
        Action::Close(id) => stack.close(*id, meter),
        _ => Err(SocketError::Invalid),
    };
    result.map_or_else(Answer::Failed, |()| Answer::Done(0))
}

impl From<Step> for StepResult {
    fn from(step: Step) -> Self {
        match step {
            Step::Continue => Self::Continue,
            Step::Sleep(channel) => Self::Sleep(channel),
            Step::Done(Ok(count)) => Self::Done(Answer::Done(count)),
            Step::Done(Err(error)) => Self::Done(Answer::Failed(error)),
        }
    }
}
