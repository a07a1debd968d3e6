//! Two hosts with the driver and a fibre that loses cells and flips a bit here and there: each
//! delivered message is a sent one, once.
//!
//! The input is a row of messages of 4 octets: 2 of length, 2 of cell and damage. Corpus: none
//! needed.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sockscope_atm::aal34::{Format, Limits, Policy};
use sockscope_atm::driver::{Costs, CountingHost, Delivery, Host, Receiver, Reordering, Sender};
use sockscope_atm::tca100::map::{Register, control};
use sockscope_atm::tca100::{Config, Tca100};
use sockscope_atm::{Channel, Header};

const CHANNEL: Channel = Channel::of_path_0(32);

fuzz_target!(|octets: &[u8]| {
    let Some((&choice, messages)) = octets.split_first() else { return };
    let limits = Limits {
        policy: if choice & 1 == 0 { Policy::Discard } else { Policy::Repair { asks_max: 1 } },
        corrects_bits: choice & 2 != 0,
        ..Limits::default()
    };
    let mut receiver = Receiver::new(Format::FiveBit, limits, vec![CHANNEL]);
    let sender = Sender::new(Format::FiveBit, &Header::of_channel(CHANNEL)).expect("a small VPI");
    let mut from = Reordering::new(host(Costs::of_bus(200)), usize::from(choice >> 4) + 1);
    let mut to = host(Costs::default());
    let mut delivered = Vec::new();
    for (id, [high, low, at, damage]) in messages.as_chunks::<4>().0.iter().take(512).enumerate() {
        let length = usize::from(u16::from_be_bytes([*high, *low])) % 1408 + 1;
        sender.send(&mut from, id as u16, &message(id, length)).expect("a sound card");
        carry(&mut from.host, &mut to, *at, *damage);
        let deliver = |delivery: Delivery<'_>| {
            if let Delivery::Message(key, octets) = delivery {
                let id = usize::from(key.message_id);
                assert_eq!(octets, message(id, octets.len()));
                delivered.push(id);
            }
        };
        receiver.poll(&mut to, deliver).expect("a sound card");
        let is_whole = delivered.last() == Some(&id);
        assert!(is_whole || damage & 3 != 0, "nothing happened to message {id}");
    }
    assert!(delivered.is_sorted_by(|first, second| first < second), "each at most once");
});

fn host(costs: Costs) -> CountingHost {
    let mut card = Tca100::new(Config::default());
    let engines = control::RECEIVE_ENABLE | control::TRANSMIT_ENABLE;
    card.write_word(0, Register::Control.offset(), engines).expect("a register");
    CountingHost::new(card, costs)
}

fn message(id: usize, length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 3 + id) as u8).collect()
}

/// Carries all cells over. `damage` decides whether the cell at `at` is lost (1), or has one bit of its
/// header (2) or payload (3) flipped.
fn carry(from: &mut CountingHost, to: &mut CountingHost, at: u8, damage: u8) {
    let mut carried = 0;
    loop {
        let Some(line) = from.card.take_sent(from.now_ns()) else {
            let Some(event_ns) = from.card.next_event_ns() else { return };
            from.wait_until(event_ns);
            continue;
        };
        let mut cell = line.cell().expect("flushes keep cells whole");
        let is_met = carried == at % 32;
        carried += 1;
        let bit = usize::from(damage >> 2) * 6;
        match damage & 3 {
            1 if is_met => continue,
            2 if is_met => cell.header_mut()[bit % 40 / 8] ^= 0x80 >> (bit % 8),
            3 if is_met => cell.payload_mut()[bit % 384 / 8] ^= 0x80 >> (bit % 8),
            _ => {}
        }
        to.card.receive(line.at_ns, cell.octets());
        to.wait_until(line.at_ns);
    }
}
