//! Two hosts' bundles as one.

mod common;

use std::path::Path;

use common::{Folder, connection, read};
use sockscope_record::{Connection, ConnectionId, FlowId, Kind, Process, Record, Side, marks};
use sockscope_trace::{
    Bundle, BundleWriter, ClockSnapshot, Error, Merged, Meta, Source, check, merge,
};

/// A host that booted at `booted_ns` (real time), and what it saw of one connection.
fn host(dir: &Path, name: &str, booted_ns: u64, id: u32, records: &[(u64, Kind)]) -> Bundle {
    let flow = ConnectionId(id).flow(sockscope_record::Direction::FromClient);
    let records: Vec<_> = records
        .iter()
        .map(|&(at_ns, kind)| Record { at_ns, kind, flow, len: 10, ..Record::default() })
        .collect();
    let meta = Meta {
        host: name.into(),
        clock: vec![ClockSnapshot::new(7, booted_ns + 7)],
        ..Meta::default()
    };
    let seen = Connection {
        id: ConnectionId(id),
        both_ends_here: false,
        processes: Vec::new(),
        ..connection(1)
    };
    let mut writer = BundleWriter::create(dir, meta.clone()).unwrap();
    writer.connection(&seen).unwrap();
    writer.append(&records).unwrap();
    writer.finish(meta).unwrap();
    Bundle::open(dir).unwrap()
}

#[test]
fn one_transfer_seen_by_both_hosts_is_one_flow_on_one_clock() {
    let folder = Folder::new();
    let sender = [(500, Kind::SendEnqueue), (510, Kind::SendDequeue), (900, Kind::SendEnqueue)];
    let receiver = [(30, Kind::ReceiveEnqueue), (90, Kind::ReceiveDequeue)];
    let sender = host(&folder.named("alpha"), "alpha", 1_000, 4, &sender);
    let receiver = host(&folder.named("beta"), "beta", 1_500, 9, &receiver);
    let merged = merge(&sender, &receiver, folder.named("both")).unwrap();
    let expected = Merged {
        matched: 1,
        translated: 0,
        connections: 1,
        records: 5,
        shift_ns: [0, 500],
        clock_moved_ns: 0,
        band: None,
        problems: Default::default(),
    };
    assert_eq!(merged, expected);

    let (records, problems) = read(&folder.named("both"));
    assert_eq!(problems, [""; 0]);
    let seen: Vec<_> =
        records.iter().map(|record| (record.at_ns, record.kind.name(), record.flow)).collect();
    let flow = FlowId(2);
    assert_eq!(
        seen,
        [
            (500, "SendEnqueue", flow),
            (510, "SendDequeue", flow),
            (530, "ReceiveEnqueue", flow),
            (590, "ReceiveDequeue", flow),
            (900, "SendEnqueue", flow),
        ]
    );
    assert!(check(folder.named("both")).unwrap().is_sound());
    let both = Bundle::open(folder.named("both")).unwrap();
    assert_eq!(both.meta().host, "alpha + beta");
    assert!(both.connections()[0].both_ends_here);
    let notes = both.meta().notes.join("\n");
    assert!(notes.contains("those of beta were shifted by 500 ns"), "{notes}");
    assert!(notes.contains("Their difference is not known"), "{notes}");
}

#[test]
fn a_model_in_real_time_and_a_kernel_are_two_sources() {
    let folder = Folder::new();
    let kernel = host(&folder.named("kernel"), "alpha", 100, 3, &[(10, Kind::SendEnqueue)]);
    let meta = Meta { source: Source::Model, ..kernel.meta().clone() };
    let mut writer = BundleWriter::create(folder.named("model"), meta.clone()).unwrap();
    writer.connection(&kernel.connections()[0]).unwrap();
    writer.finish(meta).unwrap();
    let model = Bundle::open(folder.named("model")).unwrap();
    merge(&kernel, &model, folder.named("merged")).unwrap();
    let merged = Bundle::open(folder.named("merged")).unwrap();
    assert_eq!(merged.meta().source, Source::Merged);
    merge(&kernel, &kernel, folder.named("same")).unwrap();
    assert_eq!(Bundle::open(folder.named("same")).unwrap().meta().source, Source::Live);
}

