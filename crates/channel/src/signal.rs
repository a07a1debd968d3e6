//! Alarms: how one end asks to be woken, and how the other does it.
//!
//! Who is about to sleep sets its alarm word, then looks once more whether what it waits for has
//! come; who makes something come then looks at the alarm. Between its two steps either side has a
//! barrier, so that at least one of them sees what the other did, and no wake-up is lost (the model in
//! this crate's tests tries all ways in which the steps can mix). An alarm says for which progress it
//! is set: it is answered once, and never for progress that its owner has seen already.

use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering, compiler_fence, fence};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use rustix::thread::{MembarrierCommand, membarrier};

use crate::error::{Error, system};
use crate::memory::{self, ALARM_AT, OwnSegment, PeerSegment};
use crate::settings::Means;

/// By which signal to wake: the low two bits of an alarm word.
const BY_FUTEX: u32 = 1;
const BY_SOCKET: u32 = 2;
const BY: u32 = 3;

/// The alarm of who sleeps until the other side's progress is beyond `awaited`.
///
/// The count is cut to 30 bits: what is waited for is at most 2^20 messages away.
pub(crate) fn alarm(means: Means, awaited: u64) -> u32 {
    let by = if means == Means::Socket { BY_SOCKET } else { BY_FUTEX };
    (awaited as u32) << 2 | by
}

/// Whether progress has come to where `alarm` was set for.
fn is_due(alarm: u32, progress: u64) -> bool {
    let ahead = ((progress as u32) << 2).wrapping_sub(alarm & !BY);
    // As a signed number: beyond, and not far behind.
    ahead.cast_signed() > 0
}

/// Sets or clears the alarm in one segment. Having set it, the caller looks again after
/// [`before_look`].
pub(crate) fn set(own: &OwnSegment, word: u32) {
    own.store32(ALARM_AT, word, Ordering::Relaxed);
}

/// What became of an alarm that was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asleep {
    /// What was waited for is there already; the alarm was taken back.
    No,
    /// The peers will answer it.
    Surely,
    /// The kernel gave no barrier, so that an answer may be lost: sleep for a short time only.
    Perhaps,
}

impl Asleep {
    /// For those who sleep on a descriptor of their own accord, as long as they like.
    pub fn for_descriptor(self) -> Result<bool, Error> {
        match self {
            Self::No => Ok(false),
            Self::Surely => Ok(true),
            Self::Perhaps => Err(system("membarrier")(Errno::NOSYS)),
        }
    }
}

/// The order between what is done and what is looked at afterwards, on the side that is awake.
///
/// Where the kernel offers membarrier(2), who goes to sleep makes the barrier for both sides, and the
/// side that sends at full speed needs none: it would cost more than all else that sending does.
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

    /// Between progress that was made visible and the look at alarms or news.
    #[inline]
    pub fn after_progress(self) {
        if self.by_sleeper {
            compiler_fence(Ordering::SeqCst);
        } else {
            fence(Ordering::SeqCst);
        }
    }
}

/// Between a word that was set for others, an alarm or news, and the look at their progress: for
/// this side and, as if they had executed it too, for all who registered. False when the kernel
/// refuses: what follows must then not rely on being woken.
pub(crate) fn before_look() -> bool {
    fence(Ordering::SeqCst);
    membarrier(MembarrierCommand::GlobalExpedited).is_ok()
}

/// Answers the peer's alarm, if there is a new one that is due. The caller has made its `progress`
/// visible and then kept the [order](Order). A peer that sets alarms without end costs one system
/// call for each message.
#[inline]
pub(crate) fn answer(
    peer: &PeerSegment,
    answered: &mut u32,
    progress: u64,
    word: &AtomicU32,
    socket: &OwnedFd,
) {
    let alarm = peer.load32(ALARM_AT, Ordering::Relaxed);
    if alarm != 0 && alarm != *answered && is_due(alarm, progress) {
        *answered = alarm;
        ring(alarm, word, socket);
    }
}

#[cold]
fn ring(alarm: u32, word: &AtomicU32, socket: &OwnedFd) {
    match alarm & BY {
        BY_FUTEX => memory::wake(word),
        // A full socket has signals that were not yet read; one at which nobody is needs none.
        BY_SOCKET => {
            let _ = rustix::net::send(socket, &[1], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        }
        _ => {}
    }
}

/// Takes a signal that waits at a socket, and says whether the peer has hung up. Descriptors that a
/// peer may have sent along are closed by the kernel.
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
    fn an_alarm_is_due_beyond_the_progress_that_it_was_set_at() {
        for awaited in [0, 7, (1 << 30) - 1, u64::from(u32::MAX), 1 << 40] {
            let alarm = alarm(Means::Futex, awaited);
            assert!(alarm != 0 && !is_due(alarm, awaited));
            assert!(is_due(alarm, awaited + 1) && is_due(alarm, awaited + (1 << 20)));
            assert!(!is_due(alarm, awaited.wrapping_sub(1)));
        }
    }
}
