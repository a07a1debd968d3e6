//! The bucket of a connection: the same on both its hosts.

use std::net::{IpAddr, SocketAddr};

use sockscope_record::{Connection, Protocol};

/// Number of buckets of a spool.
pub const BUCKETS: u16 = 256;

/// FNV-1a, 64 bits.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// The bucket of a connection, by its protocol and its two ends, whichever of them is the client.
///
/// The time of its opening is not part of it: the clocks of two hosts differ, and near the end of any interval the
/// halves of a connection would be in two buckets.
pub fn bucket(connection: &Connection) -> u16 {
    let mut ends = [end(connection.client), end(connection.server)];
    ends.sort_unstable();
    let protocol = match connection.protocol {
        Protocol::Tcp => 6,
        Protocol::Udp => 17,
        // No protocol of IP has this number (RFC 3692).
        _ => 253,
    };
    let octets = [protocol].into_iter().chain(ends.into_iter().flatten());
    let hash =
        octets.fold(FNV_OFFSET, |hash, octet| (hash ^ u64::from(octet)).wrapping_mul(FNV_PRIME));
    // The low bits of this hash depend on few bits of the last octets alone.
    ((hash ^ (hash >> 32) ^ (hash >> 16) ^ (hash >> 48)) % u64::from(BUCKETS)) as u16
}

/// The address as one of IPv6, then the port, both in the order of the network.
fn end(address: SocketAddr) -> [u8; 18] {
    let ip = match address.ip().to_canonical() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let (mut end, port) = ([0; 18], address.port().to_be_bytes());
    end[..16].copy_from_slice(&ip.octets());
    end[16..].copy_from_slice(&port);
    end
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use sockscope_record::ConnectionId;

    use super::*;

    fn of(client: &str, server: &str, protocol: Protocol) -> u16 {
        let ends = [client, server].map(|end| end.parse().unwrap());
        bucket(&Connection::new(ConnectionId(1), protocol, ends, 5))
    }

    #[test]
    fn both_hosts_choose_the_same_bucket() {
        let seen = of("10.0.0.1:40000", "10.0.0.2:80", Protocol::Tcp);
        assert_eq!(of("10.0.0.2:80", "10.0.0.1:40000", Protocol::Tcp), seen);
        assert_eq!(of("[::ffff:10.0.0.1]:40000", "10.0.0.2:80", Protocol::Tcp), seen);
        assert_ne!(of("10.0.0.1:40000", "10.0.0.2:80", Protocol::Udp), seen);
        // The value that docs/reference/spool.md has: writers of other programs must find it too.
        assert_eq!(seen, 191);
    }

    #[test]
    fn halves_through_ipv6_meet_and_other_ports_of_the_same_hosts_stay_apart() {
        let ends =
            |port: u16| ["[2001:db8::9]", "[2001:db8::a:1]"].map(|ip| format!("{ip}:{port}"));
        let mut buckets = BTreeSet::new();
        for port in 1..=200 {
            let [low, high] = ends(port);
            let server = "[2001:db8::a:1]:443";
            let seen = of(&low, server, Protocol::Tcp);
            // The other host may take the server for the client.
            assert_eq!(of(server, &low, Protocol::Tcp), seen);
            // Another way to write the address.
            let written = format!("[2001:0db8:0:0:0:0:0:9]:{port}");
            assert_eq!(of(&written, server, Protocol::Tcp), seen);
            // Connections between the same two addresses, and between the same ports the other way.
            buckets.extend([seen, of(&high, "[2001:db8::9]:443", Protocol::Tcp)]);
        }
        assert!(buckets.len() > 150, "{}", buckets.len());
        // The zone of a link-local address is a number of one host.
        let zone = |number: u32| format!("[fe80::1%{number}]:40000");
        let server = "[fe80::2%2]:80";
        assert_eq!(
            of(&zone(3), server, Protocol::Tcp),
            of("[fe80::1]:40000", "[fe80::2]:80", Protocol::Tcp)
        );
    }

    #[test]
    fn connections_spread_over_all_buckets() {
        let mut counts = vec![0; usize::from(BUCKETS)];
        for port in 20_000..30_000 {
            let client = format!("10.0.0.1:{port}");
            counts[usize::from(of(&client, "10.0.0.2:80", Protocol::Tcp))] += 1;
        }
        // 39 in the mean.
        assert!(counts.iter().all(|count| (10..100).contains(count)), "{counts:?}");
    }
}
