//! TCP connections: their positions, and the hits that the kernel's functions make on the way of a byte.
//!
//! There is neither slow start nor a timer of the retransmissions' kind: a lost segment is sent again after
//! a while. Rates stay below 107 GB/s, above which no position can be found again (`decode/anchor.rs`).

use std::collections::VecDeque;

use sockscope_record::tcp_flags;

use super::hits::{self, Header, Sender};
use super::probes::{Place, Socket};
use super::truth::{Fate, Hit};
use super::world::{Action, World};
use crate::layout::{RawEvent, constants as raw};

const IPPROTO_TCP: u8 = 6;
const ESTABLISHED: u8 = 1;
const FIN_WAIT1: u8 = 4;
const CLOSE: u8 = 7;
/// The window of a send or receive buffer, at most; TCP's own limit is 1 GiB.
const WINDOW_MAX: u64 = 64 << 20;

/// Bytes of one direction in transit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Segment {
    direction: usize,
    from: u64,
    to: u64,
    is_fin: bool,
    acknowledged: u64,
    acknowledges_fin: bool,
}

/// A step of one connection; the number is the side of the socket that makes it, 0 for the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    /// A thread begins a write call, or the call under way finds room.
    Write(usize),
    /// TCP sends a segment.
    Send(usize),
    /// The oldest segment leaves the queueing discipline of this side's host.
    Dequeue(usize),
    /// A packet arrives by a device.
    Input(Segment),
    /// IP takes a packet.
    Receive(Segment),
    /// The receiver acknowledges.
    Acknowledge(usize),
    /// A thread reads.
    Read(usize),
    /// A segment is sent again.
    Resend(Segment),
}

/// One socket.
struct End {
    is_here: bool,
    address: u64,
    thread: u32,
    cpu: usize,
    /// Bytes that its program still wants to write.
    budget: u64,
    buffer: u64,
    written: u64,
    /// Where the call under way ends.
    call_end: u64,
    sent: u64,
    acknowledged: u64,
    is_fin_sent: bool,
    is_fin_acknowledged: bool,
    received: u64,
    /// Received out of order.
    early: Vec<(u64, u64)>,
    fin_at: Option<u64>,
    is_fin_received: bool,
    copied: u64,
    is_writing: bool,
    is_sending: bool,
    is_reading: bool,
    is_acknowledging: bool,
    /// Its segments in a queueing discipline.
    queue: VecDeque<Segment>,
    /// Arrival of the last packet, and the time when IP takes it: packets do not overtake one another.
    came_ns: [u64; 2],
}

/// A connection.
pub(super) struct Stream {
    /// Its slot and number; `None` where it is not recorded.
    slot: Option<(usize, u32)>,
    /// Its client port.
    tuple: u32,
    ends: [End; 2],
    /// Sequence numbers of the SYNs.
    syn: [u32; 2],
    is_loopback: bool,
    is_queued: bool,
    segment_max: u64,
    gap_ns: u64,
    is_open: bool,
}

impl Stream {
    fn seq(&self, direction: usize, position: u64) -> u32 {
        self.syn[direction].wrapping_add(1).wrapping_add(position as u32)
    }

    /// As the kernel keeps them: SYN and FIN are octets of their own for some of them.
    fn counters(&self, side: usize) -> hits::Counters {
        let end = &self.ends[side];
        let (fin_acked, fin) = (u64::from(end.is_fin_acknowledged), u64::from(end.is_fin_received));
        let syn_acked = u64::from(side == 0);
        hits::Counters {
            snd_una: self.seq(side, end.acknowledged + fin_acked),
            bytes_acked: end.acknowledged + fin_acked + syn_acked,
            rcv_nxt: self.seq(1 - side, end.received + fin),
            bytes_received: end.received + fin,
            copied_seq: self.seq(1 - side, end.copied),
        }
    }

    fn number(&self) -> u32 {
        self.slot.map_or(0, |(_, number)| number)
    }

