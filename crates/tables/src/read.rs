//! Records and connections of tables: the inverse of [`records`](crate::records()) and of
//! [`Tables::flows`](crate::Tables::flows).

use std::net::SocketAddr;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;
use sockscope_record::{
    Connection, ConnectionId, Container, ControlGroup, FlowId, Kind, Pod, Process, Protocol,
    Record, Side, UnixName, unix_ends,
};

use crate::Error;

/// The records of a batch of the table `records`, in the order of its rows. Columns are found by their names, may have
/// any type of integers, and others are passed over. So may be the column `cpu`, which no analysis reads.
///
/// # Errors
///
/// [`Error::Column`] when a column is missing, has another type or has nulls, [`Error::Value`] when a value is not one
/// of a record.
pub fn read_records(batch: &RecordBatch) -> Result<Vec<Record>, Error> {
    let columns = Columns::of(batch)?;
    (0..batch.num_rows()).map(|row| columns.record(row)).collect()
}

/// The connections of a batch of the table `flows`, each once, by its first row. Columns are found by their names;
/// texts may be of any type of texts, and others are passed over. Of the processes the table has the first of each end.
///
/// # Errors
///
/// [`Error::Column`] when a column is missing or has another type, [`Error::Value`] or [`Error::Text`] when a value is
/// not one of a connection.
pub fn read_connections(batch: &RecordBatch) -> Result<Vec<Connection>, Error> {
    let columns = FlowColumns::of(batch)?;
    let mut connections: Vec<Connection> = Vec::new();
    for row in 0..batch.num_rows() {
        let connection = columns.connection(row)?;
        if connections.last().is_none_or(|last| last.id != connection.id) {
            connections.push(connection);
        }
    }
    Ok(connections)
}

struct FlowColumns {
    connection: Column,
    protocol: Texts,
    client: Texts,
    server: Texts,
    opened_ns: Column,
    closed_ns: Column,
    preexisting: Flags,
    both_ends_here: Flags,
    processes: [(Side, Column, Texts, GroupTexts); 2],
}

impl FlowColumns {
    fn of(batch: &RecordBatch) -> Result<Self, Error> {
        let process = |side, pid, program, names| -> Result<_, Error> {
            let (pid, program) = (Column::with_nulls(batch, pid)?, Texts::of(batch, program)?);
            Ok((side, pid, program, GroupTexts::of(batch, names)?))
        };
        Ok(Self {
            connection: Column::of(batch, "connection")?,
            protocol: Texts::of(batch, "protocol")?,
            client: Texts::of(batch, "client")?,
            server: Texts::of(batch, "server")?,
            opened_ns: Column::of(batch, "opened_ns")?,
            closed_ns: Column::with_nulls(batch, "closed_ns")?,
            preexisting: Flags::of(batch, "preexisting")?,
            both_ends_here: Flags::of(batch, "both_ends_here")?,
            processes: [
                process(Side::Client, "client_pid", "client_program", CLIENT_GROUP)?,
                process(Side::Server, "server_pid", "server_program", SERVER_GROUP)?,
            ],
        })
    }

    fn connection(&self, row: usize) -> Result<Connection, Error> {
        let protocol = Protocol::ALL.into_iter().find(|it| self.protocol.at(row) == it.name());
        let processes = self.processes.iter().filter(|(_, pid, ..)| !pid.nulls[row]);
        let process =
            |(side, pid, program, group): &(Side, Column, Texts, GroupTexts)| -> Result<_, Error> {
                let (pid, comm) = (pid.number(row, "0 to 4294967295")?, program.at(row).to_owned());
                Ok(Process { group: group.at(row).map(Arc::new), ..Process::new(pid, comm, *side) })
            };
        let protocol = protocol.ok_or_else(|| self.protocol.refused(row, "a protocol, as tcp"))?;
        let ([client, server], names) = match protocol {
            _ if protocol.is_unix() => {
                unix_ends([&self.client, &self.server].map(|it| UnixName::new(it.at(row))))
            }
            _ => ([self.client.address(row)?, self.server.address(row)?], None),
        };
        Ok(Connection {
            id: ConnectionId(self.connection.number(row, "0 to 2147483647")?),
            protocol,
            client,
            server,
            opened_ns: self.opened_ns.whole(row)?,
            closed_ns: match self.closed_ns.nulls[row] {
                true => None,
                false => Some(self.closed_ns.whole(row)?),
            },
            preexisting: self.preexisting.0[row],
            both_ends_here: self.both_ends_here.0[row],
            processes: processes.map(process).collect::<Result<_, Error>>()?,
            names,
            mark: None,
            elsewhere: None,
        })
    }
}

