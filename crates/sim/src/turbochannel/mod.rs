//! Machines with a TURBOchannel: what each kind of bus access costs, and how a processor with a
//! clock of its own and a write buffer shares that bus with itself.
//!
//! A [`TurbochannelMachine`] is a file in `machines/`, where each group of numbers has its source; a
//! [`Timeline`] is one such machine at work, alone and with nothing else on its bus. Bus costs are
//! whole bus cycles, the processor's are its own cycles; times are picoseconds, because a cycle of
//! 33 MHz is no whole number of nanoseconds.

mod machine;
mod timeline;

pub use machine::{Bus, Clock, Driver, TurbochannelMachine, WriteBuffer};
pub use timeline::{Begun, Timeline, Until};
