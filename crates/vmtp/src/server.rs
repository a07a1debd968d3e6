//! The server's half: one entity, any number of clients (RFC 1045 chapter 5).
//!
//! Use it as [`crate::client`] describes; [`Server::poll_request`] returns whole Requests, each once,
//! and [`Server::respond`] answers them, in any order. The server keeps a record for each client's
//! entity: the last Request, its progress, and the Response until the client is known to have it.

mod memory;
mod orphan;
mod record;
mod transaction;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::address::Address;
use crate::config::Config;
use crate::message::Outgoing;
use crate::observe::{Log, Sight};
use crate::wire::{
    Control, Entity, HEADER_BYTES, Header, Kind, Notice, NoticeTo, Packet, TRAILER_BYTES, code,
    emit,
};
use memory::Memory;
use record::{Answer, Record, State};

pub use transaction::{Incoming, Outcome, Token};

/// Notices that wait to be sent, at most; more are not needed: each can be asked for again.
const NOTICES_MAX: usize = 4096;

/// An answer could not be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RespondError {
    /// The client asked something else in the meantime, or this was answered.
    #[error("transaction {} of {} is over", .0.transaction, .0.client)]
    Over(Token),
    /// The segment is longer than the client takes.
    #[error("a segment of {bytes} octets: this client takes {limit}")]
    TooLong {
        /// Octets of the answer.
        bytes: usize,
        /// Octets that the client takes.
        limit: usize,
    },
    /// The answer is longer than an address that is not proved may be sent
    /// ([`Config::stranger_factor`]). The Request still awaits an answer.
    #[error(
        "an answer of {bytes} octets to an address that is not proved: {limit} may be sent there"
    )]
    Unproved {
        /// Octets of the answer's packets.
        bytes: usize,
        /// Octets that may be sent.
        limit: u64,
    },
}

/// Counters of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ServerCounters {
    /// Requests given to the application.
    pub requests: u64,
    /// Requests that arrived again and were not given again.
    pub duplicates: u64,
    /// Packets sent, notices included.
    pub packets: u64,
    /// Blocks of Responses sent again.
    pub blocks_again: u64,
    /// Packets of Requests refused for lack of room.
    pub busy: u64,
    /// Half Requests given up, because their clients were silent and others needed the room.
    pub given_up: u64,
    /// Requests in processing whose clients were gone.
    pub orphans: u64,
    /// Packets and answers not sent, because they were longer than an address that is not proved may be
    /// sent.
    pub withheld: u64,
    /// Octets that were no packet, or no packet for this server.
    pub refused: u64,
}

/// One server entity.
#[derive(Debug)]
pub struct Server<A> {
    config: Config,
    entity: Entity,
    groups: BTreeSet<Entity>,
    records: BTreeMap<Entity, Record<A>>,
    memory: Memory,
    /// When each record's timer runs out.
    timers: BTreeSet<(u64, Entity)>,
    /// Clients for which packets wait.
    sending: VecDeque<Entity>,
    /// Headers that leave by themselves: notices, and answers to probes.
    notices: VecDeque<(A, Header)>,
    requests: VecDeque<Incoming<A>>,
    /// The application has found no Request, and has got none since.
    is_waiting: bool,
    next_notice: u32,
    /// Transactions in processing that have lost their clients, as far as the application has not asked.
    abandoned: VecDeque<Token>,
    counters: ServerCounters,
    log: Log<A>,
}

impl<A: Address> Server<A> {
    /// A server without a Request yet.
    pub fn new(entity: Entity, config: Config) -> Self {
        Self {
            config,
            entity,
            groups: BTreeSet::new(),
            records: BTreeMap::new(),
            memory: Memory::default(),
            timers: BTreeSet::new(),
            sending: VecDeque::new(),
            notices: VecDeque::new(),
            requests: VecDeque::new(),
            is_waiting: false,
            next_notice: 1,
            abandoned: VecDeque::new(),
            counters: ServerCounters::default(),
            log: Log::default(),
        }
    }

    /// The entity of this server.
    pub fn entity(&self) -> Entity {
        self.entity
    }

    /// Takes Requests to `group`, too.
    pub fn join(&mut self, group: Entity) {
        self.groups.insert(group);
    }

    /// The counters up to now.
    pub fn counters(&self) -> ServerCounters {
        self.counters
    }

