//! The seal of every message of a bundle's streams, which detects changed bytes.
//!
//! The seal stands in the message's own metadata, where Arrow has room for keys and values, so that
//! other readers of Arrow pass over it. It holds two CRC-32 (the polynomial of IEEE 802.3): one of
//! the message's header, in which its own eight digits count as zeros, and one of its body. With a
//! header that is whole, the place of the next message is known even if the body is not; where the
//! header is damaged too, [`Seal::of`] recognises the next one that is whole, and `rows_before`
//! gives the number of rows between.

use std::collections::VecDeque;
use std::fmt::Display;

use arrow_buffer::Buffer;
use arrow_ipc::convert::{IpcSchemaEncoder, metadata_to_fb, try_fb_to_schema};
use arrow_ipc::{Message, MessageArgs, MessageHeader, RecordBatchArgs, root_as_message};
use arrow_schema::{ArrowError, Metadata};
use flatbuffers::{FlatBufferBuilder, UnionWIPOffset, WIPOffset};

/// Key of the header's CRC-32, in eight hexadecimal digits.
const HEADER_KEY: &str = "sockscope.header_crc32";

/// Key of the body's CRC-32, in eight hexadecimal digits.
const BODY_KEY: &str = "sockscope.body_crc32";

/// Key of the number of rows in the file before this message, in decimal digits.
const ROWS_KEY: &str = "sockscope.rows_before";

/// Digits in place of the header's CRC-32 while it is computed.
const NO_DIGITS: &str = "00000000";

/// Before a message's header: a mark and the header's length.
const PREFIX_BYTES: usize = 8;

/// The body begins at a multiple of this, as Arrow recommends.
const ALIGNMENT: usize = 64;

/// A seal whose header was found to be whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seal {
    /// CRC-32 of the body.
    pub(crate) body_crc: u32,
    /// Rows of the file before this message.
    pub(crate) rows_before: u64,
}

impl Seal {
    /// The seal of a message with this header; `None` for one without, as format version 1 has
    /// them. An error has the expected content.
    pub(crate) fn of(header: &[u8], message: &Message<'_>) -> Result<Option<Self>, String> {
        let [digits, body, rows] = [HEADER_KEY, BODY_KEY, ROWS_KEY].map(|key| value(message, key));
        if digits.is_none() && body.is_none() && rows.is_none() {
            return Ok(None);
        }
        let whole = || "a seal with checksums of header and body, and a count of rows".to_owned();
        let digits = digits.filter(|digits| digits.len() == NO_DIGITS.len()).ok_or_else(whole)?;
        // As text: a number would hide a changed bit between `a` and `A`.
        let computed = format!("{:08x}", header_crc(header, place_in(header, digits)));
        if digits != computed {
            return Err(format!("a header with checksum {digits}, not {computed}"));
        }
        let body_crc = body.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let rows_before = rows.and_then(|digits| digits.parse().ok());
        match (body_crc, rows_before) {
            (Some(body_crc), Some(rows_before)) => Ok(Some(Self { body_crc, rows_before })),
            _ => Err(whole()),
        }
    }

    /// Whether `body` is as written; an error has the expected content.
    pub(crate) fn check_body(self, body: &[u8]) -> Result<(), String> {
        let computed = crc32fast::hash(body);
        if computed == self.body_crc {
            return Ok(());
        }
        Err(format!("a body with checksum {:08x}, not {computed:08x}", self.body_crc))
    }
}

/// The messages in `encoded`, each with its seal: `rows_before` rows of the file lie before them.
/// Only the last may have rows. Bodies are not copied.
pub(crate) fn sealed(encoded: Vec<Buffer>, rows_before: u64) -> Result<Vec<Buffer>, ArrowError> {
    let mut rest = VecDeque::from(encoded);
    let mut sealed = Vec::with_capacity(rest.len() + 1);
    loop {
        let prefix = joined(&take(&mut rest, PREFIX_BYTES));
        let Some(length) = prefix.last_chunk::<4>().filter(|_| prefix.len() == PREFIX_BYTES) else {
            return Ok(sealed);
        };
        let header = joined(&take(&mut rest, u32::from_le_bytes(*length) as usize));
        let message = root_as_message(&header).map_err(not_ours)?;
        let body = take(&mut rest, usize::try_from(message.bodyLength()).map_err(not_ours)?);
        debug_assert!(body.iter().map(Buffer::len).sum::<usize>() as i64 == message.bodyLength());
        sealed.push(with_seal(&message, body_crc(&body), rows_before)?.into());
        sealed.extend(body);
    }
}

