//! Processes: clients that make one transaction after the other, and servers that answer at once.
//!
//! Each has an engine of `sockscope_vmtp` in the kernel of its host. A host asks a process that has
//! the CPU for its next [`Step`]; packets and time limits are handled at the level of interrupts.

use std::collections::VecDeque;

use sockscope_vmtp::server::{Incoming, RespondError};
use sockscope_vmtp::wire::{Entity, Header, Kind, Notice, NoticeTo};
use sockscope_vmtp::{Client, Config, Event, Options, Outcome, Request, Response, Server};

use super::machine::Machine;

/// The use of the CPU by a process.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It works in the kernel for so long.
    Work(u64),
    /// It sends a packet to a station.
    Send(u16, Vec<u8>),
    /// It waits for a packet.
    Sleep,
}

/// A process and its engine.
pub(super) trait Process {
    /// Whether a packet with this header is for it.
    fn takes(&self, header: &Header) -> bool;
    /// A packet arrived from a station.
    fn handle(&mut self, now_ns: u64, from: u16, packet: &[u8]);
    /// Whether a process that sleeps has a reason to wake up.
    fn is_awake(&self) -> bool;
    /// Its next step; its last one is over.
    fn step(&mut self, now_ns: u64, machine: &Machine) -> Result<Step, String>;
    /// Whether it sends its engine's packets itself, so that no interrupt needs to.
    fn is_sending(&self) -> bool;
    /// The engine's next packet, and its destination.
    fn transmit(&mut self, now_ns: u64) -> Option<(u16, Vec<u8>)>;
    /// When the engine's next time limit passes.
    fn timeout_ns(&self) -> u64;
    /// Time limits pass.
    fn time_out(&mut self, now_ns: u64);
    /// Its counts.
    fn tally(&self) -> Tally;
}

/// Counts of one process since it began.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Transactions of a client that ended.
    pub calls: Vec<Call>,
    /// Blocks of 512 octets that were sent again.
    pub blocks_again: u64,
    /// Requests sent again for lack of an answer.
    pub timeouts: u64,
    /// Calls of a client that got no response which could be used.
    pub failed: u64,
}

/// A transaction as its client sees it. Packets and their octets count from its beginning to its end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Call {
    /// When the program called, and when it had the response.
    pub began_ns: u64,
    /// See [`Call::began_ns`].
    pub ended_ns: u64,
    /// Packets that the client sent.
    pub packets_out: u64,
    /// Their octets, VMTP's header and checksum included.
    pub octets_out: u64,
    /// Packets that arrived for it.
    pub packets_in: u64,
    /// Their octets.
    pub octets_in: u64,
}

/// The request of every transaction.
#[derive(Debug, Clone)]
pub(super) struct Question {
    /// The addressed server.
    pub server: Entity,
    /// Where.
    pub to: u16,
    /// Octets of the segment.
    pub bytes: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClientPhase {
    /// It is about to call.
    Begin,
    /// The call has entered the kernel.
    Called,
    Sending,
    Asleep,
    /// It returns to the program.
    Waking {
        is_answered: bool,
    },
}

/// A client and its state.
pub(super) struct ClientProcess {
    engine: Client<u16>,
    question: Question,
    phase: ClientPhase,
    events: VecDeque<Event<u16>>,
    /// The transaction under way, and those that ended.
    call: Call,
    calls: Vec<Call>,
    /// Calls that failed; the client goes on with the next one.
    failed: u64,
}

impl ClientProcess {
    pub fn new(entity: Entity, question: Question, config: Config) -> Self {
        Self {
            engine: Client::new(entity, 1, config),
            question,
            phase: ClientPhase::Begin,
            events: VecDeque::new(),
            call: Call::default(),
            calls: Vec::new(),
            failed: 0,
        }
    }

    fn begin(&mut self, now_ns: u64) -> Result<(), String> {
        // Those of a call that failed are over.
        self.events.clear();
        let segment = vec![0x5a; self.question.bytes];
        let request = Request { code: 1, segment, ..Request::default() };
        let Question { server, to, .. } = self.question;
        let begun = self.engine.start(now_ns, server, to, request, Options::default());
        begun.map(|_| ()).map_err(|error| error.to_string())
    }

