//! TCP: not here yet; the socket layer below already speaks to it.

use crate::ip::InputHeader;
use crate::meter::Meter;
use crate::packet::Packet;
use crate::request::Request;
use crate::socket::{SocketError, SocketId};
use crate::stack::{Stack, StackConfig};

/// Rules of TCP.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TcpRules {}

impl TcpRules {
    /// 4.2BSD as released.
    pub const RELEASED_42: Self = Self {};
    /// 4.2BSD as measured in 1984.
    pub const MEASURED_42: Self = Self {};
    /// 4.3BSD.
    pub const BSD_43: Self = Self {};
    /// 4.3BSD-Tahoe.
    pub const TAHOE: Self = Self {};
    /// 4.3BSD-Reno.
    pub const RENO: Self = Self {};
    /// SunOS 4.0.3.
    pub const SUNOS_403: Self = Self {};
    /// SunOS 4.1.
    pub const SUNOS_41: Self = Self {};
}

/// TCP's half of a protocol control block.
#[derive(Debug)]
pub struct Tcb {}

/// What TCP keeps for the whole host.
#[derive(Debug)]
pub struct TcpState {}

impl TcpState {
    pub(crate) fn new(_rules: &TcpRules, _config: &StackConfig) -> Self {
        Self {}
    }
}

impl Stack {
    pub(crate) fn tcp_usrreq(
        &mut self,
        _socket: SocketId,
        _request: Request,
        _meter: &mut Meter,
    ) -> Result<(), SocketError> {
        Err(SocketError::NotSupported)
    }

    pub(crate) fn tcp_input(&mut self, packet: Packet, _ip: InputHeader, meter: &mut Meter) {
        self.pool.m_freem(packet.chain, meter);
    }
}

impl Stack {
    pub(crate) fn tcp_fasttimo(&mut self, _meter: &mut Meter) {}

    pub(crate) fn tcp_slowtimo(&mut self, _meter: &mut Meter) {}
}
