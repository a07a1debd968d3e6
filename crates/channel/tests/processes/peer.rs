//! The other process of the tests and of the benchmark: `channel-peer COMMAND ARGUMENT…`.
//!
//! It writes its results to standard output, one line for each. It ends with its standard input
//! where it would otherwise run for ever, so that no test leaves it behind.

#![allow(unsafe_code)]

mod hostile;

use std::collections::BTreeMap;
use std::io::Read;
use std::net::UdpSocket;
use std::time::Duration;

use rustix::thread::{CpuSet, sched_setaffinity};
use sockscope_channel::library::{Checked, DatagramLink, Proxy};
use sockscope_channel::{
    Address, Duplex, Error, Group, Receiver, Sender, Settings, Wait, WhenFull,
};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    // A parent that is gone has closed the other end of the pipe.
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    match words[..] {
        ["echo", from, to, wait, cpu] => echo(from, to, wait_of(wait), cpu),
        ["drain", from, count, slots, cpu] => drain(from, number(count), number(slots), cpu),
        ["send", to, id, count] => send(to, number(id), number(count)),
        ["subscribe", to, count] => subscribe(to, number(count)),
        ["publish", at] => publish(at),
        ["stall", from, read] => stall(from, number(read)),
        ["join", name, members, count] => join(name, number(members), number(count)),
        ["proxy", at, to, port, peer_port] => proxy(at, to, number(port), number(peer_port)),
        ["scribble-slots", to, seed] => hostile::scribble_slots(to, number(seed)),
        ["scribble-control", at, seed] => hostile::scribble_control(at, number(seed)),
        ["shrink", to] => hostile::shrink(to),
        ["hold-the-listener", at] => hostile::hold_the_listener(at),
        _ => panic!("no such command: {words:?}"),
    }
}

/// Sends received messages back, until the sender is gone.
fn echo(from: &str, to: &str, wait: Wait, cpu: &str) {
    pin(cpu);
    let settings = || Settings { slots: 64, slot_bytes: 1 << 16, ..Settings::default() };
    let mut receiver = Receiver::bind(&address(from), settings()).expect("a free address");
    let mut sender = Sender::to(address(to), settings()).expect("memory");
    println!("ready");
    let mut bytes = vec![0; 1 << 16];
    while let Ok(len) = receiver.receive_into(&mut bytes, wait) {
        sender.send(&bytes[..len], wait).expect("the caller listens");
    }
}

/// Receives `count` numbered messages of 64 bytes, and prints the time of all of them and the
/// median time of 10,000.
fn drain(from: &str, count: u64, slots: u64, cpu: &str) {
    pin(cpu);
    let settings = Settings { slots: slots as u32, slot_bytes: 64, ..Settings::default() };
    let mut receiver = Receiver::bind(&address(from), settings).expect("a free address");
    println!("ready");
    let mut message = [0; 64];
    let mut times = Vec::new();
    for expected in 0..count {
        receiver.receive_into(&mut message, Wait::SPIN).expect("the sender sends all");
        assert_eq!(message[..8], expected.to_le_bytes());
        if expected % 10_000 == 0 {
            times.push(std::time::Instant::now());
        }
    }
    let whole = times[0].elapsed();
    let mut pieces: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    pieces.sort();
    println!("{} {}", whole.as_nanos(), pieces[pieces.len() / 2].as_nanos());
}

/// Sends `count` messages "ID NUMBER" of changing lengths, then waits until they are read.
fn send(to: &str, id: u64, count: u64) {
    let settings = Settings { slots: 8, slot_bytes: 128, ..Settings::default() };
    let mut sender = Sender::to(address(to), settings).expect("memory");
    for number in 0..count {
        let text = format!("{id} {number} {}", "x".repeat(number as usize % 90));
        sender.send(text.as_bytes(), Wait::FUTEX).expect("a receiver");
    }
    println!("sent {count}");
}

/// Subscribes, reports this, receives `count` messages and prints the course of the numbers.
fn subscribe(to: &str, count: u64) {
    let mut receiver =
        Receiver::subscribe(&address(to), Settings::default()).expect("somebody sends");
    println!("ready");
    let mut first = None;
    for expected in 0..count {
        let message = receiver.receive(Wait::SOCKET).expect("a message");
        let start = *first.get_or_insert(message.number());
        assert_eq!(message.number(), start + expected);
        assert_eq!(message.to_vec(), message.number().to_le_bytes());
    }
    println!("received {count}");
}

