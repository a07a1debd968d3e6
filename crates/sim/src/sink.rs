//! Where records go.

use std::path::Path;

use sockscope_record::{Connection, LossCounts, Record};
use sockscope_stack::DropReason;
use sockscope_trace::{BundleWriter, Error, Meta, Source};

/// Takes the records of a simulation, in order of time.
///
/// Activities are in order of time too, but not in one order with the records: both are handed over
/// many at a time.
pub trait RecordSink {
    /// One observation.
    fn record(&mut self, record: &Record);

    /// Whether records are wanted at all; else nothing is logged.
    fn is_wanted(&self) -> bool {
        true
    }

    /// The activity of a process changed.
    fn activity(&mut self, _activity: Activity) {}
}

/// A change of a process's activity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Activity {
    /// When, in nanoseconds.
    pub at_ns: u64,
    /// The process's number in the simulation.
    pub process: u32,
    /// Its state from then on.
    pub state: ActivityState,
}

/// The state of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActivityState {
    /// It has the CPU.
    Running,
    /// It waits for the CPU.
    Ready,
    /// It waits for something else.
    Asleep,
    /// It has ended.
    Gone,
}

/// Wants no records.
#[derive(Debug, Default)]
pub struct NoRecords;

impl RecordSink for NoRecords {
    fn record(&mut self, _record: &Record) {}

    fn is_wanted(&self) -> bool {
        false
    }
}

/// Keeps everything.
#[derive(Debug, Default)]
pub struct Everything {
    /// The records.
    pub records: Vec<Record>,
    /// Activities of processes.
    pub activities: Vec<Activity>,
}

impl RecordSink for Everything {
    fn record(&mut self, record: &Record) {
        self.records.push(*record);
    }

    fn activity(&mut self, activity: Activity) {
        self.activities.push(activity);
    }
}

/// Counts records and adds them up to a hash of 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Digest {
    /// The number of records.
    pub count: u64,
    /// The hash so far.
    pub hash: u64,
}

impl Default for Digest {
    fn default() -> Self {
        Self { count: 0, hash: 0xcbf2_9ce4_8422_2325 }
    }
}

impl RecordSink for Digest {
    fn record(&mut self, record: &Record) {
        self.count += 1;
        // In the order of memory, so that neighbours are read together.
        let joined = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
        let kind = [record.kind as u8, record.code, record.tcp_flags, record.marks];
        let pairs = [
            [record.at_ns, record.offset],
            [record.detail, joined(record.flow.0, record.len)],
            [
                joined(record.thread, record.extra),
                joined(u32::from_le_bytes(kind), u32::from(record.cpu)),
            ],
        ];
        // Each word has a constant of its own: the same value in another field gives another sum.
        let products = pairs.iter().zip(CONSTANTS).map(|([a, b], [of_a, of_b])| {
            let product = u128::from(a ^ of_a) * u128::from(b ^ of_b);
            product as u64 ^ (product >> 64) as u64
        });
        let sum = products.fold(0_u64, |sum, product| sum.wrapping_add(product));
        self.hash = (self.hash.rotate_left(5) ^ sum).wrapping_mul(CONSTANTS[0][0]);
    }
}

/// Constants without a pattern: hexadecimal digits of pi's fraction, made odd.
const CONSTANTS: [[u64; 2]; 3] = [
    [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7345],
    [0xa409_3822_299f_31d1, 0x082e_fa98_ec4e_6c89],
    [0x4528_21e6_38d0_1377, 0xbe54_66cf_34e9_0c6d],
];

/// Records held back before they are written.
const WRITE_RECORDS: usize = 8192;

/// Writes a trace bundle.
pub struct BundleSink {
    writer: BundleWriter,
    held: Vec<Record>,
    /// What the records say that probes lost.
    loss: LossCounts,
    failure: Option<Error>,
}

impl BundleSink {
    /// Creates the bundle.
    ///
    /// # Errors
    ///
    /// As [`BundleWriter::create`].
    pub fn create(dir: impl AsRef<Path>, meta: &Meta) -> Result<Self, Error> {
        Ok(Self::of(BundleWriter::create(dir, of_model(meta.clone()))?))
    }

    /// Goes on with a bundle that has begun with the facts of [`of_model`].
    pub fn of(writer: BundleWriter) -> Self {
        let held = Vec::with_capacity(WRITE_RECORDS);
        Self { writer, held, loss: LossCounts::default(), failure: None }
    }

    fn write(&mut self) {
        if self.failure.is_none() {
            self.failure = self.writer.append(&self.held).err();
        }
        self.held.clear();
    }

    /// Ends the bundle with the known connections.
    ///
    /// # Errors
    ///
    /// When anything could not be written, also earlier.
    pub fn finish(mut self, connections: &[Connection], meta: Meta) -> Result<(), Error> {
        self.write();
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        for connection in connections {
            self.writer.connection(connection)?;
        }
        self.writer.finish(of_model(Meta { loss: self.loss, ..meta }))
    }
}

/// The metadata of every bundle of the model.
pub fn of_model(meta: Meta) -> Meta {
    let reasons = DropReason::ALL.into_iter();
    let drop_reasons = reasons.map(|reason| (reason as u32, reason.name().to_owned())).collect();
    Meta { source: Source::Model, drop_reasons, ..meta }
}

impl RecordSink for BundleSink {
    fn record(&mut self, record: &Record) {
        if let Some(loss) = record.loss() {
            self.loss.add(loss.point(), loss.count);
        }
        self.held.push(*record);
        if self.held.len() == WRITE_RECORDS {
            self.write();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sockscope_record::Kind;

    #[test]
    fn every_field_changes_the_hash() {
        let hash = |record: Record| {
            let mut digest = Digest::default();
            digest.record(&record);
            digest.hash
        };
        let plain = Record::default();
        let others = [
            Record { at_ns: 1, ..plain },
            Record { offset: 1, ..plain },
            Record { detail: 1, ..plain },
            Record { len: 1, ..plain },
            Record { thread: 1, ..plain },
            Record { extra: 1, ..plain },
            Record { code: 1, ..plain },
            Record { tcp_flags: 1, ..plain },
            Record { marks: 1, ..plain },
            Record { cpu: 256, ..plain },
            Record { kind: Kind::Loss, ..plain },
        ];
        let mut hashes: Vec<u64> = others.map(hash).into_iter().chain([hash(plain)]).collect();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), 12);
    }
}
