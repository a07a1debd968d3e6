//! Two hosts on one wire, for tests: effects happen at once, time does not pass by itself.
//!
//! Frames arrive as soon as they are sent, unless the wire is held; a test may lose some. Timers
//! run when a test calls them.

use std::collections::VecDeque;
use std::net::Ipv4Addr;

use sockscope_record::{Protocol, Record};

use crate::calls::{AcceptCall, ConnectCall, ReceiveCall, SendCall, Step};
use crate::effect::{Channel, Effect};
use crate::interface::{Frame, InterfaceConfig};
use crate::mbuf::PoolUse;
use crate::meter::Meter;
use crate::packet::Mark;
use crate::personality::Personality;
use crate::routine::Routine;
use crate::socket::{Endpoint, SocketId};
use crate::stack::{Stack, StackConfig};

/// Addresses of the two hosts, on one class B network.
pub(crate) const ADDRESSES: [Ipv4Addr; 2] =
    [Ipv4Addr::new(128, 32, 0, 1), Ipv4Addr::new(128, 32, 0, 2)];

pub(crate) struct Host {
    pub(crate) stack: Stack,
    pub(crate) meter: Meter,
}

/// A frame on the wire.
pub(crate) struct Flight {
    pub(crate) to: usize,
    pub(crate) bytes: Vec<u8>,
    pub(crate) mark: Option<Mark>,
}

pub(crate) struct Pair {
    pub(crate) hosts: [Host; 2],
    /// Frames not delivered yet.
    pub(crate) wire: VecDeque<Flight>,
    /// Frames wait on the wire until [`Pair::deliver`].
    pub(crate) is_held: bool,
    /// Numbers, from 0 on, of frames that never arrive.
    pub(crate) lost: Vec<usize>,
    /// Every frame ever sent, the sending host before it.
    pub(crate) sent: Vec<(usize, Vec<u8>)>,
    /// Every record, the host before it.
    pub(crate) records: Vec<(usize, Record)>,
    /// Every wake-up, the host before it.
    pub(crate) woken: Vec<(usize, Channel)>,
}

impl Pair {
    /// Two hosts of one personality on a 3 Mbit/s Ethernet; an unknown port is answered.
    pub(crate) fn new(personality: &Personality) -> Self {
        let config = |address| StackConfig {
            interfaces: vec![InterfaceConfig::ethernet3("en0", address)],
            answers_unreachable: true,
            initial_sequence: 1000,
            ..StackConfig::default()
        };
        Self::of(personality, ADDRESSES.map(config))
    }

    /// As [`Pair::new`] on a 10 Mbit/s Ethernet.
    pub(crate) fn ethernet10(personality: &Personality) -> Self {
        let config = |address| StackConfig {
            interfaces: vec![InterfaceConfig::ethernet10("le0", address)],
            initial_sequence: 1000,
            ..StackConfig::default()
        };
        Self::of(personality, ADDRESSES.map(config))
    }

    /// Two hosts, each with only itself to talk to: use the first.
    pub(crate) fn loopback(personality: &Personality) -> Self {
        let config = |address| StackConfig {
            interfaces: vec![InterfaceConfig::loopback(address)],
            initial_sequence: 1000,
            ..StackConfig::default()
        };
        Self::of(personality, ADDRESSES.map(config))
    }

    /// Two hosts of any set-up; interface 0 of each is on the wire.
    pub(crate) fn of(personality: &Personality, configs: [StackConfig; 2]) -> Self {
        let hosts = configs.map(|config| Host {
            stack: Stack::new(personality.clone(), config),
            meter: Meter::default(),
        });
        Self {
            hosts,
            wire: VecDeque::new(),
            is_held: false,
            lost: Vec::new(),
            sent: Vec::new(),
            records: Vec::new(),
            woken: Vec::new(),
        }
    }

    /// One step of one host, its effects, and their results on both hosts.
    pub(crate) fn step<R>(
        &mut self,
        host: usize,
        act: impl FnOnce(&mut Stack, &mut Meter) -> R,
    ) -> R {
        let Host { stack, meter } = &mut self.hosts[host];
        meter.begin();
        let result = act(stack, meter);
        self.walk(host);
        if !self.is_held {
            self.settle();
        }
        result
    }

    /// Lets the effects of the last step happen, soft interrupts last, as `splx` would.
    fn walk(&mut self, host: usize) {
        let mut effects = Vec::new();
        loop {
            self.hosts[host].meter.take_effects(&mut effects);
            if effects.is_empty() {
                break;
            }
            let mut interrupts = false;
            for (_, effect) in effects.drain(..) {
                interrupts |= matches!(effect, Effect::SoftInterrupt);
                self.happen(host, effect);
            }
            let Host { stack, meter } = &mut self.hosts[host];
            while interrupts && stack.ip_input_step(meter) {}
        }
    }

