//! Writing a bundle.

use std::io::{ErrorKind, Write};
use std::path::Path;

use sockscope_record::{Connection, ConnectionId, Record};

use crate::bundle::is_bundle_in;
use crate::columns::RecordColumns;
use crate::error::Error;
use crate::files::{Files, Rows};
use crate::folder::Folder;
use crate::format::{BATCH_RECORDS, FORMAT_VERSION, META_UNFINISHED, Part};
use crate::limit::{SizeLimit, Usage};
use crate::meta::Meta;
use crate::output::Output;

/// Connection rows that are buffered at most.
const CONNECTION_ROWS_MAX: usize = 1024;

/// Writes one bundle.
///
/// Whole batches reach the files; [`BundleWriter::flush`] on a deadline bounds the loss by a kill.
/// Dropping the writer writes nothing more: the bundle is then not finished, and has all flushed
/// rows.
pub struct BundleWriter {
    folder: Folder,
    output: Output,
    columns: RecordColumns,
    connections: Vec<Connection>,
    usage: Option<Usage>,
}

impl BundleWriter {
    /// Creates the folder `dir` with an empty, incomplete bundle in it, with rights for its owner alone. The
    /// folder above must exist.
    ///
    /// An existing bundle there is replaced: its three files are removed, other files stay.
    ///
    /// # Errors
    ///
    /// [`Error::NotOverwritten`] when the folder has files but no bundle; [`Error::NotOwn`] and
    /// [`Error::OpenToOthers`] when others could put files there; [`Error::Io`] when the system refuses;
    /// [`Error::BigEndian`] on machines with such numbers, which the Arrow encoder would write as they are.
    pub fn create(dir: impl AsRef<Path>, meta: Meta) -> Result<Self, Error> {
        let dir = dir.as_ref();
        let folder = match Folder::make(dir) {
            Err(Error::Io { source, .. }) if source.kind() == ErrorKind::AlreadyExists => {
                Folder::own(dir)?
            }
            made => made?,
        };
        Self::create_in(folder, meta)
    }

    /// As [`BundleWriter::create`], in a folder that is open.
    ///
    /// # Errors
    ///
    /// As [`BundleWriter::create`].
    pub fn create_in(folder: Folder, meta: Meta) -> Result<Self, Error> {
        if cfg!(target_endian = "big") {
            return Err(Error::BigEndian(folder.path().to_owned()));
        }
        make_room(&folder)?;
        let files = Files::create(&folder)?;
        write_meta(&folder, Meta { complete: false, records: 0, ..meta }, None)?;
        Ok(Self {
            folder,
            output: Output::new(files),
            columns: RecordColumns::default(),
            connections: Vec::new(),
            usage: None,
        })
    }

    /// From here on a thread writes the streams, with the scheduling priority of the calling one. No call
    /// but [`BundleWriter::finish`] waits for the disk while the batches that wait for it have room: a
    /// sixteenth of the machine's memory, at least 32 batches and at most 1 GiB. An error of the thread is
    /// the error of a later call.
    ///
    /// Dropping the writer waits until the thread has written all rows handed over.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when the system has no room for another thread.
    pub fn write_by_thread(&mut self) -> Result<(), Error> {
        self.output.start_thread().map_err(Error::io(self.folder.path()))
    }

    /// From here on one write has 32 KiB of records at most. A kernel without preemption (`PREEMPT_NONE`) lets no other
    /// thread run on a CPU during a write: a server whose answer is due there waits. One write of a whole batch of 800 KiB
    /// took 0.4 to 1 ms. Call it before [`BundleWriter::write_by_thread`].
    pub fn write_in_pieces(&mut self) {
        self.output.write_in_pieces();
    }

    /// The bundle's folder.
    pub fn dir(&self) -> &Path {
        self.folder.path()
    }

    /// Records appended so far, including buffered ones.
    pub fn records(&self) -> u64 {
        self.output.rows() + self.columns.rows() as u64
    }

    /// Keeps the files within `limit` together from here on: [`BundleWriter::append`] and
    /// [`BundleWriter::connection`] refuse rows that do not fit.
    pub fn limit(&mut self, limit: SizeLimit) {
        self.usage = Some(Usage::new(limit));
    }

    /// Whether the limit is reached, if there is one: no further record is taken.
    pub fn is_full(&self) -> bool {
        self.usage.as_ref().is_some_and(Usage::is_full)
    }

    /// Takes records, in time order as far as the source has them so. Full batches of
    /// [`BATCH_RECORDS`] are written at once. Where there is a limit, the first of them that fit are
    /// taken, and after one that was refused no other.
    ///
    /// # Errors
    ///
    /// When a batch cannot be written; its records are then missing, and the file ends before them.
    pub fn append(&mut self, records: &[Record]) -> Result<(), Error> {
        let (held, written) = (self.columns.rows(), self.written());
        let mut rest = match &mut self.usage {
            Some(usage) => usage.admit(records, held, written),
            None => records,
        };
        while !rest.is_empty() {
            rest = self.columns.fill(rest);
            if self.columns.rows() >= BATCH_RECORDS {
                self.write()?;
            }
        }
        debug_assert!(self.columns.rows() < BATCH_RECORDS, "a full batch is written at once");
        Ok(())
    }

