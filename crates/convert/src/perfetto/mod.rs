//! A trace for Perfetto: a tree of tracks with slices, counters and arrows.
//!
//! Times are nanoseconds of the monotonic clock, so that the trace can be merged with others of the same machine.

mod encode;
mod message;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io::{self, Write};

use message::{
    Clock, ClockSnapshot, CounterDescriptor, Interned, InternedData, TracePacket, TrackDescriptor,
};
use prost::Message;

/// Numbers of the kernel's clocks there, which have those of `clock_gettime` but one: 6 is the time since boot.
const REALTIME: u32 = 1;
const MONOTONIC: u32 = 3;

const SLICE_BEGIN: u64 = 1;
const SLICE_END: u64 = 2;
const INSTANT: u64 = 3;
const COUNTER: u64 = 4;

/// Numbers of the fields of events and of their packets, as in `message`.
mod field {
    pub const PACKET: u32 = 1;
    pub const TIMESTAMP: u32 = 8;
    pub const SEQUENCE: u32 = 10;
    pub const EVENT: u32 = 11;
    pub const INTERNED: u32 = 12;
    pub const FLAGS: u32 = 13;
    pub const CLOCK: u32 = 58;
    pub const CATEGORY: u32 = 3;
    pub const NOTE: u32 = 4;
    pub const KIND: u32 = 9;
    pub const NAME: u32 = 10;
    pub const TRACK: u32 = 11;
    pub const COUNT: u32 = 30;
    pub const ARROW: u32 = 47;
    pub const NOTE_NUMBER: u32 = 3;
    pub const NOTE_TEXT: u32 = 6;
    pub const NOTE_NAME: u32 = 10;
}

/// All packets are of one writer.
const WRITER: u32 = 1;
const STATE_CLEARED: u32 = 1;
const NEEDS_STATE: u64 = 2;

/// Children stand in the order of their ranks.
const BY_RANK: u32 = 3;
/// Tracks of one name stay apart.
const MERGE_NONE: u32 = 2;
const BYTES: u32 = 3;

/// A track.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TrackId(u64);

/// How a track looks, and where it stands.
#[derive(Debug, Clone, Default)]
pub struct Track<'a> {
    /// Its name.
    pub name: &'a str,
    /// One line for its help.
    pub description: &'a str,
    /// The track above it.
    pub parent: Option<TrackId>,
    /// Its place among the children of its parent.
    pub rank: i32,
    /// A counter of bytes; those of one name have one scale.
    pub bytes_on_scale: Option<&'a str>,
}

/// A note at an event.
#[derive(Debug, Clone, Copy)]
pub enum Note<'a> {
    /// A number.
    Number(&'a str, u64),
    /// Text.
    Text(&'a str, &'a str),
}

/// An event on a track.
#[derive(Debug, Clone, Copy, Default)]
pub struct Event<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its category.
    pub category: &'a str,
    /// Notes that show when it is chosen.
    pub notes: &'a [Note<'a>],
    /// An arrow leads from each event with this number to the next one.
    pub arrow: Option<u64>,
}

/// Writes a trace.
pub struct Writer<W> {
    out: W,
    buffer: Vec<u8>,
    /// The event that is being encoded, and a note of it.
    event: Vec<u8>,
    note: Vec<u8>,
    tracks: u64,
    names: HashMap<String, u64>,
    categories: HashMap<String, u64>,
    /// Events written.
    events: u64,
}

impl<W: Write> Writer<W> {
    /// A trace whose clocks showed these times, in nanoseconds, at one moment.
    ///
    /// # Errors
    ///
    /// When `out` fails.
    pub fn new(out: W, monotonic_ns: u64, realtime_ns: u64) -> io::Result<Self> {
        let mut writer = Self {
            out,
            buffer: Vec::new(),
            event: Vec::new(),
            note: Vec::new(),
            tracks: 0,
            names: HashMap::new(),
            categories: HashMap::new(),
            events: 0,
        };
        let clock = |id, timestamp| Clock { clock_id: Some(id), timestamp: Some(timestamp) };
        let clocks = vec![clock(REALTIME, realtime_ns), clock(MONOTONIC, monotonic_ns)];
        let snapshot = ClockSnapshot { clocks, primary_trace_clock: Some(MONOTONIC) };
        writer.write(TracePacket {
            clock_snapshot: Some(snapshot),
            sequence_flags: Some(STATE_CLEARED),
            ..TracePacket::default()
        })?;
        Ok(writer)
    }

    /// Adds a track.
    ///
    /// # Errors
    ///
    /// When the output fails.
    pub fn track(&mut self, track: &Track<'_>) -> io::Result<TrackId> {
        self.tracks += 1;
        let counter = track.bytes_on_scale.map(|scale| CounterDescriptor {
            unit: Some(BYTES),
            y_axis_share_key: Some(scale.to_owned()),
        });
        let descriptor = TrackDescriptor {
            uuid: Some(self.tracks),
            name: Some(track.name.to_owned()),
            parent_uuid: track.parent.map(|parent| parent.0),
            counter,
            child_ordering: Some(BY_RANK),
            sibling_order_rank: Some(track.rank),
            description: Some(track.description.to_owned()).filter(|words| !words.is_empty()),
            sibling_merge_behavior: Some(MERGE_NONE),
        };
        self.write(TracePacket { track_descriptor: Some(descriptor), ..TracePacket::default() })?;
        Ok(TrackId(self.tracks))
    }

