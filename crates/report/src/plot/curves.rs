//! The analysis' curves, cut to the time that a figure shows.

use sockscope_analysis::{QueueStep, Residence, residence_lengths};
use sockscope_record::{Kind, Point, Stage};

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

/// Bytes in a place over the time shown, by the residences there.
pub(super) fn lengths_of(scene: &Scene<'_>, stays: &[Residence]) -> Vec<Step> {
    let steps: Vec<Step> = residence_lengths(stays)
        .map(|(at_ns, bytes)| Step { at_ns, value: Some(bytes as f64) })
        .collect();
    clipped(scene, &steps, |step| step.at_ns).to_vec()
}

/// The send queue's length with the bytes that calls to write have asked for, and that the buffer had no room for; empty
/// where no call ever waited with bytes.
///
/// A call asks until its bytes are taken, until it returns, or until the next call.
pub(super) fn lengths_with_asked(scene: &Scene<'_>) -> Vec<Step> {
    let flow = scene.flow();
    let taken = flow.at(Point::SendEnqueue).iter().map(|pass| (pass.at_ns, false, pass.end()));
    let calls = flow.events.iter().filter_map(|event| match event.kind {
        Kind::WriteCall => Some((event.at_ns, true, event.end())),
        Kind::WriteReturn => Some((event.at_ns, true, 0)),
        _ => None,
    });
    let mut changes: Vec<(u64, bool, u64)> = taken.chain(calls).collect();
    changes.sort_by_key(|(at_ns, ..)| *at_ns);
    let (mut asked_end, mut taken_end, mut rest) = (0, 0, Vec::new());
    for (at_ns, is_call, end) in changes {
        if is_call {
            asked_end = end;
        } else {
            taken_end = end.max(taken_end);
        }
        rest.push((at_ns, asked_end.saturating_sub(taken_end)));
    }
    if rest.iter().all(|(_, bytes)| *bytes == 0) {
        return Vec::new();
    }
    sum(&scene.curves().lengths(Stage::SendQueue).unwrap_or_default(), &rest, scene)
}

/// The sum of a queue's length and of another step curve, whose parts are in order of time.
fn sum(lengths: &[QueueStep], others: &[(u64, u64)], scene: &Scene<'_>) -> Vec<Step> {
    let (mut lengths, mut others) = (lengths.iter().peekable(), others.iter().peekable());
    let (mut length, mut other, mut steps) = (Some(0), 0, Vec::new());
    loop {
        let next = [lengths.peek().map(|step| step.at_ns), others.peek().map(|step| step.0)];
        let Some(at_ns) = next.into_iter().flatten().min() else { break };
        while let Some(step) = lengths.next_if(|step| step.at_ns == at_ns) {
            length = step.length_bytes;
        }
        while let Some(step) = others.next_if(|step| step.0 == at_ns) {
            other = step.1;
        }
        let value = length.map(|length| length.saturating_add(other) as f64);
        steps.push(Step { at_ns, value });
    }
    clipped(scene, &steps, |step| step.at_ns).to_vec()
}

/// The residences of bytes that entered `stage` in the time shown, by position.
pub(super) fn waits(scene: &Scene<'_>, stage: Stage) -> Vec<Residence> {
    let mut waits = scene.curves().delays(stage);
    if scene.options.is_by_call && stage == Stage::SendQueue {
        waits = waits_of_calls(scene, &waits);
    }
    waits.retain(|wait| scene.shows(wait.entered_ns));
    waits
}

/// A wait for each call to write: from the call until its last byte left the queue.
fn waits_of_calls(scene: &Scene<'_>, runs: &[Residence]) -> Vec<Residence> {
    let calls = scene.flow().events.iter().filter(|event| event.kind == Kind::WriteCall);
    let whole = calls.filter_map(|call| {
        let last = call.end().checked_sub(1)?;
        let run = runs[..runs.partition_point(|run| run.offset <= last)].last()?;
        let has_left = last < run.offset.saturating_add(run.len);
        let (len, offset) = (u64::from(call.len), call.offset);
        has_left.then_some(Residence { entered_ns: call.at_ns, left_ns: run.left_ns, offset, len })
    });
    whole.collect()
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
