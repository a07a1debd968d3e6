//! The packets of a pcap or pcapng file, one after the other, in bounded memory.

use std::io::Read;

use pcap_parser::{Block, PcapBlockOwned, PcapError, create_reader};

use super::headers::Passage;

/// Room for one packet or block at first and at most.
const ROOM: usize = 1 << 20;
/// A larger block is damage. Its options, which may be four octets long, take ten times its size in memory.
const ROOM_MAX: usize = 1 << 23;
/// Octets of an interface's name that are kept.
const NAME_MAX: usize = 256;
/// Type of the block that begins a section: the same in both orders.
const SECTION: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
/// Octets of a block without a body: its type, and its length twice.
const BLOCK_MIN: u32 = 12;
/// Interfaces of a file at most; a packet of a later one is damage.
const INTERFACES_MAX: usize = 4096;

/// A packet as the file has it.
pub(super) struct Frame<'a> {
    /// Place of its interface in [`Container::interfaces`].
    pub interface: usize,
    /// Nanoseconds since 1970.
    pub at_ns: u64,
    /// Its flags say so.
    pub passage: Option<Passage>,
    /// Octets on the wire.
    pub original: u32,
    pub data: &'a [u8],
}

/// An interface on which packets were captured.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Interface {
    /// Its name, where the file has it.
    pub name: Option<String>,
    /// Number of its link type.
    pub link_type: i32,
    /// Packets read.
    pub packets: u64,
    /// Packets that the capture missed, by its own count.
    pub missed: u64,
}

/// A place from which on a file cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("octet {at}, after {packets} packets: expected {expected}")]
pub struct Damage {
    /// Octets before it.
    pub at: u64,
    /// Packets before it.
    pub packets: u64,
    /// What should stand there.
    pub expected: &'static str,
}

/// Interfaces of all sections so far, and the units of their time stamps.
#[derive(Default)]
struct Sections {
    interfaces: Vec<Interface>,
    /// Units of a second, and seconds to add, by interface.
    clocks: Vec<(u64, i64)>,
    /// Place of the section's first interface.
    first: usize,
    /// Whether the section is in big-endian order; `None` of pcap.
    is_big_endian: Option<bool>,
}

/// Calls `take` for each packet of a file until it gives false. Gives the interfaces, and the damage at which reading ended.
///
/// # Errors
///
/// When the file is neither pcap nor pcapng, or cannot be read.
pub(super) fn each_packet(
    input: impl Read + Send,
    mut take: impl FnMut(&[Interface], &Frame<'_>) -> bool,
) -> Result<(Vec<Interface>, Option<Damage>), Unreadable> {
    let mut reader = match create_reader(ROOM, input) {
        Ok(reader) => reader,
        Err(PcapError::ReadError) => return Err(Unreadable::Read),
        Err(_) => return Err(Unreadable::NoCapture),
    };
    let mut sections = Sections::default();
    // Of pcap: nanoseconds of a unit.
    let mut unit_ns = 0;
    let (mut at, mut packets, mut room) = (0_u64, 0_u64, ROOM);
    let expected = loop {
        // The parser takes the length of some blocks as it is, and subtracts these octets from it.
        if sections.is_too_short(reader.data()) {
            break Some("a packet or block");
        }
        let len = match reader.next() {
            Ok((len, block)) => {
                let frame = match &block {
                    PcapBlockOwned::LegacyHeader(header) => {
                        unit_ns = if header.is_nanosecond_precision() { 1 } else { 1000 };
                        let link_type = header.network.0 & 0xffff;
                        sections.interfaces.push(Interface { link_type, ..Interface::default() });
                        Ok(None)
                    }
                    PcapBlockOwned::Legacy(packet) => {
                        let seconds = u64::from(packet.ts_sec) * 1_000_000_000;
                        Ok(Some(Frame {
                            interface: 0,
                            at_ns: seconds + u64::from(packet.ts_usec) * unit_ns,
                            passage: None,
                            original: packet.origlen,
                            data: captured(packet.data, packet.caplen),
                        }))
                    }
                    PcapBlockOwned::NG(block) => sections.take(block),
                };
                match frame {
                    Ok(Some(frame)) => {
                        packets += 1;
                        sections.interfaces[frame.interface].packets += 1;
                        if !take(&sections.interfaces, &frame) {
                            break None;
                        }
                    }
                    Ok(None) => {}
                    Err(expected) => break Some(expected),
                }
                len
            }
            Err(PcapError::Eof) => break None,
            Err(PcapError::Incomplete(_)) => {
                if reader.refill().is_err() {
                    return Err(Unreadable::Read);
                }
                continue;
            }
            Err(PcapError::BufferTooSmall) if room < ROOM_MAX => {
                room *= 2;
                if !reader.grow(room) || reader.refill().is_err() {
                    return Err(Unreadable::Read);
                }
                continue;
            }
            Err(PcapError::BufferTooSmall) => break Some("a block of at most 8 MiB"),
            Err(PcapError::UnexpectedEof) => break Some("the rest of a packet or block"),
            Err(PcapError::ReadError) => return Err(Unreadable::Read),
            Err(_) => break Some("a packet or block"),
        };
        at += len as u64;
        reader.consume(len);
    };
    let damage = expected.map(|expected| Damage { at, packets, expected });
    Ok((sections.interfaces, damage))
}

/// Why a file has no packets to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// Reading it failed.
    #[error("cannot be read")]
    Read,
    /// It begins otherwise.
    #[error("expected a pcap or pcapng file, which its first octets are not of")]
    NoCapture,
}

