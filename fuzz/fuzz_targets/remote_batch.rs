//! Any octets as a segment of packets between two proxies: the output is never longer than the
//! input, and is packed into the same octets again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sockscope_remote::fuzz::{pack, unpack};

const LENGTH_BYTES: usize = 4;

fuzz_target!(|segment: &[u8]| {
    let packets = unpack(segment);
    let bytes: usize = packets.iter().map(|packet| LENGTH_BYTES + packet.len()).sum();
    assert!(bytes <= segment.len());
    let (again, taken) = pack(&packets);
    assert_eq!((again.as_slice(), taken), (&segment[..bytes], packets.len()));
});
