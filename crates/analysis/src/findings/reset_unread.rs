//! `reset-unread`: a socket was closed with data unread, so that its kernel reset the connection.
//!
//! RFC 9293 §3.6.1 and RFC 2525 §2.17 ask for the reset: the peer has to know that its data was lost. The peer gets an
//! error in place of the end of the stream, and may lose data in transit to it. A client that closes so gave up on an
//! answer, which is its right, unless the server had unread bytes of it.

use sockscope_record::tcp_states::{CLOSE, ESTABLISHED};
use sockscope_record::{Kind, Point, Record, Side};

use super::language::{self, Topic};
use super::phrasing::{self, Notes};
use crate::{ConnectionView, Finding, FindingId, FlowStore, outcome};

/// `close()` sends the reset itself.
const AT_ONCE_NS: u64 = 1_000_000;

/// Level and number of `SO_LINGER`, by which a program asks for a reset (socket(7)).
const LINGER: (u16, u16) = (1, 13);

pub(super) fn find(view: &ConnectionView<'_>) -> Option<Finding> {
    let connection = &view.store.connection;
    let (side, reset_ns) = outcome::reset(view.store)?;
    let direction = side.sends();
    let (own, towards) = (view.store.flow(direction), view.store.reverse(direction));
    let closed_ns = closed_ns(own)?;
    let is_own_close = reset_ns.abs_diff(closed_ns) <= AT_ONCE_NS;
    let lingers = own
        .events_of(Kind::SocketOption)
        .filter_map(Record::socket_option)
        .any(|it| it.name == LINGER);
    if !is_own_close || lingers || connection.preexisting || is_in_doubt(view) {
        return None;
    }
    let end = |flow: &FlowStore, point, until_ns: u64| {
        let passes = flow.at(point).iter().filter(|pass| pass.at_ns <= until_ns);
        passes.map(|pass| pass.end()).max().unwrap_or(0)
    };
    let arrived = end(towards, Point::ReceiveEnqueue, closed_ns);
    let unread = arrived.saturating_sub(end(towards, Point::ReceiveDequeue, closed_ns));
    let written = end(own, Point::SendEnqueue, closed_ns);
    // The reads of a peer on another host are not known.
    let read = end(own, Point::ReceiveDequeue, reset_ns);
    let at_risk = written.saturating_sub(read);
    let at_risk = if connection.both_ends_here { at_risk } else { 0 };
    if unread == 0 || side == Side::Client && at_risk == 0 {
        return None;
    }
    let peer = direction.receiver();
    let (who, whom) = (phrasing::who(connection, side), phrasing::who(connection, peer));
    let gone = match written.saturating_sub(end(own, Point::ReceiveEnqueue, u64::MAX)) {
        gone if gone > 0 && connection.both_ends_here => {
            format!(" {gone} bytes that it had written never arrived.")
        }
        _ => String::new(),
    };
    let mut notes = Notes::default();
    notes.add(closed_ns, || format!("the {}'s socket closes, {unread} bytes unread", side.name()));
    notes.add(reset_ns, || {
        let left = match at_risk {
            0 => String::new(),
            bytes => format!("; the {} had {bytes} bytes to read", peer.name()),
        };
        format!("the {} resets the connection{left}", side.name())
    });
    let own_process = connection.processes.iter().find(|process| process.side == side);
    let way = language::advice(own_process.map(|process| process.comm.as_str()), Topic::ReadToEnd);
    Some(Finding {
        id: FindingId::ResetUnread,
        flow: towards.id,
        side,
        count: 1,
        connections: 1,
        cost_ns: 0,
        times: Vec::new(),
        summary: format!(
            "The {who} closed its socket with {unread} bytes unread, so that its kernel reset the connection. The \
             {whom} gets an error (ECONNRESET) in place of the end of the stream.{gone}"
        ),
        evidence: notes.into_evidence(),
        fix: format!(
            "In the {who}: read all that the {} sends before close(): {way}. To end early, shutdown(SHUT_WR) first, and \
             read until the {0} closes.",
            peer.name()
        ),
    })
}

/// When the socket was closed, its peer having closed nothing.
fn closed_ns(own: &FlowStore) -> Option<u64> {
    let mut events = own.events.iter().rev();
    let closed = events.find(|event| event.state_change().is_some_and(|it| it.new == CLOSE))?;
    // Where the peer had closed first, the state before is another one: that peer waits for nothing.
    closed.state_change().filter(|change| change.old == ESTABLISHED)?;
    Some(closed.at_ns)
}

