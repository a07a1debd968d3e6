//! Two hosts on a bad wire: loss to 30 %, duplication, reordering, damage, all by a seed.
//!
//! Every byte arrives in order, or an end gets an error; nothing stays behind for ever, no
//! mbuf leaks. `SOCKSCOPE_SEEDS=1000` runs more seeds than the plain test does.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use sockscope_record::{FlowId, Protocol};

use crate::calls::{AcceptCall, ConnectCall, ReceiveCall, SendCall, Step};
use crate::effect::Channel;
use crate::personality::Personality;
use crate::socket::{SetOption, Shutdown, SocketError, SocketId};
use crate::stack::Stack;
use crate::tcp::State;
use crate::tcp::testing::byte_at;
use crate::testing::{ADDRESSES, Flight, Pair};

const SEEDS: u64 = 100;
const PORT: u16 = 9;
/// Keep-alive has found every dead peer by then: it takes two hours and ten minutes at most.
const END_MS: u64 = 4 * HOUR_MS;

/// Out of a thousand frames; with less no connection is given up.
const MUCH_LOSS: u64 = 150;

const HOUR_MS: u64 = 60 * 60 * 1000;

/// Numbers that follow from a seed alone (splitmix64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % below
    }
}

/// Out of a thousand frames so many meet each fault.
#[derive(Debug, Clone, Copy)]
struct Faults {
    loss: u64,
    duplication: u64,
    reordering: u64,
    damage: u64,
}

/// The process of one end.
struct Process {
    socket: Option<SocketId>,
    to_write: usize,
    written: usize,
    writing: Option<(SendCall, Vec<u8>)>,
    reading: Option<(ReceiveCall, Vec<u8>)>,
    read: usize,
    has_ended: bool,
    has_shut: bool,
    is_closed: bool,
    errors: Vec<SocketError>,
}

struct World {
    pair: Pair,
    dice: Dice,
    faults: Faults,
    now_ms: u64,
    number: u64,
    wire: BinaryHeap<Reverse<(u64, u64, usize)>>,
    flights: Vec<Option<Flight>>,
    processes: [Process; 2],
    listener: SocketId,
    connecting: Option<ConnectCall>,
    beats_ms: [[u64; 2]; 2],
    is_one_way: bool,
}

impl World {
    fn new(personality: &Personality, seed: u64) -> Self {
        let mut dice = Dice(seed);
        let mut pair =
            if dice.roll(2) == 0 { Pair::new(personality) } else { Pair::ethernet10(personality) };
        pair.is_held = true;
        let worst = dice.roll(301);
        let faults = Faults {
            loss: worst,
            duplication: dice.roll(100),
            reordering: dice.roll(200),
            damage: dice.roll(50),
        };
        let listener = pair.bound(1, Protocol::Tcp, PORT);
        pair.step(1, |stack, meter| stack.listen(listener, 5, meter)).expect("listens");
        let is_one_way = dice.roll(2) == 0;
        let sizes = [dice.roll(20_000) as usize, dice.roll(12_000) as usize];
        let sizes = if is_one_way { [sizes[0], 0] } else { sizes };
        let beats_ms = [0; 2].map(|_: u64| [1 + dice.roll(200), 1 + dice.roll(500)]);
        Self {
            pair,
            dice,
            faults,
            now_ms: 0,
            number: 0,
            wire: BinaryHeap::new(),
            flights: Vec::new(),
            processes: sizes.map(Process::new),
            listener,
            connecting: None,
            beats_ms,
            is_one_way,
        }
    }

    fn run(&mut self) {
        self.connect();
        self.wake();
        self.run_until(END_MS);
        for host in 0..2 {
            self.close_if_abandoned(host);
        }
        self.run_until(END_MS + HOUR_MS);
    }

    fn run_until(&mut self, end_ms: u64) {
        while self.now_ms < end_ms && !self.is_over() {
            self.next_event();
            self.wake();
        }
    }

