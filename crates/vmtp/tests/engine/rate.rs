//! Rate control: a wire drops packets that are too close, and the gaps become as long as it needs.

use crate::common::{MS, Net, server_address, server_entity};
use sockscope_vmtp::wire::GROUP_BYTES;
use sockscope_vmtp::{Config, Event, Options, Outcome, Request};

/// A link of 10 Mbit/s, 66 octets around a packet of 1,472.
fn config() -> Config {
    Config { packet_bytes: 1472, ..Config::default() }.at_rate(10_000_000, 66)
}

/// Runs transactions over a wire that carries a packet with data each `apart_ns` at most in a direction.
/// By transaction: blocks of the Request and of the Response that were sent again.
fn again(config: &Config, bytes: [usize; 2], apart_ns: u64, transactions: usize) -> Vec<[u64; 2]> {
    let mut net = Net::new(1, 1, config, 1);
    net.apart_ns = apart_ns;
    let (mut all, mut before) = (Vec::new(), [0, 0]);
    for _ in 0..transactions {
        let request = Request { segment: vec![7; bytes[0]], ..Request::default() };
        let (now_ns, to) = (net.now_ns, server_address(0));
        net.clients[0]
            .start(now_ns, server_entity(0), to, request, Options::default())
            .expect("idle");
        let answered = loop {
            if let Some(event) = net.event(0) {
                break event;
            }
            let alive = net.step(&mut |_, _| {
                Some(Outcome { segment: vec![9; bytes[1]], ..Outcome::default() })
            });
            assert!(alive, "nothing happens any more");
        };
        assert!(matches!(answered, Event::Response(_)), "{answered:?}");
        let now = [net.clients[0].counters().blocks_again, net.servers[0].counters().blocks_again];
        all.push([now[0] - before[0], now[1] - before[1]]);
        before = now;
    }
    all
}

#[test]
fn a_packet_s_time_is_that_of_the_link() {
    assert_eq!(config().packet_ns, 1_230_400);
    assert_eq!(Config::default().packet_ns, 0, "the rate of the link is not known");
}

/// The wire needs 1.5 ms for each packet: without gaps it drops most of a group.
#[test]
fn the_gap_of_requests_opens_until_the_wire_drops_nothing() {
    let all = again(&config(), [GROUP_BYTES, 0], 3 * MS / 2, 40);
    assert!(all[0][0] > 16, "{all:?}");
    assert!(all[20..].iter().all(|again| *again == [0, 0]), "{all:?}");
}

#[test]
fn the_gap_of_responses_opens_as_the_client_asks() {
    let all = again(&config(), [0, GROUP_BYTES], 3 * MS / 2, 40);
    assert!(all[0][1] > 16, "{all:?}");
    assert!(all[20..].iter().all(|again| *again == [0, 0]), "{all:?}");
}

#[test]
fn without_the_rate_of_the_link_there_are_no_gaps() {
    let all = again(&Config { packet_ns: 0, ..config() }, [GROUP_BYTES, 0], 3 * MS / 2, 10);
    assert!(all.iter().all(|again| again[0] > 0), "{all:?}");
}

/// A group takes 200 ms to leave, in which the server has no reason to answer. It is silent only after that.
#[test]
fn a_client_does_not_give_up_while_its_packets_still_leave() {
    let slow = Config { packet_bytes: 1472, ..Config::default() }.at_rate(1_000_000, 66);
    let impatient = Config { silence_ns_min: 100 * MS, silence_ns_max: 150 * MS, ..slow };
    // Each transaction has its Response, which `again` asserts.
    let all = again(&impatient, [GROUP_BYTES, 0], 15 * MS, 20);
    assert!(all.iter().any(|again| again[0] > 0), "{all:?}");
}

/// A packet takes 12 ms on a link of 1 Mbit/s, and a group 200 ms. No block is asked for before it has left.
#[test]
fn the_waits_for_packets_are_longer_on_a_slow_link() {
    let slow = Config { packet_bytes: 1472, ..Config::default() }.at_rate(1_000_000, 66);
    let all = again(&slow, [GROUP_BYTES, GROUP_BYTES], 15 * MS, 40);
    assert!(all[0].iter().all(|again| *again > 16), "{all:?}");
    assert!(all[20..].iter().all(|again| *again == [0, 0]), "{all:?}");
}
