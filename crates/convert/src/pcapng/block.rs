//! Blocks of a pcapng file in little-endian order (draft-ietf-opsawg-pcapng).

use std::io::{self, Write};

/// Link type Ethernet. Raw IP would do, but tcpdump refuses it in a file with several interfaces.
const ETHERNET: u16 = 1;
/// Decimal places of a second in time stamps.
const NANOSECONDS: u8 = 9;

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const NAMES: u32 = 4;
const STATISTICS: u32 = 5;
const PACKET: u32 = 6;

/// Codes of options.
const COMMENT: u16 = 1;
const PROGRAM: u16 = 4;
const INTERFACE_NAME: u16 = 2;
const RESOLUTION: u16 = 9;
const FLAGS: u16 = 2;
const PACKET_ID: u16 = 5;
const RECEIVED: u16 = 4;
const DROPPED: u16 = 5;

/// A block that is being put together.
#[derive(Default)]
pub(super) struct Block {
    body: Vec<u8>,
}

impl Block {
    fn u16(&mut self, value: u16) -> &mut Self {
        self.body.extend(value.to_le_bytes());
        self
    }

    fn u32(&mut self, value: u32) -> &mut Self {
        self.body.extend(value.to_le_bytes());
        self
    }

    /// Octets, filled up to a word.
    fn octets(&mut self, octets: &[u8]) -> &mut Self {
        self.body.extend(octets);
        self.body.resize(self.body.len().next_multiple_of(4), 0);
        self
    }

    /// An option; a value of more than 65,535 octets is cut.
    fn option(&mut self, code: u16, value: &[u8]) -> &mut Self {
        let len = u16::try_from(value.len()).unwrap_or(u16::MAX);
        self.u16(code).u16(len).octets(&value[..usize::from(len)])
    }

    fn end_of_options(&mut self) -> &mut Self {
        self.u16(0).u16(0)
    }

    /// Writes it, and is empty again.
    fn write(&mut self, kind: u32, out: &mut dyn Write) -> io::Result<()> {
        let len = self.body.len() as u32 + 12;
        out.write_all(&kind.to_le_bytes())?;
        out.write_all(&len.to_le_bytes())?;
        out.write_all(&self.body)?;
        out.write_all(&len.to_le_bytes())?;
        self.body.clear();
        Ok(())
    }

    /// The section's header, with a comment and the program that writes.
    pub fn section(&mut self, comment: &str, program: &str, out: &mut dyn Write) -> io::Result<()> {
        self.u32(0x1a2b_3c4d).u16(1).u16(0).u32(u32::MAX).u32(u32::MAX);
        self.option(COMMENT, comment.as_bytes()).option(PROGRAM, program.as_bytes());
        self.end_of_options().write(SECTION, out)
    }

    /// An interface with Ethernet frames and nanoseconds.
    pub fn interface(&mut self, name: &str, out: &mut dyn Write) -> io::Result<()> {
        self.u16(ETHERNET).u16(0).u32(0);
        self.option(INTERFACE_NAME, name.as_bytes()).option(RESOLUTION, &[NANOSECONDS]);
        self.end_of_options().write(INTERFACE, out)
    }

    /// Names of addresses.
    pub fn names(
        &mut self,
        names: &[(std::net::IpAddr, String)],
        out: &mut dyn Write,
    ) -> io::Result<()> {
        for (address, name) in names {
            let (code, octets) = match address {
                std::net::IpAddr::V4(address) => (1, address.octets().to_vec()),
                std::net::IpAddr::V6(address) => (2, address.octets().to_vec()),
            };
            let record = [octets.as_slice(), name.as_bytes(), &[0]].concat();
            self.u16(code).u16(record.len() as u16).octets(&record);
        }
        self.u16(0).u16(0).write(NAMES, out)
    }

    /// A packet whose first octets are there.
    pub fn packet(&mut self, packet: &Packet<'_>, out: &mut dyn Write) -> io::Result<()> {
        let Packet { at_ns, is_sent, id, headers, original, comment } = *packet;
        self.captured(at_ns, headers, original);
        if let Some(comment) = comment {
            self.option(COMMENT, comment.as_bytes());
        }
        let direction: u32 = if is_sent { 2 } else { 1 };
        self.option(FLAGS, &direction.to_le_bytes()).option(PACKET_ID, &id.to_le_bytes());
        self.end_of_options().write(PACKET, out)
    }

    /// A packet of which the interface says no direction.
    pub fn frame(
        &mut self,
        at_ns: u64,
        headers: &[u8],
        original: u32,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        self.captured(at_ns, headers, original).write(PACKET, out)
    }

    fn captured(&mut self, at_ns: u64, headers: &[u8], original: u32) -> &mut Self {
        self.u32(0).u32((at_ns >> 32) as u32).u32(at_ns as u32);
        self.u32(headers.len() as u32).u32(original).octets(headers)
    }

    /// Packets that the interface received and those of them that it dropped, up to a time.
    pub fn statistics(
        &mut self,
        at_ns: u64,
        [received, dropped]: [u64; 2],
        out: &mut dyn Write,
    ) -> io::Result<()> {
        self.u32(0).u32((at_ns >> 32) as u32).u32(at_ns as u32);
        self.option(RECEIVED, &received.to_le_bytes()).option(DROPPED, &dropped.to_le_bytes());
        self.end_of_options().write(STATISTICS, out)
    }
}

/// A packet as a file has it.
#[derive(Clone, Copy)]
pub(super) struct Packet<'a> {
    /// Nanoseconds since 1970.
    pub at_ns: u64,
    pub is_sent: bool,
    /// The same for the same octets at each point.
    pub id: u64,
    pub headers: &'a [u8],
    /// Octets on the wire.
    pub original: u32,
    pub comment: Option<&'a str>,
}
