//! The lateness of packets that leave a wire, as a histogram.

/// Buckets of each power of two: a value is known to 1/32 of itself.
const STEPS: u64 = 32;
const STEP_BITS: u32 = STEPS.ilog2();
const BUCKETS: usize = (64 - STEP_BITS as usize + 1) * STEPS as usize;

/// The time from the planned departure of a packet to its real one, in nanoseconds. Percentiles are exact to about 3 %.
#[derive(Debug, Clone)]
pub struct Lateness {
    counts: Vec<u64>,
    packets: u64,
    max_ns: u64,
}

impl Default for Lateness {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS], packets: 0, max_ns: 0 }
    }
}

impl Lateness {
    /// Adds one packet.
    pub fn add(&mut self, late_ns: u64) {
        self.counts[bucket(late_ns)] += 1;
        self.packets += 1;
        self.max_ns = self.max_ns.max(late_ns);
    }

    /// Packets that left.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// The largest; 0 without packets.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// The smallest value that `percent` of the packets do not exceed, or up to 3 % more; 0 without packets.
    pub fn percentile_ns(&self, percent: u64) -> u64 {
        let wanted = (u128::from(self.packets) * u128::from(percent)).div_ceil(100).max(1);
        let mut seen = 0u128;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += u128::from(*count);
            if seen >= wanted {
                return last_of(bucket).min(self.max_ns);
            }
        }
        self.max_ns
    }
}

/// Values below `STEPS` have a bucket each; above, each power of two has `STEPS`.
fn bucket(ns: u64) -> usize {
    if ns < STEPS {
        return ns as usize;
    }
    let shift = ns.ilog2() - STEP_BITS;
    ((u64::from(shift) + 1) * STEPS + (ns >> shift) - STEPS) as usize
}

/// The largest value of a bucket.
fn last_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < STEPS {
        return bucket;
    }
    let (shift, step) = (bucket / STEPS - 1, bucket % STEPS);
    ((STEPS + step) << shift) + ((1 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn percentiles_are_those_of_the_values() {
        let mut lateness = Lateness::default();
        (1..=1_000).for_each(|us| lateness.add(us * 1_000));
        assert_eq!((lateness.packets(), lateness.max_ns()), (1_000, 1_000_000));
        for (percent, us) in [(50, 500_000), (99, 990_000), (100, 1_000_000)] {
            let found = lateness.percentile_ns(percent);
            assert!((us..=us + us / 32).contains(&found), "{percent}: {found}");
        }
        assert_eq!(Lateness::default().percentile_ns(99), 0);
    }

    proptest! {
        #[test]
        fn a_value_is_in_the_bucket_that_holds_it(ns: u64) {
            let last = last_of(bucket(ns));
            prop_assert!(last >= ns && last - ns <= ns / 32, "{ns}: {last}");
            prop_assert!(bucket(last) == bucket(ns) && bucket(u64::MAX) < BUCKETS);
        }
    }
}
