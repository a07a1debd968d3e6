//! Uses of a recorder in benchmarks alone (feature `bench`).

use std::collections::BTreeMap;

use sockscope_record::{ConnectionId, Direction};

use super::Recorder;
use super::sink::Sink;
use crate::error::Error;

impl Recorder {
    /// Hits and run time in nanoseconds of each program since it was loaded, by name; the time
    /// does not advance while the kernel's statistics are off.
    pub fn program_costs(&self) -> BTreeMap<String, (u64, u64)> {
        self.recording.source().programs().costs()
    }

    /// Appends `segments` records to this CPU's list, as the driver's hook does. The client sends segments
    /// of 1448 bytes from sequence number `seq` on. Returns the number that fitted.
    pub fn produce(&self, segments: u32, connection: ConnectionId, seq: u32) -> u32 {
        let flow = connection.flow(Direction::FromClient).0;
        self.recording.source().programs().produce(segments, flow, seq)
    }

    /// Takes all records of the probes, as [`Recorder::step`] does after its pause.
    ///
    /// # Errors
    /// When the sink fails.
    pub fn take(&mut self, sink: &mut impl Sink) -> Result<(), Error> {
        self.recording.drain(u64::MAX, sink).map(drop)
    }
}
