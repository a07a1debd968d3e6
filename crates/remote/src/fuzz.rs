//! The format of a segment of packets. For fuzzing.

use crate::batch::{Batch, Unpacking};

/// The packets of a segment, to the first that cannot be.
pub fn unpack(segment: &[u8]) -> Vec<Vec<u8>> {
    let mut unpacking = Unpacking::new(segment.to_vec());
    let mut packets = Vec::new();
    while let Some(packet) = unpacking.next() {
        packets.push(packet.to_vec());
    }
    packets
}

/// The packets that fit into one segment, and their number.
pub fn pack(packets: &[Vec<u8>]) -> (Vec<u8>, usize) {
    let mut batch = Batch::default();
    let taken = packets.iter().take_while(|packet| batch.add(packet)).count();
    (batch.take(), taken)
}