    fn state(&self, side: usize, new_state: u8) -> RawEvent {
        let counters = self.counters(side);
        let end = &self.ends[side];
        RawEvent {
            kind: u32::from(raw::EVENT_STATE),
            connection: self.number(),
            flow: self.number() * 2 + side as u32,
            protocol: IPPROTO_TCP,
            new_state,
            snd_seq: self.seq(side, end.written + u64::from(end.is_fin_sent)),
            rcv_seq: counters.rcv_nxt,
            snd_offset: counters.bytes_acked,
            rcv_offset: counters.bytes_received,
            copied_seq: counters.copied_seq,
            mss: 1_448,
            sndbuf: 1,
            rcvbuf: 1,
            rcvlowat: 1,
            ..RawEvent::default()
        }
    }

    /// The segment of these bytes, with its sender's present acknowledgment.
    fn segment(&self, direction: usize, from: u64, to: u64, is_fin: bool) -> Segment {
        let end = &self.ends[direction];
        Segment {
            direction,
            from,
            to,
            is_fin,
            acknowledged: end.received,
            acknowledges_fin: end.is_fin_received,
        }
    }

    fn header(&self, segment: &Segment) -> Header {
        let acknowledged = segment.acknowledged + u64::from(segment.acknowledges_fin);
        Header {
            seq: self.seq(segment.direction, segment.from),
            len: (segment.to - segment.from) as u32,
            ack: self.seq(1 - segment.direction, acknowledged),
            flags: tcp_flags::ACK | if segment.is_fin { tcp_flags::FIN } else { 0 },
        }
    }
}

impl World {
    fn later(&mut self, index: usize, delay_ns: u64, step: Step) {
        self.after(delay_ns, Action::Stream(index, step));
    }

    /// The next connection opens; its addresses may be those of another one in other namespaces.
    pub(super) fn open_stream(&mut self) {
        if self.streams.len() >= self.plan.streams_in_all || self.is_late() {
            return;
        }
        let is_fast = self.plan.bulk.is_some() || self.rng.once_in(3);
        let segment_max = if is_fast { 1 << 20 } else { self.rng.range(1, 70_000) };
        // At most 52 GB/s.
        let gap_ns = if is_fast { 20_000 } else { self.rng.size(3_000_000) + 2_000 };
        let is_both = !self.rng.once_in(4);
        let side_here = self.rng.index(2);
        let is_loopback = is_both && self.rng.once_in(2);
        let is_queued = !is_loopback && self.rng.once_in(2);
        let ends = [0, 1].map(|side| self.end(is_both || side == side_here));
        let syn = [0, 1].map(|_| match self.rng.range(0, 3) {
            0 => u32::MAX - self.rng.range(0, 5) as u32,
            _ => self.rng.next() as u32,
        });
        let stream = Stream {
            slot: self
                .probes
                .open(false)
                .map(|(slot, _)| (slot, self.probes.slots[slot].connection)),
            tuple: 40_000 + self.rng.range(0, 2) as u32,
            ends,
            syn,
            is_loopback,
            is_queued,
            segment_max,
            gap_ns,
            is_open: true,
        };
        let index = self.streams.len();
        self.announce(&stream);
        self.streams.push(stream);
        self.handshake(index);
        for side in [0, 1] {
            self.write_later(index, side, self.plan.cpus as u64 * 1_000);
        }
    }

    fn end(&mut self, is_here: bool) -> End {
        let address = self.addresses.pop().unwrap_or(0x40);
        End {
            is_here,
            address,
            thread: self.rng.range(100, 200) as u32,
            cpu: self.rng.index(self.plan.cpus),
            budget: self.budget(),
            buffer: self.buffer(),
            written: 0,
            call_end: 0,
            sent: 0,
            acknowledged: 0,
            is_fin_sent: false,
            is_fin_acknowledged: false,
            received: 0,
            early: Vec::new(),
            fin_at: None,
            is_fin_received: false,
            copied: 0,
            is_writing: false,
            is_sending: false,
            is_reading: false,
            is_acknowledging: false,
            queue: VecDeque::new(),
            came_ns: [0; 2],
        }
    }

    fn buffer(&mut self) -> u64 {
        match self.plan.bulk {
            Some(_) => WINDOW_MAX,
            None => self.rng.size(WINDOW_MAX) + 1_000,
        }
    }

    /// Bytes that an end writes: none at every third one.
    fn budget(&mut self) -> u64 {
        match self.plan.bulk {
            Some(bytes) => bytes >> self.rng.range(0, 4),
            None if self.rng.once_in(3) => 0,
            None => self.rng.size(1 << 36),
        }
    }

