//! Sampling of whole connections on the running kernel.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};
use sockscope_record::{Connection, Record};

use super::Programs;
use crate::hooks::When;
use crate::layout::FLOW_SLOTS;
use crate::lists::Shape;
use crate::pick::Pick;
use crate::recorder::{Options, Recorder, Sink};
use crate::rights;
use crate::sample::{Openings, Share, sample_hash};

const TCP: u8 = 6;
const UDP: u8 = 17;

/// Programs that record connections to this port; `None` without the rights.
fn picking(port: u16) -> Option<Programs> {
    if !rights::can_load() {
        return None;
    }
    let pick = Pick { ports: vec![port], ..Pick::default() };
    let mut programs = Programs::load(&pick, Shape::of(None)).unwrap();
    programs.attach(When::Always);
    Some(programs)
}

fn openings(programs: &Programs) -> (u64, u64) {
    let Openings { recorded, left_out, .. } = programs.counters().unwrap().openings();
    (recorded, left_out)
}

fn hits(programs: &Programs) -> u64 {
    let lists = programs.lists().unwrap();
    (0..lists.len()).map(|list| lists.span(list).1).sum()
}

#[test]
fn root_the_probes_have_the_hash_that_is_published() {
    let addresses = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    for address in addresses {
        let listener = TcpListener::bind(SocketAddr::new(address, 0)).unwrap();
        let to = listener.local_addr().unwrap();
        let Some(programs) = picking(to.port()) else { return };
        for n in 1..=8u64 {
            // The same connection cannot be tried twice: one is just left out, and the next just recorded.
            for (beyond, expected) in [(0, (n - 1, n)), (1, (n, n))] {
                let socket = Socket::new(Domain::for_address(to), Type::STREAM, None).unwrap();
                socket.bind(&SocketAddr::new(address, 0).into()).unwrap();
                let from = socket.local_addr().unwrap().as_socket().unwrap();
                let hash = u64::from(sample_hash(TCP, from, to));
                programs.set_share(Share::below(hash + beyond)).unwrap();
                socket.connect(&to.into()).unwrap();
                drop(listener.accept().unwrap());
                assert_eq!(openings(&programs), expected, "{from} {to} {hash:#x}");
            }
        }
        let of_datagrams = UdpSocket::bind(to).unwrap();
        let sender = UdpSocket::bind(SocketAddr::new(address, 0)).unwrap();
        let hash = u64::from(sample_hash(UDP, sender.local_addr().unwrap(), to));
        programs.set_share(Share::below(hash + 1)).unwrap();
        sender.send_to(b"one", of_datagrams.local_addr().unwrap()).unwrap();
        assert_eq!(openings(&programs), (9, 8));
    }
}

#[test]
fn root_a_connection_is_decided_once_whatever_the_share_is_later() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let to = listener.local_addr().unwrap();
    let Some(programs) = picking(to.port()) else { return };
    // Left out, and it stays so.
    programs.set_share(Share::below(0)).unwrap();
    let receiver = UdpSocket::bind(to).unwrap();
    let left_out = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    left_out.send_to(b"one", to).unwrap();
    let mut stream = TcpStream::connect(to).unwrap();
    let (mut peer, _) = listener.accept().unwrap();
    assert_eq!((openings(&programs), hits(&programs)), ((0, 2), 0));
    programs.set_share(Share::ALL).unwrap();
    for _ in 0..3 {
        left_out.send_to(b"more", to).unwrap();
        receiver.recv(&mut [0; 8]).unwrap();
    }
    stream.write_all(b"question").unwrap();
    peer.read_exact(&mut [0; 8]).unwrap();
    assert_eq!((openings(&programs), hits(&programs)), ((0, 2), 0));
}

/// With one place for each hash, 240 of these pairs counted twice.
#[test]
fn root_each_of_thousands_that_are_left_out_counts_once() {
    const PAIRS: u16 = 4000;
    let receiver = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    let port = receiver.local_addr().unwrap().port();
    let Some(programs) = picking(port) else { return };
    programs.set_share(Share::below(0)).unwrap();
    let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    for _ in 0..2 {
        for pair in 0..PAIRS {
            let [high, low] = pair.to_be_bytes();
            sender.send_to(b"one", (Ipv4Addr::new(127, 1, high, low), port)).unwrap();
        }
    }
    assert_eq!((openings(&programs), hits(&programs)), ((0, PAIRS.into()), 0));
}

