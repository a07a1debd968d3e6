//! The curves of one flow that a picture shows, as steps over time.

use sockscope_record::{Direction, Kind, Point, Protocol, Stage, tcp_flags};

use crate::curve::{Curve, LatestPassage};
use crate::detail::Detail;
use crate::{ConnectionStore, FlowCurves, Passage};

/// A curve of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FlowCurve {
    /// Position in the stream that has passed a point. Of a stream it is the number of bytes that passed, so that the
    /// distance of two curves is the length of the queue between them.
    Passed(Point),
    /// Bytes in a stage.
    Length(Stage),
    /// Position that the sender knows to be acknowledged.
    Acknowledged,
    /// Position up to which the receiver's window allows to send.
    WindowEdge,
}

impl FlowCurve {
    /// All curves.
    pub fn all() -> impl Iterator<Item = Self> {
        let points = Point::ALL.into_iter().map(Self::Passed);
        let stages = Stage::ALL.into_iter().map(Self::Length);
        points.chain(stages).chain([Self::Acknowledged, Self::WindowEdge])
    }

    /// As `point1`, `send_queue` or `window`.
    pub fn name(self) -> &'static str {
        const POINTS: [&str; 8] =
            ["point1", "point2", "point3", "point4", "point5", "point6", "point7", "point8"];
        match self {
            Self::Passed(point) => POINTS[point.index()],
            Self::Length(stage) => stage.name(),
            Self::Acknowledged => "acknowledged",
            Self::WindowEdge => "window",
        }
    }

    /// The curve with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|curve| curve.name() == name)
    }

    /// Its steps for a picture. Those of a watched point begin with the first byte in transit to it, which is in a queue
    /// until it passes. All others are those of [`detail`](Self::detail).
    pub fn drawn(
        self,
        store: &ConnectionStore,
        direction: Direction,
        curves: &FlowCurves,
    ) -> Detail {
        match self {
            Self::Passed(point) => {
                passed(curves.at(point), store.connection.protocol, curves.in_transit(point))
            }
            _ => self.detail(store, direction, curves),
        }
    }

    /// Its steps. Empty where nothing of it was seen.
    ///
    /// `curves` are those of this direction of the connection.
    pub fn detail(
        self,
        store: &ConnectionStore,
        direction: Direction,
        curves: &FlowCurves,
    ) -> Detail {
        match self {
            Self::Passed(point) => passed(curves.at(point), store.connection.protocol, None),
            Self::Length(stage) => {
                let steps = curves.lengths(stage).unwrap_or_default();
                let value = |length: Option<u64>| length.map_or(f64::NAN, |bytes| bytes as f64);
                Detail::new(steps.into_iter().map(|step| (step.at_ns, value(step.length_bytes))))
            }
            Self::Acknowledged => {
                rising(arriving(store, direction).map(|pass| (pass.at_ns, pass.acknowledged())))
            }
            Self::WindowEdge => window_edge(store, direction),
        }
    }
}

/// Acknowledgments of the flow where they arrive at its sender, or as close to it as they were seen.
fn arriving(store: &ConnectionStore, direction: Direction) -> impl Iterator<Item = &Passage> {
    let points = [Point::InputDequeue, Point::InputEnqueue, Point::InterfaceDequeue];
    let reverse = store.reverse(direction);
    let seen = points.map(|point| reverse.at(point)).into_iter().find(|passes| !passes.is_empty());
    seen.unwrap_or(&[]).iter().filter(|pass| pass.tcp_flags & tcp_flags::ACK != 0)
}

/// The edge of each acknowledgment (RFC 9293 §3.3.1). Where none was seen to arrive, the sender's notes have it.
fn window_edge(store: &ConnectionStore, direction: Direction) -> Detail {
    let mut edges = arriving(store, direction).peekable();
    if edges.peek().is_some() {
        return Detail::new(edges.map(|pass| (pass.at_ns, pass.window_edge() as f64)));
    }
    let noted = store.flow(direction).events_of(Kind::SendWindow).filter_map(|event| {
        let edge = event.offset.saturating_add(event.send_window()?.bytes);
        Some((event.at_ns, edge as f64))
    });
    Detail::new(noted)
}

