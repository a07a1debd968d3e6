//! Segment sizes: the announced one, and the one both ends agree on.

use super::rules::{Announced, InitialWindow};
use super::{SEGMENT_BYTES_MIN, block};
use crate::ip::IP_HEADER_BYTES;
use crate::meter::Meter;
use crate::socket::SocketId;
use crate::stack::Stack;
use crate::tcp::TCP_HEADER_BYTES;

/// The size that need not be announced (`IP_MSS` less the headers, RFC 9293 §3.7.1).
const UNSAID_BYTES: u32 = 536;

/// Largest size that 4.2BSD announces (`TCP_MSS` of its day).
const OLD_BYTES_MAX: u32 = 1024;

impl Stack {
    /// The size to announce in a SYN; `None` without an announcement.
    pub(super) fn announced_bytes(&mut self, id: SocketId, meter: &mut Meter) -> Option<u16> {
        let half = self.sockets[id].rcv.hiwat() / 2;
        let bytes = match (self.config.segment_bytes_max, self.personality.tcp.segments.announced) {
            (Some(bytes), _) => bytes,
            (None, Announced::HalfBuffer) => half.min(OLD_BYTES_MAX),
            (None, Announced::HalfOrInterface) => {
                let bytes = half.min(self.interface_bytes(id, meter));
                if bytes <= UNSAID_BYTES {
                    return None;
                }
                bytes
            }
            (None, Announced::Interface) => self.interface_bytes(id, meter),
        };
        Some(bytes.min(u32::from(u16::MAX)) as u16)
    }

    /// The largest segment that the interface to the peer takes (`tcp_mss`).
    fn interface_bytes(&mut self, id: SocketId, meter: &mut Meter) -> u32 {
        let rules = self.personality.tcp.segments;
        let peer = self.sockets[id].foreign.0;
        let route = match self.sockets[id].route.to(peer) {
            Some(route) => Some(route),
            None => {
                let route = self.routes.look_up(peer, meter);
                if let Some(route) = route {
                    self.sockets[id].route.set(peer, route);
                }
                route
            }
        };
        let Some(route) = route else { return rules.default_bytes };
        let mtu = self.interfaces[usize::from(route.interface)].mtu;
        let bytes = mtu.saturating_sub((IP_HEADER_BYTES + TCP_HEADER_BYTES) as u32);
        let round = rules.round_bytes;
        let bytes = if round > 0 && bytes > round { bytes / round * round } else { bytes };
        let is_distant = rules.distant_bytes > 0 && !self.is_local(peer);
        if is_distant { bytes.min(rules.distant_bytes) } else { bytes }
    }

    /// The peer's SYN announced this size, or none.
    ///
    /// Where a size makes buffers whole segments it does so now (`tcp_dooptions`): the answer to
    /// the SYN offers no more than the buffer will hold.
    pub(super) fn size_announced(
        &mut self,
        id: SocketId,
        announced: Option<u16>,
        meter: &mut Meter,
    ) {
        let rules = self.personality.tcp.segments;
        let bytes = announced.map_or(rules.default_bytes, u32::from).max(SEGMENT_BYTES_MIN);
        let tcb = self.tcb_mut(id);
        // Sizes are announced without regard to options (RFC 6691 §2).
        let bytes = bytes.saturating_sub(tcb.stamps.bytes()).max(SEGMENT_BYTES_MIN);
        tcb.segment_bytes = bytes;
        tcb.is_size_announced = announced.is_some();
        if rules.rounds_buffers && announced.is_some() {
            self.settle_size(id, meter);
        }
    }

    /// The connection is made: the smaller size of both ends, and the first window.
    pub(super) fn settle_size(&mut self, id: SocketId, meter: &mut Meter) {
        let rules = self.personality.tcp;
        let own = match (self.config.segment_bytes_max, rules.segments.announced) {
            (Some(bytes), _) => bytes,
            (None, Announced::HalfBuffer) => u32::MAX,
            (None, _) => self.interface_bytes(id, meter),
        };
        let is_local = self.is_local(self.sockets[id].foreign.0);
        let tcb = self.tcb_mut(id);
        let own_data = own.saturating_sub(tcb.stamps.bytes());
        tcb.segment_bytes = tcb.segment_bytes.min(own_data).max(SEGMENT_BYTES_MIN);
        let starts_slow = match rules.congestion.initial {
            InitialWindow::Unlimited | InitialWindow::SendBuffer => false,
            InitialWindow::SendBufferIfLocal => !is_local,
            InitialWindow::Segment => true,
        };
        if starts_slow {
            tcb.snd.cwnd = tcb.segment_bytes;
        }
        // `tcp_mss` leaves buffers alone where nothing was announced and the interface takes more
        // than the size that is sent then.
        let is_cut = tcb.is_size_announced || own < rules.segments.default_bytes;
        if rules.segments.rounds_buffers && is_cut {
            self.round_buffers(id);
        }
    }

    /// Socket buffers become whole numbers of segments, as far as they hold one; a send buffer that
    /// does not makes the segments smaller before the receive buffer is cut to them (`tcp_mss`).
    fn round_buffers(&mut self, id: SocketId) {
        let rules = self.personality.socket.buffers;
        let socket = &mut self.sockets[id];
        let (send, receive) = (socket.snd.hiwat(), socket.rcv.hiwat());
        let agreed = block(socket).segment_bytes;
        let segment = agreed.min(send.max(SEGMENT_BYTES_MIN));
        if let Some(tcb) = socket.tcb.as_mut().filter(|_| segment < agreed) {
            tcb.segment_bytes = segment;
            tcb.snd.cwnd = segment;
        }
        if send >= segment {
            socket.snd.reserve(send / segment * segment, &rules);
        }
        if receive > segment {
            socket.rcv.reserve(receive / segment * segment, &rules);
        }
    }
}
