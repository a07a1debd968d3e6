//! The papers' tables: CSV with a heading, after lines that start with `#`.
//!
//! Fields are separated by commas; a field with a comma in it stands in double quotes (RFC 4180).

use crate::error::{Error, Result};
use sockscope_record::counted;

/// A table with named columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    file: String,
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Reads the table in `text`; `file` is named in messages.
    ///
    /// # Errors
    ///
    /// When there is no heading, or a row has more or fewer fields than it.
    pub fn parse(file: &str, text: &str) -> Result<Self> {
        let mut lines = text.lines().zip(1..).filter(|(line, _)| !line.starts_with('#'));
        let (heading, _) = lines.next().ok_or_else(|| Error::file(file, "expected a heading"))?;
        let columns = fields(heading);
        let rows = lines.map(|(line, number)| {
            let row = fields(line);
            if row.len() == columns.len() {
                return Ok(row);
            }
            let problem = format!(
                "line {number}: {}, the heading has {}",
                counted(row.len() as u64, "field"),
                columns.len()
            );
            Err(Error::file(file, problem))
        });
        Ok(Self { file: file.to_owned(), rows: rows.collect::<Result<_>>()?, columns })
    }

    /// The names of the columns.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// The rows, each with a field for each column.
    pub fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }

    /// The field of the first row whose first column is `row`; `None` when there is no such row or
    /// column.
    pub fn field(&self, row: &str, column: &str) -> Option<&str> {
        let at = self.columns.iter().position(|name| name == column)?;
        let row = self.rows.iter().find(|fields| fields[0] == row)?;
        Some(&row[at])
    }

    /// The same field as a number; `None` also when it is not one.
    pub fn number(&self, row: &str, column: &str) -> Option<f64> {
        self.field(row, column)?.parse().ok()
    }

    /// The field of `row` as a `T`, `None` where it is empty.
    ///
    /// # Errors
    ///
    /// When there is no such column, or the field is not of that type.
    pub fn optional<T: std::str::FromStr>(&self, row: usize, column: &str) -> Result<Option<T>> {
        let missing = || Error::file(&self.file, format!("expected a column `{column}`"));
        let at = self.columns.iter().position(|name| name == column).ok_or_else(missing)?;
        match self.rows[row][at].as_str() {
            "" => Ok(None),
            field => field.parse().map(Some).map_err(|_| {
                let problem = format!("row {}, column `{column}`: `{field}`", row + 1);
                Error::file(&self.file, problem)
            }),
        }
    }
}

fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    for char in line.chars() {
        match char {
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            // There is always a last field: the list starts with one.
            _ => fields.last_mut().into_iter().for_each(|field| field.push(char)),
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_read_by_names() {
        let table = Table::parse("t", "# from there\nname,1,1024\nsosend,3.89,\"5,53\"\n").unwrap();
        assert_eq!(table.columns(), ["name", "1", "1024"]);
        assert_eq!(table.number("sosend", "1"), Some(3.89));
        assert_eq!(table.field("sosend", "1024"), Some("5,53"));
        assert_eq!(table.number("sosend", "1024"), None);
        assert_eq!(table.field("m_copy", "1"), None);
        assert_eq!(
            table.optional::<u32>(0, "2").unwrap_err().to_string(),
            "t: expected a column `2`"
        );
    }

    #[test]
    fn rows_of_another_width_are_refused() {
        let error = Table::parse("t", "a,b\n1\n").unwrap_err();
        assert_eq!(error.to_string(), "t: line 2: 1 field, the heading has 2");
        assert!(Table::parse("t", "# only talk\n").is_err());
    }
}
