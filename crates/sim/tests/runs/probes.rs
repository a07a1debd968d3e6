//! The probes of the SunOS study in the kernels of two hosts: their time, their list, and its reader.

use std::net::Ipv4Addr;

use crate::common::*;
use sockscope_analysis::{Analyzer, TraceFacts};
use sockscope_record::Record;
use sockscope_sim::programs::{BulkWriter, ProbeReader, Sink};
use sockscope_sim::{
    Everything, Host, HostConfig, LogPolicy, Machine, Outcome, ProbeConfig, Scenario, Simulation,
    is_of_a_probe,
};
use sockscope_stack::Routine;

const WRITES: u64 = 100;
const WRITE_BYTES: usize = 1000;

/// A machine whose CPU has nothing to do but routines and probes.
fn plain_machine() -> Machine {
    let mut machine = machine("sparcstation-1");
    (machine.cpu.switch_ns, machine.cpu.user_ns, machine.cpu.clock_ns) = (0, 0, 0);
    machine
}

fn scenario(machine: &Machine, probes: Option<ProbeConfig>) -> Scenario {
    let mut scenario = ethernet10("sunos-4.0.3", "sparcstation-1", 1);
    for host in &mut scenario.hosts {
        (host.machine, host.probes) = (machine.clone(), probes);
    }
    scenario
}

fn list(records: u32) -> Option<ProbeConfig> {
    Some(ProbeConfig { list_records: Some(records), ..ProbeConfig::default() })
}

/// A transfer; with readers of the probes, which sleep for so long.
fn run(scenario: Scenario, reader_pause_ns: Option<u64>) -> Simulation<Everything> {
    let hosts = scenario.hosts.len();
    let mut sim = Simulation::new(scenario, Everything::default()).unwrap();
    for (host, pause_ns) in (0..hosts).zip(reader_pause_ns.into_iter().cycle()) {
        sim.spawn_daemon(host, Box::new(ProbeReader::new(pause_ns)), 500);
    }
    let to = if hosts == 1 { (Ipv4Addr::LOCALHOST, PORT) } else { TO };
    sim.spawn(hosts - 1, Box::new(Sink::new(PORT, 3000, 1)), 0);
    sim.spawn(0, Box::new(BulkWriter::new(to, WRITE_BYTES, WRITES)), SECOND_NS / 100);
    assert_eq!(sim.run_to_end(60 * SECOND_NS), Outcome::Ended);
    assert_eq!(sim.damage(), []);
    sim
}

fn charged_ns(host: &Host) -> u64 {
    let routines = Routine::ALL.iter().map(|routine| host.meter().charged_ns(*routine));
    routines.sum::<u64>() + host.meter().probe_work().total_ns()
}

/// Records of the probes of one host, in order.
fn of_probes(records: &[Record], host: u16) -> Vec<Record> {
    let is_its = |record: &&Record| record.cpu == host && is_of_a_probe(record.kind);
    records.iter().filter(is_its).copied().collect()
}

#[test]
fn each_nanosecond_of_cpu_is_charged_once_with_probes_of_any_kind() {
    let idle = Some(ProbeConfig { is_idle: true, ..ProbeConfig::default() });
    for (probes, pause_ns) in [
        (None, None),
        (idle, None),
        (Some(ProbeConfig::default()), None),
        (list(40), None),
        (list(40), Some(SECOND_NS / 50)),
    ] {
        let pair = scenario(&plain_machine(), probes);
        let alone = HostConfig::new("alone", personality("sunos-4.0.3"), plain_machine());
        let hosts = vec![HostConfig { probes, ..alone.with_loopback() }];
        let loopback = Scenario { hosts, links: Vec::new(), ..pair.clone() };
        let (pair, loopback) = (run(pair, pause_ns), run(loopback, pause_ns));
        for host in [pair.host(0), pair.host(1), loopback.host(0)] {
            let used_ns: u64 = host.cpu_used_ns().iter().sum();
            assert_eq!(used_ns, charged_ns(host), "{} {probes:?} {pause_ns:?}", host.name());
            let work = host.meter().probe_work();
            let by_point = work.points.iter().map(|cost| cost.run_ns);
            assert_eq!(by_point.sum::<u64>(), work.total_ns());
            let shares = [work.test_ns > 0, work.execution_ns > 0, work.store_ns > 0];
            let is_logging = probes.is_some_and(|probes| !probes.is_idle);
            assert_eq!(shares, [probes.is_some(), is_logging, is_logging], "{probes:?}");
        }
    }
}

