//! The table `records`: one row for each record, made column by column from each batch of the bundle.

use std::fs::File;
use std::sync::Arc;

use arrow_array::types::{ArrowPrimitiveType, Int8Type, Int16Type, Int32Type, Int64Type};
use arrow_array::{
    ArrayRef, DictionaryArray, Int8Array, Int64Array, PrimitiveArray, RecordBatch, StringArray,
    TimestampNanosecondArray,
};
use arrow_buffer::ScalarBuffer;
use arrow_schema::{ArrowError, DataType, Field, SchemaRef};
use sockscope_record::{Kind, Record};
use sockscope_trace::{Bundle, RecordReader};

use crate::column::{field, signed, timestamp};
use crate::hosts::Hosts;
use crate::table::{BATCH_ROWS, batch, schema};
use crate::{Error, Table, WallClock};

/// Its name.
pub(crate) const TABLE: &str = "records";

/// The columns. Those of a record have the names that they have in the bundle.
pub(crate) fn fields() -> Vec<Field> {
    let kind = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
    vec![
        field(
            "flow",
            DataType::Int64,
            false,
            "",
            "Direction of a connection: twice its number, plus 1 from the server; 0 of no flow",
        ),
        field("at_ns", DataType::Int64, false, "ns", "Time, on the clock of the trace"),
        field(
            "at",
            timestamp(),
            true,
            "ns",
            "The same time since 1970 (UTC); null where the trace has no wall clock",
        ),
        field(
            "kind",
            kind,
            false,
            "",
            "Event that was observed, in words: a point or another event",
        ),
        field(
            "kind_code",
            DataType::Int16,
            false,
            "",
            "Its number, 1 to 255; 1 to 8 are the points",
        ),
        field(
            "offset",
            DataType::Int64,
            false,
            "bytes",
            "Position in the flow of the first byte concerned; of `Loss` a time in ns",
        ),
        field(
            "len",
            DataType::Int64,
            false,
            "bytes",
            "Number of bytes concerned, 0 to 4,294,967,295",
        ),
        field(
            "host",
            DataType::Int64,
            true,
            "",
            "Number of the host where it was observed, as in the table `flows`; null also of a record of both ends or of none",
        ),
        field("cpu", DataType::Int32, false, "", "CPU on which it was observed, 0 to 65,535"),
        field(
            "thread",
            DataType::Int64,
            false,
            "",
            "Thread (kernel task id); 0 where no thread is concerned",
        ),
        field("tcp_flags", DataType::Int16, false, "", "Flags of the TCP header, low eight bits"),
        field("marks", DataType::Int16, false, "", "Marks, eight bits"),
        field("code", DataType::Int16, false, "", "By kind, 0 to 255"),
        field("detail", DataType::Int64, false, "", "By kind: the 64 bits as a signed number"),
        field("extra", DataType::Int64, false, "", "By kind, 0 to 4,294,967,295"),
    ]
}

/// The schema of the table.
pub(crate) fn records_schema() -> SchemaRef {
    schema(TABLE, fields())
}

/// The records of a bundle in the order of its rows, which is nearly that of time. A batch of the table is one of the
/// bundle. Damaged parts of the bundle have records of kind `Loss` in their place.
///
/// # Errors
///
/// When the bundle's file cannot be opened.
pub fn records(bundle: &Bundle) -> Result<Table, Error> {
    let (schema, encoder) = (records_schema(), Encoder::of(bundle));
    let batches = Batches { records: bundle.records()?, encoder, schema: schema.clone() };
    Ok(Table::new(TABLE, schema, Box::new(batches)))
}

/// These records as a table, in their order. Their hosts are null.
pub fn records_of(records: Vec<Record>, clock: WallClock) -> Table {
    let (schema, encoder) = (records_schema(), Encoder::new(clock, Hosts::default()));
    let (of_batch, mut at) = (schema.clone(), 0);
    let batches = std::iter::from_fn(move || {
        let end = records.len().min(at + BATCH_ROWS);
        let part = records.get(at..end).filter(|part| !part.is_empty())?;
        at = end;
        Some(encoder.batch(&of_batch, part))
    });
    Table::new(TABLE, schema, Box::new(batches))
}

