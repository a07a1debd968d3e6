//! The share of the connections that keeps the cost of recording within a budget.
//!
//! The rule has two thresholds and two times. Above the budget for 3 seconds, the share is halved. Below half of it for 10
//! seconds, the share rises by a quarter. Halving a share halves the cost at most, and so leads to no rise. Connections
//! that are recorded stay recorded, so that the cost follows the share late: while it falls, the share stays. Each rise
//! that turns out as too much doubles the time before the next rises.

/// Above the budget for so long, the share is halved.
const ABOVE_NS: u64 = 3_000_000_000;
/// A cost that fell to this part of its value before is falling: the last halving has not had its whole effect.
const FALLING: f64 = 0.98;
/// Below half of the budget for so long, the share rises by a quarter; at first, and at most.
const BELOW_NS: u64 = 10_000_000_000;
const BELOW_NS_MAX: u64 = 160_000_000_000;
const RISE: f64 = 1.25;
const SHARE_MIN: f64 = 1.0 / 1024.0;

/// Decides on the share by the cost. Costs are parts of one CPU.
#[derive(Debug)]
pub struct Budget {
    limit: f64,
    share: f64,
    cost: f64,
    /// Time and sum of costs at the last look.
    last: Option<(u64, u64)>,
    above: Option<Above>,
    below_since_ns: Option<u64>,
    below_ns: u64,
    /// The last change was a rise.
    rose: bool,
    /// It was reported that the smallest share costs too much.
    is_exhausted: bool,
}

/// The cost is above the budget.
#[derive(Debug)]
struct Above {
    since_ns: u64,
    /// The cost at the last decision, if one was made since.
    decided_at: Option<f64>,
}

/// A decision of a [`Budget`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Change {
    /// The cost is above the budget: the new share, from 0 to 1.
    Fell(f64),
    /// The cost is below half of the budget: the new share.
    Rose(f64),
    /// The cost is above the budget, and the share is as small as it gets.
    Exhausted,
}

impl Budget {
    /// With all connections recorded, and this part of a CPU to spend.
    pub fn new(limit: f64) -> Self {
        Self {
            limit,
            share: 1.0,
            cost: 0.0,
            last: None,
            above: None,
            below_since_ns: None,
            below_ns: BELOW_NS,
            rose: false,
            is_exhausted: false,
        }
    }

    /// The part of the connections to record.
    pub fn share(&self) -> f64 {
        self.share
    }

    /// The cost between the last two looks.
    pub fn cost(&self) -> f64 {
        self.cost
    }

    /// The budget.
    pub fn limit(&self) -> f64 {
        self.limit
    }

    /// Takes the time up to now as one that decides nothing: something else than the recording had a cost.
    pub fn skip(&mut self, now_ns: u64, spent_ns: u64) {
        self.last = Some((now_ns, spent_ns));
        self.above = None;
        self.below_since_ns = None;
    }

    /// Looks at the CPU time that was spent since the start, each second or so.
    pub fn look(&mut self, now_ns: u64, spent_ns: u64) -> Option<Change> {
        let (at_ns, before_ns) = self.last.replace((now_ns, spent_ns))?;
        let passed_ns = now_ns.checked_sub(at_ns).filter(|ns| *ns > 0)?;
        self.cost = spent_ns.saturating_sub(before_ns) as f64 / passed_ns as f64;
        if self.cost > self.limit {
            self.below_since_ns = None;
            return self.look_above(at_ns, now_ns);
        }
        self.above = None;
        if self.cost < self.limit / 2.0 && self.share < 1.0 {
            let since_ns = *self.below_since_ns.get_or_insert(at_ns);
            return (now_ns - since_ns >= self.below_ns).then(|| self.rise(now_ns));
        }
        self.below_since_ns = None;
        None
    }

    fn look_above(&mut self, at_ns: u64, now_ns: u64) -> Option<Change> {
        let cost = self.cost;
        let above = self.above.get_or_insert(Above { since_ns: at_ns, decided_at: None });
        if now_ns - above.since_ns < ABOVE_NS {
            return None;
        }
        above.since_ns = now_ns;
        let before = above.decided_at.replace(cost);
        if before.is_some_and(|before| cost < before * FALLING) {
            return None;
        }
        if self.share <= SHARE_MIN {
            let is_known = std::mem::replace(&mut self.is_exhausted, true);
            return (!is_known).then_some(Change::Exhausted);
        }
        if std::mem::take(&mut self.rose) {
            self.below_ns = (self.below_ns * 2).min(BELOW_NS_MAX);
        }
        self.share = (self.share / 2.0).max(SHARE_MIN);
        Some(Change::Fell(self.share))
    }

