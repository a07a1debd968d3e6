//! Routes and classful addresses.
//!
//! Networks are those of the address classes; there are no subnets. A route leads to an interface,
//! and to a gateway if the network is not attached to it.

use std::net::Ipv4Addr;

use crate::cost::CostMeter;
use crate::routine::{Routine, Work};

/// Hash buckets of the table of network routes (`RTHASHSIZ`).
const BUCKETS: u32 = 8;

/// Route to one network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// Any address of the network; the unspecified address is the default route.
    pub network: Ipv4Addr,
    /// Index of the interface.
    pub interface: u8,
    /// Next host, if the network is not attached to the interface.
    pub gateway: Option<Ipv4Addr>,
}

/// The route that a protocol control block used last (`struct route`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RouteCache {
    cached: Option<(Ipv4Addr, Route)>,
}

impl RouteCache {
    /// The cached route, if it leads to `destination`.
    pub fn to(&self, destination: Ipv4Addr) -> Option<Route> {
        self.cached.filter(|(host, _)| *host == destination).map(|(_, route)| route)
    }

    /// Whether any route is cached.
    pub fn is_empty(&self) -> bool {
        self.cached.is_none()
    }

    /// Forgets the route (`rtfree`).
    pub fn clear(&mut self) {
        self.cached = None;
    }

    pub(crate) fn set(&mut self, destination: Ipv4Addr, route: Route) {
        self.cached = Some((destination, route));
    }
}

/// All routes of a host.
#[derive(Debug, Default)]
pub struct Routes {
    routes: Vec<Route>,
}

impl Routes {
    /// These routes; of two to one network the first counts.
    pub fn new(routes: Vec<Route>) -> Self {
        Self { routes }
    }

    /// `rtalloc`: looks the route up; each comparison takes two `in_netof`, the hash one.
    pub fn look_up(&self, destination: Ipv4Addr, meter: &mut CostMeter) -> Option<Route> {
        let network = network_of(destination);
        let bucket = network.map(|network| network % BUCKETS);
        let mut compared = 0;
        let found = self.routes.iter().find(|route| {
            let candidate = network_of(route.network);
            let in_bucket = !route.network.is_unspecified()
                && candidate.map(|network| network % BUCKETS) == bucket;
            compared += u32::from(in_bucket);
            in_bucket && candidate == network
        });
        meter.call(Routine::Rtalloc, Work::walked(compared));
        meter.calls_of(Routine::InNetof, 1 + 2 * compared);
        found.or_else(|| self.routes.iter().find(|route| route.network.is_unspecified())).copied()
    }
}

/// The network number of an address by its class (`in_netof`, RFC 791 §2.3); `None` for multicast
/// and reserved addresses.
pub fn network_of(address: Ipv4Addr) -> Option<u32> {
    let bits = u32::from(address);
    host_bits(address).map(|host_bits| bits >> host_bits)
}

/// The host number of an address by its class (`in_lnaof`).
pub fn host_of(address: Ipv4Addr) -> Option<u32> {
    let bits = u32::from(address);
    host_bits(address).map(|host_bits| bits & ((1 << host_bits) - 1))
}

/// Whether the host number means "every host of this network": all ones, or all zeros as 4.2BSD had
/// it.
pub fn is_broadcast(address: Ipv4Addr) -> bool {
    let Some(bits) = host_bits(address) else { return address.is_broadcast() };
    let host = u32::from(address) & ((1 << bits) - 1);
    host == 0 || host == (1 << bits) - 1
}

fn host_bits(address: Ipv4Addr) -> Option<u32> {
    match address.octets()[0] {
        0..=127 => Some(24),
        128..=191 => Some(16),
        192..=223 => Some(8),
        224..=255 => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEAR: Route =
        Route { network: Ipv4Addr::new(128, 32, 0, 0), interface: 0, gateway: None };
    const DEFAULT: Route = Route {
        network: Ipv4Addr::UNSPECIFIED,
        interface: 1,
        gateway: Some(Ipv4Addr::new(10, 0, 0, 1)),
    };

    #[test]
    fn addresses_split_by_class() {
        let parts = |a, b, c, d| {
            let address = Ipv4Addr::new(a, b, c, d);
            (network_of(address), host_of(address), is_broadcast(address))
        };
        assert_eq!(parts(10, 1, 2, 3), (Some(10), Some(0x01_02_03), false));
        assert_eq!(parts(128, 32, 0, 5), (Some(0x80_20), Some(5), false));
        assert_eq!(parts(192, 0, 2, 255), (Some(0xc0_00_02), Some(255), true));
        assert_eq!(parts(128, 32, 0, 0), (Some(0x80_20), Some(0), true));
        assert_eq!(parts(224, 0, 0, 1), (None, None, false));
        assert_eq!(parts(255, 255, 255, 255), (None, None, true));
    }

    #[test]
    fn looking_up_an_attached_network_takes_three_in_netof() {
        let mut meter = CostMeter::default();
        let routes = Routes::new(vec![DEFAULT, NEAR]);
        assert_eq!(routes.look_up(Ipv4Addr::new(128, 32, 0, 9), &mut meter), Some(NEAR));
        assert_eq!((meter.calls(Routine::Rtalloc), meter.calls(Routine::InNetof)), (1, 3));
        assert_eq!(routes.look_up(Ipv4Addr::new(192, 0, 2, 1), &mut meter), Some(DEFAULT));
        assert_eq!(Routes::default().look_up(Ipv4Addr::new(10, 0, 0, 1), &mut meter), None);
    }

    #[test]
    fn a_cached_route_serves_its_destination_alone() {
        let mut cache = RouteCache::default();
        let destination = Ipv4Addr::new(128, 32, 0, 9);
        cache.set(destination, NEAR);
        assert_eq!(cache.to(destination), Some(NEAR));
        assert_eq!(cache.to(Ipv4Addr::new(128, 32, 0, 8)), None);
        cache.clear();
        assert!(cache.is_empty());
    }
}
