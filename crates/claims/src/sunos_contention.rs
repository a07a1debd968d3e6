//! Check of connections that share an interface queue: §5 of "Experimental Evaluation of SunOS IPC and
//! TCP/IP Protocol Implementation".

use sockscope_experiment::papers::Claim;
use sockscope_experiment::result::CaseResult;

use super::sunos::in_flight_max;
use super::sunos_runs::observe;
use super::{Check, Comparison, Outcome, Runs};

pub(super) const CHECKS: &[Check] =
    &[Check { id: "sunos-ipc/5-a", needs: &["si-5a"], compare: connections_without_overflow }];

/// Packets that are in transit besides those in the interface queue: one in the driver, one that the
/// receiver is about to acknowledge.
const BESIDES_THE_QUEUE: u64 = 2;

/// A case of `si-5a`.
struct Contention {
    queue_packets: u64,
    connections: u64,
    /// Packets of one connection's window, as many as were in flight.
    window_packets: u64,
    sent_again: u64,
}

impl Contention {
    /// Whether the queue takes all windows at once.
    fn is_guaranteed(&self) -> bool {
        self.connections * self.window_packets <= self.queue_packets
    }

    /// Whether there are more packets than the queue, the driver and the receiver have at once.
    fn overflows(&self) -> bool {
        self.connections * self.window_packets > self.queue_packets + BESIDES_THE_QUEUE
    }
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

/// Whether no case loses a packet that the queue has room for, each loses some that has more than fit
/// anywhere, and there are both.
fn lose_beyond_the_queue(contentions: &[Contention]) -> bool {
    let is_as_counted =
        |contention: &Contention| (contention.sent_again > 0) == contention.overflows();
    contentions.iter().all(is_as_counted)
        && contentions.iter().any(Contention::is_guaranteed)
        && contentions.iter().any(Contention::overflows)
}

/// Most connections of a queue's cases whose windows it takes, without loss in those nor in smaller ones.
fn guaranteed(contentions: &[Contention], queue_packets: u64) -> u64 {
    let of_queue =
        contentions.iter().filter(|contention| contention.queue_packets == queue_packets);
    let safe =
        of_queue.filter(|contention| contention.is_guaranteed() && contention.sent_again == 0);
    safe.map(|contention| contention.connections).max().unwrap_or(0)
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
    let most = [&small, &large].map(|contentions| guaranteed(contentions, queue) as f64);
    let again = [&small, &large].map(|contentions| by_connections(contentions, queue));
    let again = format!(
        "(connections, segments sent again) {:?} of four packets, {:?} of sixteen",
        again[0], again[1]
    );
    let numbers = Comparison::numbers(claim, &[queue as f64, most[0], most[1]]);
    Ok(numbers
        .and(Comparison::holds(
            lose_beyond_the_queue(&small) && lose_beyond_the_queue(&large),
            "segments are lost by as many connections as have more than two packets beyond the queue, of which one is in the driver and one at the receiver, and by no fewer",
            again.clone(),
        ))
        .with_note(format!(
            "{again}; thirteen of four are two packets more than the queue holds, and those are in the driver and at the receiver"
        )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_packets_beyond_the_queue_are_on_their_way() {
        let contention = |connections, window_packets, sent_again| Contention {
            queue_packets: 50,
            connections,
            window_packets,
            sent_again,
        };
        let cases = [contention(12, 4, 0), contention(13, 4, 0), contention(14, 4, 1)];
        assert!(lose_beyond_the_queue(&cases));
        assert_eq!(guaranteed(&cases, 50), 12);
        assert!(
            !lose_beyond_the_queue(&[contention(12, 4, 1), contention(14, 4, 1)]),
            "within the queue"
        );
        assert!(
            !lose_beyond_the_queue(&[contention(3, 16, 0), contention(4, 16, 0)]),
            "none is lost"
        );
        assert!(!lose_beyond_the_queue(&[contention(12, 4, 0)]), "none beyond");
        assert!(!lose_beyond_the_queue(&[]), "no case");
        assert_eq!(guaranteed(&[contention(12, 4, 1)], 50), 0);
    }
}
