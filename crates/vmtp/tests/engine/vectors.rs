//! The packets of `vectors/`, octet by octet: read, and written again from the fields.

use serde::Deserialize;
use sockscope_vmtp::wire::{
    BLOCK_BYTES, Checksum, Code, Control, Entity, GROUP_BYTES, Group, Header, Kind, MANAGER_GROUP,
    Notice, NoticeTo, Packet, code, emit, operation,
};

#[derive(Deserialize)]
struct File {
    packet: Vec<Vector>,
}

#[derive(Deserialize)]
struct Vector {
    name: String,
    octets: usize,
    hex: String,
}

const CLIENT: Entity = Entity(0x0000_63f9_2408_0031);
const SERVER: Entity = Entity(0x0000_004d_2408_004d);

fn octets(hex: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal");
    (0..hex.len()).step_by(2).map(digit).collect()
}

fn vectors() -> Vec<(String, Vec<u8>)> {
    let file: File = toml::from_str(include_str!("../vectors/packets.toml")).expect("TOML");
    let vector = |vector: Vector| {
        let octets = octets(&vector.hex);
        assert_eq!(octets.len(), vector.octets, "{}", vector.name);
        (vector.name, octets)
    };
    file.packet.into_iter().map(vector).collect()
}

fn vector(name: &str) -> Vec<u8> {
    vectors().into_iter().find(|(known, _)| known == name).expect("a vector of this name").1
}

fn emitted(header: &Header, data: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    emit(header, [data], Checksum::Computed, &mut packet);
    packet
}

/// `request_min`.
fn request(transaction: u32) -> Header {
    let mut header =
        Header { code: Code::new(0x42), ..Header::request(CLIENT, SERVER, transaction) };
    header.put(8, b"HELLO VMTP!!");
    header
}

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at / 512 * 16 + at % 256) as u8).collect()
}

#[test]
fn every_packet_is_read_and_written_again() {
    for (name, octets) in vectors() {
        let packet = Packet::new(&octets).unwrap_or_else(|error| panic!("{name}: {error}"));
        let protect = if octets.ends_with(&[0; 4]) { Checksum::None } else { Checksum::Computed };
        let mut written = Vec::new();
        emit(&packet.header(), [packet.data()], protect, &mut written);
        assert_eq!(written, octets, "{name}");
    }
}

#[test]
fn packets_are_made_from_their_fields() {
    let header = request(0x0102_0304);
    assert_eq!(emitted(&header, &[]), vector("request_min"));
    let again = Control { acknowledge: true, retransmit_count: 1, ..Control::default() };
    assert_eq!(emitted(&Header { control: again, ..header }, &[]), vector("request_apg_rtx1"));
    let mut response = Header {
        control: Control { kind: Kind::Response, ..Control::default() },
        code: Code::new(code::OK),
        ..header
    };
    response.put(0, b"ABCDEFGHIJKLMNOPQRST");
    assert_eq!(emitted(&response, &[]), vector("response_min"));
}

#[test]
fn a_segment_is_padded_and_the_header_alone_may_be_protected() {
    let with_segment = |transaction, bytes| {
        let mut header = Header { delivery: 1, ..request(transaction) };
        header.set_segment_size(bytes);
        header
    };
    let data: Vec<u8> = (0..13).map(|at| at * 7 + 3).collect();
    assert_eq!(emitted(&with_segment(0x10, 13), &data), vector("request_seg13"));
    let block: Vec<u8> = (0..512).map(|at| at as u8).collect();
    let header = with_segment(0x11, 512);
    assert_eq!(emitted(&header, &block), vector("request_seg512"));
    let header = Header { header_checksum_only: true, ..header };
    assert_eq!(emitted(&header, &block), vector("request_seg512_hco"));
}

#[test]
fn the_sixteen_packets_of_a_whole_group() {
    let segment = pattern(GROUP_BYTES);
    let group = Group::of(segment.len(), 0);
    for line in include_str!("../vectors/group16k.csv").lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let hex = |text: &str| u32::from_str_radix(text, 16).expect("hexadecimal");
        let number: usize = fields[0].parse().expect("a number");
        let mut header = Header { delivery: hex(fields[1]), ..request(0x12) };
        header.set_segment_size(GROUP_BYTES as u32);
        let mut packet = Vec::new();
        let data = group.blocks(header.delivery).map(|block| &segment[block]);
        emit(&header, data, Checksum::Computed, &mut packet);
        assert_eq!(packet.len(), 68 + 2 * BLOCK_BYTES);
        assert_eq!(packet[packet.len() - 4..], hex(fields[3]).to_be_bytes(), "packet {number}");
        if let 0 | 1 | 15 = number {
            assert_eq!(packet, vector(&format!("request_16k_pkt{number}")));
        }
    }
}

#[test]
fn notices_are_datagrams_to_the_other_module() {
    let to_client = Notice {
        to: NoticeTo::Client,
        client: CLIENT,
        server: SERVER,
        transaction: 0x12,
        delivery: 0x0000_ff0f,
        code: code::RETRY,
        control: Control { kind: Kind::Response, ..Control::default() },
    };
    let to_server =
        Notice { to: NoticeTo::Server, delivery: 3, control: Control::default(), ..to_client };
    let busy = Notice {
        delivery: u32::MAX,
        code: code::OK,
        control: Control { acknowledge: true, retransmit_count: 1, ..to_client.control },
        ..to_client
    };
    let done = Notice { delivery: u32::MAX, code: code::OK, ..to_server };
    for (notice, number, name) in [
        (to_client, 0x0700_0000, "notify_client_retry"),
        (busy, 0x0701_0000, "notify_client_ok"),
        (to_server, 0x13, "notify_server_retry"),
        (done, 0x14, "notify_server_ok"),
    ] {
        let expected = vector(name);
        let read = Packet::new(&expected).expect("a packet").header();
        assert_eq!(Notice::decode(&read), Some(notice), "{name}");
        let number = if number > 0xffff { read.transaction } else { number };
        assert_eq!(emitted(&notice.header(number, 1), &[]), expected, "{name}");
    }
}

#[test]
fn probe_and_group_request() {
    let probe = Packet::new(&vector("probe_request")).expect("a packet").header();
    assert_eq!((probe.server, probe.code.value), (MANAGER_GROUP, operation::PROBE_ENTITY));
    assert_eq!((probe.entity(0), probe.entity(8), probe.multicast), (SERVER, SERVER, true));
    let group = Packet::new(&vector("group_request")).expect("a packet").header();
    assert!(group.server.is_group() && group.code.many_responses && group.control.delay_response);
}

#[test]
fn every_flipped_bit_is_noticed() {
    let whole = vector("request_seg13");
    for at in 0..whole.len() {
        for bit in 0..8 {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << bit;
            // Only an all-zero checksum field would pass as "none", which one bit cannot make here.
            assert!(Packet::new(&flipped).is_err(), "octet {at}, bit {bit}");
        }
    }
}
