//! Packets cut into cells over and over.

use std::hint::black_box;
use std::io::{self, IoSlice, PipeWriter, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use sockscope_atm::aal34::{CELL_DATA_BYTES, Format, Segmentation, cells_for};
use sockscope_atm::{CELL_BYTES, Cell, Channel, Error, Header};
use sockscope_experiment::measurement::{Measure, Measurement};
use sockscope_experiment::{AtmParameters, CellsTo, DataFrom, DriverPart, VMTP_HEADER_BYTES};

/// A channel for users.
pub(super) const CHANNEL: Channel = Channel::of_path_0(32);
/// The format that holds a packet of 1 KB in one message.
pub(super) const FORMAT: Format = Format::FiveBit;
/// Packets whose time the thesis drew.
const PACKETS_DRAWN: f64 = 100_000.0;
/// Each case is timed so often; the shortest time counts, since what others do only adds to it.
const ROUNDS: usize = 5;
/// Messages that are not in the cache are read from as many bytes, one after the other.
const MEMORY_BYTES: usize = 64 << 20;
/// From one such message to the next.
const APART_BYTES: usize = 4096;

/// Memory that no cache holds; its pages are there.
fn memory() -> &'static [u8] {
    static MEMORY: OnceLock<Vec<u8>> = OnceLock::new();
    MEMORY.get_or_init(|| (0..MEMORY_BYTES).map(|at| at as u8).collect())
}

/// What takes the cells. Its reader drops them.
enum Output {
    Memory,
    Pipe(PipeWriter, JoinHandle<io::Result<u64>>),
    Socket(UnixStream, JoinHandle<io::Result<u64>>),
}

impl Output {
    fn to(place: CellsTo) -> io::Result<Self> {
        Ok(match place {
            CellsTo::Memory => Self::Memory,
            CellsTo::Pipe => {
                let (from, to) = io::pipe()?;
                Self::Pipe(to, thread::spawn(move || dropped(from)))
            }
            CellsTo::Socket => {
                let (from, to) = UnixStream::pair()?;
                Self::Socket(to, thread::spawn(move || dropped(from)))
            }
        })
    }

    /// Writes all octets of the cells, in one call where there is room.
    fn take(&mut self, cells: &[Cell]) -> io::Result<()> {
        let out: &mut dyn Write = match self {
            Self::Memory => return Ok(()),
            Self::Pipe(to, _) => to,
            Self::Socket(to, _) => to,
        };
        let mut slices: Vec<IoSlice<'_>> =
            cells.iter().map(|cell| IoSlice::new(cell.octets())).collect();
        let mut left = &mut slices[..];
        while !left.is_empty() {
            let written = out.write_vectored(left)?;
            IoSlice::advance_slices(&mut left, written);
        }
        Ok(())
    }

    /// Octets that its reader got.
    fn end(self) -> io::Result<u64> {
        let reader = match self {
            Self::Memory => return Ok(0),
            // The reader ends once the writing end is closed.
            Self::Pipe(to, reader) => {
                drop(to);
                reader
            }
            Self::Socket(to, reader) => {
                drop(to);
                reader
            }
        };
        reader.join().map_err(|_| io::Error::other("the reader of cells panicked"))?
    }
}

/// Reads to the end; how many octets there were.
fn dropped(mut from: impl Read) -> io::Result<u64> {
    let mut piece = vec![0; 64 << 10];
    let mut all = 0;
    loop {
        match from.read(&mut piece)? {
            0 => return Ok(all),
            octets => all += octets as u64,
        }
    }
}

/// What a batch of packets is made of, and where it goes.
struct Batch<'a> {
    parameters: &'a AtmParameters,
    bytes: usize,
    made: Vec<Cell>,
    cells: Vec<Cell>,
    next: usize,
}

impl Batch<'_> {
    /// The octets of the next packet.
    fn message(&mut self) -> &'static [u8] {
        if self.parameters.data_from == DataFrom::Memory {
            self.next = (self.next + APART_BYTES) % (MEMORY_BYTES - APART_BYTES);
        }
        &memory()[self.next..self.next + self.bytes]
    }

    /// Writes the cells of one packet.
    fn send(&mut self, number: u64) -> Result<(), Error> {
        match self.parameters.driver {
            DriverPart::Words => {
                for cell in &mut self.cells {
                    *cell = Cell::from_octets(black_box([0x5a; CELL_BYTES]));
                }
            }
            DriverPart::Cells => self.cells.copy_from_slice(black_box(&self.made)),
            DriverPart::Packets => {
                let id = (number % u64::from(FORMAT.message_ids())) as u16;
                let message = self.message();
                let header = Header::of_channel(CHANNEL);
                Segmentation::new(message, FORMAT, &header, id)?.write(&mut self.cells)?;
            }
        }
        black_box(&self.cells);
        Ok(())
    }

    /// Moves the octets of one packet as cells hold them, and does nothing else.
    fn copy(&mut self) {
        let message = self.message();
        for (cell, data) in self.cells.iter_mut().zip(message.chunks(CELL_DATA_BYTES)) {
            cell.octets_mut()[CELL_BYTES - PAYLOAD_END..][..data.len()].copy_from_slice(data);
        }
        black_box(&self.cells);
    }
}

