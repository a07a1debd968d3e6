//! Records with the times of this machine's clock.

use sockscope_record::Record;
use sockscope_sim::{Activity, RecordSink};

/// A sink of which the clock began earlier than the simulation.
pub(super) struct Shifted<S> {
    pub(super) sink: S,
    /// What the clock shows when the simulation begins, in nanoseconds.
    pub(super) by_ns: u64,
}

impl<S: RecordSink> RecordSink for Shifted<S> {
    fn record(&mut self, record: &Record) {
        let mut shifted = *record;
        shifted.at_ns += self.by_ns;
        self.sink.record(&shifted);
    }

    fn is_wanted(&self) -> bool {
        self.sink.is_wanted()
    }

    fn activity(&mut self, activity: Activity) {
        self.sink.activity(Activity { at_ns: activity.at_ns + self.by_ns, ..activity });
    }
}
