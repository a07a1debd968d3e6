//! Results of experiments as Arrow tables: the numbers of CSV, with the types of their parameters.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{Field, Schema};
use sockscope_experiment::result::{CaseResult, RunResult};
use sockscope_experiment::word;
use toml::Value;

use crate::error::Problem;

/// Numbers of one case by name; `None` is unknown.
type Numbers = Vec<(String, Option<f64>)>;

/// One row a case: `case`, a column for each parameter, and one for each number.
pub(crate) fn cases(result: &RunResult) -> Result<RecordBatch, Problem> {
    let rows: Vec<&CaseResult> = result.cases.iter().collect();
    let numbers: Vec<Numbers> = rows.iter().map(|row| numbers(result, row)).collect();
    let mut columns = Columns::default();
    columns.cases((0..).take(rows.len()));
    columns.parameters(&rows);
    for name in in_order(numbers.iter().flatten().map(|(name, _)| name)) {
        let value = |row: &Numbers| row.iter().find(|(other, _)| *other == name)?.1;
        let values: Float64Array = numbers.iter().map(value).collect();
        // A parameter may have the same name.
        let is_taken = columns.has(&name);
        let name = if is_taken { format!("result.{name}") } else { name };
        columns.add(&name, Arc::new(values), true);
    }
    columns.batch()
}

/// One row a number of a case: `case`, a column for each parameter, `result` and `value`.
pub(crate) fn results(result: &RunResult) -> Result<RecordBatch, Problem> {
    let mut rows = Vec::new();
    let mut cases = Vec::new();
    let (mut names, mut values) = (Vec::new(), Vec::new());
    for (number, case) in (0..).zip(&result.cases) {
        for (name, value) in numbers(result, case) {
            cases.push(number);
            rows.push(case);
            names.push(name);
            values.push(value);
        }
    }
    let mut columns = Columns::default();
    columns.cases(cases);
    columns.parameters(&rows);
    columns.add("result", Arc::new(StringArray::from_iter_values(names)), false);
    columns.add("value", Arc::new(Float64Array::from_iter(values)), true);
    columns.batch()
}

fn numbers(result: &RunResult, case: &CaseResult) -> Numbers {
    case.measured.numbers(&result.experiment)
}

/// Each name once, in the order of first appearance.
fn in_order<'a>(names: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut once: Vec<String> = Vec::new();
    for name in names {
        if !once.contains(name) {
            once.push(name.clone());
        }
    }
    once
}

/// Columns of one batch.
#[derive(Default)]
struct Columns {
    fields: Vec<Field>,
    arrays: Vec<ArrayRef>,
}

impl Columns {
    fn add(&mut self, name: &str, array: ArrayRef, is_nullable: bool) {
        self.fields.push(Field::new(name, array.data_type().clone(), is_nullable));
        self.arrays.push(array);
    }

    fn has(&self, name: &str) -> bool {
        self.fields.iter().any(|field| field.name() == name)
    }

    /// The number of the case of each row, from 0 on.
    fn cases(&mut self, cases: impl IntoIterator<Item = i64>) {
        self.add("case", Arc::new(Int64Array::from_iter_values(cases)), false);
    }

    /// A column for each parameter of any case, empty where a case does not have it.
    fn parameters(&mut self, rows: &[&CaseResult]) {
        for name in in_order(rows.iter().flat_map(|row| &row.case.named).map(|(name, _)| name)) {
            let values: Vec<_> = rows.iter().map(|row| row.case.value(&name)).collect();
            self.add(&name, parameter(&values), true);
        }
    }

    fn batch(self) -> Result<RecordBatch, Problem> {
        Ok(RecordBatch::try_new(Arc::new(Schema::new(self.fields)), self.arrays)?)
    }
}

/// Values of one parameter in the narrowest type that holds them all.
fn parameter(values: &[Option<&Value>]) -> ArrayRef {
    let all = |is: fn(&Value) -> bool| values.iter().flatten().all(|value| is(value));
    let of = || values.iter().copied();
    if all(Value::is_integer) {
        let whole = of().map(|value| value?.as_integer());
        return Arc::new(Int64Array::from_iter(whole));
    }
    if all(Value::is_bool) {
        let flags: Vec<_> = of().map(|value| value?.as_bool()).collect();
        return Arc::new(BooleanArray::from(flags));
    }
    if all(|value| value.is_float() || value.is_integer()) {
        let number = |value: &Value| match value {
            Value::Integer(whole) => Some(*whole as f64),
            other => other.as_float(),
        };
        return Arc::new(Float64Array::from_iter(of().map(|value| number(value?))));
    }
    let words: Vec<_> = of().map(|value| value.map(word)).collect();
    Arc::new(StringArray::from(words))
}
