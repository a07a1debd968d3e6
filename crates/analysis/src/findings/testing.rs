//! Fixtures for rules: records as text, and the ledger over time as text.
//!
//! The ledger is written out so that a rule's test needs only the rule: `TIME PART [POSITION]`, each
//! part lasting until the next entry's time, the last entry being `TIME end`.

use sockscope_record::{Connection, Direction, Process, Protocol, Record, Side, StateChange};

use crate::openings::{Established, Openings};
use crate::outcome;
use crate::record_loss_times::Losses;
use crate::testing::{analyze_all, connection, records, time_ns};
use crate::{
    AckSummary, Analyzer, AtLeast, BurstSummary, ConnectionAnalysis, ConnectionStore,
    ConnectionView, Conversation, Distribution, DropReasons, ExchangeSummary, FlowAnalysis,
    FlowCurves, FlowView, Ledger, LedgerPart, LedgerSpan, LossInterval, NamespaceNames, Requests,
};

/// The kernel's names of some numbers.
const REASONS: [(u32, &str); 6] = [
    (6, "SOCKET_RCVBUFF"),
    (77, "NETFILTER_DROP"),
    (203, "NO_SOCKET"),
    (205, "SOCKET_FILTER"),
    (240, "TCP_LISTEN_OVERFLOW"),
    (264, "QDISC_DROP"),
];

/// A connection's records and its client flow's ledger; the server's flow is idle throughout.
pub(super) struct Fixture {
    store: ConnectionStore,
    losses: Vec<LossInterval>,
    timeline: Vec<LedgerSpan>,
    exchanges: Option<ExchangeSummary>,
    requests: Requests,
    openings: Openings,
    drop_reasons: DropReasons,
    network_namespaces: NamespaceNames,
}

/// Request and response figures of a fixture.
#[derive(Debug, Clone, Copy)]
pub(super) struct Exchanges {
    pub count: u64,
    pub p50_ms: u64,
    pub mean_ms: u64,
}

/// The findings of the rules in `text` with this ledger: one a line, empty without any.
pub(super) fn found(text: &str, ledger: &str) -> String {
    Fixture::new(text, ledger).found()
}

/// The evidence of the one finding in `text` with this ledger, one piece a line.
pub(super) fn evidence(text: &str, ledger: &str) -> String {
    let findings = Fixture::new(text, ledger).findings();
    let [finding] = &findings[..] else { panic!("not one finding, but {}", findings.len()) };
    let lines: Vec<_> = finding.evidence.iter().map(|one| one.text.as_str()).collect();
    lines.join("\n")
}

/// `entry` for each of `count` times, `period` apart, from one period on.
pub(super) fn repeat(count: u64, period: &str, entry: impl Fn(&str) -> String) -> String {
    let period_ns = time_ns(period);
    let unit = period.trim_start_matches(|c: char| c.is_ascii_digit());
    let unit_ns = time_ns(&format!("1{unit}"));
    let at = |i: u64| format!("{}{unit}", period_ns / unit_ns * i);
    let entries: Vec<_> = (1..=count).map(|i| entry(&at(i))).collect();
    entries.join(" | ")
}

/// The findings of the rules in a connection, one a line.
pub(super) fn found_in(connection: &ConnectionAnalysis) -> String {
    let lines: Vec<_> = connection.findings.iter().map(line).collect();
    lines.join("\n")
}

