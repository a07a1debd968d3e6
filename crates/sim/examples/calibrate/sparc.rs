//! The SPARCstations: costs of the VAX-11/750 times a factor, and what the paper gives by byte.

use std::net::Ipv4Addr;

use sockscope_record::Kind;
use sockscope_sim::programs::{BulkWriter, Setup, Sink};
use sockscope_sim::{
    Everything, HostConfig, LinkConfig, LogPolicy, Machine, Outcome, Scenario, Simulation,
};
use sockscope_stack::{Cost, Costs, Personality, Routine};

use crate::file::{File, section};

/// The sending side of the protocol took so long for a packet of a continuous transfer (Table 1,
/// right column): the mean gap between two packets of a burst.
const SENDING_NS: f64 = 370_000.0;

/// Time of a copied byte: 130 us for 1024 (Table 1).
const COPY_PS: u32 = 126_953;

/// Time of a summed byte: half of that (section 5).
const SUM_PS: u32 = COPY_PS / 2;

/// Our estimate: from the end of a device interrupt to a software interrupt's handler, on a
/// processor whose register windows are saved at each trap.
const DISPATCH_NS: u32 = 60_000;

/// A longer gap between packets is between bursts: Figure 14 ends at 650 us.
const BURST_GAP_NS: u64 = 800_000;

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

/// Derives both machines; `false` if a file differs and `write` does not allow to change it.
pub fn calibrate(write: bool) -> bool {
    let vax = File::read("vax-11-750").machine();
    let factor = factor(&vax);
    println!("SPARCstation 1: calls at {factor:.4} of the VAX-11/750");
    let one = costs(&vax, factor, 1.0);
    let source =
        format!("{factor:.4} of vax-11-750, fitted to 370 us of sending a packet (Table 1)");
    let first = File::read("sparcstation-1").replace(&derived_part(&one, &source), write);
    let two = costs(&vax, factor / 2.0, 0.5);
    let second =
        File::read("sparcstation-2").replace(&derived_part(&two, "half of sparcstation-1"), write);
    first && second
}

/// By bisection: a slower processor makes longer gaps.
fn factor(vax: &Machine) -> f64 {
    let mut machine = File::read("sparcstation-1").machine();
    let (mut low, mut high) = (0.02, 0.6);
    for _ in 0..20 {
        let middle = f64::midpoint(low, high);
        machine.costs = costs(vax, middle, 1.0);
        if sending_ns(&machine) > SENDING_NS {
            high = middle;
        } else {
            low = middle;
        }
    }
    // Four digits, as the file says.
    (low * 1e4).round() / 1e4
}

/// Mean gap between packets at the entry of the interface queue inside bursts, 256 KB in one write.
fn sending_ns(machine: &Machine) -> f64 {
    let host = |name, address| {
        let personality = Personality::by_name("sunos-4.0.3").expect("a known personality");
        HostConfig::new(name, personality, machine.clone()).with_ethernet10(address, 0)
    };
    let hosts = vec![host("client", Ipv4Addr::new(10, 0, 0, 1)), host("server", SERVER)];
    let links = vec![LinkConfig::ethernet10()];
    let scenario = Scenario { seed: 1, hosts, links, log: LogPolicy::All };
    let mut sim = Simulation::new(scenario, Everything::default()).expect("a sound scenario");
    let setup = Setup { buffer_bytes: Some(52_428), ..Setup::default() };
    sim.spawn(1, Box::new(Sink::new(9, 52_428, 1).set_up(setup)), 0);
    sim.spawn(0, Box::new(BulkWriter::new((SERVER, 9), 262_144, 1).set_up(setup)), 100_000_000);
    assert_eq!(sim.run_to_end(600_000_000_000), Outcome::Ended);
    let entered: Vec<u64> = sim
        .sink()
        .records
        .iter()
        .filter(|record| record.kind == Kind::InterfaceEnqueue && record.len > 0)
        .map(|record| record.at_ns)
        .collect();
    let gaps = entered.windows(2).map(|pair| pair[1] - pair[0]);
    let gaps: Vec<u64> = gaps.filter(|gap_ns| *gap_ns < BURST_GAP_NS).collect();
    gaps.iter().sum::<u64>() as f64 / gaps.len().max(1) as f64
}

/// The VAX's fixed costs times `factor`; bytes as the paper has them for the SPARCstation 1, times
/// `byte_factor`.
fn costs(vax: &Machine, factor: f64, byte_factor: f64) -> Costs {
    let mut costs = Costs::default();
    let scaled = |ns: u32| (f64::from(ns) * factor).round() as u32;
    for routine in Routine::ALL {
        let Cost { call_ns, mbuf_ns, walk_ns, .. } = vax.costs.of(*routine);
        let byte_ps = match routine {
            Routine::Copyin | Routine::Copyout => COPY_PS,
            Routine::TcpCksum | Routine::UdpCksum | Routine::InCksum => SUM_PS,
            // Small mbufs are copied; the driver lends and maps all else.
            Routine::MCopy | Routine::MCopydata => COPY_PS,
            _ => 0,
        };
        let byte_ps = (f64::from(byte_ps) * byte_factor).round() as u32;
        let (mut call_ns, mbuf_ns, walk_ns) = (scaled(call_ns), scaled(mbuf_ns), scaled(walk_ns));
        if *routine == Routine::Ipintr {
            call_ns += (f64::from(DISPATCH_NS) * byte_factor).round() as u32;
        }
        costs.set(*routine, Cost { call_ns, byte_ps, mbuf_ns, walk_ns });
    }
    costs
}

fn derived_part(costs: &Costs, source: &str) -> String {
    let mut text = String::new();
    for routine in Routine::ALL {
        let cost = costs.of(*routine);
        if cost == Cost::default() {
            continue;
        }
        let by_byte =
            if cost.byte_ps > 0 { "; a byte: paper, 130 us to copy 1024, half to sum" } else { "" };
        let dispatch = if *routine == Routine::Ipintr {
            "; 60 us (30) more, our estimate, to reach it"
        } else {
            ""
        };
        text += &section(*routine, cost, &format!("{source}{by_byte}{dispatch}"));
    }
    text
}
