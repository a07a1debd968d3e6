//! Waits of a client for the answer to its SYN.

use sockscope_record::tcp_states::{CLOSE, ESTABLISHED};
use sockscope_record::{Direction, Kind, Protocol, Record, tcp_flags};

use super::intervals::Interval;
use crate::{ConnectionView, FlowStore, LossInterval, Passage};

/// A host answers a SYN at once, in the interrupt that takes it. Only another process that holds the listening socket
/// for a moment can delay the answer, by microseconds.
const ANSWER_NS_MAX: u64 = 10_000_000;

/// A SYN is sent again after a second (RFC 6298 §2.1), and never sooner than the shortest timeout (`TCP_RTO_MIN`, 200
/// ms). One that passes sooner is the same SYN, forwarded to another host.
pub(super) const AGAIN_NS_MIN: u64 = 100_000_000;

/// The opening of one connection, as its client's host saw it.
pub(super) struct Handshake<'a> {
    client: &'a FlowStore,
    server: &'a FlowStore,
    losses: &'a [LossInterval],
    end_ns: u64,
}

impl<'a> Handshake<'a> {
    /// `None` for datagrams, for connections that were open before, and for a socket connected to itself.
    pub(super) fn of(view: &ConnectionView<'a>) -> Option<Self> {
        let store = view.store;
        let connection = &store.connection;
        let is_opened_here = connection.protocol == Protocol::Tcp
            && !connection.preexisting
            && !connection.is_to_itself();
        let [flow, _] = &view.flows;
        is_opened_here.then_some(Self {
            client: store.flow(Direction::FromClient),
            server: store.flow(Direction::FromServer),
            losses: flow.losses,
            end_ns: flow.end_ns,
        })
    }

    /// Whether the client's socket opened in the end.
    pub(super) fn is_opened(&self) -> bool {
        self.state_after(0, ESTABLISHED).is_some()
    }

    /// From `at_ns`, when a SYN was seen at one point, to the next SYN, or until the client gave up. `None`
    /// where that SYN was answered or forwarded later, missed records may hide this, or nothing shows that a client
    /// waits.
    pub(super) fn wait_since(&self, at_ns: u64) -> Option<Interval> {
        let wait = self.wait_for_next(at_ns)?;
        (!self.is_answered(wait)).then_some(wait)
    }

    /// The same from a SYN-ACK, for the segment that makes the client's socket open.
    pub(super) fn wait_for_answer_since(&self, at_ns: u64) -> Option<Interval> {
        let wait = self.wait_for_next(at_ns)?;
        let opened_ns = self.state_after(0, ESTABLISHED);
        opened_ns.is_none_or(|opened_ns| opened_ns >= wait.end_ns).then_some(wait)
    }

    fn wait_for_next(&self, at_ns: u64) -> Option<Interval> {
        if self.state_after(0, ESTABLISHED).is_some_and(|opened_ns| opened_ns <= at_ns) {
            return None;
        }
        let later = self.client.passages[2..6].iter().filter_map(|passes| {
            let mut later = syns(passes).filter(|pass| pass.at_ns > at_ns);
            later.next().map(|pass| pass.at_ns)
        });
        let next_ns = later.chain(self.drop_after(at_ns)).min();
        let is_same = next_ns.is_some_and(|next_ns| next_ns - at_ns < AGAIN_NS_MIN);
        let gave_up_ns = self.state_after(at_ns, CLOSE);
        if next_ns.is_none() && !self.has_socket() {
            return None;
        }
        let until_ns = next_ns.into_iter().chain(gave_up_ns).min().unwrap_or(self.end_ns);
        let wait = Interval::new(at_ns, until_ns.max(at_ns));
        let is_known = !is_same && !self.is_in_doubt(wait);
        (is_known && wait.duration_ns() >= ANSWER_NS_MAX).then_some(wait)
    }

    /// The next drop of a SYN: one that the sender's own host refuses passes no point.
    fn drop_after(&self, at_ns: u64) -> Option<u64> {
        let mut drops = syn_drops(self.client).filter(|drop| drop.at_ns > at_ns);
        drops.next().map(|drop| drop.at_ns)
    }

    /// Whether the client's socket is on this host. A SYN with a forged source has no socket, and is not
    /// retransmitted.
    fn has_socket(&self) -> bool {
        self.client.events.iter().any(|event| event.state_change().is_some())
    }

    fn state_after(&self, at_ns: u64, state: u8) -> Option<u64> {
        let mut events = self.client.events.iter().filter(|event| event.at_ns >= at_ns);
        let event = events.find(|event| event.state_change().is_some_and(|it| it.new == state))?;
        Some(event.at_ns)
    }

    /// Whether the server's side sent anything, even if its own host dropped it.
    fn is_answered(&self, wait: Interval) -> bool {
        let is_within = |at_ns: u64| (wait.start_ns..wait.end_ns).contains(&at_ns);
        let mut packets = self.server.passages[2..6].iter().flatten();
        let mut drops = self.server.events.iter().filter(|event| event.kind == Kind::Drop);
        packets.any(|pass| is_within(pass.at_ns)) || drops.any(|drop| is_within(drop.at_ns))
    }

    /// Whether a packet, a drop or a state may have been missed then.
    fn is_in_doubt(&self, wait: Interval) -> bool {
        let mut hiding = self
            .losses
            .iter()
            .filter(|loss| loss.point.is_none_or(|point| (2..6).contains(&point.index())));
        hiding.any(|loss| loss.start_ns <= wait.end_ns && loss.end_ns >= wait.start_ns)
    }
}

/// The SYNs of a flow at one of its points.
pub(super) fn syns(passes: &[Passage]) -> impl Iterator<Item = &Passage> {
    passes.iter().filter(|pass| is_syn(pass.tcp_flags))
}

/// The drops of SYNs of a flow, in time order.
pub(super) fn syn_drops(flow: &FlowStore) -> impl Iterator<Item = &Record> {
    let drops = flow.events.iter().filter(|event| event.kind == Kind::Drop);
    drops.filter(|drop| is_syn(drop.tcp_flags))
}

fn is_syn(flags: u8) -> bool {
    flags & tcp_flags::SYN != 0
}
