//! A trace and its analysis as Arrow tables.
//!
//! [`records`] has the records of a bundle, batch by batch. [`Tables`] has the tables of an analysis: flows, stages,
//! findings, ledger, exchanges, calls, and the curves, queues and delays of one flow. Each is a [`Table`], an iterator
//! of batches with a known schema. Only one batch of a table and the rows of one connection are in memory.
//!
//! Times end in `_ns` and are nanoseconds of the clock of the trace. The column of the same name without `_ns` has the
//! time since 1970 (UTC). Sizes are bytes. All integers are signed. Each field of a schema has its unit and its meaning
//! in its metadata ([`UNIT`], [`DESCRIPTION`]); docs/reference/tables.md has them all.

mod calls;
mod clock;
mod column;
#[cfg(feature = "files")]
mod csv;
mod describe;
mod error;
mod exchanges;
mod findings;
mod flows;
mod hosts;
mod ledger;
#[cfg(feature = "files")]
mod parquet;
#[cfg(feature = "files")]
mod parquet_read;
mod read;
mod records;
#[cfg(feature = "files")]
mod sorted;
mod steps;
mod table;
mod tables;
mod trace;
#[cfg(feature = "files")]
mod zstd_pages;

pub use clock::WallClock;
pub use column::{DESCRIPTION, UNIT};
#[cfg(feature = "files")]
pub use csv::write_csv;
pub use describe::{Description, descriptions};
pub use error::Error;
#[cfg(feature = "files")]
pub use parquet::{META, write_parquet};
#[cfg(feature = "files")]
pub use parquet_read::{ParquetRecords, read_parquet};
pub use read::{read_connections, read_records};
pub use records::{records, records_of};
#[cfg(feature = "files")]
pub use sorted::sorted_records;
pub use table::{BATCH_ROWS, SCHEMA, Table};
pub use tables::Tables;
