//! Connections from rows of a table `flows`, as other libraries hand it back: text and integers may have any type of
//! Arrow, and further columns are passed over.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;
use sockscope_record::{Connection, ConnectionId, Process, Protocol, Side, UnixName, unix_ends};

use crate::error::Problem;

/// The connections of the rows of a batch. Each row of a connection gives the same one.
pub(crate) fn connections(batch: &RecordBatch) -> Result<Vec<Connection>, Problem> {
    (0..batch.num_rows()).map(|row| Row { batch, row }.connection()).collect()
}

/// A row with its columns.
struct Row<'a> {
    batch: &'a RecordBatch,
    row: usize,
}

impl Row<'_> {
    fn connection(&self) -> Result<Connection, Problem> {
        let protocol = self.text("protocol")?.unwrap_or_default();
        let known = Protocol::ALL.into_iter().find(|known| known.name() == protocol);
        let protocol =
            known.ok_or_else(|| self.wrong("protocol", "a protocol, as tcp", &protocol))?;
        let id = u32::try_from(self.needed("connection")?)
            .map_err(|_| self.wrong("connection", "0 to 2147483647", ""))?;
        let (ends, names) = match protocol {
            _ if protocol.is_unix() => unix_ends([self.name("client")?, self.name("server")?]),
            _ => ([self.address("client")?, self.address("server")?], None),
        };
        let mut connection =
            Connection::new(ConnectionId(id), protocol, ends, self.needed("opened_ns")?);
        connection.names = names;
        connection.closed_ns = self.whole("closed_ns")?;
        connection.preexisting = self.flag("preexisting")?;
        connection.both_ends_here = self.flag("both_ends_here")?;
        for (side, pid, program) in [
            (Side::Client, "client_pid", "client_program"),
            (Side::Server, "server_pid", "server_program"),
        ] {
            let pid = self.whole(pid)?.and_then(|pid| u32::try_from(pid).ok());
            if let (Some(pid), Some(comm)) = (pid, self.text(program)?) {
                connection.processes.push(Process::new(pid, comm, side));
            }
        }
        Ok(connection)
    }

    fn name(&self, column: &str) -> Result<UnixName, Problem> {
        Ok(UnixName::new(&self.text(column)?.unwrap_or_default()))
    }

    fn address(&self, name: &str) -> Result<std::net::SocketAddr, Problem> {
        let text = self.text(name)?.unwrap_or_default();
        text.parse().map_err(|_| self.wrong(name, "an address and a port, as 10.0.0.1:80", &text))
    }

    /// The column and this row, unless the cell is empty or the column is missing.
    fn cell(&self, name: &str) -> Option<(&ArrayRef, usize)> {
        let array = self.batch.column_by_name(name)?;
        (!array.is_null(self.row)).then_some((array, self.row))
    }

    fn needed(&self, name: &str) -> Result<u64, Problem> {
        self.whole(name)?.ok_or_else(|| self.wrong(name, "a number", "none"))
    }

    fn whole(&self, name: &str) -> Result<Option<u64>, Problem> {
        let Some((array, row)) = self.cell(name) else { return Ok(None) };
        macro_rules! value {
            ($of:ty) => {
                u64::try_from(array.as_primitive::<$of>().value(row)).ok()
            };
        }
        let value = match array.data_type() {
            DataType::Int8 => value!(Int8Type),
            DataType::Int16 => value!(Int16Type),
            DataType::Int32 => value!(Int32Type),
            DataType::Int64 => value!(Int64Type),
            DataType::UInt8 => value!(UInt8Type),
            DataType::UInt16 => value!(UInt16Type),
            DataType::UInt32 => value!(UInt32Type),
            DataType::UInt64 => value!(UInt64Type),
            other => return Err(self.wrong(name, "integers", &other.to_string())),
        };
        value.map(Some).ok_or_else(|| self.wrong(name, "0 or more", "a negative number"))
    }

    fn flag(&self, name: &str) -> Result<bool, Problem> {
        let Some((array, row)) = self.cell(name) else { return Ok(false) };
        let flags = array.as_boolean_opt();
        let flags =
            flags.ok_or_else(|| self.wrong(name, "booleans", &array.data_type().to_string()))?;
        Ok(flags.value(row))
    }

    fn text(&self, name: &str) -> Result<Option<String>, Problem> {
        let Some((array, row)) = self.cell(name) else { return Ok(None) };
        let text = match array.as_any_dictionary_opt() {
            Some(words) => text(words.values(), words.normalized_keys()[row]),
            None => text(array, row),
        };
        text.map(Some).ok_or_else(|| self.wrong(name, "text", &array.data_type().to_string()))
    }

    fn wrong(&self, name: &str, expected: &str, found: &str) -> Problem {
        let row = self.row;
        Problem::new(format!(
            "row {row} of the flows: expected {expected} in column {name}, found {found:?}"
        ))
    }
}

/// The text of a cell; `None` in a column of another type.
fn text(array: &dyn Array, row: usize) -> Option<String> {
    let text = match array.data_type() {
        DataType::Utf8 => array.as_string::<i32>().value(row),
        DataType::LargeUtf8 => array.as_string::<i64>().value(row),
        DataType::Utf8View => array.as_string_view().value(row),
        _ => return None,
    };
    Some(text.to_owned())
}
