//! Links that lose, double, hold back and damage frames, in experiments of the laboratory.

use sockscope_experiment::result::{RunResult, write_json};
use sockscope_experiment::{Experiment, builtin_by_id};
use sockscope_lab::run::run;

/// The experiment with these changes, run.
fn result(id: &str, changes: &[&str]) -> Result<RunResult, String> {
    let mut experiment: Experiment = builtin_by_id(id).map_err(|error| error.to_string())?;
    experiment.set_all(changes).map_err(|error| error.to_string())?;
    run(&experiment, 2, &mut |_, _| {}).map_err(|error| error.to_string())
}

fn json(id: &str, changes: &[&str]) -> String {
    let mut out = Vec::new();
    write_json(&result(id, changes).unwrap(), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Octets read, segments sent again and acknowledgments, of the only case.
fn carried(id: &str, changes: &[&str]) -> (u64, u64, u64) {
    let result = result(id, changes).unwrap();
    assert_eq!(result.cases.len(), 1, "{id} {changes:?}");
    let measured = &result.cases[0].measured;
    (measured.bytes, measured.retransmitted, measured.acks)
}

const SHORT: &str = "total_bytes=100000";

/// Lost or damaged data is sent again. Data doubled or out of order is acknowledged at once.
#[test]
fn every_octet_arrives_over_a_link_that_does_any_of_it() {
    let (bytes, again, acks_plain) = carried("lh-6", &["write_bytes=4096", SHORT]);
    assert_eq!((bytes, again), (4_000_000, 0));
    for (fault, repairs) in [
        ("lost_per_million=20000", true),
        ("duplicated_per_million=200000", false),
        ("reordered_per_million=100000", false),
        ("corrupted_per_million=20000", true),
    ] {
        let changes = ["write_bytes=4096", SHORT, fault];
        let (bytes, again, acks) = carried("lh-6", &changes);
        assert_eq!(bytes, 4_000_000, "{fault}");
        if repairs {
            assert!(again > 0, "{fault}");
        } else {
            assert!(acks > acks_plain * 21 / 20, "{fault}: {acks}, {acks_plain} without");
        }
    }
}

#[test]
fn the_same_seed_loses_the_same_frames() {
    let lossy = ["write_bytes=4096", SHORT, "lost_per_million=20000"];
    assert_eq!(json("lh-6", &lossy), json("lh-6", &lossy));
}

#[test]
fn another_seed_loses_others() {
    let again = |seed| {
        let mut experiment = builtin_by_id("lh-6").unwrap();
        experiment.set_all(&["write_bytes=4096", SHORT, "lost_per_million=20000"]).unwrap();
        (experiment.seed, experiment.repetitions) = (seed, 1);
        run(&experiment, 2, &mut |_, _| {}).unwrap().cases[0].measured.retransmitted
    };
    let of_seeds: std::collections::BTreeSet<u64> = (1..=8).map(again).collect();
    assert!(of_seeds.len() > 1, "{of_seeds:?}");
}

/// A third of all frames is lost: the first question or its answer is, on some seed.
#[test]
fn the_portmapper_is_asked_again() {
    let mut experiment = builtin_by_id("lh-2").unwrap();
    experiment.set_all(&["server_timer_ms=30", "lost_per_million=300000"]).unwrap();
    let mut asked_max = 0;
    for seed in 1..=8 {
        experiment.seed = seed;
        let result = run(&experiment, 2, &mut |_, _| {}).unwrap();
        let measured = &result.cases[0].measured;
        assert_eq!(measured.call_ns.n(), 1, "seed {seed}");
        let asked = measured.system_calls.iter().filter(|call| call.name == "sendto").count();
        asked_max = asked_max.max(asked);
    }
    assert!(asked_max > 1, "asked {asked_max} times at most");
}

/// 4.2BSD verifies no checksum of UDP, so that its programs see each bit that is turned: of other
/// numbers, of no message, and of a refusal.
#[test]
fn a_damaged_answer_of_the_portmapper_is_not_taken_for_one() {
    let mut experiment = builtin_by_id("lh-2").unwrap();
    let changes = ["personality=4.2bsd", "server_timer_ms=30", "corrupted_per_million=300000"];
    experiment.set_all(&changes).unwrap();
    let mut ended = 0;
    for seed in 1..=40 {
        experiment.seed = seed;
        match run(&experiment, 2, &mut |_, _| {}) {
            Ok(result) => ended += result.cases[0].measured.call_ns.n(),
            Err(error) => {
                let told = error.to_string();
                assert!(!told.contains("octet ") && !told.contains('{'), "seed {seed}: {told}");
            }
        }
    }
    assert!(ended > 25, "{ended} of 40");
}

/// Half of all frames are lost. Where all of them are lost until the writer, which has closed, gives up, its
/// peer never hears of it.
#[test]
fn whatever_a_lossy_link_ends_is_told_with_the_link() {
    let hint = "; the link has `lost_per_million`: set less of it, or another seed";
    let mut experiment = builtin_by_id("lh-6").unwrap();
    let changes = ["write_bytes=100", "total_bytes=100", "lost_per_million=500000"];
    experiment.set_all(&changes).unwrap();
    experiment.repetitions = 1;
    let mut told = Vec::new();
    for seed in 1..=100 {
        experiment.seed = seed;
        told.extend(run(&experiment, 2, &mut |_, _| {}).err().map(|error| error.to_string()));
    }
    assert!(told.iter().all(|error| error.ends_with(hint)), "{told:#?}");
    assert!(told.iter().any(|error| error.contains("no end after")), "{told:#?}");
    let changes = ["clients=1", "own_hosts=false", "run_ms=20000", "lost_per_million=500000"];
    let told = result("pc-4", &changes).err().unwrap_or_default();
    assert!(told.contains(" ended") && told.ends_with(hint), "{told}");
}

/// Two fifths of all frames are lost: some calls get no whole response, and their client makes the next one.
#[test]
fn calls_that_fail_are_counted_and_others_end() {
    let changes = ["clients=1", "own_hosts=false", "run_ms=60000", "lost_per_million=400000"];
    let result = result("pc-4", &changes).unwrap();
    let measured = &result.cases[0].measured;
    assert!(measured.measure("failed_calls").unwrap() > 0.0);
    assert!(measured.call_ns.n() > 3, "{}", measured.call_ns.n());
}

/// The call that waits for a connection learns why it is missing; a write after the end, that it is over.
#[test]
fn a_connection_that_gives_up_says_so() {
    let mut experiment = builtin_by_id("lh-6").unwrap();
    experiment.set_all(&["write_bytes=4096", SHORT, "lost_per_million=500000"]).unwrap();
    for (seed, expected) in [
        (32, "writer after 0 octets: the peer did not answer in time"),
        (1, "writer after 32768 octets: the sending direction is closed"),
    ] {
        experiment.seed = seed;
        let told = run(&experiment, 2, &mut |_, _| {}).err().map(|error| error.to_string());
        let hint = "the link has `lost_per_million`: set less of it, or another seed";
        assert_eq!(told, Some(format!("lh-6, the only case: {expected}; {hint}")), "seed {seed}");
    }
}

#[test]
fn one_host_has_no_link_and_a_link_has_bounds() {
    let told = |id, changes: &[&str]| result(id, changes).err().unwrap_or_default();
    let none = told("si-1a", &["lost_per_million=1"]);
    assert!(none.contains("`lost_per_million` needs a link"), "{none}");
    assert!(none.contains("set topology=pair too"), "{none}");
    for (change, expected) in [
        ("lost_per_million=500001", "expected `lost_per_million` from 0 to 500000"),
        ("corrupted_per_million=-1", "`corrupted_per_million`: expected a whole number, not `-1`"),
        ("duplicated_per_million=1.5", "`duplicated_per_million`: expected a whole number"),
        ("reordered_by_us=5", "`reordered_by_us` goes with `reordered_per_million`"),
    ] {
        let refused = told("lh-6", &[change]);
        assert!(refused.contains(expected), "{refused}");
    }
    let refused = told("lh-6", &["reordered_by_us=0", "reordered_per_million=1"]);
    assert!(refused.contains("expected `reordered_by_us` from 1 to 1000000"), "{refused}");
}

#[test]
fn vmtp_repairs_what_the_cable_does() {
    let plain = result("pc-4", &["clients=1", "own_hosts=false"]).unwrap();
    for fault in [
        "lost_per_million=20000",
        "duplicated_per_million=200000",
        "reordered_per_million=100000",
        "corrupted_per_million=20000",
    ] {
        let changes = ["clients=1", "own_hosts=false", fault];
        let result = result("pc-4", &changes).unwrap();
        assert!(result.cases[0].measured.call_ns.n() > 10, "{fault}");
        assert_ne!(result.cases[0].measured, plain.cases[0].measured, "{fault}");
    }
}

/// Frames of other stations, few enough that a cable of 1984 has them: the driver is called again for 5 to 60
/// frames of 10,000 that collided, as in Table 3 of the study of buffers in 4.2BSD.
#[test]
fn frames_of_other_stations_make_a_sender_collide_now_and_then() {
    let again = |changes: &[&str]| {
        let all = ["message_bytes=1024", "profiling=false"];
        let result = result("bb-1", &[&all[..], changes].concat()).unwrap();
        let calls = |routine| result.cases[0].measured.calls_of(routine);
        calls("enstart") - calls("enoutput")
    };
    assert_eq!(again(&[]), 0);
    let rates = [25, 50, 100].map(|rate| again(&[&format!("other_frames_per_s={rate}")]));
    assert!((5..=60).contains(&rates[1]), "{rates:?}");
    assert_eq!(again(&["other_frames_per_s=50"]), rates[1]);
}
