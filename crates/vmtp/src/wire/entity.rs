//! Entity identifiers (RFC 1045 §2.1, appendix IV).

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

/// A party of a transaction: 64 bits, unique, independent of the host's address.
///
/// In domain 1 they are four type bits, a discriminator of 28 bits and the IPv4 address of the host
/// that allocated it. The text form is `BE-25593-36.8.0.49`: `BE`, `LE` (its data is little-endian),
/// `RG` and `UG` (restricted and unrestricted group); `A` behind it marks a remote alias, `X` in
/// front the reserved bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Entity(pub u64);

/// All VMTP hosts: the group of the management modules, on 224.0.1.0 (RFC 1045 appendix III).
pub const MANAGER_GROUP: Entity = Entity(0x4000_0001_e000_0100);

const ALIAS: u64 = 1 << 63;
const GROUP: u64 = 1 << 62;
const VARIANT: u64 = 1 << 61;
const RESERVED: u64 = 1 << 60;
const DISCRIMINATOR_BITS: u32 = 28;

impl Entity {
    /// A single entity of domain 1 whose data is big-endian. The discriminator is cut to 28 bits.
    pub fn new(discriminator: u32, host: Ipv4Addr) -> Self {
        let discriminator = u64::from(discriminator & ((1 << DISCRIMINATOR_BITS) - 1));
        Self(discriminator << 32 | u64::from(host.to_bits()))
    }

    /// A group that anyone may join.
    pub fn group(discriminator: u32, host: Ipv4Addr) -> Self {
        Self(Self::new(discriminator, host).0 | GROUP | VARIANT)
    }

    /// Whether it is the name of several entities.
    pub fn is_group(self) -> bool {
        self.0 & GROUP != 0
    }

    /// The 28 bits that distinguish it from others of the same host.
    pub fn discriminator(self) -> u32 {
        // Masked to 28 bits.
        (self.0 >> 32) as u32 & ((1 << DISCRIMINATOR_BITS) - 1)
    }

    /// The host that allocated it: only a hint where it is now.
    pub fn host(self) -> Ipv4Addr {
        // The low half.
        Ipv4Addr::from_bits(self.0 as u32)
    }

    /// The IP host group of a group: the low word where that is one already, else 232.x.x.x with the
    /// low 24 bits of the discriminator. `None` for a single entity.
    pub fn host_group(self) -> Option<Ipv4Addr> {
        let dynamic = Ipv4Addr::from_bits(0xe800_0000 | self.discriminator() & 0x00ff_ffff);
        let group = if self.host().is_multicast() { self.host() } else { dynamic };
        self.is_group().then_some(group)
    }
}

impl fmt::Display for Entity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match (self.is_group(), self.0 & VARIANT != 0) {
            (false, false) => "BE",
            (false, true) => "LE",
            (true, false) => "RG",
            (true, true) => "UG",
        };
        let reserved = if self.0 & RESERVED != 0 { "X" } else { "" };
        let alias = if self.0 & ALIAS != 0 { "A" } else { "" };
        write!(f, "{reserved}{kind}{alias}-{}-{}", self.discriminator(), self.host())
    }
}

/// A text that names no entity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` names no entity: expected a text like BE-25593-36.8.0.49")]
pub struct EntityError(String);

impl FromStr for Entity {
    type Err = EntityError;

    fn from_str(text: &str) -> Result<Self, EntityError> {
        parse(text).filter(|entity| entity.0 != 0).ok_or_else(|| EntityError(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<Entity> {
    let mut parts = text.splitn(3, '-');
    let (flags, discriminator, host) = (parts.next()?, parts.next()?, parts.next()?);
    let discriminator: u32 =
        discriminator.parse().ok().filter(|&it| it < 1 << DISCRIMINATOR_BITS)?;
    let (flags, reserved) = flags.strip_prefix('X').map_or((flags, 0), |rest| (rest, RESERVED));
    let (flags, alias) = flags.strip_suffix('A').map_or((flags, 0), |rest| (rest, ALIAS));
    let kind = match flags {
        "BE" => 0,
        "LE" => VARIANT,
        "RG" => GROUP,
        "UG" => GROUP | VARIANT,
        _ => return None,
    };
    Some(Entity(Entity::new(discriminator, host.parse().ok()?).0 | reserved | alias | kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_values() {
        for (text, value) in [
            ("BE-25593-36.8.0.49", 0x0000_63f9_2408_0031),
            ("RG-1-224.0.1.0", MANAGER_GROUP.0),
            ("BE-1-224.0.1.0", 0x0000_0001_e000_0100),
            ("LE-1-224.0.1.0", 0x2000_0001_e000_0100),
            ("UG-565338-36.8.0.77", 0x6008_a05a_2408_004d),
            ("LEA-7823-36.8.0.77", 0xa000_1e8f_2408_004d),
        ] {
            assert_eq!(text.parse(), Ok(Entity(value)));
            assert_eq!(Entity(value).to_string(), text);
        }
    }

    #[test]
    fn groups_have_host_groups() {
        let group = Entity(0x6008_a05a_2408_004d);
        assert_eq!(group.host_group(), Some(Ipv4Addr::new(232, 8, 160, 90)));
        assert_eq!(MANAGER_GROUP.host_group(), Some(Ipv4Addr::new(224, 0, 1, 0)));
        assert_eq!(Entity::new(1, Ipv4Addr::LOCALHOST).host_group(), None);
    }

    #[test]
    fn what_names_no_entity_says_so() {
        for text in [
            "",
            "BE",
            "BE-1",
            "BE-x-1.2.3.4",
            "ZZ-1-1.2.3.4",
            "BE-268435456-1.2.3.4",
            "BE-0-0.0.0.0",
        ] {
            assert!(text.parse::<Entity>().is_err(), "{text}");
        }
    }
}