#[test]
fn without_a_clock_there_is_no_merge() {
    let folder = Folder::new();
    let with = host(&folder.named("a"), "a", 5, 1, &[]);
    BundleWriter::create(folder.named("b"), Meta::default())
        .unwrap()
        .finish(Meta::default())
        .unwrap();
    let without = Bundle::open(folder.named("b")).unwrap();
    let refused = merge(&with, &without, folder.named("both"));
    assert!(matches!(refused, Err(Error::NoClock { .. })));
    assert!(!folder.named("both").exists());
}

#[test]
fn a_truncated_half_is_merged_as_far_as_it_goes_and_noted() {
    let folder = Folder::new();
    let sender = host(&folder.named("a"), "a", 5, 1, &[(1, Kind::SendEnqueue)]);
    host(&folder.named("b"), "b", 5, 1, &[(2, Kind::ReceiveEnqueue)]);
    let records = folder.named("b").join("records.arrows");
    let whole = std::fs::read(&records).unwrap();
    std::fs::write(&records, &whole[..whole.len() - 1_500]).unwrap();
    let receiver = Bundle::open(folder.named("b")).unwrap();
    assert_eq!(merge(&sender, &receiver, folder.named("both")).unwrap().records, 1);
    let both = Bundle::open(folder.named("both")).unwrap();
    let noted =
        both.meta().notes.iter().any(|note| note.starts_with("b: records.arrows: truncated"));
    assert!(noted, "{:?}", both.meta().notes);
}

/// Two engines' bundles merged, one of packets sent and one of packets received, by their octets: how
/// many connections, whether any has both ends, and the notes.
fn ends_of_engines(name: &str, sent: &[u32], came: &[u32]) -> (u64, bool, String) {
    let folder = Folder::new();
    let passed = |kind, lens: &[u32]| {
        let mut offset = 0;
        let mut place = |len: &u32| (offset, offset += u64::from(*len)).0;
        let rows = (10..).zip(lens).map(|(at_ns, len)| (at_ns, kind, place(len), *len));
        rows.collect::<Vec<_>>()
    };
    let [sent, came] = [passed(Kind::SendDequeue, sent), passed(Kind::ReceiveEnqueue, came)];
    let client = datagrams(&folder.named("client"), Source::Engine, 1, &sent);
    let server = datagrams(&folder.named("server"), Source::Engine, 4, &came);
    let done = merge(&client, &server, folder.named(name)).unwrap();
    let both = Bundle::open(folder.named(name)).unwrap();
    let has_both = both.connections().iter().any(|row| row.both_ends_here);
    (done.connections, has_both, both.meta().notes.join(" "))
}

#[test]
fn engines_that_counted_other_octets_stay_apart() {
    let (connections, has_both, notes) = ends_of_engines("all", &[80, 60], &[80, 60]);
    assert_eq!((connections, has_both, notes.contains("stay two")), (1, true, false), "{notes}");
    // The first packet was dropped: the second one's positions differ between the ends.
    let (connections, has_both, notes) = ends_of_engines("dropped", &[80, 60], &[60]);
    assert_eq!((connections, has_both), (2, false), "{notes}");
    assert!(notes.contains("stay two, one for each engine: 1"), "{notes}");
}

/// One record of a UDP flow: time, kind, position, octets.
fn datagram(&(at_ns, kind, offset, len): &(u64, Kind, u64, u32)) -> Record {
    Record { at_ns, kind, offset, len, ..Record::default() }
}

/// A bundle of one UDP flow, records as (time, kind, position, octets).
fn datagrams(dir: &Path, source: Source, id: u32, records: &[(u64, Kind, u64, u32)]) -> Bundle {
    let records: Vec<_> = records.iter().map(datagram).collect();
    datagrams_of(dir, source, id, &records)
}

/// A bundle of one UDP flow, to which all records are put.
fn datagrams_of(dir: &Path, source: Source, id: u32, records: &[Record]) -> Bundle {
    let flow = ConnectionId(id).flow(sockscope_record::Direction::FromClient);
    let records: Vec<_> = records.iter().map(|record| Record { flow, ..*record }).collect();
    let meta = Meta { host: "alpha".into(), source, ..Meta::default() };
    let seen = Connection {
        id: ConnectionId(id),
        protocol: sockscope_record::Protocol::Udp,
        both_ends_here: !source.is_engine(),
        processes: Vec::new(),
        ..connection(1)
    };
    let mut writer = BundleWriter::create(dir, meta.clone()).unwrap();
    writer.connection(&seen).unwrap();
    writer.append(&records).unwrap();
    writer.finish(meta).unwrap();
    Bundle::open(dir).unwrap()
}

