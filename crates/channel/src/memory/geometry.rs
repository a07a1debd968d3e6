//! Where slots lie in a data segment, and the word at the head of each.
//!
//! A slot is a header of 16 bytes and its payload, padded to whole cache lines. The header's first
//! word is the slot's signal: message number and length in one, so that a length is never torn from
//! its message. The second is the number of bytes sent before.

/// Bytes of a cache line.
const LINE_BYTES: u64 = 64;

/// Slots begin behind a page for the words of the sending end.
const SLOTS_AT: u64 = 4_096;

/// Bytes in front of a slot's payload.
const HEADER_BYTES: u64 = 16;

/// Bytes of a control segment.
pub(crate) const CONTROL_BYTES: usize = 4_096;

/// Number and size of slots, checked once when a channel is set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Geometry {
    slots: u32,
    slot_bytes: u32,
    stride: usize,
}

impl Geometry {
    /// Limits to the number of slots and to their size. Segments stay below 2^49 bytes, so that no
    /// position in one overflows.
    const SLOTS_MAX: u32 = 1 << 20;
    const SLOT_BYTES_MAX: u32 = 1 << 28;

    /// An error is the expected value.
    pub fn new(slots: u32, slot_bytes: u32) -> Result<Self, &'static str> {
        if !slots.is_power_of_two() || !(2..=Self::SLOTS_MAX).contains(&slots) {
            return Err("a power of two from 2 to 2^20 slots");
        }
        if !(1..=Self::SLOT_BYTES_MAX).contains(&slot_bytes) {
            return Err("slots of 1 to 2^28 bytes");
        }
        let stride = (HEADER_BYTES + u64::from(slot_bytes)).next_multiple_of(LINE_BYTES);
        let stride = usize::try_from(stride).map_err(|_| "slots that memory can hold")?;
        let geometry = Self { slots, slot_bytes, stride };
        usize::try_from(geometry.segment_bytes()).map_err(|_| "slots that memory can hold")?;
        Ok(geometry)
    }

    pub fn slots(self) -> u64 {
        u64::from(self.slots)
    }

    pub fn slot_bytes(self) -> u32 {
        self.slot_bytes
    }

    /// Size of the data segment.
    pub fn segment_bytes(self) -> u64 {
        SLOTS_AT + self.slots() * self.stride as u64
    }

    /// Where the signal word of message `number` lies.
    pub fn word_at(self, number: u64) -> usize {
        // The remainder is below 2^20, and `new` made sure that the whole segment fits.
        SLOTS_AT as usize + (number & (self.slots() - 1)) as usize * self.stride
    }

    /// Where the count of bytes before message `number` lies.
    pub fn offset_at(self, number: u64) -> usize {
        self.word_at(number) + 8
    }

    /// Where the payload of message `number` lies: 16-byte aligned, padded to whole words.
    pub fn payload_at(self, number: u64) -> usize {
        self.word_at(number) + HEADER_BYTES as usize
    }
}

/// The signal word of a slot: which message it holds, and its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SlotWord(pub u64);

impl SlotWord {
    /// Length that no message has: the slot is being written.
    const BUSY: u32 = u32::MAX;

    /// The word of message `number`. Numbers count from 1 in it, so that no first message looks like
    /// fresh memory, and are cut to 32 bits: a slot's neighbours in time differ by the number of
    /// slots, 2^20 at most.
    pub fn filled(number: u64, len: u32) -> Self {
        Self(u64::from(Self::tag(number)) << 32 | u64::from(len))
    }

    /// The word while message `number` is being written over an older one.
    pub fn busy(number: u64) -> Self {
        Self::filled(number, Self::BUSY)
    }

    /// The length when this is the word of message `number`, and not a busy one.
    pub fn length_of(self, number: u64) -> Option<u32> {
        let len = self.0 as u32;
        ((self.0 >> 32) as u32 == Self::tag(number) && len != Self::BUSY).then_some(len)
    }

    /// Whether the slot still waits for message `number`: it has the word of the lap before, or none.
    pub fn is_before(self, number: u64, slots: u64) -> bool {
        match number.checked_sub(slots) {
            Some(lap_before) => (self.0 >> 32) as u32 == Self::tag(lap_before),
            None => self.0 == 0,
        }
    }

    fn tag(number: u64) -> u32 {
        // The cut is meant: see `filled`.
        (number as u32).wrapping_add(1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_message_of_48_bytes_takes_one_line_and_one_of_64_two() {
        assert_eq!(Geometry::new(4, 48).unwrap().segment_bytes(), 4_096 + 4 * 64);
        assert_eq!(Geometry::new(4, 64).unwrap().segment_bytes(), 4_096 + 4 * 128);
    }

    #[test]
    fn shapes_out_of_range_are_refused() {
        let shapes = [(0, 8), (1, 8), (3, 8), (1 << 21, 8), (2, 0), (2, (1 << 28) + 1)];
        for (slots, slot_bytes) in shapes {
            assert!(Geometry::new(slots, slot_bytes).is_err(), "{slots} {slot_bytes}");
        }
        assert!(Geometry::new(1 << 20, 1 << 28).is_ok());
    }

    proptest! {
        #[test]
        fn every_slot_lies_within_the_segment(
            slots in (1_u32..=20).prop_map(|power| 1 << power),
            slot_bytes in 1_u32..=1 << 28,
            number: u64,
        ) {
            let geometry = Geometry::new(slots, slot_bytes).unwrap();
            let payload_at = geometry.payload_at(number);
            prop_assert_eq!(payload_at % 16, 0);
            let padded = u64::from(slot_bytes).next_multiple_of(8);
            prop_assert!(payload_at as u64 + padded <= geometry.segment_bytes());
        }

        #[test]
        fn a_word_names_its_message_alone(number: u64, len in 0..u32::MAX, slots in 1_u64..=1 << 20) {
            let word = SlotWord::filled(number, len);
            prop_assert_eq!(word.length_of(number), Some(len));
            prop_assert_eq!(word.length_of(number.wrapping_add(slots)), None);
            prop_assert_eq!(SlotWord::busy(number).length_of(number), None);
            if let Some(next) = number.checked_add(slots) {
                prop_assert!(word.is_before(next, slots));
            }
            prop_assert!(!word.is_before(number, slots));
        }
    }
}
