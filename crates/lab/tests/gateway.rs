//! Two networks and a gateway between them: the queue of its line, and what it makes of many connections.

use sockscope_experiment::builtin_by_id;
use sockscope_experiment::measurement::Measurement;
use sockscope_lab::run::run;

/// The only case of `gw-1` with these changes.
fn measured(changes: &[&str]) -> Measurement {
    let mut experiment = builtin_by_id("gw-1").unwrap();
    experiment.set_all(changes).unwrap();
    experiment.repetitions = 1;
    let result = run(&experiment, 2, &mut |_, _| {}).unwrap();
    assert_eq!(result.cases.len(), 1, "{changes:?}");
    result.cases[0].measured.clone()
}

fn bits_per_s(measured: &Measurement) -> f64 {
    measured.bytes as f64 * 8e9 / measured.transfer_ns as f64
}

#[test]
fn the_line_behind_the_gateway_is_the_limit() {
    for (kbit_per_s, connections) in [(56, 1), (200, 4), (1000, 8)] {
        let rate = format!("gateway_kbit_per_s={kbit_per_s}");
        let count = format!("connections={connections}");
        let measured = measured(&["personality=tahoe", &rate, &count]);
        let share = bits_per_s(&measured) / (f64::from(kbit_per_s) * 1e3);
        // 512 octets of data have headers of 40.
        assert!((0.5..0.928).contains(&share), "{kbit_per_s} kbit/s: {share}");
        assert_eq!(measured.measure("residue_bytes"), Some(0.0));
    }
}

#[test]
fn the_queue_of_the_line_has_its_bound_and_what_finds_it_full_is_sent_again() {
    let few = measured(&["personality=tahoe", "connections=1"]);
    assert_eq!((few.measure("gateway_dropped"), few.retransmitted), (Some(0.0), 0));
    let many = measured(&["personality=tahoe", "connections=8"]);
    assert_eq!(many.measure("gateway_to_server_queue_max"), Some(30.0));
    assert!(many.measure("gateway_dropped") > Some(0.0));
    assert!(many.retransmitted > 0);
    assert_eq!(many.bytes, 800_000, "every octet arrives");
}

/// No connection of 4.2BSD slows down: data sent again fills the queue for the others.
#[test]
fn without_slow_start_many_connections_send_most_of_their_data_twice() {
    let [old, new] = ["4.2bsd", "tahoe"]
        .map(|personality| measured(&[&format!("personality={personality}"), "connections=8"]));
    assert!(
        old.retransmitted > 5 * new.retransmitted,
        "{} {}",
        old.retransmitted,
        new.retransmitted
    );
    assert!(bits_per_s(&old) < bits_per_s(&new));
    assert_eq!((old.bytes, new.bytes), (800_000, 800_000));
}

#[test]
fn two_ethernets_have_a_gateway_too() {
    let mut experiment = builtin_by_id("lh-6").unwrap();
    let changes = ["topology=gateway", "write_bytes=4096", "total_bytes=100000"];
    experiment.set_all(&changes).unwrap();
    let result = run(&experiment, 2, &mut |_, _| {}).unwrap();
    let measured = &result.cases[0].measured;
    assert_eq!(measured.bytes % 100_000, 0);
    assert!(bits_per_s(measured) < 10e6);
}
