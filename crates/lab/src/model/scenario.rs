//! The hosts of a case and their link.

use std::net::Ipv4Addr;

use sockscope_experiment::{LinkKind, Parameters, SchedulerKind, Topology};
use sockscope_sim::{
    CaptureConfig, HostConfig, LinkConfig, LinkId, LogPolicy, OtherTraffic, ProbeConfig, Scenario,
};
use sockscope_stack::route::Route;

use super::kernel;
use super::programs::{CLIENT, CLIENT_START_NS, FAR_SERVER, GATEWAY, SERVER};
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

/// The host between two networks, and its number.
const GATEWAY_NAME: &str = "gateway";
pub(super) const GATEWAY_HOST: usize = 2;
/// The longest packet of its line, in octets: that of serial lines then (RFC 1055).
const SERIAL_MTU: u32 = 1006;

/// The host with this gateway for all other networks.
fn by_gateway(mut host: HostConfig, gateway: Ipv4Addr) -> HostConfig {
    let network = Ipv4Addr::UNSPECIFIED;
    host.stack.routes.push(Route { network, interface: 0, gateway: Some(gateway) });
    host
}

/// Octets of a frame of other stations where an experiment gives none: short ones, as of terminals.
const OTHER_FRAME_BYTES: u32 = 200;

fn other_traffic(parameters: &Parameters) -> OtherTraffic {
    OtherTraffic {
        frames_per_s: parameters.other_frames_per_s,
        frame_bytes: parameters.other_frame_bytes.unwrap_or(OTHER_FRAME_BYTES),
    }
}

/// Frames that the buffer of a capturing host holds where an experiment gives no number.
const CAPTURE_BUFFER_FRAMES: u32 = 32;

fn capture(parameters: &Parameters) -> Option<CaptureConfig> {
    parameters.capture_clock_us.map(|clock_us| CaptureConfig {
        clock_ns: clock_us * 1000,
        buffer_frames: parameters.capture_buffer_frames.unwrap_or(CAPTURE_BUFFER_FRAMES),
        frame_ns: parameters.capture_frame_us.unwrap_or(0) * 1000,
    })
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
    let probes =
        ProbeConfig { list_records: parameters.probe_list_records, is_idle: parameters.probe_idle };
    let host = |name: &str, timer_ms: Option<u64>| {
        let mut host = HostConfig::new(name, personality.clone(), machine.clone());
        host.stack.answers_unreachable = parameters.udp_answers.unwrap_or(true);
        host.timer_phase_ns = timer_ms.map(|ms| CLIENT_START_NS + ms * 1_000_000);
        host.stack.segment_bytes_max = parameters.segment_bytes;
        host.probes = parameters.probing.then_some(probes);
        host.is_round_robin = parameters.scheduler == SchedulerKind::RoundRobin;
        host
    };
    let on_link = |host: HostConfig, address, link: LinkId| match line {
        Some(line) => host.with_line(address, line.mtu, link),
        None if parameters.link == LinkKind::Ethernet3 => host.with_ethernet3(address, link),
        None => host.with_ethernet10(address, link),
    };
    let link = || {
        let link = match line {
            Some(line) => LinkConfig::point_to_point(line.bits_per_s, line.delay_ns),
            None if parameters.link == LinkKind::Ethernet3 => LinkConfig::ethernet3(),
            None => LinkConfig::ethernet10(),
        };
        link.with_other_traffic(other_traffic(parameters))
            .with_capture(capture(parameters))
            .with_faults(link_faults(parameters.faults()))
    };
    // Only the sender is profiled, as in the paper.
    let client = HostConfig {
        is_profiled: parameters.profiling,
        ..host("client", parameters.client_timer_ms)
    };
    let server = || host("server", parameters.server_timer_ms);
    let (mut hosts, links) = match parameters.topology {
        Topology::Loopback => (vec![client.with_loopback()], Vec::new()),
        Topology::Pair => {
            let hosts = vec![on_link(client, CLIENT, 0), on_link(server(), SERVER, 0)];
            (hosts, vec![link()])
        }
        Topology::Gateway => {
            let [near, far] = GATEWAY;
            let gateway = HostConfig { probes: None, ..on_link(host(GATEWAY_NAME, None), near, 0) };
            let (mut gateway, server, far_link) = match parameters.gateway_kbit_per_s {
                None => (on_link(gateway, far, 1), on_link(server(), FAR_SERVER, 1), link()),
                Some(kbit_per_s) => {
                    let delay_ns = parameters.link_delay_us * 1000;
                    (
                        gateway.with_line(far, SERIAL_MTU, 1),
                        server().with_line(FAR_SERVER, SERIAL_MTU, 1),
                        LinkConfig::point_to_point(kbit_per_s * 1000, delay_ns),
                    )
                }
            };
            gateway.stack.forwards = true;
            let client = by_gateway(on_link(client, CLIENT, 0), near);
            (vec![client, by_gateway(server, far), gateway], vec![link(), far_link])
        }
    };
    let interfaces = hosts.iter_mut().flat_map(|host| &mut host.stack.interfaces);
    for (packets, interface) in
        parameters.interface_queue_packets.into_iter().cycle().zip(interfaces)
    {
        interface.queue_packets_max = packets as usize;
    }
    let log = if parameters.so_log { LogPolicy::OnRequest } else { LogPolicy::All };
    Ok(Scenario { seed, hosts, links, log })
}
