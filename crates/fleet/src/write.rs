//! A segment of a host, written into a spool.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use sockscope_record::{Connection, ConnectionId, FlowId, Kind, Point, Record, Side};
use sockscope_tables::{META, WallClock, records_of, write_parquet};
use sockscope_trace::Meta;

use crate::Error;
use crate::bucket::bucket;
use crate::described::{CONNECTIONS, Described};
use crate::hour;
use crate::segment::{BucketFile, Missed, SCHEMA, SEGMENTS, Segment, file_name};

/// The part of a recording that is written as a segment.
#[derive(Debug)]
pub struct Part<'a> {
    /// Facts of the recording.
    pub meta: &'a Meta,
    /// The recording, as [`Segment::run`].
    pub run: &'a str,
    /// Place among its segments, from 0 on.
    pub sequence: u64,
    /// The recording ended with it.
    pub is_last: bool,
    /// The time of its records, on their clock.
    pub times_ns: (u64, u64),
    /// Connections with their last descriptions.
    pub connections: &'a [Connection],
}

/// Writes a segment into a spool, which is made where it is not there. Gives the seal; `None` where the spool has this
/// segment already.
///
/// Each file gets its name when it is whole, and the seal is the last of them: a reader finds whole segments alone.
///
/// # Errors
///
/// When the trace has no host or no wall clock, or a file cannot be written.
pub fn write_segment(
    spool: &Path,
    part: &Part<'_>,
    records: Vec<Record>,
) -> Result<Option<Segment>, Error> {
    let Part { meta, run, sequence, .. } = *part;
    if meta.host.is_empty() {
        return Err(Error::NoHost);
    }
    let clock = WallClock::of(meta);
    let offset_ns = clock.offset_ns().ok_or(Error::NoClock)?;
    let name = file_name(&meta.host, run, sequence);
    let seals = spool.join(SEGMENTS);
    let seal = seals.join(format!("{name}.json"));
    if seal.exists() {
        return Ok(None);
    }
    let sorted = Sorted::new(part.connections, records);
    let (from_ns, until_ns) = part.times_ns;
    let since_1970_ns = u64::try_from(clock.at(from_ns).unwrap_or(0)).unwrap_or(0);
    let mut segment = Segment {
        schema: SCHEMA.to_owned(),
        tool_version: meta.tool_version.clone(),
        host: meta.host.clone(),
        run: run.to_owned(),
        sequence,
        is_last: part.is_last,
        kernel: meta.kernel.clone(),
        source: meta.source.name().to_owned(),
        offset_ns,
        from_ns,
        until_ns,
        records: 0,
        undescribed_records: sorted.undescribed,
        drop_reasons: meta.drop_reasons.clone(),
        losses: sorted.losses,
        files: Vec::new(),
    };
    let json = String::from_utf8(meta.to_json()?).unwrap_or_default();
    for (bucket, content) in sorted.buckets {
        let path = format!("{}/bucket={bucket:03}/{name}.parquet", hour::folder(since_1970_ns));
        let described =
            serde_json::to_string(&content.described).map_err(Error::json("connections"))?;
        let (rows, count) = (content.records.len() as u64, content.described.len() as u64);
        let mut octets = Vec::new();
        let facts = [(META, json.as_str()), (CONNECTIONS, described.as_str())];
        write_parquet(records_of(content.records, clock), &mut octets, &facts, &mut |_| {})?;
        write_whole(&spool.join(&path), &octets)?;
        segment.records += rows;
        segment.files.push(BucketFile {
            bucket,
            path,
            bytes: octets.len() as u64,
            crc32: crc32fast::hash(&octets),
            records: rows,
            connections: count,
        });
    }
    let text = serde_json::to_vec_pretty(&segment).map_err(Error::json(SCHEMA))?;
    write_whole(&seal, &text)?;
    Ok(Some(segment))
}

/// Writes a file under another name, and gives it its own when the disk has it.
fn write_whole(path: &Path, octets: &[u8]) -> Result<(), Error> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(Error::io("cannot make the folder", folder))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let unfinished = folder.join(format!(".{name}.unfinished"));
    let write = || {
        let mut file = File::create(&unfinished)?;
        file.write_all(octets)?;
        file.sync_data()?;
        fs::rename(&unfinished, path)
    };
    let written = write();
    if written.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    written.map_err(Error::io("cannot write", path))
}

/// The content of a file.
#[derive(Default)]
struct Content {
    described: Vec<Described>,
    records: Vec<Record>,
}

/// Records by bucket, in each by flow, then by time.
#[derive(Default)]
struct Sorted {
    buckets: BTreeMap<u16, Content>,
    losses: Vec<Missed>,
    undescribed: u64,
}

