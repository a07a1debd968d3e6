//! Experiments with settings by chance. In every run that ends each byte is accounted for, no link carries more
//! than its rate, and each microsecond of a CPU is charged once.
//!
//! `scripts/soak settings` tries 1,000 of them.

use sockscope_experiment::{Case, Experiment, LinkKind, Topology, builtin_by_id};
use sockscope_sim::random::Random;
use sockscope_sim::{HostConfig, NoRecords};
use sockscope_stack::{Personality, Routine};

use super::simulation::play;
use super::{Observed, observe, run};

/// Numbers by chance, the same for a seed on every machine.
struct Chance(Random);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0.below(end)
    }

    /// From `low` to `high`, small ones as often as large ones.
    fn size(&mut self, low: u64, high: u64) -> u64 {
        let doublings = u64::from((high / low).ilog2()) + 1;
        let from = low << self.below(doublings);
        (from + self.below(from)).min(high)
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    fn in_ten(&mut self, times: u64) -> bool {
        self.below(10) < times
    }
}

/// What is tried: an experiment with changes.
#[derive(Debug)]
struct Settings {
    id: &'static str,
    seed: u64,
    changes: Vec<String>,
}

const MACHINES: [&str; 3] = ["vax-11-750", "sparcstation-1", "sparcstation-2"];

/// A stack, and some of the options that a name can add.
fn stack(chance: &mut Chance) -> String {
    let mut name = chance.one(&Personality::ALL.map(|personality| personality.name)).to_owned();
    for option in Personality::HEADER_OPTIONS {
        if chance.in_ten(3) {
            name += &format!("+{option}");
        }
    }
    name
}

/// How the hosts are joined, and what else is on the link.
fn network(chance: &mut Chance, changes: &mut Vec<String>) {
    let topology = chance.one(&["loopback", "pair", "pair", "pair", "gateway"]);
    changes.push(format!("topology={topology}"));
    if topology == "loopback" {
        return;
    }
    let link = chance.one(&["ethernet-10", "ethernet-3", "line-3"]);
    changes.push(format!("link={link}"));
    if link == "line-3" && chance.in_ten(5) {
        changes.push(format!("link_delay_us={}", chance.size(10, 50_000)));
    }
    if topology == "gateway" && chance.in_ten(5) {
        changes.push(format!("gateway_kbit_per_s={}", chance.one(&[56, 256, 1544])));
    }
    if link != "line-3" && chance.in_ten(3) {
        changes.push(format!("other_frames_per_s={}", chance.size(1, 100)));
        changes.push(format!("other_frame_bytes={}", chance.size(64, 1500)));
    }
    if chance.in_ten(3) {
        let fault = chance.one(&["lost", "duplicated", "corrupted", "reordered"]);
        changes.push(format!("{fault}_per_million={}", chance.size(100, 50_000)));
    }
    if chance.in_ten(2) {
        changes.push(format!("interface_queue_packets={}", chance.size(2, 200)));
    }
}

/// Sizes of what is sent, of buffers and segments; programs.
fn traffic(chance: &mut Chance, id: &str, changes: &mut Vec<String>) {
    let mut set = |name: &str, value: u64| changes.push(format!("{name}={value}"));
    match id {
        "bb-1" | "bb-2" => {
            set("message_bytes", chance.size(1, if id == "bb-1" { 8192 } else { 1400 }));
            set("messages", chance.size(5, 100));
        }
        "lh-1" => {
            set("data_bytes", chance.size(1, 20_000));
            set("calls", chance.size(1, 10));
        }
        _ => {
            set("total_bytes", chance.size(1, 200_000));
            set("write_bytes", chance.size(100, 100_000));
            set("read_bytes", chance.size(100, 60_000));
            if chance.in_ten(3) {
                set("read_pause_ms", chance.size(1, 40));
            }
            if chance.in_ten(3) {
                set("connections", chance.size(2, 12));
            }
        }
    }
    if id != "bb-2" && chance.in_ten(6) {
        set("socket_buffer_bytes", chance.size(2048, 65_535));
    }
    if id != "bb-2" && chance.in_ten(4) {
        set("segment_bytes", chance.size(64, 1460));
    }
    if chance.in_ten(5) {
        set("client_timer_ms", chance.below(1000));
    }
    if chance.in_ten(2) {
        let rule = chance.one(&["share", "when-empty", "two-segments"]);
        changes.push(format!("ack_rule={rule}"));
    }
}

fn settings(seed: u64) -> Settings {
    let mut chance = Chance(Random::new(seed, 0));
    let id = chance.one(&["si-1a", "si-1a", "bb-1", "bb-2", "lh-1"]);
    let mut changes = vec![format!("machine={}", chance.one(&MACHINES))];
    changes.push(format!("personality={}", stack(&mut chance)));
    network(&mut chance, &mut changes);
    traffic(&mut chance, id, &mut changes);
    Settings { id, seed, changes }
}

/// The experiment with its only case; none where the settings exclude each other.
fn case(settings: &Settings) -> Option<(Experiment, Case)> {
    let mut experiment = builtin_by_id(settings.id).unwrap();
    let changes: Vec<&str> = settings.changes.iter().map(String::as_str).collect();
    experiment.set_all(&changes).ok()?;
    experiment.seed = settings.seed;
    let case = experiment.cases().ok()?.into_iter().next()?;
    Some((experiment, case))
}

