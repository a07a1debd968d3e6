//! State that all hosts share: events, frames, links, observations.

use std::net::{IpAddr, SocketAddr};

use sockscope_record::{
    Connection, ConnectionId, Direction, FlowId, Process as RecordedProcess, Protocol, Record, Side,
};
use sockscope_stack::Endpoint;

use crate::event::{Event, EventQueue};
use crate::link::{Frames, Link, LinkContext, LinkId, Outside};
use crate::payload::Payload;
use crate::program::{Damage, Note};
use crate::scenario::LogPolicy;
use crate::sink::{Activity, RecordSink};

/// Linux's number of the state CLOSED in records of [`sockscope_record::Kind::StateChange`].
const TCP_CLOSE: u8 = 7;

fn address((ip, port): Endpoint) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(ip), port)
}

/// Takes observations off the hands of the simulation; every sink does.
pub(crate) trait Observer {
    /// Takes these, which are in order of time.
    fn observe(&mut self, records: &[Record], activities: &[Activity]);
}

impl<S: RecordSink> Observer for S {
    fn observe(&mut self, records: &[Record], activities: &[Activity]) {
        for record in records {
            self.record(record);
        }
        for activity in activities {
            self.activity(*activity);
        }
    }
}

/// Observations held back so that they are handed over many at a time.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    records: Vec<Record>,
    activities: Vec<Activity>,
    /// The latest time at which a host with a clock of its own observed something.
    stamped_ns: Option<u64>,
}

/// A host's own clock is behind by less than this, its unit.
const CLOCK_UNIT_NS: u64 = 1000;

/// Observations held back, about.
const HELD_MAX: usize = 64;

impl Observed {
    /// Adds a record.
    pub(crate) fn add(&mut self, record: Record) {
        self.records.push(record);
    }

    /// Adds a record with the time of its host's own clock, which may be some microseconds apart from `now_ns`.
    pub(crate) fn add_stamped(&mut self, record: Record, now_ns: u64) {
        self.stamped_ns = Some(now_ns);
        self.records.push(record);
    }

    /// Hands everything over if it has become much.
    pub(crate) fn limit(&mut self, observer: &mut dyn Observer) {
        if self.records.len() >= HELD_MAX || self.activities.len() >= HELD_MAX {
            self.hand_over(observer);
        }
    }

    /// Hands everything over that no later record can precede.
    pub(crate) fn hand_over(&mut self, observer: &mut dyn Observer) {
        match self.stamped_ns {
            None => self.hand_over_first(self.records.len(), observer),
            Some(now_ns) => {
                self.records.sort_by_key(|record| record.at_ns);
                let settled = |record: &Record| record.at_ns + CLOCK_UNIT_NS <= now_ns;
                self.hand_over_first(self.records.partition_point(settled), observer);
            }
        }
    }

    /// Hands everything over: nothing follows.
    pub(crate) fn end(&mut self, observer: &mut dyn Observer) {
        self.records.sort_by_key(|record| record.at_ns);
        self.hand_over_first(self.records.len(), observer);
    }

    fn hand_over_first(&mut self, count: usize, observer: &mut dyn Observer) {
        let records = &self.records[..count];
        debug_assert!(records.is_sorted_by_key(|record| record.at_ns), "records out of order");
        debug_assert!(self.activities.is_sorted_by_key(|it| it.at_ns), "activities out of order");
        observer.observe(records, &self.activities);
        self.records.drain(..count);
        self.activities.clear();
    }
}

/// State that all hosts share.
pub(crate) struct Shared {
    pub(crate) events: EventQueue<Event>,
    pub(crate) frames: Frames,
    pub(crate) links: Vec<Link>,
    pub(crate) observed: Observed,
    pub(crate) log: LogPolicy,
    pub(crate) wants_records: bool,
    pub(crate) payload: Payload,
    pub(crate) notes: Vec<Note>,
    pub(crate) damage: Vec<Damage>,
    pub(crate) connections: Vec<Connection>,
    /// For each connection, the last process seen at either end.
    seen: Vec<[u32; 2]>,
    /// Processes that the run waits for and that have not ended.
    pub(crate) working: u32,
    /// Before when everything has to happen in this run; 0 once no program works, when it may be over
    /// at any time.
    pub(crate) end_ns: u64,
    /// Names of processes by number.
    pub(crate) names: Vec<String>,
}

impl Shared {
    pub(crate) fn new(mut links: Vec<Link>, log: LogPolicy, wants_records: bool) -> Self {
        let mut events = EventQueue::default();
        for (at_ns, event) in links.iter_mut().flat_map(Link::first_events) {
            events.schedule(at_ns, event);
        }
        Self {
            events,
            frames: Frames::default(),
            links,
            observed: Observed::default(),
            wants_records,
            log,
            payload: Payload::default(),
            notes: Vec::new(),
            damage: Vec::new(),
            connections: Vec::new(),
            seen: Vec::new(),
            working: 0,
            end_ns: 0,
            names: vec![String::new()],
        }
    }

    /// Whether hosts have to look at events or at the end of the run before they go on at `at_ns`.
    pub(crate) fn is_beyond(&self, at_ns: u64) -> bool {
        at_ns >= self.events.next_ns() || at_ns >= self.end_ns
    }

