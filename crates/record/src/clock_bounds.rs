//! Bounds of the difference of two hosts' clocks, from segments that were recorded at both, in both directions.
//!
//! No segment arrives before it was sent. So each segment from the first host bounds the difference above, and each one
//! from the second host bounds it below. The difference is a line over time, as clocks drift: the bounds are those of
//! all lines that no segment contradicts. Times are nanoseconds, each of its host's own clock.

/// Two clocks differ in rate by this at most: each is slewed by 500 ppm at most (`adjtimex(2)`).
const DRIFT_MAX: f64 = 1e-3;

/// Bounds may contradict each other by the rounding of times, nanoseconds.
const ROUNDING_NS: f64 = 1.0;

/// Segments that were recorded at both hosts.
#[derive(Debug, Clone, Default)]
pub struct ClockPairs {
    /// Time at the second host, and a bound of its clock minus the first one's.
    above: Vec<(i64, i64)>,
    below: Vec<(i64, i64)>,
}

/// Bounds of the second host's clock minus the first one's.
#[derive(Debug, Clone, PartialEq)]
pub struct ClockBounds {
    /// Point of reference: a time of the second host, and a difference.
    origin: (i64, i64),
    above: Vec<(f64, f64)>,
    below: Vec<(f64, f64)>,
    /// Slopes at which a bound turns to another segment, in order; the first and the last are possible ones.
    slopes: Vec<f64>,
    /// The slope between the bounds.
    middle: f64,
    /// Whether there is a line that no segment contradicts.
    pub is_consistent: bool,
    /// Segments that were recorded at both hosts, from the first one and from the second one.
    pub segments: [u64; 2],
}

impl ClockPairs {
    /// A segment that the first host sent.
    pub fn from_first(&mut self, sent_ns: i64, received_ns: i64) {
        self.above.push((received_ns, received_ns.saturating_sub(sent_ns)));
    }

    /// A segment that the second host sent.
    pub fn from_second(&mut self, sent_ns: i64, received_ns: i64) {
        self.below.push((sent_ns, sent_ns.saturating_sub(received_ns)));
    }

    /// The bounds; `None` without a segment in each direction.
    pub fn bounds(&self) -> Option<ClockBounds> {
        let origin = (self.above.first()?.0.min(self.below.first()?.0), self.above.first()?.1);
        let near = |points: &[(i64, i64)]| -> Vec<(f64, f64)> {
            let near = |&(at, by): &(i64, i64)| {
                (at.saturating_sub(origin.0) as f64, by.saturating_sub(origin.1) as f64)
            };
            points.iter().map(near).collect()
        };
        let above = hull(near(&self.above), 1.0);
        let below = hull(near(&self.below), -1.0);
        let mut slopes: Vec<f64> = [above.windows(2), below.windows(2)]
            .into_iter()
            .flatten()
            .map(|pair| (pair[1].1 - pair[0].1) / (pair[1].0 - pair[0].0))
            .filter(|slope| slope.abs() < DRIFT_MAX)
            .chain([-DRIFT_MAX, DRIFT_MAX])
            .collect();
        slopes.sort_unstable_by(f64::total_cmp);
        slopes.dedup();
        let segments = [self.above.len() as u64, self.below.len() as u64];
        let mut bounds = ClockBounds {
            origin,
            above,
            below,
            slopes: Vec::new(),
            middle: 0.0,
            is_consistent: true,
            segments,
        };
        bounds.choose(&slopes);
        Some(bounds)
    }
}

impl ClockBounds {
    /// Keeps the slopes of possible lines, and takes the one with the most room. Room is concave in the slope and
    /// linear between the given ones.
    fn choose(&mut self, slopes: &[f64]) {
        let rooms: Vec<f64> = slopes.iter().map(|slope| self.room(*slope)).collect();
        let most = rooms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let is_best = |room: &&f64| **room == most;
        let first = rooms.iter().take_while(|room| !is_best(room)).count();
        let last = rooms.len() - 1 - rooms.iter().rev().take_while(|room| !is_best(room)).count();
        self.middle = f64::midpoint(slopes[first], slopes[last]);
        self.is_consistent = most >= -ROUNDING_NS;
        if !self.is_consistent {
            self.slopes = vec![self.middle];
            return;
        }
        let possible = |at: usize| rooms[at] >= -ROUNDING_NS;
        let zero = |out: usize, inside: usize| {
            let share = (rooms[inside] + ROUNDING_NS) / (rooms[inside] - rooms[out]);
            slopes[inside] + (slopes[out] - slopes[inside]) * share
        };
        let from = (0..slopes.len()).find(|at| possible(*at)).unwrap_or(first);
        let to = (0..slopes.len()).rev().find(|at| possible(*at)).unwrap_or(last);
        self.slopes.extend((from > 0).then(|| zero(from - 1, from)));
        self.slopes.extend_from_slice(&slopes[from..=to]);
        self.slopes.extend((to + 1 < slopes.len()).then(|| zero(to + 1, to)));
    }

