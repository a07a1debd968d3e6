//! Delays of callers: the part of a request in which one cause kept its data, or that of its response, back.
//!
//! `late-wakeup`, `slow-reader` and `congestion-limited` look at one flow. Of a program that serves thousands of short
//! connections no flow shows enough. So each of these rules hands over the times at which its cause held data. Here
//! they are cut to the times in which a caller waited for that data. `callers_wait` adds them up.

use sockscope_record::{ConnectionId, Direction, Side};

use super::intervals::{Interval, Intervals};
use crate::{FindingId, Request, Requests, SeenEnds};

/// Data of one flow was kept back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HeldInterval {
    pub interval: Interval,
    /// The thread that kept it; 0 without one, or if it is unknown.
    pub thread: u32,
    /// Its process, if that may be another one than those that use the connection; else 0.
    pub process: u32,
}

/// One cause that kept data of one flow back, at times in order and disjoint.
#[derive(Debug)]
pub(super) struct FlowHolds {
    pub id: FindingId,
    pub direction: Direction,
    pub holds: Vec<HeldInterval>,
}

impl FlowHolds {
    /// Of a cause that is no thread's.
    pub(super) fn of_times(id: FindingId, direction: Direction, times: &Intervals) -> Self {
        let holds =
            times.iter().map(|interval| HeldInterval { interval, thread: 0, process: 0 }).collect();
        Self { id, direction, holds }
    }
}

/// The part of one request in which one cause kept data back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Delay {
    /// The rule of the cause.
    pub(super) id: FindingId,
    pub(super) direction: Direction,
    /// The place of the request on its connection.
    pub(super) index: u32,
    pub(super) interval: Interval,
    pub(super) thread: u32,
    pub(super) process: u32,
}

impl Delay {
    /// The side that has to change: the reader, or for the congestion window the sender.
    pub(super) fn side(&self) -> Side {
        match self.id {
            FindingId::CongestionLimited => self.direction.sender(),
            _ => self.direction.receiver(),
        }
    }
}

/// The delays of each connection that has any.
#[derive(Debug, Default)]
pub(crate) struct Delays(pub(super) Vec<(ConnectionId, Vec<Delay>)>);

impl Delays {
    /// Takes the delays of one connection.
    pub(crate) fn add(&mut self, id: ConnectionId, delays: Vec<Delay>) {
        if !delays.is_empty() {
            self.0.push((id, delays));
        }
    }
}

/// The parts of the requests in which these causes kept data back.
pub(super) fn of_requests(requests: &Requests, holds: &[FlowHolds]) -> Vec<Delay> {
    let Some(asker) = requests.asked_by else { return Vec::new() };
    let mut delays = Vec::new();
    for FlowHolds { id, direction, holds } in holds.iter().filter(|one| !one.holds.is_empty()) {
        debug_assert!(holds.is_sorted_by_key(|hold| hold.interval));
        for (request, index) in requests.list.iter().zip(0u32..) {
            let Some(window) = window(request, *direction == asker.sends()) else { continue };
            let first = holds.partition_point(|hold| hold.interval.end_ns <= window.start_ns);
            let within = holds[first..].iter();
            for hold in within.take_while(|hold| hold.interval.start_ns < window.end_ns) {
                let start_ns = hold.interval.start_ns.max(window.start_ns);
                let interval = Interval::new(start_ns, hold.interval.end_ns.min(window.end_ns));
                debug_assert!(
                    (request.asked_ns..=request.ended_ns).contains(&interval.end_ns),
                    "a delay is outside of its request"
                );
                let HeldInterval { thread, process, .. } = *hold;
                let (id, direction) = (*id, *direction);
                let delay = Delay { id, direction, index, interval, thread, process };
                delays.extend((interval.duration_ns() > 0).then_some(delay));
            }
        }
    }
    delays
}

/// Time in which the caller of a request waited for the request's own data, or for that of the response.
/// Without the answerer's end the border between the two is unknown.
fn window(request: &Request, is_of_request: bool) -> Option<Interval> {
    let [heard_ns, answered_ns] = request.limits();
    let (start_ns, end_ns) = match (request.seen, is_of_request) {
        (SeenEnds::Answerer, _) => return None,
        (SeenEnds::Asker, _) => (request.asked_ns, request.ended_ns),
        (SeenEnds::Both, true) => (request.asked_ns, heard_ns),
        (SeenEnds::Both, false) => (answered_ns, request.ended_ns),
    };
    Some(Interval::new(start_ns, end_ns))
}
