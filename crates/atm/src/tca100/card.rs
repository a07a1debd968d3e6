//! The card: its region on the bus, its two fibres, its registers.

use std::collections::VecDeque;

use thiserror::Error;

use super::line::LineCell;
use super::map::{COUNT_MASK, Place, QueueWord, Register, control, status};
use super::receive::ReceiveQueue;
use super::transmit::{Pad1Polarity, TransmitQueue};
use super::{CYCLE_NS, LINE_BITS_PER_S, REGISTER_WAIT_CYCLES, STALL_CYCLES_MAX, prom, words};

/// Cells that have left and wait for [`Tca100::take_sent`]; more are lost, as into a dark fibre.
const SENT_MAX: usize = 4096;

/// Octets below which an arriving cell is dropped and not flagged (Whateley).
const RECEIVED_BYTES_MIN: usize = 5;

/// The configuration of a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Rate of the outgoing fibre.
    pub line_bits_per_s: u64,
    /// Meaning of Pad1.
    pub pad1: Pad1Polarity,
    /// A tick of the receive timer, which no source gives.
    pub timer_tick_ns: u64,
    /// Every so many writes that stall never end: the first cards held the bus now and then, which
    /// crashed the machine. 0 is a sound card.
    pub stalls_until_bus_error: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            line_bits_per_s: LINE_BITS_PER_S,
            pad1: Pad1Polarity::default(),
            timer_tick_ns: CYCLE_NS,
            stalls_until_bus_error: 0,
        }
    }
}

/// Why an access ended in a bus error, which crashes the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BusError {
    /// The card held the bus for 256 cycles: the transmit queue stayed full.
    #[error("bus timeout: an access at {offset:#x} stalled over 256 cycles")]
    Timeout {
        /// Byte offset of the access.
        offset: u32,
    },
    /// Nothing answers there.
    #[error("no device at {offset:#x} of the card's 256 KB")]
    NoDevice {
        /// Byte offset of the access.
        offset: u32,
    },
}

/// An access that went through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Access {
    /// The word read; 0 for a write.
    pub word: u32,
    /// Bus cycles that the card made the access wait, beyond those of any access.
    pub wait_cycles: u64,
}

/// Counts of events at the card, in cells or accesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Cells sent, deformed ones included.
    pub sent: u64,
    /// Cells sent that have not 53 octets.
    pub sent_deformed: u64,
    /// Cells put into the receive queue, bad ones included.
    pub received: u64,
    /// Cells that arrived and found no room.
    pub lost_overrun: u64,
    /// Cells that arrived with fewer than five octets.
    pub lost_short: u64,
    /// Cells that arrived while the receive engine was off.
    pub lost_disabled: u64,
    /// Cells that a byte write discarded.
    pub discarded: u64,
    /// Reads of a queue in a wrong order or while it was empty, which gave 0.
    pub reads_misplaced: u64,
    /// Writes to words that nothing is at.
    pub writes_misplaced: u64,
    /// Writes that found the transmit queue full.
    pub stalls: u64,
    /// Cycles that they stalled.
    pub stall_cycles: u64,
}

/// The card.
#[derive(Debug, Default)]
pub struct Tca100 {
    config: Config,
    now_ns: u64,
    is_dark: bool,
    status: u32,
    control: u32,
    receive: ReceiveQueue,
    transmit: TransmitQueue,
    sent: VecDeque<LineCell>,
    timer_reload: u32,
    timer_ends_ns: Option<u64>,
    receive_comparator: u32,
    transmit_comparator: u32,
    counters: Counters,
}

impl Tca100 {
    /// A card just powered on: queues empty, both engines off.
    pub fn new(config: Config) -> Self {
        let transmit = TransmitQueue::new(config.line_bits_per_s, config.pad1);
        Self { config, transmit, ..Self::default() }
    }

    /// Reads the word at `offset` of the region; the low two address bits do not matter.
    ///
    /// Fails when nothing is there. A queue read out of order gives 0 and is counted.
    pub fn read_word(&mut self, now_ns: u64, offset: u32) -> Result<Access, BusError> {
        self.advance(now_ns);
        let wait_cycles = REGISTER_WAIT_CYCLES;
        match Place::at(offset) {
            Place::Prom(offset) => Ok(Access { word: prom::byte(offset).into(), wait_cycles }),
            Place::Register(Some(register)) => {
                Ok(Access { word: self.register(register), wait_cycles })
            }
            Place::ReceiveQueue(place) => {
                let word = self.receive.read(place);
                self.counters.reads_misplaced += u64::from(word.is_none());
                Ok(Access { word: word.unwrap_or(0), wait_cycles: 0 })
            }
            Place::TransmitQueue(_) => {
                self.counters.reads_misplaced += 1;
                Ok(Access::default())
            }
            Place::Register(None) | Place::Outside => Err(BusError::NoDevice { offset }),
        }
    }

