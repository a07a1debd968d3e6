//! Three hosts on one Ethernet, each sending to the next while it receives from the one before: they
//! want more than the cable carries, so that frames collide and stations back off.

use std::net::Ipv4Addr;

use crate::common::*;
use sockscope_analysis::{Analyzer, TraceFacts};
use sockscope_sim::programs::{BulkWriter, Setup, Sink};
use sockscope_sim::{
    Digest, Everything, LinkCounts, Note, Outcome, RecordSink, Scenario, Simulation,
};
use sockscope_stack::Personality;

const HOSTS: usize = 3;
const WRITES: u64 = 50;
const WRITE_BYTES: usize = 8192;
const BYTES: u64 = WRITES * WRITE_BYTES as u64;

/// A cable of 10 Mbit/s.
const BITS_PER_S: u64 = 10_000_000;

fn address(host: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, host as u8 + 1)
}

/// Three machines that could fill the cable alone.
fn scene(personality: &str, seed: u64) -> Scenario {
    let mut scenario = ethernet10(personality, "sparcstation-2", seed);
    let mut third = scenario.hosts[1].clone();
    "third".clone_into(&mut third.name);
    third.stack.interfaces[0].address = address(2);
    scenario.hosts.push(third);
    scenario
}

/// All three transfers, begun within three milliseconds.
fn ring<S: RecordSink>(personality: &str, seed: u64, sink: S) -> Simulation<S> {
    let mut sim = Simulation::new(scene(personality, seed), sink).unwrap();
    // 4.2BSD has no such option: its buffers are 2,048 bytes.
    let is_new = crate::common::personality(personality).socket.buffers.hiwat_max.is_some();
    let setup = Setup { buffer_bytes: is_new.then_some(16_384), ..Setup::default() };
    for host in 0..HOSTS {
        sim.spawn(host, Box::new(Sink::new(PORT, WRITE_BYTES, 1).set_up(setup)), 0);
    }
    for host in 0..HOSTS {
        let to = (address((host + 1) % HOSTS), PORT);
        let writer = BulkWriter::new(to, WRITE_BYTES, WRITES).set_up(setup);
        sim.spawn(host, Box::new(writer), 10_000_000 + host as u64 * 1_000_000);
    }
    assert_eq!(sim.run_to_end(600 * SECOND_NS), Outcome::Ended, "{personality}");
    assert_eq!(sim.damage(), [], "{personality}");
    sim
}

fn values(notes: &[Note], name: &str) -> Vec<u64> {
    notes.iter().filter(|note| note.name == name).map(|note| note.value).collect()
}

/// Nothing is lost for ever, and no station is starved: the first to begin does not end first by much.
#[test]
fn three_hosts_share_a_cable_fairly_and_lose_nothing() {
    for personality in Personality::ALL.map(|personality| personality.name) {
        let sim = ring(personality, 1, Everything::default());
        let notes = sim.notes();
        assert_eq!(values(notes, "received_bytes"), [BYTES; HOSTS], "{personality}");
        let LinkCounts { collisions, bytes, busy_ns, lost, .. } = sim.link_counts(0);
        assert!(collisions > 80, "{personality}: {collisions} collisions");
        assert_eq!(lost, 0, "{personality}");
        let ends = values(notes, "end_ns");
        let (first, last) = (ends.iter().min().unwrap(), ends.iter().max().unwrap());
        assert!(bytes * 8 <= last * BITS_PER_S / SECOND_NS, "{personality}: more than fits");
        assert!(busy_ns <= *last, "{personality}");
        // The slowest of three has at least two fifths of the fastest one's rate.
        assert!(first * 5 >= last * 2, "{personality}: ends {ends:?}");
    }
}

/// The ledger of each flow: bytes that entered a stage have left it, resent ones aside.
#[test]
fn no_byte_is_left_in_a_queue_after_contention() {
    for personality in Personality::ALL.map(|personality| personality.name) {
        let mut sim = ring(personality, 2, Everything::default());
        sim.run_until(sim.now_ns() + 100 * SECOND_NS);
        assert_eq!(sim.frames_in_flight(), 0, "{personality}");
        let mut analyzer = Analyzer::new();
        sim.connections().iter().for_each(|known| analyzer.connection(known.clone()));
        analyzer.push(&sim.sink().records);
        let analysis = analyzer.finish(TraceFacts::default());
        assert_eq!(analysis.connections.len(), HOSTS, "{personality}");
        for connection in &analysis.connections {
            let flow = &connection.flows[0];
            assert_eq!(flow.bytes, BYTES, "{personality}");
            for stage in &flow.stages {
                assert_eq!(stage.residue_bytes, Some(0), "{personality} {stage:?}");
            }
        }
    }
}

#[test]
fn collisions_come_out_the_same_for_the_same_seed_alone() {
    let run = |seed| {
        let sim = ring("reno", seed, Digest::default());
        (*sim.sink(), sim.link_counts(0).collisions)
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}
