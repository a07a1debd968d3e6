//! Exchanges packet by packet.

use crate::common::{EVERYBODY, MS, Net, server_address, server_entity};
use sockscope_vmtp::wire::{Entity, GROUP_BYTES, Kind, Packet, code};
use sockscope_vmtp::{Config, Event, Fixed, Options, Outcome, Request};

fn ask(net: &mut Net, segment: Vec<u8>, options: Options) {
    let request = Request { code: 0x42, user: *b"HELLO VMTP!!", segment };
    let (server, to, now_ns) = (server_entity(0), server_address(0), net.now_ns);
    net.clients[0].start(now_ns, server, to, request, options).expect("idle");
}

fn echo(segment: Vec<u8>) -> Outcome {
    Outcome { code: code::OK, user: *b"ABCDEFGHIJKLMNOPQRST", segment, idempotent: false }
}

/// Runs until the client has something to say.
fn outcome(net: &mut Net) -> Event<u16> {
    for _ in 0..100_000 {
        if let Some(event) = net.event(0) {
            return event;
        }
        assert!(
            net.step(&mut |_, request| Some(echo(request.segment))),
            "nothing happens any more"
        );
    }
    panic!("no end");
}

fn log(net: &mut Net) -> Vec<String> {
    net.log.replace(Vec::new()).unwrap_or_default()
}

fn segment_of(event: Event<u16>) -> Vec<u8> {
    match event {
        Event::Response(response) => response.segment,
        other => panic!("{other:?}"),
    }
}

fn net(config: &Config) -> Net {
    let mut net = Net::new(1, 1, config, 1);
    net.log = Some(Vec::new());
    net
}

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 7 % 251) as u8).collect()
}

#[test]
fn the_smallest_transaction_is_two_packets() {
    let mut net = net(&Config::default());
    ask(&mut net, Vec::new(), Options::default());
    let Event::Response(response) = outcome(&mut net) else { panic!("no Response") };
    assert_eq!((response.code, &response.user), (0, b"ABCDEFGHIJKLMNOPQRST"));
    assert_eq!(log(&mut net), ["0>1000 Request 00000000 x0", "1000>0 Response 00000000 x0"]);
}

#[test]
fn lost_blocks_are_asked_for_and_sent_again_as_the_worked_exchange_says() {
    let mut net = net(&Config::default());
    net.loses = Some(|number, _| number == 3 || number == 9);
    ask(&mut net, pattern(GROUP_BYTES), Options::default());
    assert_eq!(segment_of(outcome(&mut net)), pattern(GROUP_BYTES));
    let log = log(&mut net);
    assert_eq!(log[2], "0>1000 Request 00000030 x0 lost");
    assert_eq!(log[16], "1000>0 notice 1 fffcffcf x0");
    assert_eq!(log[17..19], ["0>1000 Request 00000030 x1", "0>1000 Request 00030000 x1"]);
    assert_eq!(net.clients[0].counters().blocks_again, 4);
}

#[test]
fn a_lost_response_is_sent_again_for_the_header_alone_and_the_request_runs_once() {
    let mut net = net(&Config::default());
    net.loses = Some(|number, _| number == 2);
    ask(&mut net, Vec::new(), Options::default());
    assert_eq!(segment_of(outcome(&mut net)), []);
    let log = log(&mut net);
    assert_eq!(log[2], "0>1000 Request 00000000 x1");
    assert_eq!(net.servers[0].counters().requests, 1);
    assert_eq!(net.servers[0].counters().duplicates, 1);
}

/// The server's wait (TS5) is shorter than the client's (TC1): it has no service time in it.
#[test]
fn a_lost_response_with_data_is_offered_before_the_client_asks() {
    let mut net = net(&Config::default());
    net.loses = Some(|number, _| number == 2);
    ask(&mut net, pattern(100), Options::default());
    assert_eq!(segment_of(outcome(&mut net)), pattern(100));
    let expected = [
        "0>1000 Request 00000001 x0",
        "1000>0 Response 00000001 x0 lost",
        "1000>0 Response 00000000 x0",
        "0>1000 notice 1 00000000 x0",
        "1000>0 Response 00000001 x0",
    ];
    assert_eq!(log(&mut net)[..5], expected);
    assert_eq!(net.servers[0].counters().requests, 1);
}

