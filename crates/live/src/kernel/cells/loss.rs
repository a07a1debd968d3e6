//! Messages of 16 KB whose cells are lost by chance, under either policy for packets that lack a cell.
//!
//! Sender and receiver take turns on this processor: a round is all packets that are not whole, then the answer. No
//! fibre lies between them, so that a time limit of the receiver costs no time.

use std::time::Instant;

use sockscope_atm::aal34::{
    Limits, Missing, Policy, Reassembler, Segmentation, TimerEvent, cells_for,
};
use sockscope_atm::{Cell, HEADER_BYTES, Header, PAYLOAD_BYTES};
use sockscope_experiment::measurement::{Measure, Measurement};
use sockscope_experiment::{AtmParameters, LossPolicy, VMTP_HEADER_BYTES};
use sockscope_sim::random::Random;

use super::send::{CHANNEL, FORMAT};

/// Packets of a message, and data of each.
const PACKETS: usize = 16;
const DATA_BYTES: usize = 1024;
const PACKET_BYTES: usize = DATA_BYTES + VMTP_HEADER_BYTES as usize;
/// Answers after which a message is taken to be stuck.
const ROUNDS_MAX: u32 = 10_000;
/// All cells of a packet, by their numbers.
const ALL: u32 = u32::MAX >> (u32::BITS - cells_of_packet() as u32);

const fn cells_of_packet() -> usize {
    PACKET_BYTES.div_ceil(44)
}

struct Pair {
    receiver: Reassembler,
    limits: Limits,
    repairs: bool,
    chance: Random,
    lost_per_million: u32,
    cells_sent: u64,
    cells_lost: u64,
    rounds: u64,
    receiver_ns: u128,
    /// Of the receiver's time limits.
    now_ns: u64,
}

pub(super) fn run(parameters: &AtmParameters, seed: u64) -> Result<Measurement, String> {
    debug_assert_eq!(cells_for(PACKET_BYTES), cells_of_packet());
    let repairs = parameters.loss_policy == Some(LossPolicy::Repair);
    let policy = if repairs { Policy::Repair { asks_max: u8::MAX } } else { Policy::Discard };
    let limits = Limits { policy, ..Limits::default() };
    let messages = parameters.messages.unwrap_or(1);
    let mut pair = Pair {
        receiver: Reassembler::new(FORMAT, limits),
        limits,
        repairs,
        chance: Random::new(seed, 0),
        lost_per_million: parameters.cells_lost_per_million.unwrap_or(0),
        cells_sent: 0,
        cells_lost: 0,
        rounds: 0,
        receiver_ns: 0,
        now_ns: 0,
    };
    let began = Instant::now();
    (0..messages).try_for_each(|number| pair.carry(number))?;
    let elapsed_ns = began.elapsed().as_nanos();
    let bits = (messages * (PACKETS * DATA_BYTES) as u64 * 8) as f64;
    let per_message = |count: u64| count as f64 / messages as f64;
    let measures = [
        ("goodput_bits_per_s", bits * 1e9 / elapsed_ns as f64),
        ("receiver_bits_per_s", bits * 1e9 / pair.receiver_ns as f64),
        ("cells_per_message", per_message(pair.cells_sent)),
        ("cells_lost_per_message", per_message(pair.cells_lost)),
        ("rounds_per_message", per_message(pair.rounds)),
    ];
    let measures = measures.map(|(name, value)| Measure::new(name, value)).into();
    Ok(Measurement { measures, ..Measurement::default() })
}

impl Pair {
    /// Sends a message until all of it has arrived.
    fn carry(&mut self, number: u64) -> Result<(), String> {
        let first_id = (number * PACKETS as u64 % u64::from(FORMAT.message_ids())) as u16;
        let packets: Vec<Vec<u8>> = (0..PACKETS).map(|at| packet(number, at)).collect();
        // What each packet lacks, as bits.
        let mut lacks = [ALL; PACKETS];
        for _ in 0..ROUNDS_MAX {
            let arriving = self.send(&packets, first_id, &lacks)?;
            let began = Instant::now();
            self.take(&arriving, &packets, first_id, &mut lacks)?;
            self.receiver_ns += began.elapsed().as_nanos();
            self.rounds += 1;
            if lacks == [0; PACKETS] {
                return Ok(());
            }
        }
        Err(format!("a message was not whole after {ROUNDS_MAX} rounds"))
    }

