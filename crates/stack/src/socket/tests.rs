//! The life of a socket that needs no protocol to speak of: names, options, errors, end.

use std::net::Ipv4Addr;

use sockscope_record::Protocol::Udp;

use super::layer::Shutdown;
use super::*;
use crate::calls::{AcceptCall, ConnectCall, ReceiveCall, SendCall, Step};
use crate::effect::Channel;
use crate::meter::Meter;
use crate::personality::Personality;
use crate::stack::{Stack, StackConfig};
use crate::testing::{ADDRESSES, Pair};

fn pair(personality: &str) -> Pair {
    Pair::new(&Personality::by_name(personality).unwrap())
}

fn bind(pair: &mut Pair, id: SocketId, local: Endpoint) -> Result<(), SocketError> {
    pair.step(0, |stack, meter| stack.bind(id, local, meter))
}

#[test]
fn a_port_belongs_to_one_socket_unless_both_say_otherwise() {
    let mut pair = pair("tahoe");
    let any = Ipv4Addr::UNSPECIFIED;
    let first = pair.bound(0, Udp, 53);
    let second = pair.socket(0, Udp);
    assert_eq!(bind(&mut pair, second, (any, 53)), Err(SocketError::AddressInUse));
    assert_eq!(bind(&mut pair, second, (ADDRESSES[0], 53)), Err(SocketError::AddressInUse));
    let reuse = SetOption::ReuseAddress(true);
    pair.step(0, |stack, meter| stack.set_option(second, reuse, meter)).unwrap();
    assert_eq!(bind(&mut pair, second, (any, 53)), Err(SocketError::AddressInUse));
    assert_eq!(bind(&mut pair, second, (ADDRESSES[0], 53)), Ok(()));
    assert_eq!(bind(&mut pair, first, (any, 54)), Err(SocketError::Invalid), "bound already");
    let third = pair.socket(0, Udp);
    let elsewhere = (ADDRESSES[1], 55);
    assert_eq!(bind(&mut pair, third, elsewhere), Err(SocketError::AddressNotAvailable));
}

#[test]
fn ports_that_nobody_asked_for_count_up_and_skip_those_in_use() {
    let mut pair = pair("tahoe");
    pair.bound(0, Udp, 1025);
    let ports = [0, 0, 0].map(|port| {
        let id = pair.bound(0, Udp, port);
        pair.hosts[0].stack.sockets[id].local.1
    });
    assert_eq!(ports, [1024, 1026, 1027]);
}

#[test]
fn the_closer_match_gets_the_packet() {
    let mut pair = pair("tahoe");
    let any = pair.bound(0, Udp, 9);
    let own = pair.socket(0, Udp);
    let reuse = SetOption::ReuseAddress(true);
    pair.step(0, |stack, meter| stack.set_option(own, reuse, meter)).unwrap();
    bind(&mut pair, own, (ADDRESSES[0], 9)).unwrap();
    let stack = &pair.hosts[0].stack;
    let find = |local| {
        let foreign = (ADDRESSES[1], 7);
        stack.in_pcblookup(Udp, foreign, local, true, &mut Meter::default())
    };
    assert_eq!(find((ADDRESSES[0], 9)), Some(own));
    assert_eq!(find((Ipv4Addr::new(128, 32, 255, 255), 9)), Some(any));
    assert_eq!(find((ADDRESSES[0], 10)), None);
}

#[test]
fn buffers_can_be_set_since_4_3_up_to_what_full_clusters_need() {
    let outcome = |personality: &str, bytes| {
        let mut pair = pair(personality);
        let id = pair.socket(0, Udp);
        let option = SetOption::ReceiveBuffer(bytes);
        let outcome = pair.step(0, |stack, meter| stack.set_option(id, option, meter));
        let rcv = &pair.hosts[0].stack.sockets[id].rcv;
        outcome.map(|()| (rcv.hiwat(), rcv.mbmax()))
    };
    assert_eq!(outcome("4.2bsd", 4096), Err(SocketError::NotSupported));
    assert_eq!(outcome("4.3bsd", 8192), Ok((8192, 16_384)));
    assert_eq!(outcome("4.3bsd", 52_428), Ok((52_428, 65_535)));
    assert_eq!(outcome("sunos-4.0.3", 52_428), Ok((52_428, 65_536)));
    assert_eq!(outcome("sunos-4.0.3", 52_429), Err(SocketError::NoBuffers));
    assert_eq!(outcome("reno", 58_254), Ok((58_254, 65_536)));
    assert_eq!(outcome("reno", 0), Err(SocketError::NoBuffers));
}

#[test]
fn new_sockets_have_the_buffers_of_their_version() {
    let limits = Personality::ALL.map(|personality| {
        let mut pair = Pair::new(&personality);
        let id = pair.socket(0, Udp);
        let socket = &pair.hosts[0].stack.sockets[id];
        (socket.snd.hiwat(), socket.rcv.hiwat(), socket.snd.lowat())
    });
    let (old, new) = ((2048, 2048, 0), (2048, 4160, 0));
    assert_eq!(limits, [old, old, new, new, (9216, 41_600, 1024), new, new]);
}

