//! The TCP header (RFC 9293 §3.1) between bytes and fields.

use super::options::HeaderOptions;
use super::seq::Seq;
use crate::checksum;

/// Bytes of a header without options.
pub const TCP_HEADER_BYTES: usize = 20;

/// The fields of a header, the checksum aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The sender's port.
    pub source_port: u16,
    /// The receiver's port.
    pub destination_port: u16,
    /// Number of the first data byte, or of the SYN or FIN.
    pub seq: Seq,
    /// Number that the sender expects next; means something with the ACK flag.
    pub ack: Seq,
    /// Bits of [`tcp_flags`](sockscope_record::tcp_flags).
    pub flags: u8,
    /// Window offered, as the header has it: in bytes, or in units of the agreed shift.
    pub window: u16,
    /// The urgent pointer; means something with the URG flag.
    pub urgent: u16,
    /// Its options.
    pub options: HeaderOptions,
}

impl Header {
    /// Reads a header and its options from the start of `bytes`; `None` when they are too short
    /// or the header claims an impossible length. Options that make no sense end the options.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let words = checksum::header_words(bytes)?;
        match Self::bytes(&words) {
            0..TCP_HEADER_BYTES => None,
            TCP_HEADER_BYTES => Some(Self::of(&words, HeaderOptions::default())),
            _ => Some(Self::of(&words, HeaderOptions::read(bytes)?)),
        }
    }

    /// Bytes of the header that these words are of, its options among them.
    pub(super) fn bytes(words: &[u32; 5]) -> usize {
        (words[3] >> 28) as usize * 4
    }

    /// The header in these words, in the order of the network.
    pub(super) fn of([ports, seq, ack, flags, urgent]: &[u32; 5], options: HeaderOptions) -> Self {
        Self {
            source_port: (ports >> 16) as u16,
            destination_port: *ports as u16,
            seq: Seq(*seq),
            ack: Seq(*ack),
            flags: (flags >> 16) as u8,
            window: *flags as u16,
            urgent: *urgent as u16,
            options,
        }
    }

    /// The header to send, without option and with a checksum of 0, in words of the order of the
    /// network. It claims `header_bytes`, a multiple of four, its options among them.
    pub(super) fn words(&self, header_bytes: usize) -> [u32; 5] {
        let words = (header_bytes / 4) as u32;
        [
            u32::from(self.source_port) << 16 | u32::from(self.destination_port),
            self.seq.0,
            self.ack.0,
            words << 28 | u32::from(self.flags) << 16 | u32::from(self.window),
            u32::from(self.urgent),
        ]
    }

    /// Whether all bits of `flags` are set.
    pub fn has(&self, flags: u8) -> bool {
        self.flags & flags == flags
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sockscope_record::tcp_flags;

    use super::*;

    impl Header {
        /// As [`Header::words`], in bytes.
        pub(crate) fn write(&self, header_bytes: usize) -> [u8; TCP_HEADER_BYTES] {
            checksum::header_bytes(self.words(header_bytes))
        }
    }

    #[test]
    fn the_announced_size_is_read_from_a_syn_alone() {
        let header = Header { flags: tcp_flags::SYN, ..any_header(7, 0) };
        let mut bytes = header.write(24).to_vec();
        bytes.extend([2, 4, 0x05, 0xb4]);
        assert_eq!(Header::read(&bytes).unwrap().options.segment_bytes, Some(1460));
        bytes[13] = tcp_flags::ACK;
        assert_eq!(Header::read(&bytes).unwrap().options.segment_bytes, None);
    }

    #[test]
    fn headers_that_claim_more_than_is_there_are_refused() {
        let bytes = any_header(7, 2).write(TCP_HEADER_BYTES);
        assert!(Header::read(&bytes[..19]).is_none());
        assert!(Header::read(&any_header(7, 2).write(24)).is_none());
        assert!(Header::read(&any_header(7, 2).write(16)).is_none());
    }

    fn any_header(number: u32, flags: u8) -> Header {
        Header {
            source_port: number as u16,
            destination_port: !number as u16,
            seq: Seq(number),
            ack: Seq(number.rotate_left(9)),
            flags,
            window: number.rotate_left(3) as u16,
            urgent: number.rotate_left(5) as u16,
            options: HeaderOptions::default(),
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(number: u32, flags: u8) {
            let header = any_header(number, flags);
            prop_assert_eq!(Header::read(&header.write(TCP_HEADER_BYTES)), Some(header));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..70)) {
            let read = Header::read(&bytes);
            prop_assert!(read.is_none() || bytes.len() >= TCP_HEADER_BYTES);
        }
    }
}
