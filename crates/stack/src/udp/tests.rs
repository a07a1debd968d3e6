//! Datagrams between two hosts: the calls of each routine, and the received data.

use super::*;
use crate::calls::{ConnectCall, ReceiveCall, SendCall, Step};
use crate::personality::Personality;
use crate::socket::SetOption;
use crate::testing::{ADDRESSES, Pair, pattern};
use sockscope_record::FlowId;

const DISCARD: Endpoint = (ADDRESSES[1], 9);

fn named(personality: &str) -> Personality {
    Personality::by_name(personality).unwrap()
}

fn send(pair: &mut Pair, id: SocketId, to: Endpoint, len: usize) -> Step {
    let mut call = SendCall::send_to(id, len, to);
    pair.run_send(0, &mut call, &pattern(len))
}

fn receive(pair: &mut Pair, id: SocketId, len: usize) -> Option<(Vec<u8>, Option<Endpoint>)> {
    let mut user = vec![0; len];
    let mut call = ReceiveCall::receive_from(id, len);
    match pair.run_receive(1, &mut call, &mut user) {
        Step::Done(Ok(given)) => {
            user.truncate(given as usize);
            Some((user, call.from()))
        }
        Step::Sleep(_) => None,
        step => panic!("{step:?}"),
    }
}

/// Calls of the sender for each of 100 datagrams of `len` bytes to a port where no socket listens.
fn calls_per_datagram(personality: &Personality, len: usize) -> impl Fn(Routine) -> u64 + use<> {
    let mut pair = Pair::new(personality);
    let id = pair.bound(0, Protocol::Udp, 2000);
    let all = |pair: &Pair| Routine::ALL.iter().map(|r| pair.calls(0, *r)).collect::<Vec<_>>();
    // The first one fills the caches.
    send(&mut pair, id, DISCARD, len);
    let before = all(&pair);
    for _ in 0..100 {
        assert_eq!(send(&mut pair, id, DISCARD, len), Step::Done(Ok(len as u32)));
    }
    let after = all(&pair);
    pair.assert_all_free();
    move |routine| {
        let calls = after[routine.index()] - before[routine.index()];
        assert_eq!(calls % 100, 0, "{routine:?}");
        calls / 100
    }
}

/// Section 2.5 of the facts: one column of the paper's Table 4 per size.
#[test]
fn a_datagram_of_4_2_calls_each_routine_as_often_as_was_measured() {
    use Routine::*;
    for len in [1, 112, 113, 1023, 1024, 1025] {
        let calls = calls_per_datagram(&named("4.2bsd-cabrera"), len);
        let ones = [
            Syscall,
            Sendto,
            Sockargs,
            Getsock,
            Getf,
            Sendit,
            Useracc,
            Sosend,
            UdpUsrreq,
            InPcbconnect,
            InPcblookup,
            IfIfonnetof,
            InPcbdisconnect,
            UdpOutput,
            UdpCksum,
            Rtalloc,
            IpOutput,
            Enoutput,
            Enstart,
            IfWubaput,
            Enxint,
            // The returned ICMP port unreachable.
            Enrint,
            IfRubaget,
            Ipintr,
            IcmpInput,
        ];
        for routine in ones {
            assert_eq!(calls(routine), 1, "{} at {len}", routine.name());
        }
        let uiomove = match len {
            113 | 1025 => 2,
            1023 => 10,
            _ => 1,
        };
        let trailer = u64::from(len == 1024);
        assert_eq!(calls(Uiomove), uiomove, "{len}");
        assert_eq!(calls(InNetof), 4);
        assert_eq!(calls(InLnaof), 3);
        assert_eq!(calls(InCksum), 1 + 2, "one out, two for the ICMP packet");
        assert_eq!(
            calls(MGet),
            2 + trailer,
            "address, headers, and a trailer packet's link header"
        );
        assert_eq!(calls(MFreem), 1 + 1 + trailer, "address, ICMP packet, mapped cluster");
        for routine in [TcpOutput, MCopy, MPullup, Sbappend, TcpUsrreq] {
            assert_eq!(calls(routine), 0, "{}", routine.name());
        }
    }
}

#[test]
fn a_cached_route_saves_the_look_up_and_4_3_uses_it() {
    let calls = calls_per_datagram(&named("4.3bsd"), 100);
    assert_eq!((calls(Routine::Rtalloc), calls(Routine::IfaIfwithdstaddr)), (0, 1));
    let calls = calls_per_datagram(&named("tahoe"), 100);
    assert_eq!((calls(Routine::Rtalloc), calls(Routine::IfaIfwithdstaddr)), (0, 0));
    // The change that was made after the study, as a switch on the measured system.
    let mut changed = named("4.2bsd-cabrera");
    changed.udp.caches_route = true;
    let calls = calls_per_datagram(&changed, 100);
    assert_eq!((calls(Routine::Rtalloc), calls(Routine::InNetof)), (0, 1));
}

#[test]
fn datagrams_arrive_whole_with_their_sender_in_every_personality() {
    for personality in &Personality::ALL {
        for len in [0, 1, 72, 73, 100, 112, 113, 512, 1023, 1024, 1025, 2000] {
            let mut pair = Pair::new(personality);
            let server = pair.bound(1, Protocol::Udp, 9);
            let client = pair.bound(0, Protocol::Udp, 2000);
            assert!(receive(&mut pair, server, 3000).is_none(), "nothing there yet");
            assert_eq!(send(&mut pair, client, DISCARD, len), Step::Done(Ok(len as u32)));
            assert_eq!(pair.woken, [(1, crate::effect::Channel::Readable(server))]);
            let arrived = receive(&mut pair, server, 3000);
            let expected = Some((pattern(len), Some((ADDRESSES[0], 2000))));
            assert_eq!(arrived, expected, "{} {len}", personality.name);
            pair.assert_all_free();
        }
    }
}

