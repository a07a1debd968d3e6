//! The programs of an experiment, as processes of the model.
//!
//! A program here is a state machine that the model asks for its next action. It writes its
//! observations into a [`Log`] that it shares with the run, which reads it at the end.

mod phased;
mod player;
mod portmapper;
mod rpc_echo;
mod stream;
mod traced;

use std::cell::RefCell;
use std::rc::Rc;

use sockscope_experiment::measurement::{Phase, SystemCall};
use sockscope_sim::{Action, Answer};
use sockscope_stack::SocketId;

pub(crate) use phased::Phased;
pub(crate) use player::{PlayTask, PlayedSide, Player};
pub(crate) use portmapper::Portmapper;
pub(crate) use rpc_echo::{ECHO, EchoClient, EchoServer, EchoTask};
pub(crate) use stream::{
    DatagramWriter, ReadTask, StreamReader, StreamWriter, UrgentWrites, WriteTask,
};
pub(crate) use traced::Traced;

/// The observations of the programs of one run.
#[derive(Debug, Default)]
pub(crate) struct Log {
    /// Nanoseconds of each call or message.
    pub call_ns: Vec<u64>,
    /// When the first write began.
    pub first_write_ns: Option<u64>,
    /// When the last write returned.
    pub last_write_ns: u64,
    /// When the last octet was read.
    pub last_read_ns: u64,
    /// Urgent octets that the receiving program got by themselves.
    pub urgent: u64,
    /// Octets that the receiving program got.
    pub bytes: u64,
    /// System calls of the first program.
    pub system_calls: Vec<SystemCall>,
    /// When the processes of a pipeline's stage had work, in the order of the ends.
    pub phases: Vec<Phase>,
    /// Why a program gave up; none may.
    pub failure: Option<String>,
    /// Programs that ended.
    pub ended: u32,
}

/// The log of a run, shared by its programs.
pub(crate) type SharedLog = Rc<RefCell<Log>>;

/// Marks the run as failed.
fn fail(log: &SharedLog, what: String) -> Action {
    log.borrow_mut().failure.get_or_insert(what);
    Action::Exit
}

/// Ends a program that did all it was to do.
fn end(log: &SharedLog) -> Action {
    log.borrow_mut().ended += 1;
    Action::Exit
}

/// The socket that an answer brings, or why it is missing.
fn socket_of(answer: Answer) -> Result<SocketId, String> {
    answer.socket().ok_or_else(|| format!("expected a socket, got {answer:?}"))
}

/// Octets moved by a call that must not fail.
fn moved(answer: Answer) -> Result<usize, String> {
    match answer {
        Answer::Done(bytes) => Ok(bytes as usize),
        other => Err(format!("expected octets, got {other:?}")),
    }
}
