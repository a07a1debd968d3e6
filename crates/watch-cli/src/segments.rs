//! The recording on the disk: segments in a folder each, the oldest of which make room.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sockscope_program::failure::Failure;
use sockscope_program::machine;
use sockscope_record::{Connection, ConnectionId, LossCounts, Record};
use sockscope_trace::{BundleWriter, Error, Meta};
use sockscope_watch::{Ring, Segment};

/// A segment is sealed when it is as large, or as old as a part of the time to keep.
const BYTES_MAX: u64 = 64 << 20;
const PARTS_OF_KEEP: u32 = 10;
const AGE_MAX: Duration = Duration::from_secs(60);
/// A kill may cost the records of so much time. Each time writes a short batch.
const FLUSH_EVERY_NS: u64 = 200_000_000;
/// By so much the open segment may grow until the next look: a batch of records, end marks, and the description of the
/// recording.
const GROWTH_BYTES: u64 = 2 << 20;
/// Where a segment cannot be written: time until the next attempt.
const AGAIN_AFTER_NS: u64 = 1_000_000_000;

/// The segments, the last of which grows.
pub struct Segments {
    folder: PathBuf,
    /// Of the recording; each segment adds its clock readings and its loss.
    meta: Meta,
    ring: Ring,
    age_max_ns: u64,
    next: u64,
    open: Option<Open>,
    /// The last description of each connection that may still have records.
    known: BTreeMap<ConnectionId, Connection>,
    /// Records that no segment has, as the disk took none.
    not_written: u64,
    removed_early: u64,
    /// No segment is begun before this time.
    again_ns: u64,
    flushed_ns: u64,
    /// Sealed segments for a spool, where there is one.
    sealed: Option<Vec<Sealed>>,
}

/// A sealed segment, of which the folder stays until it is released.
pub struct Sealed {
    pub number: u64,
    pub folder: PathBuf,
    pub times_ns: (u64, u64),
}

/// The segment that is being written.
struct Open {
    number: u64,
    writer: BundleWriter,
    from_ns: u64,
    /// Connections whose description it has.
    described: BTreeSet<ConnectionId>,
    loss: LossCounts,
    meta: Meta,
}

impl Segments {
    /// In this folder, which is there and empty.
    pub fn new(folder: PathBuf, meta: Meta, keep: Duration, bytes_max: u64) -> Self {
        let age_max = (keep / PARTS_OF_KEEP).min(AGE_MAX);
        Self {
            folder,
            meta,
            ring: Ring::new(keep, bytes_max),
            age_max_ns: u64::try_from(age_max.as_nanos()).unwrap_or(u64::MAX).max(1),
            next: 0,
            open: None,
            known: BTreeMap::new(),
            not_written: 0,
            removed_early: 0,
            again_ns: 0,
            flushed_ns: 0,
            sealed: None,
        }
    }

    /// Takes the present description of a connection.
    pub fn connection(&mut self, connection: Connection) {
        if let Some(open) = &mut self.open {
            // It goes with the next records of the connection, or when it closes.
            open.described.remove(&connection.id);
        }
        self.known.insert(connection.id, connection);
    }

    /// Takes the next records. Where the disk takes none they are counted, and the recording goes on.
    pub fn push(&mut self, records: &[Record], now_ns: u64) {
        if let Err(error) = self.write(records, now_ns) {
            self.not_written += records.len() as u64;
            self.give_up(&error, now_ns);
        }
    }

    fn write(&mut self, records: &[Record], now_ns: u64) -> Result<(), Error> {
        if self.open.is_none() {
            if now_ns < self.again_ns {
                self.not_written += records.len() as u64;
                return Ok(());
            }
            self.begin(now_ns)?;
        }
        let Some(open) = &mut self.open else { return Ok(()) };
        let losses = records.iter().filter_map(Record::loss);
        open.loss.add_all(&losses.collect());
        // Records of one connection stand together: a request passes several points within microseconds.
        let id_of = |record: &Record| record.flow.connection();
        for run in records.chunk_by(|a, b| id_of(a) == id_of(b)) {
            let id = id_of(&run[0]);
            if !open.described.contains(&id)
                && let Some(connection) = self.known.get(&id)
            {
                open.writer.connection(connection)?;
                open.described.insert(id);
            }
        }
        open.writer.append(records)
    }

