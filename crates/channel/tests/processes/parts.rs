//! The network library: parts on channels, and proxies that look like peers.

use std::io;
use std::net::UdpSocket;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use sockscope_channel::library::{
    Arrival, Checked, DatagramLink, Endpoint, InOrder, Ordering, PacketFormat, Proxy, RemoteLink,
    Unordered, Unwatched, Verdict, Versions,
};
use sockscope_channel::{Address, Duplex, Error, Group, Receiver, Sender, Settings, Wait};

use super::{Peer, SLEEP, SLEEP_AT_SOCKET, address};

fn settings() -> Settings {
    Settings { slots: 64, slot_bytes: 1 << 16, ..Settings::default() }
}

/// The actions of an application with its peer. Nothing shows it the place of the peer.
fn application(own: &Address, peer: &Address) -> Vec<Vec<u8>> {
    let mut channel = Duplex::new(own, peer.clone(), settings()).unwrap();
    let call = |len: usize| {
        let message: Vec<u8> = (0..len).map(|at| (at + len) as u8).collect();
        channel.sender.send(&message, SLEEP).unwrap();
        channel.receiver.receive(SLEEP_AT_SOCKET).unwrap().to_vec()
    };
    [0, 1, 64, 1_000, 9_000, 60_000].into_iter().map(call).collect()
}

#[test]
fn an_application_cannot_tell_a_proxy_from_a_local_peer() {
    let (app, echo) = (address("app"), address("echo"));
    let local = Peer::ready(&["echo", echo.name(), app.name(), "futex", "-"]);
    let answers = application(&app, &echo);
    drop(local);

    // The same again; but the echo listens on the other side of two proxies.
    let (far_app, far_echo) = (address("far-app"), address("far-echo"));
    let _far = Peer::ready(&["echo", far_echo.name(), far_app.name(), "futex", "-"]);
    let ports = [(); 2].map(|()| free_port());
    let [near_port, far_port] = [0, 1].map(|at| ports[at].to_string());
    let proxy = |at: &Address, to: &Address, own: &str, peer: &str| {
        Peer::ready(&["proxy", at.name(), to.name(), own, peer])
    };
    let mut near = proxy(&echo, &app, &near_port, &far_port);
    let _far_proxy = proxy(&far_app, &far_echo, &far_port, &near_port);
    assert_eq!(application(&app, &echo), answers);

    // A proxy that dies looks like a peer that dies.
    let mut channel = Duplex::new(&app, echo, settings()).unwrap();
    channel.sender.send(b"x", SLEEP).unwrap();
    assert_eq!(channel.receiver.receive(SLEEP).unwrap().to_vec(), b"x");
    near.kill();
    assert!(matches!(channel.receiver.receive(SLEEP), Err(Error::PeerGone { .. })));
}

/// A port that was free just now.
fn free_port() -> u16 {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Another format: the length in front, nothing else, and an end mark.
struct Bare;

impl PacketFormat for Bare {
    fn header_bytes(&self) -> usize {
        4
    }

    fn trailer_bytes(&self) -> usize {
        1
    }

    fn seal(&mut self, packet: &mut [u8]) {
        let len = packet.len() as u32;
        packet[..4].copy_from_slice(&len.to_le_bytes());
        packet[len as usize - 1] = b'.';
    }

    fn open(&mut self, packet: &[u8]) -> Result<Range<usize>, &'static str> {
        (packet.last() == Some(&b'.')).then_some(4..packet.len() - 1).ok_or("a full stop")
    }
}

/// Another transport: it holds every third packet back, sends each of them twice after the next two,
/// and damages every fifth.
struct Unruly {
    link: DatagramLink,
    sent: usize,
    held: Option<Vec<u8>>,
}

impl RemoteLink for Unruly {
    fn packet_bytes_max(&self) -> usize {
        1_000
    }

    fn send(&mut self, packet: &[u8]) -> io::Result<bool> {
        self.sent += 1;
        let mut packet = packet.to_vec();
        if self.sent.is_multiple_of(5) {
            *packet.last_mut().unwrap() ^= 1;
        }
        if self.sent.is_multiple_of(3) {
            if let Some(held) = self.held.replace(packet) {
                self.link.send(&held)?;
                return self.link.send(&held);
            }
            return Ok(true);
        }
        self.link.send(&packet)
    }

    fn receive(&mut self, packet: &mut [u8]) -> io::Result<Option<usize>> {
        self.link.receive(packet)
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.link.descriptor()
    }
}

/// Two connected links over loopback.
fn links() -> [DatagramLink; 2] {
    let sockets = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    sockets[0].connect(sockets[1].local_addr().unwrap()).unwrap();
    sockets[1].connect(sockets[0].local_addr().unwrap()).unwrap();
    sockets.map(|socket| DatagramLink::new(socket).unwrap())
}

/// A proxy between the addresses, for the test to run.
fn proxy<L: RemoteLink, F: PacketFormat>(
    at: &Address,
    to: &Address,
    link: L,
    format: F,
) -> Proxy<L, F> {
    let from_local = Receiver::bind(at, settings()).unwrap();
    Proxy::new(from_local, Sender::to(to.clone(), settings()).unwrap(), link, format)
}

