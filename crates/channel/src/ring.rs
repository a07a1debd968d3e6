//! The ring of slots, both halves of its protocol, without sockets and without waiting.
//!
//! A [`RingWriter`] fills slots in order, and each [`RingReader`] of it reads them in order. A half
//! reads each word of the other's memory once, checks it, and from then on uses its own copy.
//!
//! Filling: payload, count of bytes before, then the signal word, with release order. Reading: the
//! signal word with acquire order; when it names the awaited message the rest of the slot is there.
//! In [`WhenFull::Wait`] a slot is filled again only after every reader has published that it is
//! past it. In [`WhenFull::Overwrite`] the signal word is "busy" while a slot is overwritten, and a
//! reader checks the word again after it has copied.

use std::sync::atomic::{Ordering, fence};

use crate::error::Error;
use crate::memory::{
    CONTROL_BYTES, Geometry, LOW_HALF_AT, OwnSegment, PROGRESS_AT, PeerSegment, SlotWord,
};
use crate::settings::WhenFull;

/// The half that fills slots.
pub(crate) struct RingWriter {
    pub segment: OwnSegment,
    geometry: Geometry,
    when_full: WhenFull,
    /// Number of the next message.
    next: u64,
    /// Bytes of the messages before.
    offset: u64,
    /// Messages below this number may be filled without a look at the readers.
    free_until: u64,
}

impl RingWriter {
    pub fn new(segment: OwnSegment, geometry: Geometry, when_full: WhenFull) -> Self {
        let free_until = if when_full == WhenFull::Wait { geometry.slots() } else { u64::MAX };
        Self { segment, geometry, when_full, next: 0, offset: 0, free_until }
    }

    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    pub fn when_full(&self) -> WhenFull {
        self.when_full
    }

    /// Number of the next message.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Bytes of all messages published.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    #[inline]
    pub fn has_room(&self) -> bool {
        self.next < self.free_until
    }

    /// The progress beyond which every reader must be for the next message to have room.
    pub fn awaited(&self) -> u64 {
        self.next.saturating_sub(self.geometry.slots())
    }

    /// Sets the slowest reader's position; without readers, nothing needs to be kept.
    pub fn free(&mut self, slowest: Option<u64>) {
        if self.when_full == WhenFull::Wait {
            self.free_until = slowest.unwrap_or(self.next) + self.geometry.slots();
        }
    }

    /// The payload of the next slot, all of it. There must be room.
    #[inline]
    pub fn payload(&mut self) -> &mut [u8] {
        if self.when_full == WhenFull::Overwrite {
            let busy = SlotWord::busy(self.next);
            self.segment.store64(self.geometry.word_at(self.next), busy.0, Ordering::Relaxed);
            // No byte of the new payload may be seen before the slot is seen to be busy.
            fence(Ordering::Release);
        }
        let len = self.geometry.slot_bytes() as usize;
        self.segment.bytes_mut(self.geometry.payload_at(self.next), len)
    }

    /// Publishes the next slot with the first `len` bytes of its payload as the message.
    #[inline]
    pub fn publish(&mut self, len: u32) {
        debug_assert!(len <= self.geometry.slot_bytes());
        let (segment, number) = (&self.segment, self.next);
        segment.store64(self.geometry.offset_at(number), self.offset, Ordering::Relaxed);
        let word = SlotWord::filled(number, len);
        segment.store64(self.geometry.word_at(number), word.0, Ordering::Release);
        self.next += 1;
        self.offset += u64::from(len);
        segment.store64(PROGRESS_AT, self.next, Ordering::Release);
    }
}

/// A reader's published progress, which must lie between its progress before and `next`; else the
/// error. 0 has no meaning: the reply may not have reached the reader yet.
pub(crate) fn progress_of(control: &PeerSegment, before: u64, next: u64) -> Result<u64, Broken> {
    let progress = control.load64(PROGRESS_AT, Ordering::Acquire);
    if progress == 0 {
        return Ok(before);
    }
    if progress < before {
        return Err(Broken("its count of messages read went back"));
    }
    if progress > next {
        return Err(Broken("it claims to have read what was not sent"));
    }
    Ok(progress)
}

