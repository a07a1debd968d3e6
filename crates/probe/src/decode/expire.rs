//! Connections are forgotten when they are over, or after a long time without a hit.
//!
//! The probes give a bounded number of connections a slot and report when one is free again: when the last
//! socket of a TCP connection here is destroyed, and of a connection without one by its age or when another
//! takes its slot. By then every hit of it is in a list, so that it is forgotten a little later. A
//! connection without a socket here whose end was missed is forgotten by its age all the same.

use std::collections::BTreeSet;

use sockscope_record::{LossCounts, Protocol};

use super::age::Age;
use super::decoder::Decoder;
use super::flow_state::ConnectionState;

/// Keeps a connection this long after its end, for records that are still in transit.
const LINGER_NS: u64 = 1_000_000_000;
/// Connections that are kept after their end, at most; then the earliest one goes at once, if all up to
/// its end was decoded.
const LINGERING_MAX: usize = 8_192;
/// The same of those with a datagram that waits for its reader.
const AWAITED_MAX: usize = 16_384;
/// Pages of connections whose age is looked at, and the time between two looks: 65,536 connections in
/// 26 s.
const PAGES_AT_ONCE: usize = 8;
const LOOKS_EVERY_NS: u64 = 200_000_000;
/// A datagram without a record at its next point after this time will have none there.
const UNDER_WAY_NS: u64 = 10_000_000_000;

impl Decoder {
    /// From now on a connection without a socket here is over after this long without a hit.
    pub(crate) fn expire_after(&mut self, idle_ns: u64) {
        self.age.idle_ns = Some(idle_ns);
    }

    /// Hits of connections that were never announced, or that were forgotten.
    pub(crate) fn unknown(&self) -> u64 {
        self.unknown.total
    }

    /// The same since the last call, by point.
    pub(crate) fn take_unknown(&mut self) -> LossCounts {
        std::mem::take(&mut self.unknown.fresh)
    }

    /// The connection ended at a time: every earlier hit of it is in some list.
    pub(super) fn ended(&mut self, at_ns: u64, id: u32) {
        self.age.ended.push_back((at_ns, id));
    }

    /// Forgets connections that ended long before `now_ns`, and those that are too old. Every record up to
    /// then was decoded.
    pub(crate) fn expire(&mut self, now_ns: u64) {
        if now_ns.saturating_sub(self.age.looked_ns) >= LOOKS_EVERY_NS {
            self.age.looked_ns = now_ns;
            self.look_at_ages(now_ns);
        }
        let mut over = Vec::new();
        while let Some((ended_ns, id)) = self.age.ended.front().copied() {
            let is_late = ended_ns.saturating_add(LINGER_NS) <= now_ns;
            let is_excess = self.age.ended.len() > LINGERING_MAX && ended_ns <= now_ns;
            if !is_late && !is_excess {
                break;
            }
            self.age.ended.pop_front();
            over.push(id);
        }
        if !over.is_empty() {
            self.forget_all(over, now_ns);
        }
    }

    /// Looks at the age of some connections without a socket here, and of their datagrams.
    fn look_at_ages(&mut self, now_ns: u64) {
        let Age { idle_ns: Some(idle_ns), next, .. } = self.age else { return };
        let (some, next) = self.connections.some_from(next, PAGES_AT_ONCE);
        let since_ns = now_ns.saturating_sub(UNDER_WAY_NS);
        let mut stale = Vec::new();
        for state in some.filter(|state| has_no_end(state)) {
            if state.last_ns.saturating_add(idle_ns) <= now_ns {
                self.age.ended.push_back((now_ns, state.info.id.0));
            }
            if state.left_out_ns.is_none()
                && state.flows.iter().any(|flow| flow.path.datagrams.has_before(since_ns))
            {
                stale.push(state.info.id.0);
            }
        }
        self.age.next = next;
        for id in stale {
            let Some(state) = self.connections.of_mut(id) else { continue };
            for flow in &mut state.flows {
                if let Some((count, missed_ns)) = flow.path.datagrams.forget_before(since_ns) {
                    let times = (missed_ns, now_ns);
                    self.out.extend(self.missed.found(None, count, times, state.of_others));
                }
                let unseen = &mut flow.path.datagrams.unseen;
                self.missed.vanished(unseen, state.of_others, &mut self.out);
            }
        }
    }

