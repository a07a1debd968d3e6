//! Two hosts with a card each and a fibre between, driven by the thesis's driver.

use proptest::prelude::*;

use super::*;
use crate::aal34::{Dropped, Format, Limits, Missing, Policy, Reason};
use crate::tca100::map::{Register, control};
use crate::tca100::{BusError, Config, LineCell, Tca100};
use crate::{Cell, Channel, Header};

const CHANNEL: Channel = Channel::of_path_0(32);

const FORMAT: Format = Format::FiveBit;

fn host(costs: Costs) -> CountingHost {
    let mut card = Tca100::new(Config::default());
    let engines = control::RECEIVE_ENABLE | control::TRANSMIT_ENABLE;
    card.write_word(0, Register::Control.offset(), engines).expect("a register");
    CountingHost::new(card, costs)
}

fn message(octets: usize) -> Vec<u8> {
    (0..octets).map(|at| (at * 7 + 1) as u8).collect()
}

fn sender() -> Sender {
    Sender::new(FORMAT, &Header::of_channel(CHANNEL)).expect("a small VPI")
}

fn receiver(limits: Limits) -> Receiver {
    Receiver::new(FORMAT, limits, vec![CHANNEL])
}

/// The work of sending one message on an idle card.
fn counts(octets: usize) -> WorkCounts {
    let mut host = host(Costs::default());
    sender().send(&mut host, 1, &message(octets)).expect("a legal message");
    host.counts()
}

/// Lets everything that `from` sent arrive at `to`; `alter` may change or lose a cell.
fn carry(
    from: &mut CountingHost,
    to: &mut CountingHost,
    mut alter: impl FnMut(usize, &mut Cell) -> bool,
) {
    for at in 0.. {
        let Some(line) = next_sent(from) else { break };
        match line.cell() {
            Some(mut cell) => {
                if alter(at, &mut cell) {
                    to.card.receive(line.at_ns, cell.octets());
                }
            }
            None => to.card.receive(line.at_ns, line.octets()),
        }
        to.wait_until(line.at_ns);
    }
}

/// The next cell that leaves, waiting for it as long as it takes.
fn next_sent(from: &mut CountingHost) -> Option<LineCell> {
    loop {
        if let Some(line) = from.card.take_sent(from.now_ns()) {
            return Some(line);
        }
        from.wait_until(from.card.next_event_ns()?);
    }
}

/// The receiver's deliveries of all waiting cells, as text; messages must be those of `message`.
fn received(receiver: &mut Receiver, host: &mut CountingHost) -> String {
    let mut seen = Vec::new();
    let deliver = |delivery: Delivery<'_>| {
        seen.push(match delivery {
            Delivery::Message(key, octets) => {
                assert_eq!(octets, message(octets.len()));
                format!("{} of {}", key.message_id, octets.len())
            }
            Delivery::Dropped(Dropped { key, reason, .. }) => {
                format!("{} {reason:?}", key.message_id)
            }
            Delivery::Missing(Missing { key, cells, .. }) => {
                format!("{} lacks {cells:#b}", key.message_id)
            }
        });
    };
    receiver.poll(host, deliver).expect("no bus error");
    seen.join(", ")
}

#[test]
fn every_size_arrives_whole_and_in_as_few_cells_as_hold_it() {
    let (mut from, mut to) = (host(Costs::default()), host(Costs::default()));
    let mut end = receiver(Limits::default());
    for octets in 1..=1408 {
        let id = octets as u16 % 512;
        let cells = sender().send(&mut from, id, &message(octets)).expect("a legal message");
        assert_eq!(cells, octets.div_ceil(44));
        carry(&mut from, &mut to, |_, _| true);
        assert_eq!(received(&mut end, &mut to), format!("{id} of {octets}"));
    }
}