    fn announce(&mut self, stream: &Stream) {
        if stream.slot.is_none() {
            return;
        }
        self.probes.truth.opened.push((stream.number(), stream.tuple));
        let mut address = [0; 16];
        address[..4].copy_from_slice(&[10, 0, 0, 1]);
        self.probes.event(RawEvent {
            kind: u32::from(raw::EVENT_OPEN),
            connection: stream.number(),
            protocol: IPPROTO_TCP,
            family: 2,
            client_addr: address,
            server_addr: address,
            client_port: stream.tuple as u16,
            server_port: 80,
            ..RawEvent::default()
        });
    }

    /// SYN, SYN-ACK and ACK, as one step.
    fn handshake(&mut self, index: usize) {
        let flags = [tcp_flags::SYN, tcp_flags::SYN | tcp_flags::ACK];
        for (direction, flags) in flags.into_iter().enumerate() {
            let stream = &self.streams[index];
            let segment = stream.segment(direction, 0, 0, false);
            let (seq, ack) = (stream.syn[direction], stream.seq(1 - direction, 0));
            let header = Header { seq, len: 0, ack: if direction == 1 { ack } else { 0 }, flags };
            let is_own = direction == 0;
            let sender = Sender { cwnd: u32::from(is_own) * 10, ..Sender::default() };
            self.packet(index, raw::RAW_TRANSMIT, &segment, header, (None, sender));
            self.packet(index, raw::RAW_RECEIVE, &segment, header, (None, Sender::default()));
        }
        for side in [0, 1] {
            if self.streams[index].ends[side].is_here {
                self.stream_event(index, side, ESTABLISHED);
            }
        }
    }

    fn stream_event(&mut self, index: usize, side: usize, new_state: u8) {
        let stream = &self.streams[index];
        if let Some((slot, number)) = stream.slot
            && self.probes.slots[slot].connection == number
        {
            let event = stream.state(side, new_state);
            self.probes.event(event);
        }
    }

    pub(super) fn step_stream(&mut self, index: usize, step: Step) {
        if !self.streams[index].is_open {
            return;
        }
        match step {
            Step::Write(side) => self.write(index, side),
            Step::Send(side) => self.send(index, side),
            Step::Dequeue(side) => self.dequeue(index, side),
            Step::Input(segment) => self.input(index, segment),
            Step::Receive(segment) => self.receive(index, segment),
            Step::Acknowledge(side) => self.acknowledge(index, side),
            Step::Read(side) => self.read(index, side),
            Step::Resend(segment) => self.resend(index, segment),
        }
        self.close_if_done(index);
    }

    fn truth(&self, index: usize, kind: u8, direction: usize, from: u64, to: u64) -> Hit {
        Hit {
            at_ns: 0,
            since_ns: 0,
            kind,
            fate: Fate::Delivered,
            flow: self.streams[index].number() * 2 + direction as u32,
            from,
            to,
            acknowledged: 0,
            acknowledges_fin: false,
            datagram: 0,
        }
    }

    /// The place of a hit that has the socket of `side`, on this CPU; `None` where none is recorded.
    fn place_of_socket(&mut self, index: usize, side: usize, cpu: usize) -> Option<Place> {
        let stream = &self.streams[index];
        let (slot, number) = stream.slot?;
        let (address, is_here) = (stream.ends[side].address, stream.ends[side].is_here);
        let own = (slot, number, side as u32);
        let (slot, direction) =
            if is_here { self.probes.slot_of_socket(cpu, address, own)? } else { return None };
        let counters = self.streams[index].counters(side);
        Some(Place { cpu, slot, socket: Some(Socket { direction, counters }) })
    }

    /// The same of a hit that has a packet at the host of `side`.
    fn place_of_packet(&mut self, index: usize, side: usize, cpu: usize) -> Option<Place> {
        let stream = &self.streams[index];
        let (slot, number) = stream.slot?;
        let is_there = stream.ends[side].is_here && self.probes.slots[slot].connection == number;
        is_there.then_some(Place { cpu, slot, socket: None })
    }

