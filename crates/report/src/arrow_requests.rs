//! The table `requests` as an Arrow IPC file: one row for each request, by connection and the time asked.
//!
//! Columns and rows are those of the CSV of requests. Unknown values are null. Columns in a unit have it in the
//! metadata of their field, by the key [`UNIT`].

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, StringBuilder, UInt32Builder, UInt64Builder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_ipc::writer::FileWriter;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use sockscope_analysis::{ConnectionAnalysis, Request};
use sockscope_record::Side;

use crate::{Format, Report, ReportError};

/// Name and version of the table, in the metadata of the schema by the key `schema`. The version increases when a
/// column changes its meaning or is removed, not when one is added.
const SCHEMA: &str = "sockscope.requests/1";

/// Key of a unit in the metadata of a field.
const UNIT: &str = "unit";

/// Rows of a batch; the memory for the table is that of one batch.
const BATCH_ROWS: usize = 65_536;

/// An Arrow IPC file of the requests.
#[derive(Debug, Clone, Copy, Default)]
pub struct ArrowRequests;

impl Format for ArrowRequests {
    fn write(&self, report: &Report<'_>, out: &mut dyn Write) -> Result<(), ReportError> {
        report.check()?;
        let schema = schema(report);
        let mut writer = FileWriter::try_new(out, &schema).map_err(failure)?;
        let mut columns = Columns::default();
        for connection in report.connections() {
            for request in &connection.requests.list {
                columns.push(connection, request);
                if columns.rows == BATCH_ROWS {
                    writer.write(&columns.take(&schema).map_err(failure)?).map_err(failure)?;
                }
            }
        }
        if columns.rows > 0 {
            writer.write(&columns.take(&schema).map_err(failure)?).map_err(failure)?;
        }
        writer.finish().map_err(failure)
    }
}

/// A broken pipe stays one: for a program it is success.
fn failure(error: ArrowError) -> ReportError {
    ReportError::Write(match error {
        ArrowError::IoError(_, error) => error,
        other => io::Error::other(other),
    })
}

fn schema(report: &Report<'_>) -> SchemaRef {
    let mut facts = HashMap::from([("schema".to_owned(), SCHEMA.to_owned())]);
    facts.extend(report.origin.clock.iter().map(|clock| ("clock".to_owned(), clock.clone())));
    let fields: Vec<Field> = Columns::FIELDS.into_iter().map(Column::field).collect();
    Arc::new(Schema::new_with_metadata(fields, facts))
}

/// The schema of a column.
struct Column {
    name: &'static str,
    of: DataType,
    has_nulls: bool,
    unit: Option<&'static str>,
}

impl Column {
    fn field(self) -> Field {
        let unit = self.unit.map(|unit| (UNIT.to_owned(), unit.to_owned()));
        let facts: HashMap<String, String> = unit.into_iter().collect();
        Field::new(self.name, self.of, self.has_nulls).with_metadata(facts)
    }
}

/// The columns in their order: name, builder, its type, whether it has nulls, its unit, and the code for a row.
macro_rules! columns {
    ($($name:ident: $builder:ident $of:ident $nulls:literal $unit:expr,
       |$column:ident, $one:ident, $request:ident| $append:expr;)*) => {
        /// Columns being filled.
        #[derive(Debug, Default)]
        struct Columns {
            rows: usize,
            $($name: $builder,)*
        }

        impl Columns {
            const FIELDS: [Column; [$(stringify!($name)),*].len()] = [$(Column {
                name: stringify!($name),
                of: DataType::$of,
                has_nulls: $nulls,
                unit: $unit,
            },)*];

            fn push(&mut self, connection: &ConnectionAnalysis, request: &Request) {
                self.rows += 1;
                $({
                    let ($column, $one, $request) = (&mut self.$name, connection, request);
                    $append;
                })*
            }

            /// The rows as one batch. The columns are empty afterwards.
            fn take(&mut self, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
                self.rows = 0;
                let columns: Vec<ArrayRef> = vec![$(Arc::new(self.$name.finish()),)*];
                RecordBatch::try_new(schema.clone(), columns)
            }
        }
    };
}

const NS: Option<&str> = Some("ns");
const BYTES: Option<&str> = Some("bytes");

