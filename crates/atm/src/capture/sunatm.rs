//! AAL5 messages in SunATM's form (pcap link type 123), which tcpdump and tshark read: direction
//! and kind, VPI, VCI, then the message without padding and trailer.

use std::io::{self, Write};

use super::Direction;
use super::pcap::Pcap;
use crate::Channel;

/// LINKTYPE_SUNATM of the pcap registry.
const LINK_TYPE: u32 = 123;

/// First octet of a message that was sent.
const SENT: u8 = 0x80;

/// First octet of a message that begins with LLC.
const LLC: u8 = 0x02;

/// A file of AAL5 messages.
#[derive(Debug)]
pub struct SunAtm<W> {
    file: Pcap<W>,
}

impl<W: Write> SunAtm<W> {
    /// Begins a file.
    pub fn new(out: W) -> io::Result<Self> {
        Pcap::new(out, LINK_TYPE).map(|file| Self { file })
    }

    /// Writes a message that begins with LLC (RFC 2684 §5).
    ///
    /// Fails as the writer does, and when the VPI is above 255.
    pub fn message(
        &mut self,
        at_ns: u64,
        direction: Direction,
        channel: Channel,
        message: &[u8],
    ) -> io::Result<()> {
        let vpi = u8::try_from(channel.vpi)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "VPI above 255"))?;
        let sent = if direction == Direction::Sent { SENT } else { 0 };
        let [high, low] = channel.vci.to_be_bytes();
        self.file.record(at_ns, &[&[sent | LLC, vpi, high, low], message])
    }

    /// Ends the file and returns its writer. Fails when that does not take the rest.
    pub fn finish(self) -> io::Result<W> {
        self.file.finish()
    }
}
