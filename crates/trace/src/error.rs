//! Reasons why a bundle could not be written or opened.
//!
//! A fault *inside* a bundle that still opens is a [`Problem`](crate::Problem).

use std::io;
use std::path::{Path, PathBuf};

use arrow_schema::ArrowError;
use sockscope_record::{LossCounts, counted};

use crate::format::{FORMAT_VERSION, Part};

/// Why a bundle could not be written or opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused an operation on a file.
    #[error("{}: {source}", path.display())]
    Io {
        /// File or folder concerned.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Nothing is where the bundle should be.
    #[error("{}: no such folder: a trace bundle is one", .0.display())]
    NotThere(PathBuf),
    /// A file is where the bundle should be.
    #[error("{}: a file, and a trace bundle is a folder", .0.display())]
    NotAFolder(PathBuf),
    /// The system refuses to look into the folder.
    #[error("{}: belongs to user {owner}, and only its owner can read it", path.display())]
    OwnersOnly {
        /// The folder.
        path: PathBuf,
        /// The user's number.
        owner: u32,
    },
    /// A file of a bundle is something else.
    #[error("{}: not a regular file: no link, pipe or device is part of a trace bundle", .0.display())]
    NotAFile(PathBuf),
    /// The folder to write to is another user's.
    #[error("{}: belongs to user {owner}: a trace goes into your own folders only, choose another name", path.display())]
    NotOwn {
        /// The folder.
        path: PathBuf,
        /// The user's number.
        owner: u32,
    },
    /// Others can put files into the folder to write to.
    #[error("{}: others can write into this folder: take that right from them (chmod go-w), or choose another name", .0.display())]
    OpenToOthers(PathBuf),
    /// The name belongs to another folder or file now.
    #[error("{}: removed or exchanged while the trace was written: the trace is not there", .0.display())]
    Exchanged(PathBuf),
    /// The folder has no file of a bundle.
    #[error("{}: not a trace bundle: expected records.arrows, flows.arrows or meta.json in it", .0.display())]
    NotABundle(PathBuf),
    /// The folder to write to has other files than a bundle's.
    #[error("{}: not empty and not a trace bundle: left as it is, choose another folder", .0.display())]
    NotOverwritten(PathBuf),
    /// This machine cannot write bundles.
    #[error("{}: a bundle has little-endian numbers, and this machine big-endian ones: write it on another", .0.display())]
    BigEndian(PathBuf),
    /// A later release of sockscope wrote it.
    #[error(
        "{}: format version {found}, and this sockscope reads up to version {FORMAT_VERSION}: a later release opens it",
        path.display()
    )]
    NewerVersion {
        /// The file of this version.
        path: PathBuf,
        /// Version found.
        found: u32,
    },
    /// `meta.json` is not of the expected form.
    #[error("line {line}, column {column}: expected the trace's description as JSON: {what}")]
    BadMeta {
        /// Line, from 1 on; 0 when the file as a whole is concerned.
        line: usize,
        /// Column, from 1 on.
        column: usize,
        /// The fault there.
        what: String,
    },
    /// No bundle fits into so few bytes.
    #[error("{bytes} bytes are too few for this trace: give {least} or more")]
    TooSmall {
        /// The bytes that it may have.
        bytes: u64,
        /// The fewest that it needs.
        least: u64,
    },
    /// `meta.json` has more bytes than the limit of the bundle leaves for it.
    #[error("{}: {bytes} bytes, more than the size limit of the trace leaves for it", path.display())]
    MetaTooLarge {
        /// The file.
        path: PathBuf,
        /// Its bytes.
        bytes: u64,
    },
    /// The Arrow encoder refused a batch.
    #[error("{}: batch {batch} could not be encoded: {source}", path.display())]
    Encode {
        /// File being written.
        path: PathBuf,
        /// Number of the batch in it, from 0 on.
        batch: u64,
        /// The encoder's error.
        source: ArrowError,
    },
    /// Two bundles cannot be put on one clock.
    #[error("{}: cannot be merged: expected clock snapshots in its meta.json, found none", .0.display())]
    NoClock(PathBuf),
    /// A protocol engine's bundle can only be joined with its own host's.
    #[error(
        "{}: a protocol engine's records of host {other:?}, but the kernel's are of {host:?}",
        path.display()
    )]
    OtherHost {
        /// The engine's bundle.
        path: PathBuf,
        /// The kernel's host.
        host: String,
        /// The engine's.
        other: String,
    },
}

