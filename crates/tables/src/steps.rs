//! The tables `curve`, `queue` and `delays` of one flow.

use sockscope_analysis::{FlowCurve, Residence};
use sockscope_record::{FlowId, Point, Stage};

use crate::column::columns;
use crate::trace::{Flow, Trace};

/// From a time on, a curve has a value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step<Of> {
    flow: FlowId,
    of: Of,
    at_ns: u64,
    value: Option<u64>,
}

/// The steps of the curve of a point.
pub(crate) fn curve_rows(trace: &Trace, flow: Flow<'_>, point: Point) -> Vec<Step<Point>> {
    steps(trace, flow, point, FlowCurve::Passed(point))
}

/// The steps of the length of a stage's queue.
pub(crate) fn queue_rows(trace: &Trace, flow: Flow<'_>, stage: Stage) -> Vec<Step<Stage>> {
    steps(trace, flow, stage, FlowCurve::Length(stage))
}

fn steps<Of: Copy>(trace: &Trace, flow: Flow<'_>, of: Of, curve: FlowCurve) -> Vec<Step<Of>> {
    let detail = curve.detail(flow.store, flow.direction(), &flow.curves(trace));
    let step = |(at_ns, value): (u64, f64)| {
        // Positions of a trace are far below 2^53, up to which a double has each whole number.
        let value = (!value.is_nan()).then_some(value as u64);
        Step { flow: flow.id, of, at_ns, value }
    };
    detail.steps().map(step).collect()
}

columns! {
    CurveColumns "curve", |trace, step: Step<Point>| {}
    flow: Whole "" "Number of the flow" = step.flow.0.into();
    point: Word "" "The point that bytes passed" = step.of.name();
    host: MaybeWhole "" "Number of the host of this point, as in the table `flows`" = trace.host(step.flow, step.of);
    at_ns: Whole "ns" "From this time on, on the clock of the trace" = step.at_ns;
    at: Time "ns" "The same time since 1970 (UTC)" = trace.clock.at(step.at_ns);
    position: MaybeWhole "bytes" "Bytes that have passed; null where that is unknown. Of datagrams the highest position" = step.value;
}

columns! {
    QueueColumns "queue", |trace, step: Step<Stage>| {}
    flow: Whole "" "Number of the flow" = step.flow.0.into();
    stage: Word "" "The stage whose queue it is" = step.of.name();
    enter_host: MaybeWhole "" "Number of the host where bytes enter it, as in the table `flows`" = trace.host(step.flow, step.of.enter());
    leave_host: MaybeWhole "" "Number of the host where they leave it" = trace.host(step.flow, step.of.leave());
    at_ns: Whole "ns" "From this time on, on the clock of the trace" = step.at_ns;
    at: Time "ns" "The same time since 1970 (UTC)" = trace.clock.at(step.at_ns);
    length_bytes: MaybeWhole "bytes" "Bytes in the queue; null where missed records make that unknown" = step.value;
}

/// Neighbouring bytes that entered a stage together and left it together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DelayRow {
    flow: FlowId,
    stage: Stage,
    residence: Residence,
}

/// The delays of a stage, by position.
pub(crate) fn delay_rows(trace: &Trace, flow: Flow<'_>, stage: Stage) -> Vec<DelayRow> {
    let delays = flow.curves(trace).delays(stage).into_iter();
    delays.map(|residence| DelayRow { flow: flow.id, stage, residence }).collect()
}

columns! {
    DelayColumns "delays", |trace, row: DelayRow| {
        let residence = row.residence;
    }
    flow: Whole "" "Number of the flow" = row.flow.0.into();
    stage: Word "" "The stage" = row.stage.name();
    enter_host: MaybeWhole "" "Number of the host where bytes enter it, as in the table `flows`" = trace.host(row.flow, row.stage.enter());
    leave_host: MaybeWhole "" "Number of the host where they leave it" = trace.host(row.flow, row.stage.leave());
    offset: Whole "bytes" "Position in the flow of the first of these bytes" = residence.offset;
    bytes: Whole "bytes" "Neighbouring bytes that entered and left together" = residence.len;
    entered_ns: Whole "ns" "Entry, on the clock of the trace" = residence.entered_ns;
    entered: Time "ns" "The same time since 1970 (UTC)" = trace.clock.at(residence.entered_ns);
    left_ns: Whole "ns" "Exit; before the entry where the clocks of the two points disagree" = residence.left_ns;
    left: Time "ns" "The same time since 1970 (UTC)" = trace.clock.at(residence.left_ns);
    delay_ns: Whole "ns" "From entry to exit; 0 where the clocks disagree" = residence.delay_ns();
}
