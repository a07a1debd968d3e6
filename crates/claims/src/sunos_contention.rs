//! Check of connections that share an interface queue: §5 of "Experimental Evaluation of SunOS IPC and
//! TCP/IP Protocol Implementation".

use sockscope_experiment::papers::Claim;
use sockscope_experiment::result::{CaseResult, RunResult};

use super::sunos_runs::observe;
use super::sunos_throughput::in_flight_max;
use super::{Check, Comparison, Outcome, Runs};

pub(super) const CHECKS: &[Check] =
    &[Check { id: "sunos-ipc/5-a", needs: &["si-5a"], compare: connections_without_overflow }];

/// A case of `si-5a`.
pub(super) struct Contention {
    queue_packets: u64,
    connections: u64,
    /// Packets of one connection's window, as many as were in flight.
    window_packets: u64,
    sent_again: u64,
}

/// The cases with such buffers; none without one.
fn contentions(runs: &Runs, buffer: &str) -> Result<Vec<Contention>, String> {
    let buffer_is = format!("socket_buffer_bytes={buffer}");
    let (_, window) = in_flight_max(&observe("si-5a", &[&buffer_is, "connections=1"])?);
    let contention = |case: &CaseResult| {
        let count = |name| u64::try_from(case.case.value(name)?.as_integer()?).ok();
        Some(Contention {
            queue_packets: count("interface_queue_packets")?,
            connections: count("connections")?,
            window_packets: window as u64,
            sent_again: case.measured.retransmitted,
        })
    };
    let run = runs.of("si-5a");
    Ok(run.cases_with(&[("socket_buffer_bytes", buffer)]).filter_map(contention).collect())
}

/// The only case of a run, with so many connections of four packets.
pub(super) fn contention_of(
    run: &RunResult,
    connections: u64,
    queue_packets: u64,
) -> Option<Contention> {
    let sent_again = run.cases.first()?.measured.retransmitted;
    Some(Contention { queue_packets, connections, window_packets: 4, sent_again })
}

/// Most connections of a queue's cases that lose nothing, nor do fewer of them; none where no number of
/// them loses something, so that no limit shows.
pub(super) fn without_loss(contentions: &[Contention], queue_packets: u64) -> u64 {
    let of_queue =
        || contentions.iter().filter(|contention| contention.queue_packets == queue_packets);
    let losing = of_queue().filter(|contention| contention.sent_again > 0);
    let Some(fewest) = losing.map(|contention| contention.connections).min() else { return 0 };
    let connections = of_queue().map(|contention| contention.connections);
    connections.filter(|connections| *connections < fewest).max().unwrap_or(0)
}

/// Connections and segments sent again of a queue's cases.
fn by_connections(contentions: &[Contention], queue_packets: u64) -> Vec<(u64, u64)> {
    let of_queue =
        contentions.iter().filter(|contention| contention.queue_packets == queue_packets);
    of_queue.map(|contention| (contention.connections, contention.sent_again)).collect()
}

fn connections_without_overflow(claim: &Claim, runs: &Runs) -> Outcome {
    let (small, large) = (contentions(runs, "4096")?, contentions(runs, "16384")?);
    let queue = small.iter().chain(&large).map(|contention| contention.queue_packets).min();
    let queue = queue.ok_or("si-5a has no case with these buffers")?;
    let most = [&small, &large].map(|contentions| without_loss(contentions, queue) as f64);
    let again = [&small, &large].map(|contentions| by_connections(contentions, queue));
    let windows = [&small, &large].map(|contentions| contentions[0].window_packets);
    Ok(Comparison::numbers(claim, &[queue as f64, most[0], most[1]]).with_note(format!(
        "most connections without loss; (connections, segments sent again) {:?} of {} packets, {:?} of {}",
        again[0], windows[0], again[1], windows[1]
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_where_loss_begins() {
        let contention = |connections, sent_again| Contention {
            queue_packets: 50,
            connections,
            window_packets: 4,
            sent_again,
        };
        let upto = |cases: &[Contention]| without_loss(cases, 50);
        assert_eq!(upto(&[contention(12, 0), contention(13, 1), contention(14, 1)]), 12);
        assert_eq!(upto(&[contention(12, 0), contention(13, 0), contention(14, 1)]), 13);
        assert_eq!(upto(&[contention(8, 0), contention(12, 1), contention(13, 0)]), 8);
        assert_eq!(upto(&[contention(12, 0), contention(13, 0)]), 0, "no limit shows");
        assert_eq!(without_loss(&[contention(12, 0), contention(13, 1)], 200), 0);
    }
}
