//! Which programs an experiment runs.

use serde::Deserialize;

/// What the programs do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// `messages` sends of `message_bytes` each; over TCP to a reader, over UDP to a port.
    Send,
    /// `calls` remote calls with a string of `data_bytes`, echoed.
    RpcEcho,
    /// `total_bytes` written in buffers of `write_bytes` to a reader that drops them.
    Discard,
    /// `pieces` pieces of work through one stage of a distributed application: three processes of
    /// the second host that receive, compute and send on. The first host is the stage before and
    /// the one after.
    Pipeline,
    /// `packets` packets of `data_bytes` each through the ATM driver of one machine.
    AtmSend,
    /// `calls` messages of `data_bytes` from one machine to another over ATM, each returned.
    AtmEcho,
    /// `messages` messages of 16 KB between two machines over ATM cells, some of which are lost.
    AtmLoss,
    /// `accesses` words written to a card one by one, with `work_cycles` after each.
    BusAccess,
    /// `messages` messages from a network interface to a program, or to the network again, past a second-level cache.
    CacheInterface,
    /// Other people's programs, as the table `program` of the file has them; on a kernel alone.
    Program,
    /// `clients` processes that make VMTP transactions one after the other for `run_ms`, on an
    /// Ethernet.
    VmtpCalls,
}

impl Workload {
    /// The word in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::RpcEcho => "rpc-echo",
            Self::Discard => "discard",
            Self::Pipeline => "pipeline",
            Self::Program => "program",
            Self::AtmSend => "atm-send",
            Self::AtmEcho => "atm-echo",
            Self::AtmLoss => "atm-loss",
            Self::BusAccess => "bus-access",
            Self::CacheInterface => "cache-interface",
            Self::VmtpCalls => "vmtp-calls",
        }
    }

    /// Whether its hosts have a protocol stack, which has a personality.
    pub fn has_stack(self) -> bool {
        !self.has_measures_alone() && self != Self::VmtpCalls
    }

    /// Whether it runs on a machine without programs of its own, and gives numbers and no traces.
    pub(super) fn has_measures_alone(self) -> bool {
        self.is_atm() || self == Self::CacheInterface
    }

    /// Whether it runs the ATM driver or its bus alone, on [`AtmParameters`](super::AtmParameters).
    pub(super) fn is_atm(self) -> bool {
        matches!(self, Self::AtmSend | Self::AtmEcho | Self::AtmLoss | Self::BusAccess)
    }
}
