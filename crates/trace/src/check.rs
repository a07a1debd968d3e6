//! Checking a bundle against itself: framing, columns, kinds, times, connections and loss.

use std::collections::BTreeSet;
use std::io::{Read, Seek};
use std::path::Path;

use sockscope_record::{ConnectionId, Kind, LossCounts, Record};

use crate::bundle::Bundle;
use crate::error::{Error, Problem};
use crate::format::TIME_STEP_BACK_NS_MAX;
use crate::meta::Meta;
use crate::records::RecordReader;

/// Distinct unknown connections that are counted separately; bounds the memory that a hostile bundle can
/// allocate.
const UNKNOWN_CONNECTIONS_MAX: usize = 1 << 16;

/// Counts of a bundle's content, and its problems.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckReport {
    /// Whole batches of `records.arrows`.
    pub batches: u64,
    /// Records of known kinds in them.
    pub records: u64,
    /// Records by kind, in the order of [`Kind::ALL`].
    pub kinds: [u64; Kind::ALL.len()],
    /// Connections in `flows.arrows`.
    pub connections: u64,
    /// Records whose time lies before the latest time so far, of those that are
    /// [in order](Record::is_in_order).
    pub time_steps_back: u64,
    /// The largest of these steps, in nanoseconds.
    pub time_step_back_ns_max: u64,
    /// Missed records, by the loss records in the file; rows of damaged batches count with those of
    /// no point.
    pub missed: LossCounts,
    /// The problems; empty for a sound bundle.
    pub problems: Vec<Problem>,
}

impl CheckReport {
    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }
}

/// Reads all of the bundle in folder `dir` and checks it.
///
/// # Errors
///
/// As [`Bundle::open`]; all else that is wrong is in the report.
pub fn check(dir: impl AsRef<Path>) -> Result<CheckReport, Error> {
    let bundle = Bundle::open(dir)?;
    let mut checker = Checker::new(&bundle);
    let mut reader = bundle.records()?;
    while let Some(batch) = reader.next_batch()? {
        checker.add(batch);
    }
    let problems = checker.problems(&bundle, &reader);
    let Checker { counts } = checker;
    Ok(CheckReport {
        batches: reader.batches(),
        records: counts.kinds.iter().sum(),
        kinds: counts.kinds,
        connections: bundle.connections().len() as u64,
        time_steps_back: counts.steps_back,
        time_step_back_ns_max: counts.step_back_ns_max,
        missed: counts.missed,
        problems,
    })
}

/// Checks the records of a bundle while they are read for something else.
pub struct Checker {
    counts: Counts,
}

impl Checker {
    /// For one pass over the records of `bundle`.
    pub fn new(bundle: &Bundle) -> Self {
        let ids = bundle.connections().iter().map(|connection| connection.id);
        Self { counts: Counts::new(ids.collect()) }
    }

    /// Takes the next batch that the reader gave.
    pub fn add(&mut self, batch: &[Record]) {
        batch.iter().for_each(|record| self.counts.add(record));
    }

    /// The problems of the bundle, after `reader` gave its last batch; empty for a sound bundle.
    pub fn problems<R: Read + Seek>(
        &self,
        bundle: &Bundle,
        reader: &RecordReader<R>,
    ) -> Vec<Problem> {
        let mut problems = bundle.problems_after(reader);
        if reader.unknown_kinds() > 0 {
            problems.push(Problem::UnknownKinds { records: reader.unknown_kinds() });
        }
        problems.extend(self.counts.problems());
        // Rows of damaged batches were written, and were missed only afterwards.
        let missed = LossCounts {
            events: self.counts.missed.events.saturating_sub(reader.damaged_rows()),
            ..self.counts.missed
        };
        problems.extend(against_meta(bundle.meta(), rows(reader), &missed));
        problems
    }

    /// Missed records at least, by the loss records and by `meta.json`, with the rows that were written and
    /// are not given.
    pub fn missed<R: Read + Seek>(&self, bundle: &Bundle, reader: &RecordReader<R>) -> LossCounts {
        let (meta, counted) = (bundle.meta(), &self.counts.missed);
        let mut missed = meta.loss;
        for (missed, counted) in missed.points.iter_mut().zip(counted.points) {
            *missed = counted.max(*missed);
        }
        let events = meta.loss.events.saturating_add(reader.damaged_rows());
        missed.events = counted.events.max(events);
        let unread = if meta.complete { meta.records.saturating_sub(rows(reader)) } else { 0 };
        missed.events = missed.events.saturating_add(unread);
        missed
    }
}