fn halves(octets: &[u8; 8]) -> [[u8; 4]; 2] {
    let [a, b, c, d, e, f, g, h] = *octets;
    [[a, b, c, d], [e, f, g, h]]
}

/// A frame's octets without the padding.
fn captured(data: &[u8], len: u32) -> &[u8] {
    &data[..data.len().min(len as usize)]
}

impl Sections {
    /// Whether a block begins here that is shorter than any. A new section has an order of its own.
    fn is_too_short(&self, block: &[u8]) -> bool {
        let (Some(is_big_endian), Some([kind, len])) =
            (self.is_big_endian, block.first_chunk::<8>().map(halves))
        else {
            return false;
        };
        let len = if is_big_endian { u32::from_be_bytes(len) } else { u32::from_le_bytes(len) };
        kind != SECTION && len < BLOCK_MIN
    }

    /// A packet of a block, where it is one; else the expected block.
    fn take<'a>(&mut self, block: &'a Block<'a>) -> Result<Option<Frame<'a>>, &'static str> {
        match block {
            Block::SectionHeader(header) => {
                self.first = self.interfaces.len();
                self.is_big_endian = Some(header.big_endian());
            }
            Block::InterfaceDescription(description) => {
                if self.interfaces.len() == INTERFACES_MAX {
                    return Err("at most 4,096 interfaces");
                }
                let units = description.ts_resolution().filter(|units| *units > 0);
                let units = units.ok_or("an interface whose clock has a resolution")?;
                self.clocks.push((units, description.ts_offset()));
                let name = description.if_name().and_then(Result::ok);
                let name = name.map(|name| name.chars().take(NAME_MAX).collect());
                let link_type = description.linktype.0;
                self.interfaces.push(Interface { name, link_type, ..Interface::default() });
            }
            Block::EnhancedPacket(packet) => {
                let interface = self.first.saturating_add(packet.if_id as usize);
                let (units, offset) =
                    *self.clocks.get(interface).ok_or("an interface before its packet")?;
                let ticks = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
                // Option 2 has flags; its low two bits are the direction: 1 in, 2 out.
                let flags = packet.options.iter().find(|option| option.code.0 == 2);
                let low = flags.and_then(|flags| flags.as_bytes().ok()?.first().copied());
                return Ok(Some(Frame {
                    interface,
                    at_ns: nanoseconds(ticks, units, offset),
                    passage: match low.map(|low| low & 3) {
                        Some(1) => Some(Passage::Received),
                        Some(2) => Some(Passage::Sent),
                        _ => None,
                    },
                    original: packet.origlen,
                    data: captured(packet.data, packet.caplen),
                }));
            }
            Block::InterfaceStatistics(statistics) => {
                let interface = self.first.saturating_add(statistics.if_id as usize);
                let dropped = [statistics.isb_ifdrop(), statistics.isb_osdrop()];
                let missed = dropped.into_iter().flatten().flatten().fold(0, u64::saturating_add);
                if let Some(interface) = self.interfaces.get_mut(interface) {
                    // Each block has the counts since the start.
                    interface.missed = interface.missed.max(missed);
                }
            }
            // A simple packet has no time.
            _ => {}
        }
        Ok(None)
    }
}

/// Ticks of a clock as nanoseconds since 1970; a time beyond 64 bits is the nearest one within.
fn nanoseconds(ticks: u64, units: u64, offset_s: i64) -> u64 {
    let ns = u128::from(ticks) * 1_000_000_000 / u128::from(units);
    let ns = i128::try_from(ns).unwrap_or(i128::MAX);
    let ns = ns.saturating_add(i128::from(offset_s) * 1_000_000_000);
    u64::try_from(ns.max(0)).unwrap_or(u64::MAX)
}
