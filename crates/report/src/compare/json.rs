//! The comparison as JSON, schema `sockscope.compare/1`: described in docs/reference/compare.md, and for validators in
//! docs/schema/compare.json, which a test compares with the types here.

use std::io;

use serde::Serialize;
use sockscope_analysis::FindingId;
use sockscope_record::Direction;

use super::change::Change;
use super::comparison::{Comparison, RunFacts, direction, finding, findings, has_exchanges};
use super::group::{FlowSum, Group};
use super::matching::Row;
use crate::ReportError;
use crate::json::{self, PartsView, TimesView};

/// The schema's name and version: goes up when a field changes its meaning or goes away, not when one is added.
pub(super) const SCHEMA: &str = "sockscope.compare/1";

/// Writes the comparison as one JSON object and a line end.
///
/// # Errors
///
/// [`ReportError::Write`] when `out` fails.
pub fn write_compare_json(
    comparison: &Comparison,
    out: &mut dyn io::Write,
) -> Result<(), ReportError> {
    json::write(&CompareView::new(comparison), out)
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(title = SCHEMA))]
pub(super) struct CompareView<'a> {
    #[cfg_attr(test, schemars(extend("const" = SCHEMA)))]
    schema: &'static str,
    runs: Vec<RunView<'a>>,
    roles: Vec<RoleView<'a>>,
}

impl<'a> CompareView<'a> {
    fn new(comparison: &'a Comparison) -> Self {
        let roles = comparison.rows.iter().map(|row| RoleView::new(comparison, row)).collect();
        Self { schema: SCHEMA, runs: comparison.runs.iter().map(RunView::new).collect(), roles }
    }
}

/// One run as a whole.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RunView<'a> {
    name: &'a str,
    rounds: u64,
    connections: u64,
    duration_ns: u64,
    records: u64,
    missed_records: u64,
    unfinished: bool,
}

impl<'a> RunView<'a> {
    fn new(run: &'a RunFacts) -> Self {
        Self {
            name: &run.name,
            rounds: run.rounds,
            connections: run.connections,
            duration_ns: run.duration_ns,
            records: run.records,
            missed_records: run.missed,
            unfinished: run.is_unfinished,
        }
    }
}

/// Connections that are compared with each other.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RoleView<'a> {
    matched_by: &'static str,
    in_all_runs: bool,
    asked_by: &'static str,
    groups: Vec<Option<GroupView<'a>>>,
    findings: Vec<FindingView>,
    /// Of each run after the first.
    changes: Vec<ChangeView>,
}

impl<'a> RoleView<'a> {
    fn new(comparison: &'a Comparison, row: &'a Row) -> Self {
        let later = 1..row.groups.len();
        let asking = direction(row);
        let finding_view = |id| FindingView {
            id: FindingId::name(id),
            runs: (0..row.groups.len())
                .map(|run| {
                    let sum = finding(row, run, id)?;
                    Some(FindingSumView { count: sum.count, cost_ns: sum.cost_ns })
                })
                .collect(),
            changes: later.clone().map(|run| comparison.presence(row, run, id).name()).collect(),
        };
        let change_view = |run| {
            let exchange = comparison.exchange_change(row, run);
            let throughput = comparison.throughput_change(row, run, asking);
            ChangeView {
                exchange_ns_p50: has_exchanges(row).then(|| MedianView::new(exchange)),
                throughput_bytes_per_s: MedianView::new(throughput),
            }
        };
        let groups = row.groups.iter().zip(&comparison.runs).map(|(group, run)| {
            group.as_ref().map(|(role, group)| GroupView {
                protocol: role.protocol.name(),
                client: &role.client,
                server: &role.server,
                server_port: role.server_port.map(u32::from),
                figures: FiguresView::new(group, run),
            })
        });
        Self {
            matched_by: row.matched_by.name(),
            in_all_runs: row.is_in_all(),
            asked_by: asking.sender().name(),
            groups: groups.collect(),
            findings: findings(row).into_iter().map(finding_view).collect(),
            changes: later.clone().map(change_view).collect(),
        }
    }
}

/// The connections of one run.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct GroupView<'a> {
    protocol: &'static str,
    client: &'a str,
    server: &'a str,
    server_port: Option<u32>,
    figures: FiguresView,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FiguresView {
    connections: u64,
    exchange_ns: Option<TimesView>,
    exchanges_left_out: u64,
    flows: Vec<FlowView>,
}

impl FiguresView {
    fn new(group: &Group, run: &RunFacts) -> Self {
        let directions = [Direction::FromClient, Direction::FromServer];
        let flows = directions.into_iter().zip(&group.flows);
        Self {
            connections: group.connections,
            exchange_ns: group.exchanges().as_ref().map(TimesView::new),
            exchanges_left_out: group.left_out,
            flows: flows.map(|(direction, flow)| FlowView::new(direction, flow, run)).collect(),
        }
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FlowView {
    from: &'static str,
    bytes: u64,
    bytes_is_lower_bound: bool,
    throughput_bytes_per_s: Option<RangeView>,
    throughput_is_lower_bound: bool,
    #[cfg_attr(test, schemars(schema_with = "crate::json::ledger_parts"))]
    ledger_ns: PartsView,
}

impl FlowView {
    fn new(direction: Direction, flow: &FlowSum, run: &RunFacts) -> Self {
        // No record shows a byte, and some were missed.
        let is_unseen = flow.bytes == 0 && !run.is_whole();
        Self {
            from: direction.sender().name(),
            bytes: flow.bytes,
            bytes_is_lower_bound: flow.bytes_are_lower_bound || is_unseen,
            throughput_bytes_per_s: RangeView::of(&flow.throughputs),
            throughput_is_lower_bound: flow.throughput_is_lower_bound,
            ledger_ns: PartsView(flow.ledger.clone()),
        }
    }
}

/// Throughputs of the connections.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RangeView {
    count: u64,
    min: u64,
    p50: u64,
    max: u64,
}

impl RangeView {
    fn of(sorted: &[u64]) -> Option<Self> {
        let p50 = sockscope_record::statistics::percentile(sorted, 50)?;
        Some(Self { count: sorted.len() as u64, min: *sorted.first()?, p50, max: *sorted.last()? })
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FindingView {
    id: &'static str,
    runs: Vec<Option<FindingSumView>>,
    /// Of each run after the first.
    changes: Vec<&'static str>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FindingSumView {
    count: u64,
    cost_ns: u64,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ChangeView {
    exchange_ns_p50: Option<MedianView>,
    throughput_bytes_per_s: MedianView,
}

/// How a median changed.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct MedianView {
    verdict: &'static str,
    difference: Option<i64>,
    /// The interval of the difference, which has 95 % or more.
    low: Option<i64>,
    high: Option<i64>,
}

impl MedianView {
    fn new(change: Change) -> Self {
        let (difference, low, high) = match change {
            Change::Same => (Some(0), None, None),
            Change::NotShown(it) | Change::Shown(it) => {
                (Some(it.value), Some(it.low), Some(it.high))
            }
            Change::TooFew(value) => (Some(value), None, None),
            Change::Unknown => (None, None, None),
        };
        Self { verdict: change.name(), difference, low, high }
    }
}
