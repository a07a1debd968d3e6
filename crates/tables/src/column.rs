//! Columns: types of their cells, and their description, which the schema and the documentation have.
//!
//! A column is named once, with its unit, its meaning and the code for a row. All integers are signed, because not all
//! readers of Parquet have unsigned ones.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::builder::{
    BooleanBuilder, Float64Builder, Int64Builder, StringBuilder, StringDictionaryBuilder,
    TimestampNanosecondBuilder,
};
use arrow_array::types::Int16Type;
use arrow_schema::{DataType, Field, TimeUnit};

use crate::trace::Trace;

/// Key of a column's unit in the metadata of its field: `ns`, `bytes`, `bytes/s` or `packets`.
pub const UNIT: &str = "unit";
/// Key of a column's meaning in the metadata of its field.
pub const DESCRIPTION: &str = "description";

/// The type of wall-clock times.
pub(crate) fn timestamp() -> DataType {
    DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()))
}

/// The type of columns with few different words.
pub(crate) fn words() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int16), Box::new(DataType::Utf8))
}

/// The field of a column. An empty unit is no unit.
pub(crate) fn field(
    name: &str,
    of: DataType,
    has_nulls: bool,
    unit: &str,
    description: &str,
) -> Field {
    let facts = [(UNIT, unit), (DESCRIPTION, description)].into_iter();
    let facts: HashMap<String, String> = facts
        .filter(|(_, text)| !text.is_empty())
        .map(|(key, text)| (key.to_owned(), text.to_owned()))
        .collect();
    Field::new(name, of, has_nulls).with_metadata(facts)
}

/// An unsigned number as a signed one. Larger ones, which only a damaged or hostile trace has, become the largest.
#[inline]
pub(crate) fn signed(value: u64) -> i64 {
    value.min(i64::MAX as u64).cast_signed()
}

/// Cells of one column, being filled.
pub(crate) trait Cells: Default + Send {
    /// What a row has there.
    type Value;
    /// Whether a value may be unknown.
    const HAS_NULLS: bool;

    fn data_type() -> DataType;
    fn push(&mut self, value: Self::Value);
    /// The cells, which are taken out.
    fn take(&mut self) -> ArrayRef;
}

/// A number of things, bytes or nanoseconds, or a number that names a thing.
#[derive(Default)]
pub(crate) struct Whole(Int64Builder);

/// The same, which may be unknown.
#[derive(Default)]
pub(crate) struct MaybeWhole(Int64Builder);

/// A share or a mean, which may be unknown.
#[derive(Default)]
pub(crate) struct MaybeReal(Float64Builder);

/// One of few words.
#[derive(Default)]
pub(crate) struct Word(StringDictionaryBuilder<Int16Type>);

/// The same, which may be unknown.
#[derive(Default)]
pub(crate) struct MaybeWord(StringDictionaryBuilder<Int16Type>);

/// Any text.
#[derive(Default)]
pub(crate) struct Text(StringBuilder);

/// The same, which may be unknown.
#[derive(Default)]
pub(crate) struct MaybeText(StringBuilder);

/// Yes or no.
#[derive(Default)]
pub(crate) struct Flag(BooleanBuilder);

/// Nanoseconds since 1970; unknown where the trace has no wall clock.
#[derive(Default)]
pub(crate) struct Time(TimestampNanosecondBuilder);

macro_rules! cells {
    ($($cells:ident: $value:ty, $nulls:literal, $of:expr, |$builder:ident, $it:ident| $push:expr;)*) => {
        $(impl Cells for $cells {
            type Value = $value;
            const HAS_NULLS: bool = $nulls;

            fn data_type() -> DataType {
                $of
            }

            fn push(&mut self, $it: $value) {
                let $builder = &mut self.0;
                $push;
            }

            fn take(&mut self) -> ArrayRef {
                Arc::new(self.0.finish())
            }
        })*
    };
}

cells! {
    Whole: u64, false, DataType::Int64, |cells, it| cells.append_value(signed(it));
    MaybeWhole: Option<u64>, true, DataType::Int64, |cells, it| cells.append_option(it.map(signed));
    MaybeReal: Option<f64>, true, DataType::Float64, |cells, it| cells.append_option(it);
    Word: &'static str, false, words(), |cells, it| cells.append_value(it);
    MaybeWord: Option<&'static str>, true, words(), |cells, it| cells.append_option(it);
    Text: String, false, DataType::Utf8, |cells, it| cells.append_value(it);
    MaybeText: Option<String>, true, DataType::Utf8, |cells, it| cells.append_option(it);
    Flag: bool, false, DataType::Boolean, |cells, it| cells.append_value(it);
}

impl Cells for Time {
    type Value = Option<i64>;
    const HAS_NULLS: bool = true;

    fn data_type() -> DataType {
        timestamp()
    }

    fn push(&mut self, value: Option<i64>) {
        self.0.append_option(value);
    }

    fn take(&mut self) -> ArrayRef {
        Arc::new(self.0.finish().with_timezone("UTC"))
    }
}

/// All columns of a table, being filled.
pub(crate) trait Columns: Default + Send + 'static {
    /// What a row is made of.
    type Row: Send + 'static;
    /// Name of the table.
    const TABLE: &'static str;

    fn fields() -> Vec<Field>;
    fn push(&mut self, trace: &Trace, row: &Self::Row);
    /// The cells of all rows, which are taken out.
    fn take(&mut self) -> Vec<ArrayRef>;
}

/// The columns of a table in their order: name, cells, unit, meaning, and the value of a row.
macro_rules! columns {
    (
        $table:ident $name:literal, |$trace:ident, $row:ident: $of:ty| { $($prelude:stmt;)* }
        $($column:ident: $cells:ident $unit:literal $description:literal = $value:expr;)*
    ) => {
        #[derive(Default)]
        pub(crate) struct $table {
            $($column: crate::column::$cells,)*
        }

        impl crate::column::Columns for $table {
            type Row = $of;
            const TABLE: &'static str = $name;

            fn fields() -> Vec<arrow_schema::Field> {
                use crate::column::Cells;
                vec![$({
                    type Of = crate::column::$cells;
                    let name = stringify!($column);
                    crate::column::field(name, Of::data_type(), Of::HAS_NULLS, $unit, $description)
                },)*]
            }

            #[allow(unused_variables)]
            fn push(&mut self, $trace: &crate::trace::Trace, $row: &$of) {
                use crate::column::Cells;
                $($prelude)*
                $(self.$column.push($value);)*
            }

            fn take(&mut self) -> Vec<arrow_array::ArrayRef> {
                use crate::column::Cells;
                vec![$(self.$column.take(),)*]
            }
        }
    };
}

pub(crate) use columns;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_beyond_63_bits_becomes_the_largest_one() {
        assert_eq!([signed(0), signed(u64::MAX), signed(1 << 63)], [0, i64::MAX, i64::MAX]);
    }

    #[test]
    fn a_column_without_a_unit_has_none_in_its_field() {
        let field = field("flow", DataType::Int64, false, "", "the flow");
        assert_eq!(field.metadata().get(UNIT), None);
        assert_eq!(field.metadata()[DESCRIPTION], "the flow");
    }
}