    /// The lowest and the highest difference of lines of this slope, at the origin.
    fn ends(&self, slope: f64) -> (f64, f64) {
        let at_origin = |&(at, by): &(f64, f64)| by - slope * at;
        let lowest = self.below.iter().map(at_origin).fold(f64::NEG_INFINITY, f64::max);
        let highest = self.above.iter().map(at_origin).fold(f64::INFINITY, f64::min);
        (lowest, highest)
    }

    fn room(&self, slope: f64) -> f64 {
        let (lowest, highest) = self.ends(slope);
        highest - lowest
    }

    /// The middle of the bounds at a time of the second host: of the lines with one slope, so that it is a line too.
    pub fn at(&self, second_ns: i64) -> i64 {
        self.line().at(second_ns)
    }

    /// The lines' middle, for many times.
    pub fn line(&self) -> ClockLine {
        let (lowest, highest) = self.ends(self.middle);
        ClockLine { origin: self.origin, by: f64::midpoint(lowest, highest), slope: self.middle }
    }

    /// The lowest and the highest difference at a time of the second host.
    pub fn range_at(&self, second_ns: i64) -> (i64, i64) {
        let at = second_ns.saturating_sub(self.origin.0) as f64;
        let of_slope = |slope: &f64| {
            let (lowest, highest) = self.ends(*slope);
            (lowest + slope * at, highest + slope * at)
        };
        let all = self.slopes.iter().map(of_slope);
        let (lowest, highest) = all.fold((f64::INFINITY, f64::NEG_INFINITY), |all, one| {
            (all.0.min(one.0).min(one.1), all.1.max(one.1).max(one.0))
        });
        let (lowest, highest) = ((lowest - ROUNDING_NS).floor(), (highest + ROUNDING_NS).ceil());
        let whole = |by: f64| self.origin.1.saturating_add(by as i64);
        (whole(lowest), whole(highest))
    }

    /// The slowest and the fastest drift of possible lines: seconds that the second clock gains in a second.
    pub fn drift(&self) -> (f64, f64) {
        (self.slopes[0], self.slopes[self.slopes.len() - 1])
    }
}

/// The difference of two clocks as a line over time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClockLine {
    origin: (i64, i64),
    by: f64,
    slope: f64,
}

impl ClockLine {
    /// The second host's clock minus the first one's, at a time of the second host.
    #[inline]
    pub fn at(&self, second_ns: i64) -> i64 {
        let at = second_ns.saturating_sub(self.origin.0) as f64;
        self.origin.1.saturating_add((self.by + self.slope * at).round() as i64)
    }
}

