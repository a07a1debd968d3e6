//! Records into a bundle, until a limit is reached.

use std::collections::HashSet;

use sockscope_probe::Sink;
use sockscope_record::{Connection, ConnectionId, Kind, LossCounts, Record, counted};
use sockscope_trace::{BundleWriter, Meta, SizeLimit};

use crate::failure::Failure;

/// Takes records until there are as many as were asked for, or the files are as large; later records are
/// not in the trace.
pub struct BundleSink {
    pub writer: BundleWriter,
    records_max: Option<u64>,
    is_limited: bool,
    /// Loss as far as the records taken tell it.
    lost: LossCounts,
    known: HashSet<ConnectionId>,
}

impl BundleSink {
    /// At most so many records, and files of such a size.
    pub fn new(
        mut writer: BundleWriter,
        records_max: Option<u64>,
        size_max: Option<SizeLimit>,
    ) -> Self {
        size_max.into_iter().for_each(|limit| writer.limit(limit));
        let is_limited = records_max.is_some() || size_max.is_some();
        Self { writer, records_max, is_limited, lost: LossCounts::default(), known: HashSet::new() }
    }

    fn room(&self) -> u64 {
        self.records_max.map_or(u64::MAX, |most| most.saturating_sub(self.writer.records()))
    }

    /// Whether a limit is reached.
    pub fn is_full(&self) -> bool {
        self.limit().is_some()
    }

    /// The option whose limit is reached.
    pub fn limit(&self) -> Option<&'static str> {
        let by_size = self.writer.is_full().then_some("--max-size");
        by_size.or((self.room() == 0).then_some("--max-records"))
    }

    /// Adds to the description that it was full, if it was.
    pub fn describe(&self, meta: &mut Meta) {
        let Some(option) = self.limit() else { return };
        meta.loss = self.lost;
        let records = counted(self.writer.records(), "record");
        meta.notes.push(format!(
            "ended after {records}, as {option} asks: later records are not in the trace"
        ));
    }
}

impl Sink for BundleSink {
    fn records(&mut self, records: &[Record]) -> Result<(), String> {
        debug_assert!(records.iter().all(|record| record.kind == Kind::Loss || record.flow.0 > 1));
        let taken = usize::try_from(self.room()).unwrap_or(usize::MAX).min(records.len());
        let before = self.writer.records();
        self.writer.append(&records[..taken]).map_err(|error| Failure::from(error).to_string())?;
        let taken = usize::try_from(self.writer.records() - before).unwrap_or(usize::MAX);
        if self.is_limited {
            let losses = records[..taken].iter().filter(|record| record.kind == Kind::Loss);
            losses.for_each(|loss| {
                self.lost.add(Kind::from_code(loss.code).and_then(Kind::point), loss.detail);
            });
        }
        Ok(())
    }

    fn connection(&mut self, connection: &Connection) -> Result<(), String> {
        if self.room() == 0 && !self.known.contains(&connection.id) {
            return Ok(());
        }
        if self.records_max.is_some() {
            self.known.insert(connection.id);
        }
        self.writer.connection(connection).map_err(|error| Failure::from(error).to_string())
    }
}