    /// A slice of time. Slices of a track must not overlap.
    ///
    /// # Errors
    ///
    /// When the output fails.
    pub fn slice(
        &mut self,
        track: TrackId,
        (from_ns, to_ns): (u64, u64),
        event: Event<'_>,
    ) -> io::Result<()> {
        self.event(track, from_ns, SLICE_BEGIN, event)?;
        self.event.clear();
        encode::number(&mut self.event, field::KIND, SLICE_END);
        encode::number(&mut self.event, field::TRACK, track.0);
        self.write_event(to_ns, None)
    }

    /// An event without a duration.
    ///
    /// # Errors
    ///
    /// When the output fails.
    pub fn instant(&mut self, track: TrackId, at_ns: u64, event: Event<'_>) -> io::Result<()> {
        self.event(track, at_ns, INSTANT, event)
    }

    /// The value of a counter from this time on.
    ///
    /// # Errors
    ///
    /// When the output fails.
    pub fn count(&mut self, track: TrackId, at_ns: u64, value: i64) -> io::Result<()> {
        self.event.clear();
        encode::number(&mut self.event, field::KIND, COUNTER);
        encode::number(&mut self.event, field::TRACK, track.0);
        encode::number(&mut self.event, field::COUNT, value.cast_unsigned());
        self.write_event(at_ns, None)
    }

    /// Ends the trace; the number of its events.
    ///
    /// # Errors
    ///
    /// When the output fails.
    pub fn finish(mut self) -> io::Result<u64> {
        self.out.flush()?;
        Ok(self.events)
    }

    fn event(&mut self, track: TrackId, at_ns: u64, kind: u64, event: Event<'_>) -> io::Result<()> {
        let (name, new_name) = interned(&mut self.names, event.name);
        let (category, new_category) = interned(&mut self.categories, event.category);
        let is_new = new_name.is_some() || new_category.is_some();
        let data = is_new.then(|| InternedData {
            event_names: new_name.into_iter().collect(),
            event_categories: new_category.into_iter().collect(),
        });
        let out = &mut self.event;
        out.clear();
        encode::number(out, field::CATEGORY, category);
        for note in event.notes {
            self.note.clear();
            match note {
                Note::Number(name, value) => {
                    encode::number(&mut self.note, field::NOTE_NUMBER, *value);
                    encode::octets(&mut self.note, field::NOTE_NAME, name.as_bytes());
                }
                Note::Text(name, text) => {
                    encode::octets(&mut self.note, field::NOTE_TEXT, text.as_bytes());
                    encode::octets(&mut self.note, field::NOTE_NAME, name.as_bytes());
                }
            }
            encode::octets(out, field::NOTE, &self.note);
        }
        encode::number(out, field::KIND, kind);
        encode::number(out, field::NAME, name);
        encode::number(out, field::TRACK, track.0);
        if let Some(arrow) = event.arrow {
            encode::fixed(out, field::ARROW, arrow);
        }
        self.write_event(at_ns, data)
    }

    /// Writes the packet of `self.event`.
    fn write_event(&mut self, at_ns: u64, data: Option<InternedData>) -> io::Result<()> {
        self.events += 1;
        let out = &mut self.buffer;
        out.clear();
        encode::number(out, field::TIMESTAMP, at_ns);
        encode::number(out, field::SEQUENCE, WRITER.into());
        encode::octets(out, field::EVENT, &self.event);
        if let Some(data) = data {
            encode::octets(out, field::INTERNED, &data.encode_to_vec());
        }
        encode::number(out, field::FLAGS, NEEDS_STATE);
        encode::number(out, field::CLOCK, MONOTONIC.into());
        self.write_packet()
    }

    fn write(&mut self, packet: TracePacket) -> io::Result<()> {
        let packet = TracePacket { trusted_packet_sequence_id: Some(WRITER), ..packet };
        self.buffer.clear();
        packet.encode_raw(&mut self.buffer);
        self.write_packet()
    }

    /// Writes `self.buffer`: a trace is a list of packets.
    fn write_packet(&mut self) -> io::Result<()> {
        self.note.clear();
        encode::head(&mut self.note, field::PACKET, self.buffer.len());
        self.out.write_all(&self.note)?;
        self.out.write_all(&self.buffer)
    }
}

/// The number of a text, and the text with it where it is new.
fn interned(known: &mut HashMap<String, u64>, text: &str) -> (u64, Option<Interned>) {
    if let Some(number) = known.get(text) {
        return (*number, None);
    }
    // 0 is no number.
    let number = known.len() as u64 + 1;
    known.insert(text.to_owned(), number);
    (number, Some(Interned { iid: Some(number), name: Some(text.to_owned()) }))
}
