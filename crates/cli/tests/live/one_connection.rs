//! What is one connection, and what are two: by the addresses of its ends and their network namespaces.

use std::collections::BTreeSet;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};

use sockscope_record::Protocol;
use sockscope_trace::Bundle;

use crate::background::Background;
use crate::bundle::{Recorder, Recording, command, run_once, whole, words};
use crate::hosts::Hosts;
use crate::report::bytes;
use crate::turn;

/// Sends the first datagram of a new socket from two threads at once; the socket's address.
fn sent_at_once(to: SocketAddr) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback is there");
    let ready = AtomicUsize::new(0);
    let send = || {
        ready.fetch_add(1, Ordering::SeqCst);
        while ready.load(Ordering::SeqCst) < 2 {
            std::hint::spin_loop();
        }
        socket.send_to(&[7; 10], to).expect("it can be sent");
    };
    std::thread::scope(|scope| {
        scope.spawn(send);
        send();
    });
    socket.local_addr().expect("it is bound")
}

#[test]
fn root_a_flow_that_two_threads_open_at_once_is_one() {
    let Some(_turn) = turn::take() else { return };
    const SOCKETS: usize = 4_000;
    let reader = UdpSocket::bind("127.0.0.1:0").expect("loopback is there");
    let to = reader.local_addr().expect("it is bound");
    let recorder = Recorder::start(&["--port", &to.port().to_string()], None);
    let sent: BTreeSet<SocketAddr> = (0..SOCKETS).map(|_| sent_at_once(to)).collect();
    let (folder, said) = recorder.end();
    let bundle = Bundle::open(folder.path().join("live.sockscope")).expect("it was finished");
    // The port of the reader may be that of a TCP connection, which is picked too.
    let pairs = bundle.connections().iter().filter(|known| known.protocol == Protocol::Udp);
    let clients: Vec<SocketAddr> = pairs.map(|known| known.client).collect();
    let recorded: BTreeSet<SocketAddr> = clients.iter().copied().collect();
    assert_eq!(clients.len(), recorded.len(), "{said}");
    assert_eq!(recorded, sent, "{said}");
}

/// Connects from the loopback address to another one of the host, and sends a datagram so.
const FROM_LOOPBACK: &str = "
import socket
for family, local, other in [(socket.AF_INET, '127.0.0.1', '10.83.0.1'), (socket.AF_INET6, '::1', 'fd83::1')]:
    listener = socket.create_server((other, 7000), family=family)
    client = socket.socket(family)
    client.bind((local, 0))
    client.connect((other, 7000))
    server, _ = listener.accept()
    client.sendall(bytes(500))
    server.recv(500, socket.MSG_WAITALL)
    server.sendall(bytes(300))
    client.recv(300, socket.MSG_WAITALL)
    client.close(); server.close(); listener.close()
    reader, writer = (socket.socket(family, socket.SOCK_DGRAM) for _ in range(2))
    reader.bind((other, 7000))
    writer.bind((local, 0))
    writer.sendto(bytes(500), (other, 7000))
    reader.sendto(bytes(300), reader.recvfrom(500)[1])
    writer.recv(300)
";

#[test]
fn root_a_connection_from_loopback_to_another_address_is_one() {
    let Some(_turn) = turn::take() else { return };
    let hosts = Hosts::up(&[]);
    let program = words(&["python3", "-c", FROM_LOOPBACK]);
    let recording = whole(|| run_once(&[], &hosts.on_a(&program)));
    let connections = recording.report.connections();
    assert_eq!(connections.len(), 4, "{}", recording.report.summary());
    for connection in connections {
        assert_eq!((bytes(connection, "client"), bytes(connection, "server")), (500, 300));
        assert_eq!(connection["both_ends_here"], true, "{connection}");
    }
}

/// Between two pairs of namespaces, named by its arguments, the same addresses and ports: so many octets from
/// the clients of each pair. The second argument is a file: once it is there, all that is written passes. With
/// a `!` the program makes it itself.
const SAME_ADDRESSES: &str = "
import ctypes, os, socket, sys, time
kind, go, *names = sys.argv[1:]
def enter(name):
    with open('/run/netns/' + name) as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), 0x40000000):
            raise OSError(ctypes.get_errno(), name)
v6 = '6' in kind
family = socket.AF_INET6 if v6 else socket.AF_INET
a, b = (('fd83::1', 50001), ('fd83::2', 700)) if v6 else (('10.83.0.1', 50001), ('10.83.0.2', 700))
def bound(name, address):
    enter(name)
    one = socket.socket(family, socket.SOCK_DGRAM if 'udp' in kind else socket.SOCK_STREAM)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.bind(address)
    return one
clients = [bound(name, a) for name in names[::2]]
servers = [bound(name, b) for name in names[1::2]]
def wait():
    if kind.endswith('!'):
        open(go, 'w')
    while not os.path.exists(go):
        time.sleep(0.01)
