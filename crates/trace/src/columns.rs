//! Records and connections to Arrow columns.
//!
//! The recorder calls this for every record, so there is no builder call per row: each column is a
//! plain vector that becomes an Arrow buffer without a copy.

use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, StringBuilder, UInt32Builder, UInt64Builder};
use arrow_array::{ArrayRef, ListArray, PrimitiveArray, RecordBatch, StructArray, types};
use arrow_buffer::{ArrowNativeType, Buffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, SchemaRef};
use sockscope_record::{Connection, Process, Record};

use crate::format::{self, BATCH_RECORDS};
use crate::groups;

/// Rows in one copy: as many records as fit the first-level cache while the columns are
/// filled one after the other.
const CHUNK_RECORDS: usize = 256;

/// The columns of `records.arrows` in their order: name, Arrow's type, and the number that a record has there.
macro_rules! record_columns {
    ($($column:ident: $arrow:ty = |$record:ident| $number:expr,)*) => {
        /// Columns of `records.arrows` being filled.
        #[derive(Debug, Default)]
        pub(crate) struct RecordColumns {
            $($column: Vec<<$arrow as types::ArrowPrimitiveType>::Native>,)*
        }

        impl RecordColumns {
            fn extend(&mut self, chunk: &[Record]) {
                $(self.$column.extend(chunk.iter().map(|$record| $number));)*
            }

            /// As Arrow's columns, whose memory `spent` keeps too.
            fn into_arrow(self, spent: &mut Spent) -> Vec<ArrayRef> {
                vec![$(spent.column::<$arrow>(self.$column),)*]
            }

            /// Uses the memory of an earlier batch, which is written, again: new memory for each would
            /// cost a recorder a quarter of its time in page faults.
            pub(crate) fn reuse(&mut self, spent: Spent) {
                let mut buffers = spent.0.into_iter();
                *self = Self { $($column: emptied(&mut buffers),)* };
            }
        }
    };
}

record_columns! {
    at_ns: types::UInt64Type = |record| record.at_ns,
    flow: types::UInt32Type = |record| record.flow.0,
    kind: types::UInt8Type = |record| record.kind as u8,
    offset: types::UInt64Type = |record| record.offset,
    len: types::UInt32Type = |record| record.len,
    cpu: types::UInt16Type = |record| record.cpu,
    thread: types::UInt32Type = |record| record.thread,
    tcp_flags: types::UInt8Type = |record| record.tcp_flags,
    marks: types::UInt8Type = |record| record.marks,
    code: types::UInt8Type = |record| record.code,
    detail: types::UInt64Type = |record| record.detail,
    extra: types::UInt32Type = |record| record.extra,
}

impl RecordColumns {
    /// Rows held.
    pub(crate) fn rows(&self) -> usize {
        self.at_ns.len()
    }

    /// Takes as many of `records` as a full batch has room for; the rest is returned.
    pub(crate) fn fill<'a>(&mut self, records: &'a [Record]) -> &'a [Record] {
        let room = BATCH_RECORDS.saturating_sub(self.rows()).min(records.len());
        let (taken, rest) = records.split_at(room);
        if self.at_ns.capacity() == 0 {
            self.reuse(Spent::default());
        }
        taken.chunks(CHUNK_RECORDS).for_each(|chunk| self.extend(chunk));
        debug_assert!(self.rows() <= BATCH_RECORDS);
        debug_assert!(self.extra.len() == self.rows(), "all columns have the same rows");
        rest
    }

    /// All rows as one Arrow batch; the columns are empty afterwards. Their memory lies in the batch
    /// and in the [`Spent`] that is returned with it, for [`RecordColumns::reuse`].
    pub(crate) fn take(&mut self, schema: &SchemaRef) -> (Result<RecordBatch, ArrowError>, Spent) {
        let full = std::mem::take(self);
        debug_assert_eq!((self.rows(), full.kind.len()), (0, full.rows()));
        let mut spent = Spent::default();
        let columns = full.into_arrow(&mut spent);
        (RecordBatch::try_new(schema.clone(), columns), spent)
    }
}

/// The memory of a batch's columns, in their order.
#[derive(Debug, Default)]
pub(crate) struct Spent(Vec<Buffer>);

impl Spent {
    fn column<T: types::ArrowPrimitiveType>(&mut self, values: Vec<T::Native>) -> ArrayRef {
        let buffer = Buffer::from_vec(values);
        self.0.push(buffer.clone());
        Arc::new(PrimitiveArray::<T>::new(ScalarBuffer::from(buffer), None))
    }
}

/// The next of these, empty; new memory where no batch left one, or somebody holds it still.
fn emptied<T: ArrowNativeType>(buffers: &mut impl Iterator<Item = Buffer>) -> Vec<T> {
    let mut values = buffers.next().and_then(|buffer| buffer.into_vec().ok()).unwrap_or_default();
    values.clear();
    values.reserve_exact(BATCH_RECORDS);
    values
}