    /// Keep-alive does not probe for a peer whose FIN alone is missing: if it died, its FIN is
    /// waited for until the process loses patience.
    fn close_if_abandoned(&mut self, host: usize) {
        let stack = &self.pair.hosts[host].stack;
        let peer_gave_up = self.pair.hosts[1 - host].stack.tcp_counts().given_up > 0;
        let socket = self.processes[host].socket.and_then(|id| stack.sockets.find(id));
        let tcb = socket.and_then(|socket| socket.tcb.as_ref());
        if tcb.is_some_and(|tcb| tcb.state() == State::FinWait2) && peer_gave_up {
            self.close(host);
        }
    }

    fn is_over(&self) -> bool {
        let closed = self.processes.iter().all(|process| process.is_closed);
        let rest = [0, 1].map(|host| self.pair.hosts[host].stack.tcp_connections().len());
        closed && rest == [0, 1] && self.wire.is_empty()
    }

    fn connect(&mut self) {
        let id = self.pair.socket(0, Protocol::Tcp);
        if self.dice.roll(2) == 0 {
            self.set(0, id, SetOption::Log(FlowId(2)));
        }
        if self.dice.roll(4) == 0 {
            self.set(0, id, SetOption::NoDelay(true));
        }
        self.set(0, id, SetOption::KeepAlive(true));
        self.set(1, self.listener, SetOption::KeepAlive(true));
        self.processes[0].socket = Some(id);
        self.connecting = Some(ConnectCall::new(id, (ADDRESSES[1], PORT)));
        self.go_on_connecting();
        let mut call = AcceptCall::new(self.listener);
        self.pair.step(1, |stack, meter| call.step(stack, meter));
    }

    fn set(&mut self, host: usize, id: SocketId, option: SetOption) {
        self.pair.step(host, |stack, meter| stack.set_option(id, option, meter)).expect("set");
    }

    fn go_on_connecting(&mut self) {
        let Some(mut call) = self.connecting.take() else { return };
        match self.pair.step(0, |stack, meter| call.step(stack, meter)) {
            Step::Done(Ok(_)) => self.start(0),
            Step::Done(Err(error)) => {
                self.processes[0].errors.push(error);
                self.close(0);
            }
            _ => self.connecting = Some(call),
        }
    }

    /// Frames that left travel on, and the next thing happens: a frame or a beat.
    fn next_event(&mut self) {
        self.send_off();
        let beat_ms = self.beats_ms.iter().flatten().copied().min().unwrap_or(END_MS);
        let frame = self.wire.peek().map(|Reverse((at_ms, _, _))| *at_ms);
        if let Some(at_ms) = frame.filter(|at_ms| *at_ms < beat_ms) {
            self.now_ms = at_ms;
            if let Some(Reverse((_, _, index))) = self.wire.pop() {
                let flight = self.flights[index].take().expect("in flight");
                self.pair.wire.push_back(flight);
                self.pair.deliver();
            }
            return;
        }
        self.now_ms = beat_ms;
        for host in 0..2 {
            if self.beats_ms[host][0] == beat_ms {
                self.beats_ms[host][0] += 200;
                self.pair.step(host, Stack::fasttimo);
            }
            if self.beats_ms[host][1] == beat_ms {
                self.beats_ms[host][1] += 500;
                self.pair.step(host, Stack::slowtimo);
            }
        }
    }

    fn send_off(&mut self) {
        self.pair.sent.clear();
        self.pair.records.clear();
        while let Some(flight) = self.pair.wire.pop_front() {
            let Faults { loss, duplication, .. } = self.faults;
            if self.dice.roll(1000) < loss {
                continue;
            }
            if self.dice.roll(1000) < duplication {
                let copy = Flight { to: flight.to, bytes: flight.bytes.clone(), mark: flight.mark };
                self.launch(copy);
            }
            self.launch(flight);
        }
    }