if 'udp' in kind:
    print('ready', file=sys.stderr, flush=True)
    wait()
    for one in clients: one.connect(b)
    for i in range(30):
        for n, (client, server) in enumerate(zip(clients, servers)):
            for _ in range(n * 2 + 1): client.send(bytes(1000))
        for n, server in enumerate(servers):
            for _ in range(n * 2 + 1): peer = server.recvfrom(1000)[1]
            server.sendto(bytes(500), peer)
        for client in clients: client.recv(500)
else:
    listeners = servers
    for one in listeners: one.listen()
    for client in clients: client.connect(b)
    servers = [one.accept()[0] for one in listeners]
    print('ready', file=sys.stderr, flush=True)
    wait()
    for i in range(100):
        for n, client in enumerate(clients): client.sendall(bytes(1000 * (n * 2 + 1)))
        for n, server in enumerate(servers):
            server.recv(1000 * (n * 2 + 1), socket.MSG_WAITALL)
            server.sendall(bytes(500))
        for client in clients: client.recv(500, socket.MSG_WAITALL)
    for one in clients + servers: one.close()
print('done')
";

/// Octets of client and server of each connection, in order; both ends of each are here.
fn amounts(recording: &Recording) -> Vec<(u64, u64)> {
    let connections = recording.report.connections().iter();
    let mut amounts: Vec<(u64, u64)> = connections
        .map(|one| {
            assert_eq!(one["both_ends_here"], true, "{one}");
            (bytes(one, "client"), bytes(one, "server"))
        })
        .collect();
    amounts.sort_unstable();
    amounts
}

/// Traffic of two pairs of hosts with the same addresses, recorded by port from before it began, or from when
/// its connections were open: a port below 1,024 tells who opened one that is joined.
fn of_two_pairs(kind: &str, is_open: bool) -> Recording {
    let hosts = Hosts::up(&[]);
    let others = hosts.up_beside();
    let names = [hosts.namespaces(), others.namespaces()].concat();
    whole(|| {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let go = folder.path().join("go").display().to_string();
        let program = words(&["python3", "-c", SAME_ADDRESSES, kind, &go]);
        let start = || {
            let mut program = command(&[program.as_slice(), &names].concat());
            Background::start_until(&mut program, "-KILL", "ready")
        };
        let early = is_open.then(start);
        let recorder = Recorder::start(&["--port", "700"], None);
        let traffic = early.unwrap_or_else(start);
        std::fs::write(&go, "").expect("it can be written");
        assert_eq!(traffic.ended(), "done\n");
        recorder.stop()
    })
}

#[test]
fn root_the_same_addresses_in_two_pairs_of_namespaces_are_two_connections() {
    let Some(_turn) = turn::take() else { return };
    for (kind, is_open) in [("tcp4", false), ("tcp6", false), ("tcp4", true), ("tcp6", true)] {
        let recording = of_two_pairs(kind, is_open);
        let expected = [(100_000, 50_000), (300_000, 50_000)];
        let summary = recording.report.summary();
        assert_eq!(amounts(&recording), expected, "{kind}, open {is_open}: {summary}");
        assert!(!recording.report.found().contains("retransmission"), "{summary}");
    }
}

#[test]
fn root_datagrams_between_the_same_addresses_in_two_pairs_of_namespaces_are_of_two_flows() {
    let Some(_turn) = turn::take() else { return };
    for kind in ["udp4", "udp6"] {
        let recording = of_two_pairs(kind, false);
        let summary = recording.report.summary();
        assert_eq!(amounts(&recording), [(30_000, 15_000), (90_000, 15_000)], "{kind}: {summary}");
    }
}

#[test]
fn root_what_is_not_picked_is_not_recorded_though_it_has_the_same_addresses() {
    let Some(_turn) = turn::take() else { return };
    let hosts = Hosts::up(&[]);
    let others = hosts.up_beside();
    for kind in ["tcp4", "udp4"] {
        let recording = whole(|| {
            let folder = tempfile::tempdir().expect("a folder for temporary files");
            let go = folder.path().join("go").display().to_string();
            let of = |hosts: &Hosts, kind: &str| {
                let program = words(&["python3", "-c", SAME_ADDRESSES, kind, &go]);
                [program.as_slice(), &hosts.namespaces()].concat()
            };
            let mut beside = command(&of(&others, kind));
            let beside = Background::start_until(&mut beside, "-KILL", "ready");
            let recording = run_once(&[], &of(&hosts, &format!("{kind}!")));
            assert_eq!(beside.ended(), "done\n");
            recording
        });
        let one = if kind == "tcp4" { (100_000, 50_000) } else { (30_000, 15_000) };
        assert_eq!(amounts(&recording), [one], "{kind}: {}", recording.report.summary());
    }
}
