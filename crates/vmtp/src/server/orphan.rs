//! Requests in processing whose clients are gone (TS2 of RFC 1045 §5.8).
//!
//! A client that waits for a Response asks for it, more and more seldom. A server that has heard nothing of it
//! for TS2 asks in turn, by probes, which the client's module answers with the number of its transaction.

use super::record::State;
use super::{NOTICES_MAX, Server, Token};
use crate::address::Address;
use crate::wire::{Code, Entity, HEADER_BYTES, Header, MANAGER_GROUP, TRAILER_BYTES, operation};

/// Octets of a packet without data.
const SHORT_BYTES: usize = HEADER_BYTES + TRAILER_BYTES;

impl<A: Address> Server<A> {
    /// The next transaction that was abandoned while the application had it: its client is gone, and an answer
    /// has no receiver. The oldest of more than [`crate::Config::records_max`] are dropped.
    pub fn poll_abandoned(&mut self) -> Option<Token> {
        self.abandoned.pop_front()
    }

    /// The timer of a Request in processing ran out.
    pub(super) fn seek_client(&mut self, now_ns: u64, client: Entity) {
        let retries = self.config.retries;
        let Some(record) = self.records.get_mut(&client) else { return };
        let silent_ns = now_ns.saturating_sub(record.heard_ns);
        let patience_ns = record.orphan_ns(&self.config);
        if silent_ns < patience_ns {
            record.count = 0;
            let until_ns = record.heard_ns.saturating_add(patience_ns);
            return self.set_timer(client, until_ns);
        }
        if record.count > retries && silent_ns >= self.config.orphan_ns {
            return self.abandon(now_ns, client);
        }
        let trip_ns =
            record.trip.limit_ns(self.config.round_trip_ns_min, self.config.round_trip_ns);
        // Probes are spread over the time that a living client may be silent.
        let most_ns = (self.config.orphan_ns / 4).max(trip_ns);
        let wait_ns = (trip_ns << record.count.min(16)).min(most_ns);
        self.probe_client(now_ns, client);
        self.set_timer(client, now_ns.saturating_add(wait_ns));
    }

    fn probe_client(&mut self, now_ns: u64, client: Entity) {
        let Some(record) = self.records.get_mut(&client) else { return };
        // An address that is not proved keeps what a short answer needs.
        let is_affordable = record.allowance(&self.config) >= 2 * SHORT_BYTES as u64;
        if self.notices.len() >= NOTICES_MAX
            || !is_affordable
            || !record.may_send(SHORT_BYTES, &self.config)
        {
            return;
        }
        self.next_notice = self.next_notice.wrapping_add(1);
        record.probe = Some((self.next_notice, now_ns));
        let mut header = Header {
            domain: self.config.domain,
            code: Code {
                co_resident: true,
                public_interface: true,
                ..Code::new(operation::PROBE_ENTITY)
            },
            ..Header::request(self.entity, MANAGER_GROUP, self.next_notice)
        };
        header.put(0, &client.0.to_be_bytes());
        header.put(8, &client.0.to_be_bytes());
        header.put(16, &1u32.to_be_bytes());
        self.notices.push_back((record.from, header));
    }

    /// The module of a client answers a probe.
    pub(super) fn found_client(&mut self, now_ns: u64, from: A, header: &Header) {
        let client = header.server;
        let record = self.records.get_mut(&client).filter(|record| record.from == from);
        let Some(record) = record.filter(|record| matches!(record.state, State::Processing)) else {
            return;
        };
        let Some((_, sent_ns)) = record.probe.take_if(|(number, _)| *number == header.transaction)
        else {
            return;
        };
        record.note_received(now_ns, from, SHORT_BYTES);
        // A probe has its own number, so that this measures one exchange.
        record.trip.sample(now_ns.saturating_sub(sent_ns));
        if !record.has(header.word(0)) {
            return self.abandon(now_ns, client);
        }
        (record.count, record.found) = (0, record.found + 1);
        let until_ns = now_ns.saturating_add(record.orphan_ns(&self.config));
        self.charge(client);
        self.set_timer(client, until_ns);
    }

    /// Ends a transaction in processing. Its number stays known, so that an old packet does not begin it anew.
    fn abandon(&mut self, now_ns: u64, client: Entity) {
        let Some(record) = self.records.get_mut(&client) else { return };
        let token = Token { client, transaction: record.base };
        let is_queued = record.queued_bytes.take().is_some();
        record.state = State::Over;
        self.counters.orphans += 1;
        if is_queued {
            self.requests.retain(|request| request.token.client != client);
        } else {
            if self.abandoned.len() >= self.config.records_max.max(1) {
                self.abandoned.pop_front();
            }
            self.abandoned.push_back(token);
        }
        self.charge(client);
        self.set_timer(client, now_ns.saturating_add(self.config.keep_ns));
    }
}
