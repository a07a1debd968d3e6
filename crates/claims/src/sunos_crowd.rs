//! Check of connections that share an interface queue: §5 of "Experimental Evaluation of SunOS IPC and
//! TCP/IP Protocol Implementation".

use sockscope_experiment::papers::Claim;
use sockscope_experiment::result::CaseResult;

use super::sunos::in_flight_max;
use super::sunos_runs::observe;
use super::{Check, Judgement, Outcome, Runs};

pub(super) const CHECKS: &[Check] =
    &[Check { id: "sunos-ipc/5-a", needs: &["si-5a"], judge: connections_without_overflow }];

/// Packets that are on their way besides those in the interface queue: one in the driver, one that the
/// receiver is about to acknowledge.
const BESIDES_THE_QUEUE: u64 = 2;

/// A case of `si-5a`.
struct Crowd {
    queue_packets: u64,
    connections: u64,
    /// Packets of one connection's window, as many as were in flight.
    window_packets: u64,
    sent_again: u64,
}

impl Crowd {
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
fn crowds(runs: &Runs, buffer: &str) -> Result<Vec<Crowd>, String> {
    let buffer_is = format!("socket_buffer_bytes={buffer}");
    let (_, window) = in_flight_max(&observe("si-5a", &[&buffer_is, "connections=1"])?);
    let crowd = |case: &CaseResult| {
        let count = |name| u64::try_from(case.case.value(name)?.as_integer()?).ok();
        Some(Crowd {
            queue_packets: count("interface_queue_packets")?,
            connections: count("connections")?,
            window_packets: window as u64,
            sent_again: case.seen.retransmitted,
        })
    };
    let run = runs.of("si-5a");
    Ok(run.cases_with(&[("socket_buffer_bytes", buffer)]).filter_map(crowd).collect())
}

/// Whether no case loses a packet that the queue has room for, each loses some that has more than fit
/// anywhere, and there are both.
fn lose_beyond_the_queue(crowds: &[Crowd]) -> bool {
    let is_as_counted = |crowd: &Crowd| (crowd.sent_again > 0) == crowd.overflows();
    crowds.iter().all(is_as_counted)
        && crowds.iter().any(Crowd::is_guaranteed)
        && crowds.iter().any(Crowd::overflows)
}

/// Most connections of a queue's cases whose windows it takes, without loss in those nor in smaller ones.
fn guaranteed(crowds: &[Crowd], queue_packets: u64) -> u64 {
    let of_queue = crowds.iter().filter(|crowd| crowd.queue_packets == queue_packets);
    let safe = of_queue.filter(|crowd| crowd.is_guaranteed() && crowd.sent_again == 0);
    safe.map(|crowd| crowd.connections).max().unwrap_or(0)
}

/// Connections and segments sent again of a queue's cases.
fn by_connections(crowds: &[Crowd], queue_packets: u64) -> Vec<(u64, u64)> {
    let of_queue = crowds.iter().filter(|crowd| crowd.queue_packets == queue_packets);
    of_queue.map(|crowd| (crowd.connections, crowd.sent_again)).collect()
}

fn connections_without_overflow(claim: &Claim, runs: &Runs) -> Outcome {
    let (small, large) = (crowds(runs, "4096")?, crowds(runs, "16384")?);
    let queue = small.iter().chain(&large).map(|crowd| crowd.queue_packets).min();
    let queue = queue.ok_or("si-5a has no case with these buffers")?;
    let most = [&small, &large].map(|crowds| guaranteed(crowds, queue) as f64);
    let again = [&small, &large].map(|crowds| by_connections(crowds, queue));
    let again = format!(
        "(connections, segments sent again) {:?} of four packets, {:?} of sixteen",
        again[0], again[1]
    );
    let numbers = Judgement::numbers(claim, &[queue as f64, most[0], most[1]]);
    Ok(numbers
        .and(Judgement::holds(
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
        let crowd = |connections, window_packets, sent_again| Crowd {
            queue_packets: 50,
            connections,
            window_packets,
            sent_again,
        };
        let cases = [crowd(12, 4, 0), crowd(13, 4, 0), crowd(14, 4, 1)];
        assert!(lose_beyond_the_queue(&cases));
        assert_eq!(guaranteed(&cases, 50), 12);
        assert!(!lose_beyond_the_queue(&[crowd(12, 4, 1), crowd(14, 4, 1)]), "within the queue");
        assert!(!lose_beyond_the_queue(&[crowd(3, 16, 0), crowd(4, 16, 0)]), "none is lost");
        assert!(!lose_beyond_the_queue(&[crowd(12, 4, 0)]), "none beyond");
        assert!(!lose_beyond_the_queue(&[]), "no case");
        assert_eq!(guaranteed(&[crowd(12, 4, 1)], 50), 0);
    }
}
