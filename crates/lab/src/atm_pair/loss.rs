//! Two machines and a fibre that loses cells: messages of 16 KB, each answered, under either policy
//! for packets that lack a cell (PC-7).
//!
//! The sender sends all packets of a message, the receiver answers with its missing packets, and so on
//! until nothing is missing; then the next message begins, as requests and replies do. Under
//! [`LossPolicy::Discard`] whole packets are sent again, under [`LossPolicy::Repair`] single cells,
//! for which the receiver keeps account of each. Answers are not lost.

use sockscope_atm::aal34::{Limits, Missing, Policy, Segmentation};
use sockscope_atm::driver::{Delivery, Receiver, Sender};
use sockscope_atm::tca100::{BusError, LineCell, words};
use sockscope_atm::{Cell, Header};
use sockscope_experiment::measurement::{Measure, Measurement};
use sockscope_experiment::{AtmParameters, LossPolicy, VMTP_HEADER_BYTES};
use sockscope_record::counted;
use sockscope_sim::random::Random;
use sockscope_sim::turbochannel::TurbochannelMachine;

use super::cells::{Loads, write_cell};
use super::host::DecstationHost;
use super::send::{CHANNEL, FORMAT};

/// Packets of a message, and data of each.
const PACKETS: usize = 16;
const DATA_BYTES: usize = 1024;
const PACKET_BYTES: usize = DATA_BYTES + VMTP_HEADER_BYTES as usize;

/// After so long without a cell the receiver answers, although the end has not arrived.
const QUIET_NS: u64 = 400_000;

/// A packet is asked for again when it is not whole so long after its first cell; longer than a
/// packet takes to drain, shorter than [`QUIET_NS`].
const PATIENCE_NS: u64 = 300_000;

/// Answers after which a message is taken to be stuck.
const ROUNDS_MAX: u32 = 10_000;

/// The missing part of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Lack {
    /// Everything, or an unknown part.
    #[default]
    All,
    /// Cells by their numbers, as bits.
    Cells(u32),
    /// Nothing.
    Nothing,
}

/// Carries `parameters.messages` messages and measures the rate.
pub(super) fn run(
    machine: &TurbochannelMachine,
    parameters: &AtmParameters,
    seed: u64,
) -> Result<Measurement, String> {
    let messages = parameters.messages.unwrap_or(1);
    let mut pair = Pair::new(machine, parameters, seed)?;
    for number in 0..messages {
        pair.carry_message(number)?;
    }
    let bits = (messages * (PACKETS * DATA_BYTES) as u64 * 8) as f64;
    let per_message = |count: u64| count as f64 / messages as f64;
    let measures = [
        ("goodput_bits_per_s", bits * 1e9 / pair.near.host.ns() as f64),
        ("receiver_bits_per_s", bits * 1e12 / pair.far.host.spent().total_ps as f64),
        ("cells_per_message", per_message(pair.cells_sent)),
        ("cells_lost_per_message", per_message(pair.cells_lost)),
        ("rounds_per_message", per_message(pair.rounds)),
    ];
    let measures = measures.map(|(name, value)| Measure::new(name, value)).into();
    Ok(Measurement { measures, ..Measurement::default() })
}

/// One machine with both halves of the driver.
pub(super) struct End {
    pub host: DecstationHost,
    sender: Sender,
    receiver: Receiver,
}

/// The sending machine, the receiving one, and the fibre between them.
struct Pair {
    near: End,
    far: End,
    policy: LossPolicy,
    chance: Random,
    lost_per_million: u32,
    cells_sent: u64,
    cells_lost: u64,
    rounds: u64,
}

