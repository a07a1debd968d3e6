//! The runs of "The Impact of Buffer Management": 10,000 messages of one size by TCP or UDP between
//! two VAX-11/750 on a 3 Mbit/s Ethernet (§3.1, Appendix A of the paper).
#![allow(dead_code, reason = "no test needs all of them")]

use std::net::Ipv4Addr;

use sockscope_sim::programs::{BulkWriter, Sink};
use sockscope_sim::{
    Faults, HostConfig, LinkConfig, LogPolicy, Machine, Outcome, RecordSink, Scenario, Simulation,
};
use sockscope_stack::Personality;

use super::datagrams::DatagramSender;

/// Messages of a run.
pub const MESSAGES: u64 = 10_000;

const SENDER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const RECEIVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const LIMIT_NS: u64 = 3_600_000_000_000;

fn scenario(machine: &Machine, faults: Faults) -> Scenario {
    let host = |name, address| {
        let personality = Personality::by_name("4.2bsd-cabrera").expect("a known personality");
        HostConfig::new(name, personality, machine.clone()).with_ethernet3(address, 0)
    };
    Scenario {
        seed: 1984,
        hosts: vec![
            HostConfig { is_profiled: true, ..host("profiled", SENDER) },
            host("sink", RECEIVER),
        ],
        links: vec![LinkConfig::ethernet3().with_faults(faults)],
        log: LogPolicy::All,
    }
}

/// `write` of so many bytes, 10,000 times; nothing is read.
pub fn tcp<S: RecordSink>(machine: &Machine, bytes: usize, sink: S) -> Simulation<S> {
    let scenario = scenario(machine, Faults::NONE);
    let mut sim = Simulation::new(scenario, sink).expect("a sound scenario");
    sim.spawn(1, Box::new(Sink::new(4321, 1025, 1)), 0);
    let writer = BulkWriter::new((RECEIVER, 4321), bytes, MESSAGES);
    sim.spawn(0, Box::new(writer), 50_000_000);
    assert_eq!(sim.run_to_end(LIMIT_NS), Outcome::Ended, "TCP, {bytes} bytes");
    assert_eq!(sim.damage(), []);
    sim
}

/// `sendto` of so many bytes, 10,000 times, to a port where no socket listens.
pub fn udp<S: RecordSink>(machine: &Machine, bytes: usize, sink: S) -> Simulation<S> {
    let mut scenario = scenario(machine, Faults::NONE);
    scenario.hosts[1].stack.answers_unreachable = true;
    let mut sim = Simulation::new(scenario, sink).expect("a sound scenario");
    let sender = DatagramSender::new((RECEIVER, 1234), bytes, MESSAGES);
    sim.spawn(0, Box::new(sender), 1_000_000);
    assert_eq!(sim.run_to_end(LIMIT_NS), Outcome::Ended, "UDP, {bytes} bytes");
    sim
}
