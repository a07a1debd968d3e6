//! Numbers that JSON can hold.

/// A number for JSON: `null` when it is not finite, rounded to thousandths.
pub(super) fn number(value: f64) -> Option<f64> {
    value.is_finite().then(|| (value * 1000.0).round() / 1000.0).filter(|value| value.is_finite())
}
