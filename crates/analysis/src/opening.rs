//! The handshake of a connection, as one end of it waits for it.
//!
//! It lasts from the first SYN of that end until its socket is open (RFC 9293 section 3.5). The kernel reports the
//! state of the socket. Where that was not recorded, the client's first acknowledgment ends the handshake: the client
//! is open when it leaves, the server when it arrives. An attempt that fails ends with the reset or the closed socket.

use sockscope_record::tcp_states::{CLOSE, ESTABLISHED};
use sockscope_record::{Direction, Kind, Point, Protocol, tcp_flags};

use crate::ranges::Range;
use crate::{ConnectionStore, FlowStore, Passage};

/// Points at which segments without data pass.
const POINTS: [Point; 4] =
    [Point::InterfaceEnqueue, Point::InterfaceDequeue, Point::InputEnqueue, Point::InputDequeue];

/// From the SYN of the sender of this direction until its socket is open, or until `end_ns` where it never was;
/// `None` where the records do not show it.
pub(crate) fn handshake(
    store: &ConnectionStore,
    direction: Direction,
    end_ns: u64,
) -> Option<Range> {
    let connection = &store.connection;
    let is_seen = connection.protocol == Protocol::Tcp && !connection.preexisting;
    if !is_seen || connection.is_to_itself() {
        return None;
    }
    let own = store.flow(direction);
    let is_syn = |pass: &&Passage| pass.tcp_flags & tcp_flags::SYN != 0;
    let syns = POINTS.iter().filter_map(|point| own.at(*point).iter().find(is_syn));
    let asked_ns = syns.map(|syn| syn.at_ns).min()?;
    let ended_ns = opened_ns(own).or_else(|| {
        let failed = [closed_ns(own), reset_ns(store, asked_ns)];
        let ends = [acknowledged_ns(store, direction)].into_iter().chain(failed);
        ends.flatten().min()
    });
    let has_data = || own.passages.iter().flatten().any(|pass| pass.len > 0);
    let ended_ns = match ended_ns {
        None if has_data() => return None,
        ended_ns => ended_ns.unwrap_or(end_ns).min(end_ns),
    };
    (asked_ns < ended_ns).then_some((asked_ns, ended_ns))
}

fn opened_ns(own: &FlowStore) -> Option<u64> {
    state_ns(own, ESTABLISHED)
}

fn closed_ns(own: &FlowStore) -> Option<u64> {
    state_ns(own, CLOSE)
}

/// When the socket of this end entered this state first.
fn state_ns(own: &FlowStore, state: u8) -> Option<u64> {
    let mut changes =
        own.events_of(Kind::StateChange).filter_map(|it| Some((it.at_ns, it.state_change()?.new)));
    changes.find(|(_, new)| *new == state).map(|(at_ns, _)| at_ns)
}

/// When the client's first segment behind its SYN left, or arrived at the server.
fn acknowledged_ns(store: &ConnectionStore, direction: Direction) -> Option<u64> {
    let client = store.flow(Direction::FromClient);
    let is_ack = |pass: &&Passage| {
        pass.tcp_flags & tcp_flags::ACK != 0 && pass.tcp_flags & tcp_flags::SYN == 0
    };
    let at = |point: &Point| client.at(*point).iter().find(is_ack).map(|pass| pass.at_ns);
    match direction {
        Direction::FromClient => POINTS.iter().find_map(at),
        Direction::FromServer => POINTS.iter().rev().find_map(at),
    }
}

/// When the first reset of either end passed.
fn reset_ns(store: &ConnectionStore, asked_ns: u64) -> Option<u64> {
    let is_reset = |pass: &&Passage| pass.tcp_flags & tcp_flags::RST != 0;
    let flows = store.flows.iter();
    let resets =
        flows.flat_map(|flow| POINTS.iter().filter_map(|it| flow.at(*it).iter().find(is_reset)));
    resets.map(|pass| pass.at_ns).filter(|ns| *ns >= asked_ns).min()
}

#[cfg(test)]
mod tests {
    use sockscope_record::{Connection, Direction, Protocol};

    use super::handshake;
    use crate::testing::{connection, store_of};

    /// The handshakes of both ends, in microseconds.
    fn found_of(connection: Connection, text: &str) -> [Option<(u64, u64)>; 2] {
        let store = store_of(connection, text);
        let end_ns = store.last_ns().unwrap_or(0);
        let us = |(start_ns, end_ns)| (start_ns / 1_000, end_ns / 1_000);
        [Direction::FromClient, Direction::FromServer]
            .map(|direction| handshake(&store, direction, end_ns).map(us))
    }

    fn found(text: &str) -> [Option<(u64, u64)>; 2] {
        found_of(connection(1), text)
    }

    const SEGMENTS: &str = "10us 3-4 syn | 30us 5-6 syn | 40us <3-4 syn ack=0 | 60us <5-6 syn ack=0
        80us 3-4 ack=0 | 100us 5-6 ack=0 | 200us 1-8 +100";

    #[test]
    fn the_socket_says_when_it_is_open() {
        let states = "70us state-change code=1 extra=2 | 110us <state-change code=1 extra=3";
        let [client, server] = found(&format!("{SEGMENTS} | {states}"));
        assert_eq!((client, server), (Some((10, 70)), Some((40, 110))));
    }

    #[test]
    fn without_states_the_third_segment_says_it() {
        assert_eq!(found(SEGMENTS), [Some((10, 80)), Some((40, 100))]);
        // At the server alone it is known when the segment arrived.
        let server = "30us 5-6 syn | 40us <3-4 syn ack=0 | 100us 5-6 ack=0 | 200us 8 +100";
        assert_eq!(found(server), [Some((30, 100)), Some((40, 100))]);
    }

    #[test]
    fn an_attempt_that_fails_lasts_until_then() {
        assert_eq!(found("10us 3-6 syn | 50us <3-6 rst ack=0"), [Some((10, 50)), None]);
        assert_eq!(
            found("10us 3-4 syn | 1s 3-4 syn | 3s state-change code=7 extra=2"),
            [Some((10, 3_000_000)), None]
        );
        assert_eq!(found("10us 3-4 syn | 1s 3-4 syn"), [Some((10, 1_000_000)), None]);
    }

    #[test]
    fn what_the_records_do_not_show_is_no_handshake() {
        assert_eq!(found("200us 1-8 +100"), [None, None]);
        assert_eq!(found("10us 3-6 syn | 200us 1-8 +100 | 300us 1-8 +100"), [None, None]);
        let open = Connection { preexisting: true, ..connection(1) };
        assert_eq!(found_of(open, SEGMENTS), [None, None]);
        let datagrams = Connection { protocol: Protocol::Udp, ..connection(1) };
        assert_eq!(found_of(datagrams, SEGMENTS), [None, None]);
    }
}
