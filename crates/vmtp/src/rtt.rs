//! The round trip to the other side.

/// Smoothed as TCP does (RFC 6298 §2): RFC 1045 leaves the estimator open.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RoundTrip {
    /// Smoothed time and its variation, in nanoseconds.
    measured: Option<(u64, u64)>,
}

impl RoundTrip {
    pub(crate) fn sample(&mut self, ns: u64) {
        self.measured = Some(match self.measured {
            None => (ns, ns / 2),
            Some((smoothed, variation)) => (
                smoothed - smoothed / 8 + ns / 8,
                variation - variation / 4 + smoothed.abs_diff(ns) / 4,
            ),
        });
    }

    /// TC2: the limit for an answer, at least `least`; `unknown` before the first sample.
    pub(crate) fn limit_ns(self, least: u64, unknown: u64) -> u64 {
        let limit = |(smoothed, variation): (u64, u64)| smoothed.saturating_add(4 * variation);
        self.measured.map_or(unknown, limit).max(least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_follows_the_samples() {
        let mut trip = RoundTrip::default();
        assert_eq!(trip.limit_ns(10, 500), 500);
        trip.sample(100_000);
        assert_eq!(trip.limit_ns(10, 500), 300_000);
        (0..200).for_each(|_| trip.sample(80_000));
        assert!((80_000..81_000).contains(&trip.limit_ns(10, 500)));
        assert_eq!(trip.limit_ns(100_000, 500), 100_000);
    }
}
