//! The client's half: one entity, one transaction at a time (RFC 1045 chapter 4).
//!
//! Call [`Client::start`] first. Give each packet to [`Client::handle`], and call
//! [`Client::handle_timeout`] at the time of [`Client::poll_timeout`]. After each of these calls, send
//! all packets of [`Client::poll_transmit`] and take all events of [`Client::poll_event`]. `now_ns`
//! never decreases. Nothing here reads a clock or a socket; `A` is an address of the network below.

mod replies;

use std::collections::VecDeque;

use crate::asks::Asks;
use crate::config::{Config, Timer};
use crate::message::{Outgoing, group_number};
use crate::observe::{Log, Sight};
use crate::rate::{Gap, Pace};
use crate::rtt::RoundTrip;
use crate::wire::{
    BLOCK_BYTES, Code, Control, Entity, GROUP_BYTES, Header, Kind, MANAGER_GROUP, Notice, NoticeTo,
    Packet, code, emit, operation,
};
use replies::Replies;

pub use replies::Response;

/// Notices that wait to be sent, at most; more are not needed: each can be asked for again.
const NOTICES_MAX: usize = 64;
/// Transaction numbers that a request may take up when its response may be a run (STI).
const SKIPPED: u32 = 256;

/// A Request to send.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Request {
    /// Which service, 24 bits.
    pub code: u32,
    /// Octets that travel in the header.
    pub user: [u8; 12],
    /// The segment, up to 4 MiB to one server, 16 KiB to a group.
    pub segment: Vec<u8>,
}

/// Options of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// Collect the Responses of several servers for this long after the first one.
    pub many_ns: Option<u64>,
    /// Send the request several times at fixed intervals, and collect the answers for one more
    /// interval: the total time is fixed, with or without an answer.
    pub fixed: Option<Fixed>,
    /// The response may be a run of packet groups: over 16 KiB.
    pub long_response: bool,
    /// The server does not ask for missing blocks of the request, but drops it (NRT).
    pub no_retransmission: bool,
    /// The request is for a server that waits for one, else it fails with
    /// [`code::NOT_AWAITING_MSG`] (CMD).
    pub only_if_waiting: bool,
    /// The server answers after a short time of its own, so that the members of a group do not answer at
    /// once (DRT).
    pub delay_response: bool,
    /// The client is a member of the group that it asks (MDG).
    pub is_member: bool,
}

/// Sendings at fixed times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fixed {
    /// Sendings in all.
    pub sends: u32,
    /// Time from one to the next, and from the last one to the end.
    pub every_ns: u64,
}

/// An event for the client's user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event<A> {
    /// A Response; the transaction is over unless several are collected.
    Response(Response<A>),
    /// No more Responses are collected; there were so many.
    Finished(usize),
    /// The transaction failed, with a code of [`code`].
    Failed(u32),
}

/// A transaction could not begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// The one before has not ended.
    #[error("this client already has a transaction: it makes one at a time")]
    Busy,
    /// The segment is longer than the limit.
    #[error("a segment of {bytes} octets: {limit} can be sent there")]
    TooLong {
        /// Octets asked for.
        bytes: usize,
        /// Octets possible.
        limit: usize,
    },
}

/// Counters of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClientCounters {
    /// Transactions that began.
    pub transactions: u64,
    /// Packets sent, notices included.
    pub packets: u64,
    /// Blocks of segments sent again.
    pub blocks_again: u64,
    /// Requests sent again for lack of an answer.
    pub timeouts: u64,
    /// Octets that were no packet, or no packet for this client.
    pub refused: u64,
}

/// One client entity.
#[derive(Debug)]
pub struct Client<A> {
    config: Config,
    entity: Entity,
    /// Number of the next transaction, and of the next notice.
    next: u32,
    next_notice: u32,
    active: Option<Active<A>>,
    /// The transaction that ended last: its server may still ask whether the Response arrived.
    ended: Option<Ended>,
    /// Headers that leave by themselves: notices, and answers to probes.
    notices: VecDeque<(A, Header)>,
    events: VecDeque<Event<A>>,
    trip: RoundTrip,
    asks: Asks,
    /// Gap between packets to servers, and the one that they are asked to leave.
    gap: Gap,
    response_gap: Gap,
    pace: Pace,
    counters: ClientCounters,
    log: Log<A>,
}

