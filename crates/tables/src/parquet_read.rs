//! The records of a Parquet file: the inverse of [`write_parquet`](crate::write_parquet) of the table `records`.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::errors::ParquetError;
use sockscope_record::Record;

use crate::{Error, read_records};

/// Columns that a record is made of; `kind` and `at` have the same facts in words.
const COLUMNS: [&str; 12] = [
    "flow",
    "at_ns",
    "kind_code",
    "offset",
    "len",
    "cpu",
    "thread",
    "tcp_flags",
    "marks",
    "code",
    "detail",
    "extra",
];
/// Rows of a batch: their columns fit into the cache of a CPU.
const ROWS: usize = 15_360;

/// The content of a file.
#[derive(Debug)]
pub struct ParquetRecords {
    /// The facts in its metadata, by their keys.
    pub facts: BTreeMap<String, String>,
    /// Its records, in their order.
    pub records: Vec<Record>,
}

/// Reads a file that is in memory.
///
/// # Errors
///
/// [`Error::Read`] when it is no such file, or is damaged; else as [`read_records`].
pub fn read_parquet(file: Vec<u8>) -> Result<ParquetRecords, Error> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(file))
        .map_err(|error| failure(&error))?;
    let metadata = Arc::clone(builder.metadata());
    let facts = metadata.file_metadata().key_value_metadata().into_iter().flatten();
    let facts = facts.filter_map(|it| Some((it.key.clone(), it.value.clone()?))).collect();
    let rows = usize::try_from(metadata.file_metadata().num_rows()).unwrap_or(0);
    let columns = ProjectionMask::columns(builder.parquet_schema(), COLUMNS);
    let batches = builder.with_projection(columns).with_batch_size(ROWS).build();
    // A damaged number of rows takes no memory.
    let mut records = Vec::with_capacity(rows.min(1 << 22));
    for batch in batches.map_err(|error| failure(&error))? {
        records.extend(read_records(&batch?)?);
    }
    Ok(ParquetRecords { facts, records })
}

fn failure(error: &ParquetError) -> Error {
    Error::Read(error.to_string())
}
