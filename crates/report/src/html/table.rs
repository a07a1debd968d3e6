//! The connections, the one that waited longest first.

use std::cmp::Reverse;

use maud::{Markup, html};
use sockscope_analysis::{ConnectionAnalysis, FlowAnalysis};
use sockscope_record::Side;
use sockscope_render::number::{bound, count, size, time};
use sockscope_render::style::{Charset, printable};

use super::bars;
use super::figures::is_udp;
use crate::Report;
use crate::order::{cost_ns, under_way_ns};

/// Rows at most; JSON has all connections.
const ROWS_MAX: usize = 1_000;

pub(super) fn section<'a>(
    report: &Report<'a>,
    ranked: &[&'a ConnectionAnalysis],
    has_section: impl Fn(&ConnectionAnalysis) -> bool,
) -> Markup {
    let more = ranked.len().saturating_sub(ROWS_MAX);
    html! {
        section id="connections" {
            h2 { "Connections by the time that findings cost" }
            div class="wide" {
                table class="connections" {
                    thead { tr {
                        th scope="col" { "number" } th scope="col" { "client" } th scope="col" { "server" }
                        th scope="col" { "bytes" } th scope="col" { "requests" } th scope="col" { "cost" }
                        th scope="col" { "findings" } th scope="col" { "ledger of the direction that waited longer" }
                    } }
                    tbody {
                        @for connection in ranked.iter().take(ROWS_MAX) {
                            (row(report, connection, has_section(connection)))
                        }
                    }
                }
            }
            @if more > 0 {
                p { (count(more as u64)) " more connections: the report's JSON in this file has all of them." }
            }
        }
    }
}

fn row<'a>(report: &Report<'a>, connection: &'a ConnectionAnalysis, has_section: bool) -> Markup {
    let id = connection.connection.id.0;
    let flows: Vec<&FlowAnalysis> = report.flows(connection).collect();
    let bytes = flows.iter().fold(0_u64, |sum, flow| sum.saturating_add(flow.bytes));
    let is_bound = flows.iter().any(|flow| flow.at_least.bytes);
    let longer = flows.iter().max_by_key(|flow| (under_way_ns(flow), flow.bytes, Reverse(flow.id)));
    let cost_ns = cost_ns(report, connection);
    let mut names: Vec<&str> = report.findings(connection).map(|one| one.id.name()).collect();
    names.dedup();
    html! {
        tr {
            td class="number" {
                @if has_section { a href={ "#connection-" (id) } { (id) } } @else { (id) }
            }
            td { (end(connection, Side::Client)) }
            td { (end(connection, Side::Server)) }
            td class="number" { (bound(size(bytes), is_bound)) }
            td class="number" { (count(connection.requests.list.len() as u64)) }
            td class="number" { @if cost_ns > 0 { (time(cost_ns, Charset::Unicode)) } @else { "0" } }
            td { (names.join(", ")) }
            td { @if let Some(flow) = longer { (bars::sum(&flow.ledger, is_udp(connection), bars::NARROW)) } }
        }
    }
}

/// The programs and the address of an end.
fn end(connection: &ConnectionAnalysis, side: Side) -> Markup {
    let about = &connection.connection;
    let mut names: Vec<&str> = about
        .processes
        .iter()
        .filter(|process| process.side == side)
        .map(|process| process.comm.as_str())
        .collect();
    names.dedup();
    let groups = about.processes.iter().filter(|process| process.side == side);
    let group = groups.filter_map(|process| process.named_group()).map(ToString::to_string).next();
    html! {
        @if !names.is_empty() { (printable(&names.join(", "))) " " }
        span class="address" { (printable(&about.end(side).to_string())) @if let Some(group) = group { " " (printable(&group)) } }
    }
}
