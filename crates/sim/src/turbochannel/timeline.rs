//! A processor, its write buffer and its bus over time.
//!
//! Both clocks tick from time 0. An instruction takes whole cycles of the processor; an access begins
//! at a tick of the bus, after all accesses before it. A write waits in the write buffer while the
//! processor goes on; a read holds the processor, and stands behind the writes before it.

use std::collections::VecDeque;

use super::TurbochannelMachine;

/// One machine at work, from time 0 on.
///
/// An access is begun and then ended, so that a device on the bus can be asked in between what it
/// makes the access wait: [`Timeline::begin_write`] or [`Timeline::begin_read`], then
/// [`Timeline::end_write`] or [`Timeline::end_read`].
#[derive(Debug, Clone)]
pub struct Timeline {
    bus_cycle_ps: u64,
    cpu_cycle_ps: u64,
    buffer_words: usize,
    /// When the processor does its next instruction; a tick of its clock.
    cpu_ps: u64,
    /// When all accesses so far are over; a tick of the bus.
    bus_ps: u64,
    /// When the writes leave that are still in the buffer, oldest first.
    leaving_ps: VecDeque<u64>,
}

/// An access that has the bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Begun {
    /// Since when, in picoseconds.
    pub at_ps: u64,
}

impl Timeline {
    /// A machine that has done nothing yet.
    #[must_use]
    pub fn new(machine: &TurbochannelMachine) -> Self {
        Self {
            bus_cycle_ps: machine.bus.cycle_ps.max(1),
            cpu_cycle_ps: machine.cpu.cycle_ps.max(1),
            buffer_words: machine.write_buffer.words.max(1),
            cpu_ps: 0,
            bus_ps: 0,
            leaving_ps: VecDeque::new(),
        }
    }

    /// The processor's time, in picoseconds.
    #[must_use]
    pub fn cpu_ps(&self) -> u64 {
        self.cpu_ps
    }

    /// When processor and bus are both done, in picoseconds. It never falls.
    #[must_use]
    pub fn done_ps(&self) -> u64 {
        self.cpu_ps.max(self.bus_ps)
    }

    /// The processor works, without the bus.
    pub fn work(&mut self, cpu_cycles: u64) {
        self.cpu_ps = self.cpu_ps.saturating_add(cpu_cycles.saturating_mul(self.cpu_cycle_ps));
    }

    /// The processor has nothing to do until `at_ps`, if that is not over.
    pub fn wait_until(&mut self, at_ps: u64) {
        self.cpu_ps = self.cpu_ps.max(at_ps.next_multiple_of(self.cpu_cycle_ps));
    }

    /// A store, of one instruction: as soon as the buffer has room, the write stands in it.
    pub fn begin_write(&mut self) -> Begun {
        self.work(1);
        self.forget_past();
        if self.leaving_ps.len() >= self.buffer_words
            && let Some(room_ps) = self.leaving_ps.pop_front()
        {
            self.wait_until(room_ps);
        }
        self.begin()
    }

    /// Ends a write that had the bus for so many cycles; the processor did not wait for it.
    pub fn end_write(&mut self, begun: Begun, bus_cycles: u64) {
        self.occupy(begun, bus_cycles);
        self.leaving_ps.push_back(self.bus_ps);
    }

    /// A load that must go over the bus, of one instruction.
    pub fn begin_read(&mut self) -> Begun {
        self.work(1);
        self.begin()
    }

    /// Ends a read that had the bus for so many cycles; the processor waited for it.
    pub fn end_read(&mut self, begun: Begun, bus_cycles: u64) {
        self.occupy(begun, bus_cycles);
        self.wait_until(self.bus_ps);
    }

    /// The processor waits until the buffer is empty, then needs so many cycles to go on.
    pub fn flush(&mut self, cpu_cycles: u64) {
        self.wait_until(self.bus_ps);
        self.work(cpu_cycles);
    }

    fn begin(&self) -> Begun {
        Begun { at_ps: self.done_ps().next_multiple_of(self.bus_cycle_ps) }
    }

    fn occupy(&mut self, begun: Begun, bus_cycles: u64) {
        let taken_ps = bus_cycles.saturating_mul(self.bus_cycle_ps);
        self.bus_ps = begun.at_ps.saturating_add(taken_ps);
    }

