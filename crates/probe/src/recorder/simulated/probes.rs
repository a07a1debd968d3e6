//! The kernel half of the probes, in the recorder's view: lists, slots, anchors and counters.
//!
//! It follows `bpf/list.h`, `bpf/anchor.h`, `bpf/flow.h` and `bpf/receive.h` step by step.

use std::collections::{BTreeMap, VecDeque};

use sockscope_record::LossCounts;

use super::hits::{self, Common};
use super::plan::Plan;
use super::rng::Rng;
use super::truth::{Fate, Hit, Truth};
use crate::decode::point_of_raw;
use crate::hooks::When;
use crate::layout::{RawAny, RawEvent, RawRecord, constants as raw};
use crate::lists::{KINDS, Shape};
use crate::programs::Counters;

const ANCHORING: u8 = 1;

/// The list of one CPU.
pub(super) struct List {
    pub(super) head: u64,
    pub(super) tail: u64,
    pub(super) records: Vec<RawRecord>,
    pub(super) lost: [u64; KINDS],
    pub(super) last_ns: u64,
    /// Sockets by address: their slot, the connection that it had, and their direction.
    known: BTreeMap<u64, Known>,
    /// A datagram in transit to a socket on this CPU.
    pub(super) on_its_way: Option<OnItsWay>,
}

#[derive(Clone, Copy)]
struct Known {
    slot: usize,
    connection: u32,
    direction: u32,
}

/// A datagram that IP took, with the flow of its record.
#[derive(Clone, Copy)]
pub(super) struct OnItsWay {
    pub(super) flow: u32,
    pub(super) datagram: hits::Datagram,
}

/// A slot of the table of connections.
#[derive(Clone, Copy, Default)]
pub(super) struct Slot {
    /// 0: it is free.
    pub(super) connection: u32,
    missed: u8,
    pub(super) is_of_datagrams: bool,
    pub(super) used_ns: u64,
    /// The threads that were seen last, by direction: writers, then readers.
    threads: [u32; 4],
}

/// A socket as a hit sees it.
#[derive(Clone, Copy)]
pub(super) struct Socket {
    pub(super) direction: u32,
    pub(super) counters: hits::Counters,
}

/// The place of one hit.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) cpu: usize,
    pub(super) slot: usize,
    /// The socket, where the hook has it; `None` also for datagrams.
    pub(super) socket: Option<Socket>,
}

/// A record that is begun, and the time when its program continues.
struct Unfinished {
    until_ns: u64,
    cpu: usize,
    number: u64,
}

pub(super) struct Probes {
    pub(super) now_ns: u64,
    rng: Rng,
    pub(super) lists: Vec<List>,
    pub(super) slots: Vec<Slot>,
    pub(super) attached: Vec<When>,
    pub(super) counters: Counters,
    pub(super) interrupted: LossCounts,
    pub(super) events: VecDeque<RawEvent>,
    ring_events: usize,
    unfinished: Vec<Unfinished>,
    not_run_in: u64,
    untraced_ns: u64,
    untraced_every_ns: u64,
    unfinished_in: u64,
    last_connection: u32,
    /// Whether a datagram's send call is running.
    pub(super) is_in_send_call: bool,
    /// Whether the kernel ran no program at the last hit.
    is_skipping: bool,
    pub(super) truth: Truth,
}

impl Probes {
    pub(super) fn new(plan: &Plan, rng: Rng) -> Self {
        let list = |_| List {
            head: 0,
            tail: 0,
            records: vec![RawRecord::default(); plan.list_records as usize],
            lost: [0; KINDS],
            last_ns: 0,
            known: BTreeMap::new(),
            on_its_way: None,
        };
        Self {
            now_ns: 1_000_000_000,
            rng,
            lists: (0..plan.cpus).map(list).collect(),
            slots: vec![Slot::default(); plan.slots],
            attached: vec![When::Always, When::Datagrams],
            counters: Counters::default(),
            interrupted: LossCounts::default(),
            events: VecDeque::new(),
            ring_events: plan.ring_events,
            unfinished: Vec::new(),
            not_run_in: plan.not_run_in,
            untraced_ns: plan.untraced_ns,
            untraced_every_ns: plan.untraced_every_ns,
            unfinished_in: plan.unfinished_in,
            last_connection: 0,
            is_in_send_call: false,
            is_skipping: false,
            truth: Truth::default(),
        }
    }

    pub(super) fn shape(&self) -> Shape {
        Shape {
            cpus: (0..self.lists.len() as u16).collect(),
            records: self.lists[0].records.len() as u64,
        }
    }

    /// A reading of the clock: no two are the same.
    pub(super) fn tick(&mut self) -> u64 {
        self.now_ns += self.rng.range(1, 60);
        self.now_ns
    }

    /// Programs that were interrupted go on.
    pub(super) fn finish_records(&mut self) {
        let now_ns = self.now_ns;
        let Self { unfinished, lists, .. } = self;
        unfinished.retain(|one| {
            let is_due = one.until_ns <= now_ns;
            if is_due {
                lists[one.cpu].place(one.number).any.stamp = one.number + 1;
            }
            !is_due
        });
    }

