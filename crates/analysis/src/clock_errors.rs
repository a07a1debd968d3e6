//! The errors of stages with their ends on two hosts.

use sockscope_record::{Connection, Stage};

use crate::{ConnectionAnalysis, FlowAnalysis, HostClocks, LedgerPart, StageAnalysis, Uncertainty};

/// Gives the stages between two hosts their errors.
pub(crate) fn note(clocks: &HostClocks, trace_end_ns: u64, one: &mut ConnectionAnalysis) {
    let Connection { opened_ns, closed_ns, elsewhere, .. } = one.connection;
    if elsewhere.is_none() {
        return;
    }
    let uncertainty = clocks.between(opened_ns, closed_ns.unwrap_or(trace_end_ns));
    let stages = one.flows.iter_mut().flat_map(|flow| &mut flow.stages);
    for stage in stages.filter(|it| matches!(it.stage, Stage::Wire | Stage::Total)) {
        stage.uncertainty = uncertainty;
    }
}

impl ConnectionAnalysis {
    /// The error of times between its two ends; `None` where both are on one host.
    pub fn uncertainty(&self) -> Option<Uncertainty> {
        self.flows.iter().flat_map(|flow| &flow.stages).find_map(|stage| stage.uncertainty)
    }
}

impl StageAnalysis {
    /// Whether the error is larger than the median delay.
    pub fn is_below_uncertainty(&self) -> bool {
        let median = self.delay_ns.map(|times| times.p50);
        match self.uncertainty {
            None => false,
            Some(Uncertainty::Unknown) => true,
            Some(Uncertainty::AtMost(ns)) => median.is_some_and(|median| ns > median),
        }
    }
}

impl FlowAnalysis {
    /// The error of a part of the ledger between two hosts; `None` of a part with no such error.
    pub fn ledger_uncertainty(&self, part: LedgerPart) -> Option<Uncertainty> {
        let wire = self.stages.iter().find(|it| it.stage == Stage::Wire)?;
        let each = wire.uncertainty.filter(|_| part == LedgerPart::Wire)?;
        Some(match each {
            Uncertainty::AtMost(ns) => Uncertainty::AtMost(ns.saturating_mul(self.wire_intervals)),
            Uncertainty::Unknown => Uncertainty::Unknown,
        })
    }
}
