//! A personality from outside: a value made of others, run next to those that exist.

use crate::common::*;
use sockscope_record::{Direction, Kind, tcp_flags};
use sockscope_sim::programs::{BulkWriter, Setup, Sink};
use sockscope_sim::{Digest, Everything, Outcome, RecordSink, Simulation};
use sockscope_stack::Personality;
use sockscope_stack::tcp::{CongestionRules, TcpRules, WindowUpdate};

/// 4.3BSD with Tahoe's window rules: it announces its window after two segments as well, and begins
/// slowly.
fn variant() -> Personality {
    let plain = personality("4.3bsd");
    let tahoe = personality("tahoe");
    Personality {
        name: "4.3bsd-windows",
        tcp: TcpRules {
            window_update: WindowUpdate::Share { two_when_empty: true },
            congestion: CongestionRules {
                quench: plain.tcp.congestion.quench,
                ..tahoe.tcp.congestion
            },
            ..plain.tcp
        },
        ..plain
    }
}

/// 200 KB with buffers of 16 KB, read as they arrive.
fn transfer<S: RecordSink>(personality: &Personality, sink: S) -> Simulation<S> {
    let mut scenario = ethernet10("4.3bsd", "sparcstation-1", 1);
    scenario.hosts.iter_mut().for_each(|host| host.personality = personality.clone());
    let mut sim = Simulation::new(scenario, sink).unwrap();
    let setup = Setup { buffer_bytes: Some(16_384), ..Setup::default() };
    sim.spawn(1, Box::new(Sink::new(PORT, 4096, 1).set_up(setup)), 0);
    sim.spawn(0, Box::new(BulkWriter::new(TO, 4096, 50).set_up(setup)), 1000);
    assert_eq!(sim.run_to_end(600 * SECOND_NS), Outcome::Ended);
    assert_eq!(sim.damage(), []);
    sim
}

/// Bare acknowledgments of the receiver.
fn acknowledgments(personality: &Personality) -> usize {
    let sim = transfer(personality, Everything::default());
    let left = sim.sink().records.iter().filter(|record| record.kind == Kind::InterfaceDequeue);
    let back = left.filter(|record| record.flow.direction() == Direction::FromServer);
    back.filter(|record| record.len == 0 && record.tcp_flags == tcp_flags::ACK).count()
}

#[test]
fn a_personality_is_made_of_others_and_does_as_it_says() {
    let (plain, mixed) = (personality("4.3bsd"), variant());
    assert_eq!(Personality::by_name(mixed.name), None, "nothing had to know of it");
    let (few, many) = (acknowledgments(&plain), acknowledgments(&mixed));
    assert!(many > few, "two segments of 1,024 are less than 35 % of 16,384: {few} {many}");
}

#[test]
fn one_more_personality_changes_no_other() {
    let digest = |personality: &Personality| *transfer(personality, Digest::default()).sink();
    let before = Personality::ALL.map(|personality| digest(&personality));
    let own = digest(&variant());
    let after = Personality::ALL.map(|personality| digest(&personality));
    assert_eq!(before, after);
    assert!(!before.contains(&own));
}

/// A read that takes all data notifies the protocol at `splnet`, as any other: with interrupts between
/// the decision and the packet, an older acknowledgment would leave behind a newer one.
#[test]
fn acknowledgments_leave_in_order() {
    for personality in Personality::ALL {
        let scenario = ethernet10(personality.name, "sparcstation-1", 1);
        let mut sim = Simulation::new(scenario, Everything::default()).unwrap();
        let setup = Setup { reserve_bytes: Some(16_384), ..Setup::default() };
        sim.spawn(1, Box::new(Sink::new(PORT, 65_536, 1).set_up(setup)), 0);
        sim.spawn(0, Box::new(BulkWriter::new(TO, 300_000, 1).set_up(setup)), 1_000_000);
        assert_eq!(sim.run_to_end(600 * SECOND_NS), Outcome::Ended);
        let left = sim.sink().records.iter().filter(|record| record.kind == Kind::InterfaceEnqueue);
        let back = left.filter(|record| record.flow.direction() == Direction::FromServer);
        let acknowledged: Vec<_> =
            back.filter_map(|record| record.segment_header()?.acknowledged).collect();
        assert!(acknowledged.len() > 50 && acknowledged.is_sorted(), "{}", personality.name);
    }
}