#[test]
fn a_slow_server_says_that_it_works_and_the_client_waits_longer_each_time() {
    let mut net = net(&Config { retries: 2, ..Config::default() });
    ask(&mut net, Vec::new(), Options::default());
    let mut waiting = None;
    let mut asked_ns = Vec::new();
    let mut seen = 0;
    while asked_ns.len() < 5 {
        net.step(&mut |_, request| {
            waiting = Some(request.token);
            None
        });
        let sent = net.log.as_ref().map_or(&[][..], |log| &log[..]);
        asked_ns.extend(
            sent[seen..].iter().filter(|line| line.contains("Request")).map(|_| net.now_ns),
        );
        seen = sent.len();
    }
    let gaps: Vec<u64> = asked_ns.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.is_sorted() && gaps[3] > gaps[2] * 3 / 2, "{gaps:?}");
    let now_ns = net.now_ns;
    net.servers[0].respond(now_ns, waiting.expect("a Request"), echo(vec![1])).expect("open");
    assert_eq!(segment_of(outcome(&mut net)), [1]);
}

#[test]
fn a_response_that_nobody_acknowledged_is_sent_again_and_then_acknowledged() {
    let mut net = net(&Config::default());
    ask(&mut net, Vec::new(), Options::default());
    for _ in 0..100 {
        net.step(&mut |_, _| Some(echo(pattern(600))));
        if net.servers[0].clients() == 0 {
            break;
        }
    }
    let log = log(&mut net);
    let discarded = format!("notice {}", code::RESPONSE_DISCARDED);
    assert!(log[2].starts_with("1000>0 Response"), "{log:?}");
    assert!(log[3].contains(&discarded), "{log:?}");
    assert_eq!(log.len(), 4);
}

#[test]
fn nobody_there_is_a_failure_after_the_retries() {
    let mut net = net(&Config::default());
    net.loses = Some(|_, _| true);
    ask(&mut net, Vec::new(), Options::default());
    assert_eq!(outcome(&mut net), Event::Failed(code::RETRANS_TIMEOUT));
    assert_eq!(net.sent, 6);
    ask(&mut net, Vec::new(), Options::default());
    net.loses = None;
    assert_eq!(segment_of(outcome(&mut net)), []);
}

#[test]
fn a_client_gives_up_while_the_server_still_remembers() {
    // A round trip so long that all retries would take longer than a server keeps its record.
    let config = Config { round_trip_ns: 9_000 * MS, ..Config::default() };
    let mut net = net(&config);
    net.loses = Some(|_, _| true);
    ask(&mut net, Vec::new(), Options::default());
    let mut asked_ns = Vec::new();
    while !net.clients[0].is_idle() {
        let (now_ns, before) = (net.now_ns, net.clients[0].counters().packets);
        net.step(&mut |_, _| None);
        if net.clients[0].counters().packets > before {
            asked_ns.push(now_ns);
        }
    }
    assert!(asked_ns.len() > 1 && asked_ns.iter().all(|at_ns| *at_ns < config.silence_ns_max));
    assert_eq!(outcome(&mut net), Event::Failed(code::RETRANS_TIMEOUT));
    assert!(config.silence_ns_max < config.keep_ns);
}

#[test]
fn another_entity_at_the_address_says_so() {
    let mut net = net(&Config::default());
    let stranger = Entity(5);
    let to = server_address(0);
    net.clients[0].start(0, stranger, to, Request::default(), Options::default()).expect("idle");
    assert_eq!(outcome(&mut net), Event::Failed(code::NONEXISTENT_ENTITY));
}

#[test]
fn a_run_of_groups_goes_both_ways_within_its_window() {
    let config = Config { window_groups: 3, ..Config::default() };
    let mut net = net(&config);
    let segment = pattern(300_000);
    ask(&mut net, segment.clone(), Options { long_response: true, ..Options::default() });
    assert_eq!(segment_of(outcome(&mut net)), segment);
}

