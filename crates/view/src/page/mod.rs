//! `sockscope view`: the answers to the page's questions, and the files of the page.
//!
//! Times in questions and answers are nanoseconds since the start of the trace, as floats. Figures get arrays of
//! 64-bit floats in little-endian order; everything else is JSON.

mod answer;
mod asked;
mod assets;
mod compare;
mod connection;
mod figure;
mod flow;
mod marks;
mod overview;
mod places;
mod records;
#[cfg(test)]
mod testing;
mod trace;

pub use answer::{Answer, Refused};
pub use asked::{ByteAsked, FigureAsked, ListAsked, PartAsked};
pub use assets::{Asset, asset};
pub use compare::compare;
pub use connection::{connection, report};
pub use figure::{byte, curves, ledger};
pub use marks::marks;
pub use overview::overview;
pub use places::places;
pub use records::{RECORDS_MAX, records};
pub use trace::Trace;
