//! Reading a bundle while it is being written.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use sockscope_record::{Connection, ConnectionId, Record};

use crate::bundle::{open_connections, open_records, read_meta};
use crate::error::{Error, Problem};
use crate::flows::ConnectionReader;
use crate::folder::Folder;
use crate::format::Part;
use crate::meta::Meta;
use crate::records::RecordReader;

/// Reads the content of a bundle, and then the batches added to it.
///
/// Nothing here sleeps: the caller decides the rate of its polls. A bundle whose writer was
/// killed never completes, and looks like one whose writer is idle.
#[derive(Debug)]
pub struct Follower {
    dir: PathBuf,
    /// `None` while it is not there.
    folder: Option<Folder>,
    meta: Option<Meta>,
    meta_problem: Option<Problem>,
    records: Option<RecordReader<File>>,
    connections: Option<ConnectionReader<File>>,
    /// Stands for the connections while their file is not there.
    none: BTreeMap<ConnectionId, Connection>,
}

impl Follower {
    /// Follows the bundle in folder `dir`, from its first record on. Files may still be missing;
    /// they are looked for at each poll.
    ///
    /// # Errors
    ///
    /// As [`Follower::poll`].
    pub fn open(dir: impl AsRef<Path>) -> Result<Self, Error> {
        let dir = dir.as_ref().to_owned();
        let mut follower = Self {
            dir,
            folder: None,
            meta: None,
            meta_problem: None,
            records: None,
            connections: None,
            none: BTreeMap::new(),
        };
        follower.read_meta()?;
        Ok(follower)
    }

    /// The next whole batch that was not given before; `None` without one by now.
    /// [`Follower::connections`] has the connections that the file had when the batch was
    /// found.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when a file that is there cannot be read, [`Error::NewerVersion`] when a
    /// later release writes it.
    pub fn poll(&mut self) -> Result<Option<&[Record]>, Error> {
        self.open_missing()?;
        let has_batch = match &mut self.records {
            Some(records) => has_rows(records)?,
            None => false,
        };
        // After the records: their connections were written before them.
        if let Some(connections) = &mut self.connections {
            connections.read()?;
        }
        if !has_batch {
            self.read_meta()?;
            return Ok(None);
        }
        Ok(self.records.as_ref().map(RecordReader::batch))
    }

    /// Connections known so far, by id.
    pub fn connections(&self) -> &BTreeMap<ConnectionId, Connection> {
        self.connections.as_ref().map_or(&self.none, ConnectionReader::connections)
    }

    /// `meta.json` as of the last poll that found no batch; `None` while it cannot be read.
    pub fn meta(&self) -> Option<&Meta> {
        self.meta.as_ref()
    }

    /// Records of unknown kinds that were skipped so far.
    pub fn unknown_kinds(&self) -> u64 {
        self.records.as_ref().map_or(0, RecordReader::unknown_kinds)
    }

    /// Whether all was read and no batch will follow: both streams ended, and the recording is
    /// complete by `meta.json`.
    pub fn is_complete(&self) -> bool {
        let ended = self.records.as_ref().is_some_and(RecordReader::is_ended)
            && self.connections.as_ref().is_some_and(ConnectionReader::is_ended);
        ended && self.meta().is_some_and(|meta| meta.complete)
    }

    /// Problems as of the last poll. While the recording goes on, files that are missing, not
    /// finished or end inside a batch are normal.
    pub fn problems(&self) -> Vec<Problem> {
        let missing = |part| Some(Problem::Missing { part });
        let records = match &self.records {
            Some(records) => records.problems(),
            None => missing(Part::Records).into_iter().collect(),
        };
        let connections = match &self.connections {
            Some(connections) => connections.problems(),
            None => missing(Part::Flows).into_iter().collect(),
        };
        self.meta_problem.iter().cloned().chain(connections).chain(records).collect()
    }

    fn open_missing(&mut self) -> Result<(), Error> {
        if self.records.is_some() && self.connections.is_some() {
            return Ok(());
        }
        let Some(folder) = self.folder()? else { return Ok(()) };
        let folder = folder.again()?;
        if self.records.is_none() {
            self.records = open_records(&folder)?;
        }
        if self.connections.is_none() {
            self.connections = open_connections(&folder)?;
        }
        Ok(())
    }

    fn read_meta(&mut self) -> Result<(), Error> {
        (self.meta, self.meta_problem) = match self.folder()? {
            Some(folder) => read_meta(folder)?,
            None => (None, Some(Problem::Missing { part: Part::Meta })),
        };
        Ok(())
    }

    /// The folder, once it is there.
    fn folder(&mut self) -> Result<Option<&Folder>, Error> {
        if self.folder.is_none() {
            self.folder = match Folder::open(&self.dir) {
                Ok(folder) => Some(folder),
                Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => None,
                Err(error) => return Err(error),
            };
        }
        Ok(self.folder.as_ref())
    }
}

/// Reads up to the next batch that has records.
fn has_rows(records: &mut RecordReader<File>) -> Result<bool, Error> {
    while let Some(batch) = records.next_batch()? {
        if !batch.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}
