//! All tables, for documentation.

use arrow_schema::SchemaRef;

use crate::calls::CallColumns;
use crate::exchanges::ExchangeColumns;
use crate::findings::{EvidenceColumns, FindingColumns, TimeColumns};
use crate::flows::{FlowColumns, StageColumns};
use crate::ledger::LedgerColumns;
use crate::records;
use crate::steps::{CurveColumns, DelayColumns, QueueColumns};
use crate::table::schema_of;

/// A table, without its rows.
#[derive(Debug, Clone)]
pub struct Description {
    /// Its name.
    pub name: &'static str,
    /// What a row is, and the order of the rows.
    pub rows: &'static str,
    /// Its columns.
    pub schema: SchemaRef,
}

/// Every table.
pub fn descriptions() -> Vec<Description> {
    let of = |name, rows, schema| Description { name, rows, schema };
    vec![
        of(
            records::TABLE,
            "A row is a record. A library gives them in the order of the bundle, which is nearly that of time. A file \
             has them by flow, then by time.",
            records::records_schema(),
        ),
        of(
            "flows",
            "A row is one direction of a connection. Rows are in the order of their numbers.",
            schema_of::<FlowColumns>(),
        ),
        of(
            "stages",
            "A row is one stage of a flow. Rows are by flow, then along the path.",
            schema_of::<StageColumns>(),
        ),
        of(
            "findings",
            "A row is a finding. Rows are by connection, highest cost first.",
            schema_of::<FindingColumns>(),
        ),
        of(
            "finding_times",
            "A row is a time that a finding cost. Rows are by finding, then by time.",
            schema_of::<TimeColumns>(),
        ),
        of(
            "evidence",
            "A row is a record that proves a finding. Rows are by finding, then by time.",
            schema_of::<EvidenceColumns>(),
        ),
        of(
            "ledger",
            "A row is the time that the oldest byte of a flow spent in one place. Rows are by flow, interval and place. \
             A place without time has no row. Places that have no unread byte are in it too, so that the shares of a \
             flow add up to 1.",
            schema_of::<LedgerColumns>(),
        ),
        of(
            "exchanges",
            "A row is a request, with its response if one was seen. Rows are by connection, then by the time asked.",
            schema_of::<ExchangeColumns>(),
        ),
        of(
            "calls",
            "A row is a call that moved bytes or failed. Rows are by flow, then by the time of return. Only a recording \
             with `--calls` has any.",
            schema_of::<CallColumns>(),
        ),
        of(
            "curve",
            "A row is a step of the curve of one flow at one point. Rows are by time.",
            schema_of::<CurveColumns>(),
        ),
        of(
            "queue",
            "A row is a step of the length of the queue of one stage of one flow. Rows are by time.",
            schema_of::<QueueColumns>(),
        ),
        of(
            "delays",
            "A row is a run of bytes in one stage of one flow. Rows are by position.",
            schema_of::<DelayColumns>(),
        ),
    ]
}