#[test]
fn root_a_recorded_connection_is_left_out_when_the_share_has_it_no_more_and_stays_so() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let to = listener.local_addr().unwrap();
    let Some(programs) = picking(to.port()) else { return };
    let receiver = UdpSocket::bind(to).unwrap();
    let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    sender.send_to(b"one", to).unwrap();
    let mut stream = TcpStream::connect(to).unwrap();
    let (mut peer, from) = listener.accept().unwrap();
    let mut exchange = || {
        let before = hits(&programs);
        stream.write_all(b"question").unwrap();
        peer.read_exact(&mut [0; 8]).unwrap();
        sender.send_to(b"more", to).unwrap();
        receiver.recv(&mut [0; 8]).unwrap();
        hits(&programs) - before
    };
    let sweep = |share| {
        programs.set_share(share).unwrap();
        assert!(programs.expire(0, FLOW_SLOTS - 1, u64::MAX >> 1));
        programs.counters().unwrap().openings()
    };
    assert!(exchange() >= 8);
    let hash = |protocol, from| u64::from(sample_hash(protocol, from, to));
    let hashes = [hash(TCP, from), hash(UDP, sender.local_addr().unwrap())];
    // The share that just has both leaves none out.
    let both = Share::below(hashes[0].max(hashes[1]) + 1);
    assert_eq!(sweep(both), Openings { recorded: 2, ..Openings::default() });
    assert!(exchange() >= 8);
    let one = sweep(Share::below(hashes[0].max(hashes[1])));
    assert_eq!((one.recorded, one.left_out, one.left_out_later), (2, 0, 1));
    let none = sweep(Share::below(0));
    assert_eq!((none.recorded, none.left_out, none.left_out_later), (2, 0, 2));
    assert_eq!(exchange(), 0);
    assert_eq!(sweep(Share::ALL), none);
    assert_eq!(exchange(), 0);
    assert_eq!(programs.counters().unwrap().openings(), none);
    drop((stream, peer));
    // Its endpoints are free for another connection, and so is its slot.
    let _next = TcpStream::connect(to).unwrap();
    assert_eq!(programs.counters().unwrap().openings().recorded, 3);
}

/// Connects as often as its first argument says, one after the other, once it has a line.
const CLIENT: &str = "
import socket, sys
print(flush=True)
port = int(sys.stdin.readline())
for _ in range(int(sys.argv[1])):
    with socket.create_connection(('127.0.0.1', port)) as sock:
        sock.sendall(b'question')
        assert sock.recv(8) == b'question'
print('done', flush=True)
sys.stdin.readline()
";

#[derive(Default)]
struct Endpoints(BTreeSet<(SocketAddr, SocketAddr)>);

impl Sink for Endpoints {
    fn records(&mut self, _: &[Record]) -> Result<(), String> {
        Ok(())
    }

    fn connection(&mut self, connection: &Connection) -> Result<(), String> {
        self.0.insert((connection.client, connection.server));
        Ok(())
    }
}

/// One recorder picks the client's process and decides at its SYN. The other picks the server's process, and decides
/// at the SYN-ACK of its listener, as on another host.
#[test]
fn root_both_ends_keep_the_same_connections() {
    const CONNECTIONS: usize = 64;
    if !rights::can_load() {
        return;
    }
    let mut client = Command::new("python3")
        .args(["-c", CLIENT, &CONNECTIONS.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(client.stdout.take().unwrap()).lines();
    lines.next().unwrap().unwrap();
    let share = Share::of(0.25);
    let record = |pid| {
        let pick = Pick { pids: vec![pid], ..Pick::default() };
        Recorder::start(&pick, Options { share, ..Options::default() }).unwrap()
    };
    let (mut at_client, mut at_server) = (record(client.id()), record(std::process::id()));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let to = listener.local_addr().unwrap();
    let served = std::thread::spawn(move || {
        let serve = |_| {
            let (mut peer, from) = listener.accept().unwrap();
            let mut question = [0; 8];
            peer.read_exact(&mut question).unwrap();
            peer.write_all(&question).unwrap();
            from
        };
        (0..CONNECTIONS).map(serve).collect::<Vec<_>>()
    });
    let mut input = client.stdin.take().unwrap();
    writeln!(input, "{}", to.port()).unwrap();
    let (mut of_client, mut of_server) = (Endpoints::default(), Endpoints::default());
    let until = Instant::now() + Duration::from_secs(60);
    while !served.is_finished() && Instant::now() < until {
        at_client.step(&mut of_client).unwrap();
        at_server.step(&mut of_server).unwrap();
    }
    let clients = served.join().unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "done");
    let at_client = at_client.finish(&mut of_client, Duration::from_secs(5)).unwrap();
    let at_server = at_server.finish(&mut of_server, Duration::from_secs(5)).unwrap();
    drop(input);
    client.wait().unwrap();
    let pairs = clients.into_iter().map(|from| (from, to));
    let expected: BTreeSet<_> =
        pairs.filter(|(from, to)| share.has(sample_hash(TCP, *from, *to))).collect();
    assert_eq!((&of_client.0, &of_server.0), (&expected, &expected));
    let left_out = (CONNECTIONS - expected.len()) as u64;
    for openings in [at_client.openings, at_server.openings] {
        let recorded = expected.len() as u64;
        assert_eq!(openings, Openings { recorded, left_out, left_out_later: 0 });
    }
}