/// Whether data may have entered or left a receive queue unseen, or a socket closed so.
fn is_in_doubt(view: &ConnectionView<'_>) -> bool {
    let [arrivals, reads] = [Point::ReceiveEnqueue, Point::ReceiveDequeue].map(Point::index);
    view.flows.iter().any(|flow| {
        let is_unknown = |point: usize| !flow.unknown_ns[point].is_empty();
        is_unknown(arrivals)
            || is_unknown(reads)
            || flow.losses.iter().any(|loss| loss.point.is_none())
    })
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::Fixture;
    use insta::assert_snapshot;

    const IDLE: &str = "0ms app_idle | 4s end";

    /// The server answers 1,000 bytes after a read of 10, and closes.
    const UNREAD: &str = "1ms 1-7 +1000 | 2ms 8 +10 | 3ms <1-7 +600
        50ms <state-change code=7 extra=1 | 50010us <3-6 rst | 50020us state-change code=7 extra=1 | 90ms <8 +600";

    fn found(text: &str) -> String {
        Fixture::new(text, IDLE).found()
    }

    fn is_found(text: &str) -> bool {
        found(text).contains("reset-unread")
    }

    #[test]
    fn a_server_that_closes_with_the_request_unread_resets_the_connection() {
        assert_snapshot!(found(UNREAD), @"reset-unread @server 1x 0 ns: The server closed its socket with 990 bytes unread, so that its kernel reset the connection. The client gets an error (ECONNRESET) in place of the end of the stream.");
        let findings = Fixture::new(UNREAD, IDLE).findings();
        let texts: Vec<_> = findings[0].evidence.iter().map(|one| one.text.as_str()).collect();
        assert_snapshot!(texts.join("\n"), @r"
        the server's socket closes, 990 bytes unread
        the server resets the connection; the client had 600 bytes to read
        ");
        assert_snapshot!(findings[0].fix, @"In the server: read all that the client sends before close(): read() until the message is complete. To end early, shutdown(SHUT_WR) first, and read until the client closes.");
    }

    #[test]
    fn an_answer_that_never_arrived_is_counted() {
        let text = UNREAD
            .replace("3ms <1-7 +600", "3ms <1 +600 | 3ms <2-7 +100")
            .replace(" | 90ms <8 +600", "");
        assert_snapshot!(found(&text), @"reset-unread @server 1x 0 ns: The server closed its socket with 990 bytes unread, so that its kernel reset the connection. The client gets an error (ECONNRESET) in place of the end of the stream. 500 bytes that it had written never arrived.");
    }

    #[test]
    fn a_server_that_read_all_asked_for_its_reset() {
        assert!(!is_found(&UNREAD.replace("8 +10", "8 +1000")));
        assert!(!is_found(&format!("0ms <option extra=65549 detail=1 | {UNREAD}")), "SO_LINGER");
    }

    #[test]
    fn a_peer_that_had_closed_waits_for_nothing() {
        // Its last words, as of TLS, lie unread in CLOSE_WAIT.
        assert!(!is_found(
            &UNREAD
                .replace("50ms <state-change code=7 extra=1", "50ms <state-change code=7 extra=8")
        ));
    }

    #[test]
    fn a_reset_for_data_that_comes_after_the_close_is_another_one() {
        assert!(!is_found(&UNREAD.replace("50010us <3-6 rst", "150ms <3-6 rst")));
        assert!(!is_found(&UNREAD.replace("50ms <state-change code=7 extra=1 |", "")));
    }

    #[test]
    fn a_client_may_give_up_on_an_answer() {
        let text = "1ms 1-8 +100 | 2ms <1-7 +6000 | 3ms <8 +1000
                    9ms state-change code=7 extra=1 | 9010us 3-6 rst | 9020us <state-change code=7 extra=1";
        assert!(!is_found(text));
        let unread = text.replace("1-8 +100", "1-7 +100");
        assert!(is_found(&unread), "its request was not read");
        let alone = Fixture::new(&unread, IDLE).peer_elsewhere().found();
        assert!(!alone.contains("reset-unread"), "it may have been read there: {alone}");
    }

    #[test]
    fn what_may_have_been_read_unseen_is_not_known_to_be_unread() {
        assert!(!is_found(&format!("{UNREAD} | 60ms loss from=1ms detail=1 code=8")));
        assert!(!is_found(&format!("{UNREAD} | 60ms loss from=1ms detail=1 code=31")));
    }
}
