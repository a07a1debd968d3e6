//! The interface's queue and the driver that takes packets from it.

mod common;

use common::*;
use sockscope_record::Kind;
use sockscope_sim::programs::{BulkWriter, Sink};
use sockscope_sim::{Everything, Outcome, Simulation};

/// Where the segments begin that find the queue full, when one call of `tcp_output` sends four of 1,024
/// bytes to an interface that does nothing.
fn refused(personality: &str, queue_packets: usize) -> Vec<u64> {
    let mut scenario = ethernet10(personality, "sparcstation-1", 1);
    scenario.hosts[0].stack.interfaces[0].queue_packets_max = queue_packets;
    let mut sim = Simulation::new(scenario, Everything::default()).unwrap();
    sim.spawn(1, Box::new(Sink::new(PORT, 4096, 1)), 0);
    sim.spawn(0, Box::new(BulkWriter::new(TO, 4096, 1)), 1000);
    assert_eq!(sim.run_to_end(60 * SECOND_NS), Outcome::Ended);
    let drops = sim.sink().records.iter().filter(|record| record.kind == Kind::Drop);
    drops.map(|record| record.offset).collect()
}

#[test]
fn the_driver_takes_the_first_packet_of_a_burst_and_the_queue_holds_the_others() {
    for personality in ["4.3bsd", "tahoe"] {
        assert_eq!(refused(personality, 3), [] as [u64; 0], "{personality}");
        assert_eq!(refused(personality, 2), [3072], "{personality}");
        assert_eq!(refused(personality, 1)[0], 2048, "{personality}");
    }
}
