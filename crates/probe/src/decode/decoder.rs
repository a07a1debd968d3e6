//! The decoder's state, and the way of a raw record through it: a record of TCP to the sides of its
//! flow, one of UDP to the datagrams of its flow or the queue of its socket.
//!
//! Raw records are in order of time, except those that CPUs wrote at nearly the same time. Times are
//! nanoseconds of the trace's clock.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use sockscope_record::{Connection, ControlGroup, Kind, Record, Side};

use super::age::{Age, Unknown};
use super::connections::Connections;
use super::early_options::Early;
use super::flow_state::ConnectionState;
use super::hit::{Head, Hit, point_of_raw};
use super::hops::DeviceNames;
use super::incoming::Incoming;
use super::missed::MissedTracker;
use super::tcp;
use super::threads::Threads;
use super::udp::Packet;
use super::udp_buffers::UdpBuffers;
use super::udp_sockets::Sockets;
use super::unknown_positions::UnknownPositions;
use crate::layout::{Raw, RawRecord, constants as raw};

/// Control groups, by the number of a process and that of its group of version 2.
pub(crate) type Groups = HashMap<(u32, u64), Arc<ControlGroup>>;

/// Connections whose announcements can have been lost in a row.
const NUMBERS_SKIPPED_MAX: usize = 1 << 20;

/// Turns raw records and events into [`Record`]s and [`Connection`]s.
#[derive(Default)]
pub(crate) struct Decoder {
    pub(super) connections: Connections,
    pub(super) early: Early,
    pub(super) udp_buffers: UdpBuffers,
    pub(super) sockets: Sockets,
    pub(super) incoming: Incoming,
    /// Datagrams with an unknown time of reading, since last asked.
    pub(super) unplaced_reads: u64,
    pub(super) threads: Threads,
    pub(super) age: Age,
    pub(super) changed: BTreeSet<u32>,
    /// Forgotten since the last call of [`Decoder::take_forgotten`], and the last rows of those that had
    /// changed.
    pub(super) forgotten: Vec<u32>,
    pub(super) last_rows: Vec<Connection>,
    pub(super) of_others: Vec<u32>,
    pub(super) out: Vec<Record>,
    /// Records of events, in order of time, that wait for the hits before them.
    pub(super) of_events: VecDeque<Record>,
    /// The offset from the scheduler's clock to the trace's; `None` until calibrated.
    pub(super) scheduler_offset_ns: Option<i64>,
    /// Whether point 5 has a hook of its own now; without it, loopback's is point 4.
    pub(super) sees_input: bool,
    pub(super) missed: MissedTracker,
    /// Of any connection, and of those of others.
    pub(super) unknown_positions: [UnknownPositions; 2],
    pub(super) unknown: Unknown,
    /// Of the processes of the next events.
    pub(super) groups: Groups,
    /// When a connection was last left out on the way; 0 for never.
    pub(super) left_out_ns: u64,
    pub(super) device_names: DeviceNames,
}

impl Decoder {
    /// Records decoded since the last call; the buffer keeps its room.
    pub(crate) fn records(&mut self) -> &mut Vec<Record> {
        &mut self.out
    }

    /// Names the control groups of the processes that the next events show.
    pub(crate) fn set_groups(&mut self, groups: Groups) {
        self.groups = groups;
    }

