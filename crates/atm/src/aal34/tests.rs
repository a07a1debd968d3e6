//! Both ends of AAL3/4 together: a script of cells in, the deliveries as one line of text.
//!
//! A script is a row of words, each one cell that arrives 1,000 ns after the one before: `7.0` is
//! cell 0 of message 7; `7.1!` has two wrong bits, `7.1~` one; a time as `5ms` lets the clock run to
//! it. Messages are numbered octets; `bytes` gives the length of message 7.

use proptest::prelude::*;

use super::*;
use crate::{Cell, Channel, Header};

const CHANNEL: Channel = Channel::of_path_0(32);

const REPAIR: Policy = Policy::Repair { asks_max: 2 };

fn message(id: u16, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 7 + usize::from(id)) as u8).collect()
}

fn cell(format: Format, id: u16, bytes: usize, at: usize) -> Cell {
    let message = message(id, bytes);
    let segmentation = Segmentation::new(&message, format, &Header::of_channel(CHANNEL), id);
    let mut cell = Cell::default();
    assert!(segmentation.expect("a legal message").write_cell(at, &mut cell), "cell {at}");
    cell
}

/// Runs a script against five-bit messages of `bytes` octets.
fn run(limits: Limits, bytes: usize, script: &str) -> String {
    let mut end = Reassembler::new(Format::FiveBit, limits);
    let mut seen = Vec::new();
    let mut now_ns = 0;
    for word in script.split_whitespace() {
        if let Some(milliseconds) = word.strip_suffix("ms") {
            now_ns = milliseconds.parse::<u64>().expect("a time") * 1_000_000;
            while let Some(event) = end.expire(now_ns) {
                seen.push(match event {
                    TimerEvent::Dropped(dropped) => drop_text(&dropped),
                    TimerEvent::Missing(missing) => missing_text(&missing),
                });
            }
            continue;
        }
        now_ns += 1_000;
        let damage = word.trim_start_matches(|mark| mark != '!' && mark != '~');
        let (id, at) = word[..word.len() - damage.len()].split_once('.').expect("message.cell");
        let (id, at) = (id.parse().expect("a message"), at.parse().expect("a cell"));
        let mut cell = cell(Format::FiveBit, id, bytes, at);
        cell.payload_mut()[20] ^= match damage {
            "!" => 0b11,
            "~" => 0b10,
            _ => 0,
        };
        let outcome = end.receive(now_ns, CHANNEL, cell.payload());
        seen.extend(outcome.dropped.iter().map(drop_text));
        seen.extend(outcome.missing.iter().map(missing_text));
        if let Some((key, octets)) = outcome.message {
            assert_eq!(octets, message(key.message_id, bytes), "octets of {}", key.message_id);
            seen.push(format!("{} whole", key.message_id));
        }
    }
    seen.join(", ")
}

fn drop_text(dropped: &Dropped) -> String {
    format!("{} {:?} after {}", dropped.key.message_id, dropped.reason, dropped.cells)
}

fn missing_text(missing: &Missing) -> String {
    let cells: Vec<_> = (0..32).filter(|at| missing.cells >> at & 1 == 1).collect();
    let tail = missing.all_from.map_or(String::new(), |from| format!(" and from {from}"));
    format!("{} lacks {cells:?}{tail}", missing.key.message_id)
}

fn discard() -> Limits {
    Limits { timeout_ns: 2_000_000, ..Limits::default() }
}

fn repair() -> Limits {
    Limits { policy: REPAIR, ..discard() }
}

#[test]
fn a_message_is_whole_with_its_last_cell() {
    assert_eq!(run(discard(), 100, "7.0 7.1 7.2"), "7 whole");
    assert_eq!(run(discard(), 20, "7.0"), "7 whole");
}

#[test]
fn messages_of_one_channel_may_be_interleaved() {
    assert_eq!(run(discard(), 100, "7.0 8.0 8.1 7.1 8.2 7.2"), "8 whole, 7 whole");
}

#[test]
fn a_lost_cell_gives_up_the_message_and_no_other() {
    assert_eq!(run(discard(), 100, "7.0 8.0 7.2 8.1 8.2"), "7 Gap after 1, 8 whole");
    assert_eq!(run(discard(), 100, "7.1 7.2 8.0 8.1 8.2"), "8 whole");
}

#[test]
fn a_lost_end_is_noticed_by_the_next_message_or_by_the_timer() {
    assert_eq!(run(discard(), 100, "7.0 7.1 7.0 7.1 7.2"), "7 Overtaken after 2, 7 whole");
    assert_eq!(run(discard(), 100, "7.0 7.1 2ms 3ms 7.2"), "7 Timeout after 2");
}

#[test]
fn the_time_of_a_message_begins_with_its_first_cell() {
    assert_eq!(run(discard(), 100, "7.0 1ms 7.1 2ms 7.2"), "7 whole");
    assert_eq!(run(discard(), 100, "7.0 1ms 7.1 3ms 7.2"), "7 Timeout after 2");
}

