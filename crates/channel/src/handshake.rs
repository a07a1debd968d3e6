//! The two messages of set-up, sent over the channel's socket with one descriptor each.
//!
//! The caller sends a [`ConnectRequest`] with its segment; the end that was called sends a
//! [`ConnectReply`] with its own. Each has 48 bytes, integers little-endian. Both are checked before
//! a segment is mapped.

use crate::memory::Geometry;
use crate::reject::RejectReason;
use crate::settings::WhenFull;

/// Bytes of either message.
pub const SETUP_BYTES: usize = 48;

/// The first bytes of both.
const MAGIC: [u8; 8] = *b"SKSCCHAN";

/// Changes with the layout of set-up messages or segments.
const VERSION: u16 = 1;

/// The role of the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It sends, and its descriptor is the data segment.
    Sends,
    /// It receives, and its descriptor is the control segment.
    Receives,
}

/// Slots of a sending end, as it announces them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// Slots in the segment.
    pub slots: u32,
    /// Bytes of each.
    pub slot_bytes: u32,
    /// The rule when all are full.
    pub when_full: WhenFull,
    /// Number of the first message that will be sent.
    pub next: u64,
}

/// First message, from the end that calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectRequest {
    /// The role of the caller.
    pub role: Role,
    /// The caller's slots; of no meaning when it receives.
    pub offer: Offer,
    /// The caller's number in a group.
    pub member: Option<u32>,
    /// Tells two processes apart that had the same number one after the other.
    pub incarnation: u64,
}

/// Answer, from the end that was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectReply {
    /// The channel is open.
    Accepted {
        /// The slots; of no meaning when the caller sends.
        offer: Offer,
        /// As [`ConnectRequest::incarnation`], of the end that answers.
        incarnation: u64,
    },
    /// There is no channel.
    Rejected(RejectReason),
}

impl Offer {
    pub(crate) fn new(geometry: Geometry, when_full: WhenFull, next: u64) -> Self {
        // `Geometry` has 2^20 slots at most.
        let slots = geometry.slots() as u32;
        Self { slots, slot_bytes: geometry.slot_bytes(), when_full, next }
    }

    /// An offer without meaning, for ends that do not send.
    pub(crate) const NONE: Self =
        Self { slots: 2, slot_bytes: 1, when_full: WhenFull::Wait, next: 0 };

    pub(crate) fn geometry(&self) -> Result<Geometry, &'static str> {
        Geometry::new(self.slots, self.slot_bytes)
    }

    fn encode(&self, bytes: &mut [u8; SETUP_BYTES]) {
        bytes[11] = u8::from(self.when_full == WhenFull::Overwrite);
        bytes[12..16].copy_from_slice(&self.slots.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.slot_bytes.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.next.to_le_bytes());
    }

    fn decode(bytes: &[u8; SETUP_BYTES]) -> Result<Self, &'static str> {
        let when_full = match bytes[11] {
            0 => WhenFull::Wait,
            1 => WhenFull::Overwrite,
            _ => return Err("a way to be full of 0 or 1"),
        };
        let offer = Self {
            slots: u32_at(bytes, 12),
            slot_bytes: u32_at(bytes, 16),
            when_full,
            next: u64_at(bytes, 24),
        };
        // A number near the end could not be counted on from; no sender sends so many.
        if offer.next > u64::MAX >> 1 {
            return Err("a message number below 2^63");
        }
        offer.geometry().map(|_| offer)
    }
}

impl ConnectRequest {
    /// The message's bytes.
    pub fn encode(&self) -> [u8; SETUP_BYTES] {
        let mut bytes = frame(match self.role {
            Role::Sends => 1,
            Role::Receives => 2,
        });
        self.offer.encode(&mut bytes);
        bytes[20..24].copy_from_slice(&self.member.unwrap_or(u32::MAX).to_le_bytes());
        bytes[32..40].copy_from_slice(&self.incarnation.to_le_bytes());
        bytes
    }

    /// Reads the message.
    ///
    /// # Errors
    /// The expected form, where the bytes are no request of this version.
    pub fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        let (kind, bytes) = open(bytes)?;
        let role = match kind {
            1 => Role::Sends,
            2 => Role::Receives,
            _ => return Err("a request of kind 1 or 2"),
        };
        let member = u32_at(bytes, 20);
        Ok(Self {
            role,
            offer: Offer::decode(bytes)?,
            member: (member != u32::MAX).then_some(member),
            incarnation: u64_at(bytes, 32),
        })
    }
}

