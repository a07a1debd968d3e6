//! The records of a Parquet file: the inverse of [`write_parquet`](crate::write_parquet) of the table `records`.
//!
//! Columns are read without Arrow's arrays: a file of a fleet has few rows, and to make its arrays takes as long as to
//! decode them.

use std::collections::BTreeMap;

use bytes::Bytes;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::data_type::{DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetStatisticsPolicy;
use parquet::file::reader::{FileReader, RowGroupReader};
use parquet::file::serialized_reader::{ReadOptionsBuilder, SerializedFileReader};
use parquet::schema::types::SchemaDescriptor;
use sockscope_record::{FlowId, Kind, Record};

use crate::Error;
use crate::zstd_pages::ZstdPages;

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
/// Rows that are read at once: their records stay in the cache of a CPU from column to column.
const ROWS: usize = 2_048;

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
/// [`Error::Read`] when it is no such file, or is damaged; else as [`read_records`](crate::read_records).
pub fn read_parquet(file: Vec<u8>) -> Result<ParquetRecords, Error> {
    let options = ReadOptionsBuilder::new()
        .with_column_stats_policy(ParquetStatisticsPolicy::SkipAll)
        .with_encoding_stats_policy(ParquetStatisticsPolicy::SkipAll)
        .with_size_stats_policy(ParquetStatisticsPolicy::SkipAll);
    let file = Bytes::from(file);
    let reader = SerializedFileReader::new_with_options(file.clone(), options.build())
        .map_err(|error| failure(&error))?;
    let metadata = reader.metadata().file_metadata();
    let facts = metadata.key_value_metadata().into_iter().flatten();
    let facts = facts.filter_map(|it| Some((it.key.clone(), it.value.clone()?))).collect();
    let places = places(metadata.schema_descr())?;
    let rows = usize::try_from(metadata.num_rows()).unwrap_or(0);
    // A damaged number of rows takes no memory.
    let mut records = Vec::with_capacity(rows.min(1 << 22));
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group).map_err(|error| failure(&error))?;
        read_group(&file, &*group, &places, &mut records)?;
    }
    Ok(ParquetRecords { facts, records })
}

/// The places of the columns in a file.
fn places(schema: &SchemaDescriptor) -> Result<[usize; COLUMNS.len()], Error> {
    let mut places = [0; COLUMNS.len()];
    for (place, column) in places.iter_mut().zip(COLUMNS) {
        let found = schema.columns().iter().position(|it| it.path().parts() == [column]);
        let found = found.ok_or_else(|| column_error(column, "no such column"))?;
        if schema.column(found).max_def_level() > 0 {
            return Err(column_error(column, "a column that may have nulls"));
        }
        *place = found;
    }
    Ok(places)
}

fn read_group(
    file: &Bytes,
    group: &dyn RowGroupReader,
    places: &[usize; COLUMNS.len()],
    records: &mut Vec<Record>,
) -> Result<(), Error> {
    let mut columns = Vec::with_capacity(COLUMNS.len());
    for (place, name) in places.iter().zip(COLUMNS) {
        columns.push(Column::open(file, group, *place, name)?);
    }
    let Ok([flow, at_ns, kind, offset, len, cpu, thread, tcp_flags, marks, code, detail, extra]) =
        &mut <[Column; COLUMNS.len()]>::try_from(columns)
    else {
        return Ok(());
    };
    let (whole, u32s, octets) = ("0 to 9223372036854775807", "0 to 4294967295", "0 to 255");
    let of_kind = "the number of a kind of records";
    let mut left = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
    while left > 0 {
        let begin = records.len();
        let rows = left.min(ROWS);
        records.resize(begin + rows, Record::default());
        let part = &mut records[begin..];
        flow.fill(part, u32s, |to, it| u32::try_from(it).ok().map(|it| to.flow = FlowId(it)))?;
        at_ns.fill(part, whole, |to, it| set(&mut to.at_ns, it))?;
        kind.fill(part, of_kind, |to, it| {
            Kind::from_code(u8::try_from(it).ok()?).map(|it| to.kind = it)
        })?;
        offset.fill(part, whole, |to, it| set(&mut to.offset, it))?;
        len.fill(part, u32s, |to, it| set(&mut to.len, it))?;
        cpu.fill(part, "0 to 65535", |to, it| set(&mut to.cpu, it))?;
        thread.fill(part, u32s, |to, it| set(&mut to.thread, it))?;
        tcp_flags.fill(part, octets, |to, it| set(&mut to.tcp_flags, it))?;
        marks.fill(part, octets, |to, it| set(&mut to.marks, it))?;
        code.fill(part, octets, |to, it| set(&mut to.code, it))?;
        detail.fill(part, "", |to, it| set(&mut to.detail, it.cast_unsigned()))?;
        extra.fill(part, u32s, |to, it| set(&mut to.extra, it))?;
        left -= rows;
    }
    Ok(())
}

