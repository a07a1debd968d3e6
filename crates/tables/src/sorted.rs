//! The records of a bundle by flow, then by time, in bounded memory.
//!
//! Runs of records are sorted in memory. Where there are several, they go to a file without a name, and are merged from
//! there. A run has its records by flow; within a flow they are nearly in order already. So records are put into the
//! place of their flow first, and the rest of the work is small.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};
use sockscope_record::{FlowId, Kind, Record};
use sockscope_trace::Bundle;

use crate::records::{Encoder, TABLE, records_schema};
use crate::{Error, Table};

/// Records of a run: 12 MiB, and as much again while they are sorted, which the cache of a CPU mostly has.
const RUN_RECORDS: usize = 1 << 18;
/// Rows of a batch: an eighth of a row group of a file, of which the columns fit into the cache of a CPU.
const ROWS: usize = 15_360;
/// Records that are read from a run at once.
const BLOCK_RECORDS: usize = 1_024;
/// The largest number of a flow up to which each has a place of its own; larger ones are of damaged traces.
const FLOWS_MAX: usize = 1 << 24;
/// Octets of a record in the file of runs.
const RECORD_BYTES: usize = 46;

/// The table `records` by flow, then by time, then by row of the bundle. `scratch` is the folder for a file without a
/// name, of 46 octets a record, which a bundle of more than 262,144 records needs. `read` is called with the number
/// of records that were read since the last call.
///
/// # Errors
///
/// When the bundle cannot be read, or the file cannot be written.
pub fn sorted_records(
    bundle: &Bundle,
    scratch: &Path,
    read: &mut dyn FnMut(u64),
) -> Result<Table, Error> {
    in_runs(bundle, scratch, RUN_RECORDS, read)
}

fn in_runs(
    bundle: &Bundle,
    scratch: &Path,
    run_records: usize,
    read: &mut dyn FnMut(u64),
) -> Result<Table, Error> {
    let encoder = Encoder::of(bundle);
    let schema = records_schema();
    let mut runs = Runs::new(scratch);
    // All runs use the same memory: new memory for each costs page faults.
    let (mut run, mut sorted) = (Vec::new(), Vec::new());
    let mut records = bundle.records()?;
    while let Some(batch) = records.next_batch()? {
        read(batch.len() as u64);
        let mut rest = batch;
        while !rest.is_empty() {
            let room = (run_records - run.len()).min(rest.len());
            run.extend_from_slice(&rest[..room]);
            rest = &rest[room..];
            if run.len() == run_records {
                by_flow(&run, &mut sorted);
                runs.add(&sorted).map_err(Error::Scratch)?;
                run.clear();
            }
        }
    }
    by_flow(&run, &mut sorted);
    drop(run);
    let merged = runs.merged(sorted).map_err(Error::Scratch)?;
    let batches = Batches { merged, encoder, schema: schema.clone(), rows: Vec::new() };
    Ok(Table::new(TABLE, schema, Box::new(batches)))
}

/// The place of a record in the order, without its row.
type Key = (FlowId, u64);

fn key(record: &Record) -> Key {
    (record.flow, record.at_ns)
}

/// Puts the records into `sorted` by flow, then by time; those with the same time in their order.
fn by_flow(run: &[Record], sorted: &mut Vec<Record>) {
    let largest = run.iter().map(|record| record.flow.0).max().unwrap_or(0) as usize;
    if largest > FLOWS_MAX {
        sorted.clear();
        sorted.extend_from_slice(run);
        sorted.sort_by_key(key);
        return;
    }
    // The number of records of each flow, then the place of its next one.
    let mut next = vec![0; largest + 1];
    for record in run {
        next[record.flow.0 as usize] += 1;
    }
    let mut begin = 0;
    for count in &mut next {
        begin += std::mem::replace(count, begin);
    }
    sorted.resize(run.len(), Record::default());
    for record in run {
        let place = &mut next[record.flow.0 as usize];
        sorted[*place] = *record;
        *place += 1;
    }
    // Now each has the end of its flow.
    let mut rest = sorted.as_mut_slice();
    let mut begin = 0;
    for end in next {
        let (of_flow, after) = rest.split_at_mut(end - begin);
        if !of_flow.is_sorted_by_key(|record| record.at_ns) {
            of_flow.sort_by_key(|record| record.at_ns);
        }
        (rest, begin) = (after, end);
    }
}

/// Sorted runs in a file.
struct Runs<'a> {
    scratch: &'a Path,
    file: Option<BufWriter<File>>,
    /// Records of each run.
    lengths: Vec<u64>,
}

impl<'a> Runs<'a> {
    fn new(scratch: &'a Path) -> Self {
        Self { scratch, file: None, lengths: Vec::new() }
    }

