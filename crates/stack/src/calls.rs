//! System calls that move data or wait, as state machines.
//!
//! A call advances by steps. Between two steps soft interrupts may run, as they do in a kernel that
//! lowers its priority there; a step itself is one piece. A sleeping call is stepped again once its
//! channel is woken, and looks at everything anew.

mod connect;
mod receive;
mod send;
mod urgent;

pub use connect::{AcceptCall, ConnectCall};
pub use receive::ReceiveCall;
pub use send::SendCall;

use crate::effect::{Channel, Effect};
use crate::meter::Meter;
use crate::routine::{Routine, Work};
use crate::sockbuf::{ADDRESS_BYTES, SockBuf};
use crate::socket::SocketError;

/// The state of a call after one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Step it again; soft interrupts first.
    Continue,
    /// Step it again once this is woken.
    Sleep(Channel),
    /// It has ended, with a number of bytes or of a socket; 0 without one.
    Done(Result<u32, SocketError>),
}

/// Progress of a call after one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// There is a next step.
    Continue,
    /// There is a next step, and this one only copied.
    Copied,
    /// Another process has the buffer's lock.
    LockWait,
    /// No data to receive yet, or no space to send.
    Blocked,
    /// The call has ended.
    Done,
}

impl Progress {
    /// The result of the step: a call that waits sleeps on `lock` or `data`; one that has ended has
    /// `result`.
    fn step(self, lock: Channel, data: Channel, result: Result<u32, SocketError>) -> Step {
        match self {
            Self::Continue | Self::Copied => Step::Continue,
            Self::LockWait => Step::Sleep(lock),
            Self::Blocked => Step::Sleep(data),
            Self::Done => Step::Done(result),
        }
    }
}

/// `sblock`: whether the buffer is now locked for the caller; else another process works on it.
fn lock(buffer: &mut SockBuf) -> bool {
    if buffer.is_locked {
        buffer.is_lock_wanted = true;
        return false;
    }
    buffer.is_locked = true;
    true
}

/// `sbunlock`: others may work on the buffer again.
fn unlock(buffer: &mut SockBuf, channel: Channel, meter: &mut Meter) {
    buffer.is_locked = false;
    if buffer.is_lock_wanted {
        buffer.is_lock_wanted = false;
        meter.effect(Effect::Wakeup(channel));
    }
}

/// `getsock`: a call on a socket by its descriptor.
fn count_getsock(meter: &mut Meter) {
    meter.call(Routine::Getsock, Work::NONE);
    meter.call(Routine::Getf, Work::NONE);
}

/// `sockargs`, all but the mbuf that it gets: the address is copied in.
fn count_sockargs(meter: &mut Meter) {
    meter.call(Routine::Sockargs, Work::NONE);
    meter.call(Routine::Copyin, Work::bytes(ADDRESS_BYTES as usize));
}
