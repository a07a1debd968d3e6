//! The effects of ICMP messages about segments on connections (`tcp_ctlinput`).

use sockscope_record::Protocol;

use super::rules::Complaints;
use crate::ip::Complaint;
use crate::meter::Meter;
use crate::routine::{Routine, Work};
use crate::socket::{Endpoint, SocketError, SocketId};
use crate::stack::Stack;

impl Stack {
    /// `tcp_ctlinput`: a message about a segment that the local end sent to the foreign one. Source quench is for all
    /// connections to the address up to 4.3BSD-Tahoe, for the one that it is about since.
    pub(crate) fn tcp_ctlinput(
        &mut self,
        complaint: Complaint,
        local: Endpoint,
        foreign: Endpoint,
        meter: &mut Meter,
    ) {
        let rule = self.personality.tcp.complaints;
        let all = self.pcbs.of(Protocol::Tcp).sockets.clone();
        meter.call(Routine::InPcbnotify, Work::walked(all.len() as u32));
        let is_meant = |id: &SocketId| {
            let socket = &self.sockets[*id];
            match rule {
                Complaints::EndAll | Complaints::TellAll => socket.foreign.0 == foreign.0,
                Complaints::TellOne => socket.foreign == foreign && socket.local == local,
            }
        };
        let meant: Vec<SocketId> = all.into_iter().filter(is_meant).collect();
        for id in meant {
            match complaint {
                Complaint::Quench => {
                    meter.call(Routine::TcpQuench, Work::NONE);
                    self.tcp_quench(id);
                }
                Complaint::Unreachable(error) if rule == Complaints::EndAll => {
                    self.tcp_fail(id, error, meter);
                }
                Complaint::Unreachable(error) => self.tcp_notify(id, error, meter),
            }
        }
    }

    /// The next call of the process fails; processes that wait for the connection are woken.
    fn tcp_notify(&mut self, id: SocketId, error: SocketError, meter: &mut Meter) {
        self.sockets[id].error = Some(error);
        self.socket_told(id, meter);
    }
}