/// Bits a second of the slowest link between the hosts; none on one host.
fn link_bits_per_s(case: &Case) -> Option<f64> {
    let parameters = &case.parameters;
    let link: f64 = match parameters.link {
        LinkKind::Ethernet10 => 1e7,
        LinkKind::Ethernet3 | LinkKind::Line3 => 2.94e6,
    };
    let far = parameters.gateway_kbit_per_s.map_or(f64::INFINITY, |kbit| kbit as f64 * 1e3);
    (parameters.topology != Topology::Loopback).then_some(link.min(far))
}

/// Hosts whose CPU does nothing but what routines are charged for.
fn counts_routines_alone(host: &mut HostConfig) {
    let cpu = &mut host.machine.cpu;
    (cpu.switch_ns, cpu.user_ns, cpu.clock_ns, cpu.refill_percent) = (0, 0, 0, 0);
    (host.is_profiled, host.probes) = (false, None);
}

/// CPU time in use and charged to routines on each host, in nanoseconds, and the time of the run.
fn charged(experiment: &Experiment, case: &Case) -> Result<(Vec<(u64, u64)>, u64), String> {
    let played = play(experiment, case, 0, &counts_routines_alone, NoRecords)?;
    let hosts = match case.parameters.topology {
        Topology::Loopback => 1,
        Topology::Pair => 2,
        Topology::Gateway => 3,
    };
    let of_host = |number| {
        let host = played.sim.host(number);
        let charged = Routine::ALL.iter().map(|routine| host.meter().charged_ns(*routine));
        (host.cpu_used_ns().iter().sum(), charged.sum())
    };
    Ok(((0..hosts).map(of_host).collect(), played.sim.now_ns()))
}

/// What a run with settings by chance may be.
#[derive(Debug, Default)]
struct Tally {
    runs: u32,
    /// With a gateway, with options of a stack, with frames of other stations.
    gateways: u32,
    options: u32,
    others: u32,
    /// Faults of the link ended a connection.
    given_up: u32,
    bytes: u64,
    /// The greatest part of a link's rate.
    rate_most: f64,
    cpu_ns: u64,
}

/// Packets that the IP queue holds, and an interface's where no parameter sets it.
const QUEUE_PACKETS: u32 = 50;

/// Whether the windows of all connections are more packets than a queue on the way may hold.
fn may_overflow(case: &Case) -> bool {
    let parameters = &case.parameters;
    let queue = parameters.interface_queue_packets.unwrap_or(QUEUE_PACKETS).min(QUEUE_PACKETS);
    let window = parameters.socket_buffer_bytes.unwrap_or(4096);
    let packets = window / u64::from(parameters.segment_bytes.unwrap_or(512));
    packets * u64::from(parameters.connections) > u64::from(queue)
}

fn check(settings: &Settings, experiment: &Experiment, case: &Case, tally: &mut Tally) {
    let has_faults = settings.changes.iter().any(|change| change.contains("_per_million"));
    let measured = match run(experiment, case, 0) {
        Ok(measured) => measured,
        // A connection gives up after a number of timeouts: 4.2BSD answers each loss by all of its window.
        Err(problem) => {
            assert!(has_faults || may_overflow(case), "{settings:?}: {problem}");
            tally.given_up += 1;
            return;
        }
    };
    let seen: Observed = observe(experiment, case).unwrap();
    assert_eq!(seen.residue_bytes(), 0, "{settings:?}");
    if let Some((rate, most)) = measured.throughput_bits_per_s().zip(link_bits_per_s(case)) {
        assert!(rate <= most, "{settings:?}: {rate} of {most} bits a second");
        tally.rate_most = tally.rate_most.max(rate / most);
    }
    let (hosts, now_ns) = charged(experiment, case).unwrap();
    // Programs of remote calls compute between two system calls.
    let computes = settings.id == "lh-1";
    for (used_ns, charged_ns) in hosts {
        let is_once = if computes { used_ns >= charged_ns } else { used_ns == charged_ns };
        assert!(is_once, "{settings:?}: {used_ns} ns of CPU, {charged_ns} charged to routines");
        assert!(used_ns <= now_ns, "{settings:?}: {used_ns} ns of CPU in {now_ns}");
        tally.cpu_ns += charged_ns;
    }
    let has = |word: &str| u32::from(settings.changes.iter().any(|change| change.contains(word)));
    tally.runs += 1;
    tally.gateways += has("topology=gateway");
    tally.options += has("+");
    tally.others += has("other_frames_per_s");
    tally.bytes += measured.bytes;
}

#[test]
fn settings_by_chance_leave_no_residue_and_charge_each_microsecond_once() {
    let is_full = std::env::var("SOCKSCOPE_SOAK").is_ok_and(|wish| wish == "full");
    let wanted = if is_full { 1000 } else { 40 };
    let mut tally = Tally::default();
    let mut seed = 0;
    while tally.runs < wanted {
        seed += 1;
        let settings = settings(seed);
        if let Some((experiment, case)) = case(&settings) {
            check(&settings, &experiment, &case, &mut tally);
        }
    }
    println!("{tally:?} of {seed} seeds");
    assert!(tally.given_up * 4 < tally.runs, "{tally:?}");
    assert!(tally.gateways > 0 && tally.options > 0 && tally.others > 0, "{tally:?}");
}
