//! Errors, with their place and the expected value.

use sockscope_record::FlowId;

/// A table cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The trace has no flow with this number.
    #[error("no flow {flow} in this trace, which has {}", range(*.flows))]
    NoFlow {
        /// The number asked for.
        flow: FlowId,
        /// The first and the last number; `None` in a trace without connections.
        flows: Option<(FlowId, FlowId)>,
    },
    /// A column of a table is missing, or has another type.
    #[error("column {column}: expected {expected}, found {found}")]
    Column {
        /// Its name.
        column: &'static str,
        /// The type expected.
        expected: &'static str,
        /// The type found, or the fact that the column is missing.
        found: String,
    },
    /// A number of a table is not one of a record or a connection.
    #[error("row {row}: expected {expected} in column {column}, found {found}")]
    Value {
        /// From 0, in its batch.
        row: usize,
        /// The column's name.
        column: &'static str,
        /// The values expected.
        expected: &'static str,
        /// The value found.
        found: i64,
    },
    /// A text of a table is not one of a connection.
    #[error("row {row}: expected {expected} in column {column}, found {found:?}")]
    Text {
        /// From 0, in its batch.
        row: usize,
        /// The column's name.
        column: &'static str,
        /// The texts expected.
        expected: &'static str,
        /// The text found.
        found: String,
    },
    /// The file for the sort of the records cannot be written or read.
    #[error("cannot sort the records by a file in the folder of the output: {0}")]
    Scratch(#[source] std::io::Error),
    /// The file of a table cannot be written.
    #[error("{0}")]
    Write(#[source] std::io::Error),
    /// The file of a table cannot be read.
    #[error("no whole Parquet file: {0}")]
    Read(String),
    /// A table cannot be made.
    #[error(transparent)]
    Table(#[from] arrow_schema::ArrowError),
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] sockscope_trace::Error),
}

fn range(flows: Option<(FlowId, FlowId)>) -> String {
    match flows {
        None => "no flows".to_owned(),
        Some((first, last)) => format!("flows {first} to {last}"),
    }
}
