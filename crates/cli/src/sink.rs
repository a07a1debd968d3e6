//! Records into a bundle, until a limit is reached.

use std::collections::HashSet;

use sockscope_probe::Sink;
use sockscope_program::failure::Failure;
use sockscope_record::{Connection, ConnectionId, Kind, LossCounts, Record, counted};
use sockscope_trace::{BundleWriter, Meta, SizeLimit};

use crate::others::Others;
use crate::progress::Traffic;

/// Takes records until there are as many as were asked for, or the files are as large; later records are
/// not in the trace.
pub struct BundleSink {
    pub writer: BundleWriter,
    records_max: Option<u64>,
    is_limited: bool,
    /// Loss, by the recorder's loss records that were taken.
    lost: LossCounts,
    known: HashSet<ConnectionId>,
    others: Others,
    /// What is shown of the traffic while it is recorded, where somebody looks.
    pub traffic: Option<Traffic>,
}

impl BundleSink {
    /// With a limit on the records, and on the size of the files.
    pub fn new(
        mut writer: BundleWriter,
        records_max: Option<u64>,
        size_max: Option<SizeLimit>,
    ) -> Self {
        size_max.into_iter().for_each(|limit| writer.limit(limit));
        let is_limited = records_max.is_some() || size_max.is_some();
        let mut sink = Self {
            writer,
            records_max,
            is_limited,
            lost: LossCounts::default(),
            known: HashSet::new(),
            traffic: None,
            others: Others::new(records_max, size_max.map(|limit| limit.bytes())),
        };
        sink.look_at_disk();
        sink
    }

    /// Limits the share of other users by what the disk has free. Where the system does not say, what it said
    /// last stands.
    pub fn look_at_disk(&mut self) {
        if let Ok(disk) = rustix::fs::statvfs(self.writer.dir()) {
            self.others.limit_to_free(disk.f_bavail.saturating_mul(disk.f_frsize));
        }
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

    /// Writes the loss records of refused records that are not written yet.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn end(&mut self) -> Result<(), Failure> {
        let losses = self.others.losses();
        self.append(&losses)?;
        Ok(())
    }

    /// Writes what is held back, see [`BundleWriter::flush`].
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn flush(&mut self) -> Result<(), Failure> {
        self.others.flushed();
        Ok(self.writer.flush()?)
    }

    /// `lost`, which the recorder counts, and what was refused here.
    pub fn missed(&self, mut lost: LossCounts) -> LossCounts {
        lost.add_all(self.others.refused());
        lost
    }

    /// Adds to the description whether a limit was reached, and the number of refused records.
    pub fn describe(&self, meta: &mut Meta) {
        let limit = self.limit();
        if limit.is_some() {
            meta.loss = self.lost;
            meta.loss.add_all(self.others.missed());
        }
        meta.loss = self.missed(meta.loss);
        let [connections, refused] =
            [self.others.connections_refused(), self.others.refused().total()];
        if refused > 0 {
            meta.notes.push(format!(
                "{} and {} that other users asked for by SO_LOG, beyond their quarter of \
                 --max-records, --max-size or the free disk: not recorded, and counted as missed",
                counted(connections, "connection"),
                counted(refused - connections, "record"),
            ));
        }
        let Some(option) = limit else { return };
        let records = counted(self.writer.records(), "record");
        meta.notes.push(format!(
            "ended after {records}, as {option} asks: later records are not in the trace"
        ));
    }
}

impl BundleSink {
    /// Those of the records that are taken.
    fn append<'r>(&mut self, records: &'r [Record]) -> Result<&'r [Record], Failure> {
        let taken = usize::try_from(self.room()).unwrap_or(usize::MAX).min(records.len());
        let before = self.writer.records();
        self.writer.append(&records[..taken])?;
        if let Some(traffic) = &mut self.traffic {
            traffic.records(&records[..taken]);
        }
        let taken = usize::try_from(self.writer.records() - before).unwrap_or(usize::MAX);
        Ok(&records[..taken])
    }

    fn append_all(&mut self, records: &[Record]) -> Result<(), Failure> {
        let admitted = self.others.admit(records);
        let taken = self.append(&admitted)?;
        if self.is_limited {
            self.lost.add_all(&taken.iter().filter_map(Record::loss).collect());
        }
        let losses = self.others.losses_due();
        self.append(&losses)?;
        Ok(())
    }
}

impl Sink for BundleSink {
    fn records(&mut self, records: &[Record]) -> Result<(), String> {
        debug_assert!(records.iter().all(|record| record.kind == Kind::Loss || record.flow.0 > 1));
        self.append_all(records).map_err(|error| error.to_string())
    }

    fn connection(&mut self, connection: &Connection) -> Result<(), String> {
        if self.room() == 0 && !self.known.contains(&connection.id) {
            return Ok(());
        }
        if !self.others.admits(connection) {
            return Ok(());
        }
        if self.records_max.is_some() {
            self.known.insert(connection.id);
        }
        if let Some(traffic) = &mut self.traffic {
            traffic.connection(connection);
        }
        let told = self.others.memberships();
        let written = self.writer.connection(connection).map_err(Failure::from);
        let written = written.and_then(|()| self.append(&told).map(drop));
        written.map_err(|failure| failure.to_string())
    }

    fn of_others(&mut self, connection: ConnectionId) {
        self.others.add(connection);
    }

    fn complete(&mut self, connection: ConnectionId) {
        self.known.remove(&connection);
        self.others.remove(connection);
        if let Some(traffic) = &mut self.traffic {
            traffic.complete(connection);
        }
        self.writer.complete(connection);
    }
}
