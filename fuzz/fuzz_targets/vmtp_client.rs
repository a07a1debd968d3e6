//! A client's engine under a list of operations: calls begin, packets of any header arrive, time passes.
//! It never panics, ends what it began, and sends no packet that does not decode.
//!
//! An operation is 12 octets: the first selects it, the others are its fields. Corpus: none needed.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sockscope_vmtp::wire::{Checksum, Code, Control, Entity, Header, Packet, emit};
use sockscope_vmtp::{Client, Config, Event, Fixed, Options, Request};

const CLIENT: Entity = Entity(0x0000_0100_7f00_0001);
const SERVER: Entity = Entity(0x0000_004d_7f00_0001);
const GROUP: Entity = Entity(0x6008_a05a_2408_004d);

fuzz_target!(|octets: &[u8]| {
    let mut client = Client::new(CLIENT, u32::MAX - 2, Config::default());
    let (mut now_ns, mut begun, mut ended) = (0u64, 0, 0);
    let mut packet = Vec::new();
    for fields in octets.as_chunks::<12>().0.iter().take(2000) {
        match fields[0] % 4 {
            0 => begun += u32::from(start(&mut client, now_ns, fields)),
            1 | 2 => client.handle(now_ns, fields[11] % 3, &hostile(fields)),
            _ => now_ns += u64::from(u16::from_be_bytes([fields[1], fields[2]])) * 100_000,
        }
        client.handle_timeout(now_ns);
        while client.poll_transmit(now_ns, &mut packet).is_some() {
            Packet::new(&packet).expect("what is sent is a packet");
        }
        ended += ends(&mut client);
    }
    // Without a peer, all operations in progress end.
    for _ in 0..10_000 {
        let Some(due_ns) = client.poll_timeout() else { break };
        now_ns = now_ns.max(due_ns);
        client.handle_timeout(now_ns);
        while client.poll_transmit(now_ns, &mut packet).is_some() {}
        ended += ends(&mut client);
    }
    assert!(client.is_idle(), "a transaction never ends");
    assert!(ended <= begun, "{begun} transactions began, {ended} ended");
});

fn ends(client: &mut Client<u8>) -> u32 {
    let is_end = |event: &Event<u8>| matches!(event, Event::Failed(_) | Event::Finished(_));
    std::iter::from_fn(|| client.poll_event()).filter(is_end).count() as u32
}

fn start(client: &mut Client<u8>, now_ns: u64, fields: &[u8; 12]) -> bool {
    let to_group = fields[1] & 1 != 0;
    if fields[1] & 8 != 0 {
        let fixed = Fixed { sends: u32::from(fields[2] % 5), every_ns: 1_000_000 };
        return client.find(now_ns, SERVER, 0, fixed).is_ok();
    }
    let options = Options {
        many_ns: to_group.then_some(5_000_000),
        long_response: fields[1] & 2 != 0,
        no_retransmission: fields[1] & 16 != 0,
        only_if_waiting: fields[1] & 32 != 0,
        ..Options::default()
    };
    let bytes =
        usize::from(u16::from_be_bytes([fields[2], fields[3]])) * usize::from(fields[4] % 3);
    let request = Request { segment: vec![7; bytes], ..Request::default() };
    let server = if to_group { GROUP } else { SERVER };
    client.start(now_ns, server, 0, request, options).is_ok()
}

/// A packet with these header fields, near the client's expectations.
fn hostile(fields: &[u8; 12]) -> Vec<u8> {
    let word = |at: usize| {
        u32::from_be_bytes([fields[at], fields[at + 1], fields[at + 2], fields[at + 3]])
    };
    let mut header = Header {
        client: if fields[1] & 1 == 0 { CLIENT } else { SERVER },
        domain: 1,
        header_checksum_only: fields[1] & 2 != 0,
        encrypted: false,
        multicast: fields[1] & 4 != 0,
        control: Control::decode(word(2)),
        transaction: (u32::MAX - 2).wrapping_add(u32::from(fields[6] % 40)),
        delivery: word(7).rotate_left(u32::from(fields[1])),
        server: Entity(SERVER.0 + u64::from(fields[1] >> 6)),
        code: Code::decode(word(4)),
        parameters: std::array::from_fn(|at| fields[at % 12]),
    };
    header.set_segment_size(u32::from(fields[7]) * 300);
    if fields[1] & 8 != 0 {
        header.put(0, &CLIENT.0.to_be_bytes());
        header.put(16, &header.transaction.to_be_bytes());
    }
    let data = vec![fields[9]; usize::from(fields[10]) * 64];
    let mut packet = Vec::new();
    emit(&header, [&data[..]], Checksum::Computed, &mut packet);
    packet
}
