//! The memory of a server's records, in all and by host, and the order in which they give way.

use std::collections::{BTreeMap, BTreeSet};

use super::record::{Charge, Record, State};
use crate::address::{Address, Host};
use crate::config::Config;
use crate::wire::Entity;

/// Times of the next packet of a group that a Request under way may be silent before others may take its
/// place.
const SILENT_PACKETS: u64 = 16;
/// Times of [`Config::silence_ns_min`] after which a client that has not asked again for an answer has it, or
/// is gone: a client that lacks it asks several times within one.
const ANSWERED_SILENCES: u64 = 2;

/// Octets that records take, and those records that can be missed, by when their client was heard last.
#[derive(Debug, Default)]
pub(super) struct Memory {
    bytes: usize,
    by_host: BTreeMap<Host, usize>,
    over: BTreeSet<(u64, Entity)>,
    answered: BTreeSet<(u64, Entity)>,
    receiving: BTreeSet<(u64, Entity)>,
    receiving_by_host: BTreeSet<(Host, u64, Entity)>,
}

impl Memory {
    /// Octets in all.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    fn bytes_of(&self, host: Host) -> usize {
        self.by_host.get(&host).copied().unwrap_or(0)
    }

    /// Counts the present memory and state of `record`.
    pub(super) fn charge<A: Address>(&mut self, client: Entity, record: &mut Record<A>) {
        let host = record.from.host().party();
        let heard_ns = record.heard_ns;
        let charge = Charge {
            host: Some(host),
            bytes: record.held_bytes(),
            over_ns: matches!(record.state, State::Over).then_some(heard_ns),
            answered_ns: record.has_short_answer().then_some(heard_ns),
            receiving_ns: matches!(record.state, State::Receiving(_)).then_some(heard_ns),
        };
        if charge == record.charge {
            return;
        }
        self.take_away(client, record.charge);
        record.charge = charge;
        self.bytes += charge.bytes;
        if charge.bytes > 0 {
            *self.by_host.entry(host).or_default() += charge.bytes;
        }
        if let Some(at_ns) = charge.over_ns {
            self.over.insert((at_ns, client));
        }
        if let Some(at_ns) = charge.answered_ns {
            self.answered.insert((at_ns, client));
        }
        if let Some(at_ns) = charge.receiving_ns {
            self.receiving.insert((at_ns, client));
            self.receiving_by_host.insert((host, at_ns, client));
        }
    }

    /// The record with this charge is gone, or has another.
    pub(super) fn take_away(&mut self, client: Entity, charge: Charge) {
        let Some(host) = charge.host else { return };
        assert!(
            self.bytes >= charge.bytes,
            "{} octets are taken away of {}",
            charge.bytes,
            self.bytes
        );
        self.bytes -= charge.bytes;
        debug_assert!(charge.bytes == 0 || self.by_host.contains_key(&host), "{host:?} has none");
        if let Some(bytes) = self.by_host.get_mut(&host) {
            *bytes -= charge.bytes;
            if *bytes == 0 {
                self.by_host.remove(&host);
            }
        }
        if let Some(at_ns) = charge.over_ns {
            let was_over = self.over.remove(&(at_ns, client));
            debug_assert!(was_over, "the record of {client} was not over");
        }
        if let Some(at_ns) = charge.answered_ns {
            let was_answered = self.answered.remove(&(at_ns, client));
            debug_assert!(was_answered, "the record of {client} had no short answer");
        }
        if let Some(at_ns) = charge.receiving_ns {
            self.receiving.remove(&(at_ns, client));
            self.receiving_by_host.remove(&(host, at_ns, client));
        }
        assert_eq!(self.receiving.len(), self.receiving_by_host.len(), "half Requests by host");
    }

    /// The record that can be missed soonest: one that is over, else a silent half Request, else one whose
    /// client has not asked for its short answer again for long.
    pub(super) fn missable(&self, now_ns: u64, config: &Config) -> Option<Entity> {
        let over = self.over.first().map(|&(_, client)| client);
        let half = || silent(self.receiving.iter().copied(), now_ns, silence_ns(config));
        let answered_ns = ANSWERED_SILENCES * config.silence_ns_min;
        let answered = || silent(self.answered.iter().copied(), now_ns, answered_ns);
        over.or_else(half).or_else(answered)
    }

    /// Whether `more` octets from `host` are within the bounds.
    pub(super) fn has_room(&self, host: Host, more: usize, config: &Config) -> bool {
        self.bytes_of(host) + more <= config.held_bytes_per_host_max
            && self.bytes + more <= config.held_bytes_max
    }

    /// The half Request that gives way to `more` octets from `host`: the longest silent one, of the same
    /// host where that has its share.
    pub(super) fn gives_way(
        &self,
        now_ns: u64,
        host: Host,
        more: usize,
        config: &Config,
    ) -> Option<Entity> {
        if self.bytes_of(host) + more > config.held_bytes_per_host_max {
            let from = (host, 0, Entity(0));
            let of_host = self.receiving_by_host.range(from..).take_while(|entry| entry.0 == host);
            let of_host = of_host.map(|&(_, at_ns, client)| (at_ns, client));
            return silent(of_host, now_ns, silence_ns(config));
        }
        silent(self.receiving.iter().copied(), now_ns, silence_ns(config))
    }
}

/// The longest silence of a half Request that counts as under way. An active one stays: else many of
/// them at once would replace each other, and no Request would be completed.
fn silence_ns(config: &Config) -> u64 {
    SILENT_PACKETS * config.next_packet_ns
}

/// The first one, if nothing was heard of it for so long.
fn silent(
    mut oldest_first: impl Iterator<Item = (u64, Entity)>,
    now_ns: u64,
    silence_ns: u64,
) -> Option<Entity> {
    let (heard_ns, client) = oldest_first.next()?;
    (heard_ns.saturating_add(silence_ns) <= now_ns).then_some(client)
}
