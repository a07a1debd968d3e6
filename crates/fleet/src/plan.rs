//! What a spool has, and the work that its analysis is made of: one task for each bucket.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::problem::{Problem, Trouble};
use crate::segment::{BucketFile, Missed, SCHEMA, SEGMENTS, Segment};

/// The work of an analysis.
#[derive(Debug)]
pub struct Plan {
    /// What is known before the records are read.
    pub head: Head,
    /// One for each bucket that has records, by bucket.
    pub tasks: Vec<Task>,
}

/// What is known of a spool before its records are read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// Recordings, by host.
    pub recordings: Vec<Recording>,
    /// Segments that are missing or damaged.
    pub problems: Vec<Problem>,
}

/// A recording of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recording {
    /// The host.
    pub host: String,
    /// Its number for the recording.
    pub run: String,
    /// Release of the kernel.
    pub kernel: String,
    /// Segments that are there.
    pub segments: u64,
    /// Their records.
    pub records: u64,
    /// Records of connections that no trace describes.
    pub undescribed_records: u64,
    /// From its first segment to its last, nanoseconds.
    pub duration_ns: u64,
}

/// The analysis of one bucket.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// The spool.
    pub spool: PathBuf,
    /// The bucket.
    pub bucket: u16,
    /// Recordings that have records in it, by host and run.
    pub runs: Vec<Run>,
}

/// A recording of a host, as far as one bucket needs it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    pub(crate) host: String,
    pub(crate) run: String,
    pub(crate) kernel: String,
    pub(crate) source: String,
    pub(crate) offset_ns: i64,
    pub(crate) drop_reasons: BTreeMap<u32, String>,
    pub(crate) segments: Vec<RunSegment>,
}

/// A segment, or the time of segments that are missing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunSegment {
    pub sequence: u64,
    pub from_ns: u64,
    pub until_ns: u64,
    pub is_missing: bool,
    pub losses: Vec<Missed>,
    pub file: Option<BucketFile>,
}

impl Task {
    /// Number of its records.
    pub fn records(&self) -> u64 {
        let files =
            self.runs.iter().flat_map(|run| &run.segments).filter_map(|it| it.file.as_ref());
        files.map(|file| file.records).sum()
    }
}

impl Plan {
    /// Reads the seals of a spool.
    ///
    /// # Errors
    ///
    /// When the folder cannot be read, or has no segment.
    pub fn of(spool: &Path) -> Result<Self, Error> {
        let seals = spool.join(SEGMENTS);
        let cannot = || Error::io("cannot read the folder", &seals);
        let entries = match fs::read_dir(&seals) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && spool.is_dir() => {
                return Err(Error::Empty(spool.to_owned()));
            }
            other => other.map_err(cannot())?,
        };
        let mut paths = Vec::new();
        for entry in entries {
            let path = entry.map_err(cannot())?.path();
            let is_seal = path.extension().is_some_and(|it| it == "json");
            paths.extend(is_seal.then_some(path));
        }
        if paths.is_empty() {
            return Err(Error::Empty(spool.to_owned()));
        }
        paths.sort();
        let mut problems = Vec::new();
        let mut runs: BTreeMap<(String, String), BTreeMap<u64, Segment>> = BTreeMap::new();
        for path in paths {
            match read_seal(&path) {
                Ok(segment) => {
                    let run = runs.entry((segment.host.clone(), segment.run.clone())).or_default();
                    run.insert(segment.sequence, segment);
                }
                Err(reason) => {
                    let name = path.file_name().unwrap_or_default().to_string_lossy();
                    problems.push(Problem::new(
                        Trouble::DamagedSegment,
                        "",
                        format!("{name}: {reason}"),
                    ));
                }
            }
        }
        let recordings = runs.values().filter_map(recording).collect();
        problems.extend(runs.values().flat_map(missing));
        let tasks = tasks(spool, &runs);
        Ok(Self { head: Head { recordings, problems }, tasks })
    }
}

