//! The card as its bus and its fibres see it.

use super::map::{
    HEADER, PAYLOAD, RECEIVE_QUEUE, REGION_BYTES, Register, TRAILER, TRANSMIT_QUEUE, control,
    status,
};
use super::words::{CELL_WORDS, PAD1_CRC, PAD1_HEC, PAD2_FRAMING_ERROR, of_cell};
use super::*;
use crate::{Cell, crc10, hec};

const BOTH_ENGINES: u32 = control::RECEIVE_ENABLE | control::TRANSMIT_ENABLE;

fn card() -> Tca100 {
    enabled(Config::default())
}

fn enabled(config: Config) -> Tca100 {
    let mut card = Tca100::new(config);
    set(&mut card, Register::Control, BOTH_ENGINES);
    card
}

fn set(card: &mut Tca100, register: Register, word: u32) {
    let access = card.write_word(0, register.offset(), word).expect("a register");
    assert_eq!(access.wait_cycles, REGISTER_WAIT_CYCLES);
}

fn value(card: &mut Tca100, now_ns: u64, register: Register) -> u32 {
    card.read_word(now_ns, register.offset()).expect("a register").word
}

/// A good AAL3/4 cell; `tag` is in its data.
fn cell(tag: u8) -> Cell {
    let mut payload = [tag; 48];
    crc10::insert(&mut payload);
    Cell::with_header_word(0x200, &payload)
}

/// Byte offsets in a queue of the words of a cell, in the right order.
fn right_order() -> [u32; CELL_WORDS] {
    let mut order = [PAYLOAD; CELL_WORDS];
    (order[0], order[CELL_WORDS - 1]) = (HEADER, TRAILER);
    order
}

/// Writes the words to the transmit queue and returns the cycles that they stalled.
fn write(card: &mut Tca100, now_ns: u64, words: &[(u32, u32)]) -> Result<u64, BusError> {
    let mut stalled = 0;
    for &(at, word) in words {
        let now_ns = now_ns + stalled * CYCLE_NS;
        stalled += card.write_word(now_ns, TRANSMIT_QUEUE + at, word)?.wait_cycles;
    }
    Ok(stalled)
}

fn placed(cell: &Cell) -> Vec<(u32, u32)> {
    right_order().into_iter().zip(of_cell(cell)).collect()
}

fn sent(card: &mut Tca100, now_ns: u64) -> Vec<LineCell> {
    std::iter::from_fn(|| card.take_sent(now_ns)).collect()
}

/// Octets of each piece that a card makes of words in this order.
fn pieces(words: &[(u32, u32)]) -> Vec<usize> {
    let mut card = card();
    write(&mut card, 0, words).expect("room");
    sent(&mut card, 1_000_000).iter().map(|piece| piece.octets().len()).collect()
}

#[test]
fn a_cell_goes_from_one_host_to_the_other() {
    let (mut from, mut to) = (card(), card());
    write(&mut from, 0, &placed(&cell(7))).expect("room");
    assert_eq!(sent(&mut from, 2_735), [], "424 bits take 2,735.5 ns");
    let [line] = sent(&mut from, 2_736)[..] else { panic!("one cell") };
    assert_eq!((line.at_ns, line.cell()), (2_736, Some(cell(7))));
    to.receive(line.at_ns, line.octets());
    let words = right_order().map(|at| {
        let access = to.read_word(3_000, RECEIVE_QUEUE + at).expect("a word");
        assert_eq!(access.wait_cycles, 0);
        access.word
    });
    assert_eq!(words, of_cell(&cell(7)));
    assert_eq!(value(&mut to, 3_000, Register::ReceiveCount), 0);
}

#[test]
fn any_payload_address_is_the_next_payload_word() {
    let mut words = placed(&cell(7));
    for (at, (offset, _)) in words[1..13].iter_mut().enumerate() {
        *offset = PAYLOAD + 4 * at as u32;
    }
    assert_eq!(pieces(&words), [53]);
}