    /// The server's observations of its queues, from [`Log::begin`] on.
    pub fn log(&mut self) -> &mut Log<A> {
        &mut self.log
    }

    /// Clients remembered now.
    pub fn clients(&self) -> usize {
        self.records.len()
    }

    /// Octets kept for Requests and Responses, as [`Config::held_bytes_max`] bounds them.
    pub fn held_bytes(&self) -> usize {
        self.memory.bytes()
    }

    /// Takes the address of a client as proved: the client has repeated a number that was sent to that
    /// address alone. The proof holds until another address uses the client's name.
    pub fn prove_address(&mut self, token: Token) {
        let record = self.records.get_mut(&token.client);
        if let Some(record) = record.filter(|record| record.base == token.transaction) {
            record.is_proved = true;
        }
    }

    /// Takes octets that arrived from `from`.
    pub fn handle(&mut self, now_ns: u64, from: A, octets: &[u8]) {
        self.log.came(now_ns, from, octets.len());
        self.look_at(now_ns, from, octets);
        self.log.looked_at();
        self.check();
    }

    /// The invariant between two calls: each record has one timer, and bounds are kept.
    fn check(&self) {
        assert_eq!(self.timers.len(), self.records.len(), "one timer for each record");
        assert!(
            self.records.len() <= self.config.records_max.max(1),
            "more records than may be kept"
        );
        assert!(self.notices.len() <= NOTICES_MAX, "more notices than may wait");
        assert!(
            self.requests.len() <= self.records.len(),
            "Requests of clients that are forgotten"
        );
    }

    fn look_at(&mut self, now_ns: u64, from: A, octets: &[u8]) {
        let Ok(packet) = Packet::new(octets) else {
            self.counters.refused += 1;
            return;
        };
        let header = packet.header();
        let is_served = header.domain == self.config.domain && !header.encrypted;
        if is_served && header.control.kind == Kind::Response && header.client == self.entity {
            self.found_client(now_ns, from, &header);
        } else if !is_served || header.control.kind == Kind::Response {
            self.counters.refused += 1;
        } else if let Some(notice) = Notice::decode(&header) {
            if notice.to == NoticeTo::Server && notice.server == self.entity {
                self.notice(now_ns, notice);
            }
        } else if header.is_probe() {
            self.probe(from, &header);
        } else if header.server == self.entity || self.groups.contains(&header.server) {
            self.request(now_ns, from, &header, packet.data());
        } else if !header.multicast {
            self.counters.refused += 1;
            self.push_notice(from, &header, 0, code::NONEXISTENT_ENTITY);
        }
    }

    fn request(&mut self, now_ns: u64, from: A, header: &Header, data: &[u8]) {
        let client = header.client;
        // A member of a group that asks it receives its own Request by multicast, too.
        if header.control.member_of_group && client == self.entity {
            return;
        }
        let known = self.records.get(&client).map(|record| record.place_of(header.transaction));
        match known {
            Some(record::Place::Older) => {}
            Some(record::Place::Same(group)) => self.add(now_ns, from, header, data, group),
            Some(record::Place::Newer) | None => self.open(now_ns, from, header, data),
            // Nothing was kept of it, so it is new again.
            Some(record::Place::Again) => self.open(now_ns, from, header, data),
        }
    }

    /// A new transaction: an implicit acknowledgment of all before it (RFC 1045 §2.5.3).
    fn open(&mut self, now_ns: u64, from: A, header: &Header, data: &[u8]) {
        if header.control.not_start_of_run {
            // Only the first packet gives the number of this group.
            return self.push_notice(from, header, 0, code::NO_RUN_RECORD);
        }
        let is_room = self.records.contains_key(&header.client) || self.make_room(now_ns);
        if !is_room || !self.make_space(now_ns, from, header.client, data.len().max(1)) {
            self.counters.busy += 1;
            return self.push_notice(from, header, 0, code::BUSY);
        }
        let Ok(mut record) = Record::open(now_ns, from, header, &self.config) else {
            return self.push_notice(from, header, 0, code::VMTP_ERROR);
        };
        self.log.release(header.client);
        if let Some(before) = self.records.remove(&header.client) {
            record.is_proved = before.is_proved && before.from.host() == from.host();
            record.pace = before.pace;
            if before.from.host() == from.host() {
                record.trip = before.trip;
            }
            self.timers.remove(&(before.deadline_ns, header.client));
            self.memory.take_away(header.client, before.charge);
            if before.queued_bytes.is_some() {
                // Its client has given it up before the application took it.
                self.requests.retain(|request| request.token.client != header.client);
            }
        }
        self.records.insert(header.client, record);
        // The timer bounds the life of the record, for any packet.
        self.set_timer(header.client, now_ns.saturating_add(self.config.next_packet_ns));
        self.add(now_ns, from, header, data, 0);
    }

