//! The devices between the two ends of a flow as a table: a row for the transit of each, and one for its queue.

use maud::{Markup, html};
use sockscope_analysis::{Distribution, FlowAnalysis, HopAnalysis, LengthSummary};
use sockscope_render::number::{percent_of, size, time};
use sockscope_render::style::{Charset, printable};

use crate::text::hops::mean;

const UNKNOWN: &str = "?";

/// Nothing without a hop.
pub(super) fn table(flow: &FlowAnalysis) -> Markup {
    let total_ns = flow.ledger.total_ns();
    html! {
        @if !flow.hops.is_empty() {
            h4 { "Hops: devices between the two ends on this host. Their times are parts of the wire" }
            div class="wide" {
                table class="hops" {
                    thead { tr {
                        th scope="col" { "device" } th scope="col" { "network namespace" }
                        th scope="col" { "in by" } th scope="col" class="number" { "bytes" }
                        th scope="col" { "place" }
                        @for name in ["p50", "p99", "max", "mean length", "largest length", "of the ledger", "residue"] {
                            th scope="col" class="number" { (name) }
                        }
                    } }
                    @for hop in &flow.hops { (rows(hop, total_ns)) }
                }
            }
        }
    }
}

fn rows(hop: &HopAnalysis, total_ns: u64) -> Markup {
    let by = hop.arrived_by.as_ref().map_or(UNKNOWN.to_owned(), |device| device.shown());
    let namespace = hop.device.shown_namespace().unwrap_or(UNKNOWN.to_owned());
    html! {
        tbody {
            tr {
                th scope="rowgroup" rowspan="2" { (printable(&hop.device.shown())) }
                td rowspan="2" { (printable(&namespace)) }
                td rowspan="2" { (printable(&by)) }
                td rowspan="2" class="number" { (size(hop.bytes)) }
                td { "transit" }
                (times(hop.transit_ns, "no arrival recorded"))
                td {} td {}
                (share(hop.transit_ns.map(|_| hop.ledger_transit_ns), total_ns))
                td {}
            }
            tr {
                td { "queue" }
                (times(hop.queue_ns, "no queue seen"))
                (lengths(hop.queue_bytes))
                (share(hop.queue_ns.map(|_| hop.ledger_queue_ns), total_ns))
                td class="number" { (hop.residue_bytes.map_or(UNKNOWN.to_owned(), size)) }
            }
        }
    }
}

fn times(times: Option<Distribution>, without: &str) -> Markup {
    html! {
        @match times {
            Some(times) => @for ns in [times.p50, times.p99, times.max] {
                td class="number" { (time(ns, Charset::Unicode)) }
            },
            None => td class="number" colspan="3" { (without) },
        }
    }
}

fn lengths(bytes: Option<LengthSummary>) -> Markup {
    html! {
        @match bytes {
            Some(bytes) => {
                td class="number" { (mean(bytes)) }
                td class="number" { (size(bytes.max)) }
            },
            None => { td {} td {} },
        }
    }
}

fn share(ns: Option<u64>, total_ns: u64) -> Markup {
    html! {
        td class="number" {
            @if let Some(ns) = ns { (time(ns, Charset::Unicode)) ", " (percent_of(ns, total_ns)) }
        }
    }
}