    /// Puts an event into the ring, if that has room.
    pub(super) fn event(&mut self, event: RawEvent) {
        let at_ns = self.tick();
        if self.events.len() == self.ring_events {
            self.counters.events_lost += 1;
        } else {
            self.events.push_back(RawEvent { at_ns, ..event });
        }
    }

    /// A connection gets a slot and a number. A slot of datagrams gives way where none is free; its
    /// connection is the second value, or 0.
    pub(super) fn open(&mut self, is_of_datagrams: bool) -> Option<(usize, u32)> {
        let free = self.slots.iter().position(|slot| slot.connection == 0);
        let oldest = || {
            let slots = self.slots.iter().enumerate().filter(|(_, slot)| slot.is_of_datagrams);
            Some(slots.min_by_key(|(_, slot)| slot.used_ns)?.0)
        };
        let Some(index) = free.or_else(oldest) else {
            self.counters.connections_refused += 1;
            return None;
        };
        let replaced = self.slots[index].connection;
        self.last_connection += 1;
        self.slots[index] = Slot {
            connection: self.last_connection,
            is_of_datagrams,
            used_ns: self.now_ns,
            ..Slot::default()
        };
        Some((index, replaced))
    }

    /// The connection is over: its slot is free.
    pub(super) fn end(&mut self, slot: usize, connection: u32) {
        if self.slots[slot].connection != connection {
            return;
        }
        self.slots[slot].connection = 0;
        self.event(RawEvent {
            kind: u32::from(raw::EVENT_GONE),
            connection,
            ..RawEvent::default()
        });
    }

    /// `leave_out_slot()` of `bpf/measure.h`. Without room for the event the connection keeps its slot.
    pub(super) fn leave_out(&mut self, slot: usize) {
        let connection = self.slots[slot].connection;
        if connection == 0 || self.events.len() == self.ring_events {
            return;
        }
        let kind = u32::from(raw::EVENT_LEFT_OUT);
        self.event(RawEvent { kind, connection, ..RawEvent::default() });
        self.truth.left_out.insert(connection, self.now_ns);
        self.counters.connections_left_out_later += 1;
        self.slots[slot].connection = 0;
    }

    /// The slot and direction of a socket by its address, as long as the connection there is the one looked up
    /// before; else by its own connection's slot.
    pub(super) fn slot_of_socket(
        &mut self,
        cpu: usize,
        address: u64,
        own: (usize, u32, u32),
    ) -> Option<(usize, u32)> {
        if let Some(known) = self.lists[cpu].known.get(&address)
            && self.slots[known.slot].connection == known.connection
        {
            return Some((known.slot, known.direction));
        }
        let (slot, connection, direction) = own;
        if self.slots[slot].connection != connection {
            return None;
        }
        self.lists[cpu].known.insert(address, Known { slot, connection, direction });
        Some((slot, direction))
    }

    /// A thread is seen to write (0, 1) or to read (2, 3) for the first time since another one.
    pub(super) fn note_thread(&mut self, slot: usize, role: usize, flow: u32, thread: u32) {
        if std::mem::replace(&mut self.slots[slot].threads[role], thread) != thread {
            self.event(RawEvent {
                kind: u32::from(raw::EVENT_THREAD),
                flow,
                pid: thread,
                thread,
                ..RawEvent::default()
            });
        }
    }

    /// One hit of one probe. Its record, if it has one, is made by `make`; `truth` is completed.
    ///
    /// `taken_ns` is the time of the record where this CPU had no later hit.
    pub(super) fn hit(
        &mut self,
        place: Place,
        truth: Hit,
        taken_ns: Option<u64>,
        make: impl FnOnce(Common) -> RawRecord,
    ) -> bool {
        let class = match truth.kind {
            raw::RAW_INPUT => When::Devices,
            raw::RAW_COPY if truth.datagram > 0 => When::Datagrams,
            _ => When::Always,
        };
        if !self.attached.contains(&class) {
            return false;
        }
        self.is_skipping = self.is_skipped(&truth, place.cpu);
        if self.is_skipping {
            let at_ns = self.tick();
            self.log(truth, at_ns, Fate::Skipped);
            return false;
        }
        if self.rng.once_in(self.not_run_in) {
            self.interrupted.add(point_of_raw(truth.kind), 1);
            let at_ns = self.tick();
            self.log(truth, at_ns, Fate::NotRun);
            return false;
        }
        let Place { cpu, slot, socket } = place;
        if let Some(socket) = socket
            && self.slots[slot].missed & raw::MARK_ADRIFT > 0
        {
            self.write_anchor(cpu, slot, socket);
        }
        let positions = self.slots[slot].missed & (raw::MARK_ADRIFT | raw::MARK_ODD);
        let marks = if truth.datagram > 0 { raw::MARK_UDP } else { positions };
        let taken_ns = taken_ns.filter(|taken_ns| *taken_ns >= self.lists[cpu].last_ns);
        let at_ns = taken_ns.unwrap_or_else(|| self.tick());
        let Some(number) = self.take_place(cpu) else {
            self.lists[cpu].lost[usize::from(truth.kind)] += 1;
            let missed = &mut self.slots[slot].missed;
            *missed = *missed & raw::MARK_ODD | raw::MARK_ADRIFT;
            self.log(truth, at_ns, Fate::Refused);
            return false;
        };
        // By the slot, which should be that of the connection.
        let flow = self.slots[slot].connection * 2 + (truth.flow & 1);
        let mut record = make(Common { at_ns, flow, marks });
        if matches!(truth.kind, raw::RAW_WRITE | raw::RAW_COPY) {
            // describe_thread()
            let any = *record.any();
            let run_delay_ns = hits::run_delay_ns(any.thread, at_ns);
            record.any = RawAny { longs: [run_delay_ns, any.longs[1]], ..any };
            self.truth.calls.push((any.thread, at_ns, flow / 2));
        }
        if (raw::RAW_QUEUED..=raw::RAW_RECEIVE).contains(&truth.kind) {
            self.slots[slot].used_ns = at_ns;
        }
        self.lists[cpu].last_ns = at_ns;
        self.write(cpu, number, record);
        self.log(truth, at_ns, Fate::Delivered);
        true
    }