    /// A hit of points 3 to 6.
    fn packet(
        &mut self,
        index: usize,
        kind: u8,
        segment: &Segment,
        header: Header,
        (taken_ns, sender): (Option<u64>, Sender),
    ) -> bool {
        let Segment { direction, from, to, acknowledged, acknowledges_fin, .. } = *segment;
        let is_out = matches!(kind, raw::RAW_QUEUED | raw::RAW_TRANSMIT);
        let side = if is_out { direction } else { 1 - direction };
        let cpu = self.cpu_of(index, side);
        let is_of_socket = is_out && header.flags & tcp_flags::SYN == 0;
        let place = if is_of_socket {
            self.place_of_socket(index, side, cpu)
        } else {
            self.place_of_packet(index, side, cpu)
        };
        let Some(place) = place else { return false };
        let stream = &self.streams[index];
        let mut own = if stream.is_loopback { raw::MARK_LOOPBACK } else { 0 };
        if is_of_socket && to > from && from < stream.ends[side].sent {
            own |= raw::MARK_RETRANSMITTED;
        }
        let is_device = !stream.is_loopback;
        let last_ns = self.probes.lists[cpu].last_ns;
        let since_ns = taken_ns.map_or(0, |taken_ns| taken_ns.max(last_ns));
        let truth = self.truth(index, kind, direction, from, to);
        let truth = Hit { since_ns, acknowledged, acknowledges_fin, ..truth };
        let is_recorded = self.probes.hit(place, truth, None, |common| {
            let taken_ns = if since_ns > 0 { (common.at_ns - since_ns) as u32 } else { 0 };
            let common = hits::Common { marks: common.marks | own, ..common };
            hits::packet(kind, common, header, Sender { taken_ns, ..sender })
        });
        if is_recorded && is_out && is_device {
            self.probes.counters.devices_seen = 1;
        }
        is_recorded
    }

    /// Mostly the CPU of the socket's thread; softirqs run anywhere. One function call stays on its CPU.
    fn cpu_of(&mut self, index: usize, side: usize) -> usize {
        if let Some(cpu) = self.running_on {
            return cpu;
        }
        match self.rng.range(0, 4) {
            0 => self.rng.index(self.plan.cpus),
            _ => self.streams[index].ends[side].cpu,
        }
    }

    fn write_later(&mut self, index: usize, side: usize, delay_ns: u64) {
        if !std::mem::replace(&mut self.streams[index].ends[side].is_writing, true) {
            self.later(index, delay_ns, Step::Write(side));
        }
    }

    fn write(&mut self, index: usize, side: usize) {
        let is_late = self.is_late();
        let end = &mut self.streams[index].ends[side];
        end.is_writing = false;
        if end.written == end.call_end {
            if end.budget == 0 || is_late {
                self.end_stream(index, side);
                return;
            }
            let is_bulk = self.plan.bulk.is_some();
            let is_large = self.rng.once_in(2);
            let most = if is_large { 1 << 22 } else { 3_000 };
            let len = if is_bulk { 1 << 22 } else { self.rng.size(most) };
            let len = len.min(self.streams[index].ends[side].budget);
            let end = &mut self.streams[index].ends[side];
            (end.call_end, end.budget) = (end.written + len, end.budget - len);
        }
        let end = &self.streams[index].ends[side];
        let room = end.buffer.saturating_sub(end.written - end.acknowledged);
        let left = end.call_end - end.written;
        let is_whole = left <= room / 2;
        let taken = if is_whole { left } else { left.min(room) };
        let (from, to, thread, cpu) = (end.written, end.written + taken, end.thread, end.cpu);
        if let Some(place) = self.place_of_socket(index, side, cpu) {
            let seq = self.streams[index].seq(side, from);
            let truth = self.truth(index, raw::RAW_WRITE, side, from, to);
            let own = if is_whole { raw::MARK_ROOM } else { 0 };
            let is_recorded = self.probes.hit(place, truth, None, |common| {
                let common = hits::Common { marks: common.marks | own, ..common };
                hits::write(common, seq, left as u32, thread)
            });
            if is_recorded {
                self.probes.note_thread(place.slot, side, truth.flow, thread);
            }
        }
        self.streams[index].ends[side].written = to;
        self.send_later(index, side, 0);
        if to == self.streams[index].ends[side].call_end {
            // Another thread or another CPU may write next.
            if self.rng.once_in(8) {
                self.streams[index].ends[side].cpu = self.rng.index(self.plan.cpus);
            }
            let pause_ns = if self.plan.bulk.is_some() { 1_000 } else { self.rng.size(200_000) };
            self.write_later(index, side, pause_ns);
        }
    }