columns! {
    connection: UInt32Builder UInt32 false None,
        |column, one, _request| column.append_value(one.connection.id.0);
    protocol: StringBuilder Utf8 false None,
        |column, one, _request| column.append_value(one.connection.protocol.name());
    client: StringBuilder Utf8 false None,
        |column, one, _request| column.append_value(one.connection.end(Side::Client).to_string());
    server: StringBuilder Utf8 false None,
        |column, one, _request| column.append_value(one.connection.end(Side::Server).to_string());
    conversation: StringBuilder Utf8 false None,
        |column, one, _request| column.append_value(one.requests.conversation.name());
    asked_by: StringBuilder Utf8 true None,
        |column, one, _request| column.append_option(one.requests.asked_by.map(Side::name));
    end: StringBuilder Utf8 false None,
        |column, _one, request| column.append_value(request.end.name());
    asked_ns: UInt64Builder UInt64 false NS,
        |column, _one, request| column.append_value(request.asked_ns);
    heard_ns: UInt64Builder UInt64 true NS,
        |column, _one, request| column.append_option(request.heard.ns());
    answered_ns: UInt64Builder UInt64 true NS,
        |column, _one, request| column.append_option(request.answered.ns());
    ended_ns: UInt64Builder UInt64 false NS,
        |column, _one, request| column.append_value(request.ended_ns);
    total_ns: UInt64Builder UInt64 true NS,
        |column, _one, request| column.append_option(request.total_ns());
    request_ns: UInt64Builder UInt64 true NS,
        |column, _one, request| column.append_option(request.parts().map(|it| it.request_ns));
    service_ns: UInt64Builder UInt64 true NS,
        |column, _one, request| column.append_option(request.service_ns());
    response_ns: UInt64Builder UInt64 true NS,
        |column, _one, request| column.append_option(request.parts().map(|it| it.response_ns));
    pause_ns: UInt64Builder UInt64 false NS,
        |column, _one, request| column.append_value(request.pause_ns);
    request_bytes: UInt64Builder UInt64 false BYTES,
        |column, _one, request| column.append_value(request.request_bytes);
    response_bytes: UInt64Builder UInt64 false BYTES,
        |column, _one, request| column.append_value(request.response_bytes);
    request_writes: UInt32Builder UInt32 false None,
        |column, _one, request| column.append_value(request.request_writes);
    request_reads: UInt32Builder UInt32 false None,
        |column, _one, request| column.append_value(request.request_reads);
    response_writes: UInt32Builder UInt32 false None,
        |column, _one, request| column.append_value(request.response_writes);
    response_reads: UInt32Builder UInt32 false None,
        |column, _one, request| column.append_value(request.response_reads);
    asker_thread: UInt32Builder UInt32 false None,
        |column, _one, request| column.append_value(request.asker_thread);
    answerer_thread: UInt32Builder UInt32 false None,
        |column, _one, request| column.append_value(request.answerer_thread);
    client_pid: UInt32Builder UInt32 true None,
        |column, one, _request| column.append_option(pid(one, Side::Client));
    server_pid: UInt32Builder UInt32 true None,
        |column, one, _request| column.append_option(pid(one, Side::Server));
    overlapped: BooleanBuilder Boolean false None,
        |column, _one, request| column.append_value(request.is_overlapped);
}

