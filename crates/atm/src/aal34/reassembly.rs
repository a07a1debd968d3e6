//! Cells back into messages.
//!
//! Each message is known by its channel and identifier. Its time begins with its first cell. An
//! incomplete message at the end of its time is given up, or requested again under
//! [`Policy::Repair`]. Memory is bounded by [`Limits`]: so many messages, of so many octets each.
//!
//! A cell whose CRC is wrong is not used at all, for nothing in it can be relied on, its identifier
//! included; its absence is then noticed as any other.

use super::sar::{CELL_DATA_BYTES, Format, LENGTH_ABORT, SarHeader, SarPdu, SegmentType};
use super::slot::{Dropped, Key, Missing, Reason, Slots};
use crate::{Channel, PAYLOAD_BYTES, crc10};

/// The fate of a message that lacks a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// It is given up at once; the layer above asks for all of it again (Whateley).
    #[default]
    Discard,
    /// Its missing cells are asked for: at once when a gap is seen, then each time that the timeout
    /// passes, `asks_max` times; then it is given up. A delivered message is remembered for one
    /// timeout, so that late repetitions do nothing; within that time its identifier must not be
    /// used again. Cells must be numbered from 0, and messages have no more cells than numbers.
    Repair {
        /// The number of requests by the timer.
        asks_max: u8,
    },
}

/// The limits of memory and time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Messages in transit at once; a cell that begins one more is dropped and counted.
    pub messages_max: usize,
    /// Octets of one message; one that grows longer is given up.
    pub message_bytes_max: usize,
    /// From the first cell of a message, and under [`Policy::Repair`] from each ask, in nanoseconds.
    pub timeout_ns: u64,
    /// The fate of a message that lacks a cell.
    pub policy: Policy,
    /// Whether a cell with one wrong bit is corrected by its CRC, instead of not being used.
    pub corrects_bits: bool,
}

impl Default for Limits {
    /// 256 messages of any length that AAL3/4 allows, 10 ms each, discarded when not whole.
    fn default() -> Self {
        Self {
            messages_max: 256,
            message_bytes_max: super::cpcs::FRAME_BYTES_MAX,
            timeout_ns: 10_000_000,
            policy: Policy::Discard,
            corrects_bits: false,
        }
    }
}

/// Counts of arrivals and their results, in cells unless a name says messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// All that arrived.
    pub cells: u64,
    /// Not used, for their CRC was wrong.
    pub bad_crc: u64,
    /// Used after one bit was corrected.
    pub corrected: u64,
    /// Not used, for no message of theirs was open: its first cell or one before was lost.
    pub strays: u64,
    /// Not used, for as many messages were open as may be.
    pub no_room: u64,
    /// Not used, for they had arrived before (only under [`Policy::Repair`]).
    pub repeated: u64,
    /// Whole messages.
    pub messages: u64,
    /// Messages given up.
    pub messages_dropped: u64,
    /// Requests for missing cells.
    pub asks: u64,
}

/// The result of one cell. A cell that begins a message can give up the one before and, being
/// single, deliver its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outcome<'a> {
    /// A message given up.
    pub dropped: Option<Dropped>,
    /// Cells to ask for; only under [`Policy::Repair`].
    pub missing: Option<Missing>,
    /// A whole message and its name. The octets stay until the next cell is received.
    pub message: Option<(Key, &'a [u8])>,
}

/// The result of a timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimerEvent {
    /// A message given up.
    Dropped(Dropped),
    /// Cells to ask for.
    Missing(Missing),
}

/// The receiving end of one line.
#[derive(Debug)]
pub struct Reassembler {
    pub(super) format: Format,
    pub(super) limits: Limits,
    pub(super) slots: Slots,
    pub(super) counters: Counters,
    /// A message of one cell, which needs no slot.
    single: [u8; CELL_DATA_BYTES],
}

