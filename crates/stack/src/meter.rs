//! The CPU time of a step, and its effects.
//!
//! A step's effects are in order, each with the CPU time that the step had used when it happened.
//! So the caller can carry them out in virtual time, with interrupts between them. Times are
//! nanoseconds of CPU time since the step began.

use std::ops::{Deref, DerefMut};

use sockscope_record::{Point, Record};

use crate::cost::{CostMeter, Costs};
use crate::effect::Effect;

/// Counters of one host and the effects of the step in progress.
#[derive(Debug, Default)]
pub struct Meter {
    effects: Vec<(u64, Effect)>,
    cost: CostMeter,
}

/// Code without effects needs the counters and costs alone: mbufs, checksums, buffers, routes.
impl Deref for Meter {
    type Target = CostMeter;

    fn deref(&self) -> &CostMeter {
        &self.cost
    }
}

impl DerefMut for Meter {
    fn deref_mut(&mut self) -> &mut CostMeter {
        &mut self.cost
    }
}

impl Meter {
    /// Nothing counted yet.
    pub fn new(costs: Costs) -> Self {
        Self { effects: Vec::new(), cost: CostMeter::new(costs) }
    }

    /// A new step begins: no time used, no effects.
    ///
    /// Take the effects of the step before with [`Meter::take_effects`] first: packets in them
    /// would be lost to their pool.
    pub fn begin(&mut self) {
        debug_assert!(self.effects.is_empty(), "effects of the last step were not taken");
        self.cost.begin();
        self.effects.clear();
    }

    /// Notes that `effect` happens at this CPU time.
    pub fn effect(&mut self, effect: Effect) {
        self.effect_at(self.cost.elapsed_ns(), effect);
    }

    /// A packet or a call passes this one of the eight probes of the SunOS study, which makes this record if
    /// its socket is logged. The record has the time before the probe's own.
    pub fn probe(&mut self, point: Point, record: Option<Record>) {
        if let Some(record) = record {
            self.effect(Effect::Observed(record));
        }
        self.cost.charge_probe(point, record.is_some());
    }

    /// Notes that `effect` happens at `at_ns` of the step's CPU time, which is not before the
    /// effects noted up to now.
    pub fn effect_at(&mut self, at_ns: u64, effect: Effect) {
        debug_assert!(self.effects.last().is_none_or(|(before_ns, _)| *before_ns <= at_ns));
        self.effects.push((at_ns, effect));
    }

    /// Effects of the step in progress, each with the CPU time at which it happens.
    pub fn effects(&self) -> &[(u64, Effect)] {
        &self.effects
    }

    /// Takes the effects of the step, in order; the memory is kept for reuse.
    pub fn drain_effects(&mut self) -> std::vec::Drain<'_, (u64, Effect)> {
        self.effects.drain(..)
    }

    /// Moves the effects of the step to the end of `into`; the memory of both is kept for reuse.
    pub fn take_effects(&mut self, into: &mut Vec<(u64, Effect)>) {
        if into.is_empty() {
            std::mem::swap(into, &mut self.effects);
        } else {
            into.append(&mut self.effects);
        }
    }
}

#[cfg(test)]
mod tests {
    use sockscope_record::Kind;

    use super::*;
    use crate::cost::Cost;
    use crate::probe::ProbeCosts;
    use crate::routine::{Routine, Work};

    #[test]
    fn a_probe_takes_its_time_after_it_noted_when() {
        let mut meter = Meter::default();
        let costs = ProbeCosts { test_ns: 2, store_ns: 7, ..ProbeCosts::default() };
        meter.add_probes(costs, false, None);
        let record = |kind| Record { kind, ..Record::default() };
        meter.probe(Point::SendEnqueue, Some(record(Kind::WriteCall)));
        meter.probe(Point::SendEnqueue, None);
        meter.probe(Point::ReceiveEnqueue, Some(record(Kind::ReceiveEnqueue)));
        meter.effect(Effect::Observed(record(Kind::ReadReturn)));
        meter.effect(Effect::SoftInterrupt);
        let at_ns = meter.effects().iter().map(|(ns, _)| *ns).collect::<Vec<_>>();
        assert_eq!(
            (at_ns, meter.elapsed_ns()),
            (vec![0, 11, 20, 20], 20),
            "of a socket that is not logged, the test alone"
        );
        meter.drain_effects();
    }

    #[test]
    fn effects_carry_the_time_used_before_them() {
        let mut costs = Costs::default();
        costs.set(Routine::Ipintr, Cost { call_ns: 50, ..Cost::default() });
        let mut meter = Meter::new(costs);
        meter.effect(Effect::SoftInterrupt);
        meter.call(Routine::Ipintr, Work::NONE);
        meter.effect(Effect::SoftInterrupt);
        assert_eq!(meter.effects().iter().map(|(ns, _)| *ns).collect::<Vec<_>>(), [0, 50]);
        let mut taken = Vec::new();
        meter.take_effects(&mut taken);
        meter.begin();
        assert_eq!((taken.len(), meter.elapsed_ns(), meter.effects().len()), (2, 0, 0));
        assert_eq!(meter.calls(Routine::Ipintr), 1, "counts outlive the step");
    }
}