/// Result of a whole pass over a bundle.
#[derive(Debug)]
pub(crate) struct Checked {
    /// The problems; empty for a sound bundle.
    pub(crate) problems: Vec<Problem>,
    /// Missed records at least.
    pub(crate) missed: LossCounts,
}

impl Checked {
    /// Reads all records of the bundle.
    pub(crate) fn of(bundle: &Bundle) -> Result<Self, Error> {
        let mut checker = Checker::new(bundle);
        let mut reader = bundle.records()?;
        while let Some(batch) = reader.next_batch()? {
            checker.add(batch);
        }
        let problems = checker.problems(bundle, &reader);
        debug_assert!(checker.counts.unknown.len() <= UNKNOWN_CONNECTIONS_MAX);
        Ok(Self { problems, missed: checker.missed(bundle, &reader) })
    }
}

/// Rows that were written, by the seals of the file.
fn rows<R: Read + Seek>(reader: &RecordReader<R>) -> u64 {
    reader.rows().saturating_add(reader.damaged_rows())
}

/// Counts over the records.
struct Counts {
    known: BTreeSet<ConnectionId>,
    /// The connection of the last record, which is mostly that of the next one.
    last_known: Option<ConnectionId>,
    unknown: BTreeSet<ConnectionId>,
    unknown_records: u64,
    by_code: [usize; 256],
    kinds: [u64; Kind::ALL.len()],
    latest_ns: u64,
    steps_back: u64,
    large_steps_back: u64,
    step_back_ns_max: u64,
    missed: LossCounts,
}

impl Counts {
    fn new(known: BTreeSet<ConnectionId>) -> Self {
        let mut by_code = [0; 256];
        for (index, kind) in Kind::ALL.into_iter().enumerate() {
            by_code[usize::from(kind as u8)] = index;
        }
        Self {
            known,
            last_known: None,
            unknown: BTreeSet::new(),
            unknown_records: 0,
            by_code,
            kinds: [0; Kind::ALL.len()],
            latest_ns: 0,
            steps_back: 0,
            large_steps_back: 0,
            step_back_ns_max: 0,
            missed: LossCounts::default(),
        }
    }

    fn add(&mut self, record: &Record) {
        self.kinds[self.by_code[usize::from(record.kind as u8)]] += 1;
        if let Some(loss) = record.loss() {
            self.missed.add(loss.point(), loss.count);
            return;
        }
        self.connection(record.flow.connection());
        if record.is_in_order() {
            self.time(record.at_ns);
        }
    }

    fn time(&mut self, at_ns: u64) {
        let step_ns = self.latest_ns.saturating_sub(at_ns);
        self.steps_back += u64::from(step_ns > 0);
        self.large_steps_back += u64::from(step_ns > TIME_STEP_BACK_NS_MAX);
        self.step_back_ns_max = self.step_back_ns_max.max(step_ns);
        self.latest_ns = self.latest_ns.max(at_ns);
    }

    fn connection(&mut self, id: ConnectionId) {
        if self.last_known == Some(id) {
            return;
        }
        if self.known.contains(&id) {
            self.last_known = Some(id);
            return;
        }
        self.unknown_records += 1;
        if self.unknown.len() < UNKNOWN_CONNECTIONS_MAX {
            self.unknown.insert(id);
        }
    }

    fn problems(&self) -> impl Iterator<Item = Problem> {
        debug_assert!(self.large_steps_back <= self.steps_back);
        debug_assert!(self.unknown.len() as u64 <= self.unknown_records);
        let times = (self.large_steps_back > 0).then_some(Problem::TimeStepsBack {
            steps: self.large_steps_back,
            step_ns_max: self.step_back_ns_max,
            allowed_ns: TIME_STEP_BACK_NS_MAX,
        });
        let connections = (self.unknown_records > 0).then_some(Problem::UnknownConnections {
            connections: self.unknown.len() as u64,
            records: self.unknown_records,
        });
        times.into_iter().chain(connections)
    }
}

/// A complete `meta.json` has to agree with the records; an incomplete one lags behind them.
fn against_meta(meta: &Meta, rows: u64, missed: &LossCounts) -> Vec<Problem> {
    let mut problems = Vec::new();
    if !meta.complete {
        return problems;
    }
    if meta.records != rows {
        problems.push(Problem::CountDiffers { found: rows, meta: meta.records });
    }
    if meta.loss != *missed {
        problems.push(Problem::LossDiffers { records: *missed, meta: meta.loss });
    }
    problems
}
