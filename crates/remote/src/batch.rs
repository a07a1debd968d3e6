//! Packets that travel in one transaction.
//!
//! Each is preceded by its length in four bytes, big-endian as all of VMTP.

/// Longest packet of a link.
pub const PACKET_BYTES_MAX: usize = 1 << 20;

/// Packets wait for the transaction before them; beyond this many bytes there is no room.
const BATCH_BYTES_MAX: usize = 64 << 10;

const LENGTH_BYTES: usize = 4;

/// Packets that are to be sent, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
}

impl Batch {
    /// Appends a packet. False when there is no room; an empty batch has room for any packet.
    pub(crate) fn add(&mut self, packet: &[u8]) -> bool {
        let after = self.bytes.len() + LENGTH_BYTES + packet.len();
        if !self.bytes.is_empty() && after > BATCH_BYTES_MAX {
            return false;
        }
        // A link takes packets of 1 MiB at most.
        self.bytes.extend_from_slice(&(packet.len() as u32).to_be_bytes());
        self.bytes.extend_from_slice(packet);
        true
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// All packets, as the segment of a request.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }
}

/// Packets that arrived, handed out one by one.
#[derive(Debug)]
pub(crate) struct Unpacking {
    segment: Vec<u8>,
    at: usize,
}

impl Unpacking {
    pub(crate) fn new(segment: Vec<u8>) -> Self {
        Self { segment, at: 0 }
    }

    /// The next packet; `None` at the end, and from the first length on that cannot be.
    pub(crate) fn next(&mut self) -> Option<&[u8]> {
        let rest = self.segment.get(self.at..)?;
        let (length, rest) = rest.split_first_chunk::<LENGTH_BYTES>()?;
        let packet = usize::try_from(u32::from_be_bytes(*length)).ok();
        let packet = packet.and_then(|length| rest.get(..length));
        match packet {
            Some(packet) => self.at += LENGTH_BYTES + packet.len(),
            None => self.at = self.segment.len(),
        }
        packet
    }

    /// Whether no packet follows.
    pub(crate) fn is_over(&self) -> bool {
        self.at >= self.segment.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn unpack(segment: Vec<u8>) -> Vec<Vec<u8>> {
        let mut unpacking = Unpacking::new(segment);
        let mut packets = Vec::new();
        while let Some(packet) = unpacking.next() {
            packets.push(packet.to_vec());
        }
        assert!(unpacking.is_over() || unpacking.segment.len() - unpacking.at < LENGTH_BYTES);
        packets
    }

    #[test]
    fn a_long_packet_travels_alone_and_short_ones_together() {
        let mut batch = Batch::default();
        assert!(batch.add(&[1; PACKET_BYTES_MAX]) && !batch.add(&[2]));
        assert_eq!(unpack(batch.take()), [vec![1; PACKET_BYTES_MAX]]);
        assert!(batch.is_empty() && batch.add(&[2]) && batch.add(&[]));
        assert_eq!(unpack(batch.take()), [vec![2], vec![]]);
    }

    #[test]
    fn a_length_beyond_the_segment_ends_it() {
        assert_eq!(unpack(vec![0, 0, 0, 1, 7, 0, 0, 0, 9, 1]), [[7]]);
        assert_eq!(unpack(vec![255; 9]), Vec::<Vec<u8>>::new());
    }

    proptest! {
        #[test]
        fn what_goes_in_comes_out(packets: Vec<Vec<u8>>) {
            let mut batch = Batch::default();
            let taken: Vec<_> = packets.into_iter().filter(|packet| batch.add(packet)).collect();
            prop_assert_eq!(unpack(batch.take()), taken);
        }

        #[test]
        fn any_segment_comes_to_an_end(segment: Vec<u8>) {
            let bytes = segment.len();
            let packets = unpack(segment);
            prop_assert!(packets.iter().map(|packet| LENGTH_BYTES + packet.len()).sum::<usize>() <= bytes);
        }
    }
}