#[test]
fn an_engine_gives_its_own_points_and_the_kernel_those_between() {
    let folder = Folder::new();
    let kernel = [
        // Before the engine began to record.
        (5, Kind::SendEnqueue, 0, 40),
        (20, Kind::SendEnqueue, 40, 100),
        (20, Kind::SendDequeue, 40, 100),
        (21, Kind::InterfaceDequeue, 40, 100),
        (22, Kind::InputDequeue, 40, 100),
        (23, Kind::ReceiveEnqueue, 40, 100),
        (24, Kind::ReceiveDequeue, 40, 100),
    ];
    let engine = [
        (10, Kind::SendEnqueue, 0, 100),
        (18, Kind::SendDequeue, 0, 100),
        // A datagram of which the kernel's probes kept nothing.
        (28, Kind::SendEnqueue, 100, 60),
        (29, Kind::SendDequeue, 100, 60),
        (40, Kind::Transaction, 0, 30),
    ];
    let kernel = datagrams(&folder.named("kernel"), Source::Live, 3, &kernel);
    let engine = datagrams(&folder.named("engine"), Source::Engine, 1, &engine);
    for (name, [first, second]) in [("one", [&kernel, &engine]), ("other", [&engine, &kernel])] {
        let merged = merge(first, second, folder.named(name)).unwrap();
        assert_eq!((merged.matched, merged.connections), (1, 1));
        let (records, problems) = read(&folder.named(name));
        assert_eq!(problems, [""; 0]);
        let seen: Vec<_> = records
            .iter()
            .map(|record| (record.at_ns, record.kind.name(), record.offset))
            .collect();
        assert_eq!(
            seen,
            [
                (5, "SendEnqueue", 0),
                (10, "SendEnqueue", 40),
                (18, "SendDequeue", 40),
                (21, "InterfaceDequeue", 40),
                (22, "InputDequeue", 40),
                (23, "ReceiveEnqueue", 40),
                (24, "ReceiveDequeue", 40),
                (40, "Transaction", 0),
            ]
        );
        assert!(records.iter().all(|record| record.flow == FlowId(6)));
        let notes = Bundle::open(folder.named(name)).unwrap().meta().notes.join("\n");
        assert!(notes.contains("and left out: 1"), "{notes}");
    }
}

/// The read of the first one was not seen; the engine began after it.
#[test]
fn a_datagram_that_is_gone_by_then_was_not_read_then() {
    let folder = Folder::new();
    let gone = datagram(&(24, Kind::ReceiveDequeue, 0, 100));
    let kernel = [
        datagram(&(20, Kind::ReceiveEnqueue, 0, 100)),
        datagram(&(23, Kind::ReceiveEnqueue, 100, 100)),
        Record { marks: marks::DERIVED, ..gone },
        datagram(&(24, Kind::ReceiveDequeue, 100, 100)),
    ];
    let engine = [(26, Kind::ReceiveEnqueue, 0, 100), (27, Kind::ReceiveDequeue, 0, 100)];
    let kernel = datagrams_of(&folder.named("kernel"), Source::Live, 3, &kernel);
    let engine = datagrams(&folder.named("engine"), Source::Engine, 1, &engine);
    merge(&kernel, &engine, folder.named("both")).unwrap();
    let (records, _) = read(&folder.named("both"));
    let reads = records.iter().filter(|record| record.kind == Kind::ReceiveDequeue);
    let reads: Vec<_> = reads.map(|read| (read.at_ns, read.offset, read.marks)).collect();
    assert_eq!(reads, [(24, 0, marks::DERIVED), (27, 100, 0)]);
}