#[derive(Debug)]
struct Active<A> {
    server: Entity,
    to: A,
    options: Options,
    head: Header,
    outgoing: Outgoing,
    /// Sendings since something was heard.
    count: u32,
    began_ns: u64,
    /// When that was; at first, when the transaction began.
    heard_ns: u64,
    /// When the last packet with data left. Until then the server may have no reason to answer.
    left_ns: u64,
    /// Notices in a row that the request is being processed.
    processing: u32,
    /// Blocks of the Request were sent again, and blocks of Responses were asked for again.
    has_lost: bool,
    has_missed: bool,
    /// All sendings of the request, modulo 8 in packets.
    sendings: u32,
    sent_ns: [u64; 8],
    timer: (Timer, u64),
    /// The end of TC4: the first Response of several was whole.
    many_until_ns: Option<u64>,
    replies: Replies<A>,
}

/// Numbers of a transaction that has ended.
#[derive(Debug, Clone, Copy)]
struct Ended {
    base: u32,
    last: u32,
}

impl<A: Copy + PartialEq> Client<A> {
    /// A client whose first transaction has this number.
    pub fn new(entity: Entity, first_transaction: u32, config: Config) -> Self {
        let response_gap = Gap::new(config.response_gap);
        Self {
            config,
            entity,
            next: first_transaction,
            next_notice: first_transaction,
            active: None,
            ended: None,
            notices: VecDeque::new(),
            events: VecDeque::new(),
            trip: RoundTrip::default(),
            asks: Asks::default(),
            gap: Gap::new(0),
            response_gap,
            pace: Pace::default(),
            counters: ClientCounters::default(),
            log: Log::default(),
        }
    }

    /// The entity of this client.
    pub fn entity(&self) -> Entity {
        self.entity
    }

    /// The counters up to now.
    pub fn counters(&self) -> ClientCounters {
        self.counters
    }

    /// The client's observations of its queues, from [`Log::begin`] on.
    pub fn log(&mut self) -> &mut Log<A> {
        &mut self.log
    }

    /// Whether no transaction is under way.
    pub fn is_idle(&self) -> bool {
        self.active.is_none()
    }

    /// Begins a transaction with `server`, an entity at address `to` or a group at a multicast
    /// address; gives its number.
    ///
    /// # Errors
    ///
    /// When one is under way, or the segment is too long.
    pub fn start(
        &mut self,
        now_ns: u64,
        server: Entity,
        to: A,
        request: Request,
        options: Options,
    ) -> Result<u32, StartError> {
        if self.active.is_some() {
            return Err(StartError::Busy);
        }
        let limit = if server.is_group() { GROUP_BYTES } else { self.config.segment_bytes_max };
        if request.segment.len() > limit {
            return Err(StartError::TooLong { bytes: request.segment.len(), limit });
        }
        let transaction = self.next;
        let head = self.head(server, transaction, &request, options);
        self.begin(now_ns, to, head, request.segment, options);
        Ok(transaction)
    }

    /// Asks, within the reach of the multicast address `to`, whether `entity` exists: `sends` times at
    /// fixed times. A Response names it; [`Event::Finished`] with 0 means that the name is probably
    /// free, because silence is no proof (RFC 1045 appendix IV.4).
    ///
    /// # Errors
    ///
    /// When a transaction is under way.
    pub fn find(
        &mut self,
        now_ns: u64,
        entity: Entity,
        to: A,
        fixed: Fixed,
    ) -> Result<u32, StartError> {
        if self.active.is_some() {
            return Err(StartError::Busy);
        }
        let options = Options { fixed: Some(fixed), ..Options::default() };
        let transaction = self.next;
        let request = Request { code: operation::PROBE_ENTITY, ..Request::default() };
        let mut head = self.head(MANAGER_GROUP, transaction, &request, options);
        head.code = Code {
            co_resident: true,
            public_interface: true,
            ..Code::new(operation::PROBE_ENTITY)
        };
        head.put(0, &entity.0.to_be_bytes());
        head.put(8, &entity.0.to_be_bytes());
        head.put(16, &1u32.to_be_bytes());
        self.begin(now_ns, to, head, Vec::new(), options);
        Ok(transaction)
    }

    fn head(
        &self,
        server: Entity,
        transaction: u32,
        request: &Request,
        options: Options,
    ) -> Header {
        let control = Control {
            skip_transactions: options.long_response,
            gap_or_groups: self.response_gap.of_32(),
            no_retransmission: options.no_retransmission,
            delay_response: options.delay_response,
            member_of_group: options.is_member && server.is_group(),
            ..Control::default()
        };
        let code = Code {
            many_responses: options.many_ns.is_some(),
            only_if_waiting: options.only_if_waiting,
            ..Code::new(request.code)
        };
        let mut head = Header {
            domain: self.config.domain,
            multicast: server.is_group(),
            control,
            code,
            ..Header::request(self.entity, server, transaction)
        };
        head.put(8, &request.user);
        head.set_segment_size(request.segment.len() as u32);
        head
    }