#[test]
fn one_wrong_bit_is_put_right_where_asked_for_and_two_never_are() {
    let correcting = Limits { corrects_bits: true, ..discard() };
    assert_eq!(run(discard(), 100, "7.0 7.1~ 7.2"), "7 Gap after 1");
    assert_eq!(run(correcting, 100, "7.0~ 7.1~ 7.2~"), "7 whole");
    assert_eq!(run(correcting, 100, "7.0 7.1! 7.2"), "7 Gap after 1");
}

#[test]
fn a_gap_is_asked_for_at_once_and_the_message_is_repaired() {
    assert_eq!(run(repair(), 200, "7.0 7.3 7.4 7.1 7.2"), "7 lacks [1, 2], 7 whole");
    assert_eq!(run(repair(), 200, "7.2 7.3 7.4 7.0 7.1"), "7 lacks [0, 1], 7 whole");
}

#[test]
fn a_lost_end_is_asked_for_by_the_timer_until_patience_ends() {
    let asked = "7 lacks [1], 7 lacks [1] and from 3";
    assert_eq!(run(repair(), 200, "7.0 7.2 3ms 7.1 7.3 7.4"), format!("{asked}, 7 whole"));
    let given_up = "7 lacks [] and from 1, 7 lacks [] and from 1, 7 Timeout after 1";
    assert_eq!(run(repair(), 200, "7.0 3ms 6ms 9ms 12ms"), given_up);
}

#[test]
fn a_repetition_does_nothing_even_after_delivery() {
    assert_eq!(run(repair(), 100, "7.0 7.0 7.1 7.2 7.1 7.0 7.2"), "7 whole");
}

#[test]
fn a_delivered_message_is_forgotten_after_the_timeout() {
    assert_eq!(run(repair(), 100, "7.0 7.1 7.2 3ms 7.0 7.1 7.2"), "7 whole, 7 whole");
}

#[test]
fn another_message_of_the_same_name_is_told_by_its_octets() {
    let mut end = Reassembler::new(Format::FiveBit, repair());
    let short = cell(Format::FiveBit, 7, 50, 1);
    assert_eq!(end.receive(0, CHANNEL, short.payload()).missing.map(|m| m.cells), Some(1));
    let long = cell(Format::FiveBit, 7, 100, 1);
    let outcome = end.receive(0, CHANNEL, long.payload());
    assert_eq!(outcome.dropped.map(|d| d.reason), Some(Reason::Overtaken));
}

#[test]
fn as_many_messages_are_open_as_may_be() {
    let limits = Limits { messages_max: 2, ..discard() };
    assert_eq!(run(limits, 100, "1.0 2.0 3.0 3.1 3.2 1.1 1.2 3.0 3.1 3.2"), "1 whole, 3 whole");
    let limits = Limits { messages_max: 1, ..repair() };
    let script = "1.0 1.1 1.2 2.0 2.1 2.2";
    assert_eq!(run(limits, 100, script), "1 whole, 2 whole", "the delivered one makes room");
}

#[test]
fn a_message_longer_than_may_be_is_given_up() {
    let limits = Limits { message_bytes_max: 99, ..discard() };
    assert_eq!(run(limits, 100, "7.0 7.1 7.2"), "7 TooLong after 2");
    let limits = Limits { message_bytes_max: 100, ..discard() };
    assert_eq!(run(limits, 100, "7.0 7.1 7.2"), "7 whole");
}

#[test]
fn an_abort_ends_a_message() {
    let mut end = Reassembler::new(Format::Standard, discard());
    end.receive(0, CHANNEL, cell(Format::Standard, 7, 100, 0).payload());
    let mut abort = cell(Format::Standard, 7, 100, 2);
    abort.payload_mut()[46] |= LENGTH_ABORT << 2;
    crate::crc10::insert(abort.payload_mut());
    let dropped = end.receive(0, CHANNEL, abort.payload()).dropped.expect("given up");
    assert_eq!(dropped.reason, Reason::Aborted);
    assert_eq!(end.receive(0, CHANNEL, abort.payload()), Outcome::default(), "none is open");
}

#[test]
fn channels_have_messages_of_the_same_name() {
    let mut end = Reassembler::new(Format::Standard, discard());
    let other = Channel { vpi: 1, vci: 32 };
    for at in 0..3 {
        for channel in [CHANNEL, other] {
            let cell = cell(Format::Standard, 7, 100, at);
            let message = end.receive(0, channel, cell.payload()).message;
            assert_eq!(message.map(|(key, _)| key.channel), (at == 2).then_some(channel));
        }
    }
}

#[test]
fn cells_outside_the_message_are_not_written() {
    let octets = message(1, 100);
    let header = Header::of_channel(CHANNEL);
    let segmentation = Segmentation::new(&octets, Format::Standard, &header, 1).expect("legal");
    assert!(!segmentation.write_cell(3, &mut Cell::default()));
    assert!(segmentation.write(&mut [Cell::default(); 2]).is_err());
    assert_eq!(segmentation.write(&mut [Cell::default(); 4]), Ok(3));
}

