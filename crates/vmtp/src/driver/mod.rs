//! The engines on real sockets: UDP, which needs no rights, and IP protocol 81, which does.
//!
//! [`Caller`] makes calls and waits for them, or is polled; [`Service`] serves. Both own one socket
//! and use one thread. Times are those of the monotonic clock.

mod caller;
mod filter;
mod link;
mod route;
mod service;
mod trace;

pub use caller::{CallError, Caller};
pub use link::{Link, LinkError, PORT, Transport, group_address};
pub use route::{rate_at, rate_to};
pub use service::Service;
pub use trace::Trace;

use std::time::Duration;

use crate::Config;
use crate::wire::{HEADER_BYTES, TRAILER_BYTES};

/// The longest wait for a packet, and so the longest delay of a caller's stop.
const WAIT_MAX: Duration = Duration::from_millis(10);

/// Octets of time around a packet of VMTP on Ethernet: its preamble, header, check sequence and silence, and
/// headers of IP and UDP.
const AROUND_BYTES: usize = 38 + 20 + 8;

impl Config {
    /// For an Ethernet of this rate, where it is known; without it there is no rate control.
    pub fn on_ethernet(self, bits_per_s: Option<u64>) -> Self {
        match bits_per_s {
            Some(bits_per_s) => self.at_rate(bits_per_s, AROUND_BYTES),
            None => self,
        }
    }

    /// For a network whose packets carry `payload_bytes` of UDP or IP payload; a group of 16 KiB in one
    /// packet where they are long enough, as on loopback.
    pub fn for_payload(payload_bytes: usize) -> Self {
        let group = HEADER_BYTES + crate::wire::GROUP_BYTES + TRAILER_BYTES;
        Self { packet_bytes: payload_bytes.min(group), ..Self::default() }
    }
}

/// `CLOCK_MONOTONIC` in nanoseconds, the clock of all records of this host.
fn now_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    // Monotonic time begins at 0 and is normalized.
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The wait for a packet when something is due at `due_ns`.
fn wait_for(due_ns: Option<u64>, now_ns: u64) -> Duration {
    let due = due_ns.map(|due_ns| Duration::from_nanos(due_ns.saturating_sub(now_ns)));
    due.unwrap_or(WAIT_MAX).min(WAIT_MAX)
}
