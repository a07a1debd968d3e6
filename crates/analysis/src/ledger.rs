//! Place of the oldest byte not yet read, at each instant.
//!
//! The reader takes bytes in order, so between two reads the oldest unread byte is the first one of the later read:
//! only that byte's path through the points matters in that time. `send_hold` has the reason why it stays in the send
//! queue, and `receive_wait` divides its time in the receive queue. While there is no such byte, `send_buffer_wait`
//! separates a program that waits for space in the send buffer from one that has space and does not write. The time in
//! which the connection is not open yet is `handshake`. In all other such time no record shows whether the program
//! wants a CPU.
//!
//! Where the end that reads is another host, the acknowledgment seen here stands for the read: the time from point 4
//! until then is `wire`, and the time in which everything is acknowledged is unknown, as no record here shows whether
//! it was read. A byte that the kernel dropped is `dropped` until it is retransmitted. A byte that was dropped without
//! a record stays where it was seen last. Where a byte was not seen at a point, the time between the points before and
//! after it is unknown. So is all time before the first point that saw it, unless that is point 1.

use sockscope_record::{Direction, Point, Protocol, tcp_flags};

use crate::curve::{Cursor, Curve};
use crate::drop_gap::DropGaps;
use crate::flow_curves::FlowCurves;
use crate::opening;
use crate::ranges::{self, Range};
use crate::receive_wait::split_wait;
use crate::send_buffer_wait::{SendBufferWait, send_buffer_waits};
use crate::send_hold::Holds;
use crate::{ConnectionStore, FlowStore, Ledger, LedgerPart, LedgerSpan};

/// Parts that begin at points 2 to 6; the send queue (1) and the receive queue (7) divide further.
const STAGE_PARTS: [LedgerPart; 5] = [
    LedgerPart::TcpOutput,
    LedgerPart::InterfaceQueue,
    LedgerPart::Wire,
    LedgerPart::InputQueue,
    LedgerPart::TcpInput,
];

/// Event after which the oldest byte is no longer the oldest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Exit {
    /// Read; the index of the pass at point 8.
    Read(u32),
    /// The record of the read was missed, or the datagram dropped.
    Gone,
    /// Acknowledged, with the reader out of sight.
    Acknowledged,
    /// No such event: the trace ended.
    None,
}

/// Bytes from `offset` to `end` stop being the oldest at `at_ns`.
#[derive(Debug, Clone, Copy)]
struct Departure {
    at_ns: u64,
    offset: u64,
    end: u64,
    exit: Exit,
}

/// The interval of a flow's ledger: that of the window, else from its first record to the connection's last. It is
/// empty for a flow without records.
pub(crate) fn lasts(store: &ConnectionStore, direction: Direction) -> Range {
    let end_ns = store.end_ns().unwrap_or(0);
    let first_ns = store.flow(direction).first_ns();
    let since_ns = match store.window {
        Some(window) if window.watched[direction as usize].contains(&true) => Some(window.since_ns),
        Some(window) => first_ns.map(|first_ns| first_ns.max(window.since_ns)),
        None => first_ns,
    };
    (since_ns.unwrap_or(end_ns).min(end_ns), end_ns)
}

/// Place of the oldest unread byte, from the flow's first record to the connection's last: spans in order,
/// touching.
///
/// `curves` are those of this direction of the connection.
pub fn ledger_spans(
    store: &ConnectionStore,
    direction: Direction,
    curves: &FlowCurves,
) -> Vec<LedgerSpan> {
    timeline(store, direction, curves, lasts(store, direction))
}

/// The spans of one flow from `start_ns` to `end_ns`: in order, touching, covering all of that time.
pub(crate) fn timeline(
    store: &ConnectionStore,
    direction: Direction,
    curves: &FlowCurves,
    (start_ns, end_ns): (u64, u64),
) -> Vec<LedgerSpan> {
    let mut walk = Walk::new(store, direction, curves, start_ns);
    let reader_is_seen = curves.observed[Point::ReceiveDequeue.index()];
    if store.connection.preexisting && !reader_is_seen {
        walk.idle = LedgerPart::Unknown;
    }
    let mut position = store.window.map_or(0, |window| window.floors[direction as usize]);
    for departure in departures(store, direction, curves) {
        walk.advance(departure.offset.max(position), departure.at_ns.min(end_ns), departure.exit);
        if departure.exit == Exit::Acknowledged {
            walk.idle = LedgerPart::Unknown;
        }
        position = position.max(departure.end);
    }
    let waiting = next_waiting(curves, position);
    walk.advance(waiting.unwrap_or(position), end_ns, Exit::None);
    let waits = send_buffer_waits(store, direction);
    let times = |of: fn(&SendBufferWait) -> Range| waits.iter().map(of).collect::<Vec<_>>();
    let is_idle = |part| part == LedgerPart::AppIdle;
    let full = times(|wait| (wait.start_ns, wait.end_ns));
    let spans = overlaid(walk.spans, &full, LedgerPart::SendBuffer, is_idle);
    let room = times(|wait| (wait.end_ns, wait.taken_ns));
    let spans = overlaid(spans, &room, LedgerPart::SendWriter, is_idle);
    let opening = opening::handshake(store, direction, end_ns);
    let spans = overlaid(spans, opening.as_slice(), LedgerPart::Handshake, is_idle);
    debug_assert!(covers(&spans, start_ns, end_ns));
    overlaid(spans, &curves.unknown_places_ns(), LedgerPart::Unknown, |_| true)
}