    fn rise(&mut self, now_ns: u64) -> Change {
        self.below_since_ns = Some(now_ns);
        self.rose = true;
        self.is_exhausted = false;
        self.share = (self.share * RISE).min(1.0);
        Change::Rose(self.share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const LIMIT: f64 = 0.03;

    /// A machine whose connections live so many seconds. All of them would cost `full`, none of them `fixed`.
    struct Machine {
        budget: Budget,
        full: f64,
        fixed: f64,
        lifetime_s: f64,
        /// The part of all connections that is recorded now.
        recorded: f64,
        now_ns: u64,
        spent_ns: u64,
    }

    impl Machine {
        fn new(full: f64, fixed: f64, lifetime_s: f64) -> Self {
            let budget = Budget::new(LIMIT);
            let recorded = 1.0;
            Self { budget, full, fixed, lifetime_s, recorded, now_ns: 0, spent_ns: 0 }
        }

        /// Costs and changes of each of so many seconds.
        fn run(&mut self, seconds: u64) -> Vec<(f64, Option<Change>)> {
            let second = |_| {
                let replaced = (1.0 / self.lifetime_s).min(1.0);
                self.recorded += (self.budget.share() - self.recorded) * replaced;
                let cost = self.fixed + self.full * self.recorded;
                self.now_ns += SECOND;
                self.spent_ns += (cost * 1e9) as u64;
                (cost, self.budget.look(self.now_ns, self.spent_ns))
            };
            (0..seconds).map(second).collect()
        }
    }

    fn changes(run: &[(f64, Option<Change>)]) -> Vec<Change> {
        run.iter().filter_map(|(_, change)| *change).collect()
    }

    #[test]
    fn a_cost_above_the_budget_halves_the_share_until_it_fits_and_then_the_share_stays() {
        let mut machine = Machine::new(0.12, 0.003, 1.0);
        let first = changes(&machine.run(60));
        let halves = [0.5, 0.25, 0.125].map(Change::Fell);
        assert_eq!(first, halves, "0.3 % and an eighth of 12 %");
        let hour = machine.run(3_600);
        assert_eq!(changes(&hour), []);
        assert!(hour.iter().all(|(cost, _)| *cost <= LIMIT));
    }

    #[test]
    fn a_cost_within_the_budget_and_a_short_one_above_it_change_nothing() {
        let mut machine = Machine::new(0.02, 0.003, 1.0);
        for _ in 0..20 {
            assert_eq!(changes(&machine.run(8)), []);
            machine.spent_ns += SECOND / 2;
            assert_eq!(changes(&machine.run(1)), [], "a bundle is made");
        }
    }

    #[test]
    fn the_share_is_all_again_when_the_load_is_gone() {
        let mut machine = Machine::new(0.5, 0.001, 1.0);
        machine.run(60);
        assert!(machine.budget.share() < 0.1, "{}", machine.budget.share());
        machine.full = 0.01;
        let changes = changes(&machine.run(600));
        assert!(changes.iter().all(|change| matches!(change, Change::Rose(_))), "{changes:?}");
        assert_eq!(changes.last(), Some(&Change::Rose(1.0)));
    }

    #[test]
    fn a_cost_that_follows_late_leads_to_few_changes_in_the_end() {
        for lifetime_s in [20.0, 60.0, 300.0] {
            let mut machine = Machine::new(0.12, 0.002, lifetime_s);
            machine.run(3 * 3_600);
            let hour = machine.run(3_600);
            let falls = changes(&hour).iter().filter(|it| matches!(it, Change::Fell(_))).count();
            assert!(falls <= 1, "{lifetime_s} s: {:?}", changes(&hour));
            let mean = hour.iter().map(|(cost, _)| cost).sum::<f64>() / hour.len() as f64;
            assert!((0.2 * LIMIT..=LIMIT).contains(&mean), "{lifetime_s} s: {mean}");
        }
    }

    #[test]
    fn a_falling_cost_is_waited_for() {
        // From the second fall on, all that is recorded costs less each second.
        let mut machine = Machine::new(0.12, 0.0, 30.0);
        let changes = changes(&machine.run(60));
        assert_eq!(changes, [0.5, 0.25].map(Change::Fell), "a quarter of 12 % is the budget");
    }

    #[test]
    fn the_share_has_a_least_value_which_is_reported_once() {
        let mut machine = Machine::new(0.1, 0.05, 1.0);
        let changes = changes(&machine.run(600));
        assert_eq!(changes.iter().filter(|it| **it == Change::Exhausted).count(), 1);
        assert_eq!(changes.last(), Some(&Change::Exhausted));
        assert_eq!(machine.budget.share().to_bits(), SHARE_MIN.to_bits());
    }

    #[test]
    fn a_time_that_is_skipped_decides_nothing() {
        let mut machine = Machine::new(0.02, 0.003, 1.0);
        machine.run(5);
        for _ in 0..10 {
            machine.now_ns += SECOND;
            machine.spent_ns += SECOND;
            machine.budget.skip(machine.now_ns, machine.spent_ns);
        }
        assert_eq!(changes(&machine.run(20)), []);
    }

    #[test]
    fn looks_at_the_same_time_and_sums_that_fall_decide_nothing() {
        let mut budget = Budget::new(LIMIT);
        assert_eq!(budget.look(5, 0), None);
        assert_eq!(budget.look(5, SECOND), None);
        assert_eq!(budget.look(4, 2 * SECOND), None);
        assert_eq!(budget.look(10 * SECOND, 0), None);
        assert_eq!(budget.cost().to_bits(), 0.0f64.to_bits());
    }
}
