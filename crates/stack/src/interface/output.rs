//! From IP to a frame: `enoutput`, `enstart`, `if_wubaput`, `enxint`, `looutput`.

use std::net::Ipv4Addr;

use sockscope_record::Point;

use super::{
    ETHERNET10_BYTES_MIN, Frame, Interface, InterfaceKind, QUEUE_PACKETS_MAX, TRAILER_HEADER_BYTES,
    TRAILER_UNIT_BYTES, TRAILER_UNITS_MAX, TYPE_IP, TYPE_TRAILER, ethernet3_header,
    ethernet10_header,
};
use crate::drop_reason::DropReason;
use crate::effect::Effect;
use crate::mbuf::{CLUSTER_BYTES, Chain, Pool};
use crate::meter::Meter;
use crate::packet::Packet;
use crate::routine::{Routine, Work};
use crate::socket::SocketError;
use crate::stack::Stack;

/// Follows a packet that is too short for a 10 Mbit/s frame.
const PADDING: [u8; ETHERNET10_BYTES_MIN] = [0; ETHERNET10_BYTES_MIN];

impl Stack {
    /// `if_output`: gives a packet its link header and lets it go to the interface's queue.
    ///
    /// Fails with `NoBuffers`, the packet freed, when the queue is full by then.
    pub(crate) fn if_output(
        &mut self,
        number: u8,
        next_host: Ipv4Addr,
        packet: Packet,
        meter: &mut Meter,
    ) -> Result<(), SocketError> {
        match self.interfaces[usize::from(number)].kind {
            InterfaceKind::Loopback => self.looutput(number, packet, meter),
            _ => self.enoutput(number, next_host, packet, meter),
        }
    }

    fn looutput(
        &mut self,
        number: u8,
        mut packet: Packet,
        meter: &mut Meter,
    ) -> Result<(), SocketError> {
        meter.call(Routine::Looutput, Work::NONE);
        if self.ip_queue.len() + self.ip_queue_pending >= QUEUE_PACKETS_MAX {
            self.interfaces[usize::from(number)].counts.out_drops += 1;
            self.drop_packet(packet, DropReason::InputQueueFull, Point::SendDequeue, meter);
            return Err(SocketError::NoBuffers);
        }
        self.ip_queue_pending += 1;
        if let Some(mark) = &mut packet.mark {
            mark.is_loopback = true;
        }
        meter.effect(Effect::LoopbackInput { interface: number, packet });
        meter.effect(Effect::SoftInterrupt);
        Ok(())
    }

    fn enoutput(
        &mut self,
        number: u8,
        next_host: Ipv4Addr,
        mut packet: Packet,
        meter: &mut Meter,
    ) -> Result<(), SocketError> {
        meter.call(Routine::Enoutput, Work::NONE);
        // The host test that chooses the link address.
        meter.calls_of(Routine::InLnaof, 1);
        let (interface, pool) = (&mut self.interfaces[usize::from(number)], &mut self.pool);
        let chain = &mut packet.chain;
        let trails = self.personality.interface.uses_trailers && interface.uses_trailers;
        let link_type = if trails { make_trailer(pool, chain) } else { TYPE_IP };
        let is_full = interface.is_full();
        let has_header = interface.prepend_header(pool, chain, next_host, link_type, meter);
        if is_full || !has_header {
            return self.refuse_output(number, packet, is_full, meter);
        }
        interface.pending += 1;
        meter.effect(Effect::Output { interface: number, packet });
        Ok(())
    }

    fn refuse_output(
        &mut self,
        number: u8,
        packet: Packet,
        is_full: bool,
        meter: &mut Meter,
    ) -> Result<(), SocketError> {
        self.interfaces[usize::from(number)].counts.out_drops += 1;
        let reason = if is_full { DropReason::InterfaceQueueFull } else { DropReason::NoMbufs };
        self.drop_packet(packet, reason, Point::SendDequeue, meter);
        Err(SocketError::NoBuffers)
    }

    /// `IF_ENQUEUE`: the packet of an [`Effect::Output`] enters the queue (point 3). `false`, the
    /// packet freed, when the queue is full, which the step that made it should have seen.
    pub fn interface_enqueue(&mut self, number: u8, packet: Packet, meter: &mut Meter) -> bool {
        let Some(interface) = self.interfaces.get_mut(usize::from(number)) else {
            self.pool.m_freem(packet.chain, meter);
            return false;
        };
        interface.pending = interface.pending.saturating_sub(1);
        if interface.queue.len() >= interface.queue_packets_max {
            let _ = self.refuse_output(number, packet, true, meter);
            return false;
        }
        interface.queue.push_back(packet);
        interface.counts.queue_max = interface.counts.queue_max.max(interface.queue.len());
        true
    }