/// The findings of the rules in several connections, as [`analyze_all`] takes them: a line each, with the
/// connection.
pub(super) fn found_across<T: AsRef<str>>(connections: &[(&str, T)]) -> String {
    let analysis = analyze_all(connections);
    let lines = analysis.connections.iter().flat_map(|connection| {
        let id = connection.connection.id.0;
        connection.findings.iter().map(move |finding| format!("{id} {}", line(finding)))
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn line(finding: &crate::Finding) -> String {
    assert!(!finding.evidence.is_empty(), "{} proves nothing", finding.id.name());
    assert!(finding.evidence.len() <= crate::Finding::EVIDENCE_MAX);
    assert!(finding.evidence.is_sorted_by_key(|evidence| evidence.at_ns));
    assert!(!finding.fix.is_empty());
    let crate::Finding { id, side, count, cost_ns, summary, .. } = finding;
    let cost = super::phrasing::time(*cost_ns);
    format!("{} @{} {count}x {cost}: {summary}", id.name(), side.name())
}

impl Fixture {
    pub(super) fn new(text: &str, ledger: &str) -> Self {
        Self::of_records(&records(text), ledger)
    }

    /// Of records as they are, on a connection that need not be described.
    pub(super) fn of_records(records: &[Record], ledger: &str) -> Self {
        let mut analyzer = Analyzer::new();
        analyzer.connection(connection(1));
        analyzer.push(records);
        let mut stores = analyzer.into_stores();
        Self {
            store: stores.connections.remove(0),
            losses: stores.losses,
            timeline: timeline(ledger),
            exchanges: None,
            requests: Requests::none(Conversation::Silent),
            openings: Openings::default(),
            drop_reasons: REASONS.map(|(number, name)| (number, name.to_owned())).into(),
            network_namespaces: NamespaceNames::new(),
        }
    }

    /// A socket of this host listens at the server's address: another connection to it is open from the beginning
    /// on, used by a process of that name, or by no process.
    pub(super) fn listening(self, comm: Option<&str>) -> Self {
        let used_by = |comm: &str| Process::new(9, comm, Side::Server);
        let processes = comm.into_iter().map(used_by).collect();
        self.listening_for(&[Connection { processes, ..connection(2) }])
    }

    /// The same with a connection for each of these processes of the server.
    pub(super) fn listening_as(self, comm: &str, pids: &[u32]) -> Self {
        let used_by = |pid: u32| Process::new(pid, comm, Side::Server);
        let others = pids
            .iter()
            .zip(2..)
            .map(|(&pid, id)| Connection { processes: vec![used_by(pid)], ..connection(id) });
        self.listening_for(&others.collect::<Vec<_>>())
    }

    fn listening_for(mut self, others: &[Connection]) -> Self {
        let mut established = Established::default();
        for other in others {
            let open = Record { flow: other.id.flow(Direction::FromServer), ..Record::default() };
            established.look(&open.with_state_change(StateChange { old: 3, new: 1 }));
        }
        self.openings = Openings::new(others.iter(), &established);
        self
    }

    /// The client's process has opened another connection to the same port at that time.
    pub(super) fn client_opened_at(mut self, at: &str) -> Self {
        let process = Process::new(8, "asks", Side::Client);
        self.store.connection.processes = vec![process.clone()];
        let other = Connection { processes: vec![process], ..connection(2) };
        let flow = other.id.flow(Direction::FromClient);
        let open = Record { flow, at_ns: time_ns(at), ..Record::default() };
        let mut established = Established::default();
        established.look(&open.with_state_change(StateChange { old: 2, new: 1 }));
        self.openings = Openings::new([&other].into_iter(), &established);
        self
    }

    /// The same connection, to another host.
    pub(super) fn peer_elsewhere(mut self) -> Self {
        self.store.connection.both_ends_here = false;
        self
    }

    /// This network namespace has a name.
    pub(super) fn namespace(mut self, number: u32, name: &str) -> Self {
        self.network_namespaces.insert(number, name.to_owned());
        self
    }

    /// The kernel has no names for why it drops packets.
    pub(super) fn nameless_drops(mut self) -> Self {
        self.drop_reasons.clear();
        self
    }

    /// The same connection as datagrams.
    pub(super) fn udp(mut self) -> Self {
        self.store.connection.protocol = Protocol::Udp;
        self
    }

    /// The same connection between Unix sockets.
    pub(super) fn unix(mut self) -> Self {
        self.store.connection.protocol = Protocol::Unix;
        self
    }

    /// The same connection, open before the recording.
    pub(super) fn preexisting(mut self) -> Self {
        self.store.connection.preexisting = true;
        self
    }

    /// The same connection, closed at `at_ns`.
    pub(super) fn closed_at(mut self, at_ns: u64) -> Self {
        self.store.connection.closed_ns = Some(at_ns);
        self
    }

    /// The client asks, with these figures.
    pub(super) fn exchanges(mut self, exchanges: Exchanges) -> Self {
        let Exchanges { count, p50_ms, mean_ms } = exchanges;
        let total_ns = Distribution {
            count,
            mean: (mean_ms * 1_000_000) as f64,
            min: p50_ms * 1_000_000,
            p50: p50_ms * 1_000_000,
            p90: p50_ms * 1_000_000,
            p99: p50_ms * 1_000_000,
            max: p50_ms * 1_000_000,
        };
        self.exchanges = Some(ExchangeSummary {
            asked_by: Side::Client,
            total_ns,
            request_ns: Ledger::default(),
            service_ns: total_ns,
            response_ns: Ledger::default(),
            slowest: (0, p50_ms * 1_000_000),
        });
        self
    }

    /// Every finding as `id @side count cost: summary`.
    pub(super) fn found(&self) -> String {
        let lines: Vec<_> = self.findings().iter().map(line).collect();
        lines.join("\n")
    }

    /// Of each fixture the same records are looked at as those of Unix sockets.
    pub(super) fn findings(&self) -> Vec<crate::Finding> {
        for protocol in Protocol::ALL.into_iter().filter(|one| one.is_unix()) {
            self.as_protocol(protocol).iter().for_each(|one| assert_is_of_unix(one, protocol));
        }
        self.as_protocol(self.store.connection.protocol)
    }

    fn as_protocol(&self, protocol: Protocol) -> Vec<crate::Finding> {
        let mut store = self.store.clone();
        store.connection.protocol = protocol;
        self.with_view_of(&store, |view| super::find(view).0)
    }

    /// The result of `look` on the client's flow.
    pub(super) fn with_flow<T>(&self, look: impl FnOnce(&FlowView<'_>) -> T) -> T {
        self.with_view(|view| look(&view.flows[0]))
    }

    fn with_view<T>(&self, look: impl FnOnce(&ConnectionView<'_>) -> T) -> T {
        self.with_view_of(&self.store, look)
    }

    fn with_view_of<T>(
        &self,
        store: &ConnectionStore,
        look: impl FnOnce(&ConnectionView<'_>) -> T,
    ) -> T {
        let directions = [Direction::FromClient, Direction::FromServer];
        let analyses = directions.map(|direction| analysis(store, direction));
        let times = store.flows.iter().flat_map(|flow| {
            let passes = flow.passages.iter().flatten().map(|pass| pass.at_ns);
            passes.chain(flow.events.iter().map(|event| event.at_ns))
        });
        let times: Vec<_> = times.collect();
        let start_ns = times.iter().copied().min().unwrap_or(0);
        let end_ns = times.iter().copied().max().unwrap_or(0);
        let drop_reasons = &self.drop_reasons;
        let unknown_ns = directions.map(|direction| {
            let curves = FlowCurves::new(store, direction, &self.losses, drop_reasons);
            curves.curves.each_ref().map(|curve| curve.unknown_ns().collect())
        });
        let flow = |direction| FlowView {
            store,
            direction,
            timeline: if direction == Direction::FromClient { &self.timeline } else { &[] },
            analysis: &analyses[direction as usize],
            start_ns,
            end_ns,
            losses: &self.losses,
            unknown_ns: &unknown_ns[direction as usize],
            drop_reasons,
            network_namespaces: &self.network_namespaces,
        };
        let losses = Losses::touching(store.connection.protocol, &self.losses);
        let unopened = outcome::unopened(store, &losses, drop_reasons);
        look(&ConnectionView {
            store,
            flows: directions.map(flow),
            buffers: &[],
            exchanges: self.exchanges.as_ref(),
            requests: &self.requests,
            unopened: unopened.as_ref(),
            openings: &self.openings,
        })
    }
}

/// A Unix socket has no network, and its findings no word of one.
fn assert_is_of_unix(finding: &crate::Finding, protocol: Protocol) {
    let id = finding.id;
    assert!(super::protocols::may_speak(id, protocol), "{} of {}", id.name(), protocol.name());
    let evidence = finding.evidence.iter().map(|one| one.text.as_str());
    let texts = [finding.summary.as_str(), finding.fix.as_str()].into_iter().chain(evidence);
    for text in texts {
        let lower = text.to_lowercase();
        for word in
            ["segment", "window", "ack", "mss", "nagle", "tcp", "packet", "path", "msg_more"]
        {
            assert!(!lower.contains(word), "{} of {}: {text}", id.name(), protocol.name());
        }
    }
}

fn timeline(ledger: &str) -> Vec<LedgerSpan> {
    let entries = ledger.split('|').map(str::trim).filter(|entry| !entry.is_empty());
    let entries: Vec<Vec<_>> = entries.map(|entry| entry.split_whitespace().collect()).collect();
    let span = |pair: &[Vec<&str>]| LedgerSpan {
        start_ns: time_ns(pair[0][0]),
        end_ns: time_ns(pair[1][0]),
        offset: pair[0].get(2).map_or(0, |offset| offset.parse().expect("a position")),
        part: part(pair[0][1]),
    };
    entries.windows(2).map(span).collect()
}

fn part(name: &str) -> LedgerPart {
    let part = LedgerPart::ALL.into_iter().find(|part| part.name() == name);
    part.unwrap_or_else(|| panic!("no part of the ledger: {name}"))
}

fn analysis(store: &ConnectionStore, direction: Direction) -> FlowAnalysis {
    FlowAnalysis {
        id: store.connection.id.flow(direction),
        at_least: AtLeast::default(),
        bytes: 0,
        segments: 0,
        retransmitted_bytes: 0,
        drops: Vec::new(),
        datagrams_refused: 0,
        throughput_bytes_per_s: None,
        stages: Vec::new(),
        dropped_byte_delay_ns: None,
        ledger: Ledger::default(),
        wire_intervals: 0,
        acks: AckSummary::default(),
        bursts: BurstSummary::default(),
        write_bytes: None,
        read_bytes: None,
        reads_are_guessed: false,
        read_copy_bytes_max: None,
        interface: None,
        hops: Vec::new(),
    }
}
