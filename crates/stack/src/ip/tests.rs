//! Packets in fragments, with options, damaged, or for another host.

use std::net::Ipv4Addr;

use proptest::prelude::*;
use sockscope_record::Protocol;

use crate::calls::{ConnectCall, SendCall, Step};
use crate::checksum::checksum;
use crate::interface::{Frame, InterfaceConfig};
use crate::mbuf::PoolUse;
use crate::personality::Personality;
use crate::routine::Routine;
use crate::socket::{SetOption, SocketError, SocketId};
use crate::stack::StackConfig;
use crate::testing::{ADDRESSES, Host, Pair, pattern};

fn named(personality: &str) -> Personality {
    Personality::by_name(personality).unwrap()
}

/// Two hosts on a line with this MTU; datagrams of 9000 bytes fit their sockets.
fn line(personality: &str, mtu: u32) -> (Pair, SocketId, SocketId) {
    let config = |address| StackConfig {
        interfaces: vec![InterfaceConfig::point_to_point("sl0", address, mtu)],
        ..StackConfig::default()
    };
    let mut pair = Pair::of(&named(personality), ADDRESSES.map(config));
    let server = pair.bound(1, Protocol::Udp, 9);
    let client = pair.bound(0, Protocol::Udp, 2000);
    for (host, id) in [(0, client), (1, server)] {
        pair.hosts[host].stack.reserve(id, 16_000, 32_000).unwrap();
    }
    (pair, client, server)
}

fn send(pair: &mut Pair, id: SocketId, len: usize) {
    let mut call = SendCall::send_to(id, len, (ADDRESSES[1], 9));
    assert_eq!(pair.run_send(0, &mut call, &pattern(len)), Step::Done(Ok(len as u32)));
}

/// Offset in bytes, length and "more follows" of each fragment sent.
fn fragments(pair: &Pair) -> Vec<(usize, usize, bool)> {
    let headers = pair.sent.iter().map(|(_, packet)| {
        assert_eq!(checksum(&packet[..20]), 0, "each has its own checksum");
        let place = u16::from_be_bytes([packet[6], packet[7]]);
        (usize::from(place & 0x1fff) * 8, packet.len() - 20, place & 0x2000 != 0)
    });
    headers.collect()
}

#[test]
fn a_datagram_beyond_the_mtu_goes_in_pieces_of_whole_units() {
    let (mut pair, client, server) = line("tahoe", 576);
    let copies = pair.calls(0, Routine::MCopy);
    send(&mut pair, client, 1200);
    // 1208 bytes behind the IP header; 556 rounded down to 552 in each.
    assert_eq!(fragments(&pair), [(0, 552, true), (552, 552, true), (1104, 104, false)]);
    assert_eq!(pair.calls(0, Routine::MCopy) - copies, 3);
    assert_eq!(pair.read(1, server, 9000), Some(pattern(1200)));
    pair.assert_all_free();
}

#[test]
fn fragments_in_any_order_twice_over_give_the_datagram_once() {
    let (mut pair, client, server) = line("reno", 296);
    pair.is_held = true;
    send(&mut pair, client, 1500);
    let mut late: Vec<_> = pair.wire.drain(..).collect();
    late.reverse();
    let again: Vec<_> = late[1..3].iter().map(|flight| flight.bytes.clone()).collect();
    for bytes in again {
        let mark = None;
        pair.wire.push_back(crate::testing::Flight { to: 1, bytes, mark });
    }
    pair.wire.extend(late);
    pair.settle();
    assert_eq!(pair.read(1, server, 9000), Some(pattern(1500)));
    assert_eq!(pair.read(1, server, 9000), None);
    assert_eq!(pair.hosts[1].stack.ip_counts.fragments_dropped, 2);
    pair.assert_all_free();
}

#[test]
fn a_packet_whose_fragment_is_lost_goes_when_its_time_is_up() {
    for (personality, calls) in [("4.2bsd", 15), ("tahoe", 60)] {
        let (mut pair, client, server) = line(personality, 576);
        pair.lost = vec![1];
        send(&mut pair, client, 1200);
        assert_eq!(pair.read(1, server, 9000), None);
        for _ in 1..calls {
            pair.slowtimo();
        }
        assert!(pair.hosts[1].stack.pool.in_use().mbufs > 0, "{personality}");
        pair.slowtimo();
        assert_eq!(pair.hosts[1].stack.ip_counts.fragments_dropped, 2);
        pair.assert_all_free();
    }
}