/// A lower position later adds nothing.
fn rising(positions: impl Iterator<Item = (u64, u64)>) -> Detail {
    let mut highest = 0;
    Detail::new(positions.map(|(at_ns, position)| {
        highest = highest.max(position);
        (at_ns, highest as f64)
    }))
}

/// `in_transit` is a time with the position of the first byte, if that is a step as well.
fn passed(curve: &Curve, protocol: Protocol, in_transit: Option<(u64, u64)>) -> Detail {
    let mut passages: Vec<LatestPassage> = curve.latest().collect();
    if !passages.is_sorted_by_key(|passage| passage.at_ns) {
        passages.sort_by_key(|passage| passage.at_ns);
    }
    let last_ns = passages.last().map_or(0, |passage| passage.at_ns);
    let unknown_ns = curve.unknown_from_ns.filter(|from_ns| last_ns <= *from_ns);
    let first_ns = passages.first().map(|passage| passage.at_ns).or(unknown_ns);
    let begin = in_transit.filter(|(at_ns, _)| first_ns.is_none_or(|first_ns| *at_ns < first_ns));
    if passages.is_empty() && begin.is_none() {
        return Detail::default();
    }
    let mut position = passages.iter().map(|passage| passage.offset).min().unwrap_or(0);
    let steps = passages.iter().map(|passage| {
        position = match protocol {
            // A lost segment leaves a hole, and the bytes behind it have passed.
            Protocol::Tcp => position + (passage.end - passage.offset),
            // A dropped datagram never passes.
            _ => position.max(passage.end),
        };
        (passage.at_ns, position as f64)
    });
    let begin = begin.map(|(at_ns, position)| (at_ns, position as f64));
    let unknown = unknown_ns.map(|from_ns| (from_ns, f64::NAN));
    Detail::new(begin.into_iter().chain(steps).chain(unknown))
}

impl FlowCurves {
    /// When the byte at this position first passed each point, in the order of [`Point::ALL`]; `None` where that was not
    /// seen.
    pub fn times_of_byte(&self, position: u64) -> [Option<u64>; 8] {
        Point::ALL.map(|point| self.at(point).at(position).map(|passage| passage.at_ns))
    }