/// Whether the spans are in order, touch, and last from `start_ns` to `end_ns`.
fn covers(spans: &[LedgerSpan], start_ns: u64, end_ns: u64) -> bool {
    let reached = spans.iter().try_fold(start_ns, |reached, span| {
        (span.start_ns == reached && span.start_ns < span.end_ns).then_some(span.end_ns)
    });
    reached == Some(end_ns.max(start_ns))
}

/// Intervals of a timeline in one part.
pub(crate) fn intervals(timeline: &[LedgerSpan], part: LedgerPart) -> u64 {
    timeline.iter().filter(|span| span.part == part).count() as u64
}

/// The sum of a timeline.
pub(crate) fn sum(timeline: &[LedgerSpan]) -> Ledger {
    let mut ledger = Ledger::default();
    for span in timeline {
        ledger.ns[span.part as usize] += span.duration_ns();
    }
    let lasted_ns: u64 = timeline.iter().map(LedgerSpan::duration_ns).sum();
    debug_assert_eq!(ledger.ns.iter().sum::<u64>(), lasted_ns, "each instant is in one part");
    ledger
}

/// The first position from `position` on that passed anywhere, also where its record was missed, and was not dropped.
fn next_waiting(curves: &FlowCurves, position: u64) -> Option<u64> {
    let missed = curves.curves.iter().flat_map(Curve::missed_ranges);
    let passed = ranges::union_of(curves.seen().into_iter().chain(missed));
    let waiting = ranges::minus(&passed, &curves.dropped.covered);
    ranges::from(&waiting, position).first().map(|range| range.0)
}

/// All departures by position.
fn departures(
    store: &ConnectionStore,
    direction: Direction,
    curves: &FlowCurves,
) -> Vec<Departure> {
    if !curves.observed[Point::ReceiveDequeue.index()] {
        let reverse = store.reverse(direction);
        let is_stream = store.connection.protocol == Protocol::Tcp;
        return if is_stream { acknowledged(reverse, curves) } else { Vec::new() };
    }
    let read = curves.at(Point::ReceiveDequeue);
    let mut departures = Vec::with_capacity(read.seen.len() + read.missed.len());
    departures.extend(read.seen.iter().map(|run| Departure {
        at_ns: run.at_ns,
        offset: run.offset,
        end: run.end(),
        exit: Exit::Read(run.pass),
    }));
    let dropped = curves.dropped.without(&read.covered);
    let gone = read.latest().filter(|passage| !passage.seen);
    let gone = gone.map(|missed| (missed.at_ns, missed.offset, missed.end));
    let gone = gone.chain(dropped.seen.iter().map(|run| (run.at_ns, run.offset, run.end())));
    let seen = departures.len();
    departures.extend(gone.map(|(at_ns, offset, end)| Departure {
        at_ns,
        offset,
        end,
        exit: Exit::Gone,
    }));
    if departures.len() > seen {
        departures.sort_by_key(|departure| departure.offset);
    }
    debug_assert!(departures.is_sorted_by_key(|departure| departure.offset));
    departures
}

/// Acknowledgments received with the reverse flow, as departures.
fn acknowledged(reverse: &FlowStore, curves: &FlowCurves) -> Vec<Departure> {
    let end = curves.curves.iter().map(Curve::end).max().unwrap_or(0);
    let mut acknowledged = curves.first_seen().and_then(Curve::first).unwrap_or(0);
    let points = [Point::InputDequeue, Point::InputEnqueue];
    let passes = points.into_iter().map(|point| reverse.at(point)).find(|list| !list.is_empty());
    let mut departures = Vec::new();
    for pass in passes.unwrap_or_default() {
        let reached = pass.acknowledged().min(end);
        if pass.tcp_flags & tcp_flags::ACK != 0 && reached > acknowledged {
            departures.push(Departure {
                at_ns: pass.at_ns,
                offset: acknowledged,
                end: reached,
                exit: Exit::Acknowledged,
            });
            acknowledged = reached;
        }
    }
    departures
}

