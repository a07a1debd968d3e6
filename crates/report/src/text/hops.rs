//! One line for each device between the two ends of a flow, as `hop r1 of network namespace 7, in by r0: …`.

use std::io;

use sockscope_analysis::{Distribution, FlowAnalysis, HopAnalysis, LengthSummary};
use sockscope_render::number::{rounded, size};
use sockscope_render::style::Tone;

use super::page::Page;

pub(super) fn write(flow: &FlowAnalysis, page: &mut Page<'_>) -> io::Result<()> {
    flow.hops.iter().try_for_each(|hop| page.labelled("hop", &text(hop, page), Tone::Plain))
}

/// The mean of a queue's length.
pub(crate) fn mean(length: LengthSummary) -> String {
    rounded(length.mean).map_or("?".to_owned(), size)
}

fn text(hop: &HopAnalysis, page: &Page<'_>) -> String {
    let by = hop.arrived_by.as_ref().map(|device| format!(", in by {}", device.shown()));
    let mut text =
        format!("{}{}: {}", hop.device.placed(), by.unwrap_or_default(), size(hop.bytes));
    let times = |of: Distribution| format!("p50 {}, p99 {}", page.time(of.p50), page.time(of.p99));
    if let Some(transit) = hop.transit_ns {
        text += &format!("; in transit {}", times(transit));
    }
    match (hop.queue_ns, hop.queue_bytes) {
        (Some(queue), Some(length)) => {
            text += &format!("; in its queue {}, {} on average", times(queue), mean(length));
            text += &format!(", {} at most", size(length.max));
        }
        _ => text += "; no queue seen",
    }
    text += &format!("; residue {}", hop.residue_bytes.map_or("?".to_owned(), size));
    for (ns, place) in
        [(hop.ledger_queue_ns, "this queue"), (hop.ledger_transit_ns, "transit here")]
    {
        if ns > 0 {
            text += &format!("; {} of the ledger's wire is {place}", page.time(ns));
        }
    }
    text
}