/// Where the data of a cell begin, from its end: 44 octets and the trailer of 2.
const PAYLOAD_END: usize = CELL_DATA_BYTES + 2;

pub(super) fn run(parameters: &AtmParameters) -> Result<Measurement, String> {
    let bytes = packet_bytes(parameters);
    let packets = parameters.packets.unwrap_or(1);
    let header = Header::of_channel(CHANNEL);
    let made = Segmentation::new(&memory()[..bytes], FORMAT, &header, 0);
    let made: Vec<Cell> = made.map_err(|error| error.to_string())?.iter().collect();
    let cells = made.clone();
    let mut batch = Batch { parameters, bytes, made, cells, next: 0 };
    let place = parameters.cells_to.unwrap_or(CellsTo::Memory);
    let mut output = Output::to(place).map_err(|error| error.to_string())?;
    let mut failed: Option<String> = None;
    let total = least_ns(packets, |number| {
        let sent = batch.send(number).map_err(|error| error.to_string());
        let taken =
            sent.and_then(|()| output.take(&batch.cells).map_err(|error| error.to_string()));
        failed = failed.take().or(taken.err());
    });
    let arrived = output.end().map_err(|error| error.to_string())?;
    if let Some(error) = failed {
        return Err(error);
    }
    let all = packets * (ROUNDS * batch.cells.len() * CELL_BYTES) as u64;
    if place != CellsTo::Memory && arrived != all {
        return Err(format!("{arrived} of {all} octets of cells arrived"));
    }
    let copy = match parameters.driver {
        DriverPart::Packets => least_ns(packets, |_| batch.copy()).min(total),
        // Everything that is written is there before.
        DriverPart::Words => 0.0,
        DriverPart::Cells => total,
    };
    Ok(Measurement { measures: measures(total, copy, bytes), ..Measurement::default() })
}

/// Of two runs of one case the least time of a packet, with the least time of its copy.
pub(super) fn least(
    parameters: &AtmParameters,
    one: &Measurement,
    other: &Measurement,
) -> Measurement {
    let of = |name| [one.measure(name), other.measure(name)].into_iter().flatten();
    let least = |name| of(name).fold(f64::INFINITY, f64::min);
    let (total, copy) = (least("total_ns"), least("copy_s") * 1e9 / PACKETS_DRAWN);
    Measurement {
        measures: measures(total, copy, packet_bytes(parameters)),
        ..Measurement::default()
    }
}

fn packet_bytes(parameters: &AtmParameters) -> usize {
    (parameters.data_bytes.unwrap_or(0) + VMTP_HEADER_BYTES) as usize
}

/// Time of one packet in nanoseconds: the least of some batches.
fn least_ns(packets: u64, mut send: impl FnMut(u64)) -> f64 {
    let rounds = (0..ROUNDS).map(|_| {
        let began = Instant::now();
        (0..packets).for_each(&mut send);
        began.elapsed().as_nanos() as f64 / packets as f64
    });
    rounds.fold(f64::INFINITY, f64::min)
}

/// As those of the model: times are of one packet, seconds of as many as the thesis drew.
fn measures(total: f64, copy: f64, bytes: usize) -> Vec<Measure> {
    let cells = cells_for(bytes);
    let per_s = |count: usize| count as f64 * 1e9 / total;
    let drawn_s = |ns: f64| ns * PACKETS_DRAWN / 1e9;
    [
        ("cells", cells as f64),
        ("total_ns", total),
        ("copy_percent", 100.0 * copy / total),
        ("payload_bits_per_s", per_s(8 * bytes)),
        ("cell_bits_per_s", per_s(8 * cells * CELL_BYTES)),
        ("packets_per_s", per_s(1)),
        ("cells_per_s", per_s(cells)),
        ("total_s", drawn_s(total)),
        ("copy_s", drawn_s(copy)),
        ("other_s", drawn_s(total - copy)),
    ]
    .map(|(name, value)| Measure::new(name, value))
    .into()
}

#[cfg(test)]
mod tests {
    use sockscope_experiment::builtin_by_id;

    use super::*;

    #[test]
    fn of_two_runs_the_least_times_count() {
        let pc_2 = builtin_by_id("pc-2").unwrap();
        let parameters = pc_2.cases().unwrap().pop().and_then(|case| case.atm).unwrap();
        let of = |total, copy| {
            let measures = measures(total, copy, packet_bytes(&parameters));
            Measurement { measures, ..Measurement::default() }
        };
        let least = least(&parameters, &of(500.0, 100.0), &of(400.0, 300.0));
        assert_eq!(least, of(400.0, 100.0));
    }

    #[test]
    fn each_cell_arrives_at_the_other_end() {
        let mut cells = vec![Cell::from_octets([7; CELL_BYTES]); 31];
        cells[30].octets_mut()[CELL_BYTES - 1] = 9;
        for place in [CellsTo::Pipe, CellsTo::Socket] {
            let mut output = Output::to(place).unwrap();
            // More than a pipe or a socket holds.
            (0..1000).for_each(|_| output.take(&cells).unwrap());
            assert_eq!(output.end().unwrap(), 1000 * 31 * CELL_BYTES as u64, "{place:?}");
        }
        let mut memory = Output::to(CellsTo::Memory).unwrap();
        memory.take(&cells).unwrap();
        assert_eq!(memory.end().unwrap(), 0);
    }
}