#[test]
fn probes_test_each_packet_that_is_not_logged_and_do_no_more() {
    let mut scenario = scenario(&plain_machine(), Some(ProbeConfig::default()));
    let logged = run(scenario.clone(), None);
    scenario.log = LogPolicy::OnRequest;
    let sim = run(scenario, None);
    assert!(sim.sink().records.is_empty());
    for number in [0, 1] {
        let host = sim.host(number);
        let work = host.meter().probe_work();
        let test_ns = u64::from(host.machine().cpu.probe_test_ns);
        assert_eq!((work.logged, work.total_ns()), (0, work.tests * test_ns));
        // Calls and packets are as many, within what another order of acknowledgments makes.
        let all = logged.host(number).meter().probe_work();
        assert_eq!(all.tests, all.logged);
        assert!(work.tests.abs_diff(all.tests) < all.tests / 10, "{work:?} {all:?}");
    }
}

/// A probe that finds no record takes less time. So the run is that of a longer list until the first list is full.
#[test]
fn a_full_list_keeps_its_first_records_and_loses_and_counts_the_others() {
    let long = run(scenario(&machine("sparcstation-1"), list(u32::MAX)), None).into_sink().records;
    let sim = run(scenario(&machine("sparcstation-1"), list(40)), None);
    let counts = [0, 1].map(|number| {
        let host = sim.host(number);
        (host.meter().probe_work(), host.probes_lost().total())
    });
    let records = sim.into_sink().records;
    let losses: Vec<_> = records.iter().filter_map(|it| Some((it.cpu, it.loss()?))).collect();
    let full_ns = losses.iter().map(|(_, loss)| loss.since_ns).min().unwrap();
    let until_full = |records: &[Record]| -> Vec<Record> {
        records.iter().filter(|record| record.at_ns < full_ns).copied().collect()
    };
    assert_eq!(until_full(&records), until_full(&long));
    for (host, (work, lost)) in (0..).zip(counts) {
        let kept = of_probes(&records, host);
        let of_host = || losses.iter().filter(|(cpu, _)| *cpu == host).map(|(_, loss)| loss);
        assert_eq!(kept.len(), 39, "one of 40 stays empty");
        assert!(of_host().all(|loss| kept[38].at_ns <= loss.since_ns), "nothing is overwritten");
        assert_eq!(of_host().map(|loss| loss.count).sum::<u64>(), lost);
        assert_eq!((work.stored, work.logged), (39, 39 + lost));
        assert!(lost > 39, "the transfer goes on");
    }
}

#[test]
fn no_probe_gives_two_records_one_time_and_all_are_in_order() {
    for machine_name in ["instant", "sparcstation-1"] {
        let sim = run(scenario(&machine(machine_name), list(u32::MAX)), None);
        let records = sim.into_sink().records;
        assert!(records.is_sorted_by_key(|record| record.at_ns));
        assert!(records.iter().all(|record| record.at_ns % 1000 == 0), "a clock of microseconds");
        for host in [0, 1] {
            let of_probes = of_probes(&records, host);
            assert!(of_probes.len() > 100);
            assert!(of_probes.is_sorted_by(|one, next| one.at_ns < next.at_ns), "{machine_name}");
        }
    }
}

/// While the list is full, records are missing; each reading makes room, and the losses before it stand in the
/// trace with the times between which they fell.
#[test]
fn a_reader_makes_room_and_what_was_lost_before_has_its_times() {
    let sim = run(scenario(&machine("sparcstation-1"), list(120)), Some(SECOND_NS / 20));
    let lost = [0, 1].map(|number| sim.host(number).probes_lost().total());
    let connections = sim.connections().to_vec();
    let records = sim.into_sink().records;
    let losses: Vec<_> = records.iter().filter_map(|it| Some((it.at_ns, it.loss()?))).collect();
    assert_eq!(losses.iter().map(|(_, loss)| loss.count).sum::<u64>(), lost[0] + lost[1]);
    assert!(lost[0] > 0 && lost[1] > 0, "{lost:?}");
    assert!(of_probes(&records, 0).len() > 3 * 119, "the list was read and filled again");
    for host in [0, 1] {
        for pair in of_probes(&records, host).windows(120) {
            let (first_ns, last_ns) = (pair[0].at_ns, pair[119].at_ns);
            assert!(last_ns - first_ns > SECOND_NS / 100, "119 records are in the list at most");
        }
    }
    let mut analyzer = Analyzer::new();
    connections.iter().for_each(|known| analyzer.connection(known.clone()));
    analyzer.push(&records);
    let analysis = analyzer.finish(TraceFacts::default());
    let flow = &analysis.connections[0].flows[0];
    for stage in &flow.stages {
        assert!(stage.residue_bytes.is_none_or(|bytes| bytes == 0), "{stage:?}");
    }
    assert!(flow.stages.iter().any(|stage| stage.residue_bytes.is_none()), "losses are unknown");
}
