//! A model of FORE's TCA-100, the ATM card that Whateley measured, as its driver sees it.
//!
//! The card is a TURBOchannel slave without DMA: everything is a word read or written in its [256
//! KB](map). Cells wait in two queues as [fourteen words](words) each. A full transmit queue blocks
//! the writer until the line has taken a word, or until the bus gives up; a full receive queue
//! drops arrivals. Both fibres are separate: cells leave at [`Tca100::take_sent`] and arrive at
//! [`Tca100::receive`], and a link between two cards is the caller's.
//!
//! Every call gives the time, in nanoseconds; a time before that of the call before is taken as
//! that time. The bus runs at 25 MHz, so that a cycle is 40 ns.

mod card;
mod line;
pub mod map;
mod prom;
mod receive;
mod transmit;
pub mod words;

pub use card::{Access, BusError, Config, Counters, Tca100};
pub use line::{LINE_OCTETS_MAX, LineCell};
pub use transmit::Pad1Polarity;

/// A bus cycle in nanoseconds (Whateley: 25 MHz).
pub const CYCLE_NS: u64 = 40;

/// Cycles that an access may stall before the bus raises an error (Whateley).
pub const STALL_CYCLES_MAX: u64 = 256;

/// Words of the receive queue: 292 cells.
pub const RECEIVE_WORDS: usize = 4096;

/// Words of the transmit queue: 36 cells.
pub const TRANSMIT_WORDS: usize = 512;

/// Cycles that a register or the PROM makes each access wait; queues make none wait.
pub const REGISTER_WAIT_CYCLES: u64 = 6;

/// Bits a second on each fibre. Whateley's text has 155, a figure 150 Mbit/s; the times of the text
/// for full queues fit 155.
pub const LINE_BITS_PER_S: u64 = 155_000_000;

#[cfg(test)]
mod tests;