/// One thing that happens to a byte at the point with this number.
#[derive(Debug, Clone, Copy)]
struct Step {
    at_ns: u64,
    number: usize,
    what: What,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    /// By the pass at the point that has this index, where it is known.
    Passes(Option<u32>),
    /// Behind it.
    IsDropped,
}

/// Goes through the oldest bytes in order and writes down where each one was.
struct Walk<'a> {
    flow: &'a FlowStore,
    observed: [bool; 8],
    /// At points 1 to 7.
    cursors: [Cursor<'a>; 7],
    curves: [&'a Curve; 7],
    gaps: &'a DropGaps,
    holds: Holds<'a>,
    /// The part while no byte is in transit.
    idle: LedgerPart,
    now_ns: u64,
    spans: Vec<LedgerSpan>,
    /// Of the oldest byte; kept for its memory.
    steps: Vec<Step>,
}

impl<'a> Walk<'a> {
    fn new(
        store: &'a ConnectionStore,
        direction: Direction,
        curves: &'a FlowCurves,
        start_ns: u64,
    ) -> Self {
        Self {
            flow: store.flow(direction),
            observed: curves.observed,
            cursors: std::array::from_fn(|point| Cursor::new(&curves.curves[point])),
            curves: std::array::from_fn(|point| &curves.curves[point]),
            gaps: &curves.gaps,
            holds: Holds::new(store, direction),
            idle: LedgerPart::AppIdle,
            now_ns: start_ns,
            spans: Vec::new(),
            steps: Vec::new(),
        }
    }

    /// The byte at `offset` is the oldest from now until `until_ns`.
    fn advance(&mut self, offset: u64, until_ns: u64, exit: Exit) {
        if until_ns <= self.now_ns {
            return;
        }
        // Number of the last point passed, 0 before the byte was written.
        let mut passed = 0;
        let mut waited_at = None;
        let mut is_dropped = false;
        self.take_steps(offset);
        let steps = std::mem::take(&mut self.steps);
        for &Step { at_ns, number, what } in &steps {
            let at_ns = at_ns.min(until_ns);
            match what {
                What::Passes(pass) if is_dropped || number > passed => {
                    let part =
                        if is_dropped { LedgerPart::Dropped } else { self.between(passed, number) };
                    self.stay(offset, at_ns, passed, part);
                    (passed, waited_at, is_dropped) = (number, pass, false);
                }
                What::IsDropped if number == passed && !is_dropped => {
                    self.stay(offset, at_ns, passed, self.part_from(passed));
                    is_dropped = true;
                }
                _ => {}
            }
        }
        self.steps = steps;
        debug_assert!(passed <= 7 && self.now_ns <= until_ns);
        match (passed, exit) {
            _ if is_dropped => self.stay(offset, until_ns, passed, LedgerPart::Dropped),
            (7, Exit::Read(pass)) => self.wait_for_reader(offset, until_ns, waited_at, pass),
            _ => {
                let part = self.last_part(passed, exit);
                self.stay(offset, until_ns, passed, part);
            }
        }
    }

    /// Steps of the byte in transit, in order. Without drops they are its first passages.
    fn take_steps(&mut self, offset: u64) {
        self.steps.clear();
        for index in 0..7 {
            if let Some((at_ns, pass)) = self.passage(index, offset) {
                self.steps.push(Step { at_ns, number: index + 1, what: What::Passes(pass) });
            }
        }
        let others = self.gaps.of_byte(offset);
        if others.is_empty() {
            return;
        }
        // The clocks of two CPUs may disagree a little.
        let mut latest_ns = 0;
        for step in &mut self.steps {
            latest_ns = latest_ns.max(step.at_ns);
            step.at_ns = latest_ns;
        }
        self.steps.extend(others.into_iter().map(|(at_ns, number, is_dropped)| {
            let what = if is_dropped { What::IsDropped } else { What::Passes(None) };
            Step { at_ns, number, what }
        }));
        self.steps.sort_by_key(|step| (step.at_ns, step.number, step.what == What::IsDropped));
        debug_assert!(self.steps.iter().all(|step| (1..=7).contains(&step.number)));
    }

    /// Time at which the byte passed the point with this index, and its pass.
    fn passage(&mut self, index: usize, offset: u64) -> Option<(u64, Option<u32>)> {
        if let Some(run) = self.cursors[index].seek(offset) {
            return Some((run.at_ns, Some(run.pass)));
        }
        let missed = &self.curves[index].missed;
        let after = missed.partition_point(|missed| missed.end <= offset);
        let missed = missed.get(after).filter(|missed| missed.offset <= offset)?;
        Some((missed.until_ns, None))
    }

    /// Place of a byte between two points that saw it, without another such point between them.
    fn between(&self, from: usize, to: usize) -> LedgerPart {
        if to == from + 1 { self.part_from(from) } else { LedgerPart::Unknown }
    }

    /// Place of a byte after the last point that saw it.
    fn last_part(&self, passed: usize, exit: Exit) -> LedgerPart {
        let next_is_watched = self.observed.get(passed).copied().unwrap_or(false);
        match exit {
            Exit::None | Exit::Gone if next_is_watched => self.part_from(passed),
            Exit::Acknowledged if passed == 4 => LedgerPart::Wire,
            _ => LedgerPart::Unknown,
        }
    }

    /// The part that begins at the point with this number; 0 is before point 1.
    fn part_from(&self, number: usize) -> LedgerPart {
        match number {
            0 => self.idle,
            1 => LedgerPart::SendOther,
            7 => LedgerPart::ReceiveApp,
            number => STAGE_PARTS.get(number - 2).copied().unwrap_or(LedgerPart::Unknown),
        }
    }

    /// The byte stays in `part`, which begins at point `from`, until `until_ns`.
    fn stay(&mut self, offset: u64, until_ns: u64, from: usize, part: LedgerPart) {
        if until_ns <= self.now_ns {
            return;
        }
        if from == 1 && part == LedgerPart::SendOther {
            let (now_ns, spans) = (self.now_ns, &mut self.spans);
            self.holds.between(now_ns, until_ns, |start_ns, end_ns, part| {
                push(spans, LedgerSpan { start_ns, end_ns, offset, part });
            });
        } else {
            push(
                &mut self.spans,
                LedgerSpan { start_ns: self.now_ns, end_ns: until_ns, offset, part },
            );
        }
        self.now_ns = until_ns;
    }

    /// Passage `came` brought the byte into the receive queue; pass `read` reads it at `until_ns`.
    fn wait_for_reader(&mut self, offset: u64, until_ns: u64, came: Option<u32>, read: u32) {
        let came = came.map(|pass| &self.flow.at(Point::ReceiveEnqueue)[pass as usize]);
        let read = &self.flow.at(Point::ReceiveDequeue)[read as usize];
        let (start_ns, end_ns) = split_wait(self.now_ns, until_ns, came, read);
        debug_assert!([self.now_ns, start_ns, end_ns, until_ns].is_sorted());
        self.stay(offset, start_ns, 7, LedgerPart::ReceiveApp);
        self.stay(offset, end_ns, 7, LedgerPart::ReceiveWakeup);
        self.stay(offset, until_ns, 7, LedgerPart::ReceiveApp);
    }
}

/// Appends a span, or lengthens the last one when nothing but time has changed.
fn push(spans: &mut Vec<LedgerSpan>, span: LedgerSpan) {
    match spans.last_mut() {
        Some(last) if (last.part, last.offset) == (span.part, span.offset) => {
            last.end_ns = span.end_ns;
        }
        _ if span.start_ns < span.end_ns => spans.push(span),
        _ => {}
    }
}

/// In spans with a `covered` part, the times in `over`, which are sorted and disjoint, become `part`.
fn overlaid(
    spans: Vec<LedgerSpan>,
    over: &[Range],
    part: LedgerPart,
    covered: impl Fn(LedgerPart) -> bool,
) -> Vec<LedgerSpan> {
    if over.is_empty() {
        return spans;
    }
    debug_assert!(ranges::are_in_order(over));
    let mut marked = Vec::with_capacity(spans.len());
    for span in spans {
        let over = if covered(span.part) { over } else { &[] };
        let first = over.partition_point(|over| over.1 <= span.start_ns);
        let mut at_ns = span.start_ns;
        for &(from_ns, until_ns) in over[first..].iter().take_while(|over| over.0 < span.end_ns) {
            let (from_ns, until_ns) = (from_ns.max(at_ns), until_ns.min(span.end_ns));
            push(&mut marked, LedgerSpan { start_ns: at_ns, end_ns: from_ns, ..span });
            push(&mut marked, LedgerSpan { start_ns: from_ns, end_ns: until_ns, part, ..span });
            at_ns = until_ns;
        }
        push(&mut marked, LedgerSpan { start_ns: at_ns, ..span });
    }
    marked
}