#[test]
fn many_packets_that_never_become_whole_cannot_fill_the_pool() {
    let (mut pair, client, _) = line("tahoe", 576);
    for _ in 0..100 {
        pair.lost = vec![pair.sent.len()];
        send(&mut pair, client, 800);
    }
    assert!(pair.hosts[1].stack.pool.in_use().mbufs <= 16 * 6, "sixteen packets at most");
    assert_eq!(pair.hosts[1].stack.ip_counts.fragments_dropped, 84);
}

#[test]
fn the_mark_of_a_fragmented_datagram_covers_each_byte_once() {
    let (mut pair, client, server) = line("tahoe", 576);
    let log = SetOption::Log(sockscope_record::FlowId(2));
    pair.step(0, |stack, meter| stack.set_option(client, log, meter)).unwrap();
    pair.is_held = true;
    send(&mut pair, client, 1200);
    let marks: Vec<_> = pair.wire.iter().map(|flight| flight.mark.unwrap()).collect();
    let parts: Vec<_> = marks.iter().map(|mark| (mark.offset, mark.len)).collect();
    assert_eq!(parts, [(0, 544), (544, 552), (1096, 104)]);
    pair.settle();
    pair.read(1, server, 9000);
    let entered = pair.records.iter().find(|(_, r)| r.kind.name() == "ReceiveEnqueue").unwrap().1;
    assert_eq!((entered.offset, entered.len), (0, 1200));
}

#[test]
fn a_broadcast_is_not_fragmented() {
    let (mut pair, client, server) = line("tahoe", 576);
    let all = (Ipv4Addr::new(128, 32, 255, 255), 9);
    let outcome = |pair: &mut Pair, len| {
        let mut call = SendCall::send_to(client, len, all);
        pair.run_send(0, &mut call, &pattern(len))
    };
    assert_eq!(outcome(&mut pair, 600), Step::Done(Err(SocketError::MessageSize)));
    assert_eq!(outcome(&mut pair, 100), Step::Done(Ok(100)));
    assert_eq!(pair.read(1, server, 9000), Some(pattern(100)));
    pair.assert_all_free();
}

/// The fate of one datagram of 40 bytes whose IP packet is changed in transit.
fn changed(change: impl FnOnce(&mut Vec<u8>)) -> (Pair, Option<Vec<u8>>) {
    let (mut pair, client, server) = line("tahoe", 576);
    pair.is_held = true;
    send(&mut pair, client, 40);
    change(&mut pair.wire[0].bytes);
    pair.settle();
    let arrived = pair.read(1, server, 9000);
    pair.assert_all_free();
    (pair, arrived)
}

