//! Layers of the kernel between a program and its TCP socket: kTLS, and sockmaps with their BPF programs.
//!
//! Such a layer takes the bytes that the program writes, and gives it the data that it reads, in the place of TCP. So
//! writes and reads at that end are not those of the program: points 1 and 8 there and the records of calls give no
//! bytes. Facts that TCP alone shows stay known.

use sockscope_record::{Direction, Kind, Point, Record, Side, SocketLayer};

use crate::{ConnectionAnalysis, ConnectionStore, Finding, FindingId};

impl ConnectionAnalysis {
    /// The layers of the kernel at its ends and their effect, in words; `None` where no end has one.
    pub fn layers_in_words(&self) -> Option<String> {
        let found: Vec<_> = self
            .layers
            .iter()
            .map(|(side, layer)| format!("{}: {}", side.name(), layer.name()))
            .collect();
        (!found.is_empty()).then(|| {
            format!(
                "a layer of the kernel reads and writes this socket ({}): the times of its program's writes \
                 and reads are unknown, and data may pass from socket to socket outside of TCP",
                found.join(", ")
            )
        })
    }
}

/// The layers that the recorder found, by side.
pub(crate) fn of(store: &ConnectionStore) -> Vec<(Side, SocketLayer)> {
    let directions = [Direction::FromClient, Direction::FromServer].into_iter();
    let found = directions.flat_map(|direction| {
        let layers = store.flow(direction).events_of(Kind::SocketLayer);
        layers.filter_map(Record::socket_layer).map(move |layer| (direction.sender(), layer))
    });
    let mut found: Vec<_> = found.collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// Whether a layer is at one of the ends.
pub(crate) fn is_any(store: &ConnectionStore) -> bool {
    [Side::Client, Side::Server].into_iter().any(|side| is_at(store, side))
}

/// Whether a layer is at this end. The socket that connects to itself is both ends.
pub(crate) fn is_at(store: &ConnectionStore, side: Side) -> bool {
    let has = |side: Side| store.flow(side.sends()).events.has(&[Kind::SocketLayer]);
    has(side) || store.connection.is_to_itself() && has(side.other())
}

/// Whether a layer hides the bytes that pass this point of the flow in `direction`.
pub(crate) fn hides(store: &ConnectionStore, direction: Direction, point: Point) -> bool {
    match point {
        Point::SendEnqueue => is_at(store, direction.sender()),
        Point::ReceiveDequeue => is_at(store, direction.receiver()),
        _ => false,
    }
}

/// The records without those that a layer makes of writes and reads; `None` where no end has a layer.
pub(crate) fn without_calls(store: &ConnectionStore) -> Option<ConnectionStore> {
    if !is_any(store) {
        return None;
    }
    let mut seen = store.clone();
    for direction in [Direction::FromClient, Direction::FromServer] {
        let sender_has = is_at(store, direction.sender());
        let receiver_has = is_at(store, direction.receiver());
        let flow = &mut seen.flows[direction as usize];
        for point in [Point::SendEnqueue, Point::ReceiveDequeue] {
            if hides(store, direction, point) {
                flow.passages[point.index()].clear();
            }
        }
        flow.events.retain(|event| match event.kind {
            Kind::WriteCall | Kind::WriteReturn => !sender_has,
            Kind::ReadReturn | Kind::Wakeup | Kind::Run => !receiver_has,
            _ => true,
        });
    }
    Some(seen)
}

/// Whether TCP alone proves the finding.
pub(crate) fn may_speak(finding: &Finding) -> bool {
    matches!(
        finding.id,
        FindingId::Retransmission
            | FindingId::MtuBlackhole
            | FindingId::SynDropped
            | FindingId::ConnectionRefused
            | FindingId::AcceptQueueFull
    )
}

#[cfg(test)]
mod tests {
    use sockscope_record::{Side, SocketLayer};

    use crate::{ConnectionAnalysis, Conversation, LedgerPart, testing};

    const AT_SERVER: &str = " | 1ms <layer code=2";

    fn unknown_ns(seen: &ConnectionAnalysis, flow: usize) -> u64 {
        seen.flows[flow].ledger.ns[LedgerPart::Unknown as usize]
    }

    /// 300 ms in which the program does not read.
    const SLOW: &str = "1ms 1-7 +100 | 2ms <2-6 ack=100 | 301ms 8 +100 | 302ms <1-8 +100";

    #[test]
    fn data_that_a_sockmap_takes_away_does_not_wait_for_a_reader() {
        let plain = testing::analyze(SLOW);
        assert!(plain.flows[0].ledger.ns[LedgerPart::ReceiveApp as usize] > 250_000_000);
        assert!(!plain.findings.is_empty() && plain.layers.is_empty(), "{plain:?}");
        for text in [SLOW.to_owned(), SLOW.replace("301ms 8 +100", "301ms <2-6 ack=100")] {
            let seen = testing::analyze(&(text + AT_SERVER));
            assert_eq!(seen.layers, [(Side::Server, SocketLayer::Sockmap)]);
            assert_eq!(seen.flows[0].ledger.ns[LedgerPart::ReceiveApp as usize], 0, "{seen:?}");
            assert!(unknown_ns(&seen, 0) > 250_000_000, "{seen:?}");
            assert!(seen.findings.is_empty(), "{:?}", seen.findings);
            assert_eq!(seen.requests.conversation, Conversation::Unseen);
            assert!(seen.requests.list.is_empty() && seen.exchanges.is_none());
            assert!(!seen.is_inner);
        }
    }

    #[test]
    fn writes_of_a_layer_are_not_those_of_its_program() {
        let calls =
            "1ms write len=100 | 1ms 1 +100 nagle | 300ms 2-8 +100 | 301ms write-return len=100";
        let plain = testing::analyze(calls);
        assert!(plain.flows[0].ledger.ns[LedgerPart::SendNagle as usize] > 250_000_000);
        let seen = testing::analyze(&format!("{calls} | 0ms layer code=1"));
        assert_eq!(seen.layers, [(Side::Client, SocketLayer::KernelTls)]);
        assert_eq!(seen.flows[0].ledger.ns[LedgerPart::SendNagle as usize], 0, "{seen:?}");
        assert_eq!(seen.flows[0].write_bytes, None);
        assert_eq!(seen.flows[0].bytes, 100);
        assert_eq!(seen.records, plain.records + 1);
    }

    #[test]
    fn the_same_layer_is_named_once_and_an_unknown_one_too() {
        let layers = "1ms 1-8 +10 | 1ms layer code=2 | 2ms layer code=2 | 2ms <layer code=77";
        let seen = testing::analyze(layers);
        let expected = [(Side::Client, SocketLayer::Sockmap), (Side::Server, SocketLayer::Unknown)];
        assert_eq!(seen.layers, expected);
    }

    #[test]
    fn retransmissions_are_those_of_tcp() {
        let dropped = "1ms 1-4 +100 | 1ms drop 0..100 code=4 | 201ms retransmit 0..100 code=1 | \
                       201ms 2-7 0..100 retransmitted | 202ms <2-6 ack=100 | 300ms 1-7 100..200";
        let plain = testing::analyze(dropped);
        let is_retransmission = |seen: &ConnectionAnalysis| {
            seen.findings.iter().any(|it| it.id == crate::FindingId::Retransmission)
        };
        assert!(is_retransmission(&plain), "{:?}", plain.findings);
        let seen = testing::analyze(&(dropped.to_owned() + AT_SERVER));
        assert!(is_retransmission(&seen), "{:?}", seen.findings);
    }
}
