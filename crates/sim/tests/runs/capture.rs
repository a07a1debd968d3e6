//! Two stations that always have a frame to send share a cable: the winner of a collision keeps it.
//!
//! IEEE 802.3 (1985), 4.2.3.2.5: a station waits, after its n-th collision with one frame, a number of
//! slots drawn from 0 to 2^n - 1, and the count begins anew with each frame. The winner has a new
//! frame and draws from 0 and 1; the loser draws from twice as many as before. Let n be the
//! collisions of
//! times as often (5/8 against 1/8), with n = 3 thirteen times (13/16 against 1/16), and so on, until
//! the loser gives its frame up after 16.

use std::net::Ipv4Addr;

use crate::common::datagrams::{DatagramSender, DatagramSink};
use crate::common::*;
use sockscope_record::{FlowId, Kind};
use sockscope_sim::{Everything, LinkCounts, Simulation};

const BYTES: usize = 1024;
const RUN_NS: u64 = 10 * SECOND_NS;

/// The frames that arrived at a third host, in the order of the cable: the sender of each.
struct Cable {
    senders: Vec<usize>,
    counts: LinkCounts,
}

/// Two hosts that send datagrams to a third as fast as they can, more than the cable carries. Their
/// devices send the next frame back to back, or only after an interrupt.
fn contended(sends_back_to_back: bool, seed: u64) -> Cable {
    let mut scenario = ethernet10("tahoe", "sparcstation-2", seed);
    let mut third = scenario.hosts[1].clone();
    "third".clone_into(&mut third.name);
    third.stack.interfaces[0].address = Ipv4Addr::new(10, 0, 0, 3);
    scenario.hosts.push(third);
    for host in &mut scenario.hosts {
        host.machine.driver.sends_back_to_back = sends_back_to_back;
        if sends_back_to_back {
            (host.machine.driver.start_ns, host.machine.driver.gap_ns) = (0, 0);
        }
    }
    let mut sim = Simulation::new(scenario, Everything::default()).unwrap();
    let to = (Ipv4Addr::new(10, 0, 0, 3), PORT);
    sim.spawn_daemon(2, Box::new(DatagramSink::new(PORT, 2048, u64::MAX)), 0);
    for host in 0..2 {
        sim.spawn(host, Box::new(DatagramSender::new(to, BYTES, u64::from(u32::MAX))), 1_000_000);
    }
    sim.run_until(RUN_NS);
    let sender = |flow: FlowId| {
        let known = sim.connections().iter().find(|known| known.id == flow.connection()).unwrap();
        usize::from(known.client.ip() != CLIENT)
    };
    let came = sim.sink().records.iter().filter(|record| record.kind == Kind::InputEnqueue);
    let senders = came.map(|record| sender(record.flow)).collect();
    Cable { senders, counts: sim.link_counts(0) }
}

/// Lengths of the runs of frames of one sender.
fn runs(senders: &[usize]) -> Vec<usize> {
    senders.chunk_by(|left, right| left == right).map(<[usize]>::len).collect()
}

/// Of the runs of at least `won` frames of one sender, the share that went on with one more.
fn keeps_after(runs: &[usize], won: usize) -> f64 {
    let had: usize = runs.iter().map(|run| (run + 1).saturating_sub(won)).sum();
    let kept: usize = runs.iter().map(|run| run.saturating_sub(won)).sum();
    kept as f64 / had as f64
}

#[test]
fn who_wins_a_collision_keeps_the_cable_the_surer_the_longer() {
    for seed in 1..=5 {
        let cable = contended(true, seed);
        let runs = runs(&cable.senders);
        let frames = cable.senders.len();
        assert!(frames > 5000 && cable.counts.collisions > 500, "{frames} {:?}", cable.counts);
        // By fair chance the longest of so many would be near 13.
        let longest = runs.iter().max().unwrap();
        assert!(*longest > 50, "seed {seed}: {longest}");
        let kept = [1, 2, 4, 8].map(|won| keeps_after(&runs, won));
        assert!(kept.is_sorted() && kept[3] > 0.95, "seed {seed}: {kept:?}");
        // Over ten seconds neither is starved: the loser gives its frame up at last and begins anew.
        assert!(cable.counts.given_up > 0, "seed {seed}");
        let share = cable.senders.iter().sum::<usize>() as f64 / frames as f64;
        assert!((0.2..0.8).contains(&share), "seed {seed}: {share}");
    }
}

/// The cause: a device that takes an interrupt before each frame is not there when the cable falls
/// silent, and the other one has it.
#[test]
fn devices_with_a_gap_take_turns() {
    for seed in 1..=5 {
        let cable = contended(false, seed);
        let runs = runs(&cable.senders);
        let longest = runs.iter().max().unwrap();
        assert!(*longest < 10, "seed {seed}: {longest} frames in a row");
        assert!(keeps_after(&runs, 1) < 0.2, "seed {seed}: {:.3}", keeps_after(&runs, 1));
        assert_eq!(cable.counts.given_up, 0, "seed {seed}");
    }
}
