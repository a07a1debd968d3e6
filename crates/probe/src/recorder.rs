//! A recording on the running kernel: probes attached, their lists drained, records handed to a sink.
//!
//! [`recording`] is the loop. [`source`] is all that the loop needs from outside, and [`kernel`] is one source.
//! [`merge`] joins the lists of all CPUs. [`loss_meter`] counts missed records. [`clock`] finds the scheduler's
//! clock. [`late_hooks`] attaches hooks when they are needed. [`slot_expiry`] ends old connections. [`summary`]
//! has the sentences at the end.

#[cfg(feature = "bench")]
mod bench;
mod clock;
mod kernel;
mod late_hooks;
mod loss_meter;
mod merge;
mod recording;
#[cfg(test)]
mod simulated;
mod sink;
mod slot_expiry;
mod source;
mod summary;

use std::time::Duration;

use sockscope_record::{LossCounts, PointCost};

use crate::backlog::Backlog;
use crate::error::Error;
use crate::pick::Pick;
use crate::programs::HookReport;
use crate::sample::{Openings, Share};
use kernel::KernelSource;
use recording::Recording;

pub use clock::monotonic_ns;
#[cfg(feature = "bench")]
pub(crate) use clock::nanoseconds;
pub use kernel::Options;
pub use sink::Sink;
pub use summary::Summary;

/// A running recording. Dropping it detaches every probe.
pub struct Recorder {
    recording: Recording<KernelSource>,
}

impl Recorder {
    /// Loads and attaches the probes; from its return on, everything picked is recorded.
    ///
    /// # Errors
    /// When a right or a kernel feature is missing.
    pub fn start(pick: &Pick, options: Options) -> Result<Self, Error> {
        let source = KernelSource::start(pick, options)?;
        Ok(Self { recording: Recording::start(source, &options)? })
    }

    /// The table of hooks as used now.
    pub fn hooks(&self) -> Vec<HookReport> {
        self.recording.hooks()
    }

    /// Records handed to the sink so far.
    pub fn records(&self) -> u64 {
        self.recording.records()
    }

    /// Records missed so far.
    pub fn missed(&self) -> LossCounts {
        self.recording.missed()
    }

    /// Hits and run time of the probes so far, in the order of [`Point::ALL`](sockscope_record::Point::ALL); all 0
    /// without [`Options::statistics`]. It asks the kernel about each program.
    pub fn costs(&self) -> [PointCost; 8] {
        self.recording.costs()
    }

    /// Run time of all probes so far, also of those without a point. `None` without [`Options::statistics`], and where
    /// the kernel refuses to measure it.
    pub fn run_ns(&self) -> Option<u64> {
        self.recording.run_ns()
    }

    /// How full its lists are.
    pub fn backlog(&self) -> Backlog {
        self.recording.source().backlog()
    }

    /// Records this part of the connections from now on. Those that are recorded and that it has no more are left out
    /// from now on. Those that were left out stay left out.
    ///
    /// # Errors
    /// When the kernel refuses it.
    pub fn set_share(&mut self, share: Share) -> Result<(), Error> {
        self.recording.set_share(share)
    }

    /// Connections recorded so far, and those that sampling left out.
    pub fn openings(&self) -> Openings {
        self.recording.openings()
    }

    /// Waits a little, then takes the probes' new records. To be called in a loop.
    ///
    /// # Errors
    /// When the sink fails.
    pub fn step(&mut self, sink: &mut impl Sink) -> Result<(), Error> {
        self.recording.step(sink)
    }

    /// Looks at the sockets that are open, ends the recording there, detaches the probes, and then takes
    /// the rest, for at most `deadline`.
    ///
    /// # Errors
    /// When the sink fails.
    pub fn finish(self, sink: &mut impl Sink, deadline: Duration) -> Result<Summary, Error> {
        self.recording.finish(sink, deadline)
    }
}