#[test]
fn the_rest_of_a_datagram_that_does_not_fit_is_lost() {
    let mut pair = Pair::new(&named("tahoe"));
    let server = pair.bound(1, Protocol::Udp, 9);
    let client = pair.bound(0, Protocol::Udp, 2000);
    for len in [1500, 10] {
        send(&mut pair, client, DISCARD, len);
    }
    assert_eq!(receive(&mut pair, server, 600).unwrap().0, pattern(1500)[..600]);
    assert_eq!(receive(&mut pair, server, 600).unwrap().0, pattern(10));
    pair.assert_all_free();
}

#[test]
fn a_full_buffer_drops_datagrams_in_silence() {
    let mut pair = Pair::new(&named("tahoe"));
    let server = pair.bound(1, Protocol::Udp, 9);
    let client = pair.bound(0, Protocol::Udp, 2000);
    for _ in 0..6 {
        assert_eq!(send(&mut pair, client, DISCARD, 1000), Step::Done(Ok(1000)));
    }
    // 4160 bytes hold four times 1000 data and 16 address bytes.
    assert_eq!(pair.hosts[1].stack.sockets[server].rcv.datagrams(), 4);
    assert_eq!(pair.hosts[1].stack.ip_counts.udp_full, 2);
    let outcomes: Vec<_> = (0..5).map(|_| receive(&mut pair, server, 1000).is_some()).collect();
    assert_eq!(outcomes, [true, true, true, true, false]);
    pair.assert_all_free();
}

#[test]
fn a_connected_socket_hears_that_nobody_listens_since_4_3() {
    for (personality, outcome) in
        [("4.2bsd", Ok(5)), ("tahoe", Err(SocketError::ConnectionRefused))]
    {
        let mut pair = Pair::new(&named(personality));
        let client = pair.socket(0, Protocol::Udp);
        let mut call = ConnectCall::new(client, DISCARD);
        assert_eq!(pair.step(0, |stack, meter| call.step(stack, meter)), Step::Done(Ok(0)));
        let user = pattern(5);
        assert_eq!(pair.write(0, client, &user).1, Step::Done(Ok(5)));
        assert_eq!(pair.write(0, client, &user).1, Step::Done(outcome), "{personality}");
        pair.assert_all_free();
    }
}

#[test]
fn damage_is_seen_where_checksums_are_checked() {
    for (personality, arrives) in [("4.2bsd", true), ("4.3bsd", false), ("reno", false)] {
        let mut pair = Pair::new(&named(personality));
        let server = pair.bound(1, Protocol::Udp, 9);
        let client = pair.bound(0, Protocol::Udp, 2000);
        pair.is_held = true;
        send(&mut pair, client, DISCARD, 40);
        let frame = &mut pair.wire[0].bytes;
        let last = frame.len() - 1;
        frame[last] ^= 0x10;
        pair.settle();
        assert_eq!(receive(&mut pair, server, 100).is_some(), arrives, "{personality}");
        pair.assert_all_free();
    }
}

#[test]
fn a_call_without_a_destination_or_with_one_too_many_fails() {
    let mut pair = Pair::new(&named("tahoe"));
    let client = pair.bound(0, Protocol::Udp, 2000);
    let (_, step) = pair.write(0, client, &[1]);
    assert_eq!(step, Step::Done(Err(SocketError::DestinationRequired)));
    let mut call = ConnectCall::new(client, DISCARD);
    pair.step(0, |stack, meter| call.step(stack, meter));
    assert_eq!(send(&mut pair, client, DISCARD, 1), Step::Done(Err(SocketError::IsConnected)));
    let nowhere = (std::net::Ipv4Addr::new(10, 0, 0, 1), 9);
    let other = pair.bound(0, Protocol::Udp, 2001);
    assert_eq!(
        send(&mut pair, other, nowhere, 1),
        Step::Done(Err(SocketError::NetworkUnreachable))
    );
    pair.assert_all_free();
}

#[test]
fn a_logged_datagram_is_seen_at_the_points_inside_the_hosts() {
    let mut pair = Pair::new(&named("tahoe"));
    let server = pair.bound(1, Protocol::Udp, 9);
    let client = pair.bound(0, Protocol::Udp, 2000);
    let log = SetOption::Log(FlowId(4));
    pair.step(0, |stack, meter| stack.set_option(client, log, meter)).unwrap();
    for len in [300, 200] {
        send(&mut pair, client, DISCARD, len);
        receive(&mut pair, server, 1000);
    }
    let seen: Vec<_> = pair
        .records
        .iter()
        .map(|(host, record)| (*host, record.kind.name(), record.offset, record.len))
        .collect();
    assert_eq!(
        seen,
        [
            (0, "WriteCall", 0, 300),
            (0, "SendEnqueue", 0, 300),
            (0, "SendDequeue", 0, 300),
            (1, "ReceiveEnqueue", 0, 300),
            (0, "WriteReturn", 0, 300),
            (1, "ReceiveDequeue", 0, 300),
            (1, "ReadReturn", 0, 300),
            (0, "WriteCall", 300, 200),
            (0, "SendEnqueue", 300, 200),
            (0, "SendDequeue", 300, 200),
            (1, "ReceiveEnqueue", 300, 200),
            (0, "WriteReturn", 300, 200),
            (1, "ReceiveDequeue", 300, 200),
            (1, "ReadReturn", 300, 200),
        ]
    );
    assert!(pair.records.iter().all(|(_, record)| record.flow == FlowId(4)));
}
