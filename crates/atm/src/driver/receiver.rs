//! The receiving half: polls the card, drains it, and puts messages together.

use super::host::Host;
use super::work::Work;
use crate::aal34::{Dropped, Format, Key, Limits, Missing, Reassembler, TimerEvent};
use crate::tca100::BusError;
use crate::tca100::map::{HEADER, PAYLOAD, RECEIVE_QUEUE, Register, TRAILER};
use crate::tca100::words::{CELL_WORDS, PAD2_FRAMING_ERROR, to_cell};
use crate::{Channel, Header, Interface, hec};

/// The outcome of a cell, for the program above the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery<'a> {
    /// A whole message.
    Message(Key, &'a [u8]),
    /// A message given up.
    Dropped(Dropped),
    /// Cells to be sent again.
    Missing(Missing),
}

/// Counts of cells that did not reach reassembly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReceiverCounters {
    /// Of a channel that was not asked for; discarded by a byte written.
    pub unwanted: u64,
    /// With a header that could not be corrected; discarded by a byte written.
    pub bad_header: u64,
    /// With one wrong bit in the header, corrected by the card's syndrome.
    pub corrected_header: u64,
    /// Without 53 octets.
    pub misframed: u64,
}

/// A driver's receiving half.
///
/// It polls, as Whateley's did: one read of the count register, then so many cells. The card's
/// syndrome corrects header errors when [`Limits::corrects_bits`] is set.
#[derive(Debug)]
pub struct Receiver {
    channels: Vec<Channel>,
    corrects_bits: bool,
    reassembler: Reassembler,
    counters: ReceiverCounters,
}

impl Receiver {
    /// Takes messages of these channels.
    pub fn new(format: Format, limits: Limits, channels: Vec<Channel>) -> Self {
        let reassembler = Reassembler::new(format, limits);
        let corrects_bits = limits.corrects_bits;
        Self { channels, corrects_bits, reassembler, counters: ReceiverCounters::default() }
    }

    /// Drains the cells that wait now, then gives up or asks for overdue messages; returns the
    /// number of cells. Fails on a bus error.
    pub fn poll(
        &mut self,
        host: &mut impl Host,
        mut deliver: impl FnMut(Delivery<'_>),
    ) -> Result<u32, BusError> {
        let cells = host.read(Work::RegisterRead, Register::ReceiveCount.offset())?;
        for _ in 0..cells {
            if let Some((channel, words)) = self.drain_cell(host)? {
                self.reassemble(host.now_ns(), channel, &words, &mut deliver);
            }
        }
        while let Some(event) = self.reassembler.expire(host.now_ns()) {
            deliver(match event {
                TimerEvent::Dropped(dropped) => Delivery::Dropped(dropped),
                TimerEvent::Missing(missing) => Delivery::Missing(missing),
            });
        }
        Ok(cells)
    }

    /// Counts of cells that did not reach reassembly.
    pub fn counters(&self) -> ReceiverCounters {
        self.counters
    }

    /// The reassembly behind it, for its counters and its next deadline.
    pub fn reassembler(&self) -> &Reassembler {
        &self.reassembler
    }

    /// Reads the cell at the head, or discards it as soon as it is seen to be of no use.
    fn drain_cell(
        &mut self,
        host: &mut impl Host,
    ) -> Result<Option<(Channel, [u32; CELL_WORDS])>, BusError> {
        let mut words = [0; CELL_WORDS];
        words[0] = host.read(Work::HeaderRead, RECEIVE_QUEUE + HEADER)?;
        words[1] = host.read(Work::SarHeaderRead, RECEIVE_QUEUE + PAYLOAD)?;
        host.work(Work::CellCheck);
        let Some(channel) = self.wanted_channel(words[0], words[1]) else {
            host.write_byte(Work::Discard, RECEIVE_QUEUE)?;
            return Ok(None);
        };
        for word in &mut words[2..CELL_WORDS - 1] {
            *word = host.read(Work::DataRead, RECEIVE_QUEUE + PAYLOAD)?;
            host.work(Work::DataStore);
        }
        words[CELL_WORDS - 1] = host.read(Work::TrailerRead, RECEIVE_QUEUE + TRAILER)?;
        if words[CELL_WORDS - 1] & PAD2_FRAMING_ERROR != 0 {
            self.counters.misframed += 1;
            return Ok(None);
        }
        Ok(Some((channel, words)))
    }

    /// The channel of a cell, if it is one to take; its header is corrected when that is allowed.
    fn wanted_channel(&mut self, mut header: u32, second_word: u32) -> Option<Channel> {
        // Pad1: 0 when the HEC is right, else the syndrome of the error.
        let [_, syndrome, ..] = second_word.to_be_bytes();
        if syndrome != 0 {
            let Some(bit) = hec::bit_in_error(syndrome).filter(|_| self.corrects_bits) else {
                self.counters.bad_header += 1;
                return None;
            };
            // Bits 32 to 39 are the HEC itself, which is not needed any more.
            header ^= 0x8000_0000u32.checked_shr(bit.into()).unwrap_or(0);
            self.counters.corrected_header += 1;
        }
        let channel = Header::decode(header, Interface::Uni).channel;
        let is_wanted = self.channels.contains(&channel);
        self.counters.unwanted += u64::from(!is_wanted);
        is_wanted.then_some(channel)
    }

    fn reassemble(
        &mut self,
        now_ns: u64,
        channel: Channel,
        words: &[u32; CELL_WORDS],
        deliver: &mut impl FnMut(Delivery<'_>),
    ) {
        let cell = to_cell(words);
        let outcome = self.reassembler.receive(now_ns, channel, cell.payload());
        outcome.dropped.map(Delivery::Dropped).into_iter().for_each(&mut *deliver);
        outcome.missing.map(Delivery::Missing).into_iter().for_each(&mut *deliver);
        if let Some((key, octets)) = outcome.message {
            deliver(Delivery::Message(key, octets));
        }
    }
}
