//! `sockscope plot`: one figure of one flow.

use std::str::FromStr;
use std::time::Duration;

use sockscope_analysis::ConnectionStore;
use sockscope_program::failure::Failure;
use sockscope_program::output::write_to;
use sockscope_program::suggest::did_you_mean;
use sockscope_record::FlowId;
use sockscope_report::check_flow;
use sockscope_report::plot::{Figure, PlotOptions, draw};

use crate::args;
use crate::bundle::stores;
use crate::last_trace::or_last;

/// `sockscope plot`.
pub fn plot(arguments: &args::Plot) -> Result<(), Failure> {
    let figure = Figure::from_str(&arguments.figure).map_err(|error| {
        let names = Figure::ALL.map(Figure::name);
        Failure::new(format!("{error}{}", did_you_mean(&arguments.figure, names)))
    })?;
    let dir = or_last(arguments.dir.as_deref())?;
    let stores = stores(&dir)?;
    let asked = arguments.flow.map(FlowId);
    let flows = stores.connections.iter().flat_map(|store| &store.flows);
    check_flow(asked, flows.map(|flow| flow.id))?;
    let nothing = || Failure::new(format!("{}: no flow to draw", dir.display()));
    let flow = asked.or_else(|| stores.largest_flow()).ok_or_else(nothing)?;
    let mut connections = stores.connections.iter();
    let store = connections.find(|it| it.connection.id == flow.connection()).ok_or_else(nothing)?;
    if let (Some(from), Some(to)) = (arguments.from, arguments.to)
        && to <= from
    {
        let (from, to) = (from.as_secs_f64(), to.as_secs_f64());
        return Err(Failure::new(format!("nothing to show: --to {to} is not after --from {from}")));
    }
    let at = |after: Option<Duration>| {
        let after_ns = after.map(|after| u64::try_from(after.as_nanos()).unwrap_or(u64::MAX));
        after_ns.map(|after_ns| stores.start_ns.saturating_add(after_ns))
    };
    check_window(store, stores.start_ns, at(arguments.from), at(arguments.to))?;
    let options = PlotOptions {
        direction: flow.direction(),
        from_ns: at(arguments.from),
        to_ns: at(arguments.to),
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

/// Refuses a window in which the connection has no record, and says where it has some.
fn check_window(
    store: &ConnectionStore,
    start_ns: u64,
    from_ns: Option<u64>,
    to_ns: Option<u64>,
) -> Result<(), Failure> {
    let Some((first_ns, last_ns)) = store.span_ns() else { return Ok(()) };
    let is_before = to_ns.is_some_and(|to_ns| to_ns < first_ns);
    if !is_before && from_ns.is_none_or(|from_ns| from_ns <= last_ns) {
        return Ok(());
    }
    let second = |at_ns: u64| Duration::from_nanos(at_ns.saturating_sub(start_ns)).as_secs_f64();
    Err(Failure::new(format!(
        "nothing to show: connection {} lasts from {:.6} s to {:.6} s after the trace's first record, from \
         which --from and --to count",
        store.connection.id.0,
        second(first_ns),
        second(last_ns)
    )))
}
