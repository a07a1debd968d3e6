//! The network of one run: its hosts, and the wire between them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use sockscope_link::{Capacity, Error, Hosts, Line, Topology, Wire, carry};

use super::programs::Network;

/// The wire's packets are late by more than this part of its delay: in hundredths.
const LATE_PERCENT_MAX: u64 = 5;
/// Each run drops the same packets of a wire with loss.
const SEED: u64 = 1;

/// Makes the hosts, lets `work` use them, and says whether the wire was late, where there is one.
pub(super) fn with_hosts<T>(
    network: &Network,
    work: impl FnOnce(&Hosts) -> T,
) -> Result<(T, bool), Error> {
    let line = Line::default();
    match network {
        Network::Loopback => Ok((work(&Topology::Loopback.build(line)?.0), false)),
        Network::Pair(rate, packets) => {
            let queue = packets.map_or(line.queue, Capacity::Packets);
            let line = Line { rate: Some(*rate), queue, ..line };
            Ok((work(&Topology::Pair.build(line)?.0), false))
        }
        Network::Fast => {
            let (hosts, _) = Topology::Pair.build(line)?;
            // Others may pace, and then put small messages together.
            hosts.set_ipv4("tcp_congestion_control", &"reno")?;
            Ok((work(&hosts), false))
        }
        Network::Crowd(rate, clients) => {
            let line = Line { rate: Some(*rate), ..line };
            Ok((work(&Topology::Crowd(*clients).build(line)?.0), false))
        }
        Network::Wire(settings) => {
            let (hosts, ends) = Topology::Link.build(line)?;
            let ends = ends.ok_or(Error::Thread)?;
            let wires = [2 * SEED, 2 * SEED + 1].map(|seed| Wire::new((**settings).clone(), seed));
            let is_over = AtomicBool::new(false);
            thread::scope(|scope| {
                let carrying = scope.spawn(|| carry(&ends, wires, &is_over));
                let done = work(&hosts);
                is_over.store(true, Ordering::Relaxed);
                let ended = carrying.join().map_err(|_| Error::Thread)??;
                let p99_ns = ended.iter().map(|one| one.lateness.percentile_ns(99)).max();
                let delay_ns = settings.delay.0;
                let is_late = delay_ns > 0
                    && p99_ns.unwrap_or(0).saturating_mul(100) > delay_ns * LATE_PERCENT_MAX;
                Ok((done, is_late))
            })
        }
    }
}
