//! Two hosts at the ends of two wires, in time that only the test moves.

use std::net::Ipv4Addr;

use sockscope_link::{Settings, Station, Wire};
use sockscope_record::Kind;
use sockscope_sim::{Everything, NoRecords};
use sockscope_stack::Personality;

use super::{Exchanges, HostPlan, ModelHost, Service};

const CLIENT: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
/// The clock does not begin with the simulation.
const BEGAN_NS: u64 = 5_000_000_000;

fn plan(name: &str, address: Ipv4Addr, services: &[Service]) -> HostPlan {
    HostPlan {
        personality: name.to_owned(),
        machine: "instant".to_owned(),
        address,
        mtu: 1_500,
        seed: 7,
        services: services.to_vec(),
        fetch: None,
        exchanges: None,
    }
}

fn exchanges(count: u32) -> Exchanges {
    Exchanges { with: (SERVER, 7), count, connections: 1 }
}

/// Moves packets between the hosts until `is_over`, at most for so many seconds.
fn run(
    hosts: &mut [&mut dyn Station; 2],
    settings: &str,
    seconds: u64,
    mut is_over: impl FnMut() -> bool,
) {
    let wire = |seed| {
        let mut of_wire = Settings::default();
        of_wire.change(settings).unwrap();
        Wire::new(of_wire, seed)
    };
    let mut wires = [wire(1), wire(2)];
    let mut now_ns = BEGAN_NS;
    while !is_over() && now_ns < BEGAN_NS + seconds * 1_000_000_000 {
        for index in [0, 1] {
            while let Some((due_ns, packet)) = wires[1 - index].leave(now_ns) {
                hosts[index].arrive(due_ns, &packet);
            }
            hosts[index].advance(now_ns);
            while let Some((at_ns, packet)) = hosts[index].departed() {
                wires[index].enter(at_ns, packet);
            }
        }
        let of_hosts = [hosts[0].next_ns(), hosts[1].next_ns()];
        let of_wires = wires.each_ref().map(|wire| wire.next_ns().unwrap_or(u64::MAX));
        let next_ns = of_hosts.into_iter().chain(of_wires).min().unwrap();
        now_ns = next_ns.max(now_ns + 1);
    }
}

#[test]
fn each_personality_makes_exchanges_with_each_over_a_bad_wire() {
    let bad = "delay=2ms jitter=1ms loss=1% reorder=2%:5ms duplicate=1% damage=0.5%";
    for client in Personality::ALL {
        for server in Personality::ALL {
            let mut near =
                ModelHost::new(&plan(client.name, CLIENT, &[]), BEGAN_NS, NoRecords).unwrap();
            let served = plan(server.name, SERVER, &[Service::Echo(7)]);
            let mut far = ModelHost::new(&served, BEGAN_NS, NoRecords).unwrap();
            let exchanged = near.exchange(exchanges(60), 3);
            run(&mut [&mut near, &mut far], bad, 600, || exchanged.progress().at_work == 0);
            let progress = exchanged.progress();
            let names = (client.name, server.name);
            assert_eq!((progress.done, progress.wrong, progress.error), (60, 0, None), "{names:?}");
        }
    }
}

#[test]
fn a_page_has_all_its_bytes() {
    let mut near = ModelHost::new(&plan("4.3bsd", CLIENT, &[]), BEGAN_NS, NoRecords).unwrap();
    let served = plan("sunos-4.1", SERVER, &[Service::Page(80)]);
    let mut far = ModelHost::new(&served, BEGAN_NS, NoRecords).unwrap();
    let fetched = ["/100000", "/no-such-page", "/"].map(|path| near.fetch((SERVER, 80), path));
    run(&mut [&mut near, &mut far], "delay=1ms", 60, || {
        fetched.iter().all(|it| it.answer().is_some())
    });
    let answers = fetched.map(|it| it.answer().unwrap().unwrap());
    let [large, missing, short] = answers.each_ref().map(|it| String::from_utf8_lossy(it));
    assert!(large.starts_with("HTTP/1.0 200 OK\r\n") && large.len() > 100_000, "{large:.80}");
    assert!(missing.starts_with("HTTP/1.0 404 Not Found\r\n"), "{missing}");
    assert!(short.ends_with("which this program runs.\n"), "{short}");
}

/// The client's host sees what it sends at points 1 to 4 and what it receives at points 5 to 8, and so does the
/// server's: together they have each byte at all eight.
#[test]
fn both_hosts_together_see_each_byte_at_eight_points() {
    let mut near =
        ModelHost::new(&plan("tahoe", CLIENT, &[]), BEGAN_NS, Everything::default()).unwrap();
    let served = plan("4.3bsd", SERVER, &[Service::Echo(7)]);
    let mut far = ModelHost::new(&served, BEGAN_NS, Everything::default()).unwrap();
    let exchanged = near.exchange(exchanges(20), 3);
    run(&mut [&mut near, &mut far], "delay=5ms", 60, || exchanged.progress().at_work == 0);
    assert_eq!(exchanged.progress().done, 20);
    let (near, near_connections) = near.into_records();
    let (far, far_connections) = far.into_records();
    let ends = |it: &[sockscope_record::Connection]| {
        it.iter().map(|it| (it.client, it.server, it.both_ends_here)).collect::<Vec<_>>()
    };
    assert_eq!(ends(&near_connections).len(), 1);
    assert_eq!(ends(&near_connections), ends(&far_connections));
    assert!(!near_connections[0].both_ends_here && near_connections[0].opened_ns >= BEGAN_NS);
    let octets = |records: &[sockscope_record::Record], kind| {
        let mut ranges: Vec<_> = records
            .iter()
            .filter(|record| record.kind == kind && record.len > 0)
            .map(|record| (record.flow, record.offset, record.offset + u64::from(record.len)))
            .collect();
        ranges.sort_unstable();
        // Without retransmission each byte passes a point once.
        for pair in ranges.windows(2) {
            assert!(pair[0].0 != pair[1].0 || pair[0].2 == pair[1].1, "{pair:?}");
        }
        ranges.iter().map(|(_, from, to)| to - from).sum::<u64>()
    };
    let sent = octets(&near.records, Kind::SendEnqueue);
    let kinds = [
        [Kind::SendEnqueue, Kind::SendDequeue, Kind::InterfaceEnqueue, Kind::InterfaceDequeue],
        [Kind::InputEnqueue, Kind::InputDequeue, Kind::ReceiveEnqueue, Kind::ReceiveDequeue],
    ];
    for kind in kinds.concat() {
        // Each host has half of the points of each flow, and an echo is as long as its request.
        assert_eq!(octets(&near.records, kind), sent, "{kind:?}");
        assert_eq!(octets(&far.records, kind), sent, "{kind:?}");
    }
}
