//! The lines that the time of one host's clock against another's may follow, from segments that crossed between them.
//!
//! No segment arrives before it left. One that went to the other host bounds the difference of the clocks from one side,
//! one in return from the other side. Two clocks of steady rate differ by a straight line over time: it lies above
//! each lower bound and below each upper one. All such lines together are the band in which the truth is.

/// Two clocks differ in rate by this at most: each is slewed by 500 ppm at most (`adjtimex(2)`).
const RATE_MAX: f64 = 1e-3;

/// Bounds may contradict each other by the rounding of times, nanoseconds.
const ROUNDING_NS: f64 = 1.0;

/// Steps of a search, each of which leaves two thirds of the range.
const SEARCH_STEPS: usize = 100;

/// A segment that left one host and reached the other; nanoseconds, each of its own host's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Crossing {
    /// On the clock of the host whose times are to be moved.
    pub(crate) moved_ns: u64,
    /// On the clock to which they are moved.
    pub(crate) base_ns: u64,
}

impl Crossing {
    fn difference_ns(self) -> i128 {
        i128::from(self.base_ns) - i128::from(self.moved_ns)
    }
}

/// Lines that fit all bounds of a part of the recording.
#[derive(Debug, Clone)]
pub(crate) struct Lines {
    /// Reference, so that the rest fits a float: a time of the moved clock, and nanoseconds to add to it.
    reference_ns: u64,
    difference_ns: i128,
    /// Corners of the bounds, as nanoseconds from the references: the line is above the first, below the second.
    above: Vec<(f64, f64)>,
    below: Vec<(f64, f64)>,
    /// Least and greatest rate.
    rates: (f64, f64),
    /// The rate of the line in the middle.
    rate: f64,
}

impl Lines {
    /// From segments that left the moved host, and those that went to it. `None` without one in each direction, and
    /// where no line fits.
    pub(crate) fn of(from_moved: &[Crossing], to_moved: &[Crossing]) -> Option<Self> {
        let first = to_moved.first()?;
        let (reference_ns, difference_ns) = (first.moved_ns, first.difference_ns());
        let corners = |crossings: &[Crossing], sign: f64| {
            let relative = |crossing: &Crossing| {
                let x = i128::from(crossing.moved_ns) - i128::from(reference_ns);
                (x as f64, (crossing.difference_ns() - difference_ns) as f64)
            };
            let mut points: Vec<_> = crossings.iter().map(relative).collect();
            points.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.total_cmp(&other.1)));
            hull(&points, sign)
        };
        from_moved.first()?;
        let mut lines = Self {
            reference_ns,
            difference_ns,
            above: corners(to_moved, 1.0),
            below: corners(from_moved, -1.0),
            rates: (0.0, 0.0),
            rate: 0.0,
        };
        lines.rate = greatest(-RATE_MAX, RATE_MAX, |rate| lines.gap_ns(rate));
        if lines.gap_ns(lines.rate) < -ROUNDING_NS {
            return None;
        }
        let end = |outer: f64| {
            // The gap falls from the middle to each end.
            let (mut inner, mut outer) = (lines.rate, outer);
            if lines.gap_ns(outer) >= 0.0 {
                return outer;
            }
            for _ in 0..SEARCH_STEPS {
                let middle = f64::midpoint(inner, outer);
                *if lines.gap_ns(middle) >= 0.0 { &mut inner } else { &mut outer } = middle;
            }
            outer
        };
        lines.rates = (end(-RATE_MAX), end(RATE_MAX));
        Some(lines)
    }

    /// Room between the bounds for a line of this rate.
    fn gap_ns(&self, rate: f64) -> f64 {
        self.lowest_below_ns(rate, 0.0) - self.highest_above_ns(rate, 0.0)
    }

    /// The lowest line of this rate, at this time.
    fn highest_above_ns(&self, rate: f64, x: f64) -> f64 {
        let at = self.above.iter().map(|(corner, ns)| ns + rate * (x - corner));
        at.fold(f64::NEG_INFINITY, f64::max)
    }

    /// The highest line of this rate, at this time.
    fn lowest_below_ns(&self, rate: f64, x: f64) -> f64 {
        let at = self.below.iter().map(|(corner, ns)| ns + rate * (x - corner));
        at.fold(f64::INFINITY, f64::min)
    }

    fn x(&self, moved_ns: u64) -> f64 {
        (i128::from(moved_ns) - i128::from(self.reference_ns)) as f64
    }

    /// The line in the middle: nanoseconds to add to a time of the moved clock.
    pub(crate) fn middle_ns(&self, moved_ns: u64) -> i128 {
        let x = self.x(moved_ns);
        let (low, high) =
            (self.highest_above_ns(self.rate, 0.0), self.lowest_below_ns(self.rate, 0.0));
        self.difference_ns + (f64::midpoint(low, high) + self.rate * x).round() as i128
    }

    /// The least and the greatest number of nanoseconds to add to a time of the moved clock, of all lines.
    pub(crate) fn range_ns(&self, moved_ns: u64) -> (i128, i128) {
        let x = self.x(moved_ns);
        let (least, most) = self.rates;
        let low_rate = greatest(least, most, |rate| -self.highest_above_ns(rate, x));
        let high_rate = greatest(least, most, |rate| self.lowest_below_ns(rate, x));
        let low = self.highest_above_ns(low_rate, x) - ROUNDING_NS;
        let high = self.lowest_below_ns(high_rate, x) + ROUNDING_NS;
        (self.difference_ns + low.floor() as i128, self.difference_ns + high.ceil() as i128)
    }

    /// The least and the greatest rate, parts per billion by which the moved clock is slower.
    pub(crate) fn rates_ppb(&self) -> (i64, i64) {
        ((self.rates.0 * 1e9).floor() as i64, (self.rates.1 * 1e9).ceil() as i64)
    }
}