    fn begin(&mut self, now_ns: u64) -> Result<(), Error> {
        let number = self.next;
        let meta = Meta {
            clock: vec![machine::reading()],
            network_namespaces: machine::network_namespaces(),
            ..self.meta.clone()
        };
        let mut writer = BundleWriter::create(self.path(number), meta.clone())?;
        writer.write_in_pieces();
        // Without room for a thread this one waits for the disk.
        let _ = writer.write_by_thread();
        self.next += 1;
        self.open = Some(Open {
            number,
            writer,
            from_ns: now_ns,
            described: BTreeSet::new(),
            loss: LossCounts::default(),
            meta,
        });
        Ok(())
    }

    /// Seals the open segment, so that the ring has all that was recorded.
    pub fn seal(&mut self, now_ns: u64) {
        let Some(mut open) = self.open.take() else { return };
        let undescribed = self.known.values().filter(|it| {
            it.closed_ns.is_some_and(|at_ns| at_ns >= open.from_ns)
                && !open.described.contains(&it.id)
        });
        let closed: Vec<Connection> = undescribed.cloned().collect();
        machine::keep_present_names(&mut open.meta.network_namespaces);
        let meta = Meta {
            clock: [&open.meta.clock[..], &[machine::reading()]].concat(),
            loss: open.loss,
            ended_ns: Some(now_ns),
            ..open.meta
        };
        let described = closed.iter().try_for_each(|it| open.writer.connection(it));
        match described.and_then(|()| open.writer.finish(meta)) {
            Ok(()) => {
                let (number, from_ns) = (open.number, open.from_ns);
                let folder = self.path(number);
                // The description and the end marks too.
                let bytes = size_of_files(&folder);
                self.ring.push(Segment { number, from_ns, until_ns: now_ns, bytes });
                if let Some(sealed) = &mut self.sealed {
                    self.ring.hold_one(number);
                    sealed.push(Sealed { number, folder, times_ns: (from_ns, now_ns) });
                }
            }
            Err(error) => self.give_up(&error, now_ns),
        }
        // A closed connection has records for a moment more.
        self.known.retain(|_, it| it.closed_ns.is_none_or(|at_ns| at_ns >= open.from_ns));
    }

    /// Writes what is buffered, seals a segment that is due, and removes those that are surplus.
    pub fn look(&mut self, now_ns: u64) {
        let is_due = self.open.as_ref().is_some_and(|open| {
            now_ns.saturating_sub(open.from_ns) >= self.age_max_ns
                || open.writer.written() >= BYTES_MAX
        });
        if is_due {
            self.seal(now_ns);
        } else if now_ns.saturating_sub(self.flushed_ns) >= FLUSH_EVERY_NS {
            self.flushed_ns = now_ns;
            if let Some(Err(error)) = self.open.as_mut().map(|open| open.writer.flush()) {
                self.give_up(&error, now_ns);
            }
        }
        let open_bytes = self.open.as_ref().map_or(0, |open| open.writer.written());
        let keep_since_ns = now_ns.saturating_sub(self.ring.keep_ns());
        for segment in self.ring.surplus(now_ns, open_bytes + GROWTH_BYTES) {
            self.removed_early += u64::from(segment.until_ns > keep_since_ns);
            self.remove(segment);
        }
    }

    /// After an error of the disk: the open segment ends, and the oldest one makes room.
    fn give_up(&mut self, error: &Error, now_ns: u64) {
        let is_full = matches!(error, Error::Io { source, .. }
            if matches!(source.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded));
        if let Some(open) = self.open.take() {
            stderr!("sockscope: the recording has a gap from now on: {error}");
            let number = open.number;
            drop(open);
            let _ = fs::remove_dir_all(self.path(number));
        }
        if is_full && let Some(oldest) = self.ring.oldest() {
            self.removed_early += 1;
            self.remove(oldest);
        } else {
            self.again_ns = now_ns.saturating_add(AGAIN_AFTER_NS);
        }
    }

    fn remove(&self, segment: Segment) {
        let _ = fs::remove_dir_all(self.path(segment.number));
    }

    fn path(&self, number: u64) -> PathBuf {
        self.folder.join(format!("{number:08}.sockscope"))
    }

    /// Folders of the segments with any time between the two, which stay until they are released.
    pub fn hold(&mut self, from_ns: u64, until_ns: u64) -> Held {
        let segments = self.ring.hold(from_ns, until_ns);
        let folders = segments.iter().map(|segment| self.path(segment.number)).collect();
        Held { segments, folders }
    }