struct Batches {
    records: RecordReader<File>,
    encoder: Encoder,
    schema: SchemaRef,
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.records.next_batch() {
                Ok(Some([])) => {}
                Ok(Some(records)) => return Some(self.encoder.batch(&self.schema, records)),
                Ok(None) => return None,
                Err(error) => return Some(Err(ArrowError::ExternalError(Box::new(error)))),
            }
        }
    }
}

/// Records as columns.
pub(crate) struct Encoder {
    clock: WallClock,
    hosts: Hosts,
    /// The names of all kinds, which all batches share.
    names: ArrayRef,
    /// Place of each kind's name, by its code.
    places: [i8; 256],
}

impl Encoder {
    /// Of the records of a bundle.
    pub fn of(bundle: &Bundle) -> Self {
        Self::new(WallClock::of(bundle.meta()), Hosts::of(bundle.connections()))
    }

    fn new(clock: WallClock, hosts: Hosts) -> Self {
        let names: StringArray = Kind::ALL.iter().map(|kind| Some(kind.name())).collect();
        let mut places = [0; 256];
        for (place, kind) in (0..).zip(Kind::ALL) {
            places[kind as usize] = place;
        }
        Self { clock, hosts, names: Arc::new(names), places }
    }

    pub fn batch(&self, schema: &SchemaRef, records: &[Record]) -> Result<RecordBatch, ArrowError> {
        let columns = vec![
            column::<Int64Type>(records, |record| record.flow.0.into()),
            column::<Int64Type>(records, |record| signed(record.at_ns)),
            self.at(records),
            self.kinds(records)?,
            column::<Int16Type>(records, |record| i16::from(record.kind as u8)),
            column::<Int64Type>(records, |record| signed(record.offset)),
            column::<Int64Type>(records, |record| record.len.into()),
            self.hosts(records),
            column::<Int32Type>(records, |record| record.cpu.into()),
            column::<Int64Type>(records, |record| record.thread.into()),
            column::<Int16Type>(records, |record| record.tcp_flags.into()),
            column::<Int16Type>(records, |record| record.marks.into()),
            column::<Int16Type>(records, |record| record.code.into()),
            column::<Int64Type>(records, |record| record.detail.cast_signed()),
            column::<Int64Type>(records, |record| record.extra.into()),
        ];
        batch(schema, columns, records.len())
    }

    fn at(&self, records: &[Record]) -> ArrayRef {
        let times = || records.iter().map(|record| self.clock.at(record.at_ns));
        let times: TimestampNanosecondArray = if self.clock.offset_ns().is_none() {
            TimestampNanosecondArray::new_null(records.len())
        } else if times().all(|time| time.is_some()) {
            let times: Vec<i64> = times().map(Option::unwrap_or_default).collect();
            TimestampNanosecondArray::new(ScalarBuffer::from(times), None)
        } else {
            times().collect()
        };
        Arc::new(times.with_timezone("UTC"))
    }

    fn hosts(&self, records: &[Record]) -> ArrayRef {
        if self.hosts.are_unknown() {
            return Arc::new(Int64Array::new_null(records.len()));
        }
        let hosts = records.iter().map(|record| self.hosts.of_record(record));
        Arc::new(hosts.collect::<Int64Array>())
    }

    fn kinds(&self, records: &[Record]) -> Result<ArrayRef, ArrowError> {
        let places = records.iter().map(|record| self.places[record.kind as usize]);
        let places = Int8Array::from_iter_values(places);
        Ok(Arc::new(DictionaryArray::<Int8Type>::try_new(places, self.names.clone())?))
    }
}

fn column<T: ArrowPrimitiveType>(
    records: &[Record],
    of: impl Fn(&Record) -> T::Native,
) -> ArrayRef {
    let values: Vec<T::Native> = records.iter().map(of).collect();
    Arc::new(PrimitiveArray::<T>::new(ScalarBuffer::from(values), None))
}
