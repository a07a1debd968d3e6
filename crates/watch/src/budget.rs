//! The share of the connections that keeps the cost of recording within a budget.
//!
//! A part of the cost follows the share: that of the recorded connections. The rest is fixed: the probes run for other
//! connections too, and the recorder looks at its lists. Two shares show how large both parts are. So the second
//! fall of the share already hits the aim, four fifths of the budget: a mean over a minute has room for noise.
//!
//! Above the budget for 3 seconds, or in the mean of 20, the share falls. Below half of it for 10 seconds, the share
//! rises by a quarter, and so never above the aim. Recorded connections that the share has no more are left out, so
//! that the cost follows a fall at once. It follows a rise as late as connections open. Each rise that turns out as too
//! much doubles the time before the next rises.

/// Above the budget for so long, and by so much in the mean, the share falls.
const ABOVE_NS: u64 = 3_000_000_000;
const ABOVE: f64 = 1.1;
/// After a change nothing is decided for so long: the last records of connections that were left out are analysed.
const SETTLE_NS: u64 = 2_000_000_000;
/// The mean over so long, begun anew after a minute.
const MEAN_NS: u64 = 20_000_000_000;
const MEAN_NS_MAX: u64 = 60_000_000_000;
/// A look counts as so many budgets at most: one second in which something else happened is no load.
const LOOK_MAX: f64 = 2.0;
/// A new share is for this part of the budget.
const AIM: f64 = 0.8;
/// Below half of the budget for so long, the share rises by a quarter; at first, and at most.
const BELOW_NS: u64 = 10_000_000_000;
const BELOW_NS_MAX: u64 = 160_000_000_000;
const RISE: f64 = 1.25;
const SHARE_MIN: f64 = 1.0 / 1024.0;
/// Two shares show the fixed part where one is at most this part of the other, and surely where it is at most that.
const APART: f64 = 0.7;
const FAR_APART: f64 = 0.25;
/// An estimate by short means may be wrong by so much.
const ESTIMATE: f64 = 1.2;
/// A budget has to be larger than the fixed part by so much.
const LEAST: f64 = 1.1;

/// Decides on the share by the cost. Costs are parts of one CPU.
#[derive(Debug)]
pub struct Budget {
    limit: f64,
    share: f64,
    cost: f64,
    /// Time and sum of costs at the last look.
    last: Option<(u64, u64)>,
    changed_ns: Option<u64>,
    /// Of the looks above the budget, one after the other.
    above: Mean,
    /// Of those since the last change.
    all: Mean,
    below_since_ns: Option<u64>,
    below_ns: u64,
    /// The first share of the falls that follow one another, and the cost that it had.
    before: Option<(f64, f64)>,
    /// The cost that any share has.
    fixed: f64,
    /// The last change was a rise.
    rose: bool,
    /// It was reported that the budget cannot be held.
    is_reported: bool,
}

/// A mean of costs.
#[derive(Debug, Default, Clone, Copy)]
struct Mean {
    ns: u64,
    sum: f64,
}

impl Mean {
    fn add(&mut self, cost: f64, ns: u64) {
        self.sum += cost * ns as f64;
        self.ns += ns;
    }

    fn value(self) -> f64 {
        self.sum / self.ns.max(1) as f64
    }
}

/// A decision of a [`Budget`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Change {
    /// The cost is above the budget: the new share, from 0 to 1.
    Fell(f64),
    /// The cost is below half of the budget: the new share.
    Rose(f64),
    /// No share holds the budget. It is the smallest one from now on.
    CannotHold {
        /// The cost that any share has.
        fixed: f64,
        /// The least budget that can be held.
        least: f64,
    },
}