#[test]
fn a_wrong_order_sends_deformed_cells() {
    let right = placed(&cell(7));
    let mut header_late = right.clone();
    header_late.swap(0, 1);
    assert_eq!(pieces(&header_late), [4, 49], "a stray word, then a cell that lacks it");
    let mut trailer_early = right.clone();
    trailer_early.swap(12, 13);
    let next = [trailer_early, right.clone()].concat();
    assert_eq!(pieces(&next), [49, 4, 53], "the late word leaves before the next header");
    let short = [&right[..5], &right[6..]].concat();
    assert_eq!(pieces(&short), [49]);
    let long = [&right[..5], &right[4..]].concat();
    assert_eq!(pieces(&long), [57]);
    assert_eq!(pieces(&[&right[..5], &right[..]].concat()), [19, 53], "given up for another");
}

#[test]
fn deformed_cells_are_flagged_or_lost_at_the_other_end() {
    let mut to = card();
    to.receive(0, &[0; 4]);
    assert_eq!(value(&mut to, 0, Register::Status), status::RECEIVE_CELL_LOST);
    assert_eq!(value(&mut to, 0, Register::ReceiveCount), 0);
    to.receive(0, &cell(7).octets()[..49]);
    let words = right_order().map(|at| to.read_word(0, RECEIVE_QUEUE + at).expect("a word").word);
    assert_eq!(words[13] & PAD2_FRAMING_ERROR, PAD2_FRAMING_ERROR);
}

#[test]
fn queues_hold_36_and_292_cells_and_pass_them_in_98_and_799_us() {
    assert_eq!([TRANSMIT_WORDS / CELL_WORDS, RECEIVE_WORDS / CELL_WORDS], [36, 292]);
    let mut card = card();
    let stalled: u64 =
        (0..36).map(|tag| write(&mut card, 0, &placed(&cell(tag))).expect("room")).sum();
    assert_eq!(stalled, 0);
    let cells = sent(&mut card, 1_000_000);
    assert_eq!(cells.len(), 36);
    assert_eq!(cells[35].at_ns, 98_478, "36 * 424 bits at 155 Mbit/s");
}

#[test]
fn a_full_transmit_queue_blocks_until_the_line_takes_a_word() {
    let mut card = card();
    let cells: Vec<_> = (0..40).map(cell).collect();
    let mut stalled = 0;
    for cell in &cells {
        stalled += write(&mut card, stalled * CYCLE_NS, &placed(cell)).expect("a sound card");
    }
    // 40 cells are 560 words: 48 of them wait for the line, which takes one in 195.4 ns.
    assert_eq!(stalled * CYCLE_NS, 9_400);
    assert_eq!(card.counters().stalls, 48);
    assert_eq!(card.transmit_words(9_400), 512);
    assert_eq!(sent(&mut card, 1_000_000).len(), 40, "and none is lost");
}

#[test]
fn a_stall_over_256_cycles_is_a_bus_error() {
    let mut off = Tca100::new(Config::default());
    for tag in 0..36 {
        write(&mut off, 0, &placed(&cell(tag))).expect("room");
    }
    write(&mut off, 0, &placed(&cell(36))[..8]).expect("eight words of room");
    let refused = write(&mut off, 0, &placed(&cell(36))[8..9]);
    assert_eq!(refused, Err(BusError::Timeout { offset: TRANSMIT_QUEUE + PAYLOAD }));
    assert_eq!(off.counters().stall_cycles, 256);

    // 256 cycles are 10,240 ns; the first word, 31 of 424 bits, takes 10,238 and 10,242 ns.
    for (bits_per_s, is_served) in [(3_028_000, true), (3_027_000, false)] {
        let mut slow = enabled(Config { line_bits_per_s: bits_per_s, ..Config::default() });
        for tag in 0..36 {
            write(&mut slow, 0, &placed(&cell(tag))).expect("room");
        }
        let last = write(&mut slow, 0, &placed(&cell(36))[..9]);
        assert_eq!(last.is_ok(), is_served, "{bits_per_s} bit/s: {last:?}");
    }
}