    /// A bundle was made of these.
    pub fn release(&mut self, held: &Held) {
        self.ring.release(&held.segments);
    }

    /// From now on each sealed segment is handed over, and stays until it is released.
    pub fn hand_over(&mut self) {
        self.sealed = Some(Vec::new());
    }

    /// Segments that were sealed since the last call.
    pub fn take_sealed(&mut self) -> Vec<Sealed> {
        self.sealed.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Seals the open segment at the end. Segments that are handed over end with one of the last moment, also where it has
    /// no record: its mark says that none is missing.
    pub fn seal_last(&mut self, now_ns: u64) {
        if self.sealed.is_some()
            && self.open.is_none()
            && let Err(error) = self.begin(now_ns)
        {
            self.give_up(&error, now_ns);
        }
        self.seal(now_ns);
    }

    /// A segment that was handed over is needed no more.
    pub fn release_one(&mut self, number: u64) {
        self.ring.release_one(number);
    }

    /// Bytes on the disk.
    pub fn bytes(&self) -> u64 {
        self.ring.bytes() + self.open.as_ref().map_or(0, |open| open.writer.written())
    }

    /// Records that no segment has, and segments that made room before their time.
    pub fn given_up(&self) -> (u64, u64) {
        (self.not_written, self.removed_early)
    }

    /// The folder of the segments.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

/// Segments that a bundle is made of.
pub struct Held {
    segments: Vec<Segment>,
    pub folders: Vec<PathBuf>,
}

/// Sizes of the files in this folder, and in the folders in it.
fn size_of_files(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let size = |path: PathBuf| match path.symlink_metadata() {
        Ok(metadata) if metadata.is_dir() => size_of_files(&path),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    };
    entries.map(|entry| size(entry.path())).sum()
}

/// Takes the folder for the segments of this process. Those of an earlier one, which was killed, are handed over.
pub fn prepare(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let cannot = |error| Failure::file("cannot use the folder", folder, &error);
    match fs::create_dir(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(cannot(error)),
        _ => {}
    }
    let mut earlier: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(folder).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        if path.extension().is_some_and(|it| it == "sockscope") {
            earlier.push(path);
        }
    }
    earlier.sort();
    Ok(earlier)
}

#[cfg(test)]
mod tests {
    use sockscope_record::{Direction, Kind};

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn all_files_together_are_never_larger_than_the_bound() {
        let temporary = tempfile::tempdir().unwrap();
        // A long description counts, too.
        let meta = Meta { notes: vec!["x".repeat(500_000)], ..Meta::default() };
        let bytes_max = 8 << 20;
        let keep = Duration::from_secs(60);
        let mut segments = Segments::new(temporary.path().to_owned(), meta, keep, bytes_max);
        let flow = ConnectionId(1).flow(Direction::FromClient);
        // Offsets that no column makes small.
        let mut offset = 1_u64;
        for look in 0..600 {
            let now_ns = look * SECOND / 10;
            let records: Vec<Record> = (0..2_000)
                .map(|number| {
                    offset = offset.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                    Record {
                        at_ns: now_ns + number,
                        flow,
                        offset,
                        kind: Kind::SendEnqueue,
                        ..Record::default()
                    }
                })
                .collect();
            segments.push(&records, now_ns);
            segments.look(now_ns);
            let bytes = size_of_files(temporary.path());
            assert!(bytes <= bytes_max, "look {look}: {bytes} of {bytes_max}");
        }
        let (not_written, removed_early) = segments.given_up();
        assert_eq!(not_written, 0);
        assert!(removed_early > 0, "the bound was not reached");
    }

    #[test]
    fn the_last_segment_is_handed_over_also_without_a_record() {
        let temporary = tempfile::tempdir().unwrap();
        let keep = Duration::from_secs(5);
        let folder = temporary.path().to_owned();
        let mut segments = Segments::new(folder, Meta::default(), keep, 1 << 30);
        segments.hand_over();
        let flow = ConnectionId(1).flow(Direction::FromClient);
        segments.push(&[Record { flow, kind: Kind::SendEnqueue, ..Record::default() }], SECOND);
        segments.look(10 * SECOND);
        assert_eq!(segments.take_sealed().len(), 1);
        // Nothing was recorded since.
        segments.seal_last(20 * SECOND);
        let last = segments.take_sealed();
        assert_eq!(
            last.iter().map(|it| (it.number, it.times_ns.1)).collect::<Vec<_>>(),
            [(1, 20 * SECOND)]
        );
    }
}
