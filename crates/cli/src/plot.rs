//! `sockscope plot`: one figure of one flow.

use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use sockscope_analysis::{ConnectionStore, Stores};
use sockscope_program::failure::Failure;
use sockscope_program::output::write_to;
use sockscope_program::suggest::did_you_mean;
use sockscope_record::FlowId;
use sockscope_report::plot::{Figure, PlotOptions, draw};
use sockscope_report::{Filter, check_flow};

use crate::args;
use crate::bundle::{chosen, stores};
use crate::last_trace::or_last;

/// `sockscope plot`.
pub fn plot(arguments: &args::Plot) -> Result<(), Failure> {
    let figure = Figure::from_str(&arguments.figure).map_err(|error| {
        let names = Figure::ALL.map(Figure::name);
        Failure::new(format!("{error}{}", did_you_mean(&arguments.figure, names)))
    })?;
    let dir = or_last(arguments.dir.as_deref())?;
    let filter = chosen(&dir, &arguments.filter.filter())?;
    // A figure draws an interval of curves that begin before it.
    let mut stores = stores(&dir, &filter.without_interval())?;
    let window_ns = filter.interval_ns(stores.start_ns)?;
    let asked = arguments.flow.map(FlowId);
    let flows = stores.connections.iter().flat_map(|store| &store.flows);
    check_flow(asked, flows.map(|flow| flow.id))?;
    if asked.is_none() {
        keep_active(&mut stores, &filter, &window_ns)?;
    }
    let nothing = || Failure::new(format!("{}: no flow to draw", dir.display()));
    let flow = asked.or_else(|| stores.largest_flow()).ok_or_else(nothing)?;
    let mut connections = stores.connections.iter();
    let store = connections.find(|it| it.connection.id == flow.connection()).ok_or_else(nothing)?;
    check_window(store, stores.start_ns, &window_ns)?;
    let options = PlotOptions {
        direction: flow.direction(),
        from_ns: filter.from_ns.map(|_| *window_ns.start()),
        to_ns: filter.to_ns.map(|_| *window_ns.end()),
        zero_ns: Some(stores.start_ns),
        width: arguments.width,
        height: arguments.height,
        losses: &stores.losses_of(flow.connection()),
        drop_reasons: &stores.drop_reasons,
        ..PlotOptions::default()
    };
    let svg = draw(figure, store, &options).map_err(|error| Failure::new(error.to_string()))?;
    write_to(&arguments.output, |out| out.write_all(svg.as_bytes()))
}

/// Leaves the connections that have records in the window.
fn keep_active(
    stores: &mut Stores,
    filter: &Filter,
    window_ns: &RangeInclusive<u64>,
) -> Result<(), Failure> {
    let spans: Vec<_> = stores.connections.iter().filter_map(ConnectionStore::span_ns).collect();
    stores.connections.retain(|store| store.span_ns().is_none_or(|span| meet(span, window_ns)));
    if !stores.connections.is_empty() || spans.is_empty() {
        return Ok(());
    }
    let first_ns = spans.iter().map(|span| span.0).min().unwrap_or_default();
    let last_ns = spans.iter().map(|span| span.1).max().unwrap_or_default();
    let after_ns = |at_ns: u64| at_ns.saturating_sub(stores.start_ns);
    Err(filter.nothing_then((after_ns(first_ns), after_ns(last_ns))).into())
}

/// Refuses a window in which the connection has no record, and says where it has some.
fn check_window(
    store: &ConnectionStore,
    start_ns: u64,
    window_ns: &RangeInclusive<u64>,
) -> Result<(), Failure> {
    let Some(span_ns) = store.span_ns().filter(|span_ns| !meet(*span_ns, window_ns)) else {
        return Ok(());
    };
    let second = |at_ns: u64| Duration::from_nanos(at_ns.saturating_sub(start_ns)).as_secs_f64();
    Err(Failure::new(format!(
        "nothing to show: connection {} lasts from {:.6} s to {:.6} s after the trace's first record, from \
         which --from and --to count",
        store.connection.id.0,
        second(span_ns.0),
        second(span_ns.1)
    )))
}

fn meet((first_ns, last_ns): (u64, u64), window_ns: &RangeInclusive<u64>) -> bool {
    first_ns <= *window_ns.end() && *window_ns.start() <= last_ns
}
