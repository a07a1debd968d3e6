//! The engines' observations of their own queues, on a network that loses, doubles and delays.

use std::collections::BTreeSet;

use crate::common::{Faults, Net, server_address, server_entity};
use sockscope_vmtp::observe::{Seen, Sight};
use sockscope_vmtp::wire::code;
use sockscope_vmtp::{Config, Event, Options, Outcome, Request};

const TRANSACTIONS: usize = 40;

/// Runs transactions of 20,000 octets there and back; returns the observations of both sides.
fn run(faults: Faults, seed: u64) -> (Net, [Vec<Seen<u16>>; 2]) {
    let config = Config { retries: 30, ..Config::default() };
    let mut net = Net::new(1, 1, &config, seed);
    net.faults = faults;
    net.clients[0].log().begin();
    net.servers[0].log().begin();
    let (mut begun, mut ended) = (0, 0);
    while ended < TRANSACTIONS {
        if net.clients[0].is_idle() && begun < TRANSACTIONS {
            let request = Request { segment: vec![7; 20_000], ..Request::default() };
            let options = Options { long_response: true, ..Options::default() };
            let (now_ns, to) = (net.now_ns, server_address(0));
            net.clients[0].start(now_ns, server_entity(0), to, request, options).expect("idle");
            begun += 1;
        }
        while let Some(event) = net.event(0) {
            assert!(matches!(event, Event::Response(_)), "{event:?}");
            ended += 1;
        }
        step(&mut net);
    }
    while step(&mut net) {}
    let client = std::iter::from_fn(|| net.clients[0].log().poll()).collect();
    let server = std::iter::from_fn(|| net.servers[0].log().poll()).collect();
    (net, [client, server])
}

fn step(net: &mut Net) -> bool {
    net.step(&mut |_, request| {
        Some(Outcome { code: code::OK, segment: request.segment, ..Outcome::default() })
    })
}

fn packets(seen: &[Seen<u16>], of: impl Fn(&Sight) -> Option<u64>) -> Vec<u64> {
    seen.iter().filter_map(|seen| of(&seen.sight)).collect()
}

fn check(seen: &[Seen<u16>], packets_sent: u64, blocks_again: u64) {
    let came = packets(seen, |sight| match sight {
        Sight::Came { packet, .. } => Some(*packet),
        _ => None,
    });
    let taken = packets(seen, |sight| match sight {
        Sight::Taken { packet } => Some(*packet),
        _ => None,
    });
    let numbers: BTreeSet<_> = taken.iter().copied().collect();
    assert_eq!(numbers.len(), taken.len(), "a packet passes point 8 once");
    assert_eq!(numbers, came.iter().copied().collect(), "what passes 7 passes 8");
    let sent = seen.iter().filter(|seen| matches!(seen.sight, Sight::Sent { .. })).count();
    assert_eq!(sent as u64, packets_sent);
    let again = packets(seen, |sight| match sight {
        Sight::BlocksAgain(blocks) => Some(u64::from(*blocks)),
        _ => None,
    });
    assert_eq!(again.iter().sum::<u64>(), blocks_again);
    assert!(seen.is_sorted_by_key(|seen| seen.at_ns), "the engine's time goes on");
}

fn check_both(faults: Faults, seed: u64) {
    let (net, [client, server]) = run(faults, seed);
    let counters = net.clients[0].counters();
    check(&client, counters.packets, counters.blocks_again);
    let counters = net.servers[0].counters();
    check(&server, counters.packets, counters.blocks_again);
    let ended = client.iter().filter(|seen| {
        matches!(seen.sight, Sight::Ended { octets: 20_000, is_answered: true, .. })
    });
    assert_eq!(ended.count(), TRANSACTIONS);
}

#[test]
fn every_packet_passes_the_points_of_both_engines() {
    check_both(Faults::default(), 1);
}

#[test]
fn packets_pass_once_whatever_the_network_does() {
    for seed in 0..8 {
        check_both(Faults { lost: 10, doubled: 10, delayed: 10, damaged: 10 }, seed);
    }
}

#[test]
fn engines_that_do_not_observe_keep_nothing() {
    let mut net = Net::new(1, 1, &Config::default(), 1);
    let request = Request { segment: vec![7; 600], ..Request::default() };
    let (server, to) = (server_entity(0), server_address(0));
    net.clients[0].start(0, server, to, request, Options::default()).expect("idle");
    while step(&mut net) {}
    assert_eq!(net.clients[0].log().poll(), None);
    assert_eq!(net.servers[0].log().poll(), None);
}
