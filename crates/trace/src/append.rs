//! An Arrow stream file that only ever grows by whole messages.

use std::fs::File;
use std::io::{self, IoSlice, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::writer::StreamEncoder;
use arrow_schema::{ArrowError, SchemaRef};
use rustix::io::{Errno, ReadWriteFlags, pwritev2};

use crate::error::Error;
use crate::folder::Folder;
use crate::format::Part;
use crate::seal;

/// Of a file up to this size the system may keep all in memory: a report that follows soon finds it there.
const KEPT_BYTES: u64 = 64 << 20;

/// Writes with this flag go to the disk at once, and do not stay in memory: `RWF_DONTCACHE` of Linux 6.14,
/// for which rustix has no name.
const UNCACHED: ReadWriteFlags = ReadWriteFlags::from_bits_retain(0x80);

/// Bytes of a piece: one write of it takes 10 us.
const PIECE_BYTES: usize = 32 << 10;

/// A file that takes batches. Each reaches it in one vectored write (more only where the system
/// takes less, or where pieces are asked for). A write that fails is undone, so that the file always
/// ends at a batch's end, unless the process dies inside that write.
pub(crate) struct StreamFile {
    path: PathBuf,
    file: Arc<File>,
    /// `None` once finished.
    encoder: Option<StreamEncoder>,
    whole_bytes: u64,
    batches: u64,
    rows: u64,
    schema: SchemaRef,
    /// Whether the system is asked not to keep the file in memory.
    is_uncached: bool,
    /// Of one write at most.
    piece_bytes: usize,
}

impl StreamFile {
    /// Creates the file, which must not exist, with its schema in it.
    pub(crate) fn create(folder: &Folder, part: Part, schema: &SchemaRef) -> Result<Self, Error> {
        let path = folder.path().join(part.file_name());
        let file = Arc::new(folder.create(part.file_name())?);
        let encoder = StreamEncoder::try_new(schema).map_err(|source| Error::Encode {
            path: path.clone(),
            batch: 0,
            source,
        })?;
        let mut stream = Self {
            path,
            file,
            encoder: Some(encoder),
            whole_bytes: 0,
            batches: 0,
            rows: 0,
            schema: schema.clone(),
            is_uncached: false,
            piece_bytes: usize::MAX,
        };
        // An empty batch makes the encoder write the schema at once: a reader that follows, or
        // that opens the file after a kill, then knows the columns.
        stream.write_empty()?;
        Ok(stream)
    }

    /// The file, to see whether it still has its name.
    pub(crate) fn handle(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }

    /// Rows that it has.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
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
        let bytes_before = self.whole_bytes;
        self.append(&buffers)?;
        debug_assert!(bytes_before < self.whole_bytes, "each batch has a header");
        self.batches += 1;
        self.rows += rows;
        Ok(())
    }

    /// Writes the end mark; a second call does nothing.
    pub(crate) fn finish(&mut self) -> Result<(), Error> {
        // An empty batch, whose seal has the number of rows before it: so it is known even if
        // the header of the last batch with rows is damaged.
        self.write_empty()?;
        let Some(encoder) = self.encoder.take() else { return Ok(()) };
        let buffers = encoder.finish().map_err(encode_error(&self.path, self.batches))?;
        self.append(&buffers)
    }

    /// From here on the file does not stay in memory beyond [`KEPT_BYTES`], where the system can do that.
    pub(crate) fn leave_cache(&mut self) {
        self.is_uncached = true;
    }

    /// From here on a batch is written in pieces of [`PIECE_BYTES`] at most.
    pub(crate) fn write_in_pieces(&mut self) {
        self.piece_bytes = PIECE_BYTES;
    }

    fn write_empty(&mut self) -> Result<(), Error> {
        let empty = RecordBatch::new_empty(self.schema.clone());
        self.write(Ok(empty))
    }

    fn append(&mut self, buffers: &[Buffer]) -> Result<(), Error> {
        let mut slices: Vec<IoSlice<'_>> =
            buffers.iter().map(|buffer| IoSlice::new(buffer.as_slice())).collect();
        let bytes: usize = buffers.iter().map(Buffer::len).sum();
        let mut file = Appended {
            file: &self.file,
            is_uncached: &mut self.is_uncached,
            is_long: self.whole_bytes >= KEPT_BYTES,
        };
        if let Err(error) = write_all_vectored(&mut file, &mut slices, self.piece_bytes) {
            // Best effort: if even this fails, readers still stop at the last whole batch.
            let _ = self.file.set_len(self.whole_bytes);
            let _ = io::Seek::seek(&mut &*self.file, io::SeekFrom::Start(self.whole_bytes));
            return Err(Error::Io { path: self.path.clone(), source: error });
        }
        self.whole_bytes += bytes as u64;
        Ok(())
    }
}

