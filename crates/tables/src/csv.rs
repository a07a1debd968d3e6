//! A table as CSV (RFC 4180): a line of names, then a line a row, each ended by CR and LF.
//!
//! Unknown is empty, an empty text is `""`. Text with a comma, a quote or a line end is in quotes. A time since 1970 is
//! that of RFC 3339 in UTC, as `2026-11-27T09:30:00.123456789Z`.

use std::io::Write;

use arrow_array::cast::AsArray;
use arrow_array::temporal_conversions::timestamp_ns_to_datetime;
use arrow_array::types::{
    Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimestampNanosecondType,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_buffer::NullBuffer;
use arrow_schema::{ArrowError, DataType};

use crate::{Error, Table};

/// Octets before a write.
const BUFFER: usize = 1 << 18;
/// Nanoseconds of a second, UTC, and the comma.
const FRACTION: &[u8] = b"000000000Z,";
/// The two digits of each number below 100.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[b'0'; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number] = [b'0' + number as u8 / 10, b'0' + number as u8 % 10];
        number += 1;
    }
    pairs
};
/// Sign, digits and comma of a number of 64 bits at most.
const NUMBER_BYTES: usize = 21;

/// Writes a table, and calls `wrote` with the number of rows of each batch. Returns the number of rows.
///
/// # Errors
///
/// When `out` fails, or the table cannot be made.
pub fn write_csv(
    table: Table,
    mut out: impl Write,
    wrote: &mut dyn FnMut(u64),
) -> Result<u64, Error> {
    let mut text = Text::default();
    for field in table.schema().fields() {
        text.quoted(field.name());
    }
    text.end_line();
    let mut rows = 0;
    let mut second = Second::default();
    for batch in table {
        let batch = batch?;
        let columns = columns(&batch)?;
        for row in 0..batch.num_rows() {
            for column in &columns {
                column.put(&mut text, row, &mut second);
            }
            text.end_line();
            if text.len >= BUFFER {
                out.write_all(text.written()).map_err(Error::Write)?;
                text.len = 0;
            }
        }
        rows += batch.num_rows() as u64;
        wrote(batch.num_rows() as u64);
    }
    out.write_all(text.written()).and_then(|()| out.flush()).map_err(Error::Write)?;
    Ok(rows)
}

/// The cells of one column of a batch.
struct Column<'a> {
    nulls: Option<&'a NullBuffer>,
    cells: Cells<'a>,
}

