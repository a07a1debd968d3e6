//! Alarms: how one end asks to be woken, and how the other does it.
//!
//! Who is about to sleep sets its alarm word, then looks once more whether what it waits for has
//! come; who makes something come then looks at the alarm. Between the two steps either side has a
//! sequentially consistent fence, so that at least one of them sees what the other did, and no
//! wake-up is lost (see the model in this crate's tests). An alarm has a running number, so that it
//! is answered once.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use crate::memory::{self, ALARM_AT, OwnSegment, PeerSegment};
use crate::settings::Means;

/// By which signal to wake: the low two bits of an alarm word.
const BY_FUTEX: u32 = 1;
const BY_SOCKET: u32 = 2;
const BY: u32 = 3;

/// The alarm of this end, in a segment of its own.
#[derive(Debug, Default)]
pub(crate) struct Alarm {
    number: u32,
    is_set: bool,
}

impl Alarm {
    /// The next alarm: one word for all segments in which it is to be set.
    pub fn next(&mut self, means: Means) -> u32 {
        self.number = self.number.wrapping_add(1);
        self.is_set = true;
        let by = if means == Means::Socket { BY_SOCKET } else { BY_FUTEX };
        self.number << 2 | by
    }

    /// Whether there is an alarm to take back; there is none afterwards.
    pub fn clear(&mut self) -> bool {
        std::mem::take(&mut self.is_set)
    }
}

/// Sets or clears the alarm in one segment. Before it looks again the caller makes the fence.
pub(crate) fn set(own: &OwnSegment, word: u32) {
    own.store32(ALARM_AT, word, Ordering::Relaxed);
}

/// Orders what was done before with what is looked at after, for both sides of an alarm.
pub(crate) fn settle() {
    fence(Ordering::SeqCst);
}

/// Answers the peer's alarm, if there is a new one. The caller has made its progress visible and
/// then [settled](settle). A peer that sets alarms without end costs one system call for each.
#[inline]
pub(crate) fn answer(peer: &PeerSegment, answered: &mut u32, word: &AtomicU32, socket: &OwnedFd) {
    let alarm = peer.load32(ALARM_AT, Ordering::Relaxed);
    if alarm != 0 && alarm != *answered {
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

/// Takes the signals that wait at a socket, a bounded number of them, and says whether the peer has
/// hung up. Descriptors that a peer may have sent along are closed by the kernel.
pub(crate) fn drain(socket: &OwnedFd) -> bool {
    let mut signal = [0_u8; 8];
    for _ in 0..64 {
        match rustix::net::recv(socket, &mut signal, RecvFlags::DONTWAIT) {
            Ok((0, _)) => return true,
            Ok(_) | Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return false,
            Err(_) => return true,
        }
    }
    false
}
