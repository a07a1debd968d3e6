//! Counts and costs of what a host does.
//!
//! State changes happen at once; the CPU time that they take is charged here.
//! Times are nanoseconds of CPU time since the step began; costs per byte are picoseconds.

use crate::routine::{Routine, Work};

/// What one call of a routine costs: linear in its [`Work`].
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
    #[must_use]
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
    /// What `routine` costs.
    #[must_use]
    pub fn of(&self, routine: Routine) -> Cost {
        self.0[routine.index()]
    }

    /// From now on `routine` costs this.
    pub fn set(&mut self, routine: Routine, cost: Cost) {
        self.0[routine.index()] = cost;
    }
}

/// Counters of one host, and the CPU time of the step in progress.
// In this order short instructions reach what every call touches; without it the order is free.
#[derive(Debug)]
#[repr(C)]
pub struct CostMeter {
    elapsed_ns: u64,
    /// What a probe in the kernel takes for each record.
    probe_ns: u32,
    /// Cost of the cache misses of a routine's first call after other code filled the cache, in percent
    /// of its other costs.
    cache_miss_percent: u32,
    rows: [Row; Routine::COUNT],
    costs: Costs,
}

/// Added to what a routine takes while no call of it was made since other code has filled the cache.
/// It is -2<sup>60</sup> as a signed number: that there is more to charge shows in the sign of the time
/// used, without a look at anything else.
const COLD_NS: u64 = 0xF << 60;

/// Whether a time has [`COLD_NS`] in it, up to eight times.
fn is_cold(ns: u64) -> bool {
    (ns as i64) < 0
}

/// What each call of one routine needs, together in one line of the cache.
#[derive(Debug, Clone, Copy, Default)]
#[repr(align(64))]
struct Row {
    calls: u64,
    /// What a call without work takes of the CPU: its cost, and what counting it takes beside the
    /// routine's own time. And [`COLD_NS`].
    bare_ns: u64,
    byte: ByteCost,
    mbuf_ns: u32,
    walk_ns: u32,
    /// Charged up to now for bytes, each call's rounded, and for what the cache had lost.
    uneven_ns: u64,
    total: WorkTotal,
}

const _: () = assert!(size_of::<Row>() == 64, "one line of the cache");

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

impl Row {
    fn new(cost: Cost) -> Self {
        let Cost { call_ns, byte_ps, mbuf_ns, walk_ns } = cost;
        let bare_ns = u64::from(call_ns);
        Self { bare_ns, byte: ByteCost::new(byte_ps), mbuf_ns, walk_ns, ..Self::default() }
    }

    /// What `work` costs, as [`Cost::of`]. Parts of it that are 0 where the call is written leave no
    /// code.
    fn add(&mut self, work: Work) -> u64 {
        self.total.add(work);
        let bytes_ns = self.byte.of(work.bytes);
        self.uneven_ns += bytes_ns;
        bytes_ns
            + u64::from(work.mbufs) * u64::from(self.mbuf_ns)
            + u64::from(work.walked) * u64::from(self.walk_ns)
    }

    /// Charged for all work up to now.
    fn work_ns(&self) -> u64 {
        self.uneven_ns
            + self.total.mbufs * u64::from(self.mbuf_ns)
            + self.total.walked * u64::from(self.walk_ns)
    }
}

/// What a byte costs, in 2<sup>-40</sup> nanoseconds, rounded up: a product and two shifts then give
/// what a division of picoseconds would.
#[derive(Debug, Clone, Copy, Default)]
struct ByteCost(u64);

impl ByteCost {
    /// Of fewer bytes the cost is exact: what was rounded up stays below a picosecond in all.
    const BYTES_END: u32 = 1 << 30;

    fn new(byte_ps: u32) -> Self {
        Self((u128::from(byte_ps) << 40).div_ceil(1000) as u64)
    }

