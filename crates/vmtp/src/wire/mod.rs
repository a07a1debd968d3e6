//! VMTP packets (RFC 1045 chapter 3): a [`Packet`] views octets after one check, a [`Header`] holds
//! the fields and writes them.
//!
//! A packet is 64 octets of header, up to 16,384 octets of segment data, and a checksum; words are
//! big-endian. Lengths are octets unless a name says otherwise.

mod blocks;
mod checksum;
mod entity;
mod header;
mod notice;
mod packet;

pub(crate) use blocks::take;
pub use blocks::{
    BLOCK_BYTES, GROUP_BLOCKS, GROUP_BYTES, Group, MESSAGE_BYTES_MAX, blocks_per_packet, groups_of,
};
pub use checksum::checksum;
pub use entity::{Entity, EntityError, MANAGER_GROUP};
pub use header::{Code, Control, Header, Kind, code, operation};
pub use notice::{Notice, NoticeTo};
pub use packet::{Checksum, HEADER_BYTES, Packet, PacketError, TRAILER_BYTES, emit};
