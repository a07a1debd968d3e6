//! What was measured in a run: times, counts and lists, without a table of them.

mod distribution;
mod numbers;
mod sends;

pub use distribution::Distribution;
pub use sends::{LayerSamples, SendProfile, StageTime};

use crate::papers::WireRow;

/// What was measured in the repetitions of one case. Counts and sums are of all repetitions.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Measurement {
    /// Calls of each routine at the first host, by its C name, in the order of the model's list.
    pub calls: Vec<(&'static str, u64)>,
    /// Nanoseconds of CPU charged to each routine at the first host.
    pub routine_ns: Vec<(&'static str, u64)>,
    /// Octets that `m_copy` moved at the first host; shared clusters move none.
    pub copied_bytes: u64,
    /// Nanoseconds that each call or message took.
    pub call_ns: Distribution,
    /// Octets that the receiving program got.
    pub bytes: u64,
    /// Nanoseconds from the first write to the last octet read; of datagrams that no program reads, to
    /// the last send.
    pub transfer_ns: u64,
    /// What arrived of datagrams that no program reads.
    pub arrived: Option<Arrived>,
    /// TCP segments with data and datagrams, both ways.
    pub segments: u64,
    /// TCP segments without data, SYN, FIN and RST aside, both ways.
    pub acks: u64,
    /// Segments sent again.
    pub retransmitted: u64,
    /// Every packet of the first repetition, in the order in which the wire saw them.
    pub wire: Vec<WireRow>,
    /// System calls of the client in the first repetition.
    pub system_calls: Vec<SystemCall>,
    /// Times in which a process of a pipeline's stage had work, in the first repetition.
    pub phases: Vec<Phase>,
    /// Times of single packets in the protocol, of a recorded run on a kernel.
    pub packet_times: PacketTimes,
    /// Numbers that only this workload has.
    pub measures: Vec<Measure>,
    /// Where a message spends its time, of a sender on a kernel.
    pub sends: Option<SendProfile>,
}

/// Datagrams at the receiver's IP input queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrived {
    /// Octets of data.
    pub bytes: u64,
    /// Nanoseconds from the first write to the last arrival.
    pub ns: u64,
}

/// Microseconds that the protocol took for each packet.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PacketTimes {
    /// From one packet of a burst to the next, at point 3.
    pub sending_us: Vec<f64>,
    /// From point 6 to point 7.
    pub receiving_us: Vec<f64>,
}

/// A time in which a process had a piece of work, in nanoseconds of the model's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Phase {
    /// What it does with it, as `compute`.
    pub process: &'static str,
    /// When it got the piece.
    pub from_ns: u64,
    /// When it handed it on.
    pub to_ns: u64,
}

/// A number that a workload names itself: the mean of the repetitions.
#[derive(Debug, Clone, PartialEq)]
pub struct Measure {
    /// Ends with its unit, as `copy_percent`, `wait_ns` or `cells_per_s`; a count has none.
    pub name: &'static str,
    sum: f64,
    repetitions: u32,
}

impl Measure {
    /// What one repetition saw.
    pub fn new(name: &'static str, value: f64) -> Self {
        Self { name, sum: value, repetitions: 1 }
    }

    /// Mean of the repetitions; `None` when it is no number.
    pub fn value(&self) -> Option<f64> {
        Some(self.sum / f64::from(self.repetitions)).filter(|value| value.is_finite())
    }
}

/// A system call that a program of the model made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemCall {
    /// Start, in nanoseconds of the model's clock.
    pub at_ns: u64,
    /// Its name, as `write`.
    pub name: &'static str,
    /// Octets asked for; 0 where the call has none.
    pub asked: u64,
    /// What it returned: octets, or 0.
    pub returned: u64,
}

impl Measurement {
    /// Calls of the routine with this C name; 0 when it was never called.
    pub fn calls_of(&self, routine: &str) -> u64 {
        self.calls.iter().find(|(name, _)| *name == routine).map_or(0, |(_, calls)| *calls)
    }

    /// Seconds charged to the routine with this C name.
    pub fn seconds_of(&self, routine: &str) -> f64 {
        let found = self.routine_ns.iter().find(|(name, _)| *name == routine);
        found.map_or(0.0, |(_, ns)| *ns as f64 / 1e9)
    }

    /// Joins what two repetitions of one case saw; lists stay those of the first.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.call_ns.extend(other.call_ns.iter());
        let calls = self.calls.iter_mut().zip(other.calls);
        calls.for_each(|((_, sum), (_, calls))| *sum += calls);
        let times = self.routine_ns.iter_mut().zip(other.routine_ns);
        times.for_each(|((_, sum), (_, ns))| *sum += ns);
        self.copied_bytes += other.copied_bytes;
        self.bytes += other.bytes;
        self.transfer_ns += other.transfer_ns;
        let both = self.arrived.zip(other.arrived);
        self.arrived =
            both.map(|(one, more)| Arrived { bytes: one.bytes + more.bytes, ns: one.ns + more.ns });
        self.segments += other.segments;
        self.acks += other.acks;
        self.retransmitted += other.retransmitted;
        for (measure, more) in self.measures.iter_mut().zip(other.measures) {
            measure.sum += more.sum;
            measure.repetitions += more.repetitions;
        }
        self
    }

    /// The value of the measure with this name.
    pub fn measure(&self, name: &str) -> Option<f64> {
        self.measures.iter().find(|measure| measure.name == name)?.value()
    }

    /// Bits a second from the first write to the last octet read, or to the last arrival where no
    /// program reads: a queue that takes what the link has not carried yet adds nothing. `None` when
    /// nothing moved.
    pub fn throughput_bits_per_s(&self) -> Option<f64> {
        let read = Arrived { bytes: self.bytes, ns: self.transfer_ns };
        let Arrived { bytes, ns } = self.arrived.unwrap_or(read);
        (ns > 0).then(|| bytes as f64 * 8e9 / ns as f64)
    }
}
