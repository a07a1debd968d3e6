//! The files of `papers/`, carried in the program so that it needs none beside it.

use super::{Table, WireRow};
use crate::error::{Error, Result};

/// The name and the text of `papers/NAME.csv`.
macro_rules! table_file {
    ($name:literal) => {
        ($name, include_str!(concat!("../../../../papers/", $name, ".csv")))
    };
}

/// The papers, by the names of their folders, in the order of the register.
pub const PAPERS: [&str; 4] = ["sunos-ipc", "bsd-buffers", "protocol-choice", "layering"];

pub(super) const CLAIMS: &str = include_str!("../../../../papers/claims.toml");

/// Name, as `folder/file` without its ending, and text of each table.
const TABLES: &[(&str, &str)] = &[
    table_file!("bsd-buffers/buffers-per-message"),
    table_file!("bsd-buffers/tcp-calls"),
    table_file!("bsd-buffers/tcp-seconds"),
    table_file!("bsd-buffers/udp-calls"),
    table_file!("bsd-buffers/udp-seconds"),
    table_file!("layering/discard-5118"),
    table_file!("layering/discard-5120"),
    table_file!("layering/discard-nodelay-5118"),
    table_file!("layering/discard-nodelay-5120"),
    table_file!("layering/rpc-4800"),
    table_file!("layering/system-calls"),
    table_file!("protocol-choice/bus-bandwidth"),
    table_file!("protocol-choice/card-queues"),
    table_file!("protocol-choice/card-regions"),
    table_file!("protocol-choice/card-registers"),
    table_file!("protocol-choice/machines"),
    table_file!("sunos-ipc/component-delays"),
    table_file!("sunos-ipc/wire-sample"),
];

/// The table `papers/NAME.csv`, as `bsd-buffers/tcp-calls`.
///
/// # Errors
///
/// When there is none of that name; a test keeps the carried ones readable.
pub fn table(name: &str) -> Result<Table> {
    let file = format!("papers/{name}.csv");
    let found = TABLES.iter().find(|(known, _)| *known == name);
    let (_, text) = found.ok_or_else(|| Error::file(&file, "no such table"))?;
    Table::parse(&file, text)
}

/// The wire trace `papers/NAME.csv`, as `layering/rpc-4800`.
///
/// # Errors
///
/// When there is none of that name, or it is no wire trace.
pub fn wire_trace(name: &str) -> Result<Vec<WireRow>> {
    WireRow::rows(&table(name)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn every_table_of_the_folder_is_carried_and_readable() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../papers");
        let mut names = Vec::new();
        for paper in PAPERS {
            for file in std::fs::read_dir(root.join(paper)).unwrap() {
                let file = file.unwrap().file_name().into_string().unwrap();
                names.push(format!("{paper}/{}", file.strip_suffix(".csv").unwrap()));
            }
        }
        names.sort();
        assert_eq!(TABLES.iter().map(|(name, _)| *name).collect::<Vec<_>>(), names);
        for name in names {
            assert!(!table(&name).unwrap().rows().is_empty(), "{name}");
        }
    }

    #[test]
    fn unknown_tables_are_refused() {
        assert_eq!(
            table("layering/x").unwrap_err().to_string(),
            "papers/layering/x.csv: no such table"
        );
    }
}
