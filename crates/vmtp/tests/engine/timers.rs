//! Timers of both sides from measured round trips: times in, times of questions out.

use crate::common::{MS, Net, server_address, server_entity};
use sockscope_vmtp::{Config, Event, Fixed, Options, Outcome, Request};

fn ask(net: &mut Net) {
    let (now_ns, to) = (net.now_ns, server_address(0));
    let request = Request::default();
    net.clients[0].start(now_ns, server_entity(0), to, request, Options::default()).expect("idle");
}

/// Runs until `until_ns`, with answers of `bytes` after `work_ns`.
fn run(net: &mut Net, bytes: usize, work_ns: u64, until_ns: u64) {
    let mut waiting = Vec::new();
    while net.now_ns < until_ns {
        let now_ns = net.now_ns;
        let alive = net.step(&mut |_, request| {
            waiting.push((now_ns + work_ns, request.token));
            None
        });
        let now_ns = net.now_ns;
        let outcome = || Outcome { segment: vec![7; bytes], ..Outcome::default() };
        for (_, token) in waiting.extract_if(.., |(at_ns, _)| *at_ns <= now_ns) {
            let _ = net.servers[0].respond(now_ns, token, outcome());
        }
        if !alive {
            break;
        }
    }
}

#[test]
fn a_response_measures_no_round_trip() {
    let config = Config::default();
    let mut net = Net::new(1, 1, &config, 1);
    for _ in 0..20 {
        ask(&mut net);
        while net.event(0).is_none() {
            net.step(&mut |_, _| Some(Outcome::default()));
        }
    }
    assert_eq!(net.clients[0].round_trip_ns(), config.round_trip_ns);
}

/// The server works for a second. The client asks, hears that the server works, and has a round trip of
/// 0.2 ms, of which it takes the least wait. The server's time is not in it.
#[test]
fn a_notice_measures_the_round_trip_without_the_server_s_work() {
    let config = Config::default();
    let mut net = Net::new(1, 1, &config, 1);
    ask(&mut net);
    run(&mut net, 0, 1000 * MS, 2000 * MS);
    assert!(matches!(net.event(0), Some(Event::Response(_))));
    assert_eq!(net.clients[0].round_trip_ns(), config.round_trip_ns_min);
}

#[test]
fn a_probe_measures_the_round_trip() {
    let config = Config { round_trip_ns_min: 0, ..Config::default() };
    let mut net = Net::new(1, 1, &config, 1);
    let fixed = Fixed { sends: 2, every_ns: 10 * MS };
    net.clients[0].find(0, server_entity(0), server_address(0), fixed).expect("idle");
    while net.event(0) != Some(Event::Finished(1)) {
        net.step(&mut |_, _| None);
    }
    assert_eq!(net.clients[0].round_trip_ns(), 3 * MS / 5, "0.2 ms and four times its half");
}

/// When the server asks whether its Response of 16 KiB arrived, in microseconds after it was sent: first by
/// the guess for an unknown round trip, then by the measured one. The three times that the Response
/// takes on the link are in both.
#[test]
fn a_server_waits_for_the_measured_trip_and_three_times_the_response() {
    let config = Config { packet_bytes: 1472, ..Config::default() }.at_rate(10_000_000, 66);
    let mut net = Net::new(1, 1, &config, 1);
    let response_ns = 16 * config.packet_ns;
    let mut waited = Vec::new();
    for _ in 0..2 {
        ask(&mut net);
        net.log = Some(Vec::new());
        let (mut answered_ns, mut asked_ns) = (0, None);
        while asked_ns.is_none() {
            net.step(&mut |_, _| Some(Outcome { segment: vec![7; 16_384], ..Outcome::default() }));
            let log = net.log.as_ref().expect("a log");
            let responses: Vec<_> = log.iter().filter(|line| line.contains("Response")).collect();
            answered_ns =
                if answered_ns == 0 && responses.len() == 16 { net.now_ns } else { answered_ns };
            let asks = responses.iter().any(|line| line.contains("Response 00000000"));
            asked_ns = asks.then_some(net.now_ns);
        }
        waited.push(asked_ns.expect("it asks") - answered_ns);
        let has_notice = |net: &Net| net.log.iter().flatten().any(|line| line.contains("notice"));
        while !has_notice(&net) {
            net.step(&mut |_, _| None);
        }
        while net.event(0).is_some() {}
    }
    let wait = |trip_ns: u64| trip_ns + 3 * response_ns;
    let near = |waited: u64, expected: u64| waited.abs_diff(expected) <= MS / 5;
    assert!(near(waited[0], wait(config.round_trip_ns)), "{waited:?}");
    assert!(near(waited[1], wait(config.round_trip_ns_min)), "{waited:?}");
}