/// The card fills HEC and CRC in, so that the cells sent are those of the vectors.
#[test]
fn cells_of_the_vectors_leave_the_card() {
    let mut cells: Vec<(String, u16, Cell)> = Vec::new();
    for line in include_str!("../../tests/vectors/sar.csv").lines().filter(|l| l.contains(",sn5,"))
    {
        let columns: Vec<&str> = line.rsplitn(9, ',').collect();
        let octets: Vec<u8> = (0..106)
            .step_by(2)
            .map(|at| u8::from_str_radix(&columns[0][at..at + 2], 16).unwrap())
            .collect();
        let cell = Cell::try_from(&octets[..]).expect("53 octets");
        cells.push((columns[8].to_owned(), columns[3].parse().expect("a MID"), cell));
    }
    let mut messages = 0;
    for cells in cells.chunk_by(|first, second| first.0 == second.0) {
        let data = cells.iter().flat_map(|(_, _, cell)| {
            let pdu = crate::aal34::SarPdu::new(cell.payload());
            pdu.data()[..pdu.length().into()].to_vec()
        });
        let mut host = host(Costs::default());
        sender().send(&mut host, cells[0].1, &data.collect::<Vec<u8>>()).expect("a legal message");
        for (name, _, expected) in cells {
            let sent = host.card.take_sent(1_000_000).and_then(|line| line.cell());
            assert_eq!(sent, Some(*expected), "{name}");
        }
        messages += 1;
    }
    assert_eq!(messages, 5);
}

#[test]
fn two_cells_take_the_short_path_and_one_octet_more_the_long() {
    let counts = [88, 89].map(counts);
    assert_eq!(counts.map(|counts| counts[Work::TwoCellSetup]), [1, 0]);
    assert_eq!(counts.map(|counts| counts[Work::MessageSetup]), [0, 1]);
    assert_eq!(counts.map(|counts| counts[Work::SequenceStep]), [0, 2]);
    assert_eq!(counts.map(|counts| counts[Work::HeaderWrite]), [2, 3]);
    assert_eq!(counts.map(|counts| counts[Work::Flush]), [7, 10]);
    assert_eq!(counts.map(|counts| counts[Work::FillerWrite]), [0, 10]);
    assert_eq!(counts.map(|counts| counts.bus_accesses()), [28, 42]);
}

/// Whateley: 43 octets of filler follow 89 octets of payload, and 1,057.
#[test]
fn filler_is_counted_in_words_and_in_the_word_that_it_shares() {
    for octets in [89, 1057] {
        let counts = counts(octets);
        let shared = 3;
        assert_eq!(counts[Work::FillerWrite] * 4 + shared, 43, "{octets}");
        assert_eq!(counts[Work::DataLoadPart], 1, "{octets}");
        assert_eq!(counts[Work::DataLoad], octets as u64 / 4, "{octets}");
    }
}

#[test]
fn words_copied_grow_by_the_message_and_all_others_by_the_cell() {
    for octets in 69..=1092 {
        let counts = counts(octets);
        assert_eq!(counts[Work::DataWrite], octets.div_ceil(4) as u64);
        assert_eq!(counts.bus_accesses(), 14 * octets.div_ceil(44) as u64);
        assert_eq!(counts[Work::Flush], 1 + 3 * octets.div_ceil(44) as u64);
    }
}

/// Whateley, Figure 4: the copy share of a packet with a header of 68 octets is a saw tooth of 44
/// octets. It is lowest at 21 octets of data, at any cost of an access.
#[test]
fn the_copy_share_is_a_saw_tooth_that_is_lowest_at_21_octets_of_data() {
    let mut costs = Costs::of_bus(225);
    for work in [Work::DataLoad, Work::DataLoadPart, Work::Flush, Work::CellLoop] {
        costs[work] = 20;
    }
    (costs[Work::MessageSetup], costs[Work::TwoCellSetup]) = (1_000, 200);
    let share = |data: usize| {
        let (copy_ns, other_ns) = counts(68 + data).cost_ns(&costs);
        copy_ns as f64 / (copy_ns + other_ns) as f64
    };
    let shares: Vec<f64> = (0..=1024).map(share).collect();
    let falls: Vec<usize> = (1..=1024).filter(|&at| shares[at] < shares[at - 1]).collect();
    assert_eq!(falls, (21..=1024).step_by(44).collect::<Vec<_>>());
    assert!(shares.iter().all(|&share| share >= shares[21]));
}

