//! What must hold in every run of the study, and what each of them tells.

use std::collections::{BTreeMap, BTreeSet};

use sockscope_analysis::{ConnectionAnalysis, FindingId, LedgerPart};
use sockscope_experiment::{Case, Experiment, builtin};
use sockscope_record::{Direction, Point, Stage};

use super::*;

/// Every experiment of the study with its cases, and one of what it leaves open.
fn study() -> Vec<(Experiment, Vec<Case>)> {
    let all = builtin().unwrap().into_iter().filter(|one| one.paper == "sunos-ipc");
    let study: Vec<_> = all.map(|one| (one.clone(), one.cases().unwrap())).collect();
    assert_eq!(study.len(), 15);
    study
}

/// Delay of each byte in a stage, at the positions where it changes.
fn delays(seen: &Observed, connection: usize, stage: Stage) -> BTreeMap<u64, (u64, u64)> {
    let runs = seen.delays_of(connection, stage);
    runs.iter().map(|run| (run.offset, (run.offset + run.len, run.delay_ns()))).collect()
}

/// The delay of the byte at `offset`.
fn at(delays: &BTreeMap<u64, (u64, u64)>, offset: u64) -> u64 {
    let (_, (end, delay_ns)) = delays.range(..=offset).next_back().unwrap();
    assert!(offset < *end, "byte {offset} was not seen to leave");
    *delay_ns
}

/// The first, the middle and the last case; all of them in the whole suite, which `scripts/soak study` runs.
fn chosen(cases: &[Case]) -> Vec<&Case> {
    if std::env::var("SOCKSCOPE_SOAK").is_ok_and(|wish| wish == "full") {
        return cases.iter().collect();
    }
    let last = cases.len() - 1;
    let chosen = BTreeSet::from([0, last / 2, last]);
    chosen.into_iter().map(|index| &cases[index]).collect()
}

#[test]
fn every_byte_is_accounted_for_and_its_stages_add_up() {
    for (experiment, cases) in study() {
        for case in chosen(&cases) {
            let seen = model::observe(&experiment, case).unwrap();
            // A list that fills loses records: what they would show is unknown then.
            let has_list = case.parameters.probe_list_records.is_some();
            let case = format!("{}, {}", experiment.id, case.words());
            for (number, connection) in seen.analysis.connections.iter().enumerate() {
                for flow in &connection.flows {
                    for stage in &flow.stages {
                        assert_eq!(stage.residue_bytes.unwrap_or(0), 0, "{case} {stage:?}");
                    }
                }
                if has_list {
                    continue;
                }
                let flow = &connection.flows[Direction::FromClient as usize];
                assert!(flow.stages.iter().all(|stage| stage.residue_bytes == Some(0)), "{case}");
                let stages = Stage::ALL.map(|stage| delays(&seen, number, stage));
                let [parts @ .., total] = &stages;
                let cuts: BTreeSet<u64> = stages.iter().flat_map(BTreeMap::keys).copied().collect();
                let end = total.values().map(|(end, _)| *end).max().unwrap();
                let ends = cuts.iter().skip(1).chain([&end]);
                let mut dropped_ns = 0;
                for (offset, end) in cuts.iter().zip(ends) {
                    let sum: u64 = parts.iter().map(|part| at(part, *offset)).sum();
                    let whole = at(total, *offset);
                    assert!(sum <= whole, "{case}, byte {offset}: {sum} of {whole}");
                    dropped_ns += u128::from(whole - sum) * u128::from(end - offset);
                }
                // What a queue refused is in no stage until it is sent again.
                let mean_ns = dropped_ns as f64 / flow.bytes as f64;
                let said_ns = flow.dropped_byte_delay_ns.unwrap_or(0.0);
                assert!((mean_ns - said_ns).abs() < 1.0, "{case}: {mean_ns}, not {said_ns}");
                assert!(!cuts.is_empty(), "{case}");
            }
        }
    }
}

/// A dropped segment keeps those behind it from the reader for the time of a timeout: that time is
/// not the protocol's.
#[test]
fn what_waits_for_a_dropped_segment_is_no_time_of_the_protocol() {
    let protocol_us = |changes: &[&str]| {
        let seen = observe("si-4b", changes).unwrap();
        (
            seen.is_clean(),
            seen.measures()
                .iter()
                .find(|it| it.name == "receive_protocol_us")
                .unwrap()
                .value()
                .unwrap(),
        )
    };
    let ((quiet_is_clean, quiet), (loaded_is_clean, loaded)) =
        (protocol_us(&["load=0"]), protocol_us(&["load=4", "load_at=server"]));
    assert!(quiet_is_clean && !loaded_is_clean);
    assert!(loaded > quiet && loaded < 1.15 * quiet, "{quiet} and {loaded} us");
}

/// What `sockscope report` would say of the first connection of a case: shares of the ledger's parts and
/// the findings with their counts, highest cost first.
struct Story {
    observed: Observed,
}

impl Story {
    fn of(id: &str, changes: &[&str]) -> Self {
        Self { observed: observe(id, changes).unwrap() }
    }

