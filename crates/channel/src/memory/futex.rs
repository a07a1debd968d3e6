//! Sleeping on words of shared memory (futex(2)).

use std::sync::atomic::AtomicU32;
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::futex::{self, Flags, WaitFlags, WaitvFlags};
use rustix::time::{ClockId, Timespec};

use crate::error::{Error, system};

/// Words that one sleeper can wait on (`FUTEX_WAITV_MAX`).
pub(crate) const WORDS_MAX: usize = 128;

/// Sleeps until one of `words` is woken or no longer has its value, at most for `timeout`. May also
/// wake for no reason. At most [`WORDS_MAX`] words; needs Linux 5.16.
pub(crate) fn sleep_on(words: &[(&AtomicU32, u32)], timeout: Duration) -> Result<(), Error> {
    let waits: Vec<futex::Wait> = words.iter().map(|(word, value)| wait_of(word, *value)).collect();
    let until = absolute(timeout);
    match futex::waitv(&waits, WaitvFlags::empty(), Some(&until), ClockId::Monotonic) {
        Ok(_) | Err(Errno::AGAIN | Errno::TIMEDOUT | Errno::INTR) => Ok(()),
        Err(errno) => Err(system("futex_waitv")(errno)),
    }
}

/// Wakes all sleepers on `word`, in any process.
pub(crate) fn wake(word: &AtomicU32) {
    // Only a bad address can fail, and a reference is not one.
    let _ = futex::wake(word, Flags::empty(), i32::MAX as u32);
}

fn wait_of(word: &AtomicU32, value: u32) -> futex::Wait {
    let mut wait = futex::Wait::new();
    wait.val = u64::from(value);
    wait.uaddr = word.as_ptr().cast::<std::ffi::c_void>().into();
    wait.flags = WaitFlags::SIZE_U32;
    wait
}

fn absolute(timeout: Duration) -> Timespec {
    let now = rustix::time::clock_gettime(ClockId::Monotonic);
    let nanoseconds = now.tv_nsec + i64::from(timeout.subsec_nanos());
    let seconds = i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX / 2);
    Timespec {
        tv_sec: now.tv_sec.saturating_add(seconds).saturating_add(nanoseconds / 1_000_000_000),
        tv_nsec: nanoseconds % 1_000_000_000,
    }
}
