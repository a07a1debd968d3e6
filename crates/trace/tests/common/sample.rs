//! The content of the sample bundle of format version 1. Never change it: the sample is there to
//! show that what an old release wrote still opens.

use std::path::Path;

use sockscope_record::{
    Connection, ConnectionId, FlowId, Kind, LossCounts, Point, PointCost, Process, Protocol,
    Record, Side,
};
use sockscope_trace::{
    BundleWriter, ClockSnapshot, Error, Hook, HookState, Interface, Machine, Meta, Ring, Source,
};

/// Writes the sample to folder `dir`.
pub fn write(dir: &Path) -> Result<(), Error> {
    let mut writer = BundleWriter::create(dir, meta())?;
    let [tcp, udp] = connections();
    writer.connection(&Connection { closed_ns: None, processes: vec![], ..tcp.clone() })?;
    let records = records();
    let (early, late) = records.split_at(100);
    writer.append(early)?;
    writer.flush()?;
    writer.connection(&tcp)?;
    writer.connection(&udp)?;
    writer.append(late)?;
    writer.finish(meta())
}

/// 40 calls of 100 + 300 bytes over connection 1, each point passed 1 µs after the one before,
/// then one record of each kind of no point, on connection 2.
pub fn records() -> Vec<Record> {
    let calls = (0..40).flat_map(|call: u64| {
        Point::ALL.map(|point| Record {
            at_ns: 1_000_000 * call + 1_000 * u64::from(point.number()),
            offset: 400 * call,
            len: if call.is_multiple_of(2) { 100 } else { 300 },
            flow: FlowId(2),
            kind: point.into(),
            thread: if point == Point::ReceiveDequeue { 4202 } else { 4201 },
            tcp_flags: 0x18,
            marks: 32,
            cpu: 1,
            ..Record::default()
        })
    });
    // The kinds of the first release: later ones are not in the samples that are kept.
    use Kind::{
        Accept, BlocksAgain, Conversion, Hop, HopDevice, Interface, LeftOut, SocketLayer,
        SynOptions, Transaction, WindowScale,
    };
    let models = [Transaction, BlocksAgain, SynOptions, Conversion];
    let later =
        [&models[..], &[Interface, Accept, WindowScale, LeftOut, Hop, HopDevice, SocketLayer]]
            .concat();
    let kinds = Kind::ALL.iter().filter(move |kind| !later.contains(kind));
    let events = kinds.skip(Point::ALL.len()).zip(1..).map(|(kind, number)| Record {
        at_ns: 50_000_000 + number,
        offset: 10 * number,
        detail: 0x1_0000_0000 + u64::from(*kind == Kind::Loss),
        flow: if *kind == Kind::Loss { FlowId(0) } else { FlowId(5) },
        len: 7,
        kind: *kind,
        code: if *kind == Kind::Loss { 4 } else { 1 },
        extra: u32::MAX,
        ..Record::default()
    });
    calls.chain(events).collect()
}

/// One of each protocol and address family.
pub fn connections() -> [Connection; 2] {
    let process = |pid, comm: &str, side| Process::new(pid, comm, side);
    let tcp = Connection {
        id: ConnectionId(1),
        protocol: Protocol::Tcp,
        client: ([127, 0, 0, 1], 40_001).into(),
        server: ([127, 0, 0, 1], 7_000).into(),
        opened_ns: 500,
        closed_ns: Some(60_000_000),
        preexisting: false,
        both_ends_here: true,
        processes: vec![
            process(4201, "client", Side::Client),
            process(4202, "server", Side::Server),
        ],
        names: None,
        mark: None,
        elsewhere: None,
    };
    let udp = Connection {
        id: ConnectionId(2),
        protocol: Protocol::Udp,
        client: ([0xfd00, 0, 0, 0, 0, 0, 0, 1], 5_353).into(),
        server: ([0xfd00, 0, 0, 0, 0, 0, 0, 2], 5_353).into(),
        opened_ns: 49_000_000,
        closed_ns: None,
        preexisting: true,
        both_ends_here: false,
        processes: vec![],
        names: None,
        mark: None,
        elsewhere: None,
    };
    [tcp, udp]
}

/// Every field in use. `complete` and `records` are the writer's.
pub fn meta() -> Meta {
    let mut loss = LossCounts::default();
    loss.add(Some(Point::InterfaceDequeue), 0x1_0000_0001);
    let snapshot =
        |monotonic_ns| ClockSnapshot::new(monotonic_ns, 1_790_000_000_000_000_000 + monotonic_ns);
    let hook = |point: &str, hook: &str, state, note: &str| Hook {
        point: point.into(),
        hook: hook.into(),
        state,
        note: note.into(),
    };
    Meta {
        tool_version: "0.1.0".into(),
        source: Source::Model,
        host: "alpha".into(),
        kernel: "6.18.0".into(),
        machine: Machine { cpus: 2, model: "Example CPU".into() },
        clock: vec![snapshot(0), snapshot(60_000_000)],
        command: ["sockscope", "run", "--", "client"].map(String::from).to_vec(),
        pick: "sockets of the command and their peers".into(),
        hooks: vec![
            hook("SendEnqueue", "tp_btf/tcp_sendmsg_locked", HookState::Used, ""),
            hook(
                "InterfaceEnqueue",
                "tp_btf/qdisc_enqueue",
                HookState::Missing,
                "no such tracepoint",
            ),
        ],
        ring: Ring { records: 1 << 18, bytes: 1 << 24 },
        sysctls: [("net.ipv4.tcp_wmem".into(), "4096 16384 4194304".into())].into(),
        interfaces: vec![Interface {
            name: "lo".into(),
            mtu: 65_536,
            qdisc: "noqueue".into(),
            offloads: vec!["tso".into(), "gro".into()],
        }],
        loss,
        cost: std::array::from_fn(|point| PointCost { hits: 40 + point as u64, run_ns: 4_000 }),
        notes: vec!["made by examples/sample_bundle.rs".into()],
        ..Meta::default()
    }
}