    fn share(&self, parts: &[LedgerPart]) -> f64 {
        let ledger = &self.observed.analysis.connections[0].flows[0].ledger;
        parts.iter().map(|part| ledger.share(*part)).sum()
    }

    /// The part of the ledger with most time.
    fn most(&self) -> LedgerPart {
        let shares = LedgerPart::ALL.map(|part| (self.share(&[part]), part));
        shares.into_iter().max_by(|a, b| a.0.total_cmp(&b.0)).unwrap().1
    }

    fn found(&self, id: FindingId) -> u64 {
        let findings = &self.observed.analysis.connections[0].findings;
        findings.iter().filter(|one| one.id == id).map(|one| one.count).sum()
    }

    fn first(&self) -> Option<FindingId> {
        self.observed.analysis.connections[0].findings.first().map(|one| one.id)
    }
}

/// Where a mean byte of a case stands longest once TCP has taken it, and its share of that way.
fn stands(story: &Story) -> (Stage, f64) {
    let stages = &story.observed.analysis.connections[0].flows[0].stages;
    let below = stages.iter().filter(|one| ![Stage::SendQueue, Stage::Total].contains(&one.stage));
    let delays: Vec<_> = below.map(|one| (one.stage, one.byte_delay_ns.unwrap())).collect();
    let sum: f64 = delays.iter().map(|(_, ns)| ns).sum();
    let (stage, longest_ns) = *delays.iter().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
    (stage, longest_ns / sum)
}

#[test]
fn a_mean_byte_stands_where_the_paper_saw_the_trouble() {
    let cases: [(&str, &[&str], Stage, f64); 9] = [
        ("si-1a", &["topology=pair", "socket_buffer_bytes=52224"], Stage::InterfaceQueue, 0.9),
        ("si-1a", &["topology=loopback", "socket_buffer_bytes=49152"], Stage::ReceiveQueue, 0.5),
        ("si-1b", &["socket_buffer_bytes=52224"], Stage::InterfaceQueue, 0.9),
        ("si-2a", &[], Stage::InterfaceQueue, 0.85),
        ("si-3a", &[], Stage::ReceiveQueue, 0.5),
        ("si-4a", &["load=0"], Stage::InterfaceQueue, 0.9),
        ("si-4a", &["load=4", "load_at=server"], Stage::ReceiveQueue, 0.5),
        ("si-4b", &["load=0"], Stage::InterfaceQueue, 0.85),
        ("si-4b", &["load=4", "load_at=server"], Stage::ReceiveQueue, 0.5),
    ];
    for (id, changes, stage, share) in cases {
        let (longest, of_way) = stands(&Story::of(id, changes));
        assert_eq!(longest, stage, "{id} {changes:?}: {of_way:.3}");
        assert!(of_way > share, "{id} {changes:?}: {of_way:.3} of the way below TCP");
    }
}

const READER: [FindingId; 2] = [FindingId::SlowReader, FindingId::LateWakeup];

#[test]
fn two_hosts_are_bound_by_the_interface_and_not_by_the_reader() {
    for id in ["si-2a", "si-1b"] {
        let story = Story::of(id, &["socket_buffer_bytes=52428"]);
        let packets = story.observed.data(Point::InterfaceEnqueue).len() as u64;
        assert!(story.found(FindingId::InterfaceQueueLimited) * 10 > packets * 9, "{id}");
        assert_eq!(READER.map(|finding| story.found(finding)), [0, 0], "{id}");
        let (from_ns, until_ns) = story.observed.span_ns();
        let lengths = [Stage::InterfaceQueue, Stage::InputQueue, Stage::ReceiveQueue]
            .map(|stage| story.observed.mean_length(stage, from_ns, until_ns));
        assert!(lengths[0] > 5.0 * (lengths[1] + lengths[2]), "{id}: {lengths:?}");
    }
    // Four packets never wait long for the interface.
    let small = Story::of("si-1b", &["socket_buffer_bytes=4096"]);
    assert_eq!(small.found(FindingId::InterfaceQueueLimited), 0);
}

#[test]
fn on_one_host_the_receivers_socket_holds_the_data() {
    let story = Story::of("si-3a", &[]);
    let parts = [LedgerPart::ReceiveWakeup, LedgerPart::ReceiveApp];
    assert!(story.share(&parts) > 0.6);
    assert_eq!(story.first(), Some(FindingId::LateWakeup));
    assert_eq!(story.found(FindingId::InterfaceQueueLimited), 0);
}

#[test]
fn beside_load_the_reader_waits_for_a_cpu_or_the_writer_does() {
    // 5 MB: long enough for several turns of everybody.
    let server = Story::of("si-4a", &["load=4", "load_at=server"]);
    assert_eq!(server.most(), LedgerPart::ReceiveWakeup);
    assert_eq!(server.first(), Some(FindingId::LateWakeup));
    let client = Story::of("si-4a", &["load=4", "load_at=client"]);
    assert_eq!(client.most(), LedgerPart::AppIdle, "nothing is written while others compute");
    let alone = Story::of("si-4a", &["load=0"]);
    for story in [&client, &alone] {
        assert_eq!(READER.map(|finding| story.found(finding)), [0, 0]);
    }
}