    /// The cells that are lacking, but for those that are lost.
    fn send(
        &mut self,
        packets: &[Vec<u8>],
        first_id: u16,
        lacks: &[u32; PACKETS],
    ) -> Result<Vec<Cell>, String> {
        let mut arriving = Vec::new();
        for (at, (packet, lack)) in packets.iter().zip(lacks).enumerate() {
            let header = Header::of_channel(CHANNEL);
            let cells = Segmentation::new(packet, FORMAT, &header, first_id + at as u16);
            let cells = cells.map_err(|error| error.to_string())?;
            let mut cell = Cell::default();
            for at in (0..cells.cells()).filter(|at| lack >> at & 1 == 1) {
                cells.write_cell(at, &mut cell);
                self.cells_sent += 1;
                if self.chance.chance(self.lost_per_million) {
                    self.cells_lost += 1;
                } else {
                    arriving.push(cell);
                }
            }
        }
        Ok(arriving)
    }

    /// Puts together what arrives, and notes what is lacking.
    fn take(
        &mut self,
        arriving: &[Cell],
        packets: &[Vec<u8>],
        first_id: u16,
        lacks: &mut [u32; PACKETS],
    ) -> Result<(), String> {
        let place = |id: u16| usize::from(id.wrapping_sub(first_id));
        // What is not named anew is not known.
        lacks.iter_mut().filter(|lack| **lack != 0).for_each(|lack| *lack = ALL);
        let mut named = [None; PACKETS];
        for cell in arriving {
            let payload: &[u8; PAYLOAD_BYTES] =
                cell.octets()[HEADER_BYTES..].first_chunk().ok_or("a cell has no payload")?;
            let outcome = self.receiver.receive(self.now_ns, CHANNEL, payload);
            if let Some(missing) = outcome.missing {
                name(&mut named, place(missing.key.message_id), missing);
            }
            if let Some((key, octets)) = outcome.message {
                let at = place(key.message_id);
                if packets.get(at).is_some_and(|packet| packet != octets) {
                    return Err("a packet arrived damaged".to_owned());
                }
                lacks.iter_mut().skip(at).take(1).for_each(|lack| *lack = 0);
            }
        }
        if lacks.iter().any(|lack| *lack != 0) {
            self.now_ns += self.limits.timeout_ns + 1;
            while let Some(event) = self.receiver.expire(self.now_ns) {
                if let TimerEvent::Missing(missing) = event {
                    name(&mut named, place(missing.key.message_id), missing);
                }
            }
        }
        for (lack, named) in lacks.iter_mut().zip(named) {
            if let (true, true, Some(bits)) = (self.repairs, *lack != 0, named) {
                *lack = bits;
            }
        }
        Ok(())
    }
}

/// Notes what a packet lacks.
fn name(named: &mut [Option<u32>; PACKETS], at: usize, missing: Missing) {
    let tail = missing.all_from.map_or(0, |from| ALL & (u32::MAX << from));
    if let Some(known) = named.get_mut(at) {
        *known = Some(known.unwrap_or(0) | missing.cells | tail);
    }
}

fn packet(number: u64, at: usize) -> Vec<u8> {
    (0..PACKET_BYTES).map(|octet| (octet + 7 * at) as u8 ^ number as u8).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(policy: LossPolicy, lost: u32) -> Measurement {
        let text = "machine = \"this-one\"\nmessages = 20";
        let parameters = AtmParameters {
            loss_policy: Some(policy),
            cells_lost_per_million: Some(lost),
            ..toml::from_str(text).unwrap()
        };
        super::run(&parameters, 1).unwrap()
    }

    fn of(measured: &Measurement, name: &str) -> f64 {
        measured.measure(name).unwrap()
    }

    #[test]
    fn without_loss_every_cell_goes_once_and_every_message_takes_one_round() {
        for policy in [LossPolicy::Discard, LossPolicy::Repair] {
            let measured = run(policy, 0);
            assert_eq!(of(&measured, "cells_per_message"), 400.0);
            assert_eq!(of(&measured, "rounds_per_message"), 1.0);
        }
    }

    #[test]
    fn a_lost_cell_costs_a_packet_under_one_policy_and_a_cell_under_the_other() {
        let again = |measured: &Measurement| {
            (of(measured, "cells_per_message") - 400.0) / of(measured, "cells_lost_per_message")
        };
        let (discard, repair) = (run(LossPolicy::Discard, 1000), run(LossPolicy::Repair, 1000));
        assert!((15.0..=25.0).contains(&again(&discard)), "{}", again(&discard));
        assert!((1.0..=4.0).contains(&again(&repair)), "{}", again(&repair));
    }

    #[test]
    fn messages_arrive_whole_when_a_third_of_all_cells_is_lost() {
        let measured = run(LossPolicy::Repair, 300_000);
        assert!(of(&measured, "rounds_per_message") > 3.0);
    }
}