    /// Time and position of the first byte in transit to a watched point: of those that passed it, else of those at the
    /// points before it.
    fn in_transit(&self, point: Point) -> Option<(u64, u64)> {
        let (before, own) = (&self.curves[..point.index()], self.at(point));
        let first = |curve: &Curve| curve.latest().next().map(|passage| passage.offset);
        let position = first(own).or_else(|| before.iter().filter_map(first).min())?;
        let times = before.iter().filter_map(|curve| curve.at(position));
        let at_ns = times.map(|passage| passage.at_ns).min()?;
        self.observed[point.index()].then_some((at_ns, position))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detail::edges;
    use crate::{DropReasons, testing};

    fn curve(text: &str, curve: FlowCurve, at_ns: &[u64]) -> Vec<f64> {
        let store = testing::store(text);
        let curves = FlowCurves::new(&store, Direction::FromClient, &[], &DropReasons::new());
        let detail = curve.detail(&store, Direction::FromClient, &curves);
        at_ns.iter().map(|at_ns| detail.at(*at_ns)).collect()
    }

    #[test]
    fn the_distance_of_two_curves_is_the_queue_between_them() {
        let text = "10 1 +300 | 20 2 +100 | 44 2 +200 | 50 2 0..100 retransmitted";
        let times = [10, 20, 43, 44, 60];
        let [written, taken, queue] = [
            FlowCurve::Passed(Point::SendEnqueue),
            FlowCurve::Passed(Point::SendDequeue),
            FlowCurve::Length(Stage::SendQueue),
        ]
        .map(|one| curve(text, one, &times));
        assert_eq!(written, [300.0; 5]);
        assert!(taken[0].is_nan());
        assert_eq!(taken[1..], [100.0, 100.0, 300.0, 300.0]);
        assert_eq!(queue, [300.0, 200.0, 200.0, 0.0, 0.0]);
    }

    #[test]
    fn a_drawn_curve_begins_with_the_first_byte_in_transit() {
        let drawn = |text: &str, point: Point, at_ns: [u64; 3]| {
            let store = testing::store(text);
            let curves = FlowCurves::new(&store, Direction::FromClient, &[], &DropReasons::new());
            let detail = FlowCurve::Passed(point).drawn(&store, Direction::FromClient, &curves);
            at_ns.map(|at_ns| detail.at(at_ns))
        };
        let text = "10 1 +300 | 20 2 +100 | 44 2 +200";
        assert_eq!(drawn(text, Point::SendDequeue, [10, 19, 20]), [0.0, 0.0, 100.0]);
        assert!(drawn(text, Point::SendDequeue, [0, 5, 9]).iter().all(|it| it.is_nan()));
        assert_eq!(drawn(text, Point::SendEnqueue, [10, 20, 44]), [300.0; 3]);
        // Nothing left the queue. A point that was not watched may have let all pass.
        assert_eq!(drawn("10 1 +300", Point::SendDequeue, [10, 20, 44]), [0.0; 3]);
        let beyond = "10 1 +300 | 30 3 +300";
        assert!(drawn(beyond, Point::SendDequeue, [10, 20, 44]).iter().all(|it| it.is_nan()));
        // From then on records are missing, and any byte may have passed.
        let left_out = drawn("10 1 +300 | 30 left-out", Point::SendDequeue, [10, 29, 31]);
        assert_eq!(left_out[..2], [0.0; 2]);
        assert!(left_out[2].is_nan());
        // The bytes before this one passed earlier, or were never here.
        let later = "10 1 0..300 | 20 2 100..300";
        assert_eq!(drawn(later, Point::SendDequeue, [10, 19, 20]), [100.0, 100.0, 300.0]);
    }

    #[test]
    fn bytes_behind_a_hole_have_passed_and_the_hole_has_not() {
        let text = "10 1 +300 | 20 2 0..100 | 20 2 100..200 | 20 2 200..300 | 30 4 0..100 | 31 4 200..300 | 90 4 100..200";
        let passed = curve(text, FlowCurve::Passed(Point::InterfaceDequeue), &[30, 31, 89, 90]);
        assert_eq!(passed, [100.0, 200.0, 200.0, 300.0]);
    }

    #[test]
    fn a_byte_has_its_times_at_the_points_that_it_passed() {
        let store = testing::store("10 1 +100 | 15 1 +50 | 40 2 +150");
        let curves = FlowCurves::new(&store, Direction::FromClient, &[], &DropReasons::new());
        assert_eq!(curves.times_of_byte(99)[..3], [Some(10), Some(40), None]);
        assert_eq!(curves.times_of_byte(100)[..3], [Some(15), Some(40), None]);
        assert_eq!(curves.times_of_byte(150), [None; 8]);
    }

    #[test]
    fn every_curve_has_a_name_of_its_own_by_which_it_is_found() {
        for curve in FlowCurve::all() {
            assert_eq!(FlowCurve::named(curve.name()), Some(curve));
        }
        assert_eq!(FlowCurve::named("point9"), None);
    }

    #[test]
    fn a_curve_without_records_has_no_steps() {
        let store = testing::store("10 1 +100");
        let curves = FlowCurves::new(&store, Direction::FromClient, &[], &DropReasons::new());
        let detail = FlowCurve::WindowEdge.detail(&store, Direction::FromClient, &curves);
        assert!(detail.is_empty());
        assert!(detail.columns(&edges(0, 100, 2)).max.iter().all(|value| value.is_nan()));
    }
}