    fn begin(&mut self, now_ns: u64, to: A, head: Header, segment: Vec<u8>, options: Options) {
        let mut outgoing = Outgoing::new(segment);
        let taken = if options.long_response { SKIPPED } else { outgoing.groups() as u32 };
        assert!(self.active.is_none(), "a transaction begins while another is under way");
        self.next = self.next.wrapping_add(taken);
        outgoing.advance(self.config.window_groups);
        self.asks.clear();
        let wait_ns = options.fixed.map_or_else(|| self.response_wait_ns(), |fixed| fixed.every_ns);
        self.active = Some(Active {
            server: head.server,
            to,
            options,
            head,
            outgoing,
            count: 0,
            began_ns: now_ns,
            heard_ns: now_ns,
            left_ns: now_ns,
            processing: 0,
            has_lost: false,
            has_missed: false,
            sendings: 0,
            sent_ns: [now_ns; 8],
            timer: (Timer::Response, now_ns.saturating_add(wait_ns)),
            many_until_ns: None,
            replies: Replies::default(),
        });
        self.log.tell(now_ns);
        self.counters.transactions += 1;
    }

    /// TC2: the limit for the answer to a question, from the round trips of probes and of questions that a
    /// notice answered.
    pub fn round_trip_ns(&self) -> u64 {
        self.trip.limit_ns(self.config.round_trip_ns_min, self.config.round_trip_ns)
    }

    /// TC1.
    fn response_wait_ns(&self) -> u64 {
        self.round_trip_ns() + self.config.service_ns
    }

    /// Takes octets that arrived from `from`.
    pub fn handle(&mut self, now_ns: u64, from: A, octets: &[u8]) {
        self.log.came(now_ns, from, octets.len());
        self.look_at(now_ns, from, octets);
        self.log.looked_at();
    }

    fn look_at(&mut self, now_ns: u64, from: A, octets: &[u8]) {
        let Ok(packet) = Packet::new(octets) else {
            self.counters.refused += 1;
            return;
        };
        let header = packet.header();
        if header.domain != self.config.domain || header.encrypted {
            self.counters.refused += 1;
        } else if header.control.kind == Kind::Response && header.client == self.entity {
            self.response(now_ns, from, &header, packet.data());
        } else if header.control.kind == Kind::Request && header.is_probe() {
            self.probe(from, &header);
        } else if let Some(notice) = Notice::decode(&header) {
            if notice.to == NoticeTo::Client && notice.client == self.entity {
                self.notice(now_ns, from, notice);
            }
        } else {
            self.counters.refused += 1;
        }
    }

    fn response(&mut self, now_ns: u64, from: A, header: &Header, data: &[u8]) {
        let Some(active) = &mut self.active else { return self.late_response(from, header) };
        let base = active.head.transaction;
        let is_ours = group_number(base, header.transaction, SKIPPED as usize).is_some();
        let from_group = active.server.is_group();
        if !is_ours || !(from_group || header.server == active.server) {
            return self.late_response(from, header);
        }
        if active.head.is_probe() && !active.replies.has_any() {
            // The server's module answers a probe at once, with the number of its sending.
            let sending = usize::from(header.control.retransmit_count);
            self.trip.sample(now_ns.saturating_sub(active.sent_ns[sending]));
        }
        if !from_group {
            // A Response proves that the whole Request arrived.
            (0..active.outgoing.groups()).for_each(|group| active.outgoing.finish(group));
        }
        let heard = active.replies.add(from, header, data, base, &self.config);
        if active.options.fixed.is_none() {
            active.count = 0;
        }
        active.heard_ns = now_ns;
        if let Some(code) = heard.notice {
            self.push_notice(from, header.server, header.transaction, heard.delivery, code);
        }
        if heard.whole.is_some() || heard.waits {
            self.log.hold(header.server);
        }
        match heard.whole {
            Some(response) => {
                self.pace_by(response.segment.len());
                self.whole_response(now_ns, response);
            }
            None if heard.waits => {
                let until_ns = now_ns.saturating_add(self.config.next_packet_ns);
                self.set_timer(Timer::NextPacket, until_ns);
            }
            None => {}
        }
    }

