//! The traffic as text: one event a line, every layer, both directions in time order.
//!
//! The stores hold one time-ordered list for each flow and point. They are merged as they are
//! written, so that nothing is copied or sorted: memory does not grow with the number of events.

mod event;
mod line;
mod merge;
mod names;
mod tcpdump;

use std::io;

use sockscope_analysis::{ConnectionStore, DropReasons, Events, FlowStore, LossInterval};
use sockscope_record::{FlowId, Record};
use sockscope_render::style::Style;

use crate::{Charset, Options, ReportError, WallClock, check_flow};
use line::Line;
use merge::merged;
pub use tcpdump::show_tcpdump;

/// The content of [`show`] and its form.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShowOptions {
    /// Only events of this flow; both flows of every connection when `None`.
    pub flow: Option<FlowId>,
    /// Whether lines may contain terminal colours.
    pub color: bool,
    /// Characters that lines may use.
    pub charset: Charset,
    /// Time of the trace's first record, from which times count; without it the first event has it.
    pub start_ns: Option<u64>,
    /// Lines have this clock next to the time.
    pub wall_clock: Option<WallClock>,
    /// The kernel's names of why packets are dropped; a number without one is shown as it is.
    pub drop_reasons: DropReasons,
}

impl From<&Options> for ShowOptions {
    fn from(options: &Options) -> Self {
        Self {
            flow: options.flow,
            color: options.color,
            charset: options.charset,
            start_ns: None,
            wall_clock: options.wall_clock,
            drop_reasons: DropReasons::new(),
        }
    }
}

/// Writes every event of `stores` in time order, equal times in path order, under a head that
/// explains the columns. `losses`, which may touch any flow, stand at the end of their interval.
///
/// Times are relative to [`ShowOptions::start_ns`], whichever flow is picked. Hand it a buffered writer.
///
/// # Errors
///
/// [`ReportError::NoSuchFlow`] before the first byte is written when the options name a flow that
/// is not in `stores`; [`ReportError::Write`] when `out` fails.
pub fn show(
    stores: &[ConnectionStore],
    losses: &[LossInterval],
    options: &ShowOptions,
    out: &mut dyn io::Write,
) -> Result<(), ReportError> {
    check_flow(options.flow, stores.iter().flat_map(|it| &it.flows).map(|flow| flow.id))?;
    let style = Style { charset: options.charset, color: options.color };
    let picked: Vec<_> = stores.iter().filter(|store| concerns(store, options.flow)).collect();
    let losses = merge::as_records(losses);
    let range_width = line::range_width(merge::furthest(&picked));
    line::write_head(&picked, range_width, options.wall_clock.is_some(), style, out)?;
    let start_ns = options.start_ns.or_else(|| merge::first_at(stores)).unwrap_or(0);
    let named = options.drop_reasons.iter().map(|(number, name)| (*number, style.clean(name)));
    let drop_reasons = named.collect();
    let mut line = Line::new(start_ns, options.wall_clock, range_width, style, &drop_reasons);
    for event in merged(&picked, &losses, options.flow) {
        out.write_all(line.of(&event).as_bytes())?;
    }
    Ok(())
}

/// An event and its line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownEvent {
    /// As it was recorded; of passages the CPU is not kept.
    pub record: Record,
    /// As in [`show`], without its end.
    pub line: String,
}

/// The events of one connection from `from_ns` on, before `to_ns`, in the order of [`show`]; an error with their number
/// where there are more than `most`.
///
/// # Errors
///
/// The number of events, at least.
pub fn show_part(
    store: &ConnectionStore,
    options: &ShowOptions,
    (from_ns, to_ns): (u64, u64),
    most: usize,
) -> Result<Vec<ShownEvent>, usize> {
    fn within<T: Clone>(list: &[T], at: impl Fn(&T) -> u64, (from, to): (u64, u64)) -> &[T] {
        let start = list.partition_point(|one| at(one) < from);
        let end = list.partition_point(|one| at(one) < to);
        list.get(start..end).unwrap_or(&[])
    }
    let times = (from_ns, to_ns);
    let count = |flow: &FlowStore| {
        let passes = flow.passages.iter().map(|list| within(list, |pass| pass.at_ns, times).len());
        passes.sum::<usize>() + within(&flow.events, |event| event.at_ns, times).len()
    };
    let all: usize = store.flows.iter().map(count).sum();
    if all > most {
        return Err(all);
    }
    let cut = |flow: &FlowStore| {
        let mut events = Events::default();
        within(&flow.events, |event| event.at_ns, times).iter().for_each(|it| events.push(*it));
        let passages = std::array::from_fn(|point| {
            within(&flow.passages[point], |pass| pass.at_ns, times).to_vec()
        });
        FlowStore { id: flow.id, passages, events }
    };
    let flows = [cut(&store.flows[0]), cut(&store.flows[1])];
    let part =
        ConnectionStore { flows, connection: store.connection.clone(), window: store.window };
    let style = Style { charset: options.charset, color: options.color };
    let start_ns = options.start_ns.unwrap_or(from_ns);
    let range_width = line::range_width(merge::furthest(&[&part]));
    let named = options.drop_reasons.iter().map(|(number, name)| (*number, style.clean(name)));
    let drop_reasons = named.collect();
    let mut shown = merged(&[&part], &[], options.flow).peekable();
    let first_ns = shown.peek().map_or(start_ns, |record| record.at_ns);
    let line = Line::new(start_ns, options.wall_clock, range_width, style, &drop_reasons);
    let mut line = line.after(first_ns);
    let shown = shown.map(|record| {
        let line = line.of(&record).trim_end().to_owned();
        ShownEvent { record, line }
    });
    Ok(shown.collect())
}

fn concerns(store: &ConnectionStore, flow: Option<FlowId>) -> bool {
    flow.is_none_or(|flow| store.flows.iter().any(|it| it.id == flow))
}

#[cfg(test)]
mod tests;