fn set<From, To: TryFrom<From>>(to: &mut To, it: From) -> Option<()> {
    *to = To::try_from(it).ok()?;
    Some(())
}

/// A column of a group of rows, and the rows that were read last.
struct Column {
    name: &'static str,
    numbers: Numbers,
}

enum Numbers {
    Narrow(ColumnReaderImpl<Int32Type>, Vec<i32>),
    Wide(ColumnReaderImpl<Int64Type>, Vec<i64>),
}

impl Column {
    fn open(
        file: &Bytes,
        group: &dyn RowGroupReader,
        place: usize,
        name: &'static str,
    ) -> Result<Self, Error> {
        let column = group.metadata().column(place);
        let reader = if ZstdPages::is_for(column) {
            let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
            let pages = ZstdPages::open(file, column, rows);
            pages.map(|pages| get_column_reader(column.column_descr_ptr(), Box::new(pages)))
        } else {
            group.get_column_reader(place)
        };
        let numbers = match reader.map_err(|error| failure(&error))? {
            ColumnReader::Int32ColumnReader(reader) => Numbers::Narrow(reader, Vec::new()),
            ColumnReader::Int64ColumnReader(reader) => Numbers::Wide(reader, Vec::new()),
            _ => return Err(column_error(name, "another type")),
        };
        Ok(Self { name, numbers })
    }

    /// Puts the next numbers into these records; `set` gives `None` for one that is not of this column.
    fn fill(
        &mut self,
        records: &mut [Record],
        expected: &'static str,
        set: impl Fn(&mut Record, i64) -> Option<()>,
    ) -> Result<(), Error> {
        let all = match &mut self.numbers {
            Numbers::Narrow(reader, values) => {
                next(reader, values, records.len())?;
                fill(records, values.iter().map(|it| i64::from(*it)), set)
            }
            Numbers::Wide(reader, values) => {
                next(reader, values, records.len())?;
                fill(records, values.iter().copied(), set)
            }
        };
        all.map_err(|(row, found)| Error::Value { row, column: self.name, expected, found })
    }
}

/// Gives the row and the number that is not one of the column.
fn fill(
    records: &mut [Record],
    values: impl Iterator<Item = i64>,
    set: impl Fn(&mut Record, i64) -> Option<()>,
) -> Result<(), (usize, i64)> {
    for (row, (record, value)) in records.iter_mut().zip(values).enumerate() {
        set(record, value).ok_or((row, value))?;
    }
    Ok(())
}

fn next<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    values: &mut Vec<T::T>,
    rows: usize,
) -> Result<(), Error> {
    values.clear();
    reader.read_records(rows, None, None, values).map_err(|error| failure(&error))?;
    if values.len() == rows {
        Ok(())
    } else {
        Err(Error::Read("a column ends before the others".to_owned()))
    }
}

fn column_error(column: &'static str, found: &str) -> Error {
    Error::Column { column, expected: "integers", found: found.to_owned() }
}

fn failure(error: &ParquetError) -> Error {
    Error::Read(error.to_string())
}
