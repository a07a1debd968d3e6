//! The SunOS IPC study: bulk transfers between SPARCstations, watched at the eight points.
//!
//! A [`Transfer`] says what is sent between which machines; [`Transfer::run`] gives what was
//! [`Observed`]: the records, put in order by flow. Times are nanoseconds of the model's clock, lengths bytes.

mod observed;
mod transfer;

pub(crate) use observed::{Burst, Observed};
pub(crate) use transfer::{Load, Topology, Transfer};
