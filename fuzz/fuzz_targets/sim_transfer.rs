//! Any personality, machine, faults and sizes: a transfer delivers every byte in order or one of
//! its programs gets an error, and no host continues without end.

#![no_main]

use std::net::Ipv4Addr;

use libfuzzer_sys::fuzz_target;
use sockscope_sim::programs::{BulkWriter, Setup, Sink};
use sockscope_sim::{
    Digest, Faults, HostConfig, LinkConfig, LogPolicy, Machine, Outcome, Scenario, Simulation,
};
use sockscope_stack::Personality;

const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const MACHINES: [&str; 4] = ["instant", "vax-11-750", "sparcstation-1", "sparcstation-2"];
/// Far longer than a connection lasts without an answer, and than the longest transfer over the worst line:
/// each of its 1,024 segments may wait there for several time-outs of up to 64 s.
const LIMIT_NS: u64 = 200_000_000_000_000;
/// Writes of up to 8 KiB at most.
const WRITES_MAX: u64 = 32;

fuzz_target!(|input: ([u8; 10], u16, u8, u16)| {
    let ([a, b, loss, twice, late, bad, kind, ..], write_bytes, count, read_bytes) = input;
    let ppm = |octet: u8| u32::from(octet) * 1_000;
    let faults = Faults {
        loss_ppm: ppm(loss),
        duplication_ppm: ppm(twice),
        reordering_ppm: ppm(late),
        reordering_ns_max: 20_000_000,
        corruption_ppm: ppm(bad),
    };
    let personality = Personality::ALL[usize::from(a) % Personality::ALL.len()].clone();
    let machine = Machine::by_name(MACHINES[usize::from(b) % MACHINES.len()]).expect("a machine");
    // Every segment fits when packets are damaged: a checksum surely finds one damaged bit a packet,
    // and a segment in fragments could have several.
    let line_mtu = if bad > 0 { 1500 } else { 296 };
    let host = |name, address| {
        let host = HostConfig::new(name, personality.clone(), machine.clone());
        match kind % 3 {
            0 => host.with_line(address, line_mtu, 0),
            1 => host.with_ethernet10(address, 0),
            _ => host.with_ethernet3(address, 0),
        }
    };
    let link = match kind % 3 {
        0 => LinkConfig::point_to_point(9_600_000, 1_000_000),
        1 => LinkConfig::ethernet10(),
        _ => LinkConfig::ethernet3(),
    };
    let hosts = vec![host("client", CLIENT), host("server", SERVER)];
    let links = vec![link.with_faults(faults)];
    let scenario = Scenario { seed: u64::from(write_bytes), hosts, links, log: LogPolicy::All };
    let mut sim = Simulation::new(scenario, Digest::default()).expect("a sound scenario");
    let (bytes, count) = (usize::from(write_bytes) % 8192 + 1, u64::from(count) % WRITES_MAX + 1);
    let setup = Setup { keep_alive: true, ..Setup::default() };
    let sink = Sink::new(9, usize::from(read_bytes) + 1, 1).set_up(setup);
    sim.spawn_daemon(1, Box::new(sink), 0);
    sim.spawn(0, Box::new(BulkWriter::new((SERVER, 9), bytes, count)), 1000);
    assert_ne!(sim.run_until(LIMIT_NS), Outcome::Stuck);
    assert_eq!(sim.damage(), []);
    let noted = |name| sim.notes().iter().find(|note| note.name == name).map(|note| note.value);
    let failed = noted("write_failed").or(noted("read_failed"));
    if failed.is_none() {
        assert_eq!(noted("received_bytes"), Some(bytes as u64 * count));
    }
});
