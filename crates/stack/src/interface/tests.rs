//! Frames sent and received: headers, trailers, pages, limits.

use std::net::Ipv4Addr;

use sockscope_record::Protocol;

use super::*;
use crate::calls::{SendCall, Step};
use crate::effect::Effect;
use crate::mbuf::PoolUse;
use crate::meter::Meter;
use crate::personality::Personality;
use crate::routine::Routine;
use crate::socket::SocketError;
use crate::testing::{ADDRESSES, Pair, pattern};

fn named(personality: &str) -> Personality {
    Personality::by_name(personality).unwrap()
}

/// The frames of one datagram of `len` bytes; the network is not there.
fn frames(pair: &mut Pair, len: usize) -> Vec<Vec<u8>> {
    let client = pair.bound(0, Protocol::Udp, 2000);
    let mut call = SendCall::send_to(client, len, (ADDRESSES[1], 9));
    let step = pair.run_send(0, &mut call, &pattern(len));
    assert_eq!(step, Step::Done(Ok(len as u32)));
    pair.sent.iter().filter(|(host, _)| *host == 0).map(|(_, frame)| frame.clone()).collect()
}

#[test]
fn a_3_mbit_frame_begins_with_host_numbers_and_type() {
    let mut pair = Pair::new(&named("4.2bsd-cabrera"));
    let frame = &frames(&mut pair, 100)[0];
    assert_eq!(frame[..4], [2, 1, 0x08, 0x00]);
    assert_eq!(frame.len(), 4 + 28 + 100);
    assert_eq!(frame[32..], pattern(100));
}

#[test]
fn a_trailer_packet_has_its_data_first_and_its_headers_last() {
    let mut pair = Pair::new(&named("4.2bsd-cabrera"));
    let frame = &frames(&mut pair, 1024)[0];
    // RFC 893: two units of 512 bytes; then type, length of the headers with these four bytes.
    assert_eq!(frame[..4], [2, 1, 0x10, 0x02]);
    assert_eq!(frame[4..1028], pattern(1024));
    assert_eq!(frame[1028..1032], [0x08, 0x00, 0, 32]);
    assert_eq!(frame[1032..1034], [0x45, 0]);
    assert_eq!(frame.len(), 1060);
}

#[test]
fn a_10_mbit_frame_is_plain_and_padded_and_etherparse_reads_it() {
    let mut pair = Pair::ethernet10(&named("tahoe"));
    let frame = &frames(&mut pair, 1)[0];
    assert_eq!(frame.len(), 60);
    let sliced = etherparse::SlicedPacket::from_ethernet(frame).unwrap();
    let Some(etherparse::NetSlice::Ipv4(ip)) = &sliced.net else { panic!("no IPv4") };
    assert_eq!(ip.header().source_addr(), ADDRESSES[0]);
    assert_eq!(ip.header().destination_addr(), ADDRESSES[1]);
    let header = ip.header().to_header();
    assert_eq!(header.header_checksum, header.calc_header_checksum());
    let Some(etherparse::TransportSlice::Udp(udp)) = &sliced.transport else { panic!("no UDP") };
    assert_eq!((udp.source_port(), udp.destination_port(), udp.payload()), (2000, 9, &[0][..]));
    let sum = udp.to_header().calc_checksum_ipv4(&header, udp.payload()).unwrap();
    assert_eq!(udp.checksum(), sum);
}

#[test]
fn only_whole_pages_behind_a_link_header_are_mapped() {
    // Bytes that if_wubaput copies, by message size.
    let copied = |len: usize| {
        let mut costs = crate::cost::Costs::default();
        let cost = crate::cost::Cost { byte_ps: 1000, ..Default::default() };
        costs.set(Routine::IfWubaput, cost);
        let mut pair = Pair::new(&named("4.2bsd-cabrera"));
        pair.hosts[0].meter = Meter::new(costs);
        frames(&mut pair, len);
        (pair.hosts[0].meter.charged_ns(Routine::IfWubaput), pair.calls(0, Routine::MFreem))
    };
    assert_eq!(copied(1), (33, 2), "link, IP and UDP header and the data");
    // The page of a trailer packet is mapped: link header, type and length, headers are copied.
    assert_eq!(copied(1024), (4 + 4 + 28, 3));
    assert_eq!(copied(1025), (4 + 28 + 1025, 2), "behind the headers nothing is aligned");
    // 512 bytes go as a trailer packet, but in small mbufs.
    assert_eq!(copied(512), (4 + 4 + 28 + 512, 2));
}