    /// Groups of the transaction that arrived without a loss make the gaps shorter. A run has done that by
    /// its notices.
    fn pace_by(&mut self, response_bytes: usize) {
        let Some(active) = &self.active else { return };
        let in_packet = BLOCK_BYTES * crate::wire::blocks_per_packet(self.config.packet_bytes);
        let is_group = active.outgoing.groups() == 1 && active.outgoing.bytes() > in_packet;
        if is_group && !active.has_lost {
            self.gap.passed();
        }
        if response_bytes > in_packet && !active.has_missed {
            self.response_gap.passed();
        }
    }

    fn whole_response(&mut self, now_ns: u64, response: Response<A>) {
        self.log.release(response.server);
        self.events.push_back(Event::Response(response));
        let Some(active) = &mut self.active else { return };
        if active.options.fixed.is_some() {
            return;
        }
        let Some(many_ns) = active.options.many_ns else { return self.end() };
        let until_ns = now_ns.saturating_add(many_ns);
        let until_ns = *active.many_until_ns.get_or_insert(until_ns);
        // Missing blocks of another Response are asked for meanwhile.
        if !active.replies.is_waiting() {
            active.timer = (Timer::MoreResponses, until_ns);
        }
    }

    /// A Response to a transaction that is over: one that wants to be acknowledged hears that no transaction
    /// needs it (RFC 1045 §5.9).
    fn late_response(&mut self, from: A, header: &Header) {
        let Some(ended) = self.ended else { return };
        let groups = ended.last.wrapping_sub(ended.base) as usize + 1;
        let known = group_number(ended.base, header.transaction, groups).is_some();
        if known && header.control.acknowledge {
            let (number, all) = (header.transaction, u32::MAX);
            self.push_notice(from, header.server, number, all, code::RESPONSE_DISCARDED);
        }
    }

    /// A server asks whether this client still waits for it: the answer is the number of the transaction, or
    /// of the next one.
    fn probe(&mut self, from: A, header: &Header) {
        if header.entity(8) != self.entity || self.notices.len() >= NOTICES_MAX {
            return;
        }
        let transaction = self.active.as_ref().map_or(self.next, |active| active.head.transaction);
        self.notices.push_back((from, header.found(self.entity, transaction)));
    }

    fn push_notice(&mut self, to: A, server: Entity, transaction: u32, delivery: u32, code: u32) {
        if self.notices.len() < NOTICES_MAX {
            let client = self.entity;
            let control = Control::default();
            let notice = Notice {
                to: NoticeTo::Server,
                client,
                server,
                transaction,
                delivery,
                code,
                control,
            };
            let header = notice.header(self.next_notice, self.config.domain);
            self.next_notice = self.next_notice.wrapping_add(1);
            self.notices.push_back((to, header));
        }
        assert!(self.notices.len() <= NOTICES_MAX, "more notices than may wait");
    }

    fn notice(&mut self, now_ns: u64, from: A, notice: Notice) {
        let wait_ns = self.response_wait_ns();
        let backoff_ns_max = self.config.backoff_ns_max;
        let Some(active) = &mut self.active else { return };
        let groups = active.outgoing.groups();
        let Some(group) = group_number(active.head.transaction, notice.transaction, groups) else {
            return;
        };
        let is_awaited = !active.replies.has_any() && active.options.fixed.is_none();
        if !is_awaited || (!active.server.is_group() && active.to != from) {
            return;
        }
        let (sending, is_retry) = (notice.control.retransmit_count, notice.code == code::RETRY);
        let trip_ns = self.asks.answered(now_ns, notice.transaction, sending, is_retry);
        trip_ns.into_iter().for_each(|ns| self.trip.sample(ns));
        active.heard_ns = now_ns;
        match notice.code {
            code::OK => {
                if active.outgoing.groups() > 1 && !active.has_lost {
                    self.gap.passed();
                }
                active.outgoing.acknowledge(group, notice.delivery);
                active.outgoing.finish(group);
                active.outgoing.advance(self.config.window_groups);
                let is_working = active.outgoing.is_done();
                active.processing = if is_working { active.processing + 1 } else { 0 };
                active.count = 0;
                // Whateley: each notice in a row doubles the wait.
                let doubled = active.processing.saturating_sub(1).min(16);
                let wait_ns = (wait_ns << doubled).min(backoff_ns_max.max(wait_ns));
                active.timer = (Timer::Response, now_ns.saturating_add(wait_ns));
            }
            // The server was started again after it had the run's first group: it has nothing.
            code::NO_RUN_RECORD if active.outgoing.is_finished(0) => {
                active.outgoing.restart(self.config.window_groups);
                active.sendings += 1;
                active.sent_ns[active.sendings as usize % 8] = now_ns;
                active.timer = (Timer::Response, now_ns.saturating_add(wait_ns));
            }
            code::RETRY | code::RETRY_ALL | code::NO_RUN_RECORD => {
                let all = notice.code != code::RETRY;
                active.outgoing.correct(group, if all { 0 } else { notice.delivery });
                let blocks = active.send_again(group, &mut self.counters, &mut self.gap, now_ns);
                if blocks > 0 {
                    self.log.push(from, Sight::BlocksAgain(blocks));
                }
                active.timer = (Timer::Response, now_ns.saturating_add(wait_ns));
            }
            code::BUSY => {
                active.count = 0;
                active.timer = (Timer::Response, now_ns.saturating_add(wait_ns));
            }
            // The server knows better: a Response is in flight, or was taken already.
            code::RESPONSE_DISCARDED if !active.outgoing.has_queued() && active.count == 0 => {}
            failed => self.fail(failed),
        }
    }

