//! From a frame to the IP input queue: `enrint`, `if_rubaget`.

use sockscope_record::Point;

use super::{
    Frame, QUEUE_PACKETS_MAX, TRAILER_HEADER_BYTES, TRAILER_UNIT_BYTES, TRAILER_UNITS_MAX, TYPE_IP,
    TYPE_TRAILER,
};
use crate::drop_reason::DropReason;
use crate::effect::Effect;
use crate::mbuf::{CLUSTER_BYTES, Chain};
use crate::meter::Meter;
use crate::observe::observe_drop;
use crate::packet::{Mark, Packet};
use crate::routine::{Routine, Work};
use crate::stack::Stack;

/// The two parts of a frame behind its link header, in the order in which IP wants them.
struct Parts<'a> {
    /// Headers that stood at the end of the frame; empty without a trailer.
    trailed: &'a [u8],
    /// All else.
    data: &'a [u8],
}

impl Stack {
    /// `enrint`, the receive interrupt: the frame becomes a packet in the IP input queue (point 5).
    ///
    /// Unreadable frames are dropped and counted, as are frames without mbufs or without room in
    /// the queue. The frame may hold anything.
    pub fn receive_frame(&mut self, number: u8, frame: &Frame, meter: &mut Meter) -> bool {
        let Frame { bytes, mark } = frame;
        meter.call(Routine::Enrint, Work::NONE);
        let Some(interface) = self.interfaces.get_mut(usize::from(number)) else { return false };
        interface.counts.in_frames += 1;
        let header_bytes = interface.header_bytes;
        let limit = header_bytes + interface.mtu as usize + TRAILER_HEADER_BYTES;
        let parts = if bytes.len() > limit { None } else { split(header_bytes, bytes) };
        let Some(parts) = parts else {
            interface.counts.in_errors += 1;
            observe_drop(self.seen(*mark), DropReason::Malformed, Point::InterfaceDequeue, meter);
            return false;
        };
        let chain = match self.lend_input(&parts, meter) {
            Some(chain) => Some(chain),
            None => self.if_rubaget(&parts, meter),
        };
        let Some(chain) = chain else {
            self.interfaces[usize::from(number)].counts.in_drops += 1;
            observe_drop(self.seen(*mark), DropReason::NoMbufs, Point::InterfaceDequeue, meter);
            return false;
        };
        self.enqueue_input(number, chain, *mark, meter)
    }

    /// The packet of an [`Effect::LoopbackInput`] enters the IP input queue (point 5).
    pub fn loopback_input(&mut self, number: u8, packet: Packet, meter: &mut Meter) -> bool {
        self.ip_queue_pending = self.ip_queue_pending.saturating_sub(1);
        if let Some(interface) = self.interfaces.get_mut(usize::from(number)) {
            interface.counts.in_frames += 1;
        }
        self.enqueue_input(number, packet.chain, packet.mark, meter)
    }

    fn enqueue_input(
        &mut self,
        number: u8,
        chain: Chain,
        mark: Option<Mark>,
        meter: &mut Meter,
    ) -> bool {
        let has_room = self.ip_queue.len() < QUEUE_PACKETS_MAX;
        if has_room {
            self.ip_queue.push_back((number, Packet { chain, mark }));
            meter.effect(Effect::SoftInterrupt);
        } else {
            self.refuse_input(number, Packet { chain, mark }, meter);
        }
        has_room
    }

    fn refuse_input(&mut self, number: u8, packet: Packet, meter: &mut Meter) {
        if let Some(interface) = self.interfaces.get_mut(usize::from(number)) {
            interface.counts.in_drops += 1;
        }
        self.drop_packet(packet, DropReason::InputQueueFull, Point::InterfaceDequeue, meter);
    }

    /// The device's buffer itself becomes the packet. `None` where drivers do not do that, for
    /// short frames, and when no more may be lent.
    fn lend_input(&mut self, parts: &Parts<'_>, meter: &mut Meter) -> Option<Chain> {
        let is_short = parts.data.len() <= usize::from(self.pool.geometry().plain_bytes);
        let lends = self.personality.interface.lends_input && parts.trailed.is_empty();
        if is_short || !lends {
            return None;
        }
        let id = self.pool.lend(parts.data, meter)?;
        // Nothing is copied on the modelled machine: the device wrote there.
        meter.call(Routine::IfRubaget, Work::mbufs(1));
        let mut chain = Chain::new();
        self.pool.push_back(&mut chain, id);
        Some(chain)
    }

    /// Copies a frame into mbufs; whole pages of its data are exchanged rather than copied.
    /// `None` when the pool is used up.
    fn if_rubaget(&mut self, parts: &Parts<'_>, meter: &mut Meter) -> Option<Chain> {
        let mut chain = Chain::new();
        let mut work = Work::NONE;
        let done = (parts.trailed.is_empty()
            || self.input_piece(&mut chain, parts.trailed, &mut work, meter))
            && self.input_piece(&mut chain, parts.data, &mut work, meter);
        meter.call(Routine::IfRubaget, work);
        if done {
            return Some(chain);
        }
        self.pool.free_chain(chain, meter);
        None
    }

    fn input_piece(
        &mut self,
        chain: &mut Chain,
        bytes: &[u8],
        work: &mut Work,
        meter: &mut Meter,
    ) -> bool {
        let mut rest = bytes;
        while !rest.is_empty() {
            let Some(id) = self.pool.get(meter) else { return false };
            let wants_cluster = rest.len() >= self.personality.interface.input_cluster_min_bytes;
            let has_cluster = wants_cluster && self.pool.attach_cluster(id, meter);
            let room = if has_cluster {
                CLUSTER_BYTES
            } else {
                usize::from(self.pool.geometry().plain_bytes)
            };
            let (here, later) = rest.split_at(rest.len().min(room));
            self.pool.set_range(id, 0, here.len());
            self.pool.data_mut(id).copy_from_slice(here);
            self.pool.push_back(chain, id);
            work.mbufs += 1;
            // A whole page is exchanged with the one that the device wrote to.
            work.bytes += if here.len() == CLUSTER_BYTES { 0 } else { here.len() as u32 };
            rest = later;
        }
        true
    }
}

/// Takes the link header off and finds the trailer; `None` for a frame that is no IP packet.
fn split(header_bytes: usize, frame: &[u8]) -> Option<Parts<'_>> {
    let (header, body) = frame.split_at_checked(header_bytes)?;
    match header.last_chunk::<2>().map(|bytes| u16::from_be_bytes(*bytes)) {
        None | Some(TYPE_IP) if body.is_empty() => None,
        None | Some(TYPE_IP) => Some(Parts { trailed: &[], data: body }),
        Some(link_type) => split_trailer(link_type, body),
    }
}

fn split_trailer(link_type: u16, body: &[u8]) -> Option<Parts<'_>> {
    let units = usize::from(link_type.checked_sub(TYPE_TRAILER)?);
    if units == 0 || units > TRAILER_UNITS_MAX {
        return None;
    }
    let (data, trailer) = body.split_at_checked(units * TRAILER_UNIT_BYTES)?;
    let inner_type = u16::from_be_bytes(*trailer.first_chunk()?);
    let trailer_bytes = usize::from(u16::from_be_bytes(*trailer.get(2..)?.first_chunk()?));
    let trailed = trailer.get(TRAILER_HEADER_BYTES..trailer_bytes)?;
    (inner_type == TYPE_IP).then_some(Parts { trailed, data })
}
