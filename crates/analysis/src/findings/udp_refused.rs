//! `udp-refused`: datagrams arrived at their host, and no socket takes them there.
//!
//! A socket that asked and has closed refuses late answers, and one that closed at the end refuses later ones: both
//! are normal ends of programs. So only datagrams of the side that sent first count, and of these the ones before
//! the last that a socket took.

use sockscope_record::{Direction, Point};

use super::facts::FlowFacts;
use super::phrasing;
use super::tally::Tally;
use crate::drops::{self, Cause};
use crate::{Finding, FindingId};

pub(super) fn find(facts: &FlowFacts<'_>) -> Option<Finding> {
    if facts.view.direction != Direction::FromClient {
        return None;
    }
    let (connection, flow) = (&facts.view.store.connection, facts.view.flow());
    let reasons = facts.view.drop_reasons;
    let last_taken_ns = flow.at(Point::ReceiveEnqueue).last().map(|pass| pass.at_ns);
    let mut tally = Tally::default();
    for one in drops::at_the_socket(connection, flow, reasons) {
        let drop = one.drop;
        // Without the name a filter may have dropped it.
        let is_named = drops::named(drop, reasons) == Some(Cause::NoSocket);
        if is_named && last_taken_ns.is_none_or(|taken_ns| drop.at_ns < taken_ns) {
            tally.count += 1;
            tally.notes.add(drop.at_ns, || {
                let reason = drops::reason(reasons, drop);
                format!(
                    "a datagram of {} bytes arrives and no socket takes it ({reason})",
                    drop.len
                )
            });
        }
    }
    if tally.count == 0 {
        return None;
    }
    let (sender, server) = (facts.who(facts.sender()), connection.server);
    let datagrams = phrasing::counted(tally.count, "datagram");
    let summary = format!(
        "{datagrams} of the {sender} arrived at {server} and no program had a socket there that takes them."
    );
    let fix = "On the server's host: start the program, or let it bind this address (ss -lun shows which; 127.0.0.1, \
               ::1 and 0.0.0.0 differ). Else correct the address in the sender."
        .to_owned();
    Some(tally.into_finding(FindingId::UdpRefused, facts, facts.receiver(), summary, fix))
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::Fixture;
    use insta::assert_snapshot;

    fn found(text: &str) -> String {
        Fixture::new(text, "0ms app_idle | 5ms end").udp().found()
    }

    const REFUSED: &str = "1ms 1-6 +100 | 1005us drop +100 code=6 detail=203 | 2ms 1-6 +100 | 2005us drop +100 code=6 detail=203";

    #[test]
    fn datagrams_for_no_socket_are_refused() {
        assert_snapshot!(found(REFUSED), @"udp-refused @server 2x 0 ns: 2 datagrams of the client arrived at 127.0.0.1:80 and no program had a socket there that takes them.");
    }

    #[test]
    fn datagrams_before_the_server_returns_are_refused() {
        assert_snapshot!(found(&format!("{REFUSED} | 3ms 1-6 +100 | 3ms 7-8 200..300")), @"udp-refused @server 2x 0 ns: 2 datagrams of the client arrived at 127.0.0.1:80 and no program had a socket there that takes them.");
    }

    #[test]
    fn a_socket_that_closes_at_the_end_refuses_nothing_that_matters() {
        assert_snapshot!(found("0ms 1-8 +100 | 1ms 1-6 +100 | 1005us drop 100..200 code=6 detail=203"), @"");
    }

    #[test]
    fn a_late_answer_to_a_closed_socket_is_no_matter() {
        assert_snapshot!(found("0ms 1-8 +100 | 1ms <1-6 +100 | 1005us <drop +100 code=6 detail=203"), @"");
    }

    #[test]
    fn a_drop_without_that_name_may_have_another_reason() {
        assert_snapshot!(found(&REFUSED.replace("detail=203", "detail=999")), @"");
    }
}