impl Pair {
    fn new(
        machine: &TurbochannelMachine,
        parameters: &AtmParameters,
        seed: u64,
    ) -> Result<Self, String> {
        let policy = parameters.loss_policy.unwrap_or(LossPolicy::Discard);
        Ok(Self {
            near: End::new(machine, parameters, policy)?,
            far: End::new(machine, parameters, policy)?,
            policy,
            chance: Random::new(seed, 0),
            lost_per_million: parameters.cells_lost_per_million.unwrap_or(0),
            cells_sent: 0,
            cells_lost: 0,
            rounds: 0,
        })
    }

    /// Sends a message until all of it has arrived.
    fn carry_message(&mut self, number: u64) -> Result<(), String> {
        let first_id = (number * PACKETS as u64 % u64::from(FORMAT.message_ids())) as u16;
        let packets: Vec<_> = (0..PACKETS).map(|at| packet(number, at)).collect();
        let mut lacks = [Lack::All; PACKETS];
        for _ in 0..ROUNDS_MAX {
            for (at, lack) in lacks.iter().enumerate() {
                self.near.send(first_id + at as u16, &packets[at], *lack)?;
            }
            let arriving = self.survivors();
            self.far.take(arriving, first_id, &packets, &mut lacks)?;
            if self.policy == LossPolicy::Discard {
                let gone = lacks.iter_mut().filter(|lack| **lack != Lack::Nothing);
                gone.for_each(|lack| *lack = Lack::All);
            }
            self.answer(&lacks)?;
            self.rounds += 1;
            if lacks.iter().all(|lack| *lack == Lack::Nothing) {
                return Ok(());
            }
        }
        Err(format!("a message was not whole after {ROUNDS_MAX} rounds"))
    }

    /// The cells of the near end, without those that the fibre loses.
    fn survivors(&mut self) -> Vec<LineCell> {
        let sent = self.near.sent();
        self.cells_sent += sent.len() as u64;
        let lost_per_million = self.lost_per_million;
        let arriving: Vec<_> =
            sent.iter().filter(|_| !self.chance.chance(lost_per_million)).copied().collect();
        self.cells_lost += (sent.len() - arriving.len()) as u64;
        arriving
    }

    /// The far end answers with its missing cells: a VMTP header, and a word for each packet with
    /// named cells. The near end waits for it.
    fn answer(&mut self, lacks: &[Lack; PACKETS]) -> Result<(), String> {
        let named = lacks.iter().filter(|lack| matches!(lack, Lack::Cells(_))).count();
        let answer = vec![0; VMTP_HEADER_BYTES as usize + 4 * named];
        let id = (self.rounds % u64::from(FORMAT.message_ids())) as u16;
        let sent = self.far.sender.send(&mut self.far.host, id, &answer);
        sent.map_err(|error| error.to_string())?;
        let arriving = self.far.sent();
        self.near.take_answer(arriving, answer.len())
    }
}

impl End {
    pub fn new(
        machine: &TurbochannelMachine,
        parameters: &AtmParameters,
        policy: LossPolicy,
    ) -> Result<Self, String> {
        let repairs = policy == LossPolicy::Repair;
        let policy = match policy {
            LossPolicy::Discard => Policy::Discard,
            LossPolicy::Repair => Policy::Repair { asks_max: u8::MAX },
        };
        let limits = Limits { policy, timeout_ns: PATIENCE_NS, ..Limits::default() };
        let host = DecstationHost::new(machine.clone(), parameters.data_from).map_err(bus)?;
        let header = Header::of_channel(CHANNEL);
        Ok(Self {
            host: host.repairing(repairs),
            sender: Sender::new(FORMAT, &header).map_err(|error| error.to_string())?,
            receiver: Receiver::new(FORMAT, limits, vec![CHANNEL]),
        })
    }

    /// Sends the missing part of a packet.
    fn send(&mut self, id: u16, packet: &[u8], lack: Lack) -> Result<(), String> {
        match lack {
            Lack::Nothing => Ok(()),
            Lack::All => self.send_packet(id, packet),
            Lack::Cells(bits) => self.send_cells(id, packet, bits),
        }
    }

