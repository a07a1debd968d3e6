//! `tcp_usrreq`: what the socket layer asks of TCP.

use super::State;
use super::timer::Timer;
use crate::mbuf::Chain;
use crate::meter::Meter;
use crate::request::Request;
use crate::routine::{Routine, Work};
use crate::socket::{ANY, Endpoint, SocketError, SocketId};
use crate::stack::Stack;

impl Stack {
    /// `tcp_usrreq`. `Invalid` for a socket whose connection is gone.
    pub(crate) fn tcp_usrreq(
        &mut self,
        id: SocketId,
        request: Request,
        meter: &mut Meter,
    ) -> Result<(), SocketError> {
        if let Request::Send(data, _) = &request
            && self.is_alive(id)
        {
            // The protocol's own time begins here, behind point 1.
            self.observe_write_enqueue(id, data.len(), meter);
        }
        meter.call(Routine::TcpUsrreq, Work::NONE);
        if !self.is_alive(id) && !matches!(request, Request::Attach) {
            if let Request::Send(data, _) = request {
                self.pool.m_freem(data, meter);
            }
            return Err(SocketError::Invalid);
        }
        match request {
            Request::Attach => self.attach(id),
            Request::Listen => self.start_listening(id, meter),
            Request::Connect(foreign) => self.start_connecting(id, foreign, meter),
            Request::Accept => Ok(()),
            Request::Disconnect => self.tcp_disconnect(id, meter),
            Request::Shutdown => self.stop_sending(id, meter),
            Request::Received => self.output_for_user(id, meter),
            Request::Send(data, _) => self.send(id, data, meter),
            Request::Detach => self.detach(id, meter),
            Request::Abort => {
                self.tcp_drop(id, SocketError::ConnectionAborted, meter);
                Ok(())
            }
        }
    }

    #[cold]
    fn attach(&mut self, id: SocketId) -> Result<(), SocketError> {
        if self.is_alive(id) {
            return Err(SocketError::IsConnected);
        }
        self.soreserve(id);
        self.tcp_attach(id);
        Ok(())
    }

    #[cold]
    fn start_listening(&mut self, id: SocketId, meter: &mut Meter) -> Result<(), SocketError> {
        if !matches!(self.tcb(id).state, State::Closed | State::Listen) {
            return Err(SocketError::Invalid);
        }
        if self.sockets[id].local.1 == 0 {
            self.in_pcbbind(id, ANY, meter)?;
        }
        self.tcp_set_state(id, State::Listen, meter);
        Ok(())
    }

    #[cold]
    fn start_connecting(
        &mut self,
        id: SocketId,
        foreign: Endpoint,
        meter: &mut Meter,
    ) -> Result<(), SocketError> {
        if self.tcb(id).state != State::Closed {
            return Err(SocketError::Invalid);
        }
        self.in_pcbconnect(id, foreign, meter)?;
        self.soisconnecting(id);
        let iss = self.tcp.next_iss();
        let handshake_ticks = self.personality.tcp.keep_alive.handshake_ticks;
        let tcb = self.tcb_mut(id);
        tcb.start_sending(iss);
        tcb.timers.start(Timer::Keep, handshake_ticks);
        self.tcp_set_state(id, State::SynSent, meter);
        self.output_for_user(id, meter)
    }

    #[cold]
    fn stop_sending(&mut self, id: SocketId, meter: &mut Meter) -> Result<(), SocketError> {
        self.socantsendmore(id, meter);
        if self.tcp_usrclosed(id, meter) { self.output_for_user(id, meter) } else { Ok(()) }
    }

    fn send(&mut self, id: SocketId, data: Chain, meter: &mut Meter) -> Result<(), SocketError> {
        let rules = &self.personality.socket.buffers;
        self.sockets[id].snd.append(data, rules, &mut self.pool, meter);
        self.output_for_user(id, meter)
    }

    #[cold]
    fn detach(&mut self, id: SocketId, meter: &mut Meter) -> Result<(), SocketError> {
        if self.tcb(id).state > State::Listen {
            return self.tcp_disconnect(id, meter);
        }
        self.tcp_close(id, meter);
        Ok(())
    }
}
