//! Frames of the pair: Ethernet, IPv4, VMTP.
//!
//! Stations are numbers; host, IP address and Ethernet address follow from them.

use std::net::Ipv4Addr;

/// Ethernet header.
const LINK_BYTES: usize = 14;
/// IPv4 header without options (RFC 791 §3.1).
const IP_BYTES: usize = 20;
/// VMTP over IP (RFC 1045 §3.6).
const PROTOCOL: u8 = 81;
/// The group's address, as every number past the stations.
pub(super) const GROUP: u16 = u16::MAX;
/// Octets that a packet has around it: both headers, and the check sequence, which frames here lack.
pub(super) const FRAMING_BYTES: usize = LINK_BYTES + IP_BYTES + 4;

/// IP address of a station, or of the group.
pub(super) fn address(station: u16) -> Ipv4Addr {
    let [high, low] = station.to_be_bytes();
    match station {
        // The group of RFC 1045 appendix IV's example range, 232.x.x.x.
        GROUP => Ipv4Addr::new(232, 8, 160, 90),
        _ => Ipv4Addr::new(198, 18, high, low),
    }
}

/// Ethernet address of a station; that of the group is its IP address's (RFC 1112 §6.4).
pub(super) fn ethernet(station: u16) -> [u8; 6] {
    let [_, b, c, d] = address(station).octets();
    match station {
        GROUP => [1, 0, 0x5e, b & 0x7f, c, d],
        _ => [2, 0, 0, b, c, d],
    }
}

/// A VMTP packet as a frame.
pub(super) fn frame(from: u16, to: u16, packet: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(LINK_BYTES + IP_BYTES + packet.len());
    frame.extend(ethernet(to));
    frame.extend(ethernet(from));
    frame.extend([8, 0, 0x45, 0]);
    // A packet of two blocks is far below 64 KiB.
    frame.extend(((IP_BYTES + packet.len()) as u16).to_be_bytes());
    // Identification, fragment offset and header checksum: nothing here looks at them.
    frame.extend([0, 0, 0, 0, 40, PROTOCOL, 0, 0]);
    frame.extend(address(from).octets());
    frame.extend(address(to).octets());
    frame.extend_from_slice(packet);
    frame
}

/// The VMTP packet of a frame, and its sender.
pub(super) fn packet(frame: &[u8]) -> Option<(u16, &[u8])> {
    let packet = frame.get(LINK_BYTES + IP_BYTES..)?;
    let source = frame.get(LINK_BYTES + 14..LINK_BYTES + 16)?;
    Some((u16::from_be_bytes([source[0], source[1]]), packet))
}

/// Whether a frame is for the group.
pub(super) fn is_for_group(frame: &[u8]) -> bool {
    frame.starts_with(&ethernet(GROUP))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_comes_out_of_its_frame() {
        let sent = frame(3, 258, &[7; 68]);
        assert_eq!(sent.len(), 14 + 20 + 68);
        assert_eq!(sent[..12], [2, 0, 0, 18, 1, 2, 2, 0, 0, 18, 0, 3]);
        assert_eq!(packet(&sent), Some((3, &[7; 68][..])));
        assert_eq!((packet(&sent[..33]), is_for_group(&sent)), (None, false));
        assert!(is_for_group(&frame(3, GROUP, &[])));
    }
}
