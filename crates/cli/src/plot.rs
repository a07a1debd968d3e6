//! `sockscope plot`: one figure of one flow.

use std::str::FromStr;
use std::time::Duration;

use sockscope_record::FlowId;
use sockscope_report::check_flow;
use sockscope_report::plot::{Figure, PlotOptions, draw};

use crate::args;
use crate::bundle::{stores, write_to};
use crate::failure::Failure;

/// `sockscope plot`.
pub fn plot(arguments: &args::Plot) -> Result<(), Failure> {
    let figure =
        Figure::from_str(&arguments.figure).map_err(|error| Failure::new(error.to_string()))?;
    let stores = stores(&arguments.dir)?;
    let asked = arguments.flow.map(FlowId);
    let flows = stores.connections.iter().flat_map(|store| &store.flows);
    check_flow(asked, flows.map(|flow| flow.id))?;
    let nothing = || Failure::new(format!("{}: no flow to draw", arguments.dir.display()));
    let flow = asked.or_else(|| stores.largest_flow()).ok_or_else(nothing)?;
    let mut connections = stores.connections.iter();
    let store = connections.find(|it| it.connection.id == flow.connection()).ok_or_else(nothing)?;
    if let (Some(from), Some(to)) = (arguments.from, arguments.to)
        && to <= from
    {
        let (from, to) = (from.as_secs_f64(), to.as_secs_f64());
        return Err(Failure::new(format!("nothing to show: --to {to} is not after --from {from}")));
    }
    let start_ns = store.first_ns().unwrap_or(0);
    let at = |after: Option<Duration>| {
        after.map(|after| {
            start_ns.saturating_add(u64::try_from(after.as_nanos()).unwrap_or(u64::MAX))
        })
    };
    let options = PlotOptions {
        direction: flow.direction(),
        from_ns: at(arguments.from),
        to_ns: at(arguments.to),
        zero_ns: None,
        width: arguments.width,
        height: arguments.height,
        losses: &stores.losses,
        drop_reasons: &stores.drop_reasons,
        ..PlotOptions::default()
    };
    let svg = draw(figure, store, &options).map_err(|error| Failure::new(error.to_string()))?;
    write_to(&arguments.output, |out| out.write_all(svg.as_bytes()))
}
