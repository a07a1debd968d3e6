//! The SPARCstations: costs of the VAX-11/750 times a factor for each class of routines, and the
//! paper's numbers per byte.
//!
//! There are two factors: one for the receiving protocol, fitted to a continuous transfer, and one for
//! all else, fitted to the sum of all delays of a single packet. The receive interrupt takes a time more,
//! fitted to the wait in the IP queue during a transfer. The model has to predict the parts of that sum
//! (Table 1) and the rate of transfers.

use std::net::Ipv4Addr;

use sockscope_record::{Kind, Record};
use sockscope_sim::programs::{BulkWriter, Pace, Setup, Sink};
use sockscope_sim::{
    Everything, HostConfig, LinkConfig, LogPolicy, Machine, Outcome, ProbeConfig, Scenario,
    Simulation,
};
use sockscope_stack::{Cost, Costs, Personality, Routine};

use crate::file::{File, section};

/// The receiving side of the protocol took so long for a packet of a continuous transfer (Table 1, right
/// column).
const RECEIVING_NS: f64 = 260_000.0;

/// A packet of a continuous transfer waits so long in the IP queue (Table 1, right column). In the model a
/// longer receive interrupt makes this wait shorter.
const WAITING_NS: f64 = 124_000.0;

/// Seeds of the transfers whose mean wait is fitted: the phase of the timers moves it.
const WAITING_SEEDS: std::ops::RangeInclusive<u64> = 1..=5;

/// More than the receive interrupt can take: a packet arrives each 1.07 ms.
const RECEIVE_INTERRUPT_NS_MAX: f64 = 400_000.0;

/// All delays of a single packet, from the call that writes it to the copy for the reader, driver and
/// wire aside: 280 + 443 + 40 + 113 + 253 + 412 us (Table 1, left column; Figure 19).
const SINGLE_NS: f64 = 1_541_000.0;

/// Data of a packet.
const PACKET_BYTES: u64 = 1024;

/// Time of a copied byte: 130 us for 1024 (Table 1).
const COPY_PS: u32 = 126_953;

/// Time of a summed byte: half of that (section 5).
const SUM_PS: u32 = COPY_PS / 2;

/// Our estimate: from an interrupt to its handler and back, on a processor whose register windows are
/// saved at each trap. The same for those of devices and for the network's software interrupt.
const DISPATCH_NS: u32 = 60_000;

/// Our estimate, as for the VAX-11/750: a step along a chain is three instructions, here on a machine of
/// 12.5 million a second.
const WALK_NS: u32 = 240;

/// Rounds of fits: each factor changes the target of the other.
const ROUNDS: usize = 3;

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

/// The cost of each class next to the VAX-11/750.
#[derive(Debug, Clone, Copy)]
struct Factors {
    /// TCP and IP on input.
    input: f64,
    /// Everything else.
    other: f64,
    /// Time of the receive interrupt beyond the VAX's times its factor, in nanoseconds.
    receive_interrupt_ns: f64,
}

impl Factors {
    fn of(&self, routine: Routine) -> f64 {
        if is_input(routine) { self.input } else { self.other }
    }

    /// The measurement to which the factor of a routine was fitted.
    fn source(&self, routine: Routine) -> String {
        let fitted = if is_input(routine) {
            "260 us of receiving a packet of a continuous transfer"
        } else {
            "1541 us, the sum of the delays of a single packet"
        };
        format!("{:.4} of vax-11-750, fitted to {fitted} (Table 1)", self.of(routine))
    }
}

/// Whether it belongs to the protocol on input.
fn is_input(routine: Routine) -> bool {
    use Routine::{InPcblookup, Ipintr, MAdj, MPullup, TcpInput, TcpReass, UdpInput};
    matches!(routine, Ipintr | TcpInput | UdpInput | InPcblookup | MPullup | MAdj | TcpReass)
}

/// Derives both machines; `false` if a file differs and `write` does not allow to change it.
pub fn calibrate(write: bool) -> bool {
    let vax = File::read("vax-11-750").machine();
    let factors = factors(&vax);
    println!("SPARCstation 1 beside the VAX-11/750: {factors:.4?}");
    let one = costs(&vax, factors, 1.0);
    let source = |routine| factors.source(routine);
    let first = File::read("sparcstation-1").replace(&derived_part(&one, factors, source), write);
    let two = costs(&vax, factors, 0.5);
    let source = |_| "half of sparcstation-1".to_owned();
    let second = File::read("sparcstation-2").replace(&derived_part(&two, factors, source), write);
    first && second
}

