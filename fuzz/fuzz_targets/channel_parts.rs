//! A list of headers, right and wrong, into the parts that order messages, detect collisions and
//! correct losses. The memory stays bounded, and nothing is delivered twice or out of order.

#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use sockscope_channel::library::{
    Arrival, Collisions, Corrector, InOrder, Ordering, Redundancy, Versions,
};

const WINDOW: u64 = 5;
const STREAMS: usize = 3;
const BLOCKS: usize = 2;

fuzz_target!(|bytes: &[u8]| {
    let mut order = InOrder::new(1, WINDOW, STREAMS);
    let mut members = [0, 1].map(|member| Versions::new(member, 3, 4));
    let redundancy = Redundancy::new(4, 3).expect("7 packets");
    let mut corrector = Corrector::new(redundancy, BLOCKS);
    let mut last: BTreeMap<u64, u64> = BTreeMap::new();
    for step in bytes.chunks_exact(10) {
        let (stream, small) = (u64::from(step[0] % 5), u64::from(step[1]));
        let wide = u64::from_le_bytes(step[2..].try_into().expect("eight bytes"));
        let number = if step[0] < 200 { small } else { wide };
        let header = [stream.to_le_bytes(), number.to_le_bytes()].concat();
        let mut deliver = |header: &[u8]| {
            let [stream, number] = [0, 8].map(|at| word(header, at));
            assert!(last.insert(stream, number).is_none_or(|last| last < number));
        };
        if order.arrive(&header, &mut || header.clone()) == Arrival::Now {
            deliver(&header);
        }
        while let Some(kept) = order.release() {
            deliver(&kept);
        }
        assert!(order.kept() <= WINDOW as usize * STREAMS);

        let mut write = vec![0; members[0].header_bytes()];
        members[usize::from(step[0] % 2)].stamp(stream, &mut write);
        if step[1] % 4 == 0 {
            let at = usize::from(step[1]) % (write.len() - 7);
            write[at..at + 8].copy_from_slice(&wide.to_le_bytes());
        }
        members[usize::from(step[1] % 2)].arrive(&write);

        let places = [step[0] % 8, 0, step[1] % 6, 0, 0, 0, 0, 0];
        // Blocks of a sender begin at multiples of 4, those of no sender anywhere.
        let first = if step[0] < 200 { u64::from(step[1] % 16 / 4 * 4) } else { wide };
        let packet = [&first.to_le_bytes()[..], &places, &step[2..]].concat();
        let mut delivered = 0;
        corrector.arrive(&packet, &mut |_, _| delivered += 1);
        assert!(delivered <= 4 && corrector.kept() <= BLOCKS * 7);
    }
});

fn word(header: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(header[at..at + 8].try_into().expect("eight bytes"))
}
