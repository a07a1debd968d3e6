//! Octets into the packet decoder and the readers of its fields; each packet is written again and
//! read alike. A store's requests are read from the same octets.
//!
//! Corpus: the packets of `crates/vmtp/tests/vectors`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sockscope_vmtp::store::{Answer, StoreRequest};
use sockscope_vmtp::wire::{Checksum, Notice, Packet, emit};

fuzz_target!(|octets: &[u8]| {
    if let Ok(packet) = Packet::new(octets) {
        let header = packet.header();
        let mut again = Vec::new();
        // A block is whole octets: data of a length that is no multiple of eight is padded.
        emit(&header, [packet.data()], Checksum::Computed, &mut again);
        let read = Packet::new(&again).expect("ours");
        assert_eq!((read.header(), Notice::decode(&header)), (header, Notice::decode(&header)));
        assert!(read.data().starts_with(packet.data()));
    }
    let (Some((code, rest)), true) = (octets.split_first_chunk(), octets.len() >= 24) else {
        return;
    };
    let Some((user, segment)) = rest.split_first_chunk() else { return };
    if let Ok(request) =
        StoreRequest::decode(u32::from_be_bytes(*code) & 0x00ff_ffff, user, segment)
    {
        let encoded = request.encode();
        let decoded = StoreRequest::decode(encoded.code, &encoded.user, &encoded.segment);
        assert_eq!(decoded, Ok(request));
    }
    if let Some((user, segment)) = rest.split_first_chunk() {
        let _ = Answer::decode(u32::from_be_bytes(*code), user, segment.to_vec());
    }
});