    /// Sends a packet whole.
    pub fn send_packet(&mut self, id: u16, packet: &[u8]) -> Result<(), String> {
        let sent = self.sender.send(&mut self.host, id, packet);
        sent.map(|_| ()).map_err(|error| error.to_string())
    }

    fn send_cells(&mut self, id: u16, packet: &[u8], bits: u32) -> Result<(), String> {
        let header = Header::of_channel(CHANNEL);
        let cells = Segmentation::new(packet, FORMAT, &header, id);
        let cells = cells.map_err(|error| error.to_string())?;
        let mut cell = Cell::from_octets([0; sockscope_atm::CELL_BYTES]);
        for at in (0..cells.cells()).filter(|at| bits >> at & 1 == 1) {
            cells.write_cell(at, &mut cell);
            write_cell(&mut self.host, &words::of_cell(&cell), Loads::All).map_err(bus)?;
        }
        Ok(())
    }

    /// Everything that was written to the card, once the last of it has left.
    pub fn sent(&mut self) -> Vec<LineCell> {
        self.host.sent()
    }

    /// Takes the packets of a message until the last has arrived, and notes their missing cells.
    fn take(
        &mut self,
        arriving: Vec<LineCell>,
        first_id: u16,
        packets: &[Vec<u8>],
        lacks: &mut [Lack; PACKETS],
    ) -> Result<(), String> {
        let last_sent = lacks.iter().rposition(|lack| *lack != Lack::Nothing);
        let last_ns = arriving.last().map_or(self.host.ns(), |line| line.at_ns);
        // Without a new report the missing part is unknown.
        lacks.iter_mut().filter(|lack| **lack != Lack::Nothing).for_each(|lack| *lack = Lack::All);
        let mut incoming = Incoming { first_id, packets, lacks, is_damaged: false };
        self.drain(arriving, &mut |delivery| incoming.note(delivery))?;
        if last_sent.is_some_and(|at| incoming.lacks[at] != Lack::Nothing) {
            self.host.wait_until(last_ns + QUIET_NS);
            let polled = self.receiver.poll(&mut self.host, |delivery| incoming.note(delivery));
            polled.map_err(bus)?;
        }
        if incoming.is_damaged { Err("a packet arrived damaged".to_owned()) } else { Ok(()) }
    }

    fn take_answer(&mut self, arriving: Vec<LineCell>, bytes: usize) -> Result<(), String> {
        let mut is_there = false;
        self.drain(arriving, &mut |delivery| {
            is_there |= matches!(delivery, Delivery::Message(_, octets) if octets.len() == bytes);
        })?;
        if is_there { Ok(()) } else { Err("an answer did not arrive".to_owned()) }
    }

    /// Polls until all of `arriving` has been read from the card.
    pub fn drain(
        &mut self,
        arriving: Vec<LineCell>,
        note: &mut impl FnMut(Delivery<'_>),
    ) -> Result<(), String> {
        drain(&mut self.host, &mut self.receiver, arriving, note)
    }
}

/// Polls until all of `arriving` has been read from the card of `host`.
pub(super) fn drain(
    host: &mut DecstationHost,
    receiver: &mut Receiver,
    arriving: Vec<LineCell>,
    note: &mut impl FnMut(Delivery<'_>),
) -> Result<(), String> {
    let mut arriving = arriving.into_iter().peekable();
    loop {
        while let Some(line) = arriving.next_if(|line| line.at_ns <= host.ns()) {
            host.card.receive(line.at_ns, line.octets());
        }
        let polled = receiver.poll(host, &mut *note).map_err(bus)?;
        match arriving.peek() {
            Some(line) => host.wait_until(line.at_ns),
            None if polled == 0 => break,
            None => {}
        }
    }
    match host.card.counters().lost_overrun {
        0 => Ok(()),
        lost => Err(format!("{} found the receive queue full", counted(lost, "cell"))),
    }
}

/// A message at the far end.
struct Incoming<'a> {
    first_id: u16,
    /// The sent packets.
    packets: &'a [Vec<u8>],
    lacks: &'a mut [Lack; PACKETS],
    is_damaged: bool,
}

impl Incoming<'_> {
    fn note(&mut self, delivery: Delivery<'_>) {
        let id = match delivery {
            Delivery::Message(key, _) => key.message_id,
            Delivery::Missing(missing) => missing.key.message_id,
            Delivery::Dropped(_) => return,
        };
        let at = usize::from(id.wrapping_sub(self.first_id));
        let Some((packet, lack)) = self.packets.get(at).zip(self.lacks.get_mut(at)) else { return };
        match delivery {
            Delivery::Message(_, octets) => {
                self.is_damaged |= packet != octets;
                *lack = Lack::Nothing;
            }
            Delivery::Missing(missing) => {
                *lack = Lack::Cells(bits_of(*lack, missing, packet.len()));
            }
            Delivery::Dropped(_) => {}
        }
    }
}