/// The first process seen at an end.
fn pid(one: &ConnectionAnalysis, side: Side) -> Option<u32> {
    one.connection.processes.iter().find(|process| process.side == side).map(|one| one.pid)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use arrow_array::cast::AsArray;
    use arrow_array::types::{UInt32Type, UInt64Type};
    use arrow_ipc::reader::FileReader;
    use serde_json::{Map, Value};
    use sockscope_analysis::{Analysis, RequestEnd, SeenEnds};

    use super::*;
    use crate::csv_requests::COLUMNS;
    use crate::fixture::{self, slow_calls};
    use crate::{CsvRequests, Json, Options, Origin};

    fn file(analysis: &Analysis) -> Vec<u8> {
        let origin = Origin { clock: Some("monotonic".to_owned()), ..Origin::default() };
        let options = Options::default();
        let mut out = Vec::new();
        let report = Report { origin: &origin, analysis, options: &options };
        ArrowRequests.write(&report, &mut out).expect("memory takes it");
        out
    }

    /// The rows of a file, as JSON has them.
    fn rows(file: &[u8]) -> Vec<Map<String, Value>> {
        let reader = FileReader::try_new(Cursor::new(file), None).expect("an Arrow file");
        let schema = reader.schema();
        let mut rows = Vec::new();
        for batch in reader {
            let batch = batch.expect("a whole batch");
            for row in 0..batch.num_rows() {
                let values = schema
                    .fields()
                    .iter()
                    .zip(batch.columns())
                    .map(|(field, column)| (field.name().clone(), value(column, row)));
                rows.push(values.collect());
            }
        }
        rows
    }

    fn value(column: &ArrayRef, row: usize) -> Value {
        if column.is_null(row) {
            return Value::Null;
        }
        match column.data_type() {
            DataType::UInt32 => column.as_primitive::<UInt32Type>().value(row).into(),
            DataType::UInt64 => column.as_primitive::<UInt64Type>().value(row).into(),
            DataType::Boolean => column.as_boolean().value(row).into(),
            DataType::Utf8 => column.as_string::<i32>().value(row).into(),
            other => panic!("no column is of {other}"),
        }
    }

    /// Also requests with few known values.
    fn calls() -> Analysis {
        let mut analysis = slow_calls();
        let requests = &mut analysis.connections[0].requests.list;
        let unread = Request::asked(7, 20_000_000_007, RequestEnd::Open);
        requests.insert(0, unread);
        requests[1].seen = SeenEnds::Answerer;
        requests[2].is_overlapped = true;
        analysis
    }

    #[test]
    fn the_file_has_the_requests_of_the_json() {
        let analysis = calls();
        let json = fixture::written(&Json, &analysis, &Options::default());
        let json: Value = serde_json::from_str(&json).expect("one document");
        let rows = rows(&file(&analysis));
        let mut compared = 0;
        for connection in json["connections"].as_array().expect("a list") {
            let own = rows.iter().filter(|row| row["connection"] == connection["id"]);
            let own: Vec<_> = own.collect();
            let requests = &connection["requests"];
            assert_eq!(own.len() as u64, requests["count"].as_u64().expect("a number"));
            for listed in requests["slowest"].as_array().expect("a list") {
                let same = own.iter().find(|row| row["asked_ns"] == listed["asked_ns"]);
                let same = same.expect("a row with its time");
                for (key, value) in listed.as_object().expect("an object") {
                    assert_eq!(&same[key], value, "{key}");
                }
                assert_eq!(same["conversation"], requests["conversation"]);
                assert_eq!(same["asked_by"], requests["asked_by"]);
                compared += 1;
            }
        }
        assert_eq!((rows.len(), compared), (6, 6));
        assert!(rows.iter().any(|row| row["total_ns"].is_null()), "one was seen at one end");
    }

    #[test]
    fn the_file_has_the_columns_and_values_of_the_csv() {
        let analysis = calls();
        let csv = fixture::written(&CsvRequests, &analysis, &Options::default());
        let rows = rows(&file(&analysis));
        assert_eq!(csv.lines().count(), rows.len() + 1);
        for (line, row) in csv.lines().skip(1).zip(&rows) {
            for (name, text) in COLUMNS.iter().zip(line.split(',')) {
                let value = match &row[*name] {
                    Value::Null => String::new(),
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                assert_eq!(value, text, "{name}");
            }
        }
        let names: Vec<&str> = Columns::FIELDS.iter().map(|column| column.name).collect();
        assert_eq!(names, COLUMNS);
    }

    #[test]
    fn fields_have_their_units_and_the_schema_its_name_and_clock() {
        let file = file(&slow_calls());
        let reader = FileReader::try_new(Cursor::new(file), None).expect("an Arrow file");
        let schema = reader.schema();
        assert_eq!(schema.metadata()["schema"], SCHEMA);
        assert_eq!(schema.metadata()["clock"], "monotonic");
        for field in schema.fields() {
            let unit = field.metadata().get(UNIT).map(String::as_str);
            let expected = match field.name() {
                name if name.ends_with("_ns") => Some("ns"),
                name if name.ends_with("_bytes") => Some("bytes"),
                _ => None,
            };
            assert_eq!(unit, expected, "{}", field.name());
        }
    }

    #[test]
    fn the_same_requests_give_the_same_bytes() {
        let analysis = calls();
        let first = file(&analysis);
        // Metadata is a map without an order of its own.
        assert!((0..20).all(|_| file(&analysis) == first));
    }

    #[test]
    fn many_requests_are_several_batches() {
        let mut analysis = slow_calls();
        analysis.connections.truncate(1);
        let requests = &mut analysis.connections[0].requests.list;
        let one = requests[0];
        *requests = vec![one; BATCH_ROWS + 1];
        let file = file(&analysis);
        let reader = FileReader::try_new(Cursor::new(file), None).expect("an Arrow file");
        let counts: Vec<usize> = reader.map(|batch| batch.expect("whole").num_rows()).collect();
        assert_eq!(counts, [BATCH_ROWS, 1]);
    }

    #[test]
    fn a_trace_without_requests_is_an_empty_table() {
        let mut analysis = slow_calls();
        analysis.connections.clear();
        assert!(rows(&file(&analysis)).is_empty());
    }
}
