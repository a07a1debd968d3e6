//! The text of trials whose rounds are made by hand.

use std::path::PathBuf;
use std::process::ExitStatus;

use clap::Parser;

use super::super::round::Round;
use super::super::rounds::Chosen;
use super::*;
use crate::args::{Arguments, Command, Try};
use crate::recording::Forced;

fn arguments(words: &[&str]) -> Try {
    let words = [&["sockscope", "try"], words, &["--", "python3", "client.py"]].concat();
    match Arguments::try_parse_from(words).unwrap().command {
        Command::Try(arguments) => arguments,
        other => panic!("{other:?}"),
    }
}

fn accepted(sockets: u64) -> Outcome {
    Outcome { attempts: sockets, accepted: sockets, ..Outcome::default() }
}

fn refused(sockets: u64) -> Outcome {
    Outcome { attempts: sockets, refused: sockets, errno: 2, ..Outcome::default() }
}

/// A round with the median of its exchanges, nanoseconds, and its throughput, bytes a second.
fn round(with_fix: bool, exchange_ns: Option<u64>, rate: f64) -> Round {
    Round {
        with_fix,
        dir: PathBuf::new(),
        status: ExitStatus::default(),
        forced: Forced::default(),
        exchanges_ns: exchange_ns.into_iter().collect(),
        throughput_bytes_per_s: Some(rate),
        missed: 0,
        overrides: Vec::new(),
        peers: Vec::new(),
    }
}

/// A trial of the fixes that `words` name, all accepted.
fn trial(arguments: &Try, rounds: Vec<Round>) -> Trial<'_> {
    let fixes = arguments.fixes.as_ref().map(|fixes| fixes.0.clone()).unwrap_or_default();
    let outcomes = vec![accepted(1); fixes.len()];
    let mut trial = Trial { arguments, fixes, sides: Sides::Both, chosen: None, rounds };
    for round in trial.rounds.iter_mut().filter(|round| round.with_fix) {
        round.forced.outcomes = outcomes.clone();
    }
    trial
}

/// The result of rounds with these factors on the exchanges and on the throughput of those with the fix.
fn answer(pairs: u64, exchanges: Option<f64>, throughput: f64) -> String {
    let arguments = arguments(&["pacing=80mbit"]);
    let of_pair = |at: u64| {
        let (ns, rate) = (100_000.0 + at as f64 * 100.0, 2e8 + at as f64 * 1e5);
        let exchange = |factor: f64| exchanges.map(|_| (ns * factor) as u64);
        let with = round(true, exchange(exchanges.unwrap_or(1.0)), rate * throughput);
        [round(false, exchange(1.0), rate), with]
    };
    let trial = trial(&arguments, (0..pairs).flat_map(of_pair).collect());
    result(&trial, &Options::default())
}

#[test]
fn the_result_names_the_figure_that_it_judges() {
    assert_eq!(
        answer(4, Some(1.0), 1.0),
        "no difference that the rounds can show in the median exchange of a round between without and with \
         pacing=80mbit"
    );
    assert_eq!(
        answer(4, None, 1.0),
        "no difference that the rounds can show in the throughput of a round between without and with pacing=80mbit"
    );
    let few = answer(2, Some(1.0), 1.0);
    assert!(few.ends_with("pacing=80mbit (4 rounds are too few: --rounds 8)"), "{few}");
}

#[test]
fn a_difference_of_the_other_figure_is_in_the_result() {
    assert_eq!(
        answer(4, Some(1.0), 0.05),
        "no difference that the rounds can show in the median exchange of a round between without and with \
         pacing=80mbit; but throughput gets worse: 9.54 MiB/s with it, 191 MiB/s without it (medians)"
    );
    assert_eq!(
        answer(4, Some(0.5), 2.0),
        "pacing=80mbit helps: exchanges take 50.1 µs with it, 100 µs without it; throughput gets better: 382 MiB/s \
         with it, 191 MiB/s without it (medians)"
    );
    let opposite = answer(4, Some(0.5), 0.5);
    assert!(
        opposite.contains("without it; but throughput gets worse: 95.4 MiB/s with"),
        "{opposite}"
    );
    assert_eq!(
        answer(4, Some(0.5), 1.0),
        "pacing=80mbit helps: exchanges take 50.1 µs with it, 100 µs without it (medians)"
    );
}

