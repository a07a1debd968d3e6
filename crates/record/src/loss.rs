//! Loss and cost by point: part of every trace and every report.

use crate::{Loss, Point};

/// Records that a source could not keep, by point, and of no point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LossCounts {
    /// Missed records of each point, in the order of [`Point::ALL`].
    pub points: [u64; 8],
    /// Missed records of other kinds.
    pub events: u64,
}

impl LossCounts {
    /// Records missed in all.
    pub fn total(&self) -> u64 {
        self.points.iter().sum::<u64>() + self.events
    }

    /// Counts by point; `None` stands for events that belong to no point.
    pub fn by_point(&self) -> impl Iterator<Item = (Option<Point>, u64)> + use<> {
        let points = Point::ALL.into_iter().map(Some).zip(self.points);
        points.chain([(None, self.events)])
    }

    /// Adds the counts of `other`, each in its place.
    pub fn add_all(&mut self, other: &Self) {
        other.by_point().for_each(|(point, count)| self.add(point, count));
    }

    /// The counts that were added since `before`.
    pub fn since(&self, before: &Self) -> Self {
        let points = std::array::from_fn(|at| self.points[at].saturating_sub(before.points[at]));
        Self { points, events: self.events.saturating_sub(before.events) }
    }

    /// Counts `count` missed records of `point`; `None` is an event of no point.
    pub fn add(&mut self, point: Option<Point>, count: u64) {
        let counter = match point {
            Some(point) => &mut self.points[point.index()],
            None => &mut self.events,
        };
        *counter = counter.saturating_add(count);
    }
}

impl FromIterator<Loss> for LossCounts {
    fn from_iter<T: IntoIterator<Item = Loss>>(losses: T) -> Self {
        let mut counts = Self::default();
        losses.into_iter().for_each(|loss| counts.add(loss.point(), loss.count));
        counts
    }
}

/// Cost of the probes of one point, by the kernel's measure of their run time.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PointCost {
    /// Times that a probe of this point ran, logged traffic or not.
    pub hits: u64,
    /// Nanoseconds spent in them; 0 when the kernel's run-time statistics were off.
    pub run_ns: u64,
}

impl PointCost {
    /// Mean nanoseconds of a hit; `None` when nothing was measured.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.hits > 0 && self.run_ns > 0).then(|| self.run_ns as f64 / self.hits as f64)
    }
}