enum Cells<'a> {
    Long(&'a [i64]),
    Int(&'a [i32]),
    Short(&'a [i16]),
    Time(&'a [i64]),
    Real(&'a [f64]),
    Flag(&'a arrow_array::BooleanArray),
    Text(&'a arrow_array::StringArray),
    /// Words with their quotes where they need any.
    Words(Vec<usize>, Vec<Vec<u8>>),
}

fn columns(batch: &RecordBatch) -> Result<Vec<Column<'_>>, ArrowError> {
    batch.columns().iter().map(Column::of).collect()
}

impl<'a> Column<'a> {
    fn of(array: &'a ArrayRef) -> Result<Self, ArrowError> {
        let cells = match array.data_type() {
            DataType::Int64 => Cells::Long(array.as_primitive::<Int64Type>().values()),
            DataType::Int32 => Cells::Int(array.as_primitive::<Int32Type>().values()),
            DataType::Int16 => Cells::Short(array.as_primitive::<Int16Type>().values()),
            DataType::Float64 => Cells::Real(array.as_primitive::<Float64Type>().values()),
            DataType::Timestamp(..) => {
                Cells::Time(array.as_primitive::<TimestampNanosecondType>().values())
            }
            DataType::Boolean => Cells::Flag(array.as_boolean()),
            DataType::Utf8 => Cells::Text(array.as_string()),
            DataType::Dictionary(key, _) if **key == DataType::Int8 => {
                let words = array.as_dictionary::<Int8Type>();
                let keys = words.keys().values().iter().map(|key| *key as usize).collect();
                Cells::Words(keys, quoted(words.values()))
            }
            DataType::Dictionary(key, _) if **key == DataType::Int16 => {
                let words = array.as_dictionary::<Int16Type>();
                let keys = words.keys().values().iter().map(|key| *key as usize).collect();
                Cells::Words(keys, quoted(words.values()))
            }
            other => {
                let text = format!("no form of {other} in CSV");
                return Err(ArrowError::NotYetImplemented(text));
            }
        };
        Ok(Self { nulls: array.nulls(), cells })
    }

    #[inline]
    fn put(&self, text: &mut Text, row: usize, second: &mut Second) {
        if self.nulls.is_some_and(|nulls| nulls.is_null(row)) {
            return text.cell(b"");
        }
        match &self.cells {
            Cells::Long(values) => text.number(values[row]),
            Cells::Int(values) => text.number(values[row].into()),
            Cells::Short(values) => text.number(values[row].into()),
            Cells::Time(values) => second.put(text, values[row]),
            Cells::Real(values) => text.cell(values[row].to_string().as_bytes()),
            Cells::Flag(values) => text.cell(if values.value(row) { b"true" } else { b"false" }),
            Cells::Text(values) => text.quoted(values.value(row)),
            Cells::Words(keys, words) => text.cell(&words[keys[row]]),
        }
    }
}

fn quoted(words: &ArrayRef) -> Vec<Vec<u8>> {
    let quoted = |word: Option<&str>| {
        let mut text = Text::default();
        text.quoted(word.unwrap_or_default());
        text.written()[..text.len - 1].to_vec()
    };
    words.as_string::<i32>().iter().map(quoted).collect()
}

/// Lines before they are written; each cell with the comma behind it.
#[derive(Default)]
struct Text {
    /// The first `len` are in use.
    room: Vec<u8>,
    len: usize,
}

impl Text {
    fn written(&self) -> &[u8] {
        &self.room[..self.len]
    }

    /// Room for so many bytes behind the used ones.
    #[inline]
    fn next(&mut self, count: usize) -> &mut [u8] {
        if self.room.len() - self.len < count {
            self.grow(count);
        }
        &mut self.room[self.len..]
    }

    #[cold]
    fn grow(&mut self, count: usize) {
        self.room.resize(self.len + count.max(2 * BUFFER), 0);
    }

    #[inline]
    fn cell(&mut self, bytes: &[u8]) {
        let count = bytes.len();
        let room = self.next(count + 1);
        room[..count].copy_from_slice(bytes);
        room[count] = b',';
        self.len += count + 1;
    }

    #[inline]
    fn number(&mut self, number: i64) {
        let room = self.next(NUMBER_BYTES);
        if let 0..10 = number {
            room[..2].copy_from_slice(&[b'0' + number as u8, b',']);
            self.len += 2;
            return;
        }
        room[0] = b'-';
        let sign = usize::from(number < 0);
        let mut rest = number.unsigned_abs();
        let end = sign + rest.ilog10() as usize + 1;
        let mut pairs = room[sign..end].rchunks_exact_mut(2);
        for pair in &mut pairs {
            pair.copy_from_slice(&PAIRS[(rest % 100) as usize]);
            rest /= 100;
        }
        if let [digit] = pairs.into_remainder() {
            *digit = b'0' + rest as u8;
        }
        room[end] = b',';
        self.len += end + 1;
    }

    fn quoted(&mut self, value: &str) {
        let is_special = |byte: u8| matches!(byte, b',' | b'"' | b'\r' | b'\n');
        if !value.is_empty() && !value.bytes().any(is_special) {
            return self.cell(value.as_bytes());
        }
        self.cell(format!("\"{}\"", value.replace('"', "\"\"")).as_bytes());
    }

    /// In the place of the last comma.
    fn end_line(&mut self) {
        self.len = self.len.saturating_sub(1);
        self.next(2)[..2].copy_from_slice(b"\r\n");
        self.len += 2;
    }
}

/// The second that was written last: neighbours are mostly of the same one.
#[derive(Default)]
struct Second {
    since_1970: Option<i64>,
    text: Vec<u8>,
}

impl Second {
    fn put(&mut self, text: &mut Text, at_ns: i64) {
        const NS: i64 = 1_000_000_000;
        let second = at_ns.div_euclid(NS);
        if self.since_1970 != Some(second) {
            self.since_1970 = Some(second);
            self.text.clear();
            // A time of 64 bits of nanoseconds is within the years that the calendar has.
            if let Some(date) = timestamp_ns_to_datetime(at_ns - at_ns.rem_euclid(NS)) {
                let _ = write!(self.text, "{}", date.format("%Y-%m-%dT%H:%M:%S."));
            }
        }
        let count = self.text.len();
        let room = text.next(count + FRACTION.len());
        room[..count].copy_from_slice(&self.text);
        let fraction = &mut room[count..count + FRACTION.len()];
        fraction.copy_from_slice(FRACTION);
        let mut rest = at_ns.rem_euclid(NS) as u32;
        for pair in fraction[..9].rchunks_exact_mut(2) {
            pair.copy_from_slice(&PAIRS[(rest % 100) as usize]);
            rest /= 100;
        }
        fraction[0] = b'0' + rest as u8;
        text.len += count + FRACTION.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(put: impl FnOnce(&mut Text)) -> String {
        let mut text = Text::default();
        put(&mut text);
        let cells = text.written().strip_suffix(b",").expect("a comma behind the last cell");
        String::from_utf8(cells.to_vec()).expect("text")
    }

    fn time(at_ns: i64) -> String {
        text(|text| Second::default().put(text, at_ns))
    }

    fn quoted(value: &str) -> String {
        text(|text| text.quoted(value))
    }

    #[test]
    fn a_number_has_its_digits_and_sign() {
        let powers = (0..19).map(|power| 10_i64.pow(power));
        let near = powers.flat_map(|power| [power - 1, power, power + 1, -power, 7 - power]);
        for number in near.chain([0, i64::MIN, i64::MAX]) {
            assert_eq!(text(|text| text.number(number)), number.to_string());
        }
    }

    #[test]
    fn lines_longer_than_the_room_are_whole() {
        let long = "x".repeat(3 * BUFFER);
        let both = text(|text| {
            text.number(12);
            text.quoted(&long);
            text.number(34);
        });
        assert!(both == format!("12,{long},34"));
    }

    #[test]
    fn a_time_is_that_of_rfc_3339() {
        assert_eq!(time(1_795_771_800_123_456_789), "2026-11-27T09:30:00.123456789Z");
        assert_eq!(time(0), "1970-01-01T00:00:00.000000000Z");
        assert_eq!(time(-1), "1969-12-31T23:59:59.999999999Z");
        assert_eq!(time(i64::MAX), "2262-04-11T23:47:16.854775807Z");
    }

    #[test]
    fn text_with_a_comma_a_quote_or_a_line_end_is_in_quotes() {
        assert_eq!(quoted("a b;c"), "a b;c");
        assert_eq!(quoted("a,b"), "\"a,b\"");
        assert_eq!(quoted("say \"a\""), "\"say \"\"a\"\"\"");
        assert_eq!(quoted("a\r\nb"), "\"a\r\nb\"");
        assert_eq!(quoted(""), "\"\"", "unknown is empty without quotes");
    }
}