fn sum_again(packet: &mut [u8]) {
    let header = usize::from(packet[0] & 15) * 4;
    packet[10..12].fill(0);
    let sum = checksum(&packet[..header]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
}

#[test]
fn a_damaged_or_foreign_header_stops_a_packet() {
    let (pair, arrived) = changed(|packet| packet[8] ^= 1);
    assert_eq!((pair.hosts[1].stack.ip_counts.bad_checksums, arrived), (1, None));
    let (pair, arrived) = changed(|packet| packet[0] = 0x65);
    assert_eq!((pair.hosts[1].stack.ip_counts.bad_headers, arrived), (1, None));
    let (pair, arrived) = changed(|packet| packet.truncate(50));
    assert_eq!((pair.hosts[1].stack.ip_counts.too_short, arrived), (1, None));
    let (pair, arrived) = changed(|packet| {
        packet[19] = 99;
        sum_again(packet);
    });
    assert_eq!((pair.hosts[1].stack.ip_counts.not_for_us, arrived), (1, None));
    let (pair, arrived) = changed(|packet| {
        packet[9] = 89;
        sum_again(packet);
    });
    assert_eq!((pair.hosts[1].stack.ip_counts.no_protocol, arrived), (1, None));
}

#[test]
fn what_a_link_appends_is_cut_and_options_are_taken_off() {
    let (_, arrived) = changed(|packet| packet.extend([0xaa; 9]));
    assert_eq!(arrived, Some(pattern(40)));
    let (_, arrived) = changed(|packet| {
        // Three "no operation" and "end of list" (RFC 791 §3.1).
        packet.splice(20..20, [1, 1, 1, 0]);
        packet[0] = 0x46;
        packet[3] += 4;
        sum_again(packet);
    });
    assert_eq!(arrived, Some(pattern(40)));
}

#[test]
fn a_logged_packet_says_so_in_its_type_of_service_on_sunos_4_0_3() {
    for (personality, tos) in [("sunos-4.0.3", 1), ("sunos-4.1", 0), ("tahoe", 0)] {
        let (mut pair, client, _) = line(personality, 576);
        send(&mut pair, client, 10);
        let log = SetOption::Log(sockscope_record::FlowId(2));
        pair.step(0, |stack, meter| stack.set_option(client, log, meter)).unwrap();
        send(&mut pair, client, 10);
        assert_eq!([pair.sent[0].1[1], pair.sent[1].1[1]], [0, tos], "{personality}");
    }
}

proptest! {
    #[test]
    fn fragments_in_any_order_are_put_together(
        len in 1usize..6000,
        mtu in 68u32..1500,
        which in 0usize..7,
        order in any::<u64>(),
    ) {
        // An interface queue takes fifty fragments.
        let mtu = mtu.max(len as u32 / 40 + 68);
        let (mut pair, client, server) = line(Personality::ALL[which].name, mtu);
        pair.is_held = true;
        send(&mut pair, client, len);
        let mut state = order;
        let mut flights: Vec<_> = pair.wire.drain(..).collect();
        while !flights.is_empty() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            pair.wire.push_back(flights.swap_remove((state >> 33) as usize % flights.len()));
        }
        pair.settle();
        prop_assert_eq!(pair.read(1, server, 9000), Some(pattern(len)));
        pair.assert_all_free();
    }

    #[test]
    fn no_bytes_at_all_can_harm_a_host(
        frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..20),
        which in 0usize..7,
        is_plausible in any::<bool>(),
    ) {
        let config = StackConfig {
            interfaces: vec![InterfaceConfig::point_to_point("sl0", ADDRESSES[0], 1500)],
            answers_unreachable: true,
            ..StackConfig::default()
        };
        let personality = Personality::ALL[which].clone();
        let mut pair = Pair::of(&personality, [config.clone(), config]);
        let Host { stack, meter } = &mut pair.hosts[0];
        for mut frame in frames {
            if is_plausible && frame.len() >= 20 {
                let len = frame.len() as u16;
                frame[0] = 0x45;
                frame[2..4].copy_from_slice(&len.to_be_bytes());
                frame[9] = [1, 6, 17][usize::from(frame[9]) % 3];
                frame[16..20].copy_from_slice(&ADDRESSES[0].octets());
                sum_again(&mut frame);
            }
            meter.begin();
            stack.receive_frame(0, &frame.into(), meter);
            while stack.ip_input_step(meter) {}
            let mut effects = Vec::new();
            meter.take_effects(&mut effects);
            for (_, effect) in effects {
                if let crate::effect::Effect::Output { interface, packet } = effect {
                    stack.interface_enqueue(interface, packet, meter);
                    stack.interface_start(interface, &mut Frame::default(), meter);
                    stack.transmit_done(interface, meter);
                }
            }
        }
        for _ in 0..61 {
            stack.slowtimo(meter);
        }
        meter.take_effects(&mut Vec::new());
        prop_assert_eq!(stack.pool.in_use(), PoolUse::default());
    }
}

/// An ICMP message of host 1 to host 0, with a checksum.
fn icmp(pair: &mut Pair, message: &[u8]) {
    let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 1, 0, 0];
    packet.extend(ADDRESSES[1].octets());
    packet.extend(ADDRESSES[0].octets());
    packet.extend(message);
    let len = packet.len() as u16;
    packet[2..4].copy_from_slice(&len.to_be_bytes());
    let sum = checksum(&packet[20..]);
    packet[22..24].copy_from_slice(&sum.to_be_bytes());
    let sum = checksum(&packet[..20]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    pair.wire.push_back(crate::testing::Flight { to: 0, bytes: packet, mark: None });
    pair.settle();
}