#[test]
fn messages_that_the_format_cannot_carry_are_refused() {
    let header = Header::of_channel(CHANNEL);
    let is_refused =
        |bytes: usize, format| Segmentation::new(&vec![0; bytes], format, &header, 0).is_err();
    let refused = [0, 4, 8, 9, 65_544, 65_548].map(|bytes| is_refused(bytes, Format::Standard));
    assert_eq!(refused, [true, true, false, true, false, true]);
    let refused = [0, 1, 1092, 1408, 1409].map(|bytes| is_refused(bytes, Format::FiveBit));
    assert_eq!(refused, [true, false, false, false, true]);
}

proptest! {
    #[test]
    fn what_is_segmented_comes_back(bytes in 2usize..600, id in 0u16..1024, first: u8) {
        let message = message(id, bytes * 4);
        let header = Header::of_channel(CHANNEL);
        let segmentation =
            Segmentation::new(&message, Format::Standard, &header, id).expect("legal").numbered_from(first);
        let mut end = Reassembler::new(Format::Standard, Limits::default());
        let mut delivered = None;
        for cell in segmentation.iter() {
            prop_assert_eq!(delivered, None);
            delivered = end.receive(0, CHANNEL, cell.payload()).message.map(|(_, octets)| octets.to_vec());
        }
        prop_assert_eq!(delivered, Some(message));
        prop_assert_eq!(end.open_messages(), 0);
    }

    /// Cells of several messages are lost at random; missing cells are sent again, and may be lost
    /// again. Each message that had one cell arrive is delivered once, right, or given up.
    #[test]
    fn repair_delivers_once_or_gives_up(
        lost in prop::collection::vec(prop::bool::weighted(0.3), 400), bytes in 1usize..1408,
    ) {
        let mut lost = lost.into_iter().chain(std::iter::repeat(true));
        let mut end = Reassembler::new(Format::FiveBit, repair());
        let cells = cells_for(bytes);
        let mut to_send: std::collections::VecDeque<_> =
            (0..3).flat_map(|id| (0..cells).map(move |at| (id, at))).collect();
        let (mut now_ns, mut sent, mut arrived) = (0, 0, [false; 3]);
        let (mut whole, mut given_up) = ([0; 3], [0; 3]);
        loop {
            let mut asks = Vec::new();
            if let Some((id, at)) = to_send.pop_front() {
                sent += 1;
                if sent > 400 || lost.next() == Some(true) { continue; }
                arrived[usize::from(id)] = true;
                let cell = cell(Format::FiveBit, id, bytes, at);
                let outcome = end.receive(now_ns, CHANNEL, cell.payload());
                prop_assert_eq!(outcome.dropped, None);
                asks.extend(outcome.missing);
                if let Some((key, octets)) = outcome.message {
                    prop_assert_eq!(octets, message(key.message_id, bytes));
                    whole[usize::from(key.message_id)] += 1;
                }
            } else {
                let Some(deadline_ns) = end.next_deadline_ns() else { break };
                now_ns = deadline_ns;
                match end.expire(now_ns) {
                    Some(TimerEvent::Missing(missing)) => asks.push(missing),
                    Some(TimerEvent::Dropped(dropped)) => given_up[usize::from(dropped.key.message_id)] += 1,
                    None => {}
                }
            }
            for Missing { key, cells: bits, all_from } in asks {
                let is_asked = |at: &usize| bits >> at & 1 == 1 || all_from.is_some_and(|from| *at >= from.into());
                to_send.extend((0..cells).filter(is_asked).map(|at| (key.message_id, at)));
            }
        }
        for id in 0..3 {
            prop_assert_eq!(whole[id] + given_up[id], u32::from(arrived[id]), "message {}", id);
        }
    }

    #[test]
    fn any_cells_leave_memory_bounded(
        cells in prop::collection::vec((prop::collection::vec(any::<u8>(), 48), 0u64..3_000_000), 0..200),
        repairs: bool,
    ) {
        let policy = if repairs { REPAIR } else { Policy::Discard };
        let limits = Limits { messages_max: 4, message_bytes_max: 200, policy, ..discard() };
        let mut end = Reassembler::new(Format::FiveBit, limits);
        let mut now_ns = 0;
        for (octets, later_ns) in cells {
            let mut payload: [u8; 48] = octets.try_into().unwrap();
            // Few names and right CRCs, so that cells meet.
            payload[0] &= 0xde;
            payload[1] &= 0x03;
            if payload[0] & 0x40 == 0 { payload[46] = 44 << 2; }
            crate::crc10::insert(&mut payload);
            now_ns += later_ns;
            while end.expire(now_ns).is_some() {}
            end.receive(now_ns, CHANNEL, &payload);
            prop_assert!(end.open_messages() <= 4);
            prop_assert!(end.capacity_bytes() <= 2 * 4 * 200 + 5 * 64);
        }
    }
}
