//! Whole cells in the file format of the DOS Sniffer, version 4: the one form in which tshark
//! takes a cell with its HEC and learns which adaptation layer it belongs to.
//!
//! A file is a magic text and records, each with type and length, all little-endian: one with the
//! version and the network, one for each cell, one that ends the file.

use std::io::{self, Write};

use super::Direction;
use crate::{Cell, Interface};

const MAGIC: &[u8; 17] = b"TRSNIFF data    \x1a";

const RECORD_VERSION: u16 = 1;

const RECORD_END: u16 = 3;

const RECORD_CELL: u16 = 8;

/// Network type of the version record.
const NETWORK_ATM: u8 = 10;

/// Code of the unit of time in the version record, the finest that there is.
const TIME_UNIT: u8 = 6;

/// Nanoseconds of that unit.
const TIME_UNIT_NS: u64 = 100;

/// Days are counted next to the time of day.
const DAY_NS: u64 = 24 * 3600 * 1_000_000_000;

/// Status bit of a raw cell, not part of a message.
const STATUS_RAW_CELL: u32 = 0x100;

/// Octets of a cell record before the cell: 16 of any network, 32 of ATM.
const BEFORE_CELL_BYTES: usize = 48;

/// Which adaptation layer tshark assumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Traffic {
    /// AAL1.
    Aal1 = 1,
    /// AAL3/4.
    Aal34 = 2,
    /// AAL5.
    Aal5 = 3,
}

/// A file of cells.
#[derive(Debug)]
pub struct Sniffer<W> {
    out: W,
    /// The time of the first cell, from which all are counted.
    first_ns: Option<u64>,
}

impl<W: Write> Sniffer<W> {
    /// Begins a file.
    pub fn new(mut out: W) -> io::Result<Self> {
        out.write_all(MAGIC)?;
        let mut version = [0; 18];
        // Major and minor version; time and date of day stay 0; the type of the file, the network,
        // the format and the code of the unit of time.
        version[..2].copy_from_slice(&4u16.to_le_bytes());
        version[8..12].copy_from_slice(&[4, NETWORK_ATM, 1, TIME_UNIT]);
        let mut file = Self { out, first_ns: None };
        file.record(RECORD_VERSION, &version)?;
        Ok(file)
    }

    /// Writes a cell as it is, right or wrong. Times are kept to 100 ns from the first cell on, for
    /// at most 256 days. Fails as the writer does.
    pub fn cell(
        &mut self,
        at_ns: u64,
        direction: Direction,
        traffic: Traffic,
        cell: &Cell,
    ) -> io::Result<()> {
        let channel = cell.header(Interface::Uni).channel;
        let mut record = [0; BEFORE_CELL_BYTES + crate::CELL_BYTES];
        let since_ns = at_ns.saturating_sub(*self.first_ns.get_or_insert(at_ns));
        let units = (since_ns % DAY_NS / TIME_UNIT_NS).to_le_bytes();
        // Low, middle and high part of the time, the day, then the size.
        record[..5].copy_from_slice(&units[..5]);
        record[5] = u8::try_from(since_ns / DAY_NS).unwrap_or(u8::MAX);
        record[6] = crate::CELL_BYTES as u8;
        record[10] = crate::CELL_BYTES as u8;
        record[16..20].copy_from_slice(&STATUS_RAW_CELL.to_le_bytes());
        record[28] = traffic as u8;
        record[32..34].copy_from_slice(&channel.vpi.to_le_bytes());
        record[34..36].copy_from_slice(&channel.vci.to_le_bytes());
        record[36] = u8::from(direction == Direction::Sent);
        record[38] = 1;
        record[BEFORE_CELL_BYTES..].copy_from_slice(cell.octets());
        self.record(RECORD_CELL, &record)
    }

    /// Ends the file and returns its writer. Fails when that does not take the rest.
    pub fn finish(mut self) -> io::Result<W> {
        self.record(RECORD_END, &[])?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn record(&mut self, record_type: u16, octets: &[u8]) -> io::Result<()> {
        let mut header = [0; 6];
        header[..2].copy_from_slice(&record_type.to_le_bytes());
        // At most a cell record, which is short.
        header[2..4].copy_from_slice(&(octets.len() as u16).to_le_bytes());
        self.out.write_all(&header)?;
        self.out.write_all(octets)
    }
}