/// A cell that may be used.
pub(super) struct Arrival<'a> {
    pub now_ns: u64,
    pub key: Key,
    pub header: SarHeader,
    pub data: &'a [u8; CELL_DATA_BYTES],
    pub length: usize,
}

/// The results by slot: the octets are borrowed last.
#[derive(Default)]
pub(super) struct Found {
    pub dropped: Option<Dropped>,
    pub missing: Option<Missing>,
    pub whole: Option<Whole>,
}

/// Where a whole message lies.
pub(super) enum Whole {
    Slot(usize),
    Single(usize),
}

impl Reassembler {
    /// An end at which nothing has arrived yet.
    pub fn new(format: Format, limits: Limits) -> Self {
        let single = [0; CELL_DATA_BYTES];
        Self { format, limits, slots: Slots::default(), counters: Counters::default(), single }
    }

    /// Takes the payload of the next cell of `channel`.
    pub fn receive(
        &mut self,
        now_ns: u64,
        channel: Channel,
        payload: &[u8; PAYLOAD_BYTES],
    ) -> Outcome<'_> {
        self.counters.cells += 1;
        let syndrome = crc10::syndrome(payload);
        if syndrome == 0 {
            return self.accept(now_ns, channel, payload);
        }
        match crc10::bit_in_error(syndrome) {
            Some(bit) if self.limits.corrects_bits => {
                let mut corrected = *payload;
                corrected[usize::from(bit / 8)] ^= 0x80 >> (bit % 8);
                self.counters.corrected += 1;
                self.accept(now_ns, channel, &corrected)
            }
            _ => {
                self.counters.bad_crc += 1;
                Outcome::default()
            }
        }
    }

    /// When [`Reassembler::expire`] has something to do next.
    pub fn next_deadline_ns(&self) -> Option<u64> {
        self.slots.next_deadline_ns()
    }

    /// The event due at `now_ns`, the oldest first; call it until it returns `None`.
    pub fn expire(&mut self, now_ns: u64) -> Option<TimerEvent> {
        while let Some(at) = self.slots.due(now_ns) {
            if self.slots.at(at).is_done {
                self.slots.close(at);
                continue;
            }
            let event = self.ask_again(at, now_ns).map(TimerEvent::Missing);
            return event.or_else(|| Some(TimerEvent::Dropped(self.drop_at(at, Reason::Timeout))));
        }
        None
    }

    /// The counts up to now.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Messages in transit.
    pub fn open_messages(&self) -> usize {
        self.slots.open_messages()
    }

    /// Octets reserved for messages: never above twice the limit of [`Limits`].
    pub fn capacity_bytes(&self) -> usize {
        self.slots.capacity_bytes()
    }

    fn accept(&mut self, now_ns: u64, channel: Channel, payload: &[u8; 48]) -> Outcome<'_> {
        let pdu = SarPdu::new(payload);
        let header = pdu.header(self.format);
        let key = Key { channel, message_id: header.message_id };
        if self.appends_next(key, header, &pdu) {
            return Outcome::default();
        }
        let is_legal = pdu.is_length_legal(header.segment_type, self.format);
        let found = if is_legal {
            let length = usize::from(pdu.length());
            let arrival = Arrival { now_ns, key, header, data: pdu.data(), length };
            match self.limits.policy {
                Policy::Discard => self.append(&arrival),
                Policy::Repair { .. } => self.place(&arrival),
            }
        } else {
            let is_abort = header.segment_type == SegmentType::End && pdu.length() == LENGTH_ABORT;
            let reason = if is_abort { Reason::Aborted } else { Reason::Length };
            Found { dropped: self.drop_open(key, reason), ..Found::default() }
        };
        self.outcome(key, found)
    }

    fn outcome(&mut self, key: Key, found: Found) -> Outcome<'_> {
        let Found { dropped, missing, whole } = found;
        self.counters.messages += u64::from(whole.is_some());
        let octets = match whole {
            None => None,
            Some(Whole::Single(length)) => Some(&self.single[..length]),
            Some(Whole::Slot(at)) => Some(&self.slots.at(at).bytes[..]),
        };
        Outcome { dropped, missing, message: octets.map(|octets| (key, octets)) }
    }

    /// The short way for most cells: the next cell of the latest message. Returns `false` for any
    /// other, without a change.
    #[inline]
    fn appends_next(&mut self, key: Key, header: SarHeader, pdu: &SarPdu<'_>) -> bool {
        let is_usual = header.segment_type == SegmentType::Continuation
            && usize::from(pdu.length()) == CELL_DATA_BYTES
            && self.limits.policy == Policy::Discard;
        let Some(slot) = self.slots.latest(key).filter(|_| is_usual) else { return false };
        let end = slot.bytes.len() + CELL_DATA_BYTES;
        if slot.next_sequence != header.sequence || end > self.limits.message_bytes_max {
            return false;
        }
        slot.next_sequence = self.format.next(slot.next_sequence);
        slot.cells += 1;
        // A constant length, so that the copy is a few moves and no call.
        slot.bytes.extend_from_slice(pdu.data());
        true
    }

    /// Takes a cell that must follow the one before.
    fn append(&mut self, cell: &Arrival<'_>) -> Found {
        let slot = self.slots.find(cell.key);
        if cell.header.segment_type.is_first() {
            let dropped = slot.map(|at| self.drop_at(at, Reason::Overtaken));
            return Found { dropped, whole: self.begin(cell), ..Found::default() };
        }
        let Some(at) = slot else {
            self.counters.strays += 1;
            return Found::default();
        };
        let slot = self.slots.at(at);
        let reason = if slot.next_sequence != cell.header.sequence {
            Reason::Gap
        } else if slot.bytes.len() + cell.length > self.limits.message_bytes_max {
            Reason::TooLong
        } else {
            slot.next_sequence = self.format.next(slot.next_sequence);
            slot.cells += 1;
            slot.bytes.extend_from_slice(&cell.data[..cell.length]);
            if cell.header.segment_type == SegmentType::Continuation {
                return Found::default();
            }
            self.slots.close(at);
            return Found { whole: Some(Whole::Slot(at)), ..Found::default() };
        };
        Found { dropped: Some(self.drop_at(at, reason)), ..Found::default() }
    }

    /// Takes the first cell of a message.
    fn begin(&mut self, cell: &Arrival<'_>) -> Option<Whole> {
        if cell.length > self.limits.message_bytes_max {
            self.counters.no_room += 1;
            return None;
        }
        if cell.header.segment_type == SegmentType::Single {
            self.single = *cell.data;
            return Some(Whole::Single(cell.length));
        }
        let at = self.open(cell)?;
        let next = self.format.next(cell.header.sequence);
        let slot = self.slots.at(at);
        slot.next_sequence = next;
        slot.bytes.extend_from_slice(cell.data);
        None
    }

    pub(super) fn open(&mut self, cell: &Arrival<'_>) -> Option<usize> {
        let deadline_ns = cell.now_ns.saturating_add(self.limits.timeout_ns);
        let max = self.limits.messages_max;
        let at = self.slots.open(cell.key, deadline_ns, max);
        self.counters.no_room += u64::from(at.is_none());
        at
    }

    fn drop_open(&mut self, key: Key, reason: Reason) -> Option<Dropped> {
        match self.slots.find(key) {
            Some(at) if !self.slots.at(at).is_done => Some(self.drop_at(at, reason)),
            _ => {
                self.counters.strays += 1;
                None
            }
        }
    }

    pub(super) fn drop_at(&mut self, at: usize, reason: Reason) -> Dropped {
        let slot = self.slots.at(at);
        let dropped = Dropped { key: slot.key, reason, cells: slot.cells };
        self.slots.close(at);
        self.counters.messages_dropped += 1;
        dropped
    }
}
