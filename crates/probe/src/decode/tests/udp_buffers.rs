//! Datagram sockets: events of them in, records of buffers and options out.

use sockscope_record::{InterfacePart, Kind, Record};

use super::{CONNECTION, Decoder, Fields, assert_lines, empty, feed, open, reported};
use crate::layout::{RawEvent, RawOption, constants as raw};

const SO_SNDBUF: u32 = 7;
const SO_RCVBUF: u32 = 8;
const SO_RCVLOWAT: u32 = 18;

/// Connections 1 and 2, of datagrams.
fn two_peers() -> Decoder {
    let mut decoder = empty();
    for connection in [CONNECTION, CONNECTION + 1] {
        decoder.event(&RawEvent { connection, ..open(1, 17) });
    }
    decoder
}

/// A socket that sends `flow`; hits have its `number` once it received datagrams.
fn socket(at_ns: u64, flow: u32, number: u32) -> RawEvent {
    RawEvent {
        at_ns,
        kind: u32::from(raw::EVENT_SOCKET),
        connection: flow / 2,
        flow,
        number,
        protocol: 17,
        sndbuf: 4_608,
        rcvbuf: 16_384,
        userlocks: 2,
        ..RawEvent::default()
    }
}

/// The socket that sends `flow` was asked to have an option.
fn asked(at_ns: u64, flow: u32, option: u32, value: u32) -> RawOption {
    RawOption { at_ns, flow, level: 1, option, value, ..RawOption::default() }
}

/// IP took a datagram of `flow`, and it is in the queue of the socket with this number.
fn came(decoder: &mut Decoder, at_ns: u64, flow: u32, number: u32) {
    let hit = Fields { at_ns, flow, len: 100, marks: raw::MARK_UDP, ..Fields::default() };
    decoder.raw(0, &Fields { kind: raw::RAW_RECEIVE, ..hit }.raw());
    decoder.raw(0, &Fields { kind: raw::RAW_READY, socket: number, ..hit }.raw());
}

/// The records about sockets since the last call.
fn known(decoder: &mut Decoder) -> Vec<String> {
    let text = |record: Record| {
        let Record { at_ns, flow, detail, extra, code, .. } = record;
        let (low, high) = (detail as u32, detail >> 32);
        match record.kind {
            Kind::SocketBuffers => {
                Some(format!("{at_ns} flow {}: send {low} receive {high} set {code}", flow.0))
            }
            Kind::SocketOption => {
                let option = extra & 0xffff;
                Some(format!("{at_ns} flow {}: option {option} asked {low} got {high}", flow.0))
            }
            _ => None,
        }
    };
    reported(decoder).drain(..).filter_map(text).collect()
}

#[test]
fn a_flow_has_the_interface_by_which_it_leaves() {
    let mut name = [0; 16];
    name[..15].copy_from_slice(b"veth0123456789a");
    let mut discipline = [0; 16];
    discipline[..3].copy_from_slice(b"tbf");
    let event = |connection| RawEvent {
        at_ns: 9,
        kind: u32::from(raw::EVENT_INTERFACE),
        connection,
        flow: connection * 2 + 1,
        netns: 4_026_532_345,
        number: 7,
        comm: name.map(|octet: u8| octet as _),
        client_addr: discipline,
        ..RawEvent::default()
    };
    let mut decoder = two_peers();
    decoder.event(&event(CONNECTION));
    decoder.event(&event(CONNECTION + 5));
    let records: Vec<Record> = reported(&mut decoder).drain(..).collect();
    let place = InterfacePart::Place { index: 7, namespace: 4_026_532_345 };
    let expected = [InterfacePart::Device(name), InterfacePart::Discipline(discipline), place];
    let parts: Vec<_> = records.iter().filter_map(Record::interface).collect();
    assert_eq!(parts, expected);
    assert!(records.iter().all(|it| (it.at_ns, it.flow.0) == (9, CONNECTION * 2 + 1)));
}