    /// Forgets the client that can be missed soonest; false when all are at work.
    fn make_room(&mut self, now_ns: u64) -> bool {
        if self.records.len() < self.config.records_max {
            return true;
        }
        let missable = self.memory.missable(now_ns, &self.config);
        missable.is_some_and(|client| {
            self.give_up(client);
            true
        })
    }

    /// Makes room for `bytes` of a client; false when all memory is in use.
    fn make_space(&mut self, now_ns: u64, from: A, client: Entity, bytes: usize) -> bool {
        let host = from.host().party();
        while !self.memory.has_room(host, bytes, &self.config) {
            let silent = self.memory.gives_way(now_ns, host, bytes, &self.config);
            let Some(silent) = silent.filter(|&silent| silent != client) else { return false };
            self.give_up(silent);
        }
        true
    }

    fn give_up(&mut self, client: Entity) {
        let is_half = self.records.get(&client).is_some_and(Record::is_receiving);
        self.counters.given_up += u64::from(is_half);
        self.forget(client);
    }

    /// Counts the memory of a record, after it has changed.
    fn charge(&mut self, client: Entity) {
        if let Some(record) = self.records.get_mut(&client) {
            self.memory.charge(client, record);
        }
    }

    fn add(&mut self, now_ns: u64, from: A, header: &Header, data: &[u8], group: usize) {
        let Some(record) = self.records.get_mut(&header.client) else { return };
        record.note_received(now_ns, from, HEADER_BYTES + data.len() + TRAILER_BYTES);
        record.retransmit_count = header.control.retransmit_count;
        if record.is_receiving() && !self.make_space(now_ns, from, header.client, data.len()) {
            self.counters.busy += 1;
            self.charge(header.client);
            return self.push_notice(from, header, 0, code::BUSY);
        }
        let Some(record) = self.records.get_mut(&header.client) else { return };
        let answer = record.take(header, data, group);
        let blocks = record.received(group);
        if !matches!(answer, Answer::Whole { .. }) {
            self.memory.charge(header.client, record);
        }
        match answer {
            Answer::Nothing => {}
            Answer::Wait => {
                self.log.hold(header.client);
                let until_ns = now_ns.saturating_add(self.config.next_packet_ns);
                self.set_timer(header.client, until_ns);
            }
            Answer::Notice(code) => {
                if record.is_receiving() {
                    self.log.hold(header.client);
                }
                self.push_notice(from, header, blocks, code);
            }
            Answer::Whole { .. } if record.flags().1.only_if_waiting && !self.is_waiting => {
                self.refuse(now_ns, header.client);
                self.push_notice(from, header, u32::MAX, code::NOT_AWAITING_MSG);
            }
            Answer::Whole { asked } => {
                self.log.hold(header.client);
                self.deliver(now_ns, header.client);
                if asked {
                    self.push_notice(from, header, u32::MAX, code::OK);
                }
            }
            Answer::Again => {
                self.counters.duplicates += 1;
                self.respond_again(now_ns, header.client);
            }
        }
    }

    /// Drops a Request for which the application does not wait.
    fn refuse(&mut self, now_ns: u64, client: Entity) {
        let Some(record) = self.records.get_mut(&client) else { return };
        record.is_refused = true;
        self.drop_request(now_ns, client);
    }

    /// The rest of a Request is not asked for any more: the application gets the part that its client allows
    /// (MDM), or nothing. Then a later question hears that there is no answer.
    fn give_up_rest(&mut self, now_ns: u64, client: Entity) {
        let Some(record) = self.records.get_mut(&client) else { return };
        if record.flags().1.message_mask && record.received(0) != 0 {
            return self.deliver(now_ns, client);
        }
        self.drop_request(now_ns, client);
    }

    fn drop_request(&mut self, now_ns: u64, client: Entity) {
        let Some(record) = self.records.get_mut(&client) else { return };
        record.state = State::Over;
        self.log.release(client);
        self.charge(client);
        self.set_timer(client, now_ns.saturating_add(self.config.keep_ns));
    }