/// The violation of the protocol by the other half.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Broken(pub &'static str);

/// The contents of a reader's next slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// Not filled yet.
    Nothing,
    /// A message, whose length is within the slot.
    Message {
        /// Its number.
        number: u64,
        /// Bytes of it.
        len: u32,
        /// Bytes before it, as the sender reports them.
        offset: u64,
    },
}

/// The half that reads slots.
pub(crate) struct RingReader {
    pub data: PeerSegment,
    pub control: OwnSegment,
    geometry: Geometry,
    when_full: WhenFull,
    /// Number of the message that is awaited.
    next: u64,
    /// `next` as last published to the sender.
    published: u64,
    /// Messages that were written over before they were read.
    lost: u64,
}

impl RingReader {
    /// Messages after which the reader publishes its progress at the latest. Each publication costs
    /// both sides a cache line; one for each quarter of the ring keeps the sender going.
    const PUBLISH_AFTER_MAX: u64 = 32;

    pub fn new(
        data: PeerSegment,
        control: OwnSegment,
        geometry: Geometry,
        when_full: WhenFull,
        next: u64,
    ) -> Self {
        control.store64(PROGRESS_AT, next, Ordering::Release);
        Self { data, control, geometry, when_full, next, published: next, lost: 0 }
    }

    /// A fresh control segment and its file.
    pub fn control_segment() -> Result<(OwnSegment, std::os::fd::OwnedFd), Error> {
        OwnSegment::create(CONTROL_BYTES)
    }

