//! Intervals of pixels along an axis of time.

/// Narrower spans are widened, so that they cannot be overlooked.
pub(super) const SPAN_PX_MIN: f64 = 3.0;

/// Spans from left to right with those joined that nearly touch.
pub(super) fn joined(spans: impl Iterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
    let mut kept: Vec<(f64, f64)> = Vec::new();
    for (from_px, to_px) in spans {
        match kept.last_mut() {
            Some(last) if from_px - last.1 < SPAN_PX_MIN => last.1 = last.1.max(to_px),
            _ => kept.push((from_px, to_px)),
        }
    }
    kept
}
