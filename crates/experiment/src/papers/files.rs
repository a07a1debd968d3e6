//! The files of `papers/`, built into the program so that it needs none next to it.

use super::{Table, WireRow};
use crate::error::{Error, Result};

/// The name and the text of each `papers/NAME.csv`.
macro_rules! table_files {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../../papers/", $name, ".csv")))),*]
    };
}

/// The papers, by the names of their folders, in the order of the register.
pub const PAPERS: [&str; 4] = ["sunos-ipc", "bsd-buffers", "protocol-choice", "layering"];

pub(super) const CLAIMS: &str = include_str!("../../../../papers/claims.toml");

/// Name, as `folder/file` without its ending, and text of each table.
const TABLES: &[(&str, &str)] = table_files![
    "bsd-buffers/buffers-per-message",
    "bsd-buffers/tcp-calls",
    "bsd-buffers/tcp-seconds",
    "bsd-buffers/udp-calls",
    "bsd-buffers/udp-seconds",
    "layering/discard-5118",
    "layering/discard-5120",
    "layering/discard-nodelay-5118",
    "layering/discard-nodelay-5120",
    "layering/rpc-4800",
    "layering/system-calls",
    "protocol-choice/bus-bandwidth",
    "protocol-choice/card-queues",
    "protocol-choice/card-regions",
    "protocol-choice/card-registers",
    "protocol-choice/machines",
    "sunos-ipc/component-delays",
    "sunos-ipc/wire-sample"
];

/// The table `papers/NAME.csv`, as `bsd-buffers/tcp-calls`.
///
/// # Errors
///
/// When none has that name; a test keeps the built-in ones readable.
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
/// When none has that name, or it is no wire trace.
pub fn wire_trace(name: &str) -> Result<Vec<WireRow>> {
    WireRow::rows(&table(name)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn every_table_of_the_folder_is_builtin_and_readable() {
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