#[test]
fn pages_are_exchanged_on_input() {
    let copied = |personality: &str, len: usize| {
        let mut costs = crate::cost::Costs::default();
        let cost = crate::cost::Cost { byte_ps: 1000, ..Default::default() };
        costs.set(Routine::IfRubaget, cost);
        let mut pair = Pair::new(&named(personality));
        pair.bound(1, Protocol::Udp, 9);
        pair.hosts[1].meter = Meter::new(costs);
        frames(&mut pair, len);
        pair.hosts[1].meter.charged_ns(Routine::IfRubaget)
    };
    assert_eq!(copied("4.2bsd-cabrera", 1024), 28, "the headers of the trailer");
    assert_eq!(copied("4.2bsd-cabrera", 1025), 29, "the first page holds headers and data");
    assert_eq!(copied("4.2bsd-cabrera", 100), 128);
}

#[test]
fn a_driver_of_sunos_lends_its_buffer_and_gets_it_back() {
    let mut pair = Pair::new(&named("sunos-4.0.3"));
    let server = pair.bound(1, Protocol::Udp, 9);
    let mut made = Vec::new();
    for round in 0..3 {
        pair.is_held = true;
        let client = pair.bound(0, Protocol::Udp, 3000 + round);
        let mut call = SendCall::send_to(client, 1024, (ADDRESSES[1], 9));
        pair.run_send(0, &mut call, &pattern(1024));
        pair.settle();
        let lent = pair.hosts[1].stack.pool.in_use();
        assert_eq!((lent.lent, lent.clusters), (1, 0));
        assert_eq!(pair.read(1, server, 2000), Some(pattern(1024)));
        pair.assert_all_free();
        made.push(pair.hosts[1].stack.pool.made_bytes());
    }
    assert_eq!(made, [made[0]; 3], "the same buffer each time");
}

#[test]
fn trailers_need_the_personality_and_the_interface() {
    for (personality, link_type) in
        [("4.2bsd", 0x1002), ("4.3bsd", 0x1002), ("reno", 0x1002), ("sunos-4.1", 0x0800)]
    {
        let mut pair = Pair::new(&named(personality));
        let frame = &frames(&mut pair, 1024)[0];
        assert_eq!(u16::from_be_bytes([frame[2], frame[3]]), link_type, "{personality}");
    }
    let frame = &frames(&mut Pair::ethernet10(&named("4.3bsd")), 1024)[0];
    assert_eq!(frame[12..14], [0x08, 0x00]);
}

/// A host that sends datagrams that no device takes from its interface queue.
fn fill_queue(limit: usize, datagrams: usize) -> (Pair, Vec<Result<u32, SocketError>>) {
    let interface = InterfaceConfig {
        queue_packets_max: limit,
        ..InterfaceConfig::ethernet10("le0", ADDRESSES[0])
    };
    let config = crate::stack::StackConfig { interfaces: vec![interface], ..Default::default() };
    let mut pair = Pair::of(&named("tahoe"), [config.clone(), config]);
    let id = pair.bound(0, Protocol::Udp, 2000);
    let mut outcomes = Vec::new();
    for _ in 0..datagrams {
        let crate::testing::Host { stack, meter } = &mut pair.hosts[0];
        let mut call = SendCall::send_to(id, 10, (ADDRESSES[1], 9));
        let outcome = loop {
            meter.begin();
            let step = call.step(stack, &pattern(10), meter);
            let mut effects = Vec::new();
            meter.take_effects(&mut effects);
            for (_, effect) in effects {
                if let Effect::Output { interface, packet } = effect {
                    assert!(stack.interface_enqueue(interface, packet, meter));
                }
            }
            if let Step::Done(outcome) = step {
                break outcome;
            }
        };
        outcomes.push(outcome);
    }
    (pair, outcomes)
}