/// Each factor in turn, the other as it is.
fn factors(vax: &Machine) -> Factors {
    let mut factors = Factors { input: 0.12, other: 0.12, receive_interrupt_ns: 0.0 };
    let with = |factors| {
        let machine = File::read("sparcstation-1").machine();
        Machine { costs: costs(vax, factors, 1.0), ..machine }
    };
    for _ in 0..ROUNDS {
        let single = |other| single_ns(&with(Factors { other, ..factors }));
        factors.other = bisect(FACTORS, |other| single(other) > SINGLE_NS);
        let receiving = |input| receiving_ns(&with(Factors { input, ..factors }));
        factors.input = bisect(FACTORS, |input| receiving(input) > RECEIVING_NS);
        let waiting =
            |receive_interrupt_ns| waiting_ns(&with(Factors { receive_interrupt_ns, ..factors }));
        let most_ns = (0.0, RECEIVE_INTERRUPT_NS_MAX, 1e-3);
        factors.receive_interrupt_ns = bisect(most_ns, |more_ns| waiting(more_ns) < WAITING_NS);
    }
    factors
}

/// Factors are between these, and have four digits, as the file says.
const FACTORS: (f64, f64, f64) = (0.02, 0.6, 1e4);

/// The largest number between two bounds that is not too large, as a whole multiple of 1 / `scale`.
fn bisect((mut low, mut high, scale): (f64, f64, f64), is_too_large: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..16 {
        let middle = f64::midpoint(low, high);
        if is_too_large(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    (low * scale).round() / scale
}

/// Mean of all delays of packets that are sent one at a time.
fn single_ns(machine: &Machine) -> f64 {
    let writer =
        BulkWriter::new((SERVER, 9), PACKET_BYTES as usize, 20).paced(Pace::Sleep(1_000_000_000));
    let setup = Setup { buffer_bytes: Some(1024), no_delay: true, ..Setup::default() };
    let records = transfer(machine, writer, setup, Some(PACKET_BYTES as u32), 1);
    // The copy for the reader follows point 8.
    let copy_ns = (PACKET_BYTES * u64::from(COPY_PS)) as f64 / 1e3;
    delay_ns(&records, Kind::WriteCall, Kind::InterfaceDequeue)
        + delay_ns(&records, Kind::InputEnqueue, Kind::ReceiveDequeue)
        + copy_ns
}

/// Mean time of a packet of 256 KB in one write from the IP queue to the receive socket.
fn receiving_ns(machine: &Machine) -> f64 {
    delay_ns(&continuous(machine, 1), Kind::InputDequeue, Kind::ReceiveEnqueue)
}

/// Mean time of such a packet in the IP queue.
fn waiting_ns(machine: &Machine) -> f64 {
    let wait = |seed| delay_ns(&continuous(machine, seed), Kind::InputEnqueue, Kind::InputDequeue);
    WAITING_SEEDS.map(wait).sum::<f64>() / WAITING_SEEDS.count() as f64
}

/// 256 KB in one write, with the largest buffers.
fn continuous(machine: &Machine, seed: u64) -> Vec<Record> {
    let setup = Setup { buffer_bytes: Some(52_428), ..Setup::default() };
    transfer(machine, BulkWriter::new((SERVER, 9), 262_144, 1), setup, None, seed)
}

/// Mean time of the data between two points.
fn delay_ns(records: &[Record], from: Kind, to: Kind) -> f64 {
    let delays = data_at(records, from).filter_map(|(from_ns, offset)| {
        let mut left = data_at(records, to);
        left.find(|(_, left)| *left == offset).map(|(to_ns, _)| to_ns.saturating_sub(from_ns))
    });
    mean(delays)
}

fn data_at(records: &[Record], kind: Kind) -> impl Iterator<Item = (u64, u64)> {
    let at = records.iter().filter(move |record| record.kind == kind && record.len > 0);
    at.map(|record| (record.at_ns, record.offset))
}

fn mean(values: impl Iterator<Item = u64>) -> f64 {
    let (sum, count) = values.fold((0, 0), |(sum, count), value| (sum + value, count + 1));
    sum as f64 / f64::from(count.max(1))
}

/// The records between two hosts with the paper's probes.
fn transfer(
    machine: &Machine,
    writer: BulkWriter,
    setup: Setup,
    segment_bytes_max: Option<u32>,
    seed: u64,
) -> Vec<Record> {
    let host = |name, address| {
        let personality = Personality::by_name("sunos-4.0.3").expect("a known personality");
        let host = HostConfig::new(name, personality, machine.clone());
        let probes = Some(ProbeConfig::default());
        let mut host = HostConfig { probes, ..host.with_ethernet10(address, 0) };
        host.stack.segment_bytes_max = segment_bytes_max;
        host
    };
    let hosts = vec![host("client", Ipv4Addr::new(10, 0, 0, 1)), host("server", SERVER)];
    let links = vec![LinkConfig::ethernet10()];
    let scenario = Scenario { seed, hosts, links, log: LogPolicy::All };
    let mut sim = Simulation::new(scenario, Everything::default()).expect("a sound scenario");
    sim.spawn(1, Box::new(Sink::new(9, 52_428, 1).set_up(setup)), 0);
    sim.spawn(0, Box::new(writer.set_up(setup)), 100_000_000);
    assert_eq!(sim.run_to_end(600_000_000_000), Outcome::Ended);
    sim.into_sink().records
}

/// The VAX's fixed costs times the factor of their class; bytes as the paper has them for the
/// SPARCstation 1. All of it times `part`.
fn costs(vax: &Machine, factors: Factors, part: f64) -> Costs {
    let mut costs = Costs::default();
    for routine in Routine::ALL {
        let scaled = |ns: u32| (f64::from(ns) * factors.of(*routine) * part).round() as u32;
        let Cost { call_ns, mbuf_ns, walk_ns, .. } = match routine {
            // 4.2BSD had no such routine: a short one, as sorwakeup.
            Routine::Sbcompress => vax.costs.of(Routine::Sorwakeup),
            routine => vax.costs.of(*routine),
        };
        let byte_ps = match routine {
            Routine::Copyin | Routine::Copyout => COPY_PS,
            Routine::TcpCksum | Routine::UdpCksum | Routine::InCksum => SUM_PS,
            // Small mbufs are copied; the driver lends and maps all else.
            Routine::MCopy | Routine::MCopydata => COPY_PS,
            _ => 0,
        };
        let byte_ps = (f64::from(byte_ps) * part).round() as u32;
        let dispatch_ns = if is_interrupt(*routine) { f64::from(DISPATCH_NS) } else { 0.0 };
        let more_ns = if *routine == Routine::Enrint { factors.receive_interrupt_ns } else { 0.0 };
        let call_ns = scaled(call_ns) + ((dispatch_ns + more_ns) * part).round() as u32;
        let mbuf_ns = scaled(mbuf_ns);
        let walk_ns = match routine {
            Routine::Sbappend => (f64::from(WALK_NS) * part).round() as u32,
            _ => scaled(walk_ns),
        };
        costs.set(*routine, Cost { call_ns, byte_ps, mbuf_ns, walk_ns });
    }
    costs
}

/// Whether an interrupt calls it.
fn is_interrupt(routine: Routine) -> bool {
    matches!(routine, Routine::Ipintr | Routine::Enxint | Routine::Enrint)
}

fn derived_part(costs: &Costs, factors: Factors, source: impl Fn(Routine) -> String) -> String {
    let mut text = String::new();
    for routine in Routine::ALL {
        let cost = costs.of(*routine);
        if cost == Cost::default() {
            continue;
        }
        let by_byte =
            if cost.byte_ps > 0 { "; a byte: paper, 130 us to copy 1024, half to sum" } else { "" };
        let dispatch = if is_interrupt(*routine) {
            "; 60 us (30) more, our estimate, to reach it"
        } else {
            ""
        };
        let own = match routine {
            Routine::Sbappend => "; a step: our estimate, three instructions".to_owned(),
            Routine::Sbcompress => "; estimate: as sorwakeup".to_owned(),
            Routine::Enrint => {
                let us = factors.receive_interrupt_ns / 1e3;
                format!(
                    "; {us:.0} us ({:.0}) more, fitted to 124 us in the IP queue during a transfer (Table 1): the paper does not say which work that is",
                    us / 2.0
                )
            }
            _ => String::new(),
        };
        text += &section(*routine, cost, &format!("{}{by_byte}{dispatch}{own}", source(*routine)));
    }
    text
}
