//! The end of a connection: closing, dropping, and the way through the closing states.

use sockscope_record::Protocol;

use super::output::Caller;
use super::tcb::{State, Tcb};
use super::timers::Timer;
use crate::meter::Meter;
use crate::socket::{SocketError, SocketId};
use crate::stack::Stack;

impl Stack {
    /// A control block for a socket that has none.
    pub(super) fn tcp_attach(&mut self, id: SocketId) {
        self.in_pcballoc(id);
        let socket = &mut self.sockets[id];
        socket.tcb = Some(Tcb::new(&self.personality.tcp, socket.snd.hiwat()));
    }

    /// `tcp_close`: frees the block at once, without a segment to the peer.
    pub(super) fn tcp_close(&mut self, id: SocketId, meter: &mut Meter) {
        self.tcp_set_state(id, State::Closed, meter);
        if let Some(mut tcb) = self.sockets[id].tcb.take() {
            tcb.reassembly.clear(&mut self.pool, meter);
        }
        if self.tcp.last == Some(id) {
            self.tcp.last = None;
        }
        self.soisdisconnected(id, meter);
        self.in_pcbdetach(id, meter);
    }

    /// `tcp_drop`: the connection fails with `error`; the peer is notified if it knows of it.
    pub(super) fn tcp_drop(&mut self, id: SocketId, error: SocketError, meter: &mut Meter) {
        if self.tcb(id).state.has_syn() {
            self.tcp_set_state(id, State::Closed, meter);
            // The connection is gone whether or not the RST gets out.
            let _ = self.tcp_output(id, Caller::Usrreq, meter);
        }
        self.tcp_fail(id, error, meter);
    }

    /// As [`Stack::tcp_drop`] when the peer knows already.
    pub(super) fn tcp_fail(&mut self, id: SocketId, error: SocketError, meter: &mut Meter) {
        self.sockets[id].error = Some(error);
        self.tcp_close(id, meter);
    }

    /// `tcp_usrclosed`: the process has nothing more to send. `false` when the block is gone.
    pub(super) fn tcp_usrclosed(&mut self, id: SocketId, meter: &mut Meter) -> bool {
        match self.tcb(id).state {
            State::Closed | State::Listen | State::SynSent => {
                self.tcp_close(id, meter);
                return false;
            }
            State::SynReceived | State::Established => {
                self.tcp_set_state(id, State::FinWait1, meter);
            }
            State::CloseWait => self.tcp_set_state(id, State::LastAck, meter),
            _ => {}
        }
        if self.tcb(id).state >= State::FinWait2 {
            self.soisdisconnected(id, meter);
        }
        // The sources would keep for ever a block whose peer sends no FIN.
        if self.tcb(id).state == State::FinWait2 && !self.tcb(id).timers.runs(Timer::Linger) {
            let ticks = self.personality.tcp.keep_alive.fin_wait_ticks;
            self.tcb_mut(id).timers.start(Timer::Linger, ticks);
        }
        true
    }

    /// `tcp_disconnect`: the process gives up the connection.
    pub(super) fn tcp_disconnect(
        &mut self,
        id: SocketId,
        meter: &mut Meter,
    ) -> Result<(), SocketError> {
        if self.tcb(id).state < State::Established {
            self.tcp_close(id, meter);
            return Ok(());
        }
        self.soisdisconnecting(id, meter);
        let socket = &mut self.sockets[id];
        socket.rcv.flush(&mut self.pool, meter);
        if self.tcp_usrclosed(id, meter) { self.output_for_user(id, meter) } else { Ok(()) }
    }

    /// The connection is made, on either side.
    pub(super) fn tcp_established(&mut self, id: SocketId, meter: &mut Meter) {
        // A socket closed during the handshake is being closed already.
        if self.tcb(id).state < State::Established {
            self.tcp_set_state(id, State::Established, meter);
            self.soisconnected(id, meter);
        }
        self.settle_size(id, meter);
    }

    /// Both directions are closed: late segments are waited for (RFC 9293 §3.6.1).
    pub(super) fn enter_time_wait(&mut self, id: SocketId, meter: &mut Meter) {
        self.tcp_set_state(id, State::TimeWait, meter);
        self.tcb_mut(id).timers.stop_all();
        self.restart_time_wait(id);
        self.soisdisconnected(id, meter);
    }

    pub(super) fn restart_time_wait(&mut self, id: SocketId) {
        let ticks = 2 * self.personality.tcp.msl_ticks;
        self.tcb_mut(id).timers.start(Timer::Linger, ticks);
    }

    /// Output on behalf of a process. The older systems hide from it that the interface queue was
    /// full; the newer ones do not even call that an error.
    pub(super) fn output_for_user(
        &mut self,
        id: SocketId,
        meter: &mut Meter,
    ) -> Result<(), SocketError> {
        match self.tcp_output(id, Caller::Usrreq, meter) {
            Err(SocketError::NoBuffers) => Ok(()),
            result => result,
        }
    }

    /// Sockets that have a control block of TCP, for tests and tools.
    pub fn tcp_connections(&self) -> &[SocketId] {
        &self.pcbs.of(Protocol::Tcp).sockets
    }
}
