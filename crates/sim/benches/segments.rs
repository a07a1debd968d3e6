//! Simulated segments a second on one core, probes on.
//!
//! `cargo bench -p sockscope-sim`. A segment is 1024 bytes written, sent, received, read, checked and
//! acknowledged. A case and its control differ in nothing, and so show the noise of the machine.

use std::net::Ipv4Addr;

use divan::Bencher;
use divan::counter::ItemsCount;
use sockscope_sim::programs::{BulkWriter, Setup, Sink};
use sockscope_sim::{
    Digest, HostConfig, LinkConfig, LogPolicy, Machine, NoRecords, Outcome, RecordSink, Scenario,
    Simulation,
};
use sockscope_stack::Personality;

const SEGMENT_BYTES: usize = 1024;
/// Segments of one sample.
const SEGMENTS: u64 = 300_000;
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
/// One without costs, and one of the papers'.
const MACHINES: [&str; 2] = ["instant", "sparcstation-1"];

fn main() {
    divan::main();
}

#[divan::bench(args = MACHINES, sample_count = 5, sample_size = 1)]
fn line(bencher: Bencher<'_, '_>, machine: &str) {
    over_line(bencher, machine, Digest::default);
}

#[divan::bench(args = MACHINES, sample_count = 5, sample_size = 1)]
fn line_control(bencher: Bencher<'_, '_>, machine: &str) {
    over_line(bencher, machine, Digest::default);
}

#[divan::bench(args = MACHINES, sample_count = 5, sample_size = 1)]
fn line_without_probes(bencher: Bencher<'_, '_>, machine: &str) {
    over_line(bencher, machine, || NoRecords);
}

#[divan::bench(args = MACHINES, sample_count = 5, sample_size = 1)]
fn loopback(bencher: Bencher<'_, '_>, machine: &str) {
    let hosts = vec![host("alone", machine).with_loopback()];
    run(bencher, &hosts, &[], (Ipv4Addr::LOCALHOST, 9), Digest::default);
}

#[divan::bench(args = MACHINES, sample_count = 5, sample_size = 1)]
fn ethernet(bencher: Bencher<'_, '_>, machine: &str) {
    let hosts = [("client", CLIENT), ("server", SERVER)];
    let hosts = hosts.map(|(name, address)| host(name, machine).with_ethernet10(address, 0));
    run(bencher, &hosts, &[LinkConfig::ethernet10()], (SERVER, 9), Digest::default);
}

fn host(name: &str, machine: &str) -> HostConfig {
    let personality = Personality::by_name("sunos-4.0.3").expect("a known personality");
    let machine = Machine::by_name(machine).expect("a known machine");
    HostConfig::new(name, personality, machine)
}

/// Two hosts on a line of 100 Mbit/s.
fn over_line<S: RecordSink>(bencher: Bencher<'_, '_>, machine: &str, sink: fn() -> S) {
    let hosts = [("client", CLIENT), ("server", SERVER)];
    let hosts = hosts.map(|(name, address)| host(name, machine).with_line(address, 1500, 0));
    run(bencher, &hosts, &[LinkConfig::point_to_point(100_000_000, 10_000)], (SERVER, 9), sink);
}

/// The first host writes to the last one.
fn run<S: RecordSink>(
    bencher: Bencher<'_, '_>,
    hosts: &[HostConfig],
    links: &[LinkConfig],
    to: (Ipv4Addr, u16),
    sink: fn() -> S,
) {
    bencher.counter(ItemsCount::new(SEGMENTS)).bench_local(|| {
        let (hosts, links) = (hosts.to_vec(), links.to_vec());
        let server = hosts.len() - 1;
        let scenario = Scenario { seed: 1, hosts, links, log: LogPolicy::All };
        let mut sim = Simulation::new(scenario, sink()).expect("a sound scenario");
        let setup = Setup { buffer_bytes: Some(32_768), ..Setup::default() };
        sim.spawn(server, Box::new(Sink::new(to.1, 8192, 1).set_up(setup)), 0);
        let writer = BulkWriter::new(to, SEGMENT_BYTES * 8, SEGMENTS / 8).set_up(setup);
        // The server listens by then.
        sim.spawn(0, Box::new(writer), 100_000_000);
        assert_eq!(sim.run_to_end(u64::MAX / 2), Outcome::Ended);
        assert_eq!(sim.damage(), []);
        sim.into_sink()
    });
}
