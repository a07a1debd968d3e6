//! Places of the columns of a batch in its body, checked before use.

use std::ops::Range;

use arrow_ipc::Message;

use crate::format::RECORD_WIDTHS;

/// Rows that a batch may have at most.
const ROWS_MAX: usize = 1 << 24;

/// Rows and byte ranges of a batch, all inside its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BatchLayout {
    /// Rows of the batch.
    pub(crate) rows: usize,
    /// Rows and nulls of each column, nested ones after their parent.
    nodes: Vec<(usize, usize)>,
    /// Byte ranges: for each column its validity, then the buffers of its type.
    buffers: Vec<Range<usize>>,
}

impl BatchLayout {
    /// Reads it from a batch's header; an error has the expected content.
    pub(crate) fn new(message: &Message<'_>, body_bytes: u64) -> Result<Self, String> {
        let batch = message.header_as_record_batch().ok_or("a batch of rows")?;
        if batch.compression().is_some() {
            return Err("a batch without compression".into());
        }
        let nodes = batch.nodes().ok_or("the batch's columns")?;
        let nodes = nodes.iter().map(|node| Ok((count(node.length())?, count(node.null_count())?)));
        let buffers = batch.buffers().ok_or("the batch's buffers")?;
        let buffers =
            buffers.iter().map(|buffer| range(buffer.offset(), buffer.length(), body_bytes));
        Ok(Self {
            rows: count(batch.length())?,
            nodes: nodes.collect::<Result<_, String>>()?,
            buffers: buffers.collect::<Result<_, String>>()?,
        })
    }

    /// Columns, nested ones included.
    pub(crate) fn columns(&self) -> usize {
        self.nodes.len()
    }

    /// Byte ranges of the columns of `records.arrows`, each as long as the rows need.
    pub(crate) fn record_columns(&self) -> Result<[Range<usize>; 12], String> {
        let mut cursor = Cursor::new(self);
        let mut columns = [const { 0..0 }; 12];
        for (column, width) in columns.iter_mut().zip(RECORD_WIDTHS) {
            *column = cursor.fixed(self.rows, width)?;
        }
        Ok(columns)
    }
}

/// Takes the columns of a batch one after the other.
#[derive(Debug)]
pub(crate) struct Cursor<'a> {
    layout: &'a BatchLayout,
    node: usize,
    buffer: usize,
}

impl<'a> Cursor<'a> {
    /// At the first column.
    pub(crate) fn new(layout: &'a BatchLayout) -> Self {
        Self { layout, node: 0, buffer: 0 }
    }

    /// A column of `rows` numbers of `width` bytes, none of them null.
    pub(crate) fn fixed(&mut self, rows: usize, width: usize) -> Result<Range<usize>, String> {
        self.without_nulls(rows)?;
        self.values(rows * width)
    }

    /// A column of `rows` numbers of `width` bytes: where its validity bits are, if any value is
    /// null, and its values.
    pub(crate) fn nullable(
        &mut self,
        rows: usize,
        width: usize,
    ) -> Result<(Option<Range<usize>>, Range<usize>), String> {
        let nulls = self.node(rows)?;
        let validity = self.values(if nulls == 0 { 0 } else { rows.div_ceil(8) })?;
        Ok(((nulls > 0).then_some(validity), self.values(rows * width)?))
    }

    /// A column of `rows` bits.
    pub(crate) fn bits(&mut self, rows: usize) -> Result<Range<usize>, String> {
        self.without_nulls(rows)?;
        self.values(rows.div_ceil(8))
    }

    /// A column of `rows` texts: its offsets (4 bytes each, one more than rows), and its bytes.
    pub(crate) fn texts(&mut self, rows: usize) -> Result<(Range<usize>, Range<usize>), String> {
        let offsets = self.lists(rows)?;
        Ok((offsets, self.values(0)?))
    }

    /// A column of `rows` lists: its offsets. Its items are the columns that follow.
    pub(crate) fn lists(&mut self, rows: usize) -> Result<Range<usize>, String> {
        self.without_nulls(rows)?;
        self.values(if rows == 0 { 0 } else { (rows + 1) * 4 })
    }

    /// A column of structures: its number of rows. Its members are the columns that follow.
    pub(crate) fn structures(&mut self) -> Result<usize, String> {
        let (rows, _) = self.layout.nodes.get(self.node).copied().ok_or("more columns")?;
        self.without_nulls(rows)?;
        Ok(rows)
    }

    fn without_nulls(&mut self, rows: usize) -> Result<(), String> {
        let column = self.node;
        match self.node(rows)? {
            0 => self.values(0).map(|_validity| ()),
            nulls => Err(format!("no nulls in column {column}, not {nulls}")),
        }
    }

    fn node(&mut self, rows: usize) -> Result<usize, String> {
        let column = self.node;
        self.node += 1;
        match self.layout.nodes.get(column) {
            Some(&(found, nulls)) if found == rows => Ok(nulls),
            Some(&(found, _)) => Err(format!("{rows} rows in column {column}, not {found}")),
            None => Err(format!("a column {column}")),
        }
    }

    fn values(&mut self, bytes_min: usize) -> Result<Range<usize>, String> {
        let number = self.buffer;
        self.buffer += 1;
        match self.layout.buffers.get(number) {
            Some(range) if range.len() >= bytes_min => Ok(range.clone()),
            Some(range) => {
                Err(format!("at least {bytes_min} bytes in buffer {number}, not {}", range.len()))
            }
            None => Err(format!("a buffer {number}")),
        }
    }
}

fn count(number: i64) -> Result<usize, String> {
    match usize::try_from(number) {
        Ok(rows) if rows <= ROWS_MAX => Ok(rows),
        _ => Err(format!("0 to {ROWS_MAX} rows, not {number}")),
    }
}

fn range(offset: i64, length: i64, body_bytes: u64) -> Result<Range<usize>, String> {
    let inside = || {
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(usize::try_from(length).ok()?)?;
        (end as u64 <= body_bytes).then_some(start..end)
    };
    inside().ok_or_else(|| {
        format!("a buffer inside the body of {body_bytes} bytes, not {length} bytes at {offset}")
    })
}
