//! The records of one recording in one bucket, read from its files.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use sockscope_record::{Connection, ConnectionId, Loss, Point, Record, Side, marks};
use sockscope_tables::read_parquet;

use crate::described::{CONNECTIONS, Described};
use crate::plan::{Run, RunSegment};
use crate::problem::{Problem, Trouble};

/// A connection of a recording.
#[derive(Debug, Clone)]
pub(crate) struct Half {
    pub connection: Connection,
    /// The end on the host; `None` where both are there, or it is not known.
    pub here: Option<Side>,
    /// By direction, in order of time.
    pub records: [Vec<Record>; 2],
}

/// A recording's part of a bucket.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    pub halves: BTreeMap<ConnectionId, Half>,
    /// Records of missed records, which concern all connections.
    pub losses: Vec<Record>,
    /// Begin of the first segment.
    pub began_ns: u64,
    /// End of the last segment.
    pub ended_ns: u64,
    /// Times of segments that are missing or damaged.
    cuts: Vec<(u64, u64)>,
    pub problems: Vec<Problem>,
}

impl Recorded {
    /// Reads what is whole. A file that is not is a time without records, and a problem.
    pub fn read(spool: &Path, run: &Run) -> Self {
        let began_ns = run.segments.first().map_or(0, |segment| segment.from_ns);
        let mut all = Self { began_ns, ..Self::default() };
        for segment in &run.segments {
            all.ended_ns = all.ended_ns.max(segment.until_ns);
            all.losses.extend(segment.losses.iter().map(crate::segment::Missed::record));
            if segment.is_missing {
                all.losses.extend(unknown(segment));
                all.cuts.push((segment.from_ns, segment.until_ns));
                continue;
            }
            if let Err(reason) = all.add(spool, segment) {
                all.losses.extend(unknown(segment));
                all.cuts.push((segment.from_ns, segment.until_ns));
                let line =
                    format!("segment {} of recording {}: {reason}", segment.sequence, run.run);
                all.problems.push(Problem::new(Trouble::DamagedSegment, &run.host, line));
            }
        }
        for records in all.halves.values_mut().flat_map(|half| &mut half.records) {
            // Each segment is in order, and only the edges of two may overlap.
            if !records.is_sorted_by_key(|record| record.at_ns) {
                records.sort_by_key(|record| record.at_ns);
            }
        }
        all
    }

    /// Whether a connection was open in the time of a segment that is missing or damaged.
    pub fn is_cut(&self, connection: &Connection) -> bool {
        let ended_ns = connection.closed_ns.unwrap_or(u64::MAX);
        self.cuts
            .iter()
            .any(|(from_ns, until_ns)| connection.opened_ns < *until_ns && *from_ns <= ended_ns)
    }

    fn add(&mut self, spool: &Path, segment: &RunSegment) -> Result<(), String> {
        let Some(file) = &segment.file else { return Ok(()) };
        let octets =
            fs::read(spool.join(&file.path)).map_err(|error| format!("{}: {error}", file.path))?;
        if octets.len() as u64 != file.bytes || crc32fast::hash(&octets) != file.crc32 {
            return Err(format!("{}: not as it was written", file.path));
        }
        let read = read_parquet(octets).map_err(|error| format!("{}: {error}", file.path))?;
        let text = read.facts.get(CONNECTIONS).map_or("[]", String::as_str);
        let described: Vec<Described> = serde_json::from_str(text)
            .map_err(|error| format!("{}: {CONNECTIONS}: {error}", file.path))?;
        for one in described {
            let (connection, here) = one.connection();
            let half = self.halves.entry(connection.id).or_insert_with(|| Half {
                connection: connection.clone(),
                here,
                records: Default::default(),
            });
            half.here = half.here.or(here);
            half.connection = connection;
        }
        for of_flow in read.records.chunk_by(|a, b| a.flow == b.flow) {
            let flow = of_flow[0].flow;
            if let Some(half) = self.halves.get_mut(&flow.connection()) {
                half.records[flow.direction() as usize].extend_from_slice(of_flow);
            }
        }
        Ok(())
    }
}

/// Records of all kinds were missed in the time of a segment. Positions behind it are those of the recorder, and certain.
fn unknown(segment: &RunSegment) -> impl Iterator<Item = Record> + use<> {
    let (since_ns, at_ns) = (segment.from_ns, segment.until_ns);
    let points = Point::ALL.into_iter().map(Some).chain([None]);
    points.map(move |point| {
        let record = Record { at_ns, marks: marks::ANCHORED, ..Record::default() };
        record.with_loss(Loss::new(point, 1, since_ns))
    })
}