#[test]
fn an_early_card_holds_the_bus_now_and_then() {
    let mut early = enabled(Config { stalls_until_bus_error: 3, ..Config::default() });
    for tag in 0..36 {
        write(&mut early, 0, &placed(&cell(tag))).expect("room");
    }
    let words = placed(&cell(36));
    write(&mut early, 0, &words[..10]).expect("eight words of room and two stalls");
    assert!(write(&mut early, 400, &words[10..11]).is_err(), "the third stall never ends");
}

#[test]
fn what_arrives_at_a_full_receive_queue_is_dropped() {
    let mut card = card();
    for _ in 0..292 {
        card.receive(0, cell(1).octets());
    }
    assert_eq!(value(&mut card, 0, Register::Status) & status::RECEIVE_CELL_LOST, 0);
    card.receive(0, cell(2).octets());
    assert_eq!(value(&mut card, 0, Register::ReceiveCount), 292);
    let lost = status::RECEIVE_CELL_LOST;
    assert_eq!(value(&mut card, 0, Register::Status) & lost, lost);
    set(&mut card, Register::Status, !lost);
    assert_eq!(value(&mut card, 0, Register::Status) & lost, 0);
    assert_eq!(card.counters().lost_overrun, 1);
}

#[test]
fn a_byte_written_discards_the_cell_at_the_head() {
    let mut card = card();
    card.receive(0, cell(1).octets());
    card.receive(0, cell(2).octets());
    card.read_word(0, RECEIVE_QUEUE).expect("a header");
    card.write_byte(0, RECEIVE_QUEUE).expect("a queue");
    assert_eq!(value(&mut card, 0, Register::ReceiveCount), 1);
    card.read_word(0, RECEIVE_QUEUE).expect("a header");
    let word = card.read_word(0, RECEIVE_QUEUE + PAYLOAD).expect("a word").word;
    assert_eq!(word & 0xffff, 0x0202, "the second cell, from its start");
    card.write_byte(0, RECEIVE_QUEUE).expect("a queue");
    card.write_byte(0, RECEIVE_QUEUE).expect("a queue, though empty");
    assert_eq!((card.counters().discarded, card.counters().writes_misplaced), (2, 1));
}

#[test]
fn interrupts_come_by_count_end_of_message_and_timer() {
    let mut card = card();
    set(&mut card, Register::ReceiveComparator, 2);
    set(&mut card, Register::ReceiveTimerReload, 100);
    set(&mut card, Register::ControlSet, status::RECEIVE_COUNT | status::RECEIVE_TIMER);
    // 0x00 is the first octet of a COM, 0x40 that of an EOM.
    card.receive(1_000, cell(0).octets());
    assert!(!card.is_interrupting(1_000), "one cell of two, and its message goes on");
    assert_eq!(value(&mut card, 2_000, Register::ReceiveTimer), 75);
    assert_eq!(card.next_event_ns(), Some(5_000));
    assert!(card.is_interrupting(5_000), "100 ticks after the queue became non-empty");
    set(&mut card, Register::Status, !status::RECEIVE_TIMER);
    assert!(!card.is_interrupting(5_000));
    card.receive(6_000, cell(0).octets());
    assert!(card.is_interrupting(6_000), "two cells");
    set(&mut card, Register::ControlClear, !status::RECEIVE_COUNT);
    assert!(!card.is_interrupting(6_000), "no longer let through");
    card.receive(7_000, cell(0x40).octets());
    let end = status::RECEIVE_END_OF_MESSAGE;
    assert_eq!(value(&mut card, 7_000, Register::Status), status::RECEIVE_COUNT | end);
    set(&mut card, Register::ControlSet, end);
    assert!(card.is_interrupting(7_000));
}

#[test]
fn an_interrupt_tells_that_the_transmit_queue_runs_low() {
    let mut card = card();
    set(&mut card, Register::TransmitComparator, 1);
    set(&mut card, Register::ControlSet, status::TRANSMIT_COUNT);
    for tag in 0..3 {
        write(&mut card, 0, &placed(&cell(tag))).expect("room");
    }
    assert_eq!(value(&mut card, 0, Register::TransmitCount), 3);
    assert!(!card.is_interrupting(2_736), "two left");
    assert!(card.is_interrupting(5_471), "one left");
}

