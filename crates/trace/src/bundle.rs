//! Opening a bundle.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek};
use std::path::{Path, PathBuf};

use sockscope_record::Connection;

use crate::error::{Error, Problem};
use crate::flows::ConnectionReader;
use crate::format::{META_BYTES_MAX, META_KEYS, Part, VERSION_KEY};
use crate::meta::Meta;
use crate::meta_seal;
use crate::records::RecordReader;

/// The schema of a stream of ours has 3 KiB, and `meta.json` its keys before any list.
const KEY_WITHIN_BYTES: u64 = 1 << 16;

/// A bundle as far as it is whole, and what is wrong with it.
#[derive(Debug)]
pub struct Bundle {
    dir: PathBuf,
    meta: Meta,
    connections: Vec<Connection>,
    record_rows: u64,
    /// Those of the records come last.
    problems: Vec<Problem>,
    /// How many are not of the records.
    other_problems: usize,
}

impl Bundle {
    /// Opens the bundle in folder `dir`.
    ///
    /// Reads `meta.json`, all connections, and the headers of all record batches, so that
    /// [`Bundle::problems`] already says where the records end; the records themselves are read
    /// by [`Bundle::records`], which is also when a damaged body shows.
    ///
    /// # Errors
    ///
    /// [`Error::NotThere`], [`Error::NotAFolder`] or [`Error::NotABundle`] when none of the three files is
    /// there, [`Error::NewerVersion`] when a later release wrote it, [`Error::Io`] when the system refuses to read a file that is there,
    /// or to say whether one is.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self, Error> {
        let dir = dir.as_ref().to_owned();
        if !has_a_part(&dir)? {
            return Err(match std::fs::metadata(&dir) {
                Ok(what) if what.is_dir() => Error::NotABundle { path: dir },
                Ok(_) => Error::NotAFolder { path: dir },
                Err(error) if error.kind() == ErrorKind::NotFound => Error::NotThere { path: dir },
                Err(error) => Error::io(&dir)(error),
            });
        }
        let mut problems = Vec::new();
        let (meta, problem) = read_meta(&dir)?;
        let meta = meta.unwrap_or_default();
        problems.extend(problem);
        let connections = read_connections(&dir, &mut problems)?;
        let mut records = open_records(&dir)?.unwrap_or_else(RecordReader::missing);
        while records.skip_batch()?.is_some() {}
        let (other_problems, record_rows) = (problems.len(), records.rows());
        problems.extend(records.problems());
        Ok(Self { dir, meta, connections, record_rows, problems, other_problems })
    }

    /// The bundle's folder.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// What is true of the recording as a whole; defaults where `meta.json` is missing or no JSON,
    /// and what it says where it is damaged.
    #[must_use]
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// What is known of each connection, by ascending id.
    #[must_use]
    pub fn connections(&self) -> &[Connection] {
        &self.connections
    }

    /// Rows of all whole batches when the bundle was opened.
    #[must_use]
    pub fn record_rows(&self) -> u64 {
        self.record_rows
    }

    /// What is wrong with the bundle; empty for one that was finished in order. Unknown kinds of
    /// records and damaged bodies of batches show only when the records are read, in
    /// [`RecordReader::unknown_kinds`] and [`RecordReader::problems`].
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// What is wrong with the bundle, with what `reader` found in the records up to now in place of
    /// what their headers alone told.
    #[must_use]
    pub fn problems_after<R: Read + Seek>(&self, reader: &RecordReader<R>) -> Vec<Problem> {
        let others = self.problems[..self.other_problems].iter().cloned();
        others.chain(reader.problems()).collect()
    }

    /// Reads the records from the first one on. Each call is a pass of its own.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when the system refuses to open the file; a missing file reads as empty.
    pub fn records(&self) -> Result<RecordReader<File>, Error> {
        Ok(open_records(&self.dir)?.unwrap_or_else(RecordReader::missing))
    }
}

