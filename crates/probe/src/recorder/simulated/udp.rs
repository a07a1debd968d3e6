//! Datagrams: flows to a few sockets, buffers that are used again at once, and threads that read.

use std::collections::VecDeque;

use super::hits::{self, Datagram};
use super::plan::Plan;
use super::probes::{OnItsWay, Place};
use super::rng::Rng;
use super::truth::{Fate, Hit};
use super::world::{Action, World};
use crate::layout::{RawEvent, constants as raw};

const IPPROTO_UDP: u8 = 17;
/// Datagrams of a flow in a queueing discipline that is always full.
const STANDING: usize = 16;
/// Between the numbers of two buffers.
const BUFFER_STEP: u32 = 32;

/// A step of datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Move {
    /// The sender of a flow sends its next datagram.
    Send(usize),
    /// The oldest datagram of a flow leaves the queueing discipline.
    Dequeue(usize),
    /// A datagram arrives by a device.
    Input(Way),
    /// IP takes a datagram.
    Receive(Way),
    /// A thread reads from this socket.
    Read(usize),
}

/// A datagram in transit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Way {
    flow: usize,
    number: u64,
    len: u32,
    buffer: u32,
}

/// A pair of sockets: one sends to the other.
struct Flow {
    slot: Option<(usize, u32)>,
    reader: usize,
    port: u32,
    thread: u32,
    cpu: usize,
    left: u64,
    lengths: u32,
    is_loopback: bool,
    is_queued: bool,
    /// Its datagrams in a queueing discipline.
    queue: VecDeque<Way>,
    /// Arrival of the last one, and the time when IP takes it.
    came_ns: [u64; 2],
}

/// A socket that gets datagrams.
#[derive(Default)]
struct Reader {
    /// Its number in reads; 0 before the first datagram was announced.
    number: u32,
    /// The flow of the last datagram that was announced.
    known_flow: u32,
    threads: u64,
    cpu: usize,
    queue: VecDeque<Way>,
    room: usize,
    is_reading: bool,
}

/// All sockets of datagrams.
pub(super) struct Datagrams {
    flows: Vec<Flow>,
    readers: Vec<Reader>,
    /// Buffers that are free: the last one freed is the next one used.
    buffers: Vec<u32>,
    last_number: u64,
    last_socket: u32,
}

impl Datagrams {
    pub(super) fn new(plan: &Plan, rng: &mut Rng) -> Self {
        let reader = |rng: &mut Rng| Reader {
            threads: if rng.once_in(4) { 2 } else { 1 },
            cpu: rng.index(plan.cpus),
            room: rng.range(2, 200) as usize,
            ..Reader::default()
        };
        let readers: Vec<Reader> = (0..plan.readers).map(|_| reader(rng)).collect();
        let flow = |number: usize, rng: &mut Rng| {
            let is_loopback = !plan.stands && rng.once_in(2);
            Flow {
                slot: None,
                reader: rng.index(plan.readers),
                port: 50_000 + number as u32,
                thread: 300 + number as u32,
                cpu: rng.index(plan.cpus),
                left: rng.size(2_000),
                lengths: rng.range(1, 4) as u32,
                is_loopback,
                is_queued: plan.stands || !is_loopback && rng.once_in(2),
                queue: VecDeque::new(),
                came_ns: [0; 2],
            }
        };
        Self {
            flows: (0..plan.flows).map(|number| flow(number, rng)).collect(),
            readers,
            buffers: (1..=512).map(|number| (1 << 31) | (number * BUFFER_STEP)).collect(),
            last_number: 0,
            last_socket: 0,
        }
    }
}

impl World {
    fn move_later(&mut self, delay_ns: u64, step: Move) {
        self.after(delay_ns, Action::Datagrams(step));
    }

    pub(super) fn step_datagrams(&mut self, step: Move) {
        match step {
            Move::Send(flow) => self.send_datagram(flow),
            Move::Dequeue(flow) => self.dequeue_datagram(flow),
            Move::Input(way) => {
                self.datagram(raw::RAW_INPUT, way);
                self.arrive_datagram(50_000, 1, Move::Receive(way));
            }
            Move::Receive(way) => self.receive_datagram(way),
            Move::Read(reader) => self.read_datagram(reader),
        }
    }

    fn send_datagram(&mut self, index: usize) {
        let is_late = self.is_late();
        if self.plan.stands && self.datagrams.flows[index].queue.len() >= STANDING {
            let pause_ns = self.rng.size(20_000);
            self.move_later(pause_ns, Move::Send(index));
            return;
        }
        let Some(buffer) = self.datagrams.buffers.pop() else { return };
        let flow = &mut self.datagrams.flows[index];
        if flow.left == 0 || is_late {
            self.datagrams.buffers.push(buffer);
            return;
        }
        flow.left -= 1;
        let len = 100 * (1 + self.rng.range(0, u64::from(flow.lengths)) as u32);
        let is_queued = flow.is_queued;
        self.datagrams.last_number += 1;
        let way = Way { flow: index, number: self.datagrams.last_number, len, buffer };
        self.open_flow(index);
        if is_queued {
            self.datagram(raw::RAW_QUEUED, way);
            self.datagrams.flows[index].queue.push_back(way);
            let is_first = self.datagrams.flows[index].queue.len() == 1;
            if is_first && !self.plan.stands && self.rng.once_in(2) {
                self.dequeue_datagram(index);
            } else if is_first {
                let delay_ns = self.rng.size(200_000);
                self.move_later(delay_ns, Move::Dequeue(index));
            }
        } else {
            self.transmit_datagram(way);
        }
        let pause_ns = self.rng.size(if self.plan.stands { 10_000 } else { 500_000 });
        self.move_later(pause_ns, Move::Send(index));
    }

