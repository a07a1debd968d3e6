//! Reading an Arrow stream message by message, from bytes that nobody vouches for.
//!
//! Nothing is believed before it is checked against the file's length and the format's limits, so
//! that hostile bytes neither panic nor allocate beyond one batch. A message counts when all of it
//! is there; until then the position stays before it, so that a file that still grows can be asked
//! again.

use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use arrow_ipc::{Endianness, Message, convert, root_as_message};
use arrow_schema::Schema;

use crate::compat;
use crate::error::{Error, Problem};
use crate::format::{BODY_BYTES_MAX, HEADER_BYTES_MAX, Part, VERSION_KEY};
use crate::layout::BatchLayout;

/// Begins every message.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// Bytes before a message's header: continuation and header length.
const PREFIX_BYTES: u64 = 8;

/// Where a stream of batches has been read to.
#[derive(Debug)]
pub(crate) struct Stream<R> {
    source: R,
    path: PathBuf,
    part: Part,
    /// What the first message must say.
    expected: Schema,
    schema_seen: bool,
    state: State,
    position: u64,
    batches: u64,
    rows: u64,
    header: Vec<u8>,
}

/// What lies at the position.
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

/// A message's place in the file.
struct Frame {
    body_at: u64,
    body_bytes: u64,
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
            state: State::Open,
            position: 0,
            batches: 0,
            rows: 0,
            header: Vec::new(),
        }
    }

    /// The next whole batch, `None` when there is none by now; see [`Stream::problem`] for why.
    /// Its body is read into `body` if one is given.
    pub(crate) fn next(
        &mut self,
        mut body: Option<&mut Vec<u8>>,
    ) -> Result<Option<BatchLayout>, Error> {
        while let Some(frame) = self.next_frame()? {
            let layout = match self.interpret(&frame)? {
                Ok(layout) => layout,
                Err(expected) => {
                    self.state = State::Damaged { expected };
                    return Ok(None);
                }
            };
            if let (Some(body), Some(_)) = (body.as_deref_mut(), &layout) {
                // Fits: bounded by `BODY_BYTES_MAX` and by the file's length.
                body.resize(frame.body_bytes as usize, 0);
                read_at(&mut self.source, frame.body_at, body).map_err(Error::io(&self.path))?;
            }
            self.position = frame.body_at + frame.body_bytes;
            if let Some(layout) = layout {
                self.batches += 1;
                self.rows += layout.rows as u64;
                return Ok(Some(layout));
            }
        }
        Ok(None)
    }

    /// Stops here for good: the batch just read is not what it should be.
    pub(crate) fn damaged(&mut self, at_byte: u64, layout: &BatchLayout, expected: String) {
        self.position = at_byte;
        self.batches -= 1;
        self.rows -= layout.rows as u64;
        self.state = State::Damaged { expected };
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

    /// Whether the end mark was read.
    pub(crate) fn is_ended(&self) -> bool {
        matches!(self.state, State::Ended { .. })
    }

    /// Why the last [`Stream::next`] gave no batch; `None` for a clean end.
    pub(crate) fn problem(&self) -> Option<Problem> {
        let Self { part, position: at_byte, batches, rows, .. } = *self;
        match &self.state {
            State::Open => Some(Problem::NotFinished { part, at_byte, batches, rows }),
            State::Cut => Some(Problem::Truncated { part, at_byte, batches, rows }),
            State::Ended { trailing_bytes: 0 } => None,
            State::Ended { trailing_bytes: bytes } => {
                Some(Problem::Trailing { part, at_byte, bytes: *bytes })
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
        let length = self.source.seek(SeekFrom::End(0)).map_err(Error::io(&self.path))?;
        self.state = State::Open;
        let left = length.saturating_sub(self.position);
        if left == 0 {
            return Ok(None);
        }
        self.state = State::Cut;
        let mut prefix = [0; PREFIX_BYTES as usize];
        let prefix = &mut prefix[..left.min(PREFIX_BYTES) as usize];
        read_at(&mut self.source, self.position, prefix).map_err(Error::io(&self.path))?;
        let header_bytes = match header_bytes(prefix) {
            Ok(Some(0)) => {
                self.position += PREFIX_BYTES;
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
        match body_bytes(&self.header) {
            Ok(body_bytes) if body_bytes <= length - body_at => {
                Ok(Some(Frame { body_at, body_bytes }))
            }
            Ok(_) => Ok(None),
            Err(expected) => {
                self.state = State::Damaged { expected };
                Ok(None)
            }
        }
    }

    /// What the message in `self.header` is: a batch, or the schema (`None`). The inner error is
    /// damage, and says what was expected.
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
        compat::supported(&self.path, version.unwrap_or(0))?;
        if let Err(expected) = has_columns(&schema, &self.expected) {
            return Ok(Err(expected));
        }
        self.schema_seen = true;
        Ok(Ok(None))
    }
}

/// Length of the header by the message's first bytes, as many as there are; `None` when they are
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

fn body_bytes(header: &[u8]) -> Result<u64, String> {
    let message = root_as_message(header).map_err(|error| format!("a message header: {error}"))?;
    let length = message.bodyLength();
    match u64::try_from(length) {
        Ok(bytes) if bytes <= BODY_BYTES_MAX => Ok(bytes),
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
