//! Calls over real sockets of this machine.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use sockscope_vmtp::driver::{CallError, Caller, Link, Service, Transport, group_address};
use sockscope_vmtp::server::Incoming;
use sockscope_vmtp::wire::{Entity, code};
use sockscope_vmtp::{Config, Fixed, Options, Outcome, Request};

const SERVER: Entity = Entity(0x0000_004d_7f00_0001);

fn client(number: u64) -> Entity {
    Entity(0x0000_0100_7f00_0001 + (number << 32))
}

fn reverse(request: Incoming<SocketAddr>) -> Outcome {
    let segment = request.segment.into_iter().rev().collect();
    Outcome { code: code::OK, segment, ..Outcome::default() }
}

/// Runs `work` while a server answers; returns its result.
fn with_server<T: Send>(
    transport: Transport,
    at: IpAddr,
    config: &Config,
    work: impl FnOnce(SocketAddr) -> T + Send,
) -> T {
    let link = Link::bind(transport, SocketAddr::new(at, 0)).expect("a socket");
    let address = link.local_address().expect("it is bound");
    let mut service = Service::new(link, SERVER, config.clone());
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        let server = scope.spawn(|| service.serve(|_| ends.load(Ordering::Relaxed), reverse));
        let worker = scope.spawn(|| work(address));
        let result = worker.join();
        ends.store(true, Ordering::Relaxed);
        server.join().expect("no panic").expect("a network");
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn caller(transport: Transport, at: IpAddr, number: u64, config: &Config) -> Caller {
    let link = Link::bind(transport, SocketAddr::new(at, 0)).expect("a socket");
    Caller::new(link, client(number), 1, config.clone())
}

fn call_all_sizes(transport: Transport, at: IpAddr, config: &Config) {
    with_server(transport, at, config, |address| {
        let mut caller = caller(transport, at, 1, config);
        for bytes in [0, 1, 511, 513, 5000, 16_384, 16_385, 300_000] {
            let segment: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
            let request = Request { segment: segment.clone(), ..Request::default() };
            let options = Options { long_response: bytes > 16_384, ..Options::default() };
            let response = caller.call(SERVER, address, request, options);
            let response =
                response.unwrap_or_else(|error| panic!("{address}, {bytes} octets: {error}"));
            assert!(response.segment.iter().rev().eq(segment.iter()), "{bytes} octets");
        }
    });
}

#[test]
fn calls_of_all_sizes_over_udp_on_both_ip_versions() {
    for config in [Config::default(), Config::for_payload(65_507)] {
        call_all_sizes(Transport::Udp, Ipv4Addr::LOCALHOST.into(), &config);
        call_all_sizes(Transport::Udp, Ipv6Addr::LOCALHOST.into(), &config);
    }
}

/// Counts the test as skipped: `cargo xtask ci` counts these lines. libtest shows lines written this way for a
/// test that passes, unlike the output of `eprintln!`.
fn skip(test: &str, error: &dyn std::error::Error) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: no raw IP sockets: {error}");
}

#[test]
fn root_calls_of_all_sizes_over_ip_protocol_81() {
    for at in [IpAddr::from(Ipv4Addr::new(127, 0, 0, 81)), Ipv6Addr::LOCALHOST.into()] {
        match Link::bind(Transport::Raw, SocketAddr::new(at, 0)) {
            Ok(_) => call_all_sizes(Transport::Raw, at, &Config::default()),
            Err(error) => skip("root_calls_of_all_sizes_over_ip_protocol_81", &error),
        }
    }
}

/// 4096 instructions are the most that the kernel takes (BPF_MAXINSNS); a group needs five.
#[test]
fn root_a_server_that_cannot_keep_others_requests_away_says_so() {
    let at = SocketAddr::new(Ipv4Addr::new(127, 0, 81, 3).into(), 0);
    let link = match Link::bind(Transport::Raw, at) {
        Ok(link) => link,
        Err(error) => {
            return skip("root_a_server_that_cannot_keep_others_requests_away_says_so", &error);
        }
    };
    let group = |number: u64| Entity(0x6000_0000_7f00_0001 | number << 32);
    let mut service = Service::new(link, SERVER, Config::default());
    service.be_among_others().expect("a filter");
    let joined = (0..900).map(|number| service.join(group(number)));
    let refused = joined.filter_map(Result::err).next().expect("too many");
    assert!(refused.to_string().contains("filter"), "{refused}");
    assert!(service.be_among_others().is_err());
}

#[test]
fn hundreds_of_clients_are_served_by_one_server() {
    let config = Config::default();
    with_server(Transport::Udp, Ipv4Addr::LOCALHOST.into(), &config, |address| {
        let mut callers: Vec<_> = (0..200)
            .map(|number| caller(Transport::Udp, Ipv4Addr::LOCALHOST.into(), number, &config))
            .collect();
        for caller in &mut callers {
            let request = Request { segment: vec![7; 700], ..Request::default() };
            caller.start(SERVER, address, request, Options::default()).expect("idle");
        }
        for caller in &mut callers {
            let event = loop {
                if let Some(event) = caller.advance(Duration::from_millis(1)).expect("a network") {
                    break event;
                }
            };
            assert!(matches!(event, sockscope_vmtp::Event::Response(_)), "{event:?}");
        }
    });
}

#[test]
fn a_server_that_is_not_there_is_said_to_be_so() {
    let config = Config {
        retries: 1,
        round_trip_ns: 1_000_000,
        round_trip_ns_min: 1_000_000,
        service_ns: 1_000_000,
        ..Config::default()
    };
    let at = Ipv4Addr::LOCALHOST.into();
    let silent = Link::bind(Transport::Udp, SocketAddr::new(at, 0)).expect("a socket");
    let address = silent.local_address().expect("it is bound");
    let error = caller(Transport::Udp, at, 1, &config)
        .call(SERVER, address, Request::default(), Options::default())
        .expect_err("nobody answers");
    assert!(matches!(error, CallError::Failed(code::RETRANS_TIMEOUT)), "{error}");
}

#[test]
fn a_group_is_asked_by_multicast_and_names_are_found() {
    let group = Entity(0x6000_5350_7f00_0001);
    let (at, config) = (IpAddr::from(Ipv4Addr::LOCALHOST), Config::default());
    let port = with_server(Transport::Udp, at, &config, |address| address.port());
    let address = group_address(group, port, false).expect("a group");
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        for number in 0..3u64 {
            let everywhere = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port);
            let link = Link::bind(Transport::Udp, everywhere).expect("a shared address");
            link.join(group, Ipv4Addr::LOCALHOST).expect("a group on loopback");
            let mut service = Service::new(link, Entity(SERVER.0 + (number << 32)), config.clone());
            service.join(group).expect("no filter");
            let ends = &ends;
            scope.spawn(move || service.serve(|_| ends.load(Ordering::Relaxed), reverse));
        }
        let mut caller = caller(Transport::Udp, at, 1, &config);
        caller.link().multicast_by(Ipv4Addr::LOCALHOST).expect("loopback");
        let wait = Duration::from_millis(100);
        let answers = caller.call_group(group, address, Request::default(), wait);
        let fixed = Fixed { sends: 3, every_ns: 30_000_000 };
        let found = caller.find(Entity(SERVER.0 + (2 << 32)), address, fixed);
        let free = caller.find(Entity(0x7777), address, fixed);
        ends.store(true, Ordering::Relaxed);
        assert_eq!(answers.expect("answers").len(), 3);
        assert_eq!(found.expect("a network").len(), 1);
        assert_eq!(free.expect("a network").len(), 0);
    });
}