    /// The flow has a slot, its own one or a new one.
    fn open_flow(&mut self, index: usize) {
        if self.slot_of_flow(index).is_some() {
            return;
        }
        let before = self.datagrams.flows[index].slot;
        if before.is_some_and(|(_, number)| self.probes.truth.left_out.contains_key(&number)) {
            return;
        }
        let Some((slot, replaced)) = self.probes.open(true) else {
            self.datagrams.flows[index].slot = None;
            return;
        };
        let number = self.probes.slots[slot].connection;
        let flow = &mut self.datagrams.flows[index];
        flow.slot = Some((slot, number));
        let (port, to) = (flow.port, 600 + flow.reader as u32);
        self.probes.truth.opened.push((number, port));
        let mut address = [0; 16];
        address[..4].copy_from_slice(&[10, 0, 0, 2]);
        self.probes.event(RawEvent {
            kind: u32::from(raw::EVENT_OPEN),
            connection: number,
            replaced,
            protocol: IPPROTO_UDP,
            family: 2,
            client_addr: address,
            server_addr: address,
            client_port: port as u16,
            server_port: to as u16,
            ..RawEvent::default()
        });
    }

    /// The slot of a flow and its number, as long as no other connection has it.
    fn slot_of_flow(&self, index: usize) -> Option<(usize, u32)> {
        let slot = self.datagrams.flows[index].slot;
        slot.filter(|(slot, number)| self.probes.slots[*slot].connection == *number)
    }

    fn truth_of(&self, kind: u8, flow: u32, way: Way) -> Hit {
        let to = u64::from(way.len);
        Hit {
            at_ns: 0,
            since_ns: 0,
            kind,
            fate: Fate::Delivered,
            flow,
            from: 0,
            to,
            acknowledged: 0,
            acknowledges_fin: false,
            datagram: way.number,
        }
    }

    /// A hit of points 3 to 6, or a drop; whether its record is in a list, and the CPU.
    fn datagram(&mut self, kind: u8, way: Way) -> (bool, usize) {
        let flow = &self.datagrams.flows[way.flow];
        let is_out = matches!(kind, raw::RAW_QUEUED | raw::RAW_TRANSMIT);
        let home = if is_out { flow.cpu } else { self.datagrams.readers[flow.reader].cpu };
        let thread = if is_out { flow.thread } else { 0 };
        let own = if flow.is_loopback { raw::MARK_LOOPBACK } else { 0 };
        let is_device = !flow.is_loopback;
        let is_direct = !flow.is_queued;
        let cpu = if self.rng.once_in(4) { self.rng.index(self.plan.cpus) } else { home };
        let Some((slot, number)) = self.slot_of_flow(way.flow) else { return (false, cpu) };
        let truth = self.truth_of(kind, number * 2, way);
        let place = Place { cpu, slot, socket: None };
        let shown = Datagram { len: way.len, buffer: way.buffer, thread };
        self.probes.is_in_send_call =
            kind == raw::RAW_QUEUED || kind == raw::RAW_TRANSMIT && is_direct;
        let is_recorded = self.probes.hit(place, truth, None, |common| {
            let common = hits::Common { marks: common.marks | own, ..common };
            hits::datagram(kind, common, shown)
        });
        self.probes.is_in_send_call = false;
        if is_recorded {
            self.probes.counters.udp_seen = 1;
            self.probes.counters.devices_seen |= u64::from(is_device && is_out);
        }
        (is_recorded, cpu)
    }

    fn dequeue_datagram(&mut self, index: usize) {
        let Some(way) = self.datagrams.flows[index].queue.pop_front() else { return };
        self.transmit_datagram(way);
        if !self.datagrams.flows[index].queue.is_empty() {
            let delay_ns = self.rng.size(20_000);
            self.move_later(delay_ns, Move::Dequeue(index));
        }
    }

    /// Does a step of a datagram behind those of its flow before it.
    fn arrive_datagram(&mut self, most_ns: u64, stage: usize, step: Move) {
        let (Move::Input(way) | Move::Receive(way)) = step else { return };
        let now_ns = self.probes.now_ns;
        let came_ns = now_ns + self.rng.size(most_ns);
        let last_ns = &mut self.datagrams.flows[way.flow].came_ns[stage];
        *last_ns = came_ns.max(*last_ns);
        let delay_ns = *last_ns - now_ns;
        self.move_later(delay_ns, step);
    }

