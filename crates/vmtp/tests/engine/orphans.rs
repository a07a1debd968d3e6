//! Requests in processing whose clients are gone: silence in, probes and the end of the transaction out.

use crate::common::{EVERYBODY, MS, Net, client_entity, server_address, server_entity};
use sockscope_vmtp::server::RespondError;
use sockscope_vmtp::wire::{Entity, code};
use sockscope_vmtp::{Config, Event, Options, Outcome, Request, Token};

fn net(clients: usize, servers: usize) -> Net {
    let mut net = Net::new(clients, servers, &Config::default(), 1);
    net.log = Some(Vec::new());
    net
}

/// Lets time pass without an answer; the transactions that reach an application, with the server's number.
fn wait(net: &mut Net, until_ns: u64) -> Vec<(usize, Token)> {
    let mut taken = Vec::new();
    while net.now_ns < until_ns {
        let alive = net.step(&mut |server, request| {
            taken.push((server, request.token));
            None
        });
        if !alive {
            break;
        }
    }
    taken
}

fn ask(net: &mut Net) {
    let (now_ns, to) = (net.now_ns, server_address(0));
    let request = Request::default();
    net.clients[0].start(now_ns, server_entity(0), to, request, Options::default()).expect("idle");
}

#[test]
fn a_client_that_waits_is_found_as_long_as_the_server_works() {
    let mut net = net(1, 1);
    ask(&mut net);
    let taken = wait(&mut net, 120_000 * MS);
    assert_eq!(net.servers[0].poll_abandoned(), None);
    let log = net.log.take().expect("a log");
    let probes = log.iter().filter(|line| line.starts_with("1000>0 probe")).count();
    let found = log.iter().filter(|line| line.starts_with("0>1000 at 4294967290")).count();
    assert!(probes == found && (3..60).contains(&probes), "{probes} probes, {found} answers");
    let now_ns = net.now_ns;
    net.servers[0].respond(now_ns, taken[0].1, Outcome::default()).expect("its client lives");
    wait(&mut net, now_ns + MS);
    assert!(matches!(net.event(0), Some(Event::Response(_))));
}

#[test]
fn a_client_that_is_gone_is_sought_and_its_transaction_ends() {
    let mut net = net(1, 1);
    ask(&mut net);
    let taken = wait(&mut net, MS);
    let token = taken[0].1;
    // From now on the network has no client.
    net.loses = Some(|_, _| true);
    net.clients.clear();
    let mut abandoned = None;
    while abandoned.is_none() {
        let until_ns = net.now_ns + 1;
        wait(&mut net, until_ns);
        abandoned = net.servers[0].poll_abandoned();
    }
    assert_eq!(abandoned, Some(token));
    let config = Config::default();
    assert!((config.backoff_ns_max..20_000 * MS).contains(&net.now_ns), "{}", net.now_ns);
    let log = net.log.take().expect("a log");
    let probes = log.iter().filter(|line| line.starts_with("1000>0 probe")).count();
    assert!((6..12).contains(&probes), "{log:?}");
    let now_ns = net.now_ns;
    let answered = net.servers[0].respond(now_ns, token, Outcome::default());
    assert!(matches!(answered, Err(RespondError::Over(over)) if over == token));
    assert_eq!(net.servers[0].counters().orphans, 1);
    wait(&mut net, 100_000 * MS);
    assert_eq!((net.servers[0].clients(), net.servers[0].held_bytes()), (0, 0));
}

/// The application has not taken the Request: it never does, and has no event.
#[test]
fn a_request_that_waits_for_the_application_goes_with_its_client() {
    let mut net = net(1, 1);
    ask(&mut net);
    let mut octets = Vec::new();
    while net.clients[0].poll_transmit(0, &mut octets).is_some() {
        net.servers[0].handle(0, 0, &octets);
    }
    while let Some(at_ns) = net.servers[0].poll_timeout().filter(|at_ns| *at_ns < 20_000 * MS) {
        net.servers[0].handle_timeout(at_ns);
        while net.servers[0].poll_transmit(at_ns, &mut octets).is_some() {}
    }
    let server = &mut net.servers[0];
    assert_eq!((server.poll_request(), server.poll_abandoned()), (None, None));
    assert_eq!(server.counters().orphans, 1);
}

/// A group is asked, and the first answer is enough. The other member works on, and asks.
#[test]
fn a_client_that_has_gone_on_says_so() {
    let group = Entity(0x6008_a05a_2408_004d);
    let mut net = net(1, 2);
    net.servers.iter_mut().for_each(|server| server.join(group));
    let request = Request::default();
    net.clients[0].start(0, group, EVERYBODY, request, Options::default()).expect("idle");
    let mut slow = None;
    while net.now_ns < 2_000 * MS {
        let alive = net.step(&mut |server, request| {
            if server == 0 {
                return Some(Outcome { code: code::APPLICATION, ..Outcome::default() });
            }
            slow = Some(request.token);
            None
        });
        if !alive {
            break;
        }
    }
    assert_eq!(net.servers[1].poll_abandoned(), slow);
    assert_eq!(slow.map(|token| token.client), Some(client_entity(0)));
    let log = net.log.take().expect("a log");
    let probe = log.iter().position(|line| line.starts_with("1001>0 probe")).expect("a probe");
    assert!(log[probe + 1].starts_with("0>1001 at 4294967291"), "{log:?}");
    assert_eq!(log.len(), probe + 2, "the server asks once");
}
