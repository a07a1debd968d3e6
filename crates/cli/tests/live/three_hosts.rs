//! `--with` twice: a client, a proxy and a server record, and their traces become one.
//!
//! The hosts are network namespaces of one kernel, so that each recorder has all ends. The test cuts the traces: of each
//! host it keeps what that host does, by a clock of its own. The trace of the proxy's recorder has the true times.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use sockscope_record::{Connection, Record, Side};
use sockscope_trace::{Bundle, BundleWriter, ClockSnapshot, Meta};
use tempfile::TempDir;

use crate::background::Background;
use crate::bundle::{ATTEMPTS_SKIPPED, report, sockscope_says, words, workload};
use crate::halves::{Clock, is_of_client, read};
use crate::hosts::{B_V4, Hosts};
use crate::report::{Report, bytes, count, flow};
use crate::turn::Turn;
use crate::with_hosts::{SSH_PORT, command, said, ssh, sshd_in, start_sshd, take_turn};

/// The address of the server behind the wire of `tests/workloads/tun_link.py`.
const FAR: &str = "10.86.0.2";
/// Of the proxy and of the server.
const PORTS: [u16; 2] = [7000, 7001];
const CALLS: u64 = 20;
const REQUEST: u64 = 100;
const REPLY: u64 = 300;

const SERVER: &str = "import socket, sys, time
listener = socket.create_server(('10.86.0.2', 7001))
print('listening on', file=sys.stderr, flush=True)
while True:
    connection, _ = listener.accept()
    while connection.recv(1000):
        time.sleep(0.002)
        connection.sendall(b'x' * 300)
    connection.close()";
const PROXY: &str = "import socket, sys
listener = socket.create_server(('10.83.0.2', 7000))
print('listening on', file=sys.stderr, flush=True)
while True:
    connection, _ = listener.accept()
    upstream = socket.create_connection(('10.86.0.2', 7001))
    while data := connection.recv(1000):
        upstream.sendall(data)
        connection.sendall(upstream.recv(1000))
    upstream.close()
    connection.close()";
const CLIENT: &str = "import socket
connection = socket.create_connection(('10.83.0.2', 7000))
for _ in range(20):
    connection.sendall(b'x' * 100)
    connection.recv(1000)
connection.close()";

/// A client's host `a`, the proxy's host `b`, and the server's host behind a wire of 2 ms.
struct Three {
    folder: TempDir,
    /// Ended before the namespaces go.
    running: Vec<Background>,
    pids: [u32; 2],
    near: Hosts,
    /// Host `b` of this pair is the server's.
    _far: Hosts,
    _turn: Turn,
}

impl Three {
    fn up() -> Option<Self> {
        let turn = take_turn()?;
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let sshd = sshd_in(folder.path());
        let near = Hosts::up(&[]);
        let far = near.up_beside();
        let far_end = far.name_b();
        let wire = ["--far", &far_end, "--delay-ms", "2", "--timeout", "600"];
        let wire = workload("tun_link.py", &wire);
        let wire = Background::start_until(&mut command(&near.on_b(&wire)), "-TERM", "forwarding");
        // For ssh from the client's host to the server's.
        let [client, proxy] = near.namespaces();
        for line in [
            // It has the addresses of the first pair.
            format!("ip -n {} link set veth0 down", far.name_b()),
            format!("ip -n {client} route add 10.86.0.0/30 via {B_V4}"),
            format!("ip -n {} route add default via 10.86.0.1", far.name_b()),
            format!("ip netns exec {proxy} sysctl -qw net.ipv4.ip_forward=1"),
        ] {
            let words: Vec<&str> = line.split(' ').collect();
            let done = Command::new(words[0]).args(&words[1..]).status();
            assert!(done.expect("iproute2 is there").success(), "{line}");
        }
        let listening = |words: &[String]| {
            Background::start_until(&mut command(words), "-TERM", "listening on")
        };
        let python = |program| words(&["python3", "-c", program]);
        let server = listening(&far.on_b(&python(SERVER)));
        let proxied = listening(&near.on_b(&python(PROXY)));
        let pids = [proxied.pid(), server.pid()];
        let sshds = [near.on_b(&sshd), far.on_b(&sshd)].map(|words| start_sshd(&words));
        let running = [proxied, server].into_iter().chain(sshds).chain([wire]).collect();
        Some(Self { folder, running, pids, near, _far: far, _turn: turn })
    }

