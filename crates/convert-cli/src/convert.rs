//! `sockscope convert`: a capture file as a trace bundle.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::read::MultiGzDecoder;
use sockscope_convert::capture_file::{self, Part, Summary, Told, Unreadable};
use sockscope_program::failure::Failure;
use sockscope_program::output_dir::{DirLock, OutputDir};
use sockscope_program::progress::Progress;
use sockscope_program::stderr;
use sockscope_record::{LossCounts, Record, counted};
use sockscope_trace::{BundleWriter, ClockSnapshot, Meta, Source};

use crate::args;

/// Room of the reader below the decoder.
const BUFFER: usize = 1 << 18;
/// The first octets of a file of gzip (RFC 1952 §2.3.1).
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Writes the bundle. `say` gets the notes once the capture was read, also where no packet of it can be used.
///
/// # Errors
///
/// When the capture cannot be read or has no packet that can be used, or the bundle cannot be written.
pub fn write(arguments: &args::Convert, say: impl FnOnce(&[String])) -> Result<Converted, Failure> {
    let file = arguments.file.display();
    let Input { octets, read_octets, file_octets } = input(&arguments.file)?;
    let output = OutputDir::find(&arguments.output, &[&arguments.file])?;
    let meta = Meta {
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        source: Source::Pcap,
        command: std::env::args().collect(),
        pick: format!("what is in {file}"),
        ..Meta::default()
    };
    let mut bundle =
        Bundle { output: Some(output), meta, writer: None, loss: LossCounts::default() };
    let told = Told { host: arguments.host.clone() };
    let progress = Progress::begin("reading octets", file_octets);
    let read = capture_file::read(octets, &told, |part| {
        progress.set(read_octets.load(Ordering::Relaxed) as usize, file_octets as usize);
        bundle.take(part)
    });
    drop(progress);
    let summary = read.map_err(|error| match error {
        Problem::Unreadable(error) => Failure::new(format!("{file}: {error}")),
        Problem::Failure(failure) => failure,
    })?;
    let notes = notes(&summary, !told.host.is_empty());
    say(&notes);
    let Some((writer, _lock, meta)) = bundle.finish(&summary, notes) else {
        return Err(Failure::new(format!(
            "{file}: no packet of TCP or UDP that can be read, of {} in it",
            summary.packets
        )));
    };
    let records = writer.records();
    writer.finish(meta)?;
    Ok(Converted { records, connections: summary.connections })
}

/// What was written of a capture.
#[derive(Debug)]
pub struct Converted {
    /// Records in the bundle.
    pub records: u64,
    /// Connections in it.
    pub connections: usize,
}

/// `sockscope convert`.
///
/// # Errors
///
/// As [`write()`].
pub fn convert(arguments: &args::Convert) -> Result<(), Failure> {
    let file = arguments.file.display();
    let say = |notes: &[String]| notes.iter().for_each(|note| stderr!("sockscope: {file}: {note}"));
    let written = write(arguments, say)?;
    stderr!(
        "sockscope: {} of {} in {}; see it: sockscope report {2}",
        counted(written.records, "record"),
        counted(written.connections as u64, "connection"),
        arguments.output.display()
    );
    Ok(())
}

/// A capture file that is open.
struct Input {
    /// Uncompressed.
    octets: Box<dyn Read + Send>,
    /// Octets of the file that were read so far.
    read_octets: Arc<AtomicU64>,
    /// Octets of the file; 0 where that is not known.
    file_octets: u64,
}

fn input(path: &Path) -> Result<Input, Failure> {
    let cannot = |error: io::Error| Failure::file("cannot read", path, &error);
    let (file, file_octets): (Box<dyn Read + Send>, _) = if path == Path::new("-") {
        (Box::new(io::stdin()), 0)
    } else {
        let file = File::open(path).map_err(cannot)?;
        let len = file.metadata().map_or(0, |metadata| metadata.len());
        (Box::new(file), len)
    };
    let read_octets = Arc::new(AtomicU64::new(0));
    let file = Counted { inner: file, octets: Arc::clone(&read_octets) };
    let mut file = BufReader::with_capacity(BUFFER, Full(file));
    let is_compressed = file.fill_buf().map_err(cannot)?.starts_with(&GZIP);
    let octets: Box<dyn Read + Send> = match is_compressed {
        true => Box::new(Full(MultiGzDecoder::new(file))),
        false => Box::new(Full(file)),
    };
    Ok(Input { octets, read_octets, file_octets })
}

