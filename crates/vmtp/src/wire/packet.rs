//! A packet: header, data, checksum.

use super::checksum::checksum;
use super::entity::Entity;
use super::header::{Code, Control, Header};

/// Octets before the data.
pub const HEADER_BYTES: usize = 64;
/// Octets of the checksum.
pub const TRAILER_BYTES: usize = 4;

const VERSION: u32 = 0;
const HEADER_CHECKSUM_ONLY: u32 = 0x8000;
const ENCRYPTED: u32 = 0x4000;
const MULTICAST: u32 = 0x2000;
/// The largest number of valid words in the length field.
const LENGTH_WORDS_MAX: usize = 4096;

/// Octets that are no packet of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// Shorter than header and checksum.
    #[error("{0} octets: shorter than a header of 64 and a checksum of 4")]
    Short(usize),
    /// Its length field has another value.
    #[error("{octets} octets, but the header at octet 10 announces {announced}")]
    Length {
        /// Octets there are.
        octets: usize,
        /// Octets there should be.
        announced: usize,
    },
    /// Another version of the protocol.
    #[error("version {0} at octet 8: expected 0")]
    Version(u32),
    /// Damaged.
    #[error("checksum {found:08x}, computed {computed:08x}")]
    Checksum {
        /// In the packet.
        found: u32,
        /// Over the packet.
        computed: u32,
    },
    /// It has no entity where one must be.
    #[error("no entity at octet {0}")]
    NoEntity(usize),
}

/// Octets that are a packet: lengths and checksum were checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    octets: &'a [u8],
}

/// Whether to protect a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Checksum {
    /// All of it, or the header only where its flag requires this.
    #[default]
    Computed,
    /// Field 0.
    None,
}

impl<'a> Packet<'a> {
    /// Checks lengths, version, checksum and that client and server are named.
    ///
    /// # Errors
    ///
    /// The error and its place.
    pub fn new(octets: &'a [u8]) -> Result<Self, PacketError> {
        if octets.len() < HEADER_BYTES + TRAILER_BYTES {
            return Err(PacketError::Short(octets.len()));
        }
        let packet = Self { octets };
        let word = packet.word(8);
        let words = (word & 0x1fff) as usize;
        let announced = HEADER_BYTES + 4 * words + TRAILER_BYTES;
        if words > LENGTH_WORDS_MAX || announced != octets.len() {
            return Err(PacketError::Length { octets: octets.len(), announced });
        }
        if word >> 29 != VERSION {
            return Err(PacketError::Version(word >> 29));
        }
        packet.check_sum(word & HEADER_CHECKSUM_ONLY != 0)?;
        match (packet.entity(0).0, packet.entity(24).0) {
            (0, _) => Err(PacketError::NoEntity(0)),
            (_, 0) => Err(PacketError::NoEntity(24)),
            _ => Ok(packet),
        }
    }

    fn check_sum(&self, header_only: bool) -> Result<(), PacketError> {
        let end = self.octets.len() - TRAILER_BYTES;
        let found = self.word(end);
        let computed = checksum(&self.octets[..if header_only { HEADER_BYTES } else { end }]);
        if found == 0 || found == computed {
            return Ok(());
        }
        Err(PacketError::Checksum { found, computed })
    }

    /// Its fields.
    pub fn header(&self) -> Header {
        let word = self.word(8);
        Header {
            client: self.entity(0),
            // Thirteen bits.
            domain: (word >> 16) as u16 & 0x1fff,
            header_checksum_only: word & HEADER_CHECKSUM_ONLY != 0,
            encrypted: word & ENCRYPTED != 0,
            multicast: word & MULTICAST != 0,
            control: Control::decode(self.word(12)),
            transaction: self.word(16),
            delivery: self.word(20),
            server: self.entity(24),
            code: Code::decode(self.word(32)),
            parameters: std::array::from_fn(|index| self.octets[36 + index]),
        }
    }

    /// Its segment data, padding included.
    pub fn data(&self) -> &'a [u8] {
        &self.octets[HEADER_BYTES..self.octets.len() - TRAILER_BYTES]
    }

    fn word(&self, at: usize) -> u32 {
        let octets: [u8; 4] = std::array::from_fn(|index| self.octets[at + index]);
        u32::from_be_bytes(octets)
    }

    fn entity(&self, at: usize) -> Entity {
        Entity(u64::from(self.word(at)) << 32 | u64::from(self.word(at + 4)))
    }
}

/// Writes a packet into `to`, replacing its contents. `data` is in pieces, which are joined and
/// padded to eight octets; together they are at most 16,384.
pub fn emit<'a>(
    header: &Header,
    data: impl IntoIterator<Item = &'a [u8]>,
    protect: Checksum,
    to: &mut Vec<u8>,
) {
    to.clear();
    to.extend_from_slice(&header.client.0.to_be_bytes());
    to.extend_from_slice(&[0; 4]);
    for word in [header.control.encode(), header.transaction, header.delivery] {
        to.extend_from_slice(&word.to_be_bytes());
    }
    to.extend_from_slice(&header.server.0.to_be_bytes());
    to.extend_from_slice(&header.code.encode().to_be_bytes());
    to.extend_from_slice(&header.parameters);
    data.into_iter().for_each(|piece| to.extend_from_slice(piece));
    to.resize(to.len().next_multiple_of(8), 0);
    let words = ((to.len() - HEADER_BYTES) / 4) as u32;
    debug_assert!(words as usize <= LENGTH_WORDS_MAX, "a packet holds one group at most");
    let flag = |set: bool, flag: u32| if set { flag } else { 0 };
    let word = u32::from(header.domain & 0x1fff) << 16
        | flag(header.header_checksum_only, HEADER_CHECKSUM_ONLY)
        | flag(header.encrypted, ENCRYPTED)
        | flag(header.multicast, MULTICAST)
        | words;
    to[8..12].copy_from_slice(&word.to_be_bytes());
    let covered = if header.header_checksum_only { HEADER_BYTES } else { to.len() };
    let sum = match protect {
        Checksum::Computed => checksum(&to[..covered]),
        Checksum::None => 0,
    };
    to.extend_from_slice(&sum.to_be_bytes());
}