    fn transmit_datagram(&mut self, way: Way) {
        self.datagram(raw::RAW_TRANSMIT, way);
        if self.rng.once_in(self.plan.dropped_in) {
            self.drop_datagram(way);
        } else if self.datagrams.flows[way.flow].is_loopback {
            self.datagram(raw::RAW_INPUT, way);
            self.arrive_datagram(20_000, 1, Move::Receive(way));
        } else {
            self.arrive_datagram(100_000, 0, Move::Input(way));
        }
    }

    fn drop_datagram(&mut self, way: Way) {
        self.datagram(raw::RAW_DROP, way);
        self.datagrams.buffers.push(way.buffer);
    }

    /// IP takes the datagram, and puts it into the queue of its socket.
    fn receive_datagram(&mut self, way: Way) {
        let (is_recorded, cpu) = self.datagram(raw::RAW_RECEIVE, way);
        if is_recorded {
            let flow = self.slot_of_flow(way.flow).map_or(0, |(_, number)| number * 2);
            let datagram = Datagram { len: way.len, buffer: way.buffer, thread: 0 };
            self.probes.lists[cpu].on_its_way = Some(OnItsWay { flow, datagram });
        }
        let index = self.datagrams.flows[way.flow].reader;
        let reader = &self.datagrams.readers[index];
        if reader.queue.len() == reader.room {
            self.drop_datagram(way);
            self.probes.lists[cpu].on_its_way = None;
            return;
        }
        self.announce_datagram(index, way, cpu);
        let reader = &mut self.datagrams.readers[index];
        reader.queue.push_back(way);
        if !std::mem::replace(&mut reader.is_reading, true) {
            let delay_ns = self.rng.size(400_000);
            self.move_later(delay_ns, Move::Read(index));
        }
    }

    /// `sk_data_ready` of the socket, where the datagram's record at IP gave its flow.
    fn announce_datagram(&mut self, index: usize, way: Way, cpu: usize) {
        let Some(OnItsWay { flow, datagram }) = self.probes.lists[cpu].on_its_way.take() else {
            return;
        };
        let reader = &mut self.datagrams.readers[index];
        reader.known_flow = flow;
        if reader.number == 0 {
            self.datagrams.last_socket += 1;
            reader.number = self.datagrams.last_socket;
            self.probes.event(RawEvent {
                kind: u32::from(raw::EVENT_SOCKET),
                connection: flow / 2,
                flow: flow ^ 1,
                number: reader.number,
                protocol: IPPROTO_UDP,
                sndbuf: 1,
                rcvbuf: 1,
                ..RawEvent::default()
            });
        }
        let socket = self.datagrams.readers[index].number;
        let truth = self.truth_of(raw::RAW_READY, flow, way);
        let place = Place { cpu, slot: 0, socket: None };
        self.probes.hit(place, truth, None, |common| {
            hits::datagram_ready(hits::Common { flow, ..common }, datagram, socket)
        });
    }

    fn read_datagram(&mut self, index: usize) {
        let reader = &mut self.datagrams.readers[index];
        reader.is_reading = false;
        let Some(way) = reader.queue.pop_front() else { return };
        let (socket, flow, cpu) = (reader.number, reader.known_flow, reader.cpu);
        let left = reader.queue.len() as u32;
        let threads = reader.threads;
        if left > 0 {
            reader.is_reading = true;
            let delay_ns = self.rng.size(300_000);
            self.move_later(delay_ns, Move::Read(index));
        }
        self.datagrams.buffers.push(way.buffer);
        if socket == 0 {
            return;
        }
        let thread = 500 + self.rng.range(0, threads) as u32;
        let truth = self.truth_of(raw::RAW_COPY, flow, way);
        let place = Place { cpu, slot: 0, socket: None };
        let datagram = Datagram { len: way.len, buffer: 0, thread };
        self.probes.hit(place, truth, None, |common| {
            hits::datagram_copy(hits::Common { flow, ..common }, datagram, socket, left)
        });
    }

    /// Ends flows without a hit for a long time.
    pub(super) fn expire(&mut self, from: u32, slots: u32, idle_ns: u64) {
        let some = from as usize..(from + slots) as usize;
        for index in some.start.min(self.plan.slots)..some.end.min(self.plan.slots) {
            let slot = self.probes.slots[index];
            let is_old = slot.used_ns + idle_ns < self.probes.now_ns;
            if slot.connection > 0 && slot.is_of_datagrams && is_old {
                self.probes.end(index, slot.connection);
            }
        }
    }

    /// The share falls below the hash of some connection, if the plan says so.
    pub(super) fn may_leave_out(&mut self) {
        if self.probes.truth.ended_ns.is_none() && self.rng.once_in(self.plan.left_out_in) {
            let slots = self.probes.slots.iter().enumerate();
            let taken = slots.filter(|(_, slot)| slot.connection > 0).map(|(index, _)| index);
            let taken: Vec<usize> = taken.collect();
            if !taken.is_empty() {
                let slot = taken[self.rng.index(taken.len())];
                self.probes.leave_out(slot);
            }
        }
    }
}