    /// Nanoseconds for so many bytes, rounded to nearest.
    fn of(self, bytes: u32) -> u64 {
        debug_assert!(bytes < Self::BYTES_END);
        let ns = u128::from(u64::from(bytes) << 24) * u128::from(self.0);
        (ns >> 64) as u64 + (ns as u64 >> 63)
    }
}

impl WorkTotal {
    fn add(&mut self, work: Work) {
        self.bytes += u64::from(work.bytes);
        self.mbufs += u64::from(work.mbufs);
        self.walked += u64::from(work.walked);
    }
}

impl Default for CostMeter {
    fn default() -> Self {
        Self::new(Costs::default())
    }
}

impl CostMeter {
    /// Nothing counted yet.
    #[must_use]
    pub fn new(costs: Costs) -> Self {
        Self {
            elapsed_ns: 0,
            probe_ns: 0,
            cache_miss_percent: 0,
            rows: costs.0.map(Row::new),
            costs,
        }
    }

    /// Counting a call takes `count_ns` nanoseconds from now on, as under a profiler (`mcount`).
    /// Macros and assembler routines are not counted by one.
    pub fn profile(&mut self, count_ns: u32) {
        for routine in Routine::ALL.iter().filter(|routine| routine.is_profiled()) {
            let call_ns = self.costs.of(*routine).call_ns;
            self.rows[routine.index()].bare_ns = u64::from(call_ns) + u64::from(count_ns);
        }
    }

    /// Each record of the eight probes takes `probe_ns` nanoseconds from now on, after its time was
    /// noted.
    pub fn probe(&mut self, probe_ns: u32) {
        self.probe_ns = probe_ns;
    }

    /// Charges a probe for a record that it makes outside [`Meter::effect`](crate::Meter::effect).
    pub fn charge_probe(&mut self) {
        self.elapsed_ns += u64::from(self.probe_ns);
    }

    /// From now on a routine's first call after [`CostMeter::cache_filled`] costs `percent` more, its
    /// bytes excepted: its code and tables miss the cache.
    pub fn cache_miss(&mut self, percent: u32) {
        self.cache_miss_percent = percent;
    }

    /// A program has computed: part of what the kernel had in the cache is gone.
    pub fn cache_filled(&mut self) {
        if self.cache_miss_percent > 0 {
            self.rows.iter_mut().for_each(|row| row.bare_ns |= COLD_NS);
        }
    }

    /// A new step begins: no time used.
    pub fn begin(&mut self) {
        self.elapsed_ns = 0;
    }

    /// What a probe in the kernel takes for each record, in nanoseconds.
    pub(crate) fn probe_ns(&self) -> u32 {
        self.probe_ns
    }

    /// Counts one call of `routine` and charges it with its work.
    pub fn call(&mut self, routine: Routine, work: Work) {
        let row = &mut self.rows[routine.index()];
        row.calls += 1;
        let ns = row.bare_ns.wrapping_add(row.add(work));
        self.elapsed_ns = self.elapsed_ns.wrapping_add(ns);
        if is_cold(self.elapsed_ns) {
            self.miss_call(routine, work.mbufs, work.walked);
        }
    }

    /// Counts one call of each of `routines` and charges each with this work: one after the other
    /// with no effect in between, so that they are looked at together.
    pub fn call_each<const N: usize>(&mut self, routines: [Routine; N], work: Work) {
        const { assert!(N <= 8, "more of them may add up to a time that is not negative") };
        for routine in routines {
            let row = &mut self.rows[routine.index()];
            row.calls += 1;
            let ns = row.bare_ns.wrapping_add(row.add(work));
            self.elapsed_ns = self.elapsed_ns.wrapping_add(ns);
        }
        if is_cold(self.elapsed_ns) {
            self.miss_each(&routines, work.mbufs, work.walked);
        }
    }

