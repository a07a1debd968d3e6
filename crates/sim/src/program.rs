//! Programs: the actions of processes.
//!
//! A program is asked for its next action each time it is in user mode, and gets the result of the
//! action before. It has no other access to the simulation, so that a run depends on nothing but
//! its scenario.

use sockscope_record::Protocol;
use sockscope_stack::socket::Shutdown;
use sockscope_stack::{Endpoint, SetOption, SocketError, SocketId};

use crate::payload::Payload;

/// The behaviour of a process.
pub trait Program {
    /// The name of the process, at most 15 bytes.
    fn name(&self) -> &str;

    /// The next action. Called first when the process begins, with [`Answer::Begin`].
    fn next(&mut self, context: &mut ProgramContext<'_>) -> Action;
}

/// An action of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// `socket`: answers [`Answer::Socket`].
    Socket(Protocol),
    /// `bind` to this port of any address; 0 for any port.
    Bind(SocketId, u16),
    /// `listen`
    Listen(SocketId, u32),
    /// `accept`: answers [`Answer::Socket`].
    Accept(SocketId),
    /// `connect`
    Connect(SocketId, Endpoint),
    /// `write`: answers [`Answer::Done`] with the bytes taken.
    Write(SocketId, Data),
    /// `read` of at most so many bytes: answers [`Answer::Done`] with the bytes had, 0 at the end.
    Read(SocketId, usize),
    /// `send` with `MSG_OOB`: as [`Action::Write`], and the last byte is urgent.
    WriteUrgent(SocketId, Data),
    /// `recv` with `MSG_OOB`: answers [`Answer::Done`] with the urgent octet.
    ReadUrgent(SocketId),
    /// `select` for exceptions too: as [`Action::Select`], and answers [`Answer::Done`] with 2 when an urgent octet can
    /// be read, once no data are left before it.
    SelectUrgent(SocketId),
    /// `select`: waits until the socket has data to read, its end, or an error.
    Select(SocketId),
    /// `sendto`
    SendTo(SocketId, Endpoint, Data),
    /// `recvfrom`: as [`Action::Read`]; the context has the sender.
    ReceiveFrom(SocketId, usize),
    /// As [`Action::ReceiveFrom`], for so many nanoseconds at most, up to the next clock tick: then it
    /// fails with [`SocketError::TimedOut`]. The cost of the alarm that ends the call is left out.
    ReceiveWithin(SocketId, usize, u64),
    /// `setsockopt`
    SetOption(SocketId, SetOption),
    /// `SO_LOG`: data that the socket sends and receives are logged from now on.
    Log(SocketId),
    /// Tells the log that the program has converted bytes of this socket; no system call, and no time.
    Converted(SocketId, Conversion),
    /// The socket gets these buffer limits, sending and receiving, as if the kernel had been built
    /// with them; no system call.
    Reserve(SocketId, u32, u32),
    /// `shutdown`
    Shutdown(SocketId, Shutdown),
    /// `close`
    Close(SocketId),
    /// Sleeps for so many nanoseconds, up to the next clock tick.
    Sleep(u64),
    /// Reads all records of the kernel's probes that wait: answers [`Answer::Done`] with their number.
    ReadProbes,
    /// Uses the CPU in user mode for so many nanoseconds.
    Compute(u64),
    /// Adds one to a counter of the host, and wakes the processes that wait for it.
    Post(u32),
    /// Takes one from a counter of the host, waiting until there is one.
    Take(u32),
    /// The process ends; its sockets are closed.
    Exit,
}

/// A conversion of bytes by a layer inside a program, above its socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conversion {
    /// Which bytes.
    pub way: Way,
    /// The number of bytes.
    pub octets: u32,
    /// When it began, in nanoseconds.
    pub since_ns: u64,
}

/// Which way converted bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// The program writes them next.
    Out,
    /// It has read them last.
    In,
}

/// Data to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Data {
    /// Bytes of the [payload](crate::payload) pattern, from a position of the stream on.
    Payload {
        /// Position of the first byte.
        offset: u64,
        /// The number of bytes.
        len: usize,
    },
    /// These bytes.
    Bytes(Vec<u8>),
}

impl Data {
    /// The number of bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Payload { len, .. } => *len,
            Self::Bytes(bytes) => bytes.len(),
        }
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The result of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// There was none yet.
    Begin,
    /// It is done; for transfers the number of bytes.
    Done(u32),
    /// A new socket.
    Socket(SocketId),
    /// It failed.
    Failed(SocketError),
}

impl Answer {
    /// The socket that was made or accepted.
    pub fn socket(self) -> Option<SocketId> {
        match self {
            Self::Socket(id) => Some(id),
            _ => None,
        }
    }

    /// The bytes transferred; 0 for all else.
    pub fn bytes(self) -> u32 {
        match self {
            Self::Done(bytes) => bytes,
            _ => 0,
        }
    }
}

/// Something that a program measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// When it was noted, in nanoseconds.
    pub at_ns: u64,
    /// The process's number in the simulation.
    pub process: u32,
    /// The name of the measurement; the unit ends it.
    pub name: &'static str,
    /// The value.
    pub value: u64,
}

/// The view of a program while it decides.
pub struct ProgramContext<'a> {
    /// The time, in nanoseconds.
    pub now_ns: u64,
    /// The result of the action before.
    pub answer: Answer,
    /// The sender of the datagram that was read last.
    pub from: Endpoint,
    pub(crate) process: u32,
    pub(crate) data: &'a [u8],
    pub(crate) payload: &'a Payload,
    pub(crate) notes: &'a mut Vec<Note>,
    pub(crate) damage: &'a mut Vec<Damage>,
}

/// A byte that was read other than it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damage {
    /// When it was found, in nanoseconds.
    pub at_ns: u64,
    /// The process that found it.
    pub process: u32,
    /// Its position in the stream.
    pub offset: u64,
}

impl ProgramContext<'_> {
    /// The bytes that the last action read.
    pub fn data(&self) -> &[u8] {
        self.data
    }

    /// Notes a measurement.
    pub fn note(&mut self, name: &'static str, value: u64) {
        self.notes.push(Note { at_ns: self.now_ns, process: self.process, name, value });
    }

    /// As [`check_payload`](Self::check_payload), where octets kept apart may be missing: `last_apart` is the last
    /// position of one that is not behind its argument. Returns the position behind the bytes, or `None`.
    pub fn check_payload_without(
        &mut self,
        offset: u64,
        last_apart: impl Fn(u64) -> Option<u64>,
    ) -> Option<u64> {
        let (mut from, mut at) = (offset, 0);
        loop {
            let rest = &self.data[at..];
            let Some(difference) = self.payload.first_difference(from, rest) else {
                return Some(from + rest.len() as u64);
            };
            let Some(apart) = last_apart(difference).filter(|apart| *apart >= from) else {
                let damage =
                    Damage { at_ns: self.now_ns, process: self.process, offset: difference };
                self.damage.push(damage);
                return None;
            };
            at += (apart - from) as usize;
            from = apart + 1;
        }
    }

    /// Compares the bytes read with the payload from `offset` on; a difference fails the run.
    pub fn check_payload(&mut self, offset: u64) -> bool {
        let difference = self.payload.first_difference(offset, self.data);
        let damage = |offset| Damage { at_ns: self.now_ns, process: self.process, offset };
        self.damage.extend(difference.map(damage));
        difference.is_none()
    }
}
