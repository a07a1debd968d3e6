//! Counts and costs of what a host does, and the effects of the present step.
//!
//! State changes happen at once; the CPU time that they take is charged here. A step's effects
//! stand in order, each with the CPU time that the step had used when it happened, so that the
//! caller can let them happen in virtual time and let interrupts come in between.
//! Times are nanoseconds of CPU time since the step began; costs per byte are picoseconds.

use sockscope_record::{Kind, Record};

use crate::packet::Packet;
use crate::routine::{Routine, Work};
use crate::socket::SocketId;

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
    #[inline]
    pub fn of(&self, routine: Routine) -> Cost {
        self.0[routine.index()]
    }

    /// From now on `routine` costs this.
    pub fn set(&mut self, routine: Routine, cost: Cost) {
        self.0[routine.index()] = cost;
    }
}

/// What a process sleeps on and a wake-up names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Channel {
    /// Data, the end of the stream or an error in the receive buffer; also a connection to accept.
    Readable(SocketId),
    /// Space in the send buffer, or an error.
    Writable(SocketId),
    /// The connection was made or failed.
    Connection(SocketId),
    /// The send buffer is no longer locked by another writer.
    SendLock(SocketId),
    /// The receive buffer is no longer locked by another reader.
    ReceiveLock(SocketId),
}

/// Something that happens outside the step that caused it.
#[derive(Debug)]
pub enum Effect {
    /// One observation; its time, CPU and thread are left for the caller to fill in.
    Observed(Record),
    /// A packet for `Stack::interface_enqueue` of this interface.
    Output {
        /// Index of the interface.
        interface: u8,
        /// Link header included.
        packet: Packet,
    },
    /// A packet for `Stack::loopback_input`.
    LoopbackInput {
        /// Index of the loopback interface.
        interface: u8,
        /// The packet, from its IP header on.
        packet: Packet,
    },
    /// Whoever sleeps on this runs again.
    Wakeup(Channel),
    /// `Stack::ip_input_step` has work.
    SoftInterrupt,
}

impl Effect {
    /// Whether one of the probes of the SunOS study makes this record (its §3.3.1): the first sees the
    /// call to write, the second data on their way to the protocol. The host makes the other records.
    fn is_of_a_probe(&self) -> bool {
        let Self::Observed(record) = self else { return false };
        use Kind::{InputEnqueue, ReceiveDequeue, ReceiveEnqueue, SendEnqueue, WriteCall};
        let probed = [WriteCall, SendEnqueue, InputEnqueue, ReceiveEnqueue, ReceiveDequeue];
        probed.contains(&record.kind)
    }
}

/// Counters of one host and the effects of the step in progress.
// In this order short instructions reach what every call touches; without it the order is free.
#[derive(Debug)]
#[repr(C)]
pub struct Meter {
    elapsed_ns: u64,
    /// What a probe in the kernel takes for each record.
    probe_ns: u32,
    /// What a routine's first call takes more when other code has filled the cache, in percent.
    refill_percent: u32,
    effects: Vec<(u64, Effect)>,
    rows: [Row; Routine::COUNT],
    costs: Costs,
}

/// Added to what a routine takes while no call of it was made since other code has filled the cache.
/// It is -2<sup>60</sup> as a signed number: that there is more to charge shows in the sign of the time
/// used, without a look at anything else.
const COLD_NS: u64 = 0xF << 60;

/// Whether a time has [`COLD_NS`] in it, up to eight times.
#[inline]
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
    #[inline]
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
    #[inline]
    fn of(self, bytes: u32) -> u64 {
        debug_assert!(bytes < Self::BYTES_END);
        let ns = u128::from(u64::from(bytes) << 24) * u128::from(self.0);
        (ns >> 64) as u64 + (ns as u64 >> 63)
    }
}

impl WorkTotal {
    #[inline]
    fn add(&mut self, work: Work) {
        self.bytes += u64::from(work.bytes);
        self.mbufs += u64::from(work.mbufs);
        self.walked += u64::from(work.walked);
    }
}

impl Default for Meter {
    fn default() -> Self {
        Self::new(Costs::default())
    }
}

