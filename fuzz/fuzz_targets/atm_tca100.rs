//! The TCA-100 as a state machine: any accesses and arrivals at any times. Queues stay within their
//! sizes, nothing panics, and a card that is switched on again sends and receives a whole cell.
//!
//! The input is a row of steps of 10 octets: kind, time, offset and word. Corpus: none needed.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sockscope_atm::tca100::map::{
    HEADER, PAYLOAD, RECEIVE_QUEUE, Register, TRAILER, TRANSMIT_QUEUE, control,
};
use sockscope_atm::tca100::words::of_cell;
use sockscope_atm::tca100::{Config, TRANSMIT_WORDS, Tca100};
use sockscope_atm::{Cell, crc10};

fuzz_target!(|octets: &[u8]| {
    let Some((&choice, steps)) = octets.split_first() else { return };
    let config = Config {
        line_bits_per_s: [155_000_000, 1, u64::MAX, 3_000_000][usize::from(choice & 3)],
        stalls_until_bus_error: (choice >> 2 & 3).into(),
        ..Config::default()
    };
    let mut card = Tca100::new(config);
    // Most inputs should meet a card that works.
    let engines = control::RECEIVE_ENABLE | control::TRANSMIT_ENABLE;
    card.write_word(0, Register::Control.offset(), engines).expect("a register");
    let mut now_ns = 0u64;
    for step in steps.as_chunks::<10>().0 {
        let [how, time, o0, o1, o2, o3, word @ ..] = *step;
        let later_ns = if how & 0x80 == 0 { time.into() } else { u64::from(time) << 56 };
        now_ns = now_ns.saturating_add(later_ns);
        let word = u32::from_be_bytes(word);
        let offset = match how & 3 {
            0 => TRANSMIT_QUEUE + u32::from(o3 & 0x3c),
            1 => RECEIVE_QUEUE + u32::from(o3 & 0x3c),
            2 => Register::ALL[usize::from(o3) % Register::ALL.len()].offset(),
            _ => u32::from_be_bytes([o0, o1, o2, o3]),
        };
        match how >> 2 & 7 {
            0..=2 => drop(card.write_word(now_ns, offset, word)),
            3 | 4 => drop(card.read_word(now_ns, offset)),
            5 => drop(card.write_byte(now_ns, offset)),
            6 => card.receive(now_ns, &[o3; 80][..usize::from(o2 % 80)]),
            _ => drop(card.take_sent(now_ns)),
        }
        assert!(card.transmit_words(now_ns) <= TRANSMIT_WORDS);
        let count = card.read_word(now_ns, Register::ReceiveCount.offset()).expect("a register");
        // 292 whole cells, or one with six words already read and 292 after it.
        assert!(count.word <= 293);
        let _ = (card.next_event_ns(), card.is_interrupting(now_ns));
    }
    if now_ns < u64::MAX / 2 && choice & 3 == 0 {
        check_after_reset(&mut card, now_ns);
    }
});

/// A reset restores the card from any state.
fn check_after_reset(card: &mut Tca100, now_ns: u64) {
    card.set_carrier(now_ns, true);
    for word in [control::RECEIVE_RESET | control::TRANSMIT_RESET, 0xc0] {
        card.write_word(now_ns, Register::Control.offset(), word).expect("a register");
    }
    while card.take_sent(now_ns).is_some() {}
    let mut payload = [7; 48];
    crc10::insert(&mut payload);
    let cell = Cell::with_header_word(0x200, &payload);
    let mut order = [PAYLOAD; 14];
    (order[0], order[13]) = (HEADER, TRAILER);
    for (at, word) in order.into_iter().zip(of_cell(&cell)) {
        card.write_word(now_ns, TRANSMIT_QUEUE + at, word).expect("an empty queue");
    }
    // A cell may still have held the line; its time is over long before a second has passed.
    let line = card.take_sent(now_ns + 1_000_000_000).expect("a cell");
    assert_eq!(line.cell(), Some(cell));
    card.receive(line.at_ns, line.octets());
    let words = order.map(|at| card.read_word(now_ns, RECEIVE_QUEUE + at).expect("a word").word);
    assert_eq!(words, of_cell(&cell));
}
