//! A table as a stream of Arrow batches, in bounded memory.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::vec;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, RecordBatchReader};
use arrow_schema::{ArrowError, Field, Schema, SchemaRef};

use crate::column::Columns;
use crate::trace::Trace;

/// Rows of a batch at most.
pub const BATCH_ROWS: usize = 65_536;

/// Key of a table's name and version in the metadata of its schema, as `sockscope.records/1`. The version increases
/// when a column changes its meaning or is removed, not when one is added.
pub const SCHEMA: &str = "schema";

type Batches = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + Send>;

/// The batches of a table, made when they are asked for.
pub struct Table {
    name: &'static str,
    schema: SchemaRef,
    batches: Batches,
}

impl Table {
    pub(crate) fn new(name: &'static str, schema: SchemaRef, batches: Batches) -> Self {
        Self { name, schema, batches }
    }

    /// A table of another crate, as one batch. Its schema has the table's version.
    pub fn of_batch(name: &'static str, batch: RecordBatch) -> Self {
        let schema = batch.schema();
        Self::new(name, schema, Box::new(std::iter::once(Ok(batch))))
    }

    /// Its name, as `records`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The schema of all batches.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Iterator for Table {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.batches.next()
    }
}

impl RecordBatchReader for Table {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

/// The schema of a table.
pub(crate) fn schema(name: &str, fields: Vec<Field>) -> SchemaRef {
    let facts = HashMap::from([(SCHEMA.to_owned(), format!("sockscope.{name}/1"))]);
    Arc::new(Schema::new_with_metadata(fields, facts))
}

/// The schema of a table that is made of rows.
pub(crate) fn schema_of<C: Columns>() -> SchemaRef {
    schema(C::TABLE, C::fields())
}

/// A table from parts of a trace, one after the other. `rows` has the rows of a part, and `None` after the last part:
/// only the rows of one part and one batch are in memory.
pub(crate) fn of_parts<C: Columns>(
    trace: &Arc<Trace>,
    rows: impl FnMut(&Trace, usize) -> Option<Vec<C::Row>> + Send + 'static,
) -> Table {
    let schema = schema_of::<C>();
    let parts = Parts::<C, _> {
        trace: trace.clone(),
        schema: schema.clone(),
        rows_of: rows,
        next: Some(0),
        rows: Vec::new().into_iter(),
        columns: C::default(),
    };
    Table::new(C::TABLE, schema, Box::new(parts))
}

struct Parts<C: Columns, F> {
    trace: Arc<Trace>,
    schema: SchemaRef,
    rows_of: F,
    /// The next part; `None` after the last one.
    next: Option<usize>,
    rows: vec::IntoIter<C::Row>,
    columns: C,
}

impl<C: Columns, F: FnMut(&Trace, usize) -> Option<Vec<C::Row>>> Parts<C, F> {
    fn next_row(&mut self) -> Option<C::Row> {
        loop {
            if let Some(row) = self.rows.next() {
                return Some(row);
            }
            let part = self.next?;
            let rows = (self.rows_of)(&self.trace, part);
            self.next = rows.as_ref().map(|_| part + 1);
            self.rows = rows?.into_iter();
        }
    }
}

impl<C: Columns, F: FnMut(&Trace, usize) -> Option<Vec<C::Row>>> Iterator for Parts<C, F> {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut count = 0;
        while count < BATCH_ROWS
            && let Some(row) = self.next_row()
        {
            self.columns.push(&self.trace, &row);
            count += 1;
        }
        (count > 0).then(|| batch(&self.schema, self.columns.take(), count))
    }
}

/// A batch of so many rows.
pub(crate) fn batch(
    schema: &SchemaRef,
    columns: Vec<ArrayRef>,
    rows: usize,
) -> Result<RecordBatch, ArrowError> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options)
}
