//! The topologies on this kernel: who reaches whom, over how many hosts, and by which packets.

use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use sockscope_link::{Error, Hosts, Line, Side, Topology};

/// Bytes that each client sends.
const BYTES: u64 = 500_000;

/// Receives so many connections until their end, and prints for each the peer's address and the bytes.
const SERVER: &str = "
import socket, sys
l = socket.create_server(('198.18.0.2', 7000))
for _ in range(int(sys.argv[1])):
    c, peer = l.accept()
    print(peer[0], sum(map(len, iter(lambda: c.recv(65536), b''))))
";

/// Sends, and prints the hosts on the way, then the bytes and packets that the device sent.
const CLIENT: &str = "
import socket, sys
s = socket.create_connection(('198.18.0.2', 7000))
s.sendall(bytes(int(sys.argv[1])))
s.shutdown(socket.SHUT_WR)
s.recv(1)
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
u.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, int(sys.argv[2]))
u.setsockopt(socket.IPPROTO_IP, 11, 1)  # IP_RECVERR
u.connect(('198.18.0.2', 7001))
try:
    u.send(b'x')
    u.settimeout(5)
    u.recv(1)
except ConnectionRefusedError:
    print('reached')
except OSError as error:
    print(error.strerror)
rows = [row.split() for row in open('/proc/thread-self/net/dev')]
print(*next((row[9], row[10]) for row in rows if row[0] == sys.argv[3] + ':'))
";

/// The hosts; `None` where this process may not make them, which counts the test as skipped.
fn hosts(test: &str, topology: Topology, line: Line) -> Option<Hosts> {
    match topology.build(line) {
        Ok((hosts, ends)) => {
            assert!(ends.is_none(), "only a link has ends");
            Some(hosts)
        }
        Err(error) => {
            let is_right =
                matches!(&error, Error::Refused { cause, .. } if cause.raw_os_error() == Some(1));
            assert!(is_right, "not for want of a right: {error}");
            let required = std::env::var("SOCKSCOPE_LIVE").is_ok_and(|wish| wish == "1");
            assert!(!required, "{error}");
            // Of a test that passes libtest shows what is written past its capture.
            let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {error}");
            None
        }
    }
}

fn python(script: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("python3");
    command.args(["-c", script]).args(arguments).stdout(Stdio::piped());
    command
}

fn output(child: Child) -> Vec<String> {
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// What each client and the server printed. Datagrams of the clients pass so many hosts.
fn meet(
    hosts: &Hosts,
    topology: Topology,
    device: &str,
    ttl: u8,
) -> (Vec<Vec<String>>, Vec<String>) {
    let clients = topology.clients();
    let server = hosts.start(Side::Server, python(SERVER, &[&clients.to_string()])).unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    while !hosts.is_served(Side::Server).unwrap() {
        assert!(Instant::now() < until, "the server did not start");
        thread::sleep(Duration::from_millis(5));
    }
    let (bytes, ttl) = (BYTES.to_string(), ttl.to_string());
    let start = |index| hosts.start_client(index, python(CLIENT, &[&bytes, &ttl, device])).unwrap();
    let started: Vec<_> = (0..clients).map(start).collect();
    let clients = started.into_iter().map(output).collect();
    let mut served = output(server);
    served.sort();
    (clients, served)
}

/// Bytes for each packet that a client's device sent.
fn packet_bytes(client: &[String]) -> u64 {
    let numbers: Vec<u64> = client[1].split(' ').map(|it| it.parse().unwrap()).collect();
    assert!(numbers[0] >= BYTES, "{client:?}");
    numbers[0] / numbers[1]
}

#[test]
fn root_loopback_has_one_host() {
    let test = "root_loopback_has_one_host";
    let Some(hosts) = hosts(test, Topology::Loopback, Line::default()) else { return };
    let (clients, served) = meet(&hosts, Topology::Loopback, "lo", 1);
    assert_eq!(clients[0][0], "reached");
    assert_eq!(served, [format!("198.18.0.2 {BYTES}")]);
}

#[test]
fn root_a_pair_sends_packets_at_its_rate() {
    let test = "root_a_pair_sends_packets_at_its_rate";
    let line = Line { rate: Some("20mbit".parse().unwrap()), ..Line::default() };
    let Some(hosts) = hosts(test, Topology::Pair, line) else { return };
    let start = Instant::now();
    let (clients, served) = meet(&hosts, Topology::Pair, "net0", 1);
    assert!(
        start.elapsed() >= Duration::from_millis(190),
        "500 kB at 20 Mbit/s, but for the burst"
    );
    assert_eq!(clients[0][0], "reached");
    assert_eq!(served, [format!("198.18.0.1 {BYTES}")]);
    assert!(packet_bytes(&clients[0]) <= 1_514, "{clients:?}");
}

#[test]
fn root_a_router_is_one_more_hop() {
    let test = "root_a_router_is_one_more_hop";
    let Some(hosts) = hosts(test, Topology::Router, Line::default()) else { return };
    let (clients, served) = meet(&hosts, Topology::Router, "net0", 1);
    assert_eq!(clients[0][0], "No route to host", "the router dropped it by its hop limit");
    assert_eq!(served, [format!("198.18.0.1 {BYTES}")]);
    assert!(packet_bytes(&clients[0]) <= 1_514, "{clients:?}");
    let (clients, _) = meet(&hosts, Topology::Router, "net0", 2);
    assert_eq!(clients[0][0], "reached");
}

#[test]
fn root_each_client_of_a_crowd_reaches_the_server() {
    let test = "root_each_client_of_a_crowd_reaches_the_server";
    let topology = Topology::Crowd(3);
    let Some(hosts) = hosts(test, topology, Line::default()) else { return };
    let (clients, served) = meet(&hosts, topology, "net0", 1);
    assert!(clients.iter().all(|said| said[0] == "reached"), "{clients:?}");
    let expected = ["198.18.0.1", "198.18.1.2", "198.18.1.3"].map(|it| format!("{it} {BYTES}"));
    assert_eq!(served, expected);
    let Err(Error::Thread) = hosts.start_client(3, Command::new("true")) else {
        panic!("a fourth")
    };
}
