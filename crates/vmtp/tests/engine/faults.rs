//! Many transactions over a network that loses, doubles, delays and damages packets.

use std::collections::BTreeMap;

use crate::common::{EVERYBODY, Faults, MS, Net, Random, server_address, server_entity};
use sockscope_vmtp::server::Token;
use sockscope_vmtp::wire::{Entity, code};
use sockscope_vmtp::{Config, Event, Options, Outcome, Request};

const CLIENTS: usize = 6;
const SERVERS: usize = 3;
const GROUP: Entity = Entity(0x6008_a05a_2408_004d);

/// The pending request of a client.
#[derive(Clone)]
struct Asked {
    segment: Vec<u8>,
    to_group: bool,
}

/// A request whose answer can be distinguished from all others.
fn plan(random: &mut Random) -> (Asked, Options) {
    let (to_group, bytes) = random.transaction();
    let seed = random.below(251) as usize;
    let segment: Vec<u8> = (0..bytes as usize).map(|at| ((at + seed) * 7 % 251) as u8).collect();
    let options = Options {
        many_ns: to_group.then_some(100 * MS),
        long_response: segment.len() > 16_384,
        ..Options::default()
    };
    (Asked { segment, to_group }, options)
}

/// Answers with the request's octets in reverse.
fn serve(segment: &[u8]) -> Outcome {
    let segment = segment.iter().rev().copied().collect();
    Outcome { code: code::APPLICATION, segment, ..Outcome::default() }
}

fn run(transactions: usize, faults: Faults, seed: u64) {
    let config = Config { retries: 30, ..Config::default() };
    let mut net = Net::new(CLIENTS, SERVERS, &config, seed);
    net.faults = faults;
    net.servers.iter_mut().for_each(|server| server.join(GROUP));
    let mut random = Random::new(seed + 1);
    let mut asked: Vec<Option<Asked>> = vec![None; CLIENTS];
    let mut runs: BTreeMap<(usize, Token), u32> = BTreeMap::new();
    let (mut begun, mut ended) = (0, 0);
    while ended < transactions {
        for (client, waiting) in asked.iter_mut().enumerate() {
            if waiting.is_none() && begun < transactions {
                *waiting = Some(begin(&mut net, client, &mut random));
                begun += 1;
            }
            while let Some(event) = net.event(client) {
                ended += usize::from(check(&event, waiting));
            }
        }
        let alive = net.step(&mut |server, request| {
            *runs.entry((server, request.token)).or_default() += 1;
            Some(serve(&request.segment))
        });
        assert!(alive || ended >= transactions, "nothing happens any more, {ended} ended");
    }
    assert!(runs.values().all(|&times| times == 1), "each was executed once");
    // A group's request reaches every member, or is lost to it; the others reach one.
    assert!(runs.len() >= transactions);
    for _ in 0..1_000_000 {
        if !net.step(&mut |_, request| Some(serve(&request.segment))) {
            break;
        }
    }
    assert!(net.servers.iter().all(|server| server.clients() == 0), "nothing is left behind");
}

fn begin(net: &mut Net, client: usize, random: &mut Random) -> Asked {
    let (asked, options) = plan(random);
    let number = random.below(SERVERS as u64) as usize;
    let (server, to) = if asked.to_group {
        (GROUP, EVERYBODY)
    } else {
        (server_entity(number), server_address(number))
    };
    let request = Request { code: 7, segment: asked.segment.clone(), ..Request::default() };
    let now_ns = net.now_ns;
    net.clients[client].start(now_ns, server, to, request, options).expect("idle");
    asked
}

/// Whether the transaction is over; every answer must be the right one.
fn check(event: &Event<u16>, asked: &mut Option<Asked>) -> bool {
    match event {
        Event::Response(response) => {
            let waiting = asked.as_ref().expect("an answer to a question");
            let expected: Vec<u8> = waiting.segment.iter().rev().copied().collect();
            assert_eq!(response.code, code::APPLICATION);
            assert!(response.segment == expected, "another answer than to this question");
            if waiting.to_group {
                return false;
            }
        }
        Event::Finished(answers) => assert!((1..=SERVERS).contains(answers)),
        Event::Failed(code) => panic!("failed with code {code}"),
    }
    *asked = None;
    true
}

#[test]
fn a_sound_network_needs_no_repetition() {
    run(500, Faults::default(), 1);
}

#[test]
fn each_transaction_is_executed_once_whatever_the_network_does() {
    let faults = Faults { lost: 10, doubled: 10, delayed: 10, damaged: 10 };
    for seed in 0..4 {
        run(500, faults, seed);
    }
}

#[test]
fn slow_a_hundred_thousand_transactions_over_a_bad_network() {
    run(100_000, Faults { lost: 10, doubled: 10, delayed: 10, damaged: 10 }, 99);
}
