//! Any frames to a host of any personality that listens, has a connection half made and receives
//! datagrams. The first byte picks personality and link, and whether lengths, the destination and
//! checksums are put right, without which little passes IP; then frames follow, each behind its
//! length.

#![no_main]

use std::net::Ipv4Addr;

use libfuzzer_sys::fuzz_target;
use sockscope_record::Protocol;
use sockscope_stack::checksum::{Checksum, checksum};
use sockscope_stack::interface::{Frame, InterfaceConfig};
use sockscope_stack::ip::{IP_HEADER_BYTES, PROTOCOL_ICMP, PROTOCOL_TCP, PROTOCOL_UDP};
use sockscope_stack::{ConnectCall, Effect, Meter, Personality, Stack, StackConfig};

const OWN: Ipv4Addr = Ipv4Addr::new(128, 32, 0, 1);
const PEER: Ipv4Addr = Ipv4Addr::new(128, 32, 0, 2);

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, mut rest)) = bytes.split_first() else { return };
    let mut host = Host::new(usize::from(*choice));
    while let Some((len, tail)) = rest.split_first_chunk::<2>() {
        let len = usize::from(u16::from_le_bytes(*len) % 2048).min(tail.len());
        let (frame, later) = tail.split_at(len);
        host.receive(frame, choice / 21 % 2 == 1);
        rest = later;
    }
    for _ in 0..200 {
        host.tick();
    }
});

/// Makes an IP packet of bytes that may be none: version, length, destination, checksums.
fn repair(packet: &mut [u8]) {
    let len = packet.len() as u16;
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&len.to_be_bytes());
    packet[10..12].fill(0);
    packet[16..20].copy_from_slice(&OWN.octets());
    let sum = checksum(&packet[..IP_HEADER_BYTES]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    let (header, payload) = packet.split_at_mut(IP_HEADER_BYTES);
    let place = match header[9] {
        PROTOCOL_TCP => 16,
        PROTOCOL_UDP => 6,
        PROTOCOL_ICMP => 2,
        _ => return,
    };
    if payload.len() < place + 2 {
        return;
    }
    payload[place..place + 2].fill(0);
    let mut sum = Checksum::default();
    if header[9] != PROTOCOL_ICMP {
        let source = [header[12], header[13], header[14], header[15]];
        let len = payload.len() as u16;
        sum = Checksum::of_pseudo_header(source, OWN.octets(), header[9], len);
    }
    sum.add(payload);
    payload[place..place + 2].copy_from_slice(&sum.finish().to_be_bytes());
}

struct Host {
    stack: Stack,
    meter: Meter,
    frame: Frame,
}

impl Host {
    fn new(choice: usize) -> Self {
        let personality = Personality::ALL[choice % 7].clone();
        let interface = match choice / 7 % 3 {
            0 => InterfaceConfig::point_to_point("sl0", OWN, 1500),
            1 => InterfaceConfig::ethernet3("en0", OWN),
            _ => InterfaceConfig::ethernet10("le0", OWN),
        };
        let config = StackConfig {
            interfaces: vec![interface],
            answers_unreachable: true,
            initial_sequence: 1,
            ..StackConfig::default()
        };
        let (stack, meter) = (Stack::new(personality, config), Meter::default());
        let mut host = Self { stack, meter, frame: Frame::default() };
        host.open();
        host
    }

    /// A listener at 7, a connection to the peer's 7 half made, a datagram socket at 9.
    fn open(&mut self) {
        let Self { stack, meter, .. } = self;
        let any = Ipv4Addr::UNSPECIFIED;
        let listener = stack.socket(Protocol::Tcp, meter).expect("a socket");
        stack.bind(listener, (any, 7), meter).expect("a free port");
        stack.listen(listener, 5, meter).expect("listens");
        let datagrams = stack.socket(Protocol::Udp, meter).expect("a socket");
        stack.bind(datagrams, (any, 9), meter).expect("a free port");
        let client = stack.socket(Protocol::Tcp, meter).expect("a socket");
        let mut call = ConnectCall::new(client, (PEER, 7));
        // It sleeps until an answer arrives, which is up to the fuzzer.
        let _ = call.step(stack, meter);
        self.settle();
    }

    fn receive(&mut self, frame: &[u8], repairs: bool) {
        let mut frame = frame.to_vec();
        let header_bytes = self.stack.interface(0).map_or(0, |own| own.kind.header_bytes());
        if repairs && frame.len() >= header_bytes + IP_HEADER_BYTES {
            let (link, packet) = frame.split_at_mut(header_bytes);
            if let [.., high, low] = link {
                [*high, *low] = [0x08, 0x00];
            }
            repair(packet);
        }
        self.stack.receive_frame(0, &frame.into(), &mut self.meter);
        while self.stack.ip_input_step(&mut self.meter) {}
        self.settle();
    }

    fn tick(&mut self) {
        self.stack.fasttimo(&mut self.meter);
        self.stack.slowtimo(&mut self.meter);
        self.settle();
    }

    /// Drops the packets that the host sends.
    fn settle(&mut self) {
        let mut effects = Vec::new();
        self.meter.take_effects(&mut effects);
        for (_, effect) in effects {
            if let Effect::Output { interface, packet } = effect {
                self.stack.interface_enqueue(interface, packet, &mut self.meter);
                self.stack.interface_start(interface, &mut self.frame, &mut self.meter);
                self.stack.transmit_done(interface, &mut self.meter);
            }
        }
        self.meter.take_effects(&mut Vec::new());
        self.meter.begin();
    }
}
