//! The control blocks of both protocols, and the choice of a local address for one.

use sockscope_record::Protocol;

use crate::socket::SocketId;

/// The choice of the local address for a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LocalAddress {
    /// 4.2BSD: that of the interface on the peer's network (`if_ifonnetof`).
    NetworkOf,
    /// 4.3BSD: as before, with a search for a line to the peer first, even with a cached route.
    Scan,
    /// Since 4.3BSD-Tahoe: that of the interface which the route leads to.
    OfRoute,
}

/// The control blocks of both protocols, each list newest last.
#[derive(Debug, Default)]
pub(crate) struct Pcbs {
    tcp: PcbList,
    udp: PcbList,
}

#[derive(Debug, Default)]
pub(crate) struct PcbList {
    pub(crate) sockets: Vec<SocketId>,
    pub(super) last_port: u16,
}

impl Pcbs {
    pub(crate) fn of(&self, protocol: Protocol) -> &PcbList {
        match protocol {
            Protocol::Udp => &self.udp,
            _ => &self.tcp,
        }
    }

    pub(super) fn of_mut(&mut self, protocol: Protocol) -> &mut PcbList {
        match protocol {
            Protocol::Udp => &mut self.udp,
            _ => &mut self.tcp,
        }
    }
}