    /// Number of the message that is awaited.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Messages that were written over before they were read, so far.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    pub fn when_full(&self) -> WhenFull {
        self.when_full
    }

    /// Looks at the next slot.
    #[inline]
    pub fn look(&mut self) -> Result<Found, Broken> {
        match self.when_full {
            WhenFull::Wait => self.look_in_order(),
            WhenFull::Overwrite => self.look_at_oldest(),
        }
    }

    #[inline]
    fn look_in_order(&self) -> Result<Found, Broken> {
        let number = self.next;
        let word = SlotWord(self.data.load64(self.geometry.word_at(number), Ordering::Acquire));
        match word.length_of(number) {
            Some(len) => self.message(number, len),
            None if word.is_before(number, self.geometry.slots()) => Ok(Found::Nothing),
            None => Err(Broken("a slot holds neither this message nor that of the lap before")),
        }
    }

    #[inline]
    fn message(&self, number: u64, len: u32) -> Result<Found, Broken> {
        if len > self.geometry.slot_bytes() {
            return Err(Broken("a message longer than its slot"));
        }
        let offset = self.data.load64(self.geometry.offset_at(number), Ordering::Relaxed);
        Ok(Found::Message { number, len, offset })
    }

    /// The next message that has not been written over. Only progress that the sender has published
    /// counts, and looks are limited, so that a sender that never rests cannot hold a reader.
    fn look_at_oldest(&mut self) -> Result<Found, Broken> {
        const LOOKS_MAX: u32 = 8;
        for _ in 0..LOOKS_MAX {
            let sent = self.data.load64(PROGRESS_AT, Ordering::Acquire);
            let Some(waiting) = sent.checked_sub(self.next) else {
                return Err(Broken("its count of messages sent went back"));
            };
            if waiting == 0 {
                return Ok(Found::Nothing);
            }
            if waiting > self.geometry.slots() {
                // To the middle: the oldest would be gone again before it is read.
                self.skip(waiting - self.geometry.slots() / 2);
            }
            let number = self.next;
            let word = SlotWord(self.data.load64(self.geometry.word_at(number), Ordering::Acquire));
            match word.length_of(number) {
                Some(len) => return self.message(number, len),
                // Published and no longer there: written over just now.
                None => self.skip(1),
            }
        }
        Ok(Found::Nothing)
    }

    fn skip(&mut self, messages: u64) {
        self.next += messages;
        self.lost += messages;
    }

    /// Where the payload of message `number` lies in `data`.
    #[inline]
    pub fn payload_at(&self, number: u64) -> usize {
        self.geometry.payload_at(number)
    }

    /// Whether message `number` is still in its slot, whole: to be asked after a copy was made.
    pub fn is_still_there(&self, number: u64, len: u32) -> bool {
        // All loads of the copy precede the load of the word.
        fence(Ordering::Acquire);
        let word = self.data.load64(self.geometry.word_at(number), Ordering::Relaxed);
        word == SlotWord::filled(number, len).0
    }

    /// Counts message `number`, which was just found, as lost.
    pub fn lose(&mut self) {
        self.skip(1);
    }

    /// Gives the slot of the message just read back. True when it is time to publish the progress.
    #[inline]
    pub fn pass(&mut self) -> bool {
        self.next += 1;
        let after = (self.geometry.slots() / 4).clamp(1, Self::PUBLISH_AFTER_MAX);
        self.next - self.published >= after
    }

    /// Publishes which slots are free. False when that is published already.
    #[inline]
    pub fn publish(&mut self) -> bool {
        if self.published == self.next {
            return false;
        }
        self.published = self.next;
        self.control.store64(PROGRESS_AT, self.next, Ordering::Release);
        true
    }

    /// The word on which to sleep, and the value that it has while nothing new was sent.
    pub fn futex(&self) -> (&std::sync::atomic::AtomicU32, u32) {
        // The word holds the low half of the count.
        (self.data.futex(PROGRESS_AT + LOW_HALF_AT), self.next as u32)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn halves(slots: u32, when_full: WhenFull) -> (RingWriter, RingReader) {
        let geometry = Geometry::new(slots, 20).unwrap();
        let (data, file) = OwnSegment::create(geometry.segment_bytes() as usize).unwrap();
        let seen = PeerSegment::open(&file, geometry.segment_bytes() as usize).unwrap();
        let (control, _) = RingReader::control_segment().unwrap();
        let reader = RingReader::new(seen, control, geometry, when_full, 0);
        (RingWriter::new(data, geometry, when_full), reader)
    }

    fn write(writer: &mut RingWriter, message: &str) {
        writer.payload()[..message.len()].copy_from_slice(message.as_bytes());
        writer.publish(message.len() as u32);
    }

    /// The next message, or the state of its slot.
    fn read(reader: &mut RingReader) -> String {
        match reader.look() {
            Ok(Found::Nothing) => "nothing".into(),
            Ok(Found::Message { number, len, .. }) => {
                let mut bytes = vec![0; len as usize];
                reader.data.copy_to(reader.payload_at(number), &mut bytes);
                reader.pass();
                String::from_utf8(bytes).unwrap()
            }
            Err(Broken(what)) => what.into(),
        }
    }

    #[test]
    fn messages_come_out_in_order_over_several_laps() {
        let (mut writer, mut reader) = halves(2, WhenFull::Wait);
        for lap in 0..5 {
            write(&mut writer, &format!("a{lap}"));
            write(&mut writer, &format!("b{lap}"));
            assert_eq!(read(&mut reader), format!("a{lap}"));
            assert_eq!(read(&mut reader), format!("b{lap}"));
            assert_eq!(read(&mut reader), "nothing");
            writer.free(Some(reader.next()));
            assert!(writer.has_room());
        }
    }

    #[test]
    fn a_full_writer_has_room_when_the_slowest_reader_says_so() {
        let (mut writer, mut reader) = halves(2, WhenFull::Wait);
        write(&mut writer, "a");
        write(&mut writer, "b");
        assert!(!writer.has_room());
        assert_eq!(read(&mut reader), "a");
        writer.free(Some(reader.next()));
        assert!(writer.has_room());
        write(&mut writer, "c");
        assert!(!writer.has_room());
        assert_eq!([read(&mut reader), read(&mut reader)], ["b", "c"]);
    }

    #[test]
    fn without_readers_there_is_always_room() {
        let (mut writer, _) = halves(2, WhenFull::Wait);
        for _ in 0..10 {
            writer.free(None);
            assert!(writer.has_room());
            write(&mut writer, "x");
        }
    }

    #[test]
    fn a_reader_that_was_lapped_counts_what_it_lost() {
        let (mut writer, mut reader) = halves(4, WhenFull::Overwrite);
        for number in 0..11 {
            write(&mut writer, &number.to_string());
        }
        assert_eq!(read(&mut reader), "9");
        assert_eq!(reader.lost(), 9);
        assert_eq!(read(&mut reader), "10");
        assert_eq!(read(&mut reader), "nothing");
    }

    #[test]
    fn a_slot_that_is_being_written_over_counts_as_lost() {
        let (mut writer, mut reader) = halves(2, WhenFull::Overwrite);
        write(&mut writer, "a");
        write(&mut writer, "b");
        writer.payload()[0] = b'c';
        assert_eq!(read(&mut reader), "b");
        assert_eq!(reader.lost(), 1);
    }

    #[test]
    fn a_copy_of_what_was_written_over_meanwhile_is_known_as_such() {
        let (mut writer, mut reader) = halves(2, WhenFull::Overwrite);
        write(&mut writer, "a");
        let found = reader.look();
        assert_eq!(found, Ok(Found::Message { number: 0, len: 1, offset: 0 }));
        assert!(reader.is_still_there(0, 1));
        write(&mut writer, "b");
        write(&mut writer, "c");
        assert!(!reader.is_still_there(0, 1));
    }

    #[test]
    fn a_reader_that_claims_the_impossible_is_found_out() {
        let (control, file) = RingReader::control_segment().unwrap();
        let seen = PeerSegment::open(&file, CONTROL_BYTES).unwrap();
        control.store64(PROGRESS_AT, 5, Ordering::Release);
        assert_eq!(progress_of(&seen, 3, 9), Ok(5));
        assert!(progress_of(&seen, 6, 9).is_err());
        assert!(progress_of(&seen, 3, 4).is_err());
    }

    #[test]
    fn numbers_may_pass_the_end_of_32_bits() {
        let (mut writer, mut reader) = halves(4, WhenFull::Wait);
        let start = u64::from(u32::MAX) - 2;
        (writer.next, writer.free_until) = (start, start + 4);
        (reader.next, reader.published) = (start, start);
        // The words of the laps before.
        for number in start - 4..start {
            let word = SlotWord::filled(number, 0).0;
            writer.segment.store64(writer.geometry.word_at(number), word, Ordering::Relaxed);
        }
        for number in start..start + 20 {
            writer.free(Some(reader.next()));
            assert_eq!(read(&mut reader), "nothing");
            write(&mut writer, &number.to_string());
            assert_eq!(read(&mut reader), number.to_string());
        }
    }

    proptest! {
        /// For any words of a hostile sender in its segment, a look stays within bounds: no panic,
        /// and no length that the slot does not have.
        #[test]
        fn scribbles_are_messages_nothing_or_broken(
            words in proptest::collection::vec((0_usize..530, any::<u64>()), 1..200),
            overwrite: bool,
        ) {
            let when_full = if overwrite { WhenFull::Overwrite } else { WhenFull::Wait };
            let (writer, mut reader) = halves(2, when_full);
            for (at, word) in words {
                // Some words are near to right, so that the checks behind the first are reached.
                let word = if word % 3 == 0 { SlotWord::filled(word % 4, (word >> 60) as u32).0 } else { word };
                let last = writer.geometry.segment_bytes() as usize / 8 - 1;
                writer.segment.store64(at.min(last) * 8, word, Ordering::Relaxed);
                match reader.look() {
                    Ok(Found::Message { len, number, .. }) => {
                        prop_assert!(len <= 20);
                        let mut bytes = vec![0; len as usize];
                        reader.data.copy_to(reader.payload_at(number), &mut bytes);
                        reader.pass();
                    }
                    Ok(Found::Nothing) => {}
                    Err(_) => return Ok(()),
                }
            }
        }
    }
}
