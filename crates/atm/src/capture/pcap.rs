//! The classic pcap file with times in nanoseconds, little-endian (draft-ietf-opsawg-pcap).

use std::io::{self, Write};

/// Octets of one record that a reader must be ready for.
const RECORD_BYTES_MAX: u32 = 262_144;

/// Marks fractions of seconds as nanoseconds, and shows the byte order of numbers.
const MAGIC: u32 = 0xa1b2_3c4d;

#[derive(Debug)]
pub(super) struct Pcap<W> {
    out: W,
}

impl<W: Write> Pcap<W> {
    /// Begins a file whose records are all of this link type.
    pub fn new(mut out: W, link_type: u32) -> io::Result<Self> {
        out.write_all(&MAGIC.to_le_bytes())?;
        out.write_all(&[2, 0, 4, 0])?;
        for field in [0, 0, RECORD_BYTES_MAX, link_type] {
            out.write_all(&field.to_le_bytes())?;
        }
        Ok(Self { out })
    }

    /// Writes a record whose octets are in several parts.
    ///
    /// Fails as the writer does, or when the record is longer than readers take.
    pub fn record(&mut self, at_ns: u64, parts: &[&[u8]]) -> io::Result<()> {
        let octets = parts.iter().map(|part| part.len()).sum::<usize>();
        let length = u32::try_from(octets).ok().filter(|&length| length <= RECORD_BYTES_MAX);
        let length = length.ok_or_else(|| {
            let text = format!("record of {octets} octets, at most {RECORD_BYTES_MAX} fit");
            io::Error::new(io::ErrorKind::InvalidInput, text)
        })?;
        let (seconds, nanoseconds) = split(at_ns);
        for field in [seconds, nanoseconds, length, length] {
            self.out.write_all(&field.to_le_bytes())?;
        }
        parts.iter().try_for_each(|part| self.out.write_all(part))
    }

    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}

/// Seconds, as many of them as the format holds, and nanoseconds.
pub(super) fn split(at_ns: u64) -> (u32, u32) {
    const SECOND_NS: u64 = 1_000_000_000;
    ((at_ns / SECOND_NS) as u32, (at_ns % SECOND_NS) as u32)
}
