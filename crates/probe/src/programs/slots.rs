//! Slots of connections in the probes' table, on the running kernel: each is free once its connection is over.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use libbpf_rs::{MapCore, MapFlags};
use socket2::{Domain, SockRef, Socket, Type};

use super::Programs;
use crate::hooks::When;
use crate::layout::FLOW_SLOTS;
use crate::layout::skeleton::types::{bss_flows, flow_slot};
use crate::lists::Shape;
use crate::pick::Pick;
use crate::rights;

/// In the place of a connection's number: the slot is being taken or freed.
const BUSY: u32 = u32::MAX;
const BUCKETS: usize = FLOW_SLOTS as usize / 4;
/// In the word of a bucket: a CPU opens a connection there.
const HOME_LOCKED: u32 = 1 << 31;

/// The table: slots, and then the words of the buckets.
fn table(programs: &Programs) -> libbpf_rs::Map<'_> {
    let is_it = |map: &libbpf_rs::Map<'_>| map.name().to_string_lossy().ends_with(".flows");
    programs.object.maps().find(is_it).unwrap()
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn bytes_of(programs: &Programs) -> Vec<u8> {
    table(programs).lookup(&0u32.to_ne_bytes(), MapFlags::ANY).unwrap().unwrap()
}

/// Numbers of the connections that have a slot, in order.
fn connections(programs: &Programs) -> Vec<u32> {
    let bytes = bytes_of(programs);
    let from = std::mem::offset_of!(bss_flows, flows);
    let slots = bytes[from..].chunks_exact(size_of::<flow_slot>()).take(FLOW_SLOTS as usize);
    let number = |slot: &[u8]| word(slot, std::mem::offset_of!(flow_slot, connection));
    let mut numbers: Vec<u32> = slots.map(number).filter(|one| ![0, BUSY].contains(one)).collect();
    numbers.sort_unstable();
    numbers
}

/// Locks all buckets, or opens them, as a CPU does that opens a connection.
fn lock_all(programs: &Programs, lock: bool) {
    let mut bytes = bytes_of(programs);
    let from = std::mem::offset_of!(bss_flows, homes);
    for at in (from..from + BUCKETS * 4).step_by(4) {
        let count = word(&bytes, at) & !HOME_LOCKED;
        let locked = count | if lock { HOME_LOCKED } else { 0 };
        bytes[at..at + 4].copy_from_slice(&locked.to_ne_bytes());
    }
    table(programs).update(&0u32.to_ne_bytes(), &bytes, MapFlags::ANY).unwrap();
}

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

fn listener() -> (TcpListener, u16) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// A connection after a transfer of some bytes.
fn connected(listener: &TcpListener) -> (TcpStream, TcpStream) {
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    client.write_all(b"question").unwrap();
    server.read_exact(&mut [0; 8]).unwrap();
    (client, server)
}

/// Its close sends a reset.
fn reset_on_close(socket: &TcpStream) {
    SockRef::from(socket).set_linger(Some(Duration::ZERO)).unwrap();
}

/// A process that has the socket open in a table of its own, as a server that forked.
fn shared(socket: &TcpStream) -> std::process::Child {
    let own = OwnedFd::from(socket.try_clone().unwrap());
    Command::new("sleep").arg("60").stdin(Stdio::from(own)).spawn().unwrap()
}

#[test]
fn root_a_connection_that_closes_frees_its_slot() {
    let (listener, port) = listener();
    let Some(programs) = picking(port) else { return };
    let (client, server) = connected(&listener);
    assert_eq!(connections(&programs), [1]);
    drop((client, server));
    assert!(connections(&programs).is_empty());
}

#[test]
fn root_a_connection_that_is_reset_frees_its_slot() {
    let (listener, port) = listener();
    let Some(programs) = picking(port) else { return };
    for resets in [true, false] {
        let (client, server) = connected(&listener);
        assert_eq!(connections(&programs).len(), 1);
        reset_on_close(if resets { &client } else { &server });
        drop(client);
        drop(server);
        assert!(connections(&programs).is_empty());
    }
}

