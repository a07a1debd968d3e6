//! AAL3/4 reassembly as a state machine: any cells at any times, most of them with a right CRC and
//! few names, so that they meet. Memory stays bounded and every cell is accounted for.
//!
//! The input is a row of steps of 51 octets: 2 of time, 1 of kind, 48 of cell. Corpus: none needed.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sockscope_atm::aal34::{Format, Limits, Policy, Reassembler, TimerEvent};
use sockscope_atm::{Channel, crc10};

const MESSAGES_MAX: usize = 3;

const MESSAGE_BYTES_MAX: usize = 700;

fuzz_target!(|octets: &[u8]| {
    let Some((&choice, steps)) = octets.split_first() else { return };
    let repairs = choice & 1 != 0;
    let limits = Limits {
        messages_max: MESSAGES_MAX,
        message_bytes_max: MESSAGE_BYTES_MAX,
        timeout_ns: 10_000,
        policy: if repairs { Policy::Repair { asks_max: choice >> 6 } } else { Policy::Discard },
        corrects_bits: choice & 2 != 0,
    };
    let format = if choice & 4 != 0 { Format::FiveBit } else { Format::Standard };
    let mut end = Reassembler::new(format, limits);
    let mut now_ns = u64::from(choice) << 40;
    let (mut messages, mut dropped, mut asks) = (0, 0, 0);
    for step in steps.as_chunks::<51>().0 {
        let [high, low, how, payload @ ..] = *step;
        now_ns = now_ns.saturating_add(u16::from_be_bytes([high, low]).into());
        while let Some(event) = end.expire(now_ns) {
            match event {
                TimerEvent::Dropped(_) => dropped += 1,
                TimerEvent::Missing(_) => asks += 1,
            }
        }
        assert!(end.next_deadline_ns().is_none_or(|deadline_ns| deadline_ns > now_ns));
        let payload = met(payload, how);
        let outcome = end.receive(now_ns, Channel::of_path_0((how & 1).into()), &payload);
        if let Some((_, octets)) = outcome.message {
            assert!(!octets.is_empty() && octets.len() <= MESSAGE_BYTES_MAX);
            messages += 1;
        }
        dropped += u64::from(outcome.dropped.is_some());
        asks += u64::from(outcome.missing.is_some());
        assert!(outcome.missing.is_none_or(|missing| repairs && missing.cells != 0));
        assert!(end.open_messages() <= MESSAGES_MAX);
        assert!(end.capacity_bytes() <= 2 * MESSAGE_BYTES_MAX * MESSAGES_MAX);
    }
    let counters = end.counters();
    assert_eq!(counters.cells, steps.as_chunks::<51>().0.len() as u64);
    assert_eq!(
        (counters.messages, counters.messages_dropped, counters.asks),
        (messages, dropped, asks)
    );
    while let Some(deadline_ns) = end.next_deadline_ns() {
        let _ = end.expire(deadline_ns);
    }
    assert_eq!(end.open_messages(), 0);
});

/// Makes it likely that a cell is of use: a right CRC, a small name, a legal length.
fn met(mut payload: [u8; 48], how: u8) -> [u8; 48] {
    if how & 0x80 == 0 {
        payload[0] &= 0xfe;
        payload[1] &= 0x03;
    }
    if how & 0x40 == 0 {
        payload[46] = 44 << 2;
    }
    if how & 0x20 == 0 {
        crc10::insert(&mut payload);
    }
    if how & 0x18 == 0x18 {
        payload[usize::from(how % 48)] ^= 0x10;
    }
    payload
}