    /// Forgets connections, except some with a datagram that waits for its reader.
    fn forget_all(&mut self, over: Vec<u32>, now_ns: u64) {
        let (datagrams, streams): (Vec<_>, Vec<_>) =
            over.into_iter().partition(|id| self.state(*id).is_some_and(is_of_datagrams));
        streams.into_iter().for_each(|id| self.forget(id));
        if datagrams.is_empty() {
            return;
        }
        let awaited = std::mem::take(&mut self.age.awaited);
        let mut over: BTreeSet<u32> = datagrams.into_iter().chain(awaited).collect();
        let waiting = self.sockets.waiting_of(&over);
        self.age.awaited = waiting.into_iter().take(AWAITED_MAX).collect();
        debug_assert!(self.age.awaited.len() <= AWAITED_MAX);
        for kept in &self.age.awaited {
            over.remove(kept);
        }
        self.give_up_reads_of(&over, now_ns);
        over.into_iter().for_each(|id| self.forget(id));
    }

    fn forget(&mut self, id: u32) {
        let Some(state) = self.connections.remove(id) else { return };
        self.incoming.forget(&state);
        self.forgotten.push(id);
        if self.changed.remove(&id) {
            self.last_rows.push(state.row());
        }
        for mut flow in state.flows {
            let datagrams = &mut flow.path.datagrams;
            datagrams.give_up_overtaken(u64::MAX);
            // Of a connection that was left out, all that was in transit vanishes.
            if state.left_out_ns.is_none() {
                self.missed.vanished(&mut datagrams.unseen, state.of_others, &mut self.out);
            }
            flow.settle(self.missed.missed_until(state.of_others), &mut self.out);
        }
    }
}

/// Whether no event reports the end of the connection.
fn has_no_end(state: &ConnectionState) -> bool {
    is_of_datagrams(state) || state.opened == [false; 2]
}