impl ConnectReply {
    /// The message's bytes.
    pub fn encode(&self) -> [u8; SETUP_BYTES] {
        match self {
            Self::Accepted { offer, incarnation } => {
                let mut bytes = frame(16);
                offer.encode(&mut bytes);
                bytes[32..40].copy_from_slice(&incarnation.to_le_bytes());
                bytes
            }
            // The position in a list of five fits.
            Self::Rejected(reason) => frame(17 + *reason as u8),
        }
    }

    /// Reads the message.
    ///
    /// # Errors
    /// The expected form, where the bytes are no reply of this version.
    pub fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        let (kind, bytes) = open(bytes)?;
        match kind {
            16 => {
                let incarnation = u64_at(bytes, 32);
                Offer::decode(bytes).map(|offer| Self::Accepted { offer, incarnation })
            }
            _ => {
                let reason =
                    kind.checked_sub(17).and_then(|at| RejectReason::ALL.get(usize::from(at)));
                reason.copied().map(Self::Rejected).ok_or("a reply of kind 16 to 21")
            }
        }
    }
}

fn frame(kind: u8) -> [u8; SETUP_BYTES] {
    let mut bytes = [0; SETUP_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
    bytes[10] = kind;
    bytes
}

/// Checks length, magic and version, and gives the kind.
fn open(bytes: &[u8]) -> Result<(u8, &[u8; SETUP_BYTES]), &'static str> {
    let bytes: &[u8; SETUP_BYTES] = bytes.try_into().map_err(|_| "a message of 48 bytes")?;
    if bytes[..8] != MAGIC {
        return Err("a set-up message of a channel");
    }
    if u16::from_le_bytes([bytes[8], bytes[9]]) != VERSION {
        return Err("set-up of version 1");
    }
    Ok((bytes[10], bytes))
}

fn u32_at(bytes: &[u8; SETUP_BYTES], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]))
}

fn u64_at(bytes: &[u8; SETUP_BYTES], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn offers() -> impl Strategy<Value = Offer> {
        (1_u32..=20, 1_u32..=1 << 28, any::<bool>(), 0..1_u64 << 63).prop_map(
            |(power, slot_bytes, overwrite, next)| Offer {
                slots: 1 << power,
                slot_bytes,
                when_full: if overwrite { WhenFull::Overwrite } else { WhenFull::Wait },
                next,
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(
            offer in offers(),
            sends: bool,
            member in proptest::option::of(0..u32::MAX),
            incarnation: u64,
        ) {
            let role = if sends { Role::Sends } else { Role::Receives };
            let request = ConnectRequest { role, offer, member, incarnation };
            prop_assert_eq!(ConnectRequest::decode(&request.encode()), Ok(request));
            let reply = ConnectReply::Accepted { offer, incarnation };
            prop_assert_eq!(ConnectReply::decode(&reply.encode()), Ok(reply));
            prop_assert!(ConnectRequest::decode(&reply.encode()).is_err());
            prop_assert!(ConnectReply::decode(&request.encode()).is_err());
        }
    }

    #[test]
    fn a_rejection_keeps_its_reason() {
        for reason in RejectReason::ALL {
            let reply = ConnectReply::Rejected(reason);
            assert_eq!(ConnectReply::decode(&reply.encode()), Ok(reply));
        }
    }

    #[test]
    fn shapes_that_do_not_exist_are_refused() {
        let mut request =
            ConnectRequest { role: Role::Sends, offer: Offer::NONE, member: None, incarnation: 0 };
        request.offer.slots = 3;
        assert_eq!(
            ConnectRequest::decode(&request.encode()),
            Err("a power of two from 2 to 2^20 slots")
        );
        request.offer = Offer { next: u64::MAX, ..Offer::NONE };
        assert_eq!(ConnectRequest::decode(&request.encode()), Err("a message number below 2^63"));
        assert_eq!(ConnectRequest::decode(&[0; 47]), Err("a message of 48 bytes"));
    }
}