    /// Whether the hit is of a softirq that interrupts the process which the kernel keeps from being traced. Send
    /// and receive calls are not, nor is a datagram that its send call gives to a device. A SYN is recorded, as it gives
    /// the stream its positions. A datagram enters its receive queue, or is dropped, in the softirq of the hit before.
    fn is_skipped(&self, truth: &Hit, cpu: usize) -> bool {
        let is_datagram = truth.datagram > 0;
        if is_datagram && matches!(truth.kind, raw::RAW_READY | raw::RAW_DROP) {
            return self.is_skipping;
        }
        let is_softirq = match truth.kind {
            raw::RAW_WRITE | raw::RAW_COPY => false,
            _ => !self.is_in_send_call,
        };
        let is_untraced = self.untraced_ns > 0
            && self.now_ns % self.untraced_every_ns < self.untraced_ns
            && cpu == 0;
        is_untraced && is_softirq && (is_datagram || truth.to > 0)
    }

    fn log(&mut self, truth: Hit, at_ns: u64, fate: Fate) {
        let since_ns = if truth.since_ns > 0 { truth.since_ns } else { at_ns };
        self.truth.hits.push(Hit { at_ns, since_ns, fate, ..truth });
    }

    fn take_place(&mut self, cpu: usize) -> Option<u64> {
        let list = &mut self.lists[cpu];
        if list.is_full() {
            return None;
        }
        list.head += 1;
        Some(list.head - 1)
    }

    /// Fills a place; its stamp may follow later.
    fn write(&mut self, cpu: usize, number: u64, mut record: RawRecord) {
        let place = self.lists[cpu].place(number);
        let is_unfinished = self.rng.once_in(self.unfinished_in);
        record.any.stamp = if is_unfinished { place.any().stamp } else { number + 1 };
        *place = record;
        if is_unfinished {
            let until_ns = self.now_ns + self.rng.size(5_000_000);
            self.unfinished.push(Unfinished { until_ns, cpu, number });
        }
    }

    /// `write_anchor()` of `bpf/anchor.h`.
    fn write_anchor(&mut self, cpu: usize, slot: usize, socket: Socket) {
        let odd = self.slots[slot].missed & raw::MARK_ODD;
        self.slots[slot].missed = odd | raw::MARK_ADRIFT | ANCHORING;
        let Some(number) = self.take_place(cpu) else { return };
        let odd = odd ^ raw::MARK_ODD;
        let at_ns = self.tick();
        let flow = self.slots[slot].connection * 2 + socket.direction;
        let mut anchor = hits::anchor(Common { at_ns, flow, marks: odd }, socket.counters);
        anchor.any.stamp = number + 1;
        *self.lists[cpu].place(number) = anchor;
        self.truth.anchors += 1;
        // Another CPU may miss a hit of this connection at this moment.
        if self.rng.once_in(8) {
            self.miss_elsewhere(slot, flow);
        }
        if self.slots[slot].missed & ANCHORING > 0 {
            self.slots[slot].missed = odd;
        }
    }

    /// The drop of a packet without data is missed on a CPU whose list is full, if there is one.
    fn miss_elsewhere(&mut self, slot: usize, flow: u32) {
        let Some(full) = self.lists.iter().position(List::is_full) else { return };
        let truth = Hit {
            at_ns: 0,
            since_ns: 0,
            kind: raw::RAW_DROP,
            fate: Fate::Refused,
            flow,
            from: 0,
            to: 0,
            acknowledged: 0,
            acknowledges_fin: false,
            datagram: 0,
        };
        let place = Place { cpu: full, slot, socket: None };
        self.hit(place, truth, None, |common| hits::drop(common, hits::Header::default()));
    }
}

impl List {
    fn is_full(&self) -> bool {
        let shape = Shape { cpus: Vec::new(), records: self.records.len() as u64 };
        self.head - self.tail >= shape.room()
    }

    pub(super) fn place(&mut self, number: u64) -> &mut RawRecord {
        let index = number as usize & (self.records.len() - 1);
        &mut self.records[index]
    }
}
