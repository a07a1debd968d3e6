//! Any blocks in a whole pcapng file, of two interfaces. Each has an octet for its type and one for its length before it.
//! Seeds: the packets of a connection on one interface, with their directions, and statistics.

#![no_main]

#[path = "../capture.rs"]
mod capture;

use libfuzzer_sys::fuzz_target;

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
/// Section, interface, simple packet, names, statistics, enhanced packet, and one of no known type.
const TYPES: [u32; 7] = [SECTION, INTERFACE, 3, 4, 5, 6, 0x8000_0001];

fn block(kind: u32, body: &[u8], file: &mut Vec<u8>) {
    let len = body.len().next_multiple_of(4);
    let total = (len as u32 + 12).to_le_bytes();
    file.extend(kind.to_le_bytes());
    file.extend(total);
    file.extend(body);
    file.extend(std::iter::repeat_n(0, len - body.len()));
    file.extend(total);
}

fuzz_target!(|input: &[u8]| {
    let mut file = Vec::new();
    let section = [0x1a2b_3c4d_u32, 1, u32::MAX, u32::MAX].map(u32::to_le_bytes).concat();
    block(SECTION, &section, &mut file);
    // Ethernet and raw IP.
    for link_type in [1_u32, 101] {
        block(INTERFACE, &[link_type.to_le_bytes(), [0; 4]].concat(), &mut file);
    }
    let mut rest = input;
    while let [kind, len, after @ ..] = rest {
        let (body, after) = after.split_at(after.len().min(usize::from(*len)));
        block(TYPES[usize::from(*kind) % TYPES.len()], body, &mut file);
        rest = after;
    }
    capture::check(&file);
});