    /// Lets time pass.
    pub fn handle_timeout(&mut self, now_ns: u64) {
        self.log.tell(now_ns);
        let Some(active) = &mut self.active else { return };
        if active.many_until_ns.is_some_and(|until_ns| until_ns <= now_ns) {
            let answers = active.replies.whole();
            self.end();
            self.events.push_back(Event::Finished(answers));
            return;
        }
        if now_ns < active.timer.1 {
            return;
        }
        match (active.timer.0, active.options.fixed) {
            (_, Some(fixed)) => self.send_at_fixed_time(now_ns, fixed),
            (Timer::NextPacket, None) => self.ask_for_rest(now_ns),
            _ => self.ask_again(now_ns),
        }
    }

    fn send_at_fixed_time(&mut self, now_ns: u64, fixed: Fixed) {
        let Some(active) = &mut self.active else { return };
        active.count += 1;
        if active.count < fixed.sends {
            active.outgoing.ask(0);
            active.sendings += 1;
            active.sent_ns[active.sendings as usize % 8] = now_ns;
            active.timer.1 = now_ns.saturating_add(fixed.every_ns);
            return;
        }
        let answers = active.replies.whole();
        self.end();
        self.events.push_back(Event::Finished(answers));
    }

    /// TC1 or TC2 passed: a header without data asks for the server's state.
    fn ask_again(&mut self, now_ns: u64) {
        let round_trip_ns = self.round_trip_ns();
        let response_wait_ns = self.response_wait_ns();
        let Some(active) = &mut self.active else { return };
        // A question would have blocks sent again that have not left yet.
        if active.outgoing.has_queued() {
            active.timer.1 = now_ns.saturating_add(response_wait_ns);
            return;
        }
        let silence_ns = now_ns.saturating_sub(active.heard_ns.max(active.left_ns));
        let is_tired =
            active.count >= self.config.retries && silence_ns >= self.config.silence_ns_min;
        if is_tired || silence_ns >= self.config.silence_ns_max {
            return self.fail(code::RETRANS_TIMEOUT);
        }
        // Each silence doubles the wait, up to the longest service time.
        let doubled_ns = round_trip_ns << active.count.min(16);
        let wait_ns = doubled_ns.min(self.config.service_ns.max(round_trip_ns));
        active.count += 1;
        active.sendings += 1;
        active.sent_ns[active.sendings as usize % 8] = now_ns;
        let oldest = active.outgoing.oldest();
        active.outgoing.ask(oldest);
        active.timer = (Timer::Acknowledgment, now_ns.saturating_add(wait_ns));
        self.counters.timeouts += 1;
    }

    /// TC3 passed: asks for the missing blocks of Responses that have begun.
    fn ask_for_rest(&mut self, now_ns: u64) {
        let retries = self.config.retries;
        let Some(active) = &mut self.active else { return };
        let is_tired = active.count >= retries;
        let partial = active.replies.give_up(is_tired);
        for response in partial {
            self.whole_response(now_ns, response);
        }
        let Some(active) = &mut self.active else { return };
        if !active.replies.is_waiting() {
            return match active.many_until_ns {
                Some(until_ns) => active.timer = (Timer::MoreResponses, until_ns),
                None => self.fail(code::BAD_REPLY_SEGMENT),
            };
        }
        active.count += 1;
        active.has_missed = true;
        self.response_gap.lost();
        let wait_ns = self.config.next_packet_ns << active.count.min(10);
        active.timer.1 = now_ns.saturating_add(wait_ns);
        let base = active.head.transaction;
        let missing: Vec<_> = active.replies.missing(base).collect();
        for (to, server, transaction, delivery) in missing {
            self.push_notice(to, server, transaction, delivery, code::RETRY);
        }
    }

