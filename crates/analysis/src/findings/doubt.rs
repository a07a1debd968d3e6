//! Times at which a rule cannot trust the records that it looks at.
//!
//! A missed record puts in doubt only the figures that it may have changed. Data that passed a point unseen leaves
//! a hole in the positions there, so that only the flow, the point and the time of that hole are in doubt; packets
//! without data and records of no point have no such proof.

use sockscope_record::Point;

use super::intervals::{Interval, Intervals};
use super::reads::ReadWait;
use crate::FlowView;

/// Times by the records that may have been missed.
#[derive(Debug, Clone, Default)]
pub(super) struct Doubt {
    /// Data of the flow at each point, in the order of [`Point::ALL`].
    data: [Intervals; 8],
    /// Packets of either direction at points 3 to 6, acknowledgments among them.
    packets: Intervals,
    /// The state of the sender: its writes, its segments, the acknowledgments.
    pub sending: Intervals,
    /// The same with the options and states of its socket.
    pub sending_socket: Intervals,
}

impl Doubt {
    pub(super) fn of(view: &FlowView<'_>) -> Self {
        let times =
            |from_ns: u64, until_ns: u64| Interval::new(from_ns, until_ns.saturating_add(1));
        let data = view.unknown_ns.each_ref().map(|unknown| {
            Intervals::union_of(unknown.iter().map(|&(from_ns, until_ns)| times(from_ns, until_ns)))
        });
        let losses = |is_it: fn(Option<Point>) -> bool| {
            let losses = view.losses.iter().filter(move |loss| is_it(loss.point));
            Intervals::union_of(losses.map(|loss| times(loss.start_ns, loss.end_ns)))
        };
        let packets = losses(|point| point.is_some_and(|it| (2..6).contains(&it.index())));
        let events = losses(|point| point.is_none());
        let [entered, taken, ..] = &data;
        let sending = entered.iter().chain(taken.iter()).chain(packets.iter());
        let sending = Intervals::union_of(sending);
        let sending_socket = Intervals::union_of(sending.iter().chain(events.iter()));
        Self { data, packets, sending, sending_socket }
    }

    /// Times at which data may have entered or left the interface's queue unseen.
    pub(super) fn of_interface(&self) -> Intervals {
        let points = [Point::InterfaceEnqueue, Point::InterfaceDequeue].into_iter();
        Intervals::union_of(points.flat_map(|point| self.at(point).iter()))
    }

    /// Times at which data may have left one host or arrived at the other unseen.
    pub(super) fn of_network(&self) -> Intervals {
        let points = [Point::InterfaceDequeue, Point::InputEnqueue].into_iter();
        Intervals::union_of(points.flat_map(|point| self.at(point).iter()))
    }

    /// Times at which a segment may have arrived, or have been read, unseen.
    pub(super) fn of_reads(&self) -> Intervals {
        let points = [
            Point::InputEnqueue,
            Point::InputDequeue,
            Point::ReceiveEnqueue,
            Point::ReceiveDequeue,
        ];
        Intervals::union_of(points.into_iter().flat_map(|point| self.at(point).iter()))
    }

    /// Whether the wait may have been a shorter one, or the reader was woken for it.
    pub(super) fn is_of_wait(&self, wait: &ReadWait) -> bool {
        let arrival = Interval::new(wait.before_ns, wait.since_ns.saturating_add(1));
        self.at(Point::ReceiveDequeue).touches(wait.interval())
            || self.at(Point::ReceiveEnqueue).touches(arrival)
    }

    /// Whether an acknowledgment made at `made_ns` of data that arrived at `arrived_ns` is uncertain: it may not be
    /// the first one, or the reader may have read between `since_ns` and then.
    pub(super) fn is_of_ack(&self, arrived_ns: u64, since_ns: u64, made_ns: u64) -> bool {
        let until_ns = made_ns.saturating_add(1);
        self.at(Point::ReceiveDequeue).touches(Interval::new(since_ns, until_ns))
            || self.at(Point::ReceiveEnqueue).touches(Interval::new(arrived_ns, until_ns))
            || self.packets.touches(Interval::new(arrived_ns, until_ns))
    }

    fn at(&self, point: Point) -> &Intervals {
        &self.data[point.index()]
    }
}

#[cfg(test)]
mod tests {
    use crate::FindingId;
    use crate::findings::testing::repeat;

    /// The findings on a connection whose reader is away for 40 ms of each 50 ms.
    fn found(loss: &str) -> Vec<(FindingId, u64)> {
        let arrivals = repeat(20, "50ms", |at| format!("{at} 1-7 +100"));
        let reads =
            (1..=20).map(|i| format!("{}ms 8 +100", 50 * i + 40)).collect::<Vec<_>>().join(" | ");
        let analysis = crate::testing::analyze(&format!("{arrivals} | {reads} | {loss}"));
        let findings = analysis.findings.iter();
        findings.map(|finding| (finding.id, finding.count)).collect()
    }

    #[test]
    fn a_missed_record_silences_what_it_touches_and_no_more() {
        let whole = found("");
        assert_eq!(whole, [(FindingId::SlowReader, 20)]);
        // A packet without data, an event, and data that positions show to have been seen.
        for point in [1, 2, 4, 6, 7, 29, 31] {
            let loss = format!("990ms loss from=0ms detail=5 code={point}");
            assert_eq!(found(&loss), whole, "{point}");
        }
        assert_eq!(found("990ms loss from=0ms detail=5 code=8"), []);
        // One read that may be two, in one of the gaps.
        let loss = "170ms loss from=160ms detail=1 code=8";
        assert_eq!(found(loss), [(FindingId::SlowReader, 19)]);
    }
}
