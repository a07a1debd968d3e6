//! Datagrams through two hosts: counts, records and losses.

use crate::common::datagrams::{DatagramSender, DatagramSink};
use crate::common::*;
use sockscope_record::{Kind, Point};
use sockscope_sim::programs::Pace;
use sockscope_sim::{Everything, Outcome, Simulation};
use sockscope_stack::Routine;

#[test]
fn every_datagram_passes_all_eight_points_in_order() {
    let mut sim =
        Simulation::new(ethernet3("4.3bsd", "instant", 1), Everything::default()).unwrap();
    sim.spawn(1, Box::new(DatagramSink::new(PORT, 2048, 10)), 0);
    let sender = DatagramSender::new(TO, 500, 10).paced(Pace::Sleep(20_000_000));
    sim.spawn(0, Box::new(sender), 1000);
    assert_eq!(sim.run_to_end(60 * SECOND_NS), Outcome::Ended);
    for point in Point::ALL {
        let at_point = sim.sink().records.iter().filter(|record| record.point() == Some(point));
        let offsets: Vec<u64> = at_point.map(|record| record.offset).collect();
        assert_eq!(offsets, (0..10).map(|number| number * 500).collect::<Vec<_>>(), "{point:?}");
    }
    assert!(sim.sink().records.is_sorted_by_key(|record| record.at_ns));
    assert_eq!(sim.connections()[0].server.to_string(), "10.0.0.2:9");
    assert_eq!(sim.connections()[0].client.ip().to_string(), "10.0.0.1");
    assert_eq!(sim.connections()[0].processes.len(), 2);
    let readers = sim.sink().records.iter().filter(|record| record.kind == Kind::ReceiveDequeue);
    assert!(readers.map(|record| record.thread).all(|thread| thread == 1));
}

#[test]
fn a_sender_without_a_receiver_hears_of_unreachable_ports() {
    let mut scenario = ethernet3("4.2bsd-cabrera", "instant", 1);
    scenario.hosts[1].stack.answers_unreachable = true;
    let mut sim = Simulation::new(scenario, Everything::default()).unwrap();
    let sender = DatagramSender::new(TO, 113, 100).paced(Pace::Sleep(20_000_000));
    sim.spawn(0, Box::new(sender), 0);
    assert_eq!(sim.run_to_end(60 * SECOND_NS), Outcome::Ended);
    let calls = |routine| sim.host(0).meter().calls(routine);
    assert_eq!(calls(Routine::Uiomove), 200);
    assert_eq!(calls(Routine::InNetof), 400, "no route cache");
    assert_eq!(calls(Routine::InLnaof), 300);
    assert_eq!(calls(Routine::Ipintr), 100);
    assert_eq!(calls(Routine::InCksum), 300, "one out, two for each answer");
    assert_eq!(calls(Routine::MFreem), 200);
}
