//! The table `ledger`: the place of the oldest byte that is not yet read, as time in each place.

use std::num::NonZeroU32;

use sockscope_analysis::{LedgerDetail, LedgerPart, LedgerSpan, edges, ledger_spans};
use sockscope_record::FlowId;

use crate::column::columns;
use crate::trace::{Flow, Trace};

/// Time in one place within one interval of a flow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LedgerRow {
    flow: FlowId,
    interval: u64,
    start_ns: u64,
    end_ns: u64,
    part: LedgerPart,
    time_ns: u64,
    /// Time in all places within the interval.
    of_ns: u64,
}

/// Intervals into which the time of a ledger is divided.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Intervals {
    /// One: the time of the flow.
    One,
    /// So many of the time of each flow.
    OfFlow(NonZeroU32),
    /// So many of the time of the trace, the same of all flows.
    OfTrace(NonZeroU32),
}

/// The rows of one flow, by interval and place. A place without time has none.
pub(crate) fn rows(trace: &Trace, flow: Flow<'_>, intervals: Intervals) -> Vec<LedgerRow> {
    let spans = ledger_spans(flow.store, flow.direction(), &flow.curves(trace));
    let (Some(first), Some(last)) = (spans.first(), spans.last()) else { return Vec::new() };
    let of_flow = (first.start_ns, last.end_ns);
    let analysis = &trace.analysis;
    // A span may end later than the trace: the connection's last record is a bound of a later time.
    let of_trace = (analysis.start_ns.min(of_flow.0), analysis.end_ns().max(of_flow.1));
    let edges = match intervals {
        Intervals::One => vec![of_flow.0, of_flow.1],
        Intervals::OfFlow(count) => edges(of_flow.0, of_flow.1, count.get() as usize),
        Intervals::OfTrace(count) => edges(of_trace.0, of_trace.1, count.get() as usize),
    };
    by_interval(flow.id, spans, &edges)
}

fn by_interval(flow: FlowId, spans: Vec<LedgerSpan>, edges: &[u64]) -> Vec<LedgerRow> {
    let columns = LedgerDetail::new(spans).columns(edges);
    let mut rows = Vec::new();
    for (interval, (column, bounds)) in (0..).zip(columns.iter().zip(edges.windows(2))) {
        let of_ns = column.iter().sum();
        let places = LedgerPart::ALL.into_iter().zip(column).filter(|(_, time_ns)| **time_ns > 0);
        rows.extend(places.map(|(part, time_ns)| LedgerRow {
            flow,
            interval,
            start_ns: bounds[0],
            end_ns: bounds[1],
            part,
            time_ns: *time_ns,
            of_ns,
        }));
    }
    rows
}

columns! {
    LedgerColumns "ledger", |trace, row: LedgerRow| {}
    connection: Whole "" "Number of the connection" = row.flow.connection().0.into();
    flow: Whole "" "Number of the flow" = row.flow.0.into();
    interval: Whole "" "Number of the interval, from 0 on; 0 of a ledger that is not divided" = row.interval;
    start_ns: Whole "ns" "Begin of the interval, on the clock of the trace" = row.start_ns;
    start: Time "ns" "The same time since 1970 (UTC)" = trace.clock.at(row.start_ns);
    end_ns: Whole "ns" "End of the interval" = row.end_ns;
    end: Time "ns" "The same time since 1970 (UTC)" = trace.clock.at(row.end_ns);
    place: Word "" "Place of the oldest byte not yet read, as in the report" = row.part.name();
    time_ns: Whole "ns" "Time in that place within the interval, above 0" = row.time_ns;
    share: MaybeReal "" "Share of the flow's time within the interval, 0 to 1; those of an interval add up to 1" = Some(row.time_ns as f64 / row.of_ns as f64);
}
