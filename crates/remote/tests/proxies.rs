//! Applications on two sides of proxies over VMTP, on loopback, with and without faults between.
//!
//! Nothing here asserts a duration; timeouts only end a test that would otherwise hang.

mod faults;

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use faults::Relay;
use sockscope_channel::library::{Checked, Proxy};
use sockscope_channel::{Address, Duplex, Error, Receiver, Sender, Settings, Wait};
use sockscope_remote::{LinkCounts, VmtpLink};
use sockscope_vmtp::Config;

const SLEEP: Wait = Wait::SOCKET.within(Duration::from_secs(120));

fn settings() -> Settings {
    Settings { slots: 16, slot_bytes: 1 << 17, ..Settings::default() }
}

fn address(name: &str) -> Address {
    Address::new(&format!("remote-{}-{name}", std::process::id())).unwrap()
}

/// Small waits, and many of them: a dropped packet costs milliseconds.
fn config() -> Config {
    let ms = 1_000_000;
    Config {
        packet_bytes: 1_480,
        retries: 40,
        round_trip_ns: 10 * ms,
        service_ns: 20 * ms,
        ..Config::default()
    }
}

fn sockets() -> [UdpSocket; 2] {
    let sockets = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    sockets[0].connect(sockets[1].local_addr().unwrap()).unwrap();
    sockets[1].connect(sockets[0].local_addr().unwrap()).unwrap();
    sockets
}

/// Something that runs until it is stopped or fails.
struct Running<T> {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<T>>,
}

impl<T: Send + 'static> Running<T> {
    fn start(run: impl FnOnce(&AtomicBool) -> T + Send + 'static) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let thread = thread::spawn({
            let ends = Arc::clone(&ends);
            move || run(&ends)
        });
        Self { ends, thread: Some(thread) }
    }

    fn stop(mut self) -> T {
        self.ends.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }

    /// Waits for its end.
    fn wait(mut self) -> T {
        self.thread.take().unwrap().join().unwrap()
    }
}

/// A proxy at `at` for messages to and from the application at `to`.
fn proxy(at: &Address, to: &Address, socket: UdpSocket, config: Config) -> Running<bool> {
    let (at, to) = (at.clone(), to.clone());
    let from_local = Receiver::bind(&at, settings()).unwrap();
    Running::start(move |ends| {
        let to_local = Sender::to(to, settings()).unwrap();
        let link = VmtpLink::new(socket, config).unwrap();
        let mut proxy = Proxy::new(from_local, to_local, link, Checked);
        while !ends.load(Ordering::Relaxed) {
            if proxy.run(Duration::from_millis(50)).is_err() {
                return false;
            }
        }
        true
    })
}

/// Sends received messages back.
fn echo(own: &Address, peer: &Address) -> Running<()> {
    let mut channel = Duplex::new(own, peer.clone(), settings()).unwrap();
    Running::start(move |ends| {
        while !ends.load(Ordering::Relaxed) {
            let message =
                match channel.receiver.receive(Wait::SOCKET.within(Duration::from_millis(50))) {
                    Ok(message) => message.to_vec(),
                    Err(_) => continue,
                };
            channel.sender.send(&message, SLEEP).unwrap();
        }
    })
}

/// The actions of an application with its peer. Nothing shows it the place of the peer.
fn application(own: &Address, peer: &Address, sizes: &[usize]) -> Vec<Vec<u8>> {
    let mut channel = Duplex::new(own, peer.clone(), settings()).unwrap();
    let call = |&len: &usize| {
        let message: Vec<u8> = (0..len).map(|at| (at + len) as u8).collect();
        channel.sender.send(&message, SLEEP).unwrap();
        channel.receiver.receive(SLEEP).unwrap().to_vec()
    };
    sizes.iter().map(call).collect()
}

/// The echo behind two proxies: near stands at the echo's address, far at the application's.
struct Behind {
    near: Running<bool>,
    far: Running<bool>,
    echo: Running<()>,
}

impl Behind {
    fn new(name: &str, app: &Address, peer: &Address, [a, b]: [UdpSocket; 2]) -> Self {
        let [far_app, far_echo] =
            ["far-app", "far-echo"].map(|it| address(&format!("{name}-{it}")));
        Self {
            near: proxy(peer, app, a, config()),
            far: proxy(&far_app, &far_echo, b, config()),
            echo: echo(&far_echo, &far_app),
        }
    }
}