fn is_of_datagrams(state: &ConnectionState) -> bool {
    state.info.protocol == Protocol::Udp
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Fields, feed, open};
    use super::*;
    use crate::layout::{RawEvent, constants as raw};

    impl Decoder {
        /// Connections that are remembered.
        pub(crate) fn remembered(&self) -> usize {
            self.connections.len()
        }
    }

    const SECOND_NS: u64 = 1_000_000_000;
    const IDLE_NS: u64 = 180 * SECOND_NS;
    const UDP: u8 = 17;

    fn decoder() -> Decoder {
        let mut decoder = Decoder::default();
        decoder.see_input(true);
        decoder.expire_after(IDLE_NS);
        decoder
    }

    fn opened(at_ns: u64, connection: u32, replaced: u32) -> RawEvent {
        RawEvent { connection, replaced, ..open(at_ns, UDP) }
    }

    fn hit(at_ns: u64, connection: u32, kind: u8) -> Fields {
        let (flow, marks) = (connection * 2, raw::MARK_UDP);
        let hit = Fields { at_ns, flow, kind, len: 50, marks, ..Fields::default() };
        Fields { buffer: u32::from(kind != raw::RAW_READY), socket: 1, ..hit }
    }

    /// One datagram from the sender into the receive queue.
    fn send(decoder: &mut Decoder, at_ns: u64, connection: u32) {
        for kind in [raw::RAW_TRANSMIT, raw::RAW_INPUT, raw::RAW_RECEIVE, raw::RAW_READY] {
            decoder.raw(0, &hit(at_ns, connection, kind).raw());
        }
    }

    #[test]
    fn pairs_of_one_datagram_take_no_more_memory_than_slots_and_ends_allow() {
        const SLOTS: u32 = 1_000;
        let mut decoder = decoder();
        let (mut most, mut forgotten) = (0, Vec::new());
        for id in 1..=20_000 {
            let at_ns = u64::from(id) * 1_000_000;
            decoder.event(&opened(at_ns, id, id.saturating_sub(SLOTS)));
            decoder.raw(0, &hit(at_ns, id, raw::RAW_RECEIVE).raw());
            decoder.expire(at_ns);
            decoder.records().clear();
            decoder.take_changed();
            forgotten.extend(decoder.take_forgotten());
            most = most.max(decoder.remembered());
        }
        assert!((1_999..=2_002).contains(&most), "{most}");
        // The sink hears of each one, once.
        let count = 20_000 - decoder.remembered() as u32;
        assert_eq!(forgotten, (1..=count).collect::<Vec<_>>());
        assert_eq!(decoder.unknown(), 0);
        assert_eq!(decoder.incoming.flows(), decoder.remembered());
    }

    #[test]
    fn ends_that_come_faster_than_that_are_not_kept() {
        let mut decoder = decoder();
        for id in 1..=200_000 {
            decoder.event(&opened(1, id, 0));
            decoder.event(&RawEvent {
                at_ns: 1,
                kind: u32::from(raw::EVENT_GONE),
                connection: id,
                ..RawEvent::default()
            });
            if id % 10_000 == 0 {
                decoder.expire(2);
            }
        }
        assert_eq!(decoder.remembered(), LINGERING_MAX);
    }

    #[test]
    fn what_changed_of_a_connection_is_said_though_it_was_forgotten_since() {
        let mut decoder = decoder();
        decoder.event(&opened(1, 1, 0));
        decoder.event(&opened(1, 2, 1));
        decoder.expire(2 + LINGER_NS);
        assert_eq!(decoder.take_forgotten(), [1]);
        let rows = decoder.take_changed();
        assert_eq!(rows.iter().map(|row| row.id.0).collect::<Vec<_>>(), [1, 2]);
        assert_eq!((decoder.take_changed().len(), decoder.take_forgotten().len()), (0, 0));
    }

    #[test]
    fn a_silent_pair_is_forgotten_although_its_end_was_missed_and_a_busy_one_is_not() {
        let mut decoder = decoder();
        decoder.event(&opened(1, 1, 0));
        decoder.event(&opened(1, 2, 0));
        for second in 1..=200 {
            decoder.raw(0, &hit(second * SECOND_NS, 2, raw::RAW_TRANSMIT).raw());
            decoder.expire(second * SECOND_NS);
        }
        assert!(decoder.state(1).is_none() && decoder.state(2).is_some());
        // It sends again: hits of connections that are not followed are counted as missed.
        decoder.raw(0, &hit(201 * SECOND_NS, 1, raw::RAW_RECEIVE).raw());
        let missed = decoder.take_unknown();
        assert_eq!((missed.points[5], missed.total(), decoder.unknown()), (1, 1, 1));
        assert_eq!(decoder.take_unknown().total(), 0);
    }

    #[test]
    fn an_open_tcp_connection_is_never_too_old() {
        let mut decoder = super::super::tests::opened();
        decoder.expire_after(IDLE_NS);
        decoder.event(&RawEvent { connection: 2, ..open(1, 6) });
        decoder.expire(1_000 * SECOND_NS);
        decoder.expire(2_000 * SECOND_NS);
        assert!(decoder.state(1).is_some() && decoder.state(2).is_none());
    }

    #[test]
    fn a_pair_is_kept_until_its_last_datagram_is_read() {
        let mut decoder = decoder();
        decoder.event(&opened(1, 1, 0));
        send(&mut decoder, 10, 1);
        decoder.event(&opened(20, 2, 1));
        decoder.expire(20 * SECOND_NS);
        assert!(decoder.state(1).is_some());
        let read = Fields { left_plus_one: 1, ..hit(21 * SECOND_NS, 1, raw::RAW_COPY) };
        decoder.raw(0, &read.raw());
        assert_eq!((decoder.unknown(), decoder.take_unplaced_reads()), (0, 0));
        decoder.event(&opened(22 * SECOND_NS, 3, 2));
        decoder.expire(24 * SECOND_NS);
        assert!(decoder.state(1).is_none() && decoder.state(2).is_none());
    }

    #[test]
    fn where_too_many_wait_for_their_readers_the_reads_are_counted_as_missed() {
        let mut decoder = decoder();
        let many = AWAITED_MAX as u32 + 10;
        for id in 1..=many {
            decoder.event(&opened(1, id, 0));
            send(&mut decoder, 10, id);
            decoder.ended(10, id);
        }
        decoder.expire(5 * SECOND_NS);
        assert_eq!(decoder.remembered(), AWAITED_MAX);
        assert_eq!(decoder.take_unplaced_reads(), u64::from(many));
    }

    #[test]
    fn datagrams_that_left_for_another_host_are_not_kept() {
        let mut decoder = decoder();
        decoder.event(&opened(1, 1, 0));
        for at_ns in 1..=5_000 {
            decoder.raw(0, &hit(at_ns, 1, raw::RAW_TRANSMIT).raw());
        }
        let kept =
            |decoder: &Decoder| decoder.state(1).map(|state| state.flows[0].path.datagrams.kept());
        assert_eq!(kept(&decoder), Some(5_000));
        decoder.expire(20 * SECOND_NS);
        assert_eq!(kept(&decoder), Some(0));
        assert_eq!(decoder.take_gaps().total(), 0);
    }

    #[test]
    fn a_hit_between_others_is_not_of_a_connection_that_took_its_place() {
        let mut decoder = super::super::tests::opened();
        decoder.event(&RawEvent {
            at_ns: 9,
            kind: u32::from(raw::EVENT_GONE),
            connection: 1,
            ..RawEvent::default()
        });
        decoder.expire(5 * SECOND_NS);
        feed(&mut decoder, "20 transmit 1000+100");
        assert_eq!((decoder.unknown(), decoder.records().len()), (1, 0));
    }
}
