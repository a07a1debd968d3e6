//! Thousands of clients of one server, all of them waiting at once.

use std::net::Ipv4Addr;

use sockscope_vmtp::wire::{Entity, code};
use sockscope_vmtp::{Client, Config, Event, Options, Outcome, Request, Server};

const CLIENTS: u32 = 4000;
const MS: u64 = 1_000_000;

fn entity(number: u32) -> Entity {
    Entity::new(number + 1, Ipv4Addr::new(36, 8, 0, 49))
}

/// Lets everybody send; the number of packets.
fn exchange(now_ns: u64, clients: &mut [Client<u32>], server: &mut Server<u32>) -> usize {
    let mut octets = Vec::new();
    let mut packets = 0;
    for (from, client) in (0..).zip(clients.iter_mut()) {
        while client.poll_transmit(now_ns, &mut octets).is_some() {
            server.handle(now_ns, from, &octets);
            packets += 1;
        }
    }
    while let Some(to) = server.poll_transmit(now_ns, &mut octets) {
        clients[to as usize].handle(now_ns, CLIENTS, &octets);
        packets += 1;
    }
    packets
}

/// The segment of a client: its number, as often as makes clients differ in size.
fn segment(number: u32) -> Vec<u8> {
    number.to_be_bytes().repeat(1 + number as usize % 100)
}

#[test]
fn thousands_of_clients_wait_at_once_and_each_gets_its_own_answer() {
    let config = Config::default();
    let name = Entity::new(77, Ipv4Addr::new(36, 8, 0, 77));
    let mut server = Server::new(name, config.clone());
    let client = |number| Client::new(entity(number), 1, config.clone());
    let mut clients: Vec<Client<u32>> = (0..CLIENTS).map(client).collect();
    for (number, client) in (0..).zip(&mut clients) {
        let request = Request { segment: segment(number), ..Request::default() };
        client.start(0, name, CLIENTS, request, Options::default()).expect("idle");
    }
    exchange(0, &mut clients, &mut server);
    let mut waiting: Vec<_> = std::iter::from_fn(|| server.poll_request()).collect();
    assert_eq!(waiting.len(), CLIENTS as usize, "each Request is there once");
    assert_eq!(server.clients(), CLIENTS as usize);

    // The last that arrived is answered first.
    while let Some(request) = waiting.pop() {
        let segment = request.segment.iter().rev().copied().collect();
        let outcome = Outcome { code: code::APPLICATION, segment, ..Outcome::default() };
        server.respond(MS, request.token, outcome).expect("it is open");
    }
    exchange(MS, &mut clients, &mut server);
    for (number, client) in (0..).zip(&mut clients) {
        let Some(Event::Response(response)) = client.poll_event() else { panic!("none: {number}") };
        let expected: Vec<u8> = segment(number).into_iter().rev().collect();
        assert!(response.segment == expected, "client {number} got another's answer");
    }

    // Records of answered requests stay until their timers have run out, and no longer.
    while let Some(at_ns) = server.poll_timeout() {
        assert!(at_ns <= 2 * config.keep_ns, "timers go on for ever");
        server.handle_timeout(at_ns);
        exchange(at_ns, &mut clients, &mut server);
    }
    assert_eq!(server.clients(), 0, "nothing is left behind");
}
