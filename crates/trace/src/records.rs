//! Reading `records.arrows` batch by batch.
//!
//! The rows of a damaged or missing batch are missed records. The reader reports them as a probe does: by loss
//! records at their place. It also reports times that run backwards, as records within them have no known order.

use std::io::{Read, Seek};
use std::ops::Range;
use std::path::Path;

use sockscope_record::{FlowId, Kind, Loss, Point, Record};

use crate::error::{Error, Problem};
use crate::format::{self, Part, TIME_STEP_BACK_NS_MAX};
use crate::stream::Stream;

/// Distance of a record's time outside of the span of the batches before and after a damaged one,
/// in nanoseconds: rows are nearly in order of time, not strictly.
const ORDER_SLACK_NS: u64 = 1_000_000;

/// Reads the records of a bundle in file order, holding one batch at a time.
///
/// At the end of a file that is still being written, [`RecordReader::next_batch`] gives `None`,
/// and gives more when asked again later.
#[derive(Debug)]
pub struct RecordReader<R> {
    /// `None`: the file is missing, and there is nothing to read.
    stream: Option<Stream<R>>,
    kinds: [Option<Kind>; 256],
    body: Vec<u8>,
    records: Vec<Record>,
    unknown_kinds: u64,
    /// Rows of damaged batches that loss records have reported.
    told_rows: u64,
    /// Latest time so far of a record that is in order.
    latest_ns: u64,
}

impl<R: Read + Seek> RecordReader<R> {
    /// Reads the bytes of a `records.arrows` from their start; `path` is for error messages.
    pub fn new(source: R, path: impl AsRef<Path>) -> Self {
        let schema = format::record_schema();
        Self::over(Some(Stream::new(source, path.as_ref(), Part::Records, schema)))
    }

    /// Reads nothing and reports the file as missing.
    pub(crate) fn missing() -> Self {
        Self::over(None)
    }

    fn over(stream: Option<Stream<R>>) -> Self {
        let kinds = std::array::from_fn(|code| u8::try_from(code).ok().and_then(Kind::from_code));
        Self {
            stream,
            kinds,
            body: Vec::new(),
            records: Vec::new(),
            unknown_kinds: 0,
            told_rows: 0,
            latest_ns: 0,
        }
    }

    /// The records of the next whole batch, without those of kinds that this release does not know. `None` when
    /// there is no further whole batch: [`RecordReader::problem`] has the cause.
    ///
    /// Damaged batches are passed over, and so is a repeated batch. In the place of damaged and of missing batches
    /// stand records of kind [`Kind::Loss`] that are not in the file: one for events, which counts the rows left
    /// out, and one for each point with a count of 0, because the points of these rows are unknown.
    ///
    /// Where times step back by more than [`TIME_STEP_BACK_NS_MAX`], a batch ends with such a record for each
    /// point, which covers the times that are there twice.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when the source cannot be read, [`Error::NewerVersion`] when a later release wrote it. Damage
    /// is not an error.
    pub fn next_batch(&mut self) -> Result<Option<&[Record]>, Error> {
        let Some(stream) = &mut self.stream else { return Ok(None) };
        let at_byte = stream.position();
        let layout = stream.next(Some(&mut self.body))?;
        debug_assert!(self.told_rows <= stream.damaged_rows());
        let missed_rows = stream.damaged_rows() - self.told_rows;
        self.records.clear();
        let is_batch = match layout.as_ref().map(|layout| (layout, layout.record_columns())) {
            Some((layout, Ok(columns))) => {
                self.decode(&columns, layout.rows);
                true
            }
            Some((layout, Err(expected))) => {
                stream.damaged(at_byte, layout, expected);
                false
            }
            None => false,
        };
        if missed_rows > 0 {
            self.tell_loss(missed_rows);
        }
        self.tell_steps_back();
        Ok((is_batch || missed_rows > 0).then_some(&self.records))
    }

    /// Puts loss records before the records of the batch.
    fn tell_loss(&mut self, rows: u64) {
        self.told_rows += rows;
        let since_ns = self.latest_ns.saturating_sub(ORDER_SLACK_NS);
        let next_ns = self.records.first().map_or(self.latest_ns, |record| record.at_ns);
        let until_ns = next_ns.max(self.latest_ns).saturating_add(ORDER_SLACK_NS);
        debug_assert!(since_ns <= until_ns);
        let until = Record { at_ns: until_ns, ..Record::default() };
        let events = until.with_loss(Loss::new(None, rows, since_ns));
        let points = of_each_point(since_ns, until_ns);
        self.records.splice(0..0, points.into_iter().chain([events]));
    }

