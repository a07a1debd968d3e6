//! The end of a connection's last request where no answer to it was seen.

use sockscope_record::tcp_states::{CLOSE, CLOSING, FIN_WAIT1, LAST_ACK};
use sockscope_record::{Direction, Kind, Record, Side, tcp_flags};

use super::request::RequestEnd;
use crate::{ConnectionStore, FlowStore};

/// States that a socket enters when its program closes it or shuts it down, or TCP gives up.
const CLOSING_STATES: [u8; 4] = [FIN_WAIT1, CLOSE, LAST_ACK, CLOSING];

/// The end of a connection and of the trace.
#[derive(Debug, Clone, Copy)]
pub(super) struct Closing<'a> {
    pub store: &'a ConnectionStore,
    /// Side that reset the connection first, with the time.
    pub reset: Option<(Side, u64)>,
    /// When the trace ended.
    pub trace_end_ns: u64,
}

impl Closing<'_> {
    /// End of the wait of `asker` that began at `since_ns`, with its cause.
    pub(super) fn of_wait(&self, asker: Direction, since_ns: u64) -> (u64, RequestEnd) {
        let answerer = asker.reverse();
        let reset = self.reset.map(|(side, at_ns)| match side == asker.sender() {
            true => (at_ns, RequestEnd::ResetByAsker),
            false => (at_ns, RequestEnd::ResetByAnswerer),
        });
        let closed = |direction, end| self.closed_ns(direction, since_ns).map(|at_ns| (at_ns, end));
        let given_up = || self.store.connection.closed_ns.map(|at_ns| (at_ns, RequestEnd::GivenUp));
        let known = [
            reset,
            closed(asker, RequestEnd::GivenUp),
            closed(answerer, RequestEnd::Closed),
            given_up(),
            Some((self.trace_end_ns.max(since_ns), RequestEnd::Open)),
        ];
        let later = known.into_iter().flatten().filter(|(at_ns, _)| *at_ns >= since_ns);
        later.min_by_key(|(at_ns, _)| *at_ns).unwrap_or((since_ns, RequestEnd::Open))
    }

    /// When the sender of a direction first closed, as its FIN or its socket's state shows, not before `since_ns`.
    fn closed_ns(&self, direction: Direction, since_ns: u64) -> Option<u64> {
        let flow = self.store.flow(direction);
        let closes = |event: &&Record| {
            let state = event.state_change().map(|change| change.new);
            state.is_some_and(|state| CLOSING_STATES.contains(&state))
        };
        let changes = flow.events_of(Kind::StateChange);
        let changes = changes.filter(closes).map(|event| event.at_ns);
        let all = fins(flow).chain(changes);
        all.filter(|at_ns| *at_ns >= since_ns).min()
    }
}

fn fins(flow: &FlowStore) -> impl Iterator<Item = u64> + '_ {
    let packets = flow.passages[1..6].iter().flatten();
    packets.filter(|pass| pass.tcp_flags & tcp_flags::FIN != 0).map(|pass| pass.at_ns)
}
