//! The limit on the bytes of a bundle.
//!
//! Rows are buffered before they are written, so that their bytes are known only later. Every bound here
//! is therefore an upper bound: the files stay within it for any encoding of the rows.

use std::collections::HashMap;

use sockscope_record::{Connection, ConnectionId, Record};

use crate::error::Error;
use crate::format::{RECORD_WIDTHS, SEALED_HEADER_BYTES_MAX};
use crate::meta::Meta;

/// Bytes that `meta.json` may have at first, and by which it may grow during the recording.
const META_BYTES: u64 = 128 << 10;
const META_GROWTH_BYTES: u64 = 64 << 10;
/// Bytes of a batch without its rows: a header below 3,000 bytes, and the padding of its buffers.
const BATCH_BYTES: u64 = SEALED_HEADER_BYTES_MAX;
/// Of each stream, the buffered batch, and the one that ends the file.
const OPEN_BATCHES_BYTES: u64 = 4 * BATCH_BYTES;
/// Bytes of both schemas, and of some rows.
const CONTENT_BYTES_MIN: u64 = 64 << 10;
/// Bytes of a connection's row without its processes: numbers, two addresses of 50 characters at most,
/// lengths and bits.
const CONNECTION_BYTES: u64 = 216;
/// Bytes of the two addresses that another host has in their place.
const ELSEWHERE_BYTES: u64 = 101;
/// Bytes of a process of such a row without its name.
const PROCESS_BYTES: u64 = 44;

/// Bytes of a record in a bundle, at most: its columns, each with one more bit if its values are optional.
pub const RECORD_BYTES_MAX: u64 = {
    let (mut bytes, mut column) = (0, 0);
    while column < RECORD_WIDTHS.len() {
        bytes += RECORD_WIDTHS[column] as u64;
        column += 1;
    }
    bytes + (RECORD_WIDTHS.len() as u64).div_ceil(8)
};

/// The most bytes that the files of a bundle may have together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SizeLimit {
    /// Of both streams with their ends.
    streams_bytes: u64,
    /// Of `meta.json`: two exist while one replaces the other.
    meta_bytes: u64,
}

impl SizeLimit {
    /// At most `bytes` for a bundle that is described by `meta`, which may grow by 64 KiB.
    ///
    /// # Errors
    ///
    /// [`Error::TooSmall`] when a bundle needs more.
    pub fn new(bytes: u64, meta: &Meta) -> Result<Self, Error> {
        let meta_bytes = META_BYTES.max(meta.to_json()?.len() as u64 + META_GROWTH_BYTES);
        let least = 2 * meta_bytes + OPEN_BATCHES_BYTES + CONTENT_BYTES_MIN;
        if bytes < least {
            return Err(Error::TooSmall { bytes, least });
        }
        let limit = Self { streams_bytes: bytes - 2 * meta_bytes, meta_bytes };
        debug_assert!(limit.streams_bytes >= OPEN_BATCHES_BYTES + CONTENT_BYTES_MIN);
        Ok(limit)
    }

    /// The most bytes of both streams.
    pub fn bytes(&self) -> u64 {
        self.streams_bytes
    }

    /// Whether `meta.json` may have `bytes`.
    pub(crate) fn admits_meta(&self, bytes: u64) -> bool {
        bytes <= self.meta_bytes
    }
}

/// Use of a limit, with the bytes of buffered rows and of open connections.
#[derive(Debug)]
pub(crate) struct Usage {
    limit: SizeLimit,
    /// Bytes of the buffered rows of connections.
    held_bytes: u64,
    /// Connections that are open, each with the bytes that its last row may need.
    open: HashMap<ConnectionId, u64>,
    open_bytes: u64,
    /// Something was refused, or nothing more fits: nothing is taken behind a gap.
    is_full: bool,
}

impl Usage {
    pub(crate) fn new(limit: SizeLimit) -> Self {
        Self { limit, held_bytes: 0, open: HashMap::new(), open_bytes: 0, is_full: false }
    }

    pub(crate) fn limit(&self) -> SizeLimit {
        self.limit
    }

    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }

    /// The first of `records` that fit in addition to `held` records and `written` bytes.
    pub(crate) fn admit<'a>(
        &mut self,
        records: &'a [Record],
        held: usize,
        written: u64,
    ) -> &'a [Record] {
        let room = self.room(held, written) / RECORD_BYTES_MAX;
        let taken = records.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        let taken = if self.is_full { 0 } else { taken };
        // The next one would not fit.
        debug_assert!(taken as u64 <= room);
        self.is_full |= taken as u64 == room;
        &records[..taken]
    }

    /// Whether a connection's row fits in addition to `held` records and `written` bytes; it is then buffered.
    /// Room is kept for the last row of each connection that is open.
    pub(crate) fn admits(&mut self, row: &Connection, held: usize, written: u64) -> bool {
        let bytes = connection_bytes_max(row);
        let kept = self.open.get(&row.id).copied();
        let last = if row.closed_ns.is_none() { bytes } else { 0 };
        let fits = bytes + last <= self.room(held, written) + kept.unwrap_or_default();
        if !fits || (self.is_full && kept.is_none()) {
            self.is_full = true;
            return false;
        }
        debug_assert!(kept.unwrap_or_default() <= self.open_bytes);
        self.open_bytes = self.open_bytes + last - kept.unwrap_or_default();
        if last > 0 {
            self.open.insert(row.id, last);
        } else {
            self.open.remove(&row.id);
        }
        self.held_bytes += bytes;
        true
    }

    /// The last row of a connection was taken.
    pub(crate) fn complete(&mut self, id: ConnectionId) {
        self.open_bytes -= self.open.remove(&id).unwrap_or_default();
        debug_assert!(!self.open.is_empty() || self.open_bytes == 0);
    }

    /// The buffered rows of connections are written.
    pub(crate) fn connections_written(&mut self) {
        self.held_bytes = 0;
    }

    /// Bytes for more rows.
    fn room(&self, held: usize, written: u64) -> u64 {
        let used = written
            + OPEN_BATCHES_BYTES
            + held as u64 * RECORD_BYTES_MAX
            + self.held_bytes
            + self.open_bytes;
        self.limit.streams_bytes.saturating_sub(used)
    }
}

/// The bytes of a batch of these rows, at most.
pub(crate) fn connections_bytes(rows: &[Connection]) -> u64 {
    BATCH_BYTES + rows.iter().map(connection_bytes_max).sum::<u64>()
}

/// The bytes of a batch of `records` records, at most.
pub(crate) fn records_bytes(records: usize) -> u64 {
    BATCH_BYTES + records as u64 * RECORD_BYTES_MAX
}

/// The bytes of a connection's row in a bundle, at most.
pub fn connection_bytes_max(row: &Connection) -> u64 {
    let processes = row.processes.iter().map(|process| PROCESS_BYTES + process.comm.len() as u64);
    let elsewhere = if row.elsewhere.is_some() { ELSEWHERE_BYTES } else { 0 };
    CONNECTION_BYTES + elsewhere + processes.sum::<u64>()
}