/// Whether the folder `dir` has a bundle's records, and what they or the files beside them hold is a
/// bundle's: by a name alone no file is taken for one that may be replaced. Empty ones may, which is
/// what a full disk leaves of a bundle that was begun, if nobody else's file has the name of another part.
#[must_use]
pub fn is_bundle(dir: &Path) -> bool {
    let path = |part: Part| dir.join(part.file_name());
    let is_ours = |part: &Part| holds_keys(&path(*part), part_keys(*part)).unwrap_or(false);
    let is_free = |part: &Part| match std::fs::metadata(path(*part)) {
        Ok(found) => (found.is_file() && found.len() == 0) || is_ours(part),
        Err(error) => error.kind() == ErrorKind::NotFound,
    };
    path(Part::Records).is_file()
        && (Part::ALL.iter().any(is_ours) || Part::ALL.iter().all(is_free))
}

/// What stands in every such file of ours, and together in no other.
fn part_keys(part: Part) -> &'static [&'static str] {
    match part {
        Part::Records | Part::Flows => &[VERSION_KEY],
        Part::Meta => &META_KEYS,
    }
}

/// Whether all `keys` stand near the start of a file.
fn holds_keys(path: &Path, keys: &[&str]) -> std::io::Result<bool> {
    let mut start = Vec::new();
    File::open(path)?.take(KEY_WITHIN_BYTES).read_to_end(&mut start)?;
    let holds = |key: &&str| start.windows(key.len()).any(|bytes| bytes == key.as_bytes());
    Ok(keys.iter().all(holds))
}

/// Reads `meta.json`: as far as it can be read, and what is wrong with it.
pub(crate) fn read_meta(dir: &Path) -> Result<(Option<Meta>, Option<Problem>), Error> {
    let path = dir.join(Part::Meta.file_name());
    let Some(file) = open_if_there(&path)? else {
        return Ok((None, Some(Problem::Missing { part: Part::Meta })));
    };
    let mut bytes = Vec::new();
    file.take(META_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(Error::io(&path))?;
    if bytes.len() as u64 > META_BYTES_MAX {
        let what = format!("expected at most {META_BYTES_MAX} bytes");
        return Ok((None, Some(Problem::BadMeta { what })));
    }
    let damaged = meta_seal::check(&bytes).err().map(|expected| Problem::DamagedMeta { expected });
    match Meta::from_json(&bytes) {
        Ok(meta) => Ok((Some(meta), damaged)),
        // The version may be what was damaged; the streams have it as well.
        Err(Error::NewerVersion { .. }) if damaged.is_some() => Ok((None, damaged)),
        Err(Error::NewerVersion { found, .. }) => Err(Error::NewerVersion { path, found }),
        Err(error) => Ok((None, Some(Problem::BadMeta { what: error.to_string() }))),
    }
}

/// `None`: the file is missing.
pub(crate) fn open_records(dir: &Path) -> Result<Option<RecordReader<File>>, Error> {
    let path = dir.join(Part::Records.file_name());
    Ok(open_if_there(&path)?.map(|file| RecordReader::new(file, &path)))
}

/// `None`: the file is missing.
pub(crate) fn open_connections(dir: &Path) -> Result<Option<ConnectionReader<File>>, Error> {
    let path = dir.join(Part::Flows.file_name());
    Ok(open_if_there(&path)?.map(|file| ConnectionReader::new(file, &path)))
}

fn read_connections(dir: &Path, problems: &mut Vec<Problem>) -> Result<Vec<Connection>, Error> {
    let Some(mut reader) = open_connections(dir)? else {
        problems.push(Problem::Missing { part: Part::Flows });
        return Ok(Vec::new());
    };
    reader.read()?;
    problems.extend(reader.problems());
    Ok(reader.into_connections())
}

/// Whether `dir` has one of a bundle's files. A folder that may not be entered does not say.
fn has_a_part(dir: &Path) -> Result<bool, Error> {
    let mut refused = None;
    for part in Part::ALL {
        let path = dir.join(part.file_name());
        match std::fs::metadata(&path) {
            Ok(what) if what.is_file() => return Ok(true),
            Ok(_) => {}
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
            Err(error) => refused = refused.or(Some(Error::io(&path)(error))),
        }
    }
    refused.map_or(Ok(false), Err)
}

fn open_if_there(path: &Path) -> Result<Option<File>, Error> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io(path)(error)),
    }
}
