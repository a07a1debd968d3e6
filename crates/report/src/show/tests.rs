//! Every kind of event as a line, and the order of the lines.

use proptest::prelude::*;
use sockscope_analysis::{FlowStore, Passage};
use sockscope_record::{
    Connection, ConnectionId, Hold, Kind, Point, Process, Protocol, Record, Side, marks, tcp_flags,
};

use super::*;

const START_NS: u64 = 7_000_000_000;

fn shown(stores: &[ConnectionStore], options: &ShowOptions) -> String {
    let mut out = Vec::new();
    show(stores, &[], options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Lines without the head.
fn lines(stores: &[ConnectionStore]) -> String {
    let text = shown(stores, &ShowOptions::default());
    text.lines().filter(|line| !line.starts_with('#')).map(|line| line.to_owned() + "\n").collect()
}

fn connection() -> Connection {
    Connection {
        id: ConnectionId(1),
        protocol: Protocol::Tcp,
        client: ([127, 0, 0, 1], 40_000).into(),
        server: ([127, 0, 0, 1], 5_000).into(),
        opened_ns: START_NS,
        closed_ns: None,
        preexisting: false,
        both_ends_here: true,
        processes: vec![
            Process::new(4711, "cli\x1bent", Side::Client),
            Process::new(4712, "server", Side::Server),
        ],
        names: None,
        mark: None,
        elsewhere: None,
    }
}

/// A store of these records, each flow's in time order.
fn store(records: &[Record]) -> ConnectionStore {
    let mut flows = [2, 3].map(|id| FlowStore {
        id: FlowId(id),
        passages: Default::default(),
        events: Default::default(),
    });
    for record in records {
        let flow = &mut flows[record.flow.direction() as usize];
        match record.point() {
            Some(point) => flow.passages[point.index()].extend(Passage::of(record)),
            None => flow.events.push(*record),
        }
    }
    ConnectionStore { connection: connection(), flows, window: None }
}

/// An event of the client's flow `at_us` microseconds after the start.
fn at(at_us: u64, kind: Kind, offset: u64, len: u32) -> Record {
    let flow = FlowId(2);
    Record { at_ns: START_NS + at_us * 1000, kind, offset, len, flow, ..Record::default() }
}

fn segment(at_us: u64, kind: Kind, offset: u64, len: u32, ack: u64) -> Record {
    let tcp_flags = tcp_flags::ACK | if len > 0 { tcp_flags::PSH } else { 0 };
    Record { detail: ack, extra: 65_536, tcp_flags, ..at(at_us, kind, offset, len) }
}

fn back(record: Record) -> Record {
    Record { flow: FlowId(3), ..record }
}

/// Two writes, the second held by Nagle's algorithm, and the acknowledgment that frees it.
fn stalled_message() -> ConnectionStore {
    let by = |thread, record| Record { thread, ..record };
    let nagle = Hold::Nagle as u8;
    store(&[
        by(4711, at(0, Kind::WriteCall, 0, 100)),
        by(4711, at(1, Kind::SendEnqueue, 0, 100)),
        at(3, Kind::SendDequeue, 0, 100),
        segment(5, Kind::InterfaceEnqueue, 0, 100, 0),
        segment(6, Kind::InterfaceDequeue, 0, 100, 0),
        segment(8, Kind::InputEnqueue, 0, 100, 0),
        segment(9, Kind::InputDequeue, 0, 100, 0),
        Record { marks: marks::WAITED_FOR, ..by(4712, at(14, Kind::ReceiveEnqueue, 0, 100)) },
        by(4711, at(16, Kind::WriteReturn, 0, 100)),
        by(4711, at(18, Kind::WriteCall, 100, 300).with_writer_runnable_ns(1_500)),
        Record { code: nagle, ..by(4711, at(19, Kind::SendEnqueue, 100, 300)) },
        by(4712, at(20, Kind::Wakeup, 0, 0)),
        by(4712, at(31, Kind::Run, 0, 0)),
        Record {
            detail: START_NS + 31_000,
            extra: 11_000,
            ..by(4712, at(33, Kind::ReceiveDequeue, 0, 100))
        },
        back(segment(41_014, Kind::InterfaceEnqueue, 0, 0, 100)),
        at(41_020, Kind::SendDequeue, 100, 300),
    ])
}

#[test]
fn every_layer_of_a_stalled_message_is_a_line() {
    insta::assert_snapshot!(shown(&[stalled_message()], &ShowOptions::default()));
}

#[test]
fn a_thread_runs_before_it_reads_at_the_same_nanosecond() {
    let text = shown(
        &[store(&[
            at(10, Kind::ReceiveEnqueue, 0, 100),
            at(10, Kind::ReceiveDequeue, 0, 100),
            at(10, Kind::Wakeup, 0, 0),
            at(10, Kind::Run, 0, 0),
            at(10, Kind::ReadReturn, 0, 100),
        ])],
        &ShowOptions::default(),
    );
    let names: Vec<_> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line[36..].split_whitespace().next().unwrap_or_default())
        .collect();
    assert_eq!(names, ["ReceiveEnqueue", "Wakeup", "Run", "ReceiveDequeue", "ReadReturn"]);
}

#[test]
fn times_count_from_the_start_that_is_given_and_have_the_wall_clock_beside_them() {
    let stores = [store(&[at(3000, Kind::SendEnqueue, 0, 100)])];
    let line = |options: &ShowOptions| {
        shown(&stores, options).lines().last().unwrap_or_default().to_owned()
    };
    let alone = ShowOptions::default();
    assert!(line(&alone).starts_with("   0.000000000 "), "{}", line(&alone));
    let of_trace = ShowOptions { start_ns: Some(START_NS + 1_000_000), ..ShowOptions::default() };
    assert!(line(&of_trace).starts_with("   0.002000000 "), "{}", line(&of_trace));
    // 2026-11-23 08:45:12 UTC.
    let clock =
        WallClock { trace_ns: START_NS + 1_000_000, realtime_ns: 1_795_423_512_000_000_000 };
    let both = ShowOptions { wall_clock: Some(clock), ..of_trace };
    let text = shown(&stores, &both);
    let lines: Vec<&str> = text.lines().rev().take(2).collect();
    assert_eq!(&lines[0][..30], "08:45:12.002000    0.002000000");
    assert!(
        lines[1][..30].starts_with("#wall clock ") && lines[1][..30].ends_with("time s"),
        "{text}"
    );
}

#[test]
fn a_drop_has_the_kernels_own_name_for_it() {
    let stores = [store(&[
        Record { code: 6, detail: 77, ..at(3, Kind::Drop, 400, 1448) },
        Record { code: 6, detail: 78, ..at(4, Kind::Drop, 400, 1448) },
    ])];
    let options = ShowOptions {
        drop_reasons: [(77, "SOCKET_RCVBUFF".into())].into(),
        ..ShowOptions::default()
    };
    let text = shown(&stores, &options);
    assert!(text.contains("reason SOCKET_RCVBUFF after InputDequeue"), "{text}");
    assert!(text.contains("kernel reason 78 after InputDequeue"), "{text}");
}

#[test]
fn every_kind_has_its_details() {
    let half = |low: u64, high: u64| high << 32 | low;
    let records = [
        Record { extra: 87, detail: half(10, 0x7fff_ffff), ..at(0, Kind::TcpState, 400, 3) },
        Record { extra: 1448, detail: 65_536, ..at(1, Kind::SendWindow, 400, 0) },
        Record { code: 3, ..at(2, Kind::Retransmit, 400, 1448) },
        Record { code: 6, detail: 77, ..at(3, Kind::Drop, 400, 1448) },
        Record { code: 1, detail: half(131_072, 87_380), ..at(4, Kind::SocketBuffers, 0, 0) },
        Record {
            extra: 1 << 16 | 7,
            detail: half(65_536, 131_072),
            ..at(5, Kind::SocketOption, 0, 0)
        },
        Record { extra: 6 << 16 | 1, detail: half(1, 1), ..at(6, Kind::SocketOption, 0, 0) },
        Record { extra: 1, code: 4, ..at(7, Kind::StateChange, 0, 0) },
        Record { code: 11, ..at(8, Kind::WriteReturn, 400, 0) },
        Record { code: 7, detail: 512, extra: 1, ..at(9, Kind::Loss, START_NS, 0) },
    ];
    insta::assert_snapshot!(lines(&[store(&records)]));
}

#[test]
fn a_conversion_says_which_way_and_how_long() {
    let converted = |us, code| {
        let since = at(us - 5, Kind::Conversion, 0, 0).at_ns;
        Record { detail: since, code, thread: 7, ..at(us, Kind::Conversion, 400, 48) }
    };
    let text = lines(&[store(&[converted(10, 0), converted(20, 1)])]);
    let told: Vec<_> = text.lines().map(|line| line.split_once("48  ").unwrap().1).collect();
    assert_eq!(told, ["thread 7 out, took 5.000us", "thread 7 in, took 5.000us"]);
}

#[test]
fn a_datagram_whose_read_was_not_seen_is_gone_by_a_time() {
    let gone = Record { marks: marks::DERIVED, ..at(0, Kind::ReceiveDequeue, 0, 90) };
    let text = lines(&[store(&[gone])]);
    assert!(text.trim_end().ends_with("90  gone by now, unseen derived"), "{text}");
}

#[test]
fn a_grant_that_was_not_seen_is_not_zero() {
    let extra = 1 << 16 | 7;
    let asked = Record { extra, detail: 65_536, ..at(0, Kind::SocketOption, 0, 0) };
    let text = lines(&[store(&[asked])]);
    assert!(text.contains("= 65536") && !text.contains("granted"), "{text}");
}

#[test]
fn a_threshold_that_was_not_seen_yet_is_not_zero() {
    let first = Record { detail: 10, ..at(0, Kind::TcpState, 0, 1) };
    let text = lines(&[store(&[first])]);
    assert!(text.contains("cwnd 10 ssthresh ? srtt ?"), "{text}");
}

#[test]
fn equal_times_keep_the_order_of_the_path() {
    let same =
        [segment(5, Kind::InterfaceDequeue, 0, 9, 0), segment(5, Kind::InterfaceEnqueue, 0, 9, 0)];
    let text = lines(&[store(&same)]);
    let names: Vec<_> = text.lines().map(|line| line.split_whitespace().nth(5).unwrap()).collect();
    assert_eq!(names, ["InterfaceEnqueue", "InterfaceDequeue"]);
}

#[test]
fn one_flow_keeps_the_time_of_the_whole() {
    let options = ShowOptions { flow: Some(FlowId(3)), ..ShowOptions::default() };
    let text = shown(&[stalled_message()], &options);
    let events: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(events.len(), 1);
    assert!(events[0].starts_with("   0.041014000"), "{text}");
}

#[test]
fn a_loss_stands_at_the_end_of_its_interval_whatever_flow_is_picked() {
    let missed = |point, count| LossInterval {
        start_ns: START_NS + 2_000,
        end_ns: START_NS + 6_000,
        point,
        count,
        of_datagrams: false,
        is_anchored: false,
    };
    let options = ShowOptions { flow: Some(FlowId(3)), ..ShowOptions::default() };
    let losses = [missed(Some(Point::ReceiveEnqueue), 512), missed(None, 3)];
    let mut out = Vec::new();
    show(&[stalled_message()], &losses, &options, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let events: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(events[0].ends_with("3 records of no point missed within 4.000us"), "{text}");
    assert!(events[1].ends_with("512 records of ReceiveEnqueue missed within 4.000us"), "{text}");
    assert!(events[2].contains("InterfaceEnqueue"), "{text}");
}

#[test]
fn a_datagram_has_its_number() {
    let datagram = Record { detail: 12, ..at(0, Kind::InterfaceEnqueue, 600, 50) };
    assert!(lines(&[store(&[datagram])]).ends_with("datagram 12\n"));
}

#[test]
fn no_store_gives_the_head_alone_and_an_absent_flow_an_error() {
    assert!(shown(&[], &ShowOptions::default()).lines().all(|line| line.starts_with('#')));
    let options = ShowOptions { flow: Some(FlowId(2)), ..ShowOptions::default() };
    let error = show(&[], &[], &options, &mut Vec::new()).unwrap_err();
    assert_eq!(error.to_string(), "no flow 2 in this trace, which has no connection");
}

fn any_record() -> impl Strategy<Value = Record> {
    let numbers = (any::<u64>(), any::<u64>(), any::<u64>(), 0usize..21, 2u32..4);
    let small = (any::<u32>(), any::<u32>(), any::<u32>(), any::<[u8; 3]>());
    (numbers, small).prop_map(
        |((at_ns, offset, detail, kind, flow), (len, thread, extra, bytes))| Record {
            at_ns,
            offset,
            detail,
            flow: FlowId(flow),
            len,
            thread,
            extra,
            kind: Kind::ALL[kind],
            code: bytes[0],
            tcp_flags: bytes[1],
            marks: bytes[2],
            cpu: 0,
        },
    )
}

proptest! {
    #[test]
    fn any_records_are_a_line_each_in_time_order(records in prop::collection::vec(any_record(), 0..60)) {
        let mut records = records;
        records.sort_by_key(|record| record.at_ns);
        let store = store(&records);
        let times: Vec<_> = merged(&[&store], &[], None).map(|record| record.at_ns).collect();
        prop_assert_eq!(&times, &records.iter().map(|record| record.at_ns).collect::<Vec<_>>());
        prop_assert_eq!(lines(&[store]).lines().count(), records.len());
    }
}

#[test]
fn all_eight_points_are_merged() {
    let records = Point::ALL.map(|point| at(u64::from(point.number()), point.into(), 0, 1));
    assert_eq!(lines(&[store(&records)]).lines().count(), 8);
}

/// Two data segments, their acknowledgment, and a FIN with its own, as points 4 saw them.
#[test]
fn packets_alone_read_as_in_traces_of_the_papers_time() {
    let with = |record: Record, flags: u8, window: u32| Record {
        tcp_flags: flags,
        extra: window,
        ..record
    };
    let left = Kind::InterfaceDequeue;
    const ACK: u8 = tcp_flags::ACK;
    let announced = |bytes| Record { extra: bytes, ..segment(0, Kind::SynOptions, 0, 0, 0) };
    let records = [
        announced(1460),
        with(segment(0, left, 0, 0, 0), tcp_flags::SYN, 4096),
        with(back(segment(2, left, 0, 0, 0)), tcp_flags::SYN | ACK, 4096),
        with(segment(4, left, 0, 0, 0), ACK, 4096),
        with(segment(10, left, 0, 1460, 0), ACK, 4096),
        with(segment(20, left, 1460, 96, 0), ACK | tcp_flags::PSH, 4096),
        with(back(segment(30, left, 0, 0, 1556)), ACK, 4000),
        with(segment(40, left, 1556, 0, 0), ACK | tcp_flags::FIN, 4096),
        with(back(segment(1_500_000, left, 0, 0, 1556)), ACK, 4096),
    ];
    let mut out = Vec::new();
    show_tcpdump(&[store(&records)], None, &mut out).unwrap();
    insta::assert_snapshot!(String::from_utf8(out).unwrap(), @r"
    0.000000 127.0.0.1.40000 > 127.0.0.1.5000: S 1:1(0) win 4096 <mss 1460>
    0.000002 127.0.0.1.5000 > 127.0.0.1.40000: S 1:1(0) ack 1 win 4096
    0.000004 127.0.0.1.40000 > 127.0.0.1.5000: . ack 1 win 4096
    0.000010 127.0.0.1.40000 > 127.0.0.1.5000: . 1:1461(1460) ack 1 win 4096
    0.000020 127.0.0.1.40000 > 127.0.0.1.5000: P 1461:1557(96) ack 1 win 4096
    0.000030 127.0.0.1.5000 > 127.0.0.1.40000: . ack 1557 win 4000
    0.000040 127.0.0.1.40000 > 127.0.0.1.5000: F 1557:1557(0) ack 1 win 4096
    1.500000 127.0.0.1.5000 > 127.0.0.1.40000: . ack 1558 win 4096
    ");
}

#[test]
fn packets_of_a_flow_that_is_not_there_are_refused() {
    let stores = [store(&[])];
    let error = show_tcpdump(&stores, Some(FlowId(9)), &mut Vec::new()).unwrap_err();
    assert!(matches!(error, ReportError::NoSuchFlow { .. }));
}

#[test]
fn a_part_has_the_lines_of_the_whole_that_are_in_its_time() {
    let records = [
        at(10, Kind::SendEnqueue, 0, 100),
        at(20, Kind::SendDequeue, 0, 100),
        at(30, Kind::Wakeup, 0, 0),
        at(40, Kind::SendEnqueue, 100, 50),
    ];
    let store = store(&records);
    let options = ShowOptions { start_ns: Some(START_NS), ..ShowOptions::default() };
    let (from_ns, to_ns) = (START_NS + 20_000, START_NS + 40_000);
    let part = show_part(&store, &options, (from_ns, to_ns), 2).unwrap();
    let kinds: Vec<_> = part.iter().map(|one| one.record.kind).collect();
    assert_eq!(kinds, [Kind::SendDequeue, Kind::Wakeup], "the end is not part of it");
    assert!(part[0].line.contains("0.000020000       0.000"), "{}", part[0].line);
    assert!(part[1].line.contains("0.000030000      10.000"), "{}", part[1].line);
    assert_eq!(show_part(&store, &options, (from_ns, to_ns), 1), Err(2));
    assert_eq!(show_part(&store, &options, (to_ns + 1, to_ns + 2), 1), Ok(Vec::new()));
}
