//! Latency and rate of messages between two processes on two CPUs.
//!
//! `cargo bench -p sockscope-channel [-- --quick]`. Latencies are halves of round trips of 48 bytes
//! (one cache line with the slot's header) and 64 bytes; rates are of messages of 64 bytes, sent one by one. Rounds of
//! all kinds take turns; each line is the median of the rounds and their range. The two lines
//! `48 B, spin` differ in nothing and show the noise. `one word` is what the machine itself takes: two
//! threads that answer each other through one word each, without any message.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use rustix::thread::{CpuSet, sched_setaffinity};
use sockscope_channel::{Address, Receiver, Sender, Settings, Wait};

fn main() {
    let quick = std::env::args().any(|word| word == "--quick");
    let rounds = if quick { 3 } else { 15 };
    pin(0);
    println!("one way between two CPUs, half of a round trip, {rounds} rounds");
    latencies(rounds, if quick { 10_000 } else { 200_000 });
    println!("64-byte messages, one sender, one receiver, {rounds} rounds");
    rates(rounds, if quick { 1_000_000 } else { 10_000_000 });
}

/// One kind of measurement: its name, and what one round gives.
type Kind<'a> = (&'a str, Box<dyn FnMut() -> f64 + 'a>);

fn latencies(rounds: usize, trips: u32) {
    let mut spin = Echo::start("spin", Wait::SPIN);
    let spin = std::cell::RefCell::new(&mut spin);
    let mut futex = Echo::start("futex", Wait::FUTEX);
    let mut socket = Echo::start("socket", Wait::SOCKET);
    let mut stream = StreamEcho::start();
    let few = trips / 20;
    let mut kinds: Vec<Kind<'_>> = vec![
        ("one word (the machine)", Box::new(move || one_word(trips))),
        ("48 B, spin", Box::new(|| spin.borrow_mut().one_way_ns(48, trips))),
        ("48 B, spin (control)", Box::new(|| spin.borrow_mut().one_way_ns(48, trips))),
        ("64 B, spin", Box::new(|| spin.borrow_mut().one_way_ns(64, trips))),
        ("4,096 B, spin", Box::new(|| spin.borrow_mut().one_way_ns(4_096, trips))),
        ("64 B, sleeping on the word", Box::new(|| futex.one_way_ns(64, few))),
        ("64 B, sleeping on the socket", Box::new(|| socket.one_way_ns(64, few))),
        ("64 B, Unix stream socket", Box::new(|| stream.one_way_ns(64, few))),
    ];
    report(&mut kinds, rounds, "ns");
}

fn rates(rounds: usize, count: u64) {
    let mut wide = Drain::start("wide", 1_024);
    let mut narrow = Drain::start("narrow", 64);
    let mut kinds: Vec<Kind<'_>> = vec![
        ("1,024 slots", Box::new(|| wide.rate(count))),
        ("64 slots", Box::new(|| narrow.rate(count))),
    ];
    report(&mut kinds, rounds, "million/s");
}