    fn add(&mut self, run: &[Record]) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                none.insert(BufWriter::with_capacity(1 << 18, tempfile::tempfile_in(self.scratch)?))
            }
        };
        run.iter().try_for_each(|record| file.write_all(&octets(record)))?;
        self.lengths.push(run.len() as u64);
        Ok(())
    }

    fn merged(self, last: Vec<Record>) -> io::Result<Merged> {
        let mut block = Block {
            bytes: vec![0; BLOCK_RECORDS * RECORD_BYTES],
            kinds: std::array::from_fn(|code| Kind::from_code(code as u8).unwrap_or_default()),
        };
        let file = match self.file {
            None => None,
            Some(file) => {
                Some(Arc::new(file.into_inner().map_err(io::IntoInnerError::into_error)?))
            }
        };
        let mut runs = Vec::new();
        let mut begin = 0;
        for length in self.lengths {
            let file = file.clone();
            runs.push(Run { file, next: begin, end: begin + length, block: Vec::new(), at: 0 });
            begin += length;
        }
        // The last one has the latest rows, and stays in memory.
        runs.push(Run { file: None, next: 0, end: 0, block: last, at: 0 });
        let mut heads = BinaryHeap::new();
        for (number, run) in runs.iter_mut().enumerate() {
            run.fill(&mut block)?;
            heads.extend(run.head().map(|record| Reverse((key(record), number))));
        }
        Ok(Merged { runs, heads, block })
    }
}

/// A run with its next records.
struct Run {
    file: Option<Arc<File>>,
    /// Records of the file that were not read yet.
    next: u64,
    end: u64,
    block: Vec<Record>,
    /// The place in the block.
    at: usize,
}

impl Run {
    fn head(&self) -> Option<&Record> {
        self.block.get(self.at)
    }

    /// Reads the next block where this one is used up.
    fn fill(&mut self, block: &mut Block) -> io::Result<()> {
        let Some(file) = self.file.as_ref().filter(|_| self.at == self.block.len()) else {
            return Ok(());
        };
        let count = (self.end - self.next).min(BLOCK_RECORDS as u64) as usize;
        let bytes = &mut block.bytes[..count * RECORD_BYTES];
        file.read_exact_at(bytes, self.next * RECORD_BYTES as u64)?;
        self.next += count as u64;
        self.block.clear();
        let octets = bytes.as_chunks::<RECORD_BYTES>().0.iter();
        self.block.extend(octets.map(|octets| record(octets, &block.kinds)));
        self.at = 0;
        Ok(())
    }
}

/// All runs as one.
struct Merged {
    runs: Vec<Run>,
    /// The key of the next record of each run that has one, and the run's number.
    heads: BinaryHeap<Reverse<(Key, usize)>>,
    block: Block,
}

/// What the decoder of a block needs.
struct Block {
    bytes: Vec<u8>,
    /// The kind of each code.
    kinds: [Kind; 256],
}

impl Merged {
    /// Adds records up to so many rows.
    fn take(&mut self, rows: &mut Vec<Record>, count: usize) -> io::Result<()> {
        while rows.len() < count
            && let Some(Reverse((_, number))) = self.heads.pop()
        {
            // Runs follow one another in time: mostly one of them has many records before any of another one.
            let until = self.heads.peek().map(|Reverse(head)| *head);
            let run = &mut self.runs[number];
            let is_before = |record: &Record| until.is_none_or(|it| (key(record), number) < it);
            loop {
                let room = count - rows.len();
                let block = &run.block[run.at..];
                let first = &block[..room.min(block.len())];
                let taken = match first.last() {
                    Some(last) if is_before(last) => first.len(),
                    _ => first.partition_point(is_before),
                };
                rows.extend_from_slice(&first[..taken]);
                run.at += taken;
                run.fill(&mut self.block)?;
                match run.head() {
                    Some(head) if taken > 0 && rows.len() < count && is_before(head) => {}
                    Some(head) => {
                        self.heads.push(Reverse((key(head), number)));
                        break;
                    }
                    None => break,
                }
            }
        }
        Ok(())
    }
}

struct Batches {
    merged: Merged,
    encoder: Encoder,
    schema: SchemaRef,
    rows: Vec<Record>,
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.rows.clear();
        if let Err(error) = self.merged.take(&mut self.rows, ROWS) {
            return Some(Err(ArrowError::ExternalError(Box::new(Error::Scratch(error)))));
        }
        (!self.rows.is_empty()).then(|| self.encoder.batch(&self.schema, &self.rows))
    }
}