/// The corners of the points on the upper side (`sign` 1) or the lower one (-1), from left to right.
fn hull(points: &[(f64, f64)], sign: f64) -> Vec<(f64, f64)> {
    let mut corners: Vec<(f64, f64)> = Vec::new();
    for &point in points {
        while let [.., one, other] = corners[..] {
            let turn =
                (other.0 - one.0) * (point.1 - one.1) - (other.1 - one.1) * (point.0 - one.0);
            if sign * turn < 0.0 {
                break;
            }
            corners.pop();
        }
        corners.push(point);
    }
    corners
}

/// Where a concave function is greatest between two numbers.
fn greatest(mut low: f64, mut high: f64, of: impl Fn(f64) -> f64) -> f64 {
    for _ in 0..SEARCH_STEPS {
        let third = (high - low) / 3.0;
        if of(low + third) < of(high - third) {
            low += third;
        } else {
            high -= third;
        }
    }
    f64::midpoint(low, high)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Crossings as `moved>base` or `moved<base`, those to the moved host.
    fn lines(text: &str) -> Option<Lines> {
        let mut both = [Vec::new(), Vec::new()];
        for word in text.split_whitespace() {
            let to_moved = word.contains('<');
            let (moved, base) = word.split_once(['<', '>']).unwrap();
            let [moved_ns, base_ns] = [moved, base].map(|ns| ns.parse().unwrap());
            both[usize::from(to_moved)].push(Crossing { moved_ns, base_ns });
        }
        Lines::of(&both[0], &both[1])
    }

    #[test]
    fn a_round_trip_bounds_the_difference_from_both_sides() {
        // The moved clock is 500 behind: a segment takes 10 there and 30 back.
        let lines = lines("1000<1490 1000>1530").unwrap();
        assert_eq!(lines.middle_ns(1000), 510);
        assert_eq!(lines.range_ns(1000), (489, 531));
    }

    #[test]
    fn one_direction_alone_bounds_nothing() {
        assert!(lines("1000<1490 2000<2490").is_none());
        assert!(lines("1000>1490").is_none());
    }

    #[test]
    fn a_clock_that_stepped_fits_no_line() {
        assert!(lines("1000<1490 1000>1530 2000000<7000000 2000000>7000040").is_none());
    }

    #[test]
    fn a_second_round_trip_bounds_the_drift() {
        // 100 ppm slower: after a second 100 us more.
        let text = "0<1000000 0>1000020 1000000000<1001100000 1000000000>1001100020";
        let lines = lines(text).unwrap();
        let (least, most) = lines.rates_ppb();
        assert!(least <= 100_000 && 100_000 <= most && most - least < 100, "{least} {most}");
        let (low, high) = lines.range_ns(500_000_000);
        assert!(low <= 1_050_000 && 1_050_020 <= high && high - low < 50, "{low} {high}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]
        #[test]
        fn the_true_difference_is_in_the_band(
            offset_ns in -1_000_000_000i64..1_000_000_000,
            drift_ppb in -50_000i64..50_000,
            // True time of leaving, delay, direction.
            segments in prop::collection::vec((0u64..20_000_000_000, 1u64..5_000_000, any::<bool>()), 2..60),
            at_ns in 0u64..20_000_000_000,
        ) {
            // The base clock shows the true time; the moved one drifts.
            let start = 5_000_000_000u64;
            let moved = |ns: u64| {
                let drift = i128::from(ns) * i128::from(drift_ppb) / 1_000_000_000;
                (i128::from(ns) + i128::from(start) + i128::from(offset_ns) + drift) as u64
            };
            let base = |ns: u64| ns + start;
            let (mut from_moved, mut to_moved) = (Vec::new(), Vec::new());
            for (sent, delay, is_to_moved) in segments {
                let (leaves, arrives) = (sent, sent + delay);
                match is_to_moved {
                    true => to_moved.push(Crossing { moved_ns: moved(arrives), base_ns: base(leaves) }),
                    false => from_moved.push(Crossing { moved_ns: moved(leaves), base_ns: base(arrives) }),
                }
            }
            let has_both = !from_moved.is_empty() && !to_moved.is_empty();
            let lines = Lines::of(&from_moved, &to_moved);
            prop_assert_eq!(lines.is_some(), has_both);
            if let Some(lines) = lines {
                let truth = i128::from(base(at_ns)) - i128::from(moved(at_ns));
                let (low, high) = lines.range_ns(moved(at_ns));
                prop_assert!(low <= truth && truth <= high, "{} <= {} <= {}", low, truth, high);
                let middle = lines.middle_ns(moved(at_ns));
                prop_assert!(low <= middle && middle <= high);
            }
        }
    }
}