    /// All is written: the FIN follows the last byte.
    fn end_stream(&mut self, index: usize, side: usize) {
        let end = &self.streams[index].ends[side];
        if end.is_fin_sent || end.sent < end.written {
            // It follows the last segment.
            return;
        }
        let (at, is_here) = (end.written, end.is_here);
        if is_here {
            self.stream_event(index, side, FIN_WAIT1);
        }
        self.streams[index].ends[side].is_fin_sent = true;
        let segment = self.streams[index].segment(side, at, at, true);
        self.output(index, segment);
    }

    fn send_later(&mut self, index: usize, side: usize, delay_ns: u64) {
        if !std::mem::replace(&mut self.streams[index].ends[side].is_sending, true) {
            self.later(index, delay_ns, Step::Send(side));
        }
    }

    fn send(&mut self, index: usize, side: usize) {
        let stream = &mut self.streams[index];
        stream.ends[side].is_sending = false;
        let read = stream.ends[1 - side].copied;
        let end = &stream.ends[side];
        let window = stream.ends[1 - side].buffer.saturating_sub(end.sent - read);
        let len = (end.written - end.sent).min(window).min(stream.segment_max);
        if len == 0 {
            let is_all = end.written == end.sent && end.written == end.call_end;
            if is_all && (end.budget == 0 || self.is_late()) {
                self.end_stream(index, side);
            }
            return;
        }
        let (from, to) = (end.sent, end.sent + len);
        let gap_ns = stream.gap_ns;
        let segment = stream.segment(side, from, to, false);
        self.output(index, segment);
        self.streams[index].ends[side].sent = to;
        self.send_later(index, side, gap_ns);
    }

    fn sender(&self, index: usize, side: usize) -> Sender {
        let end = &self.streams[index].ends[side];
        let in_flight = ((end.sent - end.acknowledged) / 1_448) as u32;
        Sender { taken_ns: 0, cwnd: 10, in_flight, window: 1 << 16 }
    }

    /// TCP hands a segment to IP.
    fn output(&mut self, index: usize, segment: Segment) {
        let sender = self.sender(index, segment.direction);
        if !self.streams[index].is_queued {
            self.transmit(index, segment, sender);
            return;
        }
        let (header, taken_ns) = (self.streams[index].header(&segment), self.probes.tick());
        self.packet(index, raw::RAW_QUEUED, &segment, header, (Some(taken_ns), sender));
        let side = segment.direction;
        let queue = &mut self.streams[index].ends[side].queue;
        queue.push_back(segment);
        if queue.len() > 1 {
            return;
        }
        if self.rng.once_in(2) {
            self.dequeue(index, side);
        } else {
            let delay_ns = self.rng.size(300_000);
            self.later(index, delay_ns, Step::Dequeue(side));
        }
    }

    fn dequeue(&mut self, index: usize, side: usize) {
        let Some(segment) = self.streams[index].ends[side].queue.pop_front() else { return };
        let sender = self.sender(index, side);
        self.transmit(index, segment, sender);
        if !self.streams[index].ends[side].queue.is_empty() {
            let delay_ns = self.rng.size(20_000);
            self.later(index, delay_ns, Step::Dequeue(side));
        }
    }

    /// The driver takes a segment.
    fn transmit(&mut self, index: usize, segment: Segment, sender: Sender) {
        let header = self.streams[index].header(&segment);
        let taken_ns = self.probes.tick();
        self.packet(index, raw::RAW_TRANSMIT, &segment, header, (Some(taken_ns), sender));
        let is_dropped = self.rng.once_in(self.plan.dropped_in);
        if is_dropped && (segment.to > segment.from || segment.is_fin) {
            self.dropped(index, segment, header);
            let delay_ns = self.rng.range(1_000_000, 5_000_000);
            self.later(index, delay_ns, Step::Resend(segment));
        } else if self.streams[index].is_loopback {
            self.packet(index, raw::RAW_INPUT, &segment, header, (None, Sender::default()));
            self.arrive(index, 20_000, 1, Step::Receive(segment));
        } else {
            self.arrive(index, 100_000, 0, Step::Input(segment));
        }
    }