    /// Connections that opened since the last call because other users asked for them.
    pub(crate) fn take_of_others(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.of_others)
    }

    /// Connections with new information since the last call.
    pub(crate) fn take_changed(&mut self) -> Vec<Connection> {
        let ids = std::mem::take(&mut self.changed);
        let mut rows = std::mem::take(&mut self.last_rows);
        rows.extend(ids.into_iter().filter_map(|id| Some(self.state(id)?.row())));
        rows
    }

    /// Connections that were forgotten since the last call: no row and no record of them follows.
    pub(crate) fn take_forgotten(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.forgotten)
    }

    /// Sets the offset of the scheduler's clock from the trace's, from now on.
    pub(crate) fn calibrate(&mut self, scheduler_offset_ns: i64) {
        self.scheduler_offset_ns = Some(scheduler_offset_ns);
    }

    /// Whether packets entering the input queue have a hook of their own, from now on.
    pub(crate) fn see_input(&mut self, sees_input: bool) {
        self.sees_input = sees_input;
    }

    /// Events up to a time become records, behind those of the hits decoded so far.
    pub(crate) fn report_events(&mut self, until_ns: u64) {
        while let Some(&record) = self.of_events.front()
            && record.at_ns <= until_ns
        {
            self.of_events.pop_front();
            self.out.push(record);
        }
    }

    /// Puts the record of an event between those of the hits before and after it.
    pub(super) fn report_in_time(&mut self, record: Record) {
        let later = self.of_events.partition_point(|earlier| earlier.at_ns <= record.at_ns);
        self.of_events.insert(later, record);
        debug_assert!(self.of_events.iter().is_sorted_by_key(|record| record.at_ns));
    }

    /// One hit of a probe.
    pub(crate) fn raw(&mut self, cpu: u16, record: &RawRecord) {
        let head = Head::of(cpu, record.any());
        if self.missed.is_over(head.at_ns) || self.lost_its_slot(&head) {
            return;
        }
        self.report_events(head.at_ns);
        match record.by_kind() {
            Some(Raw::UdpCopy(raw)) => self.read(head, raw),
            Some(Raw::UdpPacket(raw)) => self.datagrams(head, Packet::passed(raw)),
            Some(Raw::UdpReady(raw)) => self.datagrams(head, Packet::ready(raw)),
            Some(Raw::UdpDrop(raw)) => self.datagrams(head, Packet::dropped(raw)),
            Some(raw) => self.segment(head, raw),
            None => {}
        }
    }

    /// One hit of TCP.
    fn segment(&mut self, head: Head, raw: Raw<'_>) {
        let Some(state) = self.connections.of_mut(head.flow / 2) else {
            self.unknown.note(head.kind);
            return;
        };
        if state.is_left_out(head.at_ns) {
            return;
        }
        state.last_ns = head.at_ns;
        let head = if state.is_to_itself { head.folded_to_itself() } else { head };
        let point = point_of_raw(head.kind);
        let of_others = state.of_others;
        let unknown_positions = &mut self.unknown_positions[usize::from(of_others)];
        if let Raw::Anchor(raw) = raw {
            state.anchor(&head, raw, self.missed.missed_until(of_others), unknown_positions);
            return;
        }
        if !state.is_placed(&head, unknown_positions, point) {
            self.missed.unplaced(head.at_ns, point, of_others);
            return;
        }
        let enters_at_once = !self.sees_input && head.marks & raw::MARK_LOOPBACK != 0;
        let mut hit = Hit {
            head,
            out: &mut self.out,
            threads: &mut self.threads,
            scheduler_offset_ns: self.scheduler_offset_ns,
            enters_at_once,
            lost_until_ns: self.missed.lost_until_ns(of_others, head.at_ns),
            is_passed_over: false,
            has_no_position: false,
        };
        let before = hit.out.len();
        tcp::decode(&mut hit, state, raw);
        if let (true, Some(at)) = (hit.is_passed_over, point) {
            let since_ns = self.missed.missed_until(of_others)[at.index()];
            unknown_positions.leave(point, since_ns, head.at_ns);
        } else if hit.has_no_position {
            unknown_positions.leave(point, state.info.opened_ns, head.at_ns);
        }
        let hop = self.out.get(before).filter(|record| record.kind == Kind::Hop);
        let named = hop.and_then(|record| {
            let flow = &mut state.flows[record.flow.direction() as usize];
            flow.path.hop_names.of(record, &self.device_names)
        });
        self.out.extend(named);
        self.missed.follow(state, &self.out[before..], head.at_ns);
    }

    /// Ends the recording: everything held back becomes records.
    pub(crate) fn finish(&mut self) {
        self.report_events(u64::MAX);
        for state in self.connections.iter_mut() {
            for flow in &mut state.flows {
                flow.settle(self.missed.missed_until(state.of_others), &mut self.out);
            }
        }
    }

    pub(super) fn state(&self, id: u32) -> Option<&ConnectionState> {
        self.connections.get(id)
    }

    pub(super) fn state_mut(&mut self, id: u32) -> Option<&mut ConnectionState> {
        self.connections.of_mut(id)
    }

    /// `None` for a number that cannot have followed those before.
    pub(super) fn insert(&mut self, info: Connection) -> Option<&mut ConnectionState> {
        let id = info.id.0;
        if id as usize > self.connections.end() + NUMBERS_SKIPPED_MAX {
            return None;
        }
        self.changed.insert(id);
        Some(self.connections.insert(id, ConnectionState::new(info)))
    }
}

/// The thread that sends or reads by this record, and at which end.
fn user(record: &Record) -> Option<(u32, Side)> {
    let direction = record.flow.direction();
    match record.kind {
        Kind::WriteCall => Some((record.thread, direction.sender())),
        Kind::ReceiveDequeue => Some((record.thread, direction.receiver())),
        _ => None,
    }
}

/// Notes the users that records of datagrams show at the two ends.
pub(super) fn name_users(
    state: &mut ConnectionState,
    shown: &[Record],
    changed: &mut BTreeSet<u32>,
) {
    for record in shown {
        let is_named = user(record).is_some_and(|(thread, side)| state.promote(thread, side));
        if state.uses_datagrams(record) || is_named {
            changed.insert(state.info.id.0);
        }
    }
}
