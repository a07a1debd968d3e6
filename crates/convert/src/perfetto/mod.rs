//! A trace for Perfetto: a tree of tracks with slices, counters and arrows.
//!
//! Times are nanoseconds of the monotonic clock, so that the trace can be merged with others of the same machine.

mod message;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io::{self, Write};

use message::{
    Clock, ClockSnapshot, CounterDescriptor, DebugAnnotation, Interned, InternedData, TracePacket,
    TrackDescriptor, TrackEvent,
};

/// Numbers of the kernel's clocks there, which have those of `clock_gettime` but one: 6 is the time since boot.
const REALTIME: u32 = 1;
const MONOTONIC: u32 = 3;

const SLICE_BEGIN: u32 = 1;
const SLICE_END: u32 = 2;
const INSTANT: u32 = 3;
const COUNTER: u32 = 4;

/// All packets are of one writer.
const WRITER: u32 = 1;
const STATE_CLEARED: u32 = 1;
const NEEDS_STATE: u32 = 2;

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
        let end = TrackEvent {
            kind: Some(SLICE_END),
            track_uuid: Some(track.0),
            ..TrackEvent::default()
        };
        self.write_event(to_ns, end, None)
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
        let event = TrackEvent {
            kind: Some(COUNTER),
            track_uuid: Some(track.0),
            counter_value: Some(value),
            ..TrackEvent::default()
        };
        self.write_event(at_ns, event, None)
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

    fn event(&mut self, track: TrackId, at_ns: u64, kind: u32, event: Event<'_>) -> io::Result<()> {
        let (name, new_name) = interned(&mut self.names, event.name);
        let (category, new_category) = interned(&mut self.categories, event.category);
        let is_new = new_name.is_some() || new_category.is_some();
        let data = is_new.then(|| InternedData {
            event_names: new_name.into_iter().collect(),
            event_categories: new_category.into_iter().collect(),
        });
        let note = |note: &Note<'_>| match *note {
            Note::Number(name, value) => DebugAnnotation {
                name: Some(name.to_owned()),
                uint_value: Some(value),
                string_value: None,
            },
            Note::Text(name, text) => DebugAnnotation {
                name: Some(name.to_owned()),
                uint_value: None,
                string_value: Some(text.to_owned()),
            },
        };
        let event = TrackEvent {
            category_iids: vec![category],
            debug_annotations: event.notes.iter().map(note).collect(),
            kind: Some(kind),
            name_iid: Some(name),
            track_uuid: Some(track.0),
            counter_value: None,
            flow_ids: event.arrow.into_iter().collect(),
        };
        self.write_event(at_ns, event, data)
    }

    fn write_event(
        &mut self,
        at_ns: u64,
        event: TrackEvent,
        data: Option<InternedData>,
    ) -> io::Result<()> {
        self.events += 1;
        self.write(TracePacket {
            timestamp: Some(at_ns),
            timestamp_clock_id: Some(MONOTONIC),
            track_event: Some(event),
            interned_data: data,
            sequence_flags: Some(NEEDS_STATE),
            ..TracePacket::default()
        })
    }

    /// A trace is a list of packets, which is field 1.
    fn write(&mut self, packet: TracePacket) -> io::Result<()> {
        let packet = TracePacket { trusted_packet_sequence_id: Some(WRITER), ..packet };
        self.buffer.clear();
        prost::encoding::message::encode(1, &packet, &mut self.buffer);
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
