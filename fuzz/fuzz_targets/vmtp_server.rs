//! Both engines under a list of operations: clients call, the network loses, doubles, reorders and
//! damages packets, hostile ones arrive, the application answers late, time passes. Each request reaches
//! the application at most once, a Response answers its request, and all records go in the end.
//!
//! An operation is 4 octets. Corpus: none needed.

#![no_main]

use std::collections::BTreeSet;

use libfuzzer_sys::fuzz_target;
use sockscope_vmtp::server::{Incoming, Token};
use sockscope_vmtp::wire::{Entity, Packet};
use sockscope_vmtp::{Client, Config, Event, Options, Outcome, Request, Server};

const CLIENTS: usize = 3;
const SERVER: Entity = Entity(0x0000_004d_7f00_0001);
/// Address of the server; clients have their numbers.
const TO: usize = CLIENTS;
/// Lifetime of a packet.
const LIFETIME_NS: u64 = 5_000_000_000;

struct Net {
    now_ns: u64,
    clients: Vec<Client<usize>>,
    server: Server<usize>,
    wire: Vec<Flying>,
    waiting: Vec<Incoming<usize>>,
    seen: BTreeSet<Token>,
}

/// A packet in transit.
#[derive(Clone)]
struct Flying {
    from: usize,
    to: usize,
    octets: Vec<u8>,
    sent_ns: u64,
    is_damaged: bool,
}

fuzz_target!(|octets: &[u8]| {
    let config = Config::default();
    let client =
        |number: usize| Client::new(Entity(0x100 + number as u64), u32::MAX - 1, config.clone());
    let mut net = Net {
        now_ns: 0,
        clients: (0..CLIENTS).map(client).collect(),
        server: Server::new(SERVER, config.clone()),
        wire: Vec::new(),
        waiting: Vec::new(),
        seen: BTreeSet::new(),
    };
    for operation in octets.as_chunks::<4>().0.iter().take(2000) {
        net.operate(*operation);
        net.settle();
    }
    // Everything that was kept is forgotten when no client asks any more.
    net.wire.clear();
    for _ in 0..100_000 {
        let Some(due_ns) = net.server.poll_timeout().filter(|_| net.server.clients() > 0) else {
            break;
        };
        net.waiting.drain(..).for_each(|request| answer(&mut net.server, due_ns, &request));
        net.now_ns = net.now_ns.max(due_ns);
        net.server.handle_timeout(net.now_ns);
        net.settle();
        net.wire.clear();
    }
    assert_eq!(net.server.clients(), 0, "a record is left behind");
});

impl Net {
    fn operate(&mut self, [which, a, b, c]: [u8; 4]) {
        let count = self.wire.len().max(1);
        let at = usize::from(a) % count;
        match which % 8 {
            0 => self.call(usize::from(a) % CLIENTS, usize::from(b), c),
            1 | 2 if !self.wire.is_empty() => {
                let packet = self.wire.remove(at);
                self.deliver(&packet);
            }
            3 if !self.wire.is_empty() => self.deliver(&self.wire[at].clone()),
            4 if !self.wire.is_empty() => drop(self.wire.remove(at)),
            5 if !self.wire.is_empty() => {
                let flying = &mut self.wire[at];
                // Two flips could hide each other from the checksum; one cannot.
                if !flying.is_damaged {
                    let place = usize::from(b) % flying.octets.len();
                    flying.octets[place] ^= c;
                    flying.is_damaged = true;
                }
            }
            6 if !self.waiting.is_empty() => {
                let request = self.waiting.remove(usize::from(a) % self.waiting.len());
                answer(&mut self.server, self.now_ns, &request);
            }
            _ => {
                self.now_ns += u64::from(a) << (b % 24);
                // Servers remember clients for longer than packets live.
                self.wire.retain(|flying| flying.sent_ns + LIFETIME_NS > self.now_ns);
            }
        }
    }

    fn call(&mut self, client: usize, bytes: usize, seed: u8) {
        let segment = vec![seed; bytes * 100];
        let request = Request { code: u32::from(seed), user: [seed; 12], segment };
        let options = Options {
            long_response: bytes > 163,
            no_retransmission: bytes % 7 == 1,
            only_if_waiting: bytes % 7 == 2,
            delay_response: bytes % 7 == 3,
            ..Options::default()
        };
        let _ = self.clients[client].start(self.now_ns, SERVER, TO, request, options);
    }

    fn deliver(&mut self, Flying { from, to, octets, .. }: &Flying) {
        match self.clients.get_mut(*to) {
            Some(client) => client.handle(self.now_ns, *from, octets),
            None => self.server.handle(self.now_ns, *from, octets),
        }
    }

    /// Lets both sides say all they have to.
    fn settle(&mut self) {
        let mut packet = Vec::new();
        self.server.handle_timeout(self.now_ns);
        while let Some(to) = self.server.poll_transmit(self.now_ns, &mut packet) {
            self.put(TO, to, &packet);
        }
        for number in 0..CLIENTS {
            self.clients[number].handle_timeout(self.now_ns);
            while let Some(to) = self.clients[number].poll_transmit(self.now_ns, &mut packet) {
                self.put(number, to, &packet);
            }
            while let Some(event) = self.clients[number].poll_event() {
                if let Event::Response(response) = event {
                    assert!(response.segment.iter().all(|&octet| octet == response.user[0]));
                }
            }
        }
        while let Some(request) = self.server.poll_request() {
            assert!(self.seen.insert(request.token), "{:?} came twice", request.token);
            self.waiting.push(request);
        }
    }

    fn put(&mut self, from: usize, to: usize, packet: &[u8]) {
        Packet::new(packet).expect("what is sent is a packet");
        if self.wire.len() < 256 {
            let (octets, sent_ns) = (packet.to_vec(), self.now_ns);
            self.wire.push(Flying { from, to, octets, sent_ns, is_damaged: false });
        }
    }
}

fn answer(server: &mut Server<usize>, now_ns: u64, request: &Incoming<usize>) {
    let seed = request.user[0];
    assert!(request.segment.iter().all(|&octet| octet == seed), "damage got through");
    let segment = request.segment.clone();
    let outcome = Outcome { user: [seed; 20], segment, ..Outcome::default() };
    let _ = server.respond(now_ns, request.token, outcome);
}
