//! The rate of the link by which packets leave, as the kernel shows it.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// Flags of a route (linux/route.h).
const UP: u32 = 0x1;
const REJECT: u32 = 0x200;

/// Bits a second of the interface to `peer`, for [`crate::Config::at_rate`]: the speed that its driver gives
/// in `/sys/class/net`. `None` on loopback, without a route in the main table, and where the driver gives
/// none. A bridge or a tunnel on the way may be slower.
pub fn rate_to(peer: IpAddr) -> Option<u64> {
    if peer.is_loopback() || peer.is_unspecified() || is_own(peer) {
        return None;
    }
    let interface = match peer {
        IpAddr::V4(peer) => of_v4(&fs::read_to_string("/proc/net/route").ok()?, peer),
        IpAddr::V6(peer) => of_v6(&fs::read_to_string("/proc/net/ipv6_route").ok()?, peer),
    };
    rate_of(&interface?)
}

/// Bits a second of the interface that has the network of the own address `own`.
pub fn rate_at(own: IpAddr) -> Option<u64> {
    let interface = match own {
        IpAddr::V4(own) if !own.is_loopback() && !own.is_unspecified() => {
            of_v4(&fs::read_to_string("/proc/net/route").ok()?, own)
        }
        _ => None,
    };
    rate_of(&interface?)
}

fn is_own(peer: IpAddr) -> bool {
    let any: IpAddr = match peer {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let connected = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect(SocketAddr::new(peer, super::PORT))?;
        socket.local_addr()
    });
    connected.is_ok_and(|own| own.ip() == peer)
}

fn rate_of(interface: &str) -> Option<u64> {
    rate(&fs::read_to_string(format!("/sys/class/net/{interface}/speed")).ok()?)
}

/// The file's Mbit/s; -1 is unknown.
fn rate(speed: &str) -> Option<u64> {
    let mbit: u64 = speed.trim().parse().ok()?;
    (mbit > 0).then(|| mbit.saturating_mul(1_000_000))
}

/// The interface to `peer` by a table as `/proc/net/route`: the longest prefix, then the least metric.
fn of_v4(table: &str, peer: Ipv4Addr) -> Option<String> {
    let routes = table.lines().skip(1).filter_map(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let hex = |at: usize| u32::from_str_radix(fields.get(at)?, 16).ok();
        // Octets in the order of the network, printed as one number of the processor.
        let [network, mask] = [hex(1)?, hex(7)?].map(u32::from_be);
        let metric: u32 = fields.get(6)?.parse().ok()?;
        let is_for = u32::from(peer) & mask == network;
        let is_up = hex(3)? & (UP | REJECT) == UP;
        (is_for && is_up).then_some((mask.count_ones(), metric, fields[0]))
    });
    best(routes)
}

/// The same by a table as `/proc/net/ipv6_route`.
fn of_v6(table: &str, peer: Ipv6Addr) -> Option<String> {
    let routes = table.lines().filter_map(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let hex = |at: usize| u128::from_str_radix(fields.get(at)?, 16).ok();
        let (network, prefix, metric, flags) = (hex(0)?, hex(1)? as u32, hex(5)?, hex(8)? as u32);
        let mask = u128::MAX.checked_shl(128 - prefix.min(128)).unwrap_or(0);
        let is_for = peer.to_bits() & mask == network;
        let is_up = flags & (UP | REJECT) == UP;
        (is_for && is_up).then_some((prefix, metric as u32, *fields.get(9)?))
    });
    best(routes)
}

fn best<'t>(routes: impl Iterator<Item = (u32, u32, &'t str)>) -> Option<String> {
    let best = routes.max_by_key(|&(prefix, metric, _)| (prefix, u32::MAX - metric));
    best.map(|(.., interface)| interface.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const V4: &str = "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n\
        eth0 00000000 010200C0 0003 0 0 100 00000000 0 0 0\n\
        wlan0 00000000 010200C0 0003 0 0 50 00000000 0 0 0\n\
        eth0 000200C0 00000000 0001 0 0 0 00FFFFFF 0 0 0\n\
        veth1 800200C0 00000000 0001 0 0 0 80FFFFFF 0 0 0\n\
        * 0000000A 00000000 0201 0 0 0 000000FF 0 0 0\n";
    const V6: &str = "20010db8000000000000000000000000 20 0 0 0 00000100 1 0 00000001 eth1\n\
        20010db8000100000000000000000000 30 0 0 0 00000400 1 0 00000001 eth2\n\
        00000000000000000000000000000000 00 0 0 0 00000400 1 0 00000003 eth3\n\
        00000000000000000000000000000000 00 0 0 0 ffffffff 1 0 00200200 lo\n";

    #[test]
    fn the_longest_prefix_and_then_the_least_metric_choose_the_interface() {
        let found = ["192.0.2.7", "192.0.2.200", "198.51.100.1", "10.0.0.1"]
            .map(|peer| of_v4(V4, peer.parse().expect("an address")).expect("a route"));
        assert_eq!(found, ["eth0", "veth1", "wlan0", "wlan0"]);
        let found = ["2001:db8:5::1", "2001:db8:1::1", "2001:db9::1"]
            .map(|peer| of_v6(V6, peer.parse().expect("an address")).expect("a route"));
        assert_eq!(found, ["eth1", "eth2", "eth3"]);
        assert_eq!(of_v4(V4.lines().next().expect("titles"), Ipv4Addr::new(192, 0, 2, 7)), None);
    }

    #[test]
    fn a_driver_that_knows_no_speed_gives_none() {
        assert_eq!(
            ["1000\n", "-1\n", "0\n", ""].map(rate),
            [Some(1_000_000_000), None, None, None]
        );
        assert_eq!(rate_to(Ipv4Addr::LOCALHOST.into()), None);
        assert_eq!(rate_at(Ipv4Addr::UNSPECIFIED.into()), None);
    }
}