/// Columns of the control group of the first process at an end. Tables of earlier releases do not have them.
const CLIENT_GROUP: [&str; 7] = [
    "client_cgroup",
    "client_unit",
    "client_container",
    "client_container_id",
    "client_namespace",
    "client_pod",
    "client_pod_uid",
];
const SERVER_GROUP: [&str; 7] = [
    "server_cgroup",
    "server_unit",
    "server_container",
    "server_container_id",
    "server_namespace",
    "server_pod",
    "server_pod_uid",
];

/// Those columns, in the same order.
struct GroupTexts([Option<Texts>; 7]);

impl GroupTexts {
    fn of(batch: &RecordBatch, names: [&'static str; 7]) -> Result<Self, Error> {
        let mut found = [const { None }; 7];
        for (to, name) in found.iter_mut().zip(names) {
            if batch.column_by_name(name).is_some() {
                *to = Some(Texts::of(batch, name)?);
            }
        }
        Ok(Self(found))
    }

    fn at(&self, row: usize) -> Option<ControlGroup> {
        let texts = self.0.each_ref().map(|texts| texts.as_ref().map_or("", |it| it.at(row)));
        let [path, unit, container, id, namespace, pod, uid] =
            texts.map(|text| Some(text.to_owned()).filter(|text| !text.is_empty()));
        let container = id.map(|id| Container { id, name: container });
        let pod = uid.map(|uid| Pod { uid, namespace, name: pod });
        Some(ControlGroup { path: path?, unit, container, pod })
    }
}

/// A column of texts; an unknown one is empty.
struct Texts {
    name: &'static str,
    values: Vec<String>,
}

impl Texts {
    fn of(batch: &RecordBatch, name: &'static str) -> Result<Self, Error> {
        let array = named(batch, name, "texts")?;
        let values = texts(array).ok_or_else(|| Error::Column {
            column: name,
            expected: "texts",
            found: array.data_type().to_string(),
        })?;
        Ok(Self { name, values })
    }

    fn at(&self, row: usize) -> &str {
        &self.values[row]
    }

    fn address(&self, row: usize) -> Result<SocketAddr, Error> {
        self.at(row).parse().map_err(|_| self.refused(row, "an address and port, as 127.0.0.1:80"))
    }

    fn refused(&self, row: usize, expected: &'static str) -> Error {
        Error::Text { row, column: self.name, expected, found: self.at(row).to_owned() }
    }
}

/// The texts of an array; `None` where it has others.
fn texts(array: &dyn Array) -> Option<Vec<String>> {
    let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
    Some(match array.data_type() {
        DataType::Utf8 => array.as_string::<i32>().iter().map(text).collect(),
        DataType::LargeUtf8 => array.as_string::<i64>().iter().map(text).collect(),
        DataType::Utf8View => array.as_string_view().iter().map(text).collect(),
        // Columns without a value have no type in some readers.
        DataType::Null => vec![String::new(); array.len()],
        DataType::Dictionary(..) => {
            let words = array.as_any_dictionary();
            let values = texts(words.values())?;
            let keys = words.normalized_keys().into_iter().enumerate();
            let word = |(row, key): (usize, usize)| match array.is_null(row) {
                true => Some(String::new()),
                false => values.get(key).cloned(),
            };
            keys.map(word).collect::<Option<_>>()?
        }
        _ => return None,
    })
}

struct Flags(Vec<bool>);

impl Flags {
    fn of(batch: &RecordBatch, name: &'static str) -> Result<Self, Error> {
        let array = named(batch, name, "booleans")?;
        let Some(flags) = array.as_boolean_opt().filter(|flags| flags.null_count() == 0) else {
            let found = array.data_type().to_string();
            return Err(Error::Column { column: name, expected: "booleans without nulls", found });
        };
        Ok(Self(flags.values().iter().collect()))
    }
}

fn named<'a>(
    batch: &'a RecordBatch,
    name: &'static str,
    expected: &'static str,
) -> Result<&'a ArrayRef, Error> {
    let found = || "no such column".to_owned();
    let array = batch.column_by_name(name);
    array.ok_or_else(|| Error::Column { column: name, expected, found: found() })
}

struct Columns {
    flow: Column,
    at_ns: Column,
    kind_code: Column,
    offset: Column,
    len: Column,
    cpu: Option<Column>,
    thread: Column,
    tcp_flags: Column,
    marks: Column,
    code: Column,
    detail: Column,
    extra: Column,
}