/// Runs all kinds by turns and prints medians and ranges.
fn report(kinds: &mut [Kind<'_>], rounds: usize, unit: &str) {
    let mut results = vec![Vec::new(); kinds.len()];
    for _ in 0..rounds {
        for (kind, results) in kinds.iter_mut().zip(&mut results) {
            results.push((kind.1)());
        }
    }
    for ((name, _), results) in kinds.iter().zip(&mut results) {
        results.sort_by(f64::total_cmp);
        let (median, last) = (results[rounds / 2], results[rounds - 1]);
        println!("  {name:32} {median:9.1} {unit} ({:.1} to {last:.1})", results[0]);
    }
}

/// A process that sends back what it receives.
struct Echo {
    _peer: Peer,
    sender: Sender,
    receiver: Receiver,
    wait: Wait,
}

impl Echo {
    fn start(name: &str, wait: Wait) -> Self {
        let (there, back) = (unique(name), unique(&format!("{name}-back")));
        let settings = || Settings { slots: 64, slot_bytes: 1 << 16, ..Settings::default() };
        let receiver = Receiver::bind(&address(&back), settings()).expect("a free address");
        let peer = Peer::start(&["echo", &there, &back, name, "1"]);
        let sender = Sender::to(address(&there), settings()).expect("memory");
        Self { _peer: peer, sender, receiver, wait }
    }

    fn one_way_ns(&mut self, bytes: usize, trips: u32) -> f64 {
        let mut message = vec![7; bytes];
        self.trips(&mut message, trips / 10);
        let start = Instant::now();
        self.trips(&mut message, trips);
        start.elapsed().as_nanos() as f64 / f64::from(trips) / 2.0
    }

    fn trips(&mut self, message: &mut [u8], trips: u32) {
        for _ in 0..trips {
            self.sender.send(message, self.wait).expect("an echo");
            self.receiver.receive_into(message, self.wait).expect("an echo");
        }
    }
}

/// A process that counts what it receives.
struct Drain {
    peer: Peer,
    sender: Sender,
}

impl Drain {
    fn start(name: &str, slots: u32) -> Self {
        let there = unique(name);
        let peer = Peer::start(&["drain", &there, "10000000", &slots.to_string(), "1"]);
        let settings = Settings { slots, slot_bytes: 64, ..Settings::default() };
        Self { peer, sender: Sender::to(address(&there), settings).expect("memory") }
    }

    /// Million messages a second.
    fn rate(&mut self, count: u64) -> f64 {
        let mut message = [0; 64];
        for number in 0..10_000_000_u64.max(count) {
            message[..8].copy_from_slice(&number.to_le_bytes());
            self.sender.send(&message, Wait::SPIN).expect("a receiver");
        }
        let ns: f64 = self.peer.line().parse().expect("a time");
        1e10 / ns
    }
}

/// A thread that sends back what it reads from a Unix stream socket.
struct StreamEcho {
    stream: UnixStream,
}

impl StreamEcho {
    fn start() -> Self {
        let (stream, mut other) = UnixStream::pair().expect("sockets");
        std::thread::spawn(move || {
            pin(1);
            let mut bytes = [0; 64];
            while other.read_exact(&mut bytes).is_ok() && other.write_all(&bytes).is_ok() {}
        });
        Self { stream }
    }

    fn one_way_ns(&mut self, bytes: usize, trips: u32) -> f64 {
        let mut message = vec![7; bytes];
        let start = Instant::now();
        for _ in 0..trips {
            self.stream.write_all(&message).expect("an echo");
            self.stream.read_exact(&mut message).expect("an echo");
        }
        start.elapsed().as_nanos() as f64 / f64::from(trips) / 2.0
    }
}

/// One way of a count that two threads hand to each other.
fn one_word(trips: u32) -> f64 {
    #[repr(align(128))]
    struct Line(AtomicU64);
    let lines = Arc::new([const { Line(AtomicU64::new(0)) }; 2]);
    let theirs = Arc::clone(&lines);
    let trips = u64::from(trips);
    let thread = std::thread::spawn(move || {
        pin(1);
        for trip in 1..=trips {
            while theirs[0].0.load(Ordering::Acquire) != trip {
                std::hint::spin_loop();
            }
            theirs[1].0.store(trip, Ordering::Release);
        }
    });
    let mut start = Instant::now();
    for trip in 1..=trips {
        lines[0].0.store(trip, Ordering::Release);
        while lines[1].0.load(Ordering::Acquire) != trip {
            std::hint::spin_loop();
        }
        if trip == 1 {
            start = Instant::now();
        }
    }
    let ns = start.elapsed().as_nanos() as f64;
    thread.join().expect("no panic");
    ns / (trips - 1) as f64 / 2.0
}

/// A process of this benchmark, which ends with it.
struct Peer {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Peer {
    fn start(words: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_channel-peer"))
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the peer's program");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut peer = Self { child, output };
        assert_eq!(peer.line(), "ready");
        peer
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("a line");
        line.trim_end().to_owned()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn address(name: &str) -> Address {
    Address::new(name).expect("a short name")
}

fn unique(name: &str) -> String {
    format!("bench-{}-{name}", std::process::id())
}

fn pin(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).expect("two CPUs");
}