fn octets(record: &Record) -> [u8; RECORD_BYTES] {
    let mut octets = [0; RECORD_BYTES];
    octets[..8].copy_from_slice(&record.at_ns.to_le_bytes());
    octets[8..16].copy_from_slice(&record.offset.to_le_bytes());
    octets[16..24].copy_from_slice(&record.detail.to_le_bytes());
    octets[24..28].copy_from_slice(&record.flow.0.to_le_bytes());
    octets[28..32].copy_from_slice(&record.len.to_le_bytes());
    octets[32..36].copy_from_slice(&record.thread.to_le_bytes());
    octets[36..40].copy_from_slice(&record.extra.to_le_bytes());
    octets[40..42].copy_from_slice(&record.cpu.to_le_bytes());
    octets[42..].copy_from_slice(&[record.kind as u8, record.code, record.tcp_flags, record.marks]);
    octets
}

fn record(octets: &[u8; RECORD_BYTES], kinds: &[Kind; 256]) -> Record {
    let (longs, rest) = octets.as_chunks::<8>();
    let [at_ns, offset, detail] = [0, 1, 2].map(|at| u64::from_le_bytes(longs[at]));
    let words = octets[24..40].as_chunks::<4>().0;
    let [flow, len, thread, extra] = [0, 1, 2, 3].map(|at| u32::from_le_bytes(words[at]));
    let [cpu_low, cpu_high, kind, code, tcp_flags, marks] =
        octets[40..].try_into().expect("six octets are left");
    debug_assert_eq!(longs.len() * 8 + rest.len(), RECORD_BYTES);
    Record {
        at_ns,
        offset,
        detail,
        flow: FlowId(flow),
        len,
        thread,
        extra,
        kind: kinds[usize::from(kind)],
        code,
        tcp_flags,
        marks,
        cpu: u16::from_le_bytes([cpu_low, cpu_high]),
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use sockscope_record::marks;
    use sockscope_trace::{BundleWriter, Meta};

    use super::*;
    use crate::read_records;

    /// Of 7 flows, nearly in order of time; every tenth is late, and times repeat.
    fn records(count: u64) -> Vec<Record> {
        let one = |number: u64| Record {
            at_ns: if number % 10 == 3 { number / 2 } else { number - number % 4 },
            flow: FlowId((number * 5 % 7) as u32),
            offset: number,
            detail: u64::MAX - number,
            len: 3,
            thread: 4,
            extra: 5,
            kind: Kind::ALL[(number % 28) as usize],
            code: 6,
            tcp_flags: 7,
            marks: marks::DERIVED,
            cpu: 260,
        };
        (0..count).map(one).collect()
    }

    fn sorted(records: &[Record], run_records: usize) -> Vec<Record> {
        let folder = tempfile::tempdir().expect("a folder");
        let mut writer = BundleWriter::create(folder.path(), Meta::default()).expect("a bundle");
        writer.append(records).expect("room on the disk");
        writer.finish(Meta::default()).expect("room on the disk");
        let bundle = Bundle::open(folder.path()).expect("a bundle");
        let mut read = 0;
        let table = in_runs(&bundle, folder.path(), run_records, &mut |more| read += more);
        let batches = table.expect("readable").map(|batch| batch.expect("readable"));
        let all = batches.flat_map(|batch| read_records(&batch).expect("records")).collect();
        assert_eq!(read, records.len() as u64);
        all
    }

    /// By a sort of all records.
    fn expected(mut records: Vec<Record>) -> Vec<Record> {
        records.sort_by_key(key);
        records
    }

    #[test]
    fn records_are_by_flow_then_by_time_then_by_row() {
        let records = records(20_000);
        for run_records in [30_000, 20_000, 6_000, 1_999, 700] {
            assert!(sorted(&records, run_records) == expected(records.clone()), "{run_records}");
        }
    }

    #[test]
    fn a_flow_with_a_number_of_a_damaged_trace_is_sorted_too() {
        let mut records = records(100);
        records[40].flow = FlowId(u32::MAX);
        assert!(sorted(&records, 33) == expected(records.clone()));
    }

    #[test]
    fn a_bundle_without_records_has_no_rows() {
        assert!(sorted(&[], 10).is_empty());
    }

    #[test]
    fn a_batch_is_a_part_of_a_row_group() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut writer = BundleWriter::create(folder.path(), Meta::default()).expect("a bundle");
        writer.append(&records(ROWS as u64 + 5)).expect("room on the disk");
        writer.finish(Meta::default()).expect("room on the disk");
        let bundle = Bundle::open(folder.path()).expect("a bundle");
        let table = in_runs(&bundle, folder.path(), 10_000, &mut |_| {}).expect("readable");
        let batches: Vec<_> = table.map(|batch| batch.expect("readable")).collect();
        let rows: Vec<usize> = batches.iter().map(RecordBatch::num_rows).collect();
        assert_eq!(rows, [ROWS, 5]);
        let flows = batches[1].column_by_name("flow").expect("flows").as_primitive::<Int64Type>();
        assert_eq!(flows.values(), &[6; 5]);
    }
}
