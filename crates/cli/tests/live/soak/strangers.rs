//! Every attack of strangers at once, while a redis is recorded: nothing of the redis is missed, and
//! the recorder stays within its bounds.

use std::collections::HashSet;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use sockscope_analysis::FindingId;
use sockscope_record::{Connection, Protocol};
use sockscope_trace::Bundle;

use super::sized;
use crate::background::{Background, free_port};
use crate::bundle::{Recorder, command, facts, sockscope_says, words, workload};
use crate::hosts::{B_V4, Hosts};
use crate::report::count;
use crate::turn;

/// What the recorder may have in memory, and the bundle on the disk.
const MEMORY_BYTES_MAX: u64 = 300_000_000;
const BUNDLE_BYTES_MAX: u64 = 4_000_000_000;
/// Sources of the forged packets, 300,000 from 10.84.0.1 on, are in this network: no host has one of them.
const FORGED: &str = "10.80.0.0/12";

#[test]
fn root_soak_strangers_neither_blind_the_recorder_nor_make_it_grow() {
    let Some(_turn) = turn::take() else { return };
    let seconds: u64 = sized(6, 600);
    let hosts = Hosts::up(&[]);
    let route = words(&["ip", "route", "add", FORGED, "via", "10.83.0.1"]);
    assert!(command(&hosts.on_b(&route)).status().expect("iproute2 is there").success());
    let port = free_port();
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let _redis = redis(&hosts, port, folder.path());
    let vmtp_port = free_port();
    let _vmtp = vmtp(&hosts, vmtp_port);
    let options = ["--port", &port.to_string(), "--max-size", &BUNDLE_BYTES_MAX.to_string()];
    let recorder = Recorder::start(&options, None);
    let bundle = recorder.dir();

    let strangers = attack(&hosts, port, vmtp_port, seconds);
    let callers = callers(&hosts, port, seconds);
    let (memory, disk) = watch(recorder.pid(), &bundle, seconds);
    let called: Vec<u64> =
        callers.into_iter().map(|calls| count(&facts(&calls.ended())["connections"])).collect();
    let sent: Vec<Value> = strangers.into_iter().map(|sent| facts(&sent.ended())).collect();
    sent.iter().for_each(|sent| println!("{sent}"));
    let (kept, _) = recorder.end();
    let said = sockscope_says(&["report", "--full", &bundle.display().to_string()]);
    let head: Vec<&str> = said.lines().take(30).collect();
    println!("{} MB of memory, {} MB on the disk\n{}", memory >> 20, disk >> 20, head.join("\n"));
    let recorded = Recorded::of(&bundle, port);
    assert_eq!(recorded.of_redis, called.iter().sum::<u64>(), "connections of the redis");
    for (kind, sources) in [("syns", &recorded.forged_tcp), ("datagrams", &recorded.forged_udp)] {
        check_forged(kind, sources.len() as u64, &sent);
    }
    check_findings(&said, &sent, &called, port);
    assert!(memory < MEMORY_BYTES_MAX, "{memory} B in memory");
    assert!(disk <= BUNDLE_BYTES_MAX, "{disk} B on the disk");
    drop(kept);
}

fn redis(hosts: &Hosts, port: u16, folder: &Path) -> Background {
    let port_word = port.to_string();
    let program = ["redis-server", "--port", &port_word, "--save", "", "--appendonly", "no"];
    let place = ["--bind", "0.0.0.0", "--protected-mode", "no", "--dir"];
    let mut redis = command(&hosts.on_b(&words(&[&program[..], &place].concat())));
    Background::start(redis.arg(folder), "-TERM").listening(port)
}

fn vmtp(hosts: &Hosts, port: u16) -> Background {
    let at = format!("127.0.0.1:{port}");
    let serve = words(&[env!("CARGO_BIN_EXE_sockscope"), "vmtp", "serve", "--at", &at]);
    Background::start_until(&mut command(&hosts.on_b(&serve)), "-INT", " at ")
}

/// All of them, until `seconds` are over.
fn attack(hosts: &Hosts, port: u16, vmtp_port: u16, seconds: u64) -> Vec<Background> {
    let (port, vmtp_port, seconds) = (port.to_string(), vmtp_port.to_string(), seconds.to_string());
    let at_redis = ["--host", B_V4, "--port", &port];
    let from_a = [&["syns", "--rate", "2000"][..], &["datagrams", "--rate", "2000"]];
    let from_b = [
        &["options"][..],
        &["options"],
        &["listeners"],
        &["destinations", "--rate", "2000"],
        &["halves", "--rate", "500", "--port", &vmtp_port],
    ];
    let program =
        |words: &[&str]| workload("strangers.py", &[words, &["--seconds", &seconds]].concat());
    let a = from_a.iter().map(|kind| hosts.on_a(&program(&[kind, &at_redis[..]].concat())));
    let b = from_b.iter().map(|kind| hosts.on_b(&program(kind)));
    a.chain(b).map(|words| Background::kept(&mut command(&words), "-TERM")).collect()
}

/// Clients of the redis, on its own host and on the other.
fn callers(hosts: &Hosts, port: u16, seconds: u64) -> Vec<Background> {
    let (port, seconds) = (port.to_string(), seconds.to_string());
    let calls = |host: &str| {
        workload("short_calls.py", &["--host", host, "--port", &port, "--seconds", &seconds])
    };
    let programs = [hosts.on_a(&calls(B_V4)), hosts.on_b(&calls("127.0.0.1"))];
    programs.iter().map(|words| Background::kept(&mut command(words), "-TERM")).collect()
}