    fn launch(&mut self, mut flight: Flight) {
        let Faults { reordering, damage, .. } = self.faults;
        if self.dice.roll(1000) < damage {
            let bit = self.dice.roll(8 * flight.bytes.len() as u64) as usize;
            flight.bytes[bit / 8] ^= 1 << (bit % 8);
        }
        let late_ms = if self.dice.roll(1000) < reordering { self.dice.roll(400) } else { 0 };
        self.number += 1;
        self.wire.push(Reverse((self.now_ms + 2 + late_ms, self.number, self.flights.len())));
        self.flights.push(Some(flight));
    }

    /// Runs the woken processes, until all sleep again.
    fn wake(&mut self) {
        let mut woken = std::mem::take(&mut self.pair.woken);
        while !woken.is_empty() {
            for (host, channel) in woken.drain(..) {
                self.woken(host, channel);
            }
            woken.append(&mut self.pair.woken);
        }
    }

    fn woken(&mut self, host: usize, channel: Channel) {
        match channel {
            Channel::Connection(_) if host == 0 => self.go_on_connecting(),
            Channel::Readable(id) if id == self.listener && host == 1 => self.accept(),
            Channel::Readable(id) if self.processes[host].socket == Some(id) => self.go_on(host),
            Channel::Writable(id) if self.processes[host].socket == Some(id) => self.go_on(host),
            _ => {}
        }
    }

    fn accept(&mut self) {
        let mut call = AcceptCall::new(self.listener);
        while let Step::Done(Ok(number)) = self.pair.step(1, |stack, meter| call.step(stack, meter))
        {
            if self.processes[1].socket.is_some() {
                // A second one, of a SYN that arrived again after the first was gone.
                let id = SocketId(number);
                let _ = self.pair.step(1, |stack, meter| stack.close(id, meter));
            } else {
                self.processes[1].socket = Some(SocketId(number));
                self.start(1);
            }
            call = AcceptCall::new(self.listener);
        }
    }

    fn start(&mut self, host: usize) {
        self.next_write(host);
        self.next_read(host);
        self.go_on(host);
    }

    fn next_write(&mut self, host: usize) {
        let process = &self.processes[host];
        let (from, rest) = (process.written, process.to_write - process.written);
        let Some(id) = process.socket.filter(|_| rest > 0) else { return };
        let len = rest.min(1 + self.dice.roll(5000) as usize);
        let bytes = (from..from + len).map(byte_at).collect();
        self.processes[host].writing = Some((SendCall::write(id, len), bytes));
    }

    fn next_read(&mut self, host: usize) {
        let len = 1 + self.dice.roll(5000) as usize;
        if let Some(id) = self.processes[host].socket {
            self.processes[host].reading = Some((ReceiveCall::read(id, len), vec![0; len]));
        }
    }

    fn go_on(&mut self, host: usize) {
        while let Some((mut call, bytes)) = self.processes[host].writing.take() {
            match self.pair.run_send(host, &mut call, &bytes) {
                Step::Done(Ok(len)) => {
                    self.processes[host].written += len as usize;
                    self.next_write(host);
                }
                Step::Done(Err(error)) => self.fails(host, error),
                _ => {
                    self.processes[host].writing = Some((call, bytes));
                    break;
                }
            }
        }
        self.shut_if_done(host);
        self.go_on_reading(host);
        let process = &self.processes[host];
        if process.has_ended && process.has_shut {
            self.close(host);
        }
    }

    fn go_on_reading(&mut self, host: usize) {
        while let Some((mut call, mut bytes)) = self.processes[host].reading.take() {
            match self.pair.run_receive(host, &mut call, &mut bytes) {
                Step::Done(Ok(0)) => self.processes[host].has_ended = true,
                Step::Done(Ok(len)) => {
                    let from = self.processes[host].read;
                    let right =
                        (from..).zip(&bytes[..len as usize]).all(|(at, byte)| *byte == byte_at(at));
                    assert!(right, "host {host} reads damaged data behind {from}");
                    self.processes[host].read += len as usize;
                    self.next_read(host);
                }
                Step::Done(Err(error)) => self.fails(host, error),
                _ => {
                    self.processes[host].reading = Some((call, bytes));
                    break;
                }
            }
        }
    }