#[test]
fn flushes_keep_cells_whole_behind_a_buffer_that_reorders() {
    for depth in [1, 2, 6] {
        let mut from = Reordering::new(host(Costs::default()), depth);
        sender().send(&mut from, 1, &message(1092)).expect("a legal message");
        let mut to = host(Costs::default());
        carry(&mut from.host, &mut to, |_, _| true);
        assert_eq!(received(&mut receiver(Limits::default()), &mut to), "1 of 1092");
    }
}

#[test]
fn without_flushes_a_buffer_that_reorders_deforms_cells() {
    let mut from = Reordering::new(host(Costs::default()), 6);
    sender().without_flushes().send(&mut from, 1, &message(1092)).expect("a legal message");
    from.flush().expect("no bus error");
    let mut to = host(Costs::default());
    carry(&mut from.host, &mut to, |_, _| true);
    assert!(from.host.card.counters().sent_deformed > 0);
    assert_eq!(received(&mut receiver(Limits::default()), &mut to), "");
}

#[test]
fn a_fast_host_is_held_to_the_line_and_loses_nothing() {
    let mut from = host(Costs::of_bus(40));
    let mut to = host(Costs::default());
    for id in 0..10 {
        sender().send(&mut from, id, &message(1092)).expect("a sound card");
    }
    // The line begins after 14 words of 40 ns, and has taken all of 3,500 but the 512 that wait.
    let line_ns = 14 * 40 + (3_500 - 512) * 424_000 / (14 * 155);
    let cycle_ns = crate::tca100::CYCLE_NS;
    assert!((line_ns..line_ns + cycle_ns).contains(&from.now_ns()), "{}", from.now_ns());
    assert!(from.waited_cycles() > 0);
    carry(&mut from, &mut to, |_, _| true);
    let whole: Vec<String> = (0..10).map(|id| format!("{id} of 1092")).collect();
    assert_eq!(received(&mut receiver(Limits::default()), &mut to), whole.join(", "));
}

/// Whateley: a VMTP message of 16 KB is more than the receive queue holds.
#[test]
fn a_burst_of_16_kb_overruns_a_receiver_that_does_not_drain() {
    let (mut from, mut to) = (host(Costs::of_bus(40)), host(Costs::default()));
    for id in 0..16 {
        sender().send(&mut from, id, &message(1092)).expect("a sound card");
    }
    carry(&mut from, &mut to, |_, _| true);
    assert_eq!(to.card.counters().lost_overrun, 16 * 25 - 292);
    // 292 cells are eleven packets of 25 cells, and a part of the twelfth.
    let mut end = receiver(Limits::default());
    let seen = received(&mut end, &mut to);
    assert_eq!(seen.matches("of 1092").count(), 11);
}

#[test]
fn a_lost_cell_costs_one_message_or_one_request() {
    let (mut from, mut to) = (host(Costs::default()), host(Costs::default()));
    let mut end = receiver(Limits::default());
    sender().send(&mut from, 1, &message(500)).expect("legal");
    sender().send(&mut from, 2, &message(500)).expect("legal");
    carry(&mut from, &mut to, |at, _| at != 3);
    assert_eq!(received(&mut end, &mut to), "1 Gap, 2 of 500");

    let mut end = receiver(Limits { policy: Policy::Repair { asks_max: 1 }, ..Limits::default() });
    sender().send(&mut from, 1, &message(500)).expect("legal");
    carry(&mut from, &mut to, |at, _| at != 3);
    assert_eq!(received(&mut end, &mut to), "1 lacks 0b1000");
    sender().send(&mut from, 1, &message(500)).expect("legal");
    carry(&mut from, &mut to, |at, _| at == 3);
    assert_eq!(received(&mut end, &mut to), "1 of 500");
}

