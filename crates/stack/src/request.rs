//! The requests of the socket layer to a protocol (`PRU_*`).

use crate::mbuf::Chain;
use crate::meter::Meter;
use crate::socket::{Endpoint, SocketError, SocketId};
use crate::stack::Stack;
use sockscope_record::Protocol;

/// One user request, except those with the data: [`Stack::pru_send`] and [`Stack::pru_rcvd`].
#[derive(Debug, Clone, Copy)]
pub enum Request {
    /// `PRU_ATTACH`: a new socket.
    Attach,
    /// `PRU_DETACH`: the process has closed the socket.
    Detach,
    /// `PRU_LISTEN`
    Listen,
    /// `PRU_CONNECT`
    Connect(Endpoint),
    /// `PRU_ACCEPT`
    Accept,
    /// `PRU_DISCONNECT`
    Disconnect,
    /// `PRU_SHUTDOWN`: nothing more will be sent.
    Shutdown,
    /// `PRU_ABORT`: give the connection up.
    Abort,
}

impl Stack {
    /// Passes a request to the socket's protocol.
    pub(crate) fn usrreq(
        &mut self,
        socket: SocketId,
        request: Request,
        meter: &mut Meter,
    ) -> Result<(), SocketError> {
        match self.sockets[socket].protocol {
            Protocol::Udp => self.udp_usrreq(socket, request, meter),
            _ => self.tcp_usrreq(socket, request, meter),
        }
    }

    /// `PRU_SEND`: data to send, with a destination if the call names one. TCP takes urgent data (`PRU_SENDOOB`).
    pub(crate) fn pru_send(
        &mut self,
        socket: SocketId,
        data: Chain,
        to: Option<Endpoint>,
        is_urgent: bool,
        meter: &mut Meter,
    ) -> Result<(), SocketError> {
        match self.sockets[socket].protocol {
            Protocol::Udp => self.udp_pru_send(socket, data, to, meter),
            _ => self.tcp_pru_send(socket, data, is_urgent, meter),
        }
    }

    /// `PRU_RCVD`: the process took data from the receive buffer.
    pub(crate) fn pru_rcvd(
        &mut self,
        socket: SocketId,
        meter: &mut Meter,
    ) -> Result<(), SocketError> {
        match self.sockets[socket].protocol {
            Protocol::Udp => self.udp_pru_rcvd(meter),
            _ => self.tcp_pru_rcvd(socket, meter),
        }
    }
}
