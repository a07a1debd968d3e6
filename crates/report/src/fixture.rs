//! Analyses made by hand for the tests: a stalled call, nothing known, thousands of connections.

use sockscope_analysis::{
    AckDelayCause, AckSummary, Analysis, AtLeast, BufferGrant, BurstSummary, ConnectionAnalysis,
    Conversation, Device, Distribution, DropReasons, Evidence, ExchangeSummary, Finding, FindingId,
    FlowAnalysis, HopAnalysis, HostClocks, Ledger, LedgerPart, LengthSummary, NamespaceNames,
    Nesting, PointSummary, Request, RequestEnd, Requests, StageAnalysis, TraceFacts, nest_requests,
};
use sockscope_record::{
    Connection, ConnectionId, FlowId, LossCounts, Point, PointCost, Process, Protocol, Side, Stage,
};

use crate::{Format, Options, Origin, Report};

const START_NS: u64 = 5_000_000_000;

/// `format`'s output, from a known origin.
pub(crate) fn written(format: &dyn Format, analysis: &Analysis, options: &Options) -> String {
    let origin = origin();
    let mut out = Vec::new();
    format.write(&Report { origin: &origin, analysis, options }, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

pub(crate) fn origin() -> Origin {
    Origin {
        tool_version: Some("0.1.0".to_owned()),
        host: Some("anvil".to_owned()),
        kernel: Some("6.18.1".to_owned()),
        clock: Some("monotonic".to_owned()),
        command: Some("python3 rpc.py".to_owned()),
        recorded: None,
        argument: Some(String::new()),
    }
}

/// 200 calls of 100 + 300 bytes in two writes: Nagle's algorithm against the delayed ACK.
pub(crate) fn stall() -> Analysis {
    let mut request =
        flow(FlowId(2), 80_000, 400, [42_100_000, 3_200, 812, 1_050, 640, 5_120, 11_900]);
    request.ledger = ledger(&[
        (LedgerPart::AppIdle, 267_000_000),
        (LedgerPart::SendNagle, 8_170_000_000),
        (LedgerPart::TcpOutput, 1_400_000),
        (LedgerPart::Wire, 700_000),
        (LedgerPart::TcpInput, 2_300_000),
        (LedgerPart::ReceiveWakeup, 103_000_000),
        (LedgerPart::ReceiveApp, 66_000_000),
    ]);
    request.acks.delay_ns = Some(spread(40_100_000));
    request.acks.late = vec![(AckDelayCause::Timer, 199)];
    let mut response = flow(FlowId(3), 20_000, 200, [1_400, 2_900, 705, 980, 610, 4_870, 14_200]);
    response.ledger = ledger(&[
        (LedgerPart::AppIdle, 8_599_000_000),
        (LedgerPart::Wire, 400_000),
        (LedgerPart::TcpInput, 2_000_000),
        (LedgerPart::ReceiveWakeup, 9_000_000),
    ]);
    let mut connection = connection(1, [request, response]);
    connection.exchanges = Some(exchanges());
    connection.findings = vec![nagle()];
    connection.buffers = vec![
        grant(Side::Client, true, Some(65_536), 131_072),
        grant(Side::Server, false, None, 131_072),
    ];
    analysis(vec![connection], 8_610_400_000)
}

/// The same calls with `TCP_NODELAY`: nothing wrong.
pub(crate) fn fixed() -> Analysis {
    let mut request = flow(FlowId(2), 80_000, 400, [1_300, 2_900, 790, 1_010, 620, 4_900, 10_800]);
    request.ledger = ledger(&[
        (LedgerPart::AppIdle, 9_800_000),
        (LedgerPart::TcpOutput, 2_400_000),
        (LedgerPart::TcpInput, 3_100_000),
        (LedgerPart::ReceiveWakeup, 8_900_000),
    ]);
    let response = flow(FlowId(3), 20_000, 200, [1_400, 2_900, 705, 980, 610, 4_870, 14_200]);
    let mut connection = connection(1, [request, response]);
    connection.exchanges = Some(ExchangeSummary {
        total_ns: Distribution { count: 200, ..spread(118_000) },
        request_ns: ledger(&[(LedgerPart::TcpInput, 15_000), (LedgerPart::ReceiveWakeup, 21_000)]),
        service_ns: spread(31_000),
        response_ns: ledger(&[(LedgerPart::TcpInput, 13_000), (LedgerPart::ReceiveWakeup, 38_000)]),
        slowest: (START_NS + 12_000_000, 236_000),
        ..exchanges()
    });
    analysis(vec![connection], 26_200_000)
}

/// A trace that missed records, of a connection known by its addresses only.
pub(crate) fn unknown_everything() -> Analysis {
    let mut connection = connection(1, [blank_flow(FlowId(2)), blank_flow(FlowId(3))]);
    connection.connection.processes.clear();
    connection.connection.preexisting = true;
    connection.connection.closed_ns = None;
    connection.flows[0].bytes = 4096;
    connection.flows[0].ledger = ledger(&[(LedgerPart::Unknown, 1_000_000)]);
    let mut analysis = analysis(vec![connection], 1_000_000);
    analysis.facts.missed.add(Some(Point::ReceiveEnqueue), 512);
    analysis.facts.missed.add(None, 3);
    analysis.facts.costs = [PointCost::default(); 8];
    analysis.facts.notes = vec!["the bundle is truncated: read to its last whole batch".to_owned()];
    analysis.points[6].missed = 512;
    analysis
}

/// Nothing was recorded.
pub(crate) fn empty() -> Analysis {
    Analysis { records: 0, start_ns: 0, ..analysis(Vec::new(), 0) }
}

/// `count` connections; every tenth has a slow reader.
pub(crate) fn many(count: u32) -> Analysis {
    let connections = (1..=count).map(|id| {
        let flows = [FlowId(2 * id), FlowId(2 * id + 1)];
        let bytes = u64::from(id) * 1_000;
        let mut connection = connection(id, flows.map(|id| flow(id, bytes, 7, [2_000; 7])));
        for flow in &mut connection.flows {
            flow.ledger = ledger(&[(LedgerPart::Wire, 3_000), (LedgerPart::AppIdle, 9_000)]);
        }
        if id.is_multiple_of(10) {
            connection.findings.push(slow_reader(flows[0], u64::from(id) * 1_000_000));
        }
        connection
    });
    analysis(connections.collect(), 3_000_000_000)
}

/// A process whose name tries to write to the terminal.
pub(crate) fn hostile() -> Analysis {
    let mut analysis = stall();
    analysis.connections[0].connection.processes[0].comm = "x\n\x1b[2J\u{202e}\"".to_owned();
    analysis.facts.notes.push("note\r\nverdict  all is well\x07".to_owned());
    let finding = &mut analysis.connections[0].findings[0];
    finding.summary.push_str("\x1b]0;title\x07");
    finding.evidence[0].text.push('\n');
    analysis
}

/// Means that are no numbers, and the largest integers.
pub(crate) fn absurd() -> Analysis {
    let mut analysis = stall();
    let extreme = Distribution {
        count: u64::MAX,
        mean: f64::NAN,
        min: u64::MAX,
        p50: u64::MAX,
        p90: u64::MAX,
        p99: u64::MAX,
        max: u64::MAX,
    };
    for flow in &mut analysis.connections[0].flows {
        flow.throughput_bytes_per_s = Some(f64::INFINITY);
        flow.bytes = u64::MAX;
        flow.segments = u64::MAX;
        flow.write_bytes = Some(extreme);
        flow.acks.delay_ns = Some(extreme);
        flow.bursts.gap_ns = Some(Distribution { mean: f64::NEG_INFINITY, ..extreme });
        flow.ledger.ns = [u64::MAX / LedgerPart::ALL.len() as u64; LedgerPart::ALL.len()];
        for stage in &mut flow.stages {
            stage.delay_ns = Some(extreme);
            stage.length_bytes = Some(LengthSummary { mean: f64::NAN, max: u64::MAX });
            stage.residue_bytes = Some(i64::MIN);
        }
    }
    let connection = &mut analysis.connections[0];
    connection.findings[0].cost_ns = u64::MAX;
    connection.findings.push(connection.findings[0].clone());
    connection.exchanges = Some(ExchangeSummary {
        total_ns: extreme,
        service_ns: extreme,
        slowest: (0, u64::MAX),
        ..exchanges()
    });
    analysis.duration_ns = u64::MAX;
    analysis
}

fn analysis(connections: Vec<ConnectionAnalysis>, duration_ns: u64) -> Analysis {
    let cost = PointCost { hits: 400, run_ns: 34_800 };
    Analysis {
        facts: TraceFacts {
            source: "live".to_owned(),
            missed: LossCounts::default(),
            unfinished: false,
            costs: [cost; 8],
            notes: Vec::new(),
            drop_reasons: DropReasons::new(),
            network_namespaces: NamespaceNames::new(),
            ended_ns: None,
            steal_share: None,
            clocks: HostClocks::One,
        },
        start_ns: START_NS,
        duration_ns,
        records: 12_345,
        points: Point::ALL.map(|point| PointSummary { point, records: 600, missed: 0 }),
        connections,
        nesting: Nesting::default(),
    }
}

/// Three connections to one server: a call of 2 s, one that its client gave up, and short ones.
pub(crate) fn slow_calls() -> Analysis {
    let mut analysis = many(3);
    analysis.duration_ns = 6_100_000_000;
    let request = |asked_ms: u64, service_ms: u64, end| {
        let asked_ns = START_NS + asked_ms * 1_000_000;
        let heard_ns = asked_ns + 1_000_000;
        let answered_ns = heard_ns + service_ms * 1_000_000;
        let answer = Some(answered_ns).filter(|_| end == RequestEnd::Answered);
        Request {
            request_bytes: 79,
            response_bytes: if answer.is_some() { 80 } else { 0 },
            ..Request::asked(asked_ns, answered_ns + 1_000_000, end)
                .with_answer(Some(heard_ns), answer)
        }
    };
    let requests = |list| Requests {
        asked_by: Some(Side::Client),
        conversation: Conversation::Alternating,
        list,
        left_out: 0,
    };
    let short = || request(10, 3, RequestEnd::Answered);
    let slow = request(100, 1_998, RequestEnd::Answered);
    let given_up = request(3_000, 2_998, RequestEnd::GivenUp);
    for connection in &mut analysis.connections {
        connection.findings.clear();
        connection.exchanges = None;
        connection.requests = requests(vec![short()]);
    }
    analysis.connections[0].requests = requests(vec![short(), slow, given_up]);
    analysis
}

/// A call of curl to nginx, which asks python3, which asks postgres three times: 300 ms in all.
pub(crate) fn nested_calls() -> Analysis {
    let mut analysis = many(3);
    let programs = [(7, "curl"), (8, "nginx"), (9, "python3"), (10, "postgres")];
    let process = |(pid, comm): (u32, &str), side| Process::new(pid, comm, side);
    // Of each: when it was asked, read, answered, and ended; milliseconds.
    let calls: [&[[u64; 4]]; 3] = [
        &[[0, 1, 299, 300]],
        &[[2, 3, 297, 298]],
        &[[10, 11, 109, 110], [110, 111, 199, 200], [210, 211, 289, 290]],
    ];
    for (at, connection) in analysis.connections.iter_mut().enumerate() {
        let [asker, answerer] = [programs[at], programs[at + 1]];
        connection.connection.server.set_port(8_000 + answerer.0 as u16);
        connection.connection.processes =
            vec![process(asker, Side::Client), process(answerer, Side::Server)];
        let request = |times: &[u64; 4]| {
            let [asked_ns, heard_ns, answered_ns, ended_ns] =
                times.map(|ms| START_NS + ms * 1_000_000);
            Request {
                request_bytes: 79,
                response_bytes: 80,
                asker_thread: asker.0,
                reader_thread: answerer.0,
                answerer_thread: answerer.0,
                ..Request::asked(asked_ns, ended_ns, RequestEnd::Answered)
                    .with_answer(Some(heard_ns), Some(answered_ns))
            }
        };
        connection.findings.clear();
        connection.requests = Requests {
            asked_by: Some(Side::Client),
            conversation: Conversation::Alternating,
            list: calls[at].iter().map(request).collect(),
            left_out: 0,
        };
    }
    let connections = analysis.connections.iter();
    analysis.nesting = nest_requests(connections.map(|one| (&one.connection, &one.requests)));
    analysis
}

fn connection(id: u32, flows: [FlowAnalysis; 2]) -> ConnectionAnalysis {
    let process = |pid, side| Process::new(pid, "python3", side);
    ConnectionAnalysis {
        connection: Connection {
            id: ConnectionId(id),
            protocol: Protocol::Tcp,
            client: ([127, 0, 0, 1], 39_999 + id as u16).into(),
            server: ([127, 0, 0, 1], 5_000).into(),
            opened_ns: START_NS,
            closed_ns: Some(START_NS + 8_610_000_000),
            preexisting: false,
            both_ends_here: true,
            processes: vec![process(4711, Side::Client), process(4712, Side::Server)],
            names: None,
            mark: None,
            elsewhere: None,
        },
        records: 100,
        flows,
        exchanges: None,
        requests: Requests::none(Conversation::Silent),
        unread_requests: Vec::new(),
        unread_ns: [0; 2],
        transactions: None,
        unopened: None,
        reset: None,
        shut_windows: Vec::new(),
        is_inner: false,
        layers: Vec::new(),
        buffers: Vec::new(),
        findings: Vec::new(),
    }
}

/// A flow whose seven stages took `medians_ns`.
fn flow(id: FlowId, bytes: u64, segments: u64, medians_ns: [u64; 7]) -> FlowAnalysis {
    let total_ns = medians_ns.iter().sum();
    let delays = medians_ns.into_iter().chain([total_ns]);
    let stage = |(stage, delay_ns)| StageAnalysis {
        stage,
        delay_ns: Some(spread(delay_ns)),
        delay_at_most_ns: None,
        byte_delay_ns: Some(delay_ns as f64 * 1.02),
        length_bytes: Some(LengthSummary { mean: delay_ns as f64 / 2e5, max: 400 }),
        residue_bytes: Some(0),
        resident_bytes: Some(0),
        unknown_intervals: 0,
        uncertainty: None,
    };
    FlowAnalysis {
        bytes,
        segments,
        throughput_bytes_per_s: Some(bytes as f64 / 8.6104),
        stages: Stage::ALL.into_iter().zip(delays).map(stage).collect(),
        acks: AckSummary {
            advancing: 400,
            pure: 201,
            duplicate: 0,
            bytes: Some(spread(200)),
            delay_ns: Some(spread(12_000)),
            late: Vec::new(),
        },
        bursts: BurstSummary {
            count: 200,
            bytes: Some(spread(400)),
            duration_ns: Some(spread(9_000)),
            gap_ns: Some(spread(42_000_000)),
        },
        write_bytes: Some(Distribution { min: 100, p50: 100, p99: 300, max: 300, ..spread(200) }),
        read_bytes: Some(spread(200)),
        reads_are_guessed: true,
        read_copy_bytes_max: Some(spread(200).max),
        ..blank_flow(id)
    }
}

fn blank_flow(id: FlowId) -> FlowAnalysis {
    let stages = Stage::ALL.into_iter().map(|stage| StageAnalysis {
        stage,
        delay_ns: None,
        delay_at_most_ns: None,
        byte_delay_ns: None,
        length_bytes: None,
        residue_bytes: None,
        resident_bytes: None,
        unknown_intervals: 2,
        uncertainty: None,
    });
    FlowAnalysis {
        id,
        at_least: AtLeast::default(),
        bytes: 0,
        segments: 0,
        retransmitted_bytes: 0,
        drops: Vec::new(),
        datagrams_refused: 0,
        throughput_bytes_per_s: None,
        stages: stages.collect(),
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

/// A distribution around `p50` with a tail.
fn spread(p50: u64) -> Distribution {
    Distribution {
        count: 400,
        mean: p50 as f64 * 1.04,
        min: p50 - p50 / 5,
        p50,
        p90: p50 + p50 / 10,
        p99: p50 + p50 / 4,
        max: p50 * 2,
    }
}

fn ledger(parts: &[(LedgerPart, u64)]) -> Ledger {
    let mut ledger = Ledger::default();
    for &(part, ns) in parts {
        ledger.ns[part as usize] = ns;
    }
    ledger
}

fn exchanges() -> ExchangeSummary {
    ExchangeSummary {
        asked_by: Side::Client,
        total_ns: Distribution { count: 200, ..spread(41_900_000) },
        request_ns: ledger(&[
            (LedgerPart::SendNagle, 40_850_000),
            (LedgerPart::ReceiveWakeup, 515_000),
            (LedgerPart::TcpInput, 11_500),
        ]),
        service_ns: spread(330_000),
        response_ns: ledger(&[(LedgerPart::ReceiveWakeup, 45_000), (LedgerPart::TcpInput, 10_000)]),
        slowest: (START_NS + 1_203_412_000, 83_800_000),
    }
}

fn nagle() -> Finding {
    let evidence = [
        (312_000, "client writes 100 bytes [0, 100), sent at once"),
        (331_000, "client writes 300 bytes [100, 400), held: nagle, 100 bytes unacknowledged"),
        (
            41_402_000,
            "server acknowledges 100, alone: delayed-ACK timer, 41.1 ms after they arrived",
        ),
        (41_409_000, "client sends [100, 400)"),
    ];
    Finding {
        id: FindingId::NagleDelayedAck,
        flow: FlowId(2),
        side: Side::Client,
        count: 199,
        connections: 1,
        cost_ns: 8_170_000_000,
        times: vec![(START_NS, START_NS + 8_170_000_000)],
        summary: "199 of 200 messages waited 41.1 ms (median) in the send queue for an \
                  acknowledgment that the receiver delayed"
            .to_owned(),
        evidence: evidence.map(|(at, text)| seen(START_NS + at, text)).into(),
        fix: "at the client, write each message with one call (writev, MSG_MORE) or set \
              TCP_NODELAY"
            .to_owned(),
    }
}

fn slow_reader(flow: FlowId, cost_ns: u64) -> Finding {
    Finding {
        id: FindingId::SlowReader,
        flow,
        side: Side::Server,
        count: 3,
        connections: 1,
        cost_ns,
        times: vec![(START_NS, START_NS + cost_ns)],
        summary: "data lay in the receive queue while the reader did something else".to_owned(),
        evidence: vec![seen(START_NS + 1_000_000, "47 ms between two reads, 1,000 bytes queued")],
        fix: "read sooner at the server".to_owned(),
    }
}

fn seen(at_ns: u64, text: &str) -> Evidence {
    Evidence { at_ns, text: text.to_owned() }
}

fn grant(side: Side, is_send: bool, asked_bytes: Option<u64>, granted_bytes: u64) -> BufferGrant {
    let is_set_by_program = asked_bytes.is_some();
    BufferGrant {
        side,
        is_send,
        asked_bytes,
        is_set_by_program,
        granted_bytes: Some(granted_bytes),
    }
}

/// A router's device with a queue, whose packets arrived by one without a known name.
pub(crate) fn hop() -> HopAnalysis {
    let device = |name: Option<&str>, index| Device {
        name: name.map(str::to_owned),
        index,
        namespace: 4_026_532_246,
        namespace_name: None,
    };
    HopAnalysis {
        device: device(Some("r1"), 3),
        arrived_by: Some(device(None, 2)),
        bytes: 300_000,
        transit_ns: Some(spread(20_000)),
        queue_ns: Some(spread(100_000_000)),
        queue_bytes: Some(LengthSummary { mean: 80_000.5, max: 156_192 }),
        residue_bytes: Some(0),
        ledger_transit_ns: 0,
        ledger_queue_ns: 469_000_000,
    }
}