impl Sorted {
    fn new(connections: &[Connection], records: Vec<Record>) -> Self {
        let mut sorted = Self::default();
        let by_id: BTreeMap<ConnectionId, &Connection> =
            connections.iter().map(|it| (it.id, it)).collect();
        let mut ends: BTreeMap<ConnectionId, [bool; 2]> = BTreeMap::new();
        let buckets: BTreeMap<ConnectionId, u16> =
            by_id.iter().map(|(id, it)| (*id, bucket(it))).collect();
        for record in records {
            if let Some(missed) = Missed::of(&record) {
                sorted.losses.push(missed);
                continue;
            }
            let id = record.flow.connection();
            let Some(bucket) = buckets.get(&id) else {
                sorted.undescribed += 1;
                continue;
            };
            if let Some(side) = end_of(&record) {
                ends.entry(id).or_default()[side as usize] = true;
            }
            sorted.buckets.entry(*bucket).or_default().records.push(record);
        }
        for content in sorted.buckets.values_mut() {
            content.records.sort_by_key(|record| (record.flow, record.at_ns));
            let mut ids: Vec<_> =
                content.records.iter().map(|record| record.flow.connection()).collect();
            ids.dedup();
            let described = |id: ConnectionId| {
                let here = match ends.get(&id).copied().unwrap_or_default() {
                    [true, false] => Some(Side::Client),
                    [false, true] => Some(Side::Server),
                    _ => None,
                };
                Some(Described::of(by_id.get(&id)?, here))
            };
            content.described = ids.into_iter().filter_map(described).collect();
        }
        sorted
    }
}

/// The end at whose host a record of a point was made.
fn end_of(record: &Record) -> Option<Side> {
    debug_assert!(record.kind != Kind::Loss || record.flow != FlowId::default());
    let direction = record.flow.direction();
    match record.point()? {
        point if point <= Point::InterfaceDequeue => Some(direction.sender()),
        _ => Some(direction.receiver()),
    }
}

#[cfg(test)]
mod tests {
    use sockscope_record::{Direction, Loss, Protocol};
    use sockscope_trace::ClockSnapshot;

    use super::*;

    const SINCE_1970_NS: u64 = 1_795_771_800_000_000_000;

    fn meta() -> Meta {
        let clock = vec![ClockSnapshot::new(1_000, SINCE_1970_NS + 1_000)];
        Meta { host: "web 1".to_owned(), clock, ..Meta::default() }
    }

    fn connection(id: u32, port: u16) -> Connection {
        let ends = [("10.0.0.1", port), ("10.0.0.2", 80)]
            .map(|(ip, port)| (ip.parse::<std::net::IpAddr>().unwrap(), port).into());
        Connection::new(ConnectionId(id), Protocol::Tcp, ends, 10)
    }

    fn record(id: u32, at_ns: u64) -> Record {
        let flow = ConnectionId(id).flow(Direction::FromClient);
        Record { at_ns, flow, len: 1, kind: Kind::SendEnqueue, ..Record::default() }
    }

    #[test]
    fn a_segment_has_a_file_for_each_bucket_and_then_its_seal() {
        let spool = tempfile::tempdir().unwrap();
        let connections = [connection(1, 40_000), connection(2, 40_001)];
        let meta = meta();
        let part = Part {
            meta: &meta,
            run: "1a",
            sequence: 3,
            is_last: false,
            times_ns: (5, 50),
            connections: &connections,
        };
        let missed = Record { at_ns: 30, ..Record::default() }.with_loss(Loss::new(None, 2, 20));
        let records = vec![record(2, 40), record(1, 30), missed, record(1, 20), record(9, 20)];
        let segment = write_segment(spool.path(), &part, records.clone()).unwrap().unwrap();
        assert_eq!((segment.records, segment.undescribed_records), (3, 1));
        assert_eq!(segment.losses.iter().map(Missed::record).collect::<Vec<_>>(), [missed]);
        let [first, second] = &segment.files[..] else { panic!("{:?}", segment.files) };
        let expected =
            format!("day=2026-11-27/hour=09/bucket={:03}/web_1-1a-00000003.parquet", first.bucket);
        assert_eq!(first.path, expected);
        assert_eq!((first.records, second.records), (2, 1));
        let octets = fs::read(spool.path().join(&first.path)).unwrap();
        assert_eq!((octets.len() as u64, crc32fast::hash(&octets)), (first.bytes, first.crc32));
        let read = sockscope_tables::read_parquet(octets).unwrap();
        assert_eq!(read.records, [record(1, 20), record(1, 30)]);
        let described: Vec<Described> = serde_json::from_str(&read.facts[CONNECTIONS]).unwrap();
        assert_eq!(described, [Described::of(&connections[0], Some(Side::Client))]);
        let seal = fs::read(spool.path().join("segments/web_1-1a-00000003.json")).unwrap();
        assert_eq!(serde_json::from_slice::<Segment>(&seal).unwrap(), segment);
        // A second attempt changes nothing.
        assert_eq!(write_segment(spool.path(), &part, records).unwrap(), None);
    }

    #[test]
    fn a_trace_without_a_host_or_a_clock_is_refused() {
        let spool = tempfile::tempdir().unwrap();
        let refuse = |meta: &Meta| {
            let part = Part {
                meta,
                run: "1a",
                sequence: 0,
                is_last: true,
                times_ns: (0, 1),
                connections: &[],
            };
            write_segment(spool.path(), &part, Vec::new()).unwrap_err().to_string()
        };
        assert!(refuse(&Meta { host: String::new(), ..meta() }).contains("no name of a host"));
        assert!(refuse(&Meta { clock: Vec::new(), ..meta() }).contains("no wall clock"));
    }
}
