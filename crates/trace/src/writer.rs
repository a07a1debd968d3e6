//! Writing a bundle.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use arrow_schema::SchemaRef;
use sockscope_record::{Connection, Record};

use crate::append::StreamFile;
use crate::bundle::is_bundle;
use crate::columns::{self, RecordColumns};
use crate::error::Error;
use crate::format::{self, BATCH_RECORDS, FORMAT_VERSION, META_UNFINISHED, Part};
use crate::meta::Meta;

/// Connection rows that are held back at most.
const CONNECTION_ROWS_MAX: usize = 1024;

/// Writes one bundle.
///
/// Whole batches reach the files; [`BundleWriter::flush`] on a deadline bounds what a kill loses.
/// Dropping the writer writes nothing more: the bundle is then one that was not finished, with all
/// that was flushed in it.
pub struct BundleWriter {
    dir: PathBuf,
    records: StreamFile,
    record_schema: SchemaRef,
    columns: RecordColumns,
    rows: u64,
    flows: StreamFile,
    flow_schema: SchemaRef,
    connections: Vec<Connection>,
}

impl BundleWriter {
    /// Creates the folder `dir` with an empty, incomplete bundle in it.
    ///
    /// An existing bundle there is replaced: its three files are removed, other files stay.
    ///
    /// # Errors
    ///
    /// [`Error::NotOverwritten`] when the folder has files but no bundle; [`Error::Io`] when the
    /// system refuses; [`Error::BigEndian`] on machines with such numbers, which the Arrow encoder
    /// would write as they are.
    pub fn create(dir: impl AsRef<Path>, meta: Meta) -> Result<Self, Error> {
        let dir = dir.as_ref().to_owned();
        if cfg!(target_endian = "big") {
            return Err(Error::BigEndian { path: dir });
        }
        make_room(&dir)?;
        let record_schema = SchemaRef::new(format::record_schema());
        let flow_schema = SchemaRef::new(format::flow_schema());
        // The records come first: by them the folder is known as a bundle if this is cut short.
        let records = StreamFile::create(dir.join(Part::Records.file_name()), &record_schema)?;
        let flows = StreamFile::create(dir.join(Part::Flows.file_name()), &flow_schema)?;
        write_meta(&dir, Meta { complete: false, records: 0, ..meta })?;
        Ok(Self {
            dir,
            records,
            flows,
            record_schema,
            columns: RecordColumns::default(),
            rows: 0,
            flow_schema,
            connections: Vec::new(),
        })
    }

    /// The bundle's folder.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Records appended so far, held back ones included.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.rows + self.columns.rows() as u64
    }

    /// Takes records, in time order as far as the source has them so. Full batches of
    /// [`BATCH_RECORDS`] are written at once.
    ///
    /// # Errors
    ///
    /// When a batch cannot be written; its records are then lost, and the file ends before them.
    pub fn append(&mut self, records: &[Record]) -> Result<(), Error> {
        let mut rest = records;
        while !rest.is_empty() {
            rest = self.columns.fill(rest);
            if self.columns.rows() >= BATCH_RECORDS {
                self.flush()?;
            }
        }
        Ok(())
    }

    /// Takes what is known of a connection by now; the latest such row of an id counts.
    ///
    /// # Errors
    ///
    /// When rows held back cannot be written.
    pub fn connection(&mut self, connection: &Connection) -> Result<(), Error> {
        self.connections.push(connection.clone());
        if self.connections.len() >= CONNECTION_ROWS_MAX {
            self.flush_connections()?;
        }
        Ok(())
    }

    /// Writes what is held back, as a short batch: connections first, so that a reader that
    /// follows knows them when it sees their records.
    ///
    /// # Errors
    ///
    /// When a batch cannot be written.
    pub fn flush(&mut self) -> Result<(), Error> {
        self.flush_connections()?;
        let rows = self.columns.rows() as u64;
        if rows == 0 {
            return Ok(());
        }
        let (batch, spent) = self.columns.take(&self.record_schema);
        self.records.write(batch)?;
        self.columns.reuse(spent);
        self.rows += rows;
        Ok(())
    }

    /// Replaces `meta.json` in one step, as still incomplete.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when the system refuses; the old file is then still there.
    pub fn update_meta(&mut self, meta: &Meta) -> Result<(), Error> {
        write_meta(&self.dir, Meta { complete: false, records: self.rows, ..meta.clone() })
    }

    /// Ends the bundle: writes what is held back, the end marks, and `meta` as complete.
    ///
    /// # Errors
    ///
    /// When something cannot be written; the bundle then stays incomplete.
    pub fn finish(mut self, meta: Meta) -> Result<(), Error> {
        self.flush()?;
        self.flows.finish()?;
        self.records.finish()?;
        write_meta(&self.dir, Meta { complete: true, records: self.rows, ..meta })
    }

    fn flush_connections(&mut self) -> Result<(), Error> {
        if self.connections.is_empty() {
            return Ok(());
        }
        let rows = std::mem::take(&mut self.connections);
        self.flows.write(columns::connection_batch(&rows, &self.flow_schema))
    }
}

/// Creates the folder, or removes the bundle that is in it.
fn make_room(dir: &Path) -> Result<(), Error> {
    fs::create_dir_all(dir).map_err(Error::io(dir))?;
    let mut entries = fs::read_dir(dir).map_err(Error::io(dir))?;
    if !is_bundle(dir) && entries.next().is_some() {
        return Err(Error::NotOverwritten { path: dir.to_owned() });
    }
    // The records go last, by the same token.
    for part in [Part::Meta, Part::Flows, Part::Records] {
        let path = dir.join(part.file_name());
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(Error::io(&path)(error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Writes beside the old file, then renames: a reader sees the one or the other, whole.
fn write_meta(dir: &Path, meta: Meta) -> Result<(), Error> {
    let meta = Meta { format_version: FORMAT_VERSION, ..meta };
    let path = dir.join(Part::Meta.file_name());
    let beside = dir.join(META_UNFINISHED);
    let bytes = meta.to_json()?;
    let write = || -> std::io::Result<()> {
        File::create(&beside)?.write_all(&bytes)?;
        fs::rename(&beside, &path)
    };
    write().map_err(Error::io(&path))
}