/// The points that some line touches with no other point below it, in order of time; with `sign` -1, above it.
fn hull(mut points: Vec<(f64, f64)>, sign: f64) -> Vec<(f64, f64)> {
    points.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then((sign * a.1).total_cmp(&(sign * b.1))));
    points.dedup_by_key(|point| point.0);
    let mut hull: Vec<(f64, f64)> = Vec::new();
    for point in points {
        while let [.., a, b] = hull[..]
            && sign * ((b.0 - a.0) * (point.1 - a.1) - (b.1 - a.1) * (point.0 - a.0)) <= 0.0
        {
            hull.pop();
        }
        hull.push(point);
    }
    hull
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: i64 = 1_000_000_000;

    /// Segments every so often, with these delays in turns, by clocks of which the second is ahead by `offset_ns` at
    /// its time 0 and gains `ppm`.
    fn pairs(offset_ns: i64, ppm: f64, delays_ns: &[i64]) -> ClockPairs {
        let mut pairs = ClockPairs::default();
        for (number, delay) in (0..).zip(delays_ns) {
            let at_second = number * SECOND / 10;
            let at_first = at_second - difference(offset_ns, ppm, at_second);
            if number % 2 == 0 {
                pairs.from_first(at_first - delay, at_second);
            } else {
                pairs.from_second(at_second, at_first + delay);
            }
        }
        pairs
    }

    fn difference(offset_ns: i64, ppm: f64, at_second: i64) -> i64 {
        offset_ns + (at_second as f64 * ppm * 1e-6).round() as i64
    }

    #[test]
    fn equal_delays_give_the_difference_within_their_sum() {
        let bounds = pairs(400_000_000, 0.0, &[50_000; 4]).bounds().unwrap();
        assert_eq!(bounds.segments, [2, 2]);
        let (lowest, highest) = bounds.range_at(0);
        assert!(lowest <= 400_000_000 && 400_000_000 <= highest, "{lowest} to {highest}");
        let (lowest, highest) = pairs(-7, 0.0, &[50; 2]).bounds().unwrap().range_at(0);
        // Within 0.1 s of drift at most, and the rounding of times and of a float.
        assert!((-100_052..=-100_051).contains(&(lowest + 7)), "{lowest}");
        assert!((51..=52).contains(&(highest + 7)), "{highest}");
    }

    #[test]
    fn a_long_time_shows_the_drift() {
        let bounds = pairs(1_000, 50.0, &[30_000; 1_000]).bounds().unwrap();
        let (slowest, fastest) = bounds.drift();
        assert!(slowest <= 50e-6 && 50e-6 <= fastest && fastest - slowest < 2e-6);
        let error = bounds.at(50 * SECOND) - difference(1_000, 50.0, 50 * SECOND);
        assert!(error.abs() < 1_000, "{error}");
    }

    /// Segments as `first>second` and `first<second`, with the times at the two hosts; the arrow has their direction.
    fn bounds(text: &str) -> Option<ClockBounds> {
        let mut pairs = ClockPairs::default();
        for word in text.split_whitespace() {
            let times = word.split(['<', '>']).map(|ns| ns.parse().unwrap());
            let [first, second] = times.collect::<Vec<i64>>()[..] else { panic!("{word}") };
            match word.contains('>') {
                true => pairs.from_first(first, second),
                false => pairs.from_second(second, first),
            }
        }
        pairs.bounds()
    }

    #[test]
    fn a_round_trip_bounds_the_difference_from_both_sides() {
        // The second clock is 500 behind: a segment takes 10 there and 30 back.
        let bounds = bounds("1490>1000 1530<1000").unwrap();
        assert_eq!((bounds.at(1000), bounds.range_at(1000)), (-510, (-531, -489)));
    }

    #[test]
    fn one_direction_bounds_nothing() {
        assert_eq!(bounds("1>2 2>4"), None);
        assert_eq!(bounds("1<2"), None);
    }

    #[test]
    fn a_second_round_trip_bounds_the_drift() {
        // 100 ppm slower: after a second 100 us more.
        let text = "1000000>0 1000020<0 1001100000>1000000000 1001100020<1000000000";
        let bounds = bounds(text).unwrap();
        let (slowest, fastest) = bounds.drift();
        assert!(slowest <= -100e-6 && -100e-6 <= fastest && fastest - slowest < 100e-9);
        let (lowest, highest) = bounds.range_at(500_000_000);
        assert!(lowest <= -1_050_020 && -1_050_000 <= highest && highest - lowest < 50);
    }

    #[test]
    fn a_clock_that_steps_is_contradicted() {
        let stepped = bounds("1490>1000 1530<1000 7000000>2000000 7000040<2000000");
        assert!(!stepped.unwrap().is_consistent);
        let mut stepped = pairs(0, 0.0, &[1_000; 10]);
        let later = pairs(SECOND, 0.0, &[1_000; 10]);
        stepped.above.extend(later.above);
        stepped.below.extend(later.below);
        assert!(!stepped.bounds().unwrap().is_consistent);
    }

    proptest! {
        #[test]
        fn the_true_difference_is_within_the_bounds(
            offset_ns in -SECOND..SECOND,
            ppm in -50.0f64..50.0,
            delays_ns in proptest::collection::vec(0i64..30_000_000, 2..200),
        ) {
            let bounds = pairs(offset_ns, ppm, &delays_ns).bounds().unwrap();
            prop_assert!(bounds.is_consistent);
            let (slowest, fastest) = bounds.drift();
            prop_assert!(slowest <= ppm * 1e-6 + 1e-9 && ppm * 1e-6 - 1e-9 <= fastest);
            for number in 0..delays_ns.len() as i64 {
                let at_second = number * SECOND / 10;
                let (lowest, highest) = bounds.range_at(at_second);
                let truth = difference(offset_ns, ppm, at_second);
                prop_assert!(lowest <= truth && truth <= highest, "{lowest} {truth} {highest}");
                prop_assert!((lowest..=highest).contains(&bounds.at(at_second)));
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]
        #[test]
        fn segments_at_any_times_bound_the_difference(
            offset_ns in -1_000_000_000i64..1_000_000_000,
            drift_ppb in -50_000i64..50_000,
            // True time of leaving, delay, direction.
            segments in prop::collection::vec((0i64..20_000_000_000, 1i64..5_000_000, any::<bool>()), 2..60),
            at_ns in 0i64..20_000_000_000,
        ) {
            // The first clock shows the true time; the second one drifts.
            let second = |ns: i64| {
                let drift = i128::from(ns) * i128::from(drift_ppb) / 1_000_000_000;
                ns + offset_ns + drift as i64
            };
            let mut pairs = ClockPairs::default();
            for (sent, delay, is_from_first) in &segments {
                match is_from_first {
                    true => pairs.from_first(*sent, second(sent + delay)),
                    false => pairs.from_second(second(*sent), sent + delay),
                }
            }
            let has_both = segments.iter().any(|it| it.2) && segments.iter().any(|it| !it.2);
            let bounds = pairs.bounds();
            prop_assert_eq!(bounds.is_some(), has_both);
            if let Some(bounds) = bounds {
                prop_assert!(bounds.is_consistent);
                let truth = second(at_ns) - at_ns;
                let (lowest, highest) = bounds.range_at(second(at_ns));
                prop_assert!(lowest <= truth && truth <= highest, "{lowest} <= {truth} <= {highest}");
                let middle = bounds.at(second(at_ns));
                prop_assert!(lowest <= middle && middle <= highest);
            }
        }
    }
}