#[test]
fn a_reader_that_sleeps_is_named_and_one_that_does_not_is_not() {
    for pause in [0, 20, 40, 80] {
        let pause_ms = format!("read_pause_ms={pause}");
        let story =
            Story::of("si-3b", &["topology=loopback", "socket_buffer_bytes=16384", &pause_ms]);
        assert_eq!(story.first() == Some(FindingId::SlowReader), pause > 0, "{pause_ms}");
        assert_eq!(story.found(FindingId::SlowReader) > 0, pause > 0, "{pause_ms}");
        assert_eq!(story.most() == LedgerPart::ReceiveApp, pause > 0, "{pause_ms}");
    }
}

#[test]
fn single_packets_give_nothing_to_find() {
    let story = Story::of("si-2b", &["write_pause_ms=1000"]);
    assert_eq!(story.first(), None);
    assert!(story.share(&[LedgerPart::AppIdle]) > 0.99);
}

#[test]
fn only_queues_that_overflow_make_a_retransmission() {
    for (connections, queue) in [(3, 50), (4, 50), (12, 50), (12, 200)] {
        let changes = [
            "socket_buffer_bytes=16384",
            &format!("connections={connections}"),
            &format!("interface_queue_packets={queue}"),
        ];
        let seen = observe("si-5a", &changes).unwrap();
        let connections = &seen.analysis.connections;
        let is_named = |one: &&ConnectionAnalysis| {
            one.findings.iter().any(|found| found.id == FindingId::Retransmission)
        };
        let again = connections.iter().filter(|one| one.flows[0].retransmitted_bytes > 0).count();
        let named = connections.iter().filter(is_named).count();
        assert_eq!(named > 0, again > 0, "{changes:?}: {named} of {again}");
    }
}

/// What comes first among the findings of a case; `None` where there is nothing to find.
type Tale = (&'static str, &'static [&'static str], Option<FindingId>);

const TALES: &[Tale] = &[
    ("si-1a", &["topology=pair", "socket_buffer_bytes=52224"], INTERFACE),
    ("si-1a", &["machine=sparcstation-2", "topology=pair", "socket_buffer_bytes=52224"], INTERFACE),
    ("si-1a", &["topology=loopback", "socket_buffer_bytes=49152"], Some(FindingId::LateWakeup)),
    // The window of four packets is the whole send buffer.
    ("si-1a", &["topology=pair", "socket_buffer_bytes=4096"], Some(FindingId::SendBufferLimited)),
    ("si-1b", &["socket_buffer_bytes=52224"], INTERFACE),
    ("si-1c", &["topology=pair", "protocol_cost_percent=50"], INTERFACE),
    ("si-1c", &["topology=pair", "driver_gap=false"], Some(FindingId::DelayedAckWait)),
    ("si-2a", &[], INTERFACE),
    ("si-2b", &["write_pause_ms=1000"], None),
    ("si-3a", &[], Some(FindingId::LateWakeup)),
    ("si-3b", &["topology=pair", "socket_buffer_bytes=52428", "read_pause_ms=0"], INTERFACE),
    ("si-3b", &["topology=pair", "socket_buffer_bytes=52428", "read_pause_ms=80"], READS_LATE),
    ("si-3b", &["topology=loopback", "socket_buffer_bytes=52428", "read_pause_ms=80"], READS_LATE),
    ("si-4a", &["load=0"], INTERFACE),
    ("si-4a", &["load=4", "load_at=server"], Some(FindingId::LateWakeup)),
    ("si-4b", &["load=0"], INTERFACE),
    ("si-4b", &["load=4", "load_at=server"], Some(FindingId::LateWakeup)),
    ("si-4b", &["load=4", "load_at=client"], INTERFACE),
    ("si-4c", &["depth=1", "scheduler=decay"], READS_LATE),
    ("si-5b", &["topology=pair", "socket_buffer_bytes=16384"], INTERFACE),
    (
        "si-5b",
        &["topology=pair", "socket_buffer_bytes=52428", "ack_rule=share"],
        Some(FindingId::CongestionLimited),
    ),
];
const INTERFACE: Option<FindingId> = Some(FindingId::InterfaceQueueLimited);
const READS_LATE: Option<FindingId> = Some(FindingId::SlowReader);

#[test]
fn every_experiment_tells_first_what_the_paper_saw_in_it() {
    let mut others = Vec::new();
    for (id, changes, first) in TALES {
        let story = Story::of(id, changes);
        let names_reader = READER.iter().any(|finding| story.found(*finding) > 0);
        let is_reader = first.is_some_and(|first| READER.contains(&first));
        // The reader where it is first, and nowhere else.
        if story.first() != *first || names_reader != is_reader {
            others.push((id, changes, story.first(), names_reader));
        }
    }
    assert!(others.is_empty(), "{others:#?}");
}