impl Budget {
    /// With all connections recorded, and this part of a CPU to spend.
    pub fn new(limit: f64) -> Self {
        Self {
            limit,
            share: 1.0,
            cost: 0.0,
            last: None,
            changed_ns: None,
            above: Mean::default(),
            all: Mean::default(),
            below_since_ns: None,
            below_ns: BELOW_NS,
            before: None,
            fixed: 0.0,
            rose: false,
            is_reported: false,
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
        self.forget();
    }

    fn forget(&mut self) {
        (self.above, self.all) = (Mean::default(), Mean::default());
        self.below_since_ns = None;
    }

    /// Looks at the CPU time that was spent since the start, each second or so.
    pub fn look(&mut self, now_ns: u64, spent_ns: u64) -> Option<Change> {
        let (at_ns, before_ns) = self.last.replace((now_ns, spent_ns))?;
        let passed_ns = now_ns.checked_sub(at_ns).filter(|ns| *ns > 0)?;
        self.cost = spent_ns.saturating_sub(before_ns) as f64 / passed_ns as f64;
        if self.changed_ns.is_some_and(|changed_ns| at_ns < changed_ns + SETTLE_NS) {
            return None;
        }
        if self.all.ns >= MEAN_NS_MAX {
            self.all = Mean::default();
            // The load may be another one by the next fall.
            self.before = None;
        }
        self.all.add(self.cost.min(LOOK_MAX * self.limit), passed_ns);
        if self.cost > self.limit {
            self.above.add(self.cost, passed_ns);
        } else {
            self.above = Mean::default();
        }
        let is_above = self.above.ns >= ABOVE_NS && self.above.value() > ABOVE * self.limit;
        if is_above && self.share > SHARE_MIN {
            return self.fall(now_ns, self.above.value());
        }
        if self.all.ns >= MEAN_NS && self.all.value() > self.limit {
            return self.fall(now_ns, self.all.value());
        }
        if self.cost < self.limit / 2.0 && self.share < 1.0 {
            let since_ns = *self.below_since_ns.get_or_insert(at_ns);
            return (now_ns - since_ns >= self.below_ns).then(|| self.rise(now_ns));
        }
        self.below_since_ns = None;
        None
    }

    fn change(&mut self, now_ns: u64, share: f64) {
        self.share = share.clamp(SHARE_MIN, 1.0);
        self.changed_ns = Some(now_ns);
        self.forget();
    }

    /// The present share has such a cost: a smaller one follows.
    fn fall(&mut self, now_ns: u64, cost: f64) -> Option<Change> {
        if self.share <= SHARE_MIN {
            self.forget();
            return self.report(cost);
        }
        let (share, before) = *self.before.get_or_insert((self.share, cost));
        if self.share <= APART * share {
            let of_share = (before - cost).max(0.0) / (share - self.share);
            self.fixed = cost - of_share * self.share;
        }
        self.fixed = self.fixed.clamp(0.0, cost);
        let is_sure = self.share <= FAR_APART * share;
        if std::mem::take(&mut self.rose) {
            self.below_ns = (self.below_ns * 2).min(BELOW_NS_MAX);
        }
        if is_sure && self.fixed > ESTIMATE * self.limit {
            self.change(now_ns, SHARE_MIN);
            let fixed = self.fixed;
            return self.report(fixed).or(Some(Change::Fell(self.share)));
        }
        // Above the fixed part at least by half of the rest.
        let aim = (AIM * self.limit).max((self.fixed + self.limit) / 2.0);
        let least = if is_sure { 0.0 } else { FAR_APART };
        let part = ((aim - self.fixed) / (cost - self.fixed)).max(least).min(AIM);
        self.change(now_ns, self.share * part);
        Some(Change::Fell(self.share))
    }

    /// Says once that the budget cannot be held.
    fn report(&mut self, fixed: f64) -> Option<Change> {
        let is_known = std::mem::replace(&mut self.is_reported, true);
        // Tenths of a percent.
        let least = (fixed * LEAST * 1_000.0 - 1e-6).ceil() / 1_000.0;
        (!is_known).then_some(Change::CannotHold { fixed, least })
    }

    fn rise(&mut self, now_ns: u64) -> Change {
        self.change(now_ns, self.share * RISE);
        self.rose = true;
        self.is_reported = false;
        self.before = None;
        Change::Rose(self.share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const LIMIT: f64 = 0.03;
    /// Ranges of hashes, each with the part of its connections that is recorded.
    const RANGES: usize = 64;

    /// A machine whose connections live so many seconds. All of them would cost `full`, none of them `fixed`.
    struct Machine {
        budget: Budget,
        full: f64,
        fixed: f64,
        lifetime_s: f64,
        /// Each second costs more or less by a random part up to this.
        noise: f64,
        recorded: [f64; RANGES],
        random: u64,
        now_ns: u64,
        spent_ns: u64,
    }

    impl Machine {
        fn new(full: f64, fixed: f64, lifetime_s: f64) -> Self {
            let budget = Budget::new(LIMIT);
            let recorded = [1.0; RANGES];
            let (noise, random) = (0.0, 1);
            Self {
                budget,
                full,
                fixed,
                lifetime_s,
                noise,
                recorded,
                random,
                now_ns: 0,
                spent_ns: 0,
            }
        }

        /// From -1 to 1.
        fn random(&mut self) -> f64 {
            self.random = self
                .random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (self.random >> 33) as f64 / f64::from(1u32 << 30) - 1.0
        }

        /// Recorded connections that the share has no more are left out. Of those that open, it has its part.
        fn record(&mut self) {
            let replaced = (1.0 / self.lifetime_s).min(1.0);
            let share = self.budget.share() * RANGES as f64;
            for (range, recorded) in self.recorded.iter_mut().enumerate() {
                let open = (share - range as f64).clamp(0.0, 1.0);
                *recorded = (*recorded + (open - *recorded) * replaced).min(open);
            }
        }

        /// Costs and changes of each of so many seconds.
        fn run(&mut self, seconds: u64) -> Vec<(f64, Option<Change>)> {
            let second = |_| {
                self.record();
                let recorded = self.recorded.iter().sum::<f64>() / RANGES as f64;
                let cost = (self.fixed + self.full * recorded) * (1.0 + self.noise * self.random());
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

    fn mean(run: &[(f64, Option<Change>)]) -> f64 {
        run.iter().map(|(cost, _)| cost).sum::<f64>() / run.len() as f64
    }

    #[test]
    fn two_falls_find_the_share_that_fits_and_then_it_stays() {
        // As measured of 300 new connections a second, 200 long ones and a bulk transfer.
        for lifetime_s in [1.0, f64::INFINITY] {
            let mut machine = Machine::new(0.058, 0.019, lifetime_s);
            let first = machine.run(60);
            let [Change::Fell(one), Change::Fell(two)] = changes(&first)[..] else {
                panic!("{first:?}")
            };
            assert!((0.31..0.32).contains(&one), "four fifths of 3 % are so much of 7.7 %: {one}");
            // Above the fixed part of 1.9 % there are 0.55 % up to the aim.
            assert!((0.09..0.1).contains(&two), "{two}");
            assert!(first[12..].iter().all(|(cost, _)| *cost <= LIMIT), "within some seconds");
            let hour = machine.run(3_600);
            assert_eq!(changes(&hour), []);
            assert!((0.8 * LIMIT..LIMIT).contains(&mean(&hour)), "{}", mean(&hour));
        }
    }

    #[test]
    fn the_mean_of_each_minute_is_within_the_budget_and_changes_are_few() {
        for lifetime_s in [1.0, 10.0, 60.0, 300.0, 3_600.0, f64::INFINITY] {
            for full in [0.02, 0.04, 0.06, 0.13, 0.5, 2.0] {
                for fixed in [0.0, 0.005, 0.01, 0.02, 0.026] {
                    let mut machine = Machine::new(full, fixed, lifetime_s);
                    machine.noise = 0.2;
                    let name = format!("{full} and {fixed}, {lifetime_s} s");
                    let first = machine.run(60);
                    let hours = machine.run(2 * 3_600);
                    for (minute, of_minute) in hours.chunks(60).enumerate() {
                        let mean = mean(of_minute);
                        assert!(mean <= LIMIT, "{name}: minute {minute} costs {mean}");
                    }
                    let all = [changes(&first), changes(&hours)].concat();
                    assert!(all.len() <= 16, "{name}: {all:?}");
                    let late = changes(&hours[3_600..]);
                    assert!(late.len() <= 4, "{name}: {late:?}");
                    let is_held = |change: &Change| !matches!(change, Change::CannotHold { .. });
                    assert!(all.iter().all(is_held), "{name}: {all:?}");
                }
            }
        }
    }

    #[test]
    fn a_budget_that_cannot_be_held_is_reported_once_and_soon() {
        for (full, fixed, seconds) in [(0.1, 0.05, 15), (0.5, 0.04, 15), (0.01, 0.032, 60)] {
            for lifetime_s in [1.0, f64::INFINITY] {
                let mut machine = Machine::new(full, fixed, lifetime_s);
                let run = machine.run(600);
                let reports =
                    run.iter().enumerate().filter_map(|(second, (_, change))| match change {
                        Some(Change::CannotHold { fixed, least }) => Some((second, *fixed, *least)),
                        _ => None,
                    });
                let reports: Vec<_> = reports.collect();
                let [(second, estimated, least)] = reports[..] else {
                    panic!("{reports:?}: {run:?}")
                };
                assert!(second <= seconds, "{full} and {fixed}: after {second} s");
                assert!(
                    (fixed * 0.95..fixed * 1.1).contains(&estimated),
                    "{estimated}, not {fixed}"
                );
                assert!((fixed * 1.05..fixed * 1.25).contains(&least), "{least} for {fixed}");
                assert_eq!(machine.budget.share().to_bits(), SHARE_MIN.to_bits());
                // With that budget it holds.
                let mut machine = Machine::new(full, fixed, lifetime_s);
                machine.budget = Budget::new(least);
                machine.run(60);
                assert!(mean(&machine.run(600)) <= least);
            }
        }
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
    fn a_cost_that_follows_a_rise_late_leads_to_few_changes_in_the_end() {
        for lifetime_s in [20.0, 60.0, 300.0] {
            let mut machine = Machine::new(0.5, 0.002, lifetime_s);
            machine.run(600);
            machine.full = 0.12;
            machine.run(3 * 3_600);
            let hour = machine.run(3_600);
            let falls = changes(&hour).iter().filter(|it| matches!(it, Change::Fell(_))).count();
            assert!(falls <= 1, "{lifetime_s} s: {:?}", changes(&hour));
            assert!(
                (0.4 * LIMIT..=LIMIT).contains(&mean(&hour)),
                "{lifetime_s} s: {}",
                mean(&hour)
            );
        }
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
