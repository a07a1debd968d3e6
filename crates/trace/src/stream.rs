//! Reading an Arrow stream message by message, from untrusted bytes.
//!
//! No value is used before it is checked against the file's length and the format's limits, so that hostile
//! bytes neither panic nor allocate beyond one batch. A message counts when all of it is there; until then the
//! position stays before it, so that a file that still grows can be read again. A message that its seal shows to
//! be damaged is passed over, and its rows are counted; so are rows that were written before a message, by its
//! seal, and are not there. A repeated message is passed over.

mod resync;
mod search;

use search::Search;

use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use arrow_ipc::{Endianness, Message, convert, root_as_message};
use arrow_schema::Schema;

use crate::compat;
use crate::damage::Damage;
use crate::error::{Error, Problem};
use crate::format::{BODY_BYTES_MAX, HEADER_BYTES_MAX, Part, SEALED_VERSION, VERSION_KEY};
use crate::layout::BatchLayout;
use crate::seal::Seal;

/// Begins every message.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// Bytes before a message's header: continuation and header length.
const PREFIX_BYTES: u64 = 8;

/// A stream of batches, read up to a position.
#[derive(Debug)]
pub(crate) struct Stream<R> {
    source: R,
    path: PathBuf,
    part: Part,
    /// The required content of the first message.
    expected: Schema,
    schema_seen: bool,
    /// The columns of the file; `None` where the message that names them is damaged.
    columns: Option<Schema>,
    /// Each message has a seal; known once the schema is.
    is_sealed: bool,
    state: State,
    /// Length of the file when it was last looked at.
    length: u64,
    position: u64,
    batches: u64,
    rows: u64,
    damage: Damage,
    header: Vec<u8>,
    search: Search,
}

/// State of the bytes at the position.
#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    /// Not known yet, or the end of a file that may still grow.
    Open,
    /// Part of a message, and the end of a file that may still grow.
    Cut,
    /// The end mark, and this many bytes after it.
    Ended { trailing_bytes: u64 },
    /// Something else than `expected`.
    Damaged { expected: String },
}

impl State {
    /// The expected content, where the bytes at the position may be damaged ones with whole
    /// messages behind them.
    fn suspicion(&self) -> Option<String> {
        match self {
            Self::Cut => Some("a message that ends inside the file".into()),
            Self::Ended { trailing_bytes: 1.. } => Some("nothing behind an end mark".into()),
            Self::Damaged { expected } => Some(expected.clone()),
            Self::Open | Self::Ended { .. } => None,
        }
    }
}

/// A message's place in the file.
struct Frame {
    body_at: u64,
    body_bytes: u64,
    seal: Option<Seal>,
}

impl Frame {
    /// Start of the next message.
    fn end(&self) -> u64 {
        self.body_at + self.body_bytes
    }
}

impl<R: Read + Seek> Stream<R> {
    /// Starts at the first byte of `source`; `path` is for error messages.
    pub(crate) fn new(source: R, path: &Path, part: Part, expected: Schema) -> Self {
        Self {
            source,
            path: path.to_owned(),
            part,
            expected,
            schema_seen: false,
            columns: None,
            is_sealed: false,
            state: State::Open,
            length: 0,
            position: 0,
            batches: 0,
            rows: 0,
            damage: Damage::default(),
            header: Vec::new(),
            search: Search::default(),
        }
    }

    /// The next whole batch, `None` without one by now; see [`Stream::problem`] for why.
    /// Its body is read into `body`, and held against its seal, if one is given.
    pub(crate) fn next(
        &mut self,
        mut body: Option<&mut Vec<u8>>,
    ) -> Result<Option<BatchLayout>, Error> {
        loop {
            let Some(frame) = self.next_frame()? else {
                match self.state.suspicion() {
                    Some(expected) if self.resync(&expected)? => continue,
                    _ => return Ok(None),
                }
            };
            let layout = match self.interpret(&frame)? {
                Ok(layout) => layout,
                Err(expected) if self.resync(&expected)? => continue,
                Err(expected) => {
                    self.state = State::Damaged { expected };
                    return Ok(None);
                }
            };
            let Some(layout) = layout else {
                self.position = frame.end();
                continue;
            };
            if !self.is_next(&frame, &layout) {
                continue;
            }
            if let Some(body) = body.as_deref_mut()
                && let Err(expected) = self.read_body(&frame, body)?
            {
                self.leave_out(frame.end(), layout.rows as u64, expected);
                continue;
            }
            debug_assert!(self.position < frame.end() && frame.end() <= self.length);
            self.position = frame.end();
            self.batches += 1;
            self.rows += layout.rows as u64;
            return Ok(Some(layout));
        }
    }

