//! The two streams of a bundle that is written.

use std::fs::File;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use sockscope_record::Connection;

use crate::append::StreamFile;
use crate::columns::{self, RecordColumns};
use crate::error::Error;
use crate::folder::Folder;
use crate::format::{self, Part};
use crate::limit;

/// Rows of one of the streams.
#[derive(Debug)]
pub(crate) enum Rows {
    Connections(Vec<Connection>),
    Records(Box<RecordColumns>),
}

impl Rows {
    /// Number of records in it.
    pub(crate) fn records(&self) -> u64 {
        match self {
            Self::Connections(_) => 0,
            Self::Records(columns) => columns.rows() as u64,
        }
    }

    /// Bytes in the file at most.
    pub(crate) fn bytes_max(&self) -> u64 {
        match self {
            Self::Connections(rows) => limit::connections_bytes(rows),
            Self::Records(columns) => limit::records_bytes(columns.rows()),
        }
    }
}

/// Both files, open.
pub(crate) struct Files {
    records: StreamFile,
    record_schema: SchemaRef,
    flows: StreamFile,
    flow_schema: SchemaRef,
    /// Error of a batch of either that could not be written. Both end there: a later one that fits would
    /// leave a hole before it that no reader could see.
    refused: Option<Error>,
}

impl Files {
    /// Creates both, which must not exist, with their schemas in them.
    pub(crate) fn create(folder: &Folder) -> Result<Self, Error> {
        let record_schema = SchemaRef::new(format::record_schema());
        let flow_schema = SchemaRef::new(format::flow_schema());
        // The file of the records is first: it identifies the folder as a bundle if this is cut short.
        let records = StreamFile::create(folder, Part::Records, &record_schema)?;
        let flows = StreamFile::create(folder, Part::Flows, &flow_schema)?;
        Ok(Self { records, record_schema, flows, flow_schema, refused: None })
    }

    /// Writes a batch. The memory of records, empty, is returned for the next ones. After an error there is
    /// no other batch, and the same error again.
    pub(crate) fn write(&mut self, rows: Rows) -> Result<RecordColumns, Error> {
        self.unless_refused(|files| files.write_batch(rows))
    }

    /// Writes the end marks; a second call does nothing.
    pub(crate) fn finish(&mut self) -> Result<(), Error> {
        self.unless_refused(|files| {
            files.flows.finish()?;
            files.records.finish()
        })
    }

    /// From here on long files do not stay in memory, where the system can do that.
    pub(crate) fn leave_cache(&mut self) {
        self.records.leave_cache();
    }

    /// From here on records are written in pieces.
    pub(crate) fn write_in_pieces(&mut self) {
        self.records.write_in_pieces();
    }

    fn write_batch(&mut self, rows: Rows) -> Result<RecordColumns, Error> {
        let mut columns = match rows {
            Rows::Connections(rows) => {
                self.flows.write(columns::connection_batch(&rows, &self.flow_schema))?;
                return Ok(RecordColumns::default());
            }
            Rows::Records(columns) => *columns,
        };
        let (batch, spent) = columns.take(&self.record_schema);
        self.records.write(batch)?;
        debug_assert_eq!(columns.rows(), 0, "what was written is held no longer");
        columns.reuse(spent);
        Ok(columns)
    }

    fn unless_refused<T>(
        &mut self,
        write: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if let Some(error) = &self.refused {
            return Err(error.again());
        }
        write(self).inspect_err(|error| self.refused = Some(error.again()))
    }

    /// Records in the file.
    pub(crate) fn rows(&self) -> u64 {
        self.records.rows()
    }

    /// Bytes of the whole batches in both files.
    pub(crate) fn bytes(&self) -> u64 {
        self.records.bytes() + self.flows.bytes()
    }

    /// Each file, by its part.
    pub(crate) fn handles(&self) -> [(Part, Arc<File>); 2] {
        [(Part::Records, self.records.handle()), (Part::Flows, self.flows.handle())]
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;

    use sockscope_record::Record;

    use super::*;

    impl Files {
        /// With another file for the records from here on.
        pub(crate) fn exchange_records(&mut self, file: File) {
            self.records.exchange(file);
        }
    }

    fn records() -> Rows {
        let mut columns = RecordColumns::default();
        columns.fill(&[Record::default()]);
        Rows::Records(Box::new(columns))
    }

    fn full() -> File {
        OpenOptions::new().write(true).open("/dev/full").unwrap()
    }

    fn text<T>(result: Result<T, Error>) -> Option<String> {
        result.err().map(|error| error.to_string())
    }

    /// The disk had room again for later data.
    #[test]
    fn after_a_batch_that_could_not_be_written_both_files_end() {
        for part in [Part::Records, Part::Flows] {
            let temporary = tempfile::tempdir().unwrap();
            let mut files = Files::create(&Folder::own(temporary.path()).unwrap()).unwrap();
            let bytes_before = files.bytes();
            let stream = match part {
                Part::Records => &mut files.records,
                _ => &mut files.flows,
            };
            let file = stream.exchange(full());
            let rows = match part {
                Part::Records => records(),
                _ => Rows::Connections(vec![]),
            };
            let first = text(files.write(rows)).expect("an error");
            assert!(first.ends_with("No space left on device (os error 28)"), "{first}");
            let stream = match part {
                Part::Records => &mut files.records,
                _ => &mut files.flows,
            };
            stream.exchange_back(file);
            let later = [text(files.write(records())), text(files.finish())];
            assert_eq!(later, [Some(first.clone()), Some(first)]);
            assert_eq!((files.rows(), files.bytes()), (0, bytes_before));
            let written = [Part::Records, Part::Flows].map(|part| {
                std::fs::metadata(temporary.path().join(part.file_name())).unwrap().len()
            });
            assert_eq!(written.iter().sum::<u64>(), bytes_before);
        }
    }
}
