//! The sessions that a store remembers, and the order in which they give way to new ones.
//!
//! Any host can begin sessions, also with a forged address. The number of a session is random, and is sent
//! to its client's address alone: a client that repeats it has received it. So a session that was never used
//! gives way before one that was. Among these the one gives way that was used least recently. A host at its
//! limit loses a session of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};

use super::request_codec::Refusal;
use crate::address::Host;
use crate::wire::Entity;

/// Sessions that are remembered.
const SESSIONS_MAX: usize = 65_536;
/// Sessions of one host among them: an IPv4 address, or the /64 of an IPv6 address.
const SESSIONS_PER_HOST_MAX: usize = 8_192;

/// A session and the last thing that it changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Session {
    pub client: Entity,
    /// Where it was begun; unknown of one that an earlier version began.
    pub host: Option<Host>,
    pub sequence: u32,
    /// The last answer: number and version, or the reason of the refusal.
    pub answer: Result<(u32, u64), Refusal>,
}

/// Unused ones first, then by when they were used last.
type Order = BTreeSet<(bool, u64, u32)>;

#[derive(Debug, Default)]
pub(super) struct Sessions {
    of: BTreeMap<u32, Known>,
    order: Order,
    by_host: BTreeMap<Host, Order>,
    /// Counts uses.
    uses: u64,
    random: RandomState,
}

#[derive(Debug)]
struct Known {
    session: Session,
    is_used: bool,
    used_at: u64,
}

impl Known {
    fn key(&self, number: u32) -> (bool, u64, u32) {
        (self.is_used, self.used_at, number)
    }
}

impl Sessions {
    pub(super) fn get(&self, number: u32) -> Option<&Session> {
        self.of.get(&number).map(|known| &known.session)
    }

    /// All of them, those that give way first before the others.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Session)> {
        self.order.iter().filter_map(|&(_, _, number)| Some((number, self.get(number)?)))
    }

    /// A random number that no session has; 0 is no session.
    pub(super) fn free_number(&self) -> u32 {
        let numbers = (self.uses..).map(|seed| self.random.hash_one(seed) as u32);
        let mut free = numbers.filter(|number| *number != 0 && !self.of.contains_key(number));
        // The numbers do not end, and at most 65,536 of 2^32 are taken.
        free.next().unwrap_or(0)
    }

    /// Takes a session over, in the place of another where there are too many.
    pub(super) fn insert(&mut self, number: u32, session: Session) {
        self.remove(number);
        let host = session.host.map(Host::party);
        let of_host = host.and_then(|host| self.by_host.get(&host));
        let is_share_full = of_host.is_some_and(|order| order.len() >= SESSIONS_PER_HOST_MAX);
        let order = of_host.filter(|_| is_share_full);
        if is_share_full || self.of.len() >= SESSIONS_MAX {
            let first = order.unwrap_or(&self.order).first().map(|&(_, _, number)| number);
            first.and_then(|number| self.remove(number));
        }
        self.uses += 1;
        let is_used = session.sequence > 0;
        self.place(number, Known { session, is_used, used_at: self.uses });
        assert!(self.of.len() <= SESSIONS_MAX, "more sessions than are kept");
    }

    /// A client has repeated its session's number.
    pub(super) fn touch(&mut self, number: u32) {
        if let Some(mut known) = self.remove(number) {
            self.uses += 1;
            (known.is_used, known.used_at) = (true, self.uses);
            self.place(number, known);
        }
    }

    /// Sets the last change of a session, and its answer.
    pub(super) fn set_outcome(
        &mut self,
        number: u32,
        sequence: u32,
        answer: Result<(u32, u64), Refusal>,
    ) {
        self.touch(number);
        if let Some(known) = self.of.get_mut(&number) {
            (known.session.sequence, known.session.answer) = (sequence, answer);
        }
    }

    fn place(&mut self, number: u32, known: Known) {
        self.order.insert(known.key(number));
        if let Some(host) = known.session.host {
            self.by_host.entry(host.party()).or_default().insert(known.key(number));
        }
        let before = self.of.insert(number, known);
        assert!(before.is_none(), "session {number} is placed twice");
        assert_eq!(self.order.len(), self.of.len(), "one place in the order for each session");
    }

    fn remove(&mut self, number: u32) -> Option<Known> {
        let known = self.of.remove(&number)?;
        self.order.remove(&known.key(number));
        if let Some(host) = known.session.host.map(Host::party)
            && let Some(order) = self.by_host.get_mut(&host)
        {
            order.remove(&known.key(number));
            if order.is_empty() {
                self.by_host.remove(&host);
            }
        }
        Some(known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(sessions: &mut Sessions, client: u64, host: Option<u32>) -> u32 {
        let number = sessions.free_number();
        let host = host.map(|host| Host(0xffff_0000_0000 | u128::from(host)));
        let session = Session { client: Entity(client), host, sequence: 0, answer: Ok((0, 0)) };
        sessions.insert(number, session);
        number
    }

    #[test]
    fn a_session_in_use_outlives_any_number_that_strangers_begin_in_others_names() {
        let mut sessions = Sessions::default();
        let ours = begin(&mut sessions, 1, Some(0));
        sessions.touch(ours);
        let unused = begin(&mut sessions, 2, Some(0));
        for stranger in 1..=(SESSIONS_MAX + 512) as u32 {
            begin(&mut sessions, 3, Some(stranger));
        }
        assert!(sessions.get(ours).is_some() && sessions.get(unused).is_none());
        assert_eq!((sessions.of.len(), sessions.order.len()), (SESSIONS_MAX, SESSIONS_MAX));
    }

    #[test]
    fn a_host_that_uses_many_sessions_pushes_out_its_own() {
        let mut sessions = Sessions::default();
        let ours = begin(&mut sessions, 1, Some(1));
        let greedy: Vec<u32> = (0..=SESSIONS_PER_HOST_MAX)
            .map(|_| {
                let number = begin(&mut sessions, 2, Some(2));
                sessions.touch(number);
                number
            })
            .collect();
        assert!(sessions.get(ours).is_some() && sessions.get(greedy[0]).is_none());
        assert!(greedy[1..].iter().all(|&number| sessions.get(number).is_some()));
    }

    #[test]
    fn sessions_of_unknown_hosts_are_bounded_as_well() {
        let mut sessions = Sessions::default();
        (0..=SESSIONS_MAX as u64).for_each(|client| {
            begin(&mut sessions, client, None);
        });
        assert_eq!((sessions.of.len(), sessions.by_host.len()), (SESSIONS_MAX, 0));
    }
}