#[test]
fn root_a_joined_socket_counts_once_however_many_processes_have_it() {
    let (listener, port) = listener();
    let Some(mut programs) = picking(port) else { return };
    drop(programs);
    let (client, server) = connected(&listener);
    let mut others = [shared(&client), shared(&server), shared(&server)];
    programs = picking(port).unwrap();
    programs.join_existing().unwrap();
    assert_eq!(connections(&programs), [1]);
    for other in &mut others {
        other.kill().unwrap();
        other.wait().unwrap();
    }
    drop(client);
    assert_eq!(connections(&programs), [1]);
    drop(server);
    assert!(connections(&programs).is_empty());
}

/// Connects from a port that was used just before.
fn connect_from(local: SocketAddr, to: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_reuse_address(true).unwrap();
    socket.bind(&local.into()).unwrap();
    socket.connect(&to.into()).unwrap();
    socket.into()
}

#[test]
fn root_a_socket_of_an_earlier_connection_ends_no_later_one() {
    let (listener, port) = listener();
    let Some(programs) = picking(port) else { return };
    let (client, stale) = connected(&listener);
    let local = client.local_addr().unwrap();
    reset_on_close(&client);
    drop(client);
    let client = connect_from(local, listener.local_addr().unwrap());
    let (server, _) = listener.accept().unwrap();
    let later = connections(&programs);
    assert_eq!(later.len(), 1, "{later:?}");
    drop(stale);
    assert_eq!(connections(&programs), later);
    drop(server);
    assert_eq!(connections(&programs), later);
    drop(client);
    assert!(connections(&programs).is_empty());
}

#[test]
fn root_a_socket_that_connects_anew_leaves_its_former_connection() {
    let (listener, port) = listener();
    let Some(programs) = picking(port) else { return };
    let (client, former) = connected(&listener);
    rustix::net::connect_unspec(&client).unwrap();
    drop(former);
    SockRef::from(&client).connect(&listener.local_addr().unwrap().into()).unwrap();
    let (server, _) = listener.accept().unwrap();
    assert_eq!(connections(&programs), [2]);
    drop((client, server));
    assert!(connections(&programs).is_empty());
}

/// Sends the first datagram of a new socket from two threads at once, and returns the socket's port.
fn sent_at_once(socket: &UdpSocket, to: SocketAddr) -> u16 {
    let ready = AtomicUsize::new(0);
    let send = || {
        ready.fetch_add(1, Ordering::SeqCst);
        while ready.load(Ordering::SeqCst) < 2 {
            std::hint::spin_loop();
        }
        socket.send_to(&[7; 10], to).unwrap();
    };
    std::thread::scope(|scope| {
        scope.spawn(send);
        send();
    });
    socket.local_addr().unwrap().port()
}

#[test]
fn root_two_threads_that_open_a_flow_at_once_open_one() {
    const SOCKETS: usize = 4_000;
    let reader = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let to = reader.local_addr().unwrap();
    let Some(programs) = picking(to.port()) else { return };
    let one = |_| sent_at_once(&UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap(), to);
    let ports: BTreeSet<u16> = (0..SOCKETS).map(one).collect();
    let counters = programs.counters().unwrap();
    assert_eq!(connections(&programs).len(), ports.len(), "{counters:?}");
}

#[test]
fn root_what_finds_its_bucket_locked_goes_on_and_is_counted() {
    let reader = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let to = reader.local_addr().unwrap();
    let Some(programs) = picking(to.port()) else { return };
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    lock_all(&programs, true);
    socket.send_to(&[7; 10], to).unwrap();
    // Points 4 and 6.
    let counters = programs.counters().unwrap();
    assert_eq!((counters.openings_missed, counters.refused()), (2, 2));
    assert!(connections(&programs).is_empty());
    lock_all(&programs, false);
    socket.send_to(&[7; 10], to).unwrap();
    assert_eq!(programs.counters().unwrap().openings_missed, 2);
    assert_eq!(connections(&programs), [1]);
    let notes = counters.notes().join("; ");
    assert!(notes.contains("2 packets that may have opened a connection"), "{notes}");
}
