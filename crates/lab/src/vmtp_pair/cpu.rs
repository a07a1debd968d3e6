//! A CPU with two levels: interrupts in the order in which they arrived, and below them one process.
//!
//! An interrupt pushes the process's work back by exactly its time. The kernel takes the CPU from no
//! process that works in it: the next process is chosen when a piece of work is over. `W` is a piece
//! of work; times are nanoseconds.

use std::collections::VecDeque;

#[derive(Debug)]
pub(super) struct Cpu<W> {
    /// Interrupts with the time that each takes; the first one runs.
    interrupts: VecDeque<(u64, W)>,
    /// When the first interrupt ends.
    interrupt_end_ns: u64,
    /// The work of the process, and its remaining time since `process_from_ns`.
    process: Option<(u64, W)>,
    process_from_ns: u64,
    used_ns: u64,
}

impl<W> Default for Cpu<W> {
    fn default() -> Self {
        Self {
            interrupts: VecDeque::new(),
            interrupt_end_ns: 0,
            process: None,
            process_from_ns: 0,
            used_ns: 0,
        }
    }
}

impl<W> Cpu<W> {
    /// An interrupt that takes `len_ns`, after those that arrived before it.
    pub fn interrupt(&mut self, now_ns: u64, len_ns: u64, work: W) {
        self.used_ns += len_ns;
        self.interrupts.push_back((len_ns, work));
        if self.interrupts.len() == 1 {
            self.interrupt_end_ns = now_ns + len_ns;
            if let Some((left_ns, _)) = &mut self.process {
                *left_ns -= now_ns - self.process_from_ns;
            }
        }
    }

    /// The process works for `len_ns`; it does nothing else now.
    pub fn work(&mut self, now_ns: u64, len_ns: u64, work: W) {
        debug_assert!(self.process.is_none(), "a process does one thing at a time");
        self.used_ns += len_ns;
        self.process = Some((len_ns, work));
        self.process_from_ns = now_ns;
    }

    /// Whether the process works.
    pub fn has_process(&self) -> bool {
        self.process.is_some()
    }

    /// When a piece of work ends next; `u64::MAX` without one.
    pub fn next_ns(&self) -> u64 {
        match &self.process {
            _ if !self.interrupts.is_empty() => self.interrupt_end_ns,
            Some((left_ns, _)) => self.process_from_ns + left_ns,
            None => u64::MAX,
        }
    }

    /// Takes the work that ends at `now_ns`.
    pub fn finish(&mut self, now_ns: u64) -> Option<W> {
        let Some((_, work)) = self.interrupts.pop_front() else {
            return self.process.take().map(|(_, work)| work);
        };
        match self.interrupts.front() {
            Some((len_ns, _)) => self.interrupt_end_ns = now_ns + len_ns,
            None => self.process_from_ns = now_ns,
        }
        Some(work)
    }

    /// Time of all work that was given, that under way included.
    pub fn used_ns(&self) -> u64 {
        self.used_ns
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Work given at times, by `i` at the level of interrupts; the ends with their times.
    fn run(given: &[(u64, char, u64)]) -> Vec<(u64, char)> {
        let mut cpu = Cpu::default();
        let (mut ended, mut given) = (Vec::new(), given.iter().peekable());
        loop {
            let given_ns = given.peek().map_or(u64::MAX, |work| work.0);
            let next_ns = cpu.next_ns();
            if next_ns.min(given_ns) == u64::MAX {
                assert_eq!(cpu.used_ns() > 0, !ended.is_empty());
                return ended;
            }
            if given_ns < next_ns {
                let (now_ns, name, len_ns) = *given.next().unwrap();
                match name {
                    'i'..='k' => cpu.interrupt(now_ns, len_ns, name),
                    _ => cpu.work(now_ns, len_ns, name),
                }
            } else if let Some(name) = cpu.finish(next_ns) {
                ended.push((next_ns, name));
            }
        }
    }

    #[test]
    fn an_interrupt_pushes_the_process_back_by_exactly_its_time() {
        assert_eq!(run(&[(0, 'p', 100), (30, 'i', 5)]), [(35, 'i'), (105, 'p')]);
    }

    #[test]
    fn interrupts_come_one_after_the_other() {
        let ended = run(&[(0, 'p', 100), (30, 'i', 20), (40, 'j', 5), (80, 'k', 1)]);
        assert_eq!(ended, [(50, 'i'), (55, 'j'), (81, 'k'), (126, 'p')]);
    }

    #[test]
    fn a_process_that_begins_under_an_interrupt_waits_for_it() {
        assert_eq!(run(&[(0, 'i', 10), (4, 'p', 3)]), [(10, 'i'), (13, 'p')]);
    }

    proptest! {
        /// A process's work of 1,000 ns from 0 ends after all interrupts that arrived before its end,
        /// and interrupts end in their order.
        #[test]
        fn nothing_is_lost_or_worked_on_twice(
            interrupts in proptest::collection::vec((1_u64..2000, 1_u64..200), 0..20),
        ) {
            let mut interrupts = interrupts;
            interrupts.sort_unstable();
            let mut given = vec![(0, 'p', 1000)];
            given.extend(interrupts.iter().map(|&(at_ns, len_ns)| (at_ns, 'i', len_ns)));
            let ended = run(&given);
            prop_assert_eq!(ended.len(), given.len());
            prop_assert!(ended.is_sorted_by_key(|end| end.0));
            let (process_ns, _) = *ended.iter().find(|end| end.1 == 'p').unwrap();
            let before = interrupts.iter().filter(|interrupt| interrupt.0 < process_ns);
            prop_assert_eq!(process_ns, 1000 + before.map(|interrupt| interrupt.1).sum::<u64>());
        }
    }
}
