//! Buckets of a histogram that grow by a fixed factor, so that histograms of all hosts add up.

/// Below all buckets: the value 0.
pub(crate) const ZERO: i16 = -1;

/// Number of buckets.
pub(crate) const BUCKETS: usize = 129;

/// The place of a bucket among all.
pub(crate) fn place(bucket: i16) -> usize {
    usize::from((bucket - ZERO).unsigned_abs())
}

/// The bucket of a value: two for each doubling (scale 1 of OpenTelemetry). Bucket `n` has values above `2^(n/2)` and
/// up to `2^((n+1)/2)`; 1 is in bucket -1 there, and with 0 in [`ZERO`] here. By whole numbers alone: the same on every
/// machine.
pub(crate) fn bucket(value: u64) -> i16 {
    if value <= 1 {
        return ZERO;
    }
    // 2^power < value <= 2^(power + 1)
    let power = (value - 1).ilog2();
    let square = u128::from(value) * u128::from(value);
    let is_upper = square > 1 << (2 * power + 1);
    (2 * power + u32::from(is_upper)) as i16
}

/// Bounds of a bucket: values above the first and up to the second.
pub(crate) fn bounds(bucket: i16) -> (f64, f64) {
    if bucket == ZERO {
        return (-1.0, 1.0);
    }
    let bound = |half: i16| {
        let whole = f64::from(half / 2).exp2();
        if half % 2 == 0 { whole } else { whole * std::f64::consts::SQRT_2 }
    };
    (bound(bucket), bound(bucket + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_within_the_bounds_of_its_bucket() {
        for value in (0..5_000).chain([u64::from(u32::MAX), 1 << 40, (1 << 40) + 1, u64::MAX / 4]) {
            let (above, up_to) = bounds(bucket(value));
            assert!(above < value as f64 && value as f64 <= up_to, "{value}: {above} to {up_to}");
        }
        assert_eq!([0, 1, 2, u64::MAX].map(|it| place(bucket(it))), [0, 0, 2, BUCKETS - 1]);
        assert_eq!([2, 3, 4, 5, 6].map(bucket), [1, 3, 3, 4, 5]);
    }
}