/// The most memory that the recorder had, and the largest size of its bundle.
fn watch(pid: u32, bundle: &Path, seconds: u64) -> (u64, u64) {
    let since = Instant::now();
    let (mut memory, mut disk) = (0, 0);
    while since.elapsed() < Duration::from_secs(seconds + 1) {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it records");
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak = peak.and_then(|peak| peak.split_whitespace().next()?.parse::<u64>().ok());
        memory = memory.max(peak.expect("proc(5)") << 10);
        let files = fs::read_dir(bundle).expect("the bundle is there").flatten();
        disk = disk.max(files.filter_map(|file| Some(file.metadata().ok()?.len())).sum());
        thread::sleep(Duration::from_millis(100));
    }
    (memory, disk)
}

/// Nothing is found but this. The readers wait for a CPU, as they do on a machine that is under attack. The redis has no
/// socket for the strangers' datagrams, and no other program has one at its port on other addresses. All of these are
/// refused. A caller opens a connection for each few calls, and on a quick machine this is a large part of its time:
/// no more than all of its connections but the first are opened again.
fn check_findings(said: &str, sent: &[Value], called: &[u64], port: u16) {
    let starts = |line: &str, heads: &[&str]| heads.iter().any(|head| line.starts_with(head));
    let of_the_trace = ["verdict", "also"];
    let (udp_refused, churn) = (FindingId::UdpRefused, FindingId::ConnectionChurn);
    let may_be_found = [FindingId::LateWakeup, udp_refused, churn];
    for line in said.lines().filter(|line| starts(line, &["verdict", "also", "finding"])) {
        for other in FindingId::ALL.iter().filter(|id| !may_be_found.contains(id)) {
            assert!(!line.contains(other.name()), "untrue: {line}");
        }
        let refused = line.split_once(udp_refused.name());
        if let Some((_, refused)) = refused.filter(|_| starts(line, &of_the_trace)) {
            let refused = number(refused).expect("a count stands behind the name");
            let to_others = count(&of_kind("destinations", sent)["datagrams"]);
            check_sources("datagrams", refused, sent, to_port(to_others, port));
        }
    }
    // The count stands behind the name, or behind the address in the reason.
    let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let named = words.split(churn.name()).skip(1).filter_map(number);
    let behind = words.split(" opened a new connection to ").skip(1);
    let explained = behind.filter_map(|words| number(words.split_once(' ')?.1));
    for opened in named.chain(explained) {
        assert!(
            called.iter().any(|called| opened < *called),
            "opened again: {opened} of {called:?}"
        );
    }
}

/// The number with which these words begin.
fn number(words: &str) -> Option<u64> {
    let words = words.trim_start_matches([':', ' ']).replace(',', "");
    let digits = words.find(|it: char| !it.is_ascii_digit()).unwrap_or(words.len());
    words[..digits].parse().ok()
}

/// Each forged packet has a connection from its source, recorded whole or counted. A source may have the same
/// port again: a thousandth of them at most. One that gave way may have a second connection, by a SYN-ACK that its
/// host repeats 15 s later.
fn check_forged(kind: &str, sources: u64, sent: &[Value]) {
    check_sources(kind, sources, sent, 0);
}

/// The same with `more` packets of programs that are not forged.
fn check_sources(kind: &str, sources: u64, sent: &[Value], more: u64) {
    let packets = count(&of_kind(kind, sent)["packets"]);
    let range = packets - packets / 1000 + more..=packets + more;
    assert!(range.contains(&sources), "{sources} sources of {packets} {kind} and {more} more");
}

fn of_kind<'a>(kind: &str, sent: &'a [Value]) -> &'a Value {
    sent.iter().find(|sent| sent["kind"] == kind).expect("it was started")
}

/// How many of the first datagrams of `strangers.py destinations` go to this port: its ports begin anew after each
/// 60,000.
fn to_port(datagrams: u64, port: u16) -> u64 {
    let first = u64::from(port).checked_sub(1024).filter(|first| *first < 60_000);
    first.map_or(0, |first| (datagrams + 59_999).saturating_sub(first) / 60_000)
}

/// Connections in a bundle, of forged ones the sources.
#[derive(Default)]
struct Recorded {
    /// To the redis, of clients that are not forged.
    of_redis: u64,
    forged_tcp: HashSet<SocketAddr>,
    forged_udp: HashSet<SocketAddr>,
}

impl Recorded {
    fn of(bundle: &Path, port: u16) -> Self {
        let bundle = Bundle::open(bundle).expect("the bundle opens");
        let mut recorded = Self::default();
        let is_to_redis = |connection: &&Connection| connection.server.port() == port;
        for connection in bundle.connections().iter().filter(is_to_redis) {
            match (is_forged(connection.client), connection.protocol) {
                (true, Protocol::Tcp) => _ = recorded.forged_tcp.insert(connection.client),
                (true, _) => _ = recorded.forged_udp.insert(connection.client),
                (false, Protocol::Tcp) => recorded.of_redis += 1,
                (false, _) => {}
            }
        }
        recorded
    }
}

fn is_forged(at: SocketAddr) -> bool {
    matches!(at.ip(), IpAddr::V4(ip) if (84..=88).contains(&ip.octets()[1]))
}