impl Meter {
    /// Nothing counted yet.
    #[must_use]
    pub fn new(costs: Costs) -> Self {
        Self {
            elapsed_ns: 0,
            probe_ns: 0,
            refill_percent: 0,
            effects: Vec::new(),
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

    /// A probe makes a record of its own, not by [`Meter::effect`].
    #[inline]
    pub fn probed(&mut self) {
        self.elapsed_ns += u64::from(self.probe_ns);
    }

    /// A routine's first call after [`Meter::cache_filled`] takes `percent` of its cost more, what
    /// its bytes cost aside.
    pub fn refill(&mut self, percent: u32) {
        self.refill_percent = percent;
    }

    /// A program has computed: part of what the kernel had in the cache is gone.
    #[inline]
    pub fn cache_filled(&mut self) {
        if self.refill_percent > 0 {
            self.rows.iter_mut().for_each(|row| row.bare_ns |= COLD_NS);
        }
    }

    /// A new step begins: no time used, no effects.
    ///
    /// Take the effects of the step before with [`Meter::take_effects`] first: packets in them
    /// would be lost to their pool.
    #[inline]
    pub fn begin(&mut self) {
        debug_assert!(self.effects.is_empty(), "effects of the last step were not taken");
        self.elapsed_ns = 0;
        self.effects.clear();
    }

    /// Counts one call of `routine` and charges it with its work.
    #[inline]
    pub fn call(&mut self, routine: Routine, work: Work) {
        let row = &mut self.rows[routine.index()];
        row.calls += 1;
        let ns = row.bare_ns.wrapping_add(row.add(work));
        self.elapsed_ns = self.elapsed_ns.wrapping_add(ns);
        if is_cold(self.elapsed_ns) {
            self.refill_call(routine, work.mbufs, work.walked);
        }
    }

    /// Counts one call of each of `routines` and charges each with this work: one after the other
    /// with no effect in between, so that they are looked at together.
    #[inline(always)]
    pub fn call_each<const N: usize>(&mut self, routines: [Routine; N], work: Work) {
        const { assert!(N <= 8, "more of them may add up to a time that is not negative") };
        for routine in routines {
            let row = &mut self.rows[routine.index()];
            row.calls += 1;
            let ns = row.bare_ns.wrapping_add(row.add(work));
            self.elapsed_ns = self.elapsed_ns.wrapping_add(ns);
        }
        if is_cold(self.elapsed_ns) {
            self.refill_each(&routines, work.mbufs, work.walked);
        }
    }

    /// Counts `times` calls of `routine` without any work, at least one, as [`Meter::call`] does.
    #[inline]
    pub fn call_times(&mut self, routine: Routine, times: u32) {
        let row = &mut self.rows[routine.index()];
        row.calls += u64::from(times);
        let again_ns = (row.bare_ns & !COLD_NS) * u64::from(times - 1);
        self.elapsed_ns = self.elapsed_ns.wrapping_add(row.bare_ns.wrapping_add(again_ns));
        if is_cold(self.elapsed_ns) {
            self.refill_call(routine, 0, 0);
        }
    }

    #[cold]
    #[inline(never)]
    fn refill_each(&mut self, routines: &[Routine], mbufs: u32, walked: u32) {
        for routine in routines {
            if is_cold(self.rows[routine.index()].bare_ns) {
                self.refill_call(*routine, mbufs, walked);
            }
        }
    }

    /// What fetching code and tables anew takes of a call: a share of all but its bytes.
    #[cold]
    #[inline(never)]
    fn refill_call(&mut self, routine: Routine, mbufs: u32, walked: u32) {
        let work = Work { bytes: 0, mbufs, walked };
        let cost = self.costs.of(routine);
        let warm_ns = u64::from(cost.call_ns) + cost.of(work);
        let ns = warm_ns * u64::from(self.refill_percent) / 100;
        let row = &mut self.rows[routine.index()];
        row.bare_ns &= !COLD_NS;
        row.uneven_ns += ns;
        self.elapsed_ns = self.elapsed_ns.wrapping_sub(COLD_NS).wrapping_add(ns);
    }

    /// Counts this many calls of `routine` without any work.
    #[inline]
    pub fn calls_of(&mut self, routine: Routine, count: u32) {
        let row = &mut self.rows[routine.index()];
        row.calls += u64::from(count);
        self.elapsed_ns += (row.bare_ns & !COLD_NS) * u64::from(count);
    }

    /// Charges more work to a call that is counted already.
    #[inline]
    pub fn charge(&mut self, routine: Routine, work: Work) {
        let row = &mut self.rows[routine.index()];
        self.elapsed_ns += row.add(work);
    }

    /// Notes that `effect` happens when the CPU has come this far.
    #[inline]
    pub fn effect(&mut self, effect: Effect) {
        self.effects.push((self.elapsed_ns, effect));
        if self.probe_ns > 0 {
            self.probe_effect();
        }
    }

    /// A probe may have made the last effect.
    #[cold]
    fn probe_effect(&mut self) {
        if self.effects.last().is_some_and(|(_, effect)| effect.is_of_a_probe()) {
            self.probed();
        }
    }

    /// Notes that `effect` happens when the CPU has come to `at_ns` of the step, which is not before
    /// the effects noted up to now.
    #[inline]
    pub fn effect_at(&mut self, at_ns: u64, effect: Effect) {
        self.effects.push((at_ns, effect));
    }

    /// CPU time used by the step in progress, in nanoseconds.
    #[must_use]
    #[inline]
    pub fn elapsed_ns(&self) -> u64 {
        self.elapsed_ns
    }

    /// Effects of the step in progress, each with the CPU time at which it happens.
    #[must_use]
    #[inline]
    pub fn effects(&self) -> &[(u64, Effect)] {
        &self.effects
    }

    /// Takes the effects of the step, in order; the memory is kept for reuse.
    pub fn drain_effects(&mut self) -> std::vec::Drain<'_, (u64, Effect)> {
        self.effects.drain(..)
    }

    /// Moves the effects of the step to the end of `into`; the memory of both is kept for reuse.
    #[inline]
    pub fn take_effects(&mut self, into: &mut Vec<(u64, Effect)>) {
        if into.is_empty() {
            std::mem::swap(into, &mut self.effects);
        } else {
            into.append(&mut self.effects);
        }
    }

    /// The effects of the step change places with those of an earlier one, which are not needed any
    /// more.
    #[inline]
    pub fn exchange_effects(&mut self, with: &mut Vec<(u64, Effect)>) {
        with.clear();
        std::mem::swap(with, &mut self.effects);
    }

    /// How often `routine` was called since the meter was made.
    #[must_use]
    #[inline]
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
        let mut meter = Meter::new(costs);
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
        let mut meter = Meter::default();
        meter.profile(7);
        meter.call(Routine::MCopy, Work::NONE);
        meter.calls_of(Routine::InLnaof, 2);
        meter.call(Routine::MgetMacro, Work::NONE);
        meter.charge(Routine::MCopy, Work::bytes(3));
        assert_eq!((meter.elapsed_ns(), meter.charged_ns(Routine::MCopy)), (21, 0));
    }