    /// `sockscope record` of the client on all three hosts.
    fn record(&self, output: &Path, traffic: &[String]) -> Command {
        let own = env!("CARGO_BIN_EXE_sockscope");
        let [proxy, server] = [B_V4, FAR].map(|host| format!("ssh://root@{host}:{SSH_PORT}"));
        let ssh = ssh(self.folder.path());
        let output = output.display().to_string();
        let with = ["--with", &proxy, "--with", &server, "--ssh", &ssh, "--with-program", own];
        let record = [&[own, "record", "--port", "7000-7001", "-o", &output][..], &with, &["--"]];
        command(&self.near.on_a(&[words(&record.concat()), traffic.to_vec()].concat()))
    }

    /// The traces of the three hosts, which are not merged as the name of the result is taken meanwhile. Some kernels
    /// skip probes while the wire's program reads from its devices.
    fn record_parts(&self) -> [PathBuf; 3] {
        for attempt in 1.. {
            let taken = self.folder.path().join(format!("taken-{attempt}.sockscope"));
            let script = format!("mkdir {0} && touch {0}/x && exec \"$@\"", taken.display());
            let traffic = words(&["sh", "-c", &script, "sh", "python3", "-c", CLIENT]);
            let recorded = self.record(&taken, &traffic).output().expect("it was built");
            assert_eq!(recorded.status.code(), Some(2), "{}", said(&recorded));
            let entries = fs::read_dir(self.folder.path()).expect("it is ours").flatten();
            let name = format!("taken-{attempt}.sockscope.halves-");
            let mut folders = entries.map(|entry| entry.path());
            let folder = folders.find(|path| path.display().to_string().contains(&name));
            let folder = folder.unwrap_or_else(|| panic!("{}", said(&recorded)));
            let parts = ["local", "host-1", "host-2"];
            let parts = parts.map(|name| folder.join(name).with_extension("sockscope"));
            let missed = parts.each_ref().map(|part| report(part).missed());
            if missed == [0; 3] {
                return parts;
            }
            assert!(attempt < ATTEMPTS_SKIPPED, "recorded {attempt} times, missed {missed:?}");
        }
        unreachable!("the loop ends by return or panic")
    }
}

impl Drop for Three {
    fn drop(&mut self) {
        self.running.clear();
    }
}

/// The side of a host on a connection to this port.
type SideAt = fn(u16) -> Option<Side>;

const HOSTS: [(&str, SideAt); 3] = [
    ("client", |port| (port == PORTS[0]).then_some(Side::Client)),
    ("proxy", |port| Some(if port == PORTS[0] { Side::Server } else { Side::Client })),
    ("server", |port| (port == PORTS[1]).then_some(Side::Server)),
];

/// A trace with only what its host does, by this clock.
fn cut(part: &Path, (name, side_at): (&str, SideAt), clock: Clock) -> PathBuf {
    let bundle = Bundle::open(part).expect("it was kept");
    let dir = part.with_file_name(format!("{name}-{}.sockscope", clock.offset_ns));
    let snapshot = |it: &ClockSnapshot| {
        ClockSnapshot::new(
            clock.at(it.monotonic_ns),
            it.realtime_ns.saturating_add_signed(clock.realtime_ns),
        )
    };
    let snapshots = bundle.meta().clock.iter().map(snapshot).collect();
    let meta = Meta { host: name.to_owned(), clock: snapshots, ..bundle.meta().clone() };
    let mut writer = BundleWriter::create(&dir, meta.clone()).expect("a new folder");
    let mut sides = Vec::new();
    for row in bundle.connections() {
        let Some(side) = side_at(row.server.port()) else { continue };
        sides.push((row.id, side));
        let mut processes = row.processes.clone();
        processes.retain(|process| process.side == side);
        let (opened_ns, closed_ns) =
            (clock.at(row.opened_ns), row.closed_ns.map(|ns| clock.at(ns)));
        let both_ends_here = false;
        let row = Connection { both_ends_here, processes, opened_ns, closed_ns, ..row.clone() };
        writer.connection(&row).expect("there is room");
    }
    let mut records = read(part);
    records.retain(|record: &Record| {
        let found = sides.iter().find(|(id, _)| *id == record.flow.connection());
        found.is_some_and(|(_, side)| is_of_client(record) == (*side == Side::Client))
    });
    let records: Vec<_> = records.iter().map(|record| record.on_clock(|ns| clock.at(ns))).collect();
    writer.append(&records).expect("there is room");
    writer.finish(meta).expect("there is room");
    dir
}