#[test]
fn an_application_cannot_tell_a_remote_peer_from_a_local_one() {
    let sizes = [0, 1, 64, 1_000, 9_000, 60_000, 131_000];
    let [app, peer] = ["same-app", "same-peer"].map(address);
    let local = echo(&peer, &app);
    let answers = application(&app, &peer, &sizes);
    local.stop();

    let behind = Behind::new("same", &app, &peer, sockets());
    assert_eq!(application(&app, &peer, &sizes), answers);
    behind.echo.stop();
    assert!(behind.near.stop() && behind.far.stop());
}

#[test]
fn loss_repetition_and_disorder_on_the_network_do_not_show() {
    let sizes: Vec<usize> = (0..150).map(|number| number * number * 7 % 20_011).collect();
    let [app, peer] = ["faults-app", "faults-peer"].map(address);
    let relay = Relay::new();
    let behind = Behind::new("faults", &app, &peer, relay.ends());
    let answers = application(&app, &peer, &sizes);
    assert!(answers.iter().map(Vec::len).eq(sizes.iter().copied()));
    let right = |answer: &Vec<u8>| {
        answer.iter().enumerate().all(|(at, &octet)| octet == (at + answer.len()) as u8)
    };
    assert!(answers.iter().all(right));
    behind.echo.stop();
    assert!(behind.near.stop() && behind.far.stop());
    let faults = relay.stop();
    assert!(faults.lost > 20 && faults.repeated > 20 && faults.mixed > 20, "{faults:?}");
}

#[test]
fn a_stream_under_loss_arrives_once_and_in_order_and_a_slow_reader_makes_the_sender_wait() {
    let [from, to, far_from, far_to] =
        ["stream-from", "stream-to", "stream-far-from", "stream-far-to"].map(address);
    let relay = Relay::new();
    let [a, b] = relay.ends();
    let (near, far) = (proxy(&to, &from, a, config()), proxy(&far_from, &far_to, b, config()));
    let mut receiver = Receiver::bind(&far_to, settings()).unwrap();
    let sending = thread::spawn(move || {
        let mut sender = Sender::to(to, settings()).unwrap();
        for number in 0..3_000_u32 {
            sender.send(&[number.to_le_bytes(); 100].concat(), SLEEP).unwrap();
        }
        // The proxy takes the messages in the slots before it notices that the sender has gone.
        sender
    });
    for number in 0..3_000_u32 {
        if number == 10 {
            // All slots and the batch fill up meanwhile.
            thread::sleep(Duration::from_millis(300));
        }
        let message = receiver.receive(SLEEP).unwrap().to_vec();
        assert_eq!(message, [number.to_le_bytes(); 100].concat(), "message {number}");
    }
    drop(sending.join().unwrap());
    assert!(near.stop() && far.stop());
    relay.stop();
}

#[test]
fn a_counterpart_that_dies_is_a_peer_that_is_gone_also_for_one_who_only_waits() {
    let [app, peer] = ["death-app", "death-peer"].map(address);
    let behind = Behind::new("death", &app, &peer, sockets());
    let mut channel = Duplex::new(&app, peer.clone(), settings()).unwrap();
    channel.sender.send(b"x", SLEEP).unwrap();
    assert_eq!(channel.receiver.receive(SLEEP).unwrap().to_vec(), b"x");
    assert!(behind.far.stop());
    assert!(matches!(channel.receiver.receive(SLEEP), Err(Error::PeerGone { .. })));
    assert!(!behind.near.wait(), "the near proxy ended by itself");
    behind.echo.stop();
}

#[test]
fn octets_that_are_no_vmtp_do_no_harm() {
    use sockscope_channel::library::RemoteLink;
    let [a, b] = sockets();
    let mut link = VmtpLink::new(a, config()).unwrap();
    for len in [0, 1, 63, 64, 100, 1_500, 60_000] {
        b.send(&vec![0xa5; len]).unwrap();
    }
    link.attend().unwrap();
    assert_eq!(link.receive(&mut [0; 100]).unwrap(), None);
    assert_eq!(link.counts(), LinkCounts::default());
}
