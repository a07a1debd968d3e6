//! A list of headers, right and wrong, into the parts that order messages and detect collisions.
//! The memory stays bounded, and nothing is delivered twice or out of order.

#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use sockscope_channel::library::{Arrival, Collisions, InOrder, Ordering, Versions};

const WINDOW: u64 = 5;
const STREAMS: usize = 3;

fuzz_target!(|bytes: &[u8]| {
    let mut order = InOrder::new(1, WINDOW, STREAMS);
    let mut members = [0, 1].map(|member| Versions::new(member, 3, 4));
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
    }
});

fn word(header: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(header[at..at + 8].try_into().expect("eight bytes"))
}