/// Publishes numbers, as fast as it can and over unread messages, until it is killed.
fn publish(at: &str) {
    let settings = Settings { slots: 16, when_full: WhenFull::Overwrite, ..Settings::default() };
    let mut sender = Sender::bind(&address(at), settings).expect("a free address");
    println!("ready");
    loop {
        let number = sender.sent().to_le_bytes();
        let message: Vec<u8> = number.into_iter().cycle().take(8 * 64).collect();
        sender.send(&message, Wait::NOT).expect("overwriting never waits");
    }
}

/// Receives `read` messages, says so, and then does nothing any more.
fn stall(from: &str, read: u64) {
    let mut receiver = Receiver::bind(&address(from), Settings::default()).expect("a free address");
    println!("ready");
    for _ in 0..read {
        match receiver.receive(Wait::FUTEX) {
            Ok(_) => {}
            Err(Error::PeerGone { .. }) => return,
            Err(error) => panic!("{error}"),
        }
    }
    println!("stalled");
    loop {
        std::thread::park();
    }
}

/// Joins a group, waits until all `members` are there, sends `count` messages and receives all others'.
fn join(name: &str, members: u64, count: u64) {
    let settings = Settings { slots: 16, slot_bytes: 64, ..Settings::default() };
    let mut group = Group::join(name, members as u32 + 2, &settings).expect("a place");
    while group.others().len() as u64 + 1 < members {
        std::thread::yield_now();
    }
    let mut next: BTreeMap<u32, u64> = BTreeMap::new();
    let (mut sent, mut received) = (0, 0);
    while sent < count || received < count * (members - 1) {
        let Duplex { sender, receiver } = group.duplex();
        if sent < count {
            match sender.send(&sent.to_le_bytes(), Wait::NOT) {
                Ok(_) => sent += 1,
                Err(Error::WouldBlock) => {}
                Err(error) => panic!("{error}"),
            }
        }
        match receiver.receive(Wait::NOT) {
            Ok(message) => {
                let expected = next.entry(message.from().member.expect("a member")).or_default();
                assert_eq!(message.to_vec(), expected.to_le_bytes());
                *expected += 1;
                received += 1;
            }
            Err(Error::WouldBlock | Error::PeerGone { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    println!("member {} heard {:?}", group.number(), next.values().collect::<Vec<_>>());
    // Others may still read its last messages.
    std::thread::park();
}

/// Receives at `at` for a peer behind UDP, and delivers at `to` the messages of that peer.
fn proxy(at: &str, to: &str, port: u64, peer_port: u64) {
    let socket = UdpSocket::bind(("127.0.0.1", port as u16)).expect("a free port");
    socket.connect(("127.0.0.1", peer_port as u16)).expect("a peer");
    let settings = || Settings { slots: 64, slot_bytes: 1 << 16, ..Settings::default() };
    let from_local = Receiver::bind(&address(at), settings()).expect("a free address");
    let to_local = Sender::to(address(to), settings()).expect("memory");
    let link = DatagramLink::new(socket).expect("a connected socket");
    let mut proxy = Proxy::new(from_local, to_local, link, Checked);
    println!("ready");
    loop {
        proxy.run(Duration::from_secs(1)).expect("a link");
    }
}

fn address(name: &str) -> Address {
    Address::new(name).expect("a short name")
}

fn number(word: &str) -> u64 {
    word.parse().expect("a number")
}

fn wait_of(word: &str) -> Wait {
    match word {
        "spin" => Wait::SPIN,
        "futex" => Wait::FUTEX,
        "socket" => Wait::SOCKET,
        _ => panic!("spin, futex or socket, not {word}"),
    }
}

/// Keeps this thread on one CPU; `-` for any.
fn pin(cpu: &str) {
    if let Ok(cpu) = cpu.parse() {
        let mut set = CpuSet::new();
        set.set(cpu);
        sched_setaffinity(None, &set).expect("a CPU that we may use");
    }
}