fn read_seal(path: &Path) -> Result<Segment, String> {
    let octets = fs::read(path).map_err(|error| error.to_string())?;
    let segment: Segment = serde_json::from_slice(&octets).map_err(|error| error.to_string())?;
    if segment.schema != SCHEMA {
        return Err(format!("expected schema {SCHEMA}, found {:?}", segment.schema));
    }
    // A seal of a stranger must not lead out of the spool.
    let leads_out = |file: &BucketFile| {
        Path::new(&file.path).components().any(|it| !matches!(it, std::path::Component::Normal(_)))
    };
    match segment.files.iter().find(|file| leads_out(file)) {
        Some(file) => Err(format!("{}: a path outside of the spool", file.path)),
        None => Ok(segment),
    }
}

fn recording(segments: &BTreeMap<u64, Segment>) -> Option<Recording> {
    let (first, last) = (segments.values().next()?, segments.values().last()?);
    Some(Recording {
        host: first.host.clone(),
        run: first.run.clone(),
        kernel: first.kernel.clone(),
        segments: segments.len() as u64,
        records: segments.values().map(|it| it.records).sum(),
        undescribed_records: segments.values().map(|it| it.undescribed_records).sum(),
        duration_ns: last.until_ns.saturating_sub(first.from_ns),
    })
}

/// Segments of a recording that others follow.
fn missing(segments: &BTreeMap<u64, Segment>) -> Vec<Problem> {
    let pairs = segments.values().zip(segments.values().skip(1));
    let missing =
        pairs.filter(|(one, next)| next.sequence > one.sequence + 1).map(|(one, next)| {
            let (first, last) = (one.sequence + 1, next.sequence - 1);
            let which = if first == last {
                format!("segment {first}")
            } else {
                format!("segments {first} to {last}")
            };
            let line = format!("{which} of recording {}: no seal", one.run);
            Problem::new(Trouble::MissingSegment, &one.host, line)
        });
    missing.collect()
}

fn tasks(spool: &Path, runs: &BTreeMap<(String, String), BTreeMap<u64, Segment>>) -> Vec<Task> {
    let mut tasks: BTreeMap<u16, Task> = BTreeMap::new();
    for segments in runs.values() {
        let Some(first) = segments.values().next() else { continue };
        let mut buckets: Vec<u16> =
            segments.values().flat_map(|it| &it.files).map(|file| file.bucket).collect();
        buckets.sort_unstable();
        buckets.dedup();
        for bucket in buckets {
            let empty = || Task { spool: spool.to_owned(), bucket, runs: Vec::new() };
            tasks.entry(bucket).or_insert_with(empty).runs.push(Run {
                host: first.host.clone(),
                run: first.run.clone(),
                kernel: first.kernel.clone(),
                source: first.source.clone(),
                offset_ns: first.offset_ns,
                drop_reasons: first.drop_reasons.clone(),
                segments: of_bucket(segments, bucket),
            });
        }
    }
    tasks.into_values().collect()
}

/// The segments of a recording with their files of one bucket, and the times of those that are missing.
fn of_bucket(segments: &BTreeMap<u64, Segment>, bucket: u16) -> Vec<RunSegment> {
    let mut all: Vec<RunSegment> = Vec::new();
    for segment in segments.values() {
        if let Some(last) = all.last().filter(|last| last.sequence + 1 < segment.sequence) {
            all.push(RunSegment {
                sequence: segment.sequence - 1,
                from_ns: last.until_ns,
                until_ns: segment.from_ns,
                is_missing: true,
                losses: Vec::new(),
                file: None,
            });
        }
        all.push(RunSegment {
            sequence: segment.sequence,
            from_ns: segment.from_ns,
            until_ns: segment.until_ns,
            is_missing: false,
            losses: segment.losses.clone(),
            file: segment.files.iter().find(|file| file.bucket == bucket).cloned(),
        });
    }
    all
}