    /// Whether a batch is the next one that was written, by the rows that its seal counts before it. Rows
    /// that are not there are missed; a batch that was read before is passed over.
    fn is_next(&mut self, frame: &Frame, layout: &BatchLayout) -> bool {
        let Some(seal) = frame.seal else { return true };
        let missing = i128::from(seal.rows_before) - i128::from(self.rows_accounted());
        if missing < 0 {
            debug_assert!(self.position < frame.end(), "a repeated batch is passed over once");
            let batch = self.batches + self.damage.batches();
            self.damage.add_repeated(self.part, batch, self.position, layout.rows as u64);
            self.position = frame.end();
            return false;
        }
        if let Ok(rows @ 1..) = u64::try_from(missing) {
            self.damage.add_missing(self.part, self.position, rows);
        }
        true
    }

    /// Rows that were given, or are known to be missing.
    fn rows_accounted(&self) -> u64 {
        self.rows.saturating_add(self.damage.rows())
    }

    /// The inner error names the difference between the body and the written one.
    fn read_body(
        &mut self,
        frame: &Frame,
        body: &mut Vec<u8>,
    ) -> Result<Result<(), String>, Error> {
        // Fits: bounded by `BODY_BYTES_MAX` and by the file's length.
        let more = (frame.body_bytes as usize).saturating_sub(body.len());
        body.try_reserve(more).map_err(|_| Error::no_memory(&self.path))?;
        body.resize(frame.body_bytes as usize, 0);
        debug_assert_eq!(body.len() as u64, frame.body_bytes);
        read_at(&mut self.source, frame.body_at, body).map_err(Error::io(&self.path))?;
        Ok(frame.seal.map_or(Ok(()), |seal| seal.check_body(body)))
    }

    /// Goes on at `next_at`: the bytes before it had `rows` rows, and differ from the written ones.
    fn leave_out(&mut self, next_at: u64, rows: u64, expected: String) {
        debug_assert!(self.position < next_at && next_at <= self.length);
        let batch = self.batches + self.damage.batches();
        self.damage.add(self.part, batch, self.position, rows, expected);
        self.position = next_at;
        self.state = State::Open;
    }

    /// Stops here finally: the batch just read is not of the expected form.
    pub(crate) fn damaged(&mut self, at_byte: u64, layout: &BatchLayout, expected: String) {
        debug_assert!(at_byte < self.position && self.rows >= layout.rows as u64);
        self.position = at_byte;
        self.batches -= 1;
        self.rows -= layout.rows as u64;
        self.state = State::Damaged { expected };
    }

    /// The columns of the file; `None` before they are read, and where that message is damaged.
    pub(crate) fn columns(&self) -> Option<&Schema> {
        self.columns.as_ref()
    }

    /// Position of the next message, in bytes.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Whole batches so far.
    pub(crate) fn batches(&self) -> u64 {
        self.batches
    }

    /// Rows of the whole batches so far.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Rows of batches that are damaged or missing so far.
    pub(crate) fn damaged_rows(&self) -> u64 {
        self.damage.rows()
    }

    /// Batches that are damaged, missing or repeated so far, then why there is no further batch by now.
    pub(crate) fn problems(&self) -> impl Iterator<Item = Problem> {
        self.damage.problems(self.part).chain(self.problem())
    }

    /// Whether the end mark was read.
    pub(crate) fn is_ended(&self) -> bool {
        matches!(self.state, State::Ended { .. })
    }

    /// Problem by which the last [`Stream::next`] gave no batch; `None` for a clean end.
    pub(crate) fn problem(&self) -> Option<Problem> {
        let Self { part, position: at_byte, batches, rows, .. } = *self;
        match &self.state {
            State::Open => Some(Problem::NotFinished { part, at_byte, batches, rows }),
            State::Cut => Some(Problem::Truncated { part, at_byte, batches, rows }),
            State::Ended { trailing_bytes: 0 } => None,
            State::Ended { trailing_bytes: bytes } => {
                Some(Problem::Trailing { part, at_byte: at_byte + PREFIX_BYTES, bytes: *bytes })
            }
            State::Damaged { expected } => {
                let expected = expected.clone();
                Some(Problem::Damaged { part, at_byte, batches, rows, expected })
            }
        }
    }