/// Counts the octets that are read.
struct Counted<R> {
    inner: R,
    octets: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let len = self.inner.read(room)?;
        self.octets.fetch_add(len as u64, Ordering::Relaxed);
        Ok(len)
    }
}

/// Reads until there is no room: pipes and decoders give less than there is.
struct Full<R>(R);

impl<R: Read> Read for Full<R> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let mut len = 0;
        while len < room.len() {
            match self.0.read(&mut room[len..]) {
                Ok(0) => break,
                Ok(more) => len += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(len)
    }
}

/// A failure on the way, with or without the file at fault.
enum Problem {
    Unreadable(Unreadable),
    Failure(Failure),
}

impl From<Unreadable> for Problem {
    fn from(error: Unreadable) -> Self {
        Self::Unreadable(error)
    }
}

/// The bundle, which is made when the first packet was read: a file without any leaves an older bundle alone.
struct Bundle {
    output: Option<OutputDir>,
    meta: Meta,
    writer: Option<(BundleWriter, DirLock)>,
    loss: LossCounts,
}

impl Bundle {
    fn take(&mut self, part: &Part) -> Result<(), Problem> {
        if part.records.is_empty() {
            return Ok(());
        }
        self.write(part).map_err(Problem::Failure)
    }

    fn write(&mut self, part: &Part) -> Result<(), Failure> {
        if let Some(output) = self.output.take() {
            // Written by this thread: batches that wait for another one take more memory than the file.
            self.writer = Some(output.create(self.meta.clone())?);
        }
        let Some((writer, _)) = &mut self.writer else { return Ok(()) };
        for connection in &part.connections {
            writer.connection(connection)?;
        }
        writer.append(&part.records)?;
        self.loss.add_all(&part.records.iter().filter_map(Record::loss).collect());
        Ok(())
    }

    /// The writer with the facts of the whole, where there is any packet.
    fn finish(
        self,
        summary: &Summary,
        notes: Vec<String>,
    ) -> Option<(BundleWriter, DirLock, Meta)> {
        let (writer, lock) = self.writer?;
        let clock = summary.span_ns.map(|(first_ns, _)| ClockSnapshot::new(first_ns, first_ns));
        let meta = Meta {
            loss: self.loss,
            clock: clock.into_iter().collect(),
            ended_ns: summary.span_ns.map(|(_, last_ns)| last_ns),
            notes,
            complete: summary.damage.is_none(),
            ..self.meta
        };
        Some((writer, lock, meta))
    }
}

/// What a reader of the results must know, one sentence each.
fn notes(summary: &Summary, host_was_told: bool) -> Vec<String> {
    let mut notes = Vec::new();
    let [sent, received, seen] = summary.sent_received_seen;
    let packets = |count| counted(count, "packet");
    if sent + received > 0 {
        notes.push(format!(
            "the capturing host sent {} (point 4) and received {} (point 5)",
            packets(sent),
            packets(received)
        ));
    }
    if seen > 0 {
        let advice =
            if host_was_told { "" } else { "; --host ADDRESS names the host that captured" };
        notes.push(format!(
            "{} without a direction, as a third host on the wire sees them (point 4){advice}",
            packets(seen)
        ));
    }
    if sent + received + seen > 0 {
        notes.push(
            "a capture has packets alone: the queues of sockets, and when programs write and read, are unknown"
                .to_owned(),
        );
    }
    let not_read = summary.not_read.iter();
    notes.extend(not_read.map(|(reason, count, first)| {
        format!("{} {}, the first one is number {first}", packets(*count), reason.words())
    }));
    let missed = summary.interfaces.iter().filter(|interface| interface.missed > 0);
    notes.extend(missed.map(|interface| {
        let name = interface.name.as_deref().unwrap_or("an interface");
        format!("the capture missed {} of {name} by its own count", packets(interface.missed))
    }));
    notes.extend(
        summary.damage.as_ref().map(|damage| format!("{damage}; what follows was not read")),
    );
    notes
}