    /// The response, whose octets are copied to the user; `None` where the call failed: no answer
    /// arrived, or part of one.
    fn response(&mut self) -> Result<Option<Response<u16>>, String> {
        match self.events.pop_front() {
            Some(Event::Response(response)) if response.code == 0 => Ok(Some(response)),
            Some(Event::Response(_) | Event::Failed(_)) => Ok(None),
            Some(Event::Finished(_)) | None => Err("a client was woken without a response".into()),
        }
    }

    fn collect(&mut self) {
        while let Some(event) = self.engine.poll_event() {
            self.events.push_back(event);
        }
    }
}

impl Process for ClientProcess {
    fn takes(&self, header: &Header) -> bool {
        let notice = Notice::decode(header).filter(|notice| notice.to == NoticeTo::Client);
        let is_response = header.control.kind == Kind::Response;
        if !is_response && header.is_probe() {
            return header.entity(8) == self.engine.entity();
        }
        let client = if is_response { Some(header.client) } else { notice.map(|it| it.client) };
        client == Some(self.engine.entity())
    }

    fn handle(&mut self, now_ns: u64, from: u16, packet: &[u8]) {
        self.call.packets_in += 1;
        self.call.octets_in += packet.len() as u64;
        self.engine.handle(now_ns, from, packet);
        self.collect();
    }

    fn is_awake(&self) -> bool {
        match self.phase {
            ClientPhase::Asleep => !self.events.is_empty(),
            _ => true,
        }
    }

    fn step(&mut self, now_ns: u64, machine: &Machine) -> Result<Step, String> {
        match self.phase {
            ClientPhase::Begin => {
                self.call = Call { began_ns: now_ns, ..Call::default() };
                self.phase = ClientPhase::Called;
                Ok(Step::Work(machine.crossing_ns()))
            }
            ClientPhase::Called => {
                self.begin(now_ns)?;
                self.phase = ClientPhase::Sending;
                self.step(now_ns, machine)
            }
            ClientPhase::Sending => match self.transmit(now_ns) {
                Some((to, packet)) => Ok(Step::Send(to, packet)),
                None => {
                    self.phase = ClientPhase::Asleep;
                    Ok(Step::Sleep)
                }
            },
            ClientPhase::Asleep => {
                let response = self.response()?;
                self.phase = ClientPhase::Waking { is_answered: response.is_some() };
                let bytes = response.map_or(0, |response| response.segment.len());
                Ok(Step::Work(machine.crossing_ns() + machine.copy_ns(bytes)))
            }
            ClientPhase::Waking { is_answered } => {
                if is_answered {
                    self.calls.push(Call { ended_ns: now_ns, ..self.call });
                } else {
                    self.failed += 1;
                }
                self.phase = ClientPhase::Begin;
                self.step(now_ns, machine)
            }
        }
    }

    fn is_sending(&self) -> bool {
        self.phase == ClientPhase::Sending
    }

    fn transmit(&mut self, now_ns: u64) -> Option<(u16, Vec<u8>)> {
        let mut packet = Vec::new();
        let to = self.engine.poll_transmit(now_ns, &mut packet)?;
        self.call.packets_out += 1;
        self.call.octets_out += packet.len() as u64;
        Some((to, packet))
    }

    fn timeout_ns(&self) -> u64 {
        self.engine.poll_timeout().unwrap_or(u64::MAX)
    }

    fn time_out(&mut self, now_ns: u64) {
        self.engine.handle_timeout(now_ns);
        self.collect();
    }