#[test]
fn two_engines_of_one_host_tell_both_ends_of_loopback() {
    let folder = Folder::new();
    let client = [(5, Kind::SendEnqueue, 0, 80), (6, Kind::SendDequeue, 0, 80)];
    let server = [(9, Kind::ReceiveEnqueue, 0, 80), (11, Kind::ReceiveDequeue, 0, 80)];
    let client = datagrams(&folder.named("client"), Source::Engine, 1, &client);
    let server = datagrams(&folder.named("server"), Source::Engine, 4, &server);
    let done = merge(&client, &server, folder.named("both")).unwrap();
    assert_eq!((done.matched, done.connections, done.records), (1, 1, 4));
    let both = Bundle::open(folder.named("both")).unwrap();
    assert_eq!(both.meta().host, "alpha");
    assert!(both.connections()[0].both_ends_here);
    let (records, _) = read(&folder.named("both"));
    let times: Vec<_> = records.iter().map(|record| record.at_ns).collect();
    assert_eq!(times, [5, 6, 9, 11]);
    assert!(both.meta().notes.join(" ").contains("on one clock"), "{:?}", both.meta().notes);
}

#[test]
fn an_engine_of_another_host_is_refused() {
    let folder = Folder::new();
    let kernel = host(&folder.named("kernel"), "beta", 1_000, 1, &[]);
    let engine = datagrams(&folder.named("engine"), Source::Engine, 1, &[]);
    let refused = merge(&kernel, &engine, folder.named("both")).unwrap_err();
    assert!(matches!(refused, Error::OtherHost { .. }), "{refused}");
}

/// Rows of a host with one process, and a setting.
fn with_process(dir: &Path, name: &str, connections: &[(u32, [&str; 2], Side)]) -> Bundle {
    let meta = Meta {
        host: name.into(),
        clock: vec![ClockSnapshot::new(7, 1_007)],
        sysctls: [("net.ipv4.tcp_sack".to_owned(), "1".to_owned())].into(),
        notes: vec!["a note".to_owned()],
        ..Meta::default()
    };
    let mut writer = BundleWriter::create(dir, meta.clone()).unwrap();
    for &(id, [client, server], side) in connections {
        let row = Connection {
            id: ConnectionId(id),
            client: client.parse().unwrap(),
            server: server.parse().unwrap(),
            opened_ns: u64::from(id % 5) + u64::from(server.ends_with(":90")) * 100,
            both_ends_here: false,
            processes: vec![Process::new(812, "x", side)],
            ..connection(1)
        };
        writer.connection(&row).unwrap();
    }
    writer.finish(meta).unwrap();
    Bundle::open(dir).unwrap()
}

#[test]
fn processes_of_three_hosts_with_one_number_stay_apart() {
    let folder = Folder::new();
    let [near, far] = [["10.0.0.1:4000", "10.0.0.2:80"], ["10.1.0.2:5000", "10.1.0.3:90"]];
    let client = with_process(&folder.named("a"), "alpha", &[(1, near, Side::Client)]);
    let both = [(1, near, Side::Server), (2, far, Side::Client)];
    let proxy = with_process(&folder.named("b"), "beta", &both);
    let server = with_process(&folder.named("c"), "gamma", &[(5, far, Side::Server)]);
    let hosts = |bundle: &Bundle| -> Vec<Vec<u32>> {
        let rows = bundle.connections().iter();
        rows.map(|row| row.processes.iter().map(|process| process.host).collect()).collect()
    };
    assert_eq!(hosts(&client), [[0]], "a trace of one host has no numbers");
    merge(&client, &proxy, folder.named("two")).unwrap();
    let two = Bundle::open(folder.named("two")).unwrap();
    merge(&two, &server, folder.named("three")).unwrap();
    let three = Bundle::open(folder.named("three")).unwrap();
    assert_eq!(hosts(&three), [vec![1, 2], vec![2, 3]]);
    merge(&server, &two, folder.named("other")).unwrap();
    let other = Bundle::open(folder.named("other")).unwrap();
    // The first trace's process is the first.
    assert_eq!(hosts(&other), [vec![2, 3], vec![1, 3]]);
    // Each entry has the name of its host once.
    let keys: Vec<_> = three.meta().sysctls.keys().map(String::as_str).collect();
    let of = ["alpha", "beta", "gamma"].map(|host| format!("{host}:net.ipv4.tcp_sack"));
    assert_eq!(keys, of);
    for host in ["alpha", "beta", "gamma"] {
        assert!(
            three.meta().notes.contains(&format!("{host}: a note")),
            "{:?}",
            three.meta().notes
        );
    }
}
