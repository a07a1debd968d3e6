//! Two hosts with one TCP connection, and a list of operations: calls at either end, beats of the
//! timers, frames that arrive, get lost, are doubled, late or damaged.
//!
//! The first byte picks the personality, then each operation takes two: kind and amount. The bytes
//! read must be the bytes written, in order; once both ends are closed and the wire is good again, no
//! connection and no mbuf is left.

#![no_main]

use std::collections::VecDeque;
use std::net::Ipv4Addr;

use libfuzzer_sys::fuzz_target;
use sockscope_record::Protocol;
use sockscope_stack::interface::{self, InterfaceConfig};
use sockscope_stack::socket::Shutdown;
use sockscope_stack::{
    AcceptCall, ConnectCall, Effect, Meter, Personality, ReceiveCall, SendCall, SetOption,
    SocketId, Stack, StackConfig, Step,
};

const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(128, 32, 0, 1), Ipv4Addr::new(128, 32, 0, 2)];
const PORT: u16 = 9;
/// Four hours: keep-alive has found a dead peer by then.
const LAST_TICKS: u32 = 4 * 60 * 60 * 2;
const WIRE_MAX: usize = 500;

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, operations)) = bytes.split_first() else { return };
    let mut pair = Pair::new(usize::from(*choice));
    for [what, how_much] in operations.as_chunks::<2>().0 {
        pair.operate(*what, usize::from(*how_much));
    }
    pair.end();
});

struct Host {
    stack: Stack,
    meter: Meter,
    socket: Option<SocketId>,
    writing: Option<(SendCall, Vec<u8>)>,
    written: usize,
    read: usize,
    is_closed: bool,
}

struct Pair {
    hosts: [Host; 2],
    listener: SocketId,
    wire: VecDeque<Frame>,
}

#[derive(Clone)]
struct Frame {
    to: usize,
    bytes: Vec<u8>,
    is_damaged: bool,
}

fn byte_at(position: usize) -> u8 {
    (position * 31 + position / 251) as u8
}

impl Host {
    fn new(personality: &Personality, address: Ipv4Addr) -> Self {
        let config = StackConfig {
            interfaces: vec![InterfaceConfig::ethernet3("en0", address)],
            initial_sequence: u32::MAX - 3000,
            ..StackConfig::default()
        };
        Self {
            stack: Stack::new(personality.clone(), config),
            meter: Meter::default(),
            socket: None,
            writing: None,
            written: 0,
            read: 0,
            is_closed: false,
        }
    }
}

impl Pair {
    fn new(choice: usize) -> Self {
        let personality = &Personality::ALL[choice % Personality::ALL.len()];
        let mut hosts = ADDRESSES.map(|address| Host::new(personality, address));
        let Host { stack, meter, .. } = &mut hosts[1];
        let listener = stack.socket(Protocol::Tcp, meter).expect("a socket");
        stack.bind(listener, (Ipv4Addr::UNSPECIFIED, PORT), meter).expect("a free port");
        stack.listen(listener, 5, meter).expect("listens");
        stack.set_option(listener, SetOption::KeepAlive(true), meter).expect("an option");
        let Host { stack, meter, .. } = &mut hosts[0];
        let client = stack.socket(Protocol::Tcp, meter).expect("a socket");
        stack.set_option(client, SetOption::KeepAlive(true), meter).expect("an option");
        hosts[0].socket = Some(client);
        let mut pair = Self { hosts, listener, wire: VecDeque::new() };
        let mut call = ConnectCall::new(client, (ADDRESSES[1], PORT));
        pair.step(0, |stack, meter| call.step(stack, meter));
        pair
    }

    fn operate(&mut self, what: u8, how_much: usize) {
        let host = usize::from(what >> 7);
        match what % 16 {
            0..=4 => self.deliver(how_much % 8),
            5 => drop(self.wire.pop_front()),
            6 if self.wire.len() < WIRE_MAX => self.wire.extend(self.wire.front().cloned()),
            7 => self.wire.rotate_left(how_much % self.wire.len().max(1)),
            8 => self.damage(how_much),
            9 => self.write(host, 1 + how_much * 20),
            10 => self.read(host, 1 + how_much * 20),
            11 => self.step(host, Stack::fasttimo),
            12 => (0..how_much % 32).for_each(|_| self.step(host, Stack::slowtimo)),
            13 => self.accept(),
            14 => self.close(host, how_much),
            _ => self.set(host, how_much),
        }
        self.go_on(host);
    }

    fn deliver(&mut self, count: usize) {
        for _ in 0..=count {
            let Some(Frame { to, bytes, .. }) = self.wire.pop_front() else { return };
            self.step(to, |stack, meter| stack.receive_frame(0, &bytes.into(), meter));
        }
    }

    /// One bit of a frame: the checksums see that, but not every pair of bits.
    fn damage(&mut self, bit: usize) {
        if let Some(frame) = self.wire.front_mut().filter(|frame| !frame.is_damaged) {
            let bit = bit * 7 % (8 * frame.bytes.len());
            frame.bytes[bit / 8] ^= 1 << (bit % 8);
            frame.is_damaged = true;
        }
    }