    /// Writes the word at `offset` of the region.
    ///
    /// Fails when nothing is there, or when the transmit queue stays full for over 256 cycles.
    pub fn write_word(&mut self, now_ns: u64, offset: u32, word: u32) -> Result<Access, BusError> {
        self.advance(now_ns);
        match Place::at(offset) {
            Place::Register(Some(register)) => {
                self.write_register(register, word);
                Ok(Access { word: 0, wait_cycles: REGISTER_WAIT_CYCLES })
            }
            Place::TransmitQueue(QueueWord::Unused) | Place::Prom(_) | Place::ReceiveQueue(_) => {
                self.counters.writes_misplaced += 1;
                Ok(Access::default())
            }
            Place::TransmitQueue(place) => {
                let wait_cycles = self.wait_for_room(offset)?;
                if self.control & control::TRANSMIT_RESET == 0 {
                    self.transmit.push(self.now_ns, place, word);
                }
                Ok(Access { word: 0, wait_cycles })
            }
            Place::Register(None) | Place::Outside => Err(BusError::NoDevice { offset }),
        }
    }

    /// Writes a byte, of any value, at `offset` of the region. In the receive queue this discards
    /// the cell at the head; anywhere else it is counted and does nothing.
    ///
    /// Fails when nothing is there.
    pub fn write_byte(&mut self, now_ns: u64, offset: u32) -> Result<Access, BusError> {
        self.advance(now_ns);
        match Place::at(offset) {
            Place::ReceiveQueue(_) if self.receive.discard() => self.counters.discarded += 1,
            Place::Register(None) | Place::Outside => return Err(BusError::NoDevice { offset }),
            _ => self.counters.writes_misplaced += 1,
        }
        Ok(Access::default())
    }

    /// Takes octets of the incoming fibre, the last bit at `now_ns`.
    pub fn receive(&mut self, now_ns: u64, octets: &[u8]) {
        self.advance(now_ns);
        let is_off = self.control & control::RECEIVE_ENABLE == 0
            || self.control & control::RECEIVE_RESET != 0
            || self.is_dark;
        if is_off {
            self.counters.lost_disabled += 1;
            return;
        }
        if octets.len() < RECEIVED_BYTES_MIN {
            self.counters.lost_short += 1;
            self.status |= status::RECEIVE_CELL_LOST;
            return;
        }
        let was_empty = self.receive.cells() == 0;
        let words = words::of_received(octets);
        if self.receive.push(words) {
            self.note_arrival(was_empty, words::ends_message(&words));
        } else {
            self.counters.lost_overrun += 1;
            self.status |= status::RECEIVE_CELL_LOST;
        }
    }

    /// Says whether light arrives. Its absence sets a status bit, which can be cleared once light is
    /// there again.
    pub fn set_carrier(&mut self, now_ns: u64, is_there: bool) {
        self.advance(now_ns);
        self.is_dark = !is_there;
        self.note_darkness();
    }

    /// The next cell that has left on the outgoing fibre by `now_ns`, in order. At most 4,096 wait
    /// to be taken; later ones are lost.
    pub fn take_sent(&mut self, now_ns: u64) -> Option<LineCell> {
        self.advance(now_ns);
        self.sent.pop_front()
    }

    /// When something happens next without an access: a word leaves the transmit queue, or the
    /// timer ends.
    pub fn next_event_ns(&self) -> Option<u64> {
        let word_ns = self.transmit.next_room_ns(self.is_transmitting());
        [word_ns, self.timer_ends_ns].into_iter().flatten().min()
    }

    /// Whether the interrupt line is raised at `now_ns`: a status bit that may interrupt is set.
    pub fn is_interrupting(&mut self, now_ns: u64) -> bool {
        self.advance(now_ns);
        self.status & self.control & status::INTERRUPTS != 0
    }

    /// The counts up to now.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Words in the transmit queue at `now_ns`, of 512.
    pub fn transmit_words(&mut self, now_ns: u64) -> usize {
        self.advance(now_ns);
        self.transmit.words()
    }

