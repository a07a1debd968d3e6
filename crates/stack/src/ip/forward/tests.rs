//! A gateway between two lines: packets in, packets out.

use std::net::Ipv4Addr;

use proptest::prelude::*;

use crate::checksum::{Checksum, checksum, header_bytes};
use crate::effect::Effect;
use crate::interface::{Frame, InterfaceConfig};
use crate::mbuf::PoolUse;
use crate::meter::Meter;
use crate::packet::Mark;
use crate::personality::Personality;
use crate::stack::{Stack, StackConfig};
use crate::testing::pattern;

const NEAR: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const FAR: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);
const NOWHERE: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 9);

/// The gateway. Its second line takes packets of `mtu` bytes, and `queue` of them wait for it.
struct Gateway {
    stack: Stack,
    meter: Meter,
}

impl Gateway {
    fn new(mtu: u32, queue: usize) -> Self {
        let near = Ipv4Addr::new(192, 0, 2, 254);
        let far = Ipv4Addr::new(198, 51, 100, 254);
        let line = InterfaceConfig::point_to_point("sl1", far, mtu);
        let config = StackConfig {
            interfaces: vec![
                InterfaceConfig::point_to_point("sl0", near, 1500),
                InterfaceConfig { queue_packets_max: queue, ..line },
            ],
            forwards: true,
            ..StackConfig::default()
        };
        let personality = Personality::by_name("tahoe").unwrap();
        Self { stack: Stack::new(personality, config), meter: Meter::default() }
    }

    /// Receives a packet at its first interface.
    fn receives(&mut self, bytes: Vec<u8>) {
        self.meter.begin();
        let mark = Some(Mark { len: 1, ..Mark::default() });
        self.stack.receive_frame(0, &Frame { bytes, mark }, &mut self.meter);
        while self.stack.ip_input_step(&mut self.meter) {}
    }

    /// The packets that enter the queues now, by the number of their interface.
    fn queues(&mut self) -> Vec<u8> {
        let mut effects = Vec::new();
        self.meter.take_effects(&mut effects);
        let mut interfaces = Vec::new();
        for (_, effect) in effects {
            match effect {
                Effect::Output { interface, packet } => {
                    assert!(self.stack.interface_enqueue(interface, packet, &mut self.meter));
                    interfaces.push(interface);
                }
                Effect::Observed(record) => panic!("a record of the gateway: {record:?}"),
                _ => {}
            }
        }
        interfaces
    }

    /// The frames that leave now, each with the number of its interface.
    fn sends(&mut self) -> Vec<(u8, Frame)> {
        let queued = self.queues();
        let send = |interface| {
            let mut frame = Frame::default();
            assert!(self.stack.interface_start(interface, &mut frame, &mut self.meter));
            self.stack.transmit_done(interface, &mut self.meter);
            (interface, frame)
        };
        queued.into_iter().map(send).collect()
    }
}

/// A datagram with so many bytes of payload, a part of a larger one where `place` is not 0.
fn packet(to: Ipv4Addr, ttl: u8, payload: usize, place: u16) -> Vec<u8> {
    let mut words = [
        0x4500_0000 | (20 + payload as u32),
        0x1234_0000 | u32::from(place),
        u32::from(ttl) << 24 | 17 << 16,
        u32::from(NEAR),
        u32::from(to),
    ];
    let mut sum = Checksum::default();
    sum.add_header(words);
    words[2] |= u32::from(sum.finish());
    [&header_bytes(words)[..], &pattern(payload)].concat()
}

/// Identification, offset in bytes and "more follows" of a packet.
fn place(bytes: &[u8]) -> (u16, usize, bool) {
    let word = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    (word(4), usize::from(word(6) & 0x1fff) * 8, word(6) & 0x2000 != 0)
}

/// Type and code of the ICMP message to the sender, and the packet that it quotes.
fn answer(sent: &[(u8, Frame)]) -> ([u8; 2], &[u8]) {
    let [(0, frame)] = sent else { panic!("{sent:?}") };
    let (ip, message) = frame.bytes.split_at(20);
    assert_eq!((ip[9], &ip[16..20]), (1, &NEAR.octets()[..]));
    assert_eq!(ip[12..16], [192, 0, 2, 254], "from the gateway's own address");
    assert_eq!(checksum(message), 0);
    ([message[0], message[1]], &message[8..])
}