    fn write(&mut self, host: usize, len: usize) {
        let end = &mut self.hosts[host];
        let Some(id) = end.socket.filter(|_| end.writing.is_none() && !end.is_closed) else {
            return;
        };
        let user = (end.written..end.written + len).map(byte_at).collect();
        end.writing = Some((SendCall::write(id, len), user));
        self.go_on(host);
    }

    fn go_on(&mut self, host: usize) {
        while let Some((mut call, user)) = self.hosts[host].writing.take() {
            match self.step(host, |stack, meter| call.step(stack, &user, meter)) {
                // Part of a write that fails may have been taken: nothing follows it.
                Step::Done(Err(_)) => self.close(host, 0),
                Step::Done(Ok(len)) => self.hosts[host].written += len as usize,
                Step::Sleep(_) => {
                    self.hosts[host].writing = Some((call, user));
                    return;
                }
                Step::Continue => self.hosts[host].writing = Some((call, user)),
            }
        }
    }

    fn read(&mut self, host: usize, len: usize) {
        let end = &self.hosts[host];
        let Some(id) = end.socket.filter(|_| !end.is_closed) else { return };
        let mut call = ReceiveCall::read(id, len);
        let mut user = vec![0; len];
        loop {
            match self.step(host, |stack, meter| call.step(stack, &mut user, meter)) {
                Step::Continue => {}
                Step::Sleep(_) | Step::Done(Err(_)) => return,
                Step::Done(Ok(given)) => {
                    let from = self.hosts[host].read;
                    let mut got = (from..).zip(&user[..given as usize]);
                    assert!(got.all(|(at, byte)| *byte == byte_at(at)), "damaged behind {from}");
                    self.hosts[host].read += given as usize;
                    return;
                }
            }
        }
    }

    fn accept(&mut self) {
        if self.hosts[1].socket.is_some() {
            return;
        }
        let mut call = AcceptCall::new(self.listener);
        if let Step::Done(Ok(number)) = self.step(1, |stack, meter| call.step(stack, meter)) {
            self.hosts[1].socket = Some(SocketId(number));
        }
    }

    fn close(&mut self, host: usize, how: usize) {
        let end = &mut self.hosts[host];
        let Some(id) = end.socket.filter(|_| !end.is_closed) else { return };
        if how % 4 == 1 {
            let _ = self.step(host, |stack, meter| stack.shutdown(id, Shutdown::Send, meter));
        } else {
            end.is_closed = true;
            let _ = self.step(host, |stack, meter| stack.close(id, meter));
        }
    }

    fn set(&mut self, host: usize, value: usize) {
        let end = &self.hosts[host];
        let Some(id) = end.socket.filter(|_| !end.is_closed) else { return };
        let option = match value % 4 {
            0 => SetOption::NoDelay(value > 100),
            1 => SetOption::SendBuffer(1 + value as u32 * 200),
            2 => SetOption::ReceiveBuffer(1 + value as u32 * 200),
            _ => {
                self.hosts[host].stack.tcp_quench(id);
                return;
            }
        };
        let _ = self.step(host, |stack, meter| stack.set_option(id, option, meter));
    }

    fn step<R>(&mut self, host: usize, act: impl FnOnce(&mut Stack, &mut Meter) -> R) -> R {
        let Host { stack, meter, .. } = &mut self.hosts[host];
        meter.begin();
        let result = act(stack, meter);
        while stack.ip_input_step(meter) {}
        let mut effects = Vec::new();
        meter.take_effects(&mut effects);
        for (_, effect) in effects {
            if let Effect::Output { interface, packet } = effect {
                let mut frame = interface::Frame::default();
                stack.interface_enqueue(interface, packet, meter);
                stack.interface_start(interface, &mut frame, meter);
                stack.transmit_done(interface, meter);
                if self.wire.len() < WIRE_MAX {
                    let bytes = frame.bytes;
                    self.wire.push_back(Frame { to: 1 - host, bytes, is_damaged: false });
                }
            }
        }
        meter.take_effects(&mut Vec::new());
        result
    }

    /// Both ends close, and from then on the wire delivers.
    fn end(&mut self) {
        for host in 0..2 {
            self.close(host, 0);
            self.go_on(host);
        }
        let listener = self.listener;
        let _ = self.step(1, |stack, meter| stack.close(listener, meter));
        for _ in 0..LAST_TICKS {
            self.deliver(2 * WIRE_MAX);
            if self.hosts.iter().all(|host| host.stack.tcp_connections().is_empty()) {
                break;
            }
            for host in 0..2 {
                self.step(host, Stack::fasttimo);
                self.step(host, Stack::slowtimo);
            }
        }
        for host in &self.hosts {
            assert!(host.stack.tcp_connections().is_empty(), "connections are stuck");
            let in_use = host.stack.pool.in_use();
            assert_eq!((in_use.mbufs, in_use.clusters), (0, 0), "mbufs are lost");
        }
    }
}
