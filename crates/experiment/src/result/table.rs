//! Tables for people: no wider than a page; columns that do not fit stand below, under the same keys.
//!
//! Few cases with many numbers stand side by side, a line a number; many cases stand below each
//! other, a line a case.

use std::io;

use super::CaseResult;
use crate::word;

/// Columns of a page. One column alone may be wider.
const WIDTH: usize = 100;
const GAP: &str = "  ";
/// A head breaks between words where it would be wider than this and than all that it stands over.
const HEAD_WIDTH: usize = 9;

/// What was measured, or varied, under one name: a value for each case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Series {
    pub(super) name: String,
    pub(super) values: Vec<String>,
}

impl Series {
    /// Whether it tells the cases apart; with one case there is nothing to tell.
    pub(super) fn varies(&self) -> bool {
        self.values.len() < 2 || self.values.iter().any(|value| *value != self.values[0])
    }
}

/// Numbers of cases that differ in parameters.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Table {
    /// Stands above the names when they stand below each other.
    pub(super) title: String,
    pub(super) parameters: Vec<Series>,
    pub(super) numbers: Vec<Series>,
}

impl Table {
    /// In the form that suits its size.
    pub(super) fn write(&self, out: &mut dyn io::Write) -> io::Result<()> {
        let cases = self.numbers.first().map_or(0, |series| series.values.len());
        if self.numbers.len() > cases { self.write_by_name(out) } else { self.write_by_case(out) }
    }

    /// A line a case.
    pub(super) fn write_by_case(&self, out: &mut dyn io::Write) -> io::Result<()> {
        let columns = |of: &[Series]| of.iter().map(Column::of_series).collect::<Vec<_>>();
        write_blocks(&columns(&self.parameters), &columns(&self.numbers), out)
    }

    /// A line a number, a column a case.
    pub(super) fn write_by_name(&self, out: &mut dyn io::Write) -> io::Result<()> {
        let mut head: Vec<_> = self.parameters.iter().map(|series| series.name.clone()).collect();
        if !self.title.is_empty() {
            head.push(self.title.clone());
        }
        let names = self.numbers.iter().map(|series| series.name.clone()).collect();
        let cases = self.numbers.first().map_or(0, |series| series.values.len());
        let of_case = |of: &[Series], case: usize| {
            of.iter().map(|series| series.values[case].clone()).collect::<Vec<_>>()
        };
        let column = |case| {
            let mut head = of_case(&self.parameters, case);
            head.resize(self.parameters.len() + usize::from(!self.title.is_empty()), String::new());
            Column { head, fields: of_case(&self.numbers, case), is_right: true }
        };
        let columns: Vec<_> = (0..cases).map(column).collect();
        write_blocks(&[Column { head, fields: names, is_right: false }], &columns, out)
    }
}

/// What tells the cases apart, a value for each case. Variants may differ in different things: of
/// the others a case has what all have, or a dash.
pub(super) fn parameters(cases: &[&CaseResult]) -> Vec<Series> {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in cases.iter().flat_map(|case| swept(case)) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let value = |case: &CaseResult, name: &str| case.case.value(name).map_or("-".to_owned(), word);
    let of_name = |name: &str| Series {
        name: name.to_owned(),
        values: cases.iter().map(|case| value(case, name)).collect(),
    };
    names.into_iter().map(of_name).collect()
}

fn swept(case: &CaseResult) -> &[(String, toml::Value)] {
    &case.case.named[case.case.named.len() - case.case.swept..]
}

struct Column {
    head: Vec<String>,
    fields: Vec<String>,
    /// Numbers end below each other, words begin so.
    is_right: bool,
}

impl Column {
    fn of_series(series: &Series) -> Self {
        let fields = series.values.clone();
        let head = broken(&series.name, width(&fields).max(HEAD_WIDTH));
        let is_number = |field: &String| !field.starts_with(|c: char| c.is_ascii_alphabetic());
        Self { head, is_right: fields.iter().all(is_number), fields }
    }

    fn width(&self) -> usize {
        width(&self.head).max(width(&self.fields))
    }

