//! The figures of a level.

use sockscope_experiment::measurement::Distribution;

use super::level::Level;
use super::plan::Plan;
use crate::conditions::Conditions;

/// The result of a measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// The messages and the network.
    pub plan: Plan,
    /// By level. `datagram` is there twice where it is one of several: the second is a control.
    pub rows: Vec<Row>,
    /// The machine, and others at work on it.
    pub conditions: Conditions,
}

/// One level.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Which.
    pub level: Level,
    /// The same level once more: the difference is that of two equal measurements.
    pub is_control: bool,
    /// Its figures, or the error that left it without.
    pub outcome: Result<Figures, String>,
}

/// The cost of a level.
#[derive(Debug, Clone, PartialEq)]
pub struct Figures {
    /// Messages that were sent.
    pub sent: u64,
    /// Deliveries that a network without loss would have: one for each message and receiver that is to get it.
    pub expected: u64,
    /// Different deliveries.
    pub delivered: u64,
    /// Deliveries that were there before.
    pub repeated: u64,
    /// Messages with other content than they were sent with.
    pub damaged: u64,
    /// Deliveries behind that of a message with a higher number, at the same receiver.
    pub out_of_order: u64,
    /// From the first planned time to the last delivery.
    pub elapsed_ns: u64,
    /// From the planned time of a message to its delivery.
    pub latency_ns: Distribution,
    /// Datagrams that both ends sent, answers included.
    pub packets: u64,
    /// Octets of IP packets that both ends sent.
    pub octets: u64,
    /// CPU time of the sending thread, with the kernel's work for it.
    pub sender_cpu_ns: u64,
    /// CPU time of the receiving threads.
    pub receiver_cpu_ns: u64,
    /// Packets that the wire dropped; `None` without a wire.
    pub dropped: Option<u64>,
}

impl Figures {
    /// Deliveries that did not happen.
    pub fn lost(&self) -> u64 {
        self.expected.saturating_sub(self.delivered)
    }

    /// Of a total, the part of one message.
    pub fn by_message(&self, total: u64) -> f64 {
        total as f64 / self.sent.max(1) as f64
    }
}