/// Prefix and header of `message` with its seal in it.
fn with_seal(message: &Message<'_>, body: u32, rows_before: u64) -> Result<Vec<u8>, ArrowError> {
    let mut builder = FlatBufferBuilder::new();
    let inner = inner(&mut builder, message)?;
    let metadata: Metadata = [
        (HEADER_KEY.to_owned(), NO_DIGITS.to_owned()),
        (BODY_KEY.to_owned(), format!("{body:08x}")),
        (ROWS_KEY.to_owned(), rows_before.to_string()),
    ]
    .into_iter()
    .collect();
    let arguments = MessageArgs {
        version: message.version(),
        header_type: message.header_type(),
        header: Some(inner),
        bodyLength: message.bodyLength(),
        custom_metadata: Some(metadata_to_fb(&mut builder, &metadata)),
    };
    let root = Message::create(&mut builder, &arguments);
    builder.finish(root, None);
    framed(builder.finished_data())
}

/// The message's own header, built anew: a schema, or a batch without compression.
fn inner(
    builder: &mut FlatBufferBuilder<'_>,
    message: &Message<'_>,
) -> Result<WIPOffset<UnionWIPOffset>, ArrowError> {
    if let Some(schema) = message.header_as_schema() {
        let schema = try_fb_to_schema(schema)?;
        let root = IpcSchemaEncoder::new().schema_to_fb_offset(builder, &schema);
        return Ok(root.as_union_value());
    }
    let Some(batch) = message.header_as_record_batch() else {
        return Err(not_ours(MessageHeader::RecordBatch.variant_name().unwrap_or_default()));
    };
    let nodes = batch.nodes().map(|nodes| builder.create_vector_from_iter(nodes.iter().copied()));
    let buffers =
        batch.buffers().map(|buffers| builder.create_vector_from_iter(buffers.iter().copied()));
    let length = batch.length();
    let arguments = RecordBatchArgs { length, nodes, buffers, ..RecordBatchArgs::default() };
    Ok(arrow_ipc::RecordBatch::create(builder, &arguments).as_union_value())
}

/// The header behind its prefix, filled up to the alignment, and its checksum put in.
fn framed(header: &[u8]) -> Result<Vec<u8>, ArrowError> {
    let whole = (PREFIX_BYTES + header.len()).next_multiple_of(ALIGNMENT);
    let length = u32::try_from(whole - PREFIX_BYTES).map_err(not_ours)?;
    let mut bytes = Vec::with_capacity(whole);
    bytes.extend([0xff; 4]);
    bytes.extend(length.to_le_bytes());
    bytes.extend(header);
    bytes.resize(whole, 0);
    let header = &mut bytes[PREFIX_BYTES..];
    let message = root_as_message(header).map_err(not_ours)?;
    let digits = value(&message, HEADER_KEY).ok_or_else(|| not_ours("its seal"))?;
    let at = place_in(header, digits);
    let crc = header_crc(header, at);
    header[at..at + NO_DIGITS.len()].copy_from_slice(format!("{crc:08x}").as_bytes());
    Ok(bytes)
}

/// CRC-32 of a header, with zeros for the digits at `digits_at`.
fn header_crc(header: &[u8], digits_at: usize) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&header[..digits_at]);
    hasher.update(NO_DIGITS.as_bytes());
    hasher.update(&header[digits_at + NO_DIGITS.len()..]);
    hasher.finalize()
}

fn body_crc(body: &[Buffer]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    body.iter().for_each(|part| hasher.update(part.as_slice()));
    hasher.finalize()
}

fn value<'a>(message: &Message<'a>, key: &str) -> Option<&'a str> {
    let mut entries = message.custom_metadata()?.iter();
    entries.find(|entry| entry.key() == Some(key))?.value()
}

/// Offset of `text` in `header`, which contains it.
fn place_in(header: &[u8], text: &str) -> usize {
    text.as_ptr() as usize - header.as_ptr() as usize
}

/// Takes `bytes` bytes, or as many as there are, from the front.
fn take(rest: &mut VecDeque<Buffer>, mut bytes: usize) -> Vec<Buffer> {
    let mut taken = Vec::new();
    while bytes > 0 {
        let Some(first) = rest.pop_front() else { break };
        let here = bytes.min(first.len());
        if here < first.len() {
            rest.push_front(first.slice(here));
        }
        taken.push(first.slice_with_length(0, here));
        bytes -= here;
    }
    taken
}

fn joined(parts: &[Buffer]) -> Vec<u8> {
    parts.iter().flat_map(|part| part.as_slice()).copied().collect()
}

fn not_ours(what: impl Display) -> ArrowError {
    ArrowError::IpcError(format!("expected a message of the encoder: {what}"))
}