    /// Gives a whole Request to the application.
    fn deliver(&mut self, now_ns: u64, client: Entity) {
        let Some(record) = self.records.get_mut(&client) else { return };
        record.count = 0;
        let sought_ns = now_ns.saturating_add(record.orphan_ns(&self.config));
        self.set_timer(client, sought_ns);
        let Some(record) = self.records.get_mut(&client) else { return };
        if let Some(request) = record.deliver() {
            self.counters.requests += 1;
            self.log.release(client);
            self.requests.push_back(request);
            self.is_waiting = false;
            self.charge(client);
        }
    }

    /// The client's report on a Response: it is received, or packets were dropped.
    fn notice(&mut self, now_ns: u64, notice: Notice) {
        let keep_ns = self.config.keep_ns;
        let Some(record) = self.records.get_mut(&notice.client) else { return };
        let is_retry = notice.code == code::RETRY;
        let trip_ns = record.asks.answered(now_ns, notice.transaction, 0, is_retry);
        trip_ns.into_iter().for_each(|ns| record.trip.sample(ns));
        let Some(outgoing) = record.outgoing() else { return };
        let groups = outgoing.groups();
        let number = crate::message::group_number(record.base, notice.transaction, groups);
        let (Some(group), Some(outgoing)) = (number, record.outgoing()) else { return };
        let mut again = 0;
        match notice.code {
            code::OK => {
                outgoing.finish(group);
                outgoing.advance(self.config.window_groups);
            }
            code::RETRY => {
                outgoing.acknowledge(group, notice.delivery);
                again = outgoing.resend(group, true);
            }
            code::RETRY_ALL => again = outgoing.resend(group, true),
            code::BUSY => {}
            _ => (0..groups).for_each(|group| outgoing.finish(group)),
        }
        let (is_done, waits) = (outgoing.is_done(), outgoing.has_queued());
        record.count = 0;
        let mut until_ns = now_ns.saturating_add(record.acknowledgment_ns(&self.config));
        if again > 0 {
            record.gap.lost();
            record.queued_ns = now_ns;
            self.counters.blocks_again += u64::from(again);
            self.log.push(record.from, Sight::BlocksAgain(again));
            until_ns = now_ns.saturating_add(record.response_ns(&self.config));
        }
        if is_done {
            record.state = State::Over;
            until_ns = now_ns.saturating_add(keep_ns);
        }
        if waits && !is_done {
            self.sending.push_back(notice.client);
        }
        self.charge(notice.client);
        self.set_timer(notice.client, until_ns);
    }

    /// A probe is answered without a trace of it.
    fn probe(&mut self, from: A, header: &Header) {
        if header.entity(8) != self.entity || self.notices.len() >= NOTICES_MAX {
            return;
        }
        let transaction = self.records.get(&header.client).map_or(0, |record| record.base);
        let answer = header.found(self.entity, transaction);
        self.notices.push_back((from, answer));
    }

    /// Answers a Request.
    ///
    /// # Errors
    ///
    /// When it is over, the segment too long, or too long for an address that is not proved.
    pub fn respond(
        &mut self,
        now_ns: u64,
        token: Token,
        outcome: Outcome,
    ) -> Result<(), RespondError> {
        let record = self.records.get_mut(&token.client);
        let record = record.filter(|record| record.awaits_answer(token.transaction));
        let record = record.ok_or(RespondError::Over(token))?;
        let limit = record.segment_bytes_max(&self.config);
        if outcome.segment.len() > limit {
            return Err(RespondError::TooLong { bytes: outcome.segment.len(), limit });
        }
        let blocks = crate::wire::blocks_per_packet(self.config.packet_bytes);
        let bytes = Outgoing::wire_bytes(outcome.segment.len(), blocks);
        let limit = record.allowance(&self.config);
        if bytes as u64 > limit {
            self.counters.withheld += 1;
            return Err(RespondError::Unproved { bytes, limit });
        }
        let is_kept = !outcome.segment.is_empty() && !outcome.idempotent;
        record.answer(self.entity, outcome, self.config.window_groups);
        (record.queued_ns, record.answered_ns) = (now_ns, now_ns);
        let wait_ns = if is_kept { record.response_ns(&self.config) } else { self.config.keep_ns };
        let delay_ns = if record.flags().0.delay_response {
            delay_ns(self.entity, token, self.config.response_delay_ns_max)
        } else {
            0
        };
        record.pace.next_ns = record.pace.next_ns.max(now_ns.saturating_add(delay_ns));
        let wait_ns = wait_ns.saturating_add(delay_ns);
        self.memory.charge(token.client, record);
        self.log.tell(now_ns);
        self.sending.push_back(token.client);
        self.set_timer(token.client, now_ns.saturating_add(wait_ns));
        Ok(())
    }