struct Column {
    name: &'static str,
    values: Vec<i64>,
    /// By row; empty where the column may have none.
    nulls: Vec<bool>,
}

impl Columns {
    fn of(batch: &RecordBatch) -> Result<Self, Error> {
        let column = |name| Column::of(batch, name);
        Ok(Self {
            flow: column("flow")?,
            at_ns: column("at_ns")?,
            kind_code: column("kind_code")?,
            offset: column("offset")?,
            len: column("len")?,
            cpu: batch.column_by_name("cpu").map(|_| column("cpu")).transpose()?,
            thread: column("thread")?,
            tcp_flags: column("tcp_flags")?,
            marks: column("marks")?,
            code: column("code")?,
            detail: column("detail")?,
            extra: column("extra")?,
        })
    }

    fn record(&self, row: usize) -> Result<Record, Error> {
        Ok(Record {
            at_ns: self.at_ns.whole(row)?,
            offset: self.offset.whole(row)?,
            detail: self.detail.values[row].cast_unsigned(),
            flow: FlowId(self.flow.number(row, "0 to 4294967295")?),
            len: self.len.number(row, "0 to 4294967295")?,
            thread: self.thread.number(row, "0 to 4294967295")?,
            extra: self.extra.number(row, "0 to 4294967295")?,
            kind: self.kind(row)?,
            code: self.code.number(row, "0 to 255")?,
            tcp_flags: self.tcp_flags.number(row, "0 to 255")?,
            marks: self.marks.number(row, "0 to 255")?,
            cpu: self.cpu.as_ref().map_or(Ok(0), |cpu| cpu.number(row, "0 to 65535"))?,
        })
    }

    fn kind(&self, row: usize) -> Result<Kind, Error> {
        let expected = "the number of a kind of records";
        let code = self.kind_code.number(row, expected)?;
        Kind::from_code(code).ok_or_else(|| self.kind_code.refused(row, expected))
    }
}

impl Column {
    /// A column that has no nulls.
    fn of(batch: &RecordBatch, name: &'static str) -> Result<Self, Error> {
        let array = named(batch, name, "integers")?;
        // Most columns are of this kind, and need no flag for each row.
        match array.logical_null_count() {
            0 => Ok(Self { name, values: values(array, name)?, nulls: Vec::new() }),
            nulls => {
                let found = format!("{nulls} of them");
                Err(Error::Column { column: name, expected: "no nulls", found })
            }
        }
    }

    fn with_nulls(batch: &RecordBatch, name: &'static str) -> Result<Self, Error> {
        let array = named(batch, name, "integers")?;
        let nulls = array.logical_nulls();
        let nulls = (0..array.len()).map(|row| nulls.as_ref().is_some_and(|it| it.is_null(row)));
        Ok(Self { name, values: values(array, name)?, nulls: nulls.collect() })
    }

    fn whole(&self, row: usize) -> Result<u64, Error> {
        self.number(row, "0 to 9223372036854775807")
    }

    fn number<T: TryFrom<i64>>(&self, row: usize, expected: &'static str) -> Result<T, Error> {
        T::try_from(self.values[row]).map_err(|_| self.refused(row, expected))
    }

    fn refused(&self, row: usize, expected: &'static str) -> Error {
        Error::Value { row, column: self.name, expected, found: self.values[row] }
    }
}

/// The values of a column of integers, nulls included.
fn values(array: &dyn Array, name: &'static str) -> Result<Vec<i64>, Error> {
    Ok(match array.data_type() {
        DataType::Int8 => widened::<Int8Type>(array),
        DataType::Int16 => widened::<Int16Type>(array),
        DataType::Int32 => widened::<Int32Type>(array),
        DataType::Int64 => widened::<Int64Type>(array),
        DataType::UInt8 => widened::<UInt8Type>(array),
        DataType::UInt16 => widened::<UInt16Type>(array),
        DataType::UInt32 => widened::<UInt32Type>(array),
        // The bits are those of the record; a time or a position above 63 bits is refused as negative.
        DataType::UInt64 => {
            let values = array.as_primitive::<UInt64Type>().values();
            values.iter().map(|value| value.cast_signed()).collect()
        }
        // Columns without a value have no type in some readers.
        DataType::Null => vec![0; array.len()],
        other => {
            let found = other.to_string();
            return Err(Error::Column { column: name, expected: "integers", found });
        }
    })
}

fn widened<T: ArrowPrimitiveType>(array: &dyn Array) -> Vec<i64>
where
    T::Native: Into<i64>,
{
    array.as_primitive::<T>().values().iter().map(|value| (*value).into()).collect()
}