#[test]
fn an_echo_comes_back_as_it_is() {
    for (personality, bytes) in [("4.2bsd", 56), ("reno", 0), ("sunos-4.1", 1_400), ("tahoe", 57)] {
        let (mut pair, _, _) = line(personality, 1_500);
        let data = pattern(bytes);
        icmp(&mut pair, &[&[8, 0, 0, 0, 0x12, 0x34, 0, 7], &data[..]].concat());
        let (host, packet) = pair.sent.last().unwrap();
        assert_eq!(
            (*host, checksum(&packet[..20]), checksum(&packet[20..])),
            (0, 0, 0),
            "{personality}"
        );
        assert_eq!(packet[12..20], [ADDRESSES[0].octets(), ADDRESSES[1].octets()].concat());
        assert_eq!((&packet[20..22], &packet[24..28]), (&[0, 0][..], &[0x12, 0x34, 0, 7][..]));
        assert_eq!(packet[28..], data);
        pair.assert_all_free();
    }
}

#[test]
fn an_echo_that_is_damaged_or_short_is_not_answered() {
    let (mut pair, _, _) = line("tahoe", 1_500);
    icmp(&mut pair, &[8, 0, 0, 0]);
    icmp(&mut pair, &[8, 0, 0, 0, 1, 2, 3, 4]);
    let answered = pair.sent.len();
    assert_eq!((answered, pair.hosts[0].stack.ip_counts.icmp_bad), (1, 1));
    pair.assert_all_free();
}

/// Two connections of host 0 to host 1; ICMP reports for a segment of the first one that its host cannot be reached,
/// and then quenches. The result of the next call on each, and their congestion windows.
fn complained_of(personality: &str) -> [String; 2] {
    let (mut pair, _, _) = line(personality, 1_500);
    let listener = pair.bound(1, Protocol::Tcp, 80);
    pair.step(1, |stack, meter| stack.listen(listener, 5, meter)).unwrap();
    let clients = [(); 2].map(|()| {
        let client = pair.socket(0, Protocol::Tcp);
        let mut call = ConnectCall::new(client, (ADDRESSES[1], 80));
        pair.step(0, |stack, meter| call.step(stack, meter));
        client
    });
    let port = pair.hosts[0].stack.sockets.find(clients[0]).unwrap().local.1.to_be_bytes();
    let mut quoted = vec![0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0];
    quoted.extend(ADDRESSES.map(|address| address.octets()).concat());
    quoted.extend([port[0], port[1], 0, 80, 0, 0, 0, 0]);
    let window = |pair: &Pair, id| {
        let socket = pair.hosts[0].stack.sockets.find(id).unwrap();
        socket.tcb.as_ref().map(|tcb| tcb.congestion().0)
    };
    let before = clients.map(|id| window(&pair, id));
    icmp(&mut pair, &[&[4, 0, 0, 0, 0, 0, 0, 0], &quoted[..]].concat());
    let after = clients.map(|id| window(&pair, id));
    icmp(&mut pair, &[&[3, 1, 0, 0, 0, 0, 0, 0], &quoted[..]].concat());
    [0, 1].map(|index| {
        let id = clients[index];
        let error = pair.hosts[0].stack.sockets.find_mut(id).unwrap().error.take();
        let state = match window(&pair, id) {
            None => "gone",
            Some(_) if after[index] < before[index] => "quenched",
            Some(_) => "as before",
        };
        format!("{state} {error:?}")
    })
}

#[test]
fn each_version_has_its_own_idea_of_whom_an_icmp_message_concerns() {
    let both = |text: &str| [text.to_owned(), text.to_owned()];
    assert_eq!(complained_of("4.2bsd"), both("gone Some(HostUnreachable)"));
    assert_eq!(complained_of("4.3bsd"), both("quenched Some(HostUnreachable)"));
    assert_eq!(complained_of("tahoe"), both("quenched Some(HostUnreachable)"));
    let [one, other] = complained_of("reno");
    assert!(one.ends_with("Some(HostUnreachable)") && other == "as before None", "{one}, {other}");
}

#[test]
fn a_port_that_is_unreachable_ends_a_call_to_connect() {
    let (mut pair, _, _) = line("4.3bsd", 1_500);
    pair.is_held = true;
    let client = pair.socket(0, Protocol::Tcp);
    let mut call = ConnectCall::new(client, (ADDRESSES[1], 80));
    pair.step(0, |stack, meter| call.step(stack, meter));
    let syn = pair.wire.pop_front().unwrap().bytes;
    icmp(&mut pair, &[&[3, 3, 0, 0, 0, 0, 0, 0], &syn[..28]].concat());
    let outcome = pair.step(0, |stack, meter| call.step(stack, meter));
    assert_eq!(outcome, Step::Done(Err(SocketError::ConnectionRefused)));
}
