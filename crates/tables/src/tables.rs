//! The tables of an analysed trace.

use std::num::NonZeroU32;
use std::sync::Arc;

use sockscope_analysis::{Analysis, Stores};
use sockscope_record::{FlowId, Point, Stage};

use crate::calls::{self, CallColumns};
use crate::exchanges::{self, ExchangeColumns};
use crate::findings::{self, EvidenceColumns, FindingColumns, TimeColumns};
use crate::flows::{self, FlowColumns, StageColumns};
use crate::ledger::{self, Intervals, LedgerColumns};
use crate::steps::{self, CurveColumns, DelayColumns, QueueColumns};
use crate::table::of_parts;
use crate::trace::{Flow, Trace};
use crate::{Error, Table, WallClock};

/// An analysed trace, of which each call makes a table. A table keeps the trace alive, so that it may go to another
/// thread and outlive this. Cloning is cheap.
#[derive(Debug, Clone)]
pub struct Tables {
    trace: Arc<Trace>,
}

impl Tables {
    /// Of an analysis with the records that it kept, both by
    /// [`finish_keeping`](sockscope_analysis::Analyzer::finish_keeping).
    pub fn new(analysis: Analysis, stores: Stores, clock: WallClock) -> Self {
        Self { trace: Arc::new(Trace { analysis, stores, clock }) }
    }

    /// The analysis.
    pub fn analysis(&self) -> &Analysis {
        &self.trace.analysis
    }

    /// The records, sorted by connection, flow and point.
    pub fn stores(&self) -> &Stores {
        &self.trace.stores
    }

    /// `flows`: both directions of each connection, by number.
    pub fn flows(&self) -> Table {
        of_parts::<FlowColumns>(&self.trace, flows::rows)
    }

    /// `stages`: delays and queue of each stage of each flow, in the order of [`Stage::ALL`].
    pub fn stages(&self) -> Table {
        of_parts::<StageColumns>(&self.trace, flows::stage_rows)
    }

    /// `findings`: by connection, highest cost first.
    pub fn findings(&self) -> Table {
        of_parts::<FindingColumns>(&self.trace, findings::rows)
    }

    /// `finding_times`: the times that each finding cost.
    pub fn finding_times(&self) -> Table {
        of_parts::<TimeColumns>(&self.trace, findings::time_rows)
    }

    /// `evidence`: the records that prove each finding, at most eight of each.
    pub fn evidence(&self) -> Table {
        of_parts::<EvidenceColumns>(&self.trace, findings::evidence_rows)
    }

    /// `exchanges`: requests with their responses, by connection and time asked.
    pub fn exchanges(&self) -> Table {
        of_parts::<ExchangeColumns>(&self.trace, exchanges::rows)
    }

    /// `calls`: writes and reads, by flow and return. Empty where the recording has no returns of calls (`--calls`).
    pub fn calls(&self) -> Table {
        of_parts::<CallColumns>(&self.trace, calls::rows)
    }

    /// `ledger`: time in each place, of one flow or of all. With `bins` the time is divided into so many intervals:
    /// that of the flow, or where all flows are asked for, that of the trace.
    ///
    /// # Errors
    ///
    /// [`Error::NoFlow`].
    pub fn ledger(&self, flow: Option<FlowId>, bins: Option<NonZeroU32>) -> Result<Table, Error> {
        let Some(id) = flow else {
            let intervals = bins.map_or(Intervals::One, Intervals::OfTrace);
            return Ok(of_parts::<LedgerColumns>(&self.trace, move |trace, part| {
                let (one, direction) = trace.flow_at(part)?;
                let flow = trace.flow(one.connection.id.flow(direction));
                Some(flow.map(|flow| ledger::rows(trace, flow, intervals)).unwrap_or_default())
            }));
        };
        self.trace.flow(id)?;
        let intervals = bins.map_or(Intervals::One, Intervals::OfFlow);
        Ok(self
            .of_flow::<LedgerColumns>(id, move |trace, flow| ledger::rows(trace, flow, intervals)))
    }

    /// `curve`: the bytes of a flow that passed a point, as steps over time.
    ///
    /// # Errors
    ///
    /// [`Error::NoFlow`].
    pub fn curve(&self, flow: FlowId, point: Point) -> Result<Table, Error> {
        self.trace.flow(flow)?;
        Ok(self.of_flow::<CurveColumns>(flow, move |trace, flow| {
            steps::curve_rows(trace, flow, point)
        }))
    }

    /// `queue`: the length of a stage's queue, as steps over time. Empty where one of its points was not observed.
    ///
    /// # Errors
    ///
    /// [`Error::NoFlow`].
    pub fn queue(&self, flow: FlowId, stage: Stage) -> Result<Table, Error> {
        self.trace.flow(flow)?;
        Ok(self.of_flow::<QueueColumns>(flow, move |trace, flow| {
            steps::queue_rows(trace, flow, stage)
        }))
    }

    /// `delays`: the time in a stage of each run of bytes, by position.
    ///
    /// # Errors
    ///
    /// [`Error::NoFlow`].
    pub fn delays(&self, flow: FlowId, stage: Stage) -> Result<Table, Error> {
        self.trace.flow(flow)?;
        Ok(self.of_flow::<DelayColumns>(flow, move |trace, flow| {
            steps::delay_rows(trace, flow, stage)
        }))
    }

    /// A table of one flow of the trace.
    fn of_flow<C: crate::column::Columns>(
        &self,
        id: FlowId,
        rows: impl Fn(&Trace, Flow<'_>) -> Vec<C::Row> + Send + 'static,
    ) -> Table {
        of_parts::<C>(&self.trace, move |trace, part| {
            let flow = trace.flow(id).ok().filter(|_| part == 0)?;
            Some(rows(trace, flow))
        })
    }
}
