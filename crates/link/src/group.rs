//! Packets that the kernel passes as one group (GSO), behind a head with the rules for its
//! division.
//!
//! The head is the `virtio_net_hdr` of linux/virtio_net.h, in the byte order of this machine.

/// Bytes of the head: flags, type, two lengths, and the two places of the checksum.
pub const HEAD_BYTES: usize = 10;
/// Types of groups, without the flag for congestion marks.
const TCP_IPV4: u8 = 1;
const TCP_IPV6: u8 = 4;
const CONGESTION_MARK: u8 = 0x80;

/// Size of a group on the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Load {
    /// Packets.
    pub packets: u64,
    /// Their bytes, with the headers of each.
    pub bytes: u64,
}

impl Load {
    /// A single packet without a head.
    pub fn of_packet(packet: &[u8]) -> Self {
        Self { packets: 1, bytes: packet.len() as u64 }
    }

    /// A group with its head.
    pub fn of_group(group: &[u8]) -> Self {
        let (head, packet) = group.split_at(HEAD_BYTES.min(group.len()));
        divided(head, packet).unwrap_or_else(|| Self::of_packet(packet))
    }
}

/// `None` of a single packet.
fn divided(head: &[u8], packet: &[u8]) -> Option<Load> {
    let number = |at: usize| Some(u16::from_ne_bytes(head.get(at..at + 2)?.try_into().ok()?));
    let kind = head.get(1)? & !CONGESTION_MARK;
    let data_bytes_max = u64::from(number(4)?);
    if ![TCP_IPV4, TCP_IPV6].contains(&kind) || data_bytes_max == 0 {
        return None;
    }
    // The checksum of TCP begins with its header, whose length is in the upper half of byte 12.
    let tcp_at = usize::from(number(6)?);
    let headers = tcp_at + usize::from(packet.get(tcp_at + 12)? >> 4) * 4;
    let data = packet.len().checked_sub(headers)? as u64;
    let packets = data.div_ceil(data_bytes_max).max(1);
    Some(Load { packets, bytes: data + packets * headers as u64 })
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A group of TCP over IPv4 with 20 bytes of IP header, 32 of TCP and this much data.
    pub fn group(data: usize, data_bytes_max: u16) -> Vec<u8> {
        let mut group = vec![0; HEAD_BYTES + 52 + data];
        (group[0], group[1]) = (1, TCP_IPV4);
        group[4..6].copy_from_slice(&data_bytes_max.to_ne_bytes());
        group[6..8].copy_from_slice(&20_u16.to_ne_bytes());
        group[HEAD_BYTES] = 0x45;
        group[HEAD_BYTES + 20 + 12] = 8 << 4;
        group
    }

    #[test]
    fn a_group_is_so_many_packets_with_headers() {
        let load = |data| Load::of_group(&group(data, 1_448));
        assert_eq!(load(1_448), Load { packets: 1, bytes: 1_500 });
        assert_eq!(load(1_449), Load { packets: 2, bytes: 1_449 + 2 * 52 });
        assert_eq!(load(43 * 1_448), Load { packets: 43, bytes: 43 * 1_500 });
        let mut marked = group(2_896, 1_448);
        marked[1] |= CONGESTION_MARK;
        assert_eq!(Load::of_group(&marked), Load { packets: 2, bytes: 3_000 });
    }

    #[test]
    fn other_packets_are_single() {
        let mut single = group(100, 0);
        single[1] = 0;
        assert_eq!(Load::of_group(&single), Load { packets: 1, bytes: 152 });
        // Shorter than the length in its headers, and without a whole head.
        assert_eq!(Load::of_group(&group(0, 9)[..30]), Load { packets: 1, bytes: 20 });
        assert_eq!(Load::of_group(&[1; 4]), Load { packets: 1, bytes: 0 });
    }
}
