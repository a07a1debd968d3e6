//! The curves of one flow, each made at the first question for it.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use sockscope_analysis::{
    ConnectionStore, Detail, DropReasons, FlowCurve, FlowCurves, LedgerDetail, LossInterval,
    ledger_spans,
};
use sockscope_record::{Direction, Kind, Point, marks};

/// The curves of one direction of a connection.
#[derive(Debug)]
pub struct Flow {
    direction: Direction,
    pub(super) curves: FlowCurves,
    details: BTreeMap<FlowCurve, OnceLock<Detail>>,
    ledger: OnceLock<LedgerDetail>,
    rare: OnceLock<RareMarks>,
}

/// Time, first position and end of bytes.
pub(super) type ByteTime = (u64, u64, u64);

/// Events that no picture leaves out, in time order.
#[derive(Debug, Default)]
pub(super) struct RareMarks {
    pub retransmitted: Vec<ByteTime>,
    pub dropped: Vec<ByteTime>,
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
            rare: OnceLock::new(),
        }
    }

    /// One curve; `store` is that of the connection.
    pub(super) fn detail(&self, store: &ConnectionStore, curve: FlowCurve) -> &Detail {
        self.details[&curve].get_or_init(|| curve.drawn(store, self.direction, &self.curves))
    }

    /// The ledger over time.
    pub(super) fn ledger(&self, store: &ConnectionStore) -> &LedgerDetail {
        self.ledger
            .get_or_init(|| LedgerDetail::new(ledger_spans(store, self.direction, &self.curves)))
    }

    /// Retransmissions and drops.
    pub(super) fn rare_marks(&self, store: &ConnectionStore) -> &RareMarks {
        self.rare.get_or_init(|| {
            let flow = store.flow(self.direction);
            let sent = [Point::SendDequeue, Point::InterfaceEnqueue, Point::InterfaceDequeue];
            let sent = sent.map(|point| flow.at(point));
            let sent = sent.into_iter().find(|passes| !passes.is_empty()).unwrap_or(&[]).iter();
            let again = sent.filter(|pass| pass.marks & marks::RETRANSMITTED != 0 && pass.len > 0);
            let dropped = flow.events_of(Kind::Drop);
            RareMarks {
                retransmitted: again.map(|pass| (pass.at_ns, pass.offset, pass.end())).collect(),
                dropped: dropped.map(|drop| (drop.at_ns, drop.offset, drop.end())).collect(),
            }
        })
    }

    /// Makes all curves that are not made yet, on two threads.
    pub(super) fn prepare_curves(&self, store: &ConnectionStore) {
        if self.details.values().all(|detail| detail.get().is_some()) {
            return;
        }
        let curves: Vec<_> = self.details.keys().copied().collect();
        let (even, odd): (Vec<_>, Vec<_>) =
            curves.into_iter().enumerate().partition(|(index, _)| index % 2 == 0);
        let make = |some: Vec<(usize, FlowCurve)>| {
            for (_, curve) in some {
                self.detail(store, curve);
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| make(even));
            make(odd);
        });
    }

    /// Makes the curves of the first picture.
    pub(super) fn prepare(&self, store: &ConnectionStore) {
        std::thread::scope(|scope| {
            scope.spawn(|| self.ledger(store).spans().len());
            self.prepare_curves(store);
        });
    }
}
