//! Time of a message between two hosts on one core: written, framed, received, read.
//!
//! `cargo bench -p sockscope-stack`. A message of 1024 bytes is one segment or datagram; with TCP
//! its acknowledgment is made and taken too. Checksums are computed and data copied. A case and its
//! control differ in nothing, and so show the noise of the machine.

use std::hint::black_box;
use std::net::Ipv4Addr;

use divan::Bencher;
use divan::counter::ItemsCount;
use sockscope_record::{FlowId, Protocol};
use sockscope_stack::interface::{Frame, InterfaceConfig};
use sockscope_stack::{
    AcceptCall, ConnectCall, Effect, Meter, Personality, ReceiveCall, SendCall, SetOption,
    SocketId, Stack, StackConfig, Step,
};

const MESSAGE_BYTES: usize = 1024;

const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(128, 32, 0, 1), Ipv4Addr::new(128, 32, 0, 2)];

fn main() {
    divan::main();
}

#[divan::bench(args = ["case", "control"])]
fn udp(bencher: Bencher<'_, '_>, _: &str) {
    messages(bencher, Protocol::Udp, false);
}

#[divan::bench(args = ["case", "control"])]
fn tcp(bencher: Bencher<'_, '_>, _: &str) {
    messages(bencher, Protocol::Tcp, false);
}

#[divan::bench(args = ["case", "control"])]
fn tcp_logged(bencher: Bencher<'_, '_>, _: &str) {
    messages(bencher, Protocol::Tcp, true);
}

fn messages(bencher: Bencher<'_, '_>, protocol: Protocol, is_logged: bool) {
    let mut hosts = Hosts::connected("tahoe", protocol, is_logged);
    bencher.counter(ItemsCount::new(1_usize)).bench_local(|| hosts.message());
}

struct Host {
    stack: Stack,
    meter: Meter,
    socket: SocketId,
}

/// Two hosts with one conversation, from the first to the second.
struct Hosts {
    hosts: [Host; 2],
    user: Vec<u8>,
    read: Vec<u8>,
    effects: Vec<(u64, Effect)>,
    frame: Frame,
    records: usize,
}

impl Hosts {
    fn connected(personality: &str, protocol: Protocol, is_logged: bool) -> Self {
        let personality = Personality::by_name(personality).expect("a known personality");
        let hosts = ADDRESSES.map(|address| {
            let config = StackConfig {
                interfaces: vec![InterfaceConfig::ethernet10("le0", address)],
                ..StackConfig::default()
            };
            let mut stack = Stack::new(personality.clone(), config);
            let mut meter = Meter::default();
            let socket = stack.socket(protocol, &mut meter).expect("a socket");
            Host { stack, meter, socket }
        });
        let mut hosts = Self {
            hosts,
            user: (0..MESSAGE_BYTES).map(|at| at as u8).collect(),
            read: vec![0; MESSAGE_BYTES],
            effects: Vec::new(),
            frame: Frame::default(),
            records: 0,
        };
        hosts.open(protocol, is_logged);
        hosts
    }

    fn open(&mut self, protocol: Protocol, is_logged: bool) {
        let [client, server] = self.hosts.each_ref().map(|host| host.socket);
        let port = (Ipv4Addr::UNSPECIFIED, 9);
        self.step(1, |stack, meter| stack.bind(server, port, meter)).expect("a free port");
        if is_logged {
            let log = SetOption::Log(FlowId(2));
            self.step(0, |stack, meter| stack.set_option(client, log, meter)).expect("an option");
        }
        if protocol == Protocol::Tcp {
            self.step(1, |stack, meter| stack.listen(server, 5, meter)).expect("listens");
        }
        let mut call = ConnectCall::new(client, (ADDRESSES[1], 9));
        while self.step(0, |stack, meter| call.step(stack, meter)) != Step::Done(Ok(0)) {}
        if protocol == Protocol::Tcp {
            let mut call = AcceptCall::new(server);
            let Step::Done(Ok(number)) = self.step(1, |stack, meter| call.step(stack, meter))
            else {
                panic!("no connection to accept");
            };
            self.hosts[1].socket = SocketId(number);
        }
    }

    /// One message is written, carried and read; every 200 messages are a turn of the fast timer.
    fn message(&mut self) {
        let [client, server] = self.hosts.each_ref().map(|host| host.socket);
        let user = std::mem::take(&mut self.user);
        let mut call = SendCall::write(client, MESSAGE_BYTES);
        loop {
            match self.step(0, |stack, meter| call.step(stack, &user, meter)) {
                Step::Continue => {}
                // The acknowledgment that frees space waits for the timer.
                Step::Sleep(_) => self.step(1, Stack::fasttimo),
                Step::Done(result) => break assert_eq!(result, Ok(MESSAGE_BYTES as u32)),
            }
        }
        self.user = user;
        let mut read = std::mem::take(&mut self.read);
        let mut call = ReceiveCall::read(server, MESSAGE_BYTES);
        loop {
            match self.step(1, |stack, meter| call.step(stack, &mut read, meter)) {
                Step::Continue => {}
                Step::Sleep(_) => self.step(1, Stack::fasttimo),
                Step::Done(result) => break assert!(result.is_ok()),
            }
        }
        self.read = black_box(read);
    }

    fn step<R>(&mut self, host: usize, act: impl FnOnce(&mut Stack, &mut Meter) -> R) -> R {
        let Host { stack, meter, .. } = &mut self.hosts[host];
        meter.begin();
        let result = act(stack, meter);
        self.settle(host);
        result
    }

    /// Carries out effects, and their results at the other host, until nothing is left.
    fn settle(&mut self, host: usize) {
        let mut effects = std::mem::take(&mut self.effects);
        self.hosts[host].meter.take_effects(&mut effects);
        let mut frame = std::mem::take(&mut self.frame);
        for (_, effect) in effects.drain(..) {
            match effect {
                Effect::Output { interface, packet } => {
                    let Host { stack, meter, .. } = &mut self.hosts[host];
                    stack.interface_enqueue(interface, packet, meter);
                    stack.interface_start(interface, &mut frame, meter);
                    stack.transmit_done(interface, meter);
                    let Host { stack, meter, .. } = &mut self.hosts[1 - host];
                    stack.receive_frame(interface, &frame, meter);
                }
                Effect::Observed(record) => self.records += usize::from(black_box(record).len > 0),
                _ => {}
            }
        }
        self.effects = effects;
        self.frame = frame;
        let Host { stack, meter, .. } = &mut self.hosts[1 - host];
        while stack.ip_input_step(meter) {}
        if !meter.effects().is_empty() {
            self.settle(1 - host);
        }
    }
}