    /// Does a step of a packet behind those of the packets before it.
    fn arrive(&mut self, index: usize, most_ns: u64, stage: usize, step: Step) {
        let (Step::Input(segment) | Step::Receive(segment)) = step else { return };
        let now_ns = self.probes.now_ns;
        let came_ns = now_ns + self.rng.size(most_ns);
        let last_ns = &mut self.streams[index].ends[1 - segment.direction].came_ns[stage];
        *last_ns = came_ns.max(*last_ns);
        let delay_ns = *last_ns - now_ns;
        self.later(index, delay_ns, step);
    }

    fn dropped(&mut self, index: usize, segment: Segment, header: Header) {
        let cpu = self.cpu_of(index, segment.direction);
        if let Some(place) = self.place_of_packet(index, segment.direction, cpu) {
            let Segment { direction, from, to, .. } = segment;
            let truth = self.truth(index, raw::RAW_DROP, direction, from, to);
            self.probes.hit(place, truth, None, |common| hits::drop(common, header));
        }
    }

    fn resend(&mut self, index: usize, segment: Segment) {
        let Segment { direction, from, to, is_fin, .. } = segment;
        let cpu = self.streams[index].ends[direction].cpu;
        let seq = self.streams[index].seq(direction, from);
        if let Some(place) = self.place_of_socket(index, direction, cpu) {
            let truth = self.truth(index, raw::RAW_RETRANSMIT, direction, from, to);
            let len = (to - from) as u32;
            self.probes.hit(place, truth, None, |common| hits::retransmit(common, seq, len));
        }
        let segment = self.streams[index].segment(direction, from, to, is_fin);
        self.output(index, segment);
    }

    fn input(&mut self, index: usize, segment: Segment) {
        let header = self.streams[index].header(&segment);
        self.packet(index, raw::RAW_INPUT, &segment, header, (None, Sender::default()));
        self.arrive(index, 50_000, 1, Step::Receive(segment));
    }

    /// IP takes a packet, and then TCP does.
    fn receive(&mut self, index: usize, segment: Segment) {
        let header = self.streams[index].header(&segment);
        self.packet(index, raw::RAW_RECEIVE, &segment, header, (None, Sender::default()));
        let side = 1 - segment.direction;
        // A socket that a thread has in use gets the segment later, on the thread's CPU.
        self.running_on = Some(self.cpu_of(index, side));
        self.take_segment(index, side, segment);
        self.running_on = None;
    }

    /// TCP takes a segment.
    fn take_segment(&mut self, index: usize, side: usize, segment: Segment) {
        let taken_ns = self.probes.tick();
        let end = &mut self.streams[index].ends[side];
        end.acknowledged = end.acknowledged.max(segment.acknowledged);
        end.is_fin_acknowledged |= segment.acknowledges_fin;
        let has_room = end.written < end.call_end && end.acknowledged + end.buffer > end.written;
        if has_room {
            self.write_later(index, side, 1_000);
        }
        self.send_later(index, side, 500);
        let end = &mut self.streams[index].ends[side];
        if segment.to == segment.from && !segment.is_fin {
            return;
        }
        let before = (end.received, end.is_fin_received);
        end.early.push((segment.from, segment.to));
        if segment.is_fin {
            end.fin_at = Some(segment.to);
        }
        end.early.sort_unstable();
        for &(from, to) in &end.early {
            if from <= end.received {
                end.received = end.received.max(to);
            }
        }
        let received = end.received;
        end.early.retain(|(_, to)| *to > received);
        end.is_fin_received = end.fin_at == Some(received);
        let is_news = (end.received, end.is_fin_received) != before;
        self.acknowledge_later(index, side);
        // The acknowledgment may go out before the announcement.
        if is_news && self.rng.once_in(3) {
            self.acknowledge(index, side);
        }
        if is_news {
            self.announce_data(index, side, before.0, taken_ns);
            self.read_later(index, side);
        }
    }

