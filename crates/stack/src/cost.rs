//! Counts and costs of a host's work.
//!
//! State changes happen at once; their CPU time is charged here.
//! Times are nanoseconds of CPU time since the step began; costs per byte are picoseconds.

use sockscope_record::Point;

use crate::probe::{ProbeCosts, ProbeWork, Probes};
use crate::routine::{Routine, Work};

/// The cost of one call of a routine: linear in its [`Work`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cost {
    /// Each call, in nanoseconds.
    pub call_ns: u32,
    /// Each byte moved or summed, in picoseconds.
    pub byte_ps: u32,
    /// Each mbuf made, freed or handled, in nanoseconds.
    pub mbuf_ns: u32,
    /// Each mbuf or list entry walked past, in nanoseconds.
    pub walk_ns: u32,
}

impl Cost {
    /// Nanoseconds for `work`, the fixed cost of a call aside; fractions are rounded to nearest.
    pub fn of(&self, work: Work) -> u64 {
        let bytes_ps = u64::from(work.bytes) * u64::from(self.byte_ps);
        (bytes_ps + 500) / 1000
            + u64::from(work.mbufs) * u64::from(self.mbuf_ns)
            + u64::from(work.walked) * u64::from(self.walk_ns)
    }
}

/// The cost of every routine; all zero by default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Costs([Cost; Routine::COUNT]);

impl Default for Costs {
    fn default() -> Self {
        Self([Cost::default(); Routine::COUNT])
    }
}

impl Costs {
    /// The cost of `routine`.
    pub fn of(&self, routine: Routine) -> Cost {
        self.0[routine.index()]
    }

    /// From now on `routine` costs this.
    pub fn set(&mut self, routine: Routine, cost: Cost) {
        self.0[routine.index()] = cost;
    }
}

/// All the work of one routine so far, from which its cost can be fitted to measured times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WorkTotal {
    /// Bytes moved or summed.
    pub bytes: u64,
    /// Mbufs made, freed or otherwise handled.
    pub mbufs: u64,
    /// Mbufs or list entries walked past.
    pub walked: u64,
}

impl WorkTotal {
    fn add(&mut self, work: Work) {
        self.bytes += u64::from(work.bytes);
        self.mbufs += u64::from(work.mbufs);
        self.walked += u64::from(work.walked);
    }
}

/// One routine of a host: its costs, and the calls and work counted so far.
#[derive(Debug, Clone, Copy)]
struct Row {
    cost: Cost,
    /// Cost of counting one call, which a profiler adds to the routine's own.
    count_ns: u32,
    /// No call was made since other code filled the cache.
    is_cold: bool,
    calls: u64,
    /// CPU time charged to the routine itself.
    charged_ns: u64,
    total: WorkTotal,
}

impl Row {
    fn new(cost: Cost) -> Self {
        let total = WorkTotal::default();
        Self { cost, count_ns: 0, is_cold: false, calls: 0, charged_ns: 0, total }
    }

    /// Counts `calls` calls without work. Returns their cost, the profiler's included.
    fn count(&mut self, calls: u32) -> u64 {
        self.calls += u64::from(calls);
        self.charged_ns += u64::from(calls) * u64::from(self.cost.call_ns);
        u64::from(calls) * (u64::from(self.cost.call_ns) + u64::from(self.count_ns))
    }

    /// Adds work to a call that is counted already. Returns its cost.
    fn add(&mut self, work: Work) -> u64 {
        let ns = self.cost.of(work);
        self.total.add(work);
        self.charged_ns += ns;
        ns
    }

    /// The first call after other code filled the cache. Returns the cost of fetching code and tables
    /// anew: `percent` of the call's cost, its bytes excepted.
    fn miss(&mut self, work: Work, percent: u32) -> u64 {
        self.is_cold = false;
        let warm_ns = u64::from(self.cost.call_ns) + self.cost.of(Work { bytes: 0, ..work });
        let ns = warm_ns * u64::from(percent) / 100;
        self.charged_ns += ns;
        ns
    }
}

/// Counters of one host, and the CPU time of the step in progress.
#[derive(Debug)]
pub struct CostMeter {
    elapsed_ns: u64,
    /// `None` in a kernel without probes.
    probes: Option<Probes>,
    /// Cost of the cache misses of a routine's first call after other code filled the cache, in percent
    /// of its other costs.
    cache_miss_percent: u32,
    rows: [Row; Routine::COUNT],
}

impl Default for CostMeter {
    fn default() -> Self {
        Self::new(Costs::default())
    }
}

impl CostMeter {
    /// Nothing counted yet.
    pub fn new(Costs(costs): Costs) -> Self {
        Self { elapsed_ns: 0, probes: None, cache_miss_percent: 0, rows: costs.map(Row::new) }
    }

    /// Counting a call takes `count_ns` nanoseconds from now on, as under a profiler (`mcount`).
    /// Macros and assembler routines are not counted by one.
    pub fn profile(&mut self, count_ns: u32) {
        for routine in Routine::ALL.iter().filter(|routine| routine.is_profiled()) {
            self.rows[routine.index()].count_ns = count_ns;
        }
    }

    /// The kernel has the eight probes of the SunOS study from now on, with so many free records; `None`
    /// for a list without end. Idle ones test each packet and log none.
    pub fn add_probes(&mut self, costs: ProbeCosts, are_idle: bool, free: Option<u32>) {
        self.probes = Some(Probes::new(costs, are_idle, free));
    }

