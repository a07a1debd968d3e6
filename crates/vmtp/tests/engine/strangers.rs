//! A server among strangers: half Requests, small questions with large answers, and names without end.
//! Packets and times in, packets and memory out.

use std::net::Ipv4Addr;

use sockscope_vmtp::server::RespondError;
use sockscope_vmtp::wire::{Checksum, Entity, Header, emit};
use sockscope_vmtp::{Client, Config, Event, Options, Outcome, Request, Server};

const MS: u64 = 1_000_000;
const SERVER: Entity = Entity(0x0000_004d_7f00_0001);
const SEGMENT_BYTES: usize = 4 << 20;
/// Octets of a packet without data.
const SHORT: usize = 68;

/// Addresses of hosts in these tests.
type Address = u32;

fn name(number: u32) -> Entity {
    Entity::new(number + 2, Ipv4Addr::new(36, 8, 0, 49))
}

/// The packet that has `delivery` of a segment of `bytes` of zeros.
fn packet(client: u32, bytes: usize, delivery: u32) -> Vec<u8> {
    let mut header = Header { delivery, ..Header::request(name(client), SERVER, 1) };
    header.set_segment_size(bytes as u32);
    let data = vec![0; 512 * delivery.count_ones() as usize];
    let mut octets = Vec::new();
    emit(&header, [data.as_slice()], Checksum::Computed, &mut octets);
    octets
}

/// Octets that the server sends now, and their destination.
fn sent(server: &mut Server<Address>, now_ns: u64) -> Vec<(Address, usize)> {
    let mut octets = Vec::new();
    let mut all = Vec::new();
    while let Some(to) = server.poll_transmit(now_ns, &mut octets) {
        all.push((to, octets.len()));
    }
    all
}

/// Octets that the server sends until nothing is due any more.
fn sent_ever(server: &mut Server<Address>) -> usize {
    let mut bytes = sent(server, 0).iter().map(|(_, bytes)| bytes).sum();
    while let Some(at_ns) = server.poll_timeout() {
        server.handle_timeout(at_ns);
        bytes += sent(server, at_ns).iter().map(|(_, bytes)| bytes).sum::<usize>();
    }
    bytes
}

#[test]
fn half_requests_take_the_memory_of_what_arrived() {
    let config = Config::default();
    let mut server: Server<Address> = Server::new(SERVER, config.clone());
    for client in 0..config.records_max as u32 {
        server.handle(0, client, &packet(client, SEGMENT_BYTES, 1));
    }
    // 16,384 clients announce 64 GiB, and send 8 MiB.
    assert_eq!(server.clients(), config.records_max);
    let most = config.records_max * 2 * 512;
    assert!(server.held_bytes() <= most, "{} of {most}", server.held_bytes());
    sent_ever(&mut server);
    assert_eq!((server.clients(), server.held_bytes()), (0, 0), "nothing is left behind");
}

#[test]
fn the_memory_of_half_requests_is_bounded_in_all_and_by_host_and_refusals_are_counted() {
    let config =
        Config { held_bytes_max: 1 << 20, held_bytes_per_host_max: 1 << 18, ..Config::default() };
    let full = packet(0, SEGMENT_BYTES, u32::MAX).len() - SHORT;
    let mut server: Server<Address> = Server::new(SERVER, config.clone());
    // One host, 100 clients of 16 KiB each: 16 fit into its share.
    for client in 0..100 {
        server.handle(0, 1, &packet(client, SEGMENT_BYTES, u32::MAX));
        assert!(server.held_bytes() <= config.held_bytes_per_host_max);
    }
    assert_eq!(server.counters().busy, 100 - 15, "4 octets for each group count, too: {full}");
    // 99 others, one client each: all of them together have the rest.
    for host in 100..199 {
        server.handle(MS, host, &packet(host, SEGMENT_BYTES, u32::MAX));
        assert!(server.held_bytes() <= config.held_bytes_max);
    }
    assert!(server.held_bytes() > config.held_bytes_max * 9 / 10);
    assert_eq!(server.counters().given_up, 0, "all were heard just now");
    // 200 ms later they count as silent, and give way to a new client.
    let later_ns = 200 * MS;
    let before = server.counters();
    server.handle(later_ns, 500, &packet(500, SEGMENT_BYTES, u32::MAX));
    let after = server.counters();
    assert_eq!((after.busy, after.given_up), (before.busy, 1));
    assert!(server.held_bytes() <= config.held_bytes_max);
}