    /// Takes the present description of a connection; the latest row of an id counts. Where there is a
    /// limit, a row that does not fit is refused, and then those of other new connections.
    ///
    /// # Errors
    ///
    /// When buffered rows cannot be written.
    pub fn connection(&mut self, connection: &Connection) -> Result<(), Error> {
        let (held, written) = (self.columns.rows(), self.written());
        let is_refused =
            self.usage.as_mut().is_some_and(|usage| !usage.admits(connection, held, written));
        if is_refused {
            return Ok(());
        }
        self.connections.push(connection.clone());
        if self.connections.len() >= CONNECTION_ROWS_MAX {
            self.write_connections()?;
        }
        Ok(())
    }

    /// No other row of this connection follows, even if the latest one does not close it: room for a last
    /// row is kept no longer.
    pub fn complete(&mut self, connection: ConnectionId) {
        if let Some(usage) = &mut self.usage {
            usage.complete(connection);
        }
    }

    /// Writes the buffered rows, as a short batch: connections first, so that a reader that
    /// follows knows them when it sees their records. Where a thread writes and the disk keeps it
    /// waiting, this does nothing: the rows go with the next ones.
    ///
    /// # Errors
    ///
    /// When a batch cannot be written.
    pub fn flush(&mut self) -> Result<(), Error> {
        if self.output.has_room() { self.write() } else { Ok(()) }
    }

    /// Replaces `meta.json` in one step, as still incomplete.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when the system refuses; the old file is then still there. [`Error::Exchanged`] when
    /// the bundle is no longer where it was begun.
    pub fn update_meta(&mut self, meta: &Meta) -> Result<(), Error> {
        self.meta_update(meta)?.write()
    }

    /// The work of [`BundleWriter::update_meta`], for a thread that may wait for the disk.
    ///
    /// # Errors
    ///
    /// As [`BundleWriter::update_meta`].
    pub fn meta_update(&self, meta: &Meta) -> Result<MetaUpdate, Error> {
        self.check_in_place()?;
        let meta = Meta { complete: false, records: self.output.rows_written(), ..meta.clone() };
        Ok(MetaUpdate { folder: self.folder.again()?, meta, limit: self.size_limit() })
    }

    /// Ends the bundle: writes the buffered rows, the end marks, and `meta` as complete.
    ///
    /// # Errors
    ///
    /// When something cannot be written, or as [`BundleWriter::update_meta`]; the bundle then stays
    /// incomplete.
    pub fn finish(mut self, meta: Meta) -> Result<(), Error> {
        self.write()?;
        debug_assert!(self.columns.rows() == 0 && self.connections.is_empty());
        let records = self.output.finish()?;
        self.check_in_place()?;
        let limit = self.size_limit();
        write_meta(&self.folder, Meta { complete: true, records, ..meta }, limit)
    }

    fn size_limit(&self) -> Option<SizeLimit> {
        self.usage.as_ref().map(Usage::limit)
    }

    /// Bytes of both streams without the rows buffered here, at most.
    pub fn written(&self) -> u64 {
        self.output.bytes_at_most()
    }

    fn write(&mut self) -> Result<(), Error> {
        self.write_connections()?;
        if self.columns.rows() > 0 {
            let columns = Box::new(std::mem::take(&mut self.columns));
            self.columns = self.output.write(Rows::Records(columns))?;
        }
        Ok(())
    }

    fn write_connections(&mut self) -> Result<(), Error> {
        if self.connections.is_empty() {
            return Ok(());
        }
        self.output.write(Rows::Connections(std::mem::take(&mut self.connections)))?;
        if let Some(usage) = &mut self.usage {
            usage.connections_written();
        }
        Ok(())
    }

    /// Whether folder and files still have their names: else the bundle cannot be found.
    fn check_in_place(&self) -> Result<(), Error> {
        if self.folder.is_in_place() && self.output.is_in_place(&self.folder) {
            return Ok(());
        }
        Err(Error::Exchanged(self.folder.path().to_owned()))
    }
}

/// A description of an unfinished bundle that is not written yet. One at a time, and none when
/// [`BundleWriter::finish`] is called.
#[derive(Debug)]
pub struct MetaUpdate {
    folder: Folder,
    meta: Meta,
    limit: Option<SizeLimit>,
}

impl MetaUpdate {
    /// Replaces `meta.json` in one step. The file system may wait for the disk before it gives up the
    /// file that was there.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when the system refuses; the old file is then still there.
    pub fn write(self) -> Result<(), Error> {
        write_meta(&self.folder, self.meta, self.limit)
    }
}

/// Removes the bundle that is in the folder.
fn make_room(folder: &Folder) -> Result<(), Error> {
    folder.check_closed()?;
    if !is_bundle_in(folder) && !folder.names()?.is_empty() {
        return Err(Error::NotOverwritten(folder.path().to_owned()));
    }
    // The records go last, by the same token.
    let parts = [Part::Meta, Part::Flows, Part::Records];
    parts.iter().try_for_each(|part| folder.remove(part.file_name()))
}

/// Writes next to the old file, then renames: a reader sees the one or the other, whole.
fn write_meta(folder: &Folder, meta: Meta, limit: Option<SizeLimit>) -> Result<(), Error> {
    let meta = Meta { format_version: FORMAT_VERSION, ..meta };
    let bytes = meta.to_json()?;
    if limit.is_some_and(|limit| !limit.admits_meta(bytes.len() as u64)) {
        let path = folder.path().join(Part::Meta.file_name());
        return Err(Error::MetaTooLarge { path, bytes: bytes.len() as u64 });
    }
    // A kill may have left this file.
    folder.remove(META_UNFINISHED)?;
    let mut file = folder.create(META_UNFINISHED)?;
    file.write_all(&bytes).map_err(Error::io(&folder.path().join(Part::Meta.file_name())))?;
    folder.rename(META_UNFINISHED, Part::Meta.file_name())
}