#[test]
fn a_reset_empties_a_path_and_leaves_the_other() {
    let mut card = card();
    card.receive(0, cell(1).octets());
    write(&mut card, 0, &placed(&cell(1))).expect("room");
    set(&mut card, Register::ControlSet, control::RECEIVE_RESET);
    set(&mut card, Register::ControlClear, !control::RECEIVE_RESET);
    assert_eq!(value(&mut card, 0, Register::ReceiveCount), 0);
    assert_eq!(value(&mut card, 0, Register::TransmitCount), 1);
    set(&mut card, Register::ControlSet, control::TRANSMIT_RESET);
    assert_eq!((card.transmit_words(0), sent(&mut card, 1_000_000)), (0, vec![]));
}

#[test]
fn nothing_is_sent_before_the_engine_is_on_nor_received() {
    let mut card = Tca100::new(Config::default());
    write(&mut card, 0, &placed(&cell(1))).expect("room");
    card.receive(0, cell(1).octets());
    assert_eq!((sent(&mut card, 10_000).len(), card.counters().lost_disabled), (0, 1));
    card.write_word(10_000, Register::Control.offset(), BOTH_ENGINES).expect("a register");
    assert_eq!(sent(&mut card, 20_000)[0].at_ns, 12_736, "from when it was switched on");
}

#[test]
fn darkness_shows_until_it_is_over_and_cleared() {
    let mut card = card();
    card.set_carrier(0, false);
    set(&mut card, Register::Status, 0);
    assert_eq!(value(&mut card, 0, Register::Status), status::RECEIVE_NO_CARRIER);
    card.receive(0, cell(1).octets());
    card.set_carrier(1, true);
    assert_eq!(value(&mut card, 1, Register::Status), status::RECEIVE_NO_CARRIER);
    set(&mut card, Register::Status, 0);
    assert_eq!(value(&mut card, 1, Register::Status), 0);
    assert_eq!(value(&mut card, 1, Register::ReceiveCount), 0);
}

#[test]
fn pad1_lets_wrong_crcs_through_to_test_a_receiver() {
    for polarity in [Pad1Polarity::OneSuppresses, Pad1Polarity::OneInserts] {
        for (bits, hec_bit, crc_bit) in [(0, false, false), (1, true, false), (2, false, true)] {
            let mut card = enabled(Config { pad1: polarity, ..Config::default() });
            let mut words = placed(&cell(7));
            words[1].1 = (words[1].1 & 0xffff) | (bits * PAD1_HEC);
            words[13].1 &= 0xfc00_0000;
            assert_eq!(2 * PAD1_HEC, PAD1_CRC);
            write(&mut card, 0, &words).expect("room");
            let sent = sent(&mut card, 10_000)[0].cell().expect("53 octets");
            let is_filled = |bit: bool| bit == (polarity == Pad1Polarity::OneInserts);
            assert_eq!(hec::syndrome(sent.header_octets()) == 0, is_filled(hec_bit));
            assert_eq!(crc10::syndrome(sent.payload()) == 0, is_filled(crc_bit));
        }
    }
}

#[test]
fn reads_out_of_order_and_of_nothing_give_zero_and_are_counted() {
    let mut card = card();
    for offset in [RECEIVE_QUEUE, RECEIVE_QUEUE + TRAILER, TRANSMIT_QUEUE] {
        assert_eq!(card.read_word(0, offset), Ok(Access::default()));
    }
    card.write_word(0, TRANSMIT_QUEUE + 0x38, 1).expect("an unused word");
    assert_eq!((card.counters().reads_misplaced, card.counters().writes_misplaced), (3, 1));
    for offset in [REGION_BYTES, Register::Control.offset() + 0x40] {
        assert_eq!(card.read_word(0, offset), Err(BusError::NoDevice { offset }));
        assert_eq!(card.write_word(0, offset, 0), Err(BusError::NoDevice { offset }));
        assert_eq!(card.write_byte(0, offset), Err(BusError::NoDevice { offset }));
    }
}
