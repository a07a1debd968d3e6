//! Probe points of a channel: when a message passed which of the eight points, and its bytes.
//!
//! A channel passes points 1, 2, 7 and 8; the others belong to the kernel's network code, which it
//! does not use. Times are `CLOCK_MONOTONIC` in nanoseconds, the clock of live records, so that one
//! trace can hold both ends and the kernel's probes. Without an observer no clock is read.

use sockscope_record::{FlowId, Kind, Point, Record};

/// A message passed a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// When, in nanoseconds of `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// `SendEnqueue`: the slot is filled. `SendDequeue`: it is about to be signalled; read before
    /// the signal, so that no receiver sees the message earlier. `ReceiveEnqueue`: the receiver saw
    /// it. `ReceiveDequeue`: the receiver has read it, and gives the slot back.
    pub point: Point,
    /// [`Peer::id`](crate::Peer) of the sender at a receiving end; 0 at a sending end, whose
    /// messages go to all its receivers.
    pub peer: u32,
    /// Number of the message in the sender's stream, from 0 on.
    pub number: u64,
    /// Bytes that the sender had sent before, as the sender reports them.
    pub offset: u64,
    /// Bytes of the message.
    pub len: u32,
}

impl Event {
    /// The event as a record of flow `flow`.
    pub fn record(&self, flow: FlowId) -> Record {
        Record {
            at_ns: self.at_ns,
            offset: self.offset,
            flow,
            len: self.len,
            kind: Kind::from(self.point),
            ..Record::default()
        }
    }
}

/// Called for each message that passes a point. It runs within the call, so it should be quick.
pub trait Observer {
    /// Whether to call it at all; `false` removes the probes from the code.
    const ACTIVE: bool = true;

    /// A message passed a point.
    fn passed(&mut self, event: Event);
}

/// Observes nothing and costs nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unobserved;

impl Observer for Unobserved {
    const ACTIVE: bool = false;

    fn passed(&mut self, _: Event) {}
}

impl<F: FnMut(Event)> Observer for F {
    fn passed(&mut self, event: Event) {
        self(event);
    }
}

/// `CLOCK_MONOTONIC` in nanoseconds.
pub(crate) fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    // The clock counts from the start of the machine: never negative.
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
