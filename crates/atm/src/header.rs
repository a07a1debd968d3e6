//! The cell header (I.361 §2), read and written as the word that its first four octets make.
//!
//! ```text
//!        31    28 27        20 19                              4 3    1  0
//! UNI   |  GFC   |    VPI     |              VCI               |  PT  |CLP|
//! NNI   |        VPI          |              VCI               |  PT  |CLP|
//! ```

use crate::Error;

/// The two parties between which a cell travels, which decide the reading of its first twelve bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Interface {
    /// User and network: flow control and a VPI of 8 bits.
    #[default]
    Uni,
    /// Two network nodes: a VPI of 12 bits.
    Nni,
}

/// A virtual channel: both identifiers together, on one link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Channel {
    /// Virtual path identifier: 8 bits at a UNI, 12 at an NNI.
    pub vpi: u16,
    /// Virtual channel identifier; below 32 on path 0 it is reserved (I.361 §2.2.3).
    pub vci: u16,
}

impl Channel {
    /// Channel `vci` of path 0.
    pub const fn of_path_0(vci: u16) -> Self {
        Self { vpi: 0, vci }
    }
}

/// The three PT bits (I.361 §2.2.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PayloadType(u8);

impl PayloadType {
    /// User data, no congestion met, more cells of the message follow.
    pub const USER: Self = Self(0);
    /// User data with the ATM-user-to-ATM-user bit set: for AAL5 the last cell of a message.
    pub const USER_LAST: Self = Self(0b001);
    /// Segment OAM of a virtual channel (F5).
    pub const OAM_SEGMENT: Self = Self(0b100);
    /// End-to-end OAM of a virtual channel (F5).
    pub const OAM_END_TO_END: Self = Self(0b101);
    /// Resource management.
    pub const RESOURCE_MANAGEMENT: Self = Self(0b110);

    /// From the low three bits of `bits`.
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & 0b111)
    }

    /// In the low three bits.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Whether the cell carries user data, so that the two below mean anything.
    pub const fn is_user_data(self) -> bool {
        self.0 & 0b100 == 0
    }

    /// Whether a user data cell passed a congested place.
    pub const fn is_congested(self) -> bool {
        self.is_user_data() && self.0 & 0b010 != 0
    }

    /// Whether a user data cell is marked as the last of its message (AAL5).
    pub const fn is_last(self) -> bool {
        self.is_user_data() && self.0 & 0b001 != 0
    }
}

/// The header of a cell but for its HEC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Header {
    /// Generic flow control, 4 bits; 0 at an NNI, which has none.
    pub flow_control: u8,
    /// The virtual channel.
    pub channel: Channel,
    /// The type of the payload.
    pub payload_type: PayloadType,
    /// CLP: the network drops this cell before others.
    pub is_low_priority: bool,
}

impl Header {
    /// A cell of user data on `channel`, all else 0.
    pub fn of_channel(channel: Channel) -> Self {
        Self { channel, ..Self::default() }
    }

    /// As the word that octets 1 to 4 make, octet 1 first.
    ///
    /// Fails when the VPI does not fit the interface, or flow control does not.
    pub fn encode(&self, interface: Interface) -> Result<u32, Error> {
        let (vpi_max, flow_control_max) = match interface {
            Interface::Uni => (0xff, 0xf),
            Interface::Nni => (0xfff, 0),
        };
        let vpi = within("VPI", self.channel.vpi.into(), vpi_max)?;
        let flow_control = within("GFC", self.flow_control.into(), flow_control_max)?;
        Ok(flow_control << 28
            | vpi << 20
            | u32::from(self.channel.vci) << 4
            | u32::from(self.payload_type.bits()) << 1
            | u32::from(self.is_low_priority))
    }

    /// Reads the word that octets 1 to 4 make. Every word is some header.
    pub fn decode(word: u32, interface: Interface) -> Self {
        let (flow_control, vpi) = match interface {
            Interface::Uni => ((word >> 28) as u8, (word >> 20 & 0xff) as u16),
            Interface::Nni => (0, (word >> 20) as u16),
        };
        Self {
            flow_control,
            channel: Channel { vpi, vci: (word >> 4) as u16 },
            payload_type: PayloadType::from_bits((word >> 1) as u8),
            is_low_priority: word & 1 == 1,
        }
    }
}

fn within(field: &'static str, value: u32, max: u32) -> Result<u32, Error> {
    if value <= max { Ok(value) } else { Err(Error::Field { field, value, max }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fields_stand_where_the_recommendation_puts_them() {
        let header = Header {
            flow_control: 0xa,
            channel: Channel { vpi: 0xbc, vci: 0xdef0 },
            payload_type: PayloadType::USER_LAST,
            is_low_priority: true,
        };
        assert_eq!(header.encode(Interface::Uni), Ok(0xabcd_ef03));
        let header = Header {
            channel: Channel { vpi: 0xabc, vci: 0xdef0 },
            payload_type: PayloadType::OAM_SEGMENT,
            ..Header::default()
        };
        assert_eq!(header.encode(Interface::Nni), Ok(0xabcd_ef08));
    }

    #[test]
    fn what_an_interface_has_no_bits_for_is_refused() {
        let wide = Header::of_channel(Channel { vpi: 256, vci: 0 });
        let refused = Error::Field { field: "VPI", value: 256, max: 255 };
        assert_eq!(wide.encode(Interface::Uni), Err(refused));
        assert!(wide.encode(Interface::Nni).is_ok());
        let controlled = Header { flow_control: 1, ..Header::default() };
        let refused = controlled.encode(Interface::Nni).expect_err("an NNI has no GFC");
        assert_eq!(refused.to_string(), "GFC is 1, at most 0 fits this interface");
    }

    #[test]
    fn the_last_bit_means_nothing_in_an_oam_cell() {
        assert!(PayloadType::USER_LAST.is_last());
        assert!(PayloadType::from_bits(0b011).is_congested());
        assert!(!PayloadType::OAM_END_TO_END.is_last());
        assert!(!PayloadType::RESOURCE_MANAGEMENT.is_congested());
    }

    proptest! {
        #[test]
        fn every_word_is_read_and_written_back(word in any::<u32>()) {
            for interface in [Interface::Uni, Interface::Nni] {
                let header = Header::decode(word, interface);
                prop_assert_eq!(header.encode(interface), Ok(word));
            }
        }
    }
}
