//! Columns of texts and lists in the body of a batch, checked before use.

use std::ops::Range;

/// A column of texts.
pub(crate) struct Texts<'a> {
    offsets: &'a [[u8; 4]],
    bytes: &'a [u8],
}

impl<'a> Texts<'a> {
    pub(crate) fn new(
        body: &'a [u8],
        (bounds, bytes): (Range<usize>, Range<usize>),
        rows: usize,
    ) -> Result<Self, String> {
        Ok(Self { offsets: offsets(body, bounds, rows)?, bytes: &body[bytes] })
    }

    pub(crate) fn text(&self, row: usize) -> Result<&'a str, String> {
        let bytes = self.bytes.get(span(self.offsets, row)?).ok_or("text inside its column")?;
        std::str::from_utf8(bytes).map_err(|error| format!("text in UTF-8: {error}"))
    }
}

/// The offsets of a text or list column. They must ascend over the whole batch: were one part to
/// be named by many rows, a short file could ask for any amount of memory.
pub(crate) fn offsets(body: &[u8], range: Range<usize>, rows: usize) -> Result<&[[u8; 4]], String> {
    let all = chunks::<4>(body, range);
    // Without rows the column may have no offsets.
    let offsets = &all[..all.len().min(rows + 1)];
    let ascend = offsets.is_sorted_by_key(|bytes| i32::from_le_bytes(*bytes));
    let starts_inside = offsets.first().is_none_or(|bytes| i32::from_le_bytes(*bytes) >= 0);
    if ascend && starts_inside { Ok(offsets) } else { Err("offsets in ascending order".into()) }
}

/// The range of `row`, by the offsets of its column.
pub(crate) fn span(offsets: &[[u8; 4]], row: usize) -> Result<Range<usize>, String> {
    let bound = |row: usize| usize::try_from(i32::from_le_bytes(*offsets.get(row)?)).ok();
    match (bound(row), bound(row + 1)) {
        (Some(start), Some(end)) => Ok(start..end),
        _ => Err("a row inside its column".into()),
    }
}

pub(crate) fn chunks<const N: usize>(body: &[u8], range: Range<usize>) -> &[[u8; N]] {
    body[range].as_chunks::<N>().0
}