    fn respond_again(&mut self, now_ns: u64, client: Entity) {
        let Some(record) = self.records.get_mut(&client) else { return };
        record.queued_ns = now_ns;
        let from = record.from;
        let wait_ns = record.response_ns(&self.config);
        let Some(outgoing) = record.outgoing() else { return };
        let oldest = outgoing.oldest();
        let blocks = outgoing.resend(oldest, outgoing.groups() > 1);
        self.counters.blocks_again += u64::from(blocks);
        if blocks > 0 {
            self.log.push(from, Sight::BlocksAgain(blocks));
        }
        if outgoing.bytes() > 0 {
            self.set_timer(client, now_ns.saturating_add(wait_ns));
        }
        self.sending.push_back(client);
    }

    fn push_notice(&mut self, to: A, header: &Header, delivery: u32, code: u32) {
        // After a multicast, only accepted Requests are answered.
        let is_silent = header.multicast && !matches!(code, code::OK | code::RETRY);
        if is_silent || self.notices.len() >= NOTICES_MAX {
            return;
        }
        if let Some(record) = self.records.get_mut(&header.client)
            && !record.may_send(HEADER_BYTES + TRAILER_BYTES, &self.config)
        {
            self.counters.withheld += 1;
            return;
        }
        let control = Control {
            kind: Kind::Response,
            retransmit_count: header.control.retransmit_count,
            ..Control::default()
        };
        let notice = Notice {
            to: NoticeTo::Client,
            client: header.client,
            server: self.entity,
            transaction: header.transaction,
            delivery,
            code,
            control,
        };
        self.next_notice = self.next_notice.wrapping_add(1);
        self.notices.push_back((to, notice.header(self.next_notice, self.config.domain)));
    }

    fn set_timer(&mut self, client: Entity, until_ns: u64) {
        if let Some(record) = self.records.get_mut(&client) {
            self.timers.remove(&(record.deadline_ns, client));
            record.deadline_ns = until_ns;
            self.timers.insert((until_ns, client));
        }
    }

    fn forget(&mut self, client: Entity) {
        self.log.release(client);
        if let Some(record) = self.records.remove(&client) {
            self.timers.remove(&(record.deadline_ns, client));
            self.memory.take_away(client, record.charge);
        }
    }

    /// Lets time pass.
    pub fn handle_timeout(&mut self, now_ns: u64) {
        self.log.tell(now_ns);
        while let Some(&(until_ns, client)) = self.timers.first()
            && until_ns <= now_ns
        {
            self.timers.pop_first();
            self.time_out(now_ns, client);
        }
        self.check();
    }

    fn time_out(&mut self, now_ns: u64, client: Entity) {
        let retries = self.config.retries;
        let next_packet_ns = self.config.next_packet_ns;
        let keep_ns = self.config.keep_ns;
        let Some(record) = self.records.get_mut(&client) else { return };
        let is_over = record.count >= retries;
        record.count += 1;
        let (control, code) = record.flags();
        let is_once = control.no_retransmission || is_over && code.message_mask;
        let acknowledgment_ns = record.acknowledgment_ns(&self.config);
        // A busy machine may keep a client from its processor for many short round trips.
        let silent_ns = now_ns.saturating_sub(record.answered_ns.max(record.heard_ns));
        let is_unwanted = is_over && silent_ns >= 2 * self.config.silence_ns_min;
        match &mut record.state {
            State::Processing => self.seek_client(now_ns, client),
            State::Receiving(_) if is_once => self.give_up_rest(now_ns, client),
            State::Receiving(_) if record.count > retries + 1 => self.forget(client),
            // Not asked for any more, but kept: old packets of the transaction before would be new.
            State::Receiving(_) if is_over => {
                self.set_timer(client, now_ns.saturating_add(keep_ns));
            }
            State::Receiving(_) => {
                let (from, header, blocks) = record.missing();
                let wait_ns = next_packet_ns << record.count.min(10);
                self.push_notice(from, &header, blocks, code::RETRY);
                self.set_timer(client, now_ns.saturating_add(wait_ns));
            }
            State::Responded(outgoing) if outgoing.bytes() > 0 && !is_unwanted => {
                let oldest = outgoing.oldest();
                outgoing.ask(oldest);
                record.queued_ns = now_ns;
                self.sending.push_back(client);
                self.set_timer(client, now_ns.saturating_add(acknowledgment_ns));
            }
            State::Responded(outgoing) if outgoing.bytes() > 0 => {
                record.state = State::Over;
                self.memory.charge(client, record);
                self.set_timer(client, now_ns.saturating_add(keep_ns));
            }
            State::Responded(_) | State::Over => self.forget(client),
        }
    }

