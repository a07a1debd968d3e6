//! The choices of parameters that an experiment's variants and sweep make.

use serde::Deserialize;
use toml::{Table, Value};

/// Cases that a sweep may make at most.
const CASES_MAX: usize = 10_000;

/// Every choice of the variants and the swept parameters, in the order of the file; the last swept
/// parameter changes fastest.
pub(super) fn choices(
    variants: &[Table],
    sweep: &Table,
) -> Result<Vec<Vec<(String, Value)>>, String> {
    let variant = |table: &Table| table.clone().into_iter().collect::<Vec<_>>();
    let mut choices: Vec<_> = variants.iter().map(variant).collect();
    if choices.is_empty() {
        choices.push(Vec::new());
    }
    for (name, values) in sweep {
        let values = swept_values(name, values)?;
        if values.is_empty() || values.len() * choices.len() > CASES_MAX {
            return Err(format!("sweep of `{name}`: expected 1 to {CASES_MAX} cases in all"));
        }
        let one_more = |choice: &Vec<(String, Value)>| {
            let with = |value: &Value| {
                let mut choice = choice.clone();
                choice.push((name.clone(), value.clone()));
                choice
            };
            values.iter().map(with).collect::<Vec<_>>()
        };
        choices = choices.iter().flat_map(one_more).collect();
    }
    Ok(choices)
}

/// The values of one swept parameter: a list, or `{ from, to, step, also }`.
fn swept_values(name: &str, values: &Value) -> Result<Vec<Value>, String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Range {
        from: i64,
        to: i64,
        step: i64,
        #[serde(default)]
        also: Vec<i64>,
    }
    match values {
        Value::Array(values) => Ok(values.clone()),
        other => {
            let range: Range = other.clone().try_into().map_err(|error: toml::de::Error| {
                format!("sweep of `{name}`: {}", error.message())
            })?;
            let span = range.to.saturating_sub(range.from);
            if range.step < 1 || span / range.step >= CASES_MAX as i64 {
                return Err(format!("sweep of `{name}`: expected a step above 0, fewer values"));
            }
            let steps = (range.from..=range.to).step_by(range.step as usize);
            let mut values: Vec<i64> = steps.chain(range.also).collect();
            values.sort_unstable();
            values.dedup();
            Ok(values.into_iter().map(Value::Integer).collect())
        }
    }
}
