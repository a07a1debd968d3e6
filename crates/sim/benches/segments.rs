//! Simulated segments a second of CPU time on one thread, probes on.
//!
//! `cargo bench -p sockscope-sim [-- SEGMENTS]`. A segment is 1024 bytes written, sent, received,
//! read, checked and acknowledged. Each line is the median and the range of the rounds; the two
//! control lines differ in nothing. The last line sends ten million segments (or SEGMENTS) and
//! prints the memory that the process held on the way.

use std::hint::black_box;
use std::net::Ipv4Addr;

use sockscope_sim::programs::{BulkWriter, Setup, Sink};
use sockscope_sim::{
    Digest, HostConfig, LinkConfig, LogPolicy, Machine, NoRecords, Outcome, RecordSink, Scenario,
    Simulation,
};
use sockscope_stack::Personality;

#[path = "../../../benches/process.rs"]
mod process;

use process::{CpuTime, memory_kib};

const ROUNDS: usize = 5;
const SEGMENT_BYTES: usize = 1024;
/// Segments of one round.
const SEGMENTS: u64 = 300_000;
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

fn main() {
    let long = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(10_000_000);
    for machine in ["instant", "sparcstation-1"] {
        report(&format!("line, {machine}"), || line(machine, SEGMENTS, Digest::default()));
        report(&format!("line, {machine} (control)"), || {
            line(machine, SEGMENTS, Digest::default());
        });
        report(&format!("line, {machine}, no probes"), || line(machine, SEGMENTS, NoRecords));
        report(&format!("loopback, {machine}"), || loopback(machine, SEGMENTS));
        report(&format!("Ethernet, {machine}"), || ethernet(machine, SEGMENTS));
    }
    let before_kib = memory_kib("VmRSS");
    let start = CpuTime::now();
    line("instant", long, Digest::default());
    let rate = long as f64 / start.elapsed().as_secs_f64() / 1e6;
    let after_kib = memory_kib("VmRSS");
    println!(
        "{long} segments at {rate:.2} million/s; resident {before_kib} KiB before, {after_kib} after"
    );
}

fn report(name: &str, mut round: impl FnMut()) {
    let mut rates: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = CpuTime::now();
            round();
            SEGMENTS as f64 / start.elapsed().as_secs_f64() / 1e6
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    let (median, least, most) = (rates[ROUNDS / 2], rates[0], rates[ROUNDS - 1]);
    println!("{name:32} {median:6.2} million segments/s ({least:.2} to {most:.2})");
}

fn host(name: &str, machine: &str) -> HostConfig {
    let personality = Personality::by_name("sunos-4.0.3").expect("a known personality");
    let machine = Machine::by_name(machine).expect("a known machine");
    HostConfig::new(name, personality, machine)
}

/// Two hosts on a line of 100 Mbit/s.
fn line<S: RecordSink>(machine: &str, segments: u64, sink: S) {
    let hosts = [("client", CLIENT), ("server", SERVER)];
    let hosts = hosts.map(|(name, address)| host(name, machine).with_line(address, 1500, 0));
    let links = vec![LinkConfig::point_to_point(100_000_000, 10_000)];
    run(hosts.to_vec(), links, 1, SERVER, segments, sink);
}

fn ethernet(machine: &str, segments: u64) {
    let hosts = [("client", CLIENT), ("server", SERVER)];
    let hosts = hosts.map(|(name, address)| host(name, machine).with_ethernet10(address, 0));
    let links = vec![LinkConfig::ethernet10()];
    run(hosts.to_vec(), links, 1, SERVER, segments, Digest::default());
}

fn loopback(machine: &str, segments: u64) {
    let hosts = vec![host("alone", machine).with_loopback()];
    run(hosts, Vec::new(), 0, Ipv4Addr::LOCALHOST, segments, Digest::default());
}

fn run<S: RecordSink>(
    hosts: Vec<HostConfig>,
    links: Vec<LinkConfig>,
    server: usize,
    address: Ipv4Addr,
    segments: u64,
    sink: S,
) {
    let scenario = Scenario { seed: 1, hosts, links, log: LogPolicy::All };
    let mut sim = Simulation::new(scenario, sink).expect("a sound scenario");
    let setup = Setup { buffer_bytes: Some(32_768), ..Setup::default() };
    sim.spawn(server, Box::new(Sink::new(9, 8192, 1).set_up(setup)), 0);
    let writer = BulkWriter::new((address, 9), SEGMENT_BYTES * 8, segments / 8).set_up(setup);
    // The server listens by then.
    sim.spawn(0, Box::new(writer), 100_000_000);
    assert_eq!(sim.run_to_end(u64::MAX / 2), Outcome::Ended);
    assert_eq!(sim.damage(), []);
    black_box(sim.into_sink());
}