    /// A process has ended that the run waits for.
    pub(crate) fn worker_ended(&mut self) {
        assert!(self.working > 0, "more processes have ended than worked");
        self.working -= 1;
        if self.working == 0 {
            self.end_ns = 0;
        }
    }

    /// Works on a link at `now_ns`.
    pub(crate) fn with_link<T>(
        &mut self,
        now_ns: u64,
        id: LinkId,
        work: impl FnOnce(&mut Link, &mut LinkContext<'_>) -> T,
    ) -> T {
        let mut context =
            LinkContext { now_ns, events: &mut self.events, frames: &mut self.frames };
        work(&mut self.links[id], &mut context)
    }

    /// A connection is about to be logged; the flow that its client sends.
    pub(crate) fn open_connection(&mut self, now_ns: u64, protocol: Protocol) -> FlowId {
        let id = ConnectionId(self.connections.len() as u32 + 1);
        let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
        self.connections.push(Connection {
            both_ends_here: true,
            ..Connection::new(id, protocol, [nowhere; 2], now_ns)
        });
        self.seen.push([0; 2]);
        id.flow(Direction::FromClient)
    }

    /// A packet from outside reaches the host at the end of this link at `at_ns`.
    pub(crate) fn deliver(&mut self, link: LinkId, at_ns: u64, packet: &[u8]) {
        let opens = self.outside(link).and_then(|outside| outside.opened_by(packet));
        let opened = opens.filter(|_| self.wants_records).map(|[client, server]| {
            let flow = self.open_connection(at_ns, Protocol::Tcp);
            self.name_connection(flow, client, server);
            self.ends_outside(flow);
            flow
        });
        let arrival = self.outside(link).and_then(|outside| outside.arrives(packet, opened));
        let Some((port, mark)) = arrival else { return };
        let id = self.frames.make();
        let frame = self.frames.frame_mut(id);
        frame.bytes.clear();
        frame.bytes.extend_from_slice(packet);
        frame.mark = mark;
        self.events.schedule(at_ns, Event::arrival(port, id));
    }

    /// The next packet that has left the simulation by this link, with its time.
    pub(crate) fn departed(&mut self, link: LinkId) -> Option<(u64, Vec<u8>)> {
        let (at_ns, frame) = self.outside(link)?.departed()?;
        if let Some(mark) = frame.mark {
            self.ends_outside(mark.flow);
        }
        Some((at_ns, frame.bytes))
    }

    fn outside(&mut self, link: LinkId) -> Option<&mut Outside> {
        self.links.get_mut(link)?.outside_mut()
    }

    /// One end of the connection is not simulated.
    fn ends_outside(&mut self, flow: FlowId) {
        if let Some(connection) = self.connection_mut(flow) {
            connection.both_ends_here = false;
        }
    }

    /// The addresses of a connection are known now.
    pub(crate) fn name_connection(&mut self, flow: FlowId, client: Endpoint, server: Endpoint) {
        if let Some(connection) = self.connection_mut(flow) {
            connection.client = address(client);
            connection.server = address(server);
        }
    }

    /// The flow of the datagrams that went from `client` to `server`, if such were logged.
    pub(crate) fn datagrams_between(&self, client: Endpoint, server: Endpoint) -> Option<FlowId> {
        let is_it = |it: &&Connection| {
            let ends = (it.client, it.server);
            it.protocol == Protocol::Udp && ends == (address(client), address(server))
        };
        let found = self.connections.iter().rev().find(is_it)?;
        Some(found.id.flow(Direction::FromClient))
    }

    fn connection_mut(&mut self, flow: FlowId) -> Option<&mut Connection> {
        let index = (flow.connection().0 as usize).checked_sub(1)?;
        self.connections.get_mut(index)
    }

    /// A connection's flow has entered this state.
    pub(crate) fn see_state(&mut self, now_ns: u64, flow: FlowId, state: u8) {
        if state == TCP_CLOSE
            && let Some(connection) = self.connection_mut(flow)
        {
            connection.closed_ns = Some(now_ns);
        }
    }

    /// The activity of a process changed.
    pub(crate) fn activity(&mut self, activity: Activity) {
        self.observed.activities.push(activity);
    }

    /// Notes that a process works at this end of a connection.
    pub(crate) fn see_process(&mut self, flow: FlowId, side: Side, thread: u32) {
        let index = (flow.connection().0 as usize).wrapping_sub(1);
        let Some(seen) = self.seen.get_mut(index) else { return };
        let seen = &mut seen[usize::from(side == Side::Server)];
        if *seen != thread {
            *seen = thread;
            self.add_process(flow, side, thread);
        }
    }

    fn add_process(&mut self, flow: FlowId, side: Side, thread: u32) {
        if thread == 0 {
            return; // no process's: an interrupt
        }
        let index = (flow.connection().0 as usize).wrapping_sub(1);
        let name = self.names.get(thread as usize).cloned().unwrap_or_default();
        let process = RecordedProcess::new(thread, name, side);
        let known = &mut self.connections[index].processes;
        if !known.contains(&process) {
            known.push(process);
        }
    }
}
