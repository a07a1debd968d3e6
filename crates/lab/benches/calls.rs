//! Calls over VMTP beside calls over what the kernel offers and over QUIC, on loopback.
//!
//! `cargo bench -p sockscope-lab [-- --quick]`. A call is a request of the size and a reply of
//! 20 octets; client and server are threads of one process. Protocols take turns, each
//! round with sockets of its own; a line is the median of the rounds and their quartiles, and the ratio
//! is of calls a second to the first line of its group, pair by pair. `control` differs in nothing from
//! the first line and shows the noise.

use std::time::Duration;

use sockscope_lab::live::{Plan, Protocol, compare};

/// Rates of one protocol, a round each.
struct Rates {
    name: &'static str,
    protocol: Protocol,
    calls_per_s: Vec<f64>,
}

fn main() {
    let quick = std::env::args().any(|word| word == "--quick");
    let (rounds, slice) = if quick { (3, 20) } else { (25, 200) };
    let slice = Duration::from_millis(slice);
    use Protocol::{Quic, Tcp, Udp, VmtpUdp};
    let small = [("udp", Udp), ("udp (control)", Udp), ("vmtp-udp", VmtpUdp), ("quic", Quic)];
    group("64 B", 64, &small, rounds, slice);
    let large = [("tcp", Tcp), ("tcp (control)", Tcp), ("vmtp-udp", VmtpUdp), ("quic", Quic)];
    group("16 KiB", 16 << 10, &large, rounds, slice);
}

/// Measures one size and prints its lines.
fn group(
    title: &str,
    bytes: usize,
    kinds: &[(&'static str, Protocol)],
    rounds: usize,
    slice: Duration,
) {
    println!("requests of {title}, one client, {rounds} rounds of {} ms", slice.as_millis());
    let rates = |&(name, protocol): &(&'static str, Protocol)| Rates {
        name,
        protocol,
        calls_per_s: Vec::new(),
    };
    let mut all: Vec<Rates> = kinds.iter().map(rates).collect();
    for round in 0..rounds {
        // Each round begins with another one, so that none always follows the same neighbour.
        for turn in 0..all.len() {
            let at = (round + turn) % all.len();
            let rate = calls_per_s(all[at].protocol, bytes, slice);
            all[at].calls_per_s.push(rate);
        }
    }
    let first = all[0].calls_per_s.clone();
    for kind in all {
        let ratios = kind.calls_per_s.iter().zip(&first).map(|(rate, first)| rate / first);
        let [low, median, high] = quartiles(ratios.collect());
        let [_, us, _] = quartiles(kind.calls_per_s.iter().map(|rate| 1e6 / rate).collect());
        println!(
            "  {:14} {us:8.1} us a call, {median:.3} of the first's rate ({low:.3} to {high:.3})",
            kind.name
        );
    }
}

fn calls_per_s(protocol: Protocol, bytes: usize, slice: Duration) -> f64 {
    let plan = Plan {
        protocols: vec![protocol],
        message_bytes: vec![bytes],
        clients: vec![1],
        clients_bytes: Vec::new(),
        repetitions: 1,
        slice,
        recorded: Duration::ZERO,
    };
    let comparison = compare(plan, &|_| ());
    let figures = comparison.rows[0].outcome.as_ref().expect("calls on loopback work");
    figures.calls_per_s
}

/// First quartile, median and third quartile, by nearest rank.
fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| values[(values.len() * quarter).div_ceil(4) - 1])
}