    /// Puts loss records behind the records of the batch if their times are far before earlier ones.
    fn tell_steps_back(&mut self) {
        let (mut since_ns, mut until_ns) = (u64::MAX, 0);
        for record in self.records.iter().filter(|record| record.is_in_order()) {
            if self.latest_ns.saturating_sub(record.at_ns) > TIME_STEP_BACK_NS_MAX {
                (since_ns, until_ns) = (since_ns.min(record.at_ns), self.latest_ns);
            }
            // Recorders before 2026-11-24 wrote events before the hits of the same time.
            if record.kind.point().is_some() {
                self.latest_ns = self.latest_ns.max(record.at_ns);
            }
        }
        if since_ns < until_ns {
            self.records.extend(of_each_point(since_ns, until_ns));
        }
    }

    /// The records that the last [`RecordReader::next_batch`] gave.
    pub(crate) fn batch(&self) -> &[Record] {
        &self.records
    }

    /// Passes the next whole batch without decoding it, and returns its number of rows.
    ///
    /// # Errors
    ///
    /// As [`RecordReader::next_batch`].
    pub fn skip_batch(&mut self) -> Result<Option<u64>, Error> {
        let Some(stream) = &mut self.stream else { return Ok(None) };
        let at_byte = stream.position();
        let Some(layout) = stream.next(None)? else { return Ok(None) };
        if let Err(expected) = layout.record_columns() {
            stream.damaged(at_byte, &layout, expected);
            return Ok(None);
        }
        Ok(Some(layout.rows as u64))
    }

    /// Whole batches passed so far. The first one of a file is empty.
    pub fn batches(&self) -> u64 {
        self.stream.as_ref().map_or(0, Stream::batches)
    }

    /// Rows passed so far, including those of unknown kinds.
    pub fn rows(&self) -> u64 {
        self.stream.as_ref().map_or(0, Stream::rows)
    }

    /// Rows of batches that are damaged or missing so far.
    pub fn damaged_rows(&self) -> u64 {
        self.stream.as_ref().map_or(0, Stream::damaged_rows)
    }

    /// Records of unknown kinds that were skipped so far.
    pub fn unknown_kinds(&self) -> u64 {
        self.unknown_kinds
    }

    /// Whether the end mark was read: nothing will be added to this file.
    pub fn is_ended(&self) -> bool {
        self.stream.as_ref().is_some_and(Stream::is_ended)
    }

    /// Problem that prevents a further batch; `None` for a clean end.
    pub fn problem(&self) -> Option<Problem> {
        match &self.stream {
            Some(stream) => stream.problem(),
            None => Some(Problem::Missing { part: Part::Records }),
        }
    }

    /// Problems so far: damaged batches, then [`RecordReader::problem`].
    pub fn problems(&self) -> Vec<Problem> {
        match &self.stream {
            Some(stream) => stream.problems().collect(),
            None => self.problem().into_iter().collect(),
        }
    }

    fn decode(&mut self, columns: &[Range<usize>; 12], rows: usize) {
        let body = &self.body;
        let [at_ns, flow, kind, offset, len, cpu, thread, tcp_flags, marks, code, detail, extra] =
            columns.each_ref().map(|range| &body[range.clone()]);
        let (at_ns, flow, kind) =
            (numbers::<8>(at_ns, rows), numbers::<4>(flow, rows), &kind[..rows]);
        let (offset, len, cpu) =
            (numbers::<8>(offset, rows), numbers::<4>(len, rows), numbers::<2>(cpu, rows));
        let (thread, tcp_flags, marks) =
            (numbers::<4>(thread, rows), &tcp_flags[..rows], &marks[..rows]);
        let (code, detail, extra) =
            (&code[..rows], numbers::<8>(detail, rows), numbers::<4>(extra, rows));
        let kinds = &self.kinds;
        self.records.extend((0..rows).filter_map(|row| {
            Some(Record {
                kind: kinds[usize::from(kind[row])]?,
                at_ns: u64::from_le_bytes(at_ns[row]),
                offset: u64::from_le_bytes(offset[row]),
                detail: u64::from_le_bytes(detail[row]),
                flow: FlowId(u32::from_le_bytes(flow[row])),
                len: u32::from_le_bytes(len[row]),
                thread: u32::from_le_bytes(thread[row]),
                extra: u32::from_le_bytes(extra[row]),
                code: code[row],
                tcp_flags: tcp_flags[row],
                marks: marks[row],
                cpu: u16::from_le_bytes(cpu[row]),
            })
        }));
        debug_assert!(self.records.len() <= rows, "a row gives one record or none");
        self.unknown_kinds += (rows - self.records.len()) as u64;
    }
}

/// Losses of an unknown number of records of each point between these times.
fn of_each_point(since_ns: u64, until_ns: u64) -> [Record; 8] {
    let until = Record { at_ns: until_ns, ..Record::default() };
    Point::ALL.map(|point| until.with_loss(Loss::new(Some(point), 0, since_ns)))
}

/// The first `rows` numbers of `N` bytes; the layout has checked their number.
fn numbers<const N: usize>(bytes: &[u8], rows: usize) -> &[[u8; N]] {
    &bytes.as_chunks::<N>().0[..rows]
}
