//! A table as a Parquet file: compressed by zstd, whole numbers by their differences, row groups of 122,880 rows.

use std::io::{self, Write};

use arrow_schema::{DataType, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::schema::types::ColumnPath;

use crate::{Error, SCHEMA, Table};

/// Rows of a group, which a reader takes as a whole: what DuckDB works on at once.
const GROUP_ROWS: usize = 122_880;

/// Key of the bundle's `meta.json` in the metadata of a file.
pub const META: &str = "sockscope.meta";

/// Writes a table with these facts in the file's metadata, as [`META`] with the text of the bundle's `meta.json`. An
/// empty fact is left out. Calls `wrote` with the number of rows of each batch, and returns the number of rows.
///
/// # Errors
///
/// When `out` fails, or the table cannot be made.
pub fn write_parquet(
    table: Table,
    out: impl Write + Send,
    facts: &[(&str, &str)],
    wrote: &mut dyn FnMut(u64),
) -> Result<u64, Error> {
    let schema = table.schema();
    let properties = properties(&table, facts)?;
    let mut writer = ArrowWriter::try_new(out, schema, Some(properties)).map_err(failure)?;
    let mut rows = 0;
    for batch in table {
        let batch = batch?;
        writer.write(&batch).map_err(failure)?;
        rows += batch.num_rows() as u64;
        wrote(batch.num_rows() as u64);
    }
    writer.close().map_err(failure)?;
    Ok(rows)
}

fn properties(table: &Table, facts: &[(&str, &str)]) -> Result<WriterProperties, Error> {
    let schema = table.schema();
    let level = ZstdLevel::try_new(1).map_err(failure)?;
    let of_schema = schema.metadata().get(SCHEMA).map(|version| (SCHEMA, version.as_str()));
    let facts = of_schema.into_iter().chain(facts.iter().copied()).filter(|(_, it)| !it.is_empty());
    let facts = facts.map(|(key, it)| KeyValue { key: key.to_owned(), value: Some(it.to_owned()) });
    let mut properties = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_compression(Compression::ZSTD(level))
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_sorting_columns(sorted_by(table.name(), &schema))
        .set_key_value_metadata(Some(facts.collect()));
    // A dictionary of numbers is no smaller after compression, and takes twice the time.
    for field in schema.fields() {
        let is_number = matches!(
            field.data_type(),
            DataType::Int16 | DataType::Int32 | DataType::Int64 | DataType::Timestamp(..)
        );
        let column = ColumnPath::from(field.name().as_str());
        if field.name() == "kind" {
            // Most groups have all kinds, so that their limits help no reader.
            properties = properties.set_column_statistics_enabled(column, EnabledStatistics::None);
        } else if is_number {
            properties = properties
                .set_column_dictionary_enabled(column.clone(), false)
                .set_column_encoding(column, Encoding::DELTA_BINARY_PACKED);
        }
    }
    Ok(properties.build())
}

/// The order of the records; other tables are small.
fn sorted_by(table: &str, schema: &SchemaRef) -> Option<Vec<SortingColumn>> {
    let column = |name| {
        let column_idx = i32::try_from(schema.index_of(name).ok()?).ok()?;
        Some(SortingColumn { column_idx, descending: false, nulls_first: false })
    };
    if table != crate::records::TABLE {
        return None;
    }
    Some(vec![column("flow")?, column("at_ns")?])
}

fn failure(error: ParquetError) -> Error {
    match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(error) => Error::Write(*error),
            Err(other) => Error::Write(io::Error::other(other)),
        },
        other => Error::Write(io::Error::other(other)),
    }
}
