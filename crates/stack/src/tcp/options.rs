//! TCP options (RFC 9293 §3.1): those of one header, and those that a system knows.
//!
//! All of these systems announce a segment size. The others are younger: they were proposed for paths on which a
//! window of 65,535 bytes is short (RFC 1072, RFC 1185), and no system of this crate had them.

use etherparse::{TcpHeaderSlice, TcpOptionElement};
use sockscope_record::tcp_flags;

use super::seq::Seq;

/// Largest shift of a window (RFC 1323 §2.3): with it a window has 30 bits, and numbers stay comparable.
pub(super) const SHIFT_MAX: u8 = 14;

/// Options that a system offers and understands, apart from the segment size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OptionRules {
    /// Windows above 65,535 bytes (RFC 1323 §2).
    pub window_scaling: bool,
    /// A time in each segment, which its acknowledgment echoes (RFC 1323 §3, §4).
    pub timestamps: bool,
    /// Selective acknowledgments (RFC 2018).
    pub sack: bool,
}

/// The options of one header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HeaderOptions {
    /// The maximum segment size announced, in data bytes; in a SYN alone.
    pub segment_bytes: Option<u16>,
    /// The shift of the sender's later windows, in bits; in a SYN alone.
    pub window_shift: Option<u8>,
    /// The sender's clock, and the echo of the receiver's.
    pub timestamps: Option<Timestamps>,
    /// The sender understands blocks; in a SYN alone.
    pub permits_sack: bool,
    /// Data that arrived behind holes.
    pub sack: SackBlocks,
}

/// Up to four blocks of data that arrived behind holes: the first number of each, and the one behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SackBlocks {
    blocks: [(Seq, Seq); 4],
    len: u8,
}

impl SackBlocks {
    /// The blocks in the order of the header.
    pub fn as_slice(&self) -> &[(Seq, Seq)] {
        &self.blocks[..usize::from(self.len)]
    }

    /// Whether there is no block.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl FromIterator<(Seq, Seq)> for SackBlocks {
    /// The first four.
    fn from_iter<T: IntoIterator<Item = (Seq, Seq)>>(blocks: T) -> Self {
        let mut all = Self::default();
        for (place, block) in all.blocks.iter_mut().zip(blocks) {
            *place = block;
            all.len += 1;
        }
        all
    }
}

/// The clock of the sender in ticks of its own, and the last value of the receiver's (RFC 1323 §3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timestamps {
    /// The sender's clock.
    pub value: u32,
    /// The receiver's clock; means something with the ACK flag.
    pub echo: u32,
}

/// Options as a header has them, padded to whole words.
#[derive(Debug, Clone, Copy)]
pub(super) struct OptionBytes {
    bytes: [u8; OPTIONS_BYTES_MAX],
    len: u8,
}

/// A header has at most 15 words, 5 of them without options.
const OPTIONS_BYTES_MAX: usize = 40;

const NO_OPERATION: u8 = 1;
const SEGMENT_SIZE: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;

/// Bytes of a header that timestamps use, with their padding.
pub(super) const TIMESTAMPS_BYTES: u32 = 12;

impl OptionBytes {
    pub(super) const NONE: Self = Self { bytes: [0; OPTIONS_BYTES_MAX], len: 0 };

    /// Options of whole words: the caller pads in front, as RFC 1323 Appendix A advises.
    fn push(&mut self, words: &[u8]) {
        let from = self.len();
        self.bytes[from..from + words.len()].copy_from_slice(words);
        self.len += words.len() as u8;
    }

    pub(super) fn len(&self) -> usize {
        usize::from(self.len)
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len()]
    }
}

