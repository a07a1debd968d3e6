//! The curves of one flow, each made at the first question for it.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use sockscope_analysis::{
    ConnectionStore, Detail, DropReasons, FlowCurve, FlowCurves, LedgerDetail, LossInterval,
    ledger_spans,
};
use sockscope_record::{Direction, Point};

/// The curves of one direction of a connection.
#[derive(Debug)]
pub struct Flow {
    direction: Direction,
    pub(super) curves: FlowCurves,
    details: BTreeMap<FlowCurve, OnceLock<Detail>>,
    ledger: OnceLock<LedgerDetail>,
}

impl Flow {
    pub(super) fn new(
        store: &ConnectionStore,
        direction: Direction,
        losses: &[LossInterval],
        reasons: &DropReasons,
    ) -> Self {
        Self {
            direction,
            curves: FlowCurves::new(store, direction, losses, reasons),
            details: FlowCurve::all().map(|curve| (curve, OnceLock::new())).collect(),
            ledger: OnceLock::new(),
        }
    }

    /// One curve; `store` is that of the connection.
    pub(super) fn detail(&self, store: &ConnectionStore, curve: FlowCurve) -> &Detail {
        self.details[&curve].get_or_init(|| curve.detail(store, self.direction, &self.curves))
    }

    /// The ledger over time.
    pub(super) fn ledger(&self, store: &ConnectionStore) -> &LedgerDetail {
        self.ledger
            .get_or_init(|| LedgerDetail::new(ledger_spans(store, self.direction, &self.curves)))
    }

    /// Makes the curves of the first picture.
    pub(super) fn prepare(&self, store: &ConnectionStore) {
        std::thread::scope(|scope| {
            scope.spawn(|| self.ledger(store));
            for point in Point::ALL {
                self.detail(store, FlowCurve::Passed(point));
            }
        });
    }
}