    /// Counts `times` calls of `routine` without any work, at least one, as [`CostMeter::call`] does.
    pub fn call_times(&mut self, routine: Routine, times: u32) {
        let row = &mut self.rows[routine.index()];
        row.calls += u64::from(times);
        let again_ns = (row.bare_ns & !COLD_NS) * u64::from(times - 1);
        self.elapsed_ns = self.elapsed_ns.wrapping_add(row.bare_ns.wrapping_add(again_ns));
        if is_cold(self.elapsed_ns) {
            self.miss_call(routine, 0, 0);
        }
    }

    fn miss_each(&mut self, routines: &[Routine], mbufs: u32, walked: u32) {
        for routine in routines {
            if is_cold(self.rows[routine.index()].bare_ns) {
                self.miss_call(*routine, mbufs, walked);
            }
        }
    }

    /// What fetching code and tables anew takes of a call: a share of all but its bytes.
    fn miss_call(&mut self, routine: Routine, mbufs: u32, walked: u32) {
        let work = Work { bytes: 0, mbufs, walked };
        let cost = self.costs.of(routine);
        let warm_ns = u64::from(cost.call_ns) + cost.of(work);
        let ns = warm_ns * u64::from(self.cache_miss_percent) / 100;
        let row = &mut self.rows[routine.index()];
        row.bare_ns &= !COLD_NS;
        row.uneven_ns += ns;
        self.elapsed_ns = self.elapsed_ns.wrapping_sub(COLD_NS).wrapping_add(ns);
    }

    /// Counts this many calls of `routine` without any work.
    pub fn calls_of(&mut self, routine: Routine, count: u32) {
        let row = &mut self.rows[routine.index()];
        row.calls += u64::from(count);
        self.elapsed_ns += (row.bare_ns & !COLD_NS) * u64::from(count);
    }

    /// Charges more work to a call that is counted already.
    pub fn charge(&mut self, routine: Routine, work: Work) {
        let row = &mut self.rows[routine.index()];
        self.elapsed_ns += row.add(work);
    }

    /// CPU time used by the step in progress, in nanoseconds.
    #[must_use]
    pub fn elapsed_ns(&self) -> u64 {
        self.elapsed_ns
    }

    /// How often `routine` was called since the meter was made.
    #[must_use]
    pub fn calls(&self, routine: Routine) -> u64 {
        self.rows[routine.index()].calls
    }

    /// CPU time charged to `routine` itself since the meter was made, in nanoseconds.
    #[must_use]
    pub fn charged_ns(&self, routine: Routine) -> u64 {
        let row = &self.rows[routine.index()];
        row.calls * u64::from(self.costs.of(routine).call_ns) + row.work_ns()
    }

    /// The work of `routine` since the meter was made.
    #[must_use]
    pub fn work(&self, routine: Routine) -> WorkTotal {
        self.rows[routine.index()].total
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_byte_cost_gives_what_a_division_gives(
            byte_ps in any::<u32>(),
            bytes in 0..ByteCost::BYTES_END,
            short in 0..70_000_u32,
        ) {
            for (bytes, byte_ps) in [(bytes, byte_ps), (short, byte_ps), (short, byte_ps >> 12)] {
                let cost = Cost { byte_ps, ..Cost::default() };
                let work = Work { bytes, ..Work::NONE };
                prop_assert_eq!(ByteCost::new(byte_ps).of(bytes), cost.of(work));
            }
        }
    }

    #[test]
    fn a_byte_cost_is_exact_where_its_rounding_shows_most() {
        for byte_ps in [1, 3, 7, 499, 500, 501, 999, 63_476, 126_953, u32::MAX] {
            for bytes in (0..2000).chain(ByteCost::BYTES_END - 2000..ByteCost::BYTES_END) {
                let cost = Cost { byte_ps, ..Cost::default() };
                let work = Work { bytes, ..Work::NONE };
                assert_eq!(ByteCost::new(byte_ps).of(bytes), cost.of(work), "{bytes} at {byte_ps}");
            }
        }
    }

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
