//! Latency and rate of messages between two processes on two CPUs.
//!
//! `cargo bench -p sockscope-channel [-- --quick]`. Latencies are halves of round trips; 48 bytes and the slot's header
//! fill one cache line. Rates are of messages of 64 bytes, sent and received one by one. Both are medians over short
//! pieces of a round, in which other programs seldom take a CPU away, but for the whole run where the line says so.
//! Kinds take turns, each round with a fresh process; a line is the median of the rounds and their range. The two lines
//! `48 B, spin` are the same measurement and show the noise. `one word` is the machine's own time: two threads that
//! answer each other through one word each. On one CPU both sides must sleep for the other to run.

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

/// Round trips that are timed together.
const CHUNK: u32 = 100;

/// One kind of measurement: its name, and the result of one round.
type Kind = (&'static str, Box<dyn FnMut() -> f64>);

fn latencies(rounds: usize, trips: u32) {
    let spin = |bytes| move || Echo::start("spin", Wait::SPIN, 1).one_way_ns(bytes, trips);
    let few = trips / 20;
    let shared = |name, wait| move || Echo::start(name, wait, 0).one_way_ns(64, few);
    let mut kinds: Vec<Kind> = vec![
        ("one word (the machine)", Box::new(move || one_word(trips))),
        ("48 B, spin", Box::new(spin(48))),
        ("48 B, spin (control)", Box::new(spin(48))),
        ("64 B, spin", Box::new(spin(64))),
        ("4,096 B, spin", Box::new(spin(4_096))),
        ("64 B, one CPU, signal word", Box::new(shared("futex", Wait::FUTEX))),
        ("64 B, one CPU, socket", Box::new(shared("socket", Wait::SOCKET))),
        ("64 B, one CPU, Unix stream", Box::new(move || StreamEcho::start(0).one_way_ns(64, few))),
    ];
    report(&mut kinds, rounds, "ns");
}

fn rates(rounds: usize, count: u64) {
    let rate = |slots, whole| move || Drain::start(slots, count).rate(count, whole);
    let mut kinds: Vec<Kind> = vec![
        ("1,024 slots", Box::new(rate(1_024, false))),
        ("1,024 slots (control)", Box::new(rate(1_024, false))),
        ("64 slots", Box::new(rate(64, false))),
        ("1,024 slots, whole run", Box::new(rate(1_024, true))),
    ];
    report(&mut kinds, rounds, "million/s");
}

/// Runs all kinds alternately and prints medians and ranges.
fn report(kinds: &mut [Kind], rounds: usize, unit: &str) {
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

/// A process that sends its received messages back.
struct Echo {
    _peer: Peer,
    sender: Sender,
    receiver: Receiver,
    wait: Wait,
}

impl Echo {
    /// The process on CPU `cpu`; waiting as `name` says.
    fn start(name: &str, wait: Wait, cpu: usize) -> Self {
        let (there, back) = (unique(name), unique(&format!("{name}-back")));
        let settings = || Settings { slots: 64, slot_bytes: 1 << 16, ..Settings::default() };
        let receiver = Receiver::bind(&address(&back), settings()).expect("a free address");
        let peer = Peer::start(&["echo", &there, &back, name, &cpu.to_string()]);
        let sender = Sender::to(address(&there), settings()).expect("memory");
        Self { _peer: peer, sender, receiver, wait }
    }

    fn one_way_ns(&mut self, bytes: usize, trips: u32) -> f64 {
        let mut message = vec![7; bytes];
        self.trips(&mut message, trips / 10);
        median_ns(trips, || self.trips(&mut message, CHUNK))
    }

    fn trips(&mut self, message: &mut [u8], trips: u32) {
        for _ in 0..trips {
            self.sender.send(message, self.wait).expect("an echo");
            self.receiver.receive_into(message, self.wait).expect("an echo");
        }
    }
}

/// A process that counts its received messages.
struct Drain {
    peer: Peer,
    sender: Sender,
}

impl Drain {
    fn start(slots: u32, count: u64) -> Self {
        let there = unique("drain");
        let (count, width) = (count.to_string(), slots.to_string());
        let peer = Peer::start(&["drain", &there, &count, &width, "1"]);
        let settings = Settings { slots, slot_bytes: 64, ..Settings::default() };
        Self { peer, sender: Sender::to(address(&there), settings).expect("memory") }
    }

    /// Million messages a second: of the whole run, or the median over runs of 10,000.
    fn rate(&mut self, count: u64, whole: bool) -> f64 {
        let mut message = [0; 64];
        for number in 0..count {
            message[..8].copy_from_slice(&number.to_le_bytes());
            self.sender.send(&message, Wait::SPIN).expect("a receiver");
        }
        let line = self.peer.line();
        let (whole_ns, median_ns) = line.split_once(' ').expect("two times");
        let ns: f64 = if whole { whole_ns } else { median_ns }.parse().expect("a time");
        let count = if whole { count as f64 } else { 10_000.0 };
        count * 1e3 / ns
    }
}

/// A thread that sends back its input from a Unix stream socket.
struct StreamEcho {
    stream: UnixStream,
}

impl StreamEcho {
    fn start(cpu: usize) -> Self {
        let (stream, mut other) = UnixStream::pair().expect("sockets");
        std::thread::spawn(move || {
            pin(cpu);
            let mut bytes = [0; 64];
            while other.read_exact(&mut bytes).is_ok() && other.write_all(&bytes).is_ok() {}
        });
        Self { stream }
    }

    fn one_way_ns(&mut self, bytes: usize, trips: u32) -> f64 {
        let mut message = vec![7; bytes];
        median_ns(trips, || {
            for _ in 0..CHUNK {
                self.stream.write_all(&message).expect("an echo");
                self.stream.read_exact(&mut message).expect("an echo");
            }
        })
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
    let mut trip = 0;
    let one_way_ns = median_ns(trips as u32, || {
        for _ in 0..CHUNK {
            trip += 1;
            lines[0].0.store(trip, Ordering::Release);
            while lines[1].0.load(Ordering::Acquire) != trip {
                std::hint::spin_loop();
            }
        }
    });
    thread.join().expect("no panic");
    one_way_ns
}

/// One way in nanoseconds: half of a round trip, the median over chunks of [`CHUNK`] round trips, so
/// that the time in which other programs have a CPU does not count.
fn median_ns(trips: u32, mut chunk: impl FnMut()) -> f64 {
    let mut chunks: Vec<f64> = (0..trips / CHUNK)
        .map(|_| {
            let start = Instant::now();
            chunk();
            start.elapsed().as_nanos() as f64 / f64::from(CHUNK) / 2.0
        })
        .collect();
    chunks.sort_by(f64::total_cmp);
    chunks[chunks.len() / 2]
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