    /// So many records of the probes' list are free again.
    pub fn free_probe_records(&mut self, records: u32) {
        self.probes.iter_mut().for_each(|probes| probes.free(records));
    }

    /// Charges the probe of a point for a packet or a call that passes it, of a logged socket or not. The time of the
    /// record was noted before.
    pub fn charge_probe(&mut self, point: Point, is_logged: bool) {
        let probes = self.probes.as_mut();
        self.elapsed_ns += probes.map_or(0, |probes| probes.passed(point, is_logged));
    }

    /// The work of the probes since the meter was made.
    pub fn probe_work(&self) -> ProbeWork {
        self.probes.as_ref().map_or_else(ProbeWork::default, |probes| probes.work)
    }

    /// From now on a routine's first call after [`CostMeter::cache_filled`] costs `percent` more, its
    /// bytes excepted: its code and tables miss the cache.
    pub fn cache_miss(&mut self, percent: u32) {
        self.cache_miss_percent = percent;
    }

    /// A program has computed: part of the kernel's code and tables is no longer in the cache.
    pub fn cache_filled(&mut self) {
        let is_cold = self.cache_miss_percent > 0;
        self.rows.iter_mut().for_each(|row| row.is_cold = is_cold);
    }

    /// A new step begins: no time used.
    pub fn begin(&mut self) {
        self.elapsed_ns = 0;
    }

    /// Counts one call of `routine` and charges it with its work.
    pub fn call(&mut self, routine: Routine, work: Work) {
        let row = &mut self.rows[routine.index()];
        self.elapsed_ns += row.count(1) + row.add(work);
        if row.is_cold {
            self.elapsed_ns += row.miss(work, self.cache_miss_percent);
        }
    }

    /// Counts one call of each of `routines` and charges each with this work.
    pub fn call_each<const N: usize>(&mut self, routines: [Routine; N], work: Work) {
        for routine in routines {
            self.call(routine, work);
        }
    }

    /// Counts `times` calls of `routine` without any work, as [`CostMeter::call`] does.
    pub fn call_times(&mut self, routine: Routine, times: u32) {
        for _ in 0..times {
            self.call(routine, Work::NONE);
        }
    }

    /// Counts this many calls of `routine` without any work, of code that stays in the cache.
    pub fn calls_of(&mut self, routine: Routine, count: u32) {
        self.elapsed_ns += self.rows[routine.index()].count(count);
    }

    /// Charges more work to a call that is counted already.
    pub fn charge(&mut self, routine: Routine, work: Work) {
        self.elapsed_ns += self.rows[routine.index()].add(work);
    }

    /// CPU time used by the step in progress, in nanoseconds.
    pub fn elapsed_ns(&self) -> u64 {
        self.elapsed_ns
    }

    /// Calls of `routine` since the meter was made.
    pub fn calls(&self, routine: Routine) -> u64 {
        self.rows[routine.index()].calls
    }

    /// CPU time charged to `routine` itself since the meter was made, in nanoseconds.
    pub fn charged_ns(&self, routine: Routine) -> u64 {
        self.rows[routine.index()].charged_ns
    }

    /// The work of `routine` since the meter was made.
    pub fn work(&self, routine: Routine) -> WorkTotal {
        self.rows[routine.index()].total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_costs_its_fixed_part_and_its_work() {
        let mut costs = Costs::default();
        let cost = Cost { call_ns: 100, byte_ps: 1500, mbuf_ns: 20, walk_ns: 3 };
        costs.set(Routine::MCopy, cost);
        let mut meter = CostMeter::new(costs);
        meter.call(Routine::MCopy, Work { bytes: 3, mbufs: 2, walked: 10 });
        assert_eq!(meter.elapsed_ns(), 100 + 5 + 40 + 30, "4.5 ns of bytes round to 5");
        meter.call(Routine::MGet, Work::mbufs(7));
        assert_eq!(meter.elapsed_ns(), 175, "what has no cost takes no time");
        assert_eq!((meter.calls(Routine::MCopy), meter.charged_ns(Routine::MCopy)), (1, 175));
        let total = WorkTotal { bytes: 3, mbufs: 2, walked: 10 };
        assert_eq!(meter.work(Routine::MCopy), total);
    }

    #[test]
    fn a_profiler_takes_its_time_for_each_function() {
        let mut meter = CostMeter::default();
        meter.profile(7);
        meter.call(Routine::MCopy, Work::NONE);
        meter.calls_of(Routine::InLnaof, 2);
        meter.call(Routine::MgetMacro, Work::NONE);
        meter.charge(Routine::MCopy, Work::bytes(3));
        assert_eq!((meter.elapsed_ns(), meter.charged_ns(Routine::MCopy)), (21, 0));
    }

    #[test]
    fn the_first_call_after_a_computation_finds_a_part_of_the_cache_gone() {
        let mut costs = Costs::default();
        let cost = Cost { call_ns: 100, mbuf_ns: 50, byte_ps: 1000, walk_ns: 0 };
        costs.set(Routine::Ipintr, cost);
        let mut meter = CostMeter::new(costs);
        meter.cache_miss(12);
        let call = |meter: &mut CostMeter| {
            meter.begin();
            meter.call(Routine::Ipintr, Work { mbufs: 2, bytes: 10, walked: 0 });
            meter.elapsed_ns()
        };
        assert_eq!(call(&mut meter), 210);
        meter.cache_filled();
        assert_eq!((call(&mut meter), call(&mut meter)), (234, 210));
    }
}