impl HeaderOptions {
    /// The options of a header that has some; `None` if it is longer than `bytes`. Options that make no sense end
    /// the options.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let slice = TcpHeaderSlice::from_slice(bytes).ok()?;
        let mut options = Self::default();
        for option in slice.options_iterator().map_while(Result::ok) {
            options.take(&option);
        }
        // Sizes and shifts are believed in a SYN alone (RFC 9293 §3.1, RFC 1323 §2.2).
        if slice.slice()[13] & tcp_flags::SYN == 0 {
            (options.segment_bytes, options.window_shift) = (None, None);
            options.permits_sack = false;
        }
        Some(options)
    }

    /// The first option of a kind counts.
    fn take(&mut self, option: &TcpOptionElement) {
        match option {
            TcpOptionElement::MaximumSegmentSize(bytes) => {
                self.segment_bytes = self.segment_bytes.or(Some(*bytes));
            }
            TcpOptionElement::WindowScale(shift) => {
                self.window_shift = self.window_shift.or(Some((*shift).min(SHIFT_MAX)));
            }
            TcpOptionElement::Timestamp(value, echo) => {
                let (value, echo) = (*value, *echo);
                self.timestamps = self.timestamps.or(Some(Timestamps { value, echo }));
            }
            TcpOptionElement::SelectiveAcknowledgementPermitted => self.permits_sack = true,
            TcpOptionElement::SelectiveAcknowledgement(first, others) if self.sack.is_empty() => {
                let blocks = std::iter::once(first).chain(others.iter().flatten());
                self.sack = blocks.map(|(from, to)| (Seq(*from), Seq(*to))).collect();
            }
            _ => {}
        }
    }

    pub(super) fn write(&self) -> OptionBytes {
        let mut bytes = OptionBytes::NONE;
        if let Some(size) = self.segment_bytes {
            let [high, low] = size.to_be_bytes();
            bytes.push(&[SEGMENT_SIZE, 4, high, low]);
        }
        if let Some(shift) = self.window_shift {
            bytes.push(&[NO_OPERATION, WINDOW_SCALE, 3, shift]);
        }
        if self.permits_sack {
            bytes.push(&[NO_OPERATION, NO_OPERATION, SACK_PERMITTED, 2]);
        }
        if let Some(Timestamps { value, echo }) = self.timestamps {
            bytes.push(&[NO_OPERATION, NO_OPERATION, TIMESTAMPS, 10]);
            bytes.push(&value.to_be_bytes());
            bytes.push(&echo.to_be_bytes());
        }
        let blocks = self.sack.as_slice();
        if !blocks.is_empty() {
            bytes.push(&[NO_OPERATION, NO_OPERATION, SACK, 2 + 8 * blocks.len() as u8]);
        }
        for (from, to) in blocks {
            bytes.push(&from.0.to_be_bytes());
            bytes.push(&to.0.to_be_bytes());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tcp::TCP_HEADER_BYTES;

    /// A header of these flags with these options.
    fn header(flags: u8, options: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; TCP_HEADER_BYTES];
        bytes[12] = (((TCP_HEADER_BYTES + options.len()) / 4) << 4) as u8;
        bytes[13] = flags;
        bytes.extend(options);
        bytes
    }

    fn read(flags: u8, options: &[u8]) -> HeaderOptions {
        HeaderOptions::read(&header(flags, options)).expect("a header")
    }

    #[test]
    fn a_shift_above_14_counts_as_14_and_only_in_a_syn() {
        let shift = |flags, shift| read(flags, &[1, 3, 3, shift]).window_shift;
        assert_eq!(shift(tcp_flags::SYN, 0), Some(0));
        assert_eq!(shift(tcp_flags::SYN, 14), Some(14));
        assert_eq!(shift(tcp_flags::SYN, 15), Some(14));
        assert_eq!(shift(tcp_flags::ACK, 3), None);
    }

    #[test]
    fn options_are_words_of_the_standards() {
        let timestamps = Some(Timestamps { value: 0x0102_0304, echo: 0x0506_0708 });
        let (segment_bytes, window_shift) = (Some(1460), Some(3));
        let options =
            HeaderOptions { segment_bytes, window_shift, timestamps, ..HeaderOptions::default() };
        let words = [[2, 4, 0x05, 0xb4], [1, 3, 3, 3], [1, 1, 8, 10], [1, 2, 3, 4], [5, 6, 7, 8]];
        assert_eq!(options.write().as_slice(), words.as_flattened());
        assert_eq!(HeaderOptions::default().write().len(), 0);
        let permitted = HeaderOptions { permits_sack: true, ..HeaderOptions::default() };
        assert_eq!(permitted.write().as_slice(), [1, 1, 4, 2]);
        let sack = [(Seq(1), Seq(2)), (Seq(u32::MAX), Seq(3))].into_iter().collect();
        let blocks = HeaderOptions { sack, ..HeaderOptions::default() };
        let words = [[1, 1, 5, 18], [0, 0, 0, 1], [0, 0, 0, 2], [255; 4], [0, 0, 0, 3]];
        assert_eq!(blocks.write().as_slice(), words.as_flattened());
    }

    proptest! {
        #[test]
        fn options_that_are_written_are_read_again(
            segment_bytes: Option<u16>,
            window_shift in prop::option::of(0..=SHIFT_MAX),
            times: Option<(u32, u32)>,
            permits_sack: bool,
            blocks in prop::collection::vec(any::<(u32, u32)>(), 0..3),
        ) {
            let timestamps = times.map(|(value, echo)| Timestamps { value, echo });
            let room = if times.is_some() { 1 } else { 2 };
            let sack = blocks.iter().take(room).map(|(from, to)| (Seq(*from), Seq(*to))).collect();
            let options =
                HeaderOptions { segment_bytes, window_shift, timestamps, permits_sack, sack };
            prop_assert_eq!(read(tcp_flags::SYN, options.write().as_slice()), options);
        }

        #[test]
        fn any_options_are_read(options in prop::collection::vec(any::<u8>(), 0..10), flags: u8) {
            let words: Vec<u8> = options.iter().flat_map(|byte| [*byte, 3, 1, byte >> 2]).collect();
            let read = read(flags, &words);
            prop_assert!(read.window_shift.is_none_or(|shift| shift <= SHIFT_MAX));
        }
    }
}
