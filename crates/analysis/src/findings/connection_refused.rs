//! `connection-refused`: a host answered the SYN by a reset.
//!
//! Programs try several addresses, and wait for a server that starts: where the same program opened a connection to
//! the same port right after, or the first one to that port opened later, nothing is wrong.

use sockscope_record::{Direction, Side, tcp_flags};

use super::drop_reason;
use super::handshake::{syn_drops, syns};
use super::phrasing::{self, Notes};
use crate::drops::{self, Cause};
use crate::{ConnectionView, Finding, FindingId, Unopened};

/// A program that tries the next address does so at once (RFC 8305 §5: 250 ms), and one that tries again mostly
/// within a second.
const SERVED_NS_MAX: u64 = 1_000_000_000;

pub(super) fn find(view: &ConnectionView<'_>) -> Option<Finding> {
    let connection = &view.store.connection;
    let [client, answers] = &view.store.flows;
    let asked = client.passages[2..6].iter().filter_map(|passes| syns(passes).next());
    let asked_ns = asked.map(|pass| pass.at_ns).min()?;
    if view.unopened != Some(&Unopened::Refused) || is_served(view, asked_ns) {
        return None;
    }
    let resets = answers.passages[2..6].iter().flatten();
    let resets = resets.filter(|pass| pass.tcp_flags & tcp_flags::RST != 0);
    let reset_ns = resets.map(|pass| pass.at_ns).filter(|at_ns| *at_ns >= asked_ns).min();
    let reasons = view.flows[0].drop_reasons;
    let drop = syn_drops(client).find(|drop| drops::name_of(drop, reasons).is_some());
    let reason = drop.and_then(|drop| drops::name_of(drop, reasons));
    let server = connection.server;
    let cause = drop.and_then(|drop| drops::named(drop, reasons));
    let (why, fix) = match (cause, reason) {
        (Some(Cause::NoSocket), _) => ("no program listens there".to_owned(), listen()),
        (Some(Cause::Unknown), Some(reason)) => {
            let fix = format!("On the server's host: {}.", drop_reason::fix(reason));
            (format!("{} rejects it (reason {reason})", drop_reason::dropped_by(reason)), fix)
        }
        _ => {
            let why = "no program listens there, or a packet filter rejects connections";
            (why.to_owned(), format!("{} Look for a filter too (nft list ruleset).", listen()))
        }
    };
    let mut notes = Notes::default();
    notes.add(asked_ns, || format!("a SYN asks to connect to {server}"));
    if let (Some(drop), Some(reason)) = (drop, reason) {
        notes.add(drop.at_ns, || format!("the SYN is dropped, reason {reason}"));
    }
    if let Some(reset_ns) = reset_ns {
        notes.add(reset_ns, || "a reset answers it".to_owned());
    }
    let client = phrasing::who(connection, Side::Client);
    Some(Finding {
        id: FindingId::ConnectionRefused,
        flow: view.store.flow(Direction::FromClient).id,
        side: Side::Server,
        count: 1,
        connections: 1,
        cost_ns: 0,
        times: Vec::new(),
        summary: format!("The connection of the {client} to {server} was refused: {why}."),
        evidence: notes.into_evidence(),
        fix,
    })
}

fn listen() -> String {
    "On the server's host: start the program, or let it listen at this address (ss -ltn shows which; 127.0.0.1, ::1 \
     and 0.0.0.0 differ). Else correct the address in the client."
        .to_owned()
}

/// Whether the program that asked got its connection by another attempt, or the server only started later.
fn is_served(view: &ConnectionView<'_>, asked_ns: u64) -> bool {
    let connection = &view.store.connection;
    let port = connection.server.port();
    let mut askers = connection.processes.iter().filter(|process| process.side == Side::Client);
    let is_soon = |at_ns: &u64| *at_ns >= asked_ns && at_ns - asked_ns <= SERVED_NS_MAX;
    askers.any(|asker| view.openings.asked(asker.key(), port).iter().any(is_soon))
        || view.openings.first_ns(port).is_some_and(|first_ns| first_ns > asked_ns)
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::Fixture;
    use insta::assert_snapshot;

    const IDLE: &str = "0ms app_idle | 4s end";

    /// As Linux refuses it.
    const REFUSED: &str = "100ms 3-6 syn | 100005us drop syn detail=203 | 100010us <3-6 rst ack=0";

    fn of(text: &str) -> Fixture {
        Fixture::new(text, IDLE)
    }

    #[test]
    fn a_syn_that_no_socket_takes_is_refused() {
        assert_snapshot!(of(REFUSED).found(), @"connection-refused @server 1x 0 ns: The connection of the client to 127.0.0.1:80 was refused: no program listens there.");
        let findings = of(REFUSED).findings();
        let texts: Vec<_> = findings[0].evidence.iter().map(|one| one.text.as_str()).collect();
        assert_snapshot!(texts.join("\n"), @r"
        a SYN asks to connect to 127.0.0.1:80
        the SYN is dropped, reason NO_SOCKET
        a reset answers it
        ");
    }

    #[test]
    fn a_reset_of_another_host_or_of_a_filter_has_its_own_reason() {
        let summary_and_fix = |text: &str| {
            let findings = of(text).findings();
            format!("{}\n{}", findings[0].summary, findings[0].fix)
        };
        assert_snapshot!(summary_and_fix("100ms 3-4 syn | 190ms <5-6 rst"), @r"
        The connection of the client to 127.0.0.1:80 was refused: no program listens there, or a packet filter rejects connections.
        On the server's host: start the program, or let it listen at this address (ss -ltn shows which; 127.0.0.1, ::1 and 0.0.0.0 differ). Else correct the address in the client. Look for a filter too (nft list ruleset).
        ");
        let filter = REFUSED.replace("detail=203", "detail=77");
        assert_snapshot!(summary_and_fix(&filter), @r"
        The connection of the client to 127.0.0.1:80 was refused: the packet filter rejects it (reason NETFILTER_DROP).
        On the server's host: let the packet filter accept these packets (nft list ruleset, iptables-save).
        ");
    }

    #[test]
    fn a_program_that_tries_the_next_address_is_served() {
        assert_snapshot!(of(REFUSED).client_opened_at("101ms").found(), @"");
        let once_more = of(REFUSED).client_opened_at("50ms").found();
        assert!(once_more.contains("connection-refused"), "it was served before: {once_more}");
    }

    #[test]
    fn a_server_that_starts_later_refused_nobody_for_long() {
        assert_snapshot!(of(REFUSED).client_opened_at("3s").found(), @"");
    }

    #[test]
    fn a_client_that_gives_up_or_is_answered_was_not_refused() {
        assert_snapshot!(of("100ms 3-6 syn | 3s 3-6 rst").found(), @"");
        assert_snapshot!(of("1ms 3-6 syn | 2ms <3-6 syn ack=0 | 3ms 3-6 ack=0 | 4ms <3-6 rst").found(), @"");
    }

    #[test]
    fn where_an_answer_may_have_been_missed_it_is_silent() {
        let said = of(&format!("{REFUSED} | 200ms loss from=50ms detail=1 code=6")).found();
        assert_snapshot!(said, @"");
    }
}