#[test]
fn a_closed_socket_is_gone_and_its_number_is_given_out_again() {
    let mut pair = pair("tahoe");
    let id = pair.bound(0, Udp, 9);
    let close = |pair: &mut Pair| pair.step(0, |stack, meter| stack.close(id, meter));
    assert_eq!(close(&mut pair), Ok(()));
    assert_eq!(close(&mut pair), Err(SocketError::BadSocket));
    let mut call = SendCall::write(id, 1);
    assert_eq!(pair.run_send(0, &mut call, &[1]), Step::Done(Err(SocketError::BadSocket)));
    assert_eq!(pair.bound(0, Udp, 9), id);
    pair.assert_all_free();
}

#[test]
fn closing_under_a_reader_ends_its_call() {
    let mut pair = pair("tahoe");
    let id = pair.bound(0, Udp, 9);
    let mut call = ReceiveCall::read(id, 10);
    let step = pair.run_receive(0, &mut call, &mut [0; 10]);
    assert_eq!(step, Step::Sleep(Channel::Readable(id)));
    pair.step(0, |stack, meter| stack.close(id, meter)).unwrap();
    let step = pair.run_receive(0, &mut call, &mut [0; 10]);
    assert_eq!(step, Step::Done(Err(SocketError::BadSocket)));
}

#[test]
fn shutting_down_one_direction_leaves_the_other() {
    let mut pair = pair("tahoe");
    let id = pair.socket(0, Udp);
    let mut call = ConnectCall::new(id, (ADDRESSES[1], 9));
    assert_eq!(pair.step(0, |stack, meter| call.step(stack, meter)), Step::Done(Ok(0)));
    let down = |pair: &mut Pair, how| pair.step(0, |stack, meter| stack.shutdown(id, how, meter));
    down(&mut pair, Shutdown::Receive).unwrap();
    assert_eq!(pair.read(0, id, 10), Some(Vec::new()), "end of input");
    assert_eq!(pair.write(0, id, &[1]).1, Step::Done(Ok(1)));
    down(&mut pair, Shutdown::Send).unwrap();
    let refused = Step::Done(Err(SocketError::Pipe));
    let last = pair.write(0, id, &[1]).1;
    // The peer has no such port, so the first result may be an error.
    let heard = Step::Done(Err(SocketError::ConnectionRefused));
    assert!([refused, heard].contains(&last), "{last:?}");
    assert_eq!(pair.write(0, id, &[1]).1, refused);
}

#[test]
fn calls_that_a_datagram_socket_does_not_offer_fail() {
    let mut pair = pair("tahoe");
    let id = pair.bound(0, Udp, 9);
    let listen = pair.step(0, |stack, meter| stack.listen(id, 5, meter));
    assert_eq!(listen, Err(SocketError::NotSupported));
    let mut call = AcceptCall::new(id);
    let accept = pair.step(0, |stack, meter| call.step(stack, meter));
    assert_eq!(accept, Step::Done(Err(SocketError::Invalid)));
}

#[test]
fn a_socket_that_does_not_block_says_that_it_would() {
    let mut pair = pair("tahoe");
    let id = pair.bound(0, Udp, 9);
    let option = SetOption::NonBlocking(true);
    pair.step(0, |stack, meter| stack.set_option(id, option, meter)).unwrap();
    let mut call = ReceiveCall::read(id, 10);
    let step = pair.run_receive(0, &mut call, &mut [0; 10]);
    assert_eq!(step, Step::Done(Err(SocketError::WouldBlock)));
}

#[test]
fn a_buffer_shorter_than_the_call_says_is_refused() {
    let mut pair = pair("tahoe");
    let id = pair.bound(0, Udp, 9);
    let mut send = SendCall::send_to(id, 10, (ADDRESSES[1], 9));
    assert_eq!(pair.run_send(0, &mut send, &[0; 9]), Step::Done(Err(SocketError::Invalid)));
    let mut read = ReceiveCall::read(id, 10);
    let step = pair.run_receive(0, &mut read, &mut [0; 9]);
    assert_eq!(step, Step::Done(Err(SocketError::Invalid)));
    pair.assert_all_free();
}

#[test]
fn a_host_without_interfaces_reaches_nobody() {
    let personality = Personality::by_name("tahoe").unwrap();
    let mut stack = Stack::new(personality, StackConfig::default());
    let mut meter = Meter::default();
    let id = stack.socket(Udp, &mut meter).unwrap();
    let mut call = ConnectCall::new(id, (ADDRESSES[1], 9));
    let step = call.step(&mut stack, &mut meter);
    assert_eq!(step, Step::Done(Err(SocketError::AddressNotAvailable)));
}