fn column<T: types::ArrowPrimitiveType>(values: Vec<T::Native>) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(ScalarBuffer::from(values), None))
}

/// Snapshots of connections as one Arrow batch of `flows.arrows`.
pub(crate) fn connection_batch(
    rows: &[Connection],
    schema: &SchemaRef,
) -> Result<RecordBatch, ArrowError> {
    let ids: Vec<u32> = rows.iter().map(|row| row.id.0).collect();
    let opened: Vec<u64> = rows.iter().map(|row| row.opened_ns).collect();
    let mut protocol = StringBuilder::new();
    let mut client = StringBuilder::new();
    let mut server = StringBuilder::new();
    let mut closed = UInt64Builder::new();
    let mut preexisting = BooleanBuilder::new();
    let mut both_ends_here = BooleanBuilder::new();
    let mut mark = UInt64Builder::new();
    let mut elsewhere = StringBuilder::new();
    let mut hosts = StringBuilder::new();
    for row in rows {
        protocol.append_value(row.protocol.name());
        client.append_value(row.end(sockscope_record::Side::Client).to_string());
        server.append_value(row.end(sockscope_record::Side::Server).to_string());
        closed.append_option(row.closed_ns);
        preexisting.append_value(row.preexisting);
        both_ends_here.append_value(row.both_ends_here);
        mark.append_option(row.mark);
        let ends = row.elsewhere.map(|[client, server]| format!("{client} {server}"));
        elsewhere.append_value(ends.unwrap_or_default());
        hosts.append_value(host_numbers(&row.processes));
    }
    let columns: Vec<ArrayRef> = vec![
        column::<types::UInt32Type>(ids),
        Arc::new(protocol.finish()),
        Arc::new(client.finish()),
        Arc::new(server.finish()),
        column::<types::UInt64Type>(opened),
        Arc::new(closed.finish()),
        Arc::new(preexisting.finish()),
        Arc::new(both_ends_here.finish()),
        Arc::new(process_lists(rows)?),
        Arc::new(groups::lists(rows)?),
        Arc::new(mark.finish()),
        Arc::new(elsewhere.finish()),
        Arc::new(hosts.finish()),
    ];
    RecordBatch::try_new(schema.clone(), columns)
}

/// The number of the host of each process, as `1 2`; empty where no process has one.
fn host_numbers(processes: &[Process]) -> String {
    if processes.iter().all(|process| process.host == 0) {
        return String::new();
    }
    let numbers: Vec<_> = processes.iter().map(|process| process.host.to_string()).collect();
    numbers.join(" ")
}

fn process_lists(rows: &[Connection]) -> Result<ListArray, ArrowError> {
    let mut pid = UInt32Builder::new();
    let mut comm = StringBuilder::new();
    let mut side = StringBuilder::new();
    for process in rows.iter().flat_map(|row| &row.processes) {
        let Process { pid: id, comm: name, side: end, group: _, host: _ } = process;
        pid.append_value(*id);
        comm.append_value(name);
        side.append_value(end.name());
    }
    let members: Vec<ArrayRef> =
        vec![Arc::new(pid.finish()), Arc::new(comm.finish()), Arc::new(side.finish())];
    let items = StructArray::try_new(format::process_fields(), members, None)?;
    let lengths = OffsetBuffer::from_lengths(rows.iter().map(|row| row.processes.len()));
    ListArray::try_new(format::process_field(), lengths, Arc::new(items), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled() -> RecordColumns {
        let mut columns = RecordColumns::default();
        columns.fill(&[Record { at_ns: 7, ..Record::default() }]);
        columns
    }

    #[test]
    fn the_next_batch_fills_the_memory_of_one_that_is_gone() {
        let mut columns = filled();
        let place = columns.at_ns.as_ptr();
        let (batch, spent) = columns.take(&SchemaRef::new(format::record_schema()));
        drop(batch);
        columns.reuse(spent);
        assert_eq!((columns.rows(), columns.at_ns.capacity()), (0, BATCH_RECORDS));
        assert_eq!(columns.at_ns.as_ptr(), place);
    }

    #[test]
    fn memory_that_somebody_still_reads_is_not_filled_again() {
        let mut columns = filled();
        let (batch, spent) = columns.take(&SchemaRef::new(format::record_schema()));
        columns.reuse(spent);
        columns.fill(&[Record { at_ns: 8, ..Record::default() }]);
        assert_eq!(batch.unwrap().column(0).to_data().buffers()[0].typed_data::<u64>(), [7]);
        assert_eq!(columns.at_ns, [8]);
    }
}
