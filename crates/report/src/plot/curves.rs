//! The analysis' curves, cut to the time that a figure shows.

use sockscope_analysis::Residence;
use sockscope_record::Stage;

use super::scene::Scene;

/// From `at_ns` on a curve has this value; `None` where it is unknown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Step {
    pub(super) at_ns: u64,
    pub(super) value: Option<f64>,
}

/// Bytes in the queue of `stage` over the time shown; empty when one of its points was not watched
/// or nothing entered.
pub(super) fn lengths(scene: &Scene<'_>, stage: Stage) -> Vec<Step> {
    let lengths = scene.curves().lengths(stage).unwrap_or_default();
    let shown = clipped(scene, &lengths, |step| step.at_ns).iter();
    shown
        .map(|step| Step {
            at_ns: step.at_ns,
            value: step.length_bytes.map(|length_bytes| length_bytes as f64),
        })
        .collect()
}

/// The residences of bytes that entered `stage` in the time shown, by position.
pub(super) fn waits(scene: &Scene<'_>, stage: Stage) -> Vec<Residence> {
    let mut waits = scene.curves().delays(stage);
    waits.retain(|wait| scene.shows(wait.entered_ns));
    waits
}

/// The part of `items` within the time shown, and the last one before it, which still holds there.
///
/// `items` are in the order of `at_ns`.
pub(super) fn clipped<'a, T>(
    scene: &Scene<'_>,
    items: &'a [T],
    at_ns: impl Fn(&T) -> u64,
) -> &'a [T] {
    let from = items.partition_point(|item| at_ns(item) <= scene.from_ns).saturating_sub(1);
    let to = items.partition_point(|item| at_ns(item) <= scene.to_ns);
    items.get(from..to).unwrap_or(&[])
}
