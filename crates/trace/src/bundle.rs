//! Opening a bundle.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek};
use std::path::Path;

use rustix::fs::FileType;
use rustix::io::Errno;
use sockscope_record::Connection;

use crate::error::{Error, Problem};
use crate::flows::ConnectionReader;
use crate::folder::Folder;
use crate::format::{META_BYTES_MAX, META_KEYS, Part, VERSION_KEY};
use crate::meta::Meta;
use crate::meta_seal;
use crate::records::RecordReader;

/// The schema of a stream of ours has 3 KiB, and `meta.json` its keys before any list.
const KEY_WITHIN_BYTES: u64 = 1 << 16;

/// A bundle as far as it is whole, and its problems.
#[derive(Debug)]
pub struct Bundle {
    folder: Folder,
    meta: Meta,
    connections: Vec<Connection>,
    record_rows: u64,
    /// Those of the records are last.
    problems: Vec<Problem>,
    /// Number of problems that are not of the records.
    other_problems: usize,
}

impl Bundle {
    /// Opens the bundle in folder `dir`.
    ///
    /// Reads `meta.json`, all connections, and the headers of all record batches, so that [`Bundle::problems`] already
    /// has the end of the records; [`Bundle::records`] reads the records themselves, and shows damaged bodies.
    ///
    /// # Errors
    ///
    /// [`Error::NotThere`], [`Error::NotAFolder`] or [`Error::NotABundle`] when none of the three files is there,
    /// [`Error::OwnersOnly`] when the folder is closed to this user, [`Error::NotAFile`] when one of them is a link, a
    /// pipe or a device. [`Error::NewerVersion`] when a later release wrote it, [`Error::Io`] when the system refuses
    /// to read or to find a file.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self, Error> {
        let folder = folder_of_a_bundle(dir.as_ref())?;
        let mut problems = Vec::new();
        let (meta, problem) = read_meta(&folder)?;
        let meta = meta.unwrap_or_default();
        problems.extend(problem);
        let connections = read_connections(&folder, &mut problems)?;
        let mut records = open_records(&folder)?.unwrap_or_else(RecordReader::missing);
        while records.skip_batch()?.is_some() {}
        let (other_problems, record_rows) = (problems.len(), records.rows());
        problems.extend(records.problems());
        Ok(Self { folder, meta, connections, record_rows, problems, other_problems })
    }

    /// The bundle's folder.
    pub fn dir(&self) -> &Path {
        self.folder.path()
    }

    /// Facts of the recording as a whole; defaults where `meta.json` is missing or no JSON, and
    /// its own values where it is damaged.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Description of each connection, by ascending id.
    pub fn connections(&self) -> &[Connection] {
        &self.connections
    }

    /// Rows of all whole batches when the bundle was opened.
    pub fn record_rows(&self) -> u64 {
        self.record_rows
    }

    /// Problems of the bundle; empty for one that was finished in order. Unknown kinds of
    /// records and damaged bodies of batches show only when the records are read, in
    /// [`RecordReader::unknown_kinds`] and [`RecordReader::problems`].
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Problems of the bundle, with those that `reader` found in the records up to now in place of
    /// those in their headers alone.
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
        Ok(open_records(&self.folder)?.unwrap_or_else(RecordReader::missing))
    }
}

/// Whether the folder `dir` has a bundle's records, and one of its parts has a bundle's content: a
/// name alone allows no replacement of a file. Empty parts, which a full disk leaves of a bundle that
/// was begun, may be replaced if no other file has the name of another part.
pub fn is_bundle(dir: &Path) -> bool {
    Folder::open(dir).is_ok_and(|folder| is_bundle_in(&folder))
}