impl Error {
    /// The error of a write once more, in the system's words where the system has some.
    pub(crate) fn again(&self) -> Self {
        match self {
            Self::Io { path, source } => {
                let code = source.raw_os_error();
                let source =
                    code.map_or_else(|| source.kind().into(), io::Error::from_raw_os_error);
                Self::Io { path: path.clone(), source }
            }
            Self::Encode { path, batch, source } => {
                let source = ArrowError::IpcError(source.to_string());
                Self::Encode { path: path.clone(), batch: *batch, source }
            }
            other => Self::Io { path: PathBuf::new(), source: io::Error::other(other.to_string()) },
        }
    }

    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        |source| Self::Io { path: path.to_owned(), source }
    }

    pub(crate) fn no_memory(path: &Path) -> Self {
        Self::Io { path: path.to_owned(), source: io::ErrorKind::OutOfMemory.into() }
    }

    pub(crate) fn json(error: &serde_json::Error) -> Self {
        Self::BadMeta { line: error.line(), column: error.column(), what: error.to_string() }
    }
}

/// A fault of a bundle that still opens: its whole parts are given, and this names the others.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// A file is missing; its content is unknown.
    #[error("{part}: missing")]
    Missing {
        /// The file.
        part: Part,
    },
    /// All batches are whole, but the end mark is missing: the recording goes on, or its writer
    /// was killed.
    #[error(
        "{part}: not finished: ends at byte {at_byte} without an end mark (whole batches: {batches}, rows: {rows})"
    )]
    NotFinished {
        /// The file.
        part: Part,
        /// Length of the file.
        at_byte: u64,
        /// Whole batches before it.
        batches: u64,
        /// Rows in them.
        rows: u64,
    },
    /// The file ends inside a batch.
    #[error(
        "{part}: truncated: whole up to byte {at_byte} (batches: {batches}, rows: {rows}), then part of a batch"
    )]
    Truncated {
        /// The file.
        part: Part,
        /// Start of the incomplete batch.
        at_byte: u64,
        /// Whole batches before it.
        batches: u64,
        /// Rows in them.
        rows: u64,
    },
    /// The bytes are not of the format; the bytes from here on are not used.
    #[error(
        "{part}: damaged at byte {at_byte} (whole batches before: {batches}, rows: {rows}): expected {expected}"
    )]
    Damaged {
        /// The file.
        part: Part,
        /// Start of the damaged message.
        at_byte: u64,
        /// Whole batches before it.
        batches: u64,
        /// Rows in them.
        rows: u64,
        /// The expected content.
        expected: String,
    },
    /// A batch differs from the written one: its rows are left out, and count as missed.
    #[error(
        "{part}: batch {batch}, at byte {at_byte}, is damaged: {} left out: expected {expected}",
        counted(*rows, "row")
    )]
    DamagedBatch {
        /// The file.
        part: Part,
        /// Number of the batch in the file, from 0 on; the batch 0 is empty.
        batch: u64,
        /// Start of the batch.
        at_byte: u64,
        /// Rows that it had, with those of damaged batches directly behind it.
        rows: u64,
        /// The expected content.
        expected: String,
    },
    /// By the seal of the next batch, rows were written that are not in the file; they count as missed.
    #[error("{part}: {} missing before byte {at_byte}: count as missed", counted(*rows, "row"))]
    MissingRows {
        /// The file.
        part: Part,
        /// Start of the next batch.
        at_byte: u64,
        /// Number of rows.
        rows: u64,
    },
    /// By its seal, a batch has rows that were before it, or that were missing before it.
    #[error(
        "{part}: batch {batch}, at byte {at_byte}, comes again or not in its place: {} left out",
        counted(*rows, "row")
    )]
    RepeatedBatch {
        /// The file.
        part: Part,
        /// Number of the batch in the file, from 0 on.
        batch: u64,
        /// Start of the batch.
        at_byte: u64,
        /// Rows that it has.
        rows: u64,
    },
    /// Further such batches.
    #[error("{part}: further batches that come again or not in their place, left out: {batches}")]
    MoreRepeated {
        /// The file.
        part: Part,
        /// Number of batches.
        batches: u64,
    },
    /// Further batches are damaged or missing; their rows count as missed.
    #[error("{part}: further damaged or missing batches: {batches}; {} left out", counted(*rows, "row"))]
    MoreDamaged {
        /// The file.
        part: Part,
        /// Number of batches.
        batches: u64,
        /// Rows that they had.
        rows: u64,
    },
    /// Bytes follow the end mark; they are not used.
    #[error("{part}: {} after the end mark at byte {at_byte} not used", counted(*bytes, "byte"))]
    Trailing {
        /// The file.
        part: Part,
        /// Start of these bytes.
        at_byte: u64,
        /// Number of bytes.
        bytes: u64,
    },
    /// `meta.json` cannot be read: host, clock and loss are unknown.
    #[error("meta.json: {what}")]
    BadMeta {
        /// The fault, and its place.
        what: String,
    },
    /// `meta.json` differs from the written one, by its checksum.
    #[error(
        "meta.json: damaged: expected {expected}: host, clock, hooks or loss may be other than it says"
    )]
    DamagedMeta {
        /// The expected content.
        expected: String,
    },
    /// Rows of `flows.arrows` make no sense (an address, a protocol) and were skipped.
    #[error(
        "{part}: {} skipped, the first of them row {first_row}: expected {expected}",
        counted(*rows, "row")
    )]
    BadRows {
        /// The file.
        part: Part,
        /// Number of rows.
        rows: u64,
        /// Number of the first, from 0 on.
        first_row: u64,
        /// The expected content of the first.
        expected: String,
    },
    /// Records of kinds that this release does not know were skipped.
    #[error("records.arrows: {} of unknown kinds skipped", counted(*records, "record"))]
    UnknownKinds {
        /// Number of records.
        records: u64,
    },
    /// Times go back further than the few microseconds between CPUs explain.
    #[error(
        "records.arrows: time steps back {}, by up to {step_ns_max} ns, where {allowed_ns} ns are expected",
        counted(*steps, "time")
    )]
    TimeStepsBack {
        /// Steps over the allowed size.
        steps: u64,
        /// The largest.
        step_ns_max: u64,
        /// Allowed size.
        allowed_ns: u64,
    },
    /// Records name connections that `flows.arrows` does not have.
    #[error(
        "records.arrows: {} of {} that flows.arrows does not have",
        counted(*records, "record"),
        counted(*connections, "connection")
    )]
    UnknownConnections {
        /// Distinct connections, counted up to a limit.
        connections: u64,
        /// Records that name them.
        records: u64,
    },
    /// The loss in the records is not the loss in `meta.json`, in all or at some point.
    #[error(
        "loss differs: {} missed by the loss records, {} by meta.json, compared point by point: of \
         some it is unknown when they were missed",
        records.total(),
        meta.total()
    )]
    LossDiffers {
        /// By the loss records.
        records: LossCounts,
        /// By `meta.json`.
        meta: LossCounts,
    },
    /// `meta.json` counts another number of records than there are.
    #[error("records.arrows: {} found, {meta} written by meta.json", counted(*found, "record"))]
    CountDiffers {
        /// Rows in the file.
        found: u64,
        /// Rows written, by `meta.json`.
        meta: u64,
    },
}
