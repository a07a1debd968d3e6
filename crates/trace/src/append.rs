//! An Arrow stream file that only ever grows by whole messages.

use std::fs::File;
use std::io::{self, IoSlice, Write};
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::writer::StreamEncoder;
use arrow_schema::{ArrowError, SchemaRef};

use crate::error::Error;
use crate::folder::Folder;
use crate::format::Part;
use crate::seal;

/// A file that takes batches. Each reaches it in one vectored write (more only where the system
/// takes less), and a write that fails is undone, so that the file always ends at a batch's end
/// unless the process dies inside that write.
pub(crate) struct StreamFile {
    part: Part,
    path: PathBuf,
    file: File,
    /// `None` once finished.
    encoder: Option<StreamEncoder>,
    whole_bytes: u64,
    batches: u64,
    rows: u64,
    schema: SchemaRef,
    /// What the system said when a batch could not be written. The file ends there: a later batch that
    /// fits would leave a hole before it that nobody could see.
    refused: Option<io::Error>,
}

impl StreamFile {
    /// Creates the file, which must not exist, with its schema in it.
    pub(crate) fn create(folder: &Folder, part: Part, schema: &SchemaRef) -> Result<Self, Error> {
        let path = folder.path().join(part.file_name());
        let file = folder.create(part.file_name())?;
        let encoder = StreamEncoder::try_new(schema).map_err(|source| Error::Encode {
            path: path.clone(),
            batch: 0,
            source,
        })?;
        let mut stream = Self {
            part,
            path,
            file,
            encoder: Some(encoder),
            whole_bytes: 0,
            batches: 0,
            rows: 0,
            schema: schema.clone(),
            refused: None,
        };
        // An empty batch makes the encoder give out the schema at once: a reader that follows, or
        // that comes after a kill, then knows the columns.
        stream.write_empty()?;
        Ok(stream)
    }

    /// Whether `folder` still has it.
    pub(crate) fn is_in_place(&self, folder: &Folder) -> bool {
        folder.has(self.part.file_name(), &self.file)
    }

    /// Bytes of the whole batches that it has.
    pub(crate) fn bytes(&self) -> u64 {
        self.whole_bytes
    }

    /// Writes one batch, unless building it failed already.
    pub(crate) fn write(&mut self, batch: Result<RecordBatch, ArrowError>) -> Result<(), Error> {
        let Some(encoder) = &mut self.encoder else { return Ok(()) };
        let rows_before = self.rows;
        let encoded = batch.and_then(|batch| {
            let buffers = seal::sealed(encoder.encode(&batch)?, rows_before)?;
            Ok((buffers, batch.num_rows() as u64))
        });
        let (buffers, rows) = encoded.map_err(encode_error(&self.path, self.batches))?;
        self.append(&buffers)?;
        self.batches += 1;
        self.rows += rows;
        Ok(())
    }

    /// Writes the end mark; a second call does nothing.
    pub(crate) fn finish(&mut self) -> Result<(), Error> {
        // An empty batch, whose seal says how many rows came before it: so they are known even if
        // the header of the last batch with rows is damaged.
        self.write_empty()?;
        let Some(encoder) = self.encoder.take() else { return Ok(()) };
        let buffers = encoder.finish().map_err(encode_error(&self.path, self.batches))?;
        self.append(&buffers)
    }

    fn write_empty(&mut self) -> Result<(), Error> {
        let empty = RecordBatch::new_empty(self.schema.clone());
        self.write(Ok(empty))
    }

    fn append(&mut self, buffers: &[Buffer]) -> Result<(), Error> {
        if let Some(error) = &self.refused {
            return Err(Error::Io { path: self.path.clone(), source: same(error) });
        }
        let mut slices: Vec<IoSlice<'_>> =
            buffers.iter().map(|buffer| IoSlice::new(buffer.as_slice())).collect();
        let bytes: usize = buffers.iter().map(Buffer::len).sum();
        if let Err(error) = write_all_vectored(&mut self.file, &mut slices) {
            // Best effort: if even this fails, readers still stop at the last whole batch.
            let _ = self.file.set_len(self.whole_bytes);
            let _ = io::Seek::seek(&mut self.file, io::SeekFrom::Start(self.whole_bytes));
            self.refused = Some(same(&error));
            return Err(Error::Io { path: self.path.clone(), source: error });
        }
        self.whole_bytes += bytes as u64;
        Ok(())
    }
}

/// The error once more, in the system's words where it came from there.
fn same(error: &io::Error) -> io::Error {
    error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error)
}

fn encode_error(path: &Path, batch: u64) -> impl FnOnce(ArrowError) -> Error + '_ {
    move |source| Error::Encode { path: path.to_owned(), batch, source }
}

fn write_all_vectored(file: &mut impl Write, mut slices: &mut [IoSlice<'_>]) -> io::Result<()> {
    // Skips leading empty slices, so that a result of 0 means that nothing could be written.
    IoSlice::advance_slices(&mut slices, 0);
    while !slices.is_empty() {
        match file.write_vectored(slices) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(bytes) => IoSlice::advance_slices(&mut slices, bytes),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes at most three bytes a call, and every other call is interrupted.
    #[derive(Default)]
    struct Trickle {
        bytes: Vec<u8>,
        calls: usize,
    }

    impl Write for Trickle {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.calls += 1;
            if self.calls.is_multiple_of(2) {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let taken = bytes.len().min(3);
            self.bytes.extend(&bytes[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The disk had room again for what came later.
    #[test]
    fn after_a_batch_that_could_not_be_written_the_file_ends() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("records.arrows");
        let schema = SchemaRef::new(crate::format::record_schema());
        let folder = Folder::own(dir.path()).unwrap();
        let mut stream = StreamFile::create(&folder, Part::Records, &schema).unwrap();
        let bytes_before = std::fs::metadata(&path).unwrap().len();
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let file = std::mem::replace(&mut stream.file, full);
        let first = stream.write_empty().unwrap_err().to_string();
        assert!(first.ends_with("No space left on device (os error 28)"), "{first}");
        stream.file = file;
        let later = [stream.write_empty(), stream.finish()];
        assert_eq!(later.map(|written| written.unwrap_err().to_string()), [first.clone(), first]);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), bytes_before);
    }

    #[test]
    fn short_and_interrupted_writes_lose_nothing() {
        let mut file = Trickle::default();
        let parts: [&[u8]; 4] = [b"", b"a batch", b"", b" in parts"];
        write_all_vectored(&mut file, &mut parts.map(IoSlice::new)).unwrap();
        assert_eq!(file.bytes, b"a batch in parts");
    }
}