    #[test]
    fn a_probe_takes_its_time_after_it_noted_when() {
        let mut meter = Meter::default();
        meter.probe(9);
        let seen = |kind| Effect::Observed(Record { kind, ..Record::default() });
        meter.effect(seen(Kind::WriteCall));
        meter.effect(seen(Kind::ReceiveEnqueue));
        meter.effect(seen(Kind::ReadReturn));
        meter.effect(Effect::SoftInterrupt);
        meter.probed();
        let at_ns = meter.effects().iter().map(|(ns, _)| *ns).collect::<Vec<_>>();
        assert_eq!(
            (at_ns, meter.elapsed_ns()),
            (vec![0, 9, 18, 18], 27),
            "two probes and one more"
        );
        meter.drain_effects();
    }

    #[test]
    fn the_first_call_after_a_computation_finds_a_part_of_the_cache_gone() {
        let mut costs = Costs::default();
        let cost = Cost { call_ns: 100, mbuf_ns: 50, byte_ps: 1000, walk_ns: 0 };
        costs.set(Routine::Ipintr, cost);
        let mut meter = Meter::new(costs);
        meter.refill(12);
        let call = |meter: &mut Meter| {
            meter.begin();
            meter.call(Routine::Ipintr, Work { mbufs: 2, bytes: 10, walked: 0 });
            meter.elapsed_ns()
        };
        assert_eq!(call(&mut meter), 210);
        meter.cache_filled();
        assert_eq!((call(&mut meter), call(&mut meter)), (234, 210));
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