    /// Lets time pass to `now_ns`.
    fn advance(&mut self, now_ns: u64) {
        self.now_ns = self.now_ns.max(now_ns);
        while let Some(cell) = self.transmit.advance(self.now_ns, self.is_transmitting()) {
            self.counters.sent += 1;
            self.counters.sent_deformed += u64::from(cell.is_deformed());
            if self.transmit.cells() <= self.transmit_comparator as usize {
                self.status |= status::TRANSMIT_COUNT;
            }
            if self.sent.len() < SENT_MAX {
                self.sent.push_back(cell);
            }
        }
        if self.timer_ends_ns.take_if(|ends_ns| *ends_ns <= self.now_ns).is_some() {
            self.status |= status::RECEIVE_TIMER;
        }
    }

    fn is_transmitting(&self) -> bool {
        self.control & (control::TRANSMIT_ENABLE | control::TRANSMIT_RESET)
            == control::TRANSMIT_ENABLE
    }

    fn note_arrival(&mut self, was_empty: bool, ends_message: bool) {
        self.counters.received += 1;
        if was_empty && self.timer_reload != 0 {
            let ticks_ns = u64::from(self.timer_reload).saturating_mul(self.config.timer_tick_ns);
            self.timer_ends_ns = Some(self.now_ns.saturating_add(ticks_ns));
        }
        if self.receive.cells() >= self.receive_comparator as usize {
            self.status |= status::RECEIVE_COUNT;
        }
        if ends_message {
            self.status |= status::RECEIVE_END_OF_MESSAGE;
        }
    }

    fn note_darkness(&mut self) {
        if self.is_dark {
            self.status |= status::RECEIVE_NO_CARRIER;
        }
    }

    /// Stalls until the transmit queue has room for a word, and returns the number of cycles.
    fn wait_for_room(&mut self, offset: u32) -> Result<u64, BusError> {
        if !self.transmit.is_full() {
            return Ok(0);
        }
        self.counters.stalls += 1;
        let period = u64::from(self.config.stalls_until_bus_error);
        let holds_bus = period != 0 && self.counters.stalls.is_multiple_of(period);
        let room_ns = self.transmit.next_room_ns(self.is_transmitting());
        let cycles = match room_ns {
            Some(room_ns) if !holds_bus => (room_ns - self.now_ns).div_ceil(CYCLE_NS),
            _ => u64::MAX,
        };
        self.counters.stall_cycles += cycles.min(STALL_CYCLES_MAX);
        if cycles > STALL_CYCLES_MAX {
            return Err(BusError::Timeout { offset });
        }
        self.advance(self.now_ns.saturating_add(cycles * CYCLE_NS));
        // Only at the end of time itself is there still no room.
        if self.transmit.is_full() { Err(BusError::Timeout { offset }) } else { Ok(cycles) }
    }

    fn register(&self, register: Register) -> u32 {
        match register {
            Register::Status => self.status,
            Register::Control | Register::ControlSet | Register::ControlClear => self.control,
            Register::ReceiveTimer => self.timer_ticks(),
            Register::ReceiveTimerReload => self.timer_reload,
            Register::ReceiveCount => self.receive.cells() as u32 & COUNT_MASK,
            Register::ReceiveComparator => self.receive_comparator,
            Register::TransmitCount => self.transmit.cells() as u32 & COUNT_MASK,
            Register::TransmitComparator => self.transmit_comparator,
        }
    }

    fn write_register(&mut self, register: Register, word: u32) {
        match register {
            Register::Status => {
                self.status &= word;
                self.note_darkness();
            }
            Register::ControlSet => self.set_control(self.control | word),
            Register::ControlClear => self.set_control(self.control & word),
            Register::Control => self.set_control(word),
            Register::ReceiveTimerReload => self.timer_reload = word,
            Register::ReceiveComparator => self.receive_comparator = word & COUNT_MASK,
            Register::TransmitComparator => self.transmit_comparator = word & COUNT_MASK,
            Register::ReceiveTimer | Register::ReceiveCount | Register::TransmitCount => {
                self.counters.writes_misplaced += 1;
            }
        }
    }

    fn set_control(&mut self, control: u32) {
        let was_transmitting = self.is_transmitting();
        self.control = control;
        if control & control::RECEIVE_RESET != 0 {
            self.receive.reset();
            self.timer_ends_ns = None;
        }
        if control & control::TRANSMIT_RESET != 0 {
            self.transmit.reset();
        }
        if self.is_transmitting() && !was_transmitting {
            self.transmit.enable(self.now_ns);
        }
    }

    fn timer_ticks(&self) -> u32 {
        let left_ns = self.timer_ends_ns.map_or(0, |ends_ns| ends_ns - self.now_ns);
        u32::try_from(left_ns / self.config.timer_tick_ns.max(1)).unwrap_or(u32::MAX)
    }
}