/// The traces as one, each by its clock.
fn merged(parts: &[PathBuf; 3], clocks: [Clock; 3]) -> (Report, Meta, String) {
    let cut = |host: usize| cut(&parts[host], HOSTS[host], clocks[host]).display().to_string();
    let [client, proxy, server] = [0, 1, 2].map(cut);
    let named = |name: &str| format!("{client}-{name}.sockscope");
    let (two, three) = (named("two"), named("three"));
    sockscope_says(&["merge", &client, &proxy, "-o", &two]);
    sockscope_says(&["merge", &two, &server, "-o", &three]);
    let meta = Bundle::open(&three).expect("it is whole").meta().clone();
    (report(Path::new(&three)), meta, sockscope_says(&["report", &three]))
}

#[test]
fn root_three_hosts_on_the_way_of_a_request_are_one_trace() {
    let Some(three) = Three::up() else { return };
    // As a user has it: the recorders end, and all is merged.
    let output = three.folder.path().join("all.sockscope");
    let traffic = words(&["python3", "-c", CLIENT]);
    let recorded = three.record(&output, &traffic).output().expect("it was built");
    assert!(recorded.status.success(), "{}", said(&recorded));
    for host in [B_V4, FAR] {
        let start = format!("sockscope: root@{host}:{SSH_PORT}: ");
        let of_host = |line: &str| line.starts_with(&start) && line.contains(" connections, ");
        assert!(said(&recorded).lines().any(of_host), "{}", said(&recorded));
    }
    // The first recorder has the command's connection, the others both. Each has both ends, so that they do not pair.
    let all = report(&output);
    for server in [format!("{B_V4}:{}", PORTS[0]), format!("{FAR}:{}", PORTS[1])] {
        let count = all.connections().iter().filter(|one| one["server"] == server.as_str()).count();
        assert!((2..=3).contains(&count), "{server}: {}", all.summary());
    }

    let parts = three.record_parts();
    let truth = report(&parts[1]);
    let clock = |offset_ms: i64, drift_ppm: i64, booted_s: i64| Clock {
        start_ns: 5_000_000_000,
        offset_ns: offset_ms * 1_000_000,
        drift_ppb: drift_ppm * 1_000,
        realtime_ns: booted_s * 1_000_000_000,
    };
    // Each host has booted first in one of them.
    for clocks in [
        [clock(0, 0, -900), clock(700, 40, 0), clock(-400, -30, 900)],
        [clock(1, 10, 900), clock(-900, -40, -900), clock(300, 20, 0)],
        [clock(2, -20, 0), clock(500, 30, 900), clock(-800, 50, -900)],
    ] {
        let (all, meta, text) = merged(&parts, clocks);
        check(&three, &all, &meta, &truth);
        assert!(text.contains("\nverdict  ") && !text.contains("±?"), "{text}");
    }
}

/// Whether the path of the requests, and the delays between the hosts, are those of the truth.
fn check(three: &Three, all: &Report, meta: &Meta, truth: &Report) {
    assert_eq!(all.connections().len(), 2, "{}", all.summary());
    assert_eq!(all.gaps(), Vec::<String>::new());
    assert_eq!(meta.hosts(), 3, "{}", meta.host);
    assert_eq!(meta.clock_bands.len(), 2, "{}", all.notes());
    assert!(all.notes().contains("its own bounds add to these"), "{}", all.notes());
    // The request of the client waits for that of the proxy.
    let tree = all.slowest_nested();
    let pids = [tree, &tree["nested"][0]].map(|branch| &branch["pid"]);
    assert_eq!(pids, three.pids.map(Value::from).each_ref(), "{tree}");
    for port in PORTS {
        let (merged, true_one) = (all.connection(port), truth.connection(port));
        for (end, size) in [("client", REQUEST), ("server", REPLY)] {
            assert_eq!(bytes(merged, end), CALLS * size);
            let wire = |connection: &Value| flow(connection, end)["stages"]["wire"].clone();
            let (stated, truth) = (wire(merged), wire(true_one));
            let error = count(&stated["uncertainty_ns"]);
            for statistic in ["min", "p50", "max"] {
                let of = |stage: &Value| count(&stage["delay_ns"][statistic]);
                let difference = of(&stated).abs_diff(of(&truth));
                assert!(difference <= error, "{port} {end} {statistic}: {stated}, not {truth}");
            }
        }
    }
}