    /// `enstart`: takes the next packet from the queue (point 4) and puts its bytes into `frame`,
    /// whose old contents go. `false` when the queue is empty.
    pub fn interface_start(&mut self, number: u8, frame: &mut Frame, meter: &mut Meter) -> bool {
        meter.call(Routine::Enstart, Work::NONE);
        frame.bytes.clear();
        let Some(interface) = self.interfaces.get_mut(usize::from(number)) else { return false };
        let Some(packet) = interface.queue.pop_front() else { return false };
        interface.counts.out_frames += 1;
        interface.in_device += 1;
        frame.mark = packet.mark;
        self.if_wubaput(number, packet.chain, &mut frame.bytes, meter);
        true
    }

    /// `enstart` called again for a frame that collided: counted, with nothing else to do.
    pub fn interface_restart(&mut self, meter: &mut Meter) {
        meter.call(Routine::Enstart, Work::NONE);
    }

    /// Puts a chain into the transmit buffer. Whole pages at aligned places are mapped and kept
    /// until the frame has gone; all else is copied and freed.
    fn if_wubaput(&mut self, number: u8, chain: Chain, frame: &mut Vec<u8>, meter: &mut Meter) {
        let (interface, pool) = (&mut self.interfaces[usize::from(number)], &mut self.pool);
        let mut work = Work { bytes: chain.len() as u32, ..Work::mbufs(chain.mbufs()) };
        let mut maps = false;
        for id in pool.ids(&chain) {
            maps |= pool.is_whole_page(id) && interface.is_aligned(frame.len());
            frame.extend_from_slice(pool.data(id));
        }
        if maps {
            work.bytes -= interface.map_pages(pool, chain, meter);
        } else {
            pool.free_chain(chain, meter);
        }
        if interface.kind == InterfaceKind::Ethernet10
            && let Some(padding) = PADDING.get(frame.len()..)
        {
            frame.extend_from_slice(padding);
        }
        meter.call(Routine::IfWubaput, work);
    }

    /// `enxint`: the frame has gone. Whether another packet waits in the queue.
    pub fn transmit_done(&mut self, number: u8, meter: &mut Meter) -> bool {
        meter.call(Routine::Enxint, Work::NONE);
        let Some(interface) = self.interfaces.get_mut(usize::from(number)) else { return false };
        interface.in_device = interface.in_device.saturating_sub(1);
        let waits = !interface.queue.is_empty();
        if !interface.mapped.is_empty() {
            let mapped = interface.mapped.take();
            self.pool.m_freem(mapped, meter);
        }
        waits
    }
}

impl Interface {
    /// Whether a page of the transmit buffer begins `start` bytes behind its frame's beginning: the
    /// link header is placed so that it ends where one does.
    fn is_aligned(&self, start: usize) -> bool {
        let place = start.checked_sub(self.header_bytes);
        place.is_some_and(|place| place % CLUSTER_BYTES == 0)
    }

    /// Keeps the whole pages of a chain at aligned places until the frame has gone, and frees all else;
    /// returns the bytes of these pages.
    fn map_pages(&mut self, pool: &mut Pool, mut chain: Chain, meter: &mut Meter) -> u32 {
        let (mut start, mut mapped_bytes) = (0, 0);
        while let Some(id) = pool.pop_front(&mut chain) {
            let len = pool.len(id);
            if pool.is_whole_page(id) && self.is_aligned(start) {
                pool.push_back(&mut self.mapped, id);
                mapped_bytes += len as u32;
            } else {
                pool.free(id, meter);
            }
            start += len;
        }
        mapped_bytes
    }

    /// Puts the link header before a packet; `false` when the pool is used up.
    fn prepend_header(
        &self,
        pool: &mut Pool,
        chain: &mut Chain,
        to: Ipv4Addr,
        link_type: u16,
        meter: &mut Meter,
    ) -> bool {
        let (kind, source) = (self.kind, self.address);
        if kind == InterfaceKind::Ethernet10 {
            pool.prepend_bytes(chain, ethernet10_header(source, to, link_type), meter)
        } else if kind == InterfaceKind::Ethernet3 {
            pool.prepend_bytes(chain, ethernet3_header(source, to, link_type), meter)
        } else {
            true
        }
    }
}

/// Moves the headers behind the data if the packet suits (RFC 893); the packet's link type.
///
/// Only the length decides: data in small mbufs go as a trailer packet too.
fn make_trailer(pool: &mut Pool, chain: &mut Chain) -> u16 {
    let Some(first) = chain.first() else { return TYPE_IP };
    let data_bytes = chain.len() - pool.len(first);
    let units = data_bytes / TRAILER_UNIT_BYTES;
    let suits = data_bytes > 0
        && data_bytes.is_multiple_of(TRAILER_UNIT_BYTES)
        && units <= TRAILER_UNITS_MAX
        && pool.leading_room(first) >= TRAILER_HEADER_BYTES;
    if !suits {
        return TYPE_IP;
    }
    pool.pop_front(chain);
    pool.widen_front(first, TRAILER_HEADER_BYTES);
    let header_bytes = pool.len(first) as u16;
    let start = pool.data_mut(first);
    start[..2].copy_from_slice(&TYPE_IP.to_be_bytes());
    start[2..4].copy_from_slice(&header_bytes.to_be_bytes());
    pool.push_back(chain, first);
    TYPE_TRAILER + units as u16
}