#[test]
fn one_wrong_bit_in_header_or_payload_is_put_right_where_asked_for() {
    let correcting = Limits { corrects_bits: true, ..Limits::default() };
    for bit in 0..424 {
        let (mut from, mut to) = (host(Costs::default()), host(Costs::default()));
        sender().send(&mut from, 1, &message(100)).expect("legal");
        carry(&mut from, &mut to, |at, cell| {
            cell.octets_mut()[bit / 8] ^= if at == 1 { 0x80 >> (bit % 8) } else { 0 };
            true
        });
        let mut end = receiver(correcting);
        assert_eq!(received(&mut end, &mut to), "1 of 100", "bit {bit}");
        assert_eq!(end.counters().corrected_header, u64::from(bit < 40));
        assert_eq!(end.reassembler().counters().corrected, u64::from(bit >= 40));
    }
}

#[test]
fn cells_of_no_use_are_discarded_after_two_words() {
    let (mut from, mut to) = (host(Costs::default()), host(Costs::default()));
    let other = Header::of_channel(Channel::of_path_0(33));
    let other = Sender::new(FORMAT, &other).expect("a small VPI");
    other.send(&mut from, 1, &message(20)).expect("legal");
    sender().send(&mut from, 2, &message(20)).expect("legal");
    sender().send(&mut from, 3, &message(20)).expect("legal");
    carry(&mut from, &mut to, |at, cell| {
        cell.octets_mut()[1] ^= u8::from(at == 1);
        true
    });
    let mut end = receiver(Limits::default());
    assert_eq!(received(&mut end, &mut to), "3 of 20");
    let expected = ReceiverCounters { unwanted: 1, bad_header: 1, ..ReceiverCounters::default() };
    assert_eq!(end.counters(), expected);
    let counts = to.counts();
    assert_eq!((counts[Work::Discard], counts[Work::DataRead]), (2, 11));
    assert_eq!(counts[Work::RegisterRead], 1, "one poll");
}

#[test]
fn a_message_that_does_not_end_is_given_up_by_the_next_poll_after_its_time() {
    let (mut from, mut to) = (host(Costs::default()), host(Costs::default()));
    let mut end = receiver(Limits { timeout_ns: 1_000_000, ..Limits::default() });
    sender().send(&mut from, 1, &message(100)).expect("legal");
    carry(&mut from, &mut to, |at, _| at < 2);
    assert_eq!(received(&mut end, &mut to), "");
    to.wait_until(2_000_000);
    assert_eq!(received(&mut end, &mut to), format!("1 {:?}", Reason::Timeout));
}

#[test]
fn what_cannot_be_sent_is_refused_before_anything_is_written() {
    let mut host = host(Costs::default());
    for (id, octets) in [(1, 0), (1, 1409), (512, 100)] {
        let refused = sender().send(&mut host, id, &message(octets));
        assert!(matches!(refused, Err(SendError::Message(_))), "{id} {octets}");
    }
    assert_eq!(host.counts(), WorkCounts::default());
}

#[test]
fn a_bus_error_reaches_the_program() {
    let mut dead = CountingHost::new(Tca100::new(Config::default()), Costs::default());
    let refused = sender().send(&mut dead, 1, &message(1408)).map(|_| ());
    assert_eq!(refused, Ok(()), "448 words fit the queue of a card whose engine is off");
    let refused = sender().send(&mut dead, 2, &message(1408));
    assert!(matches!(refused, Err(SendError::Bus(BusError::Timeout { .. }))));
}

proptest! {
    /// The driver and the plain segmentation make the same cells.
    #[test]
    fn the_driver_makes_the_cells_of_the_plain_segmentation(octets in 45usize..=1408, id in 0u16..512) {
        let mut host = host(Costs::default());
        sender().send(&mut host, id, &message(octets)).unwrap();
        let message = message(octets);
        let header = Header::of_channel(CHANNEL);
        let plain = crate::aal34::Segmentation::new(&message, FORMAT, &header, id).unwrap();
        for cell in plain.iter() {
            let sent = next_sent(&mut host).and_then(|line| line.cell());
            prop_assert_eq!(sent, Some(cell));
        }
    }
}
