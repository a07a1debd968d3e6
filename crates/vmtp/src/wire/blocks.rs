//! Segments in blocks of 512 octets, groups of 32 blocks (RFC 1045 §2.13, §2.14).

/// Octets of a block.
pub const BLOCK_BYTES: usize = 512;
/// Blocks of a packet group.
pub const GROUP_BLOCKS: usize = 32;
/// Octets of a packet group: the longest segment without streaming.
pub const GROUP_BYTES: usize = BLOCK_BYTES * GROUP_BLOCKS;
/// Octets of the longest message: 256 groups.
pub const MESSAGE_BYTES_MAX: usize = 256 * GROUP_BYTES;

/// Packet groups of a message with a segment of `bytes`; one also without a segment.
pub fn groups_of(bytes: usize) -> usize {
    bytes.div_ceil(GROUP_BYTES).max(1)
}

/// Whole blocks that fit into a packet of `packet_bytes`, VMTP's header and checksum counted; at least
/// one and at most a group.
pub fn blocks_per_packet(packet_bytes: usize) -> usize {
    let room = packet_bytes.saturating_sub(super::HEADER_BYTES + super::TRAILER_BYTES);
    (room / BLOCK_BYTES).clamp(1, GROUP_BLOCKS)
}

/// One packet group's part of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group {
    /// Where it starts in the segment.
    pub start: usize,
    /// Its octets, at most [`GROUP_BYTES`].
    pub bytes: usize,
}

impl Group {
    /// Group `number` of a segment of `bytes`; empty beyond its end.
    pub fn of(bytes: usize, number: usize) -> Self {
        let start = (number * GROUP_BYTES).min(bytes);
        Self { start, bytes: (bytes - start).min(GROUP_BYTES) }
    }

    /// A bit for each of its blocks.
    pub fn full(self) -> u32 {
        // At most 32 blocks.
        mask_of(self.bytes.div_ceil(BLOCK_BYTES) as u32)
    }

    /// Where block `number` lies in the segment; it must be one of the group's.
    pub fn block(self, number: u32) -> std::ops::Range<usize> {
        let from = number as usize * BLOCK_BYTES;
        let to = (from + BLOCK_BYTES).min(self.bytes);
        self.start + from..self.start + to
    }

    /// Where the blocks of `delivery` lie in the segment, in ascending order.
    pub fn blocks(self, delivery: u32) -> impl Iterator<Item = std::ops::Range<usize>> {
        numbers(delivery & self.full()).map(move |number| self.block(number))
    }

    /// Octets of data that a packet with these blocks carries, padding included.
    pub fn data_bytes(self, delivery: u32) -> usize {
        self.blocks(delivery).map(|block| block.len()).sum::<usize>().next_multiple_of(8)
    }
}

fn mask_of(blocks: u32) -> u32 {
    if blocks >= u32::BITS { u32::MAX } else { (1 << blocks) - 1 }
}

/// Numbers of the bits that are set, lowest first.
fn numbers(mut mask: u32) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let number = (mask != 0).then(|| mask.trailing_zeros())?;
        mask &= mask - 1;
        Some(number)
    })
}

/// The first `blocks` blocks of `mask`: those of the next packet.
pub(crate) fn take(mask: u32, blocks: usize) -> u32 {
    numbers(mask).take(blocks).fold(0, |taken, number| taken | 1 << number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packets(mut mask: u32, blocks: usize) -> Vec<u32> {
        let mut packets = Vec::new();
        while mask != 0 {
            packets.push(take(mask, blocks));
            mask &= !packets[packets.len() - 1];
        }
        packets
    }

    #[test]
    fn the_example_of_the_rfc() {
        // RFC 1045 §2.13: 14.5 blocks; MsgDelivery sends eleven of them.
        let group = Group::of(0x1d00, 0);
        assert_eq!(group.full(), 0x7fff);
        let masks = [0x3, 0xc, 0x30, 0xc0, 0x1400, 0x6000];
        assert_eq!(packets(0x74ff & group.full(), 2), masks);
        assert_eq!(group.data_bytes(0x6000), 512 + 256);
    }

    #[test]
    fn what_is_missing_is_packed_again() {
        assert_eq!(packets(!0xfffc_ffcf, 2), [0x30, 0x3_0000]);
        assert_eq!(packets(!0xfffd_ffef, 2), [0x2_0010]);
        let lost = packets(!0x0000_ff0f, 2);
        assert_eq!((lost.len(), lost[0], lost[9]), (10, 0x30, 0xc000_0000));
    }

    #[test]
    fn sizes_at_their_limits() {
        assert_eq!(
            [0, 1, 512, 513, 16384].map(|bytes| Group::of(bytes, 0).full()),
            [0, 1, 1, 3, u32::MAX]
        );
        assert_eq!([0, 16384, 16385].map(groups_of), [1, 1, 2]);
        assert_eq!([0, 1480, 9160, 65_507].map(blocks_per_packet), [1, 2, 17, 32]);
        assert_eq!(Group::of(16_385, 1), Group { start: 16_384, bytes: 1 });
    }

    proptest! {
        #[test]
        fn blocks_cover_the_group_once(bytes in 0usize..40_000, number in 0usize..3) {
            let group = Group::of(bytes, number);
            let mut at = group.start;
            for block in group.blocks(u32::MAX) {
                prop_assert_eq!(block.start, at);
                at = block.end;
            }
            prop_assert_eq!(at, group.start + group.bytes);
        }
    }
}