    fn forget_past(&mut self) {
        while self.leaving_ps.front().is_some_and(|&at_ps| at_ps <= self.cpu_ps) {
            self.leaving_ps.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Bus of 40 ns, processor of `cpu_ps`, a buffer of two words.
    fn timeline(cpu_ps: u64) -> Timeline {
        let mut machine = TurbochannelMachine::by_name("decstation-5000-200").unwrap();
        machine.cpu.cycle_ps = cpu_ps;
        machine.write_buffer.words = 2;
        Timeline::new(&machine)
    }

    /// Begin of each access and the processor's time after it, in nanoseconds. `w5` writes for five
    /// bus cycles, `r5` reads, `f3` flushes, a number works.
    fn trace(cpu_ps: u64, steps: &str) -> String {
        let mut timeline = timeline(cpu_ps);
        let mut seen = Vec::new();
        for step in steps.split(' ') {
            let cycles = step.trim_start_matches(char::is_alphabetic).parse().unwrap();
            let mut begun = None;
            match step.as_bytes()[0] {
                b'w' => {
                    begun = Some(timeline.begin_write());
                    timeline.end_write(begun.unwrap(), cycles);
                }
                b'r' => {
                    begun = Some(timeline.begin_read());
                    timeline.end_read(begun.unwrap(), cycles);
                }
                b'f' => timeline.flush(cycles),
                _ => timeline.work(cycles),
            }
            let at = begun.map(|begun| format!("@{}", begun.at_ps / 1000)).unwrap_or_default();
            seen.push(format!("{step}{at} {}", timeline.cpu_ps() / 1000));
        }
        seen.join(" | ")
    }

    #[test]
    fn writes_queue_behind_each_other_while_the_processor_goes_on() {
        assert_eq!(trace(40_000, "w5 w5 3 f2"), "w5@40 40 | w5@240 80 | 3 200 | f2 520");
    }

    #[test]
    fn a_full_buffer_holds_the_processor_until_a_write_has_left() {
        assert_eq!(trace(40_000, "w5 w5 w5 w5"), "w5@40 40 | w5@240 80 | w5@440 240 | w5@640 440");
    }

    #[test]
    fn a_read_stands_behind_the_writes_and_holds_the_processor() {
        assert_eq!(trace(40_000, "w5 r10 1"), "w5@40 40 | r10@240 640 | 1 680");
    }

    #[test]
    fn accesses_begin_at_ticks_of_the_bus_and_instructions_at_ticks_of_the_processor() {
        assert_eq!(trace(30_000, "r5 r5 r5"), "r5@40 240 | r5@280 480 | r5@520 720");
        assert_eq!(trace(30_000, "w5 f0 w1"), "w5@40 30 | f0 240 | w1@280 270");
    }

    proptest! {
        #[test]
        fn time_never_falls_and_the_bus_has_one_access_at_a_time(
            steps in prop::collection::vec((0u8..4, 0u64..20), 1..100),
            cpu_ps in 10_000u64..60_000,
        ) {
            let mut timeline = timeline(cpu_ps);
            let mut free_ps = 0;
            for (kind, cycles) in steps {
                let (cpu, done) = (timeline.cpu_ps(), timeline.done_ps());
                match kind {
                    0 => {
                        let begun = timeline.begin_write();
                        prop_assert!(begun.at_ps >= free_ps && begun.at_ps.is_multiple_of(40_000));
                        timeline.end_write(begun, cycles);
                        free_ps = begun.at_ps + cycles * 40_000;
                    }
                    1 => {
                        let begun = timeline.begin_read();
                        prop_assert!(begun.at_ps >= free_ps && begun.at_ps.is_multiple_of(40_000));
                        timeline.end_read(begun, cycles);
                        free_ps = begun.at_ps + cycles * 40_000;
                        prop_assert!(timeline.cpu_ps() >= free_ps);
                    }
                    2 => {
                        timeline.flush(cycles);
                        prop_assert!(timeline.cpu_ps() >= free_ps);
                    }
                    _ => timeline.work(cycles),
                }
                prop_assert!(timeline.cpu_ps() >= cpu && timeline.done_ps() >= done);
                prop_assert_eq!(timeline.cpu_ps() % cpu_ps, 0);
            }
        }
    }
}
