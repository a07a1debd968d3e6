//! Endace's extensible record format in pcap records (link type 197): a record header with the time
//! and the type, then the cell's header without its HEC, then the octets.

use std::io::{self, Write};

use super::Direction;
use super::pcap::{Pcap, split};
use crate::{Cell, Error, Header, Interface};

/// LINKTYPE_ERF of the pcap registry.
const LINK_TYPE: u32 = 197;

/// Record type of one cell.
const TYPE_CELL: u8 = 3;

/// Record type of a whole AAL5 frame.
const TYPE_AAL5: u8 = 4;

/// Octets of the record header.
const RECORD_HEADER_BYTES: usize = 16;

/// Flag of a record whose length is its own and not a constant.
const VARYING_LENGTH: u8 = 0x04;

/// A file of AAL5 frames and cells.
#[derive(Debug)]
pub struct Erf<W> {
    file: Pcap<W>,
}

impl<W: Write> Erf<W> {
    /// Begins a file.
    pub fn new(out: W) -> io::Result<Self> {
        Pcap::new(out, LINK_TYPE).map(|file| Self { file })
    }

    /// Writes a frame as [`aal5::encode`](crate::aal5::encode) makes it, with the header of one of
    /// its cells.
    ///
    /// Fails as the writer does, when the header does not fit a UNI, or when the record is too long
    /// for its length field: then the frame is over 65,515 octets.
    pub fn frame(
        &mut self,
        at_ns: u64,
        direction: Direction,
        header: &Header,
        frame: &[u8],
    ) -> io::Result<()> {
        let header = header.encode(Interface::Uni).map_err(invalid)?;
        self.record(at_ns, direction, TYPE_AAL5, header, frame)
    }

    /// Writes a cell, whose HEC this format leaves out. Fails as the writer does.
    pub fn cell(&mut self, at_ns: u64, direction: Direction, cell: &Cell) -> io::Result<()> {
        self.record(at_ns, direction, TYPE_CELL, cell.header_word(), cell.payload())
    }

    /// Ends the file and returns its writer. Fails when that does not take the rest.
    pub fn finish(self) -> io::Result<W> {
        self.file.finish()
    }

    fn record(
        &mut self,
        at_ns: u64,
        direction: Direction,
        record_type: u8,
        header: u32,
        octets: &[u8],
    ) -> io::Result<()> {
        let wire_bytes = 4 + octets.len();
        let record_bytes = RECORD_HEADER_BYTES + wire_bytes;
        let expected = "a record of at most 65535";
        let too_long =
            || invalid(Error::Length { what: "ERF frame", octets: octets.len(), expected });
        let record_length = u16::try_from(record_bytes).map_err(|_| too_long())?;
        let wire_length = record_length - RECORD_HEADER_BYTES as u16;
        // The low two flag bits are the port, which distinguishes the directions.
        let port = match direction {
            Direction::Received => 0,
            Direction::Sent => 1,
        };
        let mut record = [0; RECORD_HEADER_BYTES];
        record[..8].copy_from_slice(&time(at_ns).to_le_bytes());
        record[8..10].copy_from_slice(&[record_type, VARYING_LENGTH | port]);
        record[10..12].copy_from_slice(&record_length.to_be_bytes());
        record[14..].copy_from_slice(&wire_length.to_be_bytes());
        self.file.record(at_ns, &[&record, &header.to_be_bytes(), octets])
    }
}

/// Seconds in the upper half, their fraction of 2^32 in the lower.
fn time(at_ns: u64) -> u64 {
    let (seconds, nanoseconds) = split(at_ns);
    let fraction = (u64::from(nanoseconds) << 32) / 1_000_000_000;
    u64::from(seconds) << 32 | fraction
}

fn invalid(error: Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, error)
}