    /// All is written: the peer learns it, one way or the other.
    fn shut_if_done(&mut self, host: usize) {
        let process = &mut self.processes[host];
        let is_done = process.writing.is_none() && process.written == process.to_write;
        let Some(id) = process.socket.filter(|_| is_done && !process.has_shut) else { return };
        process.has_shut = true;
        if self.is_one_way && host == 0 {
            self.close(0);
        } else if self.is_one_way {
            // Closed when the peer has.
        } else {
            let done =
                self.pair.step(host, |stack, meter| stack.shutdown(id, Shutdown::Send, meter));
            if let Err(error) = done {
                self.fails(host, error);
            }
        }
    }

    fn fails(&mut self, host: usize, error: SocketError) {
        let process = &mut self.processes[host];
        process.errors.push(error);
        (process.has_ended, process.has_shut) = (true, true);
        (process.reading, process.writing) = (None, None);
    }

    fn close(&mut self, host: usize) {
        let process = &mut self.processes[host];
        process.reading = None;
        let Some(id) = process.socket.filter(|_| !process.is_closed) else { return };
        process.is_closed = true;
        let _ = self.pair.step(host, |stack, meter| stack.close(id, meter));
    }

    /// Checks the state at the end; whether every byte arrived.
    fn verdict(&mut self, name: &str, seed: u64) -> bool {
        let [client, server] = &self.processes;
        let what = format!("{name}, seed {seed}, {:?}", self.faults);
        let never_met = client.errors.first().is_some_and(|_| server.socket.is_none());
        if !never_met {
            assert!(client.is_closed, "{what}: the client never closed");
            assert!(server.is_closed, "{what}: the server never closed");
        }
        let all = client.written == client.to_write && server.read == client.written;
        let back = server.written == server.to_write && client.read == server.written;
        let is_whole = !never_met && all && (self.is_one_way || back);
        // A process that has closed learns nothing: then the peer, whose read ended, knows.
        let is_told = !client.errors.is_empty() || !server.errors.is_empty();
        let gave_up = [0, 1].map(|host| self.pair.hosts[host].stack.tcp_counts().given_up);
        assert!(
            is_whole || is_told || gave_up != [0, 0],
            "{what}: {} of {}",
            server.read,
            client.written
        );
        assert!(is_whole || self.faults.loss >= MUCH_LOSS, "{what}: given up too early");
        let listener = self.listener;
        let _ = self.pair.step(1, |stack, meter| stack.close(listener, meter));
        let rest = [0, 1].map(|host| self.pair.hosts[host].stack.tcp_connections().len());
        assert_eq!(rest, [0, 0], "{what}: connections are stuck");
        self.pair.assert_all_free();
        is_whole
    }
}

impl Process {
    fn new(to_write: usize) -> Self {
        Self {
            socket: None,
            to_write,
            written: 0,
            writing: None,
            reading: None,
            read: 0,
            has_ended: false,
            has_shut: false,
            is_closed: false,
            errors: Vec::new(),
        }
    }
}

/// The number of seeds that delivered every byte.
fn delivered(personality: &Personality, seeds: u64) -> u64 {
    let run = |seed: u64| {
        let mut world = World::new(personality, seed);
        world.run();
        world.verdict(personality.name, seed)
    };
    (0..seeds).filter(|seed| run(*seed)).count() as u64
}

fn seeds() -> u64 {
    std::env::var("SOCKSCOPE_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SEEDS)
}

#[test]
fn every_byte_arrives_or_an_end_is_told() {
    for personality in &Personality::ALL {
        let seeds = seeds();
        let whole = delivered(personality, seeds);
        println!("{}: {whole} of {seeds} whole", personality.name);
        assert!(whole * 10 >= seeds * 9, "{}: {whole} of {seeds}", personality.name);
    }
}