    /// What stands in this line, the head's last line being line `heads - 1`.
    fn at(&self, line: usize, heads: usize) -> &str {
        let field = if line < heads {
            (line + self.head.len()).checked_sub(heads).and_then(|at| self.head.get(at))
        } else {
            self.fields.get(line - heads)
        };
        field.map_or("", String::as_str)
    }
}

fn width(lines: &[String]) -> usize {
    lines.iter().map(|line| line.chars().count()).max().unwrap_or(0)
}

/// A name in lines of whole words, as many to a line as `width` lets.
fn broken(name: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in name.split(['_', ' ']) {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// All columns, as many side by side as fit next to the keys.
fn write_blocks(keys: &[Column], columns: &[Column], out: &mut dyn io::Write) -> io::Result<()> {
    let mut rest = columns;
    while !rest.is_empty() {
        let (block, more) = rest.split_at(fitting(keys, rest));
        write_block(keys, block, out)?;
        rest = more;
    }
    Ok(())
}

/// How many of `columns` fit next to the keys; one at least.
fn fitting(keys: &[Column], columns: &[Column]) -> usize {
    let with_gap = |column: &Column| column.width() + GAP.len();
    let mut used: usize = keys.iter().map(with_gap).sum();
    let fits = |column: &&Column| {
        used += with_gap(column);
        used <= WIDTH + GAP.len()
    };
    columns.iter().take_while(fits).count().max(1)
}

fn write_block(keys: &[Column], block: &[Column], out: &mut dyn io::Write) -> io::Result<()> {
    let columns: Vec<_> = keys.iter().chain(block).collect();
    let heads = columns.iter().map(|column| column.head.len()).max().unwrap_or(0);
    let lines = columns.iter().map(|column| column.fields.len()).max().unwrap_or(0);
    for line in 0..heads + lines {
        let fields: Vec<_> = columns
            .iter()
            .map(|column| {
                let (field, width) = (column.at(line, heads), column.width());
                if column.is_right {
                    format!("{field:>width$}")
                } else {
                    format!("{field:<width$}")
                }
            })
            .collect();
        writeln!(out, "{}", fields.join(GAP).trim_end())?;
    }
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(name: &str, values: &[&str]) -> Series {
        Series { name: name.into(), values: values.iter().map(|&value| value.into()).collect() }
    }

    fn written(table: &Table) -> String {
        let mut out = Vec::new();
        table.write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn many_cases_stand_below_each_other() {
        let table = Table {
            title: String::new(),
            parameters: vec![series("link", &["line", "ethernet-10", "line"])],
            numbers: vec![series("mean ms", &["1.5", "22.5", "?"])],
        };
        let expected = "\
link         mean ms
line             1.5
ethernet-10     22.5
line               ?

";
        assert_eq!(written(&table), expected);
    }

    #[test]
    fn many_numbers_of_few_cases_stand_below_each_other() {
        let table = Table {
            title: "calls of".into(),
            parameters: vec![series("clients", &["1", "2"])],
            numbers: vec![
                series("collisions", &["0", "17"]),
                series("dropped_frames", &["0", "0"]),
                series("timeouts", &["0", "3"]),
            ],
        };
        let expected = "\
clients         1   2
calls of
collisions      0  17
dropped_frames  0   0
timeouts        0   3

";
        assert_eq!(written(&table), expected);
    }

    #[test]
    fn what_does_not_fit_stands_below_under_the_same_keys() {
        let ten = |of: &str| vec![of.to_owned(); 20];
        let number = |n: usize| Series { name: format!("n{n}"), values: ten("123456789") };
        let table = Table {
            title: String::new(),
            parameters: vec![Series { name: "key".into(), values: ten("k") }],
            numbers: (0..10).map(number).collect(),
        };
        let text = written(&table);
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert_eq!(text.lines().filter(|line| line.starts_with("key")).count(), 2, "{text}");
        assert!((0..10).all(|n| text.contains(&format!("n{n}"))), "{text}");
    }

    #[test]
    fn a_head_breaks_between_words() {
        assert_eq!(broken("client_packets_per_s", 9), ["client", "packets", "per s"]);
        assert_eq!(broken("mean ms", 9), ["mean ms"]);
    }
}