#[test]
fn a_socket_has_its_buffers_when_it_first_sends_to_a_peer() {
    let mut decoder = two_peers();
    decoder.event(&socket(5, 2, 0));
    decoder.event(&socket(9, 4, 0));
    let expected =
        "5 flow 2: send 4608 receive 16384 set 2\n9 flow 4: send 4608 receive 16384 set 2";
    assert_lines(&known(&mut decoder), expected);
}

#[test]
fn a_socket_that_many_send_to_has_its_buffers_with_each_of_them() {
    let mut decoder = two_peers();
    decoder.event(&socket(5, 3, 7));
    came(&mut decoder, 6, 2, 7);
    came(&mut decoder, 8, 4, 7);
    came(&mut decoder, 9, 4, 7);
    let expected =
        "6 flow 3: send 4608 receive 16384 set 2\n8 flow 5: send 4608 receive 16384 set 2";
    assert_lines(&known(&mut decoder), expected);
}

#[test]
fn another_socket_at_the_same_port_has_its_own_buffers() {
    let mut decoder = two_peers();
    decoder.event(&socket(5, 3, 7));
    came(&mut decoder, 6, 2, 7);
    decoder.event(&RawEvent { rcvbuf: 9_000, ..socket(7, 3, 8) });
    came(&mut decoder, 8, 2, 8);
    let expected =
        "6 flow 3: send 4608 receive 16384 set 2\n8 flow 3: send 4608 receive 9000 set 2";
    assert_lines(&known(&mut decoder), expected);
}

#[test]
fn what_was_asked_for_has_what_was_granted_where_that_is_known() {
    let mut decoder = two_peers();
    decoder.option(&RawOption { rcvbuf: 16_384, ..asked(2, 2, SO_RCVBUF, 8_192) });
    decoder.option(&RawOption { sndbuf: 140_000, ..asked(3, 4, SO_SNDBUF, 70_000) });
    decoder.option(&asked(7, 2, SO_RCVBUF, 9_000));
    let expected = "2 flow 2: option 8 asked 8192 got 16384
         3 flow 4: option 7 asked 70000 got 140000
         7 flow 2: option 8 asked 9000 got 0";
    assert_lines(&known(&mut decoder), expected);
}

#[test]
fn a_size_asked_for_after_the_first_datagram_shows_with_a_later_one() {
    let mut decoder = two_peers();
    decoder.event(&RawEvent { userlocks: 0, rcvbuf: 212_992, ..socket(5, 3, 7) });
    came(&mut decoder, 6, 2, 7);
    decoder.option(&asked(7, 3, SO_RCVBUF, 8_192));
    decoder.event(&socket(8, 3, 7));
    came(&mut decoder, 9, 2, 7);
    let expected = "6 flow 3: send 4608 receive 212992 set 0
         7 flow 3: option 8 asked 8192 got 0
         8 flow 3: send 4608 receive 16384 set 2";
    assert_lines(&known(&mut decoder), expected);
}

#[test]
fn a_low_mark_means_nothing_to_a_datagram_socket() {
    let mut decoder = two_peers();
    decoder.option(&asked(2, 2, SO_RCVLOWAT, 200));
    decoder.event(&socket(5, 2, 0));
    decoder.option(&asked(7, 2, SO_RCVLOWAT, 300));
    assert_lines(&known(&mut decoder), "5 flow 2: send 4608 receive 16384 set 2");
}

#[test]
fn a_socket_of_a_connection_that_was_never_announced_is_left_out() {
    let mut decoder = empty();
    decoder.event(&socket(5, 2, 0));
    decoder.event(&socket(5, 3, 7));
    feed(&mut decoder, "6 receive +100 udp | 6 ready +100 socket=7 udp");
    assert_lines(&known(&mut decoder), "");
}

#[test]
fn a_socket_that_is_told_again_takes_the_place_of_no_other() {
    const SOCKETS: u32 = 65_536;
    let mut decoder = two_peers();
    for number in 1..=SOCKETS {
        decoder.event(&socket(5, 2, number));
    }
    decoder.event(&socket(6, 2, SOCKETS));
    known(&mut decoder);
    came(&mut decoder, 10, 5, 1);
    assert_lines(&known(&mut decoder), "10 flow 4: send 4608 receive 16384 set 2");
}
