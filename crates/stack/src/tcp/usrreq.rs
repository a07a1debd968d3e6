//! `tcp_usrreq`: requests of the socket layer to TCP.

use super::block_mut;
use super::tcb::State;
use super::timers::Timer;
use crate::mbuf::Chain;
use crate::meter::Meter;
use crate::request::Request;
use crate::routine::{Routine, Work};
use crate::socket::{ANY, Endpoint, SocketError, SocketId};
use crate::stack::Stack;

/// Urgent data may exceed the send buffer's limit by so much, in bytes.
const URGENT_SPACE_MIN: i64 = -512;

impl Stack {
    /// `tcp_usrreq`. `Invalid` for a socket whose connection is gone.
    pub(crate) fn tcp_usrreq(
        &mut self,
        id: SocketId,
        request: Request,
        meter: &mut Meter,
    ) -> Result<(), SocketError> {
        meter.call(Routine::TcpUsrreq, Work::NONE);
        if !self.is_alive(id) && !matches!(request, Request::Attach) {
            return Err(SocketError::Invalid);
        }
        match request {
            Request::Attach => self.attach(id),
            Request::Listen => self.start_listening(id, meter),
            Request::Connect(foreign) => self.start_connecting(id, foreign, meter),
            Request::Accept => Ok(()),
            Request::Disconnect => self.tcp_disconnect(id, meter),
            Request::Shutdown => self.stop_sending(id, meter),
            Request::Detach => self.detach(id, meter),
            Request::Abort => {
                self.tcp_drop(id, SocketError::ConnectionAborted, meter);
                Ok(())
            }
        }
    }

    /// As [`Stack::tcp_usrreq`], of `PRU_SEND`, or of `PRU_SENDOOB` for urgent data.
    pub(crate) fn tcp_pru_send(
        &mut self,
        id: SocketId,
        data: Chain,
        is_urgent: bool,
        meter: &mut Meter,
    ) -> Result<(), SocketError> {
        let Self { sockets, pool, personality, .. } = self;
        let socket = &mut sockets[id];
        if socket.tcb.is_none() {
            meter.call(Routine::TcpUsrreq, Work::NONE);
            pool.m_freem(data, meter);
            return Err(SocketError::Invalid);
        }
        if is_urgent && socket.snd.space() < URGENT_SPACE_MIN {
            meter.call(Routine::TcpUsrreq, Work::NONE);
            pool.m_freem(data, meter);
            return Err(SocketError::NoBuffers);
        }
        // The protocol's own time begins behind point 1.
        socket.observe_write_enqueue(data.len(), &personality.tcp, meter);
        meter.call(Routine::TcpUsrreq, Work::NONE);
        socket.snd.append(data, &personality.socket.buffers, pool, meter);
        if !is_urgent {
            return self.output_for_user(id, meter);
        }
        let queued = socket.snd.cc();
        let tcb = block_mut(socket);
        tcb.all_is_urgent(queued);
        // It leaves now, whatever holds back other data.
        tcb.is_forced = true;
        let result = self.output_for_user(id, meter);
        if let Some(tcb) = self.sockets.find_mut(id).and_then(|socket| socket.tcb.as_mut()) {
            tcb.is_forced = false;
        }
        result
    }

    /// As [`Stack::tcp_usrreq`], of `PRU_RCVD`.
    pub(crate) fn tcp_pru_rcvd(
        &mut self,
        id: SocketId,
        meter: &mut Meter,
    ) -> Result<(), SocketError> {
        meter.call(Routine::TcpUsrreq, Work::NONE);
        if !self.is_alive(id) {
            return Err(SocketError::Invalid);
        }
        self.output_for_user(id, meter)
    }

    fn attach(&mut self, id: SocketId) -> Result<(), SocketError> {
        if self.is_alive(id) {
            return Err(SocketError::IsConnected);
        }
        self.soreserve(id);
        self.tcp_attach(id);
        Ok(())
    }

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

    fn stop_sending(&mut self, id: SocketId, meter: &mut Meter) -> Result<(), SocketError> {
        self.socantsendmore(id, meter);
        if self.tcp_usrclosed(id, meter) { self.output_for_user(id, meter) } else { Ok(()) }
    }

    fn detach(&mut self, id: SocketId, meter: &mut Meter) -> Result<(), SocketError> {
        if self.tcb(id).state > State::Listen {
            return self.tcp_disconnect(id, meter);
        }
        self.tcp_close(id, meter);
        Ok(())
    }
}
