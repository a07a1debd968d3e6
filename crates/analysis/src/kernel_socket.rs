//! Sockets that the kernel uses itself, as MPTCP does for each path (RFC 8684). Programs write to and read from
//! another socket, so that these have no records of points 1 and 8.

use sockscope_record::{Direction, Kind, Point, Protocol, Record};

use crate::record_loss_times::Losses;
use crate::{ConnectionStore, FlowStore};

/// Whether the end that sends `flow` is such a socket: data leaves it that no program wrote there. Data
/// that was in flight when the recording began proves nothing. Not all that programs write passes point 1
/// on every kernel (`docs/reference/hooks.md`): a call seen on the socket shows that it is a program's.
/// So does a read at the other end, as a peer on this host is of the same kind.
pub(crate) fn is_sender_kernel_socket(store: &ConnectionStore, flow: &FlowStore) -> bool {
    let is_read = store.connection.both_ends_here && has_data(flow, Point::ReceiveDequeue);
    store.connection.protocol == Protocol::Tcp
        && !store.connection.preexisting
        && has_data(flow, Point::SendDequeue)
        && !has_data(flow, Point::SendEnqueue)
        && !is_read
        && !flow.events.iter().any(is_write)
}

/// Whether one of its ends is such a socket, from which no program reads either. Not where a write or a read
/// may be among the missed records. `end_ns` is its last record's time.
pub(crate) fn has_kernel_socket(store: &ConnectionStore, losses: &Losses, end_ns: u64) -> bool {
    let opened_ns = store.connection.opened_ns;
    // Data of an open socket may be read after its last record.
    let closed_ns = store.connection.closed_ns.map_or(u64::MAX, |closed_ns| closed_ns.max(end_ns));
    let is_missed = |point| losses.within(point, opened_ns, closed_ns).is_some();
    let is_any_missed = [Point::SendEnqueue, Point::ReceiveDequeue].into_iter().any(is_missed);
    let is_inner_from = |direction| {
        is_sender_kernel_socket(store, store.flow(direction))
            && !has_data(store.reverse(direction), Point::ReceiveDequeue)
    };
    !is_any_missed && [Direction::FromClient, Direction::FromServer].into_iter().any(is_inner_from)
}

fn is_write(event: &Record) -> bool {
    matches!(event.kind, Kind::WriteCall | Kind::WriteReturn)
}

fn has_data(flow: &FlowStore, point: Point) -> bool {
    flow.at(point).iter().any(|pass| pass.len > 0)
}

#[cfg(test)]
mod tests {
    use sockscope_record::Connection;

    use crate::{ConnectionAnalysis, LedgerPart, testing};

    const SUBFLOW: &str = "1ms 2-7 +100 | 2ms <2-7 +100 ack=100 | 300ms 2-7 +100 ack=100";

    /// The analysis where only the client's host was recorded.
    fn client_alone(text: &str) -> ConnectionAnalysis {
        let alone = Connection { both_ends_here: false, ..testing::connection(1) };
        testing::analyze_of(alone, text)
    }

    #[test]
    fn data_that_nobody_wrote_or_read_there_is_of_a_socket_of_the_kernels_own() {
        assert!(testing::analyze(SUBFLOW).is_inner);
        assert!(!testing::analyze("1ms 1-8 +100 | 2ms <1-8 +100").is_inner);
        // Kernels that lack point 1 see the reads.
        assert!(!testing::analyze(&format!("{SUBFLOW} | 301ms 8 +200 | 301ms <8 +100")).is_inner);
        let joined = Connection { preexisting: true, ..testing::connection(1) };
        assert!(!testing::analyze_of(joined, SUBFLOW).is_inner);
    }

    #[test]
    fn data_whose_write_alone_was_not_seen_is_a_programs() {
        // As of `sendfile` on older kernels: of a client that reads nothing, or whose peer is elsewhere.
        assert!(!testing::analyze("1ms 2-8 +100 | 2ms 2-8 +100").is_inner);
        let alone = "1ms 2-4 +100 | 300ms 2-4 +100";
        assert!(client_alone(alone).is_inner);
        assert!(!client_alone(&format!("{alone} | 300ms write-return len=100")).is_inner);
    }

    #[test]
    fn data_whose_write_or_read_may_be_missed_may_be_a_programs() {
        for missed in ["code=1", "code=8"] {
            let text = format!("1ms 2-7 +100 | 20ms loss {missed} from=0us detail=1");
            assert!(!client_alone(&text).is_inner, "{missed}");
        }
        assert!(client_alone("1ms 2-7 +100 | 20ms loss code=3 from=0us detail=1").is_inner);
        // Records missed while it is not open are another connection's.
        let closed = Connection {
            opened_ns: 500_000,
            closed_ns: Some(10_000_000),
            both_ends_here: false,
            ..testing::connection(1)
        };
        for (at, from) in [("400us", "0us"), ("20ms", "11ms")] {
            let text = format!("1ms 2-7 +100 | {at} loss code=1 from={from} detail=1");
            assert!(testing::analyze_of(closed.clone(), &text).is_inner, "{at}");
        }
    }

    #[test]
    fn a_program_that_is_read_and_does_not_read_is_slow() {
        let text = "1ms <1-7 +1000 | 2ms 2-8 +100 | 300ms 2-8 +100";
        let seen = testing::analyze(text);
        assert!(seen.flows[1].ledger.ns[LedgerPart::ReceiveApp as usize] > 250_000_000, "{seen:?}");
    }

    #[test]
    fn what_came_to_it_is_not_taken_for_unread() {
        let text =
            "1ms 2-4 +100 | 2ms <5-7 +100 ack=100 | 300ms 2-4 +100 ack=100 | 301ms <5-6 ack=200";
        let seen = client_alone(text);
        assert!(seen.is_inner);
        assert_eq!(seen.flows[1].ledger.ns[LedgerPart::ReceiveApp as usize], 0, "{seen:?}");
        assert!(seen.findings.is_empty(), "{:?}", seen.findings);
        // A program that writes and does not read leaves it there.
        let written = client_alone(&text.replace(" 2-4 ", " 1-4 "));
        assert!(!written.is_inner);
        assert!(written.flows[1].ledger.ns[LedgerPart::ReceiveApp as usize] > 250_000_000);
    }
}
