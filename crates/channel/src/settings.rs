//! Settings of an end of a channel: sizes, limits, kinds of waits.

use std::time::{Duration, Instant};

use crate::memory::Geometry;

/// Sizes and limits of one end. All memory that the end may ever use follows from them.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Slots of a sending end: a power of two, 2 to 2^20. Bounds the messages under way.
    pub slots: u32,
    /// Bytes that a slot of a sending end holds, 1 to 2^28. A message is at most as long.
    pub slot_bytes: u32,
    /// The rule of a sending end when its slots are full.
    pub when_full: WhenFull,
    /// Peers that an end takes at once, 1 to 1,024; more are rejected.
    pub peers_max: u32,
    /// Largest segment of a peer that a receiving end maps; a peer with a larger one is rejected.
    pub segment_bytes_max: u64,
    /// The peers that an end accepts.
    pub trust: Trust,
    /// The longest time of a set-up before it fails.
    pub setup_timeout: Duration,
}

impl Default for Settings {
    /// 256 slots of 2,032 bytes (2 KiB with the slot's header), back-pressure, 64 peers, segments up
    /// to 64 MiB, peers of the same user, 5 s for set-up.
    fn default() -> Self {
        Self {
            slots: 256,
            slot_bytes: 2_032,
            when_full: WhenFull::Wait,
            peers_max: 64,
            segment_bytes_max: 64 << 20,
            trust: Trust::SameUser,
            setup_timeout: Duration::from_secs(5),
        }
    }
}

impl Settings {
    /// Checks the ranges; returns the shape of a sending end's segment, or the expected value.
    pub(crate) fn geometry(&self) -> Result<Geometry, &'static str> {
        if !(1..=1_024).contains(&self.peers_max) {
            return Err("1 to 1,024 peers");
        }
        Geometry::new(self.slots, self.slot_bytes)
    }
}

/// The rule of a sending end when a receiver has not yet read the next slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenFull {
    /// It waits, as its call requires: nothing is lost, and the slowest receiver sets the pace.
    Wait,
    /// It overwrites the oldest message: it never waits, and each receiver counts lost messages.
    Overwrite,
}

/// The peers that an end accepts, by the user that the kernel names for the other side's socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// Processes of the same effective user, and of root.
    SameUser,
    /// Every process in the network namespace. Messages are then as trustworthy as their senders.
    Anybody,
}

/// The wait of a call for a message or for a free slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    /// The means of the wait.
    pub by: Means,
    /// The longest wait, from the beginning of the call on; `None` for ever.
    pub timeout: Option<Duration>,
}

/// The means by which a call waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Means {
    /// Not at all.
    Nothing,
    /// Looks at the slot again and again. Shortest latency, one CPU in full use.
    Spin,
    /// Sleeps on the slot's signal word (futex(2)). A peer's death is noticed within 50 ms.
    Futex,
    /// Sleeps on the channel's socket (poll(2)). A peer's death is noticed at once.
    Socket,
}

impl Wait {
    /// Do not wait.
    pub const NOT: Self = Self { by: Means::Nothing, timeout: None };
    /// Look again and again, for ever.
    pub const SPIN: Self = Self { by: Means::Spin, timeout: None };
    /// Sleep on the signal word, for ever.
    pub const FUTEX: Self = Self { by: Means::Futex, timeout: None };
    /// Sleep on the sockets, for ever.
    pub const SOCKET: Self = Self { by: Means::Socket, timeout: None };

    /// The same for at most `timeout`.
    #[must_use]
    pub const fn within(self, timeout: Duration) -> Self {
        Self { timeout: Some(timeout), ..self }
    }

    /// The end of the wait; `None` for never, also where the time is beyond the range of `Instant`.
    pub(crate) fn deadline(self) -> Option<Instant> {
        self.timeout.and_then(|timeout| Instant::now().checked_add(timeout))
    }
}
