//! A recording into a bundle, as `sockscope record` makes one, that counts what it gets.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sockscope_probe::{Options, Pick, Recorder, Sink, Summary, bench};
use sockscope_record::{Connection, Point, Record};
use sockscope_trace::{BundleWriter, Meta};

use crate::Failure;

/// As in `sockscope record`.
const FLUSH_EVERY: Duration = Duration::from_millis(200);
const DRAIN_DEADLINE: Duration = Duration::from_secs(5);

/// A recorder and the bundle that it fills; [`Recording::finish`] removes the bundle.
pub struct Recording {
    pub recorder: Recorder,
    pub sink: BundleSink,
    flushed: Instant,
}

impl Recording {
    /// Starts to record the connections of these ports, those that are open included.
    pub fn start(dir: PathBuf, ports: Vec<u16>, options: Options) -> Result<Self, Failure> {
        let pick = Pick { ports, ..Pick::default() };
        let writer = BundleWriter::create(dir, Meta::default())?;
        let recorder = Recorder::start(&pick, options)?;
        let sink = BundleSink { writer, records: [0; 8], read_bytes: [0; 2], connections: vec![] };
        Ok(Self { recorder, sink, flushed: Instant::now() })
    }

    /// Has a thread write the files, as `sockscope record` does.
    pub fn write_by_thread(&mut self) -> Result<(), Failure> {
        Ok(self.sink.writer.write_by_thread()?)
    }

    /// Records for this long; the share of it for which the recorder's threads had a CPU.
    pub fn run(&mut self, time: Duration) -> Result<f64, Failure> {
        let (start, cpu_before_ns) = (Instant::now(), bench::recorder_cpu_ns()?);
        while start.elapsed() < time {
            self.step()?;
        }
        let cpu_ns = bench::recorder_cpu_ns()? - cpu_before_ns;
        Ok(cpu_ns as f64 / start.elapsed().as_nanos() as f64)
    }

    pub fn step(&mut self) -> Result<(), Failure> {
        self.recorder.step(&mut self.sink)?;
        if self.flushed.elapsed() > FLUSH_EVERY {
            self.sink.writer.flush()?;
            self.flushed = Instant::now();
        }
        Ok(())
    }

    /// Ends the recording with a whole bundle.
    pub fn keep(mut self) -> Result<(Summary, BundleCounts), Failure> {
        let summary = self.recorder.finish(&mut self.sink, DRAIN_DEADLINE)?;
        let meta = Meta { loss: summary.missed, complete: true, ..Meta::default() };
        self.sink.writer.finish(meta)?;
        let BundleSink { records, read_bytes, .. } = self.sink;
        Ok((summary, BundleCounts { records, read_bytes }))
    }

    /// Ends the recording and removes the bundle.
    pub fn finish(self) -> Result<(Summary, BundleCounts), Failure> {
        let dir = self.sink.writer.dir().to_owned();
        let kept = self.keep()?;
        remove(&dir)?;
        Ok(kept)
    }
}

pub fn remove(dir: &Path) -> Result<(), Failure> {
    Ok(std::fs::remove_dir_all(dir)?)
}

/// What reached the bundle.
pub struct BundleCounts {
    /// Records of each point.
    pub records: [u64; 8],
    /// Bytes that passed point 8, from the client and from the server.
    pub read_bytes: [u64; 2],
}

pub struct BundleSink {
    pub writer: BundleWriter,
    pub connections: Vec<Connection>,
    records: [u64; 8],
    read_bytes: [u64; 2],
}

impl Sink for BundleSink {
    fn records(&mut self, records: &[Record]) -> Result<(), String> {
        for record in records {
            let Some(point) = record.kind.point() else { continue };
            self.records[point.index()] += 1;
            if point == Point::ReceiveDequeue {
                self.read_bytes[record.flow.direction() as usize] += u64::from(record.len);
            }
        }
        self.writer.append(records).map_err(|error| error.to_string())
    }

    fn connection(&mut self, connection: &Connection) -> Result<(), String> {
        self.connections.push(connection.clone());
        self.writer.connection(connection).map_err(|error| error.to_string())
    }
}
