//! Finding the next whole message behind damaged bytes.
//!
//! Only a message with a seal that holds is taken, so that no column of numbers is mistaken for one.

use std::io::{Read, Seek};

use arrow_ipc::root_as_message;

use super::search::Search;
use super::{CONTINUATION, PREFIX_BYTES, Stream, header_bytes, read_at};
use crate::error::Error;
use crate::format::SEALED_HEADER_BYTES_MAX;
use crate::seal::Seal;

/// Messages begin at multiples of this.
const STEP_BYTES: u64 = 8;

/// Bytes looked through at a time.
const CHUNK_BYTES: u64 = 1 << 16;

/// Bytes that are looked through in a file at most: far more than the headers of damaged batches span.
const SEARCHED_BYTES_MAX: u64 = 1 << 30;

impl<R: Read + Seek> Stream<R> {
    /// Passes over the message at the position, and all up to the next one with a seal that holds.
    /// False without one: the position then stays.
    pub(super) fn resync(&mut self, expected: &str) -> Result<bool, Error> {
        if self.schema_seen && !self.is_sealed {
            return Ok(false);
        }
        let Some((at_byte, seal)) = self.next_sealed()? else { return Ok(false) };
        debug_assert!(self.position < at_byte && at_byte < self.length);
        let rows = seal.rows_before.saturating_sub(self.rows_accounted());
        self.leave_out(at_byte, rows, expected.to_owned());
        // The columns are those of this format: earlier formats had no seals.
        (self.schema_seen, self.is_sealed) = (true, true);
        Ok(true)
    }

    fn next_sealed(&mut self) -> Result<Option<(u64, Seal)>, Error> {
        let from = self.position.saturating_add(STEP_BYTES);
        // A header that the file ended in may be whole by now.
        let again = self.search.to.saturating_sub(SEALED_HEADER_BYTES_MAX + PREFIX_BYTES);
        let mut at = if self.search.from == from {
            again.max(from).next_multiple_of(STEP_BYTES)
        } else {
            from
        };
        if self.search.from == from && self.search.to == self.length {
            return Ok(None);
        }
        let bytes = if self.search.from == from { self.search.bytes } else { 0 };
        self.search = Search { from, to: self.length, bytes, ..self.search };
        let mut chunk = Vec::new();
        while let Some(left) = self.length.checked_sub(at).filter(|left| *left >= PREFIX_BYTES) {
            if self.search.bytes + self.search.bytes_before >= SEARCHED_BYTES_MAX {
                return Ok(None);
            }
            chunk.resize(left.min(CHUNK_BYTES) as usize, 0);
            self.search.bytes += chunk.len() as u64;
            read_at(&mut self.source, at, &mut chunk).map_err(Error::io(&self.path))?;
            let words = chunk.as_chunks::<{ STEP_BYTES as usize }>().0;
            for (number, word) in words.iter().enumerate() {
                let here = at + number as u64 * STEP_BYTES;
                if word.starts_with(&CONTINUATION)
                    && let Some(seal) = self.seal_at(here, word)?
                {
                    debug_assert!(
                        from <= here && self.search.bytes <= SEARCHED_BYTES_MAX + CHUNK_BYTES
                    );
                    self.search.bytes_before += self.search.bytes;
                    return Ok(Some((here, seal)));
                }
            }
            at += words.len() as u64 * STEP_BYTES;
        }
        Ok(None)
    }

    /// The seal of the message at `at`, which begins with `prefix`, if there is one that holds.
    fn seal_at(&mut self, at: u64, prefix: &[u8]) -> Result<Option<Seal>, Error> {
        let Ok(Some(bytes)) = header_bytes(prefix) else { return Ok(None) };
        let left = self.length - at - PREFIX_BYTES;
        if bytes == 0 || bytes > left.min(SEALED_HEADER_BYTES_MAX) {
            return Ok(None);
        }
        let mut header = vec![0; bytes as usize];
        read_at(&mut self.source, at + PREFIX_BYTES, &mut header).map_err(Error::io(&self.path))?;
        let seal = root_as_message(&header).ok().and_then(|message| {
            // A schema is only at the start of a file.
            message.header_as_record_batch()?;
            Seal::of(&header, &message).ok().flatten()
        });
        Ok(seal)
    }
}
