//! Both halves of the ring's protocol in one process, with a hostile hand in between. For fuzzing.

use std::sync::atomic::Ordering;

use crate::error::Error;
use crate::memory::{CONTROL_BYTES, Geometry, OwnSegment, PeerSegment};
use crate::ring::{Broken, Found, RingReader, RingWriter, progress_of};
use crate::settings::WhenFull;

/// A writer and a reader, and the writer's view of the reader's progress.
pub struct Slots {
    writer: RingWriter,
    reader: RingReader,
    control: PeerSegment,
    progress: u64,
    words: usize,
}

impl Slots {
    /// Fresh slots.
    ///
    /// # Errors
    /// `BadSetting` for a shape that does not exist; `System`.
    pub fn new(slots: u32, slot_bytes: u32, when_full: WhenFull) -> Result<Self, Error> {
        let bad = |what| Error::BadSetting { what };
        let geometry = Geometry::new(slots, slot_bytes).map_err(bad)?;
        let len = usize::try_from(geometry.segment_bytes()).map_err(|_| bad("less memory"))?;
        let (data, data_file) = OwnSegment::create(len)?;
        let (own, file) = RingReader::control_segment()?;
        let control = PeerSegment::open(&file, CONTROL_BYTES)?;
        let seen = PeerSegment::open(&data_file, len)?;
        let reader = RingReader::new(seen, own, geometry, when_full, 0);
        let writer = RingWriter::new(data, geometry, when_full);
        Ok(Self { writer, reader, control, progress: 0, words: len / 8 })
    }

    /// Sends a message filled with its number's low byte. False when there is no room.
    pub fn send(&mut self, len: u32) -> bool {
        let len = len.min(self.writer.geometry().slot_bytes());
        if let Ok(progress) = progress_of(&self.control, self.progress, self.writer.next()) {
            self.progress = progress;
        }
        self.writer.free(Some(self.progress));
        if !self.writer.has_room() {
            return false;
        }
        let fill = self.writer.next() as u8;
        self.writer.payload()[..len as usize].fill(fill);
        self.writer.publish(len);
        true
    }

    /// Writes a word anywhere into the sender's segment, as a hostile sender may.
    pub fn scribble(&mut self, word: usize, value: u64) {
        self.writer.segment.store64(word % self.words * 8, value, Ordering::Relaxed);
    }

    /// Writes a word anywhere into the receiver's segment, as a hostile receiver may.
    pub fn scribble_control(&mut self, word: usize, value: u64) {
        let at = word % (CONTROL_BYTES / 8) * 8;
        self.reader.control.store64(at, value, Ordering::Relaxed);
    }

    /// The next message's number and a copy of it, or `None`.
    ///
    /// # Errors
    /// The rule that the sender broke.
    pub fn receive(&mut self) -> Result<Option<(u64, Vec<u8>)>, &'static str> {
        match self.reader.look() {
            Ok(Found::Nothing) => {
                self.reader.publish();
                Ok(None)
            }
            Ok(Found::Message { number, len, .. }) => {
                let mut bytes = vec![0; len as usize];
                self.reader.data.copy_to(self.reader.payload_at(number), &mut bytes);
                if self.reader.pass() {
                    self.reader.publish();
                }
                Ok(Some((number, bytes)))
            }
            Err(Broken(what)) => Err(what),
        }
    }

    /// Messages sent, and messages that the reader knows to have lost.
    pub fn counts(&self) -> (u64, u64) {
        (self.writer.next(), self.reader.lost())
    }
}
