//! Wake-ups: the request of one end, and the answer of the other.
//!
//! An end that is about to sleep writes its request word, then checks the ring once more. An end that
//! makes progress publishes it, then reads the peer's request word. Between its two steps either side
//! has a barrier. So at least one of them sees the other's write, and no wake-up is missed; the model
//! in this crate's tests tries every order of the steps. A request names the progress that it waits
//! for: it is answered once, and never for progress that its owner has seen already.

use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering, compiler_fence, fence};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use rustix::thread::{MembarrierCommand, membarrier};

use crate::error::{Error, system};
use crate::memory::{self, OwnSegment, PeerSegment, WAKEUP_AT};
use crate::settings::Means;

/// By which means to wake: the low two bits of a request word.
const BY_FUTEX: u32 = 1;
const BY_SOCKET: u32 = 2;
const BY: u32 = 3;

/// The request word of an end that sleeps until the other side's progress is beyond `awaited`.
///
/// The count is cut to 30 bits: the awaited message is at most 2^20 messages away.
fn word(means: Means, awaited: u64) -> u32 {
    let by = if means == Means::Socket { BY_SOCKET } else { BY_FUTEX };
    (awaited as u32) << 2 | by
}

/// Whether `progress` is beyond the progress that the request waits for.
fn is_due(request: u32, progress: u64) -> bool {
    let ahead = ((progress as u32) << 2).wrapping_sub(request & !BY);
    // As a signed number: beyond, and not far behind.
    ahead.cast_signed() > 0
}

/// Requests a wake-up, in one segment, for progress beyond `awaited`. The caller then checks the ring
/// again, after [`before_recheck`].
pub(crate) fn arm(own: &OwnSegment, means: Means, awaited: u64) {
    own.store32(WAKEUP_AT, word(means, awaited), Ordering::Relaxed);
}

/// Takes the request in one segment back.
pub(crate) fn disarm(own: &OwnSegment) {
    own.store32(WAKEUP_AT, 0, Ordering::Relaxed);
}

/// The state after a wake-up was requested and the ring checked again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Armed {
    /// The progress is there already; the request was taken back.
    AlreadyDue,
    /// The peers will give the wake-up.
    Reliably,
    /// The kernel gave no barrier, so that the wake-up may be missed: sleep for a short time only.
    Unreliably,
}

impl Armed {
    /// For a caller that sleeps on a descriptor itself, without a limit of time.
    pub fn for_descriptor(self) -> Result<bool, Error> {
        match self {
            Self::AlreadyDue => Ok(false),
            Self::Reliably => Ok(true),
            Self::Unreliably => Err(system("membarrier")(Errno::NOSYS)),
        }
    }
}

/// The barrier between progress and the read of the peer's request, on the side that is awake.
///
/// Where the kernel offers membarrier(2), the side that goes to sleep makes the barrier for both. The
/// side that is awake then needs none: a fence would cost more than the rest of a send.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Order {
    by_sleeper: bool,
}

impl Order {
    /// Registers this process for the barriers of others, once.
    pub fn new() -> Self {
        static REGISTERED: OnceLock<bool> = OnceLock::new();
        let register = || membarrier(MembarrierCommand::RegisterGlobalExpedited).is_ok();
        Self { by_sleeper: *REGISTERED.get_or_init(register) }
    }

    /// Between the store that publishes progress and the load of a request word or of arrivals.
    #[inline]
    pub fn after_progress(self) {
        if self.by_sleeper {
            compiler_fence(Ordering::SeqCst);
        } else {
            fence(Ordering::SeqCst);
        }
    }
}

/// The barrier between a store for others, of a request word or an arrival, and the load of their
/// progress: for this side and, as if they had executed it too, for all registered processes. False
/// when the kernel refuses: the caller must then not rely on being woken.
pub(crate) fn before_recheck() -> bool {
    fence(Ordering::SeqCst);
    membarrier(MembarrierCommand::GlobalExpedited).is_ok()
}

/// Wakes the peer, if it has a new request that is due. The caller has published its `progress` and
/// then passed the [barrier](Order). A peer that requests wake-ups without end costs one system call
/// for each message.
#[inline]
pub(crate) fn notify(
    peer: &PeerSegment,
    answered: &mut u32,
    progress: u64,
    word: &AtomicU32,
    socket: &OwnedFd,
) {
    let request = peer.load32(WAKEUP_AT, Ordering::Relaxed);
    if request != 0 && request != *answered && is_due(request, progress) {
        *answered = request;
        wake(request, word, socket);
    }
}

#[cold]
fn wake(request: u32, word: &AtomicU32, socket: &OwnedFd) {
    match request & BY {
        BY_FUTEX => memory::wake(word),
        // A full socket has unread signals already; a closed one needs none.
        BY_SOCKET => {
            let _ = rustix::net::send(socket, &[1], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        }
        _ => {}
    }
}

/// Takes a signal from a socket's receive queue. True when the peer has hung up. The kernel closes
/// descriptors that a peer may have sent along.
pub(crate) fn take(socket: &OwnedFd) -> bool {
    match rustix::net::recv(socket, &mut [0_u8; 8], RecvFlags::DONTWAIT) {
        Ok((bytes, _)) => bytes == 0,
        Err(errno) => !matches!(errno, Errno::AGAIN | Errno::INTR),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_due_beyond_the_progress_that_it_was_made_at() {
        for awaited in [0, 7, (1 << 30) - 1, u64::from(u32::MAX), 1 << 40] {
            let request = word(Means::Futex, awaited);
            assert!(request != 0 && !is_due(request, awaited));
            assert!(is_due(request, awaited + 1) && is_due(request, awaited + (1 << 20)));
            assert!(!is_due(request, awaited.wrapping_sub(1)));
        }
    }
}