    fn happen(&mut self, host: usize, effect: Effect) {
        let Host { stack, meter } = &mut self.hosts[host];
        match effect {
            Effect::Observed(record) => self.records.push((host, record)),
            Effect::Wakeup(channel) => self.woken.push((host, channel)),
            Effect::SoftInterrupt => {}
            Effect::LoopbackInput { interface, packet } => {
                assert!(stack.loopback_input(interface, packet, meter));
            }
            Effect::Output { interface, packet } => {
                assert!(stack.interface_enqueue(interface, packet, meter));
                let mut frame = Frame::default();
                assert!(stack.interface_start(interface, &mut frame, meter));
                stack.transmit_done(interface, meter);
                let number = self.sent.len();
                self.sent.push((host, frame.bytes.clone()));
                if !self.lost.contains(&number) {
                    let Frame { bytes, mark } = frame;
                    self.wire.push_back(Flight { to: 1 - host, bytes, mark });
                }
            }
        }
    }

    /// Delivers the oldest frame on the wire; `false` without one.
    pub(crate) fn deliver(&mut self) -> bool {
        let Some(Flight { to, bytes, mark }) = self.wire.pop_front() else { return false };
        let Host { stack, meter } = &mut self.hosts[to];
        meter.begin();
        stack.receive_frame(0, &Frame { bytes, mark }, meter);
        self.walk(to);
        true
    }

    /// Delivers frames until none is on the wire.
    pub(crate) fn settle(&mut self) {
        for _ in 0..100_000 {
            if !self.deliver() {
                return;
            }
        }
        panic!("the hosts never stop talking");
    }

    /// Runs both hosts' 200 ms timer.
    pub(crate) fn fasttimo(&mut self) {
        for host in 0..2 {
            self.step(host, Stack::fasttimo);
        }
    }

    /// Runs both hosts' 500 ms timer.
    pub(crate) fn slowtimo(&mut self) {
        for host in 0..2 {
            self.step(host, Stack::slowtimo);
        }
    }

    /// Steps a call that sends until it sleeps or is done.
    pub(crate) fn run_send(&mut self, host: usize, call: &mut SendCall, user: &[u8]) -> Step {
        loop {
            match self.step(host, |stack, meter| call.step(stack, user, meter)) {
                Step::Continue => {}
                step => return step,
            }
        }
    }

    /// Steps a call that receives until it sleeps or is done.
    pub(crate) fn run_receive(
        &mut self,
        host: usize,
        call: &mut ReceiveCall,
        user: &mut [u8],
    ) -> Step {
        loop {
            match self.step(host, |stack, meter| call.step(stack, user, meter)) {
                Step::Continue => {}
                step => return step,
            }
        }
    }

    /// Writes until it would wait; returns the call, to continue with, and its state.
    pub(crate) fn write(&mut self, host: usize, socket: SocketId, user: &[u8]) -> (SendCall, Step) {
        let mut call = SendCall::write(socket, user.len());
        let step = self.run_send(host, &mut call, user);
        (call, step)
    }

    /// Reads at most `len` bytes; `None` when the call would wait.
    pub(crate) fn read(&mut self, host: usize, socket: SocketId, len: usize) -> Option<Vec<u8>> {
        let mut user = vec![0; len];
        let mut call = ReceiveCall::read(socket, len);
        match self.run_receive(host, &mut call, &mut user) {
            Step::Done(Ok(given)) => {
                user.truncate(given as usize);
                Some(user)
            }
            Step::Sleep(_) => None,
            step => panic!("{step:?}"),
        }
    }

    /// A new socket.
    pub(crate) fn socket(&mut self, host: usize, protocol: Protocol) -> SocketId {
        self.step(host, |stack, meter| stack.socket(protocol, meter)).expect("a socket")
    }

    /// A new socket at this port.
    pub(crate) fn bound(&mut self, host: usize, protocol: Protocol, port: u16) -> SocketId {
        let id = self.socket(host, protocol);
        let local: Endpoint = (Ipv4Addr::UNSPECIFIED, port);
        self.step(host, |stack, meter| stack.bind(id, local, meter)).expect("a free port");
        id
    }

    /// A TCP connection from host 0 to this port of host `to`: the client's and the server's
    /// socket. The listening socket stays.
    pub(crate) fn connection(&mut self, to: usize, port: u16) -> (SocketId, SocketId) {
        let listener = self.bound(to, Protocol::Tcp, port);
        self.step(to, |stack, meter| stack.listen(listener, 5, meter)).expect("listens");
        let client = self.socket(0, Protocol::Tcp);
        let address = self.hosts[to].stack.interface(0).expect("an interface").address;
        let mut call = ConnectCall::new(client, (address, port));
        let begun = self.step(0, |stack, meter| call.step(stack, meter));
        if begun == Step::Sleep(Channel::Connection(client)) {
            let done = self.step(0, |stack, meter| call.step(stack, meter));
            assert_eq!(done, Step::Done(Ok(0)));
        }
        let mut call = AcceptCall::new(listener);
        match self.step(to, |stack, meter| call.step(stack, meter)) {
            Step::Done(Ok(number)) => (client, SocketId(number)),
            step => panic!("accept: {step:?}"),
        }
    }

    /// The number of calls of a routine by a host.
    pub(crate) fn calls(&self, host: usize, routine: Routine) -> u64 {
        self.hosts[host].meter.calls(routine)
    }

    /// Asserts that a host holds no mbuf.
    pub(crate) fn assert_all_free(&self) {
        for host in &self.hosts {
            assert_eq!(host.stack.pool.in_use(), PoolUse::default());
        }
    }
}

/// Bytes that differ from their neighbours and from one another's order.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + at / 251) as u8).collect()
}
