//! The time of the probes that the SunOS study put into its kernel (its §3.3.2 and Figure 8).
//!
//! Each packet that passes a probe is tested for the mark of a logged socket. For a marked one the
//! probe masks the devices, looks for a free record, takes the time, and fills the record in.

use sockscope_record::{Point, PointCost};

/// Costs of one probe by its parts, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProbeCosts {
    /// The test whether a socket or a packet is marked.
    pub test_ns: u32,
    /// Devices masked, the next record looked at, devices unmasked.
    pub mask_ns: u32,
    /// The time taken (`uniqtime`).
    pub time_ns: u32,
    /// Length and type written, the length perhaps added up along a chain.
    pub store_ns: u32,
}

/// Passages through probes since the start, and the CPU time of each of the study's three kinds of
/// overhead.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ProbeWork {
    /// Passages, of logged sockets or not.
    pub tests: u64,
    /// Passages for which a probe looked for a free record.
    pub logged: u64,
    /// Records filled in.
    pub stored: u64,
    /// Activation: the tests.
    pub test_ns: u64,
    /// Execution: masking, and taking the time.
    pub execution_ns: u64,
    /// Storing: records filled in.
    pub store_ns: u64,
    /// Passages and CPU time by point, in the order of `Point::ALL`. A call to write counts as point 1.
    pub points: [PointCost; 8],
}

impl ProbeWork {
    /// CPU time of all probes.
    pub fn total_ns(&self) -> u64 {
        self.test_ns + self.execution_ns + self.store_ns
    }
}

/// The probes of one host's kernel.
#[derive(Debug, Default)]
pub(crate) struct Probes {
    costs: ProbeCosts,
    /// No socket is marked for them: they test and go on.
    is_idle: bool,
    /// Free records of their list; `None` for a list without end.
    free: Option<u32>,
    pub(crate) work: ProbeWork,
}

impl Probes {
    pub(crate) fn new(costs: ProbeCosts, is_idle: bool, free: Option<u32>) -> Self {
        Self { costs, is_idle, free, ..Self::default() }
    }

    /// So many records of the list are free again.
    pub(crate) fn free(&mut self, records: u32) {
        self.free = self.free.map(|free| free.saturating_add(records));
    }

    /// Takes a free record, if there is one.
    fn take_record(&mut self) -> bool {
        let has_one = self.free != Some(0);
        self.free = self.free.map(|free| free.saturating_sub(1));
        has_one
    }

    /// A packet or a call passes a probe. Returns the CPU time that it takes.
    pub(crate) fn passed(&mut self, point: Point, is_logged: bool) -> u64 {
        let ProbeCosts { test_ns, mask_ns, time_ns, store_ns } = self.costs;
        let looks = is_logged && !self.is_idle;
        let stores = looks && self.take_record();
        let part = |does: bool, ns: u32| if does { u64::from(ns) } else { 0 };
        let execution_ns = part(looks, mask_ns) + part(stores, time_ns);
        let store_ns = part(stores, store_ns);
        self.work.tests += 1;
        self.work.logged += u64::from(looks);
        self.work.stored += u64::from(stores);
        self.work.test_ns += u64::from(test_ns);
        self.work.execution_ns += execution_ns;
        self.work.store_ns += store_ns;
        let all_ns = u64::from(test_ns) + execution_ns + store_ns;
        let cost = &mut self.work.points[point.index()];
        cost.hits += 1;
        cost.run_ns += all_ns;
        all_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IN: Point = Point::InputEnqueue;
    const OUT: Point = Point::SendEnqueue;
    const COSTS: ProbeCosts = ProbeCosts { test_ns: 1, mask_ns: 10, time_ns: 100, store_ns: 1000 };

    #[test]
    fn a_probe_takes_the_time_of_the_parts_that_it_carries_out() {
        let mut probes = Probes::new(COSTS, false, Some(1));
        assert_eq!([probes.passed(IN, false), probes.passed(OUT, true)], [1, 1111]);
        assert_eq!(probes.passed(OUT, true), 11, "it tests and looks, and finds no record");
        probes.free(1);
        assert_eq!(probes.passed(OUT, true), 1111);
        let work = probes.work;
        assert_eq!((work.tests, work.logged, work.stored), (4, 3, 2));
        assert_eq!((work.test_ns, work.execution_ns, work.store_ns), (4, 230, 2000));
        assert_eq!(work.total_ns(), 1 + 1111 + 11 + 1111);
        let costs = [IN, OUT].map(|point| work.points[point.index()]);
        assert_eq!(costs.map(|cost| (cost.hits, cost.run_ns)), [(1, 1), (3, 2233)]);
    }

    #[test]
    fn idle_probes_test_alone() {
        let mut probes = Probes::new(COSTS, true, None);
        assert_eq!((probes.passed(IN, true), probes.work.logged), (1, 0));
    }
}