    fn set_timer(&mut self, timer: Timer, until_ns: u64) {
        if let Some(active) = &mut self.active
            && active.options.fixed.is_none()
        {
            active.timer = (timer, until_ns);
        }
    }

    fn end(&mut self) {
        if let Some(active) = self.active.take() {
            let base = active.head.transaction;
            let groups = active.outgoing.groups().max(active.replies.groups_max()) as u32;
            assert!(groups > 0, "a transaction without a group");
            self.ended = Some(Ended { base, last: base.wrapping_add(groups - 1) });
            let sight = Sight::Ended {
                transaction: base,
                began_ns: active.began_ns,
                octets: active.outgoing.bytes() as u32,
                is_answered: active.replies.whole() > 0,
            };
            self.log.release_all();
            self.log.push(active.to, sight);
        }
    }

    fn fail(&mut self, code: u32) {
        self.end();
        self.events.push_back(Event::Failed(code));
    }

    /// Writes the next packet into `to` and gives its address; `None` when nothing is to be sent now.
    pub fn poll_transmit(&mut self, now_ns: u64, to: &mut Vec<u8>) -> Option<A> {
        if let Some((address, header)) = self.notices.pop_front() {
            emit(&header, [], self.config.checksum, to);
            self.counters.packets += 1;
            self.log.sent(now_ns, address, to.len(), None);
            return Some(address);
        }
        if now_ns < self.pace.next_ns {
            return None;
        }
        let blocks = crate::wire::blocks_per_packet(self.config.packet_bytes);
        let active = self.active.as_mut()?;
        let piece = active.outgoing.next(blocks)?;
        let since_ns = active.sent_ns[active.sendings as usize % 8];
        let header = active.header_of(piece.group, piece.delivery, piece.asks);
        self.asks.sent(now_ns, &header, header.control.retransmit_count);
        emit(&header, active.outgoing.data(piece), self.config.checksum, to);
        self.counters.packets += 1;
        self.log.sent(now_ns, active.to, to.len(), Some(since_ns));
        if piece.delivery != 0 {
            active.left_ns = now_ns;
            let pause_ns = self.config.pause_ns(to.len(), self.gap.of_32());
            self.pace.sent(now_ns, pause_ns, !active.outgoing.has_queued());
        }
        Some(active.to)
    }

    /// When [`Client::handle_timeout`] or [`Client::poll_transmit`] is due next.
    pub fn poll_timeout(&self) -> Option<u64> {
        let active = self.active.as_ref()?;
        let gap = active.outgoing.has_queued().then_some(self.pace.next_ns);
        [Some(active.timer.1), gap, active.many_until_ns].into_iter().flatten().min()
    }

    /// The next event, in order.
    pub fn poll_event(&mut self) -> Option<Event<A>> {
        self.events.pop_front()
    }
}

impl<A> Active<A> {
    fn header_of(&self, group: usize, delivery: u32, asks: bool) -> Header {
        let groups = self.outgoing.groups();
        assert!(group < groups, "group {group} of {groups}");
        let mut header = self.head;
        header.delivery = delivery;
        header.transaction = self.head.transaction.wrapping_add(group as u32);
        header.control.not_start_of_run = group > 0;
        header.control.not_end_of_run = group + 1 < groups;
        header.control.message_continues = group + 1 < groups;
        header.control.acknowledge = asks;
        // Modulo 8, as the field is.
        header.control.retransmit_count = (self.sendings % 8) as u8;
        header
    }

    /// Sends the missing blocks of a group, with longer gaps from now on: packets of it were lost.
    fn send_again(
        &mut self,
        group: usize,
        counters: &mut ClientCounters,
        gap: &mut Gap,
        now_ns: u64,
    ) -> u32 {
        let blocks = self.outgoing.resend(group, self.outgoing.groups() > 1);
        self.count = 0;
        self.sendings += 1;
        self.sent_ns[self.sendings as usize % 8] = now_ns;
        counters.blocks_again += u64::from(blocks);
        if blocks > 0 {
            self.has_lost = true;
            gap.lost();
        }
        blocks
    }
}