#[test]
fn order_is_restored_behind_a_link_that_mixes_repeats_and_damages() {
    let names = ["mixed-a", "mixed-b", "mixed-a-far", "mixed-b-far"].map(address);
    let [a, b, a_far, b_far] = &names;
    let [near_link, far_link] = links();
    let unruly = Unruly { link: near_link, sent: 0, held: None };
    let mut near = proxy(b_far, a, unruly, Checked);
    let mut far = proxy(a_far, b, far_link, Checked);

    let parts = |stream| (InOrder::new(stream, 8, 4), Unwatched);
    let end = |own: &Address, peer: &Address, stream| {
        let (order, watch) = parts(stream);
        let duplex = Duplex::new(own, peer.clone(), settings()).unwrap();
        Endpoint::new(duplex, order, watch).unwrap()
    };
    let (mut sender, mut receiver) = (end(a, b_far, 1), end(b, a_far, 2));
    let (mut message, mut arrived) = (Vec::new(), Vec::new());
    for number in 0..60_u32 {
        sender.send(0, &number.to_le_bytes(), Wait::NOT).unwrap();
        near.run(Duration::ZERO).unwrap();
        far.run(Duration::from_millis(10)).unwrap();
        while receiver.receive(&mut message, Wait::NOT).is_ok() {
            arrived.push(u32::from_le_bytes(message[..].try_into().unwrap()));
        }
    }
    let damaged = far.counts().discarded;
    assert!(arrived.is_sorted_by(|a, b| a < b), "{arrived:?}");
    assert!(arrived.len() >= 40 && damaged >= 10, "{arrived:?}, {damaged} damaged");
    assert!(receiver.ordering().repeated() > 10 && receiver.ordering().given_up() > 5);
    let kept = receiver.ordering().kept() as u64;
    let last = u64::from(*arrived.last().unwrap());
    // Up to the last one, every message arrived or was given up.
    assert_eq!(arrived.len() as u64 + receiver.ordering().given_up(), last + 1);
    assert!(kept <= 8);
}

#[test]
fn an_application_brings_its_own_format_and_messages_too_long_for_a_packet_are_counted() {
    let names = ["bare-a", "bare-b", "bare-b-far", "bare-a-far"].map(address);
    let [a, b, b_far, a_far] = &names;
    let [near_link, far_link] = links();
    let unruly = Unruly { link: near_link, sent: 0, held: None };
    let mut near = proxy(b_far, a, unruly, Bare);
    let mut far = proxy(a_far, b, far_link, Bare);
    let mut receiver = Receiver::bind(b, settings()).unwrap();
    let mut sender = Sender::to(b_far.clone(), settings()).unwrap();
    sender.send(&[1; 995], Wait::NOT).unwrap();
    sender.send(&[2; 996], Wait::NOT).unwrap();
    near.run(Duration::ZERO).unwrap();
    while far.counts().delivered == 0 {
        far.run(Duration::from_millis(10)).unwrap();
    }
    assert_eq!(receiver.receive(SLEEP).unwrap().to_vec(), [1; 995]);
    assert_eq!((near.counts().sent, near.counts().too_long), (1, 1));
}

#[test]
fn members_that_write_a_cell_at_once_learn_of_it() {
    let name = address("cells");
    let mut ends = [(); 3].map(|()| {
        let group = Group::join(name.name(), 3, &Settings::default()).unwrap();
        let versions = Versions::new(group.number() as usize, 3, 16);
        Endpoint::new(group.into_duplex(), Unordered, versions).unwrap()
    });
    // Members that joined later have not heard of the earlier ones' writes: none exist yet.
    let receive = |end: &mut Endpoint<Unordered, Versions>| {
        let mut message = Vec::new();
        let delivery = end.receive(&mut message, SLEEP).unwrap();
        (delivery.cell, String::from_utf8(message).unwrap(), delivery.verdict)
    };
    ends[0].send(7, b"first", SLEEP).unwrap();
    for end in &mut ends[1..] {
        assert_eq!(receive(end), (7, "first".into(), Verdict::Follows));
    }
    ends[1].send(7, b"one", SLEEP).unwrap();
    ends[2].send(7, b"two", SLEEP).unwrap();
    assert_eq!(receive(&mut ends[1]), (7, "two".into(), Verdict::CollidedAndStands));
    assert_eq!(receive(&mut ends[2]), (7, "one".into(), Verdict::CollidedAndFalls));
    let seen = [receive(&mut ends[0]), receive(&mut ends[0])];
    let is_collision =
        |verdict| matches!(verdict, Verdict::CollidedAndStands | Verdict::CollidedAndFalls);
    assert_eq!(seen.iter().filter(|seen| is_collision(seen.2)).count(), 1);
}

/// A part of the application's own: every message twice as old as the last is dropped.
struct Freshest {
    newest: u8,
}

impl Ordering for Freshest {
    fn header_bytes(&self) -> usize {
        8
    }

    fn stamp(&mut self, header: &mut [u8]) {
        self.newest += 1;
        header[0] = self.newest;
    }

    fn arrive(&mut self, header: &[u8], _: &mut dyn FnMut() -> Vec<u8>) -> Arrival {
        let is_newer = header[0] > self.newest;
        self.newest = self.newest.max(header[0]);
        if is_newer { Arrival::Now } else { Arrival::Never }
    }

    fn release(&mut self) -> Option<Vec<u8>> {
        None
    }
}

#[test]
fn an_application_brings_its_own_order() {
    let [a, b] = ["fresh-a", "fresh-b"].map(address);
    let end = |own: &Address, peer: &Address, newest| {
        let duplex = Duplex::new(own, peer.clone(), Settings::default()).unwrap();
        Endpoint::new(duplex, Freshest { newest }, Unwatched).unwrap()
    };
    let (mut sender, mut receiver) = (end(&a, &b, 0), end(&b, &a, 1));
    for text in ["stale", "fresh"] {
        sender.send(0, text.as_bytes(), SLEEP).unwrap();
    }
    let mut message = Vec::new();
    receiver.receive(&mut message, SLEEP).unwrap();
    assert_eq!(message, b"fresh");
    let long = vec![0; 2_032 - 7];
    assert!(matches!(sender.send(0, &long, SLEEP), Err(Error::TooLong { bytes: 2_033, .. })));
}