#[test]
fn a_client_among_half_requests_gets_its_answer() {
    let config = Config { records_max: 4096, ..Config::default() };
    let mut server: Server<Address> = Server::new(SERVER, config.clone());
    let mut client: Client<Address> = Client::new(name(1_000_000), 1, config.clone());
    let segment: Vec<u8> = (0..300_000).map(|at| (at % 251) as u8).collect();
    let request = Request { segment: segment.clone(), ..Request::default() };
    let options = Options { long_response: true, ..Options::default() };
    // When it begins, strangers have long taken all places.
    let begin_ns = 1000 * MS;
    let (mut now_ns, mut stranger) = (0, 0);
    let response = loop {
        // Ten new names a millisecond, each from a host of its own.
        for _ in 0..10 {
            stranger += 1;
            server.handle(now_ns, 100 + stranger, &packet(stranger, SEGMENT_BYTES, 1));
        }
        if now_ns == begin_ns {
            assert_eq!(server.clients(), config.records_max);
            let request = request.clone();
            client.start(now_ns, SERVER, 77, request, options).expect("it is idle");
        }
        let mut octets = Vec::new();
        while client.poll_transmit(now_ns, &mut octets).is_some() {
            server.handle(now_ns, 1, &octets);
        }
        while let Some(request) = server.poll_request() {
            let outcome = Outcome { segment: request.segment, ..Outcome::default() };
            server.respond(now_ns, request.token, outcome).expect("it waits");
        }
        while let Some(to) = server.poll_transmit(now_ns, &mut octets) {
            if to == 1 {
                client.handle(now_ns, 77, &octets);
            }
        }
        now_ns += MS;
        server.handle_timeout(now_ns);
        client.handle_timeout(now_ns);
        match client.poll_event() {
            Some(Event::Response(response)) => break response,
            Some(other) => panic!("{other:?} after {} ms", now_ns / MS),
            None => assert!(now_ns < 60_000 * MS, "no answer"),
        }
    };
    assert!(response.segment == segment);
    assert!(server.clients() <= config.records_max && server.counters().given_up > 0);
}

#[test]
fn a_half_request_is_asked_for_with_at_most_three_times_its_octets() {
    for delivery in [0, 1] {
        let config = Config { stranger_factor: 3, ..Config::default() };
        let mut server: Server<Address> = Server::new(SERVER, config);
        let octets = packet(1, SEGMENT_BYTES, delivery);
        server.handle(0, 1, &octets);
        let bytes = sent_ever(&mut server);
        assert!(bytes <= 3 * octets.len(), "{bytes} for {}", octets.len());
        assert!(bytes >= SHORT, "it is asked for");
    }
}

#[test]
fn an_answer_is_at_most_three_times_what_an_unproved_address_sent_repetitions_included() {
    for (bytes, is_sent) in [(0, true), (128, true), (136, true), (137, false), (16_384, false)] {
        let config = Config { stranger_factor: 3, ..Config::default() };
        let mut server: Server<Address> = Server::new(SERVER, config);
        server.handle(0, 1, &packet(1, 0, 0));
        let request = server.poll_request().expect("it is whole");
        let outcome = Outcome { segment: vec![7; bytes], ..Outcome::default() };
        match server.respond(0, request.token, outcome) {
            Ok(()) => assert!(is_sent),
            Err(RespondError::Unproved { limit, .. }) => {
                assert_eq!((is_sent, limit), (false, 3 * SHORT as u64));
                assert_eq!(server.counters().withheld, 1);
                // A short refusal fits.
                server.respond(0, request.token, Outcome::default()).expect("it still waits");
            }
            Err(error) => panic!("{error}"),
        }
        let bytes = sent_ever(&mut server);
        assert!((SHORT..=3 * SHORT).contains(&bytes), "{bytes} for {SHORT}");
    }
}

#[test]
fn a_proved_address_gets_all_and_the_proof_is_of_that_address_alone() {
    let config = Config { stranger_factor: 3, ..Config::default() };
    let mut server: Server<Address> = Server::new(SERVER, config);
    let answer = || Outcome { segment: vec![7; 16_384], ..Outcome::default() };
    server.handle(0, 1, &packet(1, 0, 0));
    let request = server.poll_request().expect("it is whole");
    server.prove_address(request.token);
    assert_eq!(server.respond(0, request.token, answer()), Ok(()));
    let bytes: usize = sent(&mut server, 0).iter().map(|(_, bytes)| bytes).sum();
    assert!(bytes > 16_384);
    // Another host asks in the client's name for the Response to be sent again.
    let mut forged = packet(1, 0, 0);
    let mut header = sockscope_vmtp::wire::Packet::new(&forged).expect("a packet").header();
    header.control.acknowledge = true;
    emit(&header, [], Checksum::Computed, &mut forged);
    server.handle(MS, 2, &forged);
    let to_stranger: Vec<_> = sent(&mut server, MS);
    assert!(to_stranger.iter().all(|&(_, bytes)| bytes <= SHORT), "{to_stranger:?}");
    assert!(to_stranger.len() <= 3, "{to_stranger:?}");
}

#[test]
fn records_of_answered_strangers_give_way_to_who_comes_later() {
    let config = Config { records_max: 64, ..Config::default() };
    let mut server: Server<Address> = Server::new(SERVER, config.clone());
    for client in 0..64 {
        server.handle(0, client, &packet(client, 0, 0));
        let request = server.poll_request().expect("it is whole");
        server.respond(0, request.token, Outcome::default()).expect("it waits");
    }
    sent(&mut server, 0);
    server.handle(MS, 100, &packet(100, 0, 0));
    assert!(server.poll_request().is_none(), "clients may still ask for their answers again");
    assert_eq!(server.counters().busy, 1);
    let later_ns = 2 * config.silence_ns_min;
    server.handle(later_ns, 100, &packet(100, 0, 0));
    assert!(server.poll_request().is_some(), "nobody has asked again for long");
}
