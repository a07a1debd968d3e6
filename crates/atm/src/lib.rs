//! ATM without I/O: cells, adaptation layers, and the interface card that a thesis measured.
//!
//! From the line up: [where cells begin](delineation), [`Cell`] and [`Header`] with their
//! [header error control](hec), the adaptation layers [`aal34`] (with the 5-bit sequence number of
//! that thesis) and [`aal5`], and [`capture`], which writes both in forms that packet analysers
//! read. [`tca100`] is a model of FORE's TCA-100 as its driver saw it, and [`driver`] is the
//! thesis's driver on top of it, which counts each access by kind.
//!
//! Nothing here reads a clock, a file or a socket. Times are integer nanoseconds of the caller's
//! clock, passed in as `now_ns`; they never run backwards. Lengths are octets. Received octets are
//! hostile: they are refused or counted, and never panic.
//!
//! Where a comment cites "Whateley", it means chapter 4 of "The Influence of Protocol Choice on
//! Network Performance"; "Mach" means CMU's Mach 3.0 driver for the same card. Our own choices,
//! where neither has a rule, are in `docs/reference/atm.md`.

pub mod aal34;
pub mod aal5;
pub mod capture;
mod cell;
pub mod crc10;
pub mod crc32;
pub mod delineation;
pub mod driver;
mod error;
mod header;
pub mod hec;
pub mod tca100;

pub use cell::Cell;
pub use error::Error;
pub use header::{Channel, Header, Interface, PayloadType};

/// Octets of a cell.
pub const CELL_BYTES: usize = 53;

/// Octets of a cell's header with its HEC.
pub const HEADER_BYTES: usize = 5;

/// Octets of a cell's information field.
pub const PAYLOAD_BYTES: usize = CELL_BYTES - HEADER_BYTES;