#[test]
fn a_full_interface_queue_refuses_and_frees() {
    let (mut pair, outcomes) = fill_queue(3, 5);
    let full = Err(SocketError::NoBuffers);
    assert_eq!(outcomes, [Ok(10), Ok(10), Ok(10), full, full]);
    let crate::testing::Host { stack, meter } = &mut pair.hosts[0];
    assert_eq!(stack.interface(0).unwrap().counts.out_drops, 2);
    let mut frame = Frame::default();
    for _ in 0..3 {
        assert!(stack.interface_start(0, &mut frame, meter));
        stack.transmit_done(0, meter);
    }
    assert!(!stack.interface_start(0, &mut frame, meter) && frame.bytes.is_empty());
    assert_eq!(stack.pool.in_use(), PoolUse::default());
}

#[test]
fn the_ip_input_queue_holds_fifty_packets() {
    let mut pair = Pair::new(&named("tahoe"));
    let frame = Frame::from(frames(&mut pair, 10)[0].clone());
    let crate::testing::Host { stack, meter } = &mut pair.hosts[1];
    let taken = (0..52).filter(|_| stack.receive_frame(0, &frame, meter)).count();
    assert_eq!((taken, stack.ip_queue.len()), (50, 50));
    assert_eq!(stack.interface(0).unwrap().counts.in_drops, 2);
    let calls = meter.calls(Routine::Ipintr);
    let mut packets = 0;
    while stack.ip_input_step(meter) {
        packets += 1;
    }
    assert_eq!((packets, meter.calls(Routine::Ipintr) - calls), (50, 1), "one loop over the queue");
    meter.take_effects(&mut Vec::new());
}

#[test]
fn loopback_packets_wait_for_the_soft_interrupt() {
    let mut pair = Pair::loopback(&named("tahoe"));
    let server = pair.bound(0, Protocol::Udp, 9);
    let client = pair.bound(0, Protocol::Udp, 2000);
    let mut call = SendCall::send_to(client, 1400, (ADDRESSES[0], 9));
    assert_eq!(pair.run_send(0, &mut call, &pattern(1400)), Step::Done(Ok(1400)));
    assert_eq!(pair.calls(0, Routine::Looutput), 1);
    assert_eq!(pair.read(0, server, 2000), Some(pattern(1400)));
    assert!(pair.sent.is_empty(), "no frame");
    pair.assert_all_free();
}

#[test]
fn frames_that_make_no_sense_are_counted_and_nothing_is_kept() {
    let mut pair = Pair::new(&named("4.2bsd"));
    let good = frames(&mut pair, 1024)[0].clone();
    let crate::testing::Host { stack, meter } = &mut pair.hosts[1];
    let before = stack.interface(0).unwrap().counts.in_errors;
    let mut bad = vec![vec![], good[..3].to_vec(), good[..4].to_vec(), vec![0; 4000]];
    for (at, value) in
        [(2, 0x99), (2, 0x00), (3, 0x03), (3, 0x00), (1028, 0x09), (1030, 0xff), (1031, 2)]
    {
        let mut frame = good.clone();
        frame[at] = value;
        bad.push(frame);
    }
    let count = bad.len() as u64;
    for frame in bad.into_iter().map(Frame::from) {
        let start = &frame.bytes[..frame.bytes.len().min(4)];
        assert!(!stack.receive_frame(0, &frame, meter), "{start:?}");
    }
    assert_eq!(stack.interface(0).unwrap().counts.in_errors - before, count);
    assert!(!stack.receive_frame(7, &good.into(), meter), "no such interface");
    assert_eq!(stack.pool.in_use(), PoolUse::default());
}

#[test]
fn a_host_off_the_network_is_reached_through_its_gateway() {
    let gateway = Ipv4Addr::new(128, 32, 0, 77);
    let mut config = crate::stack::StackConfig {
        interfaces: vec![InterfaceConfig::ethernet10("le0", ADDRESSES[0])],
        ..Default::default()
    };
    config.routes.push(crate::route::Route {
        network: Ipv4Addr::UNSPECIFIED,
        interface: 0,
        gateway: Some(gateway),
    });
    let mut pair = Pair::of(&named("reno"), [config.clone(), config]);
    let client = pair.bound(0, Protocol::Udp, 2000);
    let far = (Ipv4Addr::new(10, 1, 2, 3), 9);
    let mut call = SendCall::send_to(client, 4, far);
    assert_eq!(pair.run_send(0, &mut call, &pattern(4)), Step::Done(Ok(4)));
    let frame = &pair.sent[0].1;
    assert_eq!(frame[..6], [2, 0, 128, 32, 0, 77]);
    assert_eq!(frame[30..34], [10, 1, 2, 3]);
}
