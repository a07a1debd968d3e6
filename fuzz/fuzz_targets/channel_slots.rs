//! A list of operations on both halves of the slots: messages, and words that a hostile peer writes.
//! Without such words all messages arrive whole and in order; with them, every message fits its slot.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sockscope_channel::WhenFull;
use sockscope_channel::fuzz::Slots;

const SLOT_BYTES: u32 = 20;

fuzz_target!(|bytes: &[u8]| {
    let Some((first, steps)) = bytes.split_first() else { return };
    let when_full = if first % 2 == 0 { WhenFull::Wait } else { WhenFull::Overwrite };
    let slots = 2 << (first / 2 % 3);
    let mut both = Slots::new(slots, SLOT_BYTES, when_full).expect("memory");
    let mut honest = true;
    let mut received = 0;
    for step in steps.chunks_exact(11) {
        let word = usize::from(u16::from_le_bytes([step[1], step[2]]));
        let value = u64::from_le_bytes(step[3..].try_into().expect("eight bytes"));
        match step[0] % 8 {
            0..=2 => {
                both.send(u32::from(step[1]) % (SLOT_BYTES + 1));
            }
            3..=5 => match both.receive() {
                Ok(Some((number, message))) => {
                    assert!(message.len() <= SLOT_BYTES as usize);
                    if honest {
                        let (_, lost) = both.counts();
                        assert_eq!(number, received + lost);
                        assert!(message.iter().all(|byte| *byte == number as u8));
                    }
                    received += 1;
                }
                Ok(None) => {}
                Err(what) => {
                    assert!(!honest, "{what}");
                    return;
                }
            },
            6 => {
                honest = false;
                both.scribble(word, value);
            }
            _ => {
                honest = false;
                both.scribble_control(word, value);
            }
        }
    }
});
