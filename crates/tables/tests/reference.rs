//! `docs/reference/tables.md` has each column of each table.
//!
//! `SOCKSCOPE_UPDATE=1 cargo test -p sockscope-tables --test reference` writes it anew.

use std::fs;
use std::path::Path;

use arrow_schema::{DataType, Field};
use sockscope_tables::{DESCRIPTION, Description, UNIT, descriptions};

const HEAD: &str = "\
# Tables

The tables of a trace, as `sockscope export --to parquet` and `--to csv` write them ([export](export.md)). The Python
package and the crate `sockscope-tables` have them as Arrow. A test keeps this page the same.

- A time that ends in `_ns` is in nanoseconds of the clock of the trace ([bundle](bundle.md#clock)). The column with
  the same name without `_ns` has the time since 1970 in UTC. It is null where the trace has no wall clock. Its offset
  is that of the first reading of both clocks: a step of the wall clock during the recording does not show.
- Sizes and positions are bytes. Numbers of connections, flows and findings are those of the report.
- All integers are signed, because not all readers have unsigned ones. Numbers of 64 bits that do not fit are at the
  largest value; only damaged traces have any.
- Unknown is null. It is never 0.
- Hosts of a merged trace have numbers from 1 on, in the order of the bundles that were merged. `flows` has those of
  both ends, as far as processes show them. A record of points 1 to 4 is of the sender's host, one of points 5 to 8 of
  the receiver's.
- A column of the type word has few different texts. In Arrow and Parquet it is a dictionary.
- The metadata of each field has its unit and its meaning. That of the schema has the name and version of the table, as
  `schema`: `sockscope.records/1`. The version increases when a column changes its meaning or is removed.

`curve`, `queue` and `delays` are of one flow, and only libraries have them. A CSV file has the same columns as text.
";

#[test]
fn the_page_of_the_tables_has_every_column() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/tables.md");
    let expected =
        descriptions().iter().fold(HEAD.to_owned(), |page, table| page + &section(table));
    if std::env::var_os("SOCKSCOPE_UPDATE").is_some() {
        fs::write(&page, &expected).expect("the page can be written");
    }
    let found = fs::read_to_string(&page).unwrap_or_default();
    let differs = expected.lines().zip(found.lines()).find(|(expected, found)| expected != found);
    assert!(
        found == expected,
        "{} is not what the tables have, first at {differs:?}: run SOCKSCOPE_UPDATE=1 cargo test \
         -p sockscope-tables --test reference",
        page.display()
    );
}

#[test]
fn a_time_has_its_unit_and_the_same_time_since_1970_is_a_timestamp() {
    for table in descriptions() {
        for field in table.schema.fields() {
            let unit = field.metadata().get(UNIT).map(String::as_str);
            let name = field.name();
            assert!(!name.ends_with("_ns") || unit == Some("ns"), "{}.{name}", table.name);
            assert!(!name.ends_with("_bytes") || unit == Some("bytes"), "{}.{name}", table.name);
            if matches!(field.data_type(), DataType::Timestamp(..)) {
                let in_ns = table.schema.field_with_name(&format!("{name}_ns"));
                assert!(in_ns.is_ok_and(|it| *it.data_type() == DataType::Int64), "{name}");
            }
            assert!(field.metadata().contains_key(DESCRIPTION), "{}.{name}", table.name);
        }
    }
}

fn section(table: &Description) -> String {
    let Description { name, rows, schema } = table;
    let rows = wrapped(rows);
    let mut text =
        format!("\n## {name}\n\n{rows}\n\n| column | type | unit | meaning |\n|---|---|---|---|\n");
    for field in schema.fields() {
        let fact = |key| field.metadata().get(key).map_or("", String::as_str);
        let (name, of, unit) = (field.name(), words(field), fact(UNIT));
        text += &format!("| `{name}` | {of} | {unit} | {} |\n", fact(DESCRIPTION));
    }
    text
}

/// Lines below 120 columns.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is one");
        if line.is_empty() {
            line.push_str(word);
        } else if line.len() + word.len() + 1 < 120 {
            *line += &format!(" {word}");
        } else {
            lines.push(word.to_owned());
        }
    }
    lines.join("\n")
}

fn words(field: &Field) -> String {
    let of = match field.data_type() {
        DataType::Utf8 => "text",
        DataType::Dictionary(..) => "word",
        DataType::Timestamp(..) => "timestamp",
        DataType::Boolean => "boolean",
        DataType::Int64 => "int64",
        DataType::Int32 => "int32",
        DataType::Int16 => "int16",
        DataType::Float64 => "float64",
        other => panic!("a type without a word: {other}"),
    };
    if field.is_nullable() { format!("{of} or null") } else { of.to_owned() }
}