    /// Writes the next packet into `to` and gives its address; `None` when nothing is to be sent now.
    pub fn poll_transmit(&mut self, now_ns: u64, to: &mut Vec<u8>) -> Option<A> {
        if let Some((address, header)) = self.notices.pop_front() {
            emit(&header, [], self.config.checksum, to);
            self.counters.packets += 1;
            self.log.sent(now_ns, address, to.len(), None);
            return Some(address);
        }
        let blocks = crate::wire::blocks_per_packet(self.config.packet_bytes);
        // Each client that has packets gets one in turn, unless it wants a pause.
        for _ in 0..self.sending.len() {
            let client = self.sending.pop_front()?;
            let Some(record) = self.records.get_mut(&client) else { continue };
            if now_ns < record.pace.next_ns {
                self.sending.push_back(client);
                continue;
            }
            let Some(piece) = record.outgoing().and_then(|outgoing| outgoing.next(blocks)) else {
                continue;
            };
            let octets = record.outgoing().map_or(0, |outgoing| outgoing.packet_bytes(piece));
            if !record.may_send(octets, &self.config) {
                // The client asks again if it lives, and may then be sent more.
                self.counters.withheld += 1;
                record.outgoing().into_iter().for_each(Outgoing::hold_back);
                continue;
            }
            let waits = record.emit(now_ns, piece, self.config.checksum, to);
            if piece.delivery != 0 {
                let pause_ns = self.config.pause_ns(to.len(), record.gap.of_32());
                record.pace.sent(now_ns, pause_ns, !waits);
            }
            if waits {
                self.sending.push_back(client);
            }
            self.memory.charge(client, record);
            self.counters.packets += 1;
            self.log.sent(now_ns, record.from, to.len(), Some(record.queued_ns));
            return Some(record.from);
        }
        None
    }

    /// When [`Server::handle_timeout`] or [`Server::poll_transmit`] is due next.
    pub fn poll_timeout(&self) -> Option<u64> {
        let timer_ns = self.timers.first().map(|&(until_ns, _)| until_ns);
        let records = self.sending.iter().filter_map(|client| self.records.get(client));
        let send_ns = records.map(|record| record.pace.next_ns).min();
        [timer_ns, send_ns].into_iter().flatten().min()
    }

    /// Whether [`Server::poll_request`] has one.
    pub fn has_requests(&self) -> bool {
        !self.requests.is_empty()
    }

    /// Whether packets wait, or a Response that is kept until its client confirms it.
    pub fn owes(&self) -> bool {
        let is_kept = |record: &Record<A>| record.keeps_answer();
        !self.notices.is_empty() || !self.sending.is_empty() || self.records.values().any(is_kept)
    }

    /// Requests that arrived whole, in the order in which they did.
    pub fn poll_request(&mut self) -> Option<Incoming<A>> {
        let request = self.requests.pop_front();
        self.is_waiting = request.is_none();
        let request = request?;
        let record = self.records.get_mut(&request.token.client);
        if let Some(record) = record.filter(|record| record.base == request.token.transaction) {
            record.queued_bytes = None;
            self.memory.charge(request.token.client, record);
        }
        Some(request)
    }
}

/// A time up to `most_ns` that differs from server to server (DRT): splitmix64 (Vigna 2015) of the names.
fn delay_ns(server: Entity, token: Token, most_ns: u64) -> u64 {
    let names = server.0 ^ token.client.0.rotate_left(32) ^ u64::from(token.transaction);
    let mut mixed = names.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    let fraction = mixed ^ mixed >> 31;
    ((u128::from(fraction) * u128::from(most_ns)) >> 64) as u64
}
