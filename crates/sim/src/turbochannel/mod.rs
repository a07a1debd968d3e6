//! Machines with a TURBOchannel: the costs of each kind of bus access. The processor, with a clock
//! of its own, shares the bus with its write buffer.
//!
//! A [`TurbochannelMachine`] is a file in `machines/`, where each group of numbers has its source; a
//! [`Timeline`] is one such machine at work, alone and with nothing else on its bus. Bus costs are
//! whole bus cycles, the processor's are its own cycles; times are picoseconds, because a cycle of
//! 33 MHz is no whole number of nanoseconds.

mod machine;
mod timeline;

pub use machine::{Bus, Clock, Driver, TurbochannelMachine, WriteBuffer};
pub use timeline::{Begun, Timeline, Until};
