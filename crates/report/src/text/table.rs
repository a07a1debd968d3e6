//! The connections that are not shown in full: one line each, then the sum of all.

use std::io;

use sockscope_analysis::{ConnectionAnalysis, LedgerPart, Unopened};
use sockscope_record::Protocol;
use sockscope_render::number::{ColumnUnit, count};
use sockscope_render::style::Tone;

use super::page::{Page, columns};
use crate::Report;
use crate::order::{is_under_way, ledger_sum, place_name};
use crate::total_cost::TotalCost;

/// Columns other than the two addresses: id, bytes, cost, and the longest finding's name.
const BESIDE_ENDS: usize = 49;

/// A sum is shown in its rows' unit up to so many times the largest row: that has six digits.
const SUM_OF_LARGEST_MAX: u64 = 900;

/// One unit for each column of the table.
struct Units {
    bytes: ColumnUnit,
    cost: ColumnUnit,
}

/// Bytes both ways and cost, of one connection or of several.
#[derive(Default)]
struct Sums {
    bytes: u64,
    /// Missed records may have had more of them.
    is_lower_bound: bool,
    cost_ns: u64,
}

/// A line for one connection or for several.
struct Row {
    id: String,
    ends: String,
    sums: Sums,
    remark: String,
}

impl Units {
    /// Units that suit the largest row; sums below them may have more digits, six at most. Where the
    /// rows have nothing, those that suit the sum.
    fn new(rows: &[Row], all: &Sums, page: &Page<'_>) -> Self {
        let largest = |figure: fn(&Sums) -> u64| {
            let largest = rows.iter().map(|row| figure(&row.sums)).max();
            let largest = largest.filter(|figure| *figure > 0).unwrap_or_else(|| figure(all));
            largest.max(figure(all) / SUM_OF_LARGEST_MAX)
        };
        Self {
            bytes: ColumnUnit::for_sizes(largest(|sums| sums.bytes)),
            cost: ColumnUnit::for_times(largest(|sums| sums.cost_ns), page.style.charset),
        }
    }
}

/// Lists the most important of `rest`, and sums up `all`, which it is the tail of.
pub(super) fn write<'a>(
    report: &Report<'a>,
    rest: &[&'a ConnectionAnalysis],
    all: &[&'a ConnectionAnalysis],
    page: &mut Page<'_>,
) -> io::Result<()> {
    let (listed, unlisted) = rest.split_at(rest.len().min(report.options.listed));
    let mut rows: Vec<_> = listed.iter().map(|it| connection_row(report, it, page)).collect();
    let total = sum_row(report, format!("all {} connections", count(all.len() as u64)), all, "");
    let units = Units::new(&rows, &total.sums, page);
    if !unlisted.is_empty() {
        let ends = format!("{} more", count(unlisted.len() as u64));
        rows.push(sum_row(report, ends, unlisted, "(in CSV and JSON)"));
    }
    rows.push(total);
    page.blank()?;
    page.rule(&match rest.len() {
        1 => "the other connection".to_owned(),
        more => format!("the other {} connections", count(more as u64)),
    })?;
    write_head(&units, page)?;
    rows.iter().try_for_each(|row| write_row(row, &units, page))
}

fn connection_row<'a>(
    report: &Report<'a>,
    connection: &'a ConnectionAnalysis,
    page: &Page<'_>,
) -> Row {
    Row {
        id: connection.connection.id.0.to_string(),
        ends: shortened(&ends(connection, page), ends_width(page)),
        sums: sums(report, &[connection]),
        remark: remark(report, connection),
    }
}

fn sum_row<'a>(
    report: &Report<'a>,
    ends: String,
    connections: &[&'a ConnectionAnalysis],
    remark: &str,
) -> Row {
    let sums = sums(report, connections);
    Row { id: String::new(), ends, sums, remark: remark.to_owned() }
}

fn ends_width(page: &Page<'_>) -> usize {
    page.width - BESIDE_ENDS
}

fn write_head(units: &Units, page: &mut Page<'_>) -> io::Result<()> {
    let ends = format!("client {} server", page.arrow());
    let bytes = match units.bytes.name {
        "B" => "bytes".to_owned(),
        unit => format!("size {unit}"),
    };
    let (width, cost) = (ends_width(page), format!("cost {}", units.cost.name));
    let head = format!("{:>5} {ends:<width$} {bytes:>8} {cost:>8}  most in", "id");
    let head = page.style.paint(&head, Tone::Faint);
    page.line(&head)
}

fn write_row(row: &Row, units: &Units, page: &mut Page<'_>) -> io::Result<()> {
    let Row { id, ends, sums, remark } = row;
    let width = ends_width(page);
    let bytes = page.bound(units.bytes.cell(sums.bytes), sums.is_lower_bound);
    let cost = units.cost.cell(sums.cost_ns);
    page.line(&format!("{id:>5} {ends:<width$} {bytes:>8} {cost:>8}  {remark}"))
}

/// Both addresses; between two sockets of one address it is written once.
fn ends(analysis: &ConnectionAnalysis, page: &Page<'_>) -> String {
    let connection = &analysis.connection;
    let (client, server) = (connection.client, connection.server);
    if connection.protocol.is_unix() {
        let [client, server] = [sockscope_record::Side::Client, sockscope_record::Side::Server]
            .map(|side| connection.end(side));
        return format!("{client} {} {server}", page.arrow());
    }
    match client.ip() == server.ip() {
        true => format!("{client} {} :{}", page.arrow(), server.port()),
        false => format!("{client} {} {server}", page.arrow()),
    }
}

/// Long pairs are cut in the middle; the id identifies the connection.
fn shortened(ends: &str, width: usize) -> String {
    let length = columns(ends);
    if length <= width {
        return ends.to_owned();
    }
    let keep = (width - 2) / 2;
    let head: String = ends.chars().take(keep).collect();
    let tail: String = ends.chars().skip(length - keep).collect();
    format!("{head}..{tail}")
}

/// The finding that costs most, else the place with most time.
fn remark<'a>(report: &Report<'a>, connection: &'a ConnectionAnalysis) -> String {
    if let Some(finding) = report.findings(connection).max_by_key(|finding| finding.cost_ns) {
        return finding.id.name().to_owned();
    }
    match connection.unopened {
        Some(Unopened::Refused) => return "refused".to_owned(),
        Some(Unopened::Dropped(_)) => return "SYN dropped".to_owned(),
        None => {}
    }
    let sum = ledger_sum(report.flows(connection));
    let under_way = LedgerPart::ALL.into_iter().zip(sum).filter(|&(part, _)| is_under_way(part));
    match under_way.max_by_key(|&(_, ns)| ns) {
        Some((part, ns)) if ns > 0 => {
            let is_udp = connection.connection.protocol == Protocol::Udp;
            place_name(part.name(), is_udp).to_owned()
        }
        _ => "?".to_owned(),
    }
}

fn sums<'a>(report: &Report<'a>, connections: &[&'a ConnectionAnalysis]) -> Sums {
    let mut sums = Sums::default();
    for connection in connections {
        let bytes = report.flows(connection).map(|flow| flow.bytes);
        sums.bytes = bytes.fold(sums.bytes, u64::saturating_add);
        sums.is_lower_bound |= report.flows(connection).any(|flow| flow.at_least.bytes);
    }
    let findings = connections.iter().flat_map(|connection| report.findings(connection));
    sums.cost_ns = findings.collect::<TotalCost>().ns();
    sums
}
