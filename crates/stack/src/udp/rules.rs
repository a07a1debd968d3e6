//! The differences between versions of UDP.

/// Rules of UDP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdpRules {
    /// The control block keeps its route from one datagram to the next.
    pub caches_route: bool,
    /// Where the headers go.
    pub header: UdpHeader,
    /// Datagrams leave with a checksum.
    pub sums_output: bool,
    /// The checksum of a received datagram is verified, if it has one.
    pub checks_input: bool,
    /// A connected socket hears of an ICMP port unreachable.
    pub reports_unreachable: bool,
}

/// Where the headers of a datagram go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UdpHeader {
    /// 4.2BSD: a new mbuf, from the function `m_get`.
    Function,
    /// 4.3BSD: a new mbuf, from the macro.
    Macro,
    /// 4.3BSD-Reno: before the data in their mbuf if it has room.
    InPlace,
}
