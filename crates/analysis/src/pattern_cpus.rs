//! Which thread had a CPU between two calls of another one.
//!
//! Two programs on one CPU take turns. The time between two calls of one then has the other one's work in it, which is not
//! its own. The records of calls have the CPU: a record of another thread there shows that it ran.

use std::collections::HashMap;

use sockscope_record::{Kind, Record};

/// A switch from one thread to another takes some microseconds, which are no program's own. After a write that woke its
/// reader on the same CPU, the reader ran 1.8 to 1.9 us after the return of the write.
const SWITCH_NS: u64 = 1_900;

/// A thread on a CPU.
#[derive(Debug, Clone, Copy)]
struct OnCpu {
    at_ns: u64,
    thread: u32,
    /// It began to run here.
    is_first: bool,
}

/// The threads of some connections on their CPUs.
#[derive(Debug, Default)]
pub struct CallCpus {
    /// Of each CPU, by time.
    threads: HashMap<u16, Vec<OnCpu>>,
    /// Of each thread the time and the CPU of its records, by time.
    cpus: HashMap<u32, Vec<(u64, u16)>>,
    /// When each thread was woken, by time.
    wakeups: HashMap<u32, Vec<u64>>,
}

impl CallCpus {
    /// From the records of the connections, in any order.
    pub fn of<'a>(records: impl IntoIterator<Item = &'a Record>) -> Self {
        let mut found = Self::default();
        records.into_iter().for_each(|record| found.add(record));
        found.finish();
        found
    }

    /// Takes a record. Those count that a thread makes in a call of its own, and those that say when it began to run.
    pub fn add(&mut self, record: &Record) {
        if record.kind == Kind::Wakeup {
            self.wakeups.entry(record.thread).or_default().push(record.at_ns);
        }
        let is_of_call = matches!(
            record.kind,
            Kind::WriteCall
                | Kind::SendEnqueue
                | Kind::WriteReturn
                | Kind::ReceiveDequeue
                | Kind::ReadReturn
                | Kind::Run
        );
        if is_of_call && record.thread != 0 {
            let Record { at_ns, thread, cpu, .. } = *record;
            let is_first = record.kind == Kind::Run;
            self.threads.entry(cpu).or_default().push(OnCpu { at_ns, thread, is_first });
            self.cpus.entry(thread).or_default().push((at_ns, cpu));
        }
    }

    /// Puts the records in order, after the last one.
    pub fn finish(&mut self) {
        // It runs before it reads, also where both have one time.
        let order = |seen: &OnCpu| (seen.at_ns, seen.thread, !seen.is_first);
        self.threads.values_mut().for_each(|seen| seen.sort_unstable_by_key(order));
        self.cpus.values_mut().for_each(|seen| seen.sort_unstable());
        self.wakeups.values_mut().for_each(|times| times.sort_unstable());
    }

    /// The last time at which another thread was seen on the CPU of this one, after `since_ns` and before `until_ns`. `None`
    /// where there is no such time, or where the thread was on several CPUs.
    pub fn last_other_ns(&self, thread: u32, since_ns: u64, until_ns: u64) -> Option<u64> {
        let cpu = self.cpu_at(thread, since_ns)?;
        let own = self.cpus.get(&thread)?;
        let after = own.partition_point(|(at_ns, _)| *at_ns < until_ns);
        if own.get(after)?.1 != cpu {
            return None;
        }
        let others = self.between(cpu, since_ns, until_ns).iter().rev();
        others.into_iter().find(|seen| seen.thread != thread).map(|seen| seen.at_ns)
    }

    /// The time from `since_ns` on in which the thread kept its CPU, where another one waited for the CPU and then had it
    /// before `until_ns`: then the thread waited itself. `None` where no other one shows it.
    pub fn kept_ns(&self, thread: u32, since_ns: u64, until_ns: u64) -> Option<u64> {
        let cpu = self.cpu_at(thread, since_ns)?;
        let next = self.between(cpu, since_ns, until_ns).first()?;
        if next.thread == thread || !next.is_first {
            return None;
        }
        let wakeups = self.wakeups.get(&next.thread)?;
        let last = wakeups.partition_point(|at_ns| *at_ns <= next.at_ns).checked_sub(1)?;
        let waited = wakeups[last] <= since_ns;
        waited.then(|| (next.at_ns - since_ns).saturating_sub(SWITCH_NS))
    }

    /// The CPU of the last record of the thread up to this time.
    fn cpu_at(&self, thread: u32, at_ns: u64) -> Option<u16> {
        let own = self.cpus.get(&thread)?;
        let before = own.partition_point(|(own_ns, _)| *own_ns <= at_ns).checked_sub(1)?;
        Some(own[before].1)
    }

    /// The threads on a CPU between these times.
    fn between(&self, cpu: u16, since_ns: u64, until_ns: u64) -> &[OnCpu] {
        let Some(seen) = self.threads.get(&cpu) else { return &[] };
        let first = seen.partition_point(|seen| seen.at_ns <= since_ns);
        let end = seen.partition_point(|seen| seen.at_ns < until_ns);
        &seen[first..end.max(first)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records from text: `10@0/1` is one of thread 1 on CPU 0 at 10 ns.
    fn cpus(text: &str) -> CallCpus {
        let number = |text: &str| text.parse::<u64>().unwrap();
        let record = |word: &str| {
            let (at, place) = word.split_once('@').unwrap();
            let (cpu, thread) = place.split_once('/').unwrap();
            Record {
                kind: Kind::ReadReturn,
                at_ns: number(at),
                cpu: number(cpu) as u16,
                thread: number(thread) as u32,
                ..Record::default()
            }
        };
        CallCpus::of(&text.split_whitespace().map(record).collect::<Vec<_>>())
    }

    #[test]
    fn another_thread_on_the_same_cpu_is_seen() {
        let cpus = cpus("10@0/1 12@0/2 15@0/2 16@1/3 20@0/1 30@0/1 35@0/2");
        assert_eq!(cpus.last_other_ns(1, 10, 20), Some(15));
        assert_eq!(cpus.last_other_ns(1, 20, 30), None);
        assert_eq!(cpus.last_other_ns(9, 10, 20), None);
    }

    #[test]
    fn a_thread_that_moved_to_another_cpu_may_have_run_at_any_time() {
        let cpus = cpus("10@0/1 12@0/2 20@1/1");
        assert_eq!(cpus.last_other_ns(1, 10, 20), None);
    }

    #[test]
    fn a_thread_that_another_one_waited_for_kept_the_cpu_until_that_one_ran() {
        let record = |kind, at_ns, thread| Record { kind, at_ns, thread, ..Record::default() };
        let kept = |woken_ns| {
            CallCpus::of(&[
                record(Kind::WriteReturn, 1_000, 1),
                record(Kind::Wakeup, woken_ns, 2),
                record(Kind::Run, 14_900, 2),
                // It may have the bytes at once.
                record(Kind::ReceiveDequeue, 14_900, 2),
                record(Kind::ReadReturn, 15_500, 2),
                record(Kind::ReadReturn, 60_000, 1),
            ])
            .kept_ns(1, 1_000, 60_000)
        };
        assert_eq!(kept(900), Some(12_000));
        // The CPU may have been free before.
        assert_eq!(kept(13_000), None);
    }

    #[test]
    fn records_of_no_call_do_not_count() {
        let wakeup = Record { kind: Kind::Wakeup, at_ns: 12, thread: 2, ..Record::default() };
        let call = |at_ns| Record { kind: Kind::ReadReturn, at_ns, thread: 1, ..Record::default() };
        let cpus = CallCpus::of(&[call(10), wakeup, call(20)]);
        assert_eq!(cpus.last_other_ns(1, 10, 20), None);
    }
}
