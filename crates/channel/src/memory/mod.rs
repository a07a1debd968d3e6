//! Shared memory: its layout, and the two kinds of mapping.
//!
//! Every segment has one writer for life. A sending end owns a *data* segment with the slots, each
//! receiver of it a *control* segment of one page; each maps the other's read-only, and the kernel
//! refuses it anything else (`F_SEAL_FUTURE_WRITE`, fcntl(2)). So no end can change another one's
//! data, and a sender's slots look alike to all its receivers, even with a hostile one among them.
//!
//! Words lie 128 bytes apart where different processes write them, because CPUs fetch lines of 64
//! bytes in pairs.

mod futex;
mod geometry;
mod segment;

pub(crate) use futex::{WORDS_MAX, sleep_on, wake};
pub(crate) use geometry::{CONTROL_BYTES, Geometry, SlotWord};
pub(crate) use segment::{OwnSegment, PeerSegment, duplicate};

/// Both segments: their owner's progress, as a count of messages (64 bits). Its low half is the word
/// on which the other side sleeps.
pub(crate) const PROGRESS_AT: usize = 0;

/// Both segments: the owner's [request for a wake-up](crate::wakeup), 0 while it is awake (32 bits).
pub(crate) const WAKEUP_AT: usize = 128;

/// Where the low half of a 64-bit word lies.
pub(crate) const LOW_HALF_AT: usize = if cfg!(target_endian = "little") { 0 } else { 4 };
