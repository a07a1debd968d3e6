//! Any packets in a whole pcap file. The first octet picks the link type, and each packet has its length before it: 0 is
//! one whose file has 24 octets and whose wire had 60,000.
//! Seeds: the packets of a connection on Ethernet, and of one on Linux's cooked interface.

#![no_main]

#[path = "../capture.rs"]
mod capture;

use libfuzzer_sys::fuzz_target;

const LINK_TYPES: [u32; 8] = [0, 1, 101, 108, 113, 228, 276, 147];
/// Between two packets.
const STEP_US: u32 = 70_000;
/// Octets of a packet that is cut, in the file and on the wire.
const CUT: [u32; 2] = [24, 60_000];

fuzz_target!(|input: &[u8]| {
    let Some((link, mut rest)) = input.split_first() else { return };
    let link_type = LINK_TYPES[usize::from(*link) % LINK_TYPES.len()];
    let header = [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, link_type];
    let mut file: Vec<u8> = header.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut at_us = 0_u32;
    while let Some((len, after)) = rest.split_first() {
        let [in_file, on_wire] = if *len == 0 { CUT } else { [u32::from(*len); 2] };
        let (packet, after) = after.split_at(after.len().min(in_file as usize));
        let in_file = packet.len() as u32;
        let words = [at_us / 1_000_000, at_us % 1_000_000, in_file, on_wire.max(in_file)];
        file.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        file.extend(packet);
        (rest, at_us) = (after, at_us + STEP_US);
    }
    capture::check(&file);
});
