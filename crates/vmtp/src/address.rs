//! Addresses of the network below, by which an engine distinguishes hosts.

use std::net::{IpAddr, SocketAddr};

/// An address that packets are received from and sent to.
pub trait Address: Copy + PartialEq {
    /// The host: all its ports are one.
    fn host(&self) -> Host;
}

/// One host of the network below.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Host(pub u128);

impl Host {
    /// The smallest network of one party: an IPv4 address, or the /64 of an IPv6 address, because a host
    /// may use all its addresses (RFC 4291 §2.5.1).
    pub(crate) fn party(self) -> Self {
        const V4_MAPPED: u128 = 0xffff;
        if self.0 >> 32 == V4_MAPPED { self } else { Self(self.0 >> 64 << 64) }
    }
}

impl Address for SocketAddr {
    fn host(&self) -> Host {
        Host(match self.ip() {
            IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
            IpAddr::V6(address) => address.to_bits(),
        })
    }
}

/// Numbers of hosts in a model, above the bits that a party's addresses share.
macro_rules! number {
    ($($number:ty)*) => {$(
        impl Address for $number {
            fn host(&self) -> Host {
                Host(u128::from(*self) << 64)
            }
        }
    )*};
}

number!(u8 u16 u32 u64);

impl Address for usize {
    fn host(&self) -> Host {
        // At most 64 bits.
        (*self as u64).host()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn party(address: &str) -> Host {
        address.parse::<SocketAddr>().expect("an address").host().party()
    }

    #[test]
    fn ports_and_addresses_of_one_ipv6_network_are_one_party() {
        assert_eq!(party("10.0.0.1:1"), party("10.0.0.1:2"));
        assert_ne!(party("10.0.0.1:1"), party("10.0.0.2:1"));
        assert_eq!(party("[2001:db8::1]:1"), party("[2001:db8::2]:1"));
        assert_ne!(party("[2001:db8::1]:1"), party("[2001:db8:0:1::1]:1"));
        assert_ne!(1u16.host().party(), 2u16.host().party());
    }
}