    /// Reads the header of the message at the position into `self.header`, if it is whole.
    fn next_frame(&mut self) -> Result<Option<Frame>, Error> {
        if matches!(self.state, State::Ended { .. } | State::Damaged { .. }) {
            return Ok(None);
        }
        self.length = self.source.seek(SeekFrom::End(0)).map_err(Error::io(&self.path))?;
        self.state = State::Open;
        let left = self.length.saturating_sub(self.position);
        if left == 0 {
            return Ok(None);
        }
        self.state = State::Cut;
        let mut prefix = [0; PREFIX_BYTES as usize];
        let prefix = &mut prefix[..left.min(PREFIX_BYTES) as usize];
        read_at(&mut self.source, self.position, prefix).map_err(Error::io(&self.path))?;
        let header_bytes = match header_bytes(prefix) {
            Ok(Some(0)) => {
                self.state = State::Ended { trailing_bytes: left - PREFIX_BYTES };
                return Ok(None);
            }
            Ok(Some(bytes)) if PREFIX_BYTES + bytes <= left => bytes,
            Ok(_) => return Ok(None),
            Err(expected) => {
                self.state = State::Damaged { expected };
                return Ok(None);
            }
        };
        // Fits: bounded by `HEADER_BYTES_MAX`.
        self.header.resize(header_bytes as usize, 0);
        read_at(&mut self.source, self.position + PREFIX_BYTES, &mut self.header)
            .map_err(Error::io(&self.path))?;
        let body_at = self.position + PREFIX_BYTES + header_bytes;
        debug_assert!(header_bytes <= HEADER_BYTES_MAX && body_at <= self.length);
        match body_and_seal(&self.header) {
            Ok((_, None)) if self.is_sealed => {
                self.state = State::Damaged { expected: "a message with a seal".into() };
                Ok(None)
            }
            Ok((body_bytes, seal)) if body_bytes <= self.length - body_at => {
                Ok(Some(Frame { body_at, body_bytes, seal }))
            }
            Ok(_) => Ok(None),
            Err(expected) => {
                self.state = State::Damaged { expected };
                Ok(None)
            }
        }
    }

    /// Layout of the message in `self.header` if it is a batch; `None` for the schema. The inner
    /// error is damage, and has the expected content.
    fn interpret(&mut self, frame: &Frame) -> Result<Result<Option<BatchLayout>, String>, Error> {
        let message = match root_as_message(&self.header) {
            Ok(message) => message,
            Err(error) => return Ok(Err(format!("a message header: {error}"))),
        };
        if self.schema_seen {
            return Ok(BatchLayout::new(&message, frame.body_bytes).map(Some));
        }
        let schema = match schema_of(&message) {
            Ok(schema) => schema,
            Err(expected) => return Ok(Err(expected)),
        };
        let version = schema.metadata.get(VERSION_KEY).and_then(|text| text.parse().ok());
        // Every version has its number here: without it a damaged header would pass for an old one.
        let Some(version) = version else {
            return Ok(Err("a schema that says the version of the format".into()));
        };
        compat::supported(&self.path, version)?;
        if version >= SEALED_VERSION && frame.seal.is_none() {
            return Ok(Err("a message with a seal".into()));
        }
        if let Err(expected) = has_columns(&schema, &self.expected) {
            return Ok(Err(expected));
        }
        (self.schema_seen, self.is_sealed) = (true, frame.seal.is_some());
        self.columns = Some(schema);
        Ok(Ok(None))
    }
}

/// Length of the header by the message's first bytes, as many as exist; `None` when they are
/// too few, 0 for the end mark.
fn header_bytes(prefix: &[u8]) -> Result<Option<u64>, String> {
    let (mark, length) = prefix.split_at(prefix.len().min(CONTINUATION.len()));
    if *mark != CONTINUATION[..mark.len()] {
        return Err("the mark ff ff ff ff before a message".into());
    }
    let Ok(length) = <[u8; 4]>::try_from(length) else { return Ok(None) };
    let length = u64::from(u32::from_le_bytes(length));
    if length > HEADER_BYTES_MAX {
        return Err(format!("a message header of at most {HEADER_BYTES_MAX} bytes, not {length}"));
    }
    Ok(Some(length))
}

fn body_and_seal(header: &[u8]) -> Result<(u64, Option<Seal>), String> {
    let message = root_as_message(header).map_err(|error| format!("a message header: {error}"))?;
    let seal = Seal::of(header, &message)?;
    let length = message.bodyLength();
    match u64::try_from(length) {
        Ok(bytes) if bytes <= BODY_BYTES_MAX => Ok((bytes, seal)),
        _ => Err(format!("a message body of 0 to {BODY_BYTES_MAX} bytes, not {length}")),
    }
}

fn schema_of(message: &Message<'_>) -> Result<Schema, String> {
    let schema = message.header_as_schema().ok_or("a schema as the first message")?;
    if schema.endianness() != Endianness::Little {
        return Err("little-endian numbers".into());
    }
    convert::try_fb_to_schema(schema).map_err(|error| format!("a schema: {error}"))
}

/// Whether `found` starts with the columns of `expected`; it may have more behind them.
fn has_columns(found: &Schema, expected: &Schema) -> Result<(), String> {
    for (number, column) in expected.fields.iter().enumerate() {
        let (name, data_type) = (column.name(), column.data_type());
        let is_there = found
            .fields
            .get(number)
            .is_some_and(|field| field.name() == name && field.data_type() == data_type);
        if !is_there {
            return Err(format!("column {number} to be {name}, {data_type}"));
        }
    }
    Ok(())
}

fn read_at(source: &mut (impl Read + Seek), at: u64, bytes: &mut [u8]) -> std::io::Result<()> {
    source.seek(SeekFrom::Start(at))?;
    source.read_exact(bytes)
}