    fn tally(&self) -> Tally {
        let counters = self.engine.counters();
        Tally {
            calls: self.calls.clone(),
            blocks_again: counters.blocks_again,
            timeouts: counters.timeouts,
            failed: self.failed,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum ServerPhase {
    Asleep,
    /// The program gets the request.
    Accepting(Incoming<u16>),
    /// The program's answer enters the kernel.
    Responding(Incoming<u16>),
    Sending,
    /// The program asks for the next request.
    Asking,
}

/// A server that answers each request at once: RFC 1045's message model, two calls a transaction.
pub(super) struct ServerProcess {
    engine: Server<u16>,
    bytes: usize,
    phase: ServerPhase,
}

impl ServerProcess {
    /// A server that answers with `bytes` octets and is in `group`, if any.
    pub fn new(entity: Entity, group: Option<Entity>, bytes: usize, config: Config) -> Self {
        let mut engine = Server::new(entity, config);
        group.into_iter().for_each(|group| engine.join(group));
        Self { engine, bytes, phase: ServerPhase::Asleep }
    }

    /// Takes the next request out; `way_ns` is the way to the program without its octets.
    fn accept(&mut self, way_ns: u64, machine: &Machine) -> Step {
        match self.engine.poll_request() {
            Some(request) => {
                let copy_ns = machine.copy_ns(request.segment.len());
                self.phase = ServerPhase::Accepting(request);
                Step::Work(way_ns + copy_ns)
            }
            None => {
                self.phase = ServerPhase::Asleep;
                Step::Sleep
            }
        }
    }

    /// A client that another member of the group has answered meanwhile may have asked again: then
    /// this answer has no receiver, and the process goes on.
    fn respond(&mut self, now_ns: u64, request: &Incoming<u16>) -> Result<(), String> {
        let segment = vec![0xa5; self.bytes];
        let outcome = Outcome { segment, ..Outcome::default() };
        match self.engine.respond(now_ns, request.token, outcome) {
            Ok(()) | Err(RespondError::Over(_)) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Process for ServerProcess {
    fn takes(&self, header: &Header) -> bool {
        let notice = Notice::decode(header).is_none_or(|notice| notice.to == NoticeTo::Server);
        match header.control.kind {
            Kind::Request => notice,
            // An answer to a probe.
            Kind::Response => header.client == self.engine.entity(),
        }
    }

    fn handle(&mut self, now_ns: u64, from: u16, packet: &[u8]) {
        self.engine.handle(now_ns, from, packet);
    }

    fn is_awake(&self) -> bool {
        self.phase != ServerPhase::Asleep || self.engine.has_requests()
    }

    fn step(&mut self, now_ns: u64, machine: &Machine) -> Result<Step, String> {
        match std::mem::replace(&mut self.phase, ServerPhase::Asleep) {
            ServerPhase::Asleep => Ok(self.accept(machine.crossing_ns(), machine)),
            ServerPhase::Accepting(request) => {
                self.phase = ServerPhase::Responding(request);
                Ok(Step::Work(machine.crossing_ns()))
            }
            ServerPhase::Responding(request) => {
                self.respond(now_ns, &request)?;
                self.phase = ServerPhase::Sending;
                self.step(now_ns, machine)
            }
            ServerPhase::Sending => match self.transmit(now_ns) {
                Some((to, packet)) => {
                    self.phase = ServerPhase::Sending;
                    Ok(Step::Send(to, packet))
                }
                None => {
                    self.phase = ServerPhase::Asking;
                    Ok(Step::Work(machine.crossing_ns()))
                }
            },
            // A request that waits needs no way through the scheduler.
            ServerPhase::Asking => Ok(self.accept(0, machine)),
        }
    }

    fn is_sending(&self) -> bool {
        self.phase == ServerPhase::Sending
    }

    fn transmit(&mut self, now_ns: u64) -> Option<(u16, Vec<u8>)> {
        let mut packet = Vec::new();
        self.engine.poll_transmit(now_ns, &mut packet).map(|to| (to, packet))
    }

    fn timeout_ns(&self) -> u64 {
        self.engine.poll_timeout().unwrap_or(u64::MAX)
    }

    fn time_out(&mut self, now_ns: u64) {
        self.engine.handle_timeout(now_ns);
    }

    fn tally(&self) -> Tally {
        let counters = self.engine.counters();
        Tally { blocks_again: counters.blocks_again, ..Tally::default() }
    }
}
