//! The layout of the card's 256 KB, and the bits of its registers.
//!
//! Units by address bits 17 and 16, words of a queue by bits 5 to 2: Whateley, Tables 1 and 2.
//! Registers and their bits: Mach.

/// Bytes of the whole region.
pub const REGION_BYTES: u32 = 0x4_0000;

/// First byte of the registers.
pub const REGISTERS: u32 = 0x1_0000;

/// First byte of the receive queue.
pub const RECEIVE_QUEUE: u32 = 0x2_0000;

/// First byte of the transmit queue.
pub const TRANSMIT_QUEUE: u32 = 0x3_0000;

/// Byte offset in a queue of a cell's header word.
pub const HEADER: u32 = 0;

/// Byte offset in a queue of the first of twelve words that all mean "the next payload word".
pub const PAYLOAD: u32 = 0x04;

/// Byte offset in a queue of a cell's trailer word.
pub const TRAILER: u32 = 0x34;

/// A register, by its byte offset in the region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Register {
    /// Events; writing keeps the bits that are one.
    Status = REGISTERS,
    /// Writing sets the control bits that are one.
    ControlSet = REGISTERS + 0x04,
    /// Writing keeps the control bits that are one.
    ControlClear = REGISTERS + 0x08,
    /// Interrupts and engines, to read and write.
    Control = REGISTERS + 0x0c,
    /// Ticks until the receive timer ends.
    ReceiveTimer = REGISTERS + 0x10,
    /// The start value of the timer when the receive queue becomes non-empty; 0 leaves it off.
    ReceiveTimerReload = REGISTERS + 0x18,
    /// Cells in the receive queue.
    ReceiveCount = REGISTERS + 0x20,
    /// An arrival that leaves as many cells as this sets its status bit.
    ReceiveComparator = REGISTERS + 0x28,
    /// Whole cells in the transmit queue.
    TransmitCount = REGISTERS + 0x30,
    /// A departure that leaves no more cells than this sets its status bit.
    TransmitComparator = REGISTERS + 0x38,
}

impl Register {
    /// All of them, by offset.
    pub const ALL: [Self; 10] = [
        Self::Status,
        Self::ControlSet,
        Self::ControlClear,
        Self::Control,
        Self::ReceiveTimer,
        Self::ReceiveTimerReload,
        Self::ReceiveCount,
        Self::ReceiveComparator,
        Self::TransmitCount,
        Self::TransmitComparator,
    ];

    /// Its byte offset in the region.
    pub const fn offset(self) -> u32 {
        self as u32
    }
}

/// Bits that counters and comparators have.
pub const COUNT_MASK: u32 = 0x3ff;

/// Bits of the status register; the first four are also the control bits that let them interrupt.
pub mod status {
    /// As many cells have arrived as the comparator requires.
    pub const RECEIVE_COUNT: u32 = 0x001;
    /// The last cell of a message has arrived.
    pub const RECEIVE_END_OF_MESSAGE: u32 = 0x002;
    /// The receive timer has ended.
    pub const RECEIVE_TIMER: u32 = 0x004;
    /// As few cells are left to send as the comparator requires.
    pub const TRANSMIT_COUNT: u32 = 0x008;
    /// An arriving cell was dropped: too short, or no room.
    pub const RECEIVE_CELL_LOST: u32 = 0x010;
    /// No light arrives.
    pub const RECEIVE_NO_CARRIER: u32 = 0x020;
    /// The bits that can interrupt.
    pub const INTERRUPTS: u32 = 0x00f;
}

/// Bits of the control register other than those that let status bits interrupt.
pub mod control {
    /// Cells are taken from the fibre.
    pub const RECEIVE_ENABLE: u32 = 0x040;
    /// Cells are sent.
    pub const TRANSMIT_ENABLE: u32 = 0x080;
    /// Empties the receive queue, and keeps it empty while set.
    pub const RECEIVE_RESET: u32 = 0x100;
    /// Empties the transmit queue, and keeps it empty while set.
    pub const TRANSMIT_RESET: u32 = 0x200;
}

/// The target of a byte offset in the region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Prom(u32),
    Register(Option<Register>),
    ReceiveQueue(QueueWord),
    TransmitQueue(QueueWord),
    Outside,
}

/// Which word of a cell an access to a queue means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QueueWord {
    Header,
    Payload,
    Trailer,
    Unused,
}

impl Place {
    pub fn at(offset: u32) -> Self {
        match offset >> 16 {
            0 => Self::Prom(offset),
            1 => Self::Register(
                Register::ALL.into_iter().find(|register| register.offset() == offset & !3),
            ),
            2 => Self::ReceiveQueue(QueueWord::at(offset)),
            3 => Self::TransmitQueue(QueueWord::at(offset)),
            _ => Self::Outside,
        }
    }
}

impl QueueWord {
    fn at(offset: u32) -> Self {
        match offset >> 2 & 0xf {
            0x0 => Self::Header,
            0x1..=0xc => Self::Payload,
            0xd => Self::Trailer,
            _ => Self::Unused,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_address_bits_choose_the_unit_and_four_the_word() {
        assert_eq!(Place::at(0x0_03e0), Place::Prom(0x3e0));
        assert_eq!(Place::at(0x1_000c), Place::Register(Some(Register::Control)));
        assert_eq!(Place::at(0x1_0014), Place::Register(None));
        let words: Vec<_> = (0..16).map(|word| Place::at(TRANSMIT_QUEUE + 4 * word)).collect();
        assert_eq!(words[0], Place::TransmitQueue(QueueWord::Header));
        assert!(words[1..13].iter().all(|&word| word == Place::TransmitQueue(QueueWord::Payload)));
        assert_eq!(words[13], Place::TransmitQueue(QueueWord::Trailer));
        assert_eq!(words[14..], [Place::TransmitQueue(QueueWord::Unused); 2]);
        assert_eq!(Place::at(REGION_BYTES), Place::Outside);
    }
}
