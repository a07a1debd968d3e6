//! The circumstances of one simulated recording, all of them from its seed.

use super::rng::Rng;

/// Circumstances of a recording.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) cpus: usize,
    /// Places of each CPU's list, a power of two.
    pub(super) list_records: u64,
    /// Places of the ring of events.
    pub(super) ring_events: usize,
    /// Places of the probes' table of connections.
    pub(super) slots: usize,
    /// TCP connections that are open at once, and in all.
    pub(super) streams: usize,
    pub(super) streams_in_all: usize,
    /// Bytes that each end of a connection writes, as fast as 52 GB/s; any number at any rate without.
    pub(super) bulk: Option<u64>,
    /// Pairs of datagram sockets.
    pub(super) flows: usize,
    /// Sockets that the flows send to.
    pub(super) readers: usize,
    /// Hits after which the traffic ends.
    pub(super) hits: u64,
    /// The traffic is under way when the recording ends.
    pub(super) ends_early: bool,
    /// Mean time between two stops of the recorder, and the length of one.
    pub(super) stall_every_ns: u64,
    pub(super) stall_ns: u64,
    /// The kernel runs no program at one hit in so many, and counts that; 0: it always runs them.
    pub(super) not_run_in: u64,
    /// A process has the first CPU for so long, so often. In softirqs that interrupt it the kernel runs no program
    /// for segments, and counts nothing. 0: there is no such process.
    pub(super) untraced_ns: u64,
    pub(super) untraced_every_ns: u64,
    /// Whether all datagrams pass a queueing discipline that is always full.
    pub(super) stands: bool,
    /// A program is interrupted before it has finished its record, at one hit in so many.
    pub(super) unfinished_in: u64,
    /// One packet in so many is dropped.
    pub(super) dropped_in: u64,
    /// Sampling leaves a recorded connection out before one look at the events in so many.
    pub(super) left_out_in: u64,
}

impl Plan {
    /// No traffic and no faults.
    pub(super) fn quiet() -> Self {
        Self {
            cpus: 2,
            list_records: 1_024,
            ring_events: 4_096,
            slots: 16,
            streams: 0,
            streams_in_all: 0,
            bulk: None,
            flows: 0,
            readers: 1,
            hits: 10_000,
            ends_early: false,
            stall_every_ns: 0,
            stall_ns: 0,
            not_run_in: 0,
            untraced_ns: 0,
            untraced_every_ns: 0,
            stands: false,
            unfinished_in: 0,
            dropped_in: 0,
            left_out_in: 0,
        }
    }

    pub(super) fn of(rng: &mut Rng) -> Self {
        let once = |rng: &mut Rng, calls, value: u64| if rng.once_in(calls) { value } else { 0 };
        let fast = rng.once_in(3);
        let mut plan = Self {
            cpus: rng.range(1, 9) as usize,
            list_records: 128 << rng.range(0, 4),
            ring_events: if rng.once_in(4) { rng.range(2, 20) as usize } else { 4_096 },
            slots: rng.range(2, 24) as usize,
            streams: rng.range(0, 5) as usize,
            streams_in_all: rng.range(1, 9) as usize,
            bulk: None,
            flows: if rng.once_in(2) { rng.range(1, 9) as usize } else { 0 },
            readers: rng.range(1, 4) as usize,
            hits: if rng.once_in(20) { 20_000 } else { rng.range(300, 4_000) },
            ends_early: rng.once_in(4),
            stall_every_ns: if rng.once_in(5) { 0 } else { rng.range(1, 200) * 1_000_000 },
            stall_ns: if fast {
                rng.range(5, 400) * 1_000_000
            } else {
                rng.range(5, 3_000) * 1_000_000
            },
            not_run_in: {
                let calls = rng.range(20, 500);
                once(rng, 4, calls)
            },
            untraced_ns: 0,
            untraced_every_ns: 0,
            stands: false,
            unfinished_in: {
                let calls = rng.range(5, 300);
                once(rng, 2, calls)
            },
            dropped_in: {
                let calls = rng.range(10, 500);
                once(rng, 2, calls)
            },
            left_out_in: {
                let calls = rng.range(1, 60);
                once(rng, 3, calls)
            },
        };
        if rng.once_in(40) {
            plan.transfer_much(rng);
        } else if plan.flows > 0 {
            plan.stands = rng.once_in(2);
            if rng.once_in(2) {
                plan.leave_untraced(rng);
            }
        }
        plan
    }

    /// A process in whose time the kernel runs no program in softirqs. No other hits are missed uncounted then.
    fn leave_untraced(&mut self, rng: &mut Rng) {
        self.streams = 0;
        self.untraced_every_ns = rng.range(1, 40) * 1_000_000;
        self.untraced_ns = self.untraced_every_ns / rng.range(2, 8);
    }

    /// Streams that wrap their sequence numbers, and stalls in which they do.
    fn transfer_much(&mut self, rng: &mut Rng) {
        self.bulk = Some(rng.range(12, 48) << 30);
        self.streams = 1;
        self.streams_in_all = 1;
        self.slots = self.slots.max(4);
        self.flows = self.flows.min(1);
        self.hits = u64::MAX;
        self.ends_early = false;
        self.stall_every_ns = 40_000_000;
        self.stall_ns = rng.range(40, 160) * 1_000_000;
    }
}
