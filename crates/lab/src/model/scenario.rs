//! The hosts of a case and their link.

use sockscope_experiment::{LinkKind, Parameters, SchedulerKind, Topology};
use sockscope_sim::{HostConfig, LinkConfig, LogPolicy, OtherTraffic, Scenario};

use super::kernel;
use super::programs::{CLIENT, CLIENT_START_NS, SERVER};
use crate::link_faults::link_faults;

/// A line at the rate and with the packets of the experimental Ethernet.
const LINE_BITS_PER_S: u64 = 2_940_000;
const LINE_MTU: u32 = 1536;

/// A line in place of the link that the parameters name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Line {
    /// Bits a second, each way.
    pub bits_per_s: u64,
    /// From one end to the other.
    pub delay_ns: u64,
    /// Bytes of the largest packet.
    pub mtu: u32,
}

/// Octets of a frame of other stations where an experiment gives none: short ones, as of terminals.
const OTHER_FRAME_BYTES: u32 = 200;

fn other_traffic(parameters: &Parameters) -> OtherTraffic {
    OtherTraffic {
        frames_per_s: parameters.other_frames_per_s,
        frame_bytes: parameters.other_frame_bytes.unwrap_or(OTHER_FRAME_BYTES),
    }
}

/// The hosts of a case and their link, with a seed for chance.
pub(super) fn scenario(parameters: &Parameters, seed: u64) -> Result<Scenario, String> {
    let line = Line {
        bits_per_s: LINE_BITS_PER_S,
        delay_ns: parameters.link_delay_us * 1000,
        mtu: LINE_MTU,
    };
    let line = (parameters.link == LinkKind::Line3).then_some(line);
    scenario_with(parameters, line, seed)
}

/// The same with a line, where there is one.
pub(crate) fn scenario_with(
    parameters: &Parameters,
    line: Option<Line>,
    seed: u64,
) -> Result<Scenario, String> {
    let machine = kernel::machine(parameters)?;
    let personality = kernel::personality(parameters)?;
    let host = |name: &str, address, timer_ms: Option<u64>| {
        let mut host = HostConfig::new(name, personality.clone(), machine.clone());
        host.stack.answers_unreachable = parameters.udp_answers.unwrap_or(true);
        host.timer_phase_ns = timer_ms.map(|ms| CLIENT_START_NS + ms * 1_000_000);
        host.stack.segment_bytes_max = parameters.segment_bytes;
        host.has_probes = parameters.probing;
        host.is_round_robin = parameters.scheduler == SchedulerKind::RoundRobin;
        let mut host = match (parameters.topology, line) {
            (Topology::Loopback, _) => host.with_loopback(),
            (Topology::Pair, Some(line)) => host.with_line(address, line.mtu, 0),
            (Topology::Pair, None) if parameters.link == LinkKind::Ethernet3 => {
                host.with_ethernet3(address, 0)
            }
            (Topology::Pair, None) => host.with_ethernet10(address, 0),
        };
        if let Some(packets) = parameters.interface_queue_packets {
            for interface in &mut host.stack.interfaces {
                interface.queue_packets_max = packets as usize;
            }
        }
        host
    };
    // Only the sender is profiled, as in the paper.
    let client = HostConfig {
        is_profiled: parameters.profiling,
        ..host("client", CLIENT, parameters.client_timer_ms)
    };
    let (hosts, links) = match parameters.topology {
        Topology::Loopback => (vec![client], Vec::new()),
        Topology::Pair => {
            let server = host("server", SERVER, parameters.server_timer_ms);
            let link = match line {
                Some(line) => LinkConfig::point_to_point(line.bits_per_s, line.delay_ns),
                None if parameters.link == LinkKind::Ethernet3 => LinkConfig::ethernet3(),
                None => LinkConfig::ethernet10(),
            };
            let link = link.with_other_traffic(other_traffic(parameters));
            (vec![client, server], vec![link.with_faults(link_faults(parameters.faults()))])
        }
    };
    let log = if parameters.so_log { LogPolicy::OnRequest } else { LogPolicy::All };
    Ok(Scenario { seed, hosts, links, log })
}
