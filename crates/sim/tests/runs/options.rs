//! Options of TCP that the systems of the time did not have, on a long fat pipe.

use crate::common::*;
use sockscope_sim::programs::{BulkWriter, Setup, Sink};
use sockscope_sim::{Digest, Faults, LinkConfig, Outcome, Simulation};

const BITS_PER_S: u64 = 10_000_000;
/// From one end to the other: a round trip holds 125,000 bytes of the line.
const DELAY_NS: u64 = 50_000_000;
const BYTES: u64 = 4_000_000;

/// Bytes a second of a transfer over the line, from the first write to the last byte read.
fn bytes_per_s(personality: &str, buffer_bytes: u32, faults: Faults) -> f64 {
    let mut scenario = line(personality, "instant", faults, 1);
    scenario.links = vec![LinkConfig::point_to_point(BITS_PER_S, DELAY_NS).with_faults(faults)];
    for host in &mut scenario.hosts {
        // A burst of slow start is longer than the queue of a slow network.
        host.stack.interfaces[0].queue_packets_max = 500;
    }
    let mut sim = Simulation::new(scenario, Digest::default()).unwrap();
    let setup = Setup { reserve_bytes: Some(buffer_bytes), ..Setup::default() };
    sim.spawn(1, Box::new(Sink::new(PORT, 65_536, 1).set_up(setup)), 0);
    sim.spawn(0, Box::new(BulkWriter::new(TO, 8192, BYTES.div_ceil(8192)).set_up(setup)), 1000);
    assert_eq!(sim.run_to_end(600 * SECOND_NS), Outcome::Ended, "{personality}");
    assert_eq!(sim.damage(), [], "{personality}");
    let note = |name| sim.notes().iter().find(|note| note.name == name).unwrap();
    assert_eq!(note("received_bytes").value, BYTES.div_ceil(8192) * 8192, "{personality}");
    let ns = note("received_bytes").at_ns - note("connected_ns").value;
    BYTES as f64 * 1e9 / ns as f64
}

#[test]
fn a_long_fat_pipe_is_full_with_window_scaling_alone() {
    let most = BITS_PER_S as f64 / 8.0;
    let by_window = 65_535.0 * 1e9 / (2 * DELAY_NS) as f64;
    for base in ["tahoe", "reno", "sunos-4.0.3"] {
        let plain = bytes_per_s(base, 262_144, Faults::NONE);
        let scaled = bytes_per_s(&format!("{base}+window_scaling"), 262_144, Faults::NONE);
        assert!(plain > 0.5 * by_window && plain <= by_window, "{base}: {plain} of {by_window}");
        assert!(scaled > 0.7 * most && scaled <= most, "{base}: {scaled} of {most}");
    }
}

/// Three of a thousand frames are lost: most repairs have several holes.
#[test]
fn lost_frames_cost_less_with_selective_acknowledgments() {
    let faults = Faults { loss_ppm: 3_000, ..Faults::NONE };
    let rate = |options: &str| {
        let of_base =
            |base| bytes_per_s(&format!("{base}+window_scaling{options}"), 262_144, faults);
        ["tahoe", "reno", "sunos-4.0.3"].map(of_base)
    };
    let (plain, with_blocks) = (rate(""), rate("+sack"));
    for (plain, with_blocks) in plain.into_iter().zip(with_blocks) {
        assert!(with_blocks > 1.1 * plain, "{plain} without and {with_blocks} with blocks");
    }
}
