//! Virtual time for the model stacks: hosts, processes, links.
//!
//! A [`Simulation`] runs a [`Scenario`]: hosts with a [`sockscope_stack::Stack`] each, a CPU on
//! which every routine takes the time of its [`Machine`], processes under the scheduler of 4.3BSD,
//! and links with faults. [`Program`]s decide the processes' actions. Observations at the eight
//! points go to a [`RecordSink`].
//!
//! Time is integer nanoseconds, chance depends on the scenario's seed alone, and nothing reads a
//! clock or follows hash order: the same scenario and programs give the same records, byte by byte.

pub mod cache;
pub mod cpu;
mod event;
mod host;
mod interrupts;
pub mod link;
pub mod machine;
mod medium;
mod network;
pub mod payload;
mod probe_list;
mod process;
pub mod program;
pub mod programs;
pub mod random;
pub mod scenario;
pub mod scheduler;
mod shared;
mod simulation;
pub mod sink;
pub mod turbochannel;

pub use host::{FAST_TIMER_NS, Host, SLOW_TIMER_NS, TIMERS_NS};
pub use link::{
    Capture, CaptureConfig, CapturedFrame, EthernetConfig, Faults, LinkConfig, LinkCounts, LinkId,
    LinkKind, OtherTraffic,
};
pub use machine::{Machine, MachineError};
pub use medium::{Medium, MediumEvent};
pub use network::Outcome;
pub use probe_list::is_of_a_probe;
pub use process::ProcessId;
pub use program::{Action, Answer, Conversion, Data, Note, Program, ProgramContext, Way};
pub use scenario::{HostConfig, LogPolicy, ProbeConfig, Scenario};
pub use simulation::{ScenarioError, Simulation};
pub use sink::{
    Activity, ActivityState, BundleSink, Digest, Everything, NoRecords, RecordSink, of_model,
};