    /// `sk_data_ready`: the bytes behind `from` are in the receive queue.
    fn announce_data(&mut self, index: usize, side: usize, from: u64, taken_ns: u64) {
        let cpu = self.cpu_of(index, side);
        let Some(place) = self.place_of_socket(index, side, cpu) else { return };
        let (to, rcv_nxt) =
            (self.streams[index].ends[side].received, self.streams[index].counters(side).rcv_nxt);
        let truth = self.truth(index, raw::RAW_READY, 1 - side, from, to);
        let acknowledges_fin = self.streams[index].ends[side].is_fin_received;
        let truth = Hit { since_ns: taken_ns, acknowledges_fin, ..truth };
        self.probes.hit(place, truth, Some(taken_ns), |common| hits::ready(common, rcv_nxt));
    }

    fn acknowledge_later(&mut self, index: usize, side: usize) {
        if !std::mem::replace(&mut self.streams[index].ends[side].is_acknowledging, true) {
            let delay_ns = self.rng.size(40_000);
            self.later(index, delay_ns, Step::Acknowledge(side));
        }
    }

    fn acknowledge(&mut self, index: usize, side: usize) {
        self.streams[index].ends[side].is_acknowledging = false;
        let sent = self.streams[index].ends[side].sent;
        let segment = self.streams[index].segment(side, sent, sent, false);
        let sender = self.sender(index, side);
        self.transmit(index, segment, sender);
    }

    fn read_later(&mut self, index: usize, side: usize) {
        if !std::mem::replace(&mut self.streams[index].ends[side].is_reading, true) {
            let delay_ns = self.rng.size(100_000);
            self.later(index, delay_ns, Step::Read(side));
        }
    }

    fn read(&mut self, index: usize, side: usize) {
        let is_part = self.rng.once_in(4);
        let part = self.rng.size(1 << 20);
        let end = &mut self.streams[index].ends[side];
        end.is_reading = false;
        let all = end.received - end.copied;
        if all == 0 {
            return;
        }
        let len = if is_part { all.min(part) } else { all };
        let (from, to, cpu, thread) = (end.copied, end.copied + len, end.cpu, end.thread);
        end.copied = to;
        if let Some(place) = self.place_of_socket(index, side, cpu) {
            let seq = self.streams[index].seq(1 - side, to);
            let truth = self.truth(index, raw::RAW_COPY, 1 - side, from, to);
            let is_recorded =
                self.probes.hit(place, truth, None, |common| hits::copy(common, seq, thread));
            if is_recorded {
                self.probes.note_thread(place.slot, 2 + side, truth.flow ^ 1, thread);
            }
        }
        self.read_later(index, side);
        self.send_later(index, 1 - side, 500);
    }

    /// Both ends are done, or one of them gives up: the sockets are destroyed, and others take their place.
    fn close_if_done(&mut self, index: usize) {
        let is_done = |end: &End| {
            end.is_fin_acknowledged && end.is_fin_received && end.copied == end.received
        };
        let is_cut = self.is_late() && self.rng.once_in(500) || self.rng.once_in(20_000);
        let is_cut = is_cut && self.plan.bulk.is_none();
        if !is_cut && !self.streams[index].ends.iter().all(is_done) {
            return;
        }
        for side in [0, 1] {
            if self.streams[index].ends[side].is_here {
                self.stream_event(index, side, CLOSE);
            }
        }
        let stream = &mut self.streams[index];
        stream.is_open = false;
        let addresses: Vec<u64> = stream.ends.iter().map(|end| end.address).collect();
        self.addresses.extend(addresses);
        if let Some((slot, number)) = stream.slot {
            self.probes.end(slot, number);
        }
        let delay_ns = self.rng.size(1_000_000);
        self.after(delay_ns, Action::Open);
    }

    /// An event for each socket that is open.
    pub(super) fn announce_streams(&mut self) {
        for index in 0..self.streams.len() {
            for side in [0, 1] {
                let stream = &self.streams[index];
                if stream.is_open && stream.slot.is_some() && stream.ends[side].is_here {
                    let kind = u32::from(raw::EVENT_OPEN_STILL);
                    let event = RawEvent { kind, ..stream.state(side, ESTABLISHED) };
                    self.probes.event(event);
                }
            }
        }
    }
}