/// The known missing cells, and those named now.
fn bits_of(before: Lack, missing: Missing, packet_bytes: usize) -> u32 {
    let cells = sockscope_atm::aal34::cells_for(packet_bytes);
    let all = u32::MAX >> (u32::BITS - cells as u32);
    let tail = missing.all_from.map_or(0, |from| all & (u32::MAX << from));
    let before = if let Lack::Cells(bits) = before { bits } else { 0 };
    before | missing.cells | tail
}

fn packet(number: u64, at: usize) -> Vec<u8> {
    (0..PACKET_BYTES).map(|octet| (octet + 7 * at) as u8 ^ number as u8).collect()
}

fn bus(error: BusError) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(policy: &str, lost: u32, more: &str) -> Measurement {
        let text = format!(
            "machine = \"decstation-5000-240\"\nmessages = 20\nloss_policy = \"{policy}\"\n\
             cells_lost_per_million = {lost}\n{more}"
        );
        let parameters: AtmParameters = toml::from_str(&text).unwrap();
        let machine = super::super::machine(&parameters).unwrap();
        super::run(&machine, &parameters, 1).unwrap()
    }

    fn of(measured: &Measurement, name: &str) -> f64 {
        measured.measure(name).unwrap()
    }

    #[test]
    fn without_loss_every_cell_goes_once_and_every_message_takes_one_round() {
        for policy in ["discard", "repair"] {
            let measured = run(policy, 0, "");
            assert_eq!(of(&measured, "cells_per_message"), 400.0);
            assert_eq!(of(&measured, "rounds_per_message"), 1.0);
        }
    }

    #[test]
    fn a_lost_cell_costs_a_packet_under_one_policy_and_a_cell_under_the_other() {
        let (discard, repair) = (run("discard", 1000, ""), run("repair", 1000, ""));
        let again = |measured: &Measurement| {
            (of(measured, "cells_per_message") - 400.0) / of(measured, "cells_lost_per_message")
        };
        assert!((15.0..=25.0).contains(&again(&discard)), "{}", again(&discard));
        assert!((1.0..=4.0).contains(&again(&repair)), "{}", again(&repair));
    }

    #[test]
    fn messages_arrive_whole_when_a_third_of_all_cells_is_lost() {
        let measured = run("repair", 300_000, "");
        assert!(of(&measured, "rounds_per_message") > 3.0);
    }

    #[test]
    fn account_of_each_cell_is_what_repair_costs_where_nothing_is_lost() {
        let free = run("repair", 0, "repair_check_cycles = 12");
        let discard = run("discard", 0, "");
        assert_eq!(of(&free, "goodput_bits_per_s"), of(&discard, "goodput_bits_per_s"));
        let kept = run("repair", 0, "");
        assert!(of(&kept, "goodput_bits_per_s") < of(&discard, "goodput_bits_per_s"));
    }
}