#[test]
fn a_long_response_needs_leave() {
    let mut net = net(&Config::default());
    ask(&mut net, Vec::new(), Options::default());
    let mut token = None;
    while token.is_none() {
        net.step(&mut |_, request| {
            token = Some(request.token);
            None
        });
    }
    let token = token.expect("a Request");
    assert!(net.servers[0].respond(0, token, echo(pattern(GROUP_BYTES + 1))).is_err());
    assert!(net.servers[0].respond(0, token, echo(pattern(GROUP_BYTES))).is_ok());
    assert!(net.servers[0].respond(0, token, echo(Vec::new())).is_err(), "answered already");
}

#[test]
fn every_member_of_a_group_answers_once() {
    let group = Entity(0x6008_a05a_2408_004d);
    let mut net = Net::new(1, 3, &Config::default(), 1);
    net.servers.iter_mut().take(2).for_each(|server| server.join(group));
    let options = Options { many_ns: Some(50 * MS), ..Options::default() };
    net.clients[0].start(0, group, EVERYBODY, Request::default(), options).expect("idle");
    let mut servers = Vec::new();
    loop {
        match outcome(&mut net) {
            Event::Response(response) => servers.push(response.server),
            Event::Finished(answers) => break assert_eq!(answers, 2),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(servers, [server_entity(0), server_entity(1)]);
}

/// Packets of two Responses of 4 KiB are dropped, one of them after the other Response was whole.
#[test]
fn missing_blocks_of_each_response_of_a_group_are_asked_for() {
    let group = Entity(0x6008_a05a_2408_004d);
    let mut net = Net::new(1, 3, &Config::default(), 1);
    net.servers.iter_mut().for_each(|server| server.join(group));
    // Packet 1 is the Request; each member answers with four.
    net.loses = Some(|number, _| number == 3 || number == 9);
    let options = Options { many_ns: Some(100 * MS), ..Options::default() };
    net.clients[0].start(0, group, EVERYBODY, Request::default(), options).expect("idle");
    let mut segments = Vec::new();
    let answers = loop {
        match net.event(0) {
            Some(Event::Response(response)) => segments.push(response.segment),
            Some(Event::Finished(answers)) => break answers,
            Some(failed) => panic!("{failed:?}"),
            None => {
                let alive = net.step(&mut |server, _| {
                    Some(Outcome { segment: vec![server as u8; 4096], ..Outcome::default() })
                });
                assert!(alive, "nothing happens any more");
            }
        }
    };
    segments.sort_unstable();
    assert_eq!((answers, segments), (3, [0, 1, 2].map(|server| vec![server; 4096]).into()));
    assert!(net.now_ns >= 100 * MS && net.now_ns < 200 * MS, "the time is the user's");
}

#[test]
fn a_name_is_found_or_free_after_the_same_time() {
    let fixed = Fixed { sends: 3, every_ns: 20 * MS };
    for (name, answers) in [(server_entity(1), 1), (Entity(5), 0)] {
        let mut net = Net::new(1, 2, &Config::default(), 1);
        net.clients[0].find(0, name, EVERYBODY, fixed).expect("idle");
        let mut found = Vec::new();
        let ended = loop {
            match outcome(&mut net) {
                Event::Response(response) => found.push(response.server),
                Event::Finished(answers) => break answers,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!((ended, found.len(), net.now_ns), (answers, answers, 60 * MS));
    }
}

#[test]
fn an_idempotent_answer_is_not_kept_and_worked_out_again() {
    let mut net = net(&Config::default());
    net.loses = Some(|number, _| number == 2);
    ask(&mut net, Vec::new(), Options::default());
    let mut runs = 0;
    while net.event(0).is_none() {
        net.step(&mut |_, _| {
            runs += 1;
            Some(Outcome { idempotent: true, ..Outcome::default() })
        });
    }
    assert_eq!(runs, 2);
}

#[test]
fn a_gap_between_packets_spreads_a_group() {
    let config = Config { packet_ns: MS, response_gap: 32, ..Config::default() };
    let mut net = net(&config);
    let mut came_ns = Vec::new();
    ask(&mut net, Vec::new(), Options::default());
    let mut responses = 0;
    loop {
        net.step(&mut |_, _| Some(echo(pattern(4 * 1024))));
        let log = net.log.as_ref().expect("a log");
        let now = log.iter().filter(|line| line.contains("Response")).count();
        if now > responses {
            came_ns.push(net.now_ns);
            responses = now;
        }
        if net.event(0).is_some() {
            break;
        }
    }
    assert_eq!(responses, 4);
    assert!(came_ns.windows(2).all(|pair| pair[1] - pair[0] >= MS / 2), "{came_ns:?}");
}

#[test]
fn a_full_server_is_busy_for_newcomers_only_while_all_are_at_work() {
    let config = Config { records_max: 1, ..Config::default() };
    let mut net = Net::new(2, 1, &config, 1);
    let (server, to) = (server_entity(0), server_address(0));
    for client in &mut net.clients {
        client.start(0, server, to, Request::default(), Options::default()).expect("idle");
    }
    let mut held = Vec::new();
    for _ in 0..20 {
        net.step(&mut |_, request| {
            held.push(request.token);
            None
        });
    }
    assert_eq!((held.len(), net.servers[0].clients()), (1, 1));
    assert!(net.servers[0].counters().busy > 0);
}

#[test]
fn random_octets_harm_neither_engine() {
    let mut net = net(&Config::default());
    ask(&mut net, pattern(100), Options::default());
    let mut random = crate::common::Random::new(7);
    for _ in 0..20_000 {
        let bytes = 60 + random.below(40) as usize;
        let mut octets: Vec<u8> = (0..bytes).map(|_| random.below(256) as u8).collect();
        // Half of them pass for packets: right length, no checksum.
        if random.percent(50) && bytes >= 68 {
            octets.resize(68, 0);
            octets[8..12].copy_from_slice(&[0, 1, 0, 0]);
            octets[64..].fill(0);
            let entity =
                if random.percent(50) { crate::common::client_entity(0) } else { server_entity(0) };
            octets[0..8].copy_from_slice(&crate::common::client_entity(0).0.to_be_bytes());
            octets[24..32].copy_from_slice(&entity.0.to_be_bytes());
        }
        net.clients[0].handle(0, 1, &octets);
        net.servers[0].handle(0, 1, &octets);
    }
    assert!(net.servers[0].clients() <= 1);
    let header = |octets: &[u8]| Packet::new(octets).map(|packet| packet.header().control.kind);
    assert!(header(&[0; 68]).is_err());
    assert_ne!(Kind::Request, Kind::Response);
}

/// A server takes a Request and is started again before it answers: the next one executes it.
fn check_forgotten(bytes: usize) {
    let config = Config { retries: 5, ..Config::default() };
    let mut net = net(&config);
    let segment: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
    let request = Request { segment: segment.clone(), ..Request::default() };
    let options = Options { long_response: bytes > 16_384, ..Options::default() };
    net.clients[0].start(0, server_entity(0), server_address(0), request, options).expect("idle");
    let mut has_forgotten = false;
    let mut answers = 0;
    for _ in 0..100_000 {
        // It works until the client has asked and heard that it does.
        if !has_forgotten && net.now_ns > 1_000 * MS {
            net.servers[0] = sockscope_vmtp::Server::new(server_entity(0), config.clone());
            has_forgotten = true;
        }
        let alive = net.step(&mut |_, request| {
            let outcome = || Outcome { segment: request.segment.clone(), ..Outcome::default() };
            has_forgotten.then(outcome)
        });
        while let Some(event) = net.event(0) {
            let Event::Response(response) = event else { panic!("{bytes} octets: {event:?}") };
            assert!(response.segment == segment);
            answers += 1;
        }
        if !alive {
            break;
        }
    }
    assert_eq!((has_forgotten, answers), (true, 1), "{bytes} octets");
}

#[test]
fn a_server_that_forgot_what_it_had_acknowledged_gets_it_again() {
    for bytes in [0, 100, 2000, 16_384, 40_000] {
        check_forgotten(bytes);
    }
}
