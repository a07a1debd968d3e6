//! A histogram whose buckets grow by a fixed factor, for OTLP.

/// From less than a nanosecond to a century, where values are seconds.
const BUCKETS: std::ops::RangeInclusive<i32> = -64..=63;

/// Two buckets for each doubling (scale 1 of OpenTelemetry). Bucket `n` has values above `2^(n/2)` and up to
/// `2^((n+1)/2)`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Exponential {
    pub count: u64,
    pub sum: f64,
    pub zeros: u64,
    buckets: [u64; 128],
}

impl Default for Exponential {
    fn default() -> Self {
        Self { count: 0, sum: 0.0, zeros: 0, buckets: [0; 128] }
    }
}

impl Exponential {
    /// The exponent of buckets that OpenTelemetry calls scale.
    pub const SCALE: i32 = 1;

    pub fn observe(&mut self, value: f64) {
        self.count += 1;
        self.sum += value;
        if value > 0.0 {
            let bucket = (value.log2() * 2.0).ceil() as i32 - 1;
            let bucket = bucket.clamp(*BUCKETS.start(), *BUCKETS.end()) - BUCKETS.start();
            self.buckets[bucket as usize] += 1;
        } else {
            self.zeros += 1;
        }
    }

    /// The number of the first bucket, with its count and those of all up to the last one.
    pub fn buckets(&self) -> (i32, Vec<u64>) {
        let Some(first) = self.buckets.iter().position(|count| *count > 0) else {
            return (0, Vec::new());
        };
        let last = self.buckets.iter().rposition(|count| *count > 0).unwrap_or(first);
        (BUCKETS.start() + first as i32, self.buckets[first..=last].to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_has_its_upper_bound() {
        let mut one = Exponential::default();
        for value in [0.0, 0.5, 0.51, 0.7, 0.71, 1.0, 1.01] {
            one.observe(value);
        }
        // Bounds 0.354, 0.5, 0.707, 1, 1.41.
        assert_eq!(one.buckets(), (-3, vec![1, 2, 2, 1]));
        assert_eq!((one.count, one.zeros), (7, 1));
    }
}
