//! The interface's queue and the driver that takes packets from it.

use crate::common::*;
use sockscope_record::{Kind, Record};
use sockscope_sim::programs::{BulkWriter, Setup, Sink};
use sockscope_sim::{Everything, Machine, Outcome, ProbeConfig, Simulation};

/// Where the segments begin that find the queue full, when one call of `tcp_output` sends four of 1,024
/// bytes to an interface that does nothing.
fn refused(personality: &str, queue_packets: usize) -> Vec<u64> {
    refused_by(&machine("sparcstation-1"), personality, queue_packets)
}

/// The same on another machine.
fn refused_by(client: &Machine, personality: &str, queue_packets: usize) -> Vec<u64> {
    let mut scenario = ethernet10(personality, "sparcstation-1", 1);
    scenario.hosts[0].stack.interfaces[0].queue_packets_max = queue_packets;
    scenario.hosts[0].machine = client.clone();
    let mut sim = Simulation::new(scenario, Everything::default()).unwrap();
    sim.spawn(1, Box::new(Sink::new(PORT, 4096, 1)), 0);
    sim.spawn(0, Box::new(BulkWriter::new(TO, 4096, 1)), 1000);
    assert_eq!(sim.run_to_end(60 * SECOND_NS), Outcome::Ended);
    let drops = sim.sink().records.iter().filter(|record| record.kind == Kind::Drop);
    // The FIN leaves in a call of its own.
    drops.map(|record| record.offset).filter(|&begin| begin < 4096).collect()
}

#[test]
fn the_driver_takes_the_first_packet_of_a_burst_and_the_queue_holds_the_others() {
    for personality in ["4.3bsd", "tahoe"] {
        assert_eq!(refused(personality, 3), [] as [u64; 0], "{personality}");
        assert_eq!(refused(personality, 2), [3072], "{personality}");
        assert_eq!(refused(personality, 1)[0], 2048, "{personality}");
    }
    // Three segments, of 1,460 bytes.
    assert_eq!(refused("sunos-4.1", 2), [] as [u64; 0]);
    assert_eq!(refused("sunos-4.1", 1), [2920]);
}

#[test]
fn a_device_that_sends_back_to_back_takes_the_whole_burst() {
    let mut client = machine("sparcstation-1");
    client.driver.sends_back_to_back = true;
    for personality in ["4.3bsd", "tahoe", "sunos-4.1"] {
        assert_eq!(refused_by(&client, personality, 1), [] as [u64; 0], "{personality}");
    }
}

#[test]
fn a_driver_that_is_still_sending_takes_nothing_of_a_burst() {
    // The acknowledgment that ends the handshake has not left when the program writes.
    let mut client = machine("sparcstation-1");
    client.driver.start_ns = SECOND_NS / 10;
    for personality in ["4.3bsd", "tahoe"] {
        assert_eq!(refused_by(&client, personality, 4), [] as [u64; 0], "{personality}");
        assert_eq!(refused_by(&client, personality, 3), [3072], "{personality}");
        assert_eq!(refused_by(&client, personality, 2)[0], 2048, "{personality}");
    }
    assert_eq!(refused_by(&client, "sunos-4.1", 3), [] as [u64; 0]);
    assert_eq!(refused_by(&client, "sunos-4.1", 2), [2920]);
}

/// Mean time of a packet in the IP queue in a transfer of 256 KB between two SPARCstation 1 with probes, whose
/// `splnet` masks the network's devices or does not. Microseconds.
fn wait_in_ip_queue_us(masks_devices: bool) -> u64 {
    let mut scenario = ethernet10("sunos-4.0.3", "sparcstation-1", 1);
    for host in &mut scenario.hosts {
        host.personality.interface.masks_devices = masks_devices;
        host.probes = Some(ProbeConfig::default());
    }
    let mut sim = Simulation::new(scenario, Everything::default()).unwrap();
    let setup = Setup { buffer_bytes: Some(52_428), ..Setup::default() };
    sim.spawn(1, Box::new(Sink::new(PORT, 52_428, 1).set_up(setup)), 0);
    sim.spawn(0, Box::new(BulkWriter::new(TO, 262_144, 1).set_up(setup)), SECOND_NS / 10);
    assert_eq!(sim.run_to_end(60 * SECOND_NS), Outcome::Ended);
    let at = |kind| {
        let of_data = |record: &&Record| record.kind == kind && record.len > 0;
        let times = sim.sink().records.iter().filter(of_data).map(|record| record.at_ns);
        (times.clone().sum::<u64>(), times.count() as u64)
    };
    let ((came_ns, came), (left_ns, left)) = (at(Kind::InputEnqueue), at(Kind::InputDequeue));
    assert_eq!(came, left);
    (left_ns - came_ns) / came / 1000
}

/// Table 1 of the SunOS study has 124 us, to which the receive interrupt is fitted. A device that interrupts the
/// protocol puts a packet into the queue while the protocol runs, and it waits until that is done.
#[test]
fn packets_wait_as_printed_where_the_protocol_masks_devices() {
    let masked_us = wait_in_ip_queue_us(true);
    assert!((118..=130).contains(&masked_us), "{masked_us}");
    let unmasked_us = wait_in_ip_queue_us(false);
    assert!(unmasked_us > 180, "{unmasked_us}");
}

/// Time from the last bit of a frame to the first one of the next frame, where a device sends four frames
/// of 1,024 bytes from its ring, as the arrivals at the other host have it. Nanoseconds.
fn silences_ns(start_ns: u64) -> Vec<u64> {
    let mut scenario = ethernet10("tahoe", "sparcstation-1", 1);
    let driver = &mut scenario.hosts[0].machine.driver;
    (driver.sends_back_to_back, driver.start_ns) = (true, start_ns);
    let mut sim = Simulation::new(scenario, Everything::default()).unwrap();
    sim.spawn(1, Box::new(Sink::new(PORT, 4096, 1)), 0);
    sim.spawn(0, Box::new(BulkWriter::new(TO, 4096, 1)), 1000);
    assert_eq!(sim.run_to_end(60 * SECOND_NS), Outcome::Ended);
    let arrived = sim.sink().records.iter().filter(|record| record.kind == Kind::InputEnqueue);
    let arrived: Vec<_> = arrived.filter(|record| record.len == 1024).collect();
    // Data, headers of TCP, IP and Ethernet, and its framing, at 10 Mbit/s.
    let frame_ns = (1024 + 40 + 14 + 12) * 800;
    arrived.windows(2).map(|pair| pair[1].at_ns - pair[0].at_ns - frame_ns).collect()
}

#[test]
fn a_device_takes_its_time_for_each_frame_of_its_ring() {
    // The cable asks for 9.6 us of silence, which a quick device waits for.
    assert_eq!(silences_ns(0), [9_600; 3]);
    assert_eq!(silences_ns(5_000), [9_600; 3]);
    assert_eq!(silences_ns(300_000), [300_000; 3]);
}
