//! A bundle as a folder of tables: Parquet or CSV files.
//!
//! The records are sorted and written first, in bounded memory. The other tables need the analysis, which has the
//! records of the trace in memory, as a report needs it.

use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use sockscope_program::failure::Failure;
use sockscope_program::loaded::Loaded;
use sockscope_program::output_dir::create_output;
use sockscope_program::progress::Progress;
use sockscope_program::stderr;
use sockscope_record::counted;
use sockscope_tables::{
    Error, META, Table, Tables, WallClock, sorted_records, write_csv, write_parquet,
};
use sockscope_trace::{Bundle, is_bundle};

/// Room before a write.
const BUFFER: usize = 1 << 18;

/// The kind of the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Parquet,
    Csv,
}

/// Writes a file for each table into the folder `output`, which is made where it is not there.
pub fn export(dir: &Path, output: &Path, kind: Kind) -> Result<(), Failure> {
    let bundle = Bundle::open(dir)?;
    make_folder(output)?;
    let meta = String::from_utf8(bundle.meta().to_json()?).unwrap_or_default();
    let folder = Folder { path: output, kind, meta: &meta };
    let records = {
        let progress = Progress::begin("sorting records", bundle.record_rows());
        sorted_records(&bundle, output, &mut |more| progress.add(more)).map_err(failure)?
    };
    let rows = folder.write(records, "writing records", bundle.record_rows())?;
    let clock = WallClock::of(bundle.meta());
    let (analysis, stores) = Loaded::read(dir)?.finish_keeping();
    let tables = Tables::new(analysis, stores, clock);
    let others = [
        tables.flows(),
        tables.stages(),
        tables.findings(),
        tables.finding_times(),
        tables.evidence(),
        tables.ledger(None, None).map_err(failure)?,
        tables.exchanges(),
        tables.calls(),
    ];
    let count = others.len() as u64;
    for table in others {
        folder.write(table, "writing tables", 0)?;
    }
    stderr!(
        "sockscope: {} and {count} other tables in {}",
        counted(rows, "record"),
        output.display()
    );
    Ok(())
}

/// The folder of the files.
struct Folder<'a> {
    path: &'a Path,
    kind: Kind,
    /// The text of the bundle's `meta.json`.
    meta: &'a str,
}

impl Folder<'_> {
    fn write(&self, table: Table, work: &'static str, rows: u64) -> Result<u64, Failure> {
        let path = self.file(table.name());
        let file: BufWriter<File> = BufWriter::with_capacity(BUFFER, create_output(&path)?);
        let progress = Progress::begin(work, rows);
        let wrote = &mut |more| progress.add(more);
        let written = match self.kind {
            Kind::Parquet => write_parquet(table, file, &[(META, self.meta)], wrote),
            Kind::Csv => write_csv(table, file, wrote),
        };
        written.map_err(|error| match error {
            Error::Write(error) => Failure::file("cannot write", &path, &error),
            other => failure(other),
        })
    }

    fn file(&self, table: &str) -> PathBuf {
        let extension = match self.kind {
            Kind::Parquet => "parquet",
            Kind::Csv => "csv",
        };
        self.path.join(format!("{table}.{extension}"))
    }
}

/// Makes the folder. One that is there is used as it is, unless it is a bundle: other files would spoil that.
fn make_folder(path: &Path) -> Result<(), Failure> {
    if is_bundle(path) {
        let line = "a trace bundle: choose another folder for the tables";
        return Err(Failure::new(format!("{}: {line}", path.display())));
    }
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        made => made.map_err(|error| Failure::file("cannot make the folder", path, &error)),
    }
}

fn failure(error: Error) -> Failure {
    match error {
        Error::Trace(error) => error.into(),
        other => Failure::new(other.to_string()),
    }
}