#[test]
fn a_packet_goes_on_with_a_hop_less_to_live() {
    let mut gateway = Gateway::new(1500, 50);
    let original = packet(FAR, 30, 100, 0);
    gateway.receives(original.clone());
    let sent = gateway.sends();
    let [(1, frame)] = sent.as_slice() else { panic!("{sent:?}") };
    assert_eq!(checksum(&frame.bytes[..20]), 0);
    assert_eq!(frame.bytes[8], 29);
    assert_eq!(frame.bytes[12..], original[12..], "addresses and data are the same");
    assert_eq!(frame.bytes[..8], original[..8], "and so are identification and length");
    assert!(frame.mark.is_some(), "the receiver knows whose packet it is");
    assert_eq!(gateway.stack.ip_counts.forwarded, 1);
    assert_eq!(gateway.stack.pool.in_use(), PoolUse::default());
}

#[test]
fn a_packet_that_goes_no_further_is_answered() {
    let answered = |to, ttl| {
        let mut gateway = Gateway::new(1500, 50);
        let original = packet(to, ttl, 40, 0);
        gateway.receives(original.clone());
        let sent = gateway.sends();
        let (kind, quoted) = answer(&sent);
        assert_eq!(quoted, &original[..28], "the header and eight bytes, as they arrived");
        kind
    };
    assert_eq!(answered(FAR, 1), [11, 0], "time exceeded in transit");
    assert_eq!(answered(NOWHERE, 30), [3, 0], "network unreachable");
}

#[test]
fn a_full_queue_quenches_the_source() {
    let mut gateway = Gateway::new(1500, 2);
    for _ in 0..2 {
        gateway.receives(packet(FAR, 30, 40, 0));
        assert_eq!(gateway.queues(), [1]);
    }
    gateway.receives(packet(FAR, 30, 40, 0));
    assert_eq!(answer(&gateway.sends()).0, [4, 0], "source quench");
    let counts = gateway.stack.interface(1).unwrap().counts;
    assert_eq!((counts.out_drops, counts.queue_max), (1, 2));
    let counts = gateway.stack.ip_counts;
    assert_eq!((counts.forwarded, counts.not_forwarded), (2, 1));
}

#[test]
fn neither_later_fragments_nor_messages_of_icmp_are_answered() {
    let mut gateway = Gateway::new(1500, 50);
    gateway.receives(packet(NOWHERE, 30, 40, 5));
    assert_eq!(gateway.queues(), []);
    let mut message = packet(NOWHERE, 30, 40, 0);
    message[9] = 1;
    message[10..12].fill(0);
    let sum = checksum(&message[..20]);
    message[10..12].copy_from_slice(&sum.to_be_bytes());
    gateway.receives(message);
    assert_eq!(gateway.queues(), []);
    assert_eq!(gateway.stack.ip_counts.no_route, 2);
    assert_eq!(gateway.stack.pool.in_use(), PoolUse::default());
}

#[test]
fn a_host_does_not_forward() {
    let mut host = Gateway::new(1500, 50);
    host.stack.config.forwards = false;
    host.meter.begin();
    let frame = Frame::from(packet(FAR, 30, 40, 0));
    host.stack.receive_frame(0, &frame, &mut host.meter);
    while host.stack.ip_input_step(&mut host.meter) {}
    assert_eq!(host.sends().len(), 0);
    assert_eq!((host.stack.ip_counts.not_for_us, host.stack.ip_counts.forwarded), (1, 0));
}

proptest! {
    /// A packet, or a fragment of one, over a line that takes less: its pieces are the whole once, in units of
    /// eight bytes, and only the last piece of a last fragment says that nothing follows.
    #[test]
    fn pieces_are_the_packet_in_its_place(
        mtu in 68u32..1500,
        payload in 1usize..1400,
        units in 0u16..1000,
        has_more: bool,
    ) {
        let mut gateway = Gateway::new(mtu, 50);
        let more = if has_more { 0x2000 } else { 0 };
        gateway.receives(packet(FAR, 9, payload, units | more));
        let sent = gateway.sends();
        let mut next = usize::from(units) * 8;
        let mut data = Vec::new();
        for (number, (interface, frame)) in sent.iter().enumerate() {
            prop_assert_eq!((*interface, checksum(&frame.bytes[..20])), (1, 0));
            prop_assert!(frame.bytes.len() <= mtu as usize);
            let is_last = number + 1 == sent.len();
            prop_assert_eq!(place(&frame.bytes), (0x1234, next, has_more || !is_last));
            prop_assert!(is_last || (frame.bytes.len() - 20) % 8 == 0);
            next += frame.bytes.len() - 20;
            data.extend_from_slice(&frame.bytes[20..]);
        }
        prop_assert_eq!(data, pattern(payload));
        prop_assert_eq!(gateway.stack.pool.in_use(), PoolUse::default());
    }
}
