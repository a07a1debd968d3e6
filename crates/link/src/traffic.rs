//! Traffic sent by a host, by the counters of its namespace.

use std::ops::{Add, Sub};

/// Packets that a host sent since its namespace was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HostTraffic {
    /// TCP segments with data, without those that were sent again.
    pub data_segments: u64,
    /// TCP segments without data, but SYN, FIN and RST; a FIN with data makes it one too small.
    pub pure_acks: u64,
    /// TCP segments sent again.
    pub retransmitted: u64,
    /// UDP datagrams.
    pub datagrams: u64,
    /// Octets of IP packets.
    pub octets: u64,
}

impl HostTraffic {
    /// Of the namespace that this thread is in.
    pub fn now() -> Self {
        let read = |name: &str| std::fs::read_to_string(format!("/proc/thread-self/net/{name}"));
        Self::parse(&read("snmp").unwrap_or_default(), &read("netstat").unwrap_or_default())
    }

    /// Lines in pairs, names and values; MIB names of RFC 4022 and of Linux.
    fn parse(snmp: &str, netstat: &str) -> Self {
        let tcp = |name| value(snmp, "Tcp:", name);
        let data_segments = value(netstat, "TcpExt:", "TCPOrigDataSent");
        // Of each connection its end has sent one segment with SYN and one with FIN.
        let of_control = 2 * (tcp("ActiveOpens") + tcp("PassiveOpens")) + tcp("OutRsts");
        let pure_acks = tcp("OutSegs").saturating_sub(data_segments + of_control);
        Self {
            data_segments,
            pure_acks,
            retransmitted: tcp("RetransSegs"),
            datagrams: value(snmp, "Udp:", "OutDatagrams"),
            octets: value(netstat, "IpExt:", "OutOctets"),
        }
    }
}

fn value(text: &str, group: &str, name: &str) -> u64 {
    let mut lines = text.lines().filter(|line| line.starts_with(group));
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else { return 0 };
    let mut pairs = names.split_whitespace().zip(values.split_whitespace());
    pairs.find(|(one, _)| *one == name).and_then(|(_, value)| value.parse().ok()).unwrap_or(0)
}

impl Add for HostTraffic {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            data_segments: self.data_segments + other.data_segments,
            pure_acks: self.pure_acks + other.pure_acks,
            retransmitted: self.retransmitted + other.retransmitted,
            datagrams: self.datagrams + other.datagrams,
            octets: self.octets + other.octets,
        }
    }
}

impl Sub for HostTraffic {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            data_segments: self.data_segments.saturating_sub(before.data_segments),
            pure_acks: self.pure_acks.saturating_sub(before.pure_acks),
            retransmitted: self.retransmitted.saturating_sub(before.retransmitted),
            datagrams: self.datagrams.saturating_sub(before.datagrams),
            octets: self.octets.saturating_sub(before.octets),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acknowledgments_are_what_is_neither_data_nor_control() {
        let snmp = "Tcp: ActiveOpens PassiveOpens OutSegs RetransSegs OutRsts\nTcp: 1 0 14 2 1\n\
                    Udp: InDatagrams OutDatagrams\nUdp: 5 6\n";
        let found = HostTraffic::parse(
            snmp,
            "TcpExt: A TCPOrigDataSent\nTcpExt: 3 7\nIpExt: OutOctets\nIpExt: 900\n",
        );
        let expected = HostTraffic {
            data_segments: 7,
            pure_acks: 4,
            retransmitted: 2,
            datagrams: 6,
            octets: 900,
        };
        assert_eq!(found, expected);
        assert_eq!(HostTraffic::parse("", ""), HostTraffic::default());
        assert_eq!((found + found) - found, found);
    }
}