/// An interval without 0 is printed above the result, also where it shows no difference.
#[test]
fn an_interval_without_zero_has_its_reason_where_it_shows_no_difference() {
    let other_is_small = answer(4, Some(1.0), 1.01);
    assert!(other_is_small.ends_with("; throughput differs by less than 2 %"), "{other_is_small}");
    let few = answer(2, Some(1.0), 0.05);
    let end = "--rounds 8); throughput differs in these rounds, which may be chance";
    assert!(few.ends_with(end), "{few}");
    let first_is_small = answer(4, Some(1.01), 1.0);
    assert!(first_is_small.ends_with(" (it differs by less than 2 %)"), "{first_is_small}");
}

#[test]
fn a_line_on_sockets_names_the_accepted_fixes_alone() {
    let arguments = arguments(&["nodelay,cc=nosuch", "--pid", "1"]);
    let mut trial = trial(&arguments, vec![round(true, Some(1), 1.0)]);
    trial.rounds[0].forced.outcomes = vec![accepted(2), refused(2)];
    trial.rounds[0].forced.sockets = [0, 1, 1];
    trial.rounds[0].peers = vec!["nginx (pid 7), server at port 80".to_owned()];
    assert_eq!(
        notes(&trial),
        [
            "cc=nosuch: the kernel refused TCP_CONGESTION on 2 of 2 sockets (ENOENT: No such file or directory); it \
             takes what net.ipv4.tcp_available_congestion_control has",
            "nodelay was also set on sockets of a peer: nginx (pid 7), server at port 80",
            "nodelay was set on 1 socket by --pid",
        ]
    );
    trial.rounds[0].forced.outcomes = vec![refused(2); 2];
    (trial.rounds[0].forced.sockets, trial.rounds[0].peers) = ([0; 3], Vec::new());
    assert_eq!(notes(&trial).last().unwrap(), "no socket was changed by --pid");
}

/// A round that is not shown is named too.
#[test]
fn each_round_that_missed_records_is_named() {
    let arguments = arguments(&["nodelay"]);
    let mut trial = trial(&arguments, vec![round(false, Some(9), 1.0), round(true, Some(1), 1.0)]);
    trial.rounds[1].missed = 1;
    assert_eq!(
        notes(&trial),
        ["round 2 missed 1 record: some of its exchanges and findings may not be known"]
    );
}

#[test]
fn the_round_in_the_middle_is_one_that_has_the_figure() {
    let arguments = arguments(&["nodelay"]);
    let mut trial = trial(&arguments, vec![round(false, None, 1.0), round(false, None, 5.0)]);
    trial.rounds[0].throughput_bytes_per_s = None;
    assert_eq!(trial.typical(false).unwrap().throughput_bytes_per_s, Some(5.0));
    // Where none has it, there is a round to show all the same.
    trial.rounds[1].throughput_bytes_per_s = None;
    assert!(trial.typical(false).is_some() && trial.typical(true).is_none());
}

#[test]
fn an_option_that_the_program_sets_ends_the_effect_from_then_on() {
    let arguments = arguments(&["nodelay,sndbuf=64k"]);
    let mut trial = trial(&arguments, vec![round(true, Some(1), 1.0), round(true, Some(1), 1.0)]);
    let nodelay = Override { fix: 0, option: "TCP_NODELAY", asked: 0, sockets: 2 };
    let sndbuf = |option| Override { fix: 1, option, asked: 4096, sockets: 1 };
    trial.rounds[0].overrides = vec![nodelay.clone(), sndbuf("SO_SNDBUF")];
    trial.rounds[1].overrides = vec![nodelay, sndbuf("SO_SNDBUFFORCE")];
    assert_eq!(
        notes(&trial),
        [
            "the program set TCP_NODELAY itself later, to 0, on 4 sockets: there nodelay was in effect only until \
             then",
            "the program set SO_SNDBUF itself later, to 4096, on 1 socket: there sndbuf=64k was in effect only \
             until then",
            "the program set SO_SNDBUFFORCE itself later, to 4096, on 1 socket: there sndbuf=64k was in effect only \
             until then",
        ]
    );
}

#[test]
fn a_run_without_a_finding_has_no_fix_in_its_title_and_one_result() {
    let arguments = arguments(&["--color", "never"]);
    let mut trial = trial(&arguments, Vec::new());
    trial.chosen = Some(Chosen { finding: None, changes: Vec::new() });
    let mut out = Vec::new();
    write(&trial, &mut out).unwrap();
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "sockscope try: python3 client.py\n\nresult   no finding of this run has a fix that try can set\n"
    );
}