/// The file, written where it ends.
struct Appended<'a> {
    file: &'a File,
    is_uncached: &'a mut bool,
    is_long: bool,
}

impl Write for Appended<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        if *self.is_uncached && self.is_long {
            // With this place the system uses, and moves, the one that the file has.
            match pwritev2(self.file, slices, u64::MAX, UNCACHED) {
                // Before Linux 6.14, or a file system that cannot.
                Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS) => *self.is_uncached = false,
                written => return Ok(written?),
            }
        }
        let mut file = self.file;
        file.write_vectored(slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn encode_error(path: &Path, batch: u64) -> impl FnOnce(ArrowError) -> Error + '_ {
    move |source| Error::Encode { path: path.to_owned(), batch, source }
}

/// In writes of so many bytes at most.
fn write_all_vectored(
    file: &mut impl Write,
    mut slices: &mut [IoSlice<'_>],
    piece_bytes: usize,
) -> io::Result<()> {
    // Skips leading empty slices, so that a result of 0 means that nothing could be written.
    IoSlice::advance_slices(&mut slices, 0);
    while !slices.is_empty() {
        let mut bytes = 0;
        let fits = |slice: &&IoSlice<'_>| {
            bytes += slice.len();
            bytes <= piece_bytes
        };
        let written = match slices.iter().take_while(fits).count() {
            0 => file.write(&slices[0][..piece_bytes]),
            whole => file.write_vectored(&slices[..whole]),
        };
        match written {
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

    impl StreamFile {
        pub(crate) fn exchange_back(&mut self, file: Arc<File>) {
            self.file = file;
        }

        /// Writes into another file from here on; the one before is returned.
        pub(crate) fn exchange(&mut self, file: File) -> Arc<File> {
            std::mem::replace(&mut self.file, Arc::new(file))
        }
    }

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

    #[test]
    fn short_and_interrupted_writes_lose_nothing() {
        let parts: [&[u8]; 4] = [b"", b"a batch", b"", b" in parts"];
        for piece_bytes in [1, 2, 7, usize::MAX] {
            let mut file = Trickle::default();
            write_all_vectored(&mut file, &mut parts.map(IoSlice::new), piece_bytes).unwrap();
            assert_eq!(file.bytes, b"a batch in parts");
        }
    }

    /// Takes all, and notes the sizes of the writes.
    #[derive(Default)]
    struct Sizes(Vec<usize>);

    impl Write for Sizes {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.write_vectored(&[IoSlice::new(bytes)])
        }

        fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
            self.0.push(slices.iter().map(|slice| slice.len()).sum());
            Ok(*self.0.last().unwrap())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_write_is_of_no_more_than_a_piece() {
        let parts = [&[7; 10][..], &[7; 25], &[7; 5], &[7; 5], &[7; 5]];
        let sizes = |piece_bytes| {
            let mut file = Sizes::default();
            write_all_vectored(&mut file, &mut parts.map(IoSlice::new), piece_bytes).unwrap();
            file.0
        };
        assert_eq!(sizes(12), [10, 12, 12, 11, 5]);
        assert_eq!(sizes(usize::MAX), [50]);
    }
}