/// The same of a folder that is open.
pub(crate) fn is_bundle_in(folder: &Folder) -> bool {
    let is_ours = |part: &Part| holds_keys(folder, *part).unwrap_or(false);
    let is_free = |part: &Part| match folder.part(*part) {
        Ok(Some(file)) => file.metadata().is_ok_and(|found| found.len() == 0) || is_ours(part),
        Ok(None) => true,
        Err(_) => false,
    };
    matches!(folder.kind(Part::Records), Ok(Some(FileType::RegularFile)))
        && (Part::ALL.iter().any(is_ours) || Part::ALL.iter().all(is_free))
}

/// Keys that stand in every file of this part, and together in no other file.
fn part_keys(part: Part) -> &'static [&'static str] {
    match part {
        Part::Records | Part::Flows => &[VERSION_KEY],
        Part::Meta => &META_KEYS,
    }
}

/// Whether all keys of such a part stand near the start of the file.
fn holds_keys(folder: &Folder, part: Part) -> Result<bool, Error> {
    let Some(file) = folder.part(part)? else { return Ok(false) };
    let mut start = Vec::new();
    file.take(KEY_WITHIN_BYTES).read_to_end(&mut start).map_err(Error::io(folder.path()))?;
    let holds = |key: &&str| start.windows(key.len()).any(|bytes| bytes == key.as_bytes());
    Ok(part_keys(part).iter().all(holds))
}

/// Reads `meta.json` as far as possible, with its problem.
pub(crate) fn read_meta(folder: &Folder) -> Result<(Option<Meta>, Option<Problem>), Error> {
    let path = folder.path().join(Part::Meta.file_name());
    let Some(file) = folder.part(Part::Meta)? else {
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
        // The damage may be in the version; the streams have it as well.
        Err(Error::NewerVersion { .. }) if damaged.is_some() => Ok((None, damaged)),
        Err(Error::NewerVersion { found, .. }) => Err(Error::NewerVersion { path, found }),
        Err(error) => Ok((None, Some(Problem::BadMeta { what: error.to_string() }))),
    }
}

/// `None`: the file is missing.
pub(crate) fn open_records(folder: &Folder) -> Result<Option<RecordReader<File>>, Error> {
    let path = folder.path().join(Part::Records.file_name());
    Ok(folder.part(Part::Records)?.map(|file| RecordReader::new(file, &path)))
}

/// `None`: the file is missing.
pub(crate) fn open_connections(folder: &Folder) -> Result<Option<ConnectionReader<File>>, Error> {
    let path = folder.path().join(Part::Flows.file_name());
    Ok(folder.part(Part::Flows)?.map(|file| ConnectionReader::new(file, &path)))
}

fn read_connections(
    folder: &Folder,
    problems: &mut Vec<Problem>,
) -> Result<Vec<Connection>, Error> {
    let Some(mut reader) = open_connections(folder)? else {
        problems.push(Problem::Missing { part: Part::Flows });
        return Ok(Vec::new());
    };
    reader.read()?;
    problems.extend(reader.problems());
    Ok(reader.into_connections())
}

/// The folder `dir`, if it has a name of one of a bundle's files in it. The names in a folder that may
/// not be entered are unknown.
fn folder_of_a_bundle(dir: &Path) -> Result<Folder, Error> {
    let folder = Folder::open(dir).map_err(|error| match error {
        Error::Io { source, path } => match source.kind() {
            ErrorKind::NotFound => Error::NotThere(path),
            ErrorKind::NotADirectory if path.exists() => Error::NotAFolder(path),
            ErrorKind::NotADirectory => Error::NotThere(path),
            _ => Error::Io { path, source },
        },
        other => other,
    })?;
    let mut refused = None;
    for part in Part::ALL {
        match folder.kind(part) {
            Ok(Some(_)) => return Ok(folder),
            Ok(None) => {}
            Err(Errno::ACCESS) => return Err(folder.owners_only()),
            Err(error) => {
                let path = dir.join(part.file_name());
                refused = refused.or(Some(Error::Io { path, source: error.into() }));
            }
        }
    }
    Err(refused.unwrap_or_else(|| Error::NotABundle(dir.to_owned())))
}
